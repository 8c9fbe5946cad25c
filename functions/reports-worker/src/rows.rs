//! Reads rows of several partitions in the order of their times, a page at a time. Each partition has a page of its own
//! in memory, so that an account with many shards costs no more reads than one with one.

use std::collections::VecDeque;

use domain::row::Key;
use shared::store::{Item, ListIndex, Order, Store, StoreError, key_of_item};

/// Rows of a page of one partition. A posting has about 500 bytes, and ten batches of charges are read for 1,000.
pub(crate) const PAGE: usize = 1_000;

/// So that the pages of all shards together stay small.
const LEAST_PAGE: usize = 100;

/// A row of the table, or the key of one that an index lists.
pub(crate) enum Found {
    Row(Item),
    Listed(Key),
}

struct Partition {
    pk: String,
    /// The sort key at which the next page begins, and the last one.
    range: (String, String),
    read: VecDeque<(String, Found)>,
    is_done: bool,
}

pub(crate) struct Rows {
    store: Store,
    /// `None`: the table.
    index: Option<ListIndex>,
    partitions: Vec<Partition>,
    page: usize,
}

impl Rows {
    /// `ranges`: partition keys with their smallest and largest sort keys, both inclusive.
    pub(crate) fn new(
        store: Store,
        index: Option<ListIndex>,
        ranges: impl IntoIterator<Item = (String, (String, String))>,
    ) -> Self {
        let partition = |(pk, range)| Partition { pk, range, read: VecDeque::new(), is_done: false };
        let partitions: Vec<Partition> = ranges.into_iter().map(partition).collect();
        let page = PAGE.checked_div(partitions.len()).unwrap_or(PAGE).max(LEAST_PAGE);
        Self { store, index, partitions, page }
    }

    /// The next rows by time, at most [`PAGE`]; none at the end.
    pub(crate) async fn next_page(&mut self) -> Result<Vec<Found>, StoreError> {
        let mut found = Vec::new();
        while found.len() < PAGE {
            for partition in &mut self.partitions {
                if partition.read.is_empty() && !partition.is_done {
                    partition.fill(&self.store, self.index, self.page).await?;
                }
            }
            let time_of = |partition: &Partition| partition.read.front().map(|(time, _)| time.clone());
            let first = self.partitions.iter_mut().filter(|partition| !partition.read.is_empty());
            let Some(first) = first.min_by_key(|partition| time_of(partition)) else { break };
            found.extend(first.read.pop_front().map(|(_, row)| row));
        }
        Ok(found)
    }
}

impl Partition {
    async fn fill(&mut self, store: &Store, index: Option<ListIndex>, page: usize) -> Result<(), StoreError> {
        let range = (self.range.0.as_str(), self.range.1.as_str());
        let order = Order::OldestFirst;
        let read: Vec<(String, Found)> = match index {
            None => {
                let items = store.range(&self.pk, range, order, page).await?;
                let row = |item: Item| Some((key_of_item(&item)?.sk, Found::Row(item)));
                items.into_iter().filter_map(row).collect()
            }
            Some(index) => {
                let entries = store.list(index, &self.pk, range, order, page).await?;
                entries.into_iter().map(|entry| (entry.sort, Found::Listed(entry.key))).collect()
            }
        };
        self.is_done = read.len() < page;
        if let Some((last, _)) = read.last() {
            // The first key after it: all that follow are longer or differ before.
            self.range.0 = format!("{last}\u{1}");
        }
        // The keys of one partition have one form, in which the time is after the last or the only prefix.
        let by_time = |(sort, row): (String, Found)| (time_of(&sort), row);
        self.read.extend(read.into_iter().map(by_time));
        Ok(())
    }
}

/// What of a sort key orders the rows of all partitions: without the prefix of a posting's.
fn time_of(sort: &str) -> String {
    match sort.rsplit_once("#mv_") {
        Some((_, id)) => id.to_owned(),
        None => sort.to_owned(),
    }
}
