//! Adds each change of a charge to the rollups, once (see [`domain::rollup`]).

use std::collections::HashMap;
use std::sync::Arc;

use domain::ids::Scope;
use domain::rollup::RollupChange;
use shared::clock::Clock;
use shared::rollup::Rollups;
use shared::store::StoreError;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::quarantine::Cause;
use crate::{Dispatcher, Failure};

/// The most scopes of a batch that are counted at the same time.
const CONCURRENT_SCOPES: usize = 8;

impl Dispatcher {
    /// Adds changes to the rollups. Each change comes with the sequence number of its stream record. Returns
    /// the changes that failed; a repeated call skips those that were counted already. Scopes are counted
    /// concurrently, because they share no row.
    pub(crate) async fn count_changes(&self, changes: Vec<(String, RollupChange)>) -> Vec<Failure> {
        let mut by_scope: HashMap<Scope, Vec<(String, RollupChange)>> = HashMap::new();
        for (sequence_number, change) in changes {
            by_scope.entry(change.scope).or_default().push((sequence_number, change));
        }
        let permits = Arc::new(Semaphore::new(CONCURRENT_SCOPES));
        let mut tasks = JoinSet::new();
        for changes in by_scope.into_values() {
            let (rollups, clock, permits) =
                (Rollups::new(self.store.clone()), self.clock.clone(), Arc::clone(&permits));
            let count = async move {
                let _permit = permits.acquire().await;
                count_scope(&rollups, &clock, changes).await
            };
            tasks.spawn(count.in_current_span());
        }
        tasks.join_all().await.into_iter().flatten().collect()
    }
}

/// Counts the changes of one scope. If a row is corrupt, counts each change alone, so that only the changes of
/// the corrupt row fail.
async fn count_scope(rollups: &Rollups, clock: &Clock, changes: Vec<(String, RollupChange)>) -> Vec<Failure> {
    let all = changes.iter().map(|(_, change)| change.clone()).collect();
    let Err(error) = rollups.count(all, clock.now()).await else { return Vec::new() };
    let mut cause = log_failed_count(&changes, &error);
    if cause != Cause::Permanent || changes.len() == 1 {
        return changes.into_iter().map(|(number, _)| (number, cause)).collect();
    }
    let mut failures = Vec::new();
    for (number, change) in changes {
        // During an outage, the other changes are not tried, because each would wait for a time-out.
        if cause != Cause::Statistics {
            let Err(error) = rollups.count(vec![change], clock.now()).await else { continue };
            cause = Cause::of_count(&error);
        }
        failures.push((number, cause));
    }
    failures
}

fn log_failed_count(changes: &[(String, RollupChange)], error: &StoreError) -> Cause {
    let scope = changes.first().map(|(_, change)| change.scope.to_string());
    tracing::error!(scope, %error, "can't count changes in the rollups");
    Cause::of_count(error)
}
