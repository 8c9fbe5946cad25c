//! Reads and writes rollups. Each change of a charge is counted once: the transaction that adds to the sums
//! also inserts a marker for the change. If the marker exists already, the change was counted before.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use domain::calendar::{BusinessDayRange, Day};
use domain::ids::{ChargeId, Scope};
use domain::money::Currency;
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::rollup::{DAY_SORT, RollupChange, Sums, all_time_key, day_key, parse_day, partition};
use domain::row::{Key, Row};
use domain::time::Timestamp;

use crate::store::{CommitOutcome, Item, Order, Store, StoreError, Write, text};

/// The most changes in one transaction, which DynamoDB limits to 100 rows. Forty changes write at most 81:
/// for each a marker and the row of its day, and one row with the sums of all time.
const CHANGES_PER_TRANSACTION: usize = 40;

/// A window of at least this many days is read by two concurrent queries. A query returns at most 1 MB, about
/// 1,400 rows, in one response, and must wait for it before it requests more. A day has one row per currency.
const DAYS_PER_QUERY: u64 = 183;

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

    /// Adds changes of one scope's charges to the sums. Counts a change once, even if `changes` contains it
    /// twice or an earlier call counted it. After an error, some of the changes may be counted, and the
    /// caller can repeat the whole call.
    pub async fn count(&self, changes: Vec<RollupChange>, now: Timestamp) -> Result<(), StoreError> {
        let mut seen = BTreeSet::new();
        let changes: Vec<RollupChange> =
            changes.into_iter().filter(|change| seen.insert((change.charge.raw(), change.version))).collect();
        for chunk in changes.chunks(CHANGES_PER_TRANSACTION) {
            self.count_chunk(chunk.to_vec(), now).await?;
        }
        Ok(())
    }

    /// Counts changes in one transaction. If the markers of some changes exist already, retries without these
    /// changes.
    async fn count_chunk(&self, changes: Vec<RollupChange>, now: Timestamp) -> Result<(), StoreError> {
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

    /// Reads the sums of a window's days, oldest first, in one query or two concurrent ones.
    pub async fn for_window(
        &self,
        scope: &Scope,
        window: BusinessDayRange,
    ) -> Result<Vec<DayRow>, StoreError> {
        let BusinessDayRange { first, today: last } = window;
        let days = first.days_until(last);
        if days < DAYS_PER_QUERY {
            return self.for_days(scope, first, last).await;
        }
        let middle = last.minus_days(days.div_euclid(2));
        let (mut early, late) = tokio::try_join!(
            self.for_days(scope, first, middle.minus_days(1)),
            self.for_days(scope, middle, last)
        )?;
        early.extend(late);
        Ok(early)
    }

    /// Reads the sums of the days from `first` to `last`, both inclusive, oldest first, in one query.
    pub async fn for_days(&self, scope: &Scope, first: Day, last: Day) -> Result<Vec<DayRow>, StoreError> {
        // '#' follows the day in a sort key. '$' sorts after '#', so this bound includes every row of the
        // last day.
        let (from, to) = (format!("{DAY_SORT}{first}"), format!("{DAY_SORT}{last}$"));
        let items = self.store.range(&partition(scope), (&from, &to), Order::OldestFirst, usize::MAX).await?;
        items.iter().map(day_row).collect()
    }

    /// Reads the sums of all time: the number of charges created, and the number in each status now.
    pub async fn all_time(&self, scope: &Scope) -> Result<Sums, StoreError> {
        let item = self.store.get_item(&all_time_key(scope)).await?;
        item.as_ref().map_or(Ok(Sums::default()), sums)
    }
}

/// Returns the writes that count changes: first the markers, in the order of the changes, then one addition
/// for each row of sums.
fn count_writes(changes: &[RollupChange], now: Timestamp) -> Result<Vec<Write>, StoreError> {
    let mut writes = Vec::new();
    let mut rows: BTreeMap<(String, String), Sums> = BTreeMap::new();
    for change in changes {
        let marker = Marker { charge: change.charge, version: change.version, counted_at: now };
        writes.push(Write::insert(&marker)?);
        let day = day_key(&change.scope, change.day, change.currency);
        for (key, sums) in [(day, &change.of_day), (all_time_key(&change.scope), &change.of_all_time)] {
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
