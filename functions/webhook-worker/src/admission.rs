//! Decides which messages of a batch are attempted now, so that no account or slow receiver holds the
//! invocations of the others ([`shared::webhook::in_flight`]).
//!
//! 1. Before any delivery is claimed, [`Admission::admit`] takes slots for the messages of each account and
//!    mode, by one update. It defers the messages without a slot, and those of slow receivers.
//! 2. While attempts run, [`Admission::settle`] releases the slots of those that have ended, and marks the
//!    receivers that have not answered within [`SLOW_AFTER`]. So one hanging receiver does not hold the slots
//!    of the others.
//! 3. When the batch ends, [`Admission::release`] releases the rest.
//!
//! A message for a slow receiver moves to the slow queue. A message without a slot returns to the fast queue
//! after a short delay, because its receiver may be healthy, and would wait behind hanging posts in the slow
//! queue. After [`FAST_ROUNDS`] returns it moves to the slow queue too, because each return costs the fast lane
//! an update and a part of an invocation.
//!
//! In the fast lane, a message that is alone in its batch with its account takes no slot, because its attempt
//! normally ends within milliseconds. The worker checks the row when it reads the delivery's event, and the
//! attempt takes a slot if it is still running after [`SLOW_AFTER`]. So a lone delivery costs no additional
//! request. For that time, an account can exceed its limit by one attempt for each invocation.
//!
//! If the row of slots can't be updated, the messages are attempted without slots. A failure of the limit does
//! not stop deliveries.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lambda_events::sqs::SqsMessage;
use aws_lambda_events::streams::SqsBatchItemFailure;
use domain::ids::{DeliveryId, Mode, Scope};
use domain::time::Timestamp;
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, required_number};
use shared::queue::{QueueError, failure_of, read};
use shared::random;
use shared::store::StoreError;
use shared::webhook::in_flight::{InFlight, Occupancy, Slots};
use shared::webhook::queue::{DeliveryMessage, DeliveryQueue, DeliveryQueues, Lane};
use tokio::task::JoinSet;
use tracing::Instrument;

/// A post that takes longer is slow. Nearly all healthy receivers answer earlier. Until a hanging receiver is
/// marked, each batch with a message for it holds an invocation, so the healthy ones wait for about this time.
pub(crate) const SLOW_AFTER: Duration = Duration::from_secs(1);

/// The interval at which the slots of a batch are settled. Most batches end earlier, and need no update for
/// it.
pub(crate) const SETTLE_PERIOD: Duration = Duration::from_millis(500);

/// How often a message without a slot returns to the fast queue, before it moves to the slow queue. It has
/// waited for about ten seconds then.
const FAST_ROUNDS: u32 = 4;

/// The delay of a message that returns to the queue of its lane, in milliseconds. It doubles each time, up to
/// the maximum. Half of it is random, so that messages do not return together. SQS rounds it up to seconds.
const FIRST_FAST_WAIT_MS: u64 = 1_000;
const MAX_FAST_WAIT_MS: u64 = 8_000;
const FIRST_SLOW_WAIT_MS: u64 = 15_000;
const MAX_SLOW_WAIT_MS: u64 = 120_000;

/// Admits messages to attempts. Clones share clients.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    in_flight: InFlight,
    fast_queues: DeliveryQueues,
    slow_queues: DeliveryQueues,
    most_fast: u32,
    most_slow: u32,
    clock: Clock,
}

pub(crate) struct Admitted {
    pub records: Vec<SqsMessage>,
    /// The records that SQS must deliver again: they could not be deferred, or their admission panicked.
    pub failures: Vec<SqsBatchItemFailure>,
    pub batch: Batch,
}

/// Why a message is not attempted now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotNow {
    SlowReceiver,
    NoSlot,
    OpenBreaker { until: Timestamp },
}

#[derive(Debug)]
pub(crate) struct Batch {
    lane: Lane,
    slots: tokio::sync::Mutex<Vec<Slots>>,
    limited: BTreeSet<Scope>,
    progress: Mutex<Progress>,
}

/// The messages of a batch that are still processed.
#[derive(Debug, Default)]
struct Progress {
    /// The number of messages of each scope whose processing has not ended.
    unended: BTreeMap<Scope, u32>,
    posts: HashMap<DeliveryId, Post>,
}

#[derive(Debug)]
struct Post {
    message: DeliveryMessage,
    started_at: Instant,
    is_marked: bool,
}

pub(crate) struct Processing<'a> {
    batch: &'a Batch,
    scope: Scope,
}

impl Drop for Processing<'_> {
    fn drop(&mut self) {
        if let Some(unended) = self.batch.progress().unended.get_mut(&self.scope) {
            *unended = unended.saturating_sub(1);
        }
    }
}

pub(crate) struct RunningPost<'a> {
    batch: &'a Batch,
    delivery: DeliveryId,
}

impl Drop for RunningPost<'_> {
    fn drop(&mut self) {
        self.batch.progress().posts.remove(&self.delivery);
    }
}

impl Batch {
    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    pub(crate) fn begin(&self, message: &DeliveryMessage) -> Processing<'_> {
        Processing { batch: self, scope: message.scope }
    }

    pub(crate) fn start_post(&self, message: &DeliveryMessage) -> RunningPost<'_> {
        let post = Post { message: message.clone(), started_at: Instant::now(), is_marked: false };
        self.progress().posts.insert(message.delivery, post);
        RunningPost { batch: self, delivery: message.delivery }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unended(&self, scope: &Scope) -> u32 {
        self.progress().unended.get(scope).copied().unwrap_or_default()
    }

    fn newly_slow(&self) -> BTreeMap<Scope, BTreeSet<String>> {
        let mut slow: BTreeMap<Scope, BTreeSet<String>> = BTreeMap::new();
        for post in self.progress().posts.values_mut() {
            if !post.is_marked && post.started_at.elapsed() >= SLOW_AFTER {
                post.is_marked = true;
                slow.entry(post.message.scope).or_default().insert(post.message.receiver());
            }
        }
        slow
    }
}

impl Admission {
    /// Reads `DELIVERIES_IN_FLIGHT` and `SLOW_DELIVERIES_IN_FLIGHT`, the limits of an account and mode in each
    /// lane.
    pub(crate) fn from_vars(
        in_flight: InFlight,
        (fast_queues, slow_queues): (DeliveryQueues, DeliveryQueues),
        clock: Clock,
        var: Vars<'_>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            in_flight,
            fast_queues,
            slow_queues,
            most_fast: required_number(var, "DELIVERIES_IN_FLIGHT")?,
            most_slow: required_number(var, "SLOW_DELIVERIES_IN_FLIGHT")?,
            clock,
        })
    }

    pub(crate) fn queue(&self, lane: Lane, mode: Mode) -> &DeliveryQueue {
        match lane {
            Lane::Fast => self.fast_queues.of(mode),
            Lane::Slow => self.slow_queues.of(mode),
        }
    }

    /// Returns the queue with this ARN; `None`: it is not a queue of deliveries.
    pub(crate) fn queue_by_arn(&self, arn: &str) -> Option<&DeliveryQueue> {
        self.fast_queues.by_arn(arn).or_else(|| self.slow_queues.by_arn(arn))
    }

    /// Takes slots for the messages of a batch. Defers those that get none, and those of slow receivers.
    /// Records that contain no message are returned too, so that their processing fails.
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
        let (mut slots, mut deferred) = (Vec::new(), Vec::new());
        let mut progress = Progress::default();
        for taken in taken {
            progress.unended.insert(taken.scope, u32::try_from(taken.admitted.len()).unwrap_or(u32::MAX));
            admitted.extend(taken.admitted);
            deferred.extend(taken.deferred);
            slots.extend(taken.slots);
        }
        failures.extend(self.defer_all(lane, deferred).await);
        let limited = slots.iter().map(Slots::scope).collect();
        let batch =
            Batch { lane, slots: tokio::sync::Mutex::new(slots), limited, progress: Mutex::new(progress) };
        Admitted { records: admitted, failures, batch }
    }

    async fn take(&self, lane: Lane, scope: Scope, messages: Messages, now: Timestamp) -> Taken {
        if lane == Lane::Fast && messages.len() == 1 {
            return Taken::all(scope, messages);
        }
        let wanted = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        let (slots, Occupancy { marks, .. }) =
            match self.in_flight.take((&scope, lane), wanted, self.most(lane), now).await {
                Ok(taken) => taken,
                Err(error) => {
                    tracing::warn!(%scope, %error, "no slots; the deliveries are attempted without them");
                    return Taken::all(scope, messages);
                }
            };
        let is_moved =
            |(_, message): &(SqsMessage, DeliveryMessage)| lane == Lane::Fast && marks.include(message, now);
        let (slow, mut others): (Messages, Messages) = messages.into_iter().partition(is_moved);
        let free = usize::try_from(slots.count).unwrap_or(usize::MAX);
        let without_slot = others.split_off(free.min(others.len()));
        let deferred = |messages: Messages, why| messages.into_iter().map(move |message| (message, why));
        let deferred = deferred(slow, NotNow::SlowReceiver).chain(deferred(without_slot, NotNow::NoSlot));
        let deferred = deferred.collect();
        Taken { deferred, slots: Some(slots), ..Taken::all(scope, others) }
    }

    fn most(&self, lane: Lane) -> u32 {
        match lane {
            Lane::Fast => self.most_fast,
            Lane::Slow => self.most_slow,
        }
    }

    /// Sends messages of a lane that are not attempted now to the queues from which they are received later. In
    /// the slow lane, a message is dropped if the scheduler sends another one anyway. Returns the records that
    /// were not sent.
    async fn defer_all(
        &self,
        from: Lane,
        deferred: Vec<((SqsMessage, DeliveryMessage), NotNow)>,
    ) -> Vec<SqsBatchItemFailure> {
        let mut of_queues: HashMap<(Lane, Mode), (Vec<SqsMessage>, Vec<DeliveryMessage>)> = HashMap::new();
        for ((record, message), why) in deferred {
            if from == Lane::Slow && message.due {
                continue;
            }
            let (lane, message) = deferred_message(from, &message, why);
            let (records, messages) = of_queues.entry((lane, message.scope.mode)).or_default();
            records.push(record);
            messages.push(message);
        }
        let mut failures = Vec::new();
        for ((lane, mode), (records, messages)) in of_queues {
            let sent = self.queue(lane, mode).send_after(&messages, |message| wait_of(lane, message));
            let refused = match Box::pin(sent).await {
                Ok(refused) => refused,
                Err(error) => {
                    tracing::warn!(%error, "messages could not be deferred");
                    (0..records.len()).collect()
                }
            };
            let refused = refused.into_iter().filter_map(|index| records.get(index));
            failures.extend(refused.map(|record| failure_of(record.message_id.clone())));
        }
        failures
    }

    /// Sends one message that is not attempted now to the queue from which it is received later.
    pub(crate) async fn defer(
        &self,
        from: Lane,
        message: &DeliveryMessage,
        why: NotNow,
    ) -> Result<(), QueueError> {
        let (lane, message) = deferred_message(from, message, why);
        self.queue(lane, message.scope.mode).send_later(&message, wait_of(lane, &message)).await
    }

    /// Returns why a message that was admitted without a slot must be deferred, if it must.
    pub(crate) fn deferral(
        &self,
        batch: &Batch,
        message: &DeliveryMessage,
        occupancy: &Occupancy,
    ) -> Option<NotNow> {
        let now = self.clock.now();
        if batch.lane == Lane::Slow || batch.limited.contains(&message.scope) {
            return None;
        }
        if occupancy.marks.include(message, now) {
            return Some(NotNow::SlowReceiver);
        }
        (occupancy.in_use(now) >= i64::from(self.most_fast)).then_some(NotNow::NoSlot)
    }

    /// Releases the slots of attempts that have ended. Marks the receivers that have become slow, and takes
    /// slots for their attempts if they have none. Failures are only logged, because slots lapse.
    pub(crate) async fn settle(&self, batch: &Batch) {
        let now = self.clock.now();
        let mut slow = batch.newly_slow();
        for (scope, receivers) in &slow {
            let receivers: Vec<String> = receivers.iter().cloned().collect();
            warn_of(scope, self.in_flight.mark(scope, &receivers, now).await);
        }
        let mut slots = batch.slots.lock().await;
        for slots in slots.iter_mut() {
            let scope = slots.scope();
            slow.remove(&scope);
            let ended = slots.count.saturating_sub(batch.unended(&scope));
            warn_of(&scope, self.in_flight.release(slots, ended).await);
            slots.count = slots.count.saturating_sub(ended);
        }
        for scope in slow.into_keys() {
            match self.in_flight.take((&scope, batch.lane), batch.unended(&scope), u32::MAX, now).await {
                Ok((taken, _)) => slots.push(taken),
                Err(error) => warn_of(&scope, Err(error)),
            }
        }
    }

    pub(crate) async fn release(&self, batch: &Batch) {
        for slots in batch.slots.lock().await.drain(..) {
            warn_of(&slots.scope(), self.in_flight.release(&slots, slots.count).await);
        }
    }
}

type Messages = Vec<(SqsMessage, DeliveryMessage)>;

struct Taken {
    scope: Scope,
    admitted: Vec<SqsMessage>,
    deferred: Vec<((SqsMessage, DeliveryMessage), NotNow)>,
    slots: Option<Slots>,
}

impl Taken {
    fn all(scope: Scope, messages: Messages) -> Self {
        let admitted = messages.into_iter().map(|(record, _)| record).collect();
        Self { scope, admitted, deferred: Vec::new(), slots: None }
    }
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

/// Returns a message that is not attempted now, and the lane in which it is received again.
fn deferred_message(from: Lane, message: &DeliveryMessage, why: NotNow) -> (Lane, DeliveryMessage) {
    let stays = match from {
        Lane::Fast => why == NotNow::NoSlot && message.waits < FAST_ROUNDS,
        Lane::Slow => true,
    };
    let (lane, waits) = if stays { (from, message.waits.saturating_add(1)) } else { (Lane::Slow, 0) };
    (lane, DeliveryMessage { waits, ..message.clone() })
}

/// Returns the delay of a message that is sent to a lane. A message that comes from the other lane has not
/// waited yet, and has none.
fn wait_of(lane: Lane, message: &DeliveryMessage) -> Duration {
    let Some(earlier) = message.waits.checked_sub(1) else { return Duration::ZERO };
    let (first_ms, max_ms) = match lane {
        Lane::Fast => (FIRST_FAST_WAIT_MS, MAX_FAST_WAIT_MS),
        Lane::Slow => (FIRST_SLOW_WAIT_MS, MAX_SLOW_WAIT_MS),
    };
    let full_ms = first_ms.saturating_mul(2_u64.saturating_pow(earlier)).min(max_ms);
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
            Taken::all(scope, messages)
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
