//! Counts the invocations of the worker that deliver for an account and mode, and remembers its slow receivers. Without
//! both, the receivers of one account that hang hold all invocations, and every merchant's webhooks wait.
//!
//! An invocation holds a *slot* of a scope until its slowest attempt ends. A row counts the slots by the minute in which
//! they were taken, and those of the last two minutes are in use. So the slots of a worker that died lapse without a
//! search for them. An invocation ends within a minute, so its slot is counted until then.
//!
//! A receiver that is slow to answer is *marked* for some minutes. Marked receivers may use a part of the slots only, so
//! that they leave the others to the account's other receivers.

use domain::ids::Scope;
use domain::row::Key;
use domain::time::Timestamp;

use shared::store::{Item, RowUpdate, StoreError, UpdateOutcome, integer, number, ttl};

/// How long a receiver stays marked after its last slow attempt, in seconds.
const MARKED_SECONDS: i64 = 300;

/// When DynamoDB may remove a row, in seconds after the last slot was taken.
const KEPT_SECONDS: i64 = 60 * 60;

/// The prefix of the counters. The rest of the name is the minute.
const COUNTER: &str = "slots#";

/// The prefix of the marks. The rest of the name is the receiver, the value the time in milliseconds at which the mark
/// ends.
const MARK: &str = "slow#";

/// The row of a scope's slots and slow receivers, as it was read.
#[derive(Clone, Debug, Default)]
pub struct Occupancy(Item);

impl Occupancy {
    /// Returns the content of a row; an empty item for a row that does not exist.
    pub fn of(row: Item) -> Self {
        Self(row)
    }

    pub fn in_use(&self, now: Timestamp) -> i64 {
        let is_current = |name: &&String| minute_in(name).is_some_and(|minute| minute >= oldest_minute(now));
        let counters = self.0.keys().filter(is_current).filter_map(|name| integer(&self.0, name));
        counters.fold(0, |sum: i64, slots| sum.saturating_add(slots.max(0)))
    }

    pub fn is_slow(&self, receiver: &str, now: Timestamp) -> bool {
        integer(&self.0, &mark_of(receiver)).is_some_and(|until| until > now.millis())
    }

    fn lapsed(&self, now: Timestamp) -> Vec<String> {
        let has_lapsed = |name: &&String| match minute_in(name) {
            Some(minute) => minute < oldest_minute(now),
            None => name.strip_prefix(MARK).is_some_and(|receiver| !self.is_slow(receiver, now)),
        };
        self.0.keys().filter(has_lapsed).cloned().collect()
    }
}

/// A slot that a worker has taken, to be released with [`InFlight::release`].
#[derive(Clone, Debug)]
pub struct Slot {
    scope: Scope,
    counter: String,
    /// The attributes to remove when it is released.
    lapsed: Vec<String>,
}

shared::store::repository! {
    /// The slots and slow receivers of all scopes.
    InFlight
}

impl InFlight {
    pub fn key_of(scope: &Scope) -> Key {
        Key { pk: format!("in-flight#{scope}"), sk: "slots".to_owned() }
    }

    /// Takes a slot, even if many are in use. Returns it, and the row before that.
    ///
    /// If the response to the update is lost, the slot is not released. It lapses.
    pub async fn take(&self, scope: &Scope, now: Timestamp) -> Result<(Slot, Occupancy), StoreError> {
        let counter = counter_of(minute_of(now));
        let update = RowUpdate::of(Self::key_of(scope)).add(&counter, number(1)).set_all(kept(now));
        let mut row = run(update, &self.store).await?;
        let slots = integer(&row, &counter).unwrap_or_default();
        row.insert(counter.clone(), number(slots.saturating_sub(1)));
        let occupancy = Occupancy(row);
        Ok((Slot { scope: *scope, counter, lapsed: occupancy.lapsed(now) }, occupancy))
    }

    pub async fn release(&self, slot: Slot) -> Result<(), StoreError> {
        let update = RowUpdate::of(Self::key_of(&slot.scope)).add(slot.counter, number(-1));
        run(update.remove_all(slot.lapsed), &self.store).await.map(drop)
    }

    pub async fn mark(&self, scope: &Scope, receiver: &str, now: Timestamp) -> Result<(), StoreError> {
        let until = number(now.saturating_plus_seconds(MARKED_SECONDS).millis());
        let update = RowUpdate::of(Self::key_of(scope)).set(mark_of(receiver), until).set_all(kept(now));
        run(update, &self.store).await.map(drop)
    }
}

/// Runs an update without a condition. Returns the row after it.
async fn run(update: RowUpdate, store: &shared::store::Store) -> Result<Item, StoreError> {
    let (UpdateOutcome::Done(row) | UpdateOutcome::Refused(row)) = update.run(store).await?;
    Ok(row)
}

fn kept(now: Timestamp) -> Item {
    ttl(now.seconds().saturating_add(KEPT_SECONDS))
}

fn minute_of(now: Timestamp) -> i64 {
    now.seconds().div_euclid(60)
}

/// Returns the first minute whose slots are in use.
fn oldest_minute(now: Timestamp) -> i64 {
    minute_of(now).saturating_sub(1)
}

fn counter_of(minute: i64) -> String {
    format!("{COUNTER}{minute}")
}

fn minute_in(name: &str) -> Option<i64> {
    name.strip_prefix(COUNTER)?.parse().ok()
}

fn mark_of(receiver: &str) -> String {
    format!("{MARK}{receiver}")
}

#[cfg(test)]
mod tests {

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000).unwrap()
    }

    #[test]
    fn slots_are_in_use_in_their_minute_and_the_next_and_lapse_then() {
        let row = [("slots#2", 2), ("slots#3", 3), ("slots#1", -1), ("slow#wh_1", 200_000)];
        let row = Occupancy(row.map(|(name, value)| (name.to_owned(), number(value))).into());
        let in_use = [119, 120, 180, 239, 240, 299, 300].map(|seconds| row.in_use(at(seconds)));
        assert_eq!(in_use, [5, 5, 5, 5, 3, 3, 0]);
        assert_eq!([199, 200].map(|seconds| row.is_slow("wh_1", at(seconds))), [true, false]);
        let mut lapsed = row.lapsed(at(240));
        lapsed.sort_unstable();
        assert_eq!(lapsed, ["slots#1", "slots#2", "slow#wh_1"]);
    }
}
