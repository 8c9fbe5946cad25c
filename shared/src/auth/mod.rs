//! Authenticates API keys by the `apikey` header, in one round trip (contract: Authentication).
//!
//! One conditional update of the key's row both authenticates the request and counts it. The update adds 1 to
//! the counter of this minute and returns the row. It fails if the key has no row. The result is never
//! cached, so a revoked key stops working at once.

pub mod dashboard;

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use domain::account::AccountSettings;
use domain::audit::{Actor, Audit};
use domain::ids::{AuditId, Fingerprint, Mode, Scope};
use domain::request_id::StoredRequestId;
use domain::shard::ShardedScope;
use domain::source_address::SourceAddress;
use domain::time::Timestamp;

use crate::api_key::{self, ApiKey, ApiKeys};
use crate::http::{Problem, RateLimit, RequestContext};
use crate::random::{self, RandomError};

/// The number of previous minutes whose counters each request removes.
const COUNTERS_REMOVED: i64 = 10;

/// The most counters of earlier minutes that may stay in a row. Each counter has about 10 bytes. A key with
/// pauses between its requests leaves such counters behind. If there are more, a second update removes all of
/// them, so that the row stays under 1 KB.
const MAX_COUNTERS_LEFT: usize = 20;

const SECONDS_A_MINUTE: i64 = 60;

/// The caller of an authenticated request: the data of its API key.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The account and mode of the key. The caller has access to nothing else.
    pub scope: Scope,
    /// The account's secret salt, from which the ids of its charges are derived.
    pub salt: Vec<u8>,
    /// The account's settings.
    pub settings: AccountSettings,
    /// The key's fingerprint.
    pub fingerprint: Fingerprint,
    /// The address of the client.
    pub source: SourceAddress,
    /// The id of the request, as rows store it.
    pub request_id: StoredRequestId,
}

impl Caller {
    /// Returns the key's account and mode, with the number of shards that readers read.
    pub fn sharded_scope(&self) -> ShardedScope {
        ShardedScope { scope: self.scope, shards: self.settings.shards.read }
    }

    /// Returns this caller as the actor of a change. The change writes version `version` of a row, and the
    /// actor is stored in that row.
    pub fn actor(&self, version: u64) -> Actor {
        Actor { fingerprint: self.fingerprint.clone(), source: self.source, version }
    }

    /// Builds the audit row of an action of this key. It must be written in the same transaction as the
    /// action's change. It is needed only if the event dispatcher can't derive the audit row from the changed
    /// row.
    pub fn audit(
        &self,
        action: &str,
        subject: &impl ToString,
        details: &str,
        at: Timestamp,
    ) -> Result<Audit, RandomError> {
        let id = AuditId::new(at, random::bytes()?);
        let key = (&self.fingerprint, self.source);
        Ok(Audit::by_key(key, self.scope, (id, at), action, subject.to_string(), details))
    }

    /// Refuses a live key. Only for sandbox routes, where the caller acts as the acquirer.
    ///
    /// # Errors
    ///
    /// 403 `live_key_not_allowed`.
    pub fn require_test(&self) -> Result<(), Problem> {
        match self.scope.mode {
            Mode::Test => Ok(()),
            Mode::Live => Err(Problem::LiveKeyNotAllowed),
        }
    }
}

impl ApiKeys {
    /// Verifies the key of a request and counts the request. [`crate::extract`] calls this function for every
    /// route that requires a key.
    ///
    /// # Errors
    ///
    /// 401 `unauthorized` if the request has no valid key; 429 `rate_limited` if the key exceeds its limit of
    /// requests a minute; 403 `account_suspended` if the account is suspended; 503 if the database does not answer.
    pub(crate) async fn authenticate(
        &self,
        context: &RequestContext,
        now: Timestamp,
    ) -> Result<Caller, Problem> {
        let Some(key) = &context.headers.api_key else {
            return Err(Problem::Unauthorized);
        };
        if !api_key::is_well_formed(key) {
            return Err(Problem::Unauthorized);
        }
        let fingerprint = Fingerprint::of(key);
        let minute = now.seconds().div_euclid(SECONDS_A_MINUTE);
        let stale: Vec<String> =
            (1..=COUNTERS_REMOVED).map(|back| counter(minute.saturating_sub(back))).collect();
        let item =
            self.count_request(&fingerprint, &counter(minute), &stale).await?.ok_or(Problem::Unauthorized)?;
        let used =
            item.get(&counter(minute)).and_then(|value| value.as_n().ok()).and_then(|text| text.parse().ok());
        let older_counters = older_counters(&item, minute);
        let row: ApiKey =
            serde_dynamo::from_item(item).map_err(|error| Problem::Internal(error.to_string()))?;
        if older_counters.len() > MAX_COUNTERS_LEFT {
            self.remove_counters(&fingerprint, &older_counters).await?;
        }
        let limit = row.settings.rate_limit_per_minute;
        let used: u64 = used.unwrap_or(limit);
        let rate_limit = RateLimit { limit, remaining: limit.saturating_sub(used) };
        let scope = Scope { account: row.account, mode: row.mode };
        context.set_caller(rate_limit, scope.to_string(), Some(fingerprint.as_str()));
        if used > limit {
            let into_minute = now.seconds().rem_euclid(SECONDS_A_MINUTE);
            return Err(Problem::RateLimited {
                retry_after_seconds: SECONDS_A_MINUTE.saturating_sub(into_minute),
            });
        }
        if row.settings.suspended {
            return Err(Problem::AccountSuspended);
        }
        Ok(Caller {
            scope,
            salt: row.salt.into_bytes(),
            settings: row.settings,
            fingerprint,
            source: context.source,
            request_id: context.id.stored(),
        })
    }
}

/// Returns the name of the attribute that counts the requests of a minute: `n` and the minute's number since
/// 1970.
fn counter(minute: i64) -> String {
    format!("n{minute}")
}

/// Returns the names of the counters of earlier minutes that are still in the row.
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
