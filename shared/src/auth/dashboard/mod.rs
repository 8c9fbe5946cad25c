//! Authenticates dashboard users by their token. The user's rights are read from the user's row on each
//! request, so that a removed user loses access at once.

pub mod log_in;
mod session;
mod throttle;
pub mod token;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use tracing::field;

use domain::audit::{Audit, Operator};
use domain::hex;
use domain::ids::{AccountId, UserId};
use domain::row::{Key, Row};
use domain::source_address::SourceAddress;
use domain::time::Timestamp;

use self::log_in::{Credentials, NewToken};
pub use self::session::{
    LANGUAGE_COOKIE, MODE_COOKIE, SESSION_COOKIE, Session, cookie, set_cookie, shown_mode,
};
use self::throttle::{Counted, Throttle};
use self::token::{Claims, Tokens};
use crate::account::password::PasswordChecker;
use crate::account::{Role, USER, User};
use crate::audit;
use crate::config::{ConfigError, required};
use crate::http::{Problem, RequestContext};
use crate::metrics;
use crate::random;
use crate::store::{CommitOutcome, Item, Store, Write, from_item, text};

const REVOKED_TOKEN: &str = "ended-token";

#[derive(Clone, Debug)]
pub struct Member {
    pub user: UserId,
    pub account: AccountId,
    pub role: Role,
    token: Claims,
}

impl Member {
    /// 403 `API_KEY_ROLE_REQUIRED` unless the role may manage API keys.
    pub fn require_key_manager(&self) -> Result<(), Problem> {
        if self.role.manages_keys() { Ok(()) } else { Err(Problem::ApiKeyRoleRequired) }
    }

    pub fn operator(&self) -> Operator {
        Operator { actor: self.user.to_string(), reason: "asked for at the dashboard".to_owned() }
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
}

impl Dashboard {
    /// Reads the secrets from `DASHBOARD_TOKEN_SECRET`; see [`Tokens::new`].
    pub fn from_vars(store: Store, var: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let tokens = Tokens::new(&required(var, "DASHBOARD_TOKEN_SECRET")?.into())?;
        Ok(Self {
            throttle: Throttle::new(store.clone()),
            store,
            tokens,
            password_checker: PasswordChecker::default(),
        })
    }

    /// Verifies the token with one read, then counts the request with one update. A refused token is not
    /// counted, because the holder of a revoked token could use up the user's limit. Fails in this order: 401
    /// `unauthorized`, also for a removed user or a new password; 429 `rate_limited` above 60 requests a
    /// minute; 400 `invalid_request` for any query parameter.
    pub async fn authenticate(&self, context: &RequestContext, now: Timestamp) -> Result<Member, Problem> {
        let claims = self.claims(context.headers.bearer.as_ref(), now)?;
        let (user, _) = self.holder(&claims, &[]).await?;
        self.throttle.count_request(&user, Counted::Api, context, now).await?;
        context.query.require_empty()?;
        Ok(Member { user: user.id, account: user.account, role: user.role, token: claims })
    }

    fn claims(&self, token: Option<&SecretString>, now: Timestamp) -> Result<Claims, Problem> {
        token.and_then(|token| self.tokens.verify(token, now)).ok_or(Problem::NotLoggedIn)
    }

    /// The user whose token is valid, and the rows at `others`, in one request.
    async fn holder(&self, claims: &Claims, others: &[Key]) -> Result<(User, Vec<Item>), Problem> {
        let mut keys = vec![User::key_of(&claims.sub), RevokedToken::key_of(&claims.jti)];
        keys.extend_from_slice(others);
        let (mut user, mut is_revoked, mut rest) = (None, false, Vec::new());
        for row in self.store.batch_get(&keys).await? {
            match text(&row, "sk").as_deref() {
                Some(REVOKED_TOKEN) => is_revoked = true,
                Some(USER) => user = Some(from_item::<User>(row)?),
                _ => rest.push(row),
            }
        }
        let user =
            user.filter(|user| !is_revoked && claims.is_valid_for(user)).ok_or(Problem::NotLoggedIn)?;
        Ok((user, rest))
    }

    /// Logs the result with the user's id. The account's audit records log-ins, and the failure that locks the
    /// address. An unknown address and a wrong password have the same error (401) and take the same time, so
    /// that a client can't find out which addresses have a user. 429 `rate_limited` after too many failures.
    pub async fn log_in(
        &self,
        credentials: Credentials,
        source: SourceAddress,
        now: Timestamp,
    ) -> Result<NewToken, Problem> {
        let id = UserId::from_email(&credentials.email);
        let attempt = match self.throttle.count_attempt(&id, source, now).await {
            Ok(attempt) => attempt,
            Err(problem) => {
                if matches!(problem, Problem::TooManyLogins { .. }) {
                    log_refused(&id, source, "locked out");
                }
                return Err(problem);
            }
        };
        let user: Option<User> = self.store.get(&User::key_of(&id)).await?;
        let hash = user.as_ref().map(|user| user.password_hash.clone());
        let is_right = self.password_checker.verify(credentials.password, hash).await?;
        let Some(user) = user.clone().filter(|_| is_right) else {
            log_refused(&id, source, "wrong e-mail address or password");
            if let Some(user) = user.filter(|_| attempt.is_last) {
                self.audit(&user, source, "user.lock-out", now).await?;
            }
            return Err(Problem::WrongCredentials);
        };
        self.throttle.uncount_attempt(attempt).await?;
        self.audit(&user, source, "user.log-in", now).await?;
        tracing::info!(user = %id, account = %user.account, source = source.ip().map(field::display), "log-in");
        let jti = hex::encode(random::bytes::<16>()?);
        // The token has the generation in the row whose password was verified. If the password is reset
        // between the read of that row and here, the new token is already invalid.
        let holder = (user.id, user.account, user.role, user.token_generation);
        let (token, claims) = self.tokens.issue(holder, &jti, now)?;
        let expires_at = Timestamp::MIN.plus_seconds(claims.exp);
        let expires_at = expires_at.map_err(|error| Problem::Internal(error.to_string()))?;
        Ok(NewToken { token, expires_at })
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
        let Member { user, account, token, .. } = member;
        let revoked = RevokedToken { jti: token.jti.clone(), exp: token.exp };
        let audit = audit_row(*user, *account, ("user.log-out", BY_LOG_OUT), source, now)?;
        match self.store.commit(vec![Write::insert(&revoked)?, Write::audit(&audit)]).await? {
            CommitOutcome::Done => {
                tracing::info!(%user, %account, source = source.ip().map(field::display), "log-out");
            }
            CommitOutcome::Conflict { .. } => {}
        }
        Ok(())
    }
}

fn audit_row(
    user: UserId,
    account: AccountId,
    (action, reason): (&str, &str),
    source: SourceAddress,
    now: Timestamp,
) -> Result<Audit, Problem> {
    let operator = Operator { actor: user.to_string(), reason: reason.to_owned() };
    let row = audit::by_operator(&operator, account, action, user.to_string(), now)?;
    Ok(Audit { source, ..row })
}
