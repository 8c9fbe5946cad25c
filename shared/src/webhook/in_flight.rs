//! Limits the delivery attempts of an account and mode that are in flight, and remembers slow receivers. Without both,
//! the receivers of one account that hang hold all invocations of the worker, and every merchant's webhooks wait.
//!
//! # Lanes
//!
//! Each mode has a fast and a slow queue ([`Lane`]), whose concurrency is limited separately. A worker takes
//! *slots* for the messages of a batch before it claims their deliveries. A scope has a number of slots in
//! each lane. A message without a slot waits in a queue, so it holds no invocation.
//!
//! A receiver that is slow to answer is *marked* for some minutes. Messages for it move to the slow queue
//! without an attempt in the fast lane. If many servers of a scope's `webhookUrl`s are slow, all of its
//! `webhookUrl`s are marked, because each payment may name another server.
//!
//! # Slots lapse
//!
//! A row counts the slots in use, and those of them that were taken in the current minute. The first worker
//! of the next minute carries over only the latter. So the slots of a worker that died lapse after at most
//! two minutes, without a search for them. An attempt ends within 60 s, the time limit of an invocation. So
//! its slot is counted until then.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;

use domain::ids::Scope;
use domain::row::Key;
use domain::time::Timestamp;

use super::queue::{DeliveryMessage, Lane};
use crate::store::{Item, RowUpdate, StoreError, UpdateOutcome, integer, number, ttl};

/// How long a receiver stays marked after its last slow attempt, in seconds. Attempts in the slow lane renew
/// the mark.
const MARKED_SECONDS: i64 = 300;

/// The number of marked servers of `webhookUrl`s from which all `webhookUrl`s of the scope are marked. It
/// also keeps the row under 1 KB.
const MANY_SERVERS: usize = 8;

/// When DynamoDB may remove a row, in seconds after the last minute in which slots were taken.
const KEPT_SECONDS: i64 = 60 * 60;

/// The most updates of a row for one request of slots. Workers of the same scope can change the row between
/// two of them.
const MAX_TRIES: u32 = 6;

/// The prefix of the attributes with the marks. The rest of the name is the receiver, the value the time in
/// milliseconds at which the mark ends.
const MARK: &str = "slow#";

/// The receiver that stands for all `webhookUrl`s of a scope.
const ALL_OVERRIDES: &str = "overrides";

#[derive(Clone, Debug, Default)]
pub struct Marks(BTreeMap<String, i64>);

impl Marks {
    fn of(item: &Item) -> Self {
        let mark = |(name, value): (&String, &AttributeValue)| {
            Some((name.strip_prefix(MARK)?.to_owned(), value.as_n().ok()?.parse().ok()?))
        };
        Self(item.iter().filter_map(mark).collect())
    }

    pub fn include(&self, message: &DeliveryMessage, now: Timestamp) -> bool {
        let is_marked = |receiver: &str| self.0.get(receiver).is_some_and(|until| *until > now.millis());
        is_marked(&message.receiver()) || (message.endpoint.is_none() && is_marked(ALL_OVERRIDES))
    }

    fn servers(&self, now: Timestamp) -> Vec<&str> {
        let is_server = |receiver: &str| receiver != ALL_OVERRIDES && !receiver.starts_with("wh_");
        let marked = self.0.iter().filter(|(receiver, until)| is_server(receiver) && **until > now.millis());
        marked.map(|(receiver, _)| receiver.as_str()).collect()
    }

    fn ended(&self, now: Timestamp) -> Vec<&str> {
        let ended = self.0.iter().filter(|(_, until)| **until <= now.millis());
        ended.map(|(receiver, _)| receiver.as_str()).collect()
    }
}

/// The row of a scope's slots in a lane, as it was read.
#[derive(Clone, Debug, Default)]
pub struct Occupancy {
    minute: i64,
    in_flight: i64,
    of_minute: i64,
    /// The marked receivers. Only the row of the fast lane has marks.
    pub marks: Marks,
}

impl Occupancy {
    /// Returns the content of a row; an empty item for a row that does not exist.
    pub fn of(item: &Item) -> Self {
        let number = |name: &str| integer(item, name).unwrap_or_default();
        Self {
            minute: number("minute"),
            in_flight: number("in_flight"),
            of_minute: number("of_minute"),
            marks: Marks::of(item),
        }
    }

    /// Returns the slots in use. Those of workers that died are not counted after two minutes.
    pub fn in_use(&self, now: Timestamp) -> i64 {
        self.in_minute(minute_of(now)).max(0)
    }

    /// Returns the slots that are in use at the beginning of a minute, or now if it is the row's.
    fn in_minute(&self, minute: i64) -> i64 {
        match minute.saturating_sub(self.minute) {
            ..=0 => self.in_flight,
            1 => self.of_minute.max(0),
            _ => 0,
        }
    }
}

/// Slots that a worker has taken, to be released with [`InFlight::release`].
#[derive(Clone, Debug)]
pub struct Slots {
    scope: Scope,
    lane: Lane,
    minute: i64,
    pub count: u32,
}

impl Slots {
    pub fn scope(&self) -> Scope {
        self.scope
    }
}

crate::store::repository! {
    /// The slots and marks of all scopes.
    InFlight
}

impl InFlight {
    /// Returns the key of the row of a scope's slots in a lane.
    pub fn key_of(scope: &Scope, lane: Lane) -> Key {
        Key { pk: format!("in-flight#{scope}"), sk: lane.as_str().to_owned() }
    }

    /// Takes up to `wanted` slots, so that at most `most` are in use. Returns the slots taken, which can be
    /// none, and the row after that.
    ///
    /// If the response to the update is lost, the slots that it has taken are not released. They lapse.
    pub async fn take(
        &self,
        (scope, lane): (&Scope, Lane),
        wanted: u32,
        most: u32,
        now: Timestamp,
    ) -> Result<(Slots, Occupancy), StoreError> {
        let most = i64::from(most);
        let mut minute = minute_of(now);
        let mut count = i64::from(wanted);
        let key = Self::key_of(scope, lane);
        let mut known: Option<Occupancy> = None;
        for _try in 0..MAX_TRIES {
            let update = match &known {
                Some(known) if known.minute < minute => {
                    let carried = known.in_minute(minute);
                    count = count.min(most.saturating_sub(carried)).max(0);
                    begin_minute(&key, known, (minute, carried, count), now)
                }
                _ => add(&key, (minute, count), most.saturating_sub(count)),
            };
            let item = match update.run(&self.store).await? {
                UpdateOutcome::Done(item) => {
                    let count = u32::try_from(count).unwrap_or_default();
                    return Ok((Slots { scope: *scope, lane, minute, count }, Occupancy::of(&item)));
                }
                UpdateOutcome::Refused(item) => item,
            };
            let row = Occupancy::of(&item);
            // Another worker's clock may be ahead.
            minute = minute.max(row.minute);
            if row.minute == minute {
                count = i64::from(wanted).min(most.saturating_sub(row.in_flight));
                if count <= 0 {
                    return Ok((Slots { scope: *scope, lane, minute, count: 0 }, row));
                }
            }
            known = Some(row);
        }
        // Many workers changed the row meanwhile. The messages wait, as without free slots.
        Ok((Slots { scope: *scope, lane, minute, count: 0 }, known.unwrap_or_default()))
    }

    /// Releases some of the slots that [`Self::take`] returned. Slots of an earlier minute that have lapsed
    /// meanwhile are not released again.
    pub async fn release(&self, slots: &Slots, count: u32) -> Result<(), StoreError> {
        if count == 0 {
            return Ok(());
        }
        let key = Self::key_of(&slots.scope, slots.lane);
        let less = number(i64::from(count).saturating_neg());
        let of_row = RowUpdate::of(key.clone()).add("in_flight", less.clone());
        let update = of_row.clone().add("of_minute", less).when("minute", "=", number(slots.minute));
        let UpdateOutcome::Refused(item) = update.run(&self.store).await? else { return Ok(()) };
        let next = slots.minute.saturating_add(1);
        if Occupancy::of(&item).minute != next {
            return Ok(());
        }
        let update = of_row.when("minute", "=", number(next));
        update.run(&self.store).await.map(|_released_or_lapsed| ())
    }

    pub async fn mark(&self, scope: &Scope, receivers: &[String], now: Timestamp) -> Result<(), StoreError> {
        let item = self.set_marks(scope, receivers, &[], now).await?;
        let marks = Marks::of(&item);
        let servers = marks.servers(now);
        if servers.len() < MANY_SERVERS {
            return Ok(());
        }
        tracing::info!(%scope, servers = servers.len(), "many servers are slow; all override URLs are marked");
        self.set_marks(scope, &[ALL_OVERRIDES.to_owned()], &servers, now).await.map(|_item| ())
    }

    /// Sets and removes marks. Returns the row after that.
    async fn set_marks(
        &self,
        scope: &Scope,
        marked: &[String],
        removed: &[&str],
        now: Timestamp,
    ) -> Result<Item, StoreError> {
        let until = number(now.saturating_plus_seconds(MARKED_SECONDS).millis());
        let update = RowUpdate::of(Self::key_of(scope, Lane::Fast)).set_all(kept(now));
        let update = marked.iter().fold(update, |update, one| update.set(mark_of(one), until.clone()));
        match update.remove_all(removed.iter().map(|one| mark_of(one))).run(&self.store).await? {
            UpdateOutcome::Done(item) | UpdateOutcome::Refused(item) => Ok(item),
        }
    }
}

/// Builds the update that takes slots within the row's minute.
fn add(key: &Key, (minute, count): (i64, i64), room: i64) -> RowUpdate {
    let update = RowUpdate::of(key.clone()).add("in_flight", number(count)).add("of_minute", number(count));
    update.when("minute", "=", number(minute)).when("in_flight", "<=", number(room))
}

/// Builds the update that begins a minute: carries slots over, takes slots, and removes marks that have ended.
fn begin_minute(
    key: &Key,
    known: &Occupancy,
    (minute, carried, count): (i64, i64, i64),
    now: Timestamp,
) -> RowUpdate {
    let update = RowUpdate::of(key.clone())
        .set("minute", number(minute))
        .set("in_flight", number(carried.saturating_add(count)))
        .set("of_minute", number(count))
        .set_all(kept(now))
        .remove_all(known.marks.ended(now).into_iter().map(mark_of));
    if known.minute == 0 {
        // The row does not exist, or has only marks.
        return update.when_absent("minute");
    }
    update.when("minute", "=", number(known.minute)).when("of_minute", "=", number(known.of_minute))
}

fn mark_of(receiver: &str) -> String {
    format!("{MARK}{receiver}")
}

fn kept(now: Timestamp) -> Item {
    ttl(now.seconds().saturating_add(KEPT_SECONDS))
}

fn minute_of(now: Timestamp) -> i64 {
    now.seconds().div_euclid(60)
}

#[cfg(test)]
mod tests {

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000).unwrap()
    }

    #[test]
    fn slots_are_in_use_in_their_minute_and_the_next() {
        let row = Occupancy { minute: 2, in_flight: 5, of_minute: 3, ..Occupancy::default() };
        let in_use = [119, 120, 179, 180, 239, 240].map(|seconds| row.in_use(at(seconds)));
        assert_eq!(in_use, [5, 5, 5, 3, 3, 0]);
        let released_late = Occupancy { in_flight: -1, of_minute: -1, ..row };
        assert_eq!([120, 180].map(|seconds| released_late.in_use(at(seconds))), [0, 0]);
    }
}
