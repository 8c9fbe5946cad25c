//! The session of a browser: the dashboard token in a cookie.

use std::iter;

use domain::account::Account;
use domain::audit::Operator;
use domain::ids::{Mode, Scope};
use domain::shard::ShardedScope;
use domain::source_address::SourceAddress;
use domain::time::Timestamp;
use secrecy::{ExposeSecret, SecretString};

use axum::http::HeaderMap;

use super::log_in::NewToken;
use super::token::{BROWSER_SECONDS, Claims, TOKEN_SECONDS, TokenKind};
use super::{Dashboard, IssuedToken};
use crate::account::User;
use crate::http::{Problem, cookie, set_cookie};
use crate::language::{LANGUAGE_COOKIE, Language};

/// A browser accepts a `__Host-` cookie only with `Secure` and `Path=/` and without a domain, so that no other
/// host can set it.
pub const SESSION_COOKIE: &str = "__Host-session";
/// Between the password and the code of a log-in.
pub const PENDING_COOKIE: &str = "__Host-log-in";
/// Says that a user has logged in with this browser. It outlives the session.
pub const BROWSER_COOKIE: &str = "__Host-browser";
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

/// A user who is logged in: at the dashboard, or with a token of `/v1/api-keys`.
#[derive(Clone, Debug)]
pub struct Session {
    pub user: User,
    pub account: Account,
    /// Of the request.
    pub source: SourceAddress,
    pub(super) issued: IssuedToken,
}

impl Session {
    pub fn sharded_scope(&self, mode: Mode) -> ShardedScope {
        let scope = Scope { account: self.account.id, mode };
        ShardedScope { scope, shards: self.account.settings.shards.read }
    }

    /// Whether the account demands a second factor that the user has not turned on.
    pub fn lacks_second_factor(&self) -> bool {
        self.account.requires_second_factor && self.user.second_factor_at.is_none()
    }

    /// 403 `API_KEY_ROLE_REQUIRED` unless the role may manage API keys.
    pub fn require_key_manager(&self) -> Result<(), Problem> {
        if self.user.role.manages_keys() { Ok(()) } else { Err(Problem::ApiKeyRoleRequired) }
    }

    pub fn operator(&self) -> Operator {
        let reason = "asked for at the dashboard".to_owned();
        Operator { actor: self.user.id.to_string(), reason, source: self.source, ..Operator::default() }
    }

    /// Whether the user acts with this token.
    pub fn is_with(&self, issued: &IssuedToken) -> bool {
        self.issued.jti == issued.jti
    }

    /// In seconds of Unix time.
    pub fn logged_in_at(&self) -> i64 {
        self.issued.exp.saturating_sub(TOKEN_SECONDS)
    }
}

impl NewToken {
    /// The `Set-Cookie` headers: the session, the browser, and the language that the user chose, perhaps in another
    /// browser.
    pub fn cookies(&self) -> impl Iterator<Item = String> {
        let session = set_cookie(SESSION_COOKIE, self.token.expose_secret(), TOKEN_SECONDS);
        let known = |token: &SecretString| set_cookie(BROWSER_COOKIE, token.expose_secret(), BROWSER_SECONDS);
        iter::once(session).chain(self.browser.as_ref().map(known)).chain(self.language.map(language_cookie))
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
    pub async fn session(&self, claims: &Claims, source: SourceAddress) -> Result<Session, Problem> {
        let session = self.session_to_enrol(claims, source).await?;
        if session.lacks_second_factor() { Err(Problem::SecondFactorDemanded) } else { Ok(session) }
    }

    /// Like [`Dashboard::session`], for the few pages and forms by which a user turns on the second factor.
    pub async fn session_to_enrol(&self, claims: &Claims, source: SourceAddress) -> Result<Session, Problem> {
        self.read_session(claims, TokenKind::Session, source).await
    }
}
