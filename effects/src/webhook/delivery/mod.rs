//! A delivery sends one event, under one of its event types, to one endpoint or to the `webhookUrl` of the
//! payment (`docs/guide/webhooks.md`).
//!
//! # Claims
//!
//! A worker claims a delivery with a conditional update, which sets a lease. Then the worker posts the event
//! and writes the outcome with a second conditional update, which fails if another worker has claimed the
//! delivery meanwhile. So a duplicate queue message has no effect.
//!
//! # Why no delivery is lost
//!
//! The first attempt is started by the queue alone, because an entry in the due index would cost a write unit
//! when the row is created and another one when it is done:
//!
//! 1. The dispatcher sends the message for each inserted row. The stream repeats the record until it is sent.
//! 2. The queue keeps the message until a worker has ended the attempt. A message that finds the lease of
//!    another claim is not acknowledged. It becomes visible again when the lease ends, so it replaces the
//!    other worker if that one died.
//! 3. Every delivery that waits for a retry is in the due index, at the time of the retry. If the message of
//!    the retry is lost, the scheduler sends another one.
//! 4. The scheduler finds deliveries that are three and a half minutes old, not delivered and not in the due
//!    index. It puts them into the list of open ones and into the due index, so the scheduler sends another message.
//!    [`crate::notes`] names the scopes where it searches.
//!
//! So a delivery that is not done is in the due index if and only if it is listed.
//!
//! # Where a delivery is listed and counted
//!
//! Nearly all deliveries succeed at their first attempt, a moment after their event, and never change again. So the
//! claim and the outcome of such an attempt are its only writes. Each row has a partition of its own, so the writes of
//! an account's deliveries share no partition.
//!
//! - The index `log` has an entry for each delivery, sorted by id and therefore by time (`log`).
//! - The sparse index `list` has an entry for each delivery whose first attempt failed or takes too long: by status,
//!   until it is delivered or its row expires. See [`Delivery::listed`].
//! - The rows of sums have the numbers of all, of `FAILED` and of `CANCELLED` deliveries by day, receiver and event
//!   type, up to a checkpoint (`counts`). Readers add the entries of the log after it.
//!
//! The open ones are counted by their entries in `list`; all others are `DELIVERED` (`page`).

mod abandonment;
mod attempt;
mod attempt_log;
mod counts;
mod entry;
mod list;
mod log;
mod page;
mod rows;
mod view;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

pub use abandonment::{Abandonment, Cause, deletions};
pub use attempt::{AttemptOutcome, Claim, DeliveryContext, FailedAttempt, SignedContext};
pub use attempt_log::{AttemptListView, AttemptStatus, AttemptView, LoggedAttempt};
pub use counts::scope_of as counted_scope;
use counts::{ALL, additions};
pub use list::{DELIVERIES_QUERY, DeliveryFilter, WaitingDeliveries};
pub use page::{DayFigures, DeliveryPage, RecentDeliveries, RecentFilter};
pub use view::{DELIVERY_QUERY, DeliveryListView, DeliveryStats, DeliveryView, Include};

use domain::ids::{DeliveryId, EndpointId, EventId, ResendId, Scope};
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::row::{Indexes, Key, Row};
use domain::shard::Shard;
use domain::time::Timestamp;
use domain::webhook::event_type::{EventType, Family};
use domain::webhook::failure::AttemptFailure;
use domain::webhook::schedule::MAX_ATTEMPTS;

use super::endpoint::Endpoint;
use super::event::Event;
use shared::checkpoint::LATE_MS;
use shared::store::{CommitOutcome, Inserted, Store, StoreError, Write};

/// The lease of a worker's claim, in seconds: twice the 30 s limit of an attempt.
pub const LEASE_SECONDS: i64 = 60;

/// When the scheduler first checks a delivery that is listed from the start, in seconds after its row was
/// created. If the delivery is not done by then, its queue message may be lost.
const FIRST_DUE_SECONDS: i64 = 120;

/// When the scheduler checks a delivery again, in seconds after it sent a queue message for the delivery.
pub const NEXT_LOOK_SECONDS: i64 = 120;

/// How long a delivery's row is kept after lists no longer show it, in seconds: 2 days. So DynamoDB removes
/// no row that readers still count.
const KEPT_AFTER_SHOWN_SECONDS: i64 = 2 * 24 * 60 * 60;

/// The status of a delivery.
#[derive(
    Clone,
    Copy,
    Debug,
    Eq,
    Ord,
    PartialEq,
    PartialOrd,
    Deserialize,
    IntoStaticStr,
    JsonSchema,
    Serialize,
    VariantArray,
)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE")]
#[schemars(rename = "WebhookDeliveryStatus", description = "The status of a delivery.")]
pub enum DeliveryStatus {
    /// Waiting for its first or next attempt.
    Pending,
    /// A worker has claimed the delivery for an attempt.
    Processing,
    /// The receiver answered 2xx.
    Delivered,
    /// The last attempt failed, or the event or endpoint can't be read. There is no next attempt.
    Failed,
    /// The endpoint was deleted or set to `INACTIVE` before the delivery succeeded, or the event has expired.
    Cancelled,
}

domain::named!(DeliveryStatus);

#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Delivery {
    /// Derived from the event, its name, the endpoint and the resend request. So a replayed change creates no
    /// second delivery. Begins with the time of the event or resend request, by which the log is therefore
    /// sorted.
    pub id: DeliveryId,
    pub scope: Scope,
    pub event: EventId,
    /// The shard of the event's row.
    #[serde(default, skip_serializing_if = "Shard::is_first")]
    pub shard: Shard,
    /// The event's name in this delivery. The row of legacy events has several names.
    pub event_type: EventType,
    /// The endpoint that receives the event; `None`: the transaction's `webhookUrl` receives it. That URL is
    /// in the event's row.
    pub endpoint: Option<EndpointId>,
    /// The endpoint's [`Endpoint::generation`] when the delivery was created. If it is lower than the
    /// endpoint's present generation, the delivery is abandoned.
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub generation: u64,
    /// The status. May stay `PENDING` for seconds or minutes after the delivery was abandoned.
    pub status: DeliveryStatus,
    /// The number of attempts so far. Each claim counts as an attempt, unless the worker only cancels the
    /// delivery.
    pub attempts: u32,
    /// After this many failed attempts, the delivery is `FAILED`.
    pub max_attempts: u32,
    /// When the next attempt may begin.
    #[serde(with = "domain::time::millis")]
    pub next_attempt_at: Timestamp,
    /// When the lease of the worker's claim ends; `None`: the delivery is not claimed.
    #[serde(default, with = "domain::time::millis_option")]
    pub leased_until: Option<Timestamp>,
    /// The random name of the last claim. It shows a worker that its claim succeeded although DynamoDB's
    /// response was lost.
    pub claim: Option<String>,
    pub last_status_code: Option<u16>,
    /// Why the last attempt failed.
    pub last_error: Option<AttemptFailure>,
    /// Why the delivery was cancelled.
    pub cancelled_because: Option<Cause>,
    /// The beginning of the body of the last failed response.
    pub last_response_body: Option<String>,
    /// The attempts so far, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempt_log: Vec<LoggedAttempt>,
    /// When the receiver answered 2xx.
    #[serde(default, with = "domain::time::millis_option")]
    pub delivered_at: Option<Timestamp>,
    /// Whether the delivery was ever in `list`: its first attempt failed or took too long, it was
    /// cancelled, or it was created late or by a resend. Until it is done, it is also in the due index.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub listed: bool,
    /// Whether the delivery's insert counts it, because the checkpoint may have passed its id: it was created late or
    /// by a resend.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
    /// When the row was created, some moments after the event.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// When it last changed.
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
}

impl Delivery {
    /// Returns the deliveries of a new event: one for each of its names and each endpoint that is subscribed
    /// to the name. If the event has a `webhookUrl`, only that URL receives the event.
    pub fn for_event(event: &Event, endpoints: &[Endpoint], now: Timestamp) -> Vec<Self> {
        let is_late = now.millis_since(event.created_at) >= LATE_MS;
        let to_recipient = |(name, endpoint): (EventType, Option<&Endpoint>)| {
            let id = DeliveryId::derive(&event.id_as(name), endpoint.map(|endpoint| endpoint.id));
            let new = Self::new(id, event, name, endpoint, (event.created_at, now));
            Self { listed: is_late, counted: is_late, ..new }
        };
        event.recipients(endpoints).map(to_recipient).collect()
    }

    /// Returns the deliveries that a resend request creates for an event, to the endpoints that are
    /// subscribed now.
    pub fn for_resend(event: &Event, endpoints: &[Endpoint], resend: &ResendId, now: Timestamp) -> Vec<Self> {
        let recipients = event.recipients(endpoints);
        recipients.map(|(name, endpoint)| Self::resend_to(event, name, endpoint, resend, now)).collect()
    }

    /// Returns one delivery that a resend request or a test creates.
    pub fn resend_to(
        event: &Event,
        event_type: EventType,
        endpoint: Option<&Endpoint>,
        resend: &ResendId,
        now: Timestamp,
    ) -> Self {
        let endpoint_id = endpoint.map(|endpoint| endpoint.id);
        let id = DeliveryId::for_resend(&event.id_as(event_type), endpoint_id, resend);
        // As a late one, because its id has the time of the requester's clock. An operator's machine
        // may have a clock that is behind the checkpoint.
        Self { listed: true, counted: true, ..Self::new(id, event, event_type, endpoint, (now, now)) }
    }

    fn new(
        id: DeliveryId,
        event: &Event,
        event_type: EventType,
        endpoint: Option<&Endpoint>,
        (next_attempt_at, now): (Timestamp, Timestamp),
    ) -> Self {
        Self {
            id,
            scope: event.scope,
            event: event.id,
            shard: event.shard,
            event_type,
            endpoint: endpoint.map(|endpoint| endpoint.id),
            generation: endpoint.map_or(0, Endpoint::generation),
            status: DeliveryStatus::Pending,
            attempts: 0,
            max_attempts: MAX_ATTEMPTS,
            next_attempt_at,
            leased_until: None,
            claim: None,
            last_status_code: None,
            last_error: None,
            cancelled_because: None,
            last_response_body: None,
            attempt_log: Vec::new(),
            delivered_at: None,
            listed: false,
            counted: false,
            created_at: now,
            updated_at: now,
        }
    }

    pub(in crate::webhook) fn insertion(&self) -> Result<Vec<Write>, StoreError> {
        let mut writes = vec![Write::insert(self)?];
        if self.counted {
            writes.extend(additions(&self.scope, ALL, std::iter::once(&self.entry())));
        }
        Ok(writes)
    }

    pub fn event_id(&self) -> EventId {
        self.event.with_code(self.event_type.code())
    }

    /// Returns the headers of each attempt, except signatures and times. Only canonical events have the headers of
    /// Standard Webhooks, because the id of a legacy event is not in its body.
    pub fn headers(&self) -> [(&'static str, String); 5] {
        let event_id = match self.event_type.family() {
            Family::Canonical => "webhook-id",
            Family::Legacy => "x-service-event-id",
        };
        [
            ("content-type", "application/json".to_owned()),
            ("x-service-delivery-id", self.id.to_string()),
            ("x-service-event-type", self.event_type.as_str().to_owned()),
            ("x-service-mode", self.scope.mode.to_string()),
            (event_id, self.event_id().to_string()),
        ]
    }

    pub fn event_key(&self) -> Key {
        Event::key_of(&self.scope, self.shard, self.event)
    }

    /// Returns the key of a delivery's row, which has a partition of its own. It does not depend on the shard,
    /// so that the number of shards never decides whether a delivery exists already.
    pub fn key_of(scope: &Scope, id: DeliveryId) -> Key {
        Key { pk: format!("delivery#{scope}#{id}"), sk: id.to_string() }
    }

    /// Returns the keys of the deliveries that an event may have: those of resends, and the first one to each
    /// receiver that it may have had. `deletions`: of endpoints.
    pub fn keys_of_event(event: &Event, endpoints: &[Endpoint], deletions: &[Abandonment]) -> Vec<Key> {
        let mut ids = event.resent.clone();
        for name in event.types() {
            let first_to = |endpoint| DeliveryId::derive(&event.id_as(name), endpoint);
            if event.webhook_url.is_some() && name.family() == Family::Legacy {
                ids.push(first_to(None));
                continue;
            }
            // An endpoint that has not changed since the event got it only if it is subscribed.
            let may_have =
                |endpoint: &&Endpoint| endpoint.updated_at >= event.created_at || endpoint.receives(name);
            ids.extend(endpoints.iter().filter(may_have).map(|endpoint| first_to(Some(endpoint.id))));
            let deleted = deletions.iter().filter(|deletion| deletion.at >= event.created_at);
            ids.extend(deleted.map(|deletion| first_to(Some(deletion.endpoint))));
        }
        ids.into_iter().map(|id| Self::key_of(&event.scope, id)).collect()
    }

    /// Returns the partition key of the counts of a scope's deliveries, and of those in the index `list`.
    pub(super) fn partition(scope: &Scope) -> String {
        format!("deliveries#{scope}")
    }

    /// Returns the partition key in the index `log` of the deliveries of a scope whose events are in this shard.
    pub fn log_partition(scope: &Scope, shard: Shard) -> String {
        shard.partition(Self::partition(scope))
    }

    /// Returns the `createdAt` that the API shows: the time of the event, or of the resend request. Lists are
    /// sorted, filtered and counted by it. The row is created some moments later.
    pub fn dated_at(&self) -> Timestamp {
        self.id.timestamp().unwrap_or(self.created_at)
    }

    pub fn is_delivered(&self) -> bool {
        self.status == DeliveryStatus::Delivered
    }

    /// Whether no attempt follows.
    pub fn is_done(&self) -> bool {
        match self.status {
            DeliveryStatus::Pending | DeliveryStatus::Processing => false,
            DeliveryStatus::Delivered | DeliveryStatus::Failed | DeliveryStatus::Cancelled => true,
        }
    }

    /// Returns the `lastError` that the API shows: why the delivery was cancelled, if it was, and why its last attempt
    /// failed, if it did.
    pub fn error(&self) -> Option<String> {
        match (self.cancelled_because, &self.last_error) {
            (Some(cause), Some(failure)) => Some(format!("{cause}; the last attempt: {failure}")),
            (cause, failure) => {
                cause.map(|cause| cause.to_string()).or_else(|| failure.as_ref().map(ToString::to_string))
            }
        }
    }

    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("delivery#")
    }
}

impl Row for Delivery {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, self.id)
    }

    fn indexes(&self) -> Indexes {
        Indexes {
            list: (self.listed && !self.is_delivered())
                .then(|| (Self::partition(&self.scope), self.entry().list_sort(self.status))),
            log: Some((Self::log_partition(&self.scope, self.shard), self.entry().log_sort())),
            due: self.created_at.plus_seconds(FIRST_DUE_SECONDS).ok().filter(|_| self.listed),
            ..Indexes::default()
        }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.created_at.plus_seconds(EVENTS_KEPT_SECONDS.saturating_add(KEPT_AFTER_SHOWN_SECONDS)).ok()
    }
}

#[derive(Clone, Debug)]
pub struct Deliveries {
    store: Store,
    rows_a_query: Option<usize>,
}

impl Deliveries {
    pub fn new(store: Store) -> Self {
        Self { store, rows_a_query: None }
    }

    /// Limits each query to this many rows, so that tests need several queries for some dozens of rows.
    #[must_use]
    pub fn with_rows_a_query(self, rows: usize) -> Self {
        Self { rows_a_query: Some(rows), ..self }
    }

    /// Returns how many rows to read in one request: `most`, or fewer in tests.
    fn at_once(&self, most: usize) -> usize {
        self.rows_a_query.map_or(most, |rows| rows.min(most))
    }

    /// Inserts a delivery, unless it exists. Returns the stored one.
    pub async fn insert(&self, delivery: Delivery) -> Result<Delivery, StoreError> {
        if delivery.counted && matches!(self.store.commit(delivery.insertion()?).await?, CommitOutcome::Done)
        {
            return Ok(delivery);
        }
        // A late one may exist from an attempt that was not late. Then it is unlisted and waits for a message.
        match self.store.insert(&delivery).await? {
            Inserted::New => Ok(delivery),
            Inserted::Existing(stored) => Ok(stored),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use serde_json::json;

    use super::*;
    use crate::charge_testing::at;
    use crate::webhook::endpoint::testing::endpoint;
    use crate::webhook::event::Origin;

    /// An event of a paid charge at second 0.
    pub(crate) fn event() -> Event {
        let origin = Origin::new(endpoint().scope, "charge#1".to_owned(), at(0));
        Event::of_one(EventType::ChargePaid, &origin, &json!({})).unwrap()
    }

    /// The delivery of [`event`] that is created at `now` for the first of these endpoints.
    pub(crate) fn delivery(endpoints: &[Endpoint], now: Timestamp) -> Delivery {
        Delivery::for_event(&event(), endpoints, now).remove(0)
    }
}

#[cfg(test)]
mod tests {

    use super::testing::delivery;
    use super::*;
    use crate::charge_testing::at;
    use shared::store::{from_item, to_item};

    use crate::webhook::endpoint::testing::endpoint;

    #[test]
    fn a_row_is_read_as_it_was_written_and_recognised_by_its_key() {
        let new = delivery(&[endpoint()], at(0));
        for delivery in [new.clone(), Delivery { generation: 3, ..new.clone() }] {
            let item = to_item(&delivery).unwrap();
            assert_eq!(item.contains_key("generation"), delivery.generation == 3);
            assert!(Delivery::is_at(&delivery.key()));
            assert_eq!(from_item::<Delivery>(item).unwrap(), delivery);
        }
        assert!(!Delivery::is_at(&Key { pk: "charge#1".to_owned(), ..new.key() }));
        assert_eq!(new.removable_at(), Some(at(EVENTS_KEPT_SECONDS + KEPT_AFTER_SHOWN_SECONDS)));
    }
}
