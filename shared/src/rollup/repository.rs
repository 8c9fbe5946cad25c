//! Reads and writes of rollups. A change is counted once because a marker that names it is inserted in the transaction of
//! its sums; whoever meets the marker knows that the change was counted.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use domain::calendar::{Day, Window};
use domain::ids::{ChargeId, Scope};
use domain::money::Currency;
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::rollup::{Counted, DAY_SORT, Sums, all_time_key, day_key, parse_day, partition};
use domain::row::{Key, Row};
use domain::time::Timestamp;

use crate::store::{Committed, Item, Order, Store, StoreError, Write, text};

/// Changes of one transaction: with a marker and at most a day's row for each, and the row of all time, they stay within the
/// 100 rows that DynamoDB takes.
const CHANGES_A_TRANSACTION: usize = 40;

/// Days of a window from which on it is read in halves, side by side: a query ends at 1 MB, some 1,400 rows.
const DAYS_A_QUERY: u64 = 183;

/// A change that was counted. It is kept as long as events are, because quarantined records may be replayed late.
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
    /// The day on which its charges were created.
    pub day: Day,
    /// Their currency.
    pub currency: Currency,
    /// What they come to.
    pub sums: Sums,
}

/// The rollups of all scopes.
#[derive(Clone, Debug)]
pub struct Rollups {
    store: Store,
}

impl Rollups {
    /// Rollups in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Counts changes of one scope's charges, each once, whether it comes again now or came before. When it fails, some may be
    /// counted; all can be given again.
    pub async fn count(&self, changes: Vec<Counted>, now: Timestamp) -> Result<(), StoreError> {
        let mut named = BTreeSet::new();
        let changes: Vec<Counted> = changes
            .into_iter()
            .filter(|change| named.insert((change.charge.raw(), change.version)))
            .collect();
        for some in changes.chunks(CHANGES_A_TRANSACTION) {
            self.count_some(some.to_vec(), now).await?;
        }
        Ok(())
    }

    async fn count_some(&self, changes: Vec<Counted>, now: Timestamp) -> Result<(), StoreError> {
        let mut left = changes;
        while !left.is_empty() {
            match self.store.commit(writes(&left, now)?).await? {
                Committed::Done => return Ok(()),
                Committed::Overtaken { at } => {
                    let before = left.len();
                    // The markers come first, a place for each change.
                    let placed = left.into_iter().enumerate();
                    left =
                        placed.filter(|(place, _)| !at.contains(place)).map(|(_, change)| change).collect();
                    if left.len() == before {
                        return Err(StoreError::Corrupt("sums were refused without a marker".to_owned()));
                    }
                }
            }
        }
        Ok(())
    }

    /// The sums of a window's days, oldest first: one query, or two side by side.
    pub async fn of_days(&self, scope: &Scope, window: Window) -> Result<Vec<DayRow>, StoreError> {
        let Window { first, today: last } = window;
        let days = first.days_until(last);
        if days < DAYS_A_QUERY {
            return self.between(scope, first, last).await;
        }
        let middle = last.back(days.div_euclid(2));
        let (mut early, late) =
            tokio::try_join!(self.between(scope, first, middle.back(1)), self.between(scope, middle, last))?;
        early.extend(late);
        Ok(early)
    }

    /// The sums of the days from one to another, both taken in, oldest first: one query.
    pub async fn between(&self, scope: &Scope, first: Day, last: Day) -> Result<Vec<DayRow>, StoreError> {
        // '$' sorts after the '#' that follows the day, so this bound takes in all of the last.
        let (from, to) = (format!("{DAY_SORT}{first}"), format!("{DAY_SORT}{last}$"));
        let items = self.store.range(&partition(scope), (&from, &to), Order::OldestFirst, usize::MAX).await?;
        items.iter().map(day_row).collect()
    }

    /// The sums of all time: charges created, and in each status now.
    pub async fn of_all_time(&self, scope: &Scope) -> Result<Sums, StoreError> {
        let item = self.store.get_item(&all_time_key(scope)).await?;
        item.as_ref().map_or(Ok(Sums::default()), sums)
    }
}

/// The markers of changes in their order, then the sums, merged by row.
fn writes(changes: &[Counted], now: Timestamp) -> Result<Vec<Write>, StoreError> {
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
    let (day, currency) =
        parse_day(&sort).ok_or_else(|| StoreError::Corrupt(format!("{sort} is no day of a rollup")))?;
    Ok(DayRow { day, currency, sums: sums(item)? })
}

/// Every number of a row is a sum.
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
