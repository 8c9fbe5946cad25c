//! Retention periods that several modules share.

/// Retention of events and deliveries in seconds: 90 days.
pub const EVENTS_KEPT_SECONDS: i64 = 90 * 24 * 60 * 60;
