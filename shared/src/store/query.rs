//! Reads of many rows: entries of the list indexes, and the rows of a partition.

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, Select};
use serde::de::DeserializeOwned;

use domain::row::Key;

use super::{Item, Store, StoreError, from_item, key_of_item, text, unavailable};

/// Why a page of a list is not read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// `starting_after` names no entry of the list.
    #[error("starting_after is not {0}")]
    UnknownCursor(&'static str),
    /// DynamoDB.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One of the lists that an index keeps.
#[derive(Clone, Copy, Debug)]
pub enum ListIndex {
    /// Everything of a partition.
    All,
    /// By status.
    ByStatus,
    /// By the customer's document.
    ByCustomer,
}

impl ListIndex {
    fn name_and_partition(self) -> (&'static str, &'static str) {
        match self {
            Self::All => ("list", "list_pk"),
            Self::ByStatus => ("list_by_status", "status_pk"),
            Self::ByCustomer => ("list_by_customer", "customer_pk"),
        }
    }
}

/// Which way a range is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// By the sort key.
    OldestFirst,
    /// Against it.
    NewestFirst,
}

/// An entry of a list index: where it stands and which row it names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listed {
    /// Its place in the list; sorts by time.
    pub sort: String,
    /// The row.
    pub key: Key,
}

impl Store {
    /// Entries of an index: those of `partition` whose sort key is within `from..=to`, in order, at most `limit`.
    pub async fn list(
        &self,
        index: ListIndex,
        partition: &str,
        range: (&str, &str),
        order: Order,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        let query = self.entries(index, partition, range).scan_index_forward(order == Order::OldestFirst);
        // Boxed, for a query takes kilobytes, and pages put several side by side.
        let items = Box::pin(self.at_most(query, limit)).await?;
        Ok(items.iter().filter_map(listed).collect())
    }

    /// How many entries there are. DynamoDB counts 1 MB at a time, some 6,000 entries.
    pub async fn count(
        &self,
        index: ListIndex,
        partition: &str,
        range: (&str, &str),
    ) -> Result<usize, StoreError> {
        self.count_all(self.entries(index, partition, range)).await
    }

    /// How many rows a query finds, from where it begins, however many pages it takes.
    pub(crate) async fn count_all(&self, query: QueryFluentBuilder) -> Result<usize, StoreError> {
        let mut query = query.select(Select::Count);
        let mut count: usize = 0;
        loop {
            let answer = query.clone().send().await.map_err(unavailable)?;
            count = count.saturating_add(usize::try_from(answer.count).unwrap_or_default());
            if answer.last_evaluated_key.is_none() {
                return Ok(count);
            }
            query = query.set_exclusive_start_key(answer.last_evaluated_key);
        }
    }

    fn entries(&self, index: ListIndex, partition: &str, (from, to): (&str, &str)) -> QueryFluentBuilder {
        let (name, partition_attribute) = index.name_and_partition();
        self.client
            .query()
            .table_name(&self.table)
            .index_name(name)
            .key_condition_expression("#partition = :partition AND list_sk BETWEEN :from AND :to")
            .expression_attribute_names("#partition", partition_attribute)
            .expression_attribute_values(":partition", AttributeValue::S(partition.to_owned()))
            .expression_attribute_values(":from", AttributeValue::S(from.to_owned()))
            .expression_attribute_values(":to", AttributeValue::S(to.to_owned()))
    }

    /// All items of a partition, by their sort key; for partitions that stay small.
    pub async fn partition(&self, pk: &str) -> Result<Vec<Item>, StoreError> {
        self.all(self.rows(pk)).await
    }

    /// The items of a partition whose sort keys begin so; for few of them.
    pub async fn partition_prefix(&self, pk: &str, prefix: &str) -> Result<Vec<Item>, StoreError> {
        let query = self.rows(pk).key_condition_expression("pk = :pk AND begins_with(sk, :prefix)");
        self.all(query.expression_attribute_values(":prefix", AttributeValue::S(prefix.to_owned()))).await
    }

    /// As [`Store::partition_prefix`], read as what they are.
    pub async fn rows_of_prefix<R: DeserializeOwned>(
        &self,
        pk: &str,
        prefix: &str,
    ) -> Result<Vec<R>, StoreError> {
        self.partition_prefix(pk, prefix).await?.into_iter().map(from_item).collect()
    }

    fn rows(&self, pk: &str) -> QueryFluentBuilder {
        self.client
            .query()
            .table_name(&self.table)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(pk.to_owned()))
            .consistent_read(true)
    }

    /// A page of a partition, as large as DynamoDB gives, after where the last one ended.
    pub async fn page(&self, pk: &str, after: Option<Item>) -> Result<(Vec<Item>, Option<Item>), StoreError> {
        let answer = self.rows(pk).set_exclusive_start_key(after).send().await.map_err(unavailable)?;
        Ok((answer.items.unwrap_or_default(), answer.last_evaluated_key))
    }

    async fn all(&self, query: QueryFluentBuilder) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::new();
        let mut after = None;
        loop {
            let answer = query.clone().set_exclusive_start_key(after).send().await.map_err(unavailable)?;
            items.extend(answer.items.unwrap_or_default());
            after = answer.last_evaluated_key;
            if after.is_none() {
                return Ok(items);
            }
        }
    }

    /// Items of a partition whose sort keys are within `from..=to`, in that order or newest first, at most `limit`.
    pub async fn range(
        &self,
        pk: &str,
        (from, to): (&str, &str),
        order: Order,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        let query = self
            .rows(pk)
            .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
            .expression_attribute_values(":from", AttributeValue::S(from.to_owned()))
            .expression_attribute_values(":to", AttributeValue::S(to.to_owned()))
            .scan_index_forward(order == Order::OldestFirst);
        Box::pin(self.at_most(query, limit)).await
    }

    /// The first items of a query. It ends at 1 MB: rows that are longer than usual take several.
    async fn at_most(&self, query: QueryFluentBuilder, limit: usize) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::new();
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
}

fn listed(item: &Item) -> Option<Listed> {
    Some(Listed { sort: text(item, "list_sk")?, key: key_of_item(item)? })
}
