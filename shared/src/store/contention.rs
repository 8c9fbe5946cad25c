//! Pauses before a request that met another transaction on its rows is sent again.

use std::time::Duration;

use crate::random;

/// How often a write that met another transaction on its rows is tried again, before it counts as unavailable: some two
/// seconds in all.
pub(super) const MAX_WRITE_ATTEMPTS: u32 = 12;

/// The first pause between such tries, in milliseconds; doubled each time up to the longest, with full jitter.
const FIRST_PAUSE_MS: u64 = 15;

const LONGEST_PAUSE_MS: u64 = 500;

/// A random time up to a window that doubles with each attempt.
pub(super) fn pause_before_retry(attempt: u32) -> Duration {
    let ceiling_ms = FIRST_PAUSE_MS.saturating_mul(2_u64.saturating_pow(attempt)).min(LONGEST_PAUSE_MS);
    Duration::from_millis(random::below(ceiling_ms.saturating_add(1)))
}
