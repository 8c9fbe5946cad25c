//! The errors of access to S3.

use std::fmt;

use aws_sdk_s3::error::{DisplayErrorContext, SdkError};
use aws_sdk_s3::primitives::ByteStreamError;

/// Why a file could not be read or written, or its URL could not be signed.
#[derive(Debug, thiserror::Error)]
pub enum ObjectStoreError {
    #[error("S3 did not answer: {0}")]
    Unavailable(String),
    /// A URL can't be presigned. Presigning needs no request to S3, so the cause is a defect of the service.
    #[error("a URL can't be signed: {0}")]
    PresigningFailed(String),
}

impl From<ByteStreamError> for ObjectStoreError {
    fn from(error: ByteStreamError) -> Self {
        Self::Unavailable(DisplayErrorContext(error).to_string())
    }
}

/// Wraps an SDK error with all its causes as [`ObjectStoreError::Unavailable`].
impl<E, R> From<SdkError<E, R>> for ObjectStoreError
where
    E: std::error::Error + Send + Sync + 'static,
    R: fmt::Debug + Send + Sync + 'static,
{
    fn from(error: SdkError<E, R>) -> Self {
        Self::Unavailable(DisplayErrorContext(error).to_string())
    }
}
