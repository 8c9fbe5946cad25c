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

use crate::account::AccountSettings;
use crate::config::Links;
use crate::http::Problem;
use crate::ids::{ChargeId, Mode, Scope};
use crate::money::Amount;

/// Whoever takes the money of a charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Acquirer {
    /// Behind every test key; no network.
    Sandbox,
}

impl Acquirer {
    /// The acquirer of a scope.
    ///
    /// # Errors
    ///
    /// 422 `unprocessable_entity` where none is configured: live keys, so far.
    pub fn of(scope: &Scope) -> Result<Self, Problem> {
        match scope.mode {
            Mode::Test => Ok(Self::Sandbox),
            Mode::Live => Err(Problem::Unprocessable(
                "No acquirer is configured for pix in live mode. Use an ak_test_ key.".to_owned(),
            )),
        }
    }

    /// The BR Code by which a charge is paid.
    pub fn pix_code(
        self,
        id: ChargeId,
        amount: Amount,
        settings: &AccountSettings,
        links: &Links,
    ) -> Result<String, Problem> {
        match self {
            Self::Sandbox => sandbox::pix_code(id, amount, settings, links),
        }
    }
}
