//! The `data` of legacy events.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use domain::account::terms::Fees;
use domain::charge::{Charge, StatusChange, TransactionStatus};
use domain::ids::{PayoutId, RawChargeId, RefundId};
use domain::money::Amount;
use domain::payment_method::{PaymentMethod, UpperCaseMethod};
use domain::payout::{Payout, PayoutStatus};
use domain::refund::{Refund, RefundStatus};
use domain::time::Timestamp;
use shared::http::NonNegative;

/// The change of a payment that a `payment.*` event reports.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "PaymentEventData")]
#[serde(rename_all = "camelCase")]
pub struct PaymentData<'a> {
    /// The payment's id.
    transaction_id: RawChargeId,
    /// The amount in the currency's smallest unit, such as centavos.
    amount: Amount,
    /// The status after the change.
    status: TransactionStatus,
    /// The status before the change.
    previous_status: TransactionStatus,
    #[serde(flatten)]
    settled: Option<SettledData>,
    /// The `customerId` of the payment. Absent if none was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "&str")]
    customer_id: Option<&'a str>,
    /// The map that was sent on create, without the service's `failure` and `med`. Absent if it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    metadata: Option<Map<String, Value>>,
    /// The refund that changed. Present on `payment.refunded` of a refund; its `status` shows whether it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RefundData")]
    refund: Option<RefundData>,
    /// The amount that all refunds have returned so far, in the currency's smallest unit. Present with `refund`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NonNegative")]
    refunded_amount: Option<NonNegative>,
    /// When the change happened.
    occurred_at: Timestamp,
}

/// The change of a payout that a `withdrawal.*` event reports.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "WithdrawalEventData")]
#[serde(rename_all = "camelCase")]
pub struct WithdrawalData {
    /// The payout's id.
    transaction_id: PayoutId,
    /// The amount in the currency's smallest unit, such as centavos.
    amount: Amount,
    /// The status after the change.
    #[schemars(extend("enum" = ["PENDING", "PAID", "FAILED"]))]
    status: &'static str,
    /// The status before the change.
    #[schemars(extend("enum" = ["PENDING", "PAID", "FAILED"]))]
    previous_status: &'static str,
    #[serde(flatten)]
    settled: Option<SettledData>,
    /// When the change happened.
    occurred_at: Timestamp,
}

/// The method and the amounts of a settled payment.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct SettledData {
    /// The method that was used. Present on `PAID` and `APPROVED`.
    paid_with: UpperCaseMethod,
    /// The acquirer's fee in the currency's smallest unit. Present on `PAID` and `APPROVED`.
    provider_fee: NonNegative,
    /// The platform's fee in the currency's smallest unit. Present on `PAID` and `APPROVED`.
    platform_fee: NonNegative,
    /// `amount` less both fees. Present on `PAID` and `APPROVED`.
    net_amount: NonNegative,
}

/// The refund that changed.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "RefundEventData")]
struct RefundData {
    /// The refund's id.
    id: RefundId,
    /// The refunded amount in the currency's smallest unit.
    amount: Amount,
    /// The status of the refund.
    status: RefundStatus,
}

impl<'a> PaymentData<'a> {
    /// Returns the data of a charge's change to its present status. `entry`: that change.
    pub fn of_charge(charge: &'a Charge, entry: &StatusChange) -> Self {
        let details = charge.payment_details.as_ref();
        Self {
            transaction_id: charge.id.into(),
            amount: charge.amount,
            status: charge.status,
            previous_status: entry.from,
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
            transaction_id: refund.id.charge().into(),
            amount: charge.amount,
            status: charge.status,
            previous_status: charge.previous_status,
            settled: is_settled(charge.status)
                .then(|| SettledData::new(charge.paid_with, charge.amount, charge.fees)),
            customer_id: sent.and_then(|sent| sent.customer_id.as_deref()),
            metadata: (!charge.metadata.is_empty()).then(|| charge.metadata.to_map()),
            refund: Some(RefundData { id: refund.id, amount: refund.share.gross, status: refund.status }),
            refunded_amount: Some(NonNegative(charge.refunded.get())),
            occurred_at: refund.updated_at,
        }
    }
}

impl WithdrawalData {
    /// Returns the data of a payout's last change. `from`: the status before; `None`: the payout is new.
    pub fn of_payout(from: Option<PayoutStatus>, payout: &Payout) -> Self {
        Self {
            transaction_id: payout.id,
            amount: payout.amount,
            status: withdrawal_status(payout.status),
            previous_status: withdrawal_status(from.unwrap_or(PayoutStatus::Pending)),
            // It is paid by Pix, without fees.
            settled: (payout.status == PayoutStatus::Paid)
                .then(|| SettledData::new(PaymentMethod::Pix, payout.amount, Fees::default())),
            occurred_at: payout.updated_at,
        }
    }
}

impl SettledData {
    fn new(paid_with: PaymentMethod, amount: Amount, fees: Fees) -> Self {
        Self {
            paid_with: UpperCaseMethod(paid_with),
            provider_fee: NonNegative(fees.acquirer().get()),
            platform_fee: NonNegative(fees.platform().get()),
            net_amount: NonNegative(fees.net_of(amount).get()),
        }
    }
}

fn settled(charge: &Charge) -> Option<SettledData> {
    let settlement = charge.settlement.filter(|_| is_settled(charge.status))?;
    Some(SettledData::new(charge.method(), charge.amount, settlement.fees))
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
