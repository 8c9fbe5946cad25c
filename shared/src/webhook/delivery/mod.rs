//! Deliveries: one event on its way to one endpoint, or to its transaction's own address (contract: Webhook delivery).
//!
//! A worker claims a delivery by a conditional update with a lease before it posts, and ends the attempt by one
//! that holds only while the lease is its own: a duplicated message does nothing twice, and a worker that dies
//! strands nothing, for a claimed row stays in the due-index until it is done.
//!
//! Nearly all deliveries are made at their first attempt, moments after their event. Those are counted without a write
//! of their own (see [`counts`]); every other one is listed by its status in an index, from when it is known to be another.

mod abandonment;
mod attempt;
mod counts;
mod found;
mod list;
mod place;
mod reader;
mod view;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use abandonment::cancelled_error;
pub use abandonment::{Abandonment, Cause};
pub use attempt::{AttemptOutcome, Claim, DeliveryContext, Recipient};
pub(super) use counts::first_shown;
pub use counts::scope_of as counted_scope;
pub use list::DeliveryFilter;
pub use reader::DeliveryPage;
pub use view::{DeliveryListView, DeliveryStats, DeliveryView};

use domain::ids::{DeliveryId, EndpointId, EventId, ResendId, Scope};
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::row::{Indexes, Key, Row};
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;
use domain::webhook::schedule::MAX_ATTEMPTS;

use super::endpoint::Endpoint;
use super::event::Event;
use crate::store::Store;

/// How long a worker's claim holds, in seconds: twice an attempt's 30.
pub const LEASE_SECONDS: i64 = 60;

/// When `scheduler` first looks at a new delivery, in seconds after its event: by then its queue message was lost.
const FIRST_LOOK_SECONDS: i64 = 120;

/// How long `scheduler` gives a message that it sent before it looks again, in seconds.
pub const NEXT_LOOK_SECONDS: i64 = 120;

/// A first delivery that is made so long after its event is listed by status, in milliseconds: the count of those that are not
/// may have passed its place by [`counts::PASSED_AFTER_MS`]. What `scheduler` ends is told of up to two minutes after it ended.
const LATE_MS: i64 = 150_000;

/// How long a delivery's row stays after it is no longer shown, in seconds: 2 days.
const SHOWN_NO_MORE_SECONDS: i64 = 2 * 24 * 60 * 60;

/// Where a delivery stands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE")]
pub enum DeliveryStatus {
    /// Waiting for its first or next attempt.
    Pending,
    /// An attempt runs.
    Processing,
    /// The endpoint answered 2xx.
    Delivered,
    /// Every attempt failed.
    Failed,
    /// Its endpoint was deleted or set to `INACTIVE` before it was delivered, or its event is no longer kept.
    Cancelled,
}

impl DeliveryStatus {
    fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A delivery's row.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Delivery {
    /// Named by event, endpoint and resend number, so that a replayed change makes no second one; begins with
    /// the event's time, so that the row's own key is the list's order.
    pub id: DeliveryId,
    /// Whose it is.
    pub scope: Scope,
    /// The row of what it tells.
    pub event: EventId,
    /// Under which of the event's names.
    pub event_type: EventType,
    /// Whom it tells; `None`: the transaction's own address, which its event has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointId>,
    /// How often the pending deliveries of its endpoint had been abandoned when it was made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u64,
    /// Of a transaction's own address: tells its server from others, so that one that hangs keeps none of theirs waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// Attempts begun.
    pub attempts: u32,
    /// Attempts that it gets.
    pub max_attempts: u32,
    /// When the next attempt may begin.
    #[serde(with = "domain::time::millis")]
    pub next_attempt_at: Timestamp,
    /// Until when a worker's claim holds.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub leased_until: Option<Timestamp>,
    /// Names the claim, so that a worker whose answer was lost knows its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The last answer's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status_code: Option<u16>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Why it was cancelled, where its endpoint's deliveries were abandoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandoned_because: Option<Cause>,
    /// The start of the last failed answer's body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_response_body: Option<String>,
    /// When the endpoint took it.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Timestamp>,
    /// Whether it is listed by its status, and counted there first: an attempt failed, it came late, or somebody asked for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub listed: bool,
    /// When it was made.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// When it last changed.
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
}

impl Delivery {
    /// The first deliveries of an event: each of its names to the endpoints that take it, or to the transaction's own
    /// address instead.
    pub fn of_event(event: &Event, endpoints: &[Endpoint], now: Timestamp) -> Vec<Self> {
        let first = |(name, endpoint)| {
            let id = DeliveryId::derive(&event.id_as(name), endpoint);
            let listed = now.millis_since(event.created_at) >= LATE_MS;
            let generation = generation_of(endpoint, endpoints);
            Self { generation, listed, ..Self::new(id, event, name, endpoint, (event.created_at, now)) }
        };
        event.recipients(endpoints).map(first).collect()
    }

    /// The same again, because somebody asked.
    pub fn of_resend(event: &Event, endpoints: &[Endpoint], resend: &ResendId, now: Timestamp) -> Vec<Self> {
        let again = |(name, endpoint)| Self {
            generation: generation_of(endpoint, endpoints),
            ..Self::again(event, name, endpoint, resend, now)
        };
        event.recipients(endpoints).map(again).collect()
    }

    /// One of them, as for an endpoint whose deliveries were never abandoned.
    pub fn again(
        event: &Event,
        event_type: EventType,
        endpoint: Option<EndpointId>,
        resend: &ResendId,
        now: Timestamp,
    ) -> Self {
        let id = DeliveryId::of_resend(&event.id_as(event_type), endpoint, resend);
        // Its id has the time of whoever asked, which may be an operator's machine.
        Self { listed: true, ..Self::new(id, event, event_type, endpoint, (now, now)) }
    }

    fn new(
        id: DeliveryId,
        event: &Event,
        event_type: EventType,
        endpoint: Option<EndpointId>,
        (next_attempt_at, now): (Timestamp, Timestamp),
    ) -> Self {
        Self {
            id,
            scope: event.scope,
            event: event.id,
            event_type,
            endpoint,
            generation: 0,
            server: if endpoint.is_none() { event.own_server() } else { None },
            status: DeliveryStatus::Pending,
            attempts: 0,
            max_attempts: MAX_ATTEMPTS,
            next_attempt_at,
            leased_until: None,
            claim: None,
            last_status_code: None,
            last_error: None,
            abandoned_because: None,
            last_response_body: None,
            delivered_at: None,
            listed: false,
            created_at: now,
            updated_at: now,
        }
    }

    /// Where a delivery lives: a scope's deliveries share a partition, in the order of their events.
    pub fn key_of(scope: &Scope, id: DeliveryId) -> Key {
        Key { pk: Self::partition(scope), sk: id.to_string() }
    }

    /// A scope's deliveries share a partition.
    pub(super) fn partition(scope: &Scope) -> String {
        format!("deliveries#{scope}")
    }

    /// Its `createdAt`: the time of the event, or of the request to send it again. Lists are in this order, and filter and count
    /// by it; the row follows some moments later.
    pub(super) fn dated_at(&self) -> Timestamp {
        self.id.timestamp().unwrap_or(self.created_at)
    }

    /// Whether the endpoint took it.
    pub fn is_delivered(&self) -> bool {
        self.status == DeliveryStatus::Delivered
    }

    /// Its `lastError`: why it was cancelled, if it was abandoned, and why the last attempt failed.
    fn error(&self) -> Option<Cow<'_, str>> {
        match (self.abandoned_because, self.last_error.as_deref()) {
            (Some(cause), of_attempt) => Some(cancelled_error(cause.reason(), of_attempt).into()),
            (None, of_attempt) => of_attempt.map(Cow::Borrowed),
        }
    }

    /// Whether the last attempt failed. One that was cancelled before any attempt has a reason, and no failure.
    fn has_failed(&self) -> bool {
        self.last_error.is_some() && self.attempts > 0
    }

    /// Where what failed or was cancelled is listed after it was counted.
    fn done_partition(scope: &Scope) -> String {
        format!("{}#done", Self::partition(scope))
    }

    /// Whether a row of the state table is a delivery.
    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("deliveries#") && key.sk.parse::<DeliveryId>().is_ok()
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(generation: &u64) -> bool {
    *generation == 0
}

/// The generation of one of the endpoints; `None`: the transaction's own address, which has none.
fn generation_of(id: Option<EndpointId>, endpoints: &[Endpoint]) -> u64 {
    let endpoint = endpoints.iter().find(|endpoint| Some(endpoint.id) == id);
    endpoint.map_or(0, Endpoint::generation)
}

impl Row for Delivery {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, self.id)
    }

    fn indexes(&self) -> Indexes {
        Indexes {
            list: self.listed.then(|| (Self::partition(&self.scope), self.place(self.status).to_string())),
            due: self.created_at.plus_seconds(FIRST_LOOK_SECONDS).ok(),
            ..Indexes::default()
        }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.created_at.plus_seconds(EVENTS_KEPT_SECONDS.saturating_add(SHOWN_NO_MORE_SECONDS)).ok()
    }
}

/// The deliveries of all scopes.
#[derive(Clone, Debug)]
pub struct Deliveries {
    store: Store,
    rows_a_query: Option<usize>,
}

impl Deliveries {
    /// Deliveries in a store.
    pub fn new(store: Store) -> Self {
        Self { store, rows_a_query: None }
    }

    /// Reads so few rows in a query, where DynamoDB ends one at 1 MB: a test sees with some dozens of rows what becomes of
    /// thousands.
    #[must_use]
    pub fn with_rows_a_query(self, rows: usize) -> Self {
        Self { rows_a_query: Some(rows), ..self }
    }

    /// The rows of one query: as many as are wanted, or as DynamoDB reads.
    fn rows_of_a_query(&self, wanted: Option<usize>) -> Option<i32> {
        let rows = match (wanted, self.rows_a_query) {
            (Some(wanted), Some(most)) => Some(wanted.min(most)),
            (wanted, most) => wanted.or(most),
        };
        rows.map(|rows| i32::try_from(rows.max(1)).unwrap_or(i32::MAX))
    }

    /// Rows that are read at once, at most so many.
    fn at_once(&self, most: usize) -> usize {
        self.rows_a_query.map_or(most, |rows| rows.min(most))
    }
}
