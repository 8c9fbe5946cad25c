//! Errors of refund requests and of refund writes.

use domain::charge::{FundsError, RefundRefused, TransactionStatus};
use domain::payment_method::PaymentMethod;

use crate::random::RandomError;
use crate::store::StoreError;
use crate::wallet::WalletError;

/// Why a refund could not be created or ended.
#[derive(Debug, thiserror::Error)]
pub enum RefundError {
    /// The idempotency key was used with a different body.
    #[error("the idempotency key was used with another body")]
    IdempotencyKeyReused,
    /// The charge's status, MED cases or remaining amount forbid the refund.
    #[error("the charge is {}: {why}", .status.as_str())]
    Refused {
        /// The rule that forbids the refund.
        why: RefundRefused,
        /// The charge's status.
        status: TransactionStatus,
    },
    /// The wallet's available balance does not cover the refund's debit.
    #[error(
        "the refund needs {needed} of the wallet's available balance, which is {available} (minor units)"
    )]
    InsufficientBalance {
        /// The refund's debit, in minor units.
        needed: i64,
        /// The available balance, in minor units; it may be below zero.
        available: i64,
    },
    /// The acquirer cannot refund payments by this method.
    #[error("The acquirer can't refund payments by {}.", .0.as_str())]
    MethodNotSupported(PaymentMethod),
    /// The acquirer cannot send a Pix, so it cannot refund by cash-out.
    #[error(
        "The acquirer does not support refunds by cashout. Use strategy devolution, without `destinationKey` and `passFeeToTenant`."
    )]
    CashoutNotSupported,
    /// The request has these fields, which are allowed only for a payment by Pix.
    #[error("fields are for payments by Pix: {}", .0.join(", "))]
    OnlyForPix(Vec<&'static str>),
    /// The account's settings allow refunds to the payer only.
    #[error(
        "This account refunds only to the payer. Leave `destinationKey` out, or send the payer's document as their bank reported it."
    )]
    PayerOnly,
    /// The refund would exceed the account's daily limit of refunds to third parties.
    #[error(
        "Refunds to Pix keys of third parties are limited to {limit} a day (minor units), of which {left} is left today. Refund to the payer (without `destinationKey`) or wait until tomorrow."
    )]
    OverThirdPartyLimit {
        /// The limit, in minor units.
        limit: i64,
        /// The part of the limit that is left today, in minor units.
        left: i64,
    },
    /// The refund would make the charge's funds inconsistent. The cause is a defect, or a row that was edited
    /// by hand.
    #[error(transparent)]
    Funds(#[from] FundsError),
    /// The payment is too old to be returned by the bank.
    #[error(
        "A bank returns a Pix only within 90 days, which are over. Use strategy cashout if the account supports it."
    )]
    TooOldForDevolution,
    /// A refund by cash-out needs a Pix key, because the bank did not report the payer's document.
    #[error(
        "The bank did not report the payer's document, so the refund needs a Pix key. Send `destinationKey`, or use strategy devolution."
    )]
    NoDestination,
    /// The operating system returned no random bytes for the id of an audit row.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// A held tranche could not be released.
    #[error(transparent)]
    Wallet(#[from] WalletError),
    /// A read or write of DynamoDB failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RefundError {
    /// Returns whether a rule forbids the refund. If not, the failure is technical, and a retry may succeed.
    pub(super) fn is_refusal(&self) -> bool {
        !matches!(self, Self::Funds(_) | Self::Random(_) | Self::Wallet(_) | Self::Store(_))
    }
}
