//! The velocity guard (contract: Errors, fraud guard) limits live charges per customer and per account. Expired and
//! cancelled charges do not count, so a new charge after an unpaid one that expired is safe.
//!
//! The limit per customer is a row that lists the customer's charges of the last ten minutes. The transaction that
//! inserts a charge also replaces this row, conditional on its version. So concurrent requests cannot exceed the limit,
//! and a crash cannot leave a slot without its charge.
//!
//! The limit per account is a counter for each minute. A request of its own increments it: in the charge's transaction,
//! all charges of the account would conflict on that one row. After a crash between the increment and the insert, the
//! slot stays taken until the minute ends.

use serde::{Deserialize, Serialize};

use domain::account::VelocityLimits;
use domain::charge::{Charge, StoredCharge, TransactionStatus};
use domain::ids::{ChargeId, Mode, Scope};
use domain::row::{Key, Row};
use domain::time::Timestamp;

use crate::charge::{ChargeError, Charges};
use crate::store::{Bound, Inserted, Item, StoreError, Write, ttl};

/// How long a charge counts toward its customer's limit, in seconds.
const CUSTOMER_SECONDS: i64 = 10 * 60;

/// The index of the charge's insert in the transaction that also writes the customer's slots.
const CHARGE_WRITE: usize = 0;

/// The window of an account's limit, in seconds. Windows are aligned to clock minutes.
const ACCOUNT_SECONDS: i64 = 60;

/// The attribute of an account's counter of a minute.
const COUNTER: &str = "charges";

/// A slot of a customer's limit, in use by one charge.
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

/// The row of the slots in use by a customer's live charges.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct CustomerSlots {
    scope: Scope,
    document: String,
    taken: Vec<Slot>,
    /// The number of writes of this row, from 1; 0 before the first.
    version: u64,
}

impl CustomerSlots {
    fn key_of(scope: &Scope, document: &str) -> Key {
        Key { pk: format!("velocity#{scope}#{document}"), sk: "customer".to_owned() }
    }

    fn none(scope: Scope, document: &str) -> Self {
        Self { scope, document: document.to_owned(), taken: Vec::new(), version: 0 }
    }

    /// Drops expired slots and assigns one to a charge. `None` means that the limit is reached.
    fn with_charge(&self, charge: ChargeId, limit: u16, now: Timestamp) -> Option<Self> {
        let mut taken: Vec<Slot> = self.taken.iter().copied().filter(|slot| slot.counts(now)).collect();
        if taken.len() >= usize::from(limit) {
            return None;
        }
        taken.push(Slot { charge, at: now });
        Some(self.next(taken))
    }

    /// Frees a charge's slot. `None` means that the charge has no slot.
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

/// The row that counts the charges of a scope in one clock minute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Minute {
    scope: Scope,
    /// Minutes since the Unix epoch.
    number: i64,
}

impl Minute {
    fn at(scope: Scope, at: Timestamp) -> Self {
        Self { scope, number: at.seconds().div_euclid(ACCOUNT_SECONDS) }
    }

    fn key(self) -> Key {
        Key { pk: format!("velocity#{}", self.scope), sk: self.number.to_string() }
    }

    /// The TTL attribute: the row expires at the end of its minute.
    fn ttl(self) -> Item {
        ttl(self.number.saturating_add(1).saturating_mul(ACCOUNT_SECONDS))
    }
}

impl Charges {
    /// Inserts a live charge unless a limit is reached, or returns the stored charge that has the same id. A replay is
    /// never refused, also above the limit.
    ///
    /// # Errors
    ///
    /// [`ChargeError::CustomerVelocityExceeded`] and [`ChargeError::AccountVelocityExceeded`] for a new charge above a
    /// limit.
    pub async fn insert_guarded(
        &self,
        charge: &Charge,
        limits: VelocityLimits,
        now: Timestamp,
    ) -> Result<Inserted<StoredCharge>, ChargeError> {
        let minute = Minute::at(charge.scope, now);
        let most = i64::from(limits.per_account).saturating_sub(1);
        let bound = Bound::AtMost { counter: COUNTER.to_owned(), most };
        if !self.store.add_within_bound(&minute.key(), (COUNTER, 1), minute.ttl(), Some(bound)).await? {
            return self.existing_or(charge.id, ChargeError::AccountVelocityExceeded).await;
        }
        let inserted = self.insert_for_customer(charge, limits.per_customer, now).await;
        match &inserted {
            // After any other error the charge may exist nevertheless, so its slot stays taken.
            Ok(Inserted::New) => {}
            Err(error) if !matches!(error, ChargeError::CustomerVelocityExceeded) => {}
            Ok(Inserted::Existing(_)) | Err(_) => {
                self.store.add_within_bound(&minute.key(), (COUNTER, -1), minute.ttl(), None).await?;
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
            update.next_attempt().await?;
            if update.failed().contains(&CHARGE_WRITE) {
                return Ok(Inserted::Existing(self.get_existing(charge.id).await?));
            }
            let found: Option<CustomerSlots> = self.store.get(&key).await?;
            let read_version = found.as_ref().map(|slots| slots.version);
            let slots = found.unwrap_or_else(|| CustomerSlots::none(charge.scope, document));
            let Some(next) = slots.with_charge(charge.id, limit, now) else {
                return self.existing_or(charge.id, ChargeError::CustomerVelocityExceeded).await;
            };
            let slot_write = match read_version {
                Some(version) => Write::replace(&next, version)?,
                None => Write::insert(&next)?,
            };
            if update.commit(vec![Write::insert(charge)?, slot_write]).await? {
                return Ok(Inserted::New);
            }
        }
    }

    /// Returns the stored charge when it exists, since the request is then a replay; otherwise `error`.
    async fn existing_or(
        &self,
        id: ChargeId,
        error: ChargeError,
    ) -> Result<Inserted<StoredCharge>, ChargeError> {
        self.find(Some(id)).await?.map(Inserted::Existing).ok_or(error)
    }

    /// Returns the writes that free a charge's slots when the change from `charge` to `next` expires or cancels it.
    /// They belong in the transaction of that change. Slots that no longer count need no write.
    pub(super) async fn slot_release_writes(
        &self,
        charge: &Charge,
        next: &Charge,
        now: Timestamp,
    ) -> Result<Vec<Write>, StoreError> {
        let ends = |charge: &Charge| {
            matches!(charge.status, TransactionStatus::Expired | TransactionStatus::Cancelled)
        };
        let mut writes = Vec::new();
        if charge.scope.mode == Mode::Test || !ends(next) || ends(charge) {
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
        let minute = Minute::at(charge.scope, charge.created_at);
        if minute == Minute::at(charge.scope, now) {
            writes.push(Write::add(minute.key(), vec![(COUNTER.to_owned(), -1)], minute.ttl(), None));
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
    fn slots_count_for_ten_minutes_and_no_longer() {
        let scope = Scope { account: AccountId::new([1; 10]), mode: Mode::Live };
        let first = CustomerSlots::none(scope, "29537995593").with_charge(charge("a"), 2, at(0)).unwrap();
        let second = first.with_charge(charge("b"), 2, at(599)).unwrap();
        assert_eq!(second.with_charge(charge("c"), 2, at(599)), None);
        let third = second.with_charge(charge("c"), 2, at(600)).unwrap();
        assert_eq!(third.taken.len(), 2, "an expired slot is dropped");
        assert_eq!((first.version, second.version, third.version), (1, 2, 3));
        assert_eq!(third.removable_at(), Some(at(1200)));
        assert_eq!(third.without_charge(charge("a")), None);
        assert!(third.without_charge(charge("b")).unwrap().with_charge(charge("d"), 2, at(600)).is_some());
    }
}
