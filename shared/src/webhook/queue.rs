//! The queue that starts delivery attempts. A message only names a delivery; the worker reads the row.

use serde::{Deserialize, Serialize};

use domain::ids::{DeliveryId, EndpointId, Scope};

use super::delivery::Delivery;
use crate::queue::{Message, Queue};

/// A message of the queue: asks the worker to attempt a delivery.
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
    /// One group for each endpoint, or for each server of a scope's `webhookUrl`s, so that a slow receiver delays no
    /// other.
    fn group(&self) -> String {
        match self.endpoint {
            Some(endpoint) => endpoint.to_string(),
            None => format!("override#{}#{}", self.scope, self.server.as_deref().unwrap_or_default()),
        }
    }
}
