//! Recovers deliveries that are not in the due index and whose message was lost, or given up by its queue. It lists
//! the undelivered deliveries of the scopes that had new ones, period by period ([`shared::notes`]). What is listed
//! is in the due index.

use std::time::Instant;

use domain::ids::Scope;
use shared::WorkError;
use shared::notes::Period;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::{Scheduler, WORK_TIME};

/// The most scopes whose deliveries are checked at the same time.
const CONCURRENT_SCOPES: usize = 16;

impl Scheduler {
    /// Checks all periods that were not checked yet. A period is checked again if one of its scopes failed.
    pub(crate) async fn recover_messages(&self) -> Result<(), WorkError> {
        let started = Instant::now();
        let (mut checked, mut outcome) = (None, Ok(()));
        for period in Period::unchecked(&self.store, self.clock.now()).await? {
            if started.elapsed() >= WORK_TIME {
                break;
            }
            outcome = self.check_scopes(period).await;
            if outcome.is_err() {
                break;
            }
            checked = Some(period);
        }
        if let Some(period) = checked {
            period.set_checked(&self.store).await?;
        }
        outcome
    }

    /// Checks the scopes that had new deliveries in a period. The error is that of one scope; the others are checked
    /// nevertheless.
    async fn check_scopes(&self, period: Period) -> Result<(), WorkError> {
        let scopes = self.deliveries().scopes_with_new(period).await?;
        let mut failure = None;
        for some in scopes.chunks(CONCURRENT_SCOPES) {
            let mut checks = JoinSet::new();
            for scope in some {
                let (scheduler, scope) = (self.clone(), *scope);
                checks.spawn(async move { scheduler.check_scope(&scope).await }.in_current_span());
            }
            failure = checks.join_all().await.into_iter().find_map(Result::err).or(failure);
        }
        failure.map_or(Ok(()), Err)
    }

    async fn check_scope(&self, scope: &Scope) -> Result<(), WorkError> {
        let listed = self.deliveries().list_undelivered(scope, self.clock.now()).await;
        listed.inspect_err(|error| {
            tracing::error!(%scope, %error, "undelivered deliveries were not listed; a later run retries");
        })?;
        Ok(())
    }
}
