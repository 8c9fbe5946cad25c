//! Errors of writes of MED cases and of their evidence.

use domain::charge::FundsError;
use domain::med::{CaseRefused, CaseStatus, EvidenceRefused};

use crate::object_store::ObjectStoreError;
use crate::random::RandomError;
use crate::store::StoreError;

/// Why a case was not opened or changed.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The case is not open, so the merchant can neither appeal nor accept it.
    #[error("The MED case is {}. Only an open case can be appealed or accepted.", .0.as_str())]
    NotOpen(CaseStatus),
    /// Nothing was credited for the charge, or the case would make the charge's funds inconsistent.
    #[error(transparent)]
    Refused(#[from] CaseRefused),
    /// A read or write of DynamoDB failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No random id could be generated for an audit row.
    #[error(transparent)]
    Random(#[from] RandomError),
}

impl From<FundsError> for CaseError {
    fn from(error: FundsError) -> Self {
        Self::Refused(error.into())
    }
}

/// Why evidence was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The case has ended, or already has the maximum number of files.
    #[error(transparent)]
    Refused(#[from] EvidenceRefused),
    /// The file's name, size or type is not allowed.
    #[error("{param}: {message}")]
    InvalidFile {
        /// The field with the invalid value.
        param: &'static str,
        /// The rule that it breaks.
        message: String,
    },
    /// No file was uploaded, or the upload URL has expired.
    #[error("the file did not arrive, or its upload URL has expired")]
    NotUploaded,
    /// The uploaded file's size differs from the declared size.
    #[error("the file that arrived has {stored} bytes; {declared} were declared")]
    SizeMismatch {
        /// The declared size, in bytes.
        declared: u32,
        /// The size of the uploaded file, in bytes.
        stored: u64,
    },
    /// A request to S3 failed.
    #[error(transparent)]
    Files(#[from] ObjectStoreError),
    /// A read or write of DynamoDB failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No random id could be generated for the evidence or for an audit row.
    #[error(transparent)]
    Random(#[from] RandomError),
}
