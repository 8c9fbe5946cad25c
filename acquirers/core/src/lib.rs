//! Acquirers: the institutions that take the payer's money. A [`Connection`] is one of them for an account: the sandbox,
//! or a real one with its credentials. [`Connections`] selects it: for a new charge by its mode and methods, and for a
//! stored charge or refund by the connection in its row. [`Legs`] are all that a charge has. The crate `artefacts` encodes what the payer pays with, such as a BR Code or a boleto.
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
mod legs;
mod queue;
mod registry;
mod view;

use std::time::Duration;

pub use acquirer_kit::{
    Changes, Connector, DisputeEvidence, EvidenceToSend, KitError, Movement, Movements, NewCharge,
    NotVerified, Notified, Priority, ProviderStatus, RefundAnswer, RefundEnd, RefundProgress, RequestAgain,
    ReturnProgress, Signed,
};
pub use api_pix::{PixBank, PixPages, PixQuery};
pub use connections::{Connection, Connections};
pub use legs::Legs;
pub use queue::{AcquirerMessage, AcquirerQueue};
pub use view::{NoticeView, NotificationView, ProviderStatusView};

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
