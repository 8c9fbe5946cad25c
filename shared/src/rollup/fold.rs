//! The fold: adds the numbers of event rows to the sums, and advances the checkpoint over these rows.
//!
//! The checkpoint is in the row of all time, which each transaction of a fold updates on the condition that
//! the checkpoint is still where the fold has read it. So two folds never add the same row.
//!
//! The row of all time is in the due index while rows may follow the checkpoint:
//!
//! - A row with numbers makes a fold due after a day, if none is due.
//! - One row in 64 makes a fold due as soon as the checkpoint can pass the row, so that the rows after the
//!   checkpoint stay few.
//! - A fold that leaves rows makes the next one due after a minute.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;

use domain::ids::{EventId, Scope};
use domain::rollup::{Sums, all_time_key, day_key};
use domain::row::Key;
use domain::time::Timestamp;

use super::repository::{Checkpoint, Rollups, checkpoint_of, counted_by};
use crate::account::Accounts;
use crate::checkpoint::PASSED_AFTER_MS;
use crate::store::{
    Bound, CommitOutcome, Item, Order, StoreError, Write, conditional_update, due_attributes, key_attributes,
    text,
};
use crate::webhook::event::Event;

/// The most rows that one transaction passes.
const STRIDE: usize = 2_000;

/// The most transactions of one run. The next run continues from the new checkpoint.
const MAX_STRIDES: usize = 100;

/// The most rows of sums in one transaction, besides the row of all time. DynamoDB's limit is 100 rows.
const MAX_DAYS: usize = 90;

/// When the next fold is due, in seconds, if this one leaves rows.
const NEXT_FOLD_SECONDS: i64 = 60;

/// When a fold is due at the latest, in seconds after the insert of a row with numbers. Rows are kept for
/// 90 days.
const LATEST_FOLD_SECONDS: i64 = 24 * 60 * 60;

/// The attribute with the checkpoint.
pub(super) const CHECKPOINT: &str = "up_to";

/// Returns the scope whose row of all time has this key; `None`: the key is of another row.
pub fn scope_of(key: &Key) -> Option<Scope> {
    let scope = key.pk.strip_prefix("rollup#")?.parse().ok()?;
    (all_time_key(&scope) == *key).then_some(scope)
}

/// Returns the greatest id that the checkpoint may have at this time.
fn last_passed(now: Timestamp) -> EventId {
    EventId::last_at(now.plus_millis(PASSED_AFTER_MS.saturating_neg()).unwrap_or(Timestamp::MIN))
}

/// The sums that a transaction adds, and the checkpoint after it.
#[derive(Default)]
struct Stride {
    days: BTreeMap<String, Sums>,
    all_time: Sums,
    checkpoint: Option<EventId>,
}

impl Stride {
    /// Adds the numbers of rows, up to the first row for which the transaction has no room.
    fn of(scope: &Scope, items: Vec<Item>) -> Self {
        let mut stride = Self::default();
        for item in items {
            let Some(id) = text(&item, "sk").and_then(|sort| sort.parse().ok()) else { continue };
            if let Some(change) = counted_by(item) {
                let day = day_key(scope, change.day, change.currency).sk;
                if stride.days.len() >= MAX_DAYS && !stride.days.contains_key(&day) {
                    break;
                }
                stride.all_time.add_all(&change.of_all_time());
                stride.days.entry(day).or_default().add_all(&change.sums);
            }
            stride.checkpoint = Some(id);
        }
        stride
    }

    /// Returns the writes: an addition to the row of each day, and the new row of all time. `before`: the
    /// checkpoint before the transaction.
    fn into_writes(self, scope: &Scope, before: Option<EventId>) -> Vec<Write> {
        let all_time = all_time_key(scope);
        let mut writes = Vec::new();
        for (sk, sums) in self.days {
            let changes = sums.into_changes();
            if !changes.is_empty() {
                writes.push(Write::add(Key { pk: all_time.pk.clone(), sk }, changes, Item::new(), None));
            }
        }
        let checkpoint = self.checkpoint.map(|id| (CHECKPOINT.to_owned(), AttributeValue::S(id.to_string())));
        let unchanged = Bound::Is {
            attribute: CHECKPOINT.to_owned(),
            value: before.map(|id| AttributeValue::S(id.to_string())),
        };
        let sums = self.all_time.into_changes();
        writes.push(Write::add(all_time, sums, checkpoint.into_iter().collect(), Some(unchanged)));
        writes
    }
}

impl Rollups {
    /// Makes a fold of a scope's rollups due. `is_sampled`: as soon as the checkpoint can pass the rows that
    /// exist now; otherwise after a day. If a fold is due earlier, nothing changes.
    pub async fn schedule_fold(
        &self,
        scope: &Scope,
        is_sampled: bool,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let at = if is_sampled {
            now.plus_millis(PASSED_AFTER_MS).unwrap_or(Timestamp::MAX)
        } else {
            now.saturating_plus_seconds(LATEST_FOLD_SECONDS)
        };
        self.set_due(scope, Some(at), "attribute_not_exists(due_sk) OR due_sk > :due_sk", None).await
    }

    /// Folds the rollups of a scope: adds the numbers of all rows that the checkpoint may pass now, and
    /// advances the checkpoint over them. Makes the next fold due if rows are left or may follow.
    pub async fn fold(&self, scope: &Scope, now: Timestamp) -> Result<(), StoreError> {
        let key = all_time_key(scope);
        // A charge is created with a number of shards that is in the account's row. So each row that the
        // checkpoint may pass now is in one of these partitions: it was inserted a minute ago or earlier.
        let partitions =
            Accounts::new(self.store.clone()).sharded_scope(scope).await?.partitions(Event::partition);
        let row = self.store.get_item(&key).await?.unwrap_or_default();
        let due = row.get("due_sk").cloned();
        let Checkpoint(mut checkpoint) = checkpoint_of(&row)?;
        for _stride in 0..MAX_STRIDES {
            let (from, to) = (EventId::sort_key_after(checkpoint), last_passed(now).to_string());
            if from > to {
                break;
            }
            let (items, is_last) = self.oldest_rows(&partitions, (&from, &to)).await?;
            let stride = Stride::of(scope, items);
            let Some(reached) = stride.checkpoint else { break };
            if let CommitOutcome::Conflict { .. } =
                self.store.commit(stride.into_writes(scope, checkpoint)).await?
            {
                // Another fold has advanced the checkpoint, and will make the next one due.
                return Ok(());
            }
            checkpoint = Some(reached);
            if is_last {
                break;
            }
        }
        let (from, last) =
            (EventId::sort_key_after(checkpoint), EventId::last_at(Timestamp::MAX).to_string());
        let left = self.store.range_of_each(&partitions, (&from, &last), Order::OldestFirst, 1).await?;
        let counted_at = checkpoint.and_then(|id| id.timestamp());
        let next = if !left.is_empty() {
            Some(now.saturating_plus_seconds(NEXT_FOLD_SECONDS))
        } else if counted_at
            .is_some_and(|at| now.millis_since(at) < LATEST_FOLD_SECONDS.saturating_mul(1_000))
        {
            // A dispatcher remembers for some hours that a fold is due.
            Some(now.saturating_plus_seconds(LATEST_FOLD_SECONDS))
        } else {
            None
        };
        // If a row has made a fold due meanwhile, that one remains.
        match due {
            Some(due) => self.set_due(scope, next, "due_sk = :seen", Some(due)).await,
            None if next.is_some() => self.set_due(scope, next, "attribute_not_exists(due_sk)", None).await,
            None => Ok(()),
        }
    }

    /// Reads the oldest rows within a range of ids, in the order of their ids, about [`STRIDE`] of them. Also
    /// returns whether these are all.
    async fn oldest_rows(
        &self,
        partitions: &[String],
        (from, to): (&str, &str),
    ) -> Result<(Vec<Item>, bool), StoreError> {
        let limit = STRIDE.checked_div(partitions.len()).unwrap_or(STRIDE);
        let range = (from.to_owned(), to.to_owned());
        let read = self.store.read_each(partitions, |store, partition| {
            let (from, to) = range.clone();
            async move { store.range(&partition, (&from, &to), Order::OldestFirst, limit).await }
        });
        let of_partitions = read.await?;
        // A partition with more rows is read up to its last row here. Rows after that must wait.
        let incomplete = of_partitions.iter().filter(|items| items.len() >= limit);
        let read_to = incomplete.filter_map(|items| text(items.last()?, "sk")).min();
        let mut items = of_partitions.concat();
        if let Some(read_to) = &read_to {
            items.retain(|item| text(item, "sk").is_some_and(|sort| sort <= *read_to));
        }
        items.sort_by_cached_key(|item| text(item, "sk"));
        Ok((items, read_to.is_none()))
    }

    /// Sets when the next fold is due, on a condition; `None`: none is due. `seen`: the value of `:seen` in
    /// the condition.
    async fn set_due(
        &self,
        scope: &Scope,
        at: Option<Timestamp>,
        condition: &str,
        seen: Option<AttributeValue>,
    ) -> Result<(), StoreError> {
        let key = all_time_key(scope);
        let mut update = self.store.client().update_item().table_name(self.store.table());
        update = update.set_key(Some(key_attributes(&key))).condition_expression(condition);
        update = match at {
            Some(at) => due_attributes(&key, at).into_iter().fold(
                update.update_expression("SET due_pk = :due_pk, due_sk = :due_sk"),
                |update, (name, value)| update.expression_attribute_values(format!(":{name}"), value),
            ),
            None => update.update_expression("REMOVE due_pk, due_sk"),
        };
        if let Some(seen) = seen {
            update = update.expression_attribute_values(":seen", seen);
        }
        conditional_update(update).await.map(|_updated_or_refused| ())
    }
}
