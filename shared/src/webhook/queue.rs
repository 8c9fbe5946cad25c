//! The queues that start delivery attempts. A message only names a delivery; the worker reads the row.
//!
//! Deliveries of test keys have queues of their own, so that a flood of them does not delay live deliveries.
//! Each mode has a fast queue, to which all messages are sent first, and a slow queue. A worker moves a message
//! to the slow queue if its receiver is slow to answer, or its account has had too many attempts in flight for
//! some seconds ([`super::in_flight`]).

use serde::{Deserialize, Serialize};

use domain::ids::{DeliveryId, EndpointId, Mode, Scope};

use super::delivery::Delivery;
use crate::config::{ConfigError, Vars, required};
use crate::queue::{Message, Queue};

/// A message of the queue: names the delivery that the worker must attempt.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DeliveryMessage {
    pub scope: Scope,
    pub delivery: DeliveryId,
    /// The endpoint that receives it; `None`: the transaction's `webhookUrl`.
    #[serde(default)]
    pub endpoint: Option<EndpointId>,
    /// For a `webhookUrl`: a short hash of its host and port (see [`Delivery::server`]).
    #[serde(default)]
    pub server: Option<String>,
    /// How often the message returned to the queue of its lane because its account had too many attempts in
    /// flight.
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub waits: u32,
    /// Whether the delivery was in the due index when the message was sent, so that the scheduler sends another
    /// message if this one is dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub due: bool,
}

/// A lane of a mode's deliveries. Each has a queue, whose invocations are limited separately.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Lane {
    /// The queue to which all messages are sent first.
    Fast,
    /// The queue of slow receivers, and of messages that have waited for long until their account has fewer
    /// attempts in flight.
    Slow,
}

impl Lane {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Slow => "slow",
        }
    }
}

pub type DeliveryQueue = Queue<DeliveryMessage>;

/// The queues of live and of test deliveries in one lane.
#[derive(Clone, Debug)]
pub struct DeliveryQueues {
    live: DeliveryQueue,
    test: DeliveryQueue,
}

impl DeliveryQueues {
    /// Reads `DELIVERY_QUEUE_URL`, the queue of live deliveries, and `TEST_DELIVERY_QUEUE_URL`; for the slow
    /// lane `SLOW_DELIVERY_QUEUE_URL` and `SLOW_TEST_DELIVERY_QUEUE_URL`.
    pub fn from_vars(sqs: &aws_sdk_sqs::Client, lane: Lane, var: Vars<'_>) -> Result<Self, ConfigError> {
        let (live, test) = match lane {
            Lane::Fast => ("DELIVERY_QUEUE_URL", "TEST_DELIVERY_QUEUE_URL"),
            Lane::Slow => ("SLOW_DELIVERY_QUEUE_URL", "SLOW_TEST_DELIVERY_QUEUE_URL"),
        };
        Ok(Self {
            live: DeliveryQueue::new(sqs.clone(), required(var, live)?),
            test: DeliveryQueue::new(sqs.clone(), required(var, test)?),
        })
    }

    pub fn of(&self, mode: Mode) -> &DeliveryQueue {
        match mode {
            Mode::Live => &self.live,
            Mode::Test => &self.test,
        }
    }

    /// Returns the queue with this ARN; `None`: it is another queue's.
    pub fn by_arn(&self, arn: &str) -> Option<&DeliveryQueue> {
        [&self.live, &self.test].into_iter().find(|queue| arn.rsplit(':').next() == Some(queue.name()))
    }
}

impl DeliveryMessage {
    pub fn of(delivery: &Delivery) -> Self {
        Self {
            scope: delivery.scope,
            delivery: delivery.id,
            endpoint: delivery.endpoint,
            server: delivery.server.clone(),
            waits: 0,
            // A listed delivery is in the due index until it is done.
            due: delivery.listed,
        }
    }

    /// Returns the name of the receiver within its scope: the endpoint's id, or a short hash of the
    /// `webhookUrl`'s server.
    pub fn receiver(&self) -> String {
        match self.endpoint {
            Some(endpoint) => endpoint.to_string(),
            None => self.server.clone().unwrap_or_default(),
        }
    }
}

impl Message for DeliveryMessage {
    /// Returns the message group: one for each account and mode. SQS prefers the messages of other groups
    /// while one has many in flight. A group for each receiver would let an account with many receivers
    /// have many groups, none of which is conspicuous.
    fn group(&self) -> String {
        self.scope.to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_is_in_the_group_of_its_scope_and_names_its_receiver() {
        let (live, test) = ("acc_0123456789abcdef:live", "acc_0123456789abcdef:test");
        let (delivery, endpoint) = ("wd_01m7xpe60063pqsxx1gmvkjbw5", "wh_01m7xpe60063pqsxx1gmvkjbw5");
        for (scope, receiver, message) in [
            (live, endpoint, json!({"scope": live, "delivery": delivery, "endpoint": endpoint})),
            (test, "a1b2", json!({"scope": test, "delivery": delivery, "server": "a1b2"})),
        ] {
            let message: DeliveryMessage = serde_json::from_value(message).unwrap();
            assert_eq!((message.group().as_str(), message.receiver().as_str()), (scope, receiver));
        }
        assert_eq!([Lane::Fast, Lane::Slow].map(Lane::as_str), ["fast", "slow"]);
    }
}
