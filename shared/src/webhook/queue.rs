//! The queues that start delivery attempts. A message only names a delivery; the worker reads the row.
//!
//! Deliveries of test keys have a queue of their own, so that a flood of them does not delay live deliveries.

use serde::{Deserialize, Serialize};

use domain::ids::{DeliveryId, EndpointId, Mode, Scope};

use super::delivery::Delivery;
use crate::config::{ConfigError, required};
use crate::queue::{Message, Queue};

/// A message of the queue: names the delivery that the worker must attempt.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DeliveryMessage {
    /// The delivery's account and mode.
    pub scope: Scope,
    /// The delivery.
    pub delivery: DeliveryId,
    /// The endpoint that receives it; `None`: the transaction's `webhookUrl`.
    #[serde(default)]
    pub endpoint: Option<EndpointId>,
    /// For a `webhookUrl`: a short hash of its host and port (see [`Delivery::server`]).
    #[serde(default)]
    pub server: Option<String>,
}

/// A queue of deliveries.
pub type DeliveryQueue = Queue<DeliveryMessage>;

/// The queue of live deliveries and that of test deliveries.
#[derive(Clone, Debug)]
pub struct DeliveryQueues {
    live: DeliveryQueue,
    test: DeliveryQueue,
}

impl DeliveryQueues {
    /// Reads `DELIVERY_QUEUE_URL`, the queue of live deliveries, and `TEST_DELIVERY_QUEUE_URL`.
    ///
    /// # Errors
    ///
    /// When a variable is missing.
    pub fn from_vars(
        sqs: &aws_sdk_sqs::Client,
        var: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            live: DeliveryQueue::new(sqs.clone(), required(var, "DELIVERY_QUEUE_URL")?),
            test: DeliveryQueue::new(sqs.clone(), required(var, "TEST_DELIVERY_QUEUE_URL")?),
        })
    }

    /// Returns the queue of a mode's deliveries.
    pub fn of(&self, mode: Mode) -> &DeliveryQueue {
        match mode {
            Mode::Live => &self.live,
            Mode::Test => &self.test,
        }
    }
}

impl DeliveryMessage {
    /// Returns the message for a delivery.
    pub fn of(delivery: &Delivery) -> Self {
        let server = delivery.server.clone();
        Self { scope: delivery.scope, delivery: delivery.id, endpoint: delivery.endpoint, server }
    }
}

impl Message for DeliveryMessage {
    /// Returns the message group: one for each endpoint, and one for each server of a scope's `webhookUrl`s.
    /// So a slow receiver does not delay other receivers.
    fn group(&self) -> String {
        match self.endpoint {
            Some(endpoint) => endpoint.to_string(),
            None => format!("override#{}#{}", self.scope, self.server.as_deref().unwrap_or_default()),
        }
    }
}
