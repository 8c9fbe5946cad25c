//! Reads rollups, and counts changes.

use futures_util::future::try_join_all;
use serde::Deserialize;

use domain::calendar::{BusinessDayRange, Day};
use domain::ids::{EventId, Scope};
use domain::money::Currency;
use domain::rollup::{DAY_SORT, RollupChange, Sums, all_time_key, day_key, parse_day, partition};
use domain::row::Key;
use domain::shard::ShardedScope;
use domain::time::Timestamp;

use crate::webhook::event::Event;
use shared::account::Accounts;
use shared::checkpoint::{
    CountedLog, LATE_MS, LATEST_RUN_SECONDS, Log, LogRow, NEXT_RUN_SECONDS, Reading, STRIDE, TOTAL,
};
use shared::store::{
    CommitOutcome, Item, Order, Result, RowUpdate, Store, StoreError, Write, from_item, text,
};

/// The most queries of a shard's rows after the checkpoint, each of 1 MB, about a thousand rows. Within a minute
/// after the last change, the recent sums contain the others.
const MAX_PAGES_AFTER: usize = 10;

const MAX_ROWS_A_PAGE: i32 = 2_000;

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DayRow {
    pub day: Day,
    pub currency: Currency,
    pub sums: Sums,
}

/// The checkpoint of a scope's rollups, as it was read with their sums. Readers add the changes after it.
#[derive(Clone, Debug)]
pub struct Checkpoint(Option<String>);

shared::store::repository!(Rollups);

impl Rollups {
    /// Inserts the row of a change's events, unless it exists. A row that is late ([`LATE_MS`]) has no numbers: the
    /// same transaction adds them to the sums. Returns whether a fold counts the row.
    pub async fn insert_event(&self, event: &Event, now: Timestamp) -> Result<bool> {
        let is_late = now.millis_since(event.created_at) >= LATE_MS;
        let Some(change) = event.counted.as_ref().filter(|_| is_late) else {
            let _inserted_or_existing = self.store.commit(vec![Write::insert(event)?]).await?;
            return Ok(event.counted.is_some());
        };
        let row = Event { counted: None, ..event.clone() };
        let mut writes = vec![Write::insert(&row)?];
        writes.extend(late_additions(event, change));
        // A conflict: the row exists. It may have been inserted in time, by an attempt that then failed.
        Ok(matches!(self.store.commit(writes).await?, CommitOutcome::Conflict { .. }))
    }

    /// Reads the sums of a window's days, oldest first.
    pub async fn for_window(&self, scope: &ShardedScope, window: BusinessDayRange) -> Result<Vec<DayRow>> {
        Ok(self.in_window(scope, window, (MAX_PAGES_AFTER, MAX_ROWS_A_PAGE)).await?.0)
    }

    /// Like [`Rollups::for_window`], but reads at most `changes` of a shard after the checkpoint, in one query. Also
    /// returns up to which time the sums have all changes; `None`: up to now.
    pub async fn latest(
        &self,
        scope: &ShardedScope,
        window: BusinessDayRange,
        changes: i32,
    ) -> Result<(Vec<DayRow>, Option<Timestamp>)> {
        self.in_window(scope, window, (1, changes)).await
    }

    async fn in_window(
        &self,
        scope: &ShardedScope,
        window: BusinessDayRange,
        most: (usize, i32),
    ) -> Result<(Vec<DayRow>, Option<Timestamp>)> {
        let BusinessDayRange { first, today } = window;
        let (mut days, checkpoint) = self.for_days(&scope.scope, first, today).await?;
        let (changes, ended_at) = self.some_changes_after(scope, checkpoint, most).await?;
        for change in &changes {
            let currency = change.currency;
            for (day, sums) in change.of_days().filter(|(day, _)| (first..=today).contains(day)) {
                match days.iter_mut().find(|row| (row.day, row.currency) == (day, currency)) {
                    Some(row) => row.sums.add_all(sums),
                    None => days.push(DayRow { day, currency, sums: sums.clone() }),
                }
            }
        }
        days.sort_by_key(|row| row.day);
        Ok((days, ended_at))
    }

    /// Reads the sums of the days from `first` to `last`, both inclusive, oldest first, up to the checkpoint,
    /// in one query.
    pub async fn for_days(&self, scope: &Scope, first: Day, last: Day) -> Result<(Vec<DayRow>, Checkpoint)> {
        let loaded = self.counted(scope).load(&format!("{DAY_SORT}{first}")).await?;
        let mut days: Vec<DayRow> = Vec::new();
        for (sort, sums) in loaded.days {
            let (day, currency) = parse_day(&sort).ok_or_else(|| {
                StoreError::Corrupt(format!("{sort} is not the sort key of a rollup's day"))
            })?;
            match days.last_mut().filter(|row| (row.day, row.currency) == (day, currency)) {
                Some(row) => row.sums.add_all(&sums),
                None if day <= last => days.push(DayRow { day, currency, sums }),
                None => break,
            }
        }
        Ok((days, Checkpoint(loaded.counted_to)))
    }

    /// Reads the sums of all time up to the checkpoint: the number of charges created, and the number in each
    /// status.
    pub async fn all_time(&self, scope: &Scope) -> Result<(Sums, Checkpoint)> {
        let loaded = self.counted(scope).load(TOTAL).await?;
        Ok((loaded.total, Checkpoint(loaded.counted_to)))
    }

    /// Like [`Rollups::all_time`], with at most `changes` of a shard after the checkpoint, in one query. Also returns up to
    /// which time the sums have all changes; `None`: up to now.
    pub async fn all_time_latest(
        &self,
        scope: &ShardedScope,
        changes: i32,
    ) -> Result<(Sums, Option<Timestamp>)> {
        let (mut sums, checkpoint) = self.all_time(&scope.scope).await?;
        let (changes, ended_at) = self.some_changes_after(scope, checkpoint, (1, changes)).await?;
        for change in &changes {
            sums.add_all(&change.of_all_time());
        }
        Ok((sums, ended_at))
    }

    /// Reads the changes after the checkpoint: up to `MAX_PAGES_AFTER` queries for each shard.
    pub async fn changes_after(
        &self,
        scope: &ShardedScope,
        checkpoint: Checkpoint,
    ) -> Result<Vec<RollupChange>> {
        Ok(self.some_changes_after(scope, checkpoint, (MAX_PAGES_AFTER, MAX_ROWS_A_PAGE)).await?.0)
    }

    /// Reads the changes of up to `pages` queries for each shard. Also returns the time of the last one before those
    /// that were not read; `None`: all were.
    async fn some_changes_after(
        &self,
        scope: &ShardedScope,
        Checkpoint(checkpoint): Checkpoint,
        (pages, rows): (usize, i32),
    ) -> Result<(Vec<RollupChange>, Option<Timestamp>)> {
        let partitions = scope.partitions(Event::partition);
        let reads = partitions.iter().map(async |partition| {
            let mut after = checkpoint.clone();
            let mut changes = Vec::new();
            for _page in 0..pages {
                let (items, ended_at) = self.store.page(partition, after.as_deref(), rows).await?;
                changes.extend(items.into_iter().filter_map(counted_by));
                after = ended_at;
                if after.is_none() {
                    break;
                }
            }
            Ok::<_, StoreError>((changes, after))
        });
        let (changes, ended_at): (Vec<_>, Vec<_>) = try_join_all(reads).await?.into_iter().unzip();
        let ids = ended_at.into_iter().flatten().filter_map(|id| id.parse::<EventId>().ok());
        Ok((changes.into_iter().flatten().collect(), ids.filter_map(|id| id.timestamp()).min()))
    }

    /// Makes a run due that counts the rows of new events. `is_sampled`: at once; otherwise within a day.
    pub async fn schedule_fold(&self, scope: &Scope, is_sampled: bool, now: Timestamp) -> Result<()> {
        let seconds = if is_sampled { NEXT_RUN_SECONDS } else { LATEST_RUN_SECONDS };
        let unless_due_by = now.saturating_plus_seconds(seconds);
        let at = if is_sampled { now } else { unless_due_by };
        self.counted(scope).schedule(at, unless_due_by).await
    }

    /// Counts the rows of a scope's events, see [`shared::checkpoint`].
    pub async fn fold(&self, scope: &Scope, now: Timestamp) -> Result<()> {
        // A charge is created with a number of shards that is in the account's row. So each row that the
        // checkpoint may pass now is in one of these partitions: it was inserted a minute ago or earlier.
        let partitions =
            Accounts::new(self.store.clone()).sharded_scope(scope).await?.partitions(Event::partition);
        let log = EventRows { store: self.store.clone(), scope: *scope, partitions };
        self.counted(scope).run(&log, now, false).await.map(drop)
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

struct EventRows {
    store: Store,
    scope: Scope,
    partitions: Vec<String>,
}

impl Log for EventRows {
    const FEW_ROWS: usize = 500;
    const FEW_UNSETTLED: usize = usize::MAX;

    fn first_id(&self) -> String {
        EventId::sort_key_after(None)
    }

    fn last_id_at(&self, at: Timestamp) -> String {
        EventId::last_at(at).to_string()
    }

    async fn read(&self, range: (&str, &str), _: Reading<'_>) -> Result<(Vec<LogRow>, bool)> {
        let limit = STRIDE.checked_div(self.partitions.len()).unwrap_or(STRIDE);
        let reads = self
            .partitions
            .iter()
            .map(|partition| self.store.range(partition, range, Order::OldestFirst, limit));
        let of_partitions = try_join_all(reads).await?;
        // A partition with more rows is read up to its last row here. Rows after that must wait.
        let incomplete = of_partitions.iter().filter(|items| items.len() >= limit);
        let read_to = incomplete.filter_map(|items| text(items.last()?, "sk")).min();
        let rows = of_partitions.into_iter().flatten().filter_map(|item| {
            let id = text(&item, "sk")?;
            let added = counted_by(item).map_or_else(Vec::new, |change| {
                let of_day =
                    |(day, sums): (Day, &Sums)| (day_key(&self.scope, day, change.currency).sk, sums.clone());
                let total = (TOTAL.to_owned(), change.of_all_time());
                std::iter::once(total).chain(change.of_days().map(of_day)).collect()
            });
            Some(LogRow { id, added, open: None, is_settled: true })
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

/// Returns the writes that add a change to the sums of its day and of all time. The changes are spread over some
/// rows for each of these sums, so that after an outage they do not wait for one another.
fn late_additions(event: &Event, change: &RollupChange) -> impl Iterator<Item = Write> {
    // The last character of all ids of rows is the same.
    let part = event.id.to_string().chars().nth_back(1).unwrap_or_default();
    let of_day = |(day, sums): (Day, &Sums)| (day_key(&event.scope, day, change.currency), sums.clone());
    let of_all_time = (all_time_key(&event.scope), change.of_all_time());
    let sums: Vec<(Key, Sums)> = change.of_days().map(of_day).chain([of_all_time]).collect();
    sums.into_iter().filter_map(move |(Key { pk, sk }, sums)| {
        let changes = sums.into_changes();
        let update = RowUpdate::of(Key { pk, sk: format!("{sk}#{part}") });
        (!changes.is_empty()).then(|| Write::update(update.add_all(changes)))
    })
}
