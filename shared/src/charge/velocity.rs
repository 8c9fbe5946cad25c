//! The velocity guard (contract: Errors, fraud guard): how many live charges one customer, and one account, may be asked
//! for in a short time. Charges that expired or were cancelled do not count, so a retry after one is safe.
//!
//! A customer's charges of the last ten minutes are one row, replaced by its version in the transaction that inserts the
//! charge: however many come at once, no more pass than may, and a crash leaves no place without its charge. An account's
//! are a counter of the minute, which is added to alone, because a transaction a charge would make them wait for one
//! another; a crash between the two leaves a place taken until the minute ends.

use serde::{Deserialize, Serialize};

use domain::account::VelocityLimits;
use domain::charge::{Charge, StoredCharge, TransactionStatus};
use domain::ids::{ChargeId, Mode, Scope};
use domain::row::{Key, Row};
use domain::time::Timestamp;

use crate::charge::{ChargeError, Charges};
use crate::store::{Bound, Inserted, Item, StoreError, Write, ttl};

/// How long a customer's charge counts, in seconds.
const CUSTOMER_SECONDS: i64 = 10 * 60;

/// Where the charge is among the rows that are written with a customer's place.
const CHARGE_PLACE: usize = 0;

/// How long an account's charges count, in seconds: by the minutes of the clock.
const ACCOUNT_SECONDS: i64 = 60;

/// The attribute that counts an account's charges of a minute.
const COUNTER: &str = "charges";

/// A charge that counts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Place {
    charge: ChargeId,
    #[serde(with = "domain::time::millis")]
    at: Timestamp,
}

impl Place {
    fn counts(&self, now: Timestamp) -> bool {
        now.millis_since(self.at) < CUSTOMER_SECONDS.saturating_mul(1_000)
    }
}

/// A customer's live charges that count.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Places {
    scope: Scope,
    document: String,
    taken: Vec<Place>,
    /// Counts the row's changes, from 1.
    version: u64,
}

impl Places {
    fn key_of(scope: &Scope, document: &str) -> Key {
        Key { pk: format!("velocity#{scope}#{document}"), sk: "customer".to_owned() }
    }

    fn none(scope: Scope, document: &str) -> Self {
        Self { scope, document: document.to_owned(), taken: Vec::new(), version: 0 }
    }

    /// With a place for one more charge; `None`: there is none.
    fn with(&self, charge: ChargeId, limit: u16, now: Timestamp) -> Option<Self> {
        let mut taken: Vec<Place> = self.taken.iter().copied().filter(|place| place.counts(now)).collect();
        if taken.len() >= usize::from(limit) {
            return None;
        }
        taken.push(Place { charge, at: now });
        Some(self.next(taken))
    }

    /// Without a charge's place; `None`: it has none.
    fn without(&self, charge: ChargeId) -> Option<Self> {
        let taken: Vec<Place> = self.taken.iter().copied().filter(|place| place.charge != charge).collect();
        (taken.len() < self.taken.len()).then(|| self.next(taken))
    }

    fn next(&self, taken: Vec<Place>) -> Self {
        Self { taken, version: self.version.saturating_add(1), ..self.clone() }
    }
}

impl Row for Places {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, &self.document)
    }

    fn removable_at(&self) -> Option<Timestamp> {
        let last = self.taken.iter().map(|place| place.at).max();
        last.unwrap_or(Timestamp::MIN).plus_seconds(CUSTOMER_SECONDS).ok()
    }
}

/// An account's charges of a minute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Minute {
    scope: Scope,
    number: i64,
}

impl Minute {
    fn of(scope: Scope, at: Timestamp) -> Self {
        Self { scope, number: at.seconds().div_euclid(ACCOUNT_SECONDS) }
    }

    fn key(self) -> Key {
        Key { pk: format!("velocity#{}", self.scope), sk: self.number.to_string() }
    }

    /// The row goes when its minute is over.
    fn ttl(self) -> Item {
        ttl(self.number.saturating_add(1).saturating_mul(ACCOUNT_SECONDS))
    }
}

impl Charges {
    /// Inserts a live charge, or finds the one that was there, unless too many were asked for. What was there is never
    /// refused.
    ///
    /// # Errors
    ///
    /// [`ChargeError::CustomerVelocityExceeded`] and [`ChargeError::AccountVelocityExceeded`].
    pub async fn insert_guarded(
        &self,
        charge: &Charge,
        limits: VelocityLimits,
        now: Timestamp,
    ) -> Result<Inserted<StoredCharge>, ChargeError> {
        let minute = Minute::of(charge.scope, now);
        let most = i64::from(limits.per_account).saturating_sub(1);
        let bound = Bound::AtMost { counter: COUNTER.to_owned(), most };
        if !self.store.count_within(&minute.key(), (COUNTER, 1), minute.ttl(), Some(bound)).await? {
            return self.there_or(charge.id, ChargeError::AccountVelocityExceeded).await;
        }
        let inserted = self.insert_for_customer(charge, limits.per_customer, now).await;
        match &inserted {
            // Where it is not known whether the charge was made, its place stays taken.
            Ok(Inserted::New) => {}
            Err(error) if !matches!(error, ChargeError::CustomerVelocityExceeded) => {}
            Ok(Inserted::Existing(_)) | Err(_) => {
                self.store.count_within(&minute.key(), (COUNTER, -1), minute.ttl(), None).await?;
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
        let key = Places::key_of(&charge.scope, document);
        let mut update = self.store.start_update("a customer's charges");
        loop {
            update.next_attempt().await?;
            if update.failed().contains(&CHARGE_PLACE) {
                return Ok(Inserted::Existing(self.get_existing(charge.id).await?));
            }
            let found: Option<Places> = self.store.get(&key).await?;
            let seen = found.as_ref().map(|places| places.version);
            let places = found.unwrap_or_else(|| Places::none(charge.scope, document));
            let Some(next) = places.with(charge.id, limit, now) else {
                return self.there_or(charge.id, ChargeError::CustomerVelocityExceeded).await;
            };
            let place = match seen {
                Some(version) => Write::replace(&next, version)?,
                None => Write::insert(&next)?,
            };
            if update.commit(vec![Write::insert(charge)?, place]).await? {
                return Ok(Inserted::New);
            }
        }
    }

    /// The charge, if it was there before: then it is a replay.
    async fn there_or(
        &self,
        id: ChargeId,
        error: ChargeError,
    ) -> Result<Inserted<StoredCharge>, ChargeError> {
        self.find(Some(id)).await?.map(Inserted::Existing).ok_or(error)
    }

    /// What must be written beside a move to give its charge's places back, where they still count.
    pub(super) async fn places_given_back(
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
        let place = Place { charge: charge.id, at: charge.created_at };
        if let Some(document) = charge.payer().filter(|_| place.counts(now)) {
            let found: Option<Places> = self.store.get(&Places::key_of(&charge.scope, document)).await?;
            if let Some(places) = found
                && let Some(left) = places.without(charge.id)
            {
                writes.push(Write::replace(&left, places.version)?);
            }
        }
        let minute = Minute::of(charge.scope, charge.created_at);
        if minute == Minute::of(charge.scope, now) {
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
    fn places_count_for_ten_minutes_and_no_longer() {
        let scope = Scope { account: AccountId::new([1; 10]), mode: Mode::Live };
        let first = Places::none(scope, "29537995593").with(charge("a"), 2, at(0)).unwrap();
        let second = first.with(charge("b"), 2, at(599)).unwrap();
        assert_eq!(second.with(charge("c"), 2, at(599)), None);
        let third = second.with(charge("c"), 2, at(600)).unwrap();
        assert_eq!(third.taken.len(), 2, "what counts no more is forgotten");
        assert_eq!((first.version, second.version, third.version), (1, 2, 3));
        assert_eq!(third.removable_at(), Some(at(1200)));
        assert_eq!(third.without(charge("a")), None);
        assert!(third.without(charge("b")).unwrap().with(charge("d"), 2, at(600)).is_some());
    }
}
