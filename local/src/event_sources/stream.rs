//! Reads the stream of a table and invokes its function with batches of records. After it has read all records,
//! it waits for a change of the database.
//!
//! Batches run in [`Lanes`], as many at a time as the template's `ParallelizationFactor`. As in Lambda, a failed
//! batch is retried from its first failed record. Batches are not halved, and no record uses up its retries: the
//! function itself sets aside what it can't process.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{RwLock, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::checkpoint::{Checkpoint, CheckpointFile};
use super::lanes::{LaneBatch, Lanes};
use super::shard::{Shard, sequence_number};
use super::{Dependencies, ERROR_PAUSE, batch_item_failures};
use crate::embedded::dynamodb::Database;
use crate::error::{Context, Result};
use crate::filter::Pattern;
use crate::lambda::Invoke;
use crate::template::StreamSource;

/// The minimum time between two reads of a stream of which the first returned no records. Other tables than the
/// stream's may change often, and each change causes a read.
const SHORTEST_POLL: Duration = Duration::from_millis(10);

/// The minimum time between two reads of which the first returned records. Without it, each change of a busy table
/// would cause a read.
const SHORTEST_READ: Duration = Duration::from_millis(20);

/// The first pause before failed records are retried. The pause doubles after each failure.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// The maximum pause before a retry.
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// The number of records that a request reads at most.
const RECORDS_AT_ONCE: usize = 1_000;

/// The number of records that are read, but not processed, above which no more are read.
const MAX_WAITING: usize = 10_000;

pub(super) struct StreamPoller {
    database: Database,
    table: String,
    batch_size: usize,
    lanes: usize,
    filters: Vec<Pattern>,
    checkpoint: CheckpointFile,
    invoke: Invoke,
    streaming: Arc<RwLock<()>>,
}

impl StreamPoller {
    pub(super) fn new(dependencies: &Dependencies<'_>, source: &StreamSource, invoke: &Invoke) -> Arc<Self> {
        Arc::new(Self {
            database: dependencies.database.clone(),
            table: source.table.clone(),
            batch_size: source.batch_size,
            lanes: source.parallelization_factor,
            filters: source.filters.clone(),
            checkpoint: CheckpointFile::new(dependencies.directory, &source.table),
            invoke: Arc::clone(invoke),
            streaming: Arc::clone(dependencies.streaming),
        })
    }

    /// Polls until shutdown is requested.
    pub(super) async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        while !shutdown.is_cancelled() {
            if let Err(error) = self.poll(&shutdown).await {
                tracing::error!(%error, table = self.table, "polling a stream failed");
                tokio::select! {
                    () = tokio::time::sleep(ERROR_PAUSE) => {}
                    () = shutdown.cancelled() => {}
                }
            }
        }
    }

    /// Polls until shutdown is requested or the stream returns an error.
    async fn poll(self: &Arc<Self>, shutdown: &CancellationToken) -> Result<()> {
        let shard = Shard::for_table(&self.database, &self.table)?;
        let checkpoint = self.checkpoint.load().filter(|checkpoint| checkpoint.shard == shard.id);
        let after = checkpoint.map(|checkpoint| checkpoint.sequence_number);
        let shard_id = shard.id.clone();
        let (sender, mut pages) = mpsc::channel(1);
        let mut reading = JoinSet::new();
        reading.spawn(Arc::clone(self).read(shard, after, sender));
        let mut lanes = Lanes::new(self.lanes);
        let mut running = JoinSet::new();
        while !shutdown.is_cancelled() {
            for batch in lanes.take(self.batch_size) {
                running.spawn(Arc::clone(self).process(batch, shutdown.clone()));
            }
            tokio::select! {
                Some(page) = pages.recv(), if lanes.len() < MAX_WAITING => {
                    for record in page {
                        let is_selected = self.passes_filters(&record);
                        lanes.push(record, is_selected);
                    }
                }
                Some(ended) = running.join_next() => {
                    let ended = ended.context("processing a stream")?;
                    // `None`: shutdown is requested.
                    if let Some((lane, numbers)) = ended {
                        lanes.ended(lane, numbers);
                    }
                }
                Some(read) = reading.join_next() => {
                    return read.context("reading a stream").flatten();
                }
                () = shutdown.cancelled() => {}
            }
            if let Some(sequence_number) = lanes.checkpoint() {
                self.checkpoint.save(&Checkpoint { shard: shard_id.clone(), sequence_number });
            }
        }
        while let Some(ended) = running.join_next().await {
            if let Ok(Some((lane, numbers))) = ended {
                lanes.ended(lane, numbers);
            }
        }
        if let Some(sequence_number) = lanes.checkpoint() {
            self.checkpoint.save(&Checkpoint { shard: shard_id, sequence_number });
        }
        Ok(())
    }

    /// Reads the records after a sequence number, until the stream returns an error or the channel is closed.
    async fn read(
        self: Arc<Self>,
        shard: Shard,
        mut after: Option<String>,
        sender: mpsc::Sender<Vec<Value>>,
    ) -> Result<()> {
        let mut iterator = shard.iterator(&self.database, after.as_deref())?;
        loop {
            // Before the read, so that a change during the read causes another read.
            let version = self.database.version();
            let began = Instant::now();
            let (records, next) = shard.records(&self.database, &iterator, RECORDS_AT_ONCE)?;
            let pause = if let Some(last) = records.last().and_then(sequence_number) {
                after = Some(last.to_owned());
                if sender.send(records).await.is_err() {
                    return Ok(());
                }
                SHORTEST_READ
            } else {
                self.database.changed_since(version).await;
                SHORTEST_POLL
            };
            if let Some(next_read) = began.checked_add(pause) {
                tokio::time::sleep_until(next_read).await;
            }
            iterator = match next {
                Some(next) => next,
                None => shard.iterator(&self.database, after.as_deref())?,
            };
        }
    }

    fn passes_filters(&self, record: &Value) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| filter.matches(record))
    }

    /// Invokes the function until each record has succeeded. `None`: shutdown is requested first.
    async fn process(
        self: Arc<Self>,
        batch: LaneBatch,
        shutdown: CancellationToken,
    ) -> Option<(usize, Vec<String>)> {
        let LaneBatch { lane, mut records } = batch;
        let numbers = records.iter().filter_map(sequence_number).map(str::to_owned).collect();
        let mut pause = FIRST_RETRY;
        loop {
            let running = self.streaming.read().await;
            let response = (self.invoke)(json!({ "Records": records })).await;
            drop(running);
            let failed = match response {
                Ok(response) => first_failure(&records, &batch_item_failures(&response)),
                Err(error) => {
                    tracing::error!(error, "the stream's function failed");
                    Some(0)
                }
            };
            match failed {
                None => return Some((lane, numbers)),
                Some(0) => {}
                Some(failed) => {
                    records = records.split_off(failed.min(records.len()));
                    pause = FIRST_RETRY;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shutdown.cancelled() => return None,
            }
            pause = pause.saturating_mul(2).min(LONGEST_RETRY);
        }
    }
}

/// Returns the index of the first failed record. As in Lambda, an identifier that is not in the batch fails
/// the whole batch.
fn first_failure(records: &[Value], failed: &[String]) -> Option<usize> {
    let is_failed =
        |record: &Value| sequence_number(record).is_some_and(|number| failed.iter().any(|one| one == number));
    (!failed.is_empty()).then(|| records.iter().position(is_failed).unwrap_or_default())
}
