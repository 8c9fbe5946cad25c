//! Queries: read or count the entries of a list index, or read the rows of a partition.

use std::cmp::Ordering;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, Select};
use futures_util::future::try_join_all;
use serde::de::DeserializeOwned;

use domain::row::Key;

use super::{Item, Result, Store, StoreError, from_item, key_attributes, key_of_item, text, unavailable};

/// Why a page of a list can't be read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// `starting_after` is not the id of an entry of the list.
    #[error("starting_after is not {0}")]
    UnknownCursor(&'static str),
    /// DynamoDB failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A list index. Each has its own partition attribute. All but the log sort by `list_sk`.
#[derive(Clone, Copy, Debug)]
pub enum ListIndex {
    /// The index `list`: all rows of a list.
    All,
    /// The index `list_by_status`: the rows of a list that have one status.
    ByStatus,
    /// The index `list_by_customer`: the charges that have one customer's document, or the MED cases of one
    /// type.
    ByCustomer,
    /// The index `log`: an entry for each delivery, which never changes. It sorts by `log_sk`.
    Log,
}

impl ListIndex {
    /// Returns the names of the index, of its partition key and of its sort key.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::All => ("list", "list_pk", "list_sk"),
            Self::ByStatus => ("list_by_status", "status_pk", "list_sk"),
            Self::ByCustomer => ("list_by_customer", "customer_pk", "list_sk"),
            Self::Log => ("log", "log_pk", "log_sk"),
        }
    }
}

/// A page of a list, newest first.
#[derive(Debug)]
pub struct ListPage<T, C> {
    /// The objects, at most the requested `limit`.
    pub items: Vec<T>,
    /// The `starting_after` of the next page; `None` on the last page.
    pub next_cursor: Option<C>,
}

impl<T, C> ListPage<T, C> {
    /// Builds the page of the rows that match, at most `limit`. The next page starts after the last of them if
    /// more match, else after the last row that was read, if `has_more`.
    pub fn of_matching(
        (mut rows, has_more): (Vec<T>, bool),
        limit: usize,
        matches: impl Fn(&T) -> bool,
        id: impl Fn(&T) -> C,
    ) -> Self {
        let last_read = rows.last().map(&id).filter(|_| has_more);
        rows.retain(matches);
        let is_cut = rows.len() > limit;
        rows.truncate(limit);
        let next_cursor = if is_cut { rows.last().map(&id) } else { last_read };
        Self { items: rows, next_cursor }
    }
}

/// The direction in which a range of sort keys is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// By ascending sort key.
    OldestFirst,
    /// By descending sort key.
    NewestFirst,
}

impl Order {
    /// Converts an ascending comparison into one of this order.
    fn of(self, ascending: Ordering) -> Ordering {
        match self {
            Self::OldestFirst => ascending,
            Self::NewestFirst => ascending.reverse(),
        }
    }
}

/// A page to read: the entries after a cursor.
#[derive(Clone, Copy, Debug)]
pub struct PageRange<'a> {
    /// The smallest and the largest sort key of the list, both inclusive.
    pub range: (&'a str, &'a str),
    /// Its first entry is the smallest or the largest.
    pub order: Order,
    /// The sort key after which the page begins. `None`: it is the first page.
    pub after: Option<&'a str>,
    /// The most entries of the page.
    pub limit: usize,
}

impl<'a> PageRange<'a> {
    /// A page of a list that begins with the newest entry.
    pub fn newest_first(range: (&'a str, &'a str), after: Option<&'a str>, limit: usize) -> Self {
        Self { range, order: Order::NewestFirst, after, limit }
    }

    fn range(&self) -> (&'a str, &'a str) {
        let (from, to) = self.range;
        match (self.after, self.order) {
            (None, _) => (from, to),
            (Some(after), Order::OldestFirst) => (from.max(after), to),
            (Some(after), Order::NewestFirst) => (from, to.min(after)),
        }
    }

    /// The entries to read: those of the page, one that shows whether more follow, and the cursor's own, which the
    /// range includes.
    fn most(&self) -> usize {
        self.limit.saturating_add(1).saturating_add(usize::from(self.after.is_some()))
    }

    fn cut<T>(&self, mut found: Vec<T>, sort: impl Fn(&T) -> Option<&str>) -> (Vec<T>, bool) {
        found.retain(|entry| self.after.is_none() || sort(entry) != self.after);
        let has_more = found.len() > self.limit;
        found.truncate(self.limit);
        (found, has_more)
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListEntry {
    /// The sort key in the index. It orders the entries by time.
    pub sort: String,
    pub key: Key,
}

impl Store {
    /// Reads the first `limit` entries of `partition` whose sort keys are within `range`, both ends
    /// inclusive. The index is eventually consistent.
    pub async fn list(
        &self,
        index: ListIndex,
        partition: &str,
        range: (&str, &str),
        order: Order,
        limit: usize,
    ) -> Result<Vec<ListEntry>> {
        let query = self.entries_query(index, partition);
        // Boxed, because the future of a query takes kilobytes, and a list request runs several queries
        // concurrently.
        let items = Box::pin(first_items(query, range, order, limit)).await?;
        let (_, _, sort) = index.names();
        Ok(items.iter().filter_map(|item| listed(item, sort)).collect())
    }

    /// Reads the sort keys of the first `limit` entries of a partition, oldest first, each with a number that the
    /// index projects.
    pub async fn list_with(
        &self,
        index: ListIndex,
        partition: &str,
        number: &str,
        limit: usize,
    ) -> Result<Vec<(String, Option<i64>)>> {
        let query = self.entries_query(index, partition);
        let items = Box::pin(first_items(query, ("0", "~"), Order::OldestFirst, limit)).await?;
        let (_, _, sort) = index.names();
        let number_of = |item: &Item| item.get(number)?.as_n().ok()?.parse().ok();
        Ok(items.iter().filter_map(|item| Some((text(item, sort)?, number_of(item)))).collect())
    }

    /// Like [`Store::list`], but reads several partitions concurrently and merges their entries. An entry that
    /// moves between the queries may be in two partitions; it is returned once.
    pub async fn list_of_each(
        &self,
        index: ListIndex,
        partitions: &[String],
        range: (&str, &str),
        order: Order,
        limit: usize,
    ) -> Result<Vec<ListEntry>> {
        let reads = partitions.iter().map(|partition| self.list(index, partition, range, order, limit));
        let mut entries: Vec<ListEntry> = try_join_all(reads).await?.into_iter().flatten().collect();
        entries.sort_by(|left, right| order.of(left.sort.cmp(&right.sort)));
        entries.dedup();
        entries.truncate(limit);
        Ok(entries)
    }

    /// Reads a page of an index. Also returns whether more entries follow.
    pub async fn entries_page(
        &self,
        (index, partitions): (ListIndex, &[String]),
        page: PageRange<'_>,
    ) -> Result<(Vec<ListEntry>, bool)> {
        let read = self.list_of_each(index, partitions, page.range(), page.order, page.most());
        Ok(page.cut(read.await?, |entry| Some(&entry.sort)))
    }

    /// Like [`Store::entries_page`], but reads the rows of the entries.
    pub async fn rows_page<R: DeserializeOwned>(
        &self,
        list: (ListIndex, &[String]),
        page: PageRange<'_>,
    ) -> Result<(Vec<R>, bool)> {
        let (entries, has_more) = self.entries_page(list, page).await?;
        let keys: Vec<Key> = entries.into_iter().map(|entry| entry.key).collect();
        Ok((self.get_in_order(&keys).await?, has_more))
    }

    /// Reads a page of partitions of the table, whose sort keys are unique among them. Also returns whether more
    /// items follow.
    pub async fn items_page(&self, partitions: &[String], page: PageRange<'_>) -> Result<(Vec<Item>, bool)> {
        let read = self.range_of_each(partitions, page.range(), page.order, page.most());
        Ok(page.cut(read.await?, sort_of))
    }

    /// Like [`Store::items_page`], but deserialises the items.
    pub async fn table_page<R: DeserializeOwned>(
        &self,
        partitions: &[String],
        page: PageRange<'_>,
    ) -> Result<(Vec<R>, bool)> {
        let (items, has_more) = self.items_page(partitions, page).await?;
        Ok((items.into_iter().map(from_item).collect::<Result<_>>()?, has_more))
    }

    /// Counts the entries of partitions whose sort keys are within `range`, both ends inclusive. One request
    /// to DynamoDB counts at most 1 MB, about 6,000 entries.
    pub async fn count_of_each(
        &self,
        index: ListIndex,
        partitions: &[String],
        range: (&str, &str),
    ) -> Result<usize> {
        let counts =
            partitions.iter().map(|partition| count(between(self.entries_query(index, partition), range)));
        Ok(try_join_all(counts).await?.into_iter().fold(0, usize::saturating_add))
    }

    fn entries_query(&self, index: ListIndex, partition: &str) -> QueryFluentBuilder {
        let (name, partition_attribute, sort_attribute) = index.names();
        self.client
            .query()
            .table_name(&*self.table)
            .index_name(name)
            .key_condition_expression("#partition = :partition AND #sort BETWEEN :from AND :to")
            .expression_attribute_names("#partition", partition_attribute)
            .expression_attribute_names("#sort", sort_attribute)
            .expression_attribute_values(":partition", AttributeValue::S(partition.to_owned()))
    }

    /// Reads all items of a partition by ascending sort key, strongly consistent. It holds all of them in
    /// memory, so use it only for small partitions.
    pub async fn partition(&self, pk: &str) -> Result<Vec<Item>> {
        all_items(self.partition_query(pk)).await
    }

    /// Like [`Store::partition`], but reads only the items whose sort keys begin with `prefix`.
    pub async fn partition_prefix(&self, pk: &str, prefix: &str) -> Result<Vec<Item>> {
        let query =
            self.partition_query(pk).key_condition_expression("pk = :pk AND begins_with(sk, :prefix)");
        all_items(query.expression_attribute_values(":prefix", AttributeValue::S(prefix.to_owned()))).await
    }

    /// Like [`Store::partition_prefix`], but deserialises the items.
    pub async fn rows_of_prefix<R: DeserializeOwned>(&self, pk: &str, prefix: &str) -> Result<Vec<R>> {
        self.partition_prefix(pk, prefix).await?.into_iter().map(from_item).collect()
    }

    fn partition_query(&self, pk: &str) -> QueryFluentBuilder {
        self.client
            .query()
            .table_name(&*self.table)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(pk.to_owned()))
            .consistent_read(true)
    }

    /// Reads a page of a partition: at most `limit` items, and at most 1 MB, DynamoDB's limit. `after` is the
    /// sort key at which the previous page ended; `None` reads the first page. Returns the items and the sort
    /// key at which this page ended. That key is `None` on the last page.
    pub async fn page(
        &self,
        pk: &str,
        after: Option<&str>,
        limit: i32,
    ) -> Result<(Vec<Item>, Option<String>)> {
        let after = after.map(|sk| key_attributes(&Key { pk: pk.to_owned(), sk: sk.to_owned() }));
        let query = self.partition_query(pk).set_exclusive_start_key(after).limit(limit);
        let answer = Box::pin(query.send()).await.map_err(unavailable)?;
        let ended_at = answer.last_evaluated_key.as_ref().and_then(key_of_item);
        Ok((answer.items.unwrap_or_default(), ended_at.map(|key| key.sk)))
    }

    /// Reads the first `limit` items of a partition whose sort keys are within `range`, both ends inclusive,
    /// strongly consistent.
    pub async fn range(
        &self,
        pk: &str,
        range: (&str, &str),
        order: Order,
        limit: usize,
    ) -> Result<Vec<Item>> {
        let query =
            self.partition_query(pk).key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to");
        Box::pin(first_items(query, range, order, limit)).await
    }

    /// Like [`Store::range`], but reads several partitions concurrently and merges their items. Sort keys must
    /// be unique among the partitions.
    pub async fn range_of_each(
        &self,
        partitions: &[String],
        range: (&str, &str),
        order: Order,
        limit: usize,
    ) -> Result<Vec<Item>> {
        let reads = partitions.iter().map(|partition| self.range(partition, range, order, limit));
        let mut items: Vec<Item> = try_join_all(reads).await?.into_iter().flatten().collect();
        items.sort_by(|left, right| order.of(sort_of(left).cmp(&sort_of(right))));
        items.truncate(limit);
        Ok(items)
    }
}

/// Reads the first `limit` items of a query within `range`. One request returns at most 1 MB, so long rows take
/// several requests.
async fn first_items(
    query: QueryFluentBuilder,
    range: (&str, &str),
    order: Order,
    limit: usize,
) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    // DynamoDB refuses a range that ends before it begins.
    if range.0 > range.1 {
        return Ok(items);
    }
    let query = between(query, range).scan_index_forward(order == Order::OldestFirst);
    let mut after = None;
    while items.len() < limit {
        let left = i32::try_from(limit.saturating_sub(items.len())).unwrap_or(i32::MAX);
        let page = query.clone().set_exclusive_start_key(after).limit(left).send().await;
        let page = page.map_err(unavailable)?;
        items.extend(page.items.unwrap_or_default());
        after = page.last_evaluated_key;
        if after.is_none() {
            break;
        }
    }
    Ok(items)
}

fn between(query: QueryFluentBuilder, (from, to): (&str, &str)) -> QueryFluentBuilder {
    query
        .expression_attribute_values(":from", AttributeValue::S(from.to_owned()))
        .expression_attribute_values(":to", AttributeValue::S(to.to_owned()))
}

async fn all_items(query: QueryFluentBuilder) -> Result<Vec<Item>> {
    query.into_paginator().items().send().try_collect().await.map_err(unavailable)
}

async fn count(query: QueryFluentBuilder) -> Result<usize> {
    let mut pages = query.select(Select::Count).into_paginator().send();
    let mut count: usize = 0;
    while let Some(page) = pages.next().await {
        let counted = usize::try_from(page.map_err(unavailable)?.count).unwrap_or_default();
        count = count.saturating_add(counted);
    }
    Ok(count)
}

fn sort_of(item: &Item) -> Option<&str> {
    Some(item.get("sk")?.as_s().ok()?.as_str())
}

fn listed(item: &Item, sort: &str) -> Option<ListEntry> {
    Some(ListEntry { sort: text(item, sort)?, key: key_of_item(item)? })
}
