//! Acquirers: the institutions that take the payer's money. [`Acquirer`] is either the sandbox or a [`Connection`] to a
//! real one. [`Connections`] selects it: for a new charge by its mode and methods, and for a stored charge or refund by
//! the connection in its row. The crate `artefacts` encodes what the payer pays with, such as a BR Code or a boleto.
//! The crates in `acquirers/` have the connectors.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::needless_pass_by_value,
        clippy::too_many_lines,
        reason = "a test that fails may panic"
    )
)]

pub mod configuration;
mod connections;
mod errors;
mod joined;
mod queue;
mod sandbox;
mod view;

use std::time::Duration;

pub use acquirer_kit::{
    Changes, Connector, DisputeEvidence, EvidenceToSend, FINALISE_TIMEOUT_MS, KitError, Movement, Movements,
    NOT_FINALISED_IN_TIME, NewCharge, Priority, ProviderStatus, RefundAnswer, RefundEnd, RefundProgress,
    RequestAgain, ReturnProgress,
};
pub use api_pix::{PixBank, PixPages, PixQuery};
pub use connections::{Connection, Connections};
pub use queue::{AcquirerMessage, AcquirerQueue};
pub use sandbox::finalise as finalise_in_sandbox;
pub use view::{NoticeView, NotificationView, ProviderStatusView};

use domain::acquirer::{AcquirerName, RefundCapabilities};
use domain::charge::Charge;
use domain::payment_method::PaymentMethod;
use domain::refund::{Refund, RefundStatus};
use domain::time::Timestamp;

use shared::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum AcquirerError {
    /// No acquirer is configured for the account's live charges. The merchant sees this text.
    #[error("No provider is configured for live payments of this account. Use an ak_test_ key.")]
    NotConfigured,
    /// No connection of the account takes all requested payment methods. The merchant sees this text.
    #[error(
        "No provider is configured for the requested payment methods. Live payments of this account support {supported}."
    )]
    MethodNotConfigured { supported: String },
    /// The acquirer can't issue a requested payment method. The merchant sees this text.
    #[error("`paymentMethods`: {} can't be issued: {reason}. Remove it.", method.as_str())]
    MethodUnavailable { method: PaymentMethod, reason: String },
    /// The acquirer does not take the charge's currency or amount. The merchant sees this text.
    #[error("{0}")]
    NotTaken(String),
    /// Another caller works on the charge at its acquirer.
    #[error("another request is creating this charge at the bank")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Kit(#[from] KitError),
}

impl AcquirerError {
    pub fn unavailable(why: &str) -> Self {
        KitError::Unavailable(why.to_owned()).into()
    }
}

/// Waits for the answer of an acquirer, but no longer than `limit`.
///
/// # Errors
///
/// [`KitError::Unavailable`] when the time is over. The request may have been executed.
pub async fn within<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, KitError>>,
) -> Result<T, KitError> {
    match tokio::time::timeout(limit, request).await {
        Ok(answered) => answered,
        Err(_elapsed) => Err(KitError::Unavailable("the acquirer did not answer in time".to_owned())),
    }
}

#[derive(Clone, Debug)]
pub enum Acquirer {
    /// The simulated acquirer of all test keys. It uses no network.
    Sandbox,
    /// An acquirer with the account's credentials.
    Remote(Box<Connection>),
}

impl Acquirer {
    pub fn name(&self) -> AcquirerName {
        match self {
            Self::Sandbox => AcquirerName::Sandbox,
            Self::Remote(connection) => connection.name(),
        }
    }

    pub fn refund_capabilities(&self) -> RefundCapabilities {
        match self {
            Self::Sandbox => RefundCapabilities::SANDBOX,
            Self::Remote(connection) => connection.connector().refund_capabilities(),
        }
    }

    /// Reads the progress of a refund. `None`: the acquirer does not know it. The sandbox knows it once it is in progress.
    pub async fn find_refund(
        &self,
        refund: &Refund,
        now: Timestamp,
    ) -> Result<Option<RefundAnswer>, AcquirerError> {
        match self {
            Self::Sandbox if refund.status == RefundStatus::Pending => Ok(None),
            Self::Sandbox => Ok(Some(sandbox::refund_answer(refund, now))),
            Self::Remote(connection) => Ok(connection.connector().find_refund(refund, now).await?),
        }
    }

    /// Requests a refund whose lease the caller has. `paid_at`: when the payment was received.
    pub async fn request_refund(
        &self,
        refund: &Refund,
        paid_at: Timestamp,
        now: Timestamp,
    ) -> Result<RefundAnswer, AcquirerError> {
        match self {
            Self::Sandbox => Ok(sandbox::refund_answer(refund, now)),
            Self::Remote(connection) => {
                Ok(connection.connector().request_refund(refund, paid_at, now).await?)
            }
        }
    }

    pub async fn status_of(&self, charge: &Charge) -> Result<Option<ProviderStatus>, AcquirerError> {
        match self {
            Self::Sandbox => Ok(sandbox::status_of(charge)),
            Self::Remote(connection) => Ok(connection.connector().status(charge).await?),
        }
    }

    /// Whether the sandbox simulates an acquirer that takes too long to create the artefacts during the
    /// merchant's request. Such a charge is created as `PENDING`, and `acquirer-worker` finalises it. A real
    /// acquirer is always called during the request.
    pub fn finalises_asynchronously(&self, charge: &Charge) -> bool {
        match self {
            Self::Sandbox => sandbox::Finalisation::of(charge)
                .is_some_and(|finalisation| finalisation.is_asynchronous(charge)),
            Self::Remote(_) => false,
        }
    }
}
