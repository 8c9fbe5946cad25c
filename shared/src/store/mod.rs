//! Reads and writes of rows in the state table; the only module that speaks DynamoDB's expressions for
//! whole rows. What a row means is its noun's business.
//!
//! A state change is ONE write: [`Store::commit`] puts all the rows of a change or none. Every row carries a
//! version, and replacing one is conditional on the version that was read, so two writers can't overtake each
//! other unseen.

mod client;
mod due;
mod item;
mod query;
mod update;
mod write;

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use aws_sdk_dynamodb::error::{DisplayErrorContext, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, KeysAndAttributes, Put, ReturnValue,
    ReturnValuesOnConditionCheckFailure, TransactWriteItem,
};

pub use client::{Aws, AwsError, timeouts};
pub use due::{DUE_SHARDS, Due, due_attributes};
pub use item::{Item, from_item, key_attributes, key_of_item, text, to_item, ttl};
pub use query::{ListIndex, Listed, Order, PageError};
pub use update::{Plan, Update};
pub use write::{Bound, Committed, Inserted, Write};

use domain::hex;
use domain::money::MoneyError;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use self::item::number;
use self::write::{Change, add, put};
use crate::random;

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

/// Why a read or write of DynamoDB failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// DynamoDB did not answer, or could not execute the request now.
    #[error("the database did not answer: {0}")]
    Unavailable(String),
    /// A row can't be read or written, or a row that must exist does not.
    #[error("a row can't be read or written: {0}")]
    Corrupt(String),
}

/// Stored numbers whose sum is out of range.
impl From<MoneyError> for StoreError {
    fn from(error: MoneyError) -> Self {
        Self::Corrupt(error.to_string())
    }
}

/// Wraps an SDK error with all its causes.
pub fn unavailable<E, R>(error: SdkError<E, R>) -> StoreError
where
    E: std::error::Error + Send + Sync + 'static,
    R: fmt::Debug + Send + Sync + 'static,
{
    StoreError::Unavailable(DisplayErrorContext(error).to_string())
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
            .set_key(Some(key_attributes(key)))
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
            let chunk: Vec<Item> = chunk.iter().map(key_attributes).collect();
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

    /// Keeps a row until then at least, where it is there and would be removed before.
    pub async fn keep_until(&self, key: &Key, at: Timestamp) -> Result<(), StoreError> {
        let update = self.client.update_item().table_name(&self.table).set_key(Some(key_attributes(key)));
        let update = update
            .condition_expression("#ttl < :until")
            .update_expression("SET #ttl = :until")
            .expression_attribute_names("#ttl", "ttl")
            .expression_attribute_values(":until", number(at.seconds()));
        update_in_turn(update).await.map(|_kept_now_or_before| ())
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
