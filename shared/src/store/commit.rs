//! Commits: write all rows of a state change, or none. A commit that meets a concurrent transaction is
//! retried a limited number of times.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};

use serde::de::DeserializeOwned;

use domain::hex;
use domain::row::Row;

use super::update::{MAX_WRITE_RETRIES, RETRY_BUDGET, WINDOWS, pause_before_retry, pause_within};
use super::write::{PUT_ID, WriteKind, insert};
use super::{
    CommitOutcome, Inserted, Item, Result, Store, StoreError, Write, from_item, unavailable, write_error,
};
use crate::random;

/// After the first conflict on the place of an audit row, the window of the pause is this many times as long
/// as the attempt, within [`WINDOWS`].
const FIRST_APPEND_WINDOW_IN_ATTEMPTS: u32 = 12;

impl Store {
    /// Inserts a row. If a row with this key exists, returns that row instead. Sends one request.
    pub async fn insert<R: Row + DeserializeOwned>(&self, row: &R) -> Result<Inserted<R>> {
        self.insert_or_read(row).await
    }

    /// Like [`Store::insert`], but deserialises an existing row as `R` instead of the type of `row`.
    pub async fn insert_or_read<R: DeserializeOwned>(&self, row: &impl Row) -> Result<Inserted<R>> {
        match self.write(RETRY_BUDGET, vec![Write::insert(row)?]).await? {
            WriteOutcome::Done => Ok(Inserted::New),
            WriteOutcome::ConditionFailed { found, .. } => {
                from_item(found.unwrap_or_default()).map(Inserted::Existing)
            }
        }
    }

    /// Executes all writes of a state change, or none. There can be at most 100 writes, DynamoDB's limit for
    /// a transaction. A single insert or replacement is sent as a conditional put or update, which costs half
    /// the write units of a transaction.
    /// Errors: [`StoreError::Unavailable`] when the database does not answer, or other callers extend the chain
    /// of an audit row during the whole retry budget.
    pub async fn commit(&self, writes: Vec<Write>) -> Result<CommitOutcome> {
        self.commit_within(RETRY_BUDGET, writes).await
    }

    /// Like [`Store::commit`], with a budget for the retries.
    ///
    /// When another caller extends the chain first, only the newest audit row is read again, after a pause,
    /// and the same writes are sent. If a row of the change is no longer the one that was read, its condition
    /// fails, and the commit ends with a conflict.
    pub(super) async fn commit_within(&self, budget: Duration, writes: Vec<Write>) -> Result<CommitOutcome> {
        if !has_audit_row(&writes) {
            return self.execute(budget, writes).await;
        }
        // Boxed, because most commits have no audit row.
        Box::pin(async {
            let started_at = Instant::now();
            let mut conflicts: u32 = 0;
            loop {
                let attempt_started_at = Instant::now();
                let (linked, appended) = self.link_audit_rows(writes.clone()).await?;
                let left = budget.saturating_sub(started_at.elapsed());
                if let Some(outcome) = self.commit_linked(left, linked, appended).await? {
                    return Ok(outcome);
                }
                let left = budget.saturating_sub(started_at.elapsed());
                if left.is_zero() {
                    let message = "other callers kept appending audit rows of the account".to_owned();
                    return Err(StoreError::Unavailable(message));
                }
                conflicts = conflicts.saturating_add(1);
                let window = append_window(conflicts, attempt_started_at.elapsed());
                tokio::time::sleep(pause_within(window).min(left)).await;
            }
        })
        .await
    }

    /// Executes writes without audit rows, all or none. Begins no retry when the budget is spent.
    pub(super) async fn execute(&self, budget: Duration, writes: Vec<Write>) -> Result<CommitOutcome> {
        match self.write(budget, writes).await? {
            WriteOutcome::Done => Ok(CommitOutcome::Done),
            WriteOutcome::ConditionFailed { at, .. } => Ok(CommitOutcome::Conflict { at }),
        }
    }

    /// Executes the writes. While another transaction holds a row, or a transaction is throttled, it retries up
    /// to [`MAX_WRITE_RETRIES`] times within the budget.
    async fn write(&self, budget: Duration, writes: Vec<Write>) -> Result<WriteOutcome> {
        let started_at = Instant::now();
        let mut request = match <[Write; 1]>::try_from(writes) {
            Ok([Write { change: WriteKind::Insert { mut item }, table }]) => {
                item.insert(PUT_ID.to_owned(), new_put_id()?);
                Request::Put(insert(table.as_deref().unwrap_or(&self.table), item)?)
            }
            Ok([Write { change: WriteKind::Replace(mut replacement), table }]) => {
                let id = new_put_id()?;
                replacement.set_put_id(id.clone());
                let update = replacement.update(table.as_deref().unwrap_or(&self.table));
                Request::Update(update?, id)
            }
            Ok([only]) => Request::transaction(vec![only.into_transact_item(&self.table)?]),
            Err(many) => {
                let items = many.into_iter().map(|write| write.into_transact_item(&self.table));
                Request::transaction(items.collect::<Result<_, _>>()?)
            }
        };
        if self.is_dry_run {
            return Ok(WriteOutcome::Done);
        }
        let mut attempt = 0;
        loop {
            let attempted = match &request {
                Request::Put(put) => self.put(put).await,
                Request::Update(update, id) => self.update_row(update, id).await,
                Request::Transaction { items, token } => self.transact(items.clone(), token).await,
            };
            match attempted {
                Ok(written) => return Ok(written),
                Err(AttemptError::Store(error)) => return Err(error),
                Err(failed) => {
                    let max_retries = match failed {
                        AttemptError::Throttled => self.throttled_retries,
                        _ => MAX_WRITE_RETRIES,
                    };
                    if attempt >= max_retries || started_at.elapsed() >= budget {
                        return Err(failed.into_store_error());
                    }
                    // A cancelled transaction is retried under a new token. If DynamoDB reports that a
                    // transaction with this token is in progress, the response to an earlier attempt was
                    // lost. A retry with the same token returns the outcome of that attempt.
                    if let (
                        AttemptError::Contended | AttemptError::Throttled,
                        Request::Transaction { token, .. },
                    ) = (failed, &mut request)
                    {
                        *token = new_token();
                    }
                    tokio::time::sleep(pause_before_retry(attempt)).await;
                    attempt = attempt.saturating_add(1);
                }
            }
        }
    }

    async fn put(&self, put: &Put) -> Result<WriteOutcome, AttemptError> {
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
        let Err(error) = answer else { return Ok(WriteOutcome::Done) };
        match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(failed)) => {
                Ok(WriteOutcome::of_refused(failed.item(), put.item().get(PUT_ID)))
            }
            Some(PutItemError::TransactionConflictException(_)) => Err(AttemptError::Contended),
            _ => Err(AttemptError::Store(write_error(error))),
        }
    }

    async fn update_row(&self, update: &Update, id: &AttributeValue) -> Result<WriteOutcome, AttemptError> {
        let answer = self
            .single_update(update)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        let Err(error) = answer else { return Ok(WriteOutcome::Done) };
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(failed)) => {
                Ok(WriteOutcome::of_refused(failed.item(), Some(id)))
            }
            Some(UpdateItemError::TransactionConflictException(_)) => Err(AttemptError::Contended),
            _ => Err(AttemptError::Store(write_error(error))),
        }
    }

    async fn transact(
        &self,
        items: Vec<TransactWriteItem>,
        token: &str,
    ) -> Result<WriteOutcome, AttemptError> {
        let request = self.client.transact_write_items().set_transact_items(Some(items));
        let answer = request.client_request_token(token).send().await;
        let Err(error) = answer else { return Ok(WriteOutcome::Done) };
        let reasons = match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                cancelled.cancellation_reasons()
            }
            Some(TransactWriteItemsError::TransactionInProgressException(_)) => {
                return Err(AttemptError::InProgress);
            }
            _ => return Err(AttemptError::Store(write_error(error))),
        };
        let indexes_of = |codes: &[&str]| -> Vec<usize> {
            let is_one =
                |reason: &CancellationReason| reason.code().is_some_and(|code| codes.contains(&code));
            reasons.iter().enumerate().filter(|(_, reason)| is_one(reason)).map(|(index, _)| index).collect()
        };
        let failed = indexes_of(&["ConditionalCheckFailed"]);
        if !failed.is_empty() {
            return Ok(WriteOutcome::ConditionFailed { at: failed, found: None });
        }
        if !indexes_of(&["TransactionConflict"]).is_empty() {
            return Err(AttemptError::Contended);
        }
        // The reasons of a cancelled transaction do not show whether a key or the whole table is throttled.
        if !indexes_of(&["ThrottlingError", "ProvisionedThroughputExceeded"]).is_empty() {
            return Err(AttemptError::Throttled);
        }
        if !indexes_of(&["ValidationError"]).is_empty() {
            return Err(AttemptError::Store(StoreError::Corrupt(DisplayErrorContext(error).to_string())));
        }
        Err(AttemptError::Store(unavailable(error)))
    }
}

/// Returns the window of the pause after this many conflicts on the place of an audit row. The last attempt
/// lasted `took`.
///
/// Each conflict means that another caller has finished. The window shrinks with each conflict, so that a
/// caller that has waited long is not overtaken by callers that have just begun. It is never shorter than an
/// attempt, so that callers who have waited long do not all retry at once.
fn append_window(conflicts: u32, took: Duration) -> Duration {
    let attempts = FIRST_APPEND_WINDOW_IN_ATTEMPTS.checked_div(conflicts).unwrap_or_default().max(1);
    took.saturating_mul(attempts).min(WINDOWS.longest)
}

fn has_audit_row(writes: &[Write]) -> bool {
    writes.iter().any(|write| matches!(write.change, WriteKind::Audit(_)))
}

/// The request to DynamoDB for the writes of a commit.
enum Request {
    Put(Put),
    /// A replacement, and the random id that it writes.
    Update(Update, AttributeValue),
    /// DynamoDB executes the transaction only once, even if it is sent again with the same token.
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
fn new_put_id() -> Result<AttributeValue> {
    let random = random::bytes::<8>().map_err(|error| StoreError::Unavailable(error.to_string()))?;
    Ok(AttributeValue::S(hex::encode(random)))
}

enum WriteOutcome {
    Done,
    /// The conditions of the writes at the indexes `at` failed. `found` is the existing row. Only a single
    /// put returns it; after a transaction it is `None`.
    ConditionFailed {
        at: Vec<usize>,
        found: Option<Item>,
    },
}

impl WriteOutcome {
    /// Returns the outcome of a single write whose condition failed. If the stored row has the write's own id,
    /// the SDK has retried because a response was lost, and the first try succeeded.
    fn of_refused(found: Option<&Item>, id: Option<&AttributeValue>) -> Self {
        if found.and_then(|found| found.get(PUT_ID)) == id {
            return Self::Done;
        }
        Self::ConditionFailed { at: vec![0], found: found.cloned() }
    }
}

enum AttemptError {
    /// Another transaction holds a row. A retry may succeed.
    Contended,
    /// The transaction is throttled. A retry may succeed. The SDK retries other throttled writes itself.
    Throttled,
    /// A transaction under the same client token is still in progress.
    InProgress,
    Store(StoreError),
}

impl AttemptError {
    /// Returns the error of a write whose retries are used up.
    fn into_store_error(self) -> StoreError {
        match self {
            Self::Contended | Self::InProgress => {
                StoreError::Unavailable("other transactions held a row during all retries".to_owned())
            }
            Self::Throttled => {
                StoreError::Throttled("DynamoDB throttled a transaction during all retries".to_owned())
            }
            Self::Store(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_of_an_append_shrinks_with_each_conflict_down_to_an_attempt() {
        let ms = Duration::from_millis;
        let windows = [1, 2, 5, 12, 100].map(|conflicts| append_window(conflicts, ms(20)));
        assert_eq!(windows, [ms(240), ms(120), ms(40), ms(20), ms(20)]);
        assert_eq!(append_window(1, ms(500)), WINDOWS.longest);
    }
}
