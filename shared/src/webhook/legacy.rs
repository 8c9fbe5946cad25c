//! The `data` of legacy events (contract: Legacy family).

use serde::Serialize;
use serde_json::{Map, Value};

use domain::account::terms::Fees;
use domain::charge::{Charge, Entry, TransactionStatus};
use domain::money::Amount;
use domain::payment_method::PaymentMethod;
use domain::payout::{Payout, PayoutStatus};
use domain::refund::Refund;
use domain::time::Timestamp;

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
    pub refund: Option<RefundData>,
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
pub struct RefundData {
    /// Its id.
    pub id: String,
    /// What goes back, in minor units.
    pub amount: Amount,
    /// How far it is.
    pub status: &'static str,
}

impl<'a> LegacyData<'a> {
    /// Of a charge, in the status that it came into so.
    pub fn of_charge(charge: &'a Charge, entry: &Entry) -> Self {
        let details = charge.payment_details.as_ref();
        Self {
            transaction_id: charge.id.raw(),
            amount: charge.amount,
            status: charge.status.as_str(),
            previous_status: entry.from.as_str(),
            settled: settled(charge),
            customer_id: details.and_then(|details| details.customer_id.as_deref()),
            metadata: (!charge.metadata.is_empty()).then(|| charge.metadata.to_map()),
            refund: None,
            refunded_amount: None,
            occurred_at: entry.at,
        }
    }

    /// Of a refund's last step.
    pub fn of_refund(refund: &'a Refund) -> Self {
        let charge = &refund.charge;
        let sent = charge.payment_details.as_ref();
        Self {
            transaction_id: refund.id.charge().raw(),
            amount: charge.amount,
            status: charge.status.as_str(),
            previous_status: charge.previous_status.as_str(),
            settled: is_settled(charge.status)
                .then(|| SettledData::new(charge.paid_with, charge.amount, charge.fees)),
            customer_id: sent.and_then(|sent| sent.customer_id.as_deref()),
            metadata: (!charge.metadata.is_empty()).then(|| charge.metadata.to_map()),
            refund: Some(RefundData {
                id: refund.id.to_string(),
                amount: refund.share.gross,
                status: refund.status.as_str(),
            }),
            refunded_amount: Some(charge.refunded.get()),
            occurred_at: refund.updated_at,
        }
    }

    /// Of a payout's last change.
    pub fn of_payout(from: Option<PayoutStatus>, payout: &Payout) -> Self {
        Self {
            transaction_id: payout.id.to_string(),
            amount: payout.amount,
            status: withdrawal_status(payout.status),
            previous_status: withdrawal_status(from.unwrap_or(PayoutStatus::Pending)),
            settled: settled_payout(payout),
            customer_id: None,
            metadata: None,
            refund: None,
            refunded_amount: None,
            occurred_at: payout.updated_at,
        }
    }
}

impl SettledData {
    fn new(paid_with: PaymentMethod, amount: Amount, fees: Fees) -> Self {
        Self {
            paid_with: paid_with.as_str(),
            provider_fee: fees.acquirer().get(),
            platform_fee: fees.platform().get(),
            net_amount: fees.net_of(amount).get(),
        }
    }
}

fn settled(charge: &Charge) -> Option<SettledData> {
    let settlement = charge.settlement.filter(|_| is_settled(charge.status))?;
    Some(SettledData::new(charge.method(), charge.amount, settlement.fees))
}

/// A payout leaves by Pix, and no fee is taken from it.
fn settled_payout(payout: &Payout) -> Option<SettledData> {
    match payout.status {
        PayoutStatus::Paid => Some(SettledData::new(PaymentMethod::Pix, payout.amount, Fees::default())),
        PayoutStatus::Pending | PayoutStatus::Failed => None,
    }
}

fn is_settled(status: TransactionStatus) -> bool {
    match status {
        TransactionStatus::Paid | TransactionStatus::Approved => true,
        TransactionStatus::Pending
        | TransactionStatus::WaitingPayment
        | TransactionStatus::Processing
        | TransactionStatus::Refused
        | TransactionStatus::Cancelled
        | TransactionStatus::Expired
        | TransactionStatus::Refunded
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => false,
    }
}

/// The legacy family's words are in upper case.
fn withdrawal_status(status: PayoutStatus) -> &'static str {
    match status {
        PayoutStatus::Pending => "PENDING",
        PayoutStatus::Paid => "PAID",
        PayoutStatus::Failed => "FAILED",
    }
}
