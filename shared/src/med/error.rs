//! Why a MED case does not change.

use domain::charge::FundsError;
use domain::med::{CaseRefused, CaseStatus, EvidenceRefused};

use crate::object_store::ObjectStoreError;
use crate::random::RandomError;
use crate::store::StoreError;

/// Why a case is not opened or changed.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// Only an open case can be answered.
    #[error("The MED case is {}. Only an open case can be appealed or accepted.", .0.as_str())]
    NotOpen(CaseStatus),
    /// Nothing was credited for the charge, or its funds do not allow what the case takes.
    #[error(transparent)]
    Refused(#[from] CaseRefused),
    /// DynamoDB.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An audit row has no id.
    #[error(transparent)]
    Random(#[from] RandomError),
}

impl From<FundsError> for CaseError {
    fn from(error: FundsError) -> Self {
        Self::Refused(error.into())
    }
}

/// Why evidence is not taken.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The case is over, or has as many files as it may have.
    #[error(transparent)]
    Refused(#[from] EvidenceRefused),
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
