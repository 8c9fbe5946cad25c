//! The queue that carries deliveries to the worker. A message only names a row; the row is the truth, so a
//! lost message costs a delay (`clock` sends another) and a duplicated one nothing.

use std::time::Duration;

use aws_sdk_sqs::error::DisplayErrorContext;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use serde::{Deserialize, Serialize};

use super::delivery::Delivery;
use crate::ids::{DeliveryId, EndpointId, Scope};
use crate::store::StoreError;

/// The most messages that one `SendMessageBatch` takes.
const BATCH: usize = 10;

/// The longest that SQS delays a message, in seconds; what is due later is left to `clock`.
pub const MAX_DELAY_SECONDS: u64 = 900;

/// What a message says.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DeliveryMessage {
    /// Whose delivery.
    pub scope: Scope,
    /// Which.
    pub delivery: DeliveryId,
    /// Whom it tells: the message's group, so that one dead endpoint does not starve the others.
    pub endpoint: EndpointId,
}

impl DeliveryMessage {
    /// The message for a delivery.
    pub fn of(delivery: &Delivery) -> Self {
        Self { scope: delivery.scope, delivery: delivery.id, endpoint: delivery.endpoint }
    }

    /// Its text.
    pub fn body(&self) -> Result<String, StoreError> {
        serde_json::to_string(self).map_err(|error| StoreError::Corrupt(error.to_string()))
    }
}

/// The delivery queue. Clones share one client.
#[derive(Clone, Debug)]
pub struct DeliveryQueue {
    client: aws_sdk_sqs::Client,
    url: String,
}

impl DeliveryQueue {
    /// A queue by its URL.
    pub fn new(client: aws_sdk_sqs::Client, url: impl Into<String>) -> Self {
        Self { client, url: url.into() }
    }

    /// Sends messages, ten a request. Gives the indexes of those that were not taken.
    pub async fn send(&self, messages: &[DeliveryMessage]) -> Result<Vec<usize>, StoreError> {
        let mut refused = Vec::new();
        for (batch, chunk) in messages.chunks(BATCH).enumerate() {
            let mut entries = Vec::new();
            for (place, message) in chunk.iter().enumerate() {
                let entry = SendMessageBatchRequestEntry::builder()
                    .id(place.to_string())
                    .message_body(message.body()?)
                    .message_group_id(message.endpoint.to_string())
                    .build()
                    .map_err(|error| StoreError::Corrupt(error.to_string()))?;
                entries.push(entry);
            }
            let sent =
                self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries)).send().await;
            let sent =
                sent.map_err(|error| StoreError::Unavailable(DisplayErrorContext(error).to_string()))?;
            let first = batch.saturating_mul(BATCH);
            let places = sent.failed().iter().filter_map(|failed| failed.id().parse::<usize>().ok());
            refused.extend(places.map(|place| first.saturating_add(place)));
        }
        Ok(refused)
    }

    /// Sends one message that arrives after `delay` (at most [`MAX_DELAY_SECONDS`]).
    pub async fn send_later(&self, message: &DeliveryMessage, delay: Duration) -> Result<(), StoreError> {
        // SQS counts whole seconds; a message that came early would find its delivery not yet due.
        let seconds = delay.as_millis().div_ceil(1_000).min(u128::from(MAX_DELAY_SECONDS));
        self.client
            .send_message()
            .queue_url(&self.url)
            .message_body(message.body()?)
            .message_group_id(message.endpoint.to_string())
            .delay_seconds(i32::try_from(seconds).unwrap_or_default())
            .send()
            .await
            .map_err(|error| StoreError::Unavailable(DisplayErrorContext(error).to_string()))?;
        Ok(())
    }
}
