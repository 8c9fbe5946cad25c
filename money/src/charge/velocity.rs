//! The velocity guard limits live charges per customer and per account. Expired and cancelled charges do not
//! count, so a merchant can create a new charge after one that expired unpaid.
//!
//! Per customer, one row lists a slot for each charge of the last ten minutes. The transaction that inserts a
//! charge also replaces this row, conditional on its version. So concurrent requests cannot exceed the limit,
//! and a crash cannot leave a slot without its charge.
//!
//! Per account, a row counts the charges of one minute. A separate request increments it before the charge's
//! transaction, because otherwise all charges of the account would conflict on that row. After a crash in
//! between, the slot stays taken until the minute ends.

use serde::{Deserialize, Serialize};

use domain::account::VelocityLimits;
use domain::charge::{Charge, StoredCharge, TransactionStatus};
use domain::ids::{ChargeId, Mode, Scope};
use domain::row::{Key, Row};
use domain::time::Timestamp;

use crate::charge::{ChargeError, Charges};
use shared::request_limit::Window;
use shared::store::{Inserted, RowUpdate, StoreError, Write, number};

const CUSTOMER_SECONDS: i64 = 10 * 60;
const CHARGE_WRITE: usize = 0;

const COUNTER: &str = "charges";

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Slot {
    charge: ChargeId,
    #[serde(with = "domain::time::millis")]
    at: Timestamp,
}

impl Slot {
    fn counts(&self, now: Timestamp) -> bool {
        now.millis_since(self.at) < CUSTOMER_SECONDS.saturating_mul(1_000)
    }
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct CustomerSlots {
    scope: Scope,
    document: String,
    taken: Vec<Slot>,
    /// 0 before the first write.
    version: u64,
}

impl CustomerSlots {
    fn key_of(scope: &Scope, document: &str) -> Key {
        Key { pk: format!("velocity#{scope}#{document}"), sk: "customer".to_owned() }
    }

    fn empty(scope: Scope, document: &str) -> Self {
        Self { scope, document: document.to_owned(), taken: Vec::new(), version: 0 }
    }

    /// Drops slots older than ten minutes. `None`: the limit is reached.
    fn with_charge(&self, charge: ChargeId, limit: u16, now: Timestamp) -> Option<Self> {
        let mut taken: Vec<Slot> = self.taken.iter().copied().filter(|slot| slot.counts(now)).collect();
        if taken.len() >= usize::from(limit) {
            return None;
        }
        taken.push(Slot { charge, at: now });
        Some(self.next(taken))
    }

    /// `None`: the charge has no slot.
    fn without_charge(&self, charge: ChargeId) -> Option<Self> {
        let taken: Vec<Slot> = self.taken.iter().copied().filter(|slot| slot.charge != charge).collect();
        (taken.len() < self.taken.len()).then(|| self.next(taken))
    }

    fn next(&self, taken: Vec<Slot>) -> Self {
        Self { taken, version: self.version.saturating_add(1), ..self.clone() }
    }
}

impl Row for CustomerSlots {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, &self.document)
    }

    fn removable_at(&self) -> Option<Timestamp> {
        let last = self.taken.iter().map(|slot| slot.at).max();
        last.unwrap_or(Timestamp::MIN).plus_seconds(CUSTOMER_SECONDS).ok()
    }
}

/// The partition of an account's counters, one for each clock minute.
fn counters(scope: &Scope) -> String {
    format!("velocity#{scope}")
}

impl Charges {
    /// Inserts a live charge unless a limit is reached, or returns the stored charge with the same id. A replay
    /// is never refused. It takes a slot of the minute and frees it when the insert finds the stored charge,
    /// because detecting it earlier would cost one more request for every new charge. The stored charge is read
    /// before the insert only when no slot is left.
    pub async fn insert_guarded(
        &self,
        charge: &Charge,
        limits: VelocityLimits,
        now: Timestamp,
    ) -> Result<Inserted<StoredCharge>, ChargeError> {
        let (minute, max) = (Window::minute(now), Some(i64::from(limits.per_account)));
        if minute.add(&self.store, counters(&charge.scope), (COUNTER, 1), max).await?.is_none() {
            return self.existing_or(charge.id, ChargeError::AccountVelocityExceeded).await;
        }
        let inserted = self.insert_for_customer(charge, limits.per_customer, now).await;
        match &inserted {
            Ok(Inserted::New) => {}
            // After a failed request the charge may have been inserted, so its slot stays taken.
            Err(error) if !matches!(error, ChargeError::CustomerVelocityExceeded) => {}
            Ok(Inserted::Existing(_)) | Err(_) => {
                minute.add(&self.store, counters(&charge.scope), (COUNTER, -1), None).await?;
            }
        }
        inserted
    }

    async fn insert_for_customer(
        &self,
        charge: &Charge,
        limit: u16,
        now: Timestamp,
    ) -> Result<Inserted<StoredCharge>, ChargeError> {
        let Some(document) = charge.payer() else {
            return Ok(self.store.insert_or_read(charge).await?);
        };
        let key = CustomerSlots::key_of(&charge.scope, document);
        let mut update = self.store.start_update("a customer's charges");
        loop {
            if update.failed().contains(&CHARGE_WRITE) {
                return Ok(Inserted::Existing(self.get_existing(charge.id).await?));
            }
            let found: Option<CustomerSlots> = self.store.get(&key).await?;
            let read_version = found.as_ref().map(|slots| slots.version);
            let slots = found.unwrap_or_else(|| CustomerSlots::empty(charge.scope, document));
            let Some(next) = slots.with_charge(charge.id, limit, now) else {
                return self.existing_or(charge.id, ChargeError::CustomerVelocityExceeded).await;
            };
            let slots = Write::put(&next, read_version)?;
            if update.commit(vec![Write::insert(charge)?, slots]).await? {
                return Ok(Inserted::New);
            }
        }
    }

    /// A request whose charge exists is a replay. Otherwise fails with `error`.
    async fn existing_or(
        &self,
        id: ChargeId,
        error: ChargeError,
    ) -> Result<Inserted<StoredCharge>, ChargeError> {
        self.find(Some(id)).await?.map(Inserted::Existing).ok_or(error)
    }

    /// The writes that free a charge's slots if the change to `next` expires or cancels it, for the same
    /// transaction. A declined charge keeps its slots, because the limits also apply to attempts that fail.
    pub(super) async fn slot_release_writes(
        &self,
        charge: &Charge,
        next: &Charge,
        now: Timestamp,
    ) -> Result<Vec<Write>, StoreError> {
        let frees_slots = |charge: &Charge| {
            matches!(charge.status, TransactionStatus::Expired | TransactionStatus::Cancelled)
        };
        let mut writes = Vec::new();
        if charge.scope.mode == Mode::Test || !frees_slots(next) || frees_slots(charge) {
            return Ok(writes);
        }
        let slot = Slot { charge: charge.id, at: charge.created_at };
        if let Some(document) = charge.payer().filter(|_| slot.counts(now)) {
            let found: Option<CustomerSlots> =
                self.store.get(&CustomerSlots::key_of(&charge.scope, document)).await?;
            if let Some(slots) = found
                && let Some(left) = slots.without_charge(charge.id)
            {
                writes.push(Write::replace(&left, slots.version)?);
            }
        }
        let minute = Window::minute(charge.created_at);
        if minute == Window::minute(now) {
            let update = RowUpdate::of(minute.key(counters(&charge.scope))).add(COUNTER, number(-1));
            writes.push(Write::update(update.set_all(minute.ttl())));
        }
        Ok(writes)
    }
}

#[cfg(test)]
mod tests {
    use crate::charge::testing::at;
    use crate::charge::velocity::*;
    use domain::ids::AccountId;

    fn charge(key: &str) -> ChargeId {
        ChargeId::derive(b"salt", Mode::Live, "charges", key)
    }

    #[test]
    fn a_slot_counts_for_ten_minutes() {
        let scope = Scope { account: AccountId::new([1; 10]), mode: Mode::Live };
        let first = CustomerSlots::empty(scope, "29537995593").with_charge(charge("a"), 2, at(0)).unwrap();
        let second = first.with_charge(charge("b"), 2, at(599)).unwrap();
        assert_eq!(second.with_charge(charge("c"), 2, at(599)), None);
        let third = second.with_charge(charge("c"), 2, at(600)).unwrap();
        assert_eq!(third.taken.len(), 2, "a slot older than ten minutes is dropped");
        assert_eq!((first.version, second.version, third.version), (1, 2, 3));
        assert_eq!(third.removable_at(), Some(at(1200)));
        assert_eq!(third.without_charge(charge("a")), None);
        assert!(third.without_charge(charge("b")).unwrap().with_charge(charge("d"), 2, at(600)).is_some());
    }
}
