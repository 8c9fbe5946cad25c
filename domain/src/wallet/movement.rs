//! The movements of a charge's money, as far as a posting is made from them: its settlement, its refunds and their failures,
//! and the return of a payment that was not applied.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::account::terms::{Fees, FeesOnRefund, MethodTerms};
use crate::acquirer::AcquirerName;
use crate::calendar::Day;
use crate::money::{Amount, MinorUnits};
use crate::time::Timestamp;

/// A payment was credited, on the terms of that moment.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Settlement {
    /// When.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
    /// What of the amount the merchant did not get.
    pub fees: Fees,
    /// The day on which the rest can be spent; `None`: at once.
    #[serde(default, with = "domain::calendar::number_option", skip_serializing_if = "Option::is_none")]
    pub release_on: Option<Day>,
    /// What becomes of the fees when it is refunded.
    #[serde(default, skip_serializing_if = "FeesOnRefund::is_default")]
    pub fees_on_refund: FeesOnRefund,
}

impl Settlement {
    /// On these terms, at this moment.
    pub fn on(terms: &MethodTerms, amount: Amount, at: Timestamp) -> Self {
        Self {
            at,
            fees: terms.fees(amount),
            release_on: terms.release(at),
            fees_on_refund: terms.fees_on_refund,
        }
    }

    /// What the merchant gets of the amount, in minor units; never negative.
    pub fn net(&self, amount: Amount) -> MinorUnits {
        self.fees.net_of(amount)
    }
}

/// How the money of a Pix refund travels (contract: refund, `strategy`).
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RefundStrategy {
    /// The return of the original payment, by its end-to-end id.
    Devolution,
    /// A Pix of its own.
    Cashout,
}

impl RefundStrategy {
    /// The word in rows and on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What a refund takes, and from where. It is kept with the refund, for a failure gives back exactly this.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RefundShare {
    /// What goes to the payer.
    pub gross: Amount,
    /// How it travels.
    pub strategy: RefundStrategy,
    /// The fees that come back for it.
    pub fees: Fees,
    /// What the merchant gives from the charge's own tranche.
    pub from_pending: MinorUnits,
    /// What the merchant gives from what is available.
    pub from_available: MinorUnits,
    /// The cost of the Pix out.
    pub pix_out_fee: MinorUnits,
    /// Whether the merchant bears that cost (`passFeeToTenant`), on top; else the platform does.
    pub merchant_bears_pix_out: bool,
}

impl RefundShare {
    /// What of the fees is above the gross: the merchant's, once the refund reached the payer.
    pub fn credit(&self) -> MinorUnits {
        self.fees.above(self.gross)
    }

    /// What of the fees makes up for the gross.
    pub fn fees_for_gross(&self) -> MinorUnits {
        self.fees.total().min(self.gross.into())
    }

    /// What the merchant pays for the Pix out.
    pub fn borne_pix_out_fee(&self) -> MinorUnits {
        if self.merchant_bears_pix_out { self.pix_out_fee } else { MinorUnits::ZERO }
    }
}

/// What cases take of a failed refund's money as it comes back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Retaken {
    /// Retained for open cases.
    pub held: MinorUnits,
    /// Gone, for cases that were lost.
    pub lost: MinorUnits,
}

/// How far the return of the money is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReturnStatus {
    /// To be asked of the acquirer.
    Requested,
    /// Back with the payer.
    Returned,
}

impl ReturnStatus {
    /// Of a return that begins.
    pub fn of(acquirer: AcquirerName) -> Self {
        if acquirer.traits().returns_at_once { Self::Returned } else { Self::Requested }
    }
}
