//! Decides which messages of a batch are attempted now, so that no account or slow receiver holds the invocations of
//! the others ([`effects::webhook::in_flight`]).
//!
//! 1. Before any delivery is claimed, [`Admission::admit`] takes a slot for each account and mode that has several
//!    messages in the batch. It defers the messages for which no slot is free.
//! 2. A message that is alone in its batch with its account takes no slot, because its attempt normally ends within
//!    milliseconds. The worker reads the row with the delivery's event, and defers the message if no slot is free
//!    ([`Admission::has_room`]). So a lone delivery costs no additional request.
//! 3. A post that has not ended after [`SLOW_AFTER`] marks its receiver, and takes a slot if its batch has none
//!    ([`Admission::report_slow`]).
//! 4. When the batch ends, [`Admission::release`] releases its slots.
//!
//! If the row of slots can't be updated, the messages are attempted without slots. A failure of the limit does not stop
//! deliveries.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_lambda_events::sqs::SqsMessage;
use aws_lambda_events::streams::SqsBatchItemFailure;
use domain::ids::Scope;
use domain::time::Timestamp;
use effects::webhook::in_flight::{InFlight, Occupancy, Slot};
use effects::webhook::queue::{DeliveryMessage, DeliveryQueues};
use shared::clock::Clock;
use shared::concurrently;
use shared::config::{ConfigError, Vars, required_number};
use shared::queue::{QueueError, failure_of, read};
use shared::random;
use shared::store::StoreError;
use tokio::sync::Mutex;

/// A post that takes longer is slow. Nearly all healthy receivers answer earlier.
pub(crate) const SLOW_AFTER: Duration = Duration::from_secs(1);

/// The part of an account's slots that its slow receivers may use.
const PART_OF_SLOW: u32 = 3;

/// The delay of a message for which no slot was free, in milliseconds. It doubles each time, up to the maximum. Half of
/// it is random, so that messages do not return together. SQS rounds it up to seconds.
const FIRST_WAIT_MS: u64 = 1_000;
const MAX_WAIT_MS: u64 = 8_000;
const FIRST_SLOW_WAIT_MS: u64 = 15_000;
const MAX_SLOW_WAIT_MS: u64 = 120_000;

/// Admits messages to attempts. Clones share clients.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    in_flight: InFlight,
    pub(crate) queues: DeliveryQueues,
    most: u32,
    clock: Clock,
}

pub(crate) struct Admitted {
    pub records: Vec<SqsMessage>,
    /// The records that SQS must deliver again, because they could not be deferred.
    pub failures: Vec<SqsBatchItemFailure>,
    pub batch: Batch,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotNow {
    NoSlot,
    NoSlotForSlowReceiver,
    OpenBreaker { until: Timestamp },
}

/// The slots of a batch by scope, each with the receivers that the batch has marked.
#[derive(Debug)]
pub(crate) struct Batch(Mutex<BTreeMap<Scope, (Slot, BTreeSet<String>)>>);

type Messages = Vec<(SqsMessage, DeliveryMessage)>;

impl Admission {
    /// Reads `ACCOUNT_DELIVERY_CONCURRENCY`, the slots of an account and mode.
    pub(crate) fn from_vars(
        in_flight: InFlight,
        queues: DeliveryQueues,
        clock: Clock,
        var: Vars<'_>,
    ) -> Result<Self, ConfigError> {
        Ok(Self { in_flight, queues, most: required_number(var, "ACCOUNT_DELIVERY_CONCURRENCY")?, clock })
    }

    /// Takes slots for the messages of a batch, and defers those for which none is free. Records that contain no
    /// message are returned too, so that their processing fails.
    pub(crate) async fn admit(&self, records: Vec<SqsMessage>) -> Admitted {
        let (mut admitted, mut slots) = (Vec::new(), BTreeMap::new());
        let mut scopes: BTreeMap<Scope, Messages> = BTreeMap::new();
        for record in records {
            match read::<DeliveryMessage>(&record) {
                Ok(message) => scopes.entry(message.scope).or_default().push((record, message)),
                Err(_) => admitted.push(record),
            }
        }
        let taken = concurrently(scopes.len(), scopes, |(scope, messages)| {
            let admission = self.clone();
            async move { admission.take(scope, messages).await }
        });
        let mut to_defer = Vec::new();
        for (slot, messages, deferred) in taken.await {
            admitted.extend(messages.into_iter().map(|(record, _)| record));
            slots.extend(slot.map(|(scope, slot)| (scope, (slot, BTreeSet::new()))));
            to_defer.extend(deferred);
        }
        let failed = concurrently(to_defer.len(), to_defer, |((record, message), why)| {
            let admission = self.clone();
            async move {
                let error = admission.defer(&message, why).await.err()?;
                tracing::warn!(%error, "a message could not be deferred");
                Some(failure_of(record.message_id))
            }
        });
        let failures = failed.await.into_iter().flatten().collect();
        Admitted { records: admitted, failures, batch: Batch(Mutex::new(slots)) }
    }

    /// Takes a slot for messages of a scope. Returns it, the messages that are attempted now, and the others.
    async fn take(
        &self,
        scope: Scope,
        messages: Messages,
    ) -> (Option<(Scope, Slot)>, Messages, Vec<((SqsMessage, DeliveryMessage), NotNow)>) {
        if messages.len() == 1 {
            return (None, messages, Vec::new());
        }
        let (slot, occupancy) = match self.in_flight.take(&scope, self.clock.now()).await {
            Ok(taken) => taken,
            Err(error) => {
                tracing::warn!(%scope, %error, "no slot; the deliveries are attempted without it");
                return (None, messages, Vec::new());
            }
        };
        let (mut admitted, mut deferred) = (Vec::new(), Vec::new());
        for (record, message) in messages {
            match self.has_room(&occupancy, &message) {
                Ok(()) => admitted.push((record, message)),
                Err(why) => deferred.push(((record, message), why)),
            }
        }
        if admitted.is_empty() {
            warn_of(&scope, self.in_flight.release(slot).await);
            return (None, admitted, deferred);
        }
        (Some((scope, slot)), admitted, deferred)
    }

    /// Checks whether a slot is free for the receiver of a message.
    fn has_room(&self, occupancy: &Occupancy, message: &DeliveryMessage) -> Result<(), NotNow> {
        let now = self.clock.now();
        let (most, why) = if occupancy.is_slow(&message.receiver(), now) {
            (self.most.div_ceil(PART_OF_SLOW), NotNow::NoSlotForSlowReceiver)
        } else {
            (self.most, NotNow::NoSlot)
        };
        if occupancy.in_use(now) < i64::from(most) { Ok(()) } else { Err(why) }
    }

    /// Checks whether a slot is free for a message, unless its batch has taken one for its account.
    pub(crate) async fn check(
        &self,
        batch: &Batch,
        message: &DeliveryMessage,
        occupancy: &Occupancy,
    ) -> Result<(), NotNow> {
        if batch.0.lock().await.contains_key(&message.scope) {
            return Ok(());
        }
        self.has_room(occupancy, message)
    }

    /// Sends a message that is not attempted now again, with a delay. A message for a slow receiver is dropped if the
    /// scheduler sends another one anyway.
    pub(crate) async fn defer(&self, message: &DeliveryMessage, why: NotNow) -> Result<(), QueueError> {
        let (first_ms, max_ms) = match why {
            NotNow::NoSlotForSlowReceiver if message.due => return Ok(()),
            NotNow::NoSlotForSlowReceiver => (FIRST_SLOW_WAIT_MS, MAX_SLOW_WAIT_MS),
            _ => (FIRST_WAIT_MS, MAX_WAIT_MS),
        };
        let full_ms = first_ms.saturating_mul(2_u64.saturating_pow(message.waits)).min(max_ms);
        let half_ms = full_ms / 2;
        let wait = Duration::from_millis(half_ms.saturating_add(random::below(half_ms)));
        let message = DeliveryMessage { waits: message.waits.saturating_add(1), ..message.clone() };
        self.queues.of(message.scope.mode).send_later(&message, wait).await
    }

    /// Marks the receiver of a slow post, and takes a slot if the batch has none for its account.
    pub(crate) async fn report_slow(&self, batch: &Batch, message: &DeliveryMessage) {
        let (scope, receiver, now) = (&message.scope, message.receiver(), self.clock.now());
        let mut slots = batch.0.lock().await;
        if !slots.contains_key(scope) {
            match self.in_flight.take(scope, now).await {
                Ok((slot, _)) => drop(slots.insert(*scope, (slot, BTreeSet::new()))),
                Err(error) => warn_of(scope, Err(error)),
            }
        }
        let is_marked = slots.get_mut(scope).is_some_and(|(_, marked)| !marked.insert(receiver.clone()));
        if !is_marked {
            warn_of(scope, self.in_flight.mark(scope, &receiver, now).await);
        }
    }

    /// Releases the slots of a batch. Failures are only logged, because slots lapse.
    pub(crate) async fn release(&self, batch: &Batch) {
        for (scope, (slot, _)) in std::mem::take(&mut *batch.0.lock().await) {
            warn_of(&scope, self.in_flight.release(slot).await);
        }
    }
}

fn warn_of(scope: &Scope, result: Result<(), StoreError>) {
    if let Err(error) = result {
        tracing::warn!(%scope, %error, "the slots of deliveries could not be updated; they lapse");
    }
}
