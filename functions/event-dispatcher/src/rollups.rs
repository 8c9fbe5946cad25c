//! The part of the dispatcher that keeps the rollups: each change of a charge is counted once (see [`domain::rollup`]).

use std::collections::HashMap;
use std::sync::Arc;

use domain::ids::Scope;
use domain::rollup::Counted;
use shared::rollup::Rollups;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Dispatcher;

/// Scopes of a batch whose changes are counted at the same time.
const CONCURRENT_SCOPES: usize = 8;

impl Dispatcher {
    /// Counts changes, by sequence number; gives the sequence numbers of those that could not be. Scopes go side by side:
    /// they share no row.
    pub(crate) async fn count(&self, changes: Vec<(String, Counted)>) -> Vec<String> {
        let mut by_scope: HashMap<Scope, (Vec<String>, Vec<Counted>)> = HashMap::new();
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
                        tracing::error!(%scope, %error, "changes could not be counted");
                        numbers
                    }
                }
            });
        }
        work.join_all().await.into_iter().flatten().collect()
    }
}
