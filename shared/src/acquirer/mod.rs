//! Acquirers: who takes the payer's money, behind one type; the code that a payer pays, and its picture.

pub mod boleto;
pub mod brcode;
pub mod crypto;
pub mod digits;
pub mod interleaved;
pub mod multibanco;
pub mod pdf;
pub mod qr;
mod sandbox;

use serde_json::{Map, Value};

use crate::account::AccountSettings;
use crate::charge::request::NewCharge;
use crate::charge::{Artefacts, Charge, PaymentMethod};
use crate::config::Links;
use crate::http::Problem;
use crate::ids::{ChargeId, Mode, Scope};
use crate::refund::{Refund, RefundEnd};
use crate::time::Timestamp;

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
    /// Whether it refunds payments by a method.
    pub fn refunds(self, method: PaymentMethod) -> bool {
        match self {
            Self::Sandbox => sandbox::refunds(method),
        }
    }

    /// Whether it sends a Pix of its own: a refund by cash-out.
    pub fn sends_pix(self) -> bool {
        match self {
            Self::Sandbox => true,
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
    /// 422 `unprocessable_entity` where none is configured: live keys, so far.
    pub fn of(scope: &Scope) -> Result<Self, Problem> {
        match scope.mode {
            Mode::Test => Ok(Self::Sandbox),
            Mode::Live => Err(Problem::Unprocessable(
                "No acquirer is configured in live mode. Use an ak_test_ key.".to_owned(),
            )),
        }
    }

    /// What the payer is given, for each method that is asked for.
    pub fn artefacts(
        self,
        id: ChargeId,
        request: &NewCharge,
        settings: &AccountSettings,
        links: &Links,
        now: Timestamp,
    ) -> Result<Artefacts, Problem> {
        match self {
            Self::Sandbox => sandbox::artefacts(id, request, settings, links, now),
        }
    }
}
