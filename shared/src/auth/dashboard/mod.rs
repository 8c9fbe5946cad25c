//! Who is logged in to the dashboard (contract: Authentication, 3 and 5): a token says who, the stored row of the person
//! says what they may do, so that somebody who was removed can do nothing at once.

pub mod log_in;
mod throttle;
pub mod token;

use serde::{Deserialize, Serialize};

use domain::audit::Operator;
use domain::hex;
use domain::ids::{AccountId, UserId};
use domain::row::{Key, Row};
use domain::source_address::SourceAddress;
use domain::time::Timestamp;

use self::log_in::{Credentials, NewToken};
use self::throttle::Throttle;
use self::token::{Claims, Tokens};
use crate::account::password::Prover;
use crate::account::{Role, User};
use crate::config::{ConfigError, required};
use crate::http::{Problem, RequestContext};
use crate::random;
use crate::store::{Inserted, Store, from_item, text};

/// The sort key of the row of a token that was ended.
const ENDED_TOKEN: &str = "ended-token";

/// Somebody who is logged in.
#[derive(Clone, Debug)]
pub struct Member {
    /// Who.
    pub user: UserId,
    /// To whose dashboard.
    pub account: AccountId,
    /// What they may do now.
    pub role: Role,
    token: Claims,
}

impl Member {
    /// Refuses who may not manage keys.
    pub fn require_key_manager(&self) -> Result<(), Problem> {
        if self.role.manages_keys() { Ok(()) } else { Err(Problem::ApiKeyRoleRequired) }
    }

    /// As the audit has them.
    pub fn operator(&self) -> Operator {
        Operator { actor: self.user.to_string(), reason: "asked for at the dashboard".to_owned() }
    }
}

/// A token that was ended before its time. Its row goes when the token would have ended anyhow.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct EndedToken {
    jti: String,
    exp: i64,
}

impl EndedToken {
    fn key_of(jti: &str) -> Key {
        Key { pk: format!("ended-token#{jti}"), sk: ENDED_TOKEN.to_owned() }
    }
}

impl Row for EndedToken {
    fn key(&self) -> Key {
        Self::key_of(&self.jti)
    }

    fn removable_at(&self) -> Option<Timestamp> {
        Timestamp::MIN.plus_seconds(self.exp).ok()
    }
}

/// The dashboard's door. Clones share one client.
#[derive(Clone, Debug)]
pub struct Dashboard {
    store: Store,
    tokens: Tokens,
    throttle: Throttle,
    prover: Prover,
}

impl Dashboard {
    /// Reads `DASHBOARD_TOKEN_SECRET`.
    pub fn from_vars(store: Store, var: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let tokens = Tokens::new(required(var, "DASHBOARD_TOKEN_SECRET")?.into())?;
        Ok(Self { throttle: Throttle::new(store.clone()), store, tokens, prover: Prover::default() })
    }

    /// Verifies the token of a request, in one read, and then counts the request, in one update. A request whose token is
    /// refused does not count: a token that was ended must not use up the minute of its person. No route of the dashboard
    /// takes query parameters.
    ///
    /// # Errors
    ///
    /// 401 `unauthorized` without a token that is ours, holds, was not logged out, and whose person is still there; 429
    /// `rate_limited` over the person's requests a minute; then 400 `invalid_request` for any query parameter.
    pub async fn authenticate(&self, context: &RequestContext, now: Timestamp) -> Result<Member, Problem> {
        let token = context.headers.bearer.as_ref();
        let claims = token.and_then(|token| self.tokens.verify(token, now)).ok_or(Problem::NotLoggedIn)?;
        let ended = EndedToken::key_of(&claims.jti);
        let found = self.store.batch_get(&[User::key_of(&claims.sub), ended]).await?;
        let (mut person, mut is_ended) = (None, false);
        for row in found {
            match text(&row, "sk").as_deref() {
                Some(ENDED_TOKEN) => is_ended = true,
                _ => person = Some(from_item::<User>(row)?),
            }
        }
        let user = person.filter(|user| !is_ended && claims.is_of(user)).ok_or(Problem::NotLoggedIn)?;
        self.throttle.count_request(&user.id, context, now).await?;
        context.query.require_empty()?;
        Ok(Member { user: user.id, account: user.account, role: user.role, token: claims })
    }

    /// Gives a token for an e-mail address and its password.
    ///
    /// # Errors
    ///
    /// 401 `unauthorized`, the same and after the same work whether there is no such address or another password;
    /// 429 `rate_limited` where too many failed.
    pub async fn log_in(
        &self,
        credentials: Credentials,
        source: SourceAddress,
        now: Timestamp,
    ) -> Result<NewToken, Problem> {
        let id = UserId::of_email(&credentials.email);
        let attempt = self.throttle.take(&id, source, now).await?;
        let user: Option<User> = self.store.get(&User::key_of(&id)).await?;
        let hash = user.as_ref().map(|user| user.password_hash.clone());
        let is_right = self.prover.is_right(credentials.password, hash).await?;
        let user = user.filter(|_| is_right).ok_or(Problem::WrongCredentials)?;
        self.throttle.give_back(attempt).await?;
        let jti = hex::encode(&random::bytes::<16>()?);
        // Of the row whose password was looked at: one that was set meanwhile ends this token too.
        let holder = (user.id, user.account, user.role, user.tokens);
        let (token, claims) = self.tokens.issue(holder, &jti, now)?;
        let expires_at = Timestamp::MIN.plus_seconds(claims.exp);
        let expires_at = expires_at.map_err(|error| Problem::Internal(error.to_string()))?;
        Ok(NewToken { token, expires_at })
    }

    /// Ends the token that somebody is logged in by. Again is the same.
    pub async fn log_out(&self, member: &Member) -> Result<(), Problem> {
        let ended = EndedToken { jti: member.token.jti.clone(), exp: member.token.exp };
        let _ended_now_or_before: Inserted<EndedToken> = self.store.insert(&ended).await?;
        Ok(())
    }
}
