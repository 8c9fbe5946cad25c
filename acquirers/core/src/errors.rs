//! Converts this crate's errors to HTTP errors.

use shared::http::Problem;

use crate::{AcquirerError, KitError};

impl From<AcquirerError> for Problem {
    fn from(error: AcquirerError) -> Self {
        match error {
            AcquirerError::NotConfigured
            | AcquirerError::MethodNotConfigured { .. }
            | AcquirerError::NotTaken(_)
            | AcquirerError::MethodUnavailable { .. } => Self::Unprocessable(error.to_string()),
            AcquirerError::Store(error) => error.into(),
            AcquirerError::Kit(KitError::Limited(retry_after)) => Self::Limited(retry_after),
            AcquirerError::Kit(KitError::Invalid(_)) => Self::Internal(error.to_string()),
            AcquirerError::Kit(_) => Self::Unavailable(error.to_string()),
            AcquirerError::Busy => Self::Busy,
        }
    }
}
