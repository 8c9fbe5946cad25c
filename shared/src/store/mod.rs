//! Reads and writes of rows in the state table; the only module that speaks DynamoDB's expressions for
//! whole rows. What a row means is its noun's business.
//!
//! A state change is ONE write: [`Store::commit`] puts all the rows of a change or none. Every row carries a
//! version, and replacing one is conditional on the version that was read, so two writers can't overtake each
//! other unseen.

mod client;
mod tries;

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::error::{DisplayErrorContext, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::builders::UpdateBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, ConditionCheck, Delete, KeysAndAttributes, Put, ReturnValue,
    ReturnValuesOnConditionCheckFailure, Select, TransactWriteItem, Update,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use client::{Aws, AwsError, timeouts};
pub(crate) use tries::Tries;

use crate::time::Timestamp;
use crate::{hex, random};

/// A row as DynamoDB's client has it.
pub type Item = HashMap<String, AttributeValue>;

/// How often a write that met another transaction on its rows is tried again, before it counts as unavailable: some two
/// seconds in all.
const MAX_WRITE_ATTEMPTS: u32 = 12;

/// The first pause between such tries, in milliseconds; doubled each time up to the longest, with full jitter.
const FIRST_PAUSE_MS: u64 = 15;

const LONGEST_PAUSE_MS: u64 = 500;

/// The most keys that one `BatchGetItem` takes.
const BATCH_GET_KEYS: usize = 100;

/// How often a `BatchGetItem` asks again for what DynamoDB left unprocessed.
const MAX_BATCH_GET_ROUNDS: u32 = 5;

/// The attribute that names a single put: random, so that a caller whose answer was lost knows its own row by it, and two
/// callers that write equal rows are told apart. Transactions have client tokens for that, and their rows have none.
const PUT_ID: &str = "put_id";

/// Rows that are read from the due-index at once.
const DUE_PAGE: i32 = 100;

/// Partitions of the due-index. One takes 1,000 writes a second; a charge with two deliveries writes six. Deliveries have the
/// second half for themselves: however many of them wait, what else is due is reached.
pub const DUE_SHARDS: u8 = 2 * HALF_OF_DUE_SHARDS;

const HALF_OF_DUE_SHARDS: u8 = 4;

/// The state table's primary key.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Key {
    /// Partition key.
    pub pk: String,
    /// Sort key.
    pub sk: String,
}

impl Key {
    /// Both halves as one text, which names the row: what is derived from a row whose partition holds others is derived
    /// from it.
    pub fn whole(&self) -> String {
        format!("{}#{}", self.pk, self.sk)
    }

    /// Both halves as attributes.
    pub fn attributes(&self) -> Item {
        HashMap::from([
            ("pk".to_owned(), AttributeValue::S(self.pk.clone())),
            ("sk".to_owned(), AttributeValue::S(self.sk.clone())),
        ])
    }

    /// The key of an item.
    pub fn of(item: &Item) -> Option<Self> {
        Some(Self { pk: text(item, "pk")?, sk: text(item, "sk")? })
    }
}

/// The sparse indexes that a row appears in; each costs a write unit when the row enters, moves or leaves.
#[derive(Clone, Debug, Default)]
pub struct Indexes {
    /// `list` (partition, sort): newest-first lists.
    pub list: Option<(String, String)>,
    /// `list_by_status`: the partition; its sort key is the list's.
    pub status: Option<String>,
    /// `list_by_customer`: the partition; its sort key is the list's.
    pub customer: Option<String>,
    /// `due`: when `clock` must look at the row.
    pub due: Option<Timestamp>,
}

/// A row of the state table.
pub trait Row: Serialize + DeserializeOwned + Send + Sync {
    /// Where the row lives.
    fn key(&self) -> Key;

    /// The indexes that it appears in.
    fn indexes(&self) -> Indexes {
        Indexes::default()
    }

    /// When DynamoDB may remove it.
    fn removable_at(&self) -> Option<Timestamp> {
        None
    }
}

/// The row as an item, with its keys and indexes.
pub fn to_item<R: Row>(row: &R) -> Result<Item, StoreError> {
    let mut item: Item =
        serde_dynamo::to_item(row).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    let key = row.key();
    let indexes = row.indexes();
    if let Some(at) = indexes.due {
        item.extend(due_attributes(&key, at));
    }
    item.insert("pk".to_owned(), AttributeValue::S(key.pk));
    item.insert("sk".to_owned(), AttributeValue::S(key.sk));
    if let Some((partition, sort)) = indexes.list {
        item.insert("list_pk".to_owned(), AttributeValue::S(partition));
        item.insert("list_sk".to_owned(), AttributeValue::S(sort));
    }
    if let Some(partition) = indexes.status {
        item.insert("status_pk".to_owned(), AttributeValue::S(partition));
    }
    if let Some(partition) = indexes.customer {
        item.insert("customer_pk".to_owned(), AttributeValue::S(partition));
    }
    if let Some(at) = row.removable_at() {
        item.insert("ttl".to_owned(), AttributeValue::N(at.seconds().to_string()));
    }
    Ok(item)
}

/// The due-index attributes of a row: its shard, and a sort key by time.
pub fn due_attributes(key: &Key, at: Timestamp) -> [(String, AttributeValue); 2] {
    let sum = key.pk.bytes().chain(key.sk.bytes()).fold(0_u8, u8::wrapping_add);
    let shard = sum.checked_rem(HALF_OF_DUE_SHARDS).unwrap_or_default();
    let half = if key.pk.starts_with("deliveries#") { HALF_OF_DUE_SHARDS } else { 0 };
    let shard = shard.saturating_add(half);
    [
        ("due_pk".to_owned(), AttributeValue::S(due_partition(shard))),
        ("due_sk".to_owned(), AttributeValue::S(format!("{}#{}", sortable(at), key.whole()))),
    ]
}

fn due_partition(shard: u8) -> String {
    format!("due#{shard}")
}

/// A time as 15 digits of milliseconds, enough for the year 9999: text that sorts as the time does.
pub fn sortable(at: Timestamp) -> String {
    format!("{:015}", at.millis())
}

/// Reads a row from an item.
pub fn from_item<R: Row>(item: Item) -> Result<R, StoreError> {
    serde_dynamo::from_item(item).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// A text attribute of an item.
pub fn text(item: &Item, name: &str) -> Option<String> {
    item.get(name)?.as_s().ok().cloned()
}

/// Why a read or write failed.
#[derive(Debug)]
pub enum StoreError {
    /// The database did not answer, or could not take the request now.
    Unavailable(String),
    /// A row does not read as what it should be.
    Corrupt(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(cause) => write!(formatter, "the database did not answer: {cause}"),
            Self::Corrupt(cause) => write!(formatter, "a row can't be read or written: {cause}"),
        }
    }
}

impl std::error::Error for StoreError {}

/// Wraps an SDK error with all its causes.
pub fn unavailable<E, R>(error: SdkError<E, R>) -> StoreError
where
    E: std::error::Error + Send + Sync + 'static,
    R: fmt::Debug + Send + Sync + 'static,
{
    StoreError::Unavailable(DisplayErrorContext(error).to_string())
}

/// How an insert ended.
#[derive(Debug)]
pub enum Inserted<R> {
    /// The row is new.
    New,
    /// There was one already, unchanged.
    Existing(R),
}

/// One row of a commit.
#[derive(Debug)]
pub struct Write(Change);

#[derive(Debug)]
enum Change {
    Put { item: Item, expected: Expected },
    Add { key: Key, counters: Vec<(String, i64)>, set: Item, bound: Option<Bound> },
    Remove { key: Key, counter: String, expected: i64 },
    Check { key: Key, version: u64 },
    Relist { entry: Listed, from: String, to: Option<(String, String)> },
    Update(Box<UpdateBuilder>),
    InsertInto { table: String, item: Item },
    RemoveFrom { table: String, key: Item },
}

#[derive(Debug)]
enum Expected {
    Absent,
    Version(u64),
}

/// What a counter must be before something is added to it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Bound {
    /// At most this; an absent counter is 0.
    AtMost {
        /// Its attribute.
        counter: String,
        /// The bound.
        most: i64,
    },
    /// There, and at least this.
    AtLeast {
        /// Its attribute.
        counter: String,
        /// The bound.
        least: i64,
    },
}

impl Write {
    /// A row that must not exist yet.
    pub fn insert<R: Row>(row: &R) -> Result<Self, StoreError> {
        Ok(Self(Change::Put { item: to_item(row)?, expected: Expected::Absent }))
    }

    /// A row that replaces the one whose `version` attribute is `version`.
    pub fn replace<R: Row>(row: &R, version: u64) -> Result<Self, StoreError> {
        Ok(Self(Change::Put { item: to_item(row)?, expected: Expected::Version(version) }))
    }

    /// Adds to counters of a row, which need not exist. `set` is written beside them. It must be part of a commit that a
    /// condition keeps from being carried out twice.
    pub fn add(key: Key, counters: Vec<(String, i64)>, set: Item, bound: Option<Bound>) -> Self {
        Self(Change::Add { key, counters, set, bound })
    }

    /// Removes a row whose counter is still as it was seen.
    pub fn remove(key: Key, counter: &str, expected: i64) -> Self {
        Self(Change::Remove { key, counter: counter.to_owned(), expected })
    }

    /// Takes a row's entry out of a partition of the list index, and puts it into another or the same one at a sort key, if `to`
    /// is given. The row's entry must still be the one that was seen.
    pub fn relist(entry: Listed, from: &str, to: Option<(&str, &str)>) -> Self {
        let to = to.map(|(partition, sort)| (partition.to_owned(), sort.to_owned()));
        Self(Change::Relist { entry, from: from.to_owned(), to })
    }

    /// A noun's own conditional update of a row, whose table it need not name.
    pub fn update(update: UpdateBuilder) -> Self {
        Self(Change::Update(Box::new(update)))
    }

    /// Nothing is written to this row, but its `version` attribute must be `version`.
    pub fn check(key: Key, version: u64) -> Self {
        Self(Change::Check { key, version })
    }

    /// A row of another table, whose partition key is `pk`, that must not exist yet.
    pub fn insert_into(table: &str, item: Item) -> Self {
        Self(Change::InsertInto { table: table.to_owned(), item })
    }

    /// Removes a row of another table, whose partition key is `pk`; it must exist.
    pub fn remove_from(table: &str, key: Item) -> Self {
        Self(Change::RemoveFrom { table: table.to_owned(), key })
    }

    fn into_transact_item(self, table: &str) -> Result<TransactWriteItem, StoreError> {
        let malformed = |error: &dyn fmt::Display| StoreError::Corrupt(error.to_string());
        let item = TransactWriteItem::builder();
        Ok(match self.0 {
            Change::Put { item: row, expected } => item.put(put(table, row, &expected)?),
            Change::Add { key, counters, set, bound } => {
                item.update(add(table, &key, counters, set, bound).map_err(|error| malformed(&error))?)
            }
            Change::Remove { key, counter, expected } => {
                let delete = Delete::builder().table_name(table).set_key(Some(key.attributes()));
                let delete = delete
                    .condition_expression("#counter = :expected")
                    .expression_attribute_names("#counter", counter)
                    .expression_attribute_values(":expected", number(expected));
                item.delete(delete.build().map_err(|error| malformed(&error))?)
            }
            Change::Check { key, version } => {
                let check = ConditionCheck::builder().table_name(table).set_key(Some(key.attributes()));
                let check = check
                    .condition_expression("version = :expected")
                    .expression_attribute_values(":expected", AttributeValue::N(version.to_string()));
                item.condition_check(check.build().map_err(|error| malformed(&error))?)
            }
            Change::Relist { entry, from, to } => {
                let update = Update::builder().table_name(table).set_key(Some(entry.key.attributes()));
                let update = match to {
                    Some((to, sort)) => update
                        .update_expression("SET list_pk = :to, list_sk = :sort")
                        .expression_attribute_values(":to", AttributeValue::S(to))
                        .expression_attribute_values(":sort", AttributeValue::S(sort)),
                    None => update.update_expression("REMOVE list_pk, list_sk"),
                };
                let update = update
                    .condition_expression("list_pk = :from AND list_sk = :place")
                    .expression_attribute_values(":from", AttributeValue::S(from))
                    .expression_attribute_values(":place", AttributeValue::S(entry.sort));
                item.update(update.build().map_err(|error| malformed(&error))?)
            }
            Change::Update(update) => {
                item.update(update.table_name(table).build().map_err(|error| malformed(&error))?)
            }
            Change::InsertInto { table, item: row } => item.put(put(&table, row, &Expected::Absent)?),
            Change::RemoveFrom { table, key } => {
                let delete = Delete::builder().table_name(table).set_key(Some(key));
                let delete = delete.condition_expression("attribute_exists(pk)");
                item.delete(delete.build().map_err(|error| malformed(&error))?)
            }
        }
        .build())
    }
}

fn put(table: &str, item: Item, expected: &Expected) -> Result<Put, StoreError> {
    let put = Put::builder().table_name(table).set_item(Some(item));
    let put = match expected {
        Expected::Absent => put.condition_expression("attribute_not_exists(pk)"),
        Expected::Version(version) => put
            .condition_expression("version = :expected")
            .expression_attribute_values(":expected", AttributeValue::N(version.to_string())),
    };
    put.build().map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// Attributes go by place, for their names may be reserved words.
fn add(
    table: &str,
    key: &Key,
    counters: Vec<(String, i64)>,
    set: Item,
    bound: Option<Bound>,
) -> Result<Update, BuildError> {
    let mut update = Update::builder().table_name(table).set_key(Some(key.attributes()));
    let (mut adds, mut sets) = (Vec::new(), Vec::new());
    for (place, (counter, by)) in counters.into_iter().enumerate() {
        adds.push(format!("#c{place} :c{place}"));
        update = update
            .expression_attribute_names(format!("#c{place}"), counter)
            .expression_attribute_values(format!(":c{place}"), number(by));
    }
    for (place, (name, value)) in set.into_iter().enumerate() {
        sets.push(format!("#s{place} = :s{place}"));
        update = update
            .expression_attribute_names(format!("#s{place}"), name)
            .expression_attribute_values(format!(":s{place}"), value);
    }
    let adds = adds.join(", ");
    let expression =
        if sets.is_empty() { format!("ADD {adds}") } else { format!("ADD {adds} SET {}", sets.join(", ")) };
    if let Some(bound) = bound {
        let (condition, counter, value) = match bound {
            Bound::AtMost { counter, most } => {
                ("attribute_not_exists(#bounded) OR #bounded <= :bound", counter, most)
            }
            Bound::AtLeast { counter, least } => ("#bounded >= :bound", counter, least),
        };
        update = update
            .condition_expression(condition)
            .expression_attribute_names("#bounded", counter)
            .expression_attribute_values(":bound", number(value));
    }
    update.update_expression(expression).build()
}

fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// How a commit ended.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Committed {
    /// All rows are written.
    Done,
    /// Rows were not as expected, those at these places: somebody else was first, and nothing was written.
    Overtaken {
        /// Places among the writes.
        at: Vec<usize>,
    },
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

/// A row that is due.
#[derive(Clone, Debug)]
pub struct Due {
    /// The row.
    pub key: Key,
    /// Its place in the due-index: its time, and its key.
    pub sort: String,
}

/// Access to the state table. Clones share one client.
#[derive(Clone, Debug)]
pub struct Store {
    client: aws_sdk_dynamodb::Client,
    table: String,
}

impl Store {
    /// A store over a client and the state table's name.
    pub fn new(client: aws_sdk_dynamodb::Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into() }
    }

    /// The client, for a noun's single-row updates.
    pub fn client(&self) -> &aws_sdk_dynamodb::Client {
        &self.client
    }

    /// The state table's name.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Reads one row, strongly consistent.
    pub async fn get<R: Row>(&self, key: &Key) -> Result<Option<R>, StoreError> {
        self.get_item(key).await?.map(from_item).transpose()
    }

    /// Reads one item, strongly consistent.
    pub async fn get_item(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(key.attributes()))
            .consistent_read(true)
            .send()
            .await
            .map_err(unavailable)?;
        Ok(answer.item)
    }

    /// Reads many items, strongly consistent, in no order; missing ones are left out. A hundred keys a request,
    /// the requests side by side.
    pub async fn batch_get(&self, keys: &[Key]) -> Result<Vec<Item>, StoreError> {
        let mut pending = tokio::task::JoinSet::new();
        for chunk in keys.chunks(BATCH_GET_KEYS) {
            let store = self.clone();
            let chunk: Vec<Item> = chunk.iter().map(Key::attributes).collect();
            pending.spawn(async move { store.batch_get_chunk(chunk).await });
        }
        let mut items = Vec::new();
        while let Some(joined) = pending.join_next().await {
            items.extend(joined.map_err(|error| StoreError::Unavailable(error.to_string()))??);
        }
        Ok(items)
    }

    /// Reads many rows as [`Store::batch_get`] does, in the order of their keys.
    pub async fn get_in_order<R: Row>(&self, keys: &[Key]) -> Result<Vec<R>, StoreError> {
        let mut rows = HashMap::new();
        for item in self.batch_get(keys).await? {
            let row: R = from_item(item)?;
            rows.insert(row.key(), row);
        }
        Ok(keys.iter().filter_map(|key| rows.remove(key)).collect())
    }

    async fn batch_get_chunk(&self, keys: Vec<Item>) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::new();
        let mut keys = keys;
        for round in 0..MAX_BATCH_GET_ROUNDS {
            if round > 0 {
                tokio::time::sleep(pause_before_retry(round)).await;
            }
            let wanted = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
            let wanted = wanted.map_err(|error| StoreError::Corrupt(error.to_string()))?;
            let answer = self
                .client
                .batch_get_item()
                .request_items(&self.table, wanted)
                .send()
                .await
                .map_err(unavailable)?;
            items.extend(answer.responses.unwrap_or_default().into_values().flatten());
            let left = answer.unprocessed_keys.unwrap_or_default().remove(&self.table);
            match left {
                Some(left) if !left.keys.is_empty() => keys = left.keys,
                _ => return Ok(items),
            }
        }
        Err(StoreError::Unavailable("BatchGetItem left keys unprocessed".to_owned()))
    }

    /// Inserts a row, or hands back the one that was there, in one request.
    pub async fn insert<R: Row>(&self, row: &R) -> Result<Inserted<R>, StoreError> {
        match self.write(vec![Write::insert(row)?]).await? {
            Written::Done => Ok(Inserted::New),
            Written::ConditionFailed { found, .. } => {
                from_item(found.unwrap_or_default()).map(Inserted::Existing)
            }
        }
    }

    /// Writes all rows of a state change, or none; at most 100. A single row needs no transaction and takes half
    /// the units.
    pub async fn commit(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        match self.write(writes).await? {
            Written::Done => Ok(Committed::Done),
            Written::ConditionFailed { at, .. } => Ok(Committed::Overtaken { at }),
        }
    }

    /// Writes, and tries again where another transaction holds a row or capacity is short, within a bound.
    async fn write(&self, writes: Vec<Write>) -> Result<Written, StoreError> {
        let mut request = match <[Write; 1]>::try_from(writes) {
            Ok([Write(Change::Put { mut item, expected })]) => {
                item.insert(PUT_ID.to_owned(), new_put_id()?);
                Request::Put(put(&self.table, item, &expected)?)
            }
            Ok([only]) => Request::transaction(vec![only.into_transact_item(&self.table)?]),
            Err(many) => {
                let items = many.into_iter().map(|write| write.into_transact_item(&self.table));
                Request::transaction(items.collect::<Result<_, _>>()?)
            }
        };
        let mut attempt = 0;
        loop {
            let tried = match &request {
                Request::Put(put) => self.put(put).await,
                Request::Transaction { items, token } => self.transact(items.clone(), token).await,
            };
            match tried {
                Ok(written) => return Ok(written),
                Err(failed @ (Failed::Contended | Failed::InProgress)) if attempt < MAX_WRITE_ATTEMPTS => {
                    // What is in progress may be this very write, whose answer was lost: asked for under its own token, it
                    // says how it ended.
                    if let (Failed::Contended, Request::Transaction { token, .. }) = (failed, &mut request) {
                        *token = new_token();
                    }
                    tokio::time::sleep(pause_before_retry(attempt)).await;
                    attempt = attempt.saturating_add(1);
                }
                Err(Failed::Contended | Failed::InProgress) => {
                    return Err(StoreError::Unavailable("a row was held by other transactions".to_owned()));
                }
                Err(Failed::Otherwise(error)) => return Err(error),
            }
        }
    }

    async fn put(&self, put: &Put) -> Result<Written, Failed> {
        let answer = self
            .client
            .put_item()
            .table_name(put.table_name())
            .set_item(Some(put.item().clone()))
            .set_condition_expression(put.condition_expression().map(str::to_owned))
            .set_expression_attribute_values(put.expression_attribute_values().cloned())
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        let Err(error) = answer else { return Ok(Written::Done) };
        match error.as_service_error() {
            // The client retries when an answer is lost, and then finds its own row.
            Some(PutItemError::ConditionalCheckFailedException(failed))
                if failed.item().and_then(|found| found.get(PUT_ID)) == put.item().get(PUT_ID) =>
            {
                Ok(Written::Done)
            }
            Some(PutItemError::ConditionalCheckFailedException(failed)) => {
                Ok(Written::ConditionFailed { at: vec![0], found: failed.item().cloned() })
            }
            Some(PutItemError::TransactionConflictException(_)) => Err(Failed::Contended),
            _ => Err(Failed::Otherwise(unavailable(error))),
        }
    }

    async fn transact(&self, items: Vec<TransactWriteItem>, token: &str) -> Result<Written, Failed> {
        let request = self.client.transact_write_items().set_transact_items(Some(items));
        let answer = request.client_request_token(token).send().await;
        let Err(error) = answer else { return Ok(Written::Done) };
        let reasons = match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                cancelled.cancellation_reasons()
            }
            Some(TransactWriteItemsError::TransactionInProgressException(_)) => {
                return Err(Failed::InProgress);
            }
            _ => return Err(Failed::Otherwise(unavailable(error))),
        };
        let places = |codes: &[&str]| -> Vec<usize> {
            let is_one =
                |reason: &CancellationReason| reason.code().is_some_and(|code| codes.contains(&code));
            reasons.iter().enumerate().filter(|(_, reason)| is_one(reason)).map(|(place, _)| place).collect()
        };
        let failed = places(&["ConditionalCheckFailed"]);
        if !failed.is_empty() {
            return Ok(Written::ConditionFailed { at: failed, found: None });
        }
        if !places(&["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"]).is_empty() {
            return Err(Failed::Contended);
        }
        Err(Failed::Otherwise(unavailable(error)))
    }

    /// Adds to a counter of a row, which need not exist, unless a bound forbids it; says whether it did. `set` is written
    /// beside it. One update, without a transaction, so that many at once do not refuse one another; one whose answer was
    /// lost may be counted twice.
    pub async fn count_within(
        &self,
        key: &Key,
        counter: (&str, i64),
        set: Item,
        bound: Option<Bound>,
    ) -> Result<bool, StoreError> {
        Ok(self.counted_within(key, counter, set, bound).await?.is_some())
    }

    /// As [`Store::count_within`]; gives the counter after it. `None`: the bound forbids it.
    pub async fn counted_within(
        &self,
        key: &Key,
        counter: (&str, i64),
        set: Item,
        bound: Option<Bound>,
    ) -> Result<Option<i64>, StoreError> {
        let counters = vec![(counter.0.to_owned(), counter.1)];
        let update = add(&self.table, key, counters, set, bound)
            .map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let update = self
            .client
            .update_item()
            .table_name(update.table_name())
            .set_key(Some(update.key().clone()))
            .update_expression(update.update_expression())
            .set_condition_expression(update.condition_expression().map(str::to_owned))
            .set_expression_attribute_names(update.expression_attribute_names().cloned())
            .set_expression_attribute_values(update.expression_attribute_values().cloned())
            .return_values(ReturnValue::UpdatedNew);
        let Some(updated) = update_in_turn(update).await? else { return Ok(None) };
        let value = updated.get(counter.0).and_then(|value| value.as_n().ok()?.parse().ok());
        value.map(Some).ok_or_else(|| StoreError::Corrupt(format!("{} is not a counter", counter.0)))
    }

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

    /// Rows that are due in one shard, the longest overdue first; a page after `after`, with where it ends.
    pub async fn due(
        &self,
        shard: u8,
        now: Timestamp,
        after: Option<Item>,
    ) -> Result<(Vec<Due>, Option<Item>), StoreError> {
        let answer = self
            .client
            .query()
            .table_name(&self.table)
            .index_name("due")
            .key_condition_expression("due_pk = :shard AND due_sk < :now")
            .expression_attribute_values(":shard", AttributeValue::S(due_partition(shard)))
            .expression_attribute_values(":now", AttributeValue::S(format!("{}$", sortable(now))))
            .set_exclusive_start_key(after)
            .limit(DUE_PAGE)
            .send()
            .await
            .map_err(unavailable)?;
        let due = |item: &Item| Some(Due { key: Key::of(item)?, sort: text(item, "due_sk")? });
        let rows = answer.items.unwrap_or_default().iter().filter_map(due).collect();
        Ok((rows, answer.last_evaluated_key))
    }

    /// Moves a row's due time, if it is still the one that was seen. `None`: it is not, and somebody else moved it.
    pub async fn postpone(&self, due: &Due, to: Timestamp) -> Result<Option<Item>, StoreError> {
        let [(_, shard), (_, sort)] = due_attributes(&due.key, to);
        let answer = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(due.key.attributes()))
            .condition_expression("due_sk = :seen")
            .update_expression("SET due_pk = :shard, due_sk = :sort")
            .expression_attribute_values(":seen", AttributeValue::S(due.sort.clone()))
            .expression_attribute_values(":shard", shard)
            .expression_attribute_values(":sort", sort)
            .return_values(ReturnValue::AllNew)
            .send()
            .await;
        match answer {
            Ok(answer) => Ok(answer.attributes),
            Err(error) => match error.as_service_error() {
                // Held by a transaction: whoever holds it moves it.
                Some(
                    UpdateItemError::ConditionalCheckFailedException(_)
                    | UpdateItemError::TransactionConflictException(_),
                ) => Ok(None),
                _ => Err(unavailable(error)),
            },
        }
    }

    /// Keeps a row until then at least, where it is there and would be removed before.
    pub async fn keep_until(&self, key: &Key, at: Timestamp) -> Result<(), StoreError> {
        let update = self.client.update_item().table_name(&self.table).set_key(Some(key.attributes()));
        let update = update
            .condition_expression("#ttl < :until")
            .update_expression("SET #ttl = :until")
            .expression_attribute_names("#ttl", "ttl")
            .expression_attribute_values(":until", number(at.seconds()));
        update_in_turn(update).await.map(|_kept_now_or_before| ())
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
    pub async fn rows_of_prefix<R: Row>(&self, pk: &str, prefix: &str) -> Result<Vec<R>, StoreError> {
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

/// How a conditional update of one row ended.
pub(crate) enum Updated {
    /// The row as it is now, where it was asked for.
    Done(Item),
    /// Its condition does not hold. The row as it was, where it was asked for; empty when there is none.
    Refused(Item),
}

/// Updates a row and gives what was asked for of it; `None`: its condition does not hold. A row that a transaction holds,
/// for some milliseconds, is waited for, within a bound.
pub(crate) async fn update_in_turn(update: UpdateItemFluentBuilder) -> Result<Option<Item>, StoreError> {
    Ok(match update_unless_refused(update).await? {
        Updated::Done(item) => Some(item),
        Updated::Refused(_) => None,
    })
}

/// The same, with the row that refused it.
pub(crate) async fn update_unless_refused(update: UpdateItemFluentBuilder) -> Result<Updated, StoreError> {
    let mut attempt = 0;
    loop {
        let error = match update.clone().send().await {
            Ok(answer) => return Ok(Updated::Done(answer.attributes.unwrap_or_default())),
            Err(error) => error,
        };
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                return Ok(Updated::Refused(refused.item().cloned().unwrap_or_default()));
            }
            Some(UpdateItemError::TransactionConflictException(_)) if attempt < MAX_WRITE_ATTEMPTS => {
                tokio::time::sleep(pause_before_retry(attempt)).await;
                attempt = attempt.saturating_add(1);
            }
            _ => return Err(unavailable(error)),
        }
    }
}

/// When DynamoDB may remove a row, in seconds since 1970, as an attribute.
pub fn ttl(seconds: i64) -> Item {
    Item::from([("ttl".to_owned(), number(seconds))])
}

fn listed(item: &Item) -> Option<Listed> {
    Some(Listed { sort: text(item, "list_sk")?, key: Key::of(item)? })
}

/// A write as DynamoDB takes it.
enum Request {
    Put(Put),
    /// Asked for again under the same token, it is carried out once.
    Transaction {
        items: Vec<TransactWriteItem>,
        token: String,
    },
}

impl Request {
    fn transaction(items: Vec<TransactWriteItem>) -> Self {
        Self::Transaction { items, token: new_token() }
    }
}

fn new_token() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// 64 random bits in hex.
fn new_put_id() -> Result<AttributeValue, StoreError> {
    let random = random::bytes::<8>().map_err(|error| StoreError::Unavailable(error.to_string()))?;
    Ok(AttributeValue::S(hex::encode(&random)))
}

/// How a write ended.
enum Written {
    Done,
    /// Rows were not as expected, those at these places; `found`: the one that was there, of a single write.
    ConditionFailed {
        at: Vec<usize>,
        found: Option<Item>,
    },
}

/// Why a write did not end.
enum Failed {
    /// Another transaction holds a row, or capacity is short: it may go through later.
    Contended,
    /// A write under the same token has not ended.
    InProgress,
    Otherwise(StoreError),
}

fn pause_before_retry(attempt: u32) -> Duration {
    let ceiling_ms = FIRST_PAUSE_MS.saturating_mul(2_u64.saturating_pow(attempt)).min(LONGEST_PAUSE_MS);
    Duration::from_millis(random::below(ceiling_ms.saturating_add(1)))
}
