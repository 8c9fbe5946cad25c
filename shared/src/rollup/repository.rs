//! Reads rollups, and counts changes.

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

use crate::account::Accounts;
use crate::checkpoint::{CountedLog, Log, LogRow, STRIDE, TOTAL};
use crate::store::{CommitOutcome, Item, Order, RowUpdate, Store, StoreError, Write, from_item, text};
use crate::webhook::event::Event;

/// The most changes in one transaction, which DynamoDB limits to 100 rows. Forty changes write at most 81:
/// for each a marker and the row of its day, and one row with the sums of all time.
const CHANGES_PER_TRANSACTION: usize = 40;

/// The most queries of a shard's rows after the checkpoint, each of 1 MB, about a thousand rows. Within a minute
/// after the last change, the recent sums contain the others.
const MAX_PAGES_AFTER: usize = 10;

const MAX_ROWS_A_PAGE: i32 = 2_000;

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
#[derive(Clone, Debug)]
pub struct Checkpoint(Option<String>);

/// The repository of all scopes' rollups.
#[derive(Clone, Debug)]
pub struct Rollups {
    store: Store,
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
        let loaded = self.counted(scope).load(&format!("{DAY_SORT}{first}")).await?;
        let days = loaded.days.into_iter().map(|(sort, sums)| day_row(&sort, sums));
        let mut days = days.collect::<Result<Vec<DayRow>, _>>()?;
        days.retain(|row| row.day <= last);
        Ok((days, Checkpoint(loaded.counted_to)))
    }

    /// Reads the sums of all time up to the checkpoint: the number of charges created, and the number in each
    /// status.
    pub async fn all_time(&self, scope: &Scope) -> Result<(Sums, Checkpoint), StoreError> {
        let loaded = self.counted(scope).load(TOTAL).await?;
        Ok((loaded.total, Checkpoint(loaded.counted_to)))
    }

    /// Reads the changes after the checkpoint: up to `MAX_PAGES_AFTER` queries for each shard.
    pub async fn changes_after(
        &self,
        scope: &ShardedScope,
        Checkpoint(checkpoint): Checkpoint,
    ) -> Result<Vec<RollupChange>, StoreError> {
        let partitions = scope.partitions(Event::partition);
        let read = self.store.read_each(&partitions, |store, partition| {
            let mut after = checkpoint.clone();
            async move {
                let mut changes = Vec::new();
                for _page in 0..MAX_PAGES_AFTER {
                    let (items, ended_at) = store.page(&partition, after.as_deref(), MAX_ROWS_A_PAGE).await?;
                    changes.extend(items.into_iter().filter_map(counted_by));
                    after = ended_at;
                    if after.is_none() {
                        break;
                    }
                }
                Ok(changes)
            }
        });
        Ok(read.await?.concat())
    }

    /// Makes a run due that counts the rows of new events. `is_sampled`: at once; otherwise within a day.
    pub async fn schedule_fold(
        &self,
        scope: &Scope,
        is_sampled: bool,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.counted(scope).schedule(is_sampled, now).await
    }

    /// Counts the rows of a scope's events, see [`crate::checkpoint`].
    pub async fn fold(&self, scope: &Scope, now: Timestamp) -> Result<(), StoreError> {
        // A charge is created with a number of shards that is in the account's row. So each row that the
        // checkpoint may pass now is in one of these partitions: it was inserted a minute ago or earlier.
        let partitions =
            Accounts::new(self.store.clone()).sharded_scope(scope).await?.partitions(Event::partition);
        let log = EventRows { store: self.store.clone(), scope: *scope, partitions };
        self.counted(scope).run(&log, now).await
    }

    fn counted(&self, scope: &Scope) -> CountedLog {
        CountedLog { store: self.store.clone(), partition: partition(scope), ttl_of: |_sort| Item::new() }
    }
}

/// Returns the scope whose row of all time has this key; `None`: the key is of another row.
pub fn folded_scope(key: &Key) -> Option<Scope> {
    let scope = key.pk.strip_prefix("rollup#")?.parse().ok()?;
    (all_time_key(&scope) == *key).then_some(scope)
}

/// The rows of a scope's events.
struct EventRows {
    store: Store,
    scope: Scope,
    partitions: Vec<String>,
}

impl Log for EventRows {
    fn first_id(&self) -> String {
        EventId::sort_key_after(None)
    }

    fn last_id_at(&self, at: Timestamp) -> String {
        EventId::last_at(at).to_string()
    }

    async fn read(&self, range: (&str, &str), _passes: bool) -> Result<(Vec<LogRow>, bool), StoreError> {
        let limit = STRIDE.checked_div(self.partitions.len()).unwrap_or(STRIDE);
        let range = (range.0.to_owned(), range.1.to_owned());
        let read = self.store.read_each(&self.partitions, |store, partition| {
            let (from, to) = range.clone();
            async move { store.range(&partition, (&from, &to), Order::OldestFirst, limit).await }
        });
        let of_partitions = read.await?;
        // A partition with more rows is read up to its last row here. Rows after that must wait.
        let incomplete = of_partitions.iter().filter(|items| items.len() >= limit);
        let read_to = incomplete.filter_map(|items| text(items.last()?, "sk")).min();
        let rows = of_partitions.into_iter().flatten().filter_map(|item| {
            let id = text(&item, "sk")?;
            let added = counted_by(item).map_or_else(Vec::new, |change| {
                let day = day_key(&self.scope, change.day, change.currency).sk;
                vec![(TOTAL.to_owned(), change.of_all_time()), (day, change.sums)]
            });
            Some(LogRow { id, added })
        });
        let mut rows: Vec<LogRow> =
            rows.filter(|row| read_to.as_ref().is_none_or(|read_to| row.id <= *read_to)).collect();
        rows.sort_by(|left, right| left.id.cmp(&right.id));
        Ok((rows, read_to.is_none()))
    }
}

/// Returns what the change of an event row adds to the sums. Logs an error and returns `None` if the row can't
/// be read, so that it does not stop the count of all others.
fn counted_by(item: Item) -> Option<RollupChange> {
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
            writes.push(Write::update(RowUpdate::of(Key { pk, sk }).add_all(changes)));
        }
    }
    Ok(writes)
}

fn day_row(sort: &str, sums: Sums) -> Result<DayRow, StoreError> {
    let (day, currency) = parse_day(sort)
        .ok_or_else(|| StoreError::Corrupt(format!("{sort} is not the sort key of a rollup's day")))?;
    Ok(DayRow { day, currency, sums })
}
