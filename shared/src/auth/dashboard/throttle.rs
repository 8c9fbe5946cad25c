//! Limits failed log-ins, and the requests of users who are logged in. The limit for an e-mail address stops
//! a client that guesses one user's password. The limit for a source address stops a client that tries one
//! password with many e-mail addresses.
//!
//! A log-in is counted as failed before its password is verified, and subtracted again if it succeeds.
//! Concurrent attempts therefore can't verify more passwords than the limit allows. Log-ins to unknown e-mail
//! addresses are counted in the same way.

use domain::ids::UserId;
use domain::row::Key;
use domain::source_address::SourceAddress;
use domain::time::Timestamp;

use crate::account::User;
use crate::http::{Problem, RequestContext};
use crate::request_limit::{Window, count_in_minute};
use crate::store::{Bound, Store};

/// The length of a window in which failures are counted, in seconds. For all users, a window begins at every
/// full quarter of an hour.
const WINDOW_SECONDS: i64 = 15 * 60;

/// The most failed log-ins to one e-mail address in a window. That allows about 1,000 guesses a day, far too
/// few for a generated password.
const MAX_FAILURES_OF_EMAIL: i64 = 10;

/// The most failed log-ins from one source address in a window. All IPv6 addresses of a /64 network count as
/// one. This limit is higher, because all users in an office may share one source address.
const MAX_FAILURES_FROM_ADDRESS: i64 = 100;

/// The attribute that counts failed log-ins.
const COUNTER: &str = "failures";

/// The most requests of a user in a clock minute. The requests with all of the user's tokens and on all
/// routes count together.
const MAX_REQUESTS_A_MINUTE: i64 = 60;

/// A log-in attempt that both counters count as failed.
#[derive(Debug)]
pub(super) struct Attempt {
    window: Window,
    keys: [Key; 2],
    /// Whether the e-mail address is locked until the window ends, unless this attempt succeeds.
    pub(super) is_last: bool,
}

/// Counts failed log-ins and requests. Clones share one DynamoDB client.
#[derive(Clone, Debug)]
pub(super) struct Throttle {
    store: Store,
}

impl Throttle {
    /// Creates a throttle whose counters are in `store`.
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Counts a log-in attempt as failed. [`Throttle::uncount_attempt`] reverts this.
    ///
    /// # Errors
    ///
    /// 429 `rate_limited` if the failures of the source address or of the e-mail address have reached their
    /// limit.
    pub(super) async fn count_attempt(
        &self,
        user: &UserId,
        source: SourceAddress,
        now: Timestamp,
    ) -> Result<Attempt, Problem> {
        let window = Window::of(now, WINDOW_SECONDS);
        let key = |counted: String| Key { pk: format!("log-ins#{counted}"), sk: window.number.to_string() };
        let keys = [key(source.network()), key(user.to_string())];
        let [from_address, of_email] = &keys;
        // The counter of the source address is first. If the source address has reached its limit, its
        // attempts are not counted for the e-mail address, so they can't lock the user out.
        let mut is_last = false;
        for (key, max) in [(from_address, MAX_FAILURES_FROM_ADDRESS), (of_email, MAX_FAILURES_OF_EMAIL)] {
            let bound = Bound::AtMost { counter: COUNTER.to_owned(), most: max.saturating_sub(1) };
            let counted =
                self.store.add_within_bound_and_get(key, (COUNTER, 1), window.ttl(), Some(bound)).await?;
            match counted {
                Some(failures) => is_last = failures >= max,
                None => {
                    return Err(Problem::TooManyLogins { limit: max, retry_after_seconds: window.left(now) });
                }
            }
        }
        Ok(Attempt { window, keys, is_last })
    }

    /// Counts a request of a user, and stores the requests left in this minute for the response headers. A
    /// refused request is not counted.
    ///
    /// # Errors
    ///
    /// 429 `rate_limited` if the user has no request left in this minute.
    pub(super) async fn count_request(
        &self,
        user: &User,
        context: &RequestContext,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let limit = (format!("dashboard-requests#{}", user.id), MAX_REQUESTS_A_MINUTE);
        count_in_minute(&self.store, limit, (context, user.account.to_string()), now).await
    }

    /// Subtracts a log-in attempt that succeeded from both counters.
    pub(super) async fn uncount_attempt(&self, attempt: Attempt) -> Result<(), Problem> {
        for key in &attempt.keys {
            self.store.add_within_bound(key, (COUNTER, -1), attempt.window.ttl(), None).await?;
        }
        Ok(())
    }
}
