//! Polls an SQS queue and invokes its function with batches of messages, as an event source mapping of Lambda
//! does: with the concurrency of [`Ramp`], and in [`FairOrder`]. The embedded SQS has no groups, so the poller
//! receives messages ahead and orders them itself. There is no limit for a message group, as on AWS.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::fair_order::FairOrder;
use super::ramp::Ramp;
use super::{Dependencies, ERROR_PAUSE, batch_item_failures};
use crate::embedded::REGION;
use crate::embedded::signals::{ChangedVisibility, LongPolls};
use crate::error::{Error, Result};
use crate::lambda::Invoke;
use crate::sdk;
use crate::shutdown::Shutdown;
use crate::template::{QueueSource, queue_arn, queue_url};

/// The maximum number of concurrent invocations of an event source without a limit in the template.
const MAX_CONCURRENCY: usize = 1_250;

/// The number of messages that a request receives at most: the most that SQS accepts.
const RECEIVED_AT_ONCE: i32 = 10;

/// The maximum number of received messages that wait for an invocation.
const MAX_WAITING: usize = 20_000;

/// The number of receive requests whose messages may wait to be ordered.
const MAX_UNORDERED: usize = 16;

/// How long a message waits before its visibility timeout is extended, so that it is not received again.
const EXTENSION_PERIOD: Duration = Duration::from_mins(4);
/// The visibility timeout that an extension sets, in seconds.
const EXTENDED_VISIBILITY_SECONDS: i32 = 360;
/// The interval at which messages that need an extension are searched.
const EXTENSION_CHECK: Duration = Duration::from_secs(30);

/// The time that running invocations have to finish after shutdown is requested.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// The duration of a long poll in seconds: the longest that SQS accepts.
const POLL_SECONDS: i32 = 20;

/// The interval at which shutdown ends the long poll in progress. The first time, the request may not have
/// arrived.
const END_PERIOD: Duration = Duration::from_millis(10);

/// The delay before a failed message is received again, in seconds, unless the function has changed its
/// visibility timeout. On AWS, it is the visibility timeout of the queue.
const RETRY_SECONDS: i32 = 2;

/// The invocations of a queue's function.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueUsage {
    /// The invocations that are running.
    pub running: usize,
    /// The most invocations that were running at the same time.
    pub most_running: usize,
    /// The number of invocations that have ended.
    pub ended: u64,
    /// The duration of the invocations that have ended.
    pub busy: Duration,
    /// The longest time from the receipt of a message to its invocation.
    pub longest_wait: Duration,
}

pub(super) struct QueuePoller {
    /// The logical id of the queue.
    pub(super) queue: String,
    pub(super) usage: Arc<Mutex<QueueUsage>>,
    sqs: aws_sdk_sqs::Client,
    url: String,
    arn: String,
    batch_size: usize,
    concurrency: usize,
    long_polls: LongPolls,
    changed_visibility: ChangedVisibility,
    invoke: Invoke,
}

/// A received message that waits for an invocation.
struct Waiting {
    message: Message,
    received: Instant,
    /// When it was received, or its visibility timeout was last extended.
    visible_since: Instant,
}

impl QueuePoller {
    pub(super) fn new(dependencies: &Dependencies<'_>, source: &QueueSource, invoke: &Invoke) -> Arc<Self> {
        let sqs_url = &dependencies.endpoints.sqs_url;
        Arc::new(Self {
            queue: source.queue.clone(),
            usage: Arc::default(),
            sqs: sdk::sqs(sqs_url),
            url: queue_url(sqs_url, &source.queue),
            arn: queue_arn(&source.queue),
            batch_size: usize::try_from(source.batch_size).unwrap_or(1).clamp(1, 10),
            concurrency: source.max_concurrency.unwrap_or(MAX_CONCURRENCY).min(MAX_CONCURRENCY),
            long_polls: dependencies.signals.long_polls.clone(),
            changed_visibility: dependencies.signals.changed_visibility.clone(),
            invoke: Arc::clone(invoke),
        })
    }

    /// Polls until shutdown is requested, then waits at most [`SHUTDOWN_GRACE`] for the running invocations.
    pub(super) async fn run(self: Arc<Self>, mut shutdown: Shutdown) {
        let (sender, mut received) = mpsc::channel(MAX_UNORDERED);
        let receiving = tokio::spawn(Arc::clone(&self).receive_all(shutdown.clone(), sender));
        let mut invocations: JoinSet<Vec<String>> = JoinSet::new();
        let mut order = FairOrder::new();
        let mut ramp = Ramp::new(self.concurrency);
        let mut extension = tokio::time::interval(EXTENSION_CHECK);
        while !shutdown.is_requested() {
            let now = Instant::now();
            self.start(&mut order, &mut invocations, ramp.limit(now));
            let is_waiting = order.waiting() > 0;
            ramp.observe(is_waiting, now);
            self.start(&mut order, &mut invocations, ramp.limit(now));
            let step = ramp.next_step(now).filter(|_| is_waiting);
            tokio::select! {
                Some(messages) = received.recv(), if order.waiting() < MAX_WAITING => {
                    for message in messages {
                        push(&mut order, message);
                    }
                }
                Some(ended) = invocations.join_next() => {
                    for group in ended.unwrap_or_default() {
                        order.ended(&group);
                    }
                }
                () = tokio::time::sleep(step.unwrap_or_default()), if step.is_some() => {}
                _ = extension.tick() => self.extend_visibility(&mut order),
                () = shutdown.requested() => break,
            }
        }
        // Messages of an aborted invocation and those that wait were not deleted, so SQS delivers them again.
        let finished = async {
            while invocations.join_next().await.is_some() {}
            let _ = receiving.await;
        };
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, finished).await;
    }

    /// Starts invocations for the messages that wait, up to a limit.
    fn start(
        self: &Arc<Self>,
        order: &mut FairOrder<Waiting>,
        invocations: &mut JoinSet<Vec<String>>,
        limit: usize,
    ) {
        while order.waiting() > 0 && invocations.len() < limit {
            let batch = order.take(self.batch_size);
            invocations.spawn(Arc::clone(self).process(batch));
        }
    }

    /// Receives messages until shutdown is requested.
    async fn receive_all(self: Arc<Self>, mut shutdown: Shutdown, sender: mpsc::Sender<Vec<Message>>) {
        while !shutdown.is_requested() {
            match self.receive_until(&mut shutdown).await {
                Ok(messages) => {
                    if sender.send(messages).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "polling a queue failed");
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
        }
    }

    /// Extends the visibility timeout of messages that wait for long.
    fn extend_visibility(self: &Arc<Self>, order: &mut FairOrder<Waiting>) {
        let now = Instant::now();
        let mut handles = Vec::new();
        for waiting in order.iter_mut() {
            if now.duration_since(waiting.visible_since) >= EXTENSION_PERIOD {
                waiting.visible_since = now;
                handles.extend(waiting.message.receipt_handle.clone());
            }
        }
        let poller = Arc::clone(self);
        tokio::spawn(async move {
            for handle in handles {
                // A failure is harmless: the message is delivered twice, and a duplicate changes nothing.
                let _ = poller.set_visibility(&handle, EXTENDED_VISIBILITY_SECONDS).await;
                poller.changed_visibility.take(&handle);
            }
        });
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
            .max_number_of_messages(RECEIVED_AT_ONCE)
            .wait_time_seconds(POLL_SECONDS)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .send()
            .await;
        let response = response.map_err(|e| Error::because("receiving messages", &e))?;
        Ok(response.messages.unwrap_or_default())
    }

    /// Invokes the function with a batch. Deletes the messages that succeeded and schedules the others for a
    /// retry. Returns the groups of the messages.
    async fn process(self: Arc<Self>, batch: Vec<(String, Waiting)>) -> Vec<String> {
        let waited = batch.iter().map(|(_, waiting)| waiting.received.elapsed()).max().unwrap_or_default();
        let (groups, messages): (Vec<String>, Vec<Message>) =
            batch.into_iter().map(|(group, waiting)| (group, waiting.message)).unzip();
        let records: Vec<Value> = messages.iter().map(|message| lambda_record(message, &self.arn)).collect();
        let started = self.begin_usage(waited);
        let result = (self.invoke)(json!({ "Records": records })).await;
        self.end_usage(started);
        let failed: Vec<String> = match result {
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
            if !self.changed_visibility.take(handle) {
                results.push(self.set_visibility(handle, RETRY_SECONDS).await);
                self.changed_visibility.take(handle);
            }
        }
        for error in results.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "a message will be received again after its visibility timeout");
        }
        groups
    }

    fn begin_usage(&self, waited: Duration) -> Instant {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        usage.longest_wait = usage.longest_wait.max(waited);
        usage.running = usage.running.saturating_add(1);
        usage.most_running = usage.most_running.max(usage.running);
        Instant::now()
    }

    fn end_usage(&self, started: Instant) {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        usage.running = usage.running.saturating_sub(1);
        usage.ended = usage.ended.saturating_add(1);
        usage.busy = usage.busy.saturating_add(started.elapsed());
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

/// Adds a received message. A message without a group is a group of its own.
fn push(order: &mut FairOrder<Waiting>, message: Message) {
    let group = message
        .attributes()
        .and_then(|attributes| attributes.get(&MessageSystemAttributeName::MessageGroupId))
        .or(message.message_id.as_ref());
    let group = group.cloned().unwrap_or_default();
    let now = Instant::now();
    order.push(&group, Waiting { message, received: now, visible_since: now });
}

/// Converts a message to the form in which Lambda passes it to a function. `arn` is that of its queue.
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
