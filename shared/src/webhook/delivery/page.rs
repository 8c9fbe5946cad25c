//! Selects the deliveries of a page. All functions are pure; `reader` reads the database.
//!
//! [`Selection`] is the filter. [`Window`] is the part of the matches that is on the page. [`Scan`] is the
//! search for them in older rows. The counts have the number of matches of each day, so a scan skips days
//! without matches.

use std::collections::BTreeMap;

use domain::calendar::Day;
use domain::ids::{DeliveryId, EventId, Scope};
use domain::row::{Key, Row};
use domain::shard::Shard;
use domain::time::Timestamp;

use super::counts::{Criteria, LoadedCounts};
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

    /// Whether a delivery matches. What is not known of it is assumed to match.
    pub(super) fn admits(&self, found: &FoundDelivery) -> bool {
        self.admits_id(found.id)
            && self.criteria.status.is_none_or(|status| found.status.is_none_or(|found| found == status))
            && found.kind.is_none_or(|kind| self.criteria.admits_kind(kind))
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
    /// The page begins after this delivery, which must exist (`starting_after`).
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
}

/// A delivery that a reader found: by its entry in the log, by its entry in the `list` index, or by its row.
#[derive(Clone)]
pub(super) struct FoundDelivery {
    pub(super) id: DeliveryId,
    pub(super) event: EventId,
    /// `None`: an earlier version wrote the entry in the `list` index. Then only the row has the event type
    /// and endpoint.
    pub(super) kind: Option<Kind>,
    /// The shard of the event.
    pub(super) shard: Shard,
    /// `None`: only the entry in the log was read, which has no status.
    pub(super) status: Option<DeliveryStatus>,
    /// Whether a listed delivery has an entry in the status list. `None`: the delivery is unlisted, or its row
    /// was not read.
    pub(super) in_list: Option<bool>,
    /// The partition and the sort key of its row's entry in the `list` index.
    pub(super) entry: Option<(String, String)>,
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
            kind: Some(delivery.kind()),
            shard: delivery.shard,
            status: Some(delivery.status),
            in_list: None,
            entry: None,
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
        Self { id, event, kind, shard, status, in_list: None, entry: None, key, row: None }
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

/// The result of a [`Scan`].
pub(super) struct ScanResult {
    pub(super) found: Vec<FoundDelivery>,
    /// Whether there is a further match after these.
    pub(super) more: bool,
    /// The last id that was read; `None`: there are no older deliveries.
    pub(super) read_to: Option<DeliveryId>,
    /// Whether the entry of [`Scan::after`] was read, or the scan has no cursor.
    pub(super) has_cursor: bool,
}

impl ScanResult {
    /// Returns a page of the deliveries `found` before the scan, followed by those of the scan. If the scan
    /// ended before it found enough matches, the next page begins after the last id that was read.
    pub(super) fn into_page(self, mut found: Vec<FoundDelivery>, after: Option<DeliveryId>) -> PageDraft {
        found.extend(self.found);
        let next = if self.more { found.last().map(|found| found.id) } else { self.read_to };
        PageDraft { found, next, unverified_cursor: after.filter(|_| !self.has_cursor) }
    }
}

/// Entries to read for each wanted match, on a day on which at least one delivery in four matches.
const ENTRIES_PER_MATCH: usize = 16;

/// Entries whose rows a search by status reads in its first query, besides the wanted matches. Nearly all
/// deliveries are `DELIVERED`, so these few replace the others.
pub(super) const SPARE_ROWS: usize = 24;

/// A search for matches in a scope's log, from an id towards older ones.
#[derive(Clone, Copy)]
pub(super) struct Scan {
    /// The id of the newest entry to read.
    pub(super) start: DeliveryId,
    /// The page's `starting_after`, if it is among these entries. Only older matches are returned.
    pub(super) after: Option<DeliveryId>,
    /// The number of matches to skip.
    pub(super) skip: usize,
    /// The most matches to return after the skipped ones.
    pub(super) limit: usize,
    /// The number of entries that the first query reads, if so many are likely to be enough.
    pub(super) entries: Option<usize>,
    /// The most queries of the scan.
    pub(super) queries: usize,
}

impl Scan {
    /// Returns the number of matches to find, including one that shows whether there are more.
    pub(super) fn wanted(&self) -> usize {
        self.skip.saturating_add(self.limit).saturating_add(1)
    }

    /// Limits the first query if matches are frequent on the scan's first day: if the unseen matches of that
    /// day (`left`) are at least a quarter of its counted deliveries (`done`).
    pub(super) fn limited_if_dense(
        self,
        criteria: &Criteria,
        left: &BTreeMap<Day, u64>,
        done: &BTreeMap<Day, u64>,
    ) -> Self {
        let day = Day::of(self.start.timestamp().unwrap_or(Timestamp::MIN));
        let on_day = |counts: &BTreeMap<Day, u64>| counts.get(&day).copied().unwrap_or_default();
        let is_dense = on_day(left) > 0 && on_day(left).saturating_mul(4) >= on_day(done);
        let entries = if criteria.status.is_some() {
            self.wanted().saturating_add(SPARE_ROWS)
        } else {
            self.wanted().saturating_mul(ENTRIES_PER_MATCH)
        };
        Self { entries: is_dense.then_some(entries), ..self }
    }

    /// Moves the beginning of the scan over days without matches, and over days whose matches must all be
    /// skipped. Returns `None` if no match is left.
    ///
    /// `left` has the number of unseen matches of each day. `is_exact`: none of the unseen matches of the
    /// scan's first day is newer than the scan's beginning. Otherwise some of them may be newer, so that day
    /// is not skipped.
    pub(super) fn skip_days(
        mut self,
        left: &BTreeMap<Day, u64>,
        selection: &Selection,
        is_exact: bool,
    ) -> Option<Self> {
        let first = Day::of(self.start.timestamp().unwrap_or(Timestamp::MIN));
        let is_exact = is_exact || self.start >= last_of(first);
        for (day, matches) in left.range(..=first).rev().filter(|(_, matches)| **matches > 0) {
            let matches = usize::try_from(*matches).unwrap_or(usize::MAX);
            if self.skip < matches || (*day == first && !is_exact) {
                self.start = self.start.min(last_of(*day));
                return Some(self).filter(|scan| scan.start >= selection.from);
            }
            self.skip = self.skip.saturating_sub(matches);
        }
        None
    }
}

pub(super) fn last_of(day: Day) -> DeliveryId {
    DeliveryId::last_at(day.ends_at())
}

/// Returns the number of unseen matches of each day: the counted ones, and the uncounted ones in `listed`,
/// less those among the rows `seen`. The counts have whole days only, so `from` and `to` of the selection are
/// applied as whole days.
pub(super) fn unseen_by_day(
    counts: &LoadedCounts,
    listed: &ById,
    seen: &[FoundDelivery],
    selection: &Selection,
) -> BTreeMap<Day, u64> {
    let day_of = |id: DeliveryId| Day::of(id.timestamp().unwrap_or(Timestamp::MIN));
    let any_time = Selection {
        from: DeliveryId::first_at(Timestamp::MIN),
        to: DeliveryId::last_at(Timestamp::MAX),
        ..*selection
    };
    let mut left = counts.by_day(&selection.criteria, (day_of(selection.from), day_of(selection.to)));
    for found in listed.values().filter(|found| any_time.admits(found)) {
        let count = left.entry(day_of(found.id)).or_default();
        *count = count.saturating_add(1);
    }
    // A delivery whose status was not read may be one that does not match.
    let is_known = |found: &&FoundDelivery| selection.criteria.status.is_none() || found.status.is_some();
    for found in seen.iter().filter(is_known).filter(|found| any_time.admits(found)) {
        if let Some(count) = left.get_mut(&day_of(found.id)) {
            *count = count.saturating_sub(1);
        }
    }
    left
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
    let is_after = |one: &FoundDelivery| window.after.is_none_or(|after| one.id < after);
    let mut on_page: Vec<FoundDelivery> = found
        .into_iter()
        .filter(|one| is_after(one) && selection.admits(one))
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
mod tests {
    use super::*;

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    fn id(at: &str) -> DeliveryId {
        DeliveryId::first_at(Timestamp::parse_floor(at).unwrap())
    }

    fn between(from: DeliveryId, to: DeliveryId) -> Selection {
        Selection { criteria: Criteria::default(), from, to }
    }

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
    fn days_without_a_wanted_match_are_skipped() {
        let left = BTreeMap::from([
            (day("2026-11-10"), 5),
            (day("2026-11-15"), 2),
            (day("2026-11-16"), 0),
            (day("2026-11-20"), 3),
        ]);
        let all = between(DeliveryId::first_at(Timestamp::MIN), DeliveryId::last_at(Timestamp::MAX));
        let moved = |before: DeliveryId, skip, is_exact| {
            let scan = Scan { start: before, after: None, skip, limit: 25, entries: None, queries: 1 };
            scan.skip_days(&left, &all, is_exact).map(|scan| (scan.start, scan.skip))
        };
        // Noon in São Paulo, whose days are counted.
        let noon = id("2026-11-20T15:00:00Z");
        // Exact: all three matches of the day are before noon.
        assert_eq!(moved(noon, 0, true), Some((noon, 0)));
        assert_eq!(moved(noon, 2, true), Some((noon, 2)));
        assert_eq!(moved(noon, 3, true), Some((last_of(day("2026-11-15")), 0)));
        assert_eq!(moved(noon, 4, true), Some((last_of(day("2026-11-15")), 1)));
        assert_eq!(moved(noon, 9, true), Some((last_of(day("2026-11-10")), 4)));
        assert_eq!(moved(noon, 10, true), None);
        // Not exact: some of the day's three matches may be after noon.
        assert_eq!(moved(noon, 3, false), Some((noon, 3)));
        assert_eq!(moved(last_of(day("2026-11-20")), 3, false), Some((last_of(day("2026-11-15")), 0)));
        let empty = id("2026-11-16T15:00:00Z");
        assert_eq!(moved(empty, 0, false), Some((last_of(day("2026-11-15")), 0)));
        assert_eq!(moved(id("2026-11-09T15:00:00Z"), 0, true), None);

        // Days before the selection are not searched.
        let later = Selection { from: id("2026-11-12T12:00:00Z"), ..all };
        let scan = Scan { start: noon, after: None, skip: 5, limit: 25, entries: None, queries: 1 };
        assert!(scan.skip_days(&left, &later, true).is_none());
    }

    #[test]
    fn the_first_query_is_limited_if_a_quarter_of_the_days_deliveries_match() {
        let left = BTreeMap::from([(day("2026-11-20"), 3)]);
        let before = id("2026-11-20T15:00:00Z");
        let scan = Scan { start: before, after: None, skip: 5, limit: 25, entries: None, queries: 1 };
        let entries = |criteria: Criteria, done| {
            scan.limited_if_dense(&criteria, &left, &BTreeMap::from([(day("2026-11-20"), done)])).entries
        };
        let by_status = Criteria { status: Some(DeliveryStatus::Delivered), ..Criteria::default() };
        assert_eq!(
            (entries(Criteria::default(), 12), entries(Criteria::default(), 13)),
            (Some(31 * 16), None)
        );
        assert_eq!((entries(by_status, 12), entries(by_status, 13)), (Some(31 + 24), None));
    }
}
