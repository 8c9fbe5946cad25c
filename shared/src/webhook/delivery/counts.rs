//! How many deliveries there are, without a write for each.
//!
//! A delivery that is made at its first attempt never changes again. So those need no counter at every change: one row a
//! scope says how many there were on each day up to a place in the order of ids, and whoever asks counts those behind
//! that place. `clock` moves the place on, in strides; a row is read once for that, which costs a tenth of what a write
//! would. Every other delivery is listed by its status, and is counted there ([`Delivery::listed`]).
//!
//! The sum is exact, for each delivery is in one place: it is passed only when it is done, or listed; and one that comes so
//! late that its place was passed is listed from its birth.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};

use super::{Deliveries, Delivery};
use crate::ids::{DeliveryId, Scope};
use crate::rollup::Day;
use crate::store::{
    Committed, Indexes, Key, Order, Row, StoreError, Write, due_attributes, from_item, text, update_in_turn,
};
use crate::time::Timestamp;

/// How old a delivery is before its place is passed, in milliseconds: a minute more than what is listed from its birth
/// for coming late, which no insert takes.
pub(super) const PASSED_AFTER_MS: i64 = 90_000;

/// When those that could not be passed are looked at again, in seconds.
const NEXT_LOOK_SECONDS: i64 = 60;

/// Rows that are read at once, and how often in one go: the rest comes a minute later.
const STRIDE: usize = 2_000;
const MAX_STRIDES: usize = 20;

/// How often a count is begun again because somebody else changed its row.
const MAX_TRIES: usize = 3;

/// Days that are counted: as long as deliveries are kept.
const DAYS_KEPT: u64 = 90;

/// Sorts after every delivery's id, so that a query of the newest deliveries begins with it.
pub(super) const SORT: &str = "~counts";

/// A scope's count.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Counts {
    scope: Scope,
    /// The place up to which they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) up_to: Option<DeliveryId>,
    /// Deliveries up to there that were made at once, by the day in their ids.
    #[serde(default)]
    days: BTreeMap<Day, u64>,
    /// When `clock` looks again; `None`: nothing is left to count.
    #[serde(default, with = "crate::time::millis_option", skip_serializing_if = "Option::is_none")]
    look_at: Option<Timestamp>,
    version: u64,
}

impl Row for Counts {
    fn key(&self) -> Key {
        key_of(&self.scope)
    }

    fn indexes(&self) -> Indexes {
        Indexes { due: self.look_at, ..Indexes::default() }
    }
}

fn key_of(scope: &Scope) -> Key {
    Key { pk: Delivery::partition(scope), sk: SORT.to_owned() }
}

/// Whose count a row of the state table is, if it is one.
pub fn scope_of(key: &Key) -> Option<Scope> {
    let scope = key.pk.strip_prefix("deliveries#").filter(|_| key.sk == SORT)?;
    scope.parse().ok()
}

impl Counts {
    pub(super) fn none(scope: Scope) -> Self {
        Self { scope, up_to: None, days: BTreeMap::new(), look_at: None, version: 0 }
    }

    /// Deliveries that are kept, up to the place.
    pub(super) fn delivered_at_once(&self, now: Timestamp) -> u64 {
        let kept = self.days.range(Day::of(now).back(DAYS_KEPT)..);
        kept.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Passes a delivery that follows; `false`: it can't be passed yet.
    fn pass(&mut self, delivery: &Delivery, now: Timestamp) -> bool {
        let begins_at = delivery.id.timestamp().unwrap_or(Timestamp::MIN);
        if now.millis_since(begins_at) < PASSED_AFTER_MS || !(delivery.listed || delivery.is_delivered()) {
            return false;
        }
        if !delivery.listed {
            let day = self.days.entry(Day::of(begins_at)).or_default();
            *day = day.saturating_add(1);
        }
        self.up_to = Some(delivery.id);
        true
    }
}

impl Deliveries {
    /// Has `clock` count a scope's deliveries soon: when one in some dozens is made, whatever the others do.
    pub async fn count_soon(&self, scope: &Scope, now: Timestamp) -> Result<(), StoreError> {
        let key = key_of(scope);
        let at = now.plus_millis(PASSED_AFTER_MS).unwrap_or(Timestamp::MAX);
        let [(_, shard), (_, sort)] = due_attributes(&key, at);
        let update = self.store.client().update_item().table_name(self.store.table());
        let update = update
            .set_key(Some(key.attributes()))
            .condition_expression("attribute_not_exists(due_pk)")
            .update_expression(
                "SET due_pk = :shard, due_sk = :sort, look_at = :at, #scope = :scope ADD version :one",
            )
            .expression_attribute_names("#scope", "scope")
            .expression_attribute_values(":shard", shard)
            .expression_attribute_values(":sort", sort)
            .expression_attribute_values(":at", AttributeValue::N(at.millis().to_string()))
            .expression_attribute_values(":scope", AttributeValue::S(scope.to_string()))
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
        // Refused: it is to be counted anyway.
        update_in_turn(update).await.map(|_set_now_or_before| ())
    }

    /// Counts a scope's deliveries as far as they can be passed, and says in the row when to go on.
    pub async fn count(&self, scope: &Scope, now: Timestamp) -> Result<(), StoreError> {
        for _try in 0..MAX_TRIES {
            let before: Option<Counts> = self.store.get(&key_of(scope)).await?;
            let counts = self.counted_on(before.clone().unwrap_or(Counts::none(*scope)), now).await?;
            let write = match before {
                Some(before) => Write::replace(&counts, before.version)?,
                None => Write::insert(&counts)?,
            };
            if self.store.commit(vec![write]).await? == Committed::Done {
                return Ok(());
            }
        }
        Err(StoreError::Unavailable("the count of deliveries changes all the time".to_owned()))
    }

    async fn counted_on(&self, mut counts: Counts, now: Timestamp) -> Result<Counts, StoreError> {
        let (partition, last) = (Delivery::partition(&counts.scope), DeliveryId::last_at(Timestamp::MAX));
        counts.version = counts.version.saturating_add(1);
        counts.look_at = now.plus_seconds(NEXT_LOOK_SECONDS).ok();
        counts.days = counts.days.split_off(&Day::of(now).back(DAYS_KEPT));
        for _stride in 0..MAX_STRIDES {
            let range = (&*after(counts.up_to), &*last.to_string());
            let items = self.store.range(&partition, range, Order::OldestFirst, STRIDE).await?;
            let is_last = items.len() < STRIDE;
            for item in items {
                let id = text(&item, "sk").and_then(|sort| sort.parse().ok());
                match from_item::<Delivery>(item) {
                    Ok(delivery) => {
                        if !counts.pass(&delivery, now) {
                            return Ok(counts);
                        }
                    }
                    Err(error) => {
                        tracing::error!(%error, "a delivery can't be read, and is not counted");
                        counts.up_to = id.or(counts.up_to);
                    }
                }
            }
            if is_last {
                counts.look_at = None;
                return Ok(counts);
            }
        }
        Ok(counts)
    }
}

/// The first sort key after a delivery's.
pub(super) fn after(id: Option<DeliveryId>) -> String {
    // Ids are of one length, and '!' sorts before all that they are made of.
    id.map_or_else(|| DeliveryId::first_at(Timestamp::MIN).to_string(), |id| format!("{id}!"))
}
