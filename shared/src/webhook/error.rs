//! Why webhooks are not configured, listed or sent again.

use crate::random::RandomError;
use crate::store::{PageError, StoreError};

use super::endpoint::MAX_ENDPOINTS;

/// Why a request about webhooks fails.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The scope has no such endpoint.
    #[error("there is no such webhook endpoint")]
    NoEndpoint,
    /// The scope has no such delivery that lists show.
    #[error("there is no such webhook delivery")]
    NoDelivery,
    /// The scope has no such event that is kept.
    #[error("there is no such event")]
    NoEvent,
    /// The scope has as many endpoints as one may have.
    #[error("The account has {MAX_ENDPOINTS} webhook endpoints, the maximum. Delete one first.")]
    TooManyEndpoints,
    /// The event of a delivery is no longer kept.
    #[error("The event of this delivery is no longer stored, so it can't be sent again.")]
    EventNotKept,
    /// Nothing new is sent to an endpoint that is off.
    #[error("The webhook endpoint is INACTIVE. Set its status to ACTIVE first.")]
    EndpointInactive,
    /// Nothing new is sent to an endpoint that is gone.
    #[error("The webhook endpoint was deleted, so nothing can be sent to it.")]
    EndpointDeleted,
    /// The endpoint had its tests of this minute.
    #[error("at most {limit} tests of a webhook endpoint can be sent a minute")]
    TooManyTests {
        /// How many a minute may be asked for.
        limit: i64,
        /// Seconds until the next minute begins.
        retry_after_seconds: i64,
    },
    /// `starting_after` names nothing that is listed.
    #[error(transparent)]
    Page(PageError),
    /// An event can't be written or read as JSON.
    #[error("an event's payload: {0}")]
    Payload(#[from] serde_json::Error),
    /// DynamoDB.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An id or a secret can't be made.
    #[error(transparent)]
    Random(#[from] RandomError),
}

impl From<PageError> for WebhookError {
    fn from(error: PageError) -> Self {
        match error {
            PageError::Store(error) => Self::Store(error),
            cursor @ PageError::UnknownCursor(_) => Self::Page(cursor),
        }
    }
}
