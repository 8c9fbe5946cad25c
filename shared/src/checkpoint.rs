//! Sums over the rows of a log, without a write for each row. Without sums, a page of numbers would read the whole
//! log. A counter that each change updates would limit an account to some hundred changes a second, because DynamoDB
//! limits the writes of one row.
//!
//! A log is sorted by id and therefore by time: the events of a scope, or its deliveries. The sums of a log are
//! rows of one partition: one row for each day, and the row of totals, which has the *checkpoint*. The checkpoint
//! is the id up to which all rows are in the sums. A transaction that adds rows to the sums also advances the
//! checkpoint, on the condition that it is still where it was read. So each row is added once.
//!
//! The checkpoint follows the present after 210 s, because a row may be inserted some time after the time in its
//! id. Readers add the rows after it. While these are many, each run of the scheduler also stores their sums, in
//! the row of *recent* sums, which the next run replaces. So a reader reads at most the rows of about a minute,
//! and the sums are exact within a minute after the last change, whatever the number of changes. The transaction
//! that advances the checkpoint also takes its rows out of the recent sums, so that they remain valid at each
//! step of a run.
//!
//! A row may still be *open* for some moments after its insert, as a delivery is during its first attempt. Beside the
//! sums of all recent rows, a run then stores the sums of the open ones, and the id up to which all rows are
//! *settled*: readers know in another way which of these are open. While more than a few rows are not settled, the caller
//! runs again after seconds, and only the rows after that id are read again.
//!
//! The row of totals is in the due index while rows may follow the checkpoint. A run that leaves rows makes the next one
//! due after 50 s, so that the next minute's schedule starts it.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;

use domain::rollup::Sums;
use domain::row::Key;
use domain::time::Timestamp;

use crate::store::{
    CommitOutcome, Item, Order, RowUpdate, Store, StoreError, UpdateOutcome, Write, due_attributes, text,
};

/// A row is late if it is inserted this long, in milliseconds, after the time in its id, or later. A
/// checkpoint may have passed the id of a late row, so such a row is counted in another way. The time is above
/// two minutes because the event of an expired charge has the time of the expiry, which the scheduler may write
/// up to two minutes later.
pub const LATE_MS: i64 = 150_000;

/// A checkpoint may pass an id that is this old, in milliseconds. It is a minute more than [`LATE_MS`]. No
/// insert takes a minute, so a checkpoint never passes the id of a row that is not late before the insert.
pub const PASSED_AFTER_MS: i64 = 210_000;

/// The most rows that one transaction passes.
pub const STRIDE: usize = 2_000;

/// The most transactions of one run. The next run continues from the new checkpoint.
const MAX_STRIDES: usize = 100;

/// The most rows of sums in one transaction, besides the row of totals. DynamoDB's limit is 100 rows.
const MAX_DAYS: usize = 90;

/// The recent sums contain no row of the last seconds, in milliseconds, whose neighbours may still be inserted.
const APPEARED_AFTER_MS: i64 = 2_000;

/// A row that is inserted this long, in milliseconds, after the time in its id is read by each run, because another
/// run may have settled the rows of that time. An index shows a row within `SETTLED_AFTER_MS` less than this.
pub const BELATED_MS: i64 = 10_000;

/// The rows of the last seconds, in milliseconds, are read again by the next run, because others may still appear
/// among them.
const SETTLED_AFTER_MS: i64 = 15_000;

/// When the next run is due, in seconds, if this one leaves rows.
pub const NEXT_RUN_SECONDS: i64 = 50;

/// The shortest pause between two runs, in seconds.
pub const SOON_SECONDS: i64 = 6;

/// If a run has read more rows than this, the next one begins after [`NEXT_RUN_SECONDS`].
const MANY_ROWS: usize = 20_000;

/// When a run is due at the latest, in seconds after the insert of a row. Rows are kept for 90 days.
pub const LATEST_RUN_SECONDS: i64 = 24 * 60 * 60;

/// The sort key of the row of totals, and the beginning of those of its parts. It sorts after all days, so one
/// query reads days, totals and recent sums.
pub const TOTAL: &str = "total";

/// The sort key of the row of recent sums.
const RECENT: &str = "total#recent";

/// The attribute with the checkpoint, and with the id up to which the recent sums reach.
const CHECKPOINT: &str = "up_to";

/// The attributes of the recent sums: the checkpoint from which they begin, the sums by sort key, as JSON, and the id
/// up to which all rows were settled.
const FROM: &str = "from";
const SUMS: &str = "sums";
const SETTLED_TO: &str = "settled_to";

/// What [`FROM`] is if there is no checkpoint yet.
const FIRST: &str = "-";

pub struct LogRow {
    pub id: String,
    /// What the row adds, by the sort key of the row of sums. Empty: the row is counted in another way.
    pub added: Vec<(String, Sums)>,
    /// What it also adds to recent sums, because it is open. Only of rows that are not within the settled ones.
    pub open: Option<(String, Sums)>,
    /// Whether it has ended, or a reader finds in another place that it is open.
    pub is_settled: bool,
}

/// Why rows are read.
#[derive(Clone, Copy, Debug)]
pub enum Reading<'a> {
    /// The checkpoint may pass them, so this is their last read.
    Passing,
    /// For the recent sums. Up to this id, the rows were settled at the last run, except belated ones.
    Recent(&'a str),
}

/// A log whose rows are summed.
pub trait Log: Sync {
    /// If fewer rows than this follow the checkpoint, readers read them all.
    const FEW_ROWS: usize;

    /// Readers read so many rows anyway that are not settled.
    const FEW_UNSETTLED: usize;

    /// The first id of all, and the last id of a time.
    fn first_id(&self) -> String;
    fn last_id_at(&self, at: Timestamp) -> String;

    /// Reads the oldest rows within a range of sort keys, by id, about [`STRIDE`] of them. Also returns whether
    /// these are all.
    fn read(
        &self,
        range: (&str, &str),
        reading: Reading<'_>,
    ) -> impl Future<Output = Result<(Vec<LogRow>, bool), StoreError>> + Send;
}

/// The sums of a log as they were read.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The sums of each day, by sort key.
    pub days: BTreeMap<String, Sums>,
    pub total: Sums,
    /// The id up to which these sums contain all rows. `None`: they contain none.
    pub counted_to: Option<String>,
    /// The id after which the sums have all open rows, up to `counted_to`. `None`: they have none.
    pub settled_to: Option<String>,
}

/// The rows of sums of a log.
#[derive(Clone, Debug)]
pub struct CountedLog {
    pub store: Store,
    pub partition: String,
    /// The time to live of the row of sums with a sort key; empty: the row does not expire.
    pub ttl_of: fn(&str) -> Item,
}

/// The sums of the rows between two ids.
#[derive(Debug)]
struct Recent {
    from: String,
    up_to: String,
    settled_to: String,
    sums: BTreeMap<String, Sums>,
}

impl Recent {
    /// Reads the row. `None`: it begins at another checkpoint, so it is out of date.
    fn of(item: &Item, checkpoint: Option<&str>) -> Result<Option<Self>, StoreError> {
        let [from, up_to, settled_to, sums] =
            [FROM, CHECKPOINT, SETTLED_TO, SUMS].map(|name| text(item, name).unwrap_or_default());
        if from != checkpoint.unwrap_or(FIRST) {
            return Ok(None);
        }
        let sums = serde_json::from_str(&sums).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(Some(Self { from, up_to, settled_to, sums }))
    }

    /// Takes the rows of a stride out of the sums. `None`: the stride reaches their end or further. Then the sums are
    /// over: a row that appeared after they were stored is in the stride, and not in them.
    fn without(mut self, passed: &BTreeMap<String, Sums>, reached: &str) -> Option<Self> {
        for (sort, sums) in passed {
            self.sums.entry(sort.clone()).or_default().subtract_all(sums);
        }
        (reached < self.up_to.as_str()).then(|| Self { from: reached.to_owned(), ..self })
    }

    /// Stores the sums. `seen`: on the condition that they still reach this far.
    fn write(&self, partition: &str, seen: Option<&str>) -> Result<Write, StoreError> {
        let json =
            serde_json::to_string(&self.sums).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let string = |text: &str| AttributeValue::S(text.to_owned());
        let texts = [
            (CHECKPOINT, self.up_to.as_str()),
            (SUMS, json.as_str()),
            (FROM, self.from.as_str()),
            (SETTLED_TO, self.settled_to.as_str()),
        ];
        let set = texts.map(|(name, text)| (name.to_owned(), string(text)));
        let update = RowUpdate::of(recent_key(partition)).set_all(set);
        Ok(Write::update(match seen {
            Some(seen) => update.when(CHECKPOINT, "=", string(seen)),
            None => update,
        }))
    }
}

fn recent_key(partition: &str) -> Key {
    Key { pk: partition.to_owned(), sk: RECENT.to_owned() }
}

/// The sums that a transaction adds, and the checkpoint after it.
#[derive(Default)]
struct Stride {
    sums: BTreeMap<String, Sums>,
    checkpoint: Option<String>,
}

impl Stride {
    /// Adds rows, up to the first one for which a transaction has no room.
    fn of(rows: Vec<LogRow>) -> Self {
        let mut stride = Self::default();
        for LogRow { id, added, .. } in rows {
            let new = added.iter().filter(|(sort, _)| !stride.sums.contains_key(sort)).count();
            if stride.sums.len().saturating_add(new) > MAX_DAYS {
                break;
            }
            add_to(&mut stride.sums, added);
            stride.checkpoint = Some(id);
        }
        stride
    }

    /// Returns the writes: an addition to each row of sums, and the checkpoint. `before`: the checkpoint before.
    fn into_writes(mut self, log: &CountedLog, before: Option<&String>) -> Vec<Write> {
        let total = self.sums.remove(TOTAL).unwrap_or_default();
        let key = |sk: String| Key { pk: log.partition.clone(), sk };
        let days = self.sums.into_iter().map(|(sk, sums)| (sk, sums.into_changes()));
        let days = days.filter(|(_, changes)| !changes.is_empty());
        let addition = |(sk, changes): (String, Vec<(String, i64)>)| {
            let expires = (log.ttl_of)(&sk);
            Write::update(RowUpdate::of(key(sk)).add_all(changes).set_all(expires))
        };
        let mut writes: Vec<Write> = days.map(addition).collect();
        let checkpoint = self.checkpoint.map(|id| (CHECKPOINT.to_owned(), AttributeValue::S(id)));
        let update = RowUpdate::of(log.total_key()).add_all(total.into_changes()).set_all(checkpoint);
        writes.push(Write::update(match before {
            Some(before) => update.when(CHECKPOINT, "=", AttributeValue::S(before.clone())),
            None => update.when_absent(CHECKPOINT),
        }));
        writes
    }
}

fn add_to(sums: &mut BTreeMap<String, Sums>, added: impl IntoIterator<Item = (String, Sums)>) {
    for (sort, added) in added {
        sums.entry(sort).or_default().add_all(&added);
    }
}

/// Returns the first sort key after that of an id: '~' sorts after all characters that follow an id.
pub fn after(id: &str) -> String {
    format!("{id}~")
}

impl CountedLog {
    /// Reads the sums of the days from the sort key `first_day` on, and the totals, in one query.
    pub async fn load(&self, first_day: &str) -> Result<Loaded, StoreError> {
        let mut loaded = Loaded::default();
        let range = (first_day, "total~");
        let mut recent = None;
        for item in self.store.range(&self.partition, range, Order::OldestFirst, usize::MAX).await? {
            match text(&item, "sk").unwrap_or_default() {
                sort if sort == RECENT => recent = Some(item),
                sort if sort.starts_with(TOTAL) => {
                    loaded.counted_to = text(&item, CHECKPOINT).or(loaded.counted_to);
                    loaded.total.add_all(&sums_of(&item)?);
                }
                sort => drop(loaded.days.insert(sort, sums_of(&item)?)),
            }
        }
        let recent = recent.map(|recent| Recent::of(&recent, loaded.counted_to.as_deref())).transpose()?;
        if let Some(mut recent) = recent.flatten() {
            loaded.total.add_all(&recent.sums.remove(TOTAL).unwrap_or_default());
            add_to(&mut loaded.days, recent.sums.into_iter().filter(|(sort, _)| **sort >= *first_day));
            loaded.counted_to = Some(recent.up_to);
            loaded.settled_to = Some(recent.settled_to);
        }
        Ok(loaded)
    }

    fn total_key(&self) -> Key {
        Key { pk: self.partition.clone(), sk: TOTAL.to_owned() }
    }

    /// Makes a run due for new rows, unless one is due by another time.
    pub async fn schedule(&self, at: Timestamp, unless_due_by: Timestamp) -> Result<(), StoreError> {
        let [_, (_, later)] = due_attributes(&self.total_key(), unless_due_by);
        let update = self.due(Some(at)).when_absent_or("due_sk", ">", later);
        update.run(&self.store).await.map(|_updated_or_refused| ())
    }

    /// Advances the checkpoint over all rows that it may pass now, and stores the sums of the others. Makes the
    /// next run due if rows are left or may follow. Returns whether more than a few rows are not settled, so that
    /// the caller runs again after [`SOON_SECONDS`]. `unless_just_run`: does nothing if the last run, which left rows,
    /// has just begun.
    pub async fn run(
        &self,
        log: &impl Log,
        now: Timestamp,
        unless_just_run: bool,
    ) -> Result<bool, StoreError> {
        let row = self.store.get_item(&self.total_key()).await?.unwrap_or_default();
        if unless_just_run && self.has_just_run(&row, now) {
            return Ok(false);
        }
        // The next run is due before this one begins, so that of several at the same time only one continues.
        let next = now.saturating_plus_seconds(NEXT_RUN_SECONDS);
        if !self.set_due(Some(next), row.get("due_sk")).await? {
            return Ok(false);
        }
        let advanced = self.advance(log, text(&row, CHECKPOINT), now).await?;
        let Some((checkpoint, recent)) = advanced else { return Ok(false) };
        let is_soon = self.store_recent(log, checkpoint.as_deref(), recent, now).await?;
        if is_soon.is_none() {
            // A dispatcher remembers for some hours that a run is due.
            let day_before = now.saturating_plus_seconds(LATEST_RUN_SECONDS.saturating_neg());
            let is_recent = checkpoint.is_some_and(|checkpoint| checkpoint > log.last_id_at(day_before));
            let latest = is_recent.then(|| now.saturating_plus_seconds(LATEST_RUN_SECONDS));
            // If a row has made a run due meanwhile, that one remains.
            let [_, (_, due)] = due_attributes(&self.total_key(), next);
            self.set_due(latest, Some(&due)).await?;
        }
        Ok(is_soon.unwrap_or_default())
    }

    /// Whether the last run began less than [`SOON_SECONDS`] ago and left rows.
    fn has_just_run(&self, row: &Item, now: Timestamp) -> bool {
        let due_after_run = |seconds_ago: i64| {
            let run_at = now.saturating_plus_seconds(NEXT_RUN_SECONDS.saturating_sub(seconds_ago));
            let [_, (_, due)] = due_attributes(&self.total_key(), run_at);
            due.as_s().cloned().unwrap_or_default()
        };
        let just_now = due_after_run(SOON_SECONDS.saturating_sub(1))..=due_after_run(0);
        text(row, "due_sk").is_some_and(|due| just_now.contains(&due))
    }

    /// Sets when the next run is due, unless it is no longer due by `read`. `None`: none is due. Returns whether it is
    /// set.
    async fn set_due(
        &self,
        at: Option<Timestamp>,
        read: Option<&AttributeValue>,
    ) -> Result<bool, StoreError> {
        let update = match read {
            Some(read) => self.due(at).when("due_sk", "=", read.clone()),
            None => self.due(at).when_absent("due_sk"),
        };
        Ok(matches!(update.run(&self.store).await?, UpdateOutcome::Done(_)))
    }

    /// Reads the rows that the checkpoint may pass now, as [`Self::run`] does, and writes nothing.
    pub async fn visit(&self, log: &impl Log, now: Timestamp) -> Result<(), StoreError> {
        let row = self.store.get_item(&self.total_key()).await?.unwrap_or_default();
        let mut from = text(&row, CHECKPOINT).map_or_else(|| log.first_id(), |id| after(&id));
        let to = Self::passable(log, now);
        for _stride in 0..MAX_STRIDES {
            if from > to {
                break;
            }
            let (rows, is_last) = log.read((&from, &to), Reading::Passing).await?;
            let Some(last) = rows.last().filter(|_| !is_last) else { break };
            from = after(&last.id);
        }
        Ok(())
    }

    /// Returns the sort key up to which the checkpoint may pass rows now.
    fn passable(log: &impl Log, now: Timestamp) -> String {
        let last = now.plus_millis(PASSED_AFTER_MS.saturating_neg()).unwrap_or(Timestamp::MIN);
        after(&log.last_id_at(last))
    }

    /// Advances the checkpoint. Returns the new one, and the id up to which rows were settled if sums of recent rows
    /// were stored for the old one; the outer `None`: another run has advanced it meanwhile, and will make the next
    /// run due.
    async fn advance(
        &self,
        log: &impl Log,
        mut checkpoint: Option<String>,
        now: Timestamp,
    ) -> Result<Option<(Option<String>, Option<String>)>, StoreError> {
        let to = Self::passable(log, now);
        let recent = self.store.get_item(&recent_key(&self.partition)).await?;
        let recent = recent.map(|recent| Recent::of(&recent, checkpoint.as_deref())).transpose()?;
        let mut recent = recent.flatten();
        let settled_to = recent.as_ref().map(|recent| recent.settled_to.clone());
        for _stride in 0..MAX_STRIDES {
            let from = checkpoint.as_deref().map_or_else(|| log.first_id(), after);
            if from > to {
                break;
            }
            let (rows, is_last) = log.read((&from, &to), Reading::Passing).await?;
            let stride = Stride::of(rows);
            let Some(reached) = stride.checkpoint.clone() else { break };
            recent = recent.and_then(|recent| recent.without(&stride.sums, &reached));
            let mut writes = stride.into_writes(self, checkpoint.as_ref());
            if let Some(recent) = &recent {
                writes.push(recent.write(&self.partition, Some(&recent.up_to))?);
            }
            if let CommitOutcome::Conflict { .. } = self.store.commit(writes).await? {
                return Ok(None);
            }
            checkpoint = Some(reached);
            if is_last {
                break;
            }
        }
        Ok(Some((checkpoint, settled_to)))
    }

    /// Stores the sums of the rows after the checkpoint, if they are many, or if sums were stored before: rows may have
    /// appeared among those. `settled_to`: up to where rows were settled then. Returns whether more than a few rows are
    /// not settled; `None`: there are no rows.
    async fn store_recent<L: Log>(
        &self,
        log: &L,
        checkpoint: Option<&str>,
        settled_to: Option<String>,
        now: Timestamp,
    ) -> Result<Option<bool>, StoreError> {
        let last_id =
            |age_ms: i64| log.last_id_at(now.plus_millis(age_ms.saturating_neg()).unwrap_or(Timestamp::MIN));
        let (appeared, settled) = (last_id(APPEARED_AFTER_MS), last_id(SETTLED_AFTER_MS));
        let to = after(&log.last_id_at(Timestamp::MAX));
        let had_recent = settled_to.is_some();
        let was_settled_to = settled_to.unwrap_or_default();
        let (mut sums, mut read_to, mut settled_to) = (BTreeMap::new(), None, was_settled_to.clone());
        let (mut rows_read, mut unsettled, mut are_settled) = (0_usize, 0_usize, true);
        let mut from = checkpoint.map_or_else(|| log.first_id(), after);
        for _stride in 0..MAX_STRIDES {
            let (rows, is_last) = log.read((&from, &to), Reading::Recent(&was_settled_to)).await?;
            let read = rows.len();
            rows_read = rows_read.saturating_add(read);
            let Some(last) = rows.last() else { break };
            from = after(&last.id);
            let have_appeared = last.id <= appeared;
            let mut settled_rows = 0_usize;
            for row in rows.into_iter().take_while(|row| row.id <= appeared) {
                // A belated row among the settled ones is counted as open until it is settled itself.
                let is_in_settled = row.id <= was_settled_to;
                are_settled &= row.is_settled;
                settled_rows = settled_rows.saturating_add(are_settled.into());
                if !is_in_settled && are_settled && row.id <= settled {
                    settled_to.clone_from(&row.id);
                } else if !is_in_settled || !row.is_settled {
                    add_to(&mut sums, row.open);
                }
                add_to(&mut sums, row.added);
                read_to = Some(row.id);
            }
            unsettled = unsettled.saturating_add(read.saturating_sub(settled_rows));
            if is_last || !have_appeared {
                break;
            }
        }
        if let Some(up_to) = read_to.filter(|_| had_recent || rows_read >= L::FEW_ROWS) {
            let recent = Recent { from: checkpoint.unwrap_or(FIRST).to_owned(), up_to, settled_to, sums };
            let _written = self.store.commit(vec![recent.write(&self.partition, None)?]).await?;
        }
        let is_soon = unsettled > L::FEW_UNSETTLED && rows_read <= MANY_ROWS;
        Ok((rows_read > 0).then_some(is_soon))
    }

    /// Returns the update that sets when the next run is due; `None`: none is due. The caller adds its condition.
    fn due(&self, at: Option<Timestamp>) -> RowUpdate {
        let key = self.total_key();
        match at {
            Some(at) => RowUpdate::of(key.clone()).set_all(due_attributes(&key, at)),
            None => RowUpdate::of(key).remove_all(["due_pk", "due_sk"]),
        }
    }
}

/// Reads the sums of a row: all its numeric attributes.
fn sums_of(item: &Item) -> Result<Sums, StoreError> {
    let mut sums = Sums::default();
    for (attribute, value) in item {
        if let Ok(number) = value.as_n() {
            let number = number.parse().map_err(|_too_long| {
                StoreError::Corrupt(format!("the sum {attribute} is not a 64-bit integer"))
            })?;
            sums.add_to(attribute.clone(), number);
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(count: i64) -> BTreeMap<String, Sums> {
        let mut sums = Sums::default();
        sums.add_to("n".to_owned(), count);
        [("day".to_owned(), sums)].into()
    }

    #[test]
    fn recent_sums_lose_the_rows_that_a_run_passes_and_are_over_when_it_reaches_their_end() {
        let text = str::to_owned;
        let recent = || Recent { from: text("a"), up_to: text("f"), settled_to: text("b"), sums: sums(5) };
        let left = recent().without(&sums(2), "c").unwrap();
        assert_eq!((left.from.as_str(), left.up_to.as_str(), left.sums), ("c", "f", sums(3)));
        // A sixth row appeared after they were stored.
        assert!(recent().without(&sums(6), "f").is_none());
        assert!(recent().without(&sums(6), "g").is_none());
    }
}
