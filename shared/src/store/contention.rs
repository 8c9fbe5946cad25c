//! Computes the pause before a retry. A write is retried if it conflicts with another transaction. A batch
//! read is retried if DynamoDB leaves keys unprocessed.

use std::time::Duration;

use crate::random;

/// The most retries of a write that conflicts with other transactions on its rows. If the last retry
/// conflicts too, the write fails as [`super::StoreError::Unavailable`]. The pauses take about two seconds in
/// all.
pub(super) const MAX_WRITE_RETRIES: u32 = 12;

/// The upper limit of the first pause, in milliseconds. The limit doubles with each attempt, up to
/// [`LONGEST_PAUSE_MS`].
const FIRST_PAUSE_MS: u64 = 15;

/// The longest pause, in milliseconds.
const LONGEST_PAUSE_MS: u64 = 500;

/// Returns a random pause between zero and a limit that doubles with each attempt (full jitter).
pub(super) fn pause_before_retry(attempt: u32) -> Duration {
    let ceiling_ms = FIRST_PAUSE_MS.saturating_mul(2_u64.saturating_pow(attempt)).min(LONGEST_PAUSE_MS);
    Duration::from_millis(random::below(ceiling_ms.saturating_add(1)))
}
