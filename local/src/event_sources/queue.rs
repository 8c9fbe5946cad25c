//! Polls an SQS queue and invokes its function with batches of messages.
//!
//! The queue is read like an SQS fair queue: the concurrent invocations of each message group are limited, so
//! a group with slow messages does not delay the others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::{Dependencies, ERROR_PAUSE, batch_item_failures};
use crate::embedded::REGION;
use crate::embedded::signals::LongPolls;
use crate::error::{Error, Result};
use crate::lambda::Invoke;
use crate::sdk;
use crate::shutdown::Shutdown;
use crate::template::{QueueSource, queue_arn, queue_url};

/// The maximum number of concurrent invocations of a queue's function.
const MAX_CONCURRENCY: usize = 50;
/// The maximum number of concurrent invocations for one message group.
const GROUP_CONCURRENCY: usize = 8;

/// The maximum number of received batches that are being processed or wait for a concurrency slot.
const MAX_BATCHES_IN_MEMORY: usize = 1_000;

/// The interval at which the visibility timeout of messages that wait for a slot is extended.
const EXTENSION_PERIOD: Duration = Duration::from_mins(4);
/// The visibility timeout that an extension sets, in seconds.
const EXTENDED_VISIBILITY_SECONDS: i32 = 360;

/// The time that running invocations have to finish after shutdown is requested.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// The duration of a long poll in seconds: the longest that SQS accepts.
const POLL_SECONDS: i32 = 20;

/// The interval at which shutdown ends the long poll in progress. The first time, the request may not have
/// arrived.
const END_PERIOD: Duration = Duration::from_millis(10);

/// The delay before a failed message is received again, in seconds.
const RETRY_SECONDS: i32 = 2;

pub(super) struct QueuePoller {
    sqs: aws_sdk_sqs::Client,
    url: String,
    arn: String,
    batch_size: i32,
    slots: Arc<Semaphore>,
    long_polls: LongPolls,
    invoke: Invoke,
}

impl QueuePoller {
    pub(super) fn new(dependencies: &Dependencies<'_>, source: &QueueSource, invoke: &Invoke) -> Arc<Self> {
        let concurrency = source.max_concurrency.unwrap_or(MAX_CONCURRENCY).min(MAX_CONCURRENCY);
        let sqs_url = &dependencies.endpoints.sqs_url;
        Arc::new(Self {
            sqs: sdk::sqs(sqs_url),
            url: queue_url(sqs_url, &source.queue),
            arn: queue_arn(&source.queue),
            batch_size: i32::try_from(source.batch_size).unwrap_or(1).clamp(1, 10),
            slots: Arc::new(Semaphore::new(concurrency)),
            long_polls: dependencies.signals.long_polls.clone(),
            invoke: Arc::clone(invoke),
        })
    }

    /// Polls until shutdown is requested, then waits at most [`SHUTDOWN_GRACE`] for the running invocations.
    pub(super) async fn run(self: Arc<Self>, mut shutdown: Shutdown) {
        let mut invocations = JoinSet::new();
        let mut groups: HashMap<String, Arc<Semaphore>> = HashMap::new();
        while !shutdown.is_requested() {
            if invocations.len() >= MAX_BATCHES_IN_MEMORY {
                tokio::select! {
                    _ = invocations.join_next() => {}
                    () = shutdown.requested() => break,
                }
            }
            match self.receive_until(&mut shutdown).await {
                Ok(messages) => {
                    for (group, batch) in by_group(messages) {
                        let slots = groups
                            .entry(group)
                            .or_insert_with(|| Arc::new(Semaphore::new(GROUP_CONCURRENCY)));
                        let (poller, group_slots) = (Arc::clone(&self), Arc::clone(slots));
                        invocations.spawn(async move {
                            let _group_slot = poller.wait_for_slot(group_slots, &batch).await;
                            let _slot = Arc::clone(&poller.slots).acquire_owned().await;
                            poller.process(batch).await;
                        });
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "polling a queue failed");
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
            while invocations.try_join_next().is_some() {}
            // Removes the groups that no batch refers to.
            groups.retain(|_, slots| Arc::strong_count(slots) > 1);
        }
        // Messages of an aborted invocation were not deleted, so SQS delivers them again.
        let finished = async { while invocations.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, finished).await;
    }

    /// Receives messages. Shutdown ends the long poll. It does not abort the request, because messages that are
    /// already on their way would then stay invisible.
    async fn receive_until(&self, shutdown: &mut Shutdown) -> Result<Vec<Message>> {
        let mut received = std::pin::pin!(self.receive());
        tokio::select! {
            messages = received.as_mut() => return messages,
            () = shutdown.requested() => {}
        }
        loop {
            self.long_polls.end();
            if let Ok(messages) = tokio::time::timeout(END_PERIOD, received.as_mut()).await {
                return messages;
            }
        }
    }

    async fn receive(&self) -> Result<Vec<Message>> {
        let response = self
            .sqs
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(self.batch_size)
            .wait_time_seconds(POLL_SECONDS)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .send()
            .await;
        let response = response.map_err(|e| Error::because("receiving messages", &e))?;
        Ok(response.messages.unwrap_or_default())
    }

    /// Waits for a concurrency slot of the message group. Meanwhile, extends the visibility timeout of the
    /// batch, so that its messages are not received again.
    async fn wait_for_slot(&self, slots: Arc<Semaphore>, batch: &[Message]) -> Option<OwnedSemaphorePermit> {
        let mut slot = std::pin::pin!(slots.acquire_owned());
        loop {
            tokio::select! {
                slot = slot.as_mut() => return slot.ok(),
                () = tokio::time::sleep(EXTENSION_PERIOD) => {}
            }
            for handle in batch.iter().filter_map(Message::receipt_handle) {
                // A failure is harmless: the message is delivered twice, and a duplicate changes nothing.
                let _ = self.set_visibility(handle, EXTENDED_VISIBILITY_SECONDS).await;
            }
        }
    }

    /// Invokes the function with a batch. Deletes the messages that succeeded and schedules the others for a
    /// retry.
    async fn process(&self, messages: Vec<Message>) {
        let records: Vec<Value> = messages.iter().map(|message| lambda_record(message, &self.arn)).collect();
        let failed: Vec<String> = match (self.invoke)(json!({ "Records": records })).await {
            Ok(response) => batch_item_failures(&response),
            Err(error) => {
                tracing::error!(error, queue = self.url, "a queue's function failed");
                messages.iter().filter_map(|message| message.message_id.clone()).collect()
            }
        };
        let is_failed = |message: &&Message| {
            message.message_id().is_some_and(|id| failed.iter().any(|failed| failed == id))
        };
        let (failed, done): (Vec<&Message>, Vec<&Message>) = messages.iter().partition(is_failed);
        let mut results = vec![self.delete(&done).await];
        for handle in failed.into_iter().filter_map(Message::receipt_handle) {
            results.push(self.set_visibility(handle, RETRY_SECONDS).await);
        }
        for error in results.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "a message will be received again after its visibility timeout");
        }
    }

    async fn set_visibility(&self, handle: &str, seconds: i32) -> Result<()> {
        let change = self.sqs.change_message_visibility().queue_url(&self.url).receipt_handle(handle);
        let changed = change.visibility_timeout(seconds).send().await;
        changed.map(drop).map_err(|e| Error::because("changing a message's visibility timeout", &e))
    }

    /// Deletes the messages of a batch, at most ten.
    async fn delete(&self, messages: &[&Message]) -> Result<()> {
        let mut entries = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            let entry = DeleteMessageBatchRequestEntry::builder()
                .id(index.to_string())
                .receipt_handle(message.receipt_handle().unwrap_or_default())
                .build();
            entries.push(entry.map_err(|e| Error::because("deleting messages", &e))?);
        }
        if entries.is_empty() {
            return Ok(());
        }
        let request = self.sqs.delete_message_batch().queue_url(&self.url).set_entries(Some(entries));
        let deleted = request.send().await.map_err(|e| Error::because("deleting messages", &e))?;
        match deleted.failed().first() {
            None => Ok(()),
            Some(failed) => Err(Error::new(format!(
                "deleting messages: {} failed, such as {}: {}",
                deleted.failed().len(),
                failed.code(),
                failed.message().unwrap_or_default()
            ))),
        }
    }
}

/// Splits a batch by message group. The order within a group does not change.
fn by_group(messages: Vec<Message>) -> BTreeMap<String, Vec<Message>> {
    let mut groups: BTreeMap<String, Vec<Message>> = BTreeMap::new();
    for message in messages {
        let group = message
            .attributes()
            .and_then(|attributes| attributes.get(&MessageSystemAttributeName::MessageGroupId));
        groups.entry(group.cloned().unwrap_or_default()).or_default().push(message);
    }
    groups
}

/// Converts a message to the form in which Lambda passes it to a function.
fn lambda_record(message: &Message, arn: &str) -> Value {
    let attributes: serde_json::Map<String, Value> = message
        .attributes()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str().to_owned(), value.clone().into()))
        .collect();
    json!({
        "messageId": message.message_id(),
        "receiptHandle": message.receipt_handle(),
        "body": message.body(),
        "attributes": attributes,
        "messageAttributes": {},
        "md5OfBody": message.md5_of_body(),
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": REGION,
    })
}
