//! Errors of requests about webhooks: endpoints, events, deliveries, resends and tests.

use crate::random::RandomError;
use crate::store::{PageError, StoreError};

use super::endpoint::MAX_ENDPOINTS;

/// Why a request about webhooks fails.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("there is no such webhook endpoint")]
    NoEndpoint,
    /// The scope has no delivery with this id, or lists no longer show it (after 90 days).
    #[error("there is no such webhook delivery")]
    NoDelivery,
    /// The scope has no event with this id, or the event has expired (after 90 days).
    #[error("there is no such event")]
    NoEvent,
    /// The scope already has [`MAX_ENDPOINTS`] endpoints.
    #[error("The account has {MAX_ENDPOINTS} webhook endpoints, the maximum. Delete one first.")]
    TooManyEndpoints,
    /// The delivery can't be resent, because its event has expired.
    #[error("The event of this delivery is no longer stored, so it can't be sent again.")]
    EventNotKept,
    /// No new delivery is created for an endpoint that is `INACTIVE`.
    #[error("The webhook endpoint is INACTIVE. Set its status to ACTIVE first.")]
    EndpointInactive,
    /// No new delivery is created for an endpoint that was deleted.
    #[error("The webhook endpoint was deleted, so nothing can be sent to it.")]
    EndpointDeleted,
    /// The endpoint's limit of tests in this minute is used up.
    #[error("at most {limit} tests of a webhook endpoint can be sent a minute")]
    TooManyTests {
        /// The most tests of an endpoint in a minute.
        limit: i64,
        /// Seconds until the next minute begins.
        retry_after_seconds: i64,
    },
    /// `starting_after` is not an entry of the list.
    #[error(transparent)]
    Page(PageError),
    /// An event's payload can't be serialised or parsed as JSON.
    #[error("an event's payload: {0}")]
    Payload(#[from] serde_json::Error),
    /// A read or write of DynamoDB failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system returned no random bytes for an id or a secret.
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
