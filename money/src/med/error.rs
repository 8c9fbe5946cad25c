use domain::charge::FundsError;
use domain::med::{CaseRefused, CaseStatus, EvidenceRefused};

use shared::object_store::ObjectStoreError;
use shared::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    #[error("The MED case is {}. Only an open case can be appealed or accepted.", .0.as_str())]
    NotOpen(CaseStatus),
    #[error(transparent)]
    Refused(#[from] CaseRefused),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<FundsError> for CaseError {
    fn from(error: FundsError) -> Self {
        Self::Refused(error.into())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    #[error(transparent)]
    Refused(#[from] EvidenceRefused),
    #[error("{param}: {message}")]
    InvalidFile { param: &'static str, message: String },
    #[error("the file did not arrive, or its upload URL has expired")]
    NotUploaded,
    #[error("the file that arrived has {stored} bytes; {declared} were declared")]
    SizeMismatch { declared: u32, stored: u64 },
    #[error(transparent)]
    Files(#[from] ObjectStoreError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
