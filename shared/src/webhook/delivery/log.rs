//! The log of a scope's deliveries: the index `log`, sorted by id.
//!
//! An entry's sort key ([`LogKey`]) has all that lists are filtered by, except the status. So deliveries are
//! filtered and counted by their entries, and only the rows of a page are read. The entry is written with the row
//! and never changes, so it costs one write unit for each delivery. Each shard of the account has a partition of
//! the log. Readers merge the shards by id.
//!
//! The index is eventually consistent: an entry appears some moments after its row. The checkpoint must not
//! pass an entry that does not appear yet. It passes an id after 210 s, and an unlisted row is inserted at most
//! 150 s after the time in its id. So the index may be a minute behind its table.

use std::collections::{BTreeSet, HashMap};

use domain::ids::{DeliveryId, EventId, Scope};
use domain::row::Key;
use domain::shard::ShardedScope;
use domain::time::Timestamp;

use super::list_key::LogKey;
use super::page::FoundDelivery;
use super::reader::parse_or_log;
use super::{Deliveries, Delivery};
use crate::account::Accounts;
use crate::store::{Item, ListEntry, ListIndex, Order, StoreError, from_item, key_of_item};
use crate::webhook::event::Event;

/// The number of entries that one request can always read, here and in the index `list`. DynamoDB reads 1 MB
/// a request, and an entry has less than 300 bytes.
pub(super) const ENTRIES_PER_QUERY: usize = 3_000;

/// The most deliveries whose rows are read at once, by 20 concurrent requests.
const ROWS_AT_ONCE: usize = 2_000;

/// If at most this many rows are read, the events of these deliveries are read with them. A page that needs
/// the statuses of its candidates then takes no further request for its bodies.
const ROWS_WITH_EVENTS: usize = 150;

/// The most entries that are read to find the deliveries of some events.
const ENTRIES_OF_EVENTS: usize = 15_000;

/// The most seconds by which the clock of a requester is ahead.
const CLOCK_SKEW_SECONDS: i64 = 60;

/// A range of ids, both ends included.
pub(super) type IdRange = (DeliveryId, DeliveryId);

/// Returns the range of the ids after this one; `None`: of all ids.
pub(super) fn after(id: Option<DeliveryId>) -> IdRange {
    let first = DeliveryId::first_at(Timestamp::MIN);
    (id.map_or(first, DeliveryId::next), DeliveryId::last_at(Timestamp::MAX))
}

/// Returns the sort keys of a range in the log. '~' sorts after all characters that follow an id.
fn sort_keys((from, to): IdRange) -> (String, String) {
    (from.to_string(), format!("{to}~"))
}

/// Deliveries that were read from the log.
#[derive(Default)]
pub(super) struct LogPage {
    pub(super) found: Vec<FoundDelivery>,
    /// The last id that was read; `None`: the whole range was read.
    pub(super) read_to: Option<DeliveryId>,
}

/// Events that were read for the bodies of a page. `None`: the event has expired.
pub(super) type Events = HashMap<EventId, Option<Event>>;

impl Deliveries {
    /// Reads up to `limit` entries of the log. Takes one request for [`ENTRIES_PER_QUERY`] entries of a shard.
    pub(super) async fn log(
        &self,
        scope: &ShardedScope,
        range: IdRange,
        order: Order,
        limit: usize,
    ) -> Result<LogPage, StoreError> {
        if is_empty(range) {
            return Ok(LogPage::default());
        }
        let (from, to) = sort_keys(range);
        let (limit, partitions) = (self.at_once(limit).max(1), scope.partitions(Delivery::log_partition));
        let entries =
            self.store.list_of_each(ListIndex::Log, &partitions, (&from, &to), order, limit).await?;
        let is_cut = entries.len() >= limit;
        let found: Vec<FoundDelivery> = entries.into_iter().filter_map(FoundDelivery::of_log_entry).collect();
        let read_to = found.last().filter(|_| is_cut).map(|found| found.id);
        Ok(LogPage { found, read_to })
    }

    /// Reads the deliveries of a range, with their rows, oldest first. Returns them and the last id that was
    /// read; `None`: the whole range was read. Deliveries whose rows have expired are omitted.
    pub(in crate::webhook) async fn rows(
        &self,
        scope: &ShardedScope,
        range: IdRange,
    ) -> Result<(Vec<Delivery>, Option<DeliveryId>), StoreError> {
        let LogPage { found, read_to } = self.log(scope, range, Order::OldestFirst, ROWS_AT_ONCE).await?;
        let found = self.with_rows(&scope.scope, found, None).await?;
        Ok((found.into_iter().filter_map(|found| Some(*found.row?)).collect(), read_to))
    }

    /// Returns the deliveries of these events (ids of their rows), oldest first, as the API shows them. The log is
    /// read from the first event up to a bound. Of later events, only the first deliveries are returned. The
    /// second value is the time from which this was so; `None`: all deliveries are returned.
    pub async fn of_events(
        &self,
        scope: &ShardedScope,
        events: &BTreeSet<EventId>,
        now: Timestamp,
    ) -> Result<(Vec<Delivery>, Option<Timestamp>), StoreError> {
        let Some(first) = events.first().and_then(EventId::timestamp) else { return Ok((Vec::new(), None)) };
        // A resend's time is that of the requester's clock, which may be ahead.
        let range = (
            DeliveryId::first_at(first),
            DeliveryId::last_at(now.saturating_plus_seconds(CLOCK_SKEW_SECONDS)),
        );
        let page = self.log(scope, range, Order::OldestFirst, ENTRIES_OF_EVENTS).await?;
        let (mut found, read_to) = (page.found, page.read_to.and_then(|id| id.timestamp()));
        for at in
            events.iter().filter_map(EventId::timestamp).filter(|at| read_to.is_some_and(|to| *at >= to))
        {
            let range = (DeliveryId::first_at(at), DeliveryId::last_at(at));
            found.extend(self.log(scope, range, Order::OldestFirst, ENTRIES_PER_QUERY).await?.found);
        }
        found.retain(|found| events.contains(&found.event));
        found.sort_by_key(|found| found.id);
        found.dedup_by_key(|found| found.id);
        let mut deliveries = Vec::new();
        for row in self.with_rows(&scope.scope, found, None).await?.into_iter().filter_map(|found| found.row)
        {
            deliveries.push(Box::pin(self.with_effective_status(*row)).await?.0);
        }
        Ok((deliveries, read_to))
    }

    /// Returns a scope with the number of shards in its account's row. Requests use the number in the row of
    /// their API key instead.
    pub(super) async fn sharded(&self, scope: &Scope) -> Result<ShardedScope, StoreError> {
        Accounts::new(self.store.clone()).sharded_scope(scope).await
    }

    /// Reads the rows of those deliveries of which only an entry was read. Returns the deliveries in the same
    /// order, without those whose rows have expired or can't be read. Adds their events to `events`, if given, when
    /// there are few.
    pub(super) async fn with_rows(
        &self,
        scope: &Scope,
        mut found: Vec<FoundDelivery>,
        events: Option<&mut Events>,
    ) -> Result<Vec<FoundDelivery>, StoreError> {
        let missing: Vec<&FoundDelivery> = found.iter().filter(|found| found.row.is_none()).collect();
        let mut keys: Vec<_> = missing.iter().map(|found| found.key.clone()).collect();
        let (mut rows, mut no_events) = (HashMap::new(), Events::new());
        let reads_events = events.is_some() && keys.len() <= ROWS_WITH_EVENTS;
        let events = events.unwrap_or(&mut no_events);
        if reads_events {
            keys.extend(event_keys(scope, missing.iter().copied()));
            for found in &missing {
                events.entry(found.event).or_insert(None);
            }
        }
        for some in keys.chunks(ROWS_AT_ONCE) {
            for item in self.store.batch_get(some).await? {
                sort_in(item, &mut rows, events);
            }
        }
        found.retain_mut(|found| {
            if found.row.is_none()
                && let Some(row) = rows.remove(&found.id)
            {
                *found = row;
            }
            found.row.is_some()
        });
        Ok(found)
    }
}

/// Whether a range contains no id. A query refuses such a range.
fn is_empty((from, to): IdRange) -> bool {
    from > to
}

/// Returns the keys of the rows of the deliveries' events, each once.
pub(super) fn event_keys<'a>(scope: &Scope, found: impl Iterator<Item = &'a FoundDelivery>) -> Vec<Key> {
    let mut keys: Vec<Key> = found.map(|found| found.event_key(scope)).collect();
    keys.sort_by(|left, right| left.sk.cmp(&right.sk));
    keys.dedup();
    keys
}

/// Adds an item to the deliveries or to the events.
pub(super) fn sort_in(item: Item, rows: &mut HashMap<DeliveryId, FoundDelivery>, events: &mut Events) {
    if key_of_item(&item).as_ref().is_some_and(Delivery::is_at) {
        rows.extend(FoundDelivery::of_item(item).map(|found| (found.id, found)));
        return;
    }
    // An event that can't be read must not hide the other deliveries of the page.
    match from_item::<Event>(item) {
        Ok(event) => drop(events.insert(event.id, Some(event))),
        Err(error) => tracing::error!(%error, "can't read an event; no payload is shown"),
    }
}

impl FoundDelivery {
    /// Returns the delivery of an entry in the log. Its status is in its row.
    fn of_log_entry(entry: ListEntry) -> Option<Self> {
        Some(Self::of_entry(entry.key, LogKey::parse(&entry.sort)?, None))
    }

    /// Returns the delivery of a row. Logs an error and returns `None` if the row can't be read.
    pub(super) fn of_item(item: Item) -> Option<Self> {
        parse_or_log(item).map(Self::of_row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(millis: i64) -> DeliveryId {
        DeliveryId::first_at(Timestamp::from_millis(millis).unwrap())
    }

    #[test]
    fn a_range_contains_the_entries_of_both_its_ends() {
        let (from, to) = sort_keys((id(5), id(7)));
        let contains = |sort: &str| *from <= *sort && *sort <= *to;
        for (millis, is_in) in [(4, false), (5, true), (7, true), (8, false)] {
            assert_eq!(contains(&format!("{}#evt_1#charge.paid#-", id(millis))), is_in);
        }
        let (first, _) = sort_keys(after(Some(id(5))));
        assert!(first > format!("{}#evt_1#charge.paid#-", id(5)));
    }

    #[test]
    fn a_range_from_an_id_to_itself_is_not_empty() {
        assert!(!is_empty((id(5), id(6))) && !is_empty((id(5), id(5))) && is_empty((id(6), id(5))));
    }
}
