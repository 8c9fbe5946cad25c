//! Inputs of the posting rules for charges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::account::terms::{Fees, FeesOnRefund, MethodTerms};
use crate::acquirer::{AcquirerName, Charged};
use crate::calendar::Day;
use crate::money::{Amount, MinorUnits, MoneyError};
use crate::shard::Shard;
use crate::time::Timestamp;

/// The settlement of a payment: when it was credited, and on which terms.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Settlement {
    /// When the payment settled.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
    /// Fees that were deducted from the amount.
    pub fees: Fees,
    /// The day on which the net is released. `None`: it was available at once.
    #[serde(default, with = "domain::calendar::number_option", skip_serializing_if = "Option::is_none")]
    pub release_on: Option<Day>,
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub fees_on_refund: FeesOnRefund,
}

impl Settlement {
    /// Settles an amount on these terms at this time. What the acquirer `charged` replaces the plan's fee, and
    /// the net is not released before the acquirer pays it.
    pub fn new(terms: &MethodTerms, amount: Amount, charged: Option<&Charged>, at: Timestamp) -> Self {
        let paid_on = charged.map(|charged| charged.available_at).filter(|paid_at| *paid_at > at);
        Self {
            at,
            fees: terms.fees(amount, charged.map(|charged| charged.fee)),
            release_on: terms.release(at).max(paid_on.map(Day::first_from)),
            fees_on_refund: terms.fees_on_refund,
        }
    }

    /// The amount minus fees. Fees computed by [`MethodTerms::fees`] never make it negative.
    pub fn net(&self, amount: Amount) -> MinorUnits {
        self.fees.net_of(amount)
    }
}

/// How a Pix refund is sent.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[schemars(rename = "RefundStrategy", description = "How a refund of a Pix is sent.")]
pub enum RefundStrategy {
    /// A return of the original payment, addressed by its end-to-end id.
    Devolution,
    /// A separate Pix to the payer or to another key.
    Cashout,
}

/// The sums that a refund takes from each source. They are stored, because a failure must reverse exactly
/// these.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RefundShare {
    /// Amount that the payer receives.
    pub gross: Amount,
    pub strategy: RefundStrategy,
    pub fees: Fees,
    /// Sum debited from the charge's net amount while it is pending.
    pub from_pending: MinorUnits,
    /// Sum debited from the merchant's available balance.
    pub from_available: MinorUnits,
    pub pix_out_fee: MinorUnits,
    /// Whether the merchant bears that cost (`passFeeToTenant`); otherwise the platform does.
    pub merchant_bears_pix_out: bool,
}

impl RefundShare {
    /// Returns the surplus of the returned fees over the gross; zero if there is none. It is credited to the
    /// merchant after the refund has reached the payer.
    pub(crate) fn fee_surplus(&self) -> MinorUnits {
        self.fees.above(self.gross)
    }

    /// Returns the part of the returned fees that pays for the gross.
    pub(crate) fn fees_for_gross(&self) -> MinorUnits {
        self.fees.total().min(self.gross.into())
    }

    /// Returns the merchant's cost of the Pix out; zero when the platform bears it.
    pub(crate) fn borne_pix_out_fee(&self) -> MinorUnits {
        if self.merchant_bears_pix_out { self.pix_out_fee } else { MinorUnits::ZERO }
    }
}

/// A part of a tranche: other pending money that a refund takes, because the available balance is too low.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct TrancheShare {
    pub shard: Shard,
    /// The day of its release.
    pub day: Day,
    /// The sum in minor units.
    pub minor: MinorUnits,
}

impl TrancheShare {
    pub fn sum(shares: &[Self]) -> Result<MinorUnits, MoneyError> {
        MinorUnits::checked_sum(shares.iter().map(|share| share.minor))
    }
}

/// The sums that MED cases take from the money of a failed refund.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CaseClawback {
    /// Retained for open cases.
    pub held: MinorUnits,
    /// Taken for cases that were lost.
    pub lost: MinorUnits,
}

/// Status of a return.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(description = "The status of a return.")]
pub enum ReturnStatus {
    /// The service must request the return from the acquirer.
    Requested,
    /// The money is back with the payer.
    Returned,
    /// The acquirer did not execute the return, and the service stopped trying. An operator must act.
    Stopped,
}

impl ReturnStatus {
    /// Returns the first status of a return at this acquirer.
    pub(crate) fn initial_at(acquirer: AcquirerName) -> Self {
        if acquirer.is_remote() { Self::Requested } else { Self::Returned }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_settlement_stores_that_a_refund_keeps_the_fees_and_omits_that_it_returns_them() {
        for (fees_on_refund, stored) in
            [(FeesOnRefund::Keep, json!("keep")), (FeesOnRefund::Return, json!(null))]
        {
            let terms = MethodTerms { fees_on_refund, ..MethodTerms::default() };
            let settlement = Settlement::new(&terms, Amount::MAX, None, Timestamp::MIN);
            let row = serde_json::to_value(settlement).unwrap();
            assert_eq!(row["fees_on_refund"], stored);
            assert_eq!(serde_json::from_value::<Settlement>(row).unwrap(), settlement);
        }
    }
}
