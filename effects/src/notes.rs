//! Notes of the scopes with new deliveries, which are not in the due index. The dispatcher notes a scope in the
//! present [`Period`]. Four and a half minutes after the end of the period, the scheduler checks the scope's
//! deliveries, and puts those that still wait into the due index, because their message may be lost. Then it
//! moves a checkpoint, the last period that it has checked. A scope whose check failed is noted again, in the
//! present period.

use serde::{Deserialize, Serialize};

use domain::ids::Scope;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use shared::checkpoint::PASSED_AFTER_MS;
use shared::store::{RowUpdate, Store, StoreError, Write, from_item, integer, number};

/// The length of a period, in milliseconds: 5 minutes. A lost message is replaced within a quarter of an hour:
/// a period, the age at which a checkpoint passes a delivery, [`MARGIN_MS`], and the pauses of two schedules.
const PERIOD_MS: i64 = 300_000;

/// How long after a checkpoint may pass a period's deliveries the period is checked, in milliseconds. It
/// exceeds the difference of two machines' clocks.
const MARGIN_MS: i64 = 60_000;

/// How long a note is kept, in seconds: 14 days, as long as a message in a queue.
const KEPT_SECONDS: i64 = 14 * 24 * 60 * 60;

/// The most periods before the present one that a scheduler without a checkpoint checks: an hour. It has none in
/// a new stack only, whose first runs would otherwise read many empty partitions.
const MOST_UNCHECKED: i64 = 12;

const CHECKED_TO: &str = "checked_to";

/// Five minutes in which scopes were noted.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Period(i64);

impl Period {
    pub fn of(at: Timestamp) -> Self {
        Self(at.millis().div_euclid(PERIOD_MS))
    }

    /// Returns the last period whose deliveries may all be passed by a checkpoint.
    fn last_to_check(now: Timestamp) -> Self {
        let age_ms = PASSED_AFTER_MS.saturating_add(MARGIN_MS);
        let passed = now.plus_millis(age_ms.saturating_neg()).unwrap_or(Timestamp::MIN);
        Self(Self::of(passed).0.saturating_sub(1))
    }

    pub fn ends_at(self) -> Timestamp {
        let end_ms = self.0.saturating_add(1).saturating_mul(PERIOD_MS);
        Timestamp::from_millis(end_ms).unwrap_or(Timestamp::MAX)
    }

    fn partition(self) -> String {
        format!("new-deliveries#{}", self.0)
    }

    pub async fn note(self, store: &Store, scope: &Scope) -> Result<(), StoreError> {
        let note = Note { scope: *scope, period: self };
        store.commit(vec![Write::insert(&note)?]).await.map(|_inserted_or_existing| ())
    }

    pub async fn scopes(self, store: &Store) -> Result<Vec<Scope>, StoreError> {
        let notes = store.partition(&self.partition()).await?;
        notes.into_iter().map(|note| from_item::<Note>(note).map(|note| note.scope)).collect()
    }

    /// Returns the periods that were not checked yet, oldest first.
    pub async fn unchecked(store: &Store, now: Timestamp) -> Result<Vec<Self>, StoreError> {
        let last = Self::last_to_check(now).0;
        let row = store.get_item(&checkpoint_key()).await?.unwrap_or_default();
        let checked = integer(&row, CHECKED_TO).unwrap_or(last.saturating_sub(MOST_UNCHECKED));
        Ok((checked.saturating_add(1)..=last).map(Self).collect())
    }

    /// Moves the checkpoint to this period. A run that overlaps may move it back. Then some periods are checked
    /// twice.
    pub async fn set_checked(self, store: &Store) -> Result<(), StoreError> {
        let update = RowUpdate::of(checkpoint_key()).set(CHECKED_TO, number(self.0));
        update.run(store).await.map(|_written| ())
    }
}

/// The row that notes that a scope had new deliveries in a period. It costs one write unit.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Note {
    scope: Scope,
    period: Period,
}

impl Row for Note {
    fn key(&self) -> Key {
        Key { pk: self.period.partition(), sk: self.scope.to_string() }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        Some(self.period.ends_at().saturating_plus_seconds(KEPT_SECONDS))
    }
}

fn checkpoint_key() -> Key {
    Key { pk: "new-deliveries#checkpoint".to_owned(), sk: "checkpoint".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge_testing::at;
    use crate::webhook::endpoint::testing::endpoint;

    #[test]
    fn a_period_is_checked_when_the_checkpoint_may_pass_all_its_deliveries() {
        let start: Timestamp = "2026-11-23T12:00:00Z".parse().unwrap();
        let period = Period::of(start);
        let after = |seconds| start.saturating_plus_seconds(seconds);
        assert_eq!(Period::of(after(299)), period);
        assert!(Period::of(after(300)) > period);
        assert_eq!(period.ends_at(), after(300));
        assert!(Period::last_to_check(after(569)) < period);
        assert_eq!(Period::last_to_check(after(570)), period);
    }

    #[test]
    fn a_note_is_kept_for_14_days_after_its_period() {
        let note = Note { scope: endpoint().scope, period: Period::of(at(60)) };
        assert_eq!(note.removable_at(), Some(at(14 * 24 * 60 * 60 + 300)));
    }
}
