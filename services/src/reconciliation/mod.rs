//! Compares a day at an acquirer with the records of the accounts of its connection. Without it, money that the acquirer
//! moved and the ledger does not show goes unnoticed.

pub mod movements;
pub mod pix;

use std::collections::BTreeSet;

use acquirer_core::configuration::AccountAcquirers;
use acquirer_core::{Connection, Connections, KitError};
use domain::acquirer::ConnectionSweep;
use domain::calendar::Day;
use domain::ids::{AccountId, ConnectionId, Mode, Scope};
use domain::time::Timestamp;
use domain::work::WorkFailure;
use serde::{Deserialize, Serialize};
use shared::WorkError;
use shared::clock::Clock;
use shared::store::{Result, RowUpdate, Store, StoreError, number};

use crate::{BankPayments, RemoteCharges};
use movements::MovementReconciliation;
use pix::Comparison;

/// What a comparison of a day found.
#[derive(Clone, Debug)]
pub enum Reconciliation {
    /// With the Pix that a bank lists.
    Pix(Comparison),
    /// With the movements of the balance that another acquirer lists.
    Movements(MovementReconciliation),
}

#[derive(Debug, thiserror::Error)]
pub enum ReconciliationError {
    #[error("the day {0} has not begun in São Paulo")]
    NotBegun(Day),
    #[error("the bank can't be read: {0}")]
    Bank(#[from] KitError),
    /// The number of Pix changed while the list was read, so an item may have been skipped.
    #[error("the bank's list kept changing while it was read; repeat the command")]
    KeepsChanging,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Work(#[from] WorkError),
}

impl WorkFailure for ReconciliationError {
    fn is_outside(&self) -> bool {
        match self {
            Self::Bank(error) => error.is_outside(),
            Self::Work(WorkError::Failed(error)) => error.is_outside(),
            Self::KeepsChanging => true,
            Self::NotBegun(_) | Self::Store(_) | Self::Work(_) => false,
        }
    }
}

#[derive(Deserialize)]
struct LastDay {
    /// [`Day::number`]
    day: i64,
}

const LAST_DAY: &str = "day";

#[derive(Clone, Debug)]
pub struct Reconciler {
    store: Store,
    connections: Connections,
    payments: BankPayments,
    charges: RemoteCharges,
}

impl Reconciler {
    pub fn new(store: Store, acquirers: AccountAcquirers, clock: Clock) -> Self {
        let payments = BankPayments::new(store.clone(), acquirers.clone());
        Self {
            connections: Connections::new(acquirers, clock),
            charges: RemoteCharges::new(store.clone(), payments.clone()),
            payments,
            store,
        }
    }

    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// The last day of a connection that was reconciled automatically.
    pub async fn last_day(&self, connection: ConnectionId) -> Result<Option<Day>> {
        let row = self.store.get::<LastDay>(&ConnectionSweep::reconciled_key(connection)).await?;
        Ok(row.and_then(|row| Day::from_number(row.day)))
    }

    pub async fn keep_last_day(&self, connection: ConnectionId, day: Day) -> Result<()> {
        let row = RowUpdate::of(ConnectionSweep::reconciled_key(connection));
        row.set(LAST_DAY, number(day.number())).run(&self.store).await.map(drop)
    }

    /// Compares a day. With `apply`, first records what the acquirer lists and the records lack. After an error nothing
    /// was compared, and what was recorded remains.
    pub async fn reconcile(
        &self,
        connection: &Connection,
        (day, apply): (Day, bool),
        now: Timestamp,
    ) -> Result<Reconciliation, ReconciliationError> {
        if now < day.starts_at() {
            return Err(ReconciliationError::NotBegun(day));
        }
        let Some(bank) = connection.as_pix() else {
            let at = (&self.connections, connection);
            let (store, charges) = (&self.store, &self.charges);
            let found = movements::reconcile(store, charges, at, (day, apply), now);
            return Ok(Reconciliation::Movements(Box::pin(found).await?));
        };
        let mut found = Box::pin(pix::reconcile(&self.store, bank, day, now)).await?;
        if apply {
            let recorded = Box::pin(pix::record_listed(&self.payments, bank, &found, now)).await?;
            let again = Box::pin(pix::reconcile(&self.store, bank, day, now)).await?;
            found = Comparison { recorded, ..again };
        }
        Ok(Reconciliation::Pix(found))
    }
}

impl Reconciliation {
    pub fn differences(&self) -> usize {
        match self {
            Self::Pix(found) => found.differences.len(),
            Self::Movements(found) => found.differences.len(),
        }
    }

    /// Describes the first differences for a log line.
    pub fn first_differences(&self, most: usize) -> String {
        fn described(differences: &[impl Serialize], most: usize) -> String {
            serde_json::to_string(differences.get(..most).unwrap_or(differences)).unwrap_or_default()
        }
        match self {
            Self::Pix(found) => described(&found.differences, most),
            Self::Movements(found) => described(&found.differences, most),
        }
    }
}

/// Returns the accounts that use a connection. `own`: one of them.
async fn accounts_of(store: &Store, connection: ConnectionId, own: AccountId) -> Result<BTreeSet<AccountId>> {
    let sweep: Option<ConnectionSweep> = store.get(&ConnectionSweep::key_of(connection)).await?;
    Ok(sweep.into_iter().flat_map(|sweep| sweep.accounts).chain([own]).collect())
}

fn live(account: AccountId) -> Scope {
    Scope { account, mode: Mode::Live }
}
