//! How many log-ins may fail: by e-mail address, so that nobody's password is guessed, and by the address they come from,
//! so that nobody tries one password on everybody.
//!
//! An attempt takes its place before the password is looked at, and one that succeeds gives it back: so however many come
//! at once, no more are looked at than may fail. Unknown e-mail addresses are counted as known ones are.

use crate::http::{Problem, Source};
use crate::ids::UserId;
use crate::store::{Bound, Item, Key, Store, ttl};
use crate::time::Timestamp;

/// The time in which failures count, in seconds; quarters of the hour, for everybody the same.
const WINDOW_SECONDS: i64 = 15 * 60;

/// Log-ins to one e-mail address that may fail in a window: some 1,000 a day, of a password that is generated.
const MAX_FAILURES_OF_EMAIL: i64 = 10;

/// Log-ins from one address that may fail in a window: offices share one.
const MAX_FAILURES_FROM_ADDRESS: i64 = 100;

/// The attribute that counts.
const COUNTER: &str = "failures";

/// A window of the clock.
#[derive(Clone, Copy, Debug)]
struct Window {
    number: i64,
    ends_at: i64,
}

impl Window {
    fn of(now: Timestamp) -> Self {
        let number = now.seconds().div_euclid(WINDOW_SECONDS);
        Self { number, ends_at: number.saturating_add(1).saturating_mul(WINDOW_SECONDS) }
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
        source: Source,
        now: Timestamp,
    ) -> Result<Attempt, Problem> {
        let window = Window::of(now);
        let key = |who: String| Key { pk: format!("log-ins#{who}"), sk: window.number.to_string() };
        let keys = [key(source.network()), key(user.to_string())];
        let [from_address, of_email] = &keys;
        // One after the other: an address that may no longer try can't keep anybody else out by trying.
        for (key, max) in [(from_address, MAX_FAILURES_FROM_ADDRESS), (of_email, MAX_FAILURES_OF_EMAIL)] {
            let bound = Bound::AtMost { counter: COUNTER.to_owned(), most: max.saturating_sub(1) };
            if !self.store.count_within(key, (COUNTER, 1), window.ttl(), Some(bound)).await? {
                return Err(Problem::TooManyLogins {
                    limit: max,
                    retry_after_seconds: window.ends_at.saturating_sub(now.seconds()),
                });
            }
        }
        Ok(Attempt { window, keys })
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
        let at = |text: &str| Window::of(Timestamp::parse_floor(text).unwrap());
        let window = at("2026-11-21T10:15:00Z");
        assert_eq!(window.number, at("2026-11-21T10:29:59.999Z").number);
        assert_ne!(window.number, at("2026-11-21T10:30:00Z").number);
        assert_eq!(window.ends_at, Timestamp::parse_floor("2026-11-21T10:30:00Z").unwrap().seconds());
    }
}
