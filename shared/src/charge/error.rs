//! Errors of charge writes.

use domain::charge::TransactionStatus;
use domain::charge::transition::Rejection;

use crate::random::RandomError;
use crate::store::StoreError;

/// Why a charge was not inserted or changed.
#[derive(Debug, thiserror::Error)]
pub enum ChargeError {
    /// The state machine refuses the command.
    #[error("the charge is {}: {rejection}", .status.as_str())]
    Rejected {
        /// The rule that forbids the command.
        rejection: Rejection,
        /// The charge's status when the command was refused.
        status: TransactionStatus,
    },
    /// The customer already has as many live charges within ten minutes as the account's settings allow.
    #[error("the customer has too many charges within ten minutes")]
    CustomerVelocityExceeded,
    /// The account already has as many live charges in this clock minute as its settings allow.
    #[error("the account has too many charges within a minute")]
    AccountVelocityExceeded,
    /// A read or write of DynamoDB failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system returned no random bytes for the id of an audit row.
    #[error(transparent)]
    Random(#[from] RandomError),
}
