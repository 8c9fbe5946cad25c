//! Notes which scopes had new deliveries, so that the scheduler finds deliveries whose message was lost.
//!
//! A new delivery is not in the due index. Therefore the dispatcher notes the scope of each new delivery in the
//! present [`Period`]: one row, and one write unit, for each scope and period. Four and a half minutes after
//! the end of the period, the scheduler lists the deliveries of these scopes that are not delivered. Then
//! it moves a checkpoint, the last period that it has checked.

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};

use domain::ids::Scope;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use super::Deliveries;
use crate::checkpoint::PASSED_AFTER_MS;
use crate::store::{Item, StoreError, Write, from_item};

/// The length of a period, in milliseconds: 5 minutes. A lost message is replaced within a quarter of an hour:
/// a period, the age at which a checkpoint passes a delivery, [`MARGIN_MS`], and the pauses of two schedules.
const PERIOD_MS: i64 = 300_000;

/// How long after the checkpoint may pass a period's deliveries the period is checked, in milliseconds. It
/// exceeds the difference of two machines' clocks.
const MARGIN_MS: i64 = 60_000;

/// How long a note is kept, in seconds: 14 days, as long as a message in a queue.
const KEPT_SECONDS: i64 = 14 * 24 * 60 * 60;

/// The most periods before the present one that a scheduler without a checkpoint checks: a day. It has none in
/// a new stack only.
const MOST_UNCHECKED: i64 = 288;

/// The attribute with the checkpoint.
const CHECKED_TO: &str = "checked_to";

/// Five minutes in which deliveries were created.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Period(i64);

impl Period {
    /// Returns the period of a time.
    pub fn of(at: Timestamp) -> Self {
        Self(at.millis().div_euclid(PERIOD_MS))
    }

    /// Returns the last period whose deliveries may all be passed by a checkpoint.
    fn last_to_check(now: Timestamp) -> Self {
        let age_ms = PASSED_AFTER_MS.saturating_add(MARGIN_MS);
        let passed = now.plus_millis(age_ms.saturating_neg()).unwrap_or(Timestamp::MIN);
        Self(Self::of(passed).0.saturating_sub(1))
    }

    fn partition(self) -> String {
        format!("new-deliveries#{}", self.0)
    }
}

fn checkpoint_key() -> Key {
    Key { pk: "new-deliveries#checkpoint".to_owned(), sk: "checkpoint".to_owned() }
}

/// The row that notes that a scope had new deliveries in a period.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct NewDeliveries {
    scope: Scope,
    period: i64,
}

impl Row for NewDeliveries {
    fn key(&self) -> Key {
        Key { pk: Period(self.period).partition(), sk: self.scope.to_string() }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        let started_at = Timestamp::from_millis(self.period.saturating_mul(PERIOD_MS)).ok()?;
        started_at.plus_seconds(KEPT_SECONDS).ok()
    }
}

impl Deliveries {
    /// Notes that a scope has new deliveries in a period.
    pub async fn note_new(&self, scope: &Scope, period: Period) -> Result<(), StoreError> {
        let note = NewDeliveries { scope: *scope, period: period.0 };
        self.store.commit(vec![Write::insert(&note)?]).await.map(|_inserted_or_existing| ())
    }

    /// Returns the periods that were not checked yet, oldest first.
    pub async fn unchecked_periods(&self, now: Timestamp) -> Result<Vec<Period>, StoreError> {
        let last = Period::last_to_check(now).0;
        let row = self.store.get_item(&checkpoint_key()).await?.unwrap_or_default();
        let checked = row.get(CHECKED_TO).and_then(|to| to.as_n().ok()?.parse::<i64>().ok());
        let checked = checked.unwrap_or(last.saturating_sub(MOST_UNCHECKED));
        Ok((checked.saturating_add(1)..=last).map(Period).collect())
    }

    /// Returns the scopes that had new deliveries in a period.
    pub async fn scopes_with_new(&self, period: Period) -> Result<Vec<Scope>, StoreError> {
        let notes = self.store.partition(&period.partition()).await?;
        notes.into_iter().map(|note| from_item::<NewDeliveries>(note).map(|note| note.scope)).collect()
    }

    /// Moves the checkpoint to a period. A run that overlaps may move it back. Then some periods are checked
    /// twice.
    pub async fn set_checked(&self, period: Period) -> Result<(), StoreError> {
        let checked = AttributeValue::N(period.0.to_string());
        let set = Item::from([(CHECKED_TO.to_owned(), checked)]);
        self.store.commit(vec![Write::add(checkpoint_key(), Vec::new(), set, None)]).await.map(|_written| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_checked_when_the_checkpoint_may_pass_all_its_deliveries() {
        let start: Timestamp = "2026-11-23T12:00:00Z".parse().unwrap();
        let period = Period::of(start);
        let after = |seconds| start.saturating_plus_seconds(seconds);
        assert_eq!(Period::of(after(299)), period);
        assert!(Period::of(after(300)) > period);
        assert!(Period::last_to_check(after(569)) < period);
        assert_eq!(Period::last_to_check(after(570)), period);
    }
}
