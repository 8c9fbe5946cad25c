//! Decides whether the scheduler could find a due row in a shard, so that it is not invoked without need.

use domain::time::Timestamp;
use shared::store::{DuePartition, Store, StoreError, due_limit};

use crate::embedded::dynamodb::Database;

pub(super) struct DueRows {
    store: Store,
    shard: u8,
    database: Database,
    known: Option<Known>,
}

/// The earliest row in the shard, in one version of the database.
struct Known {
    version: u64,
    /// `None`: the shard is empty.
    earliest: Option<String>,
}

impl DueRows {
    pub(super) fn new(store: Store, database: &Database, shard: u8) -> Self {
        Self { store, shard, database: database.clone(), known: None }
    }

    pub(super) fn version(&self) -> u64 {
        self.database.version()
    }

    /// Returns true if a row is due, or if that is unknown because the database has changed.
    pub(super) fn may_exist(&self, now: Timestamp) -> bool {
        let Some(known) = self.known.as_ref().filter(|known| known.version == self.database.version()) else {
            return true;
        };
        known.earliest.as_ref().is_some_and(|earliest| *earliest < due_limit(now))
    }

    /// Finds the earliest row if the database still has the version from before a run.
    pub(super) async fn update(&mut self, version: u64) {
        self.known = None;
        if version == self.database.version() {
            match self.earliest().await {
                Ok(earliest) => self.known = Some(Known { version, earliest }),
                Err(error) => tracing::warn!(%error, "the next due row was not found"),
            }
        }
    }

    async fn earliest(&self) -> Result<Option<String>, StoreError> {
        let mut earliest: Option<String> = None;
        for partition in DuePartition::of_shard(self.shard) {
            let (rows, _) = self.store.due(partition, Timestamp::MAX, None).await?;
            let first = rows.into_iter().next().map(|row| row.sort);
            earliest = earliest.into_iter().chain(first).min();
        }
        Ok(earliest)
    }
}
