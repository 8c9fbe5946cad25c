//! Pauses that grow.

use std::time::Duration;

use crate::time::Timestamp;

/// A pause that doubles, within bounds.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pub first: Duration,
    pub longest: Duration,
}

impl Backoff {
    /// Returns the pause after so many earlier ones.
    pub fn pause(&self, earlier: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(earlier)).min(self.longest)
    }

    /// Returns the pause after one of this length.
    pub fn after(&self, pause: Duration) -> Duration {
        pause.saturating_mul(2).min(self.longest)
    }

    /// Returns the time of the next poll of something that began at `since`. The pause equals the time since then, so
    /// each one is about twice as long as the one before.
    pub fn next_poll(&self, since: Timestamp, now: Timestamp) -> Timestamp {
        let age = Duration::from_millis(now.millis_since(since).try_into().unwrap_or_default());
        let pause = Duration::from_secs(age.as_secs()).clamp(self.first, self.longest);
        now.saturating_plus_seconds(pause.as_secs().try_into().unwrap_or(i64::MAX))
    }
}
