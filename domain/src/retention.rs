//! How long rows are kept, where several nouns depend on it.

/// How long events and deliveries are kept, in seconds: 90 days.
pub const EVENTS_KEPT_SECONDS: i64 = 90 * 24 * 60 * 60;
