//! Reads and writes rows of the state table and of the table of secrets. The types of the rows are in the
//! modules of their resources, such as `charge` or `refund`. Those modules use the DynamoDB client directly
//! only for updates of a row's attributes and for special queries.
//!
//! A state change is one commit: [`Store::commit`] writes all rows of the change or none. A row that can be
//! replaced has a version, and its replacement is conditional on the version that was read. A caller
//! therefore never overwrites another caller's change: the commit conflicts, and the caller reads the row
//! again.

/// Defines a repository: a type with methods on the rows of one kind in a store.
#[macro_export]
macro_rules! repository {
    ($(#[$doc:meta])* $Name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $Name {
            pub store: $crate::store::Store,
        }

        impl $Name {
            pub fn new(store: $crate::store::Store) -> Self {
                Self { store }
            }
        }
    };
}
pub use repository;

mod attributes;
mod audit;
mod client;
mod commit;
mod counter;
mod due;
mod item;
mod lease;
mod query;
mod row_update;
mod update;
mod write;

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::sync::Arc;
use std::{fmt, iter};

use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::KeysAndAttributes;
use aws_sdk_dynamodb::types::error::{ProvisionedThroughputExceededException, ThrottlingException};
use futures_util::future::try_join_all;
use serde::de::DeserializeOwned;

pub(crate) use audit::head_of;
pub use client::{Aws, AwsError, endpoint_url};
pub use counter::UpdateOutcome;
pub use due::{DUE_SHARDS, DuePartition, DueRow, due_attributes, due_limit};
pub use item::{Item, from_item, integer, key_attributes, key_of_item, number, text, to_item, ttl};
pub use lease::lease_end;
pub use query::{ListEntry, ListIndex, ListPage, Order, PageError, PageRange};
pub use row_update::RowUpdate;
pub use update::{Plan, reuse_or_read};
pub use write::{CommitOutcome, Inserted, Write};

use domain::money::MoneyError;
use domain::row::Key;

use self::update::{MAX_WRITE_RETRIES, pause_before_retry};
use crate::random::RandomError;

/// The longest partition key and sort key of DynamoDB, in bytes. No row has a longer one.
const MAX_PK_BYTES: usize = 2_048;
const MAX_SK_BYTES: usize = 1_024;

/// The most keys that one `BatchGetItem` accepts.
const BATCH_GET_KEYS: usize = 100;

/// The most requests for one chunk of keys: the first request, and its repetitions for the keys that DynamoDB
/// left unprocessed.
const MAX_BATCH_GET_ROUNDS: u32 = 5;

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a read or write of DynamoDB failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// DynamoDB did not answer, could not execute the request now, or refused all retries. A later attempt
    /// may succeed.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// DynamoDB throttled a partition key, because it received more requests than a partition accepts. Requests to
    /// other keys succeed, and a later attempt may succeed.
    #[error("the database throttles a partition: {0}")]
    Throttled(String),
    /// A row can't be serialised or deserialised, a row that must exist is missing, or DynamoDB refused a write
    /// as invalid, for example because a counter is not a number. A later attempt fails too.
    #[error("a row can't be read or written: {0}")]
    Corrupt(String),
    /// A row that needs random bytes, such as one of the audit, can't be made.
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// Converts an arithmetic error. A sum of stored amounts that is out of range means that a row is corrupt.
impl From<MoneyError> for StoreError {
    fn from(error: MoneyError) -> Self {
        Self::Corrupt(error.to_string())
    }
}

impl From<serde_dynamo::Error> for StoreError {
    fn from(error: serde_dynamo::Error) -> Self {
        Self::Corrupt(error.to_string())
    }
}

/// Wraps an SDK error with all its causes: as [`StoreError::Throttled`] if DynamoDB throttled a partition key, else
/// as [`StoreError::Unavailable`].
pub fn unavailable<E, R>(error: SdkError<E, R>) -> StoreError
where
    E: std::error::Error + Send + Sync + 'static,
    R: fmt::Debug + Send + Sync + 'static,
{
    let throttles_key = throttles_key(&error);
    let text = DisplayErrorContext(error).to_string();
    if throttles_key { StoreError::Throttled(text) } else { StoreError::Unavailable(text) }
}

/// Checks whether a request was throttled only because of its partition keys. A throttle of the whole table or of
/// the AWS account has other reasons.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ThrottlingReason.html>
fn throttles_key(error: &(dyn Error + 'static)) -> bool {
    iter::successors(Some(error), |error| (*error).source()).any(|error| {
        let reasons = if let Some(error) = error.downcast_ref::<ThrottlingException>() {
            error.throttling_reasons()
        } else if let Some(error) = error.downcast_ref::<ProvisionedThroughputExceededException>() {
            error.throttling_reasons()
        } else {
            &[]
        };
        let is_of_key = |reason: &str| reason.ends_with("KeyRangeThroughputExceeded");
        !reasons.is_empty() && reasons.iter().all(|reason| reason.reason().is_some_and(is_of_key))
    })
}

/// Wraps the error of a write: as [`StoreError::Corrupt`] if DynamoDB refused the write as invalid, else as
/// [`unavailable`] does.
fn write_error<E, R>(error: SdkError<E, R>) -> StoreError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    R: fmt::Debug + Send + Sync + 'static,
{
    if error.code() == Some("ValidationException") {
        return StoreError::Corrupt(DisplayErrorContext(error).to_string());
    }
    unavailable(error)
}

/// Access to a table. Clones share one DynamoDB client.
#[derive(Clone, Debug)]
pub struct Store {
    client: aws_sdk_dynamodb::Client,
    table: Arc<str>,
    /// How often a throttled transaction is retried.
    throttled_retries: u32,
    /// Writes nothing, and reports each write as done.
    is_dry_run: bool,
}

impl Store {
    pub fn new(client: aws_sdk_dynamodb::Client, table: impl AsRef<str>) -> Self {
        Self { client, table: table.as_ref().into(), throttled_retries: MAX_WRITE_RETRIES, is_dry_run: false }
    }

    /// Creates a store for a function of the stream, with few retries of throttled requests. The function sets a
    /// throttled record aside, so that the records of other accounts do not wait for the retries.
    pub fn for_stream(aws: &Aws, table: impl AsRef<str>) -> Self {
        let client = aws.dynamodb_for_stream();
        let throttled_retries = client::STREAM_ATTEMPTS.saturating_sub(1);
        Self { client, table: table.as_ref().into(), throttled_retries, is_dry_run: false }
    }

    /// Returns a store that writes nothing if `is_dry_run`, and reports each commit, insert and update of a row as
    /// done. Conditions of writes are not checked.
    #[must_use]
    pub fn with_dry_run(self, is_dry_run: bool) -> Self {
        Self { is_dry_run, ..self }
    }

    /// The DynamoDB client, for requests that a resource's module builds itself.
    pub fn client(&self) -> &aws_sdk_dynamodb::Client {
        &self.client
    }

    pub fn table(&self) -> &str {
        &self.table
    }

    /// Reads one row, strongly consistent, so that a row can be read as soon as its insert has returned.
    /// `None`: no row has this key.
    pub async fn get<R: DeserializeOwned>(&self, key: &Key) -> Result<Option<R>> {
        self.get_item(key).await?.map(from_item).transpose()
    }

    /// Like [`Store::get`]. Without a key nothing is read.
    pub async fn find<R: DeserializeOwned>(&self, key: Option<Key>) -> Result<Option<R>> {
        match key {
            Some(key) => self.get(&key).await,
            None => Ok(None),
        }
    }

    /// Like [`Store::get`], but returns the item without deserialising it.
    pub async fn get_item(&self, key: &Key) -> Result<Option<Item>> {
        // DynamoDB would refuse such a key, which can come from an id in a path.
        if !(1..=MAX_PK_BYTES).contains(&key.pk.len()) || !(1..=MAX_SK_BYTES).contains(&key.sk.len()) {
            return Ok(None);
        }
        let answer = self
            .client
            .get_item()
            .table_name(&*self.table)
            .set_key(Some(key_attributes(key)))
            .consistent_read(true)
            .send()
            .await
            .map_err(unavailable)?;
        Ok(answer.item)
    }

    /// Reads many items, strongly consistent, in no particular order. Keys without an item are skipped. The item of
    /// a repeated key is returned once. Sends one request for each 100 keys, all requests concurrently.
    pub async fn batch_get(&self, keys: &[Key]) -> Result<Vec<Item>> {
        let mut known = HashSet::new();
        // DynamoDB refuses a key twice.
        let keys: Vec<&Key> = keys.iter().filter(|key| known.insert(*key)).collect();
        let chunks = keys.chunks(BATCH_GET_KEYS).map(|chunk| {
            let chunk = chunk.iter().copied().map(key_attributes).collect();
            self.batch_get_chunk(HashMap::from([(self.table.to_string(), chunk)]))
        });
        Ok(try_join_all(chunks).await?.into_iter().flat_map(HashMap::into_values).flatten().collect())
    }

    /// Reads items of this table and one item of another table, strongly consistent, in one request. Keys
    /// without an item are skipped. There can be at most 99 `keys`, DynamoDB's limit for a request.
    ///
    /// The read is not atomic: a transaction that commits meanwhile may be seen in one item and not in
    /// another.
    pub async fn batch_get_with(
        &self,
        keys: &[Key],
        (other, other_key): (&Self, &Key),
    ) -> Result<(Vec<Item>, Option<Item>)> {
        let mut found = self
            .batch_get_chunk(HashMap::from([
                (self.table.to_string(), keys.iter().map(key_attributes).collect()),
                (other.table.to_string(), vec![key_attributes(other_key)]),
            ]))
            .await?;
        let other = found.remove(&*other.table).and_then(|mut items| items.pop());
        Ok((found.remove(&*self.table).unwrap_or_default(), other))
    }

    /// Like [`Store::batch_get`], but deserialises the rows and returns them in the order of `keys`. The row of a
    /// repeated key has its first place.
    pub async fn get_in_order<R: DeserializeOwned>(&self, keys: &[Key]) -> Result<Vec<R>> {
        Ok(self.get_each(keys).await?.into_iter().flatten().collect())
    }

    /// Like [`Store::get_in_order`], with `None` for a key without a row.
    pub async fn get_each<R: DeserializeOwned>(&self, keys: &[Key]) -> Result<Vec<Option<R>>> {
        let mut rows = HashMap::new();
        for item in self.batch_get(keys).await? {
            if let Some(key) = key_of_item(&item) {
                rows.insert(key, from_item(item)?);
            }
        }
        Ok(keys.iter().map(|key| rows.remove(key)).collect())
    }

    /// Reads the items with the keys of each table. Returns the items of each table.
    async fn batch_get_chunk(
        &self,
        mut keys: HashMap<String, Vec<Item>>,
    ) -> Result<HashMap<String, Vec<Item>>> {
        let mut items: HashMap<String, Vec<Item>> = HashMap::new();
        for round in 0..MAX_BATCH_GET_ROUNDS {
            if round > 0 {
                tokio::time::sleep(pause_before_retry(round)).await;
            }
            let mut request = self.client.batch_get_item();
            for (table, keys) in keys {
                let keys = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
                let keys = keys.map_err(|error| StoreError::Corrupt(error.to_string()))?;
                request = request.request_items(table, keys);
            }
            let answer = request.send().await.map_err(unavailable)?;
            for (table, found) in answer.responses.unwrap_or_default() {
                items.entry(table).or_default().extend(found);
            }
            let unprocessed = answer.unprocessed_keys.unwrap_or_default().into_iter();
            keys = unprocessed.map(|(table, unprocessed)| (table, unprocessed.keys)).collect();
            keys.retain(|_, keys| !keys.is_empty());
            if keys.is_empty() {
                return Ok(items);
            }
        }
        Err(StoreError::Unavailable("BatchGetItem left keys unprocessed".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::operation::put_item::PutItemError;
    use aws_sdk_dynamodb::types::ThrottlingReason;

    use super::*;

    #[test]
    fn only_a_throttle_of_partition_keys_is_one_of_a_key() {
        let throttles = |reasons: &[&str]| {
            let reasons =
                reasons.iter().map(|reason| ThrottlingReason::builder().reason(*reason).build()).collect();
            let error = ThrottlingException::builder().set_throttling_reasons(Some(reasons)).build();
            throttles_key(&PutItemError::ThrottlingException(error))
        };
        assert!(throttles(&["TableWriteKeyRangeThroughputExceeded"]));
        assert!(throttles(&["IndexWriteKeyRangeThroughputExceeded", "TableReadKeyRangeThroughputExceeded"]));
        for of_table in [
            "TableWriteMaxOnDemandThroughputExceeded",
            "TableWriteAccountLimitExceeded",
            "IndexWriteProvisionedThroughputExceeded",
        ] {
            assert!(!throttles(&[of_table]), "{of_table}");
            assert!(!throttles(&["TableWriteKeyRangeThroughputExceeded", of_table]), "{of_table}");
        }
        assert!(!throttles(&[]), "the reason is unknown");
    }
}
