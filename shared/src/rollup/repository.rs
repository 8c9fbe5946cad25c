//! Reads rollups, and counts late changes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use domain::calendar::{BusinessDayRange, Day};
use domain::ids::{ChargeId, EventId, Scope};
use domain::money::Currency;
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::rollup::{DAY_SORT, RollupChange, Sums, all_time_key, day_key, parse_day, partition};
use domain::row::{Key, Row};
use domain::shard::ShardedScope;
use domain::time::Timestamp;

use super::fold::CHECKPOINT;
use crate::store::{CommitOutcome, Item, Order, Store, StoreError, Write, from_item, text};
use crate::webhook::event::Event;

/// The most changes in one transaction, which DynamoDB limits to 100 rows. Forty changes write at most 81:
/// for each a marker and the row of its day, and one row with the sums of all time.
const CHANGES_PER_TRANSACTION: usize = 40;

/// The most rows of a shard after the checkpoint that a reader reads. They are read by one query, which DynamoDB
/// ends at 1 MB, about a thousand rows.
const MAX_ROWS_AFTER: i32 = 2_000;

/// A change that is counted by its own marker, because the row of its events was inserted late.
#[derive(Clone, Debug)]
pub struct LateChange {
    /// The scope of the charge.
    pub scope: Scope,
    /// The id of the charge.
    pub charge: ChargeId,
    /// The version of the charge that the change wrote. Together with the charge's id it identifies the change.
    pub version: u64,
    /// What the change adds to the sums.
    pub change: RollupChange,
}

/// The row that marks a change as counted. It is kept as long as events are, because quarantined stream
/// records may be replayed late.
#[derive(Debug, Deserialize, Serialize)]
struct Marker {
    charge: ChargeId,
    version: u64,
    #[serde(with = "domain::time::millis")]
    counted_at: Timestamp,
}

impl Row for Marker {
    fn key(&self) -> Key {
        Key { pk: format!("counted#{}", self.charge.raw()), sk: self.version.to_string() }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.counted_at.plus_seconds(EVENTS_KEPT_SECONDS).ok()
    }
}

/// The sums of a day in a currency.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DayRow {
    /// The day on which the charges were created.
    pub day: Day,
    /// The charges' currency.
    pub currency: Currency,
    /// The sums over these charges.
    pub sums: Sums,
}

/// The checkpoint of a scope's rollups, as it was read with their sums. Readers add the changes after it.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint(pub(super) Option<EventId>);

/// The repository of all scopes' rollups.
#[derive(Clone, Debug)]
pub struct Rollups {
    pub(super) store: Store,
}

impl Rollups {
    /// Creates a repository on a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Adds late changes of one scope's charges to the sums. Counts a change once, even if `changes` contains
    /// it twice or an earlier call counted it. After an error, some of the changes may be counted, and the
    /// caller can repeat the whole call.
    pub async fn count(&self, changes: Vec<LateChange>, now: Timestamp) -> Result<(), StoreError> {
        let mut seen = BTreeSet::new();
        let changes: Vec<LateChange> =
            changes.into_iter().filter(|change| seen.insert((change.charge.raw(), change.version))).collect();
        for chunk in changes.chunks(CHANGES_PER_TRANSACTION) {
            self.count_chunk(chunk.to_vec(), now).await?;
        }
        Ok(())
    }

    /// Counts changes in one transaction. If the markers of some changes exist already, retries without these
    /// changes.
    async fn count_chunk(&self, changes: Vec<LateChange>, now: Timestamp) -> Result<(), StoreError> {
        let mut left = changes;
        while !left.is_empty() {
            match self.store.commit(count_writes(&left, now)?).await? {
                CommitOutcome::Done => return Ok(()),
                CommitOutcome::Conflict { at } => {
                    let before = left.len();
                    // The markers are the first writes, in the order of the changes. So the index of a marker
                    // is that of its change.
                    let indexed = left.into_iter().enumerate();
                    left =
                        indexed.filter(|(index, _)| !at.contains(index)).map(|(_, change)| change).collect();
                    if left.len() == before {
                        return Err(StoreError::Corrupt(
                            "a write of sums failed, but no marker existed".to_owned(),
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the sums of a window's days, oldest first.
    pub async fn for_window(
        &self,
        scope: &ShardedScope,
        window: BusinessDayRange,
    ) -> Result<Vec<DayRow>, StoreError> {
        let BusinessDayRange { first, today } = window;
        let (mut days, checkpoint) = self.for_days(&scope.scope, first, today).await?;
        for change in self.changes_after(scope, checkpoint).await? {
            let (day, currency) = (change.day, change.currency);
            if !(first..=today).contains(&day) {
                continue;
            }
            match days.iter_mut().find(|row| (row.day, row.currency) == (day, currency)) {
                Some(row) => row.sums.add_all(&change.sums),
                None => days.push(DayRow { day, currency, sums: change.sums }),
            }
        }
        days.sort_by_key(|row| row.day);
        Ok(days)
    }

    /// Reads the sums of the days from `first` to `last`, both inclusive, oldest first, up to the checkpoint,
    /// in one query.
    pub async fn for_days(
        &self,
        scope: &Scope,
        first: Day,
        last: Day,
    ) -> Result<(Vec<DayRow>, Checkpoint), StoreError> {
        // The row of all time, which has the checkpoint, sorts after the rows of all days.
        let (from, to) = (format!("{DAY_SORT}{first}"), all_time_key(scope).sk);
        let (mut days, mut checkpoint) = (Vec::new(), Checkpoint(None));
        for item in self.store.range(&partition(scope), (&from, &to), Order::OldestFirst, usize::MAX).await? {
            if text(&item, "sk").as_ref() == Some(&to) {
                checkpoint = checkpoint_of(&item)?;
            } else {
                days.push(day_row(&item)?);
            }
        }
        days.retain(|row| row.day <= last);
        Ok((days, checkpoint))
    }

    /// Reads the sums of all time up to the checkpoint: the number of charges created, and the number in each
    /// status.
    pub async fn all_time(&self, scope: &Scope) -> Result<(Sums, Checkpoint), StoreError> {
        let item = self.store.get_item(&all_time_key(scope)).await?.unwrap_or_default();
        Ok((sums(&item)?, checkpoint_of(&item)?))
    }

    /// Reads the changes after the checkpoint, in one query for each shard.
    pub async fn changes_after(
        &self,
        scope: &ShardedScope,
        Checkpoint(checkpoint): Checkpoint,
    ) -> Result<Vec<RollupChange>, StoreError> {
        let after = checkpoint.map(|id| id.to_string());
        let partitions = scope.partitions(Event::partition);
        let read = self.store.read_each(&partitions, |store, partition| {
            let after = after.clone();
            async move {
                let (items, _) = store.page(&partition, after.as_deref(), MAX_ROWS_AFTER).await?;
                Ok(items)
            }
        });
        Ok(read.await?.into_iter().flatten().filter_map(counted_by).collect())
    }
}

/// Returns what the change of an event row adds to the sums. Logs an error and returns `None` if the row can't
/// be read, so that it does not stop the count of all others.
pub(super) fn counted_by(item: Item) -> Option<RollupChange> {
    #[derive(Deserialize)]
    struct Counted {
        #[serde(default)]
        counted: Option<RollupChange>,
    }
    match from_item::<Counted>(item) {
        Ok(row) => row.counted,
        Err(error) => {
            tracing::error!(%error, "can't read an event's row; its change is not counted");
            None
        }
    }
}

/// Reads the checkpoint in the row of all time.
pub(super) fn checkpoint_of(item: &Item) -> Result<Checkpoint, StoreError> {
    let Some(id) = text(item, CHECKPOINT) else { return Ok(Checkpoint(None)) };
    let id = id.parse().map_err(|_| StoreError::Corrupt(format!("{id} is not the id of an event")))?;
    Ok(Checkpoint(Some(id)))
}

/// Returns the writes that count changes: first the markers, in the order of the changes, then one addition
/// for each row of sums.
fn count_writes(changes: &[LateChange], now: Timestamp) -> Result<Vec<Write>, StoreError> {
    let mut writes = Vec::new();
    let mut rows: BTreeMap<(String, String), Sums> = BTreeMap::new();
    for LateChange { scope, charge, version, change } in changes {
        let marker = Marker { charge: *charge, version: *version, counted_at: now };
        writes.push(Write::insert(&marker)?);
        let day = day_key(scope, change.day, change.currency);
        for (key, sums) in [(day, &change.sums), (all_time_key(scope), &change.of_all_time())] {
            rows.entry((key.pk, key.sk)).or_default().add_all(sums);
        }
    }
    for ((pk, sk), sums) in rows {
        let changes = sums.into_changes();
        if !changes.is_empty() {
            writes.push(Write::add(Key { pk, sk }, changes, Item::new(), None));
        }
    }
    Ok(writes)
}

fn day_row(item: &Item) -> Result<DayRow, StoreError> {
    let sort = text(item, "sk").unwrap_or_default();
    let (day, currency) = parse_day(&sort)
        .ok_or_else(|| StoreError::Corrupt(format!("{sort} is not the sort key of a rollup's day")))?;
    Ok(DayRow { day, currency, sums: sums(item)? })
}

/// Reads the sums of a row: all its numeric attributes.
fn sums(item: &Item) -> Result<Sums, StoreError> {
    let mut sums = Sums::default();
    for (attribute, value) in item {
        if let Ok(number) = value.as_n() {
            let number = number.parse();
            let number = number.map_err(|_too_long| {
                StoreError::Corrupt(format!("the sum {attribute} is not a 64-bit integer"))
            })?;
            sums.add_to(attribute.clone(), number);
        }
    }
    Ok(sums)
}
