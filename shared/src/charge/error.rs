//! Why a charge is not created, changed or read.

use domain::charge::TransactionStatus;
use domain::charge::transition::Rejection;

use crate::store::StoreError;

/// Why a charge is not inserted or changed.
#[derive(Debug, thiserror::Error)]
pub enum ChargeError {
    /// The charge's status forbids the change.
    #[error("the charge is {}: {rejection}", .status.as_str())]
    Rejected {
        /// Which rule forbids it.
        rejection: Rejection,
        /// The charge's status.
        status: TransactionStatus,
    },
    /// The customer has as many live charges within ten minutes as the account allows.
    #[error("the customer has too many charges within ten minutes")]
    CustomerVelocityExceeded,
    /// The account has as many live charges within a minute as it may have.
    #[error("the account has too many charges within a minute")]
    AccountVelocityExceeded,
    /// DynamoDB.
    #[error(transparent)]
    Store(#[from] StoreError),
}
