//! Adds each change of a charge to the rollups, once (see [`domain::rollup`]).

use std::collections::HashMap;
use std::sync::Arc;

use domain::ids::Scope;
use domain::rollup::RollupChange;
use shared::rollup::Rollups;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Dispatcher;

/// The most scopes of a batch that are counted at the same time.
const CONCURRENT_SCOPES: usize = 8;

impl Dispatcher {
    /// Adds changes to the rollups. Each change comes with the sequence number of its stream record. If a
    /// scope fails, returns the sequence numbers of all its changes; a repeated call skips those that were
    /// counted already. Scopes are counted concurrently, because they share no row.
    pub(crate) async fn count_changes(&self, changes: Vec<(String, RollupChange)>) -> Vec<String> {
        let mut by_scope: HashMap<Scope, (Vec<String>, Vec<RollupChange>)> = HashMap::new();
        for (sequence_number, change) in changes {
            let (sequence_numbers, changes) = by_scope.entry(change.scope).or_default();
            sequence_numbers.push(sequence_number);
            changes.push(change);
        }
        let permits = Arc::new(Semaphore::new(CONCURRENT_SCOPES));
        let mut tasks = JoinSet::new();
        for (scope, (sequence_numbers, changes)) in by_scope {
            let (rollups, clock, permits) =
                (Rollups::new(self.store.clone()), self.clock.clone(), Arc::clone(&permits));
            tasks.spawn(async move {
                let _permit = permits.acquire().await;
                match rollups.count(changes, clock.now()).await {
                    Ok(()) => Vec::new(),
                    Err(error) => {
                        tracing::error!(%scope, %error, "can't count changes in the rollups");
                        sequence_numbers
                    }
                }
            });
        }
        tasks.join_all().await.into_iter().flatten().collect()
    }
}
