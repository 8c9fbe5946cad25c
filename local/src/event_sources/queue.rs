//! Polls an SQS queue and invokes its function with batches of messages, as an event source mapping of Lambda
//! does. The most concurrent invocations are the `MaximumConcurrency` of the template. How Lambda approaches this
//! number, and the order of messages in a fair queue, are not imitated.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{ERROR_PAUSE, batch_item_failures};
use crate::embedded::REGION;
use crate::error::{Context, Error, Result};
use crate::lambda::Invoke;
use crate::template::{QueueSource, queue_arn, queue_url};

/// The maximum number of concurrent invocations of an event source without a limit in the template.
const MAX_CONCURRENCY: usize = 1_250;

/// The pause after a receipt that did not fill a batch. Without it, each message of a steady load would be an
/// invocation of its own, and a slow receiver could hold all invocations before it is known as slow.
const BATCH_PAUSE: Duration = Duration::from_millis(50);

/// The duration of a long poll in seconds: the longest that SQS accepts.
const POLL_SECONDS: i32 = 20;

/// The delay before a failed message is received again, in seconds.
const RETRY_SECONDS: i32 = 2;

pub(super) struct QueuePoller {
    sqs: aws_sdk_sqs::Client,
    url: String,
    arn: String,
    batch_size: i32,
    concurrency: usize,
    invoke: Invoke,
}

impl QueuePoller {
    pub(super) fn new(
        sqs: &aws_sdk_sqs::Client,
        sqs_url: &str,
        source: &QueueSource,
        invoke: &Invoke,
    ) -> Arc<Self> {
        Arc::new(Self {
            sqs: sqs.clone(),
            url: queue_url(sqs_url, &source.queue),
            arn: queue_arn(&source.queue),
            batch_size: i32::try_from(source.batch_size).unwrap_or(1).clamp(1, 10),
            concurrency: source.max_concurrency.unwrap_or(MAX_CONCURRENCY).min(MAX_CONCURRENCY),
            invoke: Arc::clone(invoke),
        })
    }

    /// Polls until shutdown is requested, then waits for the running invocations. A receipt in progress is
    /// aborted; SQS delivers its messages again after their visibility timeout.
    pub(super) async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let mut invocations = JoinSet::new();
        tokio::select! {
            () = Arc::clone(&self).poll(&mut invocations) => {}
            () = shutdown.cancelled() => {}
        }
        while invocations.join_next().await.is_some() {}
    }

    /// Receives batches and spawns their invocations, without end.
    async fn poll(self: Arc<Self>, invocations: &mut JoinSet<()>) {
        let permits = Arc::new(Semaphore::new(self.concurrency));
        loop {
            let permit = Arc::clone(&permits).acquire_owned().await;
            let pause = match self.receive().await {
                Ok(messages) => {
                    let is_full = messages.len() >= usize::try_from(self.batch_size).unwrap_or(1);
                    if !messages.is_empty() {
                        let poller = Arc::clone(&self);
                        invocations.spawn(async move {
                            let _permit = permit;
                            poller.process(messages).await;
                        });
                    }
                    while invocations.try_join_next().is_some() {}
                    if is_full { Duration::ZERO } else { BATCH_PAUSE }
                }
                Err(error) => {
                    tracing::error!(%error, "polling a queue failed");
                    ERROR_PAUSE
                }
            };
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
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
        let response = response.context("receiving messages")?;
        Ok(response.messages.unwrap_or_default())
    }

    async fn process(&self, messages: Vec<Message>) {
        let records: Vec<Value> = messages.iter().map(|message| lambda_record(message, &self.arn)).collect();
        let failed: Option<Vec<String>> = match (self.invoke)(json!({ "Records": records })).await {
            Ok(response) => Some(batch_item_failures(&response)),
            Err(error) => {
                tracing::error!(error, queue = self.url, "a queue's function failed");
                None
            }
        };
        let is_failed = |message: &&Message| {
            failed
                .as_ref()
                .is_none_or(|failed| failed.iter().any(|id| message.message_id() == Some(id.as_str())))
        };
        let (failed, done): (Vec<&Message>, Vec<&Message>) = messages.iter().partition(is_failed);
        let mut results = vec![self.delete(&done).await];
        for handle in failed.into_iter().filter_map(Message::receipt_handle) {
            results.push(self.retry_later(handle).await);
        }
        for error in results.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "a message will be received again after its visibility timeout");
        }
    }

    async fn retry_later(&self, handle: &str) -> Result<()> {
        let change = self.sqs.change_message_visibility().queue_url(&self.url).receipt_handle(handle);
        let changed = change.visibility_timeout(RETRY_SECONDS).send().await;
        changed.map(drop).context("changing a message's visibility timeout")
    }

    /// Deletes the messages of a batch, at most ten.
    async fn delete(&self, messages: &[&Message]) -> Result<()> {
        let mut entries = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            let entry = DeleteMessageBatchRequestEntry::builder()
                .id(index.to_string())
                .receipt_handle(message.receipt_handle().unwrap_or_default())
                .build();
            entries.push(entry.context("deleting messages")?);
        }
        if entries.is_empty() {
            return Ok(());
        }
        let request = self.sqs.delete_message_batch().queue_url(&self.url).set_entries(Some(entries));
        let deleted = request.send().await.context("deleting messages")?;
        match deleted.failed().first() {
            None => Ok(()),
            Some(failed) => Err(Error::new(format!("deleting a message: {}", failed.code()))),
        }
    }
}

pub fn lambda_record(message: &Message, arn: &str) -> Value {
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
