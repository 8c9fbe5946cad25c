//! Acquirers: what takes the payer's money, behind one type, built for each charge from its account's configuration. The `artefacts` crate encodes what the payer pays with.

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
use domain::ids::{AccountId, Mode, Scope};
use domain::refund::{Refund, RefundEnd};
use domain::time::Timestamp;

use self::configuration::{AccountAcquirer, AccountAcquirers, AcquirerKind, AcquirerSettings};
use crate::config::PublicUrls;
use crate::store::{Store, StoreError};

/// Why an acquirer did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum AcquirerError {
    /// The account has no acquirer for live charges.
    #[error("Live payments are not available yet for this account. Use an ak_test_ key.")]
    NotConfigured,
    /// The configuration was not read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The acquirer did not answer.
    #[error("the acquirer did not answer: {0}")]
    Unavailable(String),
    /// The checks of the request let through what no artefact can carry: a defect of ours.
    #[error("an artefact can't be made: {0}")]
    Unfit(String),
}

/// What takes the money of a charge: the sandbox, or a bank with an account's configuration.
#[derive(Clone, Debug)]
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
    /// Nothing new, and a notice will come. `scheduler` asks now and then all the same.
    Waiting,
    /// It is over.
    Ended(RefundEnd),
}

/// The acquirers of all accounts, as operators configured them.
#[derive(Clone, Debug)]
pub struct Acquirers {
    configured: AccountAcquirers,
}

impl Acquirers {
    /// Those that a store has configurations of.
    pub fn new(store: Store) -> Self {
        Self { configured: AccountAcquirers::new(store) }
    }

    /// The acquirer of a scope's new charges.
    ///
    /// # Errors
    ///
    /// [`AcquirerError::NotConfigured`] for live keys, so far: no bank is called yet, whatever is configured.
    pub async fn of_new_charges(&self, scope: &Scope) -> Result<Acquirer, AcquirerError> {
        let name = match scope.mode {
            Mode::Test => AcquirerName::Sandbox,
            Mode::Live => AcquirerName::Pix,
        };
        self.named(name, &scope.account).await
    }

    /// The acquirer that a charge or refund names, as its account configured it.
    ///
    /// # Errors
    ///
    /// [`AcquirerError::NotConfigured`] where the account has no such acquirer.
    pub async fn named(&self, name: AcquirerName, account: &AccountId) -> Result<Acquirer, AcquirerError> {
        match name {
            AcquirerName::Sandbox => Ok(Acquirer::Sandbox),
            AcquirerName::Pix => match self.configured.find(account).await? {
                Some(AccountAcquirer {
                    settings: AcquirerSettings { kind: AcquirerKind::Pix, .. }, ..
                })
                | None => Err(AcquirerError::NotConfigured),
            },
        }
    }
}

#[expect(clippy::unused_async, reason = "acquirers answer over a network; the sandbox alone does not")]
impl Acquirer {
    /// Its name in rows.
    pub fn name(&self) -> AcquirerName {
        match self {
            Self::Sandbox => AcquirerName::Sandbox,
        }
    }

    /// Which refunds it makes.
    pub fn refund_capabilities(&self) -> RefundCapabilities {
        match self {
            Self::Sandbox => sandbox::REFUND_CAPABILITIES,
        }
    }

    /// What it says of a refund that is in progress.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub async fn refund_progress(
        &self,
        refund: &Refund,
        now: Timestamp,
    ) -> Result<RefundProgress, AcquirerError> {
        match self {
            Self::Sandbox => Ok(sandbox::refund_progress(refund, now)),
        }
    }

    /// What it says of a charge now; `None`: it has no such charge.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub async fn status_of(&self, charge: &Charge) -> Result<Option<ProviderStatus>, AcquirerError> {
        match self {
            Self::Sandbox => Ok(sandbox::status_of(charge)),
        }
    }

    /// Whether what the payer is given takes it a while: `acquirer-worker` finalises such a charge.
    pub fn finalises_later(&self, charge: &Charge) -> bool {
        match self {
            Self::Sandbox => {
                sandbox::Finalisation::of(charge).is_some_and(|finalisation| finalisation.comes_later(charge))
            }
        }
    }

    /// Makes what the payer of a new charge, or of one that waits for it, is given.
    ///
    /// # Errors
    ///
    /// When it does not answer, or an artefact can't be made.
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
