//! Decides which messages of a batch are attempted now, so that no account or slow receiver holds the
//! invocations of the others ([`shared::webhook::in_flight`]).
//!
//! 1. Before any delivery is claimed, [`Admission::admit`] takes slots for the messages of each account and
//!    mode, by one update. It moves the messages without a slot, and those of slow receivers, to the slow
//!    queue.
//! 2. After [`SLOW_AFTER`], [`Admission::settle`] marks the receivers that have not answered, and releases the
//!    slots of the attempts that have ended. So one hanging receiver does not hold the slots of the others.
//! 3. When the batch ends, [`Admission::release`] releases the rest.
//!
//! In the fast lane, a message that is alone in its batch with its account takes no slot, because its attempt
//! normally ends within milliseconds. The worker checks the row when it reads the delivery's event, and the
//! attempt takes a slot if it is still running after [`SLOW_AFTER`]. So a lone delivery costs no additional
//! request. For that time, an account can exceed its limit by one attempt for each invocation.
//!
//! If the row of slots can't be updated, the messages are attempted without slots. A failure of the limit does
//! not stop deliveries.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lambda_events::sqs::SqsMessage;
use aws_lambda_events::streams::SqsBatchItemFailure;
use domain::ids::{DeliveryId, Mode, Scope};
use domain::time::Timestamp;
use shared::clock::Clock;
use shared::config::{ConfigError, required_number};
use shared::queue::{failure_of, read};
use shared::random;
use shared::store::StoreError;
use shared::webhook::in_flight::{InFlight, Occupancy, Slots};
use shared::webhook::queue::{DeliveryMessage, DeliveryQueue, DeliveryQueues, Lane};
use tokio::task::JoinSet;
use tracing::Instrument;

/// An attempt that takes longer is slow. Healthy receivers answer within a second.
pub(crate) const SLOW_AFTER: Duration = Duration::from_secs(2);

/// The delay of a message that waits for a slot in the slow lane, in milliseconds. It doubles each time, up to
/// the maximum. Half of it is random, so that messages do not return together.
const FIRST_WAIT_MS: u64 = 15_000;
const MAX_WAIT_MS: u64 = 120_000;

/// Admits messages to attempts. Clones share clients.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    in_flight: InFlight,
    slow_queues: DeliveryQueues,
    most_fast: u32,
    most_slow: u32,
    clock: Clock,
}

/// The outcome of an admission.
pub(crate) struct Admitted {
    /// The records to process now.
    pub records: Vec<SqsMessage>,
    /// The records that SQS must deliver again: they could not be moved to the slow queue, or their admission
    /// panicked.
    pub failures: Vec<SqsBatchItemFailure>,
    /// The slots.
    pub batch: Batch,
}

/// A batch whose messages are being processed.
#[derive(Debug)]
pub(crate) struct Batch {
    lane: Lane,
    slots: tokio::sync::Mutex<Vec<Slots>>,
    /// The scopes that have slots.
    limited: BTreeSet<Scope>,
    /// The messages whose post is in progress.
    running: Mutex<HashMap<DeliveryId, DeliveryMessage>>,
}

/// Removes a message from the running ones when it is dropped.
pub(crate) struct Running<'a> {
    batch: &'a Batch,
    delivery: DeliveryId,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.batch.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.delivery);
    }
}

impl Batch {
    /// Registers a post. Dropping the result ends it.
    pub(crate) fn start(&self, message: &DeliveryMessage) -> Running<'_> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(message.delivery, message.clone());
        Running { batch: self, delivery: message.delivery }
    }

    fn running(&self) -> BTreeMap<Scope, Vec<DeliveryMessage>> {
        let mut running: BTreeMap<Scope, Vec<DeliveryMessage>> = BTreeMap::new();
        for message in self.running.lock().unwrap_or_else(PoisonError::into_inner).values() {
            running.entry(message.scope).or_default().push(message.clone());
        }
        running
    }
}

impl Admission {
    /// Reads `DELIVERIES_IN_FLIGHT` and `SLOW_DELIVERIES_IN_FLIGHT`, the limits of an account and mode in each
    /// lane.
    pub(crate) fn from_vars(
        (in_flight, slow_queues): (InFlight, DeliveryQueues),
        clock: Clock,
        var: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            in_flight,
            slow_queues,
            most_fast: required_number(var, "DELIVERIES_IN_FLIGHT")?,
            most_slow: required_number(var, "SLOW_DELIVERIES_IN_FLIGHT")?,
            clock,
        })
    }

    /// Returns the slow queue of a mode.
    pub(crate) fn slow_queue(&self, mode: Mode) -> &DeliveryQueue {
        self.slow_queues.of(mode)
    }

    /// Returns the slow queue with this ARN; `None`: it is another queue's.
    pub(crate) fn slow_queue_by_arn(&self, arn: &str) -> Option<&DeliveryQueue> {
        self.slow_queues.by_arn(arn)
    }

    /// Takes slots for the messages of a batch. Moves those that get none, and those of slow receivers, to the
    /// slow queue. Records that contain no message are returned too, so that their processing fails.
    pub(crate) async fn admit(&self, records: Vec<SqsMessage>) -> Admitted {
        let arn = records.first().and_then(|record| record.event_source_arn.clone()).unwrap_or_default();
        let lane = if self.slow_queues.by_arn(&arn).is_some() { Lane::Slow } else { Lane::Fast };
        let now = self.clock.now();
        let mut admitted = Vec::new();
        let mut scopes: BTreeMap<Scope, Messages> = BTreeMap::new();
        for record in records {
            match read::<DeliveryMessage>(&record) {
                Ok(message) => scopes.entry(message.scope).or_default().push((record, message)),
                Err(_) => admitted.push(record),
            }
        }
        let admission = self.clone();
        let (taken, mut failures) = take_all(scopes, move |scope, messages| {
            let admission = admission.clone();
            async move { admission.take(lane, scope, messages, now).await }
        })
        .await;
        let (mut slots, mut moved) = (Vec::new(), Vec::new());
        for taken in taken {
            admitted.extend(taken.admitted);
            moved.extend(taken.moved);
            slots.extend(taken.slots);
        }
        failures.extend(self.move_to_slow_queue(lane, moved).await);
        let limited = slots.iter().map(Slots::scope).collect();
        let batch = Batch { lane, slots: tokio::sync::Mutex::new(slots), limited, running: Mutex::default() };
        Admitted { records: admitted, failures, batch }
    }

    async fn take(&self, lane: Lane, scope: Scope, messages: Messages, now: Timestamp) -> Taken {
        let records = |messages: Messages| messages.into_iter().map(|(record, _)| record).collect();
        if lane == Lane::Fast && messages.len() == 1 {
            return Taken { admitted: records(messages), moved: Vec::new(), slots: None };
        }
        let wanted = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        let (slots, Occupancy { marks, .. }) =
            match self.in_flight.take((&scope, lane), wanted, self.most(lane), now).await {
                Ok(taken) => taken,
                Err(error) => {
                    tracing::warn!(%scope, %error, "no slots; the deliveries are attempted without them");
                    return Taken { admitted: records(messages), moved: Vec::new(), slots: None };
                }
            };
        let is_moved =
            |(_, message): &(SqsMessage, DeliveryMessage)| lane == Lane::Fast && marks.include(message, now);
        let (mut moved, mut others): (Vec<_>, Vec<_>) = messages.into_iter().partition(is_moved);
        let free = usize::try_from(slots.count).unwrap_or(usize::MAX);
        moved.extend(others.split_off(free.min(others.len())));
        Taken { admitted: records(others), moved, slots: Some(slots) }
    }

    fn most(&self, lane: Lane) -> u32 {
        match lane {
            Lane::Fast => self.most_fast,
            Lane::Slow => self.most_slow,
        }
    }

    /// Sends messages to the slow queue. From the slow lane, they return after a delay, or are dropped if the
    /// scheduler sends another message anyway. Returns the records that were not sent.
    async fn move_to_slow_queue(&self, from: Lane, moved: Messages) -> Vec<SqsBatchItemFailure> {
        let mut failures = Vec::new();
        for mode in [Mode::Live, Mode::Test] {
            let of_mode = moved.iter().filter(|(_, message)| message.scope.mode == mode);
            let sent: Vec<(&SqsMessage, DeliveryMessage)> = of_mode
                .filter(|(_, message)| from == Lane::Fast || !message.due)
                .map(|(record, message)| (record, message_after(from, message)))
                .collect();
            let messages: Vec<DeliveryMessage> = sent.iter().map(|(_, message)| message.clone()).collect();
            let refused = match Box::pin(self.slow_queue(mode).send_after(&messages, wait_of)).await {
                Ok(refused) => refused,
                Err(error) => {
                    tracing::warn!(%error, "messages could not be moved to the slow queue");
                    (0..sent.len()).collect()
                }
            };
            let refused = refused.into_iter().filter_map(|index| sent.get(index));
            failures.extend(refused.map(|(record, _)| failure_of(record.message_id.clone())));
        }
        failures
    }

    /// Returns whether a message that was admitted without a slot must move to the slow queue.
    pub(crate) fn defers(&self, batch: &Batch, message: &DeliveryMessage, occupancy: &Occupancy) -> bool {
        let now = self.clock.now();
        let is_unlimited = batch.lane == Lane::Fast && !batch.limited.contains(&message.scope);
        is_unlimited
            && (occupancy.marks.include(message, now) || occupancy.in_use(now) >= i64::from(self.most_fast))
    }

    /// Marks the receivers that have not answered yet. Releases the slots of attempts that have ended, and
    /// takes slots for running attempts that have none. Failures are only logged, because slots lapse.
    pub(crate) async fn settle(&self, batch: &Batch) {
        let now = self.clock.now();
        let mut running = batch.running();
        for (scope, messages) in &running {
            let receivers: BTreeSet<String> = messages.iter().map(DeliveryMessage::receiver).collect();
            let receivers: Vec<String> = receivers.into_iter().collect();
            warn_of(scope, self.in_flight.mark(scope, &receivers, now).await);
        }
        let mut slots = batch.slots.lock().await;
        for slots in slots.iter_mut() {
            let kept = running.remove(&slots.scope()).map_or(0, |messages| messages.len());
            let ended = slots.count.saturating_sub(u32::try_from(kept).unwrap_or(u32::MAX));
            warn_of(&slots.scope(), self.in_flight.release(slots, ended).await);
            slots.count = slots.count.saturating_sub(ended);
        }
        for (scope, messages) in running {
            let wanted = u32::try_from(messages.len()).unwrap_or(u32::MAX);
            match self.in_flight.take((&scope, batch.lane), wanted, u32::MAX, now).await {
                Ok((taken, _)) => slots.push(taken),
                Err(error) => warn_of(&scope, Err(error)),
            }
        }
    }

    /// Releases the slots of a batch that has ended.
    pub(crate) async fn release(&self, batch: &Batch) {
        for slots in batch.slots.lock().await.drain(..) {
            warn_of(&slots.scope(), self.in_flight.release(&slots, slots.count).await);
        }
    }
}

/// Records of a batch, with their messages.
type Messages = Vec<(SqsMessage, DeliveryMessage)>;

/// The admission of the messages of one scope.
struct Taken {
    admitted: Vec<SqsMessage>,
    moved: Messages,
    slots: Option<Slots>,
}

/// Takes slots for the messages of each scope, concurrently. Returns what was taken, and the messages whose
/// task panicked, so that SQS delivers them again.
async fn take_all<F>(
    scopes: BTreeMap<Scope, Messages>,
    take: impl Fn(Scope, Messages) -> F,
) -> (Vec<Taken>, Vec<SqsBatchItemFailure>)
where
    F: Future<Output = Taken> + Send + 'static,
{
    let mut taking = JoinSet::new();
    let mut message_ids = HashMap::new();
    for (scope, messages) in scopes {
        let ids: Vec<Option<String>> = messages.iter().map(|(record, _)| record.message_id.clone()).collect();
        let task = taking.spawn(take(scope, messages).in_current_span());
        message_ids.insert(task.id(), ids);
    }
    let (mut taken, mut failures) = (Vec::new(), Vec::new());
    while let Some(joined) = taking.join_next().await {
        match joined {
            Ok(of_scope) => taken.push(of_scope),
            Err(error) => {
                tracing::error!(%error, "messages were not admitted; SQS delivers them again");
                let ids = message_ids.remove(&error.id()).unwrap_or_default();
                failures.extend(ids.into_iter().map(failure_of));
            }
        }
    }
    (taken, failures)
}

fn warn_of(scope: &Scope, result: Result<(), StoreError>) {
    if let Err(error) = result {
        tracing::warn!(%scope, %error, "the slots of deliveries could not be updated; they lapse");
    }
}

fn message_after(from: Lane, message: &DeliveryMessage) -> DeliveryMessage {
    let waits = match from {
        Lane::Fast => 0,
        Lane::Slow => message.waits.saturating_add(1),
    };
    DeliveryMessage { waits, ..message.clone() }
}

/// Returns the delay of a message. A message from the fast lane has not waited yet, and has none.
fn wait_of(message: &DeliveryMessage) -> Duration {
    let Some(earlier) = message.waits.checked_sub(1) else { return Duration::ZERO };
    let full_ms = FIRST_WAIT_MS.saturating_mul(2_u64.saturating_pow(earlier)).min(MAX_WAIT_MS);
    let half_ms = full_ms / 2;
    Duration::from_millis(half_ms.saturating_add(random::below(half_ms)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(scope: &str, id: &str) -> (SqsMessage, DeliveryMessage) {
        let body = json!({"scope": scope, "delivery": "wd_01m7xpe60063pqsxx1gmvkjbw5"});
        let mut record = SqsMessage::default();
        record.message_id = Some(id.to_owned());
        (record, serde_json::from_value(body).unwrap())
    }

    #[tokio::test]
    async fn messages_whose_admission_panics_are_returned_as_failures() {
        let (healthy, broken) = ("acc_0123456789abcdef:test", "acc_0123456789abcdef:live");
        let messages = [message(healthy, "a"), message(broken, "b"), message(broken, "c")];
        let mut scopes: BTreeMap<Scope, Messages> = BTreeMap::new();
        for message in messages {
            scopes.entry(message.1.scope).or_default().push(message);
        }
        let (taken, failures) = take_all(scopes, |scope, messages| async move {
            assert!(scope.mode == Mode::Test, "the admission of live messages panics");
            let admitted = messages.into_iter().map(|(record, _)| record).collect();
            Taken { admitted, moved: Vec::new(), slots: None }
        })
        .await;
        let admitted: Vec<&SqsMessage> = taken.iter().flat_map(|taken| &taken.admitted).collect();
        assert_eq!(admitted.len(), 1);
        assert_eq!(admitted[0].message_id.as_deref(), Some("a"));
        let failed: Vec<&str> =
            failures.iter().map(|failure| failure.item_identifier.as_deref().unwrap()).collect();
        assert_eq!(failed, ["b", "c"]);
    }
}
