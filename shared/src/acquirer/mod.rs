//! Acquirers: the institutions that take the payer's money. [`Acquirer`] is their common interface.
//! [`Acquirers`] selects the acquirer: for a new charge by its mode, and for a stored charge or refund by the
//! name in its row. The crate `artefacts` encodes what the payer pays with, such as a BR Code or a boleto.

pub mod configuration;
mod queue;
mod sandbox;
mod view;

pub use queue::{AcquirerMessage, AcquirerQueue};
use serde_json::{Map, Value};
pub use view::ProviderStatusView;

use domain::account::AccountSettings;
use domain::acquirer::{AcquirerName, RefundCapabilities};
use domain::charge::Charge;
use domain::charge::transition::Finalised;
use domain::ids::{Mode, Scope};
use domain::refund::{Refund, RefundOutcome};
use domain::time::Timestamp;

use crate::config::PublicUrls;

/// Why a request to an acquirer failed.
#[derive(Debug, thiserror::Error)]
pub enum AcquirerError {
    /// The service can't make live charges for the account. The merchant sees this text.
    #[error("Live payments are not available yet for this account. Use an ak_test_ key.")]
    NotConfigured,
    /// The acquirer did not answer.
    #[error("the acquirer did not answer: {0}")]
    Unavailable(String),
    /// An artefact can't represent the charge. The validation should have refused the request, so this is a
    /// defect of the service.
    #[error("an artefact can't represent the charge: {0}")]
    InvalidArtefact(String),
}

/// The acquirer of a charge. Only the sandbox exists so far.
#[derive(Clone, Debug)]
pub enum Acquirer {
    /// The simulated acquirer of all test keys. It uses no network.
    Sandbox,
}

/// The status of a charge as its acquirer reports it. It contains no document of the payer.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderStatus {
    /// The acquirer's name.
    pub provider: &'static str,
    /// The acquirer's id of the charge.
    pub transaction_id: String,
    /// The status in the acquirer's vocabulary.
    pub status: &'static str,
    /// The acquirer's whole response.
    pub raw_response: Map<String, Value>,
}

/// The progress of a refund as its acquirer reports it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RefundProgress {
    /// The refund is still in progress. The acquirer must be polled again at this time.
    PollAgainAt(Timestamp),
    /// The refund is still in progress, and the acquirer will send a notification. Because it may be lost,
    /// the scheduler also sends `acquirer-worker` a message from time to time, which polls again.
    Waiting,
    /// The refund has ended.
    Ended(RefundOutcome),
}

/// Selects the acquirer of a charge or refund.
///
/// The service can't call a bank yet, so the selection does not use the account's [`configuration`]. The
/// functions that serve merchants could not read it either. The template denies them access to its row, which
/// contains the acquirer's credentials.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acquirers;

impl Acquirers {
    /// Returns the acquirer of a scope's new charges.
    ///
    /// # Errors
    ///
    /// [`AcquirerError::NotConfigured`] for live keys, even if an operator configured an acquirer.
    pub fn for_new_charges(&self, scope: &Scope) -> Result<Acquirer, AcquirerError> {
        self.named(match scope.mode {
            Mode::Test => AcquirerName::Sandbox,
            Mode::Live => AcquirerName::Pix,
        })
    }

    /// Returns the acquirer by the name in a charge's or refund's row.
    ///
    /// # Errors
    ///
    /// [`AcquirerError::NotConfigured`] for [`AcquirerName::Pix`], a bank, which the service can't call yet.
    pub fn named(&self, name: AcquirerName) -> Result<Acquirer, AcquirerError> {
        match name {
            AcquirerName::Sandbox => Ok(Acquirer::Sandbox),
            AcquirerName::Pix => Err(AcquirerError::NotConfigured),
        }
    }
}

#[expect(clippy::unused_async, reason = "real acquirers answer over a network; only the sandbox does not")]
impl Acquirer {
    /// The acquirer's name in rows.
    pub fn name(&self) -> AcquirerName {
        match self {
            Self::Sandbox => AcquirerName::Sandbox,
        }
    }

    /// The refunds that the acquirer supports.
    pub fn refund_capabilities(&self) -> RefundCapabilities {
        match self {
            Self::Sandbox => sandbox::REFUND_CAPABILITIES,
        }
    }

    /// Requests the progress of a refund whose status is `IN_PROGRESS`.
    ///
    /// # Errors
    ///
    /// [`AcquirerError::Unavailable`] when the acquirer does not answer.
    pub async fn refund_progress(
        &self,
        refund: &Refund,
        now: Timestamp,
    ) -> Result<RefundProgress, AcquirerError> {
        match self {
            Self::Sandbox => Ok(sandbox::refund_progress(refund, now)),
        }
    }

    /// Requests the current status of a charge. `None`: the acquirer has no such charge.
    ///
    /// # Errors
    ///
    /// [`AcquirerError::Unavailable`] when the acquirer does not answer.
    pub async fn status_of(&self, charge: &Charge) -> Result<Option<ProviderStatus>, AcquirerError> {
        match self {
            Self::Sandbox => Ok(sandbox::status_of(charge)),
        }
    }

    /// Whether the acquirer takes too long to create the artefacts during the merchant's request. Such a
    /// charge is created as `PENDING`, and `acquirer-worker` finalises it.
    pub fn finalises_asynchronously(&self, charge: &Charge) -> bool {
        match self {
            Self::Sandbox => sandbox::Finalisation::of(charge)
                .is_some_and(|finalisation| finalisation.is_asynchronous(charge)),
        }
    }

    /// Finalises a new or `PENDING` charge: creates its artefacts or reports that the acquirer refused it.
    ///
    /// # Errors
    ///
    /// [`AcquirerError::Unavailable`] when the acquirer does not answer; [`AcquirerError::InvalidArtefact`]
    /// when an artefact can't represent the charge.
    pub async fn finalise(
        &self,
        charge: &Charge,
        settings: &AccountSettings,
        public_urls: &PublicUrls,
        now: Timestamp,
    ) -> Result<Finalised, AcquirerError> {
        match self {
            Self::Sandbox => sandbox::finalise(charge, settings, public_urls, now),
        }
    }
}
