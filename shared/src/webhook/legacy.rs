//! The `data` of legacy events (contract: Legacy family).

use serde::Serialize;
use serde_json::{Map, Value};

use crate::charge::{Charge, Entry, PaymentMethod, TransactionStatus};
use crate::money::Amount;
use crate::payout::{Payout, PayoutStatus};
use crate::time::Timestamp;

/// What a legacy event tells. The same for all names that one change is told under.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LegacyData<'a> {
    /// The id returned at creation, without a prefix; a withdrawal's is its payout's.
    pub transaction_id: String,
    /// Minor units.
    pub amount: Amount,
    /// Now.
    pub status: &'static str,
    /// Before.
    pub previous_status: &'static str,
    /// On `PAID` and `APPROVED`.
    #[serde(flatten)]
    pub settled: Option<SettledData>,
    /// The merchant's own id of its user, when given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customer_id: Option<&'a str>,
    /// The merchant's own map, when given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The refund that moved on, on `payment.refunded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refund: Option<RefundData<'a>>,
    /// All that was refunded so far, in minor units, beside `refund`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refunded_amount: Option<i64>,
    /// When the change happened.
    pub occurred_at: Timestamp,
}

/// How it was paid and what of it the merchant gets, in minor units.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettledData {
    /// By which method.
    pub paid_with: &'static str,
    /// The acquirer's fee.
    pub provider_fee: i64,
    /// The platform's fee.
    pub platform_fee: i64,
    /// What is left.
    pub net_amount: i64,
}

/// A refund, as `payment.refunded` names it.
#[derive(Debug, Serialize)]
pub struct RefundData<'a> {
    /// Its id.
    pub id: String,
    /// What goes back, in minor units.
    pub amount: Amount,
    /// How far it is.
    pub status: &'a str,
}

impl<'a> LegacyData<'a> {
    /// Of a charge, in the status that it came into so.
    pub fn of_charge(charge: &'a Charge, entry: &Entry) -> Self {
        let transaction = charge.transaction.as_ref();
        Self {
            transaction_id: charge.id.raw(),
            amount: charge.amount,
            status: charge.status.as_str(),
            previous_status: entry.from.as_str(),
            settled: settled(charge),
            customer_id: transaction.and_then(|transaction| transaction.customer_id.as_deref()),
            metadata: (!charge.metadata.is_empty()).then(|| charge.metadata.to_map()),
            refund: None,
            refunded_amount: None,
            occurred_at: entry.at,
        }
    }

    /// Of a payout's last change.
    pub fn of_payout(from: Option<PayoutStatus>, payout: &Payout) -> Self {
        Self {
            transaction_id: payout.id.to_string(),
            amount: payout.amount,
            status: withdrawal_status(payout.status),
            previous_status: withdrawal_status(from.unwrap_or(PayoutStatus::Pending)),
            settled: None,
            customer_id: None,
            metadata: None,
            refund: None,
            refunded_amount: None,
            occurred_at: payout.updated_at,
        }
    }
}

fn settled(charge: &Charge) -> Option<SettledData> {
    match charge.status {
        TransactionStatus::Paid | TransactionStatus::Approved => {}
        TransactionStatus::Pending
        | TransactionStatus::WaitingPayment
        | TransactionStatus::Processing
        | TransactionStatus::Refused
        | TransactionStatus::Cancelled
        | TransactionStatus::Expired
        | TransactionStatus::Refunded
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => return None,
    }
    let settlement = charge.settlement.as_ref()?;
    Some(SettledData {
        paid_with: PaymentMethod::as_str(charge.method()),
        provider_fee: settlement.fees.acquirer,
        platform_fee: settlement.fees.platform,
        net_amount: settlement.net(charge.amount),
    })
}

/// The legacy family's words are in upper case.
fn withdrawal_status(status: PayoutStatus) -> &'static str {
    match status {
        PayoutStatus::Pending => "PENDING",
        PayoutStatus::Paid => "PAID",
        PayoutStatus::Failed => "FAILED",
    }
}
