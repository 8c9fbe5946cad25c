use domain::ids::{ChargeId, RawChargeId, RefundId};
use domain::money::{Amount, Currency};
use domain::pix_key::PixKey;
use domain::refund::{Refund, RefundStatus};
use domain::time::Timestamp;
use domain::wallet::RefundStrategy;
use schemars::JsonSchema;
use serde::Serialize;

use shared::http::WholeListView;

/// A full or partial refund of a payment.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Refund")]
#[serde(rename_all = "camelCase")]
pub struct RefundView<'a> {
    /// The refund's id.
    id: RefundId,
    /// The id of the refunded payment.
    transaction_id: RawChargeId,
    /// The refunded amount in the currency's smallest unit.
    amount: Amount,
    /// The currency of the amount.
    currency: Currency,
    /// The status of the refund.
    status: RefundStatus,
    /// The reason that was sent. `null` if none was sent.
    reason: Option<String>,
    /// How the refund is sent. `null` unless the payment was by Pix.
    strategy: Option<RefundStrategy>,
    /// The Pix key that the request named, masked. `null` if it named none.
    destination_key: Option<String>,
    /// The bank's id of the return (`D…`) or, of a cash-out, the end-to-end id of the new Pix (`E…`), by which
    /// the payer's bank finds the money. `null` until the bank reports it, and for other methods.
    end_to_end_id: Option<&'a str>,
    /// Why the refund failed. `null` unless the status is `FAILED`.
    failure_reason: Option<String>,
    /// When the refund was requested.
    created_at: Timestamp,
    /// When the money was sent to the payer. `null` unless the status is `REFUNDED`.
    completed_at: Option<Timestamp>,
}

/// A refund as the object of an event.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "RefundObject")]
pub struct RefundObject<'a> {
    /// Always `refund`.
    #[schemars(extend("const" = "refund"))]
    object: &'static str,
    /// The id of the refunded charge.
    charge_id: ChargeId,
    #[serde(flatten)]
    refund: RefundView<'a>,
}

impl<'a> RefundObject<'a> {
    pub fn new(refund: &'a Refund) -> Self {
        Self { object: "refund", charge_id: refund.id.charge(), refund: RefundView::new(refund) }
    }
}

impl<'a> RefundView<'a> {
    pub fn new(refund: &'a Refund) -> Self {
        Self {
            id: refund.id,
            transaction_id: refund.id.charge().into(),
            amount: refund.share.gross,
            currency: refund.currency,
            status: refund.status,
            reason: refund.reason.as_ref().map(ToString::to_string),
            strategy: refund.pix_strategy(),
            destination_key: refund.destination.as_ref().filter(|_| !refund.to_payer).map(PixKey::masked),
            end_to_end_id: refund.end_to_end_id(),
            failure_reason: refund.failure_reason.as_ref().map(ToString::to_string),
            created_at: refund.created_at,
            completed_at: Some(refund.updated_at).filter(|_| refund.status == RefundStatus::Refunded),
        }
    }
}

/// All refunds of a payment, newest first.
pub type RefundListView<'a> = WholeListView<RefundView<'a>>;
