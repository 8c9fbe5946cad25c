//! Limits failed log-ins, e-mails that forms send, and the requests of users who are logged in. The limit for an
//! e-mail address stops clients that guess one user's password; the limit for a network, one that tries one
//! password with many addresses.
//!
//! A stranger must not lock a user out. So the failures for an address are counted by network, and all networks
//! together have twenty times that limit. Browsers that have logged the user in before are counted apart.
//!
//! A log-in is counted as failed before its password is hashed, and subtracted again if it succeeds.
//! Concurrent attempts therefore can't verify more passwords than the limit allows.

use serde::{Deserialize, Serialize};

use domain::ids::{AccountId, UserId};
use domain::row::{Key, Row};
use domain::source_address::SourceAddress;
use domain::time::Timestamp;

use super::{Dashboard, Session};
use crate::account::TokenGeneration;
use crate::http::{Problem, RequestContext, Result};
use crate::queue::Message;
use crate::request_limit::{Window, count_in_minute};
use crate::store::{Inserted, Write};

/// In seconds. For all users, a window begins at every full quarter of an hour.
const WINDOW_SECONDS: i64 = 15 * 60;

/// From one network, or with one browser that has logged the user in before.
const MAX_FAILURES: i64 = 10;

/// From all networks together, or with all such browsers: about 19,000 guesses a day, too few for a password that is
/// not among the most common.
const MAX_FAILURES_OF_EMAIL: i64 = 20 * MAX_FAILURES;

/// Wrong codes after the right password, from all networks together. A code is guessed much sooner than a password.
const MAX_WRONG_CODES: i64 = 10;

/// For all e-mail addresses. All IPv6 addresses of a /64 network count as one. All users in an office may share one
/// address.
const MAX_FAILURES_FROM_NETWORK: i64 = 100;
const COUNTER: &str = "failures";

/// Links for a new password, in a window of failed log-ins.
const MAX_RESETS_OF_EMAIL: i64 = 3;
const MAX_RESETS_FROM_NETWORK: i64 = 30;

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

/// What distinguishes a user from strangers who try the same address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Known {
    /// The user acts with a session.
    Session,
    /// The user has logged in with this browser, which is named by the id in its cookie.
    Browser(String),
    No,
}

/// Who tries to log in.
#[derive(Debug)]
pub(super) struct Claimant {
    pub(super) user: UserId,
    /// Of the user's row. A new password, the end of all sessions and a change of the second factor set another, and so
    /// begin new counters. So an own link or an operator's reset opens a locked address. `None`: no such user.
    pub(super) generation: Option<TokenGeneration>,
    pub(super) known: Known,
    pub(super) source: SourceAddress,
}

impl Claimant {
    /// The counters of failures for the address with their limits, in the order in which they are counted: of the
    /// network, browser or sessions alone, of all like it, and of wrong codes. Only who has shown the right password
    /// gets to the last. A refusal by one counts nothing in the next.
    pub(super) fn counters(&self) -> [(String, i64); 3] {
        let (group, own) = match &self.known {
            Known::Session => ("session#", "session".to_owned()),
            Known::Browser(id) => ("known#", id.clone()),
            Known::No => ("", self.source.network()),
        };
        let generation = self.generation.map(|generation| format!("#{generation}")).unwrap_or_default();
        let name = format!("{}{generation}", self.user);
        [
            (format!("{name}#{own}"), MAX_FAILURES),
            (format!("{group}{name}"), MAX_FAILURES_OF_EMAIL),
            (format!("code#{group}{name}"), MAX_WRONG_CODES),
        ]
    }
}

#[derive(Debug)]
pub(super) struct Attempt {
    window: Window,
    keys: Vec<Key>,
    /// Uses up a limit of the address until the window ends, unless this attempt succeeds.
    pub(super) is_last: bool,
}

/// The failed log-in that used up a limit of an address. The mailer writes the audit row, if the address has a user. So
/// the request does the same for an address without one.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct LockOut {
    pub locked_out: UserId,
    pub source: SourceAddress,
    pub at: Timestamp,
}

impl Message for LockOut {
    /// As that of the e-mails to users.
    fn group(&self) -> String {
        "users".to_owned()
    }
}

impl Dashboard {
    /// [`Dashboard::uncount_attempt`] reverts it. 429 `rate_limited` when a limit is used up.
    pub(super) async fn count_attempt(&self, claimant: &Claimant, now: Timestamp) -> Result<Attempt> {
        let window = Window::of(now, WINDOW_SECONDS);
        let mut attempt = Attempt { window, keys: Vec::new(), is_last: false };
        // Who is known is not counted for the network, which may be shared with strangers.
        if claimant.known == Known::No {
            let network = (claimant.source.network(), MAX_FAILURES_FROM_NETWORK);
            self.count_failure(&mut attempt, network, now).await?;
            attempt.is_last = false;
        }
        let [own, shared, _code] = claimant.counters();
        self.count_failure(&mut attempt, own, now).await?;
        self.count_failure(&mut attempt, shared, now).await?;
        Ok(attempt)
    }

    /// 429 `rate_limited` when the limit is used up.
    pub(super) async fn count_failure(
        &self,
        attempt: &mut Attempt,
        (counted, max): (String, i64),
        now: Timestamp,
    ) -> Result<()> {
        let key = Key { pk: format!("log-ins#{counted}"), sk: attempt.window.number.to_string() };
        attempt.is_last |= self.count(&key, max, attempt.window, now).await?;
        attempt.keys.push(key);
        Ok(())
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

    /// Counts a request for a new password. `false`: the address got as many links as it may in this window, and gets no
    /// other. The response is the same, because a stranger may have requested those. 429 `rate_limited` above 30
    /// requests of a network in a quarter of an hour.
    pub async fn count_reset(&self, user: &UserId, source: SourceAddress, now: Timestamp) -> Result<bool> {
        let window = Window::of(now, WINDOW_SECONDS);
        let key = |counted| Key { pk: format!("resets#{counted}"), sk: window.number.to_string() };
        self.count(&key(source.network()), MAX_RESETS_FROM_NETWORK, window, now).await?;
        let (links, max) = (key(user.to_string()), Some(MAX_RESETS_OF_EMAIL));
        Ok(self.store.add_up_to(&links, (COUNTER, 1), window.ttl(), max).await?.is_some())
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
