//! The wire format of a refund.

use domain::ids::RefundId;
use domain::money::{Amount, Currency};
use domain::payment_method::PaymentMethod;
use domain::pix_key::PixKey;
use domain::refund::{Refund, RefundStatus};
use domain::time::Timestamp;
use domain::wallet::RefundStrategy;
use serde::Serialize;

/// A refund on the wire (contract: Refund). It has two fields beyond the contract: `strategy`, which is
/// `null` unless the payment was by Pix, and `destinationKey`, the request's Pix key in masked form or
/// `null`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefundView<'a> {
    id: RefundId,
    transaction_id: String,
    amount: Amount,
    currency: Currency,
    status: RefundStatus,
    reason: Option<&'a str>,
    strategy: Option<RefundStrategy>,
    destination_key: Option<String>,
    created_at: Timestamp,
}

impl<'a> RefundView<'a> {
    /// Serialises a refund.
    pub fn new(refund: &'a Refund) -> Self {
        Self {
            id: refund.id,
            transaction_id: refund.id.charge().raw(),
            amount: refund.share.gross,
            currency: refund.currency,
            status: refund.status,
            reason: refund.reason.as_deref(),
            strategy: Some(refund.share.strategy).filter(|_| refund.charge.paid_with == PaymentMethod::Pix),
            destination_key: refund.destination.as_ref().map(PixKey::masked),
            created_at: refund.created_at,
        }
    }
}
