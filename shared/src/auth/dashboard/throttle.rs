//! Limits failed log-ins, e-mails that forms send, and the requests of users who are logged in. The limit for an
//! e-mail address stops a client that guesses one user's password; the limit for a source address, one that tries
//! one password with many addresses.
//!
//! A log-in is counted as failed before its password is verified, and subtracted again if it succeeds.
//! Concurrent attempts therefore can't verify more passwords than the limit allows.

use serde::{Deserialize, Serialize};

use domain::ids::{AccountId, UserId};
use domain::row::{Key, Row};
use domain::source_address::SourceAddress;
use domain::time::Timestamp;

use super::{Dashboard, Session};
use crate::http::{Problem, RequestContext, Result};
use crate::request_limit::{Window, count_in_minute};
use crate::store::{Inserted, Write};

/// In seconds. For all users, a window begins at every full quarter of an hour.
const WINDOW_SECONDS: i64 = 15 * 60;

/// About 1,000 guesses a day, too few for a password that is not among the most common.
const MAX_FAILURES_OF_EMAIL: i64 = 10;

/// All IPv6 addresses of a /64 network count as one. All users in an office may share one address.
const MAX_FAILURES_FROM_ADDRESS: i64 = 100;
const COUNTER: &str = "failures";

/// Links for a new password, in a window of failed log-ins.
const MAX_RESETS_OF_EMAIL: i64 = 3;
const MAX_RESETS_FROM_ADDRESS: i64 = 30;

/// An account's invites in a day (UTC). Withdrawn ones count, so that an account can't be used to mail strangers.
const MAX_INVITES_A_DAY: i64 = 50;

/// Of the key of a form, which has 32.
const MAX_KEY_BYTES: usize = 64;

/// Of the key of a form with the action and the id of its object. No id is long enough to exceed it.
const MAX_FORM_KEY_BYTES: usize = 256;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// With all tokens of the user and on all routes of the API.
const MAX_REQUESTS_A_MINUTE: i64 = 60;

/// Pages and forms. A page that refreshes itself every 10 seconds takes six of them.
const MAX_PAGES_A_MINUTE: i64 = 300;

#[derive(Debug)]
pub(super) struct Attempt {
    window: Window,
    keys: [Key; 2],
    /// Locks the e-mail address until the window ends, unless this attempt succeeds.
    pub(super) is_last: bool,
}

impl Dashboard {
    /// [`Dashboard::uncount_attempt`] reverts it. 429 `rate_limited` when the address or the user has no failure
    /// left. What a user with a session shows is counted apart, because a stranger who fails to log in must not keep
    /// the user from acting.
    pub(super) async fn count_attempt(
        &self,
        user: &UserId,
        has_session: bool,
        source: SourceAddress,
        now: Timestamp,
    ) -> Result<Attempt> {
        let window = Window::of(now, WINDOW_SECONDS);
        let key = |counted: String| Key { pk: format!("log-ins#{counted}"), sk: window.number.to_string() };
        let of_user = if has_session { format!("session#{user}") } else { user.to_string() };
        let keys = [key(source.network()), key(of_user)];
        let [from_address, of_email] = &keys;
        // The counter of the source address is first. If the source address has reached its limit, its
        // attempts are not counted for the e-mail address, so they can't lock the user out.
        self.count(from_address, MAX_FAILURES_FROM_ADDRESS, window, now).await?;
        let is_last = self.count(of_email, MAX_FAILURES_OF_EMAIL, window, now).await?;
        Ok(Attempt { window, keys, is_last })
    }

    /// Returns whether this was the last that the window permits. 429 `rate_limited` if it permits no more.
    async fn count(&self, key: &Key, max: i64, window: Window, now: Timestamp) -> Result<bool> {
        let counted = self.store.add_up_to(key, (COUNTER, 1), window.ttl(), Some(max)).await?;
        let refused = Problem::TooManyLogins { limit: max, retry_after_seconds: window.left(now) };
        counted.map(|counted| counted >= max).ok_or(refused)
    }

    pub(super) async fn uncount_attempt(&self, attempt: Attempt) -> Result<()> {
        for key in &attempt.keys {
            self.store.add_up_to(key, (COUNTER, -1), attempt.window.ttl(), None).await?;
        }
        Ok(())
    }
}

/// A form that was sent, by the key that its page has. It is kept for longer than a session lasts.
#[derive(Debug, Deserialize, Serialize)]
pub struct SentForm {
    user: UserId,
    key: String,
    #[serde(with = "domain::time::millis")]
    sent_at: Timestamp,
}

impl Row for SentForm {
    fn key(&self) -> Key {
        Key { pk: format!("form#{}", self.user), sk: self.key.clone() }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.sent_at.plus_seconds(DAY_SECONDS).ok()
    }
}

impl Dashboard {
    /// 429 `rate_limited` above 60 requests of the API a minute.
    pub(super) async fn count_api_request(
        &self,
        session: &Session,
        context: &RequestContext,
        now: Timestamp,
    ) -> Result<()> {
        let limit = (format!("dashboard-requests#{}", session.user.id), MAX_REQUESTS_A_MINUTE);
        count_in_minute(&self.store, limit, (context, session.account.id.to_string()), now).await
    }

    /// 429 `rate_limited` above 300 pages and forms a minute. They have their own limit, so that pages left open can't
    /// lock the user out of the API.
    pub async fn count_page(
        &self,
        session: &Session,
        context: &RequestContext,
        now: Timestamp,
    ) -> Result<()> {
        let limit = (format!("dashboard-pages#{}", session.user.id), MAX_PAGES_A_MINUTE);
        count_in_minute(&self.store, limit, (context, session.account.id.to_string()), now).await
    }

    /// Counts a link for a new password. 429 `rate_limited` above 3 for an address, or 30 from a source address, in a
    /// quarter of an hour.
    pub async fn count_reset(&self, user: &UserId, source: SourceAddress, now: Timestamp) -> Result<()> {
        let window = Window::of(now, WINDOW_SECONDS);
        for (counted, max) in
            [(source.network(), MAX_RESETS_FROM_ADDRESS), (user.to_string(), MAX_RESETS_OF_EMAIL)]
        {
            let key = Key { pk: format!("resets#{counted}"), sk: window.number.to_string() };
            self.count(&key, max, window, now).await?;
        }
        Ok(())
    }

    /// Records that a form was sent. `None`: it was sent before.
    pub async fn begin_form(
        &self,
        user: UserId,
        (action, key): (&str, &str),
        now: Timestamp,
    ) -> Result<Option<SentForm>> {
        let form = SentForm { user, key: format!("{key}#{action}"), sent_at: now };
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(Problem::field("idempotency_key", "must be the key in the page of the form"));
        }
        if form.key.len() > MAX_FORM_KEY_BYTES {
            return Err(Problem::NotFound { what: "object" });
        }
        Ok(matches!(self.store.insert(&form).await?, Inserted::New).then_some(form))
    }

    /// Lets a form be sent again, because what it is for was not done.
    pub async fn release_form(&self, form: &SentForm) {
        if let Err(error) = self.store.commit(vec![Write::remove_any(form.key())]).await {
            tracing::error!(%error, "a form whose action failed can't be sent again");
        }
    }

    /// 429 `rate_limited` above 50 invites of an account in a day.
    pub async fn count_invite(&self, account: &AccountId, now: Timestamp) -> Result<()> {
        let window = Window::of(now, DAY_SECONDS);
        let key = Key { pk: format!("invites#{account}"), sk: window.number.to_string() };
        self.count(&key, MAX_INVITES_A_DAY, window, now).await?;
        Ok(())
    }
}
