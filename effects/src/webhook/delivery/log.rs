//! The log of a scope's deliveries: the index `log`, sorted by id and therefore by time.
//!
//! The entry of a delivery is written with its row and never changes, so it costs one write unit. Each shard of the
//! account has a partition of the log. Readers merge the shards by id.
//!
//! The index is eventually consistent: an entry appears some moments after its row. The checkpoint must not
//! pass an entry that does not appear yet. It passes an id after 210 s, and a row that it counts is inserted at most
//! 150 s after the time in its id. So the index may be a minute behind its table.

use futures_util::future::try_join_all;

use domain::ids::{DeliveryId, Scope};
use domain::row::Key;
use domain::shard::ShardedScope;

use super::entry::Entry;
use super::rows::Rows;
use super::{Deliveries, Delivery};
use shared::store::{ListIndex, Order, StoreError};

/// The number of entries that one request can always read, here and in the index `list`. DynamoDB reads 1 MB
/// a request, and an entry has less than 300 bytes.
pub(super) const ENTRIES_PER_QUERY: usize = 3_300;

/// The fewest entries that are read of each shard, unless fewer are wanted.
const ENTRIES_OF_SHARD: usize = 200;

/// A range of ids, both ends included.
pub(super) type IdRange = (DeliveryId, DeliveryId);

/// Returns the range of sort keys of a range of ids. '~' sorts after all characters that follow an id.
pub(super) fn sort_keys((from, to): IdRange) -> (String, String) {
    (from.to_string(), format!("{to}~"))
}

#[derive(Debug, Default)]
pub(super) struct LogPage {
    pub(super) entries: Vec<Entry>,
    /// The last id that was read; `None`: the whole range was read.
    pub(super) read_to: Option<DeliveryId>,
}

impl Deliveries {
    pub(super) async fn log(
        &self,
        scope: &ShardedScope,
        range: IdRange,
        order: Order,
        limit: usize,
    ) -> Result<LogPage, StoreError> {
        let (from, to) = sort_keys(range);
        self.entries(scope, (&from, &to), order, limit).await
    }

    /// Reads about `limit` entries within a range of sort keys, at least those of [`ENTRIES_OF_SHARD`] if there are
    /// more. Takes one request a shard for [`ENTRIES_PER_QUERY`] entries.
    pub(super) async fn entries(
        &self,
        scope: &ShardedScope,
        range: (&str, &str),
        order: Order,
        limit: usize,
    ) -> Result<LogPage, StoreError> {
        let partitions = scope.partitions(Delivery::log_partition);
        let of_shard = limit.checked_div(partitions.len()).unwrap_or(limit).max(limit.min(ENTRIES_OF_SHARD));
        let of_shard = self.at_once(of_shard).max(1);
        let reads = partitions
            .iter()
            .map(|partition| self.store.list(ListIndex::Log, partition, range, order, of_shard));
        let of_shards = try_join_all(reads).await?;
        let is_before = |left: DeliveryId, right: DeliveryId| match order {
            Order::OldestFirst => left < right,
            Order::NewestFirst => left > right,
        };
        // A shard with more entries is read up to its last one here. Entries after that must wait.
        let incomplete = of_shards.iter().filter(|entries| entries.len() >= of_shard);
        let ends = incomplete.filter_map(|entries| entries.iter().rev().find_map(Entry::of));
        let read_to =
            ends.map(|entry| entry.id).reduce(|one, other| if is_before(one, other) { one } else { other });
        let mut entries: Vec<Entry> = of_shards.iter().flatten().filter_map(Entry::of).collect();
        entries.retain(|entry| read_to.is_none_or(|read_to| !is_before(read_to, entry.id)));
        entries.sort_by_key(|entry| entry.id);
        if order == Order::NewestFirst {
            entries.reverse();
        }
        Ok(LogPage { entries, read_to })
    }
}

pub(super) fn rows_of(scope: &Scope, entry: &Entry) -> Vec<Key> {
    entry.keys(scope).into_iter().chain(Rows::receiver_keys(scope, entry.endpoint)).collect()
}
