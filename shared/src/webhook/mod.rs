//! Webhooks: what is told to whom, how it is signed, when it is tried again, and where it may go.
//!
//! Posting one delivery over the network is the work of `functions/webhook-worker`.

pub mod delivery;
pub mod endpoint;
mod error;
pub mod event;
pub mod event_type;
pub mod legacy;
pub mod log;
pub mod meaning;
pub mod override_secret;
pub mod queue;
pub mod redrive;
pub mod resend;
pub mod schedule;
pub mod signature;

pub use error::WebhookError;
