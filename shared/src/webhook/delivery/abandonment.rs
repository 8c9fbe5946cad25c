//! Abandoned deliveries: those that waited when their endpoint was deleted, or set to `INACTIVE` by its merchant.
//!
//! The endpoint's row decides at once. It counts its abandonments ([`Endpoint::generation`]), and a delivery keeps the count
//! under which it was made. One with a lower count is never attempted again, and reads `CANCELLED`; so does one whose
//! endpoint is gone. Counts need no clock: a delivery that the dispatcher makes from an endpoint that it read just before the
//! change is abandoned too, and no later change revives one.
//!
//! Lists and statistics read the deliveries' own rows, which are cancelled in bounded steps. The endpoint's change inserts an
//! [`Abandonment`] in its own transaction. The stream hands that row to the dispatcher, which makes one step and writes how
//! far it came; this write comes through the stream again. The row is in the due index as well, so the scheduler continues
//! what the stream lost. A step may be repeated, and two may run at once: a delivery is cancelled only while it is `PENDING`
//! and of a lower generation.

use aws_sdk_dynamodb::types::{AttributeValue, Update};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use tokio::task::{JoinError, JoinSet};

use domain::ids::{DeliveryId, EndpointId, Scope};
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::row::{Indexes, Key, Row};
use domain::time::Timestamp;

use super::attempt::{LISTED, in_list, millis, word};
use super::counts::{self, Counts, remove_at};
use super::place::{Place, bounds};
use super::reader::readable;
use super::{Deliveries, Delivery, DeliveryStatus, SHOWN_NO_MORE_SECONDS};
use crate::store::{
    Committed, Item, ListIndex, Order, StoreError, Write, from_item, key_attributes, key_of_item, text,
    unavailable,
};
use crate::webhook::endpoint::Endpoint;
use crate::webhook::event::Event;

/// Deliveries that one step cancels, and that one read of it looks at, at most.
const STEP: usize = 1_000;

/// Reads of one step.
const READS: usize = 5;

/// Deliveries that one transaction cancels: as many rows as it may have. One by one they would be a hundred requests.
const CANCELLED_AT_ONCE: usize = 100;

/// Transactions of a step that run at the same time.
const CONCURRENT_TRANSACTIONS: usize = 4;

/// When the scheduler continues an abandonment that the stream did not, in seconds after its last step.
const TAKEN_OVER_SECONDS: i64 = 60;

/// When the last pass begins, in seconds after the abandonment. Every attempt that ran at that time has ended by then, for a
/// claim holds 60 s.
const LAST_PASS_SECONDS: i64 = 120;

/// Why deliveries are abandoned.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Cause {
    /// Their endpoint was deleted.
    Deleted,
    /// Their endpoint was set to `INACTIVE` by its merchant.
    Deactivated,
}

impl Cause {
    /// Why a delivery is abandoned, given its endpoint as it is now (`None`: it was deleted); `None`: it is not.
    pub fn of(delivery: &Delivery, endpoint: Option<&Endpoint>) -> Option<Self> {
        match endpoint {
            None => Some(Self::Deleted),
            Some(endpoint) => (delivery.generation < endpoint.generation()).then_some(Self::Deactivated),
        }
    }

    /// For `lastError`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Deleted => "the endpoint was deleted",
            Self::Deactivated => "the endpoint was set to INACTIVE",
        }
    }
}

/// An abandonment's row: which deliveries it cancels, and how far it came. That of a deleted endpoint is its tombstone.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Abandonment {
    /// Whose endpoint.
    pub scope: Scope,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Why.
    pub cause: Cause,
    /// Deliveries that were made under a lower generation of the endpoint are cancelled.
    pub generation: u64,
    /// When.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
    /// Which pass over the deliveries runs, or is next.
    pass: Pass,
    /// How far that pass came.
    progress: Progress,
    /// When the scheduler makes the next step, unless the stream did before; `None`: nothing is left to do.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    look_at: Option<Timestamp>,
    /// Counts the row's changes, from 1.
    version: u64,
}

/// The passes over the pending deliveries.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Pass {
    /// Cancels nearly all.
    First,
    /// What the index did not show yet.
    Second,
    /// What an attempt that ran during the others left pending.
    Last,
}

/// How far a pass came. Places are sort keys, that of the last delivery that was read.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Progress {
    /// Reads those listed as `PENDING`.
    Listed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// Reads those that are not listed yet: new ones.
    Unlisted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// It has not begun, and the scheduler begins it.
    Waiting,
    /// There is none left to make.
    Done,
}

impl Progress {
    const START: Self = Self::Listed { after: None };

    /// After a read that ended at a place; `None`: at the end. Gives `None` when the pass is over.
    fn advanced(&self, to: Option<String>) -> Option<Self> {
        match (self, to) {
            (Self::Listed { .. }, Some(to)) => Some(Self::Listed { after: Some(to) }),
            (Self::Listed { .. }, None) => Some(Self::Unlisted { after: None }),
            (Self::Unlisted { .. }, Some(to)) => Some(Self::Unlisted { after: Some(to) }),
            (Self::Unlisted { .. } | Self::Waiting | Self::Done, _) => None,
        }
    }
}

impl Abandonment {
    /// By the deletion of an endpoint, given as it was.
    pub fn by_deletion(endpoint: &Endpoint, at: Timestamp) -> Self {
        Self::new(endpoint, Cause::Deleted, endpoint.generation().saturating_add(1), at)
    }

    /// By the deactivation of an endpoint, given as it is after; `None`: it was never deactivated.
    pub fn by_deactivation(endpoint: &Endpoint) -> Option<Self> {
        let abandoned = endpoint.abandoned?;
        Some(Self::new(endpoint, Cause::Deactivated, abandoned.generation, abandoned.at))
    }

    fn new(endpoint: &Endpoint, cause: Cause, generation: u64, at: Timestamp) -> Self {
        Self {
            scope: endpoint.scope,
            endpoint: endpoint.id,
            cause,
            generation,
            at,
            pass: Pass::First,
            progress: Progress::START,
            look_at: at.plus_seconds(TAKEN_OVER_SECONDS).ok(),
            version: 1,
        }
    }

    /// Where the tombstone of a deleted endpoint is.
    pub fn tombstone_key(scope: &Scope, endpoint: EndpointId) -> Key {
        Key { pk: partition(scope), sk: format!("{endpoint}#deleted") }
    }

    /// Whether a row of the state table is an abandonment.
    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("abandonments#")
    }

    /// Whether its next step is to be made now. If not, the scheduler makes it, or none is left.
    pub fn is_running(&self) -> bool {
        match self.progress {
            Progress::Listed { .. } | Progress::Unlisted { .. } => true,
            Progress::Waiting | Progress::Done => false,
        }
    }

    /// After a step that ended there; `None`: it ended the pass.
    fn after_step(&self, progress: Option<Progress>, now: Timestamp) -> Self {
        let later = |from: Timestamp, seconds| from.plus_seconds(seconds).unwrap_or(Timestamp::MAX);
        let taken_over_at = later(now, TAKEN_OVER_SECONDS);
        let (pass, progress, look_at) = match (progress, self.pass) {
            (Some(progress), pass) => (pass, progress, Some(taken_over_at)),
            (None, Pass::First) => (Pass::Second, Progress::START, Some(taken_over_at)),
            (None, Pass::Second) => (Pass::Last, Progress::Waiting, Some(later(self.at, LAST_PASS_SECONDS))),
            (None, Pass::Last) => (Pass::Last, Progress::Done, None),
        };
        let version = self.version.saturating_add(1);
        Self { pass, progress, look_at, version, ..self.clone() }
    }

    fn covers(&self, delivery: &Delivery) -> bool {
        delivery.status == DeliveryStatus::Pending
            && delivery.endpoint == Some(self.endpoint)
            && delivery.generation < self.generation
    }

    /// Whether an entry of the index may be of a delivery that it covers; `None`: an earlier version wrote the entry, and
    /// only the row says.
    fn may_cover(&self, place: &Place) -> Option<bool> {
        place.kind.map(|kind| kind.endpoint == Some(self.endpoint))
    }
}

fn partition(scope: &Scope) -> String {
    format!("abandonments#{scope}")
}

impl Row for Abandonment {
    fn key(&self) -> Key {
        match self.cause {
            Cause::Deleted => Self::tombstone_key(&self.scope, self.endpoint),
            // An endpoint is deactivated again and again.
            Cause::Deactivated => {
                Key { pk: partition(&self.scope), sk: format!("{}#{:010}", self.endpoint, self.generation) }
            }
        }
    }

    fn indexes(&self) -> Indexes {
        Indexes { due: self.look_at, ..Indexes::default() }
    }

    /// After the last delivery that was made before it.
    fn removable_at(&self) -> Option<Timestamp> {
        self.at.plus_seconds(EVENTS_KEPT_SECONDS.saturating_add(SHOWN_NO_MORE_SECONDS)).ok()
    }
}

impl Delivery {
    /// The same, cancelled, as of a time, where that is known. What its attempts came to stays on record.
    fn cancelled(self, cause: Cause, at: Option<Timestamp>) -> Self {
        Self {
            status: DeliveryStatus::Cancelled,
            abandoned_because: Some(cause),
            updated_at: at.map_or(self.updated_at, |at| at.max(self.updated_at)),
            ..self
        }
    }
}

/// `lastError` of a delivery that was cancelled: the reason, and the last attempt's.
pub(super) fn cancelled_error(reason: &str, of_attempt: Option<&str>) -> String {
    match of_attempt {
        Some(error) => format!("{reason}; the last attempt: {error}"),
        None => reason.to_owned(),
    }
}

/// What a read of pending deliveries came to.
struct Pending {
    /// Those that may be abandoned, as they are listed or would be.
    places: Vec<Place>,
    /// Where it ended; `None`: at the end.
    ended_at: Option<String>,
}

impl Deliveries {
    /// Why a delivery is abandoned by now; `None`: it is not.
    pub async fn abandoned(&self, delivery: &Delivery) -> Result<Option<Cause>, StoreError> {
        let Some(endpoint) = delivery.endpoint else { return Ok(None) };
        let key = Endpoint::key_of(&delivery.scope, endpoint);
        let endpoint = self.store.get_in_order::<Endpoint>(&[key]).await?.pop();
        Ok(Cause::of(delivery, endpoint.as_ref()))
    }

    /// A delivery as it reads by itself, with its body: one that is abandoned and whose row does not say so yet reads
    /// `CANCELLED`. One request.
    pub(super) async fn as_it_reads(
        &self,
        delivery: Delivery,
    ) -> Result<(Delivery, Option<String>), StoreError> {
        let scope = delivery.scope;
        let mut keys = vec![Event::key_of(&scope, delivery.event)];
        let waits_for = delivery.endpoint.filter(|_| delivery.status == DeliveryStatus::Pending);
        if let Some(endpoint) = waits_for {
            keys.extend([Endpoint::key_of(&scope, endpoint), Abandonment::tombstone_key(&scope, endpoint)]);
        }
        let (mut body, mut cause, mut at) = (None, waits_for.map(|_| Cause::Deleted), None);
        for item in self.store.batch_get(&keys).await? {
            let key = key_of_item(&item);
            // A row that can't be read must not hide the delivery.
            let unreadable = |error| tracing::error!(%error, "a row beside a delivery can't be read");
            if key.as_ref().is_some_and(Endpoint::is_at) {
                let endpoint = from_item::<Endpoint>(item).map_err(unreadable).ok();
                cause = endpoint.as_ref().and_then(|endpoint| Cause::of(&delivery, Some(endpoint)));
                at = endpoint.and_then(|endpoint| endpoint.abandoned).map(|abandoned| abandoned.at);
            } else if key.as_ref().is_some_and(Abandonment::is_at) {
                at = from_item::<Abandonment>(item).map_err(unreadable).ok().map(|tombstone| tombstone.at);
            } else {
                let event = from_item::<Event>(item).map_err(unreadable).ok();
                body = event.map(|event| event.body_as(delivery.event_type));
            }
        }
        Ok(match cause {
            Some(cause) => (delivery.cancelled(cause, at), body),
            None => (delivery, body),
        })
    }

    /// Makes an abandonment's next step, unless it was made since the row was seen.
    pub async fn abandon(&self, seen: &Abandonment, now: Timestamp) -> Result<(), StoreError> {
        let found = self.store.get_in_order::<Abandonment>(&[seen.key()]).await?.pop();
        let Some(current) = found.filter(|found| found.version == seen.version) else { return Ok(()) };
        let mut progress = match &current.progress {
            Progress::Done => return Ok(()),
            Progress::Waiting => Some(Progress::START),
            running @ (Progress::Listed { .. } | Progress::Unlisted { .. }) => Some(running.clone()),
        };
        let mut room = STEP;
        for _read in 0..READS {
            let Some(at) = progress.as_ref().filter(|_| room > 0) else { break };
            let pending = match at {
                Progress::Listed { after } => self.pending_listed(&current, after.as_deref(), room).await?,
                Progress::Unlisted { after } => {
                    self.pending_unlisted(&current, after.as_deref(), room).await?
                }
                Progress::Waiting | Progress::Done => break,
            };
            let found = pending.places.len();
            room = room.saturating_sub(found);
            let (cancelled, failure) = self.cancel_all(pending.places, &current).await;
            match failure {
                None => progress = at.advanced(pending.ended_at),
                // The next step reads what is left of these again.
                Some(error) if cancelled > 0 => {
                    tracing::warn!(%error, found, cancelled, "the next step cancels the others");
                    break;
                }
                Some(error) => return Err(error),
            }
        }
        if progress.is_none() {
            // They are read where they are counted from then on.
            self.schedule_counting(&current.scope, now).await?;
        }
        let next = current.after_step(progress, now);
        match self.store.commit(vec![Write::replace(&next, current.version)?]).await? {
            // Overtaken by the same step, made at the same time.
            Committed::Done | Committed::Overtaken { .. } => Ok(()),
        }
    }

    /// Those listed as pending, oldest first.
    async fn pending_listed(
        &self,
        by: &Abandonment,
        after: Option<&str>,
        most: usize,
    ) -> Result<Pending, StoreError> {
        let list = Delivery::partition(&by.scope);
        let (from, to) = bounds(Some(DeliveryStatus::Pending), DeliveryId::first_at(Timestamp::MIN));
        let from = after.map_or(from, next_place);
        let entries = self.store.list(ListIndex::All, &list, (&from, &to), Order::OldestFirst, most).await?;
        let is_last = entries.len() < most;
        let ended_at = entries.last().filter(|_| !is_last).map(|entry| entry.sort.clone());
        let (mut places, mut to_read) = (Vec::new(), Vec::new());
        for entry in entries {
            let Some(place) = Place::parse(&entry.sort) else { continue };
            match by.may_cover(&place) {
                Some(true) => places.push(place),
                Some(false) => {}
                None => to_read.push(entry.key),
            }
        }
        let read = self.store.batch_get(&to_read).await?.into_iter().filter_map(readable);
        places.extend(
            read.filter(|delivery| by.covers(delivery))
                .map(|delivery| delivery.place(DeliveryStatus::Pending)),
        );
        Ok(Pending { places, ended_at })
    }

    /// Those that are pending and not listed yet, oldest first: none of them is passed by the count.
    async fn pending_unlisted(
        &self,
        by: &Abandonment,
        after: Option<&str>,
        most: usize,
    ) -> Result<Pending, StoreError> {
        let from = if let Some(after) = after {
            next_place(after)
        } else {
            let counts = self.store.get_in_order::<Counts>(&[counts::key_of(&by.scope)]).await?.pop();
            counts::after(counts.and_then(|counts| counts.up_to))
        };
        let last = DeliveryId::last_at(Timestamp::MAX).to_string();
        let page = self
            .between(&by.scope, &from, &last)
            .scan_index_forward(true)
            .filter_expression("#status = :pending AND endpoint = :endpoint AND attribute_not_exists(listed)")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":pending", word(DeliveryStatus::Pending))
            .expression_attribute_values(":endpoint", AttributeValue::S(by.endpoint.to_string()))
            .limit(i32::try_from(most).unwrap_or(i32::MAX))
            .send()
            .await
            .map_err(unavailable)?;
        let ended_at = page.last_evaluated_key.and_then(|key| text(&key, "sk"));
        let items = page.items.unwrap_or_default();
        let covered = items.into_iter().filter_map(readable).filter(|delivery| by.covers(delivery));
        Ok(Pending {
            places: covered.map(|delivery| delivery.place(DeliveryStatus::Pending)).collect(),
            ended_at,
        })
    }

    /// Cancels deliveries, a hundred at once. Gives how many it did not fail to cancel, and a failure if there was one.
    async fn cancel_all(&self, places: Vec<Place>, by: &Abandonment) -> (usize, Option<StoreError>) {
        let (mut done, mut failure): (usize, Option<StoreError>) = (0, None);
        let mut note = |ended: Result<Result<usize, StoreError>, JoinError>| match ended {
            Ok(Ok(cancelled)) => done = done.saturating_add(cancelled),
            Ok(Err(error)) => failure = Some(error),
            Err(error) => failure = Some(StoreError::Unavailable(error.to_string())),
        };
        let mut transactions = JoinSet::new();
        for some in places.chunks(CANCELLED_AT_ONCE) {
            if transactions.len() >= CONCURRENT_TRANSACTIONS
                && let Some(ended) = transactions.join_next().await
            {
                note(ended);
            }
            let (store, some, by) = (self.clone(), some.to_vec(), by.clone());
            transactions.spawn(async move { store.cancel(some, &by).await });
        }
        while let Some(ended) = transactions.join_next().await {
            note(ended);
        }
        (done, failure)
    }

    /// Cancels deliveries in one transaction, but for those that are not abandoned: an attempt runs or ended, or they were made
    /// later. Gives how many there were.
    async fn cancel(&self, mut places: Vec<Place>, by: &Abandonment) -> Result<usize, StoreError> {
        let count = places.len();
        // Each time some are left out.
        while !places.is_empty() {
            let writes = places.iter().map(|place| cancellation(place, by)).collect();
            match self.store.commit(writes).await? {
                Committed::Done => break,
                Committed::Overtaken { at } => remove_at(&mut places, &at),
            }
        }
        Ok(count)
    }
}

/// Cancels a delivery if it is abandoned. Nothing of its row needs to be read for that. It is listed from then on, as each that
/// ends without being delivered, so that it is counted there.
fn cancellation(place: &Place, by: &Abandonment) -> Write {
    let cancelled = Place { status: DeliveryStatus::Cancelled, ..place.clone() };
    let values = [
        (":pending".to_owned(), word(DeliveryStatus::Pending)),
        (":endpoint".to_owned(), AttributeValue::S(by.endpoint.to_string())),
        (":generation".to_owned(), AttributeValue::N(by.generation.to_string())),
        (":status".to_owned(), word(DeliveryStatus::Cancelled)),
        (":updated".to_owned(), millis(by.at)),
        (":cause".to_owned(), AttributeValue::S(<&str>::from(by.cause).to_owned())),
    ];
    let values: Item = values.into_iter().chain(in_list(&by.scope, &cancelled)).collect();
    let is_covered = "#status = :pending AND endpoint = :endpoint AND (attribute_not_exists(generation) OR generation < :generation)";
    let set = "SET #status = :status, updated_at = :updated, abandoned_because = :cause";
    let update = Update::builder()
        .set_key(Some(key_attributes(&Delivery::key_of(&by.scope, place.id))))
        .condition_expression(is_covered)
        .update_expression(format!("{set}, {LISTED} REMOVE due_pk, due_sk"))
        .expression_attribute_names("#status", "status")
        .set_expression_attribute_values(Some(values));
    Write::update(update)
}

/// The first place after one: '!' sorts before all that places go on with.
fn next_place(after: &str) -> String {
    format!("{after}!")
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::json;

    use super::*;
    use crate::charge::testing::at;
    use crate::store::to_item;
    use crate::webhook::endpoint::testing::endpoint;
    use crate::webhook::event::Origin;
    use domain::webhook::event_type::EventType;

    #[test]
    fn an_abandonment_makes_three_passes_the_last_once_running_attempts_have_ended() {
        let mut row = Abandonment::by_deletion(&endpoint(), at(0));
        assert_eq!((row.generation, row.look_at), (1, Some(at(60))));
        let place = |at: &str| Some(at.to_owned());
        let mut step = |progress: Option<Progress>, now| {
            row = row.after_step(progress, now);
            (row.pass, row.is_running(), row.look_at)
        };
        let listed = Progress::START.advanced(place("PENDING#wd_1"));
        assert_eq!(step(listed.clone(), at(1)), (Pass::First, true, Some(at(61))));
        let unlisted = listed.and_then(|listed| listed.advanced(None));
        assert_eq!(unlisted, Some(Progress::Unlisted { after: None }));
        let unlisted = unlisted.and_then(|unlisted| unlisted.advanced(place("wd_1")));
        assert_eq!(step(unlisted.clone(), at(2)), (Pass::First, true, Some(at(62))));
        let over = unlisted.and_then(|unlisted| unlisted.advanced(None));
        assert_eq!(over, None);
        assert_eq!(step(None, at(3)), (Pass::Second, true, Some(at(63))));
        assert_eq!(step(None, at(4)), (Pass::Last, false, Some(at(120))));
        assert_eq!(step(None, at(121)), (Pass::Last, false, None));
        assert_eq!((row.progress, row.version), (Progress::Done, 6));
    }

    #[test]
    fn an_abandonments_row_is_read_as_it_was_written() {
        let row = Abandonment::by_deletion(&endpoint(), at(0));
        let progress = Progress::Unlisted { after: Some("wd_1".to_owned()) };
        for progress in [None, Some(Progress::START), Some(progress)] {
            let row = row.after_step(progress, at(1));
            let item = to_item(&row).unwrap();
            assert_eq!(key_of_item(&item).unwrap(), row.key());
            assert!(Abandonment::is_at(&row.key()));
            assert_eq!(from_item::<Abandonment>(item).unwrap(), row);
        }
    }

    #[test]
    fn an_abandoned_deliverys_error_is_the_cause_and_the_failure_of_the_last_attempt() {
        let origin = Origin { scope: endpoint().scope, row: "charge#1".to_owned(), version: 1, at: at(0) };
        let event = Event::canonical(EventType::ChargePaid, &origin, json!({})).unwrap();
        let waiting = Delivery::of_event(&event, &[endpoint()], at(0)).remove(0);
        let attempted =
            Delivery { last_error: Some("answered 502".to_owned()), attempts: 1, ..waiting.clone() };
        // A version that wrote the whole text into the row named no cause.
        let written_before = Delivery {
            status: DeliveryStatus::Cancelled,
            last_error: Some("the endpoint was deleted; the last attempt: answered 502".to_owned()),
            ..attempted.clone()
        };
        let error = |delivery: Delivery| delivery.error().map(Cow::into_owned);
        let by_cause = |delivery: &Delivery, cause| error(delivery.clone().cancelled(cause, None)).unwrap();
        assert_eq!(error(waiting.clone()), None);
        assert_eq!(by_cause(&waiting, Cause::Deactivated), "the endpoint was set to INACTIVE");
        assert_eq!(
            by_cause(&attempted, Cause::Deleted),
            "the endpoint was deleted; the last attempt: answered 502"
        );
        assert_eq!(error(written_before), Some(by_cause(&attempted, Cause::Deleted)));
    }
}
