//! Webhooks: which change of a row publishes which events, how deliveries are retried, and how they are signed.

pub mod event_rules;
pub mod event_type;
pub mod schedule;
pub mod signature;
