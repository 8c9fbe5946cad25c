use domain::charge::TransactionStatus;
use domain::charge::transition::Rejection;

use shared::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum ChargeError {
    #[error("the charge is {}: {rejection}", .status.as_str())]
    Rejected { rejection: Rejection, status: TransactionStatus },
    #[error("the customer has too many charges within ten minutes")]
    CustomerVelocityExceeded,
    /// In this clock minute.
    #[error("the account has too many charges within a minute")]
    AccountVelocityExceeded,
    #[error(transparent)]
    Store(#[from] StoreError),
}
