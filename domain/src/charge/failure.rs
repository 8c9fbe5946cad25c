//! Why a charge was not paid.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::time::Timestamp;

/// Why a charge failed, expired or was cancelled; `metadata.failure` on the wire.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub reason: FailureReason,
    /// Lifetime of the Pix code in seconds. `None`: the charge has no Pix code.
    pub ttl_seconds: Option<i64>,
    /// When the charge failed, expired or was cancelled.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
}

crate::fact! {
    /// Why a charge ended unpaid, or why a try to pay it was declined. `Display` is the text for the merchant, without a
    /// provider's name.
    #[derive(IntoStaticStr)]
    #[strum(serialize_all = "snake_case")]
    pub enum FailureReason {
        #[strum(serialize = "canceled")] Cancelled = "The merchant cancelled the charge.";
        Expired = "The charge was not paid before it expired.";
        AcquirerUnavailable = "The acquirer did not answer in time.";
        AcquirerRefused = "The acquirer refused the charge.";
        #[strum(serialize = "canceled")] CancelledAtAcquirer = "The payment was canceled.";
        RemovedByBank { code: String } = "The bank removed the charge.";
        RefusedByBank { code: String } = "The bank refused the charge.";
        #[strum(serialize = "refused")] SandboxRefused = "The sandbox refused the payment.";
        SandboxDeclined { code: String } = "The sandbox declined the charge.";
        #[strum(serialize = "refused")] DeclinedInSimulation = "The payment was declined in a simulation.";
        #[strum(serialize = "authentication_failed")] NotAuthenticatedByHolder = "The holder did not authenticate the payment.";
        AuthenticationFailed = "The payer was not authenticated.";
        DeclinedByPayer = "The payer declined the payment.";
        AmountTooSmall = "The amount is too small for a payment by card.";
        AmountTooLarge = "The amount is too large for a payment by card.";
        CardDeclined = "The card's issuer declined the payment.";
        InsufficientFunds = "The card has insufficient funds.";
        #[strum(serialize = "insufficient_funds")] InsufficientBalance = "The payer has insufficient funds.";
        ExpiredCard = "The card has expired, or its date is wrong.";
        IncorrectCvc = "The card's security code is wrong.";
        IncorrectNumber = "The card's number is wrong.";
        CardNotSupported = "The card does not allow this payment.";
        ProcessingError = "The payment could not be processed.";
        /// In the words of a bank, or of the merchant who simulates a decline.
        InWords { text: String, code: String } = "{text}";
    }
}

impl FailureReason {
    /// The acquirer's status, `providerErrorCode` on the wire.
    pub fn code(&self) -> &str {
        match self {
            Self::RemovedByBank { code }
            | Self::RefusedByBank { code }
            | Self::SandboxDeclined { code }
            | Self::InWords { code, .. } => code,
            other => other.into(),
        }
    }
}

impl Failure {
    /// The service's own texts stay: they are the same for all charges.
    pub(super) fn erased(&self) -> Self {
        let mut erased = self.clone();
        if let FailureReason::InWords { text, .. } = &mut erased.reason {
            text.clear();
        }
        erased
    }
}
