//! Replays stream records from the bucket: records that the dispatcher stored, under `failed-stream-records/`,
//! and batches that Lambda discarded when it stopped retrying, under `aws/lambda/`. An operator starts a replay
//! of all of them after the cause is fixed. The function's schedule replays those of throttled accounts.
//!
//! The records of an object are processed by the same code as stream records. The object is removed after all its
//! records succeeded. A replay that stops half-way can be repeated, because processing a record twice has no
//! further effect.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use aws_lambda_events::dynamodb::{Event as StreamEvent, EventRecord};
use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata as _};
use domain::ids::{AccountId, Scope};
use domain::time::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::object_store::ObjectStoreError;
use shared::{concurrently, random};

use crate::quarantine::{Cause, POSTPONED, QUARANTINE};
use crate::{Dispatcher, sequence_number};

/// The prefix of batches that Lambda discarded: `aws/lambda/<mapping>/<shard>/<time>-<random>` (Lambda:
/// Retain discarded records for a DynamoDB event source).
const DISCARDED: &str = "aws/lambda/";

/// The greatest age of an object that is replayed, in days. Event rows deduplicate changes, and are kept for 90
/// days. So an older change could be published and counted a second time.
const OLDEST_DAYS: i64 = 85;

/// How long a run of the schedule begins further replays. The next run, a minute after the start of this one,
/// continues.
const WORK_TIME: Duration = Duration::from_secs(40);

/// The most objects that a run of the schedule replays concurrently.
const CONCURRENT_OBJECTS: usize = 8;

/// How long records may be throttled, in milliseconds, before an error is logged: 15 minutes.
const PATIENCE_MS: i64 = 15 * 60 * 1_000;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

#[derive(Clone, Debug)]
pub struct QuarantinedObject {
    pub key: String,
    pub since: Timestamp,
}

impl QuarantinedObject {
    fn is_too_old(&self, now: Timestamp) -> bool {
        now.millis_since(self.since) > OLDEST_DAYS.saturating_mul(DAY_MS)
    }
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReplaySummary {
    pub records: usize,
    /// The accounts of the changed rows that have a scope.
    pub accounts: BTreeSet<AccountId>,
}

/// Why an object stays in the bucket.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Bucket(#[from] ObjectStoreError),
    #[error("the object contains no stream records: {0}")]
    Malformed(String),
    #[error("the object is older than {OLDEST_DAYS} days; its changes might be published and counted twice")]
    TooOld,
    #[error("the object was removed meanwhile")]
    Removed,
    #[error("records still can't be read: {}", .0.join(", "))]
    Unreadable(Vec<String>),
    /// The records with these sequence numbers still fail for a permanent cause. The others were processed.
    #[error("records, or rows that they change, still can't be read: {}", .0.join(", "))]
    Permanent(Vec<String>),
    /// The actions of the records with these sequence numbers failed; a later replay may succeed. The other
    /// readable records were processed.
    #[error("records could not be processed now, try again: {}", .0.join(", "))]
    Failed(Vec<String>),
}

/// An object that Lambda writes for a discarded batch. Only `payload` is used: the event, as JSON text.
#[derive(Deserialize)]
struct DiscardedBatch {
    payload: Value,
}

/// Parses the records of an object: one record or a group of records of the dispatcher, or a batch of Lambda.
fn records(body: &[u8]) -> Result<Vec<EventRecord>, ReplayError> {
    let malformed = |error: serde_json::Error| ReplayError::Malformed(error.to_string());
    let object: Value = serde_json::from_slice(body).map_err(malformed)?;
    if object.get("dynamodb").is_some() {
        return Ok(vec![serde_json::from_value(object).map_err(malformed)?]);
    }
    if object.get("Records").is_some() {
        let event: StreamEvent = serde_json::from_value(object).map_err(malformed)?;
        return Ok(event.records);
    }
    let DiscardedBatch { payload } = serde_json::from_value(object).map_err(malformed)?;
    let event: StreamEvent = match payload {
        Value::String(text) => serde_json::from_str(&text),
        event => serde_json::from_value(event),
    }
    .map_err(malformed)?;
    Ok(event.records)
}

fn account(record: &EventRecord) -> Option<AccountId> {
    let scope = match record.change.new_image.inner().get("scope") {
        Some(serde_dynamo::AttributeValue::S(scope)) => scope.parse::<Scope>().ok(),
        _ => None,
    };
    scope.map(|scope| scope.account)
}

impl Dispatcher {
    /// Lists the quarantined objects, sorted by key under each prefix.
    pub async fn list_quarantined(&self) -> Result<Vec<QuarantinedObject>, ReplayError> {
        Ok([self.list(QUARANTINE).await?, self.list(DISCARDED).await?].concat())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<QuarantinedObject>, ObjectStoreError> {
        let mut pages = self.s3.list_objects_v2().bucket(&self.bucket).prefix(prefix).into_paginator().send();
        let mut objects = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page?;
            objects.extend(page.contents.into_iter().flatten().filter_map(|object| {
                let stored_ms = object.last_modified.and_then(|time| time.to_millis().ok());
                let key = object.key?;
                let since = postponed_at(&key).or_else(|| Timestamp::from_millis(stored_ms?).ok());
                Some(QuarantinedObject { key, since: since.unwrap_or(Timestamp::MIN) })
            }));
        }
        Ok(objects)
    }

    /// Replays the records of throttled accounts. What is throttled again stays for the next run.
    pub(crate) async fn replay_postponed(&self) -> Result<(), ObjectStoreError> {
        let started = Instant::now();
        let mut objects = self.list(POSTPONED).await?;
        // A run may not reach all objects, so each begins elsewhere.
        let first = random::below(u64::try_from(objects.len()).unwrap_or_default().max(1));
        objects.rotate_left(usize::try_from(first).unwrap_or_default());
        concurrently(CONCURRENT_OBJECTS, objects, |object| {
            let dispatcher = self.clone();
            async move {
                if started.elapsed() >= WORK_TIME {
                    return;
                }
                if let Err(error) = dispatcher.replay_throttled(&object).await {
                    tracing::error!(object = object.key, %error, "postponed stream records still fail");
                }
            }
        })
        .await;
        Ok(())
    }

    /// Replays the records of an object once more, and leaves those that fail in it.
    async fn replay_throttled(&self, object: &QuarantinedObject) -> Result<(), ReplayError> {
        let (records, failures) = match self.process(object).await {
            // An operator has replayed them meanwhile.
            Err(ReplayError::Removed) => return Ok(()),
            processed => processed?,
        };
        let left = self.set_aside_unreadable(&records, &failures).await;
        if left.is_empty() {
            return self.remove(object).await;
        }
        if left.len() < records.len() {
            let left: Vec<&EventRecord> = left.iter().map(|(record, _)| *record).collect();
            self.store_object(&object.key, &json!({ "Records": left })).await?;
        }
        if self.clock.now().millis_since(object.since) < PATIENCE_MS {
            return Ok(());
        }
        Err(ReplayError::Failed(left.into_iter().map(|(record, _)| sequence_number(record)).collect()))
    }

    pub async fn inspect(&self, object: &QuarantinedObject) -> Result<ReplaySummary, ReplayError> {
        let records = self.fetch(object).await?;
        let unreadable = records.iter().filter(|record| self.read(record).is_err());
        let unreadable: Vec<String> = unreadable.map(sequence_number).collect();
        if unreadable.is_empty() { Ok(summary(&records)) } else { Err(ReplayError::Unreadable(unreadable)) }
    }

    /// Processes an object's records. The object stays, so that the caller can write an audit entry before it
    /// removes the object.
    pub async fn replay(&self, object: &QuarantinedObject) -> Result<ReplaySummary, ReplayError> {
        let (records, failures) = self.process(object).await?;
        let (permanent, temporary): (Vec<_>, Vec<_>) =
            failures.into_iter().partition(|(_, cause)| *cause == Cause::Permanent);
        let numbers =
            |failures: Vec<(String, Cause)>| failures.into_iter().map(|(number, _)| number).collect();
        if !temporary.is_empty() {
            return Err(ReplayError::Failed(numbers(temporary)));
        }
        if !permanent.is_empty() {
            return Err(ReplayError::Permanent(numbers(permanent)));
        }
        Ok(summary(&records))
    }

    pub async fn remove(&self, object: &QuarantinedObject) -> Result<(), ReplayError> {
        let removed = self.s3.delete_object().bucket(&self.bucket).key(&object.key).send().await;
        removed.map_err(ObjectStoreError::from)?;
        Ok(())
    }

    /// Processes an object's records. Returns them, and the causes of those that failed.
    async fn process(
        &self,
        object: &QuarantinedObject,
    ) -> Result<(Vec<EventRecord>, HashMap<String, Cause>), ReplayError> {
        let records = self.fetch(object).await?;
        let is_postponed = object.key.starts_with(POSTPONED);
        let failures = self.work_on(&records, is_postponed).await;
        Ok((records, failures))
    }

    async fn fetch(&self, object: &QuarantinedObject) -> Result<Vec<EventRecord>, ReplayError> {
        if object.is_too_old(self.clock.now()) {
            return Err(ReplayError::TooOld);
        }
        let got = self.s3.get_object().bucket(&self.bucket).key(&object.key).send().await;
        let got = match got {
            Err(error) if error.code() == Some("NoSuchKey") => return Err(ReplayError::Removed),
            got => got.map_err(ObjectStoreError::from)?,
        };
        let unread = |error| ObjectStoreError::Unavailable(DisplayErrorContext(error).to_string());
        records(&got.body.collect().await.map_err(unread)?.into_bytes())
    }
}

/// Returns when the records of an object were postponed, which its key begins with. `None`: it has others.
fn postponed_at(key: &str) -> Option<Timestamp> {
    let (millis, _) = key.strip_prefix(POSTPONED)?.split_once('-')?;
    Timestamp::from_millis(millis.parse().ok()?).ok()
}

fn summary(records: &[EventRecord]) -> ReplaySummary {
    ReplaySummary { records: records.len(), accounts: records.iter().filter_map(account).collect() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_replayed_for_85_days() {
        let stored: Timestamp = "2026-09-01T00:00:00Z".parse().unwrap();
        let object = QuarantinedObject { key: "failed-stream-records/1.json".to_owned(), since: stored };
        assert!(!object.is_too_old("2026-11-25T00:00:00Z".parse().unwrap()));
        assert!(object.is_too_old("2026-11-25T00:00:00.001Z".parse().unwrap()));
    }

    #[test]
    fn the_records_of_each_kind_of_object_are_parsed() {
        let record = json!({
            "eventID": "1", "eventName": "INSERT", "eventSource": "aws:dynamodb", "awsRegion": "sa-east-1",
            "dynamodb": {
                "Keys": {"pk": {"S": "charge#1"}, "sk": {"S": "charge"}},
                "NewImage": {"pk": {"S": "charge#1"}, "sk": {"S": "charge"}, "scope": {"S": "acc_0123456789abcdef:test"}},
                "SequenceNumber": "111", "SizeBytes": 26, "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        });
        let event = json!({ "Records": [record, record] });
        let discarded = json!({
            "requestContext": {
                "requestId": "316aa6d0-8154-xmpl-9af7-85d5f4a6bc81",
                "functionArn": "arn:aws:lambda:sa-east-1:123456789012:function:dispatcher",
                "condition": "RecordAgeExceeded", "approximateInvokeCount": 1,
            },
            "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
            "version": "1.0", "timestamp": "2026-11-21T00:13:49.717Z",
            "DDBStreamBatchInfo": {
                "shardId": "shardId-00000001573689847184-864758bb", "startSequenceNumber": "111",
                "endSequenceNumber": "111", "batchSize": 2, "streamArn": "arn:aws:dynamodb:…",
            },
            "payload": event.to_string(),
        });
        let whole = records(discarded.to_string().as_bytes()).unwrap();
        let found = summary(&whole);
        assert_eq!((found.records, found.accounts.len()), (2, 1));
        let mut nested = discarded.clone();
        nested["payload"] = event;
        assert_eq!(records(nested.to_string().as_bytes()).unwrap(), whole);
        assert_eq!(records(record.to_string().as_bytes()).unwrap(), whole[..1]);
        let group = json!({ "Records": [record, record] });
        assert_eq!(records(group.to_string().as_bytes()).unwrap(), whole);
        for other in ["{}", "[]", "no JSON", r#"{"payload": "{"}"#, r#"{"payload": null}"#] {
            assert!(matches!(records(other.as_bytes()), Err(ReplayError::Malformed(_))), "{other}");
        }
    }
}
