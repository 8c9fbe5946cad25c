//! Converts this crate's errors to HTTP errors.

use domain::work::WorkFailure;
use shared::http::Problem;

use crate::webhook::WebhookError;

impl WorkFailure for WebhookError {}

impl From<WebhookError> for Problem {
    fn from(error: WebhookError) -> Self {
        match error {
            WebhookError::NoEndpoint => Self::NotFound { what: "webhook endpoint" },
            WebhookError::NoDelivery => Self::NotFound { what: "webhook delivery" },
            WebhookError::NoEvent => Self::NotFound { what: "event" },
            WebhookError::TooManyEndpoints
            | WebhookError::EventNotKept
            | WebhookError::EndpointInactive
            | WebhookError::EndpointDeleted => Self::Unprocessable(error.to_string()),
            WebhookError::NoRecovery => Self::NotFound { what: "recovery" },
            WebhookError::RecoveryInProgress => Self::RecoveryInProgress,
            WebhookError::RecoveryKeyReused => Self::IdempotencyKeyReused,
            WebhookError::RecoveryOfInactive => Self::EndpointInactive,
            WebhookError::TooManyTests { limit, retry_after_seconds } => {
                Self::TooManyTests { limit, retry_after_seconds }
            }
            WebhookError::Page(error) => error.into(),
            WebhookError::Payload(_) => Self::Internal(error.to_string()),
            WebhookError::Store(error) => error.into(),
        }
    }
}
