//! Reads the stream of a table and invokes its function with batches of records. After it has read all records,
//! it waits for a change of the database.
//!
//! Retries work as in Lambda. A failed batch is retried from its first failed record. If no record succeeded
//! and the template enables `BisectBatchOnFunctionError`, the batch is halved before the retry. A record that
//! uses up its retries is quarantined in a bucket, and the stream continues.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::checkpoint::{Checkpoint, CheckpointFile};
use super::shard::{Shard, sequence_number};
use super::{Dependencies, ERROR_PAUSE, batch_item_failures};
use crate::embedded::signals::Changes;
use crate::error::Error;
use crate::filter::Pattern;
use crate::lambda::Invoke;
use crate::sdk;
use crate::shutdown::Shutdown;
use crate::template::{StreamSource, bucket_name};
use crate::wire::{JsonClient, JsonClientError};

/// The minimum time between two reads of a stream of which the first returned no records. Other tables than the
/// stream's may change often, and each change causes a read.
const SHORTEST_POLL: Duration = Duration::from_millis(10);

/// The first pause before failed records are retried. The pause doubles after each failure.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// The maximum pause before a retry.
const LONGEST_RETRY: Duration = Duration::from_secs(2);

pub(super) struct StreamPoller {
    wire: JsonClient,
    table: String,
    batch_size: usize,
    max_retries: u32,
    bisect: bool,
    quarantine_bucket: Option<String>,
    filters: Vec<Pattern>,
    s3: aws_sdk_s3::Client,
    checkpoint: CheckpointFile,
    changes: Changes,
    invoke: Invoke,
}

impl StreamPoller {
    pub(super) fn new(dependencies: &Dependencies<'_>, source: &StreamSource, invoke: &Invoke) -> Self {
        Self {
            wire: JsonClient::new(&dependencies.endpoints.dynamodb_url),
            table: source.table.clone(),
            batch_size: source.batch_size,
            max_retries: source.max_retries.unwrap_or(u32::MAX),
            bisect: source.bisect,
            quarantine_bucket: source.quarantine_bucket.as_deref().map(bucket_name),
            filters: source.filters.clone(),
            s3: sdk::s3(&dependencies.endpoints.s3_url),
            checkpoint: CheckpointFile::new(dependencies.directory, &source.table),
            changes: dependencies.signals.changes.clone(),
            invoke: Arc::clone(invoke),
        }
    }

    /// Polls until shutdown is requested. After an error, polling resumes from the last saved checkpoint.
    pub(super) async fn run(self, mut shutdown: Shutdown) {
        while !shutdown.is_requested() {
            if let Err(error) = self.poll(&mut shutdown).await {
                tracing::error!(%error, table = self.table, "polling a stream failed");
                tokio::select! {
                    () = tokio::time::sleep(ERROR_PAUSE) => {}
                    () = shutdown.requested() => {}
                }
            }
        }
    }

    /// Polls until shutdown is requested or the stream returns an error.
    async fn poll(&self, shutdown: &mut Shutdown) -> Result<(), JsonClientError> {
        let shard = Shard::for_table(&self.wire, &self.table).await?;
        let mut checkpoint = self.checkpoint.load().filter(|checkpoint| checkpoint.shard == shard.id);
        let after = checkpoint.as_ref().map(|checkpoint| checkpoint.sequence_number.as_str());
        let mut iterator = shard.iterator(&self.wire, after).await?;
        let mut changes = self.changes.clone();
        while !shutdown.is_requested() {
            // Before the read, so that a change during the read causes another read.
            let version = changes.version();
            let next_read = Instant::now().checked_add(SHORTEST_POLL);
            let (records, next) = shard.records(&self.wire, &iterator, self.batch_size).await?;
            if records.is_empty() {
                let next_change = async {
                    changes.since(version).await;
                    if let Some(next_read) = next_read {
                        tokio::time::sleep_until(next_read).await;
                    }
                };
                tokio::select! {
                    () = next_change => {}
                    () = shutdown.requested() => {}
                }
            } else {
                let last = records.last().and_then(sequence_number).unwrap_or_default().to_owned();
                let records: Vec<Value> =
                    records.into_iter().filter(|record| self.passes_filters(record)).collect();
                if !records.is_empty() && !self.process(records, shutdown).await {
                    return Ok(());
                }
                let reached = Checkpoint { shard: shard.id.clone(), sequence_number: last };
                self.checkpoint.save(&reached);
                checkpoint = Some(reached);
            }
            iterator = if let Some(next) = next {
                next
            } else {
                let after = checkpoint.as_ref().map(|checkpoint| checkpoint.sequence_number.as_str());
                shard.iterator(&self.wire, after).await?
            };
        }
        Ok(())
    }

    fn passes_filters(&self, record: &Value) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| filter.matches(record))
    }

    /// Invokes the function until each record has succeeded or is quarantined, and returns true. Returns
    /// false when shutdown is requested first.
    async fn process(&self, records: Vec<Value>, shutdown: &mut Shutdown) -> bool {
        let mut waiting = VecDeque::from([Batch { records, retries: 0 }]);
        let mut pause = FIRST_RETRY;
        while let Some(batch) = waiting.pop_front() {
            let failed = match (self.invoke)(json!({ "Records": batch.records })).await {
                Ok(response) => first_failure(&batch.records, &batch_item_failures(&response)),
                Err(error) => {
                    tracing::error!(error, "the stream's function failed");
                    Some(0)
                }
            };
            let Some(failed) = failed else {
                pause = FIRST_RETRY;
                continue;
            };
            for retry in batch.split_for_retry(failed, self.bisect).into_iter().rev() {
                if retry.retries <= self.max_retries {
                    waiting.push_front(retry);
                } else {
                    self.quarantine(&retry.records).await;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shutdown.requested() => return false,
            }
            pause = pause.saturating_mul(2).min(LONGEST_RETRY);
        }
        true
    }

    /// Saves records that used up their retries to the bucket. Without a bucket, the records are dropped, as
    /// in Lambda.
    async fn quarantine(&self, records: &[Value]) {
        let Some(bucket) = &self.quarantine_bucket else { return };
        let key = format!("failed-stream-records/{}.json", uuid::Uuid::new_v4());
        let body = json!({ "Records": records }).to_string().into_bytes();
        let put = self.s3.put_object().bucket(bucket).key(&key).body(body.into()).send().await;
        match put {
            Ok(_) => tracing::error!(bucket, key, "a stream record was quarantined"),
            Err(error) => {
                tracing::error!(error = %Error::because("quarantining a record", &error), "a stream record is lost, because quarantining it failed");
            }
        }
    }
}

/// The records of one invocation.
struct Batch {
    records: Vec<Value>,
    /// How often these records were retried.
    retries: u32,
}

impl Batch {
    /// Returns the batches to invoke next. `failed` is the index of the first failed record.
    ///
    /// - If records before `failed` succeeded, returns one batch that begins at the failed record. Its retry
    ///   count starts at 1.
    /// - If no record succeeded and `bisect` is set, returns two halves. Halving does not count as a retry,
    ///   so that a record is retried alone before it is quarantined.
    /// - Otherwise, returns the same batch with one more retry.
    fn split_for_retry(self, failed: usize, bisect: bool) -> Vec<Self> {
        let Self { mut records, retries } = self;
        if failed > 0 {
            let records = records.split_off(failed.min(records.len()));
            return vec![Self { records, retries: 1 }];
        }
        if bisect && records.len() > 1 {
            let second = records.split_off(records.len().div_ceil(2));
            return vec![Self { records, retries }, Self { records: second, retries: 0 }];
        }
        let retries = retries.saturating_add(1);
        vec![Self { records, retries }]
    }
}

/// Returns the index of the first failed record. As in Lambda, an identifier that is not in the batch fails
/// the whole batch.
fn first_failure(records: &[Value], failed: &[String]) -> Option<usize> {
    let is_failed =
        |record: &Value| sequence_number(record).is_some_and(|number| failed.iter().any(|one| one == number));
    (!failed.is_empty()).then(|| records.iter().position(is_failed).unwrap_or_default())
}
