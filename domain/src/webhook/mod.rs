//! Webhooks: which events a change publishes, when failed deliveries are retried, and how deliveries are
//! signed.

pub mod event_rules;
pub mod event_type;
pub mod schedule;
pub mod signature;
