//! The queue that carries deliveries to their worker.

use serde::{Deserialize, Serialize};

use domain::ids::{DeliveryId, EndpointId, Scope};

use super::delivery::Delivery;
use crate::queue::{Message, Queue};

/// What a message says.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DeliveryMessage {
    /// Whose delivery.
    pub scope: Scope,
    /// Which.
    pub delivery: DeliveryId,
    /// Whom it tells; `None`: a transaction's own address.
    #[serde(default)]
    pub endpoint: Option<EndpointId>,
    /// Of a transaction's own address: which server.
    #[serde(default)]
    pub server: Option<String>,
}

/// The queue of deliveries.
pub type DeliveryQueue = Queue<DeliveryMessage>;

impl DeliveryMessage {
    /// The message for a delivery.
    pub fn of(delivery: &Delivery) -> Self {
        let server = delivery.server.clone();
        Self { scope: delivery.scope, delivery: delivery.id, endpoint: delivery.endpoint, server }
    }
}

impl Message for DeliveryMessage {
    fn group(&self) -> String {
        match self.endpoint {
            Some(endpoint) => endpoint.to_string(),
            None => format!("override#{}#{}", self.scope, self.server.as_deref().unwrap_or_default()),
        }
    }
}
