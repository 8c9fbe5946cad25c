//! The `data` of legacy events (contract: Legacy family).

use serde::Serialize;
use serde_json::{Map, Value};

use domain::account::terms::Fees;
use domain::charge::{Charge, StatusChange, TransactionStatus};
use domain::money::Amount;
use domain::payment_method::PaymentMethod;
use domain::payout::{Payout, PayoutStatus};
use domain::refund::Refund;
use domain::time::Timestamp;

/// The `data` of a legacy event. It is the same for all legacy names of one change.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LegacyData<'a> {
    /// The charge's id without its prefix; for a withdrawal, the payout's id with its prefix.
    pub transaction_id: String,
    /// In minor units.
    pub amount: Amount,
    /// The status after the change.
    pub status: &'static str,
    /// The status before the change.
    pub previous_status: &'static str,
    /// Present on `PAID` and `APPROVED`.
    #[serde(flatten)]
    pub settled: Option<SettledData>,
    /// The merchant's id of its user, if the merchant sent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customer_id: Option<&'a str>,
    /// The merchant's metadata, if the merchant sent any, without the service's `failure` and `med`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// On `payment.refunded`: the refund that changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refund: Option<RefundData>,
    /// On `payment.refunded`: the amount refunded so far by all refunds, in minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refunded_amount: Option<i64>,
    /// When the change happened.
    pub occurred_at: Timestamp,
}

/// The method and the amounts of a settled payment, in minor units.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettledData {
    /// The payment method.
    pub paid_with: &'static str,
    /// The acquirer's fee.
    pub provider_fee: i64,
    /// The platform's fee.
    pub platform_fee: i64,
    /// The amount less both fees.
    pub net_amount: i64,
}

/// The refund in the `data` of `payment.refunded`.
#[derive(Debug, Serialize)]
pub struct RefundData {
    /// The refund's id.
    pub id: String,
    /// The refunded amount, in minor units.
    pub amount: Amount,
    /// The refund's status.
    pub status: &'static str,
}

impl<'a> LegacyData<'a> {
    /// Returns the data of a charge's change to its present status. `entry`: that change.
    pub fn of_charge(charge: &'a Charge, entry: &StatusChange) -> Self {
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

    /// Returns the data of a refund's last change.
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

    /// Returns the data of a payout's last change. `from`: the status before; `None`: the payout is new.
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

/// A payout is paid by Pix, without fees.
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

/// Returns a payout's status as the legacy family writes it, in upper case.
fn withdrawal_status(status: PayoutStatus) -> &'static str {
    match status {
        PayoutStatus::Pending => "PENDING",
        PayoutStatus::Paid => "PAID",
        PayoutStatus::Failed => "FAILED",
    }
}
