//! Who calls: the `apikey` header, proved in one round trip (contract: Authentication).
//!
//! Authentication and the rate limit are ONE conditional update of the key's row: it fails when there is no
//! such key, counts the request in this minute's attribute, and returns the row. Nothing that
//! decides whether a key works is cached, so a revoked key stops at once.

pub mod dashboard;

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use domain::account::AccountSettings;
use domain::audit::{Actor, Audit};
use domain::ids::{AuditId, Fingerprint, Mode, Scope};
use domain::source_address::SourceAddress;
use domain::time::Timestamp;

use crate::api_key::{self, ApiKey, ApiKeys};
use crate::http::{Problem, RateLimit, RequestContext};
use crate::random::{self, RandomError};

/// Minutes back whose counters every request removes.
const COUNTERS_REMOVED: i64 = 10;

/// Counters that may be left behind by a key used now and then, before a second update removes them: they
/// cost 10 bytes each, and the row stays under 1 KB.
const MAX_COUNTERS_LEFT: usize = 20;

const SECONDS_A_MINUTE: i64 = 60;

/// Whoever holds the key.
#[derive(Clone, Debug)]
pub struct Caller {
    /// What the key may touch.
    pub scope: Scope,
    /// The account's salt for ids.
    pub salt: Vec<u8>,
    /// The account's settings.
    pub settings: AccountSettings,
    /// The key.
    pub fingerprint: Fingerprint,
    /// The address that the request comes from.
    pub source: SourceAddress,
}

impl Caller {
    /// What a row carries whose version it makes.
    pub fn actor(&self, version: u64) -> Actor {
        Actor { fingerprint: self.fingerprint.clone(), source: self.source, version }
    }

    /// The audit row of what the key does now, for changes of rows that the dispatcher derives none from: it is written in
    /// the change's transaction.
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

    /// Refuses a live key, on routes that play the acquirer.
    pub fn require_test(&self) -> Result<(), Problem> {
        match self.scope.mode {
            Mode::Test => Ok(()),
            Mode::Live => Err(Problem::LiveKeyNotAllowed),
        }
    }
}

impl ApiKeys {
    /// Verifies the key of a request, and counts the request. [`crate::extract`] does so for every keyed route.
    ///
    /// # Errors
    ///
    /// 401 `unauthorized` without a valid key; 429 `rate_limited` over the key's limit; 503 when the
    /// database does not answer.
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
        let item = self.count(&fingerprint, &counter(minute), &stale).await?.ok_or(Problem::Unauthorized)?;
        let used =
            item.get(&counter(minute)).and_then(|value| value.as_n().ok()).and_then(|text| text.parse().ok());
        let left_behind = left_behind(&item, minute);
        let row: ApiKey =
            serde_dynamo::from_item(item).map_err(|error| Problem::Internal(error.to_string()))?;
        if left_behind.len() > MAX_COUNTERS_LEFT {
            self.forget(&fingerprint, &left_behind).await?;
        }
        let limit = row.settings.rate_limit_per_minute;
        let used: u64 = used.unwrap_or(limit);
        let rate_limit = RateLimit { limit, remaining: limit.saturating_sub(used) };
        context.note_rate_limit(rate_limit, Some(fingerprint.as_str()));
        if used > limit {
            let into_minute = now.seconds().rem_euclid(SECONDS_A_MINUTE);
            return Err(Problem::RateLimited {
                retry_after_seconds: SECONDS_A_MINUTE.saturating_sub(into_minute),
            });
        }
        Ok(Caller {
            scope: Scope { account: row.account, mode: row.mode },
            salt: row.salt.into_bytes(),
            settings: row.settings,
            fingerprint,
            source: context.source,
        })
    }
}

/// The attribute that counts a minute: `n` and the minute since the epoch.
fn counter(minute: i64) -> String {
    format!("n{minute}")
}

fn left_behind(item: &HashMap<String, AttributeValue>, minute: i64) -> Vec<String> {
    let is_old = |name: &&String| {
        let counted = name.strip_prefix('n').and_then(|digits| digits.parse::<i64>().ok());
        counted.is_some_and(|counted| counted < minute)
    };
    item.keys().filter(is_old).cloned().collect()
}
