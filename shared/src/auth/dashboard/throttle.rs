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
use domain::time::{SECONDS_A_DAY, Timestamp};

use super::{Dashboard, Session};
use crate::account::TokenGeneration;
use crate::http::{Problem, RequestContext, Result};
use crate::queue::Message;
use crate::request_limit::{Limit, Window};
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
const RESETS_OF_EMAIL: Limit = Limit { name: "resets", counter: COUNTER, seconds: WINDOW_SECONDS, max: 3 };
const RESETS_FROM_NETWORK: Limit = Limit { max: 30, ..RESETS_OF_EMAIL };

/// An account's invites in a day (UTC). Withdrawn ones count, so that an account can't be used to mail strangers.
const INVITES: Limit = Limit { name: "invites", counter: COUNTER, seconds: SECONDS_A_DAY, max: 50 };

/// Of the key of a form, which has 32.
const MAX_KEY_BYTES: usize = 64;

/// Of the key of a form with the action and the id of its object. No id is long enough to exceed it.
const MAX_FORM_KEY_BYTES: usize = 256;

/// With all tokens of the user and on all routes of the API.
pub(super) const REQUESTS: Limit = Limit::a_minute("dashboard-requests", 60);

/// Pages and forms. A page that refreshes itself every 10 seconds takes six of them.
pub const PAGES: Limit = Limit::a_minute("dashboard-pages", 300);

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
pub(super) struct LogInAttempt {
    window: Window,
    /// Their partitions.
    counters: Vec<String>,
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
    pub(super) async fn count_attempt(&self, claimant: &Claimant, now: Timestamp) -> Result<LogInAttempt> {
        let window = Window::of(now, WINDOW_SECONDS);
        let mut attempt = LogInAttempt { window, counters: Vec::new(), is_last: false };
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
        attempt: &mut LogInAttempt,
        (counted, max): (String, i64),
        now: Timestamp,
    ) -> Result<()> {
        let (window, pk) = (attempt.window, format!("log-ins#{counted}"));
        let counted = window.add(&self.store, pk.clone(), (COUNTER, 1), Some(max)).await?;
        let counted = counted.ok_or_else(|| too_many(max, window.left(now)))?;
        attempt.is_last |= counted >= max;
        attempt.counters.push(pk);
        Ok(())
    }

    pub(super) async fn uncount_attempt(&self, attempt: LogInAttempt) -> Result<()> {
        for pk in attempt.counters {
            attempt.window.add(&self.store, pk, (COUNTER, -1), None).await?;
        }
        Ok(())
    }
}

fn too_many(limit: i64, retry_after_seconds: i64) -> Problem {
    Problem::TooManyLogins { limit, retry_after_seconds }
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
        self.sent_at.plus_seconds(SECONDS_A_DAY).ok()
    }
}

impl Dashboard {
    /// 429 `rate_limited` above the limit: 60 requests of the API a minute, or 300 pages and forms. Pages have their own
    /// limit, so that pages left open can't lock the user out of the API.
    pub async fn count_request(
        &self,
        limit: Limit,
        session: &Session,
        context: &RequestContext,
        now: Timestamp,
    ) -> Result<()> {
        let noted = (context, session.account.id.to_string());
        limit.count_request(&self.store, session.user.id, noted, now).await
    }

    /// Counts a request for a new password. `false`: the address got as many links as it may in this window, and gets no
    /// other. The response is the same, because a stranger may have requested those. 429 `rate_limited` above 30
    /// requests of a network in a quarter of an hour.
    pub async fn count_reset(&self, user: &UserId, source: SourceAddress, now: Timestamp) -> Result<bool> {
        let of_network = RESETS_FROM_NETWORK.count(&self.store, source.network(), now).await?;
        of_network.map_err(|left| too_many(RESETS_FROM_NETWORK.max, left))?;
        Ok(RESETS_OF_EMAIL.count(&self.store, user, now).await?.is_ok())
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
        let counted = INVITES.count(&self.store, account, now).await?;
        counted.map(drop).map_err(|left| too_many(INVITES.max, left))
    }
}
