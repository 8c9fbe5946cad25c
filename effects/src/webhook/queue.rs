//! The queues that start delivery attempts. A message only names a delivery; the worker reads the row.
//!
//! Deliveries of test keys have a queue of their own, so that a flood of them does not delay live deliveries.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use domain::ids::{DeliveryId, EndpointId, Mode, Scope};

use super::delivery::Delivery;
use shared::checkpoint::SOON_SECONDS;
use shared::config::{ConfigError, Vars, required};
use shared::queue::{Message, Queue, QueueError};

/// A message of the queue: names the delivery that the worker must attempt.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DeliveryMessage {
    pub scope: Scope,
    pub delivery: DeliveryId,
    /// The endpoint that receives it; `None`: the transaction's `webhookUrl`.
    #[serde(default)]
    pub endpoint: Option<EndpointId>,
    /// How often the message returned to the queue because no slot was free ([`super::in_flight`]).
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub waits: u32,
    /// Whether the delivery was in the due index when the message was sent, so that the scheduler sends another
    /// message if this one is dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub due: bool,
}

pub type DeliveryQueue = Queue<DeliveryMessage>;

/// A message: count the deliveries of a scope.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CountMessage {
    pub scope: Scope,
}

impl CountMessage {
    /// Sends the message that leads to the next count.
    pub async fn send_next(self, queue: &CountQueue) -> Result<(), QueueError> {
        queue.send_later(&self, Duration::from_secs(COUNTED_AFTER_SECONDS.unsigned_abs())).await
    }
}

impl Message for CountMessage {
    fn group(&self) -> String {
        self.scope.to_string()
    }
}

/// The queue from which the scheduler counts deliveries between two of its schedules, which run once a minute at most.
pub type CountQueue = Queue<CountMessage>;

/// How long after new deliveries, or after a count that leaves some, the next count follows, in seconds.
pub const COUNTED_AFTER_SECONDS: i64 = SOON_SECONDS;

/// The queues of live and of test deliveries.
#[derive(Clone, Debug)]
pub struct DeliveryQueues {
    live: DeliveryQueue,
    test: DeliveryQueue,
}

impl DeliveryQueues {
    /// Reads `DELIVERY_QUEUE_URL`, the queue of live deliveries, and `TEST_DELIVERY_QUEUE_URL`.
    pub fn from_vars(sqs: &aws_sdk_sqs::Client, var: Vars<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            live: DeliveryQueue::new(sqs.clone(), required(var, "DELIVERY_QUEUE_URL")?),
            test: DeliveryQueue::new(sqs.clone(), required(var, "TEST_DELIVERY_QUEUE_URL")?),
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
            waits: 0,
            // A listed delivery is in the due index until it is done.
            due: delivery.listed,
        }
    }

    /// Returns the name of the receiver within its scope: the endpoint's id. All `webhookUrl`s are one receiver,
    /// because each payment may name another server.
    pub fn receiver(&self) -> String {
        self.endpoint.map_or_else(|| "overrides".to_owned(), |endpoint| endpoint.to_string())
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
            (test, "overrides", json!({"scope": test, "delivery": delivery})),
        ] {
            let message: DeliveryMessage = serde_json::from_value(message).unwrap();
            assert_eq!((message.group().as_str(), message.receiver().as_str()), (scope, receiver));
        }
    }
}
