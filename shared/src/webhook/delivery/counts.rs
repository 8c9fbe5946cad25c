//! Counts of deliveries, without a write for each delivery. The parent module's head explains the terms.
//!
//! # Unlisted deliveries
//!
//! A delivery that succeeds at its first attempt never changes again. So the number of these deliveries is
//! stored by day in one row of the scope ([`Counts`]), up to the checkpoint, which is an id. Readers count
//! the deliveries after the checkpoint. The scheduler advances the checkpoint in strides of [`STRIDE`]
//! deliveries. For that, it reads each row once, which costs a fifth of a write.
//!
//! # Listed deliveries
//!
//! Every other delivery has an entry in the status list, which readers count. After the delivery is done and
//! the checkpoint has passed it, the scheduler removes the entry and adds the delivery to the numbers of its
//! day, in one transaction.
//!
//! # Why the sum is exact
//!
//! Each delivery is counted once. The checkpoint passes listed deliveries without counting them. If it reaches
//! a delivery that is neither delivered nor listed, the run lists the delivery first. The checkpoint may have
//! passed the id of a delivery that is inserted late. Therefore such a delivery is listed when it is inserted.
//! No delivery after the checkpoint is counted, so readers need not read the rows of these to know whether they
//! are counted.
//!
//! The checkpoint is one id for all shards of the scope. A run merges the shards by id, so it passes a delivery
//! only after all earlier ones of all shards.
//!
//! # The breakdown
//!
//! A row for each day has the same numbers by endpoint and event type ([`DayCounts`]). The scheduler writes
//! it in the same transaction as the scope's row.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use domain::calendar::Day;
use domain::ids::{DeliveryId, EndpointId, Scope};
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::row::{Indexes, Key, Row};
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;

use super::list_key::{Kind, ListKey, Marker, NO_ENDPOINT, bounds, last_key_in_status};
use super::log::{LogPage, after};
use super::{Deliveries, Delivery, DeliveryStatus, KEPT_AFTER_SHOWN_SECONDS};
use crate::checkpoint::PASSED_AFTER_MS;
use crate::store::{
    CommitOutcome, Item, ListEntry, ListIndex, Order, StoreError, Write, conditional_update, due_attributes,
    from_item, key_attributes, text,
};

/// The most deliveries that one run lists because they block the checkpoint. The next run continues. In an
/// outage of the workers, all new deliveries block it.
const MAX_LISTED: usize = 5_000;

/// The most deliveries that are listed at the same time.
const CONCURRENT_LISTINGS: usize = 16;

/// When the scheduler runs the next count, in seconds, if this one leaves deliveries uncounted.
const NEXT_COUNT_SECONDS: i64 = 60;

/// The most deliveries of one stride: one read of the log, and 20 concurrent reads of their rows.
const STRIDE: usize = 2_000;

/// The most strides by which the checkpoint advances in one run. The next run continues from the new
/// checkpoint.
const MAX_STRIDES: usize = 10;

/// The most writes of one transaction: DynamoDB's limit.
const MAX_WRITES: usize = 100;

/// The most deliveries that one transaction counts and removes from the status list. The other rows of the
/// transaction are those of the counts.
const DONE_BATCH: usize = 90;

/// The most transactions that count listed deliveries in one run.
const MAX_DONE_BATCHES: usize = 20;

/// Days before today whose deliveries are shown and counted.
const DAYS_SHOWN: u64 = 90;

/// The sort key of the scope's row. It sorts after every delivery's id, so a query from the newest rows down
/// reads the counts first. The sort keys of the day rows begin with this one.
pub(super) const SCOPE_SORT_KEY: &str = "~counts";

/// A sort key after those of all day rows.
pub(super) const LAST_DAY_SORT_KEY: &str = "~counts#~";

/// The row of a scope's counts.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Counts {
    scope: Scope,
    /// The checkpoint: all unlisted deliveries up to this id, included, are counted.
    #[serde(default, rename = "up_to", skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<DeliveryId>,
    /// Numbers of counted deliveries, by the day in their ids.
    #[serde(default)]
    days: BTreeMap<Day, DoneCounts>,
    /// How often the counts were written. [`Marker`] has the same number.
    #[serde(default)]
    writes: u64,
    /// When the counts were last written. [`Marker`] has the same time.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    written_at: Option<Timestamp>,
    /// When the scheduler counts next; `None`: no count is scheduled.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    look_at: Option<Timestamp>,
    version: u64,
}

/// Numbers of done deliveries by status. The stored names are short, because one row holds 91 days.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
struct DoneCounts {
    #[serde(rename = "d", default, skip_serializing_if = "is_zero")]
    delivered: u64,
    #[serde(rename = "f", default, skip_serializing_if = "is_zero")]
    failed: u64,
    #[serde(rename = "c", default, skip_serializing_if = "is_zero")]
    cancelled: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl DoneCounts {
    /// Returns the number in a status; `None`: in all statuses.
    fn count_of(self, status: Option<DeliveryStatus>) -> u64 {
        let statuses = DONE_STATUSES.into_iter().filter(|done| status.is_none_or(|status| status == *done));
        let mut counts = self;
        statuses
            .fold(0, |sum, status| sum.saturating_add(counts.counter_mut(status).map_or(0, |count| *count)))
    }

    fn add(&mut self, status: DeliveryStatus) {
        if let Some(count) = self.counter_mut(status) {
            *count = count.saturating_add(1);
        }
    }

    /// Returns the counter of a status; `None`: the delivery is not done.
    fn counter_mut(&mut self, status: DeliveryStatus) -> Option<&mut u64> {
        match status {
            DeliveryStatus::Delivered => Some(&mut self.delivered),
            DeliveryStatus::Failed => Some(&mut self.failed),
            DeliveryStatus::Cancelled => Some(&mut self.cancelled),
            DeliveryStatus::Pending | DeliveryStatus::Processing => None,
        }
    }
}

/// The statuses of deliveries that are done. Only these are counted.
const DONE_STATUSES: [DeliveryStatus; 3] =
    [DeliveryStatus::Delivered, DeliveryStatus::Failed, DeliveryStatus::Cancelled];

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
    Key { pk: Delivery::partition(scope), sk: SCOPE_SORT_KEY.to_owned() }
}

/// Returns the scope whose counts have this key of the state table; `None`: the key is not of a row of
/// counts.
pub fn scope_of(key: &Key) -> Option<Scope> {
    let scope = key.pk.strip_prefix("deliveries#").filter(|_| key.sk == SCOPE_SORT_KEY)?;
    scope.parse().ok()
}

impl Counts {
    pub(super) fn none(scope: Scope) -> Self {
        Self {
            scope,
            checkpoint: None,
            days: BTreeMap::new(),
            writes: 0,
            written_at: None,
            look_at: None,
            version: 0,
        }
    }

    /// Returns the marker that the index has for these counts.
    pub(super) fn marker(&self) -> Marker {
        // Counts that were never written have no entry in the index. A reader that finds no entry uses the
        // default marker, which has no time.
        Marker { writes: self.writes, at: self.written_at.filter(|_| self.writes > 0) }
    }

    /// Returns the number of counted deliveries of a day in a status; `None`: in all statuses.
    fn count_of(&self, day: Day, status: Option<DeliveryStatus>) -> u64 {
        self.days.get(&day).map_or(0, |done| done.count_of(status))
    }

    /// Whether a delivery is old enough for the checkpoint to pass it.
    fn is_old(id: DeliveryId, now: Timestamp) -> bool {
        now.millis_since(timestamp_of(id)) >= PASSED_AFTER_MS
    }
}

/// The row of a day's counts by endpoint and event type.
///
/// The row of a day expires with the day's deliveries, so a deleted endpoint's numbers expire too. An
/// endpoint with nine event types takes some 250 bytes a day; there are 21 event types. 50 such endpoints
/// take 1.2 MB on all 91 days. A filtered page then needs one more request.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct DayCounts {
    scope: Scope,
    day: Day,
    /// Numbers by endpoint (`-`: a `webhookUrl`) and event type. The keys are strings, so that event types
    /// that only a later version knows are preserved.
    done: BTreeMap<String, BTreeMap<String, DoneCounts>>,
    version: u64,
}

impl DayCounts {
    fn add(&mut self, kind: Kind, status: DeliveryStatus) {
        let endpoint = kind.endpoint.map_or_else(|| NO_ENDPOINT.to_owned(), |endpoint| endpoint.to_string());
        let by_type = self.done.entry(endpoint).or_default();
        by_type.entry(kind.event_type.as_str().to_owned()).or_default().add(status);
    }

    fn count_of(&self, criteria: &Criteria) -> u64 {
        let endpoint = criteria.endpoint.map(|endpoint| endpoint.to_string());
        let endpoints = self.done.iter().filter(|(id, _)| endpoint.as_ref().is_none_or(|one| one == *id));
        let types = endpoints.flat_map(|(_, types)| types);
        let types =
            types.filter(|(name, _)| criteria.event_type.is_none_or(|wanted| wanted.as_str() == *name));
        types.fold(0, |sum, (_, done)| sum.saturating_add(done.count_of(criteria.status)))
    }
}

impl Row for DayCounts {
    fn key(&self) -> Key {
        Key { pk: Delivery::partition(&self.scope), sk: format!("{SCOPE_SORT_KEY}#{}", self.day) }
    }

    /// The time at which the day's last deliveries expire too.
    fn removable_at(&self) -> Option<Timestamp> {
        self.day.ends_at().plus_seconds(EVENTS_KEPT_SECONDS.saturating_add(KEPT_AFTER_SHOWN_SECONDS)).ok()
    }
}

/// The filters of a list; `None`: any value matches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Criteria {
    pub(super) status: Option<DeliveryStatus>,
    pub(super) event_type: Option<EventType>,
    pub(super) endpoint: Option<EndpointId>,
}

impl Criteria {
    /// Whether counts by these filters need the breakdown.
    pub(super) fn needs_breakdown(&self) -> bool {
        self.event_type.is_some() || self.endpoint.is_some()
    }

    /// Whether a delivery with this event type and endpoint matches, whatever its status.
    pub(super) fn admits_kind(&self, kind: Kind) -> bool {
        self.event_type.is_none_or(|wanted| wanted == kind.event_type)
            && self.endpoint.is_none_or(|wanted| kind.endpoint == Some(wanted))
    }
}

/// The counts of a scope as they were read: the scope's row, and the day rows.
#[derive(Clone, Debug)]
pub(super) struct LoadedCounts {
    pub(super) counts: Counts,
    days: BTreeMap<Day, DayCounts>,
    /// Days whose rows changed since they were read or written.
    changed: BTreeSet<Day>,
    /// The stored version of the scope's row; `None`: the row does not exist.
    version: Option<u64>,
}

impl LoadedCounts {
    pub(super) fn new(scope: Scope) -> Self {
        let (days, changed) = (BTreeMap::new(), BTreeSet::new());
        Self { counts: Counts::none(scope), days, changed, version: None }
    }

    /// Adds a row that was read.
    fn add_row(&mut self, item: Item) -> Result<(), StoreError> {
        if text(&item, "sk").is_some_and(|sort| sort == SCOPE_SORT_KEY) {
            self.counts = from_item(item)?;
            self.version = Some(self.counts.version);
        } else {
            let day: DayCounts = from_item(item)?;
            self.days.insert(day.day, day);
        }
        Ok(())
    }

    /// Returns the number of counted deliveries that match, by day, from the first to the last day, both
    /// included. Criteria with an event type or endpoint need the day rows.
    pub(super) fn by_day(&self, criteria: &Criteria, (first, last): (Day, Day)) -> BTreeMap<Day, u64> {
        if first > last {
            return BTreeMap::new();
        }
        if criteria.needs_breakdown() {
            self.days.range(first..=last).map(|(day, counts)| (*day, counts.count_of(criteria))).collect()
        } else {
            let days = self.counts.days.range(first..=last);
            days.map(|(day, _)| (*day, self.counts.count_of(*day, criteria.status))).collect()
        }
    }

    /// Counts a delivery as `DELIVERED`.
    #[cfg(test)]
    pub(super) fn with_delivered(mut self, id: DeliveryId, kind: Kind) -> Self {
        self.add(id, DeliveryStatus::Delivered, kind);
        self
    }

    /// Counts a delivery that is done.
    fn add(&mut self, id: DeliveryId, status: DeliveryStatus, kind: Kind) {
        let day = Day::of(timestamp_of(id));
        self.counts.days.entry(day).or_default().add(status);
        self.day(day).add(kind, status);
        self.changed.insert(day);
    }

    fn day(&mut self, day: Day) -> &mut DayCounts {
        let scope = self.counts.scope;
        self.days.entry(day).or_insert_with(|| DayCounts { scope, day, done: BTreeMap::new(), version: 0 })
    }

    /// Advances the checkpoint over the delivery that follows it, and counts the delivery if it is unlisted.
    /// Returns `false` if the checkpoint must wait: the delivery is too new, or neither delivered nor listed.
    fn advance_past(&mut self, delivery: &Delivery, now: Timestamp) -> bool {
        if !Counts::is_old(delivery.id, now) || delivery.blocks_checkpoint(now) {
            return false;
        }
        if !delivery.listed {
            self.add(delivery.id, delivery.status, delivery.kind());
        }
        self.counts.checkpoint = Some(delivery.id);
        true
    }

    /// Whether a transaction with `rows` rows, besides those of the counts, has room for one more delivery,
    /// of this day.
    fn has_room(&self, day: Day, rows: usize) -> bool {
        let days = self.changed.len().saturating_add(usize::from(!self.changed.contains(&day)));
        // Two more: the delivery's row and the scope's row.
        rows.saturating_add(days).saturating_add(2) <= MAX_WRITES
    }

    /// Returns the writes of the changed rows of counts, for one transaction, and marks these rows as stored.
    fn take_writes(&mut self, now: Timestamp) -> Result<Vec<Write>, StoreError> {
        let mut writes = Vec::new();
        for day in std::mem::take(&mut self.changed) {
            // The same transaction checks the version of the scope's row, so no concurrent writer can change
            // this row.
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
    Day::of(now).minus_days(DAYS_SHOWN)
}

/// Returns the lowest id that lists show at this time.
pub(in crate::webhook) fn first_shown(now: Timestamp) -> DeliveryId {
    DeliveryId::first_at(first_day(now).starts_at())
}

/// The entry of a done delivery in the status list.
struct DoneEntry {
    listed: ListEntry,
    list_key: ListKey,
}

impl Deliveries {
    /// Schedules the next count of a scope, unless one is scheduled. The count runs as soon as the checkpoint
    /// can pass the deliveries that exist now.
    ///
    /// Called by the dispatcher for one new delivery in 64, and by an abandonment at the end of each pass.
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
        // A refused update means that a count is scheduled already.
        conditional_update(update).await.map(|_updated_or_refused| ())
    }

    /// Runs one count of a scope: advances the checkpoint, and counts done deliveries of the status list. Schedules the next count if something is left.
    pub async fn count(&self, scope: &Scope, now: Timestamp) -> Result<(), StoreError> {
        // A charge is created with a number of shards that is in the account's row. So each delivery that the
        // checkpoint may pass now is in one of these shards: it was inserted a minute ago or earlier.
        let sharded = self.sharded(scope).await?;
        let mut update = self.store.start_update("the count of deliveries");
        loop {
            update.next_attempt().await?;
            let mut loaded = self.load_counts(scope, true).await?;
            loaded.counts.days = loaded.counts.days.split_off(&first_day(now));
            self.advance_checkpoint(&sharded, &mut loaded, now).await?;
            if self.write_counts(loaded, now).await? {
                return Ok(());
            }
        }
    }

    /// Reads the counts of a scope, with or without the day rows.
    pub(super) async fn load_counts(
        &self,
        scope: &Scope,
        with_days: bool,
    ) -> Result<LoadedCounts, StoreError> {
        let mut loaded = LoadedCounts::new(*scope);
        let last = if with_days { LAST_DAY_SORT_KEY } else { SCOPE_SORT_KEY };
        let partition = Delivery::partition(scope);
        for item in
            self.store.range(&partition, (SCOPE_SORT_KEY, last), Order::OldestFirst, usize::MAX).await?
        {
            loaded.add_row(item)?;
        }
        Ok(loaded)
    }

    /// Lists the deliveries of a scope that the checkpoint may pass and that are not delivered. They are then
    /// also in the due index, so the scheduler sends another message for each. Writes no counts. If it can't
    /// list all of them, schedules a count, which continues.
    pub async fn list_undelivered(&self, scope: &Scope, now: Timestamp) -> Result<(), StoreError> {
        let sharded = self.sharded(scope).await?;
        let mut loaded = self.load_counts(scope, false).await?;
        if self.advance_checkpoint(&sharded, &mut loaded, now).await? {
            return Ok(());
        }
        self.schedule_counting(scope, now).await
    }

    /// Advances the checkpoint by some strides, up to the first delivery that it can't pass yet. Lists the
    /// deliveries that would block it. Returns `true` if it has passed all deliveries that are old enough.
    async fn advance_checkpoint(
        &self,
        scope: &ShardedScope,
        loaded: &mut LoadedCounts,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        loaded.counts.look_at = now.plus_seconds(NEXT_COUNT_SECONDS).ok();
        let mut left = MAX_LISTED;
        for _stride in 0..MAX_STRIDES {
            let range = after(loaded.counts.checkpoint);
            let LogPage { mut found, read_to } = self.log(scope, range, Order::OldestFirst, STRIDE).await?;
            // The rows of deliveries that are too new are not read.
            let is_blocked = found.iter().any(|found| !Counts::is_old(found.id, now));
            found.retain(|found| Counts::is_old(found.id, now));
            let last = found.last().map(|found| found.id);
            let found = self.with_rows(&scope.scope, found, None).await?;
            let mut deliveries: Vec<Delivery> =
                found.into_iter().filter_map(|found| Some(*found.row?)).collect();
            left = left.saturating_sub(self.list_blocking(&mut deliveries, left, now).await?);
            for delivery in &deliveries {
                if !loaded.advance_past(delivery, now) {
                    return Ok(false);
                }
            }
            // The rows of the last deliveries may have expired, or can't be read.
            loaded.counts.checkpoint = last.or(loaded.counts.checkpoint);
            if is_blocked {
                return Ok(true);
            }
            if read_to.is_none() {
                loaded.counts.look_at = None;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lists the first `most` of these deliveries that block the checkpoint, some of them concurrently, and
    /// replaces them by their rows afterwards. Returns their number.
    async fn list_blocking(
        &self,
        deliveries: &mut [Delivery],
        most: usize,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let blocking = deliveries.iter_mut().filter(|delivery| delivery.blocks_checkpoint(now));
        let mut blocking: Vec<&mut Delivery> = blocking.take(most).collect();
        for some in blocking.chunks_mut(CONCURRENT_LISTINGS) {
            let mut listings = JoinSet::new();
            for (index, delivery) in some.iter().enumerate() {
                let (store, delivery) = (self.clone(), (**delivery).clone());
                listings.spawn(async move { (index, store.add_to_list(delivery, now).await) });
            }
            for (index, listed) in listings.join_all().await {
                if let Some(delivery) = some.get_mut(index) {
                    **delivery = listed?;
                }
            }
        }
        Ok(blocking.len())
    }

    /// Writes the counts, and in the same transactions counts the done deliveries of the status list. Returns
    /// `false` if another run changed the counts meanwhile.
    async fn write_counts(&self, mut loaded: LoadedCounts, now: Timestamp) -> Result<bool, StoreError> {
        let look_at = loaded.counts.look_at;
        for _batch in 0..MAX_DONE_BATCHES {
            let (entries, is_last) = self.done_entries(&loaded.counts).await?;
            loaded.counts.look_at = if is_last { look_at } else { now.plus_seconds(NEXT_COUNT_SECONDS).ok() };
            match self.count_done_entries(&loaded, entries, now).await? {
                Some(written) => loaded = written,
                None => return Ok(false),
            }
            if is_last {
                return Ok(true);
            }
        }
        Ok(true)
    }

    /// Reads a batch of entries of the status list whose deliveries are done and not after the checkpoint. The
    /// flag is `true` if there are no more.
    async fn done_entries(&self, counts: &Counts) -> Result<(Vec<DoneEntry>, bool), StoreError> {
        let Some(checkpoint) = counts.checkpoint else { return Ok((Vec::new(), true)) };
        let list = Delivery::partition(&counts.scope);
        let mut entries: Vec<DoneEntry> = Vec::new();
        for status in DONE_STATUSES {
            let (from, _) = bounds(Some(status), DeliveryId::first_at(Timestamp::MIN));
            let to = last_key_in_status(status, checkpoint);
            let (range, room) = ((&*from, &*to), DONE_BATCH.saturating_sub(entries.len()));
            let some = self.store.list(ListIndex::All, &list, range, Order::OldestFirst, room).await?;
            entries
                .extend(some.into_iter().filter_map(|listed| {
                    Some(DoneEntry { list_key: ListKey::parse(&listed.sort)?, listed })
                }));
        }
        let is_last = entries.len() < DONE_BATCH;
        Ok((entries, is_last))
    }

    /// Counts the deliveries of these entries: one transaction writes the counts and removes the entries from
    /// the status list. Entries for which the transaction has no room stay in the list for the next one.
    /// Returns `None` if another run changed the counts meanwhile.
    async fn count_done_entries(
        &self,
        loaded: &LoadedCounts,
        mut entries: Vec<DoneEntry>,
        now: Timestamp,
    ) -> Result<Option<LoadedCounts>, StoreError> {
        let scope = &loaded.counts.scope;
        let (list, done) = (Delivery::partition(scope), Delivery::done_partition(scope));
        loop {
            let (mut next, mut writes) = (loaded.clone(), Vec::new());
            for DoneEntry { listed, list_key } in &entries {
                if !next.has_room(Day::of(timestamp_of(list_key.log_key.id)), writes.len()) {
                    next.counts.look_at = now.plus_seconds(NEXT_COUNT_SECONDS).ok();
                    break;
                }
                let sort_key = list_key.to_string();
                let to = (list_key.status != DeliveryStatus::Delivered).then_some((&*done, &*sort_key));
                writes.push(Write::move_list_entry(listed.clone(), &list, to));
                next.add(list_key.log_key.id, list_key.status, list_key.log_key.kind);
            }
            let removed = writes.len();
            writes.extend(next.take_writes(now)?);
            match self.store.commit(writes).await? {
                CommitOutcome::Done => return Ok(Some(next)),
                // A conflict on a row of the counts.
                CommitOutcome::Conflict { at } if at.iter().any(|index| *index >= removed) => {
                    return Ok(None);
                }
                // The index is eventually consistent: these entries have left the list already.
                CommitOutcome::Conflict { at } => remove_at(&mut entries, &at),
            }
        }
    }
}

impl Delivery {
    /// Whether the checkpoint has reached this delivery and can't pass it: it is neither delivered nor listed.
    fn blocks_checkpoint(&self, now: Timestamp) -> bool {
        Counts::is_old(self.id, now) && !(self.listed || self.is_delivered())
    }
}

/// Removes the elements with these indexes.
pub(super) fn remove_at<T>(entries: &mut Vec<T>, at: &[usize]) {
    let mut indexes = 0..;
    entries.retain(|_| indexes.next().is_none_or(|index: usize| !at.contains(&index)));
}

#[cfg(test)]
mod tests {
    use super::super::testing::delivery;
    use super::*;
    use crate::charge::testing::at;
    use crate::webhook::endpoint::testing::endpoint;

    #[test]
    fn the_checkpoint_passes_deliveries_that_are_old_and_delivered_or_listed() {
        let created = delivery(&[endpoint()], at(0));
        let (young, old) = (at(209), at(210));
        let (pending, delivered, failed) =
            (DeliveryStatus::Pending, DeliveryStatus::Delivered, DeliveryStatus::Failed);
        for (status, listed, now, is_passed, is_counted) in [
            (delivered, false, young, false, false),
            (delivered, false, old, true, true),
            (pending, false, old, false, false),
            (pending, true, old, true, false),
            (pending, true, young, false, false),
            (failed, true, old, true, false),
        ] {
            let mut loaded = LoadedCounts::new(created.scope);
            let delivery = Delivery { status, listed, ..created.clone() };
            assert_eq!(loaded.advance_past(&delivery, now), is_passed, "{status:?} {listed} {now}");
            assert_eq!(loaded.counts.checkpoint, is_passed.then_some(delivery.id));
            assert_eq!(loaded.counts.count_of(Day::of(at(0)), None), u64::from(is_counted));
            assert_eq!(
                delivery.blocks_checkpoint(now),
                now == old && !is_passed,
                "{status:?} {listed} {now}"
            );
        }
    }

    #[test]
    fn a_transaction_has_room_for_a_hundred_rows() {
        let created = delivery(&[endpoint()], at(0));
        let (day, other) = (Day::of(at(0)), Day::of(at(0)).plus_days(1));
        let mut loaded = LoadedCounts::new(created.scope);
        // Besides the rows, there are the delivery's row, the scope's row and the row of the day.
        assert_eq!([97, 98].map(|rows| loaded.has_room(day, rows)), [true, false]);
        loaded.add(created.id, DeliveryStatus::Delivered, created.kind());
        assert_eq!([97, 98].map(|rows| loaded.has_room(day, rows)), [true, false]);
        assert_eq!([96, 97].map(|rows| loaded.has_room(other, rows)), [true, false]);
    }

    #[test]
    fn the_row_of_a_day_expires_after_the_deliveries_of_the_day() {
        let created = delivery(&[endpoint()], at(0));
        let mut loaded = LoadedCounts::new(created.scope);
        let day = Day::of(at(0));
        let kept_s = EVENTS_KEPT_SECONDS + KEPT_AFTER_SHOWN_SECONDS;
        assert_eq!(loaded.day(day).removable_at(), Some(day.ends_at().plus_seconds(kept_s).unwrap()));
    }
}
