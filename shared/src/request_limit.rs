//! Limits the requests of a client in a window of fixed length. A counter's row belongs to one client and one
//! window, so it needs no reset.

use domain::row::Key;
use domain::time::Timestamp;

use crate::http::{Problem, RateLimit, RequestContext};
use crate::store::{Item, Store, ttl};

const SECONDS_A_MINUTE: i64 = 60;

const REQUESTS: &str = "requests";

/// A window of fixed length. `number` counts the windows since 1970; `ends_at` is in seconds since 1970.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Window {
    pub number: i64,
    ends_at: i64,
}

impl Window {
    /// Returns the window that contains `now`. `seconds` is the length of a window.
    pub fn of(now: Timestamp, seconds: i64) -> Self {
        let number = now.seconds().checked_div_euclid(seconds).unwrap_or_default();
        Self { number, ends_at: number.saturating_add(1).saturating_mul(seconds) }
    }

    pub(crate) fn left(self, now: Timestamp) -> i64 {
        self.ends_at.saturating_sub(now.seconds())
    }

    /// The `ttl` attribute of a counter's row. DynamoDB may remove the row after the window has ended.
    pub fn ttl(self) -> Item {
        ttl(self.ends_at)
    }
}

/// Counts a request in this clock minute, in a row of the partition `pk`. Stores the requests left for the
/// response headers, and `scope` for the log. A refused request is not counted.
/// Errors: 429 `rate_limited` if `max` requests were counted in this minute.
pub(crate) async fn count_in_minute(
    store: &Store,
    (pk, max): (String, i64),
    (context, scope): (&RequestContext, String),
    now: Timestamp,
) -> Result<(), Problem> {
    let minute = Window::of(now, SECONDS_A_MINUTE);
    let key = Key { pk, sk: minute.number.to_string() };
    let counted = store.add_up_to(&key, (REQUESTS, 1), minute.ttl(), Some(max)).await?;
    let remaining = max.saturating_sub(counted.unwrap_or(max));
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    context.set_caller(RateLimit { limit: count(max), remaining: count(remaining) }, scope, None);
    match counted {
        Some(_) => Ok(()),
        None => Err(Problem::RateLimited { retry_after_seconds: minute.left(now) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_begins_at_each_multiple_of_its_length() {
        let at = |text: &str| Window::of(Timestamp::parse_floor(text).unwrap(), 15 * 60);
        let window = at("2026-11-21T10:15:00Z");
        assert_eq!(window.number, at("2026-11-21T10:29:59.999Z").number);
        assert_ne!(window.number, at("2026-11-21T10:30:00Z").number);
        assert_eq!(window.ends_at, Timestamp::parse_floor("2026-11-21T10:30:00Z").unwrap().seconds());
    }
}
