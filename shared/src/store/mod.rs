//! Reads and writes of rows in the state table; the only module that speaks DynamoDB's expressions for
//! whole rows. What a row means is its noun's business.
//!
//! A state change is ONE write: [`Store::commit`] puts all the rows of a change or none. Every row carries a
//! version, and replacing one is conditional on the version that was read, so two writers can't overtake each
//! other unseen.

mod client;
mod commit;
mod contention;
mod counter;
mod due;
mod item;
mod query;
mod update;
mod write;

use std::collections::HashMap;
use std::fmt;

use aws_sdk_dynamodb::error::{DisplayErrorContext, SdkError};
use aws_sdk_dynamodb::types::KeysAndAttributes;
use serde::de::DeserializeOwned;

pub use client::{Aws, AwsError, timeouts};
pub(crate) use counter::{Updated, update_in_turn, update_unless_refused};
pub use due::{DUE_SHARDS, Due, due_attributes};
pub use item::{Item, from_item, key_attributes, key_of_item, text, to_item, ttl};
pub use query::{ListIndex, Listed, Order, PageError};
pub use update::{Plan, Update, just_read_or};
pub use write::{Bound, Committed, Inserted, Write};

use domain::money::MoneyError;
use domain::row::Key;

use self::contention::pause_before_retry;

/// The most keys that one `BatchGetItem` takes.
const BATCH_GET_KEYS: usize = 100;

/// How often a `BatchGetItem` asks again for what DynamoDB left unprocessed.
const MAX_BATCH_GET_ROUNDS: u32 = 5;

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
    pub async fn get<R: DeserializeOwned>(&self, key: &Key) -> Result<Option<R>, StoreError> {
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
    pub async fn get_in_order<R: DeserializeOwned>(&self, keys: &[Key]) -> Result<Vec<R>, StoreError> {
        let mut rows = HashMap::new();
        for item in self.batch_get(keys).await? {
            if let Some(key) = key_of_item(&item) {
                rows.insert(key, from_item(item)?);
            }
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
}
