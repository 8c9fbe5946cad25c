//! Updates of one row without a transaction: additions to a counter, and extensions of a `ttl`.

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::Update;

use domain::row::Key;
use domain::time::Timestamp;

use super::item::{integer, number};
use super::update::{MAX_WRITE_RETRIES, pause_before_retry};
use super::{Item, RowUpdate, Store, StoreError, write_error};

impl Store {
    /// Adds to a counter of a row, writes the attributes `set`, and returns the counter. The row is created if it
    /// does not exist. `None`: the counter would exceed `max`, and nothing is written.
    ///
    /// It is one update without a transaction, so that concurrent additions do not conflict. An addition
    /// whose response was lost may be counted twice, because the SDK retries it.
    pub async fn add_up_to(
        &self,
        key: &Key,
        (counter, by): (&str, i64),
        set: Item,
        max: Option<i64>,
    ) -> Result<Option<i64>, StoreError> {
        let mut update = RowUpdate::of(key.clone()).add(counter, number(by)).set_all(set);
        if let Some(max) = max {
            update = update.when_absent_or(counter, "<=", number(max.saturating_sub(by)));
        }
        let UpdateOutcome::Done(updated) = update.run(self).await? else { return Ok(None) };
        let total = integer(&updated, counter);
        total.map(Some).ok_or_else(|| StoreError::Corrupt(format!("{counter} is not a counter")))
    }

    /// Builds the request for an update outside of a transaction.
    pub(super) fn single_update(&self, update: &Update) -> UpdateItemFluentBuilder {
        self.client
            .update_item()
            .table_name(update.table_name())
            .set_key(Some(update.key().clone()))
            .update_expression(update.update_expression())
            .set_condition_expression(update.condition_expression().map(str::to_owned))
            .set_expression_attribute_names(update.expression_attribute_names().cloned())
            .set_expression_attribute_values(update.expression_attribute_values().cloned())
    }

    /// Extends a row's time to live: if the row has a `ttl` before `until`, its `ttl` becomes `until`.
    /// Otherwise nothing changes.
    pub async fn extend_ttl(&self, key: &Key, until: Timestamp) -> Result<(), StoreError> {
        let until = number(until.seconds());
        let update = RowUpdate::of(key.clone()).set("ttl", until.clone()).when("ttl", "<", until);
        update.run(self).await.map(|_extended_or_unchanged| ())
    }
}

/// The outcome of a conditional update of one row.
pub enum UpdateOutcome {
    /// The row was updated, and is now this one.
    Done(Item),
    /// The condition failed. Contains the stored row; empty if it does not exist.
    Refused(Item),
}

/// Runs a conditional update. If it conflicts with a transaction on the row, which takes some milliseconds, it
/// is retried up to 12 times, for about two seconds in all.
pub(super) async fn conditional_update(update: UpdateItemFluentBuilder) -> Result<UpdateOutcome, StoreError> {
    let mut attempt = 0;
    loop {
        let error = match update.clone().send().await {
            Ok(answer) => return Ok(UpdateOutcome::Done(answer.attributes.unwrap_or_default())),
            Err(error) => error,
        };
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                return Ok(UpdateOutcome::Refused(refused.item().cloned().unwrap_or_default()));
            }
            Some(UpdateItemError::TransactionConflictException(_)) if attempt < MAX_WRITE_RETRIES => {
                tokio::time::sleep(pause_before_retry(attempt)).await;
                attempt = attempt.saturating_add(1);
            }
            _ => return Err(write_error(error)),
        }
    }
}
