//! Publishes the changes of a batch: inserts the events and their deliveries, then queues a message for each
//! delivery. The scopes of a batch do not wait for each other, so the throttled partitions of one account do not
//! delay the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::ids::{EventId, ResendId, Scope};
use domain::request_id::StoredRequestId;
use domain::row::Row as _;
use domain::webhook::event_type::EventType;
use effects::notes::Period;
use effects::rollup::Rollups;
use effects::webhook::delivery::{Deliveries, Delivery, DeliveryStatus};
use effects::webhook::endpoint::{Endpoint, Endpoints};
use effects::webhook::event::Event;
use effects::webhook::queue::{COUNTED_AFTER_SECONDS, CountMessage, DeliveryMessage};
use effects::webhook::resend::note_resent;
use shared::concurrently;
use shared::store::StoreError;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinSet, yield_now};
use tracing::{Instrument, field};

use crate::quarantine::Cause;
use crate::{Dispatcher, FailedRecord, send};

/// The most changes of a batch that are published concurrently.
const CONCURRENT_CHANGES: usize = 16;

pub(crate) struct Change {
    pub(crate) number: String,
    pub(crate) events: Vec<Event>,
    /// The resend request that the events are published for; `None`: they are published for the first time.
    pub(crate) resend: Option<ResendId>,
}

#[derive(Default)]
pub(crate) struct ScopeWork {
    pub(crate) changes: Vec<Change>,
    /// The deliveries that their own records start, each with the sequence number of its record.
    pub(crate) deliveries: Vec<(String, DeliveryMessage)>,
}

/// The state that the changes of a scope share while they are published.
struct Publishing {
    scope: Scope,
    /// Read once a batch, also if the read fails.
    endpoints: OnceCell<Result<Vec<Endpoint>, StoreError>>,
    /// Whether DynamoDB throttled a change. The others are then not attempted, so that they do not use the slots
    /// of other scopes.
    is_throttled: AtomicBool,
}

/// What has been inserted for a change.
#[derive(Default)]
struct Published {
    /// The rows that a fold counts.
    rows: Vec<EventId>,
    /// The messages of the deliveries that wait for one.
    messages: Vec<DeliveryMessage>,
}

impl Dispatcher {
    /// Publishes the changes of all scopes. Returns the records that failed.
    pub(crate) async fn publish_all(&self, scopes: HashMap<Scope, ScopeWork>) -> Vec<FailedRecord> {
        let slots = Arc::new(Semaphore::new(CONCURRENT_CHANGES));
        let published = concurrently(scopes.len(), scopes, |(scope, of_scope)| {
            let (dispatcher, slots) = (self.clone(), Arc::clone(&slots));
            async move { dispatcher.publish_scope(scope, of_scope, &slots).await }
        });
        published.await.concat()
    }

    /// Publishes the changes of a scope, has them counted, and starts their deliveries. Returns the records that
    /// failed. The deliveries that were inserted before a failure are started too.
    async fn publish_scope(
        &self,
        scope: Scope,
        work: ScopeWork,
        slots: &Arc<Semaphore>,
    ) -> Vec<FailedRecord> {
        let ScopeWork { changes, mut deliveries } = work;
        let publishing = Publishing { scope, endpoints: OnceCell::new(), is_throttled: false.into() };
        let publishing = Arc::new(publishing);
        let mut tasks = JoinSet::new();
        for change in changes {
            let slot = turn(slots).await;
            let (dispatcher, publishing) = (self.clone(), Arc::clone(&publishing));
            let publish = async move {
                let _slot = slot;
                let mut published = Published::default();
                let outcome = dispatcher.publish(&change, &publishing, &mut published).await;
                (change.number, published, outcome)
            };
            tasks.spawn(publish.in_current_span());
        }
        let (mut failures, mut rows) = (Vec::new(), Vec::new());
        for (number, published, outcome) in tasks.join_all().await {
            rows.extend(published.rows.into_iter().map(|row| (number.clone(), row)));
            deliveries.extend(published.messages.into_iter().map(|message| (number.clone(), message)));
            let Err(error) = outcome else { continue };
            let cause = Cause::from(&error);
            // One line for all throttled records of the batch is logged when they are postponed.
            if cause != Cause::Throttled {
                tracing::error!(sequence_number = number, %error, "can't publish the events of a change");
            }
            failures.push((number, cause));
        }
        let (folded, sent, noted, ()) = tokio::join!(
            Box::pin(self.schedule_fold(scope, rows)),
            send(self.queues.of(scope.mode), &deliveries, |_| Duration::ZERO),
            Box::pin(self.note_new(scope, &deliveries)),
            Box::pin(self.schedule_counting(scope, &deliveries))
        );
        [failures, folded, sent, noted].concat()
    }

    /// Inserts the events of a change and their deliveries, unless they exist.
    async fn publish(
        &self,
        Change { events, resend, .. }: &Change,
        publishing: &Publishing,
        published: &mut Published,
    ) -> Result<(), StoreError> {
        if publishing.is_throttled.load(Ordering::Relaxed) {
            return Err(StoreError::Throttled("another change of the account was throttled".to_owned()));
        }
        for event in events {
            let inserted = self.publish_event(event, *resend, publishing, published).await;
            if let Err(StoreError::Throttled(_)) = inserted {
                publishing.is_throttled.store(true, Ordering::Relaxed);
            }
            inserted?;
        }
        Ok(())
    }

    async fn publish_event(
        &self,
        event: &Event,
        resend: Option<ResendId>,
        publishing: &Publishing,
        published: &mut Published,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        if Rollups::new(self.store.clone()).insert_event(event, now).await? {
            published.rows.push(event.id);
        }
        if event.objects.is_empty() {
            return Ok(());
        }
        log_published(event);
        if let Some(until) = resend.and_then(|_| event.needed_until(now)) {
            self.store.extend_ttl(&event.key(), until).await?;
        }
        let endpoints = Endpoints::new(self.store.clone());
        let endpoints = publishing.endpoints.get_or_init(async || endpoints.list(&publishing.scope).await);
        let endpoints = endpoints.await.as_ref().map_err(StoreError::clone)?;
        let deliveries = match resend {
            Some(resend) => Delivery::for_resend(event, endpoints, &resend, now),
            None => Delivery::for_event(event, endpoints, now),
        };
        if resend.is_some() {
            note_resent(&self.store, event, &deliveries).await?;
        }
        for delivery in deliveries {
            let stored = Deliveries::new(self.store.clone()).insert(delivery).await?;
            // Otherwise, it has been claimed, or its own record or the due index starts it.
            if stored.status == DeliveryStatus::Pending && !stored.listed {
                published.messages.push(DeliveryMessage::of(&stored));
            }
        }
        Ok(())
    }

    /// Notes that a scope has new deliveries, so that the scheduler finds those whose message was lost
    /// ([`effects::notes`]), unless this process has noted it in this period. Returns the records of the deliveries
    /// if the note failed. The stream repeats them, because otherwise only their messages would start these
    /// deliveries.
    async fn note_new(&self, scope: Scope, new: &[(String, DeliveryMessage)]) -> Vec<FailedRecord> {
        let now = self.clock.now();
        // A delivery in the due index needs no note.
        let undue: Vec<&String> =
            new.iter().filter(|(_, message)| !message.due).map(|(number, _)| number).collect();
        if undue.is_empty() || self.noted_scopes.contains(&scope, now) {
            return Vec::new();
        }
        let period = Period::of(now);
        match period.note(&self.store, &scope).await {
            Ok(()) => {
                self.noted_scopes.add(scope, period.ends_at(), now);
                Vec::new()
            }
            Err(error) => {
                tracing::error!(%scope, %error, "can't note that a scope has new deliveries");
                let cause = Cause::from(&error);
                undue.into_iter().map(|number| (number.clone(), cause)).collect()
            }
        }
    }

    /// Sends the message of a count of a scope's deliveries for one new delivery in 64, and for each 32 of a minute,
    /// unless this process has just done so. A failure is only logged, because a later delivery sends the message.
    async fn schedule_counting(&self, scope: Scope, new: &[(String, DeliveryMessage)]) {
        let now = self.clock.now();
        let are_many = self.new_deliveries.add(scope, new.len(), now);
        let is_sampled = new.iter().any(|(_, message)| message.delivery.is_sampled());
        if !(are_many || is_sampled) || self.due_counts.contains(&scope, now) {
            return;
        }
        self.new_deliveries.reset(&scope);
        self.due_counts.add(scope, now.saturating_plus_seconds(COUNTED_AFTER_SECONDS), now);
        if let Err(error) = (CountMessage { scope }).send_next(&self.counts).await {
            tracing::warn!(%scope, %error, "can't schedule the count of deliveries; a later delivery does");
        }
    }
}

/// Waits for a slot. The scopes of a batch take turns: each waits for one slot at a time, behind the others.
async fn turn(slots: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    yield_now().await;
    // The semaphore is never closed.
    Arc::clone(slots).acquire_owned().await.ok()
}

/// Logs a published row of events. A repeated stream record repeats the line.
fn log_published(event: &Event) {
    tracing::info!(
        event = %event.id,
        types = event.types().map(EventType::as_str).collect::<Vec<_>>().join(","),
        charge = event.charge.map(field::display),
        scope = %event.scope,
        request_id = event.request_id.as_ref().map(StoredRequestId::as_str),
        "event published"
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::tests::scopes;

    #[tokio::test]
    async fn the_scopes_of_a_batch_take_turns() {
        let (slots, order) = (Arc::new(Semaphore::new(CONCURRENT_CHANGES)), Arc::new(Mutex::new(Vec::new())));
        let mut tasks = JoinSet::new();
        for scope in scopes() {
            let (slots, order) = (Arc::clone(&slots), Arc::clone(&order));
            tasks.spawn(async move {
                for _ in 0..3 {
                    let _slot = turn(&slots).await;
                    order.lock().unwrap().push(scope);
                }
            });
        }
        tasks.join_all().await;
        let order = order.lock().unwrap();
        assert!(order.len() == 6 && order.chunks(2).all(|round| round[0] != round[1]), "{order:?}");
    }

    #[tokio::test]
    async fn after_a_throttled_change_the_others_of_its_scope_are_not_attempted() {
        let [scope, _] = scopes();
        let is_throttled = true.into();
        let publishing = Publishing { scope, endpoints: OnceCell::new(), is_throttled };
        let change = Change { number: "1".to_owned(), events: Vec::new(), resend: None };
        let outcome =
            crate::tests::dispatcher().publish(&change, &publishing, &mut Published::default()).await;
        assert!(matches!(outcome, Err(StoreError::Throttled(_))), "{outcome:?}");
    }
}
