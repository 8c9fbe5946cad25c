//! Why a refund is not made.

use domain::charge::{FundsError, RefundRefused, TransactionStatus};
use domain::payment_method::PaymentMethod;

use crate::store::StoreError;
use crate::wallet::WalletError;

/// Why a refund is not made, or did not end.
#[derive(Debug, thiserror::Error)]
pub enum RefundError {
    /// The idempotency key belongs to another body.
    #[error("the idempotency key was used with another body")]
    IdempotencyKeyReused,
    /// The charge allows no refund of that amount.
    #[error("the charge is {}: {why}", .status.as_str())]
    Refused {
        /// Which rule forbids it.
        why: RefundRefused,
        /// The charge's status.
        status: TransactionStatus,
    },
    /// The wallet has less than the refund takes from it.
    #[error(
        "the refund needs {needed} of the wallet's available balance, which is {available} (minor units)"
    )]
    InsufficientBalance {
        /// What the refund takes, in minor units.
        needed: i64,
        /// What is available, in minor units; it may be below zero.
        available: i64,
    },
    /// The acquirer has no refunds of this method.
    #[error("The acquirer can't refund payments by {}.", .0.as_str())]
    MethodNotSupported(PaymentMethod),
    /// The acquirer has no refunds by cash-out.
    #[error(
        "The acquirer does not support refunds by cashout. Use strategy devolution, without `destinationKey` and `passFeeToTenant`."
    )]
    CashoutNotSupported,
    /// These fields are for payments by Pix.
    #[error("fields are for payments by Pix: {}", .0.join(", "))]
    OnlyForPix(Vec<&'static str>),
    /// The account's settings allow refunds to the payer alone.
    #[error(
        "This account refunds only to the payer. Leave `destinationKey` out, or send the payer's document as their bank reported it."
    )]
    PayerOnly,
    /// The day's limit for refunds to third parties has no room.
    #[error(
        "Refunds to Pix keys of third parties are limited to {limit} a day (minor units), of which {left} is left today. Refund to the payer (without `destinationKey`) or wait until tomorrow."
    )]
    OverThirdPartyLimit {
        /// The limit, in minor units.
        limit: i64,
        /// What is left today, in minor units.
        left: i64,
    },
    /// The charge's funds have no such refund under way.
    #[error(transparent)]
    Funds(#[from] FundsError),
    /// Held money could not be released.
    #[error(transparent)]
    Wallet(#[from] WalletError),
    /// DynamoDB.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RefundError {
    /// Whether a rule forbids the refund; otherwise it may succeed later.
    pub(super) fn is_refusal(&self) -> bool {
        !matches!(self, Self::Funds(_) | Self::Wallet(_) | Self::Store(_))
    }
}
