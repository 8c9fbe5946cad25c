use domain::ids::PayoutId;
use domain::money::{Amount, Currency};
use domain::payout::{Payout, PayoutStatus};
use domain::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// A transfer of the account's money to the account's bank.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Payout")]
pub struct PayoutView<'a> {
    /// The payout's id.
    id: PayoutId,
    /// Always `payout`.
    #[schemars(extend("const" = "payout"))]
    object: &'static str,
    /// The amount in the currency's smallest unit.
    amount: Amount,
    /// The currency of the amount.
    currency: Currency,
    /// The status of the payout.
    status: PayoutStatus,
    /// Why the payout failed. `null` unless it failed with a reason.
    failure_reason: Option<&'a str>,
    /// When the payout was requested.
    created_at: Timestamp,
    /// When the payout was paid. `null` until then.
    paid_at: Option<Timestamp>,
}

impl<'a> PayoutView<'a> {
    pub fn new(payout: &'a Payout) -> Self {
        Self {
            id: payout.id,
            object: "payout",
            amount: payout.amount,
            currency: payout.currency,
            status: payout.status,
            failure_reason: payout.failure_reason.as_deref(),
            created_at: payout.created_at,
            paid_at: payout.paid_at,
        }
    }
}
