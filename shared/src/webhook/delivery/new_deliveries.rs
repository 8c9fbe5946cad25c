//! Notes which scopes had new deliveries ([`crate::notes`]), so that the scheduler finds deliveries whose
//! message was lost. A new delivery is not in the due index. A note is one row, and one write unit, for each
//! scope and period.

use serde::{Deserialize, Serialize};

use domain::ids::Scope;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use super::Deliveries;
use crate::notes::Period;
use crate::store::{StoreError, Write, from_item};

/// The row that notes that a scope had new deliveries in a period.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct NewDeliveries {
    scope: Scope,
    period: Period,
}

impl Row for NewDeliveries {
    fn key(&self) -> Key {
        self.period.key(&self.scope)
    }

    fn removable_at(&self) -> Option<Timestamp> {
        Some(self.period.removable_at())
    }
}

impl Deliveries {
    /// Notes that a scope has new deliveries in a period.
    pub async fn note_new(&self, scope: &Scope, period: Period) -> Result<(), StoreError> {
        let note = NewDeliveries { scope: *scope, period };
        self.store.commit(vec![Write::insert(&note)?]).await.map(|_inserted_or_existing| ())
    }

    /// Returns the scopes that had new deliveries in a period.
    pub async fn scopes_with_new(&self, period: Period) -> Result<Vec<Scope>, StoreError> {
        let notes = period.notes(&self.store).await?;
        notes.into_iter().map(|note| from_item::<NewDeliveries>(note).map(|note| note.scope)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::testing::at;
    use crate::webhook::endpoint::testing::endpoint;

    #[test]
    fn a_note_is_kept_for_14_days_after_its_period() {
        let note = NewDeliveries { scope: endpoint().scope, period: Period::of(at(60)) };
        assert_eq!(note.removable_at(), Some(at(14 * 24 * 60 * 60 + 300)));
    }
}
