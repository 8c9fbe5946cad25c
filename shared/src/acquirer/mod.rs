//! Acquirers: the institutions that take the payer's money. [`Acquirer`] is their common interface.
//! [`Acquirers`] selects the acquirer: for a new charge by its mode, and for a stored charge or refund by the
//! name in its row. The crate `artefacts` encodes what the payer pays with, such as a BR Code or a boleto.
//! The crate `api-pix` has the requests to banks.

mod banks;
pub mod configuration;
pub mod pix;
mod pix_pages;
mod queue;
mod sandbox;
mod view;

use std::time::Duration;

use api_pix::Devolucao;
pub use api_pix::{PixQuery, Priority};
pub use banks::Banks;
pub use pix::{PixBank, Removal};
pub use pix_pages::PixPages;
pub use queue::{AcquirerMessage, AcquirerQueue};
use serde_json::{Map, Value};
pub use view::{NoticeView, NotificationView, ProviderStatusView};

use domain::account::AccountSettings;
use domain::acquirer::{AcquirerName, RefundCapabilities};
use domain::charge::Charge;
use domain::charge::transition::Finalised;
use domain::ids::{AccountId, ConnectionId, Mode, Scope};
use domain::payment_method::PaymentMethod;
use domain::refund::{Refund, RefundOutcome};
use domain::time::Timestamp;

use crate::config::PublicUrls;
use crate::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum AcquirerError {
    /// No acquirer is configured for the account's live charges. The merchant sees this text.
    #[error("No provider is configured for live payments of this account. Use an ak_test_ key.")]
    NotConfigured,
    /// The account's acquirer for live charges does not support a requested payment method. The merchant sees
    /// this text.
    #[error("No provider is configured for a requested payment method. Live payments support PIX only.")]
    MethodNotConfigured,
    /// The acquirer can't issue a requested payment method. The merchant sees this text.
    #[error("`paymentMethods`: {} can't be issued: {reason}. Remove it.", method.as_str())]
    MethodUnavailable { method: PaymentMethod, reason: String },
    #[error("the acquirer did not answer: {0}")]
    Unavailable(String),
    /// Another caller works on the charge at its acquirer.
    #[error("another request is creating this charge at the bank")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An artefact can't represent the charge. The validation should have refused the request, so this is a
    /// defect of the service.
    #[error("an artefact can't represent the charge: {0}")]
    InvalidArtefact(String),
}

/// How long the service tries to create a charge at an acquirer that does not answer, in milliseconds: 10
/// minutes. Then the charge is refused, so that it does not stay pending forever.
pub const FINALISE_TIMEOUT_MS: i64 = 600_000;

/// Returns the refusal of a charge that its acquirer did not finalise in time. By then the payer has probably
/// left; the merchant sees the failure and can create a new charge.
pub fn not_finalised_in_time() -> Finalised {
    let reason = "The acquirer did not answer in time.".to_owned();
    Finalised::Refused { reason, code: "acquirer_unavailable".to_owned() }
}

/// Waits for the answer of an acquirer, but no longer than `limit`.
///
/// # Errors
///
/// [`AcquirerError::Unavailable`] when the time is over. The request may have been executed.
pub async fn within<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, AcquirerError>>,
) -> Result<T, AcquirerError> {
    match tokio::time::timeout(limit, request).await {
        Ok(answered) => answered,
        Err(_elapsed) => Err(AcquirerError::Unavailable("the acquirer did not answer in time".to_owned())),
    }
}

#[derive(Clone, Debug)]
pub enum Acquirer {
    /// The simulated acquirer of all test keys. It uses no network.
    Sandbox,
    /// A bank that serves API Pix, with the account's credentials.
    Pix(Box<PixBank>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProviderStatus {
    pub provider: &'static str,
    pub transaction_id: String,
    pub status: String,
    /// The acquirer's response, without fields that may contain a document or a name.
    pub raw_response: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RefundProgress {
    /// The refund is still in progress. The acquirer must be polled again at this time.
    PollAgainAt(Timestamp),
    /// The refund is still in progress, and the acquirer will send a notification. Because it may be lost,
    /// the scheduler also sends `acquirer-worker` a message from time to time, which polls again.
    Waiting,
    /// The bank refuses the request as invalid, and a read shows that it does not know the refund. If it still
    /// does so at this time, the refund fails.
    RefusedUntil(Timestamp),
    Ended(RefundOutcome),
}

/// What a bank said about the end of a refund.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BankEnd {
    pub id: Option<String>,
    /// Why the refund failed, without documents.
    pub reason: Option<String>,
}

impl BankEnd {
    pub fn of(item: &Devolucao) -> Self {
        Self { id: item.rtr_id.as_ref().map(ToString::to_string), reason: item.reason.clone() }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RefundAnswer {
    pub progress: RefundProgress,
    /// The acquirer's id of the refund, and its reason if the refund failed or is refused.
    pub said: BankEnd,
}

#[derive(Clone, Debug)]
pub struct Acquirers {
    /// `None` in a function that calls no bank: it can't read the banks' credentials.
    banks: Option<Banks>,
}

impl Acquirers {
    pub fn without_banks() -> Self {
        Self { banks: None }
    }

    pub fn with_banks(banks: Banks) -> Self {
        Self { banks: Some(banks) }
    }

    /// Returns the acquirer of a scope's new charges, and whether an operator stopped new live charges.
    pub async fn for_new_charges(&self, scope: &Scope) -> Result<(Acquirer, bool), AcquirerError> {
        match scope.mode {
            Mode::Test => Ok((Acquirer::Sandbox, false)),
            Mode::Live => {
                let banks = self.banks.as_ref().ok_or(AcquirerError::NotConfigured)?;
                let (bank, is_stopped) = banks.of_new_charges(scope.account).await?;
                Ok((Acquirer::Pix(Box::new(bank)), is_stopped))
            }
        }
    }

    /// Returns the acquirer by the name in a charge's or refund's row.
    pub async fn named(
        &self,
        name: AcquirerName,
        account: AccountId,
        connection: Option<ConnectionId>,
    ) -> Result<Acquirer, AcquirerError> {
        match name {
            AcquirerName::Sandbox => Ok(Acquirer::Sandbox),
            AcquirerName::Pix => Ok(Acquirer::Pix(Box::new(self.banks()?.at(account, connection).await?))),
        }
    }

    pub async fn of_charge(&self, charge: &Charge) -> Result<Acquirer, AcquirerError> {
        self.named(charge.acquirer, charge.scope.account, charge.connection).await
    }

    pub fn banks(&self) -> Result<&Banks, AcquirerError> {
        let missing = || AcquirerError::Unavailable("this function has no access to banks".to_owned());
        self.banks.as_ref().ok_or_else(missing)
    }
}

impl Acquirer {
    pub fn name(&self) -> AcquirerName {
        match self {
            Self::Sandbox => AcquirerName::Sandbox,
            Self::Pix(_) => AcquirerName::Pix,
        }
    }

    pub fn refund_capabilities(&self) -> RefundCapabilities {
        match self {
            Self::Sandbox => sandbox::REFUND_CAPABILITIES,
            Self::Pix(bank) => bank.refund_capabilities(),
        }
    }

    /// Requests a refund from a bank if the bank does not know it yet, and returns its progress. `paid_at`:
    /// when the payment was received. The sandbox needs no request.
    pub async fn refund_progress(
        &self,
        refund: &Refund,
        paid_at: Timestamp,
        now: Timestamp,
    ) -> Result<RefundAnswer, AcquirerError> {
        match self {
            Self::Sandbox => {
                Ok(RefundAnswer { progress: sandbox::refund_progress(refund, now), said: BankEnd::default() })
            }
            Self::Pix(bank) => bank.refund_progress(refund, paid_at, now).await,
        }
    }

    pub async fn status_of(&self, charge: &Charge) -> Result<Option<ProviderStatus>, AcquirerError> {
        match self {
            Self::Sandbox => Ok(sandbox::status_of(charge)),
            Self::Pix(bank) => bank.status_of(charge).await,
        }
    }

    /// Whether the sandbox simulates an acquirer that takes too long to create the artefacts during the
    /// merchant's request. Such a charge is created as `PENDING`, and `acquirer-worker` finalises it. A bank
    /// is always called during the request.
    pub fn finalises_asynchronously(&self, charge: &Charge) -> bool {
        match self {
            Self::Sandbox => sandbox::Finalisation::of(charge)
                .is_some_and(|finalisation| finalisation.is_asynchronous(charge)),
            Self::Pix(_) => false,
        }
    }

    /// Finalises a new or `PENDING` charge: creates its artefacts or reports that the acquirer refused it.
    /// `is_first`: no earlier attempt can have reached the acquirer.
    pub async fn finalise(
        &self,
        charge: &Charge,
        settings: &AccountSettings,
        public_urls: &PublicUrls,
        is_first: bool,
        now: Timestamp,
    ) -> Result<Finalised, AcquirerError> {
        match self {
            Self::Sandbox => sandbox::finalise(charge, settings, public_urls, now),
            Self::Pix(bank) => bank.create(charge, settings, is_first).await,
        }
    }
}
