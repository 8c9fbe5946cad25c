//! Authenticates dashboard users by their token. The user's rights are read from the user's row on each
//! request, so that a removed user loses access at once.

pub mod log_in;
mod security;
mod session;
mod throttle;
pub mod token;
mod totp;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tracing::field;

use domain::account::Account;
use domain::audit::{Audit, Operator};
use domain::hex;
use domain::ids::{AccountId, UserId};
use domain::row::{Key, Row};
use domain::source_address::SourceAddress;
use domain::time::Timestamp;

use self::log_in::{Credentials, LogIn, NewToken};
pub use self::session::{
    MODE_COOKIE, PENDING_COOKIE, SESSION_COOKIE, Session, choice_cookie, language_cookie, shown_mode,
};
use self::throttle::{Counted, Throttle};
use self::token::{Claims, TokenKind, Tokens};
pub use self::totp::{Enrolment, forget_second_factor};
use crate::account::password::{PasswordChecker, PasswordHash};
use crate::account::{Role, USER, User};
use crate::audit;
use crate::config::{ConfigError, required};
use crate::http::{Problem, RequestContext};
use crate::metrics;
use crate::random;
use crate::store::{CommitOutcome, Store, Write, from_item, text};

const REVOKED_TOKEN: &str = "ended-token";

#[derive(Clone, Debug)]
pub struct Member {
    pub user: UserId,
    pub account: AccountId,
    pub role: Role,
    /// Of the request; of no use where only pages are read.
    pub source: SourceAddress,
    token: Claims,
}

impl Member {
    /// 403 `API_KEY_ROLE_REQUIRED` unless the role may manage API keys.
    pub fn require_key_manager(&self) -> Result<(), Problem> {
        if self.role.manages_keys() { Ok(()) } else { Err(Problem::ApiKeyRoleRequired) }
    }

    pub fn operator(&self) -> Operator {
        let reason = "asked for at the dashboard".to_owned();
        Operator { actor: self.user.to_string(), reason, source: self.source }
    }
}

/// A token that was revoked before its expiry. DynamoDB removes the row after that expiry.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct RevokedToken {
    jti: String,
    exp: i64,
}

impl RevokedToken {
    fn key_of(jti: &str) -> Key {
        Key { pk: format!("ended-token#{jti}"), sk: REVOKED_TOKEN.to_owned() }
    }
}

impl Row for RevokedToken {
    fn key(&self) -> Key {
        Self::key_of(&self.jti)
    }

    fn removable_at(&self) -> Option<Timestamp> {
        Timestamp::MIN.plus_seconds(self.exp).ok()
    }
}

impl Member {
    /// When the member logged in, in seconds of Unix time.
    pub fn logged_in_at(&self) -> i64 {
        self.token.exp.saturating_sub(token::TOKEN_SECONDS)
    }
}

const BY_LOG_IN: &str = "requested at the log-in";
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
    throttle: Throttle,
    password_checker: PasswordChecker,
    /// The table of secrets, which has the seeds of second factors. `None` in functions that check no code.
    secrets: Option<Store>,
}

impl Dashboard {
    /// Reads the secrets from `DASHBOARD_TOKEN_SECRET`; see [`Tokens::new`].
    pub fn from_vars(store: Store, var: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let tokens = Tokens::new(&required(var, "DASHBOARD_TOKEN_SECRET")?.into())?;
        let secrets = var("SECRETS_TABLE_NAME").map(|table| Store::new(store.client().clone(), table));
        Ok(Self {
            secrets,
            throttle: Throttle::new(store.clone()),
            store,
            tokens,
            password_checker: PasswordChecker::default(),
        })
    }

    /// Verifies the token with one read, then counts the request with one update. A refused token is not
    /// counted, because the holder of a revoked token could use up the user's limit. Fails in this order: 401
    /// `unauthorized`, also for a removed user or a new password; 429 `rate_limited` above 60 requests a
    /// minute; 403 `totp_enrolment_required`; 400 `invalid_request` for any query parameter.
    pub async fn authenticate(&self, context: &RequestContext, now: Timestamp) -> Result<Member, Problem> {
        let claims = self.claims(TokenKind::Api, context.headers.bearer.as_ref(), now)?;
        let (user, account) = self.holder(&claims).await?;
        self.throttle.count_request(&user, Counted::Api, context, now).await?;
        if lacks_second_factor(&user, &account.ok_or(Problem::NotLoggedIn)?) {
            return Err(Problem::SecondFactorDemanded);
        }
        context.query.require_empty()?;
        let source = context.source;
        Ok(Member { user: user.id, account: user.account, role: user.role, source, token: claims })
    }

    fn claims(
        &self,
        kind: TokenKind,
        token: Option<&SecretString>,
        now: Timestamp,
    ) -> Result<Claims, Problem> {
        token.and_then(|token| self.tokens.verify(kind, token, now)).ok_or(Problem::NotLoggedIn)
    }

    /// The user whose token is valid, and the user's account, in one request.
    async fn holder(&self, claims: &Claims) -> Result<(User, Option<Account>), Problem> {
        let account = Account::key_of(&claims.account_id);
        let keys = [User::key_of(&claims.sub), RevokedToken::key_of(&claims.jti), account];
        let (mut user, mut is_revoked, mut account) = (None, false, None);
        for row in self.store.batch_get(&keys).await? {
            match text(&row, "sk").as_deref() {
                Some(REVOKED_TOKEN) => is_revoked = true,
                Some(USER) => user = Some(from_item::<User>(row)?),
                _ => account = Some(from_item::<Account>(row)?),
            }
        }
        let user =
            user.filter(|user| !is_revoked && claims.is_valid_for(user)).ok_or(Problem::NotLoggedIn)?;
        Ok((user, account))
    }

    /// Logs the result with the user's id. The account's audit records log-ins, and the failure that locks the
    /// address. An unknown address and a wrong password have the same error (401) and take the same time, so
    /// that a client can't find out which addresses have a user. 429 `rate_limited` after too many failures.
    pub async fn log_in(
        &self,
        kind: TokenKind,
        Credentials { email, password, totp }: Credentials,
        source: SourceAddress,
        now: Timestamp,
    ) -> Result<LogIn, Problem> {
        let id = UserId::from_email(&email);
        let shown = (Some(password), totp.as_ref().map(ExposeSecret::expose_secret));
        let user = self.prove((id, false), shown, source, now).await?;
        if user.second_factor_at.is_some() && totp.is_none() {
            let holder = (user.id, user.account, user.role, user.token_generation);
            return Ok(LogIn::Pending(self.tokens.issue(TokenKind::Pending, holder, "", now)?.0));
        }
        self.enter(kind, &user, source, now).await.map(LogIn::Done)
    }

    /// Completes a log-in whose password was right. 401 `unauthorized` if that was more than five minutes ago, or for a
    /// wrong code.
    pub async fn log_in_with_code(
        &self,
        pending: Option<&str>,
        code: &str,
        source: SourceAddress,
        now: Timestamp,
    ) -> Result<NewToken, Problem> {
        let claims = self.claims(TokenKind::Pending, pending.map(SecretString::from).as_ref(), now)?;
        let user = self.prove((claims.sub, false), (None, Some(code)), source, now).await?;
        // A new password since then ended the log-in too.
        if claims.is_valid_for(&user) {
            self.enter(TokenKind::Session, &user, source, now).await
        } else {
            Err(Problem::NotLoggedIn)
        }
    }

    /// Verifies what a user shows: the password, the code of the second factor, or both. It counts as a failed log-in
    /// until it is right. A code that is not needed is ignored.
    async fn prove(
        &self,
        (id, has_session): (UserId, bool),
        (password, code): (Option<SecretString>, Option<&str>),
        source: SourceAddress,
        now: Timestamp,
    ) -> Result<User, Problem> {
        let attempt = match self.throttle.count_attempt(&id, has_session, source, now).await {
            Ok(attempt) => attempt,
            Err(problem) => {
                if matches!(problem, Problem::TooManyLogins { .. }) {
                    log_refused(&id, source, "locked out");
                }
                return Err(problem);
            }
        };
        let user: Option<User> = self.store.get(&User::key_of(&id)).await?;
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
            is_right = self.accept_code(&id, code, now).await?;
            reason = "wrong or used code";
        }
        let Some(user) = user.clone().filter(|_| is_right) else {
            log_refused(&id, source, reason);
            if let Some(user) = user.filter(|_| attempt.is_last) {
                self.audit(&user, source, "user.lock-out", now).await?;
            }
            return Err(Problem::WrongCredentials);
        };
        self.throttle.uncount_attempt(attempt).await?;
        Ok(user)
    }

    async fn enter(
        &self,
        kind: TokenKind,
        user: &User,
        source: SourceAddress,
        now: Timestamp,
    ) -> Result<NewToken, Problem> {
        self.audit(user, source, "user.log-in", now).await?;
        tracing::info!(user = %user.id, account = %user.account, source = source.ip().map(field::display), "log-in");
        self.new_token(kind, user, now)
    }

    fn new_token(&self, kind: TokenKind, user: &User, now: Timestamp) -> Result<NewToken, Problem> {
        let jti = hex::encode(random::bytes::<16>()?);
        // The token has the generation in the row whose password was verified. If the password is reset
        // between the read of that row and here, the new token is already invalid.
        let holder = (user.id, user.account, user.role, user.token_generation);
        let (token, claims) = self.tokens.issue(kind, holder, &jti, now)?;
        let expires_at = Timestamp::MIN.plus_seconds(claims.exp);
        let expires_at = expires_at.map_err(|error| Problem::Internal(error.to_string()))?;
        Ok(NewToken { token, expires_at, language: user.language })
    }

    /// At most as many at the same time as passwords are verified.
    pub async fn hash(&self, password: SecretString) -> Result<PasswordHash, Problem> {
        Ok(self.password_checker.hash(password).await?)
    }

    async fn audit(
        &self,
        user: &User,
        source: SourceAddress,
        action: &str,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let row = audit_row(user.id, user.account, (action, BY_LOG_IN), source, now)?;
        audit::append(&self.store, &row).await?;
        Ok(())
    }

    /// Revokes the token that the user is logged in with. A repeated call has no effect.
    pub async fn log_out(
        &self,
        member: &Member,
        source: SourceAddress,
        now: Timestamp,
    ) -> Result<(), Problem> {
        if self.end_token(member, "user.log-out", source, now).await? {
            let Member { user, account, .. } = member;
            tracing::info!(%user, %account, source = source.ip().map(field::display), "log-out");
        }
        Ok(())
    }

    /// `false`: it was revoked before.
    async fn end_token(
        &self,
        member: &Member,
        action: &str,
        source: SourceAddress,
        now: Timestamp,
    ) -> Result<bool, Problem> {
        let Member { user, account, token, .. } = member;
        let revoked = RevokedToken { jti: token.jti.clone(), exp: token.exp };
        let audit = audit_row(*user, *account, (action, BY_LOG_OUT), source, now)?;
        let outcome = self.store.commit(vec![Write::insert(&revoked)?, Write::audit(&audit)]).await?;
        Ok(outcome == CommitOutcome::Done)
    }
}

/// Whether the account demands a second factor that the user has not turned on.
fn lacks_second_factor(user: &User, account: &Account) -> bool {
    account.requires_second_factor && user.second_factor_at.is_none()
}

fn audit_row(
    user: UserId,
    account: AccountId,
    (action, reason): (&str, &str),
    source: SourceAddress,
    now: Timestamp,
) -> Result<Audit, Problem> {
    let operator = Operator { actor: user.to_string(), reason: reason.to_owned(), source };
    Ok(audit::by_operator(&operator, account, action, user.to_string(), now)?)
}
