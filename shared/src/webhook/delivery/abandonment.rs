//! Abandonment: when a merchant deletes an endpoint or sets it to `INACTIVE`, its pending deliveries are
//! permanently cancelled.
//!
//! # A delivery is abandoned at once
//!
//! The endpoint's row counts its abandonments ([`Endpoint::generation`]). A delivery stores the generation
//! that the endpoint had when the delivery was created. The delivery is abandoned if its generation is lower
//! than the endpoint's, or if the endpoint is deleted.
//!
//! An abandoned delivery is never attempted again. A request for a delivery by its id compares the two
//! generations, and shows an abandoned delivery as `CANCELLED` at once.
//!
//! Generations are compared instead of times, because clocks differ. The dispatcher may read an endpoint just
//! before it is deactivated, and create a delivery afterwards. This delivery has the old generation, so it is
//! abandoned too. An endpoint's generation never decreases, so no later change of the endpoint revives a
//! delivery.
//!
//! # Rows of abandoned deliveries are cancelled in steps
//!
//! Lists and statistics do not compare generations, so the rows must become `CANCELLED` too:
//!
//! 1. The transaction that changes or deletes the endpoint inserts an [`Abandonment`] row.
//! 2. The stream passes that row to the dispatcher. The dispatcher runs one step, which cancels up to
//!    [`STEP_SIZE`] deliveries and writes the progress into the row.
//! 3. The stream passes this write to the dispatcher too, so the next step follows.
//! 4. The row is also in the due index. If a step fails or does not start, the scheduler runs it a minute
//!    later.
//!
//! A step may be repeated, and two may run at the same time, because a delivery is cancelled only if it is
//! `PENDING` and has a lower generation. The steps go over the deliveries three times, see [`Pass`].

use aws_sdk_dynamodb::types::{AttributeValue, Update};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use tokio::task::{JoinError, JoinSet};

use domain::ids::{DeliveryId, EndpointId, Scope};
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::row::{Indexes, Key, Row};
use domain::time::Timestamp;

use super::attempt::{LISTED, in_list, millis, status_value};
use super::counts::{self, Counts, remove_at};
use super::list_key::bounds;
use super::log::{self, LogPage};
use super::page::FoundDelivery;
use super::{Deliveries, Delivery, DeliveryStatus, KEPT_AFTER_SHOWN_SECONDS};
use crate::store::{
    CommitOutcome, Item, ListIndex, Order, StoreError, Write, from_item, key_attributes, key_of_item,
};
use crate::webhook::endpoint::Endpoint;
use crate::webhook::event::Event;

/// The most deliveries that one step cancels. One read of a step reads at most as many entries or rows.
const STEP_SIZE: usize = 1_000;

/// The most reads of one step.
const READS_PER_STEP: usize = 5;

/// The most deliveries that one transaction cancels, which is DynamoDB's limit. A transaction costs twice the
/// write units of single updates and takes a quarter of their time.
const CANCELLED_PER_TRANSACTION: usize = 100;

/// The most transactions of a step that run at the same time.
const CONCURRENT_TRANSACTIONS: usize = 4;

/// How long after the last step the scheduler runs the next one, in seconds, if the dispatcher has not run
/// it.
const TAKEOVER_SECONDS: i64 = 60;

/// When the last pass begins, in seconds after the abandonment. A claim's lease is 60 s, so every attempt
/// that ran when the endpoint changed has ended by then.
const LAST_PASS_SECONDS: i64 = 120;

/// Why deliveries are abandoned.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Cause {
    /// The endpoint was deleted.
    Deleted,
    /// The merchant set the endpoint to `INACTIVE`.
    Deactivated,
}

impl Cause {
    /// Returns why a delivery is abandoned; `None`: it is not. `endpoint`: the present row of its endpoint;
    /// `None`: the endpoint was deleted.
    pub fn of(delivery: &Delivery, endpoint: Option<&Endpoint>) -> Option<Self> {
        match endpoint {
            None => Some(Self::Deleted),
            Some(endpoint) => (delivery.generation < endpoint.generation()).then_some(Self::Deactivated),
        }
    }

    /// Returns the text of this cause for `lastError`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Deleted => "the endpoint was deleted",
            Self::Deactivated => "the endpoint was set to INACTIVE",
        }
    }
}

/// The row of an abandonment: which deliveries are cancelled, and the progress. The row of a deletion is also
/// the endpoint's tombstone.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Abandonment {
    /// The account and mode of the endpoint.
    pub scope: Scope,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Why its deliveries are abandoned.
    pub cause: Cause,
    /// Deliveries with a lower generation than this are cancelled.
    pub generation: u64,
    /// When the endpoint was deleted or deactivated.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
    /// The pass that runs, or runs next.
    pass: Pass,
    /// The progress of that pass.
    progress: Progress,
    /// When the scheduler runs the next step, if the dispatcher has not run it by then; `None`: all passes
    /// are done.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    look_at: Option<Timestamp>,
    /// Counts the row's changes, from 1.
    version: u64,
}

/// The passes over the pending deliveries.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Pass {
    /// Cancels nearly all deliveries.
    First,
    /// Begins right after the first, and cancels deliveries that the eventually consistent index did not show
    /// before.
    Second,
    /// Begins two minutes after the abandonment, and cancels deliveries that an attempt left `PENDING` during
    /// the other passes.
    Last,
}

/// The progress of a pass. `after`: the sort key of the last entry or row that was read; `None`: none was
/// read yet.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Progress {
    /// Reads the `PENDING` deliveries of the status list.
    Listed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// Reads the unlisted deliveries, which are the new ones after the checkpoint.
    Unlisted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// The pass has not begun; the scheduler begins it.
    Waiting,
    /// All passes are done.
    Done,
}

impl Progress {
    const START: Self = Self::Listed { after: None };

    /// Returns the progress after a read that ended at the sort key `to` (`None`: there were no more).
    /// Returns `None` when the pass is over.
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
    /// Returns the abandonment for the deletion of an endpoint. `endpoint`: its row before the deletion.
    pub fn by_deletion(endpoint: &Endpoint, at: Timestamp) -> Self {
        Self::new(endpoint, Cause::Deleted, endpoint.generation().saturating_add(1), at)
    }

    /// Returns the abandonment for the last deactivation of an endpoint; `None`: it was never deactivated.
    /// `endpoint`: its row after the deactivation.
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
            look_at: at.plus_seconds(TAKEOVER_SECONDS).ok(),
            version: 1,
        }
    }

    /// Returns the key of a deleted endpoint's tombstone.
    pub fn tombstone_key(scope: &Scope, endpoint: EndpointId) -> Key {
        Key { pk: partition(scope), sk: format!("{endpoint}#deleted") }
    }

    /// Whether this key of the state table is an abandonment's.
    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("abandonments#")
    }

    /// Whether the next step must run now. `false`: the scheduler runs it later, or all passes are done.
    pub fn is_running(&self) -> bool {
        match self.progress {
            Progress::Listed { .. } | Progress::Unlisted { .. } => true,
            Progress::Waiting | Progress::Done => false,
        }
    }

    /// Returns the row after a step. `progress`: the progress of the pass; `None`: the step ended the pass.
    fn after_step(&self, progress: Option<Progress>, now: Timestamp) -> Self {
        let later = |from: Timestamp, seconds| from.plus_seconds(seconds).unwrap_or(Timestamp::MAX);
        let takeover_at = later(now, TAKEOVER_SECONDS);
        let (pass, progress, look_at) = match (progress, self.pass) {
            (Some(progress), pass) => (pass, progress, Some(takeover_at)),
            (None, Pass::First) => (Pass::Second, Progress::START, Some(takeover_at)),
            (None, Pass::Second) => (Pass::Last, Progress::Waiting, Some(later(self.at, LAST_PASS_SECONDS))),
            (None, Pass::Last) => (Pass::Last, Progress::Done, None),
        };
        let version = self.version.saturating_add(1);
        Self { pass, progress, look_at, version, ..self.clone() }
    }

    /// Whether this abandonment cancels the delivery, whose row was read.
    fn covers(&self, found: &FoundDelivery) -> bool {
        found.row.as_ref().is_some_and(|delivery| {
            delivery.status == DeliveryStatus::Pending
                && delivery.endpoint == Some(self.endpoint)
                && delivery.generation < self.generation
        })
    }

    /// Whether an index entry is of a delivery to the endpoint, so that this abandonment may cover the
    /// delivery.
    fn may_cover(&self, entry: &FoundDelivery) -> bool {
        entry.kind.endpoint == Some(self.endpoint)
    }
}

fn partition(scope: &Scope) -> String {
    format!("abandonments#{scope}")
}

impl Row for Abandonment {
    fn key(&self) -> Key {
        match self.cause {
            Cause::Deleted => Self::tombstone_key(&self.scope, self.endpoint),
            // An endpoint may be deactivated several times, each time under another generation.
            Cause::Deactivated => {
                Key { pk: partition(&self.scope), sk: format!("{}#{:010}", self.endpoint, self.generation) }
            }
        }
    }

    fn indexes(&self) -> Indexes {
        Indexes { due: self.look_at, ..Indexes::default() }
    }

    /// The row expires after all deliveries that were created before the abandonment.
    fn removable_at(&self) -> Option<Timestamp> {
        self.at.plus_seconds(EVENTS_KEPT_SECONDS.saturating_add(KEPT_AFTER_SHOWN_SECONDS)).ok()
    }
}

impl Delivery {
    /// Returns the delivery as `CANCELLED`, with the results of its attempts. `at`: when it was abandoned, if
    /// known.
    fn cancelled(self, cause: Cause, at: Option<Timestamp>) -> Self {
        Self {
            status: DeliveryStatus::Cancelled,
            abandoned_because: Some(cause),
            updated_at: at.map_or(self.updated_at, |at| at.max(self.updated_at)),
            ..self
        }
    }
}

/// Returns `lastError` of a cancelled delivery: why it was cancelled, and why its last attempt failed, if it
/// had one.
pub(super) fn cancelled_error(reason: &str, of_attempt: Option<&str>) -> String {
    match of_attempt {
        Some(error) => format!("{reason}; the last attempt: {error}"),
        None => reason.to_owned(),
    }
}

/// The pending deliveries that one read found.
struct PendingBatch {
    /// The deliveries to cancel. The transaction that cancels a delivery checks whether it is covered.
    found: Vec<FoundDelivery>,
    /// The sort key of the last entry or row that was read; `None`: there are no more.
    ended_at: Option<String>,
}

impl Deliveries {
    /// Reads the endpoint of a delivery and returns why the delivery is abandoned; `None`: it is not.
    pub async fn abandonment_cause(&self, delivery: &Delivery) -> Result<Option<Cause>, StoreError> {
        let Some(endpoint) = delivery.endpoint else { return Ok(None) };
        let key = Endpoint::key_of(&delivery.scope, endpoint);
        let endpoint = self.store.get_in_order::<Endpoint>(&[key]).await?.pop();
        Ok(Cause::of(delivery, endpoint.as_ref()))
    }

    /// Returns a delivery as the API shows it, with its body. An abandoned delivery whose row is still
    /// `PENDING` is returned as `CANCELLED`. Reads event, endpoint and tombstone in one request.
    pub(super) async fn with_effective_status(
        &self,
        delivery: Delivery,
    ) -> Result<(Delivery, Option<String>), StoreError> {
        let scope = delivery.scope;
        let mut keys = vec![delivery.event_key()];
        let pending_endpoint = delivery.endpoint.filter(|_| delivery.status == DeliveryStatus::Pending);
        if let Some(endpoint) = pending_endpoint {
            keys.extend([Endpoint::key_of(&scope, endpoint), Abandonment::tombstone_key(&scope, endpoint)]);
        }
        // If the endpoint's row is not found, the endpoint was deleted.
        let (mut body, mut cause, mut at) = (None, pending_endpoint.map(|_| Cause::Deleted), None);
        for item in self.store.batch_get(&keys).await? {
            let key = key_of_item(&item);
            // A row that can't be read must not hide the delivery.
            let unreadable =
                |error| tracing::error!(%error, "can't read the event, endpoint or tombstone of a delivery");
            if key.as_ref().is_some_and(Endpoint::is_at) {
                let endpoint = from_item::<Endpoint>(item).map_err(unreadable).ok();
                cause = endpoint.as_ref().and_then(|endpoint| Cause::of(&delivery, Some(endpoint)));
                at = endpoint.and_then(|endpoint| endpoint.abandoned).map(|abandoned| abandoned.at);
            } else if key.as_ref().is_some_and(Abandonment::is_at) {
                at = from_item::<Abandonment>(item).map_err(unreadable).ok().map(|tombstone| tombstone.at);
            } else {
                let event = from_item::<Event>(item).map_err(unreadable).ok();
                body = event.and_then(|event| event.body_as(delivery.event_type));
            }
        }
        Ok(match cause {
            Some(cause) => (delivery.cancelled(cause, at), body),
            None => (delivery, body),
        })
    }

    /// Runs the next step of an abandonment, unless another run changed the row since it was read as `seen`.
    pub async fn run_abandonment_step(&self, seen: &Abandonment, now: Timestamp) -> Result<(), StoreError> {
        let found = self.store.get_in_order::<Abandonment>(&[seen.key()]).await?.pop();
        let Some(current) = found.filter(|found| found.version == seen.version) else { return Ok(()) };
        let mut progress = match &current.progress {
            Progress::Done => return Ok(()),
            Progress::Waiting => Some(Progress::START),
            running @ (Progress::Listed { .. } | Progress::Unlisted { .. }) => Some(running.clone()),
        };
        let mut room = STEP_SIZE;
        for _read in 0..READS_PER_STEP {
            let Some(at) = progress.as_ref().filter(|_| room > 0) else { break };
            let pending = match at {
                Progress::Listed { after } => self.pending_listed(&current, after.as_deref(), room).await?,
                Progress::Unlisted { after } => {
                    self.pending_unlisted(&current, after.as_deref(), room).await?
                }
                Progress::Waiting | Progress::Done => break,
            };
            let found = pending.found.len();
            room = room.saturating_sub(found);
            let (cancelled, failure) = self.cancel_all(pending.found, &current).await;
            match failure {
                None => progress = at.advanced(pending.ended_at),
                // The progress does not advance, so the next step reads the remaining deliveries again.
                Some(error) if cancelled > 0 => {
                    tracing::warn!(%error, found, cancelled, "some deliveries were not cancelled; the next step retries");
                    break;
                }
                Some(error) => return Err(error),
            }
        }
        if progress.is_none() {
            // The pass is over. The cancelled deliveries leave the status list when they are counted.
            self.schedule_counting(&current.scope, now).await?;
        }
        let next = current.after_step(progress, now);
        match self.store.commit(vec![Write::replace(&next, current.version)?]).await? {
            // A conflict: the same step ran concurrently and has written its progress.
            CommitOutcome::Done | CommitOutcome::Conflict { .. } => Ok(()),
        }
    }

    /// Reads `PENDING` entries of the status list, oldest first, and returns those that may be covered.
    async fn pending_listed(
        &self,
        by: &Abandonment,
        after: Option<&str>,
        most: usize,
    ) -> Result<PendingBatch, StoreError> {
        let list = Delivery::partition(&by.scope);
        let (from, to) = bounds(Some(DeliveryStatus::Pending), DeliveryId::first_at(Timestamp::MIN));
        let from = after.map_or(from, next_sort_key);
        let entries = self.store.list(ListIndex::All, &list, (&from, &to), Order::OldestFirst, most).await?;
        let is_last = entries.len() < most;
        let ended_at = entries.last().filter(|_| !is_last).map(|entry| entry.sort.clone());
        let found = entries.into_iter().filter_map(FoundDelivery::of_list_entry);
        let found = found.filter(|found| by.may_cover(found)).collect();
        Ok(PendingBatch { found, ended_at })
    }

    /// Reads pending, unlisted deliveries, oldest first, and returns the covered ones. The read begins after
    /// the checkpoint, which never passes a pending, unlisted delivery.
    async fn pending_unlisted(
        &self,
        by: &Abandonment,
        after: Option<&str>,
        most: usize,
    ) -> Result<PendingBatch, StoreError> {
        let from = if let Some(after) = after {
            after.parse().ok().map(DeliveryId::next)
        } else {
            let counts = self.store.get_in_order::<Counts>(&[counts::key_of(&by.scope)]).await?.pop();
            counts.and_then(|counts| counts.checkpoint).map(DeliveryId::next)
        };
        let range = (from.unwrap_or(log::after(None).0), DeliveryId::last_at(Timestamp::MAX));
        let scope = self.sharded(&by.scope).await?;
        let LogPage { mut found, read_to } = self.log(&scope, range, Order::OldestFirst, most).await?;
        found.retain(|found| by.may_cover(found));
        let mut found = self.with_rows(&by.scope, found, None).await?;
        found.retain(|found| by.covers(found) && found.row.as_ref().is_some_and(|row| !row.listed));
        Ok(PendingBatch { found, ended_at: read_to.map(|id| id.to_string()) })
    }

    /// Cancels deliveries in transactions, some of them concurrently. Returns how many deliveries were
    /// processed without a failure, and the last failure.
    async fn cancel_all(&self, found: Vec<FoundDelivery>, by: &Abandonment) -> (usize, Option<StoreError>) {
        let (mut done, mut failure): (usize, Option<StoreError>) = (0, None);
        let mut record = |ended: Result<Result<usize, StoreError>, JoinError>| match ended {
            Ok(Ok(cancelled)) => done = done.saturating_add(cancelled),
            Ok(Err(error)) => failure = Some(error),
            Err(error) => failure = Some(StoreError::Unavailable(error.to_string())),
        };
        let mut transactions = JoinSet::new();
        for some in found.chunks(CANCELLED_PER_TRANSACTION) {
            if transactions.len() >= CONCURRENT_TRANSACTIONS
                && let Some(ended) = transactions.join_next().await
            {
                record(ended);
            }
            let (store, some, by) = (self.clone(), some.to_vec(), by.clone());
            transactions.spawn(async move { store.cancel(some, &by).await });
        }
        while let Some(ended) = transactions.join_next().await {
            record(ended);
        }
        (done, failure)
    }

    /// Cancels deliveries in one transaction. Skips those whose condition fails: an attempt runs or has
    /// ended, or they were created after the abandonment. Returns the number of deliveries, including the
    /// skipped ones.
    async fn cancel(&self, mut found: Vec<FoundDelivery>, by: &Abandonment) -> Result<usize, StoreError> {
        let count = found.len();
        // Each failed transaction returns at least one delivery to skip, so the loop ends.
        while !found.is_empty() {
            let writes = found.iter().map(|found| cancellation(found, by)).collect();
            match self.store.commit(writes).await? {
                CommitOutcome::Done => break,
                CommitOutcome::Conflict { at } => remove_at(&mut found, &at),
            }
        }
        Ok(count)
    }
}

/// Returns the update that cancels a delivery. Its condition checks that the delivery is abandoned, so the
/// row need not be read first. The update also puts the delivery into the status list, like every delivery
/// that ends undelivered, so that it is counted there.
fn cancellation(found: &FoundDelivery, by: &Abandonment) -> Write {
    let cancelled = found.list_key_in(DeliveryStatus::Cancelled);
    let values = [
        (":pending".to_owned(), status_value(DeliveryStatus::Pending)),
        (":endpoint".to_owned(), AttributeValue::S(by.endpoint.to_string())),
        (":generation".to_owned(), AttributeValue::N(by.generation.to_string())),
        (":status".to_owned(), status_value(DeliveryStatus::Cancelled)),
        (":updated".to_owned(), millis(by.at)),
        (":cause".to_owned(), AttributeValue::S(<&str>::from(by.cause).to_owned())),
    ];
    let values: Item = values.into_iter().chain(in_list(&by.scope, &cancelled)).collect();
    let is_covered = "#status = :pending AND endpoint = :endpoint AND (attribute_not_exists(generation) OR generation < :generation)";
    let set = "SET #status = :status, updated_at = :updated, abandoned_because = :cause";
    let update = Update::builder()
        .set_key(Some(key_attributes(&found.key)))
        .condition_expression(is_covered)
        .update_expression(format!("{set}, {LISTED} REMOVE due_pk, due_sk"))
        .expression_attribute_names("#status", "status")
        .set_expression_attribute_values(Some(values));
    Write::update(update)
}

/// Returns the first sort key after this one: '!' sorts before every character that may follow it in a longer
/// key.
fn next_sort_key(after: &str) -> String {
    format!("{after}!")
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::super::testing::delivery;
    use super::*;
    use crate::charge::testing::at;
    use crate::store::to_item;
    use crate::webhook::endpoint::testing::endpoint;

    #[test]
    fn an_abandonment_has_three_passes_and_the_last_begins_after_running_attempts_have_ended() {
        let mut row = Abandonment::by_deletion(&endpoint(), at(0));
        assert_eq!((row.generation, row.look_at), (1, Some(at(60))));
        let sort_key = |text: &str| Some(text.to_owned());
        let mut step = |progress: Option<Progress>, now| {
            row = row.after_step(progress, now);
            (row.pass, row.is_running(), row.look_at)
        };
        let listed = Progress::START.advanced(sort_key("PENDING#wd_1"));
        assert_eq!(step(listed.clone(), at(1)), (Pass::First, true, Some(at(61))));
        let unlisted = listed.and_then(|listed| listed.advanced(None));
        assert_eq!(unlisted, Some(Progress::Unlisted { after: None }));
        let unlisted = unlisted.and_then(|unlisted| unlisted.advanced(sort_key("wd_1")));
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
        let waiting = delivery(&[endpoint()], at(0));
        let attempted =
            Delivery { last_error: Some("answered 502".to_owned()), attempts: 1, ..waiting.clone() };
        let error = |delivery: Delivery| delivery.error().map(Cow::into_owned);
        let error_for_cause =
            |delivery: &Delivery, cause| error(delivery.clone().cancelled(cause, None)).unwrap();
        assert_eq!(error(waiting.clone()), None);
        assert_eq!(error_for_cause(&waiting, Cause::Deactivated), "the endpoint was set to INACTIVE");
        assert_eq!(
            error_for_cause(&attempted, Cause::Deleted),
            "the endpoint was deleted; the last attempt: answered 502"
        );
    }

    #[test]
    fn an_abandonment_covers_the_earlier_pending_deliveries_to_its_endpoint() {
        let row = Abandonment::by_deletion(&endpoint(), at(0));
        let covers = |delivery: Delivery| row.covers(&FoundDelivery::of_row(delivery));
        let pending = delivery(&[endpoint()], at(0));
        assert!(covers(pending.clone()));
        assert!(!covers(Delivery { generation: 1, ..pending.clone() }), "created after it");
        assert!(!covers(Delivery { status: DeliveryStatus::Failed, ..pending.clone() }));
        assert!(!covers(Delivery { endpoint: None, ..pending.clone() }));

        let may_cover = |delivery: Delivery| row.may_cover(&FoundDelivery::of_row(delivery));
        assert!(may_cover(pending.clone()) && !may_cover(Delivery { endpoint: None, ..pending }));
        let shown_s = EVENTS_KEPT_SECONDS + KEPT_AFTER_SHOWN_SECONDS;
        assert_eq!(row.removable_at(), Some(at(shown_s)), "after the last delivery that it covers");
        let next = next_sort_key("wd_1");
        assert!(next.as_str() > "wd_1" && next.as_str() < "wd_1#evt_1");
    }
}
