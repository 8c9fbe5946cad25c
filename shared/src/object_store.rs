//! The errors of access to S3, and the validity of presigned URLs.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_s3::error::{DisplayErrorContext, SdkError};
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::primitives::ByteStreamError;

use domain::time::Timestamp;

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

/// S3 checks the time by its own clock, which must agree with the service's clock.
pub fn valid_for(seconds: i64, from: Timestamp) -> Result<PresigningConfig, ObjectStoreError> {
    let since_epoch = Duration::from_millis(u64::try_from(from.millis()).unwrap_or_default());
    let start = UNIX_EPOCH.checked_add(since_epoch).unwrap_or(UNIX_EPOCH);
    let valid = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let config = PresigningConfig::builder().start_time(start).expires_in(valid).build();
    config.map_err(|error| ObjectStoreError::PresigningFailed(DisplayErrorContext(error).to_string()))
}

/// Signing sends no request to S3, so its failure is a defect of the service.
pub fn unsigned<E, R>(error: SdkError<E, R>) -> ObjectStoreError
where
    E: std::error::Error + Send + Sync + 'static,
    R: fmt::Debug + Send + Sync + 'static,
{
    ObjectStoreError::PresigningFailed(DisplayErrorContext(error).to_string())
}
