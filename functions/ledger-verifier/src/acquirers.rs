//! Reconciles the days at acquirers that have ended since the last run. A connection that can't be read is tried again
//! by the next run.

use std::collections::BTreeMap;

use acquirer_core::configuration::AccountAcquirers;
use domain::account::Account;
use domain::acquirer::ConnectionSweep;
use domain::calendar::Day;
use domain::ids::ConnectionId;
use services::reconciliation::Reconciler;
use shared::clock::Clock;
use shared::store::Store;
use shared::{WorkError, WorkResult, concurrently, metrics};
use tokio::time::{Instant, timeout_at};

/// The most days that are made up for, after an acquirer could not be read. A bank lists Pix of longer ago more slowly.
const MOST_DAYS: u64 = 7;

/// The connections that are reconciled at a time.
const CONCURRENT_CONNECTIONS: usize = 8;

/// The number of differences that a log line describes.
const DESCRIBED_DIFFERENCES: usize = 5;

#[derive(Clone, Debug)]
pub(crate) struct Acquirers {
    settings: AccountAcquirers,
    reconciler: Reconciler,
    clock: Clock,
}

impl Acquirers {
    pub(crate) fn new(store: Store, settings: AccountAcquirers, clock: Clock) -> Self {
        let reconciler = Reconciler::new(store, settings.clone(), clock.clone());
        Self { settings, reconciler, clock }
    }

    /// Reconciles all connections of the accounts, also retired ones, until `deadline`. No failure ends it.
    pub(crate) async fn reconcile(&self, accounts: &[Account], deadline: Instant) {
        let mut sweeps: BTreeMap<ConnectionId, ConnectionSweep> = BTreeMap::new();
        for account in accounts {
            match self.settings.sweeps(&account.id).await {
                Ok(found) => sweeps.extend(found.into_iter().map(|sweep| (sweep.connection, sweep))),
                Err(error) => {
                    tracing::warn!(account = %account.id, %error, "the connections of an account can't be read");
                }
            }
        }
        let connections = sweeps.len();
        let ended = concurrently(CONCURRENT_CONNECTIONS, sweeps.into_values(), |sweep| {
            let acquirers = self.clone();
            async move { acquirers.reconcile_days(&sweep, deadline).await }
        });
        let differences: Vec<Option<usize>> = ended.await;
        let failed = differences.iter().filter(|ended| ended.is_none()).count();
        let differences: usize = differences.into_iter().flatten().sum();
        tracing::info!(connections, differences, failed, "the acquirers were reconciled");
        metrics::write("", &[(metrics::ACQUIRER_DIFFERENCES, &differences)]);
    }

    /// Returns the number of differences. `None`: a day could not be compared.
    async fn reconcile_days(&self, sweep: &ConnectionSweep, deadline: Instant) -> Option<usize> {
        let (connection, accounts) = (sweep.connection, &sweep.accounts);
        let last = match self.reconciler.last_day(connection).await {
            Ok(last) => last,
            Err(error) => {
                tracing::warn!(%connection, ?accounts, %error, "the last reconciled day can't be read");
                return None;
            }
        };
        let mut differences: usize = 0;
        for day in sweep.days_to_reconcile(last, MOST_DAYS, self.clock.now()) {
            match timeout_at(deadline, Box::pin(self.reconcile_day(sweep, day))).await {
                Ok(Ok(found)) => differences = differences.saturating_add(found),
                Ok(Err(error)) => {
                    tracing::warn!(%connection, ?accounts, %day, %error, "a day can't be reconciled; it is tried again tomorrow, or at once by `admin reconcile`");
                    return None;
                }
                Err(_elapsed) => {
                    tracing::warn!(%connection, ?accounts, %day, "the time was not enough to reconcile a day; reconcile it with `admin reconcile`");
                    return None;
                }
            }
        }
        Some(differences)
    }

    async fn reconcile_day(&self, sweep: &ConnectionSweep, day: Day) -> WorkResult<usize> {
        let ConnectionSweep { connection, accounts, .. } = sweep;
        let now = self.clock.now();
        let usable = self.reconciler.connections().of_accounts(accounts, *connection).await;
        let at = usable.first().ok_or(WorkError::Missing("no account has credentials for the connection"))?;
        let found = self.reconciler.reconcile(at, (day, false), now).await?;
        let differences = found.differences();
        if differences > 0 {
            let first = found.first_differences(DESCRIBED_DIFFERENCES);
            tracing::warn!(%connection, ?accounts, %day, differences, first, "an acquirer's day differs from the records");
        }
        self.reconciler.keep_last_day(*connection, day).await?;
        Ok(differences)
    }
}
