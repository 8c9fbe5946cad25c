//! Sets aside records whose actions failed, so that they do not block the others. Which records, and for how
//! long the others are retried, depends on the [`Cause`].
//!
//! A record that failed for a permanent cause is stored in the bucket and waits for an operator. A record that
//! failed for a temporary cause is stored under another prefix, with a row ([`FailedRecord`]) that is due. The
//! scheduler changes the row's due time, and the stream record of that change starts the replay.
//!
//! The throttled records of a batch are one such group, which is set aside at once. Its replays have pauses of their
//! own, because an account above its ceiling is no failure. Each replay leaves only the records that are throttled
//! again.

use aws_lambda_events::dynamodb::EventRecord;
use domain::hex;
use domain::time::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha256};
use shared::WorkError;
use shared::failed_record::FailedRecord;
use shared::object_store::ObjectStoreError;
use shared::queue::QueueError;
use shared::random;
use shared::store::{Inserted, StoreError, Write};
use tokio::task::JoinSet;

use crate::replay::{QuarantinedObject, ReplayError};
use crate::{BatchOutcome, Dispatcher, sequence_number};

/// The prefix of quarantined records in the bucket. The template allows writes under it.
pub(crate) const QUARANTINE: &str = "failed-stream-records";

/// The part of the prefix for records that the scheduler replays. The template allows the function to read and
/// remove them.
const TEMPORARY: &str = "temporary";

/// How long a record is retried that fails while others succeed, in seconds.
const PATIENCE_SECONDS: i64 = 15 * 60;

/// The shortest and the longest pause before a replay of throttled records, in seconds. In between, the pause is half
/// of the time since they were set aside. The pause is changed at random by up to a half, so that the groups of an
/// account do not return together.
const THROTTLED_PAUSE_SECONDS: (i64, i64) = (30, 10 * 60);

/// The most replays in a batch. They run after the batch's own actions, all at once. A replay that is left out
/// starts at the next due time of its row.
const MAX_REPLAYS: usize = 16;

/// Why the actions of a record failed. If several actions of a record failed, the greatest cause counts: a
/// record whose events can be published later is retried, also if another of its actions never succeeds.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Cause {
    /// Only the statistics could not be written now. The record is set aside at once, because statistics must
    /// not delay events.
    Statistics,
    /// A retry fails too: a row or the record is corrupt. The record is set aside at once.
    Permanent,
    /// DynamoDB throttled a partition of the record's account. The record is set aside at once, because retries
    /// would delay the records of other accounts. No error is logged, because an account above its ceiling is no
    /// failure of the service.
    Throttled,
    /// DynamoDB or SQS could not execute a request now. The record is retried, and set aside if it still fails
    /// after [`PATIENCE_SECONDS`].
    Temporary,
    /// SQS accepted no message of the batch, or a newer version of the function must process the record. The
    /// record is retried for as long as Lambda does.
    Unavailable,
}

impl Cause {
    /// Returns the cause of a failed count. The events of the same record do not depend on the count.
    pub(crate) fn of_count(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Self::Statistics,
            StoreError::Throttled(_) => Self::Throttled,
            StoreError::Corrupt(_) => Self::Permanent,
        }
    }
}

impl From<&StoreError> for Cause {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Self::Temporary,
            StoreError::Throttled(_) => Self::Throttled,
            StoreError::Corrupt(_) => Self::Permanent,
        }
    }
}

impl From<&QueueError> for Cause {
    fn from(error: &QueueError) -> Self {
        match error {
            QueueError::Unavailable(_) => Self::Unavailable,
            QueueError::Malformed(_) => Self::Permanent,
        }
    }
}

impl Dispatcher {
    /// Sets failed records aside. Returns the sequence numbers of those that must be retried instead. Stops at
    /// the first error of DynamoDB or S3, so that during an outage the other records are retried without
    /// waiting for a time-out each.
    pub(crate) async fn set_aside_failed(&self, failed: &[(&EventRecord, Cause)]) -> Vec<String> {
        let of_cause = |wanted: Cause| {
            let of_cause = failed.iter().filter(move |(_, cause)| *cause == wanted);
            of_cause.map(|(record, _)| *record)
        };
        // Statistics are one group, so that a replay counts them in few transactions. So are throttled records,
        // because there can be many.
        let mut groups = Vec::new();
        for cause in [Cause::Statistics, Cause::Throttled] {
            groups.push((of_cause(cause).collect(), cause));
        }
        for cause in [Cause::Permanent, Cause::Temporary, Cause::Unavailable] {
            groups.extend(of_cause(cause).map(|record| (vec![record], cause)));
        }
        let mut retried = Vec::new();
        let mut is_available = true;
        for (records, cause) in groups {
            let records: Vec<&EventRecord> = records;
            let is_set_aside = if is_available { self.set_aside(&records, cause).await } else { Ok(false) };
            let is_set_aside = is_set_aside.unwrap_or_else(|error| {
                tracing::error!(%error, "stream records can't be set aside now");
                is_available = false;
                false
            });
            if !is_set_aside {
                retried.extend(records.into_iter().map(sequence_number));
            }
        }
        retried
    }

    /// Sets a group of records aside, or one record. `false`: they must be retried.
    async fn set_aside(&self, records: &[&EventRecord], cause: Cause) -> Result<bool, WorkError> {
        match (records, cause) {
            ([], _) => Ok(true),
            (_, Cause::Unavailable) => Ok(false),
            (_, Cause::Permanent) => self.quarantine(records).await.map(|()| true),
            (_, Cause::Statistics | Cause::Throttled) => self.set_aside_for_replay(records, cause, 0).await,
            (_, Cause::Temporary) => self.set_aside_for_replay(records, cause, PATIENCE_SECONDS).await,
        }
    }

    /// Stores records in the bucket, one object each. They wait there for an operator.
    async fn quarantine(&self, records: &[&EventRecord]) -> Result<(), WorkError> {
        for record in records {
            let number = sequence_number(record);
            self.put_object(format!("{QUARANTINE}/{number}.json"), serde_json::to_vec(record)?).await?;
            tracing::error!(sequence_number = number, "a stream record was set aside for an operator");
        }
        Ok(())
    }

    /// Stores records that the scheduler replays, if the first of them has failed for `patience_seconds`. The
    /// insert of the row shows that DynamoDB accepts other writes, so an outage sets no record aside.
    async fn set_aside_for_replay(
        &self,
        records: &[&EventRecord],
        cause: Cause,
        patience_seconds: i64,
    ) -> Result<bool, WorkError> {
        let now = self.clock.now();
        let new = FailedRecord::new(&name_of(records), now);
        let failed = match self.store.insert(&new).await? {
            Inserted::New => new,
            Inserted::Existing(failed) => failed,
        };
        if failed.first_failed_at.saturating_plus_seconds(patience_seconds) > now {
            return Ok(false);
        }
        // The row becomes due before the object exists. So no object stays without a row that leads to its
        // replay. A replay that finds no object has nothing to do.
        if failed.set_aside_at.is_none() {
            let replay_at = (cause == Cause::Throttled).then(|| throttled_replay_at(now, now));
            let due = Write::replace(&failed.set_aside(now, replay_at), failed.version)?;
            let _replaced_here_or_by_another_attempt = self.store.commit(vec![due]).await?;
        }
        let body = serde_json::to_vec(&json!({ "Records": records }))?;
        self.put_object(temporary_object(&failed), body).await?;
        let (sequence_number, first_failed_at) = (&failed.sequence_number, failed.first_failed_at);
        let count = records.len();
        if cause == Cause::Throttled {
            tracing::warn!(sequence_number, count, "throttled stream records were postponed");
            return Ok(true);
        }
        tracing::error!(
            sequence_number,
            %first_failed_at,
            count,
            "a stream record was set aside; the scheduler replays it"
        );
        Ok(true)
    }

    async fn put_object(&self, key: String, body: Vec<u8>) -> Result<(), WorkError> {
        let put = self.s3.put_object().bucket(&self.bucket).key(key).body(body.into());
        put.send().await.map_err(ObjectStoreError::from)?;
        Ok(())
    }

    /// Replays records that were set aside for a temporary cause. A failure is only logged and does not block
    /// the stream, because the scheduler starts the next replay.
    pub(crate) async fn replay_due(&self, due: Vec<FailedRecord>) {
        let mut work = JoinSet::new();
        for failed in due.into_iter().take(MAX_REPLAYS) {
            let dispatcher = self.clone();
            work.spawn(async move {
                if let Err(error) = dispatcher.replay_temporary(&failed).await {
                    let sequence_number = failed.sequence_number;
                    tracing::error!(sequence_number, %error, "a stream record that was set aside still fails");
                }
            });
        }
        work.join_all().await;
    }

    /// Sets the time of the next replay of throttled records. `left`: the records that remain in the object, if they
    /// are fewer than before.
    async fn postpone(
        &self,
        failed: &FailedRecord,
        left: Option<&Vec<&EventRecord>>,
    ) -> Result<(), WorkError> {
        if let Some(left) = left {
            let body = serde_json::to_vec(&json!({ "Records": left }))?;
            self.put_object(temporary_object(failed), body).await?;
        }
        let now = self.clock.now();
        let replay_at = throttled_replay_at(failed.set_aside_at.unwrap_or(now), now);
        let postponed = Write::replace(&failed.postponed(replay_at), failed.version)?;
        let _replaced_or_changed_meanwhile = self.store.commit(vec![postponed]).await?;
        Ok(())
    }

    /// Replays an object of the scheduler, removes it, and ends its row. Records that now fail for a permanent
    /// cause are left to an operator.
    async fn replay_temporary(&self, failed: &FailedRecord) -> Result<(), ReplayError> {
        let since = failed.set_aside_at.unwrap_or(failed.first_failed_at);
        let object = QuarantinedObject { key: temporary_object(failed), since };
        if let Some(records) = self.fetch(&object).await? {
            let BatchOutcome { failures, .. } = self.work_on(&records).await;
            let is_permanent =
                |record: &&EventRecord| failures.get(&sequence_number(record)) == Some(&Cause::Permanent);
            let permanent: Vec<&EventRecord> = records.iter().filter(is_permanent).collect();
            self.quarantine(&permanent).await?;
            let is_temporary = |record: &&EventRecord| {
                failures.get(&sequence_number(record)).is_some_and(|cause| *cause != Cause::Permanent)
            };
            let temporary: Vec<&EventRecord> = records.iter().filter(is_temporary).collect();
            if !temporary.is_empty() {
                let is_throttled =
                    failures.values().all(|cause| matches!(cause, Cause::Throttled | Cause::Permanent));
                if is_throttled {
                    let is_fewer = temporary.len() < records.len();
                    self.postpone(failed, is_fewer.then_some(&temporary)).await?;
                    if self.clock.now().millis_since(since) < PATIENCE_SECONDS.saturating_mul(1_000) {
                        return Ok(());
                    }
                }
                return Err(ReplayError::Failed(temporary.into_iter().map(sequence_number).collect()));
            }
            self.remove(&object).await?;
        }
        let replayed = Write::replace(&failed.replayed(), failed.version).map_err(WorkError::from)?;
        let _replaced_or_changed_meanwhile =
            self.store.commit(vec![replayed]).await.map_err(WorkError::from)?;
        Ok(())
    }
}

fn temporary_object(failed: &FailedRecord) -> String {
    format!("{QUARANTINE}/{TEMPORARY}/{}.json", failed.sequence_number)
}

/// Returns the name of a group of records: the sequence number of its first record, followed by a hash if there are
/// more. So two groups have different objects, and neither overwrites records of the other.
fn name_of(records: &[&EventRecord]) -> String {
    let numbers: Vec<String> = records.iter().map(|record| sequence_number(record)).collect();
    match numbers.as_slice() {
        [only] => only.clone(),
        several => {
            let first = several.first().map(String::as_str).unwrap_or_default();
            let hash = Sha256::digest(several.join(",").as_bytes());
            format!("{first}-{}", hex::encode(hash.get(..8).unwrap_or_default()))
        }
    }
}

/// Returns the time of the next replay of records that were set aside at `since`.
fn throttled_replay_at(since: Timestamp, now: Timestamp) -> Timestamp {
    let (shortest, longest) = THROTTLED_PAUSE_SECONDS;
    let pause = now.millis_since(since).div_euclid(2_000).clamp(shortest, longest);
    let jitter = i64::try_from(random::below(pause.unsigned_abs())).unwrap_or_default();
    now.saturating_plus_seconds(pause.div_euclid(2).saturating_add(jitter))
}
