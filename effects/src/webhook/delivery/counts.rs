//! Numbers of deliveries by day, receiver and event type, without a write for each delivery.
//!
//! The log is counted by [`shared::checkpoint`]: each delivery adds 1 to the number of all on its day. The transaction
//! that ends a delivery as `FAILED` or `CANCELLED` adds 1 to the number of that status. Open deliveries are counted
//! when they are read ([`super::page`]), and all others are `DELIVERED`. So a delivery that succeeds is in no write.
//!
//! The runs of the last minutes also read the rows, and list the deliveries that are open for [`LISTED_AFTER_MS`]. All
//! open ones that were not listed some seconds ago are in the recent sums as [`OPEN`], because the index `list` may not
//! show them yet. So whatever is not known to be delivered is `PENDING`.
//!
//! The checkpoint may have passed the id of a delivery that is inserted late, or by a request whose clock is behind.
//! The insert of such a delivery counts it, see [`Delivery::counted`].

use std::collections::{BTreeMap, HashMap};

use domain::calendar::Day;
use domain::ids::{DeliveryId, EndpointId, Scope};
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::rollup::Sums;
use domain::row::Key;
use domain::shard::ShardedScope;
use domain::time::Timestamp;

use super::entry::{Entry, endpoint_text, parse_endpoint};
use super::log::LogPage;
use super::page::{NEW_ROWS, Selection};
use super::{Deliveries, Delivery, DeliveryStatus, KEPT_AFTER_SHOWN_SECONDS};
use crate::webhook::parse_or_log;
use shared::account::Accounts;
use shared::checkpoint::{CountedLog, Loaded, Log, LogRow, Reading, STRIDE, TOTAL};
use shared::concurrently;
use shared::store::{Item, Order, RowUpdate, StoreError, Write, ttl};

/// The number of all deliveries, in whatever status. The other numbers have the names of statuses.
pub(super) const ALL: &str = "n";

/// In recent sums, the number of deliveries that a run found open, listed or not.
const OPEN: &str = "o";

/// How long ago, in milliseconds, an open delivery must have been listed, so that `list` is sure to show it.
const SHOWN_AFTER_MS: i64 = 10_000;

/// An open delivery is listed at this age, in milliseconds: after an attempt's 30 s, in which most of those end that
/// are slow.
const LISTED_AFTER_MS: i64 = 45_000;

/// At this age, in milliseconds, an open delivery is listed, also if no count was made due: somewhat more than the
/// quarter of an hour after which the scheduler replaces lost messages ([`crate::notes`]).
pub(super) const KNOWN_AFTER_MS: i64 = 20 * 60 * 1_000;

/// The sort keys of the rows of sums are `day#2026-11-27#wh_…`. One row for each endpoint stays below one
/// kilobyte, so that a delivery that fails adds to it with two write units.
const DAY: &str = "day#";

/// The most deliveries that are listed at the same time.
const CONCURRENT_LISTINGS: usize = 16;

/// Days before today whose deliveries are shown and counted.
const DAYS_SHOWN: u64 = 90;

pub(super) fn first_day(now: Timestamp) -> Day {
    Day::of(now).minus_days(DAYS_SHOWN)
}

/// Returns the lowest id that lists show at this time.
pub(in crate::webhook) fn first_shown(now: Timestamp) -> DeliveryId {
    DeliveryId::first_at(first_day(now).starts_at())
}

/// Returns the scope whose row of totals has this key; `None`: the key is of another row.
pub fn scope_of(key: &Key) -> Option<Scope> {
    let scope = key.pk.strip_prefix("deliveries#").filter(|_| key.sk == TOTAL)?;
    scope.parse().ok()
}

/// Numbers of deliveries of a day by status; `None`: of all. Those that are `DELIVERED` are all others.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    by_status: BTreeMap<Option<DeliveryStatus>, i64>,
    /// Those that were open when they were seen last, or that were never read.
    unknown: i64,
}

impl Tally {
    pub(super) fn add(&mut self, status: Option<DeliveryStatus>, count: i64) {
        let number = self.by_status.entry(status).or_default();
        *number = number.saturating_add(count);
    }

    pub(super) fn add_unknown(&mut self, count: i64) {
        self.unknown = self.unknown.saturating_add(count);
    }

    pub(super) fn unknown(&self) -> i64 {
        self.unknown.max(0)
    }

    /// Returns the most deliveries that may be in a status.
    pub(super) fn most_of(&self, status: Option<DeliveryStatus>) -> u64 {
        let unknown = u64::try_from(self.unknown()).unwrap_or_default();
        let is_delivered = status == Some(DeliveryStatus::Delivered);
        self.of(status).saturating_add(if is_delivered { unknown } else { 0 })
    }

    /// Returns the number in a status; `None`: in all. It is never negative: while an index is behind its table, an
    /// ended delivery may be counted as open too.
    pub(super) fn of(&self, status: Option<DeliveryStatus>) -> u64 {
        let number = |status| self.by_status.get(&status).copied().unwrap_or_default();
        let number = match status {
            Some(DeliveryStatus::Delivered) => {
                let others = self.by_status.iter().filter(|(status, _)| status.is_some());
                let known = number(None).saturating_sub(self.unknown());
                others.fold(known, |left, (_, other)| left.saturating_sub(*other))
            }
            Some(DeliveryStatus::Pending) => number(status).saturating_add(self.unknown()),
            status => number(status),
        };
        u64::try_from(number).unwrap_or_default()
    }
}

/// The inserts of late deliveries add to one of some rows of the day, so that after an outage they do not wait for one
/// another.
fn day_sort(entry: &Entry) -> String {
    let row = format!("{DAY}{}#{}", Day::of(entry.at()), endpoint_text(entry.endpoint));
    let last = entry.id.to_string().pop().filter(|_| entry.counted);
    last.map_or_else(|| row.clone(), |last| format!("{row}#{last}"))
}

fn parse_day(sort: &str) -> Option<(Day, Option<EndpointId>)> {
    let (day, rest) = sort.strip_prefix(DAY)?.split_once('#')?;
    let endpoint = rest.split('#').next()?;
    Some((day.parse().ok()?, parse_endpoint(endpoint).ok()?))
}

/// A day's row expires after the day's deliveries.
fn day_ttl(sort: &str) -> Item {
    let kept = EVENTS_KEPT_SECONDS.saturating_add(KEPT_AFTER_SHOWN_SECONDS);
    let expires_at = parse_day(sort).and_then(|(day, _)| day.ends_at().plus_seconds(kept).ok());
    expires_at.map(|at| ttl(at.seconds())).unwrap_or_default()
}

/// Returns what a delivery adds to the number `what`, and the row.
fn addition_of(entry: &Entry, what: &str) -> (String, Sums) {
    let mut sums = Sums::default();
    sums.add_to(format!("{what}#{}", entry.event_type.as_str()), 1);
    (day_sort(entry), sums)
}

/// Returns the writes that add deliveries to the number `what` of their days.
pub(super) fn additions<'a>(
    scope: &Scope,
    what: &str,
    entries: impl Iterator<Item = &'a Entry>,
) -> Vec<Write> {
    let mut rows: BTreeMap<String, Sums> = BTreeMap::new();
    for (sort, sums) in entries.map(|entry| addition_of(entry, what)) {
        rows.entry(sort).or_default().add_all(&sums);
    }
    let write = |(sk, sums): (String, Sums)| {
        let expires = day_ttl(&sk);
        let update = RowUpdate::of(Key { pk: Delivery::partition(scope), sk });
        Write::update(update.add_all(sums.into_changes()).set_all(expires))
    };
    rows.into_iter().map(write).collect()
}

/// Returns the counted numbers of the days of a selection, by event type and endpoint as it filters.
pub(super) fn by_day(loaded: &Loaded, selection: &Selection) -> BTreeMap<Day, Tally> {
    let mut days: BTreeMap<Day, Tally> = BTreeMap::new();
    for (sort, sums) in &loaded.days {
        let Some((day, endpoint)) = parse_day(sort) else { continue };
        if !selection.admits_day(day) || !selection.admits_endpoint(endpoint) {
            continue;
        }
        let tally = days.entry(day).or_default();
        for (what, name, count) in
            sums.iter().filter_map(|(sum, count)| sum.split_once('#').map(|(what, name)| (what, name, count)))
        {
            if selection.event_type.is_some_and(|wanted| wanted.as_str() != name) {
                continue;
            }
            match what {
                ALL => tally.add(None, count),
                OPEN => tally.add_unknown(count),
                "FAILED" => tally.add(Some(DeliveryStatus::Failed), count),
                "CANCELLED" => tally.add(Some(DeliveryStatus::Cancelled), count),
                _ => {}
            }
        }
    }
    days
}

struct DeliveryLog<'a> {
    deliveries: &'a Deliveries,
    scope: ShardedScope,
    now: Timestamp,
}

impl Log for DeliveryLog<'_> {
    const FEW_ROWS: usize = NEW_ROWS;
    /// With the 31 that the dispatcher has not scheduled yet, not more than [`NEW_ROWS`].
    const FEW_UNSETTLED: usize = 8;

    fn first_id(&self) -> String {
        DeliveryId::first_at(Timestamp::MIN).to_string()
    }

    fn last_id_at(&self, at: Timestamp) -> String {
        DeliveryId::last_at(at).to_string()
    }

    /// Lists the deliveries that are neither delivered nor listed, so that the scheduler sends another message for
    /// them: those that the checkpoint passes, and of the recent ones those that are old enough.
    async fn read(
        &self,
        range: (&str, &str),
        reading: Reading<'_>,
    ) -> Result<(Vec<LogRow>, bool), StoreError> {
        let LogPage { entries, read_to } =
            self.deliveries.entries(&self.scope, range, Order::OldestFirst, STRIDE).await?;
        let (to_read, listed_to) = match reading {
            Reading::Passing => (entries.clone(), DeliveryId::last_at(Timestamp::MAX)),
            Reading::Recent(settled_to) => {
                let settled_to: Option<DeliveryId> = settled_to.parse().ok();
                let is_unsettled = |entry: &&Entry| entry.is_belated || Some(entry.id) > settled_to;
                let oldest = self.now.plus_millis(LISTED_AFTER_MS.saturating_neg());
                let listed_to = DeliveryId::last_at(oldest.unwrap_or(Timestamp::MIN));
                (entries.iter().filter(is_unsettled).copied().collect(), listed_to)
            }
        };
        let open = self.deliveries.list_open((&self.scope.scope, listed_to), &to_read, self.now).await?;
        let row = |entry: &Entry| LogRow {
            id: entry.id.to_string(),
            added: (!entry.counted).then(|| addition_of(entry, ALL)).into_iter().collect(),
            open: open.contains_key(&entry.id).then(|| addition_of(entry, OPEN)),
            is_settled: open.get(&entry.id).copied().unwrap_or(true),
        };
        Ok((entries.iter().map(row).collect(), read_to.is_none()))
    }
}

impl Deliveries {
    pub(super) fn counted(&self, scope: &Scope) -> CountedLog {
        CountedLog { store: self.store.clone(), partition: Delivery::partition(scope), ttl_of: day_ttl }
    }

    pub(super) async fn load_counts(&self, scope: &Scope, first: Day) -> Result<Loaded, StoreError> {
        self.counted(scope).load(&format!("{DAY}{first}")).await
    }

    /// Counts the log of a scope, and lists the deliveries that are not delivered in time. Returns whether the outcome
    /// of more than a few is missing, so that another count follows within seconds.
    pub async fn count(&self, scope: &Scope, now: Timestamp) -> Result<bool, StoreError> {
        let log = self.delivery_log(scope, now).await?;
        Box::pin(self.counted(scope).run(&log, now, false)).await
    }

    /// Like [`Self::count`], unless a count has just begun. So several messages for a scope lead to one count.
    pub async fn count_again(&self, scope: &Scope, now: Timestamp) -> Result<bool, StoreError> {
        let log = self.delivery_log(scope, now).await?;
        Box::pin(self.counted(scope).run(&log, now, true)).await
    }

    /// Lists the deliveries of a scope that are not delivered in time, without a write for the others.
    pub async fn list_undelivered(&self, scope: &Scope, now: Timestamp) -> Result<(), StoreError> {
        let log = self.delivery_log(scope, now).await?;
        Box::pin(self.counted(scope).visit(&log, now)).await
    }

    async fn delivery_log(&self, scope: &Scope, now: Timestamp) -> Result<DeliveryLog<'_>, StoreError> {
        // A charge is created with a number of shards that is in the account's row. So each delivery that the
        // checkpoint may pass now is in one of these shards: it was inserted a minute ago or earlier.
        let scope = Accounts::new(self.store.clone()).sharded_scope(scope).await?;
        Ok(DeliveryLog { deliveries: self, scope, now })
    }

    /// Lists those of these deliveries that are open and unlisted, up to an id, some of them concurrently. Returns the
    /// open ones, and of each whether it was listed some time ago.
    async fn list_open(
        &self,
        (scope, to): (&Scope, DeliveryId),
        entries: &[Entry],
        now: Timestamp,
    ) -> Result<HashMap<DeliveryId, bool>, StoreError> {
        let keys: Vec<Key> = entries.iter().map(|entry| Delivery::key_of(scope, entry.id)).collect();
        let rows = self.store.batch_get(&keys).await?.into_iter().filter_map(parse_or_log::<Delivery>);
        let open: Vec<Delivery> = rows.filter(|delivery| !delivery.is_done()).collect();
        let is_shown =
            |delivery: &Delivery| delivery.listed && now.millis_since(delivery.updated_at) >= SHOWN_AFTER_MS;
        let found = open.iter().map(|delivery| (delivery.id, is_shown(delivery))).collect();
        let old = open.into_iter().filter(|delivery| !delivery.listed && delivery.id <= to);
        let listings = concurrently(CONCURRENT_LISTINGS, old, |delivery| {
            let deliveries = self.clone();
            async move { deliveries.add_to_list(delivery, now).await.map(drop) }
        });
        listings.await.into_iter().collect::<Result<(), StoreError>>()?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {

    use super::super::testing::delivery;
    use super::*;
    use crate::charge_testing::at;
    use crate::webhook::endpoint::testing::endpoint;

    #[test]
    fn the_row_of_a_day_expires_after_the_deliveries_of_the_day() {
        let sort = day_sort(&delivery(&[endpoint()], at(0)).entry());
        let kept_s = EVENTS_KEPT_SECONDS + KEPT_AFTER_SHOWN_SECONDS;
        let expires_at = Day::of(at(0)).ends_at().plus_seconds(kept_s).unwrap();
        assert_eq!(day_ttl(&sort), ttl(expires_at.seconds()));
        assert_eq!(day_ttl(TOTAL), Item::new());
    }
}
