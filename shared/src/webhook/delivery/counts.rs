//! How many deliveries there are, without a write for each.
//!
//! A delivery that is made at its first attempt never changes again. So those need no counter at every change: one row a
//! scope says how many there were on each day up to a place in the order of ids, and whoever asks counts those behind
//! that place. `clock` moves the place on, in strides; a row is read once for that, which costs a tenth of what a write
//! would. Every other delivery is listed by its status, and is counted there ([`Delivery::listed`]) until it is done; then
//! `clock` takes it out of that list and adds it to the day's numbers, in one transaction.
//!
//! The sum is exact, for each delivery is in one place: it is passed only when it is delivered, or listed; and one that comes
//! so late that its place was passed is listed from its birth.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};

use super::list::bounds;
use super::{Deliveries, Delivery, DeliveryStatus};
use crate::ids::{DeliveryId, Scope};
use crate::rollup::Day;
use crate::store::{
    Committed, Indexes, Key, ListIndex, Listed, Order, Row, StoreError, Write, due_attributes, from_item,
    text, update_in_turn,
};
use crate::time::Timestamp;

/// How old a delivery is before its place is passed, in milliseconds: a minute more than what is listed from its birth
/// for coming late, which no insert takes.
const PASSED_AFTER_MS: i64 = 210_000;

/// How old one that can't be passed is before it is listed after all, in milliseconds. `clock` lists what takes long before
/// that; what is left are rows of a version that did not list them.
const LEFT_BEHIND_AFTER_MS: i64 = 600_000;

/// When those that could not be passed are looked at again, in seconds.
const NEXT_LOOK_SECONDS: i64 = 60;

/// Rows that are read at once, and how often in one go, whose end is written: the rest comes a minute later.
const STRIDE: usize = 2_000;
const MAX_STRIDES: usize = 10;

/// How often a count is begun again because somebody else changed its row.
const MAX_TRIES: usize = 3;

/// Deliveries that leave the list in one transaction, which has 100 rows at most; and how many of those in one go.
const FOLDED_AT_ONCE: usize = 90;
const MAX_FOLDS: usize = 20;

/// Days before today that are shown and counted.
const DAYS_SHOWN: u64 = 90;

/// Sorts after every delivery's id, so that a query of the newest deliveries begins with it.
pub(super) const SORT: &str = "~counts";

/// A scope's count.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Counts {
    scope: Scope,
    /// The place up to which they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) up_to: Option<DeliveryId>,
    /// What became of those that are done, by the day in their ids.
    #[serde(default)]
    days: BTreeMap<Day, Done>,
    /// When `clock` looks again; `None`: nothing is left to count.
    #[serde(default, with = "crate::time::millis_option", skip_serializing_if = "Option::is_none")]
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
    fn ended(self, status: DeliveryStatus) -> u64 {
        let mut done = self;
        done.of(status).map_or(0, |count| *count)
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

impl Row for Counts {
    fn key(&self) -> Key {
        key_of(&self.scope)
    }

    fn indexes(&self) -> Indexes {
        Indexes { due: self.look_at, ..Indexes::default() }
    }
}

pub(super) fn key_of(scope: &Scope) -> Key {
    Key { pk: Delivery::partition(scope), sk: SORT.to_owned() }
}

/// Whose count a row of the state table is, if it is one.
pub fn scope_of(key: &Key) -> Option<Scope> {
    let scope = key.pk.strip_prefix("deliveries#").filter(|_| key.sk == SORT)?;
    scope.parse().ok()
}

impl Counts {
    pub(super) fn none(scope: Scope) -> Self {
        Self { scope, up_to: None, days: BTreeMap::new(), look_at: None, version: 0 }
    }

    /// Deliveries that ended so, of the days that are shown.
    pub(super) fn ended(&self, status: DeliveryStatus, now: Timestamp) -> u64 {
        let shown = self.days.range(first_day(now)..);
        shown.fold(0, |sum, (_, done)| sum.saturating_add(done.ended(status)))
    }

    /// Those that ended so, or at all.
    pub(super) fn of(&self, status: Option<DeliveryStatus>, now: Timestamp) -> u64 {
        let ends = ENDS.into_iter().filter(|end| status.is_none_or(|status| status == *end));
        ends.fold(0, |sum, end| sum.saturating_add(self.ended(end, now)))
    }

    fn add(&mut self, id: DeliveryId, status: DeliveryStatus) {
        let day = Day::of(id.timestamp().unwrap_or(Timestamp::MIN));
        if let Some(count) = self.days.entry(day).or_default().of(status) {
            *count = count.saturating_add(1);
        }
    }

    /// Whether the place of an id can be passed by now.
    fn is_old(id: DeliveryId, now: Timestamp) -> bool {
        now.millis_since(id.timestamp().unwrap_or(Timestamp::MIN)) >= PASSED_AFTER_MS
    }

    /// Passes a delivery that follows; `false`: it can't be passed yet.
    fn pass(&mut self, delivery: &Delivery, now: Timestamp) -> bool {
        if !Self::is_old(delivery.id, now) || !(delivery.listed || delivery.is_delivered()) {
            return false;
        }
        if !delivery.listed {
            self.add(delivery.id, delivery.status);
        }
        self.up_to = Some(delivery.id);
        true
    }
}

fn first_day(now: Timestamp) -> Day {
    Day::of(now).back(DAYS_SHOWN)
}

/// Not after any delivery that is shown.
pub(in crate::webhook) fn first_shown(now: Timestamp) -> DeliveryId {
    DeliveryId::first_at(first_day(now).starts_at())
}

impl Deliveries {
    /// Has `clock` count a scope's deliveries soon: when one in some dozens is made, whatever the others do.
    pub async fn count_soon(&self, scope: &Scope, now: Timestamp) -> Result<(), StoreError> {
        let key = key_of(scope);
        let at = now.plus_millis(PASSED_AFTER_MS).unwrap_or(Timestamp::MAX);
        let [(_, shard), (_, sort)] = due_attributes(&key, at);
        let update = self.store.client().update_item().table_name(self.store.table());
        let update = update
            .set_key(Some(key.attributes()))
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
        // Refused: it is to be counted anyway.
        update_in_turn(update).await.map(|_set_now_or_before| ())
    }

    /// Counts a scope's deliveries as far as they can be passed, and says in the row when to go on.
    pub async fn count(&self, scope: &Scope, now: Timestamp) -> Result<(), StoreError> {
        for _try in 0..MAX_TRIES {
            let before: Option<Counts> = self.store.get(&key_of(scope)).await?;
            let version = before.as_ref().map(|before| before.version);
            let counts = self.counted_on(before.unwrap_or(Counts::none(*scope)), now).await?;
            if self.folded(counts, version, now).await? {
                return Ok(());
            }
        }
        Err(StoreError::Unavailable("the count of deliveries changes all the time".to_owned()))
    }

    async fn counted_on(&self, mut counts: Counts, now: Timestamp) -> Result<Counts, StoreError> {
        let (partition, last) = (Delivery::partition(&counts.scope), DeliveryId::last_at(Timestamp::MAX));
        counts.look_at = now.plus_seconds(NEXT_LOOK_SECONDS).ok();
        counts.days = counts.days.split_off(&first_day(now));
        for _stride in 0..MAX_STRIDES {
            let range = (&*after(counts.up_to), &*last.to_string());
            let items = self.store.range(&partition, range, Order::OldestFirst, STRIDE).await?;
            let is_last = items.len() < STRIDE;
            for item in items {
                let id = text(&item, "sk").and_then(|sort| sort.parse::<DeliveryId>().ok());
                match from_item::<Delivery>(item) {
                    Ok(delivery) if counts.pass(&delivery, now) => {}
                    Ok(delivery) => {
                        let is_left_behind = now.millis_since(delivery.created_at) >= LEFT_BEHIND_AFTER_MS;
                        if !(is_left_behind && self.enlist(&delivery).await?) {
                            return Ok(counts);
                        }
                        counts.up_to = Some(delivery.id);
                    }
                    Err(error) => {
                        tracing::error!(%error, "a delivery can't be read, and is not counted");
                        match id {
                            Some(id) if Counts::is_old(id, now) => counts.up_to = Some(id),
                            Some(_) | None => return Ok(counts),
                        }
                    }
                }
            }
            if is_last {
                counts.look_at = None;
                return Ok(counts);
            }
        }
        Ok(counts)
    }

    /// Writes the counts, with those of the list that are done. `version`: of the row that is there. `false`: somebody else
    /// changed it.
    async fn folded(
        &self,
        mut counts: Counts,
        mut version: Option<u64>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let look_at = counts.look_at;
        for _fold in 0..MAX_FOLDS {
            let (entries, is_last) = self.done_entries(&counts.scope).await?;
            counts.look_at = if is_last { look_at } else { now.plus_seconds(NEXT_LOOK_SECONDS).ok() };
            let Some(written) = self.fold(&counts, version, entries).await? else { return Ok(false) };
            if is_last {
                return Ok(true);
            }
            (version, counts) = (Some(written.version), written);
        }
        Ok(true)
    }

    /// Some entries of the list whose deliveries are done, and whether they are all.
    async fn done_entries(&self, scope: &Scope) -> Result<(Vec<(DeliveryStatus, Listed)>, bool), StoreError> {
        let list = Delivery::partition(scope);
        let mut entries: Vec<(DeliveryStatus, Listed)> = Vec::new();
        for status in ENDS {
            let (from, to) = bounds(Some(status), DeliveryId::first_at(Timestamp::MIN));
            let (range, room) = ((&*from, &*to), FOLDED_AT_ONCE.saturating_sub(entries.len()));
            let some = self.store.list(ListIndex::All, &list, range, Order::OldestFirst, room).await?;
            entries.extend(some.into_iter().map(|entry| (status, entry)));
        }
        let is_last = entries.len() < FOLDED_AT_ONCE;
        Ok((entries, is_last))
    }

    /// Writes the counts with these entries added, which leave the list in the same transaction. `None`: somebody else
    /// changed the counts.
    async fn fold(
        &self,
        counts: &Counts,
        version: Option<u64>,
        mut entries: Vec<(DeliveryStatus, Listed)>,
    ) -> Result<Option<Counts>, StoreError> {
        let (list, done) = (Delivery::partition(&counts.scope), Delivery::done_partition(&counts.scope));
        loop {
            let mut next =
                Counts { version: version.unwrap_or_default().saturating_add(1), ..counts.clone() };
            let mut writes = Vec::new();
            for (status, entry) in &entries {
                let to = (*status != DeliveryStatus::Delivered).then_some(done.as_str());
                writes.push(Write::relist(entry.clone(), &list, to));
                if let Ok(id) = entry.key.sk.parse() {
                    next.add(id, *status);
                }
            }
            writes.push(match version {
                Some(version) => Write::replace(&next, version)?,
                None => Write::insert(&next)?,
            });
            match self.store.commit(writes).await? {
                Committed::Done => return Ok(Some(next)),
                Committed::Overtaken { at } if at.contains(&entries.len()) => return Ok(None),
                // The index is a moment behind: those are no longer there.
                Committed::Overtaken { at } => {
                    let mut places = 0..;
                    entries.retain(|_| places.next().is_none_or(|place: usize| !at.contains(&place)));
                }
            }
        }
    }
}

/// The first sort key after a delivery's.
pub(super) fn after(id: Option<DeliveryId>) -> String {
    // Ids are of one length, and '!' sorts before all that they are made of.
    id.map_or_else(|| DeliveryId::first_at(Timestamp::MIN).to_string(), |id| format!("{id}!"))
}
