//! How many deliveries there are, without a write for each.
//!
//! A delivery that succeeds at its first attempt never changes again, so it needs no counter of its own. One row of the
//! scope says how many of those there were on each day up to a checkpoint in the order of ids, and readers count the
//! deliveries behind the checkpoint. The scheduler advances the checkpoint in strides. It reads each row once for that,
//! which costs a tenth of a write. Every other delivery is listed by its status and counted there ([`Delivery::listed`])
//! until it is done. Then the scheduler takes it out of that list and adds it to the day's numbers, in one transaction.
//!
//! The sum is exact, because each delivery is in one place: the checkpoint passes a delivery only when it is delivered or
//! listed, and a delivery that comes so late that the checkpoint passed its id is listed when it is inserted.
//!
//! Beside the scope's row, each day has a row with the same numbers by endpoint and event type ([`DayCounts`]). The
//! scheduler writes both in one transaction. Counts of earlier versions have no such rows: the scheduler counts those
//! deliveries again, in strides, and [`Counts::by_kind_to`] says how far it came.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};

use domain::calendar::Day;
use domain::ids::{DeliveryId, EndpointId, Scope};
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::row::{Indexes, Key, Row};
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;

use super::place::{Kind, Marker, NO_ENDPOINT, Place, bounds};
use super::{Deliveries, Delivery, DeliveryStatus, SHOWN_NO_MORE_SECONDS};
use crate::store::{
    Committed, Item, ListIndex, Listed, Order, StoreError, Write, due_attributes, from_item, key_attributes,
    text, update_in_turn,
};

/// How old a delivery is before the checkpoint passes it, in milliseconds: a minute more than the age at which a delivery is
/// listed when it is inserted, which no insert takes.
const PASSED_AFTER_MS: i64 = 210_000;

/// How old a delivery that can't be passed is before it is listed after all, in milliseconds. The scheduler lists slow
/// deliveries before that; what is left are rows of a version that did not list them.
const LEFT_BEHIND_AFTER_MS: i64 = 600_000;

/// When the scheduler looks again at deliveries that could not be passed, in seconds.
const NEXT_LOOK_SECONDS: i64 = 60;

/// Rows that are read at once, and how often in one run, whose end is written: the rest follows a minute later.
const STRIDE: usize = 2_000;
const MAX_STRIDES: usize = 10;

/// How often in one run rows are read to count by event type and endpoint what was counted without.
const MAX_RECOUNT_STRIDES: usize = 5;

/// Rows of one transaction (DynamoDB).
const MAX_WRITES: usize = 100;

/// Deliveries that leave the list in one transaction at most, and how many of those in one run.
const FOLDED_AT_ONCE: usize = 90;
const MAX_FOLDS: usize = 20;

/// Days before today that are shown and counted.
const DAYS_SHOWN: u64 = 90;

/// Sorts after every delivery's id, so that a query of the newest deliveries begins with it. The rows by day follow it.
pub(super) const SORT: &str = "~counts";

/// Sorts after the rows by day.
pub(super) const SORT_WITH_DAYS: &str = "~counts#~";

/// A scope's count.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Counts {
    scope: Scope,
    /// The checkpoint: unlisted deliveries up to it are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) up_to: Option<DeliveryId>,
    /// What became of those that are done, by the day in their ids.
    #[serde(default)]
    days: BTreeMap<Day, Done>,
    /// The rows by day have what is counted of the deliveries up to this one; absent: of none. See [`all`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by_kind_to: Option<DeliveryId>,
    /// How often the counts were written, and when last, as [`Marker`] says in the index.
    #[serde(default)]
    writes: u64,
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    written_at: Option<Timestamp>,
    /// When the scheduler looks again; `None`: nothing is left to count.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    look_at: Option<Timestamp>,
    version: u64,
}

/// How many deliveries of a day ended how. Short names, for 90 days are one row.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
struct Done {
    #[serde(rename = "d", default, skip_serializing_if = "is_none")]
    delivered: u64,
    #[serde(rename = "f", default, skip_serializing_if = "is_none")]
    failed: u64,
    #[serde(rename = "c", default, skip_serializing_if = "is_none")]
    cancelled: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Done {
    /// Those in a status, or all.
    fn ended(self, status: Option<DeliveryStatus>) -> u64 {
        let ends = ENDS.into_iter().filter(|end| status.is_none_or(|status| status == *end));
        let mut done = self;
        ends.fold(0, |sum, end| sum.saturating_add(done.of(end).map_or(0, |count| *count)))
    }

    fn add(&mut self, status: DeliveryStatus) {
        if let Some(count) = self.of(status) {
            *count = count.saturating_add(1);
        }
    }

    fn of(&mut self, status: DeliveryStatus) -> Option<&mut u64> {
        match status {
            DeliveryStatus::Delivered => Some(&mut self.delivered),
            DeliveryStatus::Failed => Some(&mut self.failed),
            DeliveryStatus::Cancelled => Some(&mut self.cancelled),
            DeliveryStatus::Pending | DeliveryStatus::Processing => None,
        }
    }
}

/// In which statuses a delivery is done.
const ENDS: [DeliveryStatus; 3] =
    [DeliveryStatus::Delivered, DeliveryStatus::Failed, DeliveryStatus::Cancelled];

/// The id that no delivery's exceeds: a breakdown up to it is complete.
fn all() -> DeliveryId {
    DeliveryId::last_at(Timestamp::MAX)
}

impl Row for Counts {
    fn key(&self) -> Key {
        key_of(&self.scope)
    }

    fn indexes(&self) -> Indexes {
        let marker = (self.writes > 0).then(|| (Delivery::partition(&self.scope), self.marker().to_string()));
        Indexes { list: marker, due: self.look_at, ..Indexes::default() }
    }
}

pub(super) fn key_of(scope: &Scope) -> Key {
    Key { pk: Delivery::partition(scope), sk: SORT.to_owned() }
}

/// The scope whose count a row of the state table is, if it is one.
pub fn scope_of(key: &Key) -> Option<Scope> {
    let scope = key.pk.strip_prefix("deliveries#").filter(|_| key.sk == SORT)?;
    scope.parse().ok()
}

impl Counts {
    pub(super) fn none(scope: Scope) -> Self {
        Self {
            scope,
            up_to: None,
            days: BTreeMap::new(),
            by_kind_to: None,
            writes: 0,
            written_at: None,
            look_at: None,
            version: 0,
        }
    }

    /// The write that it is of, as the index names it.
    pub(super) fn marker(&self) -> Marker {
        // An entry that was never written has no time either.
        Marker { writes: self.writes, at: self.written_at.filter(|_| self.writes > 0) }
    }

    /// Deliveries of a day in a status, or of all that are counted.
    fn ended(&self, day: Day, status: Option<DeliveryStatus>) -> u64 {
        self.days.get(&day).map_or(0, |done| done.ended(status))
    }

    /// Whether all that is counted is also counted by event type and endpoint.
    pub(super) fn is_by_kind(&self) -> bool {
        self.by_kind_to.is_some_and(|to| to >= all()) || (self.up_to.is_none() && self.days.is_empty())
    }

    /// Whether a delivery of that age can be passed.
    fn is_old(id: DeliveryId, now: Timestamp) -> bool {
        now.millis_since(timestamp_of(id)) >= PASSED_AFTER_MS
    }
}

/// What is counted of one day, by endpoint and event type. As an endpoint's part is dropped with its day, endpoints that were
/// deleted leave nothing behind for longer. A day has at most 21 event types for each endpoint that was there on it, some 250
/// bytes an endpoint.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct DayCounts {
    scope: Scope,
    day: Day,
    /// Endpoint, or `-`; event type; numbers. Texts, so that an event type of a later version is kept.
    done: BTreeMap<String, BTreeMap<String, Done>>,
    version: u64,
}

impl DayCounts {
    fn add(&mut self, kind: Kind, status: DeliveryStatus) {
        let endpoint = kind.endpoint.map_or_else(|| NO_ENDPOINT.to_owned(), |endpoint| endpoint.to_string());
        let by_type = self.done.entry(endpoint).or_default();
        by_type.entry(kind.event_type.as_str().to_owned()).or_default().add(status);
    }

    fn ended(&self, criteria: &Criteria) -> u64 {
        let endpoint = criteria.endpoint.map(|endpoint| endpoint.to_string());
        let endpoints = self.done.iter().filter(|(id, _)| endpoint.as_ref().is_none_or(|one| one == *id));
        let types = endpoints.flat_map(|(_, types)| types);
        let types =
            types.filter(|(name, _)| criteria.event_type.is_none_or(|wanted| wanted.as_str() == *name));
        types.fold(0, |sum, (_, done)| sum.saturating_add(done.ended(criteria.status)))
    }
}

impl Row for DayCounts {
    fn key(&self) -> Key {
        Key { pk: Delivery::partition(&self.scope), sk: format!("{SORT}#{}", self.day) }
    }

    /// When its deliveries' rows go too.
    fn removable_at(&self) -> Option<Timestamp> {
        self.day.ends_at().plus_seconds(EVENTS_KEPT_SECONDS.saturating_add(SHOWN_NO_MORE_SECONDS)).ok()
    }
}

/// What a reader counts by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Criteria {
    pub(super) status: Option<DeliveryStatus>,
    pub(super) event_type: Option<EventType>,
    pub(super) endpoint: Option<EndpointId>,
}

impl Criteria {
    /// Whether the rows by day are needed.
    pub(super) fn is_by_kind(&self) -> bool {
        self.event_type.is_some() || self.endpoint.is_some()
    }

    /// Whether a delivery of that kind is among them.
    pub(super) fn admits_kind(&self, kind: Kind) -> bool {
        self.event_type.is_none_or(|wanted| wanted == kind.event_type)
            && self.endpoint.is_none_or(|wanted| kind.endpoint == Some(wanted))
    }
}

/// All that is counted of a scope: its row, and those by day that were read.
#[derive(Clone, Debug)]
pub(super) struct Book {
    pub(super) counts: Counts,
    days: BTreeMap<Day, DayCounts>,
    /// Rows by day that are to be written.
    changed: BTreeSet<Day>,
    /// The stored version of the scope's row; `None`: there is none.
    version: Option<u64>,
}

impl Book {
    pub(super) fn new(scope: Scope) -> Self {
        let (days, changed) = (BTreeMap::new(), BTreeSet::new());
        Self { counts: Counts::none(scope), days, changed, version: None }
    }

    /// Takes a row of the counts; gives any other back.
    pub(super) fn take(&mut self, item: Item) -> Result<Option<Item>, StoreError> {
        match text(&item, "sk") {
            Some(sort) if sort == SORT => {
                self.counts = from_item(item)?;
                self.version = Some(self.counts.version);
            }
            Some(sort) if sort.starts_with(SORT) => {
                let day: DayCounts = from_item(item)?;
                self.days.insert(day.day, day);
            }
            Some(_) | None => return Ok(Some(item)),
        }
        Ok(None)
    }

    /// How many are counted on each day from one to another, both included. By event type or endpoint only where
    /// [`Counts::is_by_kind`].
    pub(super) fn by_day(&self, criteria: &Criteria, (first, last): (Day, Day)) -> BTreeMap<Day, u64> {
        if first > last {
            return BTreeMap::new();
        }
        if criteria.is_by_kind() {
            self.days.range(first..=last).map(|(day, counts)| (*day, counts.ended(criteria))).collect()
        } else {
            let days = self.counts.days.range(first..=last);
            days.map(|(day, _)| (*day, self.counts.ended(*day, criteria.status))).collect()
        }
    }

    /// Adds a delivery that is done.
    fn add(&mut self, id: DeliveryId, status: DeliveryStatus, kind: Option<Kind>) {
        self.counts.days.entry(Day::of(timestamp_of(id))).or_default().add(status);
        // What follows is counted when the recount comes there.
        if self.counts.by_kind_to.is_some_and(|to| id <= to) {
            match kind {
                Some(kind) => self.add_by_kind(id, status, kind),
                None => {
                    tracing::error!(%id, "a delivery can't be read, and is not counted by its event type");
                }
            }
        }
    }

    fn add_by_kind(&mut self, id: DeliveryId, status: DeliveryStatus, kind: Kind) {
        let day = Day::of(timestamp_of(id));
        self.day(day).add(kind, status);
        self.changed.insert(day);
    }

    fn day(&mut self, day: Day) -> &mut DayCounts {
        let scope = self.counts.scope;
        self.days.entry(day).or_insert_with(|| DayCounts { scope, day, done: BTreeMap::new(), version: 0 })
    }

    /// Passes a delivery that follows the checkpoint; `false`: it can't be passed yet.
    fn pass(&mut self, delivery: &Delivery, now: Timestamp) -> bool {
        if !Counts::is_old(delivery.id, now) || !(delivery.listed || delivery.is_delivered()) {
            return false;
        }
        if !delivery.listed {
            self.add(delivery.id, delivery.status, Some(delivery.kind()));
        }
        self.counts.up_to = Some(delivery.id);
        true
    }

    /// Whether a transaction of so many rows, beside those of the counts, has room for a delivery of that day.
    fn has_room(&self, day: Day, rows: usize) -> bool {
        let days = self.changed.len().saturating_add(usize::from(!self.changed.contains(&day)));
        // The delivery's and the scope's row.
        rows.saturating_add(days).saturating_add(2) <= MAX_WRITES
    }

    /// The rows that changed, for one transaction; they count as stored from here on.
    fn written(&mut self, now: Timestamp) -> Result<Vec<Write>, StoreError> {
        let mut writes = Vec::new();
        for day in std::mem::take(&mut self.changed) {
            // The scope's row guards it: nobody else writes this row under the same version of that one.
            let row = self.day(day);
            let stored = row.version;
            row.version = stored.saturating_add(1);
            writes.push(if stored == 0 { Write::insert(row)? } else { Write::replace(row, stored)? });
        }
        let counts = &mut self.counts;
        counts.version = self.version.unwrap_or_default().saturating_add(1);
        counts.writes = counts.writes.saturating_add(1);
        counts.written_at = Some(now);
        writes.push(match self.version {
            Some(version) => Write::replace(counts, version)?,
            None => Write::insert(counts)?,
        });
        self.version = Some(counts.version);
        Ok(writes)
    }
}

fn timestamp_of(id: DeliveryId) -> Timestamp {
    id.timestamp().unwrap_or(Timestamp::MIN)
}

pub(super) fn first_day(now: Timestamp) -> Day {
    Day::of(now).back(DAYS_SHOWN)
}

/// Not after any delivery that is shown.
pub(in crate::webhook) fn first_shown(now: Timestamp) -> DeliveryId {
    DeliveryId::first_at(first_day(now).starts_at())
}

/// A listed delivery that is done, and its entry.
struct DoneEntry {
    listed: Listed,
    place: Place,
}

impl Deliveries {
    /// Schedules a scope's count: when one in some dozens of deliveries is made, whatever becomes of the others.
    pub async fn schedule_counting(&self, scope: &Scope, now: Timestamp) -> Result<(), StoreError> {
        let key = key_of(scope);
        let at = now.plus_millis(PASSED_AFTER_MS).unwrap_or(Timestamp::MAX);
        let [(_, shard), (_, sort)] = due_attributes(&key, at);
        let update = self.store.client().update_item().table_name(self.store.table());
        let update = update
            .set_key(Some(key_attributes(&key)))
            .condition_expression("attribute_not_exists(due_pk)")
            .update_expression(
                "SET due_pk = :shard, due_sk = :sort, look_at = :at, #scope = :scope ADD version :one",
            )
            .expression_attribute_names("#scope", "scope")
            .expression_attribute_values(":shard", shard)
            .expression_attribute_values(":sort", sort)
            .expression_attribute_values(":at", AttributeValue::N(at.millis().to_string()))
            .expression_attribute_values(":scope", AttributeValue::S(scope.to_string()))
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
        // Refused: the count is scheduled already.
        update_in_turn(update).await.map(|_set_now_or_before| ())
    }

    /// Counts a scope's deliveries as far as they can be passed, and writes into the row when to go on.
    pub async fn count(&self, scope: &Scope, now: Timestamp) -> Result<(), StoreError> {
        let mut update = self.store.start_update("the count of deliveries");
        loop {
            update.next_attempt().await?;
            let mut book = self.book(scope, true).await?;
            book.counts.days = book.counts.days.split_off(&first_day(now));
            self.recount(&mut book, now).await?;
            self.pass(&mut book, now).await?;
            if self.folded(book, now).await? {
                return Ok(());
            }
        }
    }

    /// What is counted of a scope, with or without the rows by day.
    pub(super) async fn book(&self, scope: &Scope, with_days: bool) -> Result<Book, StoreError> {
        let mut book = Book::new(*scope);
        let last = if with_days { SORT_WITH_DAYS } else { SORT };
        let partition = Delivery::partition(scope);
        for item in self.store.range(&partition, (SORT, last), Order::OldestFirst, usize::MAX).await? {
            book.take(item)?;
        }
        Ok(book)
    }

    /// Counts by event type and endpoint what earlier versions counted without, some strides of it. Which deliveries those
    /// are, their rows say: one that is listed and done has left the list of its scope, one that is not listed is behind the
    /// checkpoint. Entries of the index that lack the event type get it.
    async fn recount(&self, book: &mut Book, now: Timestamp) -> Result<(), StoreError> {
        if book.counts.is_by_kind() {
            book.counts.by_kind_to = Some(all());
            return Ok(());
        }
        let (partition, last) = (Delivery::partition(&book.counts.scope), all());
        if book.counts.by_kind_to.is_none() {
            // An earlier version may have counted on since they were written.
            for (day, row) in book.days.range_mut(first_day(now)..) {
                row.done.clear();
                book.changed.insert(*day);
            }
        }
        for _stride in 0..MAX_RECOUNT_STRIDES {
            let from = after(book.counts.by_kind_to).max(first_shown(now).to_string());
            let range = (&*from, &*last.to_string());
            let stride = self.at_once(STRIDE);
            let items = self.store.range(&partition, range, Order::OldestFirst, stride).await?;
            let is_last = items.len() < stride;
            let mut outdated = Vec::new();
            for item in items {
                let id = text(&item, "sk").and_then(|sort| sort.parse::<DeliveryId>().ok());
                let entry = text(&item, "list_pk").zip(text(&item, "list_sk"));
                match from_item::<Delivery>(item) {
                    Ok(delivery) => {
                        let in_list = entry.as_ref().is_some_and(|(list, _)| *list == partition);
                        if delivery.is_counted(in_list, book.counts.up_to) {
                            book.add_by_kind(delivery.id, delivery.status, delivery.kind());
                        }
                        let place = delivery.place(delivery.status).to_string();
                        if let Some((list, sort)) = entry.filter(|(_, sort)| *sort != place) {
                            outdated.push((Listed { sort, key: delivery.key() }, list, place));
                        }
                    }
                    Err(error) => tracing::error!(%error, "a delivery can't be read, and is not counted"),
                }
                book.counts.by_kind_to = id.or(book.counts.by_kind_to);
            }
            self.rename(outdated).await?;
            if is_last {
                book.counts.by_kind_to = Some(all());
                return Ok(());
            }
        }
        Ok(())
    }

    /// Gives entries of the index their present places, each in the list where it is. One that moved meanwhile is left out: it
    /// has a new place.
    async fn rename(&self, mut outdated: Vec<(Listed, String, String)>) -> Result<(), StoreError> {
        while !outdated.is_empty() {
            let some = outdated.get(..MAX_WRITES.min(outdated.len())).unwrap_or_default();
            let renamed = some.iter().map(|(entry, list, place)| {
                Write::relist(entry.clone(), list, Some((list.as_str(), place.as_str())))
            });
            match self.store.commit(renamed.collect()).await? {
                Committed::Done => drop(outdated.drain(..MAX_WRITES.min(outdated.len()))),
                Committed::Overtaken { at } => remove_at(&mut outdated, &at),
            }
        }
        Ok(())
    }

    /// Advances the checkpoint, some strides.
    async fn pass(&self, book: &mut Book, now: Timestamp) -> Result<(), StoreError> {
        let (partition, last) = (Delivery::partition(&book.counts.scope), all().to_string());
        book.counts.look_at = now.plus_seconds(NEXT_LOOK_SECONDS).ok();
        for _stride in 0..MAX_STRIDES {
            let range = (&*after(book.counts.up_to), &*last);
            let stride = self.at_once(STRIDE);
            let items = self.store.range(&partition, range, Order::OldestFirst, stride).await?;
            let is_last = items.len() < stride;
            for item in items {
                let id = text(&item, "sk").and_then(|sort| sort.parse::<DeliveryId>().ok());
                match from_item::<Delivery>(item) {
                    Ok(delivery) if book.pass(&delivery, now) => {}
                    Ok(delivery) => {
                        let is_left_behind = now.millis_since(delivery.created_at) >= LEFT_BEHIND_AFTER_MS;
                        if !(is_left_behind && self.add_to_list(&delivery).await?) {
                            return Ok(());
                        }
                        book.counts.up_to = Some(delivery.id);
                    }
                    Err(error) => {
                        tracing::error!(%error, "a delivery can't be read, and is not counted");
                        match id {
                            Some(id) if Counts::is_old(id, now) => book.counts.up_to = Some(id),
                            Some(_) | None => return Ok(()),
                        }
                    }
                }
            }
            if is_last {
                if book.counts.is_by_kind() {
                    book.counts.look_at = None;
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// Writes the counts, with those of the list that are done. `false`: another run changed them meanwhile.
    async fn folded(&self, mut book: Book, now: Timestamp) -> Result<bool, StoreError> {
        let look_at = book.counts.look_at;
        for _fold in 0..MAX_FOLDS {
            let (entries, is_last) = self.done_entries(&book.counts.scope).await?;
            book.counts.look_at = if is_last { look_at } else { now.plus_seconds(NEXT_LOOK_SECONDS).ok() };
            match self.fold(&book, entries, now).await? {
                Some(folded) => book = folded,
                None => return Ok(false),
            }
            if is_last {
                return Ok(true);
            }
        }
        Ok(true)
    }

    /// Some entries of the list whose deliveries are done, and whether they are all.
    async fn done_entries(&self, scope: &Scope) -> Result<(Vec<DoneEntry>, bool), StoreError> {
        let list = Delivery::partition(scope);
        let mut entries: Vec<DoneEntry> = Vec::new();
        for status in ENDS {
            let (from, to) = bounds(Some(status), DeliveryId::first_at(Timestamp::MIN));
            let (range, room) = ((&*from, &*to), FOLDED_AT_ONCE.saturating_sub(entries.len()));
            let some = self.store.list(ListIndex::All, &list, range, Order::OldestFirst, room).await?;
            entries.extend(
                some.into_iter()
                    .filter_map(|listed| Some(DoneEntry { place: Place::parse(&listed.sort)?, listed })),
            );
        }
        let is_last = entries.len() < FOLDED_AT_ONCE;
        for entry in entries.iter_mut().filter(|entry| entry.place.kind.is_none()) {
            // An earlier version wrote the entry.
            let row: Option<Delivery> = self.store.get(&entry.listed.key).await?;
            entry.place.kind = row.map(|row| row.kind());
        }
        Ok((entries, is_last))
    }

    /// Writes the counts with these entries added, which leave the list in the same transaction. What it has no room for, the
    /// next one takes. `None`: another run changed the counts.
    async fn fold(
        &self,
        book: &Book,
        mut entries: Vec<DoneEntry>,
        now: Timestamp,
    ) -> Result<Option<Book>, StoreError> {
        let scope = &book.counts.scope;
        let (list, done) = (Delivery::partition(scope), Delivery::done_partition(scope));
        loop {
            let (mut next, mut writes) = (book.clone(), Vec::new());
            for DoneEntry { listed, place } in &entries {
                if !next.has_room(Day::of(timestamp_of(place.id)), writes.len()) {
                    next.counts.look_at = now.plus_seconds(NEXT_LOOK_SECONDS).ok();
                    break;
                }
                let there = place.to_string();
                let to = (place.status != DeliveryStatus::Delivered).then_some((&*done, &*there));
                writes.push(Write::relist(listed.clone(), &list, to));
                next.add(place.id, place.status, place.kind);
            }
            let folded = writes.len();
            writes.extend(next.written(now)?);
            match self.store.commit(writes).await? {
                Committed::Done => return Ok(Some(next)),
                Committed::Overtaken { at } if at.iter().any(|place| *place >= folded) => return Ok(None),
                // The index is a moment behind: those are no longer there.
                Committed::Overtaken { at } => remove_at(&mut entries, &at),
            }
        }
    }
}

impl Delivery {
    /// Whether the scope's numbers have it. `in_list`: whether its row is in the list of its scope.
    pub(super) fn is_counted(&self, in_list: bool, up_to: Option<DeliveryId>) -> bool {
        if self.listed {
            ENDS.contains(&self.status) && !in_list
        } else {
            self.is_delivered() && Some(self.id) <= up_to
        }
    }
}

pub(super) fn remove_at<T>(entries: &mut Vec<T>, at: &[usize]) {
    let mut places = 0..;
    entries.retain(|_| places.next().is_none_or(|place: usize| !at.contains(&place)));
}

/// The first sort key after a delivery's.
pub(super) fn after(id: Option<DeliveryId>) -> String {
    // Ids are of one length, and '!' sorts before all that they are made of.
    id.map_or_else(|| DeliveryId::first_at(Timestamp::MIN).to_string(), |id| format!("{id}!"))
}
