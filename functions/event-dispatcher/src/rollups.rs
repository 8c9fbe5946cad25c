//! Adds each change of a charge to the rollups, once (see [`domain::rollup`]).

use std::collections::HashMap;
use std::sync::Arc;

use domain::ids::Scope;
use domain::rollup::RollupChange;
use shared::rollup::Rollups;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Dispatcher;

/// Scopes of a batch whose changes are counted at the same time.
const CONCURRENT_SCOPES: usize = 8;

impl Dispatcher {
    /// Counts changes, given with the sequence numbers of their records. Returns the sequence numbers of those that
    /// were not counted. Scopes are counted concurrently, because they share no row.
    pub(crate) async fn count(&self, changes: Vec<(String, RollupChange)>) -> Vec<String> {
        let mut by_scope: HashMap<Scope, (Vec<String>, Vec<RollupChange>)> = HashMap::new();
        for (sequence_number, change) in changes {
            let (numbers, changes) = by_scope.entry(change.scope).or_default();
            numbers.push(sequence_number);
            changes.push(change);
        }
        let slots = Arc::new(Semaphore::new(CONCURRENT_SCOPES));
        let mut work = JoinSet::new();
        for (scope, (numbers, changes)) in by_scope {
            let (rollups, clock, slots) =
                (Rollups::new(self.store.clone()), self.clock.clone(), Arc::clone(&slots));
            work.spawn(async move {
                let _slot = slots.acquire().await;
                match rollups.count(changes, clock.now()).await {
                    Ok(()) => Vec::new(),
                    Err(error) => {
                        tracing::error!(%scope, %error, "can't count changes in the rollups");
                        numbers
                    }
                }
            });
        }
        work.join_all().await.into_iter().flatten().collect()
    }
}
