//! Stores failed records in the bucket, so that they do not block the others. The [`Cause`] decides: a record that
//! can't be read waits for an operator; those of a throttled account are replayed every minute (`replay`).

use std::collections::HashMap;

use aws_lambda_events::dynamodb::EventRecord;
use serde_json::{Value, json};
use shared::object_store::ObjectStoreError;
use shared::store::StoreError;

use crate::{Dispatcher, sequence_number};

/// The prefix of stored records in the bucket. The template allows writes under it.
pub(crate) const QUARANTINE: &str = "failed-stream-records/";

/// The prefix of the records of throttled accounts. The template allows the function to read and remove them.
pub(crate) const POSTPONED: &str = "failed-stream-records/postponed/";

/// Why the actions of a record failed. If several actions of a record failed, the greatest cause counts: a
/// record whose events can be published later is retried, also if another of its actions never succeeds.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Cause {
    /// The record, or a row that it changes, can't be read. A retry fails too, so the record is set aside at once.
    Permanent,
    /// DynamoDB throttled a partition of the record's account. The record is postponed, because retries by Lambda
    /// would delay the records of other accounts. No error is logged, because an account above its ceiling is no
    /// failure of the service.
    Throttled,
    /// DynamoDB or SQS did not execute a request, or a newer version of the function must process the record.
    /// Lambda retries it.
    Unavailable,
}

impl From<&StoreError> for Cause {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Random(_) => Self::Unavailable,
            StoreError::Throttled(_) => Self::Throttled,
            StoreError::Corrupt(_) => Self::Permanent,
        }
    }
}

impl Dispatcher {
    /// Sets aside those of the failed records that can't be read. Returns the others.
    pub(crate) async fn set_aside_unreadable<'a>(
        &self,
        records: &'a [EventRecord],
        failures: &HashMap<String, Cause>,
    ) -> Vec<(&'a EventRecord, Cause)> {
        let mut others = Vec::new();
        let mut can_store = true;
        for record in records {
            let number = sequence_number(record);
            let Some(cause) = failures.get(&number).copied() else { continue };
            if cause == Cause::Permanent && can_store {
                let stored = self.store_object(&format!("{QUARANTINE}{number}.json"), &json!(record)).await;
                let Err(error) = stored else {
                    tracing::error!(
                        sequence_number = number,
                        "a stream record was set aside for an operator"
                    );
                    continue;
                };
                // The others are retried without waiting for a time-out each.
                tracing::error!(%error, "stream records can't be set aside now");
                can_store = false;
            }
            others.push((record, cause));
        }
        others
    }

    /// Stores the throttled records of a batch as one object, because there can be many. Returns the records that
    /// Lambda must retry.
    pub(crate) async fn postpone_throttled<'a>(
        &self,
        failed: Vec<(&'a EventRecord, Cause)>,
    ) -> Vec<&'a EventRecord> {
        let (throttled, others): (Vec<_>, Vec<_>) =
            failed.into_iter().partition(|(_, cause)| *cause == Cause::Throttled);
        let throttled: Vec<&EventRecord> = throttled.into_iter().map(|(record, _)| record).collect();
        let mut retried: Vec<&EventRecord> = others.into_iter().map(|(record, _)| record).collect();
        let Some(first) = throttled.first() else { return retried };
        let key = format!("{POSTPONED}{}-{}.json", self.clock.now().millis(), sequence_number(first));
        match self.store_object(&key, &json!({ "Records": throttled })).await {
            Ok(()) => tracing::warn!(count = throttled.len(), "throttled stream records were postponed"),
            Err(error) => {
                tracing::error!(%error, "throttled stream records can't be postponed now");
                retried.extend(throttled);
            }
        }
        retried
    }

    pub(crate) async fn store_object(&self, key: &str, content: &Value) -> Result<(), ObjectStoreError> {
        let body = content.to_string().into_bytes().into();
        self.s3.put_object().bucket(&self.bucket).key(key).body(body).send().await?;
        Ok(())
    }
}
