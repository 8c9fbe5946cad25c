//! Sends messages to SQS queues, and processes batches of them.
//!
//! A message identifies a row, and only the row contains the current state. A duplicated message therefore
//! has no effect, but for an e-mail to a user (`effects::email::UserEmail`). If a message for a delivery, charge
//! or refund is lost, the scheduler sends another one later. The scheduler sends no messages for e-mails.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use aws_lambda_events::streams::{SqsBatchItemFailure, SqsEventResponse};
use aws_sdk_sqs::error::DisplayErrorContext;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tracing::{Instrument, Level, field};

/// The most messages that one `SendMessageBatch` accepts.
const BATCH: usize = 10;

/// The longest delay of a message in SQS, in seconds. Rows that are due later are left to the scheduler.
pub const MAX_DELAY_SECONDS: u64 = 900;

/// The longest time for which SQS hides a message, in seconds: 12 hours.
const MAX_VISIBILITY_SECONDS: u64 = 43_200;

#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("the queue did not answer: {0}")]
    Unavailable(String),
    #[error("a message can't be written or read: {0}")]
    Malformed(String),
}

pub trait Message: Serialize + DeserializeOwned + Send + Sync {
    /// The message's group. SQS divides the workers fairly among the groups, so that a slow group does not
    /// delay the others.
    fn group(&self) -> String;

    fn body(&self) -> Result<String, QueueError> {
        serde_json::to_string(self).map_err(|error| QueueError::Malformed(error.to_string()))
    }
}

/// Identifies one receipt of a message, by which its visibility is changed.
#[derive(Clone, Debug, Default)]
pub struct Receipt {
    pub handle: String,
    pub queue_arn: String,
}

impl Receipt {
    fn of(message: &SqsMessage) -> Self {
        Self {
            handle: message.receipt_handle.clone().unwrap_or_default(),
            queue_arn: message.event_source_arn.clone().unwrap_or_default(),
        }
    }
}

/// A queue of one kind of message. Clones share one SQS client.
#[derive(Debug)]
pub struct Queue<M> {
    client: aws_sdk_sqs::Client,
    url: String,
    messages: PhantomData<fn(M)>,
}

impl<M> Clone for Queue<M> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), url: self.url.clone(), messages: PhantomData }
    }
}

impl<M: Message> Queue<M> {
    pub fn new(client: aws_sdk_sqs::Client, url: impl Into<String>) -> Self {
        Self { client, url: url.into(), messages: PhantomData }
    }

    /// Returns the name of the queue, which is the end of its URL and of its ARN.
    pub fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or_default()
    }

    /// Sends messages, at most ten in a request. Returns the indexes in `messages` of those that SQS
    /// rejected.
    /// Errors: When a request fails or a message can't be serialised. The messages of earlier requests were
    /// already sent.
    pub async fn send(&self, messages: &[M]) -> Result<Vec<usize>, QueueError> {
        self.send_after(messages, |_message| Duration::ZERO).await
    }

    /// Like [`Self::send`], but each message arrives after its delay, at most [`MAX_DELAY_SECONDS`].
    pub async fn send_after(
        &self,
        messages: &[M],
        delay_of: impl Fn(&M) -> Duration,
    ) -> Result<Vec<usize>, QueueError> {
        let mut rejected = Vec::new();
        for (batch, chunk) in messages.chunks(BATCH).enumerate() {
            let mut entries = Vec::new();
            for (index, message) in chunk.iter().enumerate() {
                let entry = SendMessageBatchRequestEntry::builder()
                    .id(index.to_string())
                    .message_body(message.body()?)
                    .message_group_id(message.group())
                    .delay_seconds(whole_seconds(delay_of(message), MAX_DELAY_SECONDS))
                    .build()
                    .map_err(|error| QueueError::Malformed(error.to_string()))?;
                entries.push(entry);
            }
            let sent =
                self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries)).send().await;
            let sent = sent.map_err(unavailable)?;
            let first = batch.saturating_mul(BATCH);
            let indexes = sent.failed().iter().filter_map(|failed| failed.id().parse::<usize>().ok());
            rejected.extend(indexes.map(|index| first.saturating_add(index)));
        }
        Ok(rejected)
    }

    /// Hides a received message for some time, at most the 12 hours of SQS. Then it is received again.
    pub async fn hide(&self, receipt_handle: &str, time: Duration) -> Result<(), QueueError> {
        self.client
            .change_message_visibility()
            .queue_url(&self.url)
            .receipt_handle(receipt_handle)
            .visibility_timeout(whole_seconds(time, MAX_VISIBILITY_SECONDS))
            .send()
            .await
            .map_err(unavailable)?;
        Ok(())
    }

    /// Sends one message that arrives after `delay`, at most [`MAX_DELAY_SECONDS`].
    pub async fn send_later(&self, message: &M, delay: Duration) -> Result<(), QueueError> {
        self.client
            .send_message()
            .queue_url(&self.url)
            .message_body(message.body()?)
            .message_group_id(message.group())
            .delay_seconds(whole_seconds(delay, MAX_DELAY_SECONDS))
            .send()
            .await
            .map_err(unavailable)?;
        Ok(())
    }
}

fn unavailable(error: impl std::error::Error) -> QueueError {
    QueueError::Unavailable(DisplayErrorContext(error).to_string())
}

/// Converts a time to whole seconds, by which SQS delays and hides messages, at most `max`. It is rounded up,
/// because a message that arrived early would find a row that is not due yet.
fn whole_seconds(time: Duration, max: u64) -> i32 {
    i32::try_from(time.as_millis().div_ceil(1_000).min(max.into())).unwrap_or_default()
}

pub trait MessageFailure: fmt::Display + From<QueueError> {
    /// Returns the level at which the failure is logged. It is below ERROR where one failure needs no operator,
    /// because SQS delivers the message again: WARN if the cause is outside the service, such as a bank that does
    /// not answer, and INFO if nothing is wrong. A message that keeps failing raises the alarm of the dead-letter
    /// queue.
    fn level(&self) -> Level {
        Level::ERROR
    }
}

impl MessageFailure for Box<dyn Error + Send + Sync> {}

/// Returns the failure of a message, which SQS then delivers again.
pub fn failure_of(message_id: Option<String>) -> SqsBatchItemFailure {
    let mut failure = SqsBatchItemFailure::default();
    failure.item_identifier = message_id;
    failure
}

/// Processes the messages of a batch concurrently. Returns the ids of the messages that failed. SQS delivers
/// these again and deletes the others.
pub async fn process_batch<M, E, F, W>(batch: SqsEvent, work: W) -> SqsEventResponse
where
    M: Message + 'static,
    E: MessageFailure + Send + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    W: Fn(M, Receipt) -> F + Clone + Send + 'static,
{
    let mut attempts = JoinSet::new();
    let mut messages = HashMap::new();
    for message in batch.records {
        let (work, message_id) = (work.clone(), message.message_id.clone());
        // A request to a bank adds the account and the connection.
        let span = tracing::error_span!("message", account = field::Empty, connection = field::Empty);
        let attempt = async move {
            let outcome = match read(&message) {
                Ok(read) => work(read, Receipt::of(&message)).await,
                Err(error) => Err(E::from(error)),
            };
            outcome.inspect_err(|error| log_failure(message.message_id.as_deref(), error, error.level()))
        };
        let attempt = attempts.spawn(attempt.instrument(span));
        messages.insert(attempt.id(), message_id);
    }
    let mut response = SqsEventResponse::default();
    while let Some(joined) = attempts.join_next_with_id().await {
        let message_id = match joined {
            Ok((_, Ok(()))) => continue,
            Ok((id, Err(_logged))) => messages.remove(&id).flatten(),
            // The task panicked. SQS delivers the message again, and finally moves it to the dead-letter
            // queue.
            Err(error) => {
                let message_id = messages.remove(&error.id()).flatten();
                log_failure(message_id.as_deref(), &error, Level::ERROR);
                message_id
            }
        };
        response.batch_item_failures.push(failure_of(message_id));
    }
    response
}

fn log_failure(message_id: Option<&str>, error: &dyn fmt::Display, level: Level) {
    match level {
        Level::ERROR => tracing::error!(message_id, %error, "a message could not be processed"),
        Level::WARN => tracing::warn!(message_id, %error, "a message could not be processed yet"),
        _ => tracing::info!(message_id, %error, "a message is processed later"),
    }
}

pub fn read<M: Message>(message: &SqsMessage) -> Result<M, QueueError> {
    let body = message.body.as_deref().unwrap_or_default();
    serde_json::from_str(body).map_err(|error| QueueError::Malformed(error.to_string()))
}
