//! Authenticates dashboard users by their token. The user's rights are read from the user's row on each
//! request, so that a removed user loses access at once.

pub mod log_in;
mod security;
mod session;
mod throttle;
pub mod token;
mod totp;

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tracing::field;

use domain::account::Account;
use domain::audit::{Action, Audit, Operator};
use domain::hex;
use domain::ids::{AccountId, UserId};
use domain::row::{Key, Row};
use domain::source_address::SourceAddress;
use domain::time::Timestamp;

use self::log_in::{Credentials, LogIn, NewToken};
pub use self::session::{
    BROWSER_COOKIE, MODE_COOKIE, PENDING_COOKIE, SESSION_COOKIE, Session, choice_cookie, language_cookie,
    shown_mode,
};
use self::throttle::{Claimant, Known};
pub use self::throttle::{LockOut, PAGES};
use self::token::{Claims, TokenKind, Tokens};
pub use self::totp::{Enrolment, forget_second_factor};
use crate::account::password::{PasswordChecker, PasswordHash};
use crate::account::{TokenGeneration, USER, User};
use crate::config::{ConfigError, Vars};
use crate::http::{Problem, RequestContext, Result};
use crate::queue::Queue;
use crate::store::{CommitOutcome, Store, Write, from_item, text};
use crate::{audit, metrics, random};

/// Rows of sessions, by user.
const SESSIONS: &str = "session#";

/// The variable with the public keys of dashboard tokens. It is empty until the operator has set the parameter.
pub const PUBLIC_KEYS: &str = "DASHBOARD_TOKEN_PUBLIC_KEYS";

/// The longest `User-Agent` that is stored, in characters.
const MAX_AGENT: usize = 200;

/// A session: a token is valid while this row exists. A log-out removes it, and DynamoDB after the token's expiry.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct IssuedToken {
    user: UserId,
    account: AccountId,
    pub kind: TokenKind,
    generation: TokenGeneration,
    jti: String,
    exp: i64,
    /// Of the log-in or the confirmation that began the session.
    pub source: SourceAddress,
    /// What the browser or program calls itself, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

impl IssuedToken {
    /// A new token of a user, and its row, which the caller inserts. If the password is reset after the read of the
    /// user's row, the token is already invalid, because it has the generation in that row.
    pub fn new(
        tokens: &Tokens,
        (kind, user): (TokenKind, &User),
        (source, agent): (SourceAddress, Option<String>),
        now: Timestamp,
    ) -> Result<(NewToken, Self)> {
        let jti = hex::encode(random::bytes::<16>()?);
        let holder = (user.id, user.account, user.role, user.token_generation);
        let (token, Claims { exp, .. }) = tokens.issue(kind, holder, &jti, now)?;
        let expires_at = Timestamp::MIN.plus_seconds(exp);
        let expires_at = expires_at.map_err(|error| Problem::Internal(error.to_string()))?;
        let (user_id, account, generation) = (user.id, user.account, user.token_generation);
        let browser =
            (kind == TokenKind::Session).then(|| tokens.issue(TokenKind::Browser, holder, &jti, now));
        let browser = browser.transpose()?.map(|(token, _claims)| token);
        let issued = Self { user: user_id, account, kind, generation, jti, exp, source, agent };
        Ok((NewToken { user: user_id, token, expires_at, browser, language: user.language }, issued))
    }

    /// Ids sort by time.
    pub fn id(&self) -> String {
        id_of(self.exp, &self.jti)
    }

    fn key_of(user: UserId, id: String) -> Key {
        Key { pk: format!("{SESSIONS}{user}"), sk: id }
    }

    pub fn logged_in_at(&self) -> Option<Timestamp> {
        Timestamp::MIN.plus_seconds(self.exp.saturating_sub(token::TOKEN_SECONDS)).ok()
    }
}

fn id_of(exp: i64, jti: &str) -> String {
    format!("{exp:012}-{jti}")
}

impl Row for IssuedToken {
    fn key(&self) -> Key {
        Self::key_of(self.user, self.id())
    }

    fn removable_at(&self) -> Option<Timestamp> {
        Timestamp::MIN.plus_seconds(self.exp).ok()
    }
}

pub const BY_LOG_IN: &str = "requested at the log-in";
const BY_LOG_OUT: &str = "requested at the dashboard";

fn log_refused(user: &UserId, source: SourceAddress, reason: &str) {
    metrics::increment(metrics::LOG_INS_REFUSED);
    tracing::warn!(%user, source = source.ip().map(field::display), reason, "a log-in was refused");
}

/// Clones share one DynamoDB client.
#[derive(Clone, Debug)]
pub struct Dashboard {
    store: Store,
    tokens: Tokens,
    password_checker: PasswordChecker,
    /// The table of secrets, which has the seeds of second factors. `None` in functions that check no code.
    secrets: Option<Store>,
    /// The mailer's queue. `None` in functions that check no password.
    lock_outs: Option<Queue<LockOut>>,
}

impl Dashboard {
    /// Reads `DASHBOARD_TOKEN_PUBLIC_KEYS` and, in the function that signs, `DASHBOARD_TOKEN_SECRET`; see
    /// [`Tokens::new`].
    pub fn from_vars(store: Store, var: Vars<'_>) -> Result<Self, ConfigError> {
        let secret = var("DASHBOARD_TOKEN_SECRET").map(SecretString::from);
        let tokens = Tokens::new(&var(PUBLIC_KEYS).unwrap_or_default(), secret.as_ref())?;
        let secrets = var("SECRETS_TABLE_NAME").map(|table| Store::new(store.client().clone(), table));
        Ok(Self { secrets, store, tokens, password_checker: PasswordChecker::default(), lock_outs: None })
    }

    #[must_use]
    pub fn with_lock_outs(self, queue: Queue<LockOut>) -> Self {
        Self { lock_outs: Some(queue), ..self }
    }

    /// Verifies the token with one read, then counts the request with one update. A refused token is not
    /// counted, because the holder of a revoked token could use up the user's limit. Fails in this order: 401
    /// `unauthorized`, also for a removed user or a new password; 429 `rate_limited` above 60 requests a
    /// minute; 403 `totp_enrolment_required`; 400 `invalid_request` for any query parameter.
    pub async fn authenticate(&self, context: &RequestContext, now: Timestamp) -> Result<Session> {
        let claims = self.claims(TokenKind::Api, context.headers.bearer.as_ref(), now)?;
        let session = self.read_session(&claims, TokenKind::Api, context.source).await?;
        self.count_request(throttle::REQUESTS, &session, context, now).await?;
        if session.lacks_second_factor() {
            return Err(Problem::SecondFactorDemanded);
        }
        context.query.require_empty()?;
        Ok(session)
    }

    fn claims(&self, kind: TokenKind, token: Option<&SecretString>, now: Timestamp) -> Result<Claims> {
        token.and_then(|token| self.tokens.verify(kind, token, now)).ok_or(Problem::NotLoggedIn)
    }

    /// Reads the user, the account and the session in one request. 401 `unauthorized` if the token is not valid.
    async fn read_session(&self, claims: &Claims, kind: TokenKind, source: SourceAddress) -> Result<Session> {
        let id = id_of(claims.exp, &claims.jti);
        let session = IssuedToken::key_of(claims.sub, id);
        let keys = [User::key_of(&claims.sub), session, Account::key_of(&claims.account_id)];
        let (mut user, mut account, mut issued) = (None, None, None);
        for row in self.store.batch_get(&keys).await? {
            match text(&row, "pk") {
                Some(pk) if pk.starts_with(SESSIONS) => issued = Some(from_item::<IssuedToken>(row)?),
                _ if text(&row, "sk").as_deref() == Some(USER) => user = Some(from_item::<User>(row)?),
                _ => account = Some(from_item::<Account>(row)?),
            }
        }
        let user = user.filter(|user| claims.is_valid_for(user));
        let issued = issued.filter(|issued| issued.kind == kind);
        let found = user.zip(account).zip(issued);
        let ((user, account), issued) = found.ok_or(Problem::NotLoggedIn)?;
        Ok(Session { user, account, source, issued })
    }

    /// Logs the result with the user's id. The account's audit records log-ins, and the failure that locks the
    /// address. An unknown address and a wrong password have the same error (401) and take the same time, so
    /// that a client can't find out which addresses have a user. 429 `rate_limited` after too many failures.
    pub async fn log_in(
        &self,
        kind: TokenKind,
        Credentials { email, password, totp, browser }: Credentials,
        context: &RequestContext,
        now: Timestamp,
    ) -> Result<LogIn> {
        let id = UserId::from_email(&email);
        let shown = (Some(password), totp.as_ref().map(ExposeSecret::expose_secret));
        let known = self.known(browser.as_ref(), &id, now);
        let user = self.prove((id, known), shown, context.source, now).await?;
        if user.second_factor_at.is_some() && totp.is_none() {
            let holder = (user.id, user.account, user.role, user.token_generation);
            return Ok(LogIn::Pending(self.tokens.issue(TokenKind::Pending, holder, "", now)?.0));
        }
        self.enter(kind, &user, context, now).await.map(LogIn::Done)
    }

    /// Completes a log-in whose password was right. 401 `unauthorized` if that was more than five minutes ago, or for a
    /// wrong code.
    pub async fn log_in_with_code(
        &self,
        (pending, browser): (Option<&str>, Option<&str>),
        code: &str,
        context: &RequestContext,
        now: Timestamp,
    ) -> Result<NewToken> {
        let claims = self.claims(TokenKind::Pending, pending.map(SecretString::from).as_ref(), now)?;
        let known = self.known(browser.map(SecretString::from).as_ref(), &claims.sub, now);
        let user = self.prove((claims.sub, known), (None, Some(code)), context.source, now).await?;
        // A new password since then ended the log-in too.
        if claims.is_valid_for(&user) {
            self.enter(TokenKind::Session, &user, context, now).await
        } else {
            Err(Problem::NotLoggedIn)
        }
    }

    fn known(&self, browser: Option<&SecretString>, user: &UserId, now: Timestamp) -> Known {
        let claims = browser.and_then(|token| self.tokens.verify(TokenKind::Browser, token, now));
        let claims = claims.filter(|claims| claims.sub == *user);
        claims.map_or(Known::No, |claims| Known::Browser(claims.jti))
    }

    /// Verifies what a user shows: the password, the code of the second factor, or both. It counts as a failed log-in
    /// until it is right. A code that is not needed is ignored.
    async fn prove(
        &self,
        (id, known): (UserId, Known),
        (password, code): (Option<SecretString>, Option<&str>),
        source: SourceAddress,
        now: Timestamp,
    ) -> Result<User> {
        // Read before the attempt is counted, because a new password begins with new counters.
        let user: Option<User> = self.store.get(&User::key_of(&id)).await?;
        let generation = user.as_ref().map(|user| user.token_generation);
        let claimant = Claimant { user: id, generation, known, source };
        let log_lock = |problem: &Problem| {
            if matches!(problem, Problem::TooManyLogins { .. }) {
                log_refused(&id, source, "locked out");
            }
        };
        let mut attempt = self.count_attempt(&claimant, now).await.inspect_err(log_lock)?;
        let has_second_factor = user.as_ref().is_some_and(|user| user.second_factor_at.is_some());
        // Without a password, the code must be checked.
        let mut is_right = has_second_factor;
        let mut reason = "wrong e-mail address or password";
        if let Some(password) = password {
            let hash = user.as_ref().map(|user| user.password_hash.clone());
            is_right = self.password_checker.verify(password, hash).await?;
        }
        if is_right
            && has_second_factor
            && let Some(code) = code
        {
            let [.., codes] = claimant.counters();
            self.count_failure(&mut attempt, codes, now).await.inspect_err(log_lock)?;
            is_right = self.accept_code(&id, code, now).await?;
            reason = "wrong or used code";
        }
        let Some(user) = user.filter(|_| is_right) else {
            log_refused(&id, source, reason);
            // For an address without a user too, so that the time of the response does not disclose it.
            if let Some(queue) = self.lock_outs.as_ref().filter(|_| attempt.is_last) {
                queue.send_later(&LockOut { locked_out: id, source, at: now }, Duration::ZERO).await?;
            }
            return Err(Problem::WrongCredentials);
        };
        self.uncount_attempt(attempt).await?;
        Ok(user)
    }

    async fn enter(
        &self,
        kind: TokenKind,
        user: &User,
        context: &RequestContext,
        now: Timestamp,
    ) -> Result<NewToken> {
        let source = context.source;
        let agent = context.headers.user_agent.as_ref().and_then(|agent| agent.to_str().ok());
        let agent = agent.map(|agent| agent.chars().take(MAX_AGENT).collect());
        let (token, issued) = IssuedToken::new(&self.tokens, (kind, user), (source, agent), now)?;
        let audit = audit_row(user.id, user.account, (Action::LogIn, BY_LOG_IN), source, now)?;
        self.commit(vec![Write::insert(&issued)?, Write::audit(&audit)]).await?;
        tracing::info!(user = %user.id, account = %user.account, source = source.ip().map(field::display), "log-in");
        Ok(token)
    }

    /// A token after this session's, which has ended.
    async fn renew(&self, session: &Session, user: &User, now: Timestamp) -> Result<NewToken> {
        let from = (session.source, session.issued.agent.clone());
        let (token, issued) = IssuedToken::new(&self.tokens, (TokenKind::Session, user), from, now)?;
        self.commit(vec![Write::insert(&issued)?]).await?;
        Ok(token)
    }

    /// 503 if another request changed one of the rows.
    async fn commit(&self, writes: Vec<Write>) -> Result<()> {
        self.store.commit(writes).await?.done_or(Problem::Busy)
    }

    /// At most as many at the same time as passwords are verified.
    pub async fn hash(&self, password: SecretString) -> Result<PasswordHash> {
        Ok(self.password_checker.hash(password).await?)
    }

    /// Revokes the token that the user is logged in with. A repeated call has no effect.
    pub async fn log_out(&self, session: &Session, now: Timestamp) -> Result<()> {
        let Session { user, source, issued, .. } = session;
        if self.end_token(issued, Action::LogOut, *source, now).await? {
            tracing::info!(user = %user.id, account = %user.account, source = source.ip().map(field::display), "log-out");
        }
        Ok(())
    }

    /// `false`: it had ended before.
    async fn end_token(
        &self,
        issued: &IssuedToken,
        action: Action,
        source: SourceAddress,
        now: Timestamp,
    ) -> Result<bool> {
        let audit = audit_row(issued.user, issued.account, (action, BY_LOG_OUT), source, now)?;
        let outcome =
            self.store.commit(vec![Write::remove_existing(&issued.key()), Write::audit(&audit)]).await?;
        Ok(outcome == CommitOutcome::Done)
    }
}

fn audit_row(
    user: UserId,
    account: AccountId,
    (action, reason): (Action, &str),
    source: SourceAddress,
    now: Timestamp,
) -> Result<Audit> {
    let operator =
        Operator { actor: user.to_string(), reason: reason.to_owned(), source, ..Operator::default() };
    Ok(audit::by_operator(&operator, account, action, user, now)?)
}
