//! The list of deliveries, one delivery, and their statistics (`GET /v1/webhooks/deliveries`,
//! `GET /v1/webhooks/stats`). Parses the query and applies defaults; `super::page` reads the database.

use std::collections::BTreeSet;

use domain::calendar::Day;
use domain::ids::{DeliveryId, EndpointId, EventId, Scope};
use domain::row::Key;
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;
use domain::webhook::failure::AttemptFailure;

use super::super::WebhookError;
use super::entry::Entry;
use super::log::{ENTRIES_PER_QUERY, IdRange, rows_of, sort_keys};
use super::page::{Selection, Window};
use super::rows::Rows;
use super::{Deliveries, Delivery, DeliveryStatus, counts};
use crate::webhook::endpoint::Endpoint;
use crate::webhook::parse_or_log;
use shared::http::field::{Count, Definitions, LIMIT, Parsed, TimeBound, Word};
use shared::http::{Fields, Problem, Query};
use shared::store::{ListIndex, Order, StoreError};

shared::fields! {
    STATUS: Word<DeliveryStatus> = "status", Word::ALL, Optional, "FAILED",
        "Only deliveries with this status.";
    EVENT_TYPE: Word<EventType> = "eventType",
        Word { words: || EventType::ALL.to_vec() }, Optional, "charge.paid",
        "Only deliveries of events of this type.";
    ENDPOINT_ID: Parsed<EndpointId> = "endpointId",
        Parsed::id("must be an endpoint id (wh_…)"),
        Optional, "wh_01kb5cpq4t0000000000000000",
        "Only deliveries to this webhook endpoint.";
    CREATED_AFTER: TimeBound = "created_after", TimeBound::NOT_BEFORE, Optional, "2026-11-01",
        "Only deliveries created on this day in `America/Sao_Paulo` or later. A time stands for its day.";
    CREATED_BEFORE: TimeBound = "created_before", TimeBound::NOT_AFTER, Optional, "2026-11-30",
        "Only deliveries created on this day in `America/Sao_Paulo` or earlier. A time stands for its day.";
    /// The maximum is bounded because a request may have to read every row before its page.
    OFFSET: Count = "offset",
        Count {
            min: 0,
            max: 5_000,
            hint: "; to read further, send `starting_after` with the id of the last delivery you have",
        },
        DefaultsTo(0), 25,
        "The number of deliveries before the page. It can't be combined with `starting_after`.";
    STARTING_AFTER: Parsed<DeliveryId> = "starting_after",
        Parsed::id("must be a delivery id (wd_…)"),
        Optional, "wd_01kb5cpq4t0000000000000000",
        "The cursor: the id of the last delivery of the previous page. It can't be combined with `offset`.";
}

/// The deliveries of an event on a page of the dashboard. Each takes a read unit, and one for its endpoint.
const DELIVERIES_OF_EVENT: usize = 10;

/// The query string of `GET /v1/webhooks/deliveries`.
pub const DELIVERIES_QUERY: Definitions =
    &[&STATUS, &EVENT_TYPE, &ENDPOINT_ID, &CREATED_AFTER, &CREATED_BEFORE, &LIMIT, &OFFSET, &STARTING_AFTER];

/// The query of a request for the list.
///
/// `starting_after` must be a delivery of the scope. That delivery need not match the filter: for example,
/// its status may have changed since the previous page was read. `starting_after` can't be combined with
/// `offset`.
#[derive(Clone, Debug)]
pub struct DeliveryFilter {
    pub(super) selection: Selection,
    pub(super) window: Window,
}

impl DeliveryFilter {
    /// Parses a query string. The error lists every failing parameter.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, DELIVERIES_QUERY);
        let endpoint = query.read(&mut fields, &ENDPOINT_ID);
        let starting_after = query.read(&mut fields, &STARTING_AFTER);
        if query.has(&STARTING_AFTER) && query.has(&OFFSET) {
            fields.reject(STARTING_AFTER.name, "can't be combined with `offset`; send one of them");
        }
        let offset = query.count(&mut fields, &OFFSET);
        let day = |at: Option<Timestamp>| at.map(Day::of);
        let filter = Self {
            selection: Selection {
                status: query.read(&mut fields, &STATUS),
                event_type: query.read(&mut fields, &EVENT_TYPE),
                endpoint,
                first: day(query.read(&mut fields, &CREATED_AFTER))
                    .unwrap_or_else(|| Day::of(Timestamp::MIN)),
                last: day(query.read(&mut fields, &CREATED_BEFORE))
                    .unwrap_or_else(|| Day::of(Timestamp::MAX)),
            },
            window: Window { after: starting_after, skip: offset, limit: query.count(&mut fields, &LIMIT) },
        };
        fields.finish(Some(filter))
    }

    pub fn limit(&self) -> usize {
        self.window.limit
    }

    /// The number of deliveries before the page.
    pub fn offset(&self) -> usize {
        self.window.skip
    }
}

/// The most waiting deliveries of an endpoint that an e-mail counts.
const MAX_WAITING: usize = 1_000;

/// The deliveries that wait for another attempt to an endpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitingDeliveries {
    pub count: usize,
    /// There may be more than were read.
    pub has_more: bool,
    /// Why the last attempt of the newest one failed.
    pub last_failure: Option<AttemptFailure>,
}

impl Deliveries {
    /// Counts the deliveries of an endpoint without an outcome, among the newest 1,000 of its scope.
    pub async fn waiting_for(
        &self,
        scope: &Scope,
        endpoint: EndpointId,
    ) -> Result<WaitingDeliveries, StoreError> {
        // Also those whose attempt is in progress.
        let (list, open) = (Delivery::partition(scope), ("PENDING#", "PROCESSING#~"));
        let read = self.store.list(ListIndex::All, &list, open, Order::NewestFirst, MAX_WAITING).await?;
        let waiting: Vec<Entry> =
            read.iter().filter_map(Entry::of).filter(|entry| entry.endpoint == Some(endpoint)).collect();
        let newest = match waiting.first() {
            Some(entry) => self.row(scope, entry.id).await?,
            None => None,
        };
        let last_failure = newest.and_then(|newest| newest.last_error);
        Ok(WaitingDeliveries { count: waiting.len(), has_more: read.len() >= MAX_WAITING, last_failure })
    }

    /// Returns one delivery with its body and its endpoint. An abandoned delivery is returned as `CANCELLED`, even
    /// if its row is still `PENDING`.
    pub async fn find(
        &self,
        scope: &Scope,
        id: Option<DeliveryId>,
        now: Timestamp,
    ) -> Result<(Delivery, Option<String>, Option<Endpoint>), WebhookError> {
        let found = self.shown(scope, id, now).await?;
        let mut rows = Rows::of(*scope);
        let keys = rows_of(scope, &found.entry()).into_iter().filter(|key| !Delivery::is_at(key));
        self.load(&mut rows, keys.collect()).await?;
        let endpoint = found.endpoint.and_then(|id| rows.endpoint(id).cloned());
        let (delivery, body) = rows.show(found);
        Ok((delivery, body, endpoint))
    }

    /// Finds the first deliveries of an event, and that of a test. Their ids begin with the event's time, so one range
    /// of the log has them.
    pub(in crate::webhook) async fn first_of(
        &self,
        scope: &ShardedScope,
        event: EventId,
    ) -> Result<Vec<Entry>, StoreError> {
        let at = event.timestamp().unwrap_or(Timestamp::MIN);
        let range = (DeliveryId::first_at(at), DeliveryId::last_at(at));
        let log = self.log(scope, range, Order::OldestFirst, ENTRIES_PER_QUERY).await?;
        let is_of_event = |entry: &Entry| entry.event.with_code(entry.event_type.code()) == event;
        Ok(log.entries.into_iter().filter(is_of_event).collect())
    }

    /// Returns a page of deliveries as they are shown, oldest first, and the cursor of the next page. `resent`: those
    /// that resends of the event created. `after`: the last one of the previous page.
    pub(in crate::webhook) async fn with_rows(
        &self,
        scope: &Scope,
        (first, resent): (&[Entry], &[DeliveryId]),
        after: Option<DeliveryId>,
    ) -> Result<(Vec<Delivery>, Option<DeliveryId>), StoreError> {
        let ids = first.iter().map(|entry| entry.id).chain(resent.iter().copied());
        let ids: BTreeSet<DeliveryId> = ids.filter(|id| Some(*id) > after).collect();
        let on_page: BTreeSet<DeliveryId> = ids.iter().copied().take(DELIVERIES_OF_EVENT).collect();
        let receivers = first.iter().filter(|entry| on_page.contains(&entry.id));
        let receivers = receivers.filter_map(|entry| Some(Endpoint::key_of(scope, entry.endpoint?)));
        let keys = on_page.iter().map(|id| Delivery::key_of(scope, *id)).chain(receivers).collect();
        let mut rows = Rows::of(*scope);
        self.load(&mut rows, keys).await?;
        let next = on_page.last().copied().filter(|_| ids.len() > on_page.len());
        let shown = on_page.into_iter().filter_map(|id| rows.delivery(id)).map(|(delivery, _body)| delivery);
        Ok((shown.collect(), next))
    }

    /// Reads listed deliveries to one receiver in a status and a range of ids, oldest first: those of at most `limit`
    /// entries. Returns the sort key of the last entry, if there are more.
    pub(in crate::webhook) async fn listed_of(
        &self,
        scope: &Scope,
        (endpoint, range): (Option<EndpointId>, IdRange),
        (status, after): (DeliveryStatus, Option<&str>),
        limit: usize,
    ) -> Result<(Vec<Delivery>, Option<String>), StoreError> {
        // '!' sorts before every character that may follow a sort key in a longer one.
        let (status, (first, last)) = (status.as_str(), sort_keys(range));
        let from = after.map_or_else(|| format!("{status}#{first}"), |after| format!("{after}!"));
        let (partition, to) = (Delivery::partition(scope), format!("{status}#{last}"));
        let read =
            self.store.list(ListIndex::All, &partition, (&from, &to), Order::OldestFirst, limit).await?;
        let after = read.last().filter(|_| read.len() >= limit).map(|entry| entry.sort.clone());
        let entries = read.iter().filter_map(Entry::of).filter(|entry| entry.endpoint == endpoint);
        let keys: Vec<Key> = entries.map(|entry| Delivery::key_of(scope, entry.id)).collect();
        let rows = self.store.batch_get(&keys).await?.into_iter();
        Ok((rows.filter_map(parse_or_log).collect(), after))
    }

    /// Returns the row of one delivery, unless it is too old for lists to show it.
    pub async fn shown(
        &self,
        scope: &Scope,
        id: Option<DeliveryId>,
        now: Timestamp,
    ) -> Result<Delivery, WebhookError> {
        let id = id.filter(|id| *id >= counts::first_shown(now)).ok_or(WebhookError::NoDelivery)?;
        self.row(scope, id).await?.ok_or(WebhookError::NoDelivery)
    }

    /// Returns the row of one delivery; `None`: it does not exist.
    pub async fn row(&self, scope: &Scope, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
        Ok(self.store.get_in_order(&[Delivery::key_of(scope, id)]).await?.pop())
    }
}
