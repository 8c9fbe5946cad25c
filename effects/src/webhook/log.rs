//! The event log (`GET /v1/events`): lists the events of the last 30 days, delivered or not. A merchant reads
//! missed events from it after an outage.
//!
//! The events of each shard of a scope share a partition, sorted by the time of their changes. All events of
//! a change share one row, and each of them has its own id. The key of an event's row can be derived from the
//! event's id, and event ids sort in the order of the rows. So a page is a range of ids that begins after the
//! cursor, merged from all shards.
//!
//! The events of one object (`object=`) are read by their ids. The ids are derived from the object's rows,
//! which record each change of status.
//!
//! There is no index of events, because it would cost a write unit for each event. To find events of a rare
//! `type`, a page reads a bounded number of rows. So it may be shorter than `limit`, or empty, while
//! `has_more` is true.
//!
//! Events are sorted by the time of their changes. An event appears in the log some moments after its change,
//! or much later after an outage of the dispatcher. So a client that polls should start somewhat before the
//! last event that it has read.

use std::cmp::Reverse;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, DeliveryId, EventId, MedCaseId, PayoutId, Scope};
use domain::med::MedCase;
use domain::payout::Payout;
use domain::refund::Refund;
use domain::row::Key;
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use domain::webhook::event_type::{EventType, Family};

use super::body_schema::{any_legacy_data_schema, canonical_schema, legacy_name_schema};
use super::delivery::{Deliveries, Delivery};
use super::event::{Event, EventRef};
use super::{WebhookError, parse_or_log};
use shared::http::field::{CREATED_AFTER, CREATED_BEFORE, Count, Definitions, Field, LIMIT, Parsed, Word};
use shared::http::{Fields, ListView, Problem, Query};
use shared::store::{Order, PageError, PageRange, StoreError, from_item, key_of_item, text};

/// The age of the oldest listed event, in seconds: 30 days. Rows are kept for longer, because deliveries
/// refer to them.
pub(super) const LISTED_SECONDS: i64 = 30 * 24 * 60 * 60;

/// Rows that the first read of a page takes for each wanted event of one type. This is enough for a frequent type.
/// Only a rare type needs the second read.
const ROWS_PER_MATCH: usize = 8;

/// Rows that the second and last read takes: about 1 MB.
const MORE_ROWS: usize = 1_000;

shared::fields! {
    STARTING_AFTER: Parsed<EventId> = "starting_after",
        Parsed::id("must be an event id (evt_…)"),
        Optional, "evt_01kb5cpq4t0000000000000000",
        "The cursor: the `next_cursor` of the previous page, an event id.";
    TYPE: Word<EventType> = "type", Word { words: || EventType::ALL.to_vec() }, Optional, "charge.paid",
        "Only events of this type.";
    OBJECT: Parsed<ObjectId> = "object",
        Parsed::of(
            (29, 46), Some("^(ch_|tx_|med_|po_)?[0-9a-z-]+$"), ObjectId::parse,
            "must be the id of a charge (ch_…), payment, MED case (med_…) or payout (po_…)",
        ),
        Optional, "ch_fe5392dd-e865-8656-a544-24ef3d590c1b",
        "Only events of this charge, payment, MED case or payout. The events of a charge include those of its refunds and MED cases.";
}

const PAGE_SIZE: Field<Count> = Field {
    text: "The largest number of events on a page. With `type`, a page may be shorter or empty while `has_more` is true.",
    ..LIMIT
};

/// The query string of `GET /v1/events`.
pub const EVENTS_QUERY: Definitions =
    &[&TYPE, &OBJECT, &CREATED_AFTER, &CREATED_BEFORE, &PAGE_SIZE, &STARTING_AFTER];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ObjectId {
    /// A charge, with its refunds and MED cases.
    Charge(ChargeId),
    Case(MedCaseId),
    Payout(PayoutId),
}

impl ObjectId {
    fn parse(text: &str) -> Option<Self> {
        let charge = ChargeId::parse_any(text).map(Self::Charge).ok();
        let case = || text.parse().map(Self::Case).ok();
        charge.or_else(case).or_else(|| text.parse().map(Self::Payout).ok())
    }
}

#[derive(Clone, Debug)]
pub struct EventFilter {
    limit: usize,
    starting_after: Option<EventId>,
    event_type: Option<EventType>,
    object: Option<ObjectId>,
    created_after: Option<Timestamp>,
    created_before: Option<Timestamp>,
}

impl EventFilter {
    /// Parses a query string. The error lists every failing parameter, including unknown ones.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, EVENTS_QUERY);
        let filter = Self {
            limit: query.count(&mut fields, &PAGE_SIZE),
            starting_after: query.read(&mut fields, &STARTING_AFTER),
            object: query.read(&mut fields, &OBJECT),
            event_type: query.read(&mut fields, &TYPE),
            created_after: query.read(&mut fields, &CREATED_AFTER),
            created_before: query.read(&mut fields, &CREATED_BEFORE),
        };
        fields.finish(Some(filter))
    }

    fn admits(&self, event_type: EventType) -> bool {
        self.event_type.is_none_or(|wanted| wanted == event_type)
    }

    /// Returns the oldest and the newest id that may be on a page, both included, and the cursor. The cursor
    /// is `None` if the request has none, or if its cursor is newer than the range and so has no effect.
    fn range(&self, now: Timestamp) -> (EventId, EventId, Option<EventId>) {
        let oldest = now.plus_seconds(LISTED_SECONDS.saturating_neg()).unwrap_or(Timestamp::MIN);
        let from = EventId::first_at(self.created_after.unwrap_or(oldest).max(oldest));
        let to = EventId::last_at(self.created_before.unwrap_or(Timestamp::MAX));
        let cursor = self.starting_after.filter(|cursor| *cursor <= to);
        (from, cursor.unwrap_or(to), cursor)
    }
}

/// An event of a page: an event row with one of its event types.
#[derive(Clone, Debug)]
struct ListedEvent {
    id: EventId,
    row: Arc<Event>,
    event_type: EventType,
}

#[derive(Debug)]
struct EventPage {
    events: Vec<ListedEvent>,
    next_cursor: Option<EventId>,
}

shared::store::repository! {
    EventLog
}

impl EventLog {
    /// Returns a page of a scope's events, newest first.
    pub async fn list(
        &self,
        scope: &ShardedScope,
        filter: &EventFilter,
        now: Timestamp,
    ) -> Result<EventListView, WebhookError> {
        let EventPage { events, next_cursor } = match filter.object {
            Some(object) => self.page_of_object(&scope.scope, object, filter, now).await?,
            None => self.page_of_scope(scope, filter, now).await?,
        };
        Ok(ListView::new(events.iter().map(EventView::new).collect::<Result<_, _>>()?, next_cursor))
    }

    /// Returns one event, until it expires: 90 days after its change, or later if it was resent.
    pub async fn find(
        &self,
        scope: &ShardedScope,
        id: Option<EventId>,
        now: Timestamp,
    ) -> Result<EventView, WebhookError> {
        Ok(EventView::new(&self.listed(scope, id, now).await?)?)
    }

    /// Returns one event like [`Self::find`], with its deliveries, oldest first: in two round trips, the second for
    /// the rows of the deliveries.
    pub async fn find_with_deliveries(
        &self,
        scope: &ShardedScope,
        id: Option<EventId>,
        after: Option<DeliveryId>,
        now: Timestamp,
    ) -> Result<(EventView, Vec<Delivery>, Option<DeliveryId>), WebhookError> {
        let deliveries = Deliveries::new(self.store.clone());
        let id = id.ok_or(WebhookError::NoEvent)?;
        let first = async { Ok(deliveries.first_of(scope, id).await?) };
        let (listed, first) = tokio::try_join!(Box::pin(self.listed(scope, Some(id), now)), Box::pin(first))?;
        let ids = (&*first, &*listed.row.resent);
        let (mut found, next) = deliveries.with_rows(&scope.scope, ids, after).await?;
        found.retain(|delivery| delivery.event_id() == id);
        Ok((EventView::new(&listed)?, found, next))
    }

    async fn listed(
        &self,
        scope: &ShardedScope,
        id: Option<EventId>,
        now: Timestamp,
    ) -> Result<ListedEvent, WebhookError> {
        let id = id.ok_or(WebhookError::NoEvent)?;
        let of_shard = |shard| Event::key_of(&scope.scope, shard, id.row_id());
        let keys: Vec<Key> = scope.shards.shards().map(of_shard).collect();
        let rows = self.store.batch_get(&keys).await?.into_iter().filter_map(parse_or_log);
        let kept = rows.filter(|row: &Event| row.is_kept(now));
        kept.flat_map(events_of_row).find(|listed| listed.id == id).ok_or(WebhookError::NoEvent)
    }

    async fn page_of_scope(
        &self,
        scope: &ShardedScope,
        filter: &EventFilter,
        now: Timestamp,
    ) -> Result<EventPage, WebhookError> {
        let (from, to, cursor) = filter.range(now);
        let mut events = Vec::new();
        if from > to {
            return Ok(EventPage { events, next_cursor: None });
        }
        let mut cursor_is_known = cursor.is_none();
        let (partitions, range) = (scope.partitions(Event::partition), (from.to_string(), to.to_string()));
        // The cursor's row is read too, because it may store further events after the cursor; and one row more than
        // the page has, which shows that a next page exists.
        let rows = filter.limit.saturating_add(2);
        let rows = if filter.event_type.is_some() { rows.saturating_mul(ROWS_PER_MATCH) } else { rows };
        let mut after: Option<String> = None;
        for rows in [rows, MORE_ROWS] {
            let page = PageRange::newest_first((&range.0, &range.1), after.as_deref(), rows);
            let (items, has_more) = self.store.items_page(&partitions, page).await?;
            after = items.last().and_then(|item| text(item, "sk")).filter(|_| has_more);
            for item in items {
                // If the previous page ended before it was full, its cursor is the id of the last row that it
                // read.
                let id = text(&item, "sk").and_then(|id| id.parse().ok());
                cursor_is_known |= cursor == id;
                let Some(row) = parse_or_log(item).filter(|row: &Event| !row.is_sample) else { continue };
                for listed in events_of_row(row) {
                    cursor_is_known |= cursor == Some(listed.id);
                    let is_after = cursor.is_none_or(|cursor| listed.id < cursor);
                    if is_after && filter.admits(listed.event_type) {
                        events.push(listed);
                    }
                }
            }
            if after.is_none() || events.len() > filter.limit {
                break;
            }
        }
        if !cursor_is_known {
            return Err(PageError::UnknownCursor("an event of this account and mode").into());
        }
        let cut = events.len() > filter.limit;
        events.truncate(filter.limit);
        let next_cursor = if cut {
            events.last().map(|listed| listed.id)
        } else {
            after.and_then(|last| last.parse().ok())
        };
        Ok(EventPage { events, next_cursor })
    }

    async fn page_of_object(
        &self,
        scope: &Scope,
        object: ObjectId,
        filter: &EventFilter,
        now: Timestamp,
    ) -> Result<EventPage, WebhookError> {
        let refs = self.event_refs_of(scope, object).await?;
        let (from, to, cursor) = filter.range(now);
        let mut listed: Vec<(&EventRef, EventId, EventType)> = Vec::new();
        for row in &refs {
            listed.extend(row.types.iter().map(|name| (row, row.id.with_code(name.code()), *name)));
        }
        listed.sort_by_key(|(_, id, _)| Reverse(*id));
        if let Some(cursor) = cursor {
            let index = listed.iter().position(|(_, id, _)| *id == cursor);
            let index = index.ok_or(PageError::UnknownCursor("an event of this object"))?;
            listed.drain(..=index);
        }
        listed.retain(|(row, _, event_type)| (from..=to).contains(&row.id) && filter.admits(*event_type));
        let more = listed.len() > filter.limit;
        listed.truncate(filter.limit);
        let next_cursor = listed.last().filter(|_| more).map(|(_, id, _)| *id);
        let keys: Vec<Key> =
            listed.iter().map(|(row, _, _)| Event::key_of(scope, row.shard, row.id)).collect();
        let rows = self.store.batch_get(&keys).await?.into_iter().filter_map(parse_or_log);
        let rows: Vec<Arc<Event>> = rows.map(Arc::new).collect();
        let stored = |(row, id, event_type): (&EventRef, EventId, EventType)| {
            let row = rows.iter().find(|stored| stored.id == row.id)?;
            // The type is missing if outcome notices are off.
            row.object_as(event_type)?;
            Some(ListedEvent { id, row: Arc::clone(row), event_type })
        };
        Ok(EventPage { events: listed.into_iter().filter_map(stored).collect(), next_cursor })
    }

    /// Returns the events that an object has published so far; none if the object does not exist or is
    /// another scope's.
    async fn event_refs_of(&self, scope: &Scope, object: ObjectId) -> Result<Vec<EventRef>, StoreError> {
        let mut refs = Vec::new();
        match object {
            ObjectId::Charge(id) => {
                // The charge's refunds and cases are in its partition. The two ranges leave out other rows,
                // such as the evidence of its cases.
                let pk = Charge::key_of(id).pk;
                let all = usize::MAX;
                let (charge, refunds) = tokio::try_join!(
                    self.store.range(&pk, ("case#", "charge"), Order::OldestFirst, all),
                    self.store.range(&pk, ("refund#", "refund$"), Order::OldestFirst, all)
                )?;
                let mut is_own = false;
                for item in charge.into_iter().chain(refunds) {
                    let Some(key) = key_of_item(&item) else { continue };
                    if Charge::is_at(&key) {
                        // Reads the charge as stored: an expiry that is not persisted yet has no event.
                        let charge: StoredCharge = from_item(item)?;
                        let charge = charge.as_stored();
                        is_own = charge.scope == *scope;
                        refs.extend(EventRef::of_charge(charge));
                    } else if Refund::is_at(&key) {
                        refs.extend(parse_or_log(item).iter().flat_map(EventRef::of_refund));
                    } else if MedCase::is_at(&key) {
                        refs.extend(parse_or_log(item).iter().flat_map(EventRef::of_case));
                    }
                }
                if !is_own {
                    return Ok(Vec::new());
                }
            }
            ObjectId::Case(id) => {
                let case: Option<MedCase> = self.store.get(&MedCase::key_of(id)).await?;
                let own = case.filter(|case| case.scope == *scope);
                refs.extend(own.iter().flat_map(EventRef::of_case));
            }
            ObjectId::Payout(id) => {
                let payout: Option<Payout> = self.store.get(&Payout::key_of(id)).await?;
                let own = payout.filter(|payout| payout.scope == *scope);
                refs.extend(own.iter().flat_map(EventRef::of_payout));
            }
        }
        Ok(refs)
    }
}

/// Returns the events of a row, one for each of its event types, in descending order of ids.
fn events_of_row(row: Event) -> Vec<ListedEvent> {
    let row = Arc::new(row);
    let with_type = |event_type| ListedEvent { id: row.id_as(event_type), row: Arc::clone(&row), event_type };
    let mut listed: Vec<ListedEvent> = row.types().map(with_type).collect();
    listed.sort_by_key(|listed| Reverse(listed.id));
    listed
}

/// An event as the log shows it. A canonical event has the body that is sent. A legacy event also has its id
/// and time, which the body that is sent lacks.
///
/// Each event type of a row is a separate event with a stable id. The events of one row expire together.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(
    rename = "Event",
    description = "An event. A canonical event has the body that is sent; a legacy event also has its id and time."
)]
#[serde(untagged)]
pub enum EventView {
    /// The body, byte for byte.
    #[schemars(description = "A canonical event: the body that is sent, byte for byte.")]
    Canonical(#[schemars(schema_with = "canonical_schema")] Box<RawValue>),
    /// The fields `event` and `data` of the body, with id and time.
    #[schemars(
        title = "LegacyEvent",
        description = "A legacy event: the body that is sent, with id and time."
    )]
    Legacy {
        /// The event's id, the same on each retry and resend.
        id: EventId,
        #[schemars(schema_with = "legacy_name_schema")]
        /// The type of the event.
        event: EventType,
        /// When the change happened.
        created_at: Timestamp,
        /// The `data` that is sent.
        #[schemars(schema_with = "any_legacy_data_schema")]
        data: Box<RawValue>,
    },
}

impl EventView {
    fn new(listed: &ListedEvent) -> Result<Self, serde_json::Error> {
        let ListedEvent { id, row, event_type } = listed;
        let raw = |json: Option<String>| RawValue::from_string(json.unwrap_or_default());
        Ok(match event_type.family() {
            Family::Canonical => Self::Canonical(raw(row.body_as(*event_type))?),
            Family::Legacy => Self::Legacy {
                id: *id,
                event: *event_type,
                created_at: row.created_at,
                data: raw(row.object_as(*event_type).map(str::to_owned))?,
            },
        })
    }
}

/// A page of events.
pub type EventListView = ListView<EventView, EventId>;
