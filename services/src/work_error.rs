//! The error of work without an HTTP request.

use tracing::Level;

use acquirer_core::{AcquirerError, KitError};
use effects::webhook::WebhookError;
use money::charge::ChargeError;
use money::med::CaseError;
use money::refund::RefundError;
use money::wallet::WalletError;
use shared::object_store::ObjectStoreError;
use shared::queue::{MessageFailure, QueueError};
use shared::random::RandomError;
use shared::store::StoreError;

/// The result of such work.
pub type WorkResult<T> = Result<T, WorkError>;

/// Why the work for a queue message, a stream record or a schedule failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    #[error("{0}")]
    Missing(&'static str),
    /// Another worker holds the lease. The message must be read again when the lease ends.
    #[error("another worker holds the lease")]
    Leased,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Objects(#[from] ObjectStoreError),
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error(transparent)]
    Acquirer(#[from] AcquirerError),
    #[error(transparent)]
    Charge(#[from] ChargeError),
    #[error(transparent)]
    Refund(#[from] RefundError),
    #[error(transparent)]
    Case(#[from] CaseError),
    #[error(transparent)]
    Wallet(#[from] WalletError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error("a value can't be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<KitError> for WorkError {
    fn from(error: KitError) -> Self {
        Self::Acquirer(error.into())
    }
}

impl MessageFailure for WorkError {
    fn level(&self) -> Level {
        if matches!(self, Self::Leased) {
            Level::INFO
        } else if matches!(
            self,
            Self::Acquirer(
                AcquirerError::Kit(KitError::Unavailable(_) | KitError::Limited(_) | KitError::Spent(_))
                    | AcquirerError::Busy
            )
        ) {
            Level::WARN
        } else {
            Level::ERROR
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_needs_no_operator_is_logged_below_error() {
        let unavailable = AcquirerError::unavailable("timed out");
        for (error, level) in [
            (WorkError::Leased, Level::INFO),
            (unavailable.into(), Level::WARN),
            (WorkError::Missing("a row"), Level::ERROR),
        ] {
            assert_eq!(error.level(), level, "{error}");
        }
    }
}
