//! Why a MED case does not change.

use super::CaseStatus;
use super::evidence::MAX_EVIDENCE;
use crate::charge::{FundsError, TransactionStatus};
use crate::object_store::ObjectStoreError;
use crate::random::RandomError;
use crate::store::StoreError;

/// Why a case is not opened or changed.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// Nothing was credited for the charge, so nothing is contested.
    #[error("The charge is {}; a case contests a payment that was credited.", .0.as_str())]
    NotSettled(TransactionStatus),
    /// Only an open case can be answered.
    #[error("The case is {}; only an open one can be answered.", .0.as_str())]
    NotOpen(CaseStatus),
    /// The charge's funds do not allow what the case takes.
    #[error(transparent)]
    Funds(#[from] FundsError),
    /// DynamoDB.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An audit row has no id.
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// Why evidence is not taken.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The case is over.
    #[error("The case is {}; evidence is for one that is not over.", .0.as_str())]
    CaseOver(CaseStatus),
    /// The case has as many files as one may have.
    #[error("The case has {MAX_EVIDENCE} files, the most that one may have.")]
    Full,
    /// The file has a name, size or type that evidence must not have.
    #[error("{param}: {message}")]
    InvalidFile {
        /// The field that says so.
        param: &'static str,
        /// The rule.
        message: String,
    },
    /// Nothing arrived, or the upload URL has expired.
    #[error("the file did not arrive, or its upload URL has expired")]
    NotUploaded,
    /// A file of another size arrived.
    #[error("the file that arrived has {stored} bytes; {declared} were declared")]
    SizeMismatch {
        /// In bytes.
        declared: u32,
        /// In bytes.
        stored: u64,
    },
    /// S3.
    #[error(transparent)]
    Files(#[from] ObjectStoreError),
    /// DynamoDB.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Evidence or an audit row has no id.
    #[error(transparent)]
    Random(#[from] RandomError),
}
