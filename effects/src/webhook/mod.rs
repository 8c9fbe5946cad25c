//! Webhooks: endpoints, events, deliveries, the log of events, resends and recoveries.
//!
//! `functions/event-dispatcher` creates events and deliveries from the state table's stream.
//! `functions/webhook-worker` posts one delivery over the network. Signatures and the retry schedule are in
//! `domain::webhook`, the rules for URLs in `domain::url_policy`.
//!
//! Read [`endpoint`] first, then [`event`], then [`delivery`]. The head of [`delivery`] explains the list of
//! deliveries and its counts.

pub mod body_schema;
pub mod breaker;
pub mod delivery;
pub mod endpoint;
mod error;
pub mod event;
pub mod in_flight;
pub mod legacy;
pub mod log;
pub mod queue;
pub mod recovery;
pub mod resend;
pub mod samples;
pub mod secret;
pub mod words;

use serde::de::DeserializeOwned;
use shared::store::{Item, from_item};

pub use error::WebhookError;

/// Parses a row. Logs an error and returns `None` if it can't: one bad row must not hide or stop the others.
fn parse_or_log<R: DeserializeOwned>(item: Item) -> Option<R> {
    let row = std::any::type_name::<R>();
    from_item(item).inspect_err(|error| tracing::error!(%error, row, "can't read a row; it is skipped")).ok()
}
