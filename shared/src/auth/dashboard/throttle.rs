//! Limits failed log-ins, by e-mail address against guessing one password, and by source address against trying one password
//! on many addresses. Limits the requests of a person who is logged in.
//!
//! An attempt takes its place before the password is looked at, and one that succeeds gives it back: so however many come
//! at once, no more are looked at than may fail. Unknown e-mail addresses are counted as known ones are.

use domain::ids::UserId;
use domain::row::Key;
use domain::source_address::SourceAddress;
use domain::time::Timestamp;

use crate::http::{Problem, RateLimit, RequestContext};
use crate::store::{Bound, Item, Store, ttl};

/// The time in which failures count, in seconds; quarters of the hour, for everybody the same.
const WINDOW_SECONDS: i64 = 15 * 60;

/// Log-ins to one e-mail address that may fail in a window: some 1,000 a day, of a password that is generated.
const MAX_FAILURES_OF_EMAIL: i64 = 10;

/// Log-ins from one address that may fail in a window: offices share one.
const MAX_FAILURES_FROM_ADDRESS: i64 = 100;

/// The attribute that counts log-ins.
const COUNTER: &str = "failures";

/// Requests that a person may make in a minute of the clock, all tokens and routes together.
const MAX_REQUESTS_A_MINUTE: i64 = 60;

const SECONDS_A_MINUTE: i64 = 60;

/// The attribute that counts requests.
const REQUESTS: &str = "requests";

/// A window of the clock.
#[derive(Clone, Copy, Debug)]
struct Window {
    number: i64,
    ends_at: i64,
}

impl Window {
    /// The window of this length, in seconds, that `now` lies in.
    fn of(now: Timestamp, seconds: i64) -> Self {
        let number = now.seconds().checked_div_euclid(seconds).unwrap_or_default();
        Self { number, ends_at: number.saturating_add(1).saturating_mul(seconds) }
    }

    /// Seconds until it ends.
    fn left(self, now: Timestamp) -> i64 {
        self.ends_at.saturating_sub(now.seconds())
    }

    /// The row goes when its window is over.
    fn ttl(self) -> Item {
        ttl(self.ends_at)
    }
}

/// The places that an attempt took.
#[derive(Debug)]
pub(super) struct Attempt {
    window: Window,
    keys: [Key; 2],
}

/// Counts failures. Clones share one client.
#[derive(Clone, Debug)]
pub(super) struct Throttle {
    store: Store,
}

impl Throttle {
    /// In a store.
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Takes a place for an attempt, which counts as failed until it is given back.
    ///
    /// # Errors
    ///
    /// 429 `rate_limited` where too many failed.
    pub(super) async fn take(
        &self,
        user: &UserId,
        source: SourceAddress,
        now: Timestamp,
    ) -> Result<Attempt, Problem> {
        let window = Window::of(now, WINDOW_SECONDS);
        let key = |who: String| Key { pk: format!("log-ins#{who}"), sk: window.number.to_string() };
        let keys = [key(source.network()), key(user.to_string())];
        let [from_address, of_email] = &keys;
        // One after the other: an address that may no longer try can't keep anybody else out by trying.
        for (key, max) in [(from_address, MAX_FAILURES_FROM_ADDRESS), (of_email, MAX_FAILURES_OF_EMAIL)] {
            let bound = Bound::AtMost { counter: COUNTER.to_owned(), most: max.saturating_sub(1) };
            if !self.store.count_within(key, (COUNTER, 1), window.ttl(), Some(bound)).await? {
                return Err(Problem::TooManyLogins { limit: max, retry_after_seconds: window.left(now) });
            }
        }
        Ok(Attempt { window, keys })
    }

    /// Counts a request of a person, and notes what is left of the minute for the response's headers.
    ///
    /// # Errors
    ///
    /// 429 `rate_limited` where the minute has no place left.
    pub(super) async fn count_request(
        &self,
        user: &UserId,
        context: &RequestContext,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let minute = Window::of(now, SECONDS_A_MINUTE);
        let key = Key { pk: format!("dashboard-requests#{user}"), sk: minute.number.to_string() };
        let most = MAX_REQUESTS_A_MINUTE.saturating_sub(1);
        let bound = Bound::AtMost { counter: REQUESTS.to_owned(), most };
        let counted = self.store.counted_within(&key, (REQUESTS, 1), minute.ttl(), Some(bound)).await?;
        let remaining = MAX_REQUESTS_A_MINUTE.saturating_sub(counted.unwrap_or(MAX_REQUESTS_A_MINUTE));
        let count = |number: i64| u64::try_from(number).unwrap_or_default();
        let limit = RateLimit { limit: count(MAX_REQUESTS_A_MINUTE), remaining: count(remaining) };
        context.note_rate_limit(limit, None);
        match counted {
            Some(_) => Ok(()),
            None => Err(Problem::RateLimited { retry_after_seconds: minute.left(now) }),
        }
    }

    /// Gives an attempt's places back: it did not fail.
    pub(super) async fn give_back(&self, attempt: Attempt) -> Result<(), Problem> {
        for key in &attempt.keys {
            self.store.count_within(key, (COUNTER, -1), attempt.window.ttl(), None).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_quarter_of_the_hour() {
        let at = |text: &str| Window::of(Timestamp::parse_floor(text).unwrap(), WINDOW_SECONDS);
        let window = at("2026-11-21T10:15:00Z");
        assert_eq!(window.number, at("2026-11-21T10:29:59.999Z").number);
        assert_ne!(window.number, at("2026-11-21T10:30:00Z").number);
        assert_eq!(window.ends_at, Timestamp::parse_floor("2026-11-21T10:30:00Z").unwrap().seconds());
    }
}
