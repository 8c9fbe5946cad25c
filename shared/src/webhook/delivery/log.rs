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
//!
//! # Rows of an earlier version
//!
//! An earlier version wrote all deliveries of a scope into one partition, without entries in the log. Readers
//! read these rows too, and merge them with the log by id. For a scope without such rows, a reader of lists
//! finds that out together with the counts, which are in the same partition.

use std::collections::{BTreeSet, HashMap, HashSet};

use domain::ids::{DeliveryId, EventId, Scope};
use domain::row::Key;
use domain::shard::ShardedScope;
use domain::time::Timestamp;

use super::list_key::LogKey;
use super::page::FoundDelivery;
use super::reader::parse_or_log;
use super::{Deliveries, Delivery};
use crate::account::Accounts;
use crate::store::{Item, ListEntry, ListIndex, Order, StoreError, from_item, key_of_item, text};
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

/// Returns the sort keys of a range, in the log and in the partition of earlier versions. '~' sorts after all
/// characters that follow an id.
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

impl LogPage {
    /// Returns the deliveries of rows of an earlier version. `is_cut`: there may be further rows after these.
    pub(super) fn of_former(rows: Vec<Item>, is_cut: bool) -> Self {
        let last = rows.last().and_then(|row| text(row, "sk")).and_then(|sort| sort.parse().ok());
        let read_to = last.filter(|_| is_cut);
        Self { found: rows.into_iter().filter_map(FoundDelivery::of_item).collect(), read_to }
    }

    /// Returns the deliveries of two pages that were read in the same order and range. The page ends where the
    /// shorter one ends.
    pub(super) fn merged(mut self, other: Self, order: Order) -> Self {
        let read_to = match (self.read_to, other.read_to) {
            (Some(one), Some(other)) => {
                Some(if order == Order::OldestFirst { one.min(other) } else { one.max(other) })
            }
            (one, other) => one.or(other),
        };
        self.found.extend(other.found);
        match order {
            Order::OldestFirst => self.found.sort_by_key(|found| found.id),
            Order::NewestFirst => self.found.sort_by_key(|found| std::cmp::Reverse(found.id)),
        }
        self.found.retain(|found| {
            read_to.is_none_or(|to| if order == Order::OldestFirst { found.id <= to } else { found.id >= to })
        });
        Self { found: self.found, read_to }
    }
}

/// Events that were read for the bodies of a page. `None`: the event has expired.
pub(super) type Events = HashMap<EventId, Option<Event>>;

impl Deliveries {
    /// Reads up to `limit` entries of the log. `with_former`: also reads the rows of earlier versions. Each
    /// takes one request for [`ENTRIES_PER_QUERY`] entries of a shard or 1 MB of rows.
    pub(super) async fn log(
        &self,
        scope: &ShardedScope,
        range: IdRange,
        order: Order,
        limit: usize,
        with_former: bool,
    ) -> Result<LogPage, StoreError> {
        if is_empty(range) {
            return Ok(LogPage::default());
        }
        let (from, to) = sort_keys(range);
        let (limit, partitions) = (self.at_once(limit).max(1), scope.partitions(Delivery::log_partition));
        let former = async {
            if with_former {
                self.former(&scope.scope, range, order, limit).await
            } else {
                Ok(LogPage::default())
            }
        };
        let entries = self.store.list_of_each(ListIndex::Log, &partitions, (&from, &to), order, limit);
        let (entries, former) = tokio::try_join!(Box::pin(entries), Box::pin(former))?;
        let is_cut = entries.len() >= limit;
        let found: Vec<FoundDelivery> = entries.into_iter().filter_map(FoundDelivery::of_log_entry).collect();
        let read_to = found.last().filter(|_| is_cut).map(|found| found.id);
        Ok(LogPage { found, read_to }.merged(former, order))
    }

    /// Reads rows of earlier versions.
    async fn former(
        &self,
        scope: &Scope,
        range: IdRange,
        order: Order,
        limit: usize,
    ) -> Result<LogPage, StoreError> {
        let ((from, to), partition) = (sort_keys(range), Delivery::partition(scope));
        let items = self.store.range(&partition, (&from, &to), order, limit).await?;
        let is_cut = items.len() >= limit;
        Ok(LogPage::of_former(items, is_cut))
    }

    /// Reads the deliveries of a range, with their rows, oldest first. Returns them and the last id that was
    /// read; `None`: the whole range was read. Deliveries whose rows have expired are omitted.
    pub(in crate::webhook) async fn rows(
        &self,
        scope: &ShardedScope,
        range: IdRange,
    ) -> Result<(Vec<Delivery>, Option<DeliveryId>), StoreError> {
        let LogPage { found, read_to } =
            self.log(scope, range, Order::OldestFirst, ROWS_AT_ONCE, true).await?;
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
        let page = self.log(scope, range, Order::OldestFirst, ENTRIES_OF_EVENTS, false).await?;
        let (mut found, read_to) = (page.found, page.read_to.and_then(|id| id.timestamp()));
        for at in
            events.iter().filter_map(EventId::timestamp).filter(|at| read_to.is_some_and(|to| *at >= to))
        {
            let range = (DeliveryId::first_at(at), DeliveryId::last_at(at));
            found.extend(self.log(scope, range, Order::OldestFirst, ENTRIES_PER_QUERY, false).await?.found);
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

    /// Returns the deliveries without those that an earlier version has inserted already. For the deliveries of
    /// an event that existed before, so that a replayed change creates no second delivery.
    pub async fn without_former(&self, deliveries: Vec<Delivery>) -> Result<Vec<Delivery>, StoreError> {
        let keys: Vec<_> = deliveries.iter().map(|one| Delivery::former_key_of(&one.scope, one.id)).collect();
        let found = self.store.batch_get(&keys).await?;
        let found: HashSet<_> = found.iter().filter_map(|item| text(item, "sk")).collect();
        Ok(deliveries.into_iter().filter(|one| !found.contains(&one.id.to_string())).collect())
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
        let entry = text(&item, "list_pk").zip(text(&item, "list_sk"));
        let delivery = parse_or_log(item)?;
        let list = entry.as_ref().map(|(list, _)| list.as_str());
        let in_list = delivery.listed.then(|| list == Some(&Delivery::partition(&delivery.scope)));
        Some(Self { in_list, entry, ..Self::of_row(delivery) })
    }
}

#[cfg(test)]
mod tests {
    use domain::shard::Shard;
    use domain::webhook::event_type::EventType;

    use super::super::list_key::Kind;
    use super::*;

    fn id(millis: i64) -> DeliveryId {
        DeliveryId::first_at(Timestamp::from_millis(millis).unwrap())
    }

    fn page(ids: &[i64], read_to: Option<i64>) -> LogPage {
        let entry = |millis: &i64| {
            let kind = Some(Kind { event_type: EventType::ChargePaid, endpoint: None });
            let event = EventId::first_at(Timestamp::MIN);
            let key = LogKey { id: id(*millis), event, kind, shard: Shard::FIRST };
            let row = domain::row::Key { pk: "delivery#".to_owned(), sk: id(*millis).to_string() };
            FoundDelivery::of_log_entry(ListEntry { sort: key.to_string(), key: row }).unwrap()
        };
        LogPage { found: ids.iter().map(entry).collect(), read_to: read_to.map(id) }
    }

    #[test]
    fn a_range_contains_the_entries_and_rows_of_both_its_ends() {
        let (from, to) = sort_keys((id(5), id(7)));
        let contains = |sort: &str| *from <= *sort && *sort <= *to;
        for (millis, is_in) in [(4, false), (5, true), (7, true), (8, false)] {
            let entry = page(&[millis], None).found.remove(0);
            assert_eq!(contains(&entry.key.sk), is_in);
            assert_eq!(contains(&format!("{}#evt_1#charge.paid#-", entry.id)), is_in);
        }
        let (first, _) = sort_keys(after(Some(id(5))));
        assert!(first > format!("{}#evt_1#charge.paid#-", id(5)) && first > id(5).to_string());
    }

    #[test]
    fn a_range_from_an_id_to_itself_is_not_empty() {
        assert!(!is_empty((id(5), id(6))) && !is_empty((id(5), id(5))) && is_empty((id(6), id(5))));
    }

    #[test]
    fn a_merged_page_ends_where_the_shorter_one_ends() {
        let merged = |order, one: LogPage, other: LogPage| {
            let merged = one.merged(other, order);
            (merged.found.iter().map(|found| found.id).collect::<Vec<_>>(), merged.read_to)
        };
        let ids = |millis: &[i64]| millis.iter().map(|millis| id(*millis)).collect::<Vec<_>>();
        assert_eq!(
            merged(Order::NewestFirst, page(&[9, 7, 5], Some(5)), page(&[8, 6], Some(6))),
            (ids(&[9, 8, 7, 6]), Some(id(6)))
        );
        assert_eq!(
            merged(Order::OldestFirst, page(&[1, 3], Some(3)), page(&[2, 4], None)),
            (ids(&[1, 2, 3]), Some(id(3)))
        );
        assert_eq!(merged(Order::NewestFirst, page(&[9], None), page(&[8], None)), (ids(&[9, 8]), None));
    }
}
