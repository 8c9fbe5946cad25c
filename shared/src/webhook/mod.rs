//! Webhooks: what is told to whom, how it is signed, when it is tried again, and where it may go.
//!
//! Posting one delivery over the network is the work of `functions/webhook-worker`.

pub mod delivery;
pub mod endpoint;
mod error;
pub mod event;
pub mod legacy;
pub mod log;
pub mod override_secret;
pub mod queue;
pub mod redrive;
pub mod resend;

pub use error::WebhookError;
