//! The due index: rows that the scheduler must process. It has eight shards of one or eight partitions. A
//! partition is sorted by due time.

use aws_sdk_dynamodb::types::AttributeValue;

use domain::row::{Key, sortable};
use domain::time::Timestamp;

use super::{Item, RowUpdate, Store, StoreError, UpdateOutcome, key_of_item, text, unavailable};

const DUE_PAGE: i32 = 100;

/// The number of shards of the due index. One invocation of the scheduler processes a shard. The second half of
/// the shards contains only deliveries, so that a backlog of deliveries does not delay other due rows.
pub const DUE_SHARDS: u8 = 2 * HALF_OF_DUE_SHARDS;

const HALF_OF_DUE_SHARDS: u8 = 4;

/// The number of partitions of a shard in the first half. DynamoDB accepts 1,000 writes a second to one
/// partition, and each charge of every account adds and removes an entry.
const PARTITIONS: u8 = 8;

/// The number of partitions of a shard of deliveries. A delivery has an entry only after its first failure.
const PARTITIONS_OF_DELIVERIES: u8 = 1;

fn partitions_of(shard: u8) -> u8 {
    if shard < HALF_OF_DUE_SHARDS { PARTITIONS } else { PARTITIONS_OF_DELIVERIES }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DuePartition {
    shard: u8,
    /// The number of the partition in its shard.
    number: u8,
}

impl DuePartition {
    pub fn of_shard(shard: u8) -> impl Iterator<Item = Self> {
        (0..partitions_of(shard)).map(move |number| Self { shard, number })
    }

    /// Returns the partition of a row. A checksum of its key selects the shard, and then the partition.
    fn of_row(key: &Key) -> Self {
        // A delivery's partition key ends with its sort key, the id. If both were added, each byte of the id would
        // add an even number, and two of the four shards would stay empty.
        let of_pk = key.pk.strip_suffix(&key.sk).unwrap_or(&key.pk);
        let sum = of_pk.bytes().chain(key.sk.bytes()).fold(0_u8, u8::wrapping_add);
        let below = |sum: u8, count: u8| sum.checked_rem(count).unwrap_or_default();
        let is_of_deliveries = key.pk.starts_with("delivery#") || key.pk.starts_with("deliveries#");
        let half = if is_of_deliveries { HALF_OF_DUE_SHARDS } else { 0 };
        let shard = below(sum, HALF_OF_DUE_SHARDS).saturating_add(half);
        let rest = sum.checked_div(HALF_OF_DUE_SHARDS).unwrap_or_default();
        Self { shard, number: below(rest, partitions_of(shard)) }
    }

    /// Returns the partition key. The key of a shard's first partition has no number.
    fn key(self) -> String {
        let Self { shard, number } = self;
        if number == 0 { format!("due#{shard}") } else { format!("due#{shard}#{number}") }
    }
}

/// A row that is due, as the due index shows it.
#[derive(Clone, Debug)]
pub struct DueRow {
    pub key: Key,
    /// The sort key in the due index: the due time, then the row's primary key.
    pub sort: String,
}

/// Returns the attributes that put a row into the due index at the time `at`: its partition and its sort key.
pub fn due_attributes(key: &Key, at: Timestamp) -> [(String, AttributeValue); 2] {
    [
        ("due_pk".to_owned(), AttributeValue::S(DuePartition::of_row(key).key())),
        ("due_sk".to_owned(), AttributeValue::S(format!("{}#{}", sortable(at), key.joined()))),
    ]
}

/// Returns the exclusive upper limit of the sort keys of rows that are due at `now` or before. It ends with `$`.
/// That sorts after the `#` which follows the time in a sort key, so rows that are due exactly at `now` are
/// included.
pub fn due_limit(now: Timestamp) -> String {
    format!("{}$", sortable(now))
}

impl Store {
    /// Reads a page of the rows in one partition that are due at `now` or before, the longest overdue first.
    /// `after` is the key at which the previous page ended; `None` reads the first page. Returns the rows and
    /// the key at which this page ended. That key is `None` on the last page.
    pub async fn due(
        &self,
        partition: DuePartition,
        now: Timestamp,
        after: Option<Item>,
    ) -> Result<(Vec<DueRow>, Option<Item>), StoreError> {
        let answer = self
            .client
            .query()
            .table_name(&*self.table)
            .index_name("due")
            .key_condition_expression("due_pk = :partition AND due_sk < :now")
            .expression_attribute_values(":partition", AttributeValue::S(partition.key()))
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
    /// in `due`. `None`: another caller has changed it.
    pub async fn postpone(&self, due: &DueRow, to: Timestamp) -> Result<Option<Item>, StoreError> {
        let update = RowUpdate::of(due.key.clone()).set_all(due_attributes(&due.key, to));
        match update.when("due_sk", "=", AttributeValue::S(due.sort.clone())).run(self).await? {
            UpdateOutcome::Done(row) => Ok(Some(row)),
            UpdateOutcome::Refused(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn partition_of(pk: &str, sk: &str) -> String {
        DuePartition::of_row(&Key { pk: pk.to_owned(), sk: sk.to_owned() }).key()
    }

    #[test]
    fn charges_are_spread_evenly_over_the_partitions_of_half_of_the_shards() {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for number in 0..32_000_u128 {
            let id = uuid::Uuid::from_u128(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
            *counts.entry(partition_of(&format!("charge#{id}"), "charge")).or_default() += 1;
        }
        let expected = (0..HALF_OF_DUE_SHARDS).flat_map(DuePartition::of_shard).map(DuePartition::key);
        assert!(counts.keys().cloned().collect::<Vec<_>>().iter().eq(expected.collect::<Vec<_>>().iter()));
        assert!(counts.values().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }

    #[test]
    fn rows_of_deliveries_have_shards_of_their_own() {
        let keys: Vec<String> = (HALF_OF_DUE_SHARDS..DUE_SHARDS)
            .flat_map(DuePartition::of_shard)
            .map(DuePartition::key)
            .collect();
        assert_eq!(keys, ["due#4", "due#5", "due#6", "due#7"]);
        for delivery in ["wd_1", "wd_2", "~counts"] {
            assert!(keys.contains(&partition_of("deliveries#acc_1:test", delivery)));
        }
    }
}
