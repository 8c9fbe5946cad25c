//! Converts this crate's errors to HTTP errors.

use domain::acquirer::OddObject;
use domain::work::WorkFailure;
use shared::http::Problem;

use crate::{AcquirerError, KitError};

impl WorkFailure for AcquirerError {
    fn is_outside(&self) -> bool {
        match self {
            Self::Kit(error) => error.is_outside(),
            error => matches!(error, Self::Busy),
        }
    }

    fn odd(&self) -> Option<&OddObject> {
        if let Self::Kit(error) = self { error.odd() } else { None }
    }
}

impl From<AcquirerError> for Problem {
    fn from(error: AcquirerError) -> Self {
        match error {
            AcquirerError::NotConfigured
            | AcquirerError::MethodNotConfigured { .. }
            | AcquirerError::NotTaken(_)
            | AcquirerError::Kit(KitError::MethodUnavailable { .. }) => {
                Self::Unprocessable(error.to_string())
            }
            AcquirerError::Store(error) => error.into(),
            AcquirerError::Kit(KitError::Limited(retry_after)) => Self::Limited(retry_after),
            AcquirerError::Kit(KitError::Invalid(_)) => Self::Internal(error.to_string()),
            AcquirerError::Kit(_) => Self::Unavailable(error.to_string()),
            AcquirerError::Busy => Self::Busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acquirer_that_does_not_answer_needs_no_operator() {
        assert!(AcquirerError::unavailable("timed out").is_outside());
        assert!(!AcquirerError::NotConfigured.is_outside());
    }
}
