//! What S3 can fail at.

use std::fmt;

use aws_sdk_s3::error::{DisplayErrorContext, SdkError};

/// Why a file was not read, written or signed for.
#[derive(Debug, thiserror::Error)]
pub enum ObjectStoreError {
    /// S3 did not answer, or its answer lacks what it must have.
    #[error("S3 did not answer: {0}")]
    Unavailable(String),
    /// A presigned URL can't be made. S3 is not asked for that, so it is a defect of ours.
    #[error("a URL can't be signed: {0}")]
    Unsigned(String),
}

/// Wraps an SDK error with all its causes.
impl<E, R> From<SdkError<E, R>> for ObjectStoreError
where
    E: std::error::Error + Send + Sync + 'static,
    R: fmt::Debug + Send + Sync + 'static,
{
    fn from(error: SdkError<E, R>) -> Self {
        Self::Unavailable(DisplayErrorContext(error).to_string())
    }
}
