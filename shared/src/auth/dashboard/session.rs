//! The session of a browser: the dashboard token in a cookie.

use std::iter;

use domain::account::Account;
use domain::ids::{Mode, Scope};
use domain::shard::ShardedScope;
use domain::source_address::SourceAddress;
use domain::time::Timestamp;
use secrecy::{ExposeSecret, SecretString};

use axum::http::HeaderMap;

use super::token::{Claims, TOKEN_SECONDS, TokenKind};
use super::{Counted, Dashboard, Member};
use crate::account::User;
use crate::auth::dashboard::log_in::NewToken;
use crate::http::{Problem, RequestContext, cookie, set_cookie};
use crate::language::{LANGUAGE_COOKIE, Language};

/// A browser accepts a `__Host-` cookie only with `Secure` and `Path=/` and without a domain, so that no other
/// host can set it.
pub const SESSION_COOKIE: &str = "__Host-session";
/// Between the password and the code of a log-in.
pub const PENDING_COOKIE: &str = "__Host-log-in";
pub const MODE_COOKIE: &str = "__Host-mode";

/// A year.
const CHOICE_SECONDS: i64 = 365 * 24 * 60 * 60;

/// Returns the mode that the pages show; without a choice, that of tests.
pub fn shown_mode(headers: &HeaderMap) -> Mode {
    cookie(headers, MODE_COOKIE).and_then(|mode| mode.parse().ok()).unwrap_or(Mode::Test)
}

/// The `Set-Cookie` header of a choice.
pub fn choice_cookie(name: &str, value: &str) -> String {
    set_cookie(name, value, CHOICE_SECONDS)
}

pub fn language_cookie(language: Language) -> String {
    choice_cookie(LANGUAGE_COOKIE, language.tag())
}

/// A user who is logged in at the dashboard.
#[derive(Clone, Debug)]
pub struct Session {
    pub user: User,
    pub account: Account,
    pub member: Member,
}

impl Session {
    pub fn sharded_scope(&self, mode: Mode) -> ShardedScope {
        let scope = Scope { account: self.account.id, mode };
        ShardedScope { scope, shards: self.account.settings.shards.read }
    }
}

impl Session {
    pub fn lacks_second_factor(&self) -> bool {
        super::lacks_second_factor(&self.user, &self.account)
    }
}

impl NewToken {
    /// The `Set-Cookie` headers: the session, and the language that the user chose, perhaps in another browser.
    pub fn cookies(&self) -> impl Iterator<Item = String> {
        let session = set_cookie(SESSION_COOKIE, self.token.expose_secret(), TOKEN_SECONDS);
        iter::once(session).chain(self.language.map(language_cookie))
    }
}

impl Dashboard {
    /// Verifies the signature and expiry of the token in the cookie, without a read. [`Dashboard::session`] must
    /// follow before anything is shown. 401 `unauthorized`.
    pub fn claims_of_cookie(&self, headers: &HeaderMap, now: Timestamp) -> Result<Claims, Problem> {
        let token = cookie(headers, SESSION_COOKIE).map(SecretString::from);
        self.claims(TokenKind::Session, token.as_ref(), now)
    }

    /// Verifies that the token is still valid, and reads the account, in one request. 401 `unauthorized`; 403
    /// `totp_enrolment_required` for a user without the second factor that the account demands.
    pub async fn session(&self, claims: Claims) -> Result<Session, Problem> {
        let session = self.session_to_enrol(claims).await?;
        if session.lacks_second_factor() { Err(Problem::SecondFactorDemanded) } else { Ok(session) }
    }

    /// Like [`Dashboard::session`], for the few pages and forms by which a user turns on the second factor.
    pub async fn session_to_enrol(&self, claims: Claims) -> Result<Session, Problem> {
        let (user, account, issued) = self.holder(&claims, TokenKind::Session).await?;
        let (account_id, source) = (user.account, SourceAddress::default());
        let member = Member { user: user.id, account: account_id, role: user.role, source, issued };
        Ok(Session { account: account.ok_or(Problem::NotLoggedIn)?, user, member })
    }

    /// 429 `rate_limited` above 300 pages and forms a minute.
    pub async fn count_page(
        &self,
        session: &Session,
        context: &RequestContext,
        now: Timestamp,
    ) -> Result<(), Problem> {
        self.throttle.count_request(&session.user, Counted::Page, context, now).await
    }
}
