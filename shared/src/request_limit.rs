//! Limits the requests of a client in a window of fixed length. A counter's row belongs to one client and one
//! window, so it needs no reset.

use std::fmt::Display;

use domain::row::Key;
use domain::time::Timestamp;

use crate::http::{Problem, RateLimit, RequestContext};
use crate::store::{Item, Store, StoreError, ttl};

const SECONDS_A_MINUTE: i64 = 60;

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

    pub fn minute(now: Timestamp) -> Self {
        Self::of(now, SECONDS_A_MINUTE)
    }

    pub fn left(self, now: Timestamp) -> i64 {
        self.ends_at.saturating_sub(now.seconds())
    }

    /// The `ttl` attribute of a counter's row. DynamoDB may remove the row after the window has ended.
    pub fn ttl(self) -> Item {
        ttl(self.ends_at)
    }

    pub fn key(self, pk: String) -> Key {
        Key { pk, sk: self.number.to_string() }
    }

    /// Adds to a counter of this window. `None`: it would exceed `max`, and nothing is counted.
    pub async fn add(
        self,
        store: &Store,
        pk: String,
        counter: (&str, i64),
        max: Option<i64>,
    ) -> Result<Option<i64>, StoreError> {
        store.add_up_to(&self.key(pk), counter, self.ttl(), max).await
    }
}

/// A limit on what one client may do in a window.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The prefix of the counters' rows.
    pub name: &'static str,
    /// The attribute that counts.
    pub counter: &'static str,
    /// The length of the window.
    pub seconds: i64,
    pub max: i64,
}

impl Limit {
    /// A limit of requests in a clock minute.
    pub const fn a_minute(name: &'static str, max: i64) -> Self {
        Self { name, counter: "requests", seconds: SECONDS_A_MINUTE, max }
    }

    /// Counts one. Returns how many there are, or in how many seconds the window ends if there would be too many.
    pub async fn count(
        &self,
        store: &Store,
        client: impl Display,
        now: Timestamp,
    ) -> Result<Result<i64, i64>, StoreError> {
        let window = Window::of(now, self.seconds);
        let pk = format!("{}#{client}", self.name);
        let counted = window.add(store, pk, (self.counter, 1), Some(self.max)).await?;
        Ok(counted.ok_or_else(|| window.left(now)))
    }

    /// Counts a request. Stores the requests left for the response headers, and `scope` for the log. A refused request
    /// is not counted.
    /// Errors: 429 `rate_limited` if the window has no request left.
    pub async fn count_request(
        &self,
        store: &Store,
        client: impl Display,
        (context, scope): (&RequestContext, String),
        now: Timestamp,
    ) -> Result<(), Problem> {
        let counted = self.count(store, client, now).await?;
        let remaining = self.max.saturating_sub(counted.unwrap_or(self.max));
        let count = |number: i64| u64::try_from(number).unwrap_or_default();
        context.set_caller(RateLimit { limit: count(self.max), remaining: count(remaining) }, scope, None);
        counted.map(drop).map_err(|retry_after_seconds| Problem::RateLimited { retry_after_seconds })
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
