//! Errors of requests about webhooks: endpoints, events, deliveries, resends and tests.

use shared::store::{PageError, StoreError};

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
    #[error("The account has {MAX_ENDPOINTS} webhook endpoints, the maximum. Delete one first.")]
    TooManyEndpoints,
    #[error("The event of this delivery is no longer stored, so it can't be sent again.")]
    EventNotKept,
    #[error("The webhook endpoint is INACTIVE. Set its status to ACTIVE first.")]
    EndpointInactive,
    #[error("The webhook endpoint was deleted, so nothing can be sent to it.")]
    EndpointDeleted,
    /// The endpoint has no recovery with this id, or it is older than 90 days.
    #[error("there is no such recovery")]
    NoRecovery,
    /// Another recovery of the endpoint runs.
    #[error("a recovery of the endpoint runs")]
    RecoveryInProgress,
    /// The idempotency key was used with another body.
    #[error("the idempotency key of a recovery was used with another body")]
    RecoveryKeyReused,
    /// Nothing is sent to an endpoint that is not `ACTIVE`.
    #[error("the endpoint of a recovery is not ACTIVE")]
    RecoveryOfInactive,
    #[error("at most {limit} tests of a webhook endpoint can be sent a minute")]
    TooManyTests {
        limit: i64,
        /// Seconds until the next minute begins.
        retry_after_seconds: i64,
    },
    #[error(transparent)]
    Page(#[from] PageError),
    #[error("an event's payload: {0}")]
    Payload(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
