//! The due index: rows that the scheduler must process, in eight shards, each sorted by due time.

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};

use domain::row::{Key, sortable};
use domain::time::Timestamp;

use super::{Item, Store, StoreError, key_attributes, key_of_item, text, unavailable};

/// The number of rows in a page of the due index.
const DUE_PAGE: i32 = 100;

/// The number of shards (partitions) of the due index. DynamoDB accepts 1,000 writes a second to one
/// partition. The second half of the shards contains only deliveries, so that a backlog of deliveries does not
/// delay other due rows.
pub const DUE_SHARDS: u8 = 2 * HALF_OF_DUE_SHARDS;

const HALF_OF_DUE_SHARDS: u8 = 4;

/// A row that is due, as the due index shows it.
#[derive(Clone, Debug)]
pub struct DueRow {
    /// The primary key of the row.
    pub key: Key,
    /// The sort key in the due index: the due time, then the row's primary key.
    pub sort: String,
}

/// Returns the attributes that put a row into the due index at the time `at`: its shard and its sort key.
pub fn due_attributes(key: &Key, at: Timestamp) -> [(String, AttributeValue); 2] {
    // A delivery's partition key ends with its sort key, the id. If both were added, each byte of the id would
    // add an even number, and two of the four shards would stay empty.
    let of_pk = key.pk.strip_suffix(&key.sk).unwrap_or(&key.pk);
    let sum = of_pk.bytes().chain(key.sk.bytes()).fold(0_u8, u8::wrapping_add);
    let shard = sum.checked_rem(HALF_OF_DUE_SHARDS).unwrap_or_default();
    let is_of_deliveries = key.pk.starts_with("delivery#") || key.pk.starts_with("deliveries#");
    let half = if is_of_deliveries { HALF_OF_DUE_SHARDS } else { 0 };
    let shard = shard.saturating_add(half);
    [
        ("due_pk".to_owned(), AttributeValue::S(due_partition(shard))),
        ("due_sk".to_owned(), AttributeValue::S(format!("{}#{}", sortable(at), key.joined()))),
    ]
}

/// Returns the exclusive upper limit of the sort keys of rows that are due at `now` or before. It ends with `$`.
/// That sorts after the `#` which follows the time in a sort key, so rows that are due exactly at `now` are
/// included.
pub fn due_limit(now: Timestamp) -> String {
    format!("{}$", sortable(now))
}

fn due_partition(shard: u8) -> String {
    format!("due#{shard}")
}

impl Store {
    /// Reads a page of the rows in one shard that are due at `now` or before, the longest overdue first.
    /// `after` is the key at which the previous page ended; `None` reads the first page. Returns the rows and
    /// the key at which this page ended. That key is `None` on the last page.
    pub async fn due(
        &self,
        shard: u8,
        now: Timestamp,
        after: Option<Item>,
    ) -> Result<(Vec<DueRow>, Option<Item>), StoreError> {
        let answer = self
            .client
            .query()
            .table_name(&*self.table)
            .index_name("due")
            .key_condition_expression("due_pk = :shard AND due_sk < :now")
            .expression_attribute_values(":shard", AttributeValue::S(due_partition(shard)))
            .expression_attribute_values(":now", AttributeValue::S(due_limit(now)))
            .set_exclusive_start_key(after)
            .limit(DUE_PAGE)
            .send()
            .await
            .map_err(unavailable)?;
        let due = |item: &Item| Some(DueRow { key: key_of_item(item)?, sort: text(item, "due_sk")? });
        let rows = answer.items.unwrap_or_default().iter().filter_map(due).collect();
        Ok((rows, answer.last_evaluated_key))
    }

    /// Changes a row's due time to `to` and returns the updated row. Condition: the due time is still the one
    /// in `due`. `None`: another caller has changed it, or is changing the row in a transaction.
    pub async fn postpone(&self, due: &DueRow, to: Timestamp) -> Result<Option<Item>, StoreError> {
        let [(_, shard), (_, sort)] = due_attributes(&due.key, to);
        let answer = self
            .client
            .update_item()
            .table_name(&*self.table)
            .set_key(Some(key_attributes(&due.key)))
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
                // A conflicting transaction sets the row's due time itself.
                Some(
                    UpdateItemError::ConditionalCheckFailedException(_)
                    | UpdateItemError::TransactionConflictException(_),
                ) => Ok(None),
                _ => Err(unavailable(error)),
            },
        }
    }
}
