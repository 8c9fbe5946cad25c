//! Errors of charge writes.

use domain::charge::TransactionStatus;
use domain::charge::transition::Rejection;

use crate::store::StoreError;

/// Why a charge was not inserted or changed.
#[derive(Debug, thiserror::Error)]
pub enum ChargeError {
    /// The charge's status forbids the change.
    #[error("the charge is {}: {rejection}", .status.as_str())]
    Rejected {
        /// The rule that forbids the change.
        rejection: Rejection,
        /// The charge's status at the attempt.
        status: TransactionStatus,
    },
    /// The customer's live charges of the last ten minutes have reached the account's limit.
    #[error("the customer has too many charges within ten minutes")]
    CustomerVelocityExceeded,
    /// The account's live charges of this clock minute have reached its limit.
    #[error("the account has too many charges within a minute")]
    AccountVelocityExceeded,
    /// A read or write of DynamoDB failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
