//! Queues whose messages only name rows. The row is the truth, so a lost message costs a delay (`scheduler` sends another) and a
//! duplicated one nothing.

use std::collections::HashMap;
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

/// The most messages that one `SendMessageBatch` takes.
const BATCH: usize = 10;

/// The longest that SQS delays a message, in seconds; what is due later is left to `scheduler`.
pub const MAX_DELAY_SECONDS: u64 = 900;

/// Why a message was not sent or read.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// SQS did not answer, or could not take the message now.
    #[error("the queue did not answer: {0}")]
    Unavailable(String),
    /// A message can't be written or read.
    #[error("a message can't be written or read: {0}")]
    Malformed(String),
}

/// What travels on a queue, as JSON.
pub trait Message: Serialize + DeserializeOwned + Send + Sync {
    /// Its group: one that takes long does not starve the others.
    fn group(&self) -> String;

    /// Its text.
    fn body(&self) -> Result<String, QueueError> {
        serde_json::to_string(self).map_err(|error| QueueError::Malformed(error.to_string()))
    }
}

/// A queue of one kind of message. Clones share one client.
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
    /// A queue by its URL.
    pub fn new(client: aws_sdk_sqs::Client, url: impl Into<String>) -> Self {
        Self { client, url: url.into(), messages: PhantomData }
    }

    /// Sends messages, ten a request. Gives the indexes of those that were not taken.
    pub async fn send(&self, messages: &[M]) -> Result<Vec<usize>, QueueError> {
        let mut refused = Vec::new();
        for (batch, chunk) in messages.chunks(BATCH).enumerate() {
            let mut entries = Vec::new();
            for (place, message) in chunk.iter().enumerate() {
                let entry = SendMessageBatchRequestEntry::builder()
                    .id(place.to_string())
                    .message_body(message.body()?)
                    .message_group_id(message.group())
                    .build()
                    .map_err(|error| QueueError::Malformed(error.to_string()))?;
                entries.push(entry);
            }
            let sent =
                self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries)).send().await;
            let sent =
                sent.map_err(|error| QueueError::Unavailable(DisplayErrorContext(error).to_string()))?;
            let first = batch.saturating_mul(BATCH);
            let places = sent.failed().iter().filter_map(|failed| failed.id().parse::<usize>().ok());
            refused.extend(places.map(|place| first.saturating_add(place)));
        }
        Ok(refused)
    }

    /// Sends one message that arrives after `delay` (at most [`MAX_DELAY_SECONDS`]).
    pub async fn send_later(&self, message: &M, delay: Duration) -> Result<(), QueueError> {
        // SQS counts whole seconds; a message that came early would find its row not yet due.
        let seconds = delay.as_millis().div_ceil(1_000).min(u128::from(MAX_DELAY_SECONDS));
        self.client
            .send_message()
            .queue_url(&self.url)
            .message_body(message.body()?)
            .message_group_id(message.group())
            .delay_seconds(i32::try_from(seconds).unwrap_or_default())
            .send()
            .await
            .map_err(|error| QueueError::Unavailable(DisplayErrorContext(error).to_string()))?;
        Ok(())
    }
}

/// Works on a batch, its messages side by side. Reports the messages that were not done; the others are not handed over
/// again.
pub async fn work_on<M, E, F, W>(batch: SqsEvent, work: W) -> SqsEventResponse
where
    M: Message + 'static,
    E: fmt::Display + From<QueueError> + Send + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    W: Fn(M) -> F + Clone + Send + 'static,
{
    let mut attempts = JoinSet::new();
    let mut messages = HashMap::new();
    for message in batch.records {
        let (work, message_id) = (work.clone(), message.message_id.clone());
        let attempt = attempts.spawn(async move {
            match read(&message) {
                Ok(read) => work(read).await,
                Err(error) => Err(E::from(error)),
            }
        });
        messages.insert(attempt.id(), message_id);
    }
    let mut response = SqsEventResponse::default();
    while let Some(joined) = attempts.join_next_with_id().await {
        let (id, error) = match joined {
            Ok((_, Ok(()))) => continue,
            Ok((id, Err(error))) => (id, error.to_string()),
            // It panicked: the message comes again, and goes to the dead-letter queue in the end.
            Err(error) => (error.id(), error.to_string()),
        };
        let message_id = messages.remove(&id).flatten();
        tracing::error!(message_id, error, "a message could not be worked on");
        let mut failure = SqsBatchItemFailure::default();
        failure.item_identifier = message_id;
        response.batch_item_failures.push(failure);
    }
    response
}

fn read<M: Message>(message: &SqsMessage) -> Result<M, QueueError> {
    let body = message.body.as_deref().unwrap_or_default();
    serde_json::from_str(body).map_err(|error| QueueError::Malformed(error.to_string()))
}
