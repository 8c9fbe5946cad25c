//! The queue that starts delivery attempts. A message only names a delivery; the worker reads the row.

use serde::{Deserialize, Serialize};

use domain::ids::{DeliveryId, EndpointId, Scope};

use super::delivery::Delivery;
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

/// The queue of deliveries.
pub type DeliveryQueue = Queue<DeliveryMessage>;

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
