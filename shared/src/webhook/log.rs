//! The log of events, from which a merchant catches up after an outage: what was told, or would have been, to anybody.
//!
//! A scope's events share a partition in the order of their changes, so a page is read from there, from its cursor on: an
//! event's id says which row it is of, and all ids sort as rows do. The events of one object are named by its rows, which
//! remember their moves, so they are read by name. There is no index of events: it would cost a write unit for each. A rare
//! `type` is looked for among as many rows as a page may cost, hence such a page may be shorter than `limit`, even empty,
//! while `has_more` is true.
//!
//! An event stands at the time of its change and appears some moments after it; after an outage of the dispatcher,
//! later. Who polls asks again from a little before the last event that was seen.

use std::cmp::Reverse;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, EventId, MedCaseId, PayoutId, Scope};
use domain::med::MedCase;
use domain::payout::Payout;
use domain::refund::Refund;
use domain::row::Key;
use domain::time::Timestamp;
use domain::webhook::event_type::{EventType, Family};

use super::WebhookError;
use super::event::{Event, EventName};
use crate::http::{Fields, Problem, Query};
use crate::store::{Item, Order, PageError, Store, StoreError, from_item, key_of_item, text, unavailable};

/// How far back the list goes, in seconds: 30 days. Rows are kept for longer, for deliveries refer to them.
const LISTED_SECONDS: i64 = 30 * 24 * 60 * 60;

/// Events on a page, unless asked otherwise, and at most.
const DEFAULT_LIMIT: u32 = 25;
const MAX_LIMIT: u32 = 100;

/// Queries that a page takes at most, one after another. DynamoDB ends each at 1 MB, some thousand rows.
const MAX_QUERIES: usize = 2;

/// Rows of a page beside one for each of its events: the cursor's, of which names may be left, and one that shows whether
/// there are more.
const ROWS_BESIDE: usize = 2;

/// Rows of the first query for each event of one type that is wanted: enough for a usual type, so that only a rare one
/// is looked for further.
const ROWS_PER_MATCH: usize = 8;

const PARAMETERS: [&str; 6] =
    ["limit", "starting_after", "type", "object", "created_after", "created_before"];

/// What events are about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ObjectId {
    /// A charge, with its refunds and MED cases.
    Charge(ChargeId),
    /// A MED case.
    Case(MedCaseId),
    /// A payout.
    Payout(PayoutId),
}

impl ObjectId {
    fn parse(text: &str) -> Option<Self> {
        let charge = ChargeId::parse_any(text).map(Self::Charge).ok();
        let case = || text.parse().map(Self::Case).ok();
        charge.or_else(case).or_else(|| text.parse().map(Self::Payout).ok())
    }
}

/// What a client asks of the log.
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
    /// Reads a query string; every failing parameter is reported, an unknown one too.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, &PARAMETERS);
        let limit = query.integer(&mut fields, "limit", 1, MAX_LIMIT, DEFAULT_LIMIT);
        let starting_after =
            query.parsed(&mut fields, "starting_after", "must be an event id (evt_…)", |text| {
                text.parse().ok()
            });
        let object = query.parsed(
            &mut fields,
            "object",
            "must be the id of a charge (ch_…), payment, MED case (med_…) or payout (po_…)",
            ObjectId::parse,
        );
        let filter = Self {
            limit: usize::try_from(limit).unwrap_or_default(),
            starting_after,
            event_type: query.one_of(&mut fields, "type", EventType::ALL),
            object,
            created_after: query.not_before(&mut fields, "created_after"),
            created_before: query.not_after(&mut fields, "created_before"),
        };
        fields.finish(Some(filter))
    }

    fn admits(&self, event_type: EventType) -> bool {
        self.event_type.is_none_or(|wanted| wanted == event_type)
    }

    /// The ids from the oldest to the newest that may be on a page, both taken in, and the cursor, where it is among them.
    fn range(&self, now: Timestamp) -> (EventId, EventId, Option<EventId>) {
        let oldest = now.plus_seconds(LISTED_SECONDS.saturating_neg()).unwrap_or(Timestamp::MIN);
        let from = EventId::first_at(self.created_after.unwrap_or(oldest).max(oldest));
        let to = EventId::last_at(self.created_before.unwrap_or(Timestamp::MAX));
        let cursor = self.starting_after.filter(|cursor| *cursor <= to);
        (from, cursor.unwrap_or(to), cursor)
    }
}

/// An event of a page: a row, under one of its names.
#[derive(Clone, Debug)]
struct ListedEvent {
    id: EventId,
    row: Event,
    event_type: EventType,
}

/// A page of events, newest first.
#[derive(Debug)]
pub struct EventPage {
    events: Vec<ListedEvent>,
    next_cursor: Option<EventId>,
}

/// The events of all scopes, as they were told.
#[derive(Clone, Debug)]
pub struct EventLog {
    store: Store,
}

impl EventLog {
    /// The log of a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// A page of a scope's events.
    ///
    /// # Errors
    ///
    /// When `starting_after` names no event of what is listed.
    pub async fn list(
        &self,
        scope: &Scope,
        filter: &EventFilter,
        now: Timestamp,
    ) -> Result<EventPage, WebhookError> {
        match filter.object {
            Some(object) => self.of_object(scope, object, filter, now).await,
            None => self.of_scope(scope, filter, now).await,
        }
    }

    /// One event, as long as it is kept: for 90 days.
    ///
    /// # Errors
    ///
    /// [`WebhookError::NoEvent`] for what is not there and what is another scope's.
    pub async fn find(
        &self,
        scope: &Scope,
        id: Option<EventId>,
        now: Timestamp,
    ) -> Result<EventView, WebhookError> {
        let id = id.ok_or(WebhookError::NoEvent)?;
        let mut keys = vec![Event::key_of(scope, id), Event::key_of(scope, id.row_of_names())];
        keys.dedup();
        let rows = self.store.batch_get(&keys).await?.into_iter().filter_map(read);
        let kept = rows.filter(|row: &Event| row.is_kept(now));
        let told = kept.flat_map(|row| told_as(&row)).find(|told| told.id == id);
        Ok(EventView::new(&told.ok_or(WebhookError::NoEvent)?)?)
    }

    async fn of_scope(
        &self,
        scope: &Scope,
        filter: &EventFilter,
        now: Timestamp,
    ) -> Result<EventPage, WebhookError> {
        let (from, to, cursor) = filter.range(now);
        let mut events = Vec::new();
        if from > to {
            return Ok(EventPage { events, next_cursor: None });
        }
        let mut cursor_is_known = cursor.is_none();
        let mut after = None;
        for query in 0..MAX_QUERIES {
            let (items, last) = self.rows(scope, (from, to), filter, query == 0, after.take()).await?;
            for item in items {
                // A page may end at a row, of which all names are listed or none.
                let id = text(&item, "sk").and_then(|id| id.parse().ok());
                cursor_is_known |= cursor == id;
                let Some(row) = read(item) else { continue };
                for told in told_as(&row) {
                    cursor_is_known |= cursor == Some(told.id);
                    let is_after = cursor.is_none_or(|cursor| told.id < cursor);
                    if is_after && filter.admits(told.event_type) {
                        events.push(told);
                    }
                }
            }
            after = last;
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
            events.last().map(|told| told.id)
        } else {
            after.and_then(|last| text(&last, "sk")?.parse().ok())
        };
        Ok(EventPage { events, next_cursor })
    }

    /// Rows of a page, newest first, and where they end, if there are more.
    async fn rows(
        &self,
        scope: &Scope,
        (from, to): (EventId, EventId),
        filter: &EventFilter,
        is_first: bool,
        after: Option<Item>,
    ) -> Result<(Vec<Item>, Option<Item>), StoreError> {
        let text = |text: &dyn ToString| AttributeValue::S(text.to_string());
        let mut query = self
            .store
            .client()
            .query()
            .table_name(self.store.table())
            // What a page ended with must be there for the next.
            .consistent_read(true)
            .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
            .expression_attribute_values(":pk", AttributeValue::S(Event::partition(scope)))
            .expression_attribute_values(":from", text(&from))
            .expression_attribute_values(":to", text(&to))
            .scan_index_forward(false)
            .set_exclusive_start_key(after);
        let mut rows = filter.limit.saturating_add(ROWS_BESIDE);
        if let Some(event_type) = filter.event_type {
            rows = rows.saturating_mul(ROWS_PER_MATCH);
            // The cursor may be of another type: where the page before it ended.
            let cursor = filter.starting_after.unwrap_or(to);
            query = query
                .filter_expression("contains(#types, :type) OR #id IN (:cursor, :row)")
                .expression_attribute_names("#types", "types")
                .expression_attribute_names("#id", "id")
                .expression_attribute_values(":type", AttributeValue::S(event_type.as_str().to_owned()))
                .expression_attribute_values(":cursor", text(&cursor))
                .expression_attribute_values(":row", text(&cursor.row_of_names()));
        }
        let limit = is_first.then(|| i32::try_from(rows).unwrap_or(i32::MAX));
        let answer = Box::pin(query.set_limit(limit).send()).await.map_err(unavailable)?;
        Ok((answer.items.unwrap_or_default(), answer.last_evaluated_key))
    }

    async fn of_object(
        &self,
        scope: &Scope,
        object: ObjectId,
        filter: &EventFilter,
        now: Timestamp,
    ) -> Result<EventPage, WebhookError> {
        let names = self.names_of(scope, object).await?;
        let (from, to, cursor) = filter.range(now);
        let under_each = |name: EventName| {
            let types = name.types.clone();
            types.into_iter().map(move |event_type| (name.id, name.id_as(event_type), event_type))
        };
        let mut told: Vec<(EventId, EventId, EventType)> = names.into_iter().flat_map(under_each).collect();
        told.sort_by_key(|(_, id, _)| Reverse(*id));
        if let Some(cursor) = cursor {
            let place = told.iter().position(|(_, id, _)| *id == cursor);
            let place = place.ok_or(PageError::UnknownCursor("an event of this object"))?;
            told.drain(..=place);
        }
        told.retain(|(row, _, event_type)| (from..=to).contains(row) && filter.admits(*event_type));
        let more = told.len() > filter.limit;
        told.truncate(filter.limit);
        let next_cursor = told.last().filter(|_| more).map(|(_, id, _)| *id);
        let mut keys: Vec<Key> = told.iter().map(|(row, _, _)| Event::key_of(scope, *row)).collect();
        keys.dedup();
        let rows: Vec<Event> = self.store.batch_get(&keys).await?.into_iter().filter_map(read).collect();
        let stored = |(row, id, event_type): (EventId, EventId, EventType)| {
            let row = rows.iter().find(|stored| stored.id == row)?.clone();
            Some(ListedEvent { id, row, event_type })
        };
        Ok(EventPage { events: told.into_iter().filter_map(stored).collect(), next_cursor })
    }

    /// What an object told so far; nothing of what is not there and what is another scope's.
    async fn names_of(&self, scope: &Scope, object: ObjectId) -> Result<Vec<EventName>, StoreError> {
        let mut names = Vec::new();
        match object {
            ObjectId::Charge(id) => {
                // Its refunds and cases share its partition, with what is not told of: its cases' evidence lies between.
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
                        // Only what is stored was published.
                        let charge: StoredCharge = from_item(item)?;
                        let charge = charge.as_stored();
                        is_own = charge.scope == *scope;
                        names.extend(EventName::of_charge(charge));
                    } else if Refund::is_at(&key) {
                        names.extend(read(item).iter().flat_map(EventName::of_refund));
                    } else if MedCase::is_at(&key) {
                        names.extend(read(item).iter().flat_map(EventName::of_case));
                    }
                }
                if !is_own {
                    return Ok(Vec::new());
                }
            }
            ObjectId::Case(id) => {
                let case: Option<MedCase> = self.store.get(&MedCase::key_of(id)).await?;
                let own = case.filter(|case| case.scope == *scope);
                names.extend(own.iter().flat_map(EventName::of_case));
            }
            ObjectId::Payout(id) => {
                let payout: Option<Payout> = self.store.get(&Payout::key_of(id)).await?;
                let own = payout.filter(|payout| payout.scope == *scope);
                names.extend(own.iter().flat_map(EventName::of_payout));
            }
        }
        Ok(names)
    }
}

/// One that can't be read must not hide the others.
fn read<R: DeserializeOwned>(item: Item) -> Option<R> {
    from_item(item).inspect_err(|error| tracing::error!(%error, "a row of the log can't be read")).ok()
}

/// The events of a row, newest first, as ids sort them.
fn told_as(row: &Event) -> Vec<ListedEvent> {
    let as_one = |event_type: &EventType| ListedEvent {
        id: row.id_as(*event_type),
        row: row.clone(),
        event_type: *event_type,
    };
    let mut told: Vec<ListedEvent> = row.types.iter().map(as_one).collect();
    told.sort_by_key(|told| Reverse(told.id));
    told
}

/// An event as the log shows it: a canonical one as it is sent, a legacy one with the id and time that its envelope lacks.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum EventView {
    /// The body, byte for byte.
    Canonical(Box<RawValue>),
    /// The two fields of the body, in a frame.
    Legacy {
        /// Stable: each retry and resend of it has this id.
        id: EventId,
        /// Its name.
        event: EventType,
        /// When the change happened.
        created_at: Timestamp,
        /// As it is sent.
        data: Box<RawValue>,
    },
}

impl EventView {
    fn new(told: &ListedEvent) -> Result<Self, serde_json::Error> {
        let payload = RawValue::from_string(told.row.payload.clone())?;
        Ok(match told.event_type.family() {
            Family::Canonical => Self::Canonical(payload),
            Family::Legacy => Self::Legacy {
                id: told.id,
                event: told.event_type,
                created_at: told.row.created_at,
                data: payload,
            },
        })
    }
}

/// A page of events on the wire.
#[derive(Debug, Serialize)]
pub struct EventListView {
    object: &'static str,
    data: Vec<EventView>,
    has_more: bool,
    next_cursor: Option<EventId>,
}

impl EventListView {
    /// The page as the list gives it.
    pub fn new(page: &EventPage) -> Result<Self, WebhookError> {
        Ok(Self {
            object: "list",
            data: page.events.iter().map(EventView::new).collect::<Result<_, _>>()?,
            has_more: page.next_cursor.is_some(),
            next_cursor: page.next_cursor,
        })
    }
}
