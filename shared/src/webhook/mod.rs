//! Webhooks: what is signed, when it is tried again, and where it may go.
//!
//! Posting one delivery over the network is the work of `functions/webhook-worker`.

pub mod address;
pub mod schedule;
pub mod signature;
