//! Authenticates API keys by the header `apikey`, in one round trip: one conditional update of the key's row
//! adds 1 to the counter of this minute and returns the row. It fails if the key has no row. The result is
//! never cached, so a revoked key stops working at once.

pub mod dashboard;

use std::collections::HashMap;
use std::fmt::Display;

use aws_sdk_dynamodb::types::AttributeValue;

use domain::account::{Account, AccountSettings};
use domain::audit::{Action, Actor, ActorId, Audit};
use domain::ids::{Fingerprint, Mode, Scope};
use domain::request_id::StoredRequestId;
use domain::shard::ShardedScope;
use domain::source_address::SourceAddress;
use domain::time::Timestamp;

use self::dashboard::Session;
use crate::api_key::{self, ApiKey, ApiKeys};
use crate::audit;
use crate::http::{Problem, RateLimit, RequestContext, Result};
use crate::request_limit::Window;
use crate::store::{Item, StoreError};

/// Counters of previous minutes that each request removes.
const COUNTERS_REMOVED: i64 = 10;

/// The most counters of earlier minutes, of about 10 bytes each, that keys with pauses may leave in a row. If
/// there are more, a second update removes all, so that the row stays under 1 KB.
const MAX_COUNTERS_LEFT: usize = 20;

/// Every 16th request of a key in a minute adds 16 to the account's counter, so that most requests need no second update.
const COUNTED_TOGETHER: u64 = 16;

/// So many keys of an account can use their whole limit.
const KEYS_AT_THE_LIMIT: u64 = 5;

#[derive(Clone, Debug)]
pub struct Caller {
    /// The caller has access to nothing else.
    pub scope: Scope,
    /// The ids of the account's charges are derived from it.
    pub salt: Vec<u8>,
    pub settings: AccountSettings,
    /// The API key, or the member who acts at the dashboard.
    pub by: ActorId,
    pub source: SourceAddress,
    pub request_id: StoredRequestId,
}

impl Caller {
    pub fn sharded_scope(&self) -> ShardedScope {
        ShardedScope { scope: self.scope, shards: self.settings.shards.read }
    }

    /// A member who acts at the dashboard in one mode of the account, for the use cases of the API. The caller has
    /// checked the member's role, and whether the account is suspended.
    pub fn of_member(session: &Session, mode: Mode, context: &RequestContext) -> Self {
        Self::of_account(&session.account, mode, ActorId::Member(session.user.id), context)
    }

    /// Who acts without a key, such as a payer at a payment link. The caller has checked whether the account is suspended.
    pub fn of_account(account: &Account, mode: Mode, by: ActorId, context: &RequestContext) -> Self {
        Self {
            scope: Scope { account: account.id, mode },
            salt: account.salt.clone().into_bytes(),
            settings: account.settings.clone(),
            by,
            source: context.source,
            request_id: context.id.stored(),
        }
    }

    /// The actor that the change to `version` stores in the row.
    pub fn actor(&self, version: u64) -> Actor {
        Actor { by: self.by.clone(), source: self.source, version }
    }

    /// Only for actions whose audit row the event dispatcher can't derive from the changed row. Must be written
    /// in the action's transaction.
    pub fn audit(&self, action: Action, subject: impl Display, at: Timestamp) -> Result<Audit, StoreError> {
        audit::by_operator(&self.by.as_operator(self.source), self.scope.account, action, subject, at)
    }

    /// 403 `live_key_not_allowed`. For sandbox routes, where the caller acts as the acquirer, and other routes for tests.
    pub fn require_test(&self) -> Result<()> {
        match self.scope.mode {
            Mode::Test => Ok(()),
            Mode::Live => Err(Problem::LiveKeyNotAllowed),
        }
    }
}

impl ApiKeys {
    /// Verifies the key and counts the request: 401 `unauthorized` without a valid key, 429 `rate_limited`
    /// above the limit a minute of the key or the account, 403 `account_suspended`, 503 if the database does not answer.
    /// [`crate::extract`] calls it for every route that requires a key.
    pub async fn authenticate(&self, context: &RequestContext, now: Timestamp) -> Result<Caller> {
        let key = context.headers.api_key.as_ref().filter(|key| api_key::is_well_formed(key));
        let fingerprint = Fingerprint::of(key.ok_or(Problem::Unauthorized)?);
        let window = Window::minute(now);
        let minute = window.number;
        let (item, used) =
            self.count(fingerprint.as_str(), (1, minute), true).await?.ok_or(Problem::Unauthorized)?;
        let row: ApiKey =
            serde_dynamo::from_item(item).map_err(|error| Problem::Internal(error.to_string()))?;
        let limit = row.settings.rate_limit_per_minute;
        let is_counted = used <= limit && used.checked_rem(COUNTED_TOGETHER) == Some(0);
        let used = if is_counted && self.exceeds_account(&row, minute).await? { u64::MAX } else { used };
        let rate_limit = RateLimit { limit, remaining: limit.saturating_sub(used) };
        let scope = Scope { account: row.account, mode: row.mode };
        context.set_caller(rate_limit, scope.to_string(), Some(fingerprint.as_str()));
        context.set_recorder(self.recorder(&row, now));
        if used > limit {
            return Err(Problem::RateLimited { retry_after_seconds: window.left(now) });
        }
        if row.settings.suspended {
            return Err(Problem::AccountSuspended);
        }
        Ok(Caller {
            scope,
            salt: row.salt.into_bytes(),
            settings: row.settings,
            by: ActorId::Key(fingerprint),
            source: context.source,
            request_id: context.id.stored(),
        })
    }
}

impl ApiKeys {
    /// Adds requests to the counter of a minute. Returns the row and the counter. `None`: there is no such key.
    async fn count(
        &self,
        pk: &str,
        (requests, minute): (u64, i64),
        must_exist: bool,
    ) -> Result<Option<(Item, u64)>> {
        let stale: Vec<String> =
            (1..=COUNTERS_REMOVED).map(|back| counter(minute.saturating_sub(back))).collect();
        let added = self.add_requests(pk, (&counter(minute), requests), &stale, must_exist).await?;
        let Some(item) = added else { return Ok(None) };
        let older_counters = older_counters(&item, minute);
        if older_counters.len() > MAX_COUNTERS_LEFT {
            self.remove_counters(pk, &older_counters).await?;
        }
        let used = item.get(&counter(minute)).and_then(|value| value.as_n().ok()?.parse().ok());
        let used = used.ok_or_else(|| Problem::Internal("a counter of requests is no number".to_owned()))?;
        Ok(Some((item, used)))
    }

    /// Counts the key's last requests for its account. Above the account's limit, the key has no request left in this
    /// minute, so that each further one is refused without this count.
    async fn exceeds_account(&self, key: &ApiKey, minute: i64) -> Result<bool> {
        let limit = key.settings.rate_limit_per_minute;
        let of_account = format!("requests#{}", key.account);
        let counted = self.count(&of_account, (COUNTED_TOGETHER, minute), false).await?;
        let exceeds = counted.is_some_and(|(_, counted)| counted > limit.saturating_mul(KEYS_AT_THE_LIMIT));
        if exceeds {
            self.count(key.fingerprint.as_str(), (limit, minute), true).await?;
        }
        Ok(exceeds)
    }
}

/// `n` and the minute's number since 1970.
fn counter(minute: i64) -> String {
    format!("n{minute}")
}

fn older_counters(item: &HashMap<String, AttributeValue>, minute: i64) -> Vec<String> {
    let is_old = |name: &&String| {
        let counted = name.strip_prefix('n').and_then(|digits| digits.parse::<i64>().ok());
        counted.is_some_and(|counted| counted < minute)
    };
    item.keys().filter(is_old).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_earlier_minutes_are_old() {
        let one = || AttributeValue::N("1".to_owned());
        let names = ["pk", "name", "n", "n9", "n10", "n11", "n12"];
        let item = names.map(|name| (name.to_owned(), one())).into();
        let mut older = older_counters(&item, 11);
        older.sort();
        assert_eq!(older, ["n10", "n9"]);
    }
}
