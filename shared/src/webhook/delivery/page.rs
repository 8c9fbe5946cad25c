//! Selects the deliveries of a page. All functions are pure; `reader` reads the database.
//!
//! [`Selection`] is the filter. [`Window`] is the part of the matches that is on the page.

use std::collections::BTreeMap;

use domain::calendar::Day;
use domain::ids::{DeliveryId, EventId, Scope};
use domain::row::{Key, Row};
use domain::shard::Shard;
use domain::time::Timestamp;

use super::counts::Criteria;
use super::list_key::{Kind, ListKey, LogKey};
use super::{Delivery, DeliveryStatus};
use crate::store::ListEntry;
use crate::webhook::event::Event;

/// The deliveries that match a request's filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection {
    pub(super) criteria: Criteria,
    /// The lowest and the highest id, both included. The reader raises `from` to the oldest delivery that is
    /// shown.
    pub(super) from: DeliveryId,
    pub(super) to: DeliveryId,
}

impl Selection {
    pub(super) fn admits_id(&self, id: DeliveryId) -> bool {
        self.from <= id && id <= self.to
    }

    /// Whether a delivery matches. A status that is not known is assumed to match.
    pub(super) fn admits(&self, found: &FoundDelivery) -> bool {
        self.admits_id(found.id)
            && self.criteria.status.is_none_or(|status| found.status.is_none_or(|found| found == status))
            && self.criteria.admits_kind(found.kind)
    }

    /// Splits the selection into whole days and the partial days at its ends. Returns the first and the last
    /// whole day, and the partial days. The counts have numbers of whole days only, so the rows of partial
    /// days must be counted.
    pub(super) fn days(&self) -> (Option<(Day, Day)>, Vec<Self>) {
        let day_of = |id: DeliveryId| Day::of(id.timestamp().unwrap_or(Timestamp::MIN));
        let (first, last) = (day_of(self.from), day_of(self.to));
        let is_from_start = self.from <= DeliveryId::first_at(first.starts_at());
        let is_to_end = self.to >= last_of(last);
        if first == last && !(is_from_start && is_to_end) {
            return (None, vec![*self]);
        }
        let mut parts = Vec::new();
        let (mut first_whole, mut last_whole) = (first, last);
        if !is_from_start {
            parts.push(Self { to: last_of(first), ..*self });
            first_whole = first.plus_days(1);
        }
        if !is_to_end {
            parts.push(Self { from: DeliveryId::first_at(last.starts_at()), ..*self });
            last_whole = last.minus_days(1);
        }
        ((first_whole <= last_whole).then_some((first_whole, last_whole)), parts)
    }
}

/// The part of a selection that is on a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// The page begins after this delivery, which must exist (`starting_after`). The reader drops it if it is
    /// newer than the selection.
    pub(super) after: Option<DeliveryId>,
    /// The number of matches before the page (`offset`).
    pub(super) skip: usize,
    /// The most matches on the page.
    pub(super) limit: usize,
}

impl Window {
    /// Returns the number of matches to find: those up to the end of the page, and one that shows whether
    /// there is a next page.
    pub(super) fn wanted(&self) -> usize {
        self.skip.saturating_add(self.limit).saturating_add(1)
    }

    /// Returns the id from which the page is searched, towards older ones.
    pub(super) fn start(&self, selection: &Selection) -> DeliveryId {
        self.after.unwrap_or(selection.to)
    }

    /// Whether a delivery may be on the page: it matches, and is older than the cursor.
    pub(super) fn may_show(&self, selection: &Selection, found: &FoundDelivery) -> bool {
        self.after.is_none_or(|after| found.id < after) && selection.admits(found)
    }
}

/// A delivery that a reader found: by its entry in the log, by its entry in the `list` index, or by its row.
#[derive(Clone)]
pub(super) struct FoundDelivery {
    pub(super) id: DeliveryId,
    pub(super) event: EventId,
    pub(super) kind: Kind,
    /// The shard of the event.
    pub(super) shard: Shard,
    /// `None`: only the entry in the log was read, which has no status.
    pub(super) status: Option<DeliveryStatus>,
    /// The key of its row.
    pub(super) key: Key,
    /// Its row, if it was read.
    pub(super) row: Option<Box<Delivery>>,
}

impl FoundDelivery {
    pub(super) fn of_row(delivery: Delivery) -> Self {
        Self {
            id: delivery.id,
            event: delivery.event,
            kind: delivery.kind(),
            shard: delivery.shard,
            status: Some(delivery.status),
            key: delivery.key(),
            row: Some(Box::new(delivery)),
        }
    }

    /// Returns the delivery of an entry in the `list` index; `None` for a [`Marker`](super::list_key::Marker).
    pub(super) fn of_list_entry(entry: ListEntry) -> Option<Self> {
        let ListKey { status, log_key } = ListKey::parse(&entry.sort)?;
        Some(Self::of_entry(entry.key, log_key, Some(status)))
    }

    /// Returns the delivery of an entry in an index. `key`: the key of its row.
    pub(super) fn of_entry(key: Key, log_key: LogKey, status: Option<DeliveryStatus>) -> Self {
        let LogKey { id, event, kind, shard } = log_key;
        Self { id, event, kind, shard, status, key, row: None }
    }

    /// Returns the sort key of its entry in the `list` index in this status.
    pub(super) fn list_key_in(&self, status: DeliveryStatus) -> ListKey {
        let log_key = LogKey { id: self.id, event: self.event, kind: self.kind, shard: self.shard };
        ListKey { status, log_key }
    }

    /// Returns the key of its event's row.
    pub(super) fn event_key(&self, scope: &Scope) -> Key {
        Event::key_of(scope, self.shard, self.event)
    }
}

pub(super) type ById = BTreeMap<DeliveryId, FoundDelivery>;

/// A page before its bodies are read.
pub(super) struct PageDraft {
    pub(super) found: Vec<FoundDelivery>,
    /// The cursor of the next page; `None`: there is no next page.
    pub(super) next: Option<DeliveryId>,
    /// The page's `starting_after`, if no row read so far shows that it exists.
    pub(super) unverified_cursor: Option<DeliveryId>,
}

pub(super) fn last_of(day: Day) -> DeliveryId {
    DeliveryId::last_at(day.ends_at())
}

/// Returns how many of the deliveries match the selection and are from these whole days.
pub(super) fn count_in_days(found: &ById, selection: &Selection, days: Option<(Day, Day)>) -> u64 {
    let Some((first, last)) = days else { return 0 };
    let days = DeliveryId::first_at(first.starts_at())..=last_of(last);
    as_u64(found.range(days).filter(|(_, found)| selection.admits(found)).count())
}

/// Selects the page from deliveries that are sorted from the newest to the oldest.
pub(super) fn select_page(found: Vec<FoundDelivery>, selection: &Selection, window: &Window) -> PageDraft {
    let is_found = window.after.is_none_or(|after| found.iter().any(|one| one.id == after));
    let mut on_page: Vec<FoundDelivery> = found
        .into_iter()
        .filter(|one| window.may_show(selection, one))
        .skip(window.skip)
        .take(window.limit.saturating_add(1))
        .collect();
    let more = on_page.len() > window.limit;
    on_page.truncate(window.limit);
    let next = on_page.last().filter(|_| more).map(|found| found.id);
    PageDraft { found: on_page, next, unverified_cursor: window.after.filter(|_| !is_found) }
}

pub(super) fn by_id(found: impl Iterator<Item = FoundDelivery>) -> ById {
    found.map(|one| (one.id, one)).collect()
}

pub(super) fn sum(counts: &BTreeMap<Day, u64>) -> u64 {
    counts.values().fold(0, |sum, count| sum.saturating_add(*count))
}

pub(super) fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    pub(in crate::webhook::delivery) fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    pub(in crate::webhook::delivery) fn id(at: &str) -> DeliveryId {
        DeliveryId::first_at(Timestamp::parse_floor(at).unwrap())
    }

    pub(in crate::webhook::delivery) fn between(from: DeliveryId, to: DeliveryId) -> Selection {
        Selection { criteria: Criteria::default(), from, to }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::delivery;
    use super::testing::{between, day, id};
    use super::*;
    use crate::charge::testing::at;
    use crate::webhook::endpoint::testing::endpoint;

    type Parts = Vec<(DeliveryId, DeliveryId)>;

    fn parts(selection: &Selection) -> (Option<(Day, Day)>, Parts) {
        let (whole, parts) = selection.days();
        (whole, parts.iter().map(|part| (part.from, part.to)).collect())
    }

    #[test]
    fn a_selection_is_split_into_whole_days_and_partial_days_at_its_ends() {
        let (start, end) = (DeliveryId::first_at(day("2026-11-18").starts_at()), last_of(day("2026-11-21")));
        let (first, last) = (id("2026-11-18T12:00:00Z"), id("2026-11-21T12:00:00Z"));
        let whole = |from, to| Some((day(from), day(to)));
        assert_eq!(parts(&between(start, end)), (whole("2026-11-18", "2026-11-21"), vec![]));
        let first_part = (first, last_of(day("2026-11-18")));
        let last_part = (DeliveryId::first_at(day("2026-11-21").starts_at()), last);
        assert_eq!(parts(&between(first, end)), (whole("2026-11-19", "2026-11-21"), vec![first_part]));
        assert_eq!(parts(&between(start, last)), (whole("2026-11-18", "2026-11-20"), vec![last_part]));
        assert_eq!(
            parts(&between(first, last)),
            (whole("2026-11-19", "2026-11-20"), vec![first_part, last_part])
        );
        // Parts of two adjacent days, and a part of one day.
        let next = id("2026-11-19T12:00:00Z");
        let next_part = (DeliveryId::first_at(day("2026-11-19").starts_at()), next);
        assert_eq!(parts(&between(first, next)), (None, vec![first_part, next_part]));
        assert_eq!(parts(&between(first, first)), (None, vec![(first, first)]));
        assert_eq!(parts(&between(last_part.0, end)), (whole("2026-11-21", "2026-11-21"), vec![]));
        let open_ended = between(start, DeliveryId::last_at(Timestamp::MAX));
        assert_eq!(parts(&open_ended).1, vec![]);
    }

    #[test]
    fn a_page_may_show_matches_that_are_older_than_its_cursor() {
        let [first, second, third] = [3, 2, 1].map(|hour| id(&format!("2026-11-20T0{hour}:00:00Z")));
        let delivery = |id| FoundDelivery::of_row(Delivery { id, ..delivery(&[endpoint()], at(0)) });
        let page = |after, from| {
            let (selection, window) = (between(from, first), Window { after, skip: 0, limit: 5 });
            [first, second, third].map(|id| window.may_show(&selection, &delivery(id)))
        };
        assert_eq!(page(None, third), [true, true, true]);
        assert_eq!(page(Some(second), third), [false, false, true]);
        assert_eq!(page(None, second), [true, true, false]);
    }
}
