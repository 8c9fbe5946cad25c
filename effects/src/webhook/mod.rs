//! Webhooks: endpoints, events, deliveries, the log of events, resends and redrives.
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
pub mod redrive;
pub mod resend;
pub mod secret;
pub mod words;

pub use error::WebhookError;
