//! Acquirers: who takes the payer's money, behind one type. The `artefacts` crate encodes what the payer pays with.

pub mod configuration;
mod queue;
mod sandbox;
mod view;

pub use queue::{AcquirerMessage, AcquirerQueue};
use serde_json::{Map, Value};
pub use view::ProviderStatusView;

use domain::account::AccountSettings;
use domain::charge::Charge;
use domain::charge::transition::Finalised;
use domain::ids::{Mode, Scope};
use domain::refund::{Refund, RefundCapabilities, RefundEnd};
use domain::time::Timestamp;

use crate::config::Links;

/// Why an acquirer did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum AcquirerError {
    /// The account has no acquirer for live charges.
    #[error("Live payments are not available yet for this account. Use an ak_test_ key.")]
    NotConfigured,
    /// The acquirer did not answer.
    #[error("the acquirer did not answer: {0}")]
    Unavailable(String),
    /// The checks of the request let through what no artefact can carry: a defect of ours.
    #[error("an artefact can't be made: {0}")]
    Unfit(String),
}

/// Whoever takes the money of a charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Acquirer {
    /// Behind every test key; no network.
    Sandbox,
}

/// What an acquirer says of a charge. It carries no document of the payer.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderStatus {
    /// The acquirer's name.
    pub provider: &'static str,
    /// Its own id of the charge.
    pub transaction_id: String,
    /// Its own word for the status.
    pub status: &'static str,
    /// Its whole answer.
    pub raw_response: Map<String, Value>,
}

/// What an acquirer says of a refund that it was asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RefundProgress {
    /// Nothing new; to be asked again then.
    AskAgain(Timestamp),
    /// Nothing new, and a notice will come. `clock` asks now and then all the same.
    Waiting,
    /// It is over.
    Ended(RefundEnd),
}

impl Acquirer {
    /// Which refunds it makes.
    pub fn refund_capabilities(self) -> RefundCapabilities {
        match self {
            Self::Sandbox => sandbox::REFUND_CAPABILITIES,
        }
    }

    /// What it says of a refund that is in progress.
    pub fn refund_progress(self, refund: &Refund, now: Timestamp) -> RefundProgress {
        match self {
            Self::Sandbox => sandbox::refund_progress(refund, now),
        }
    }

    /// What it says of a charge now; `None`: it never heard of it.
    pub fn status_of(self, charge: &Charge) -> Option<ProviderStatus> {
        match self {
            Self::Sandbox => sandbox::status_of(charge),
        }
    }

    /// The acquirer of a scope.
    ///
    /// # Errors
    ///
    /// [`AcquirerError::NotConfigured`] for live keys, so far: what [`configuration`] says is not acted on yet.
    pub fn of(scope: &Scope) -> Result<Self, AcquirerError> {
        match scope.mode {
            Mode::Test => Ok(Self::Sandbox),
            Mode::Live => Err(AcquirerError::NotConfigured),
        }
    }

    /// Whether what the payer is given takes it a while: `acquirer-worker` finalises such a charge.
    pub fn finalises_later(self, charge: &Charge) -> bool {
        match self {
            Self::Sandbox => {
                sandbox::Finalisation::of(charge).is_some_and(|finalisation| finalisation.comes_later(charge))
            }
        }
    }

    /// Makes what the payer of a new charge, or of one that waits for it, is given.
    pub fn finalise(
        self,
        charge: &Charge,
        settings: &AccountSettings,
        links: &Links,
        now: Timestamp,
    ) -> Result<Finalised, AcquirerError> {
        match self {
            Self::Sandbox => match sandbox::Finalisation::of(charge) {
                None | Some(sandbox::Finalisation::Later) => {
                    let artefacts = sandbox::artefacts(charge, settings, links, now)?;
                    Ok(Finalised::Made(Box::new(artefacts)))
                }
                Some(sandbox::Finalisation::Refused) => Ok(Finalised::Refused {
                    reason: "The sandbox refused the payment.".to_owned(),
                    code: "refused".to_owned(),
                }),
                Some(sandbox::Finalisation::Unavailable) => {
                    Err(AcquirerError::Unavailable("the sandbox plays an acquirer that is away".to_owned()))
                }
            },
        }
    }
}
