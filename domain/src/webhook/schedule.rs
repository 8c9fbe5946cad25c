//! The retry schedule of failed deliveries. The caller counts the attempts, and delays the next one with an SQS
//! delay or an entry in the due index.

use std::time::{Duration, UNIX_EPOCH};

use crate::backoff::Backoff;

/// Then the delivery goes to the queue of exhausted deliveries.
pub const MAX_ATTEMPTS: u32 = 15;

/// Before jitter. The longest is reached after attempt 12. 15 attempts span about 53 hours.
const DELAYS: Backoff = Backoff { first: Duration::from_secs(30), longest: Duration::from_hours(12) };

const MAX_JITTER: u64 = 0xffff_ffff;

/// A longer `Retry-After` could postpone the delivery indefinitely.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);

/// For a `Retry-After` of 0 or a date in the past. Doubles after each attempt, so that a busy receiver does not
/// use up all attempts within seconds.
const MIN_DELAYS: Backoff = Backoff { first: Duration::from_secs(1), ..DELAYS };

/// The delay after the failure of attempt number `attempt`, from 1. On a 429 or 503, `retry_after` (seconds or
/// an HTTP date) replaces the schedule, without jitter, within 24 hours and a minimum that doubles from 1
/// second. `jitter` is a uniform random number; its range maps to −20 % to +20 %.
pub fn next_delay(
    attempt: u32,
    status: Option<u16>,
    retry_after: Option<&str>,
    now_ms: i64,
    jitter: u32,
) -> Duration {
    let earlier = attempt.saturating_sub(1);
    match status {
        Some(429 | 503) => retry_after.and_then(|text| parse_retry_after(text, now_ms)),
        Some(_) | None => None,
    }
    .map_or_else(|| backoff(earlier, jitter), |wait| wait.clamp(MIN_DELAYS.pause(earlier), MAX_RETRY_AFTER))
}

fn backoff(earlier: u32, jitter: u32) -> Duration {
    let full_ms = u64::try_from(DELAYS.pause(earlier).as_millis()).unwrap_or(u64::MAX);
    let fifth_ms = full_ms / 5;
    let spread_ms = fifth_ms.saturating_mul(2).saturating_mul(jitter.into()) / MAX_JITTER;
    Duration::from_millis(full_ms.saturating_sub(fifth_ms).saturating_add(spread_ms))
}

/// Seconds in digits, or an HTTP date. Anything else, such as a negative number, is `None`.
pub fn parse_retry_after(text: &str, now_ms: i64) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Duration::from_millis(u64::try_from(now_ms).unwrap_or_default());
    Some(date.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The middle of the range, which leaves the delay unchanged.
    const MIDDLE: u32 = u32::MAX / 2 + 1;

    /// 2023-11-14T22:13:20Z
    const NOW_MS: i64 = 1_700_000_000_000;

    fn after_429(retry_after: &str) -> Duration {
        next_delay(1, Some(429), Some(retry_after), NOW_MS, MIDDLE)
    }

    #[test]
    fn delays_double_from_30_seconds_to_12_hours() {
        let seconds =
            [30, 60, 120, 240, 480, 960, 1_920, 3_840, 7_680, 15_360, 30_720, 43_200, 43_200, 43_200, 43_200];
        for (attempt, expected) in (1..=MAX_ATTEMPTS).zip(seconds) {
            let delay = next_delay(attempt, Some(500), None, NOW_MS, MIDDLE);
            assert_eq!(delay, Duration::from_secs(expected), "after attempt {attempt}");
        }
    }

    #[test]
    fn jitter_is_at_most_a_fifth_in_both_directions() {
        assert_eq!(next_delay(1, None, None, NOW_MS, 0), Duration::from_secs(24));
        assert_eq!(next_delay(1, None, None, NOW_MS, u32::MAX), Duration::from_secs(36));
        assert_eq!(next_delay(15, None, None, NOW_MS, 0), Duration::from_mins(576));
        assert_eq!(next_delay(15, None, None, NOW_MS, u32::MAX), Duration::from_mins(864));
    }

    #[test]
    fn retry_after_in_seconds_or_as_a_date_replaces_the_schedule_within_bounds() {
        for (text, seconds) in [
            ("120", 120),
            (" 7 ", 7),
            ("0", 1),
            ("1", 1),
            ("86400", 86_400),
            ("86401", 86_400),
            ("99999999999999999999999999", 86_400),
            ("Tue, 14 Nov 2023 22:15:20 GMT", 120),
            ("Tuesday, 14-Nov-23 22:15:20 GMT", 120),
            ("Tue Nov 14 22:15:20 2023", 120),
            ("Tue, 14 Nov 2023 22:13:20 GMT", 1),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 1),
            ("Fri, 17 Nov 2023 22:13:20 GMT", 86_400),
        ] {
            assert_eq!(after_429(text), Duration::from_secs(seconds), "{text:?}");
        }
        for invalid in ["", " ", "-5", "soon", "1.5", "+5", "5s", "٣", "2023-11-14T22:15:20Z"] {
            assert_eq!(after_429(invalid), Duration::from_secs(30), "{invalid:?}");
        }
    }

    #[test]
    fn the_minimum_delay_doubles_after_each_attempt() {
        let after = |attempt| next_delay(attempt, Some(429), Some("0"), NOW_MS, MIDDLE);
        assert_eq!(after(2), Duration::from_secs(2));
        assert_eq!(after(5), Duration::from_secs(16));
        assert_eq!(after(u32::MAX), Duration::from_hours(12));
        let all: Duration = (1..MAX_ATTEMPTS).map(after).sum();
        assert!(all > Duration::from_hours(4), "{all:?}");
        // A `Retry-After` above the minimum is used unchanged.
        let longer = next_delay(5, Some(429), Some("17"), NOW_MS, MIDDLE);
        assert_eq!(longer, Duration::from_secs(17));
    }

    #[test]
    fn retry_after_is_respected_on_429_and_503_only() {
        for (status, seconds) in [
            (Some(429), 900),
            (Some(503), 900),
            (Some(500), 30),
            (Some(301), 30),
            (Some(413), 30),
            (None, 30),
        ] {
            let delay = next_delay(1, status, Some("900"), NOW_MS, MIDDLE);
            assert_eq!(delay, Duration::from_secs(seconds), "{status:?}");
        }
    }

    proptest! {
        #[test]
        fn the_delay_is_always_between_one_second_and_one_day(
            attempt: u32,
            status: Option<u16>,
            retry_after: Option<String>,
            now_ms: i64,
            jitter: u32,
        ) {
            let delay = next_delay(attempt, status, retry_after.as_deref(), now_ms, jitter);
            prop_assert!((Duration::from_secs(1)..=Duration::from_hours(24)).contains(&delay));
        }
    }
}
