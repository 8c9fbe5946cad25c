//! Recovers deliveries that are not in the due index and whose message was lost, or given up by its queue. It lists
//! the undelivered deliveries of the scopes that had new ones, period by period ([`effects::notes`]). What is listed
//! is in the due index.

use std::time::Instant;

use domain::ids::Scope;
use effects::notes::Period;
use shared::{WorkError, WorkResult, concurrently};

use crate::{Scheduler, WORK_TIME};

/// The most scopes whose deliveries are checked at the same time.
const CONCURRENT_SCOPES: usize = 16;

impl Scheduler {
    /// Checks all periods that were not checked yet. A scope that fails is checked again later: the checkpoint must
    /// not wait for it, because one row that can't be read would keep the lost messages of all other scopes.
    pub(crate) async fn recover_messages(&self) -> WorkResult<()> {
        let started = Instant::now();
        let (mut checked, mut outcome) = (None, Ok(()));
        for period in Period::unchecked(&self.store, self.clock.now()).await? {
            if started.elapsed() >= WORK_TIME {
                break;
            }
            let failed = self.check_scopes(period).await?;
            let now = Period::of(self.clock.now());
            for (scope, error) in failed {
                now.note(&self.store, &scope).await?;
                outcome = Err(error);
            }
            checked = Some(period);
        }
        if let Some(period) = checked {
            period.set_checked(&self.store).await?;
        }
        outcome
    }

    /// Checks the scopes that had new deliveries in a period. Returns those that failed.
    async fn check_scopes(&self, period: Period) -> WorkResult<Vec<(Scope, WorkError)>> {
        let scopes = period.scopes(&self.store).await?;
        let checks = concurrently(CONCURRENT_SCOPES, scopes, |scope| {
            let scheduler = self.clone();
            async move { scheduler.check_scope(scope).await }
        });
        Ok(checks.await.into_iter().filter_map(Result::err).collect())
    }

    async fn check_scope(&self, scope: Scope) -> Result<(), (Scope, WorkError)> {
        let listed = self.deliveries().list_undelivered(&scope, self.clock.now()).await;
        listed.map(drop).map_err(|error| {
            tracing::error!(%scope, %error, "undelivered deliveries were not listed; a later run retries");
            (scope, error.into())
        })
    }
}
