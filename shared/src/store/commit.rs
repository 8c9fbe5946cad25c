//! Writes: all the rows of a state change, or none.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
};

use serde::de::DeserializeOwned;

use domain::hex;
use domain::row::Row;

use super::contention::{MAX_WRITE_ATTEMPTS, pause_before_retry};
use super::write::{Change, put};
use super::{Committed, Inserted, Item, Store, StoreError, Write, from_item, unavailable};
use crate::random;

/// The attribute that names a single put: random, so that a caller whose answer was lost knows its own row by it, and two
/// callers that write equal rows are told apart. Transactions have client tokens for that, and their rows have none.
const PUT_ID: &str = "put_id";

impl Store {
    /// Inserts a row, or hands back the one that was there, in one request.
    pub async fn insert<R: Row + DeserializeOwned>(&self, row: &R) -> Result<Inserted<R>, StoreError> {
        self.insert_or_read(row).await
    }

    /// As [`Store::insert`], of a row that is read as another type than it is written as.
    pub async fn insert_or_read<R: DeserializeOwned>(
        &self,
        row: &impl Row,
    ) -> Result<Inserted<R>, StoreError> {
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
