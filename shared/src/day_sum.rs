//! Sums of a day in São Paulo, which the transactions of changes add to.

use domain::calendar::Day;
use domain::row::Key;

use crate::store::{RowUpdate, Store, StoreError, Write, integer, number, ttl};

/// How long a row is kept after the end of its day. Later changes do not extend this time.
const KEPT_DAYS: u64 = 2;

/// The row of a sum.
#[derive(Clone, Debug)]
pub struct DaySum {
    pub key: Key,
    /// The attribute with the sum.
    pub attribute: &'static str,
    pub day: Day,
}

impl DaySum {
    pub fn add(&self, by: i64) -> Write {
        Write::update(self.update(by))
    }

    /// The write fails if the sum would exceed `most`. `None`: `by` alone exceeds it.
    pub fn add_up_to(&self, by: i64, most: i64) -> Option<Write> {
        let left = most.checked_sub(by).filter(|left| *left >= 0)?;
        Some(Write::update(self.update(by).when_absent_or(self.attribute, "<=", number(left))))
    }

    /// 0 without a row.
    pub async fn read(&self, store: &Store) -> Result<i64, StoreError> {
        let row = store.get_item(&self.key).await?.unwrap_or_default();
        Ok(integer(&row, self.attribute).unwrap_or_default())
    }

    fn update(&self, by: i64) -> RowUpdate {
        let ttl = ttl(self.day.plus_days(KEPT_DAYS).ends_at().seconds());
        RowUpdate::of(self.key.clone()).add(self.attribute, number(by)).set_all(ttl)
    }
}
