use domain::charge::{FundsError, RefundRefused, TransactionStatus};
use domain::payment_method::PaymentMethod;

use shared::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum RefundError {
    #[error("the idempotency key was used with another body")]
    IdempotencyKeyReused,
    #[error("the charge is {}: {why}", .status.as_str())]
    Refused { why: RefundRefused, status: TransactionStatus },
    #[error(
        "the refund needs {needed} of the wallet, which has {available} available and {pending} pending (minor units)"
    )]
    InsufficientBalance {
        needed: i64,
        /// It may be below zero.
        available: i64,
        /// The pending money of other charges.
        pending: i64,
    },
    #[error("The acquirer can't refund payments by {}.", .0.as_str())]
    MethodNotSupported(PaymentMethod),
    #[error(
        "The acquirer does not support refunds by cashout. Use strategy devolution, without `destinationKey` and `passFeeToTenant`."
    )]
    CashoutNotSupported,
    /// Fields that are allowed only for a payment by Pix.
    #[error("fields are for payments by Pix: {}", .0.join(", "))]
    OnlyForPix(Vec<&'static str>),
    #[error(
        "This account refunds only to the payer. Leave `destinationKey` out, or send the payer's document as their bank reported it."
    )]
    PayerOnly,
    #[error(
        "Refunds to Pix keys of third parties are limited to {limit} a day (minor units), of which {left} is left today. Refund to the payer (without `destinationKey`) or wait until tomorrow."
    )]
    OverThirdPartyLimit { limit: i64, left: i64 },
    /// The cause is a defect, or a row that was edited by hand.
    #[error(transparent)]
    Funds(#[from] FundsError),
    #[error(
        "A bank returns a Pix only within 90 days, which are over. Use strategy cashout if the account supports it."
    )]
    TooOldForDevolution,
    /// The bank did not report the payer's document, so a cash-out needs a Pix key.
    #[error(
        "The bank did not report the payer's document, so the refund needs a Pix key. Send `destinationKey`, or use strategy devolution."
    )]
    NoDestination,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RefundError {
    /// A failure that is not a refusal is technical, and a retry may succeed.
    pub(super) fn is_refusal(&self) -> bool {
        !matches!(self, Self::Funds(_) | Self::Store(_))
    }
}
