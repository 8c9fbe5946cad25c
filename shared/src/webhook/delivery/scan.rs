//! Plans the search for matches in older deliveries of the log. The counts have the number of matches of each
//! day, so a search skips days without matches. All functions are pure; `reader` reads the database.

use std::collections::BTreeMap;

use domain::calendar::Day;
use domain::ids::DeliveryId;
use domain::time::Timestamp;

use super::counts::{Criteria, LoadedCounts};
use super::newest::Newest;
use super::page::{ById, FoundDelivery, PageDraft, Selection, Window, last_of};

/// The result of a [`Scan`].
pub(super) struct ScanResult {
    pub(super) found: Vec<FoundDelivery>,
    /// Whether there is a further match after these.
    pub(super) more: bool,
    /// The last id that was read; `None`: there are no older deliveries.
    pub(super) read_to: Option<DeliveryId>,
    /// Whether the entry of the cursor was read.
    pub(super) has_cursor: bool,
}

impl ScanResult {
    /// Adds the deliveries of the scan to those of a draft. If the scan ended before it found enough matches,
    /// the next page begins after the last id that was read.
    pub(super) fn complete(self, draft: PageDraft) -> PageDraft {
        let PageDraft { mut found, next: _, unverified_cursor } = draft;
        found.extend(self.found);
        let next = if self.more { found.last().map(|found| found.id) } else { self.read_to };
        PageDraft { found, next, unverified_cursor: unverified_cursor.filter(|_| !self.has_cursor) }
    }
}

/// Entries to read for each wanted match, on a day on which at least one delivery in four matches.
const ENTRIES_PER_MATCH: usize = 16;

/// Entries whose rows a search by status reads in its first query, besides the wanted matches. Nearly all
/// deliveries are `DELIVERED`, so these few replace the others.
pub(super) const SPARE_ROWS: usize = 24;

/// The most queries of older entries for a page of `DELIVERED` deliveries. A page by event type or endpoint
/// makes one such query, so that it takes at most six requests.
const MAX_QUERIES: usize = 3;

/// A search for matches in a scope's log, from an id towards older ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    /// The id of the newest entry to read.
    pub(super) start: DeliveryId,
    /// The matches to find. The cursor is `None` if it is not among the entries to read.
    pub(super) window: Window,
    /// The number of entries that the first query reads, if so many are likely to be enough.
    pub(super) entries: Option<usize>,
    /// The most queries of the scan.
    pub(super) queries: usize,
}

impl Scan {
    /// Returns the scan for a whole page that can be read without the counts, so concurrently with them: each
    /// entry is a match, and the page does not begin with the newest delivery. `None`: for any other page.
    pub(super) fn for_page(selection: &Selection, window: &Window, now: Timestamp) -> Option<Self> {
        let is_filtered = selection.criteria.status.is_some() || selection.criteria.needs_breakdown();
        let begins_at_newest = window.after.is_none() && selection.to >= DeliveryId::last_at(now);
        if is_filtered || begins_at_newest {
            return None;
        }
        // One more entry: that of the cursor.
        let entries = Some(window.wanted().saturating_add(1));
        Some(Self { start: window.start(selection), window: *window, entries, queries: usize::MAX })
    }

    /// Returns the scan for the rest of a page, in deliveries that are older than the newest ones; `None`: no
    /// scan is needed. The counts show on which day the scan must begin.
    ///
    /// `known_uncounted`: the uncounted deliveries of the status list and among the newest deliveries.
    pub(super) fn for_rest(
        draft: &PageDraft,
        selection: &Selection,
        window: &Window,
        newest: &Newest,
        known_uncounted: &ById,
    ) -> Option<Self> {
        let unread_to = newest.read_to?.previous();
        if draft.next.is_some() || unread_to < selection.from {
            return None;
        }
        let start = window.start(selection);
        let begins_among_newest = unread_to < start;
        let matching = newest.found.iter().filter(|found| window.may_show(selection, found)).count();
        let scan = Self {
            start: start.min(unread_to),
            window: Window {
                after: window.after.filter(|_| !begins_among_newest),
                skip: window.skip.saturating_sub(matching),
                limit: window.limit.saturating_sub(draft.found.len()),
            },
            entries: None,
            queries: if selection.criteria.needs_breakdown() { 1 } else { MAX_QUERIES },
        };
        // Days can be skipped only if all entries after the checkpoint were read, because unread ones are in
        // no count.
        if newest.unread_after_checkpoint().is_some() {
            return Some(scan);
        }
        let left = unseen_by_day(&newest.loaded, known_uncounted, &newest.found, selection);
        // The statuses of deliveries that are newer than the selection were not read. Only a page by `offset` skips
        // matches, so `is_exact` does not matter after a cursor.
        let is_newest = newest.found.first().is_none_or(|first| first.id <= selection.to);
        let is_exact = begins_among_newest && (selection.criteria.status.is_none() || is_newest);
        let scan = scan.skip_days(&left, selection, is_exact)?;
        // A limited query may find too few matches. Then another query follows, or the page ends early and its
        // cursor continues there. A page by `offset` can't continue from a cursor. If it makes only one query,
        // this query is not limited.
        if window.after.is_none() && scan.queries == 1 {
            return Some(scan);
        }
        let any_day = (Day::of(Timestamp::MIN), Day::of(Timestamp::MAX));
        let done = newest.loaded.by_day(&Criteria::default(), any_day);
        Some(scan.limited_if_dense(&selection.criteria, &left, &done))
    }

    /// Limits the first query if matches are frequent on the scan's first day: if the unseen matches of that
    /// day (`left`) are at least a quarter of its counted deliveries (`done`).
    fn limited_if_dense(
        self,
        criteria: &Criteria,
        left: &BTreeMap<Day, u64>,
        done: &BTreeMap<Day, u64>,
    ) -> Self {
        let day = Day::of(self.start.timestamp().unwrap_or(Timestamp::MIN));
        let on_day = |counts: &BTreeMap<Day, u64>| counts.get(&day).copied().unwrap_or_default();
        let is_dense = on_day(left) > 0 && on_day(left).saturating_mul(4) >= on_day(done);
        let entries = if criteria.status.is_some() {
            self.window.wanted().saturating_add(SPARE_ROWS)
        } else {
            self.window.wanted().saturating_mul(ENTRIES_PER_MATCH)
        };
        Self { entries: is_dense.then_some(entries), ..self }
    }

    /// Moves the beginning of the scan over days without matches, and over days whose matches must all be
    /// skipped. Returns `None` if no match is left.
    ///
    /// `left` has the number of unseen matches of each day. `is_exact`: none of the unseen matches of the
    /// scan's first day is newer than the scan's beginning. Otherwise some of them may be newer, so that day
    /// is not skipped.
    fn skip_days(mut self, left: &BTreeMap<Day, u64>, selection: &Selection, is_exact: bool) -> Option<Self> {
        let first = Day::of(self.start.timestamp().unwrap_or(Timestamp::MIN));
        let is_exact = is_exact || self.start >= last_of(first);
        for (day, matches) in left.range(..=first).rev().filter(|(_, matches)| **matches > 0) {
            let matches = usize::try_from(*matches).unwrap_or(usize::MAX);
            if self.window.skip < matches || (*day == first && !is_exact) {
                self.start = self.start.min(last_of(*day));
                return Some(self).filter(|scan| scan.start >= selection.from);
            }
            self.window.skip = self.window.skip.saturating_sub(matches);
        }
        None
    }
}

/// Returns the number of unseen matches of each day: the counted ones, and the uncounted ones in `listed`,
/// less those among the rows `seen`. The counts have whole days only, so `from` and `to` of the selection are
/// applied as whole days.
fn unseen_by_day(
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

#[cfg(test)]
mod tests {
    use super::super::list_key::Kind;
    use super::super::page::select_page;
    use super::super::page::testing::{between, day, id};
    use super::super::testing::delivery;
    use super::super::{Delivery, DeliveryStatus};
    use super::*;
    use crate::charge::testing::at;
    use crate::webhook::endpoint::testing::endpoint;

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
            let window = Window { after: None, skip, limit: 25 };
            let scan = Scan { start: before, window, entries: None, queries: 1 };
            scan.skip_days(&left, &all, is_exact).map(|scan| (scan.start, scan.window.skip))
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
        let window = Window { after: None, skip: 5, limit: 25 };
        let scan = Scan { start: noon, window, entries: None, queries: 1 };
        assert!(scan.skip_days(&left, &later, true).is_none());
    }

    #[test]
    fn the_first_query_is_limited_if_a_quarter_of_the_days_deliveries_match() {
        let left = BTreeMap::from([(day("2026-11-20"), 3)]);
        let before = id("2026-11-20T15:00:00Z");
        let window = Window { after: None, skip: 5, limit: 25 };
        let scan = Scan { start: before, window, entries: None, queries: 1 };
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

    /// The window of a page by cursor or offset.
    fn window(after: Option<DeliveryId>, skip: usize, limit: usize) -> Window {
        Window { after, skip, limit }
    }

    fn all_time(criteria: Criteria) -> Selection {
        Selection { criteria, ..between(first_id(), DeliveryId::last_at(Timestamp::MAX)) }
    }

    fn first_id() -> DeliveryId {
        DeliveryId::first_at(Timestamp::MIN)
    }

    fn of_type() -> Criteria {
        Criteria { event_type: Some(endpoint_kind().event_type), ..Criteria::default() }
    }

    fn of_status() -> Criteria {
        Criteria { status: Some(DeliveryStatus::Delivered), ..Criteria::default() }
    }

    fn endpoint_kind() -> Kind {
        delivery(&[endpoint()], at(0)).kind()
    }

    fn found(id: DeliveryId, status: Option<DeliveryStatus>) -> FoundDelivery {
        let delivery = Delivery { id, ..delivery(&[endpoint()], at(0)) };
        FoundDelivery { status, row: None, ..FoundDelivery::of_row(delivery) }
    }

    /// The scan for the rest of a page, from a scope with eleven counted deliveries: four of 2026-11-20, two of
    /// 2026-11-15, and five of 2026-11-10. Only the first two have been read, those of 18:00 and 17:00. If the
    /// selection has a status, the statuses of those that it selects were read too.
    fn rest(selection: &Selection, window: &Window, checkpoint: DeliveryId) -> Option<Scan> {
        let status = |id| selection.criteria.status.filter(|_| selection.admits_id(id));
        let newest_two = NEWEST_TWO.map(id).map(|id| found(id, status(id))).to_vec();
        let mut loaded = LoadedCounts::new(endpoint().scope);
        let counted = ["2026-11-20", "2026-11-20", "2026-11-15", "2026-11-15"].into_iter();
        for day in counted.chain(["2026-11-10"; 5]) {
            loaded = loaded.with_delivered(id(&format!("{day}T15:00:00Z")), endpoint_kind());
        }
        for at in NEWEST_TWO {
            loaded = loaded.with_delivered(id(at), endpoint_kind());
        }
        loaded.counts.checkpoint = Some(checkpoint);
        let read_to = Some(id(NEWEST_TWO[1]));
        let newest = Newest { loaded, found: newest_two, read_to, first_shown: first_id() };
        let draft = select_page(newest.found.clone(), selection, window);
        Scan::for_rest(&draft, selection, window, &newest, &ById::new())
    }

    const NEWEST_TWO: [&str; 2] = ["2026-11-20T18:00:00Z", "2026-11-20T17:00:00Z"];

    /// Returns where the scan for the rest begins, and how many matches it skips and returns.
    fn begin(selection: &Selection, window: &Window) -> Option<(DeliveryId, usize, usize)> {
        let scan = rest(selection, window, id(NEWEST_TWO[0]))?;
        Some((scan.start, scan.window.skip, scan.window.limit))
    }

    #[test]
    fn the_rest_of_a_page_begins_after_the_newest_deliveries_or_on_the_day_of_its_first_match() {
        let unread = id(NEWEST_TWO[1]).previous();
        let (second, third) = (last_of(day("2026-11-15")), last_of(day("2026-11-10")));
        for criteria in [Criteria::default(), of_type(), of_status()] {
            let begin = |skip, limit| begin(&all_time(criteria), &window(None, skip, limit));
            assert_eq!(begin(0, 1), None, "the next page begins among the newest");
            assert_eq!(begin(0, 2), Some((unread, 0, 0)), "only whether there is a next page");
            assert_eq!(begin(0, 3), Some((unread, 0, 1)));
            assert_eq!(begin(1, 3), Some((unread, 0, 2)));
            assert_eq!(begin(3, 5), Some((unread, 1, 5)));
            assert_eq!(begin(4, 5), Some((second, 0, 5)));
            assert_eq!(begin(5, 5), Some((second, 1, 5)));
            assert_eq!(begin(10, 5), Some((third, 4, 5)));
            assert_eq!(begin(11, 5), None, "there are eleven deliveries");
        }
    }

    #[test]
    fn the_rest_of_a_page_after_a_cursor_begins_at_the_cursor_unless_it_is_among_the_newest() {
        let [first, last] = NEWEST_TWO.map(id);
        let (unread, older) = (last.previous(), id("2026-11-20T15:30:00Z"));
        for (cursor, start, after, limit) in [
            (first.next(), unread, None, 3),
            (first, unread, None, 4),
            (last, unread, None, 5),
            (unread, unread, Some(unread), 5),
            (older, older, Some(older), 5),
        ] {
            let scan = rest(&all_time(Criteria::default()), &window(Some(cursor), 0, 5), first).unwrap();
            let Window { after: scanned_after, skip, limit: scanned_limit } = scan.window;
            assert_eq!(
                (scan.start, scanned_after, skip, scanned_limit),
                (start, after, 0, limit),
                "{cursor}"
            );
        }
    }

    #[test]
    fn a_page_has_no_rest_before_its_first_date() {
        let [first, last] = NEWEST_TWO.map(id);
        let from = |from| rest(&between(from, first), &window(None, 0, 5), first).map(|scan| scan.start);
        assert_eq!((from(last.previous()), from(last)), (Some(last.previous()), None));
    }

    #[test]
    fn a_day_is_skipped_by_offset_only_if_it_is_known_how_many_of_its_matches_are_older_than_the_last_date() {
        let [first, last] = NEWEST_TWO.map(id);
        let (unread, second) = (last.previous(), last_of(day("2026-11-15")));
        let to = |to, criteria, skip| begin(&Selection { to, ..all_time(criteria) }, &window(None, skip, 5));
        // The two unread matches of the first day are older than these dates.
        assert_eq!(to(first, Criteria::default(), 4), Some((second, 0, 5)));
        assert_eq!(to(first, of_status(), 4), Some((second, 0, 5)));
        assert_eq!(to(last, Criteria::default(), 3), Some((second, 0, 5)));
        // The status of the first delivery was not read, so it may be one of the three.
        assert_eq!(to(last, of_status(), 4), Some((unread, 3, 5)));
        // One of the two unread ones may be newer than this date.
        let noon = id("2026-11-20T15:00:00Z");
        assert_eq!(to(noon, Criteria::default(), 2), Some((noon, 2, 5)));
        assert_eq!(to(noon, of_status(), 2), Some((noon, 2, 5)));
    }

    #[test]
    fn no_day_is_skipped_while_deliveries_after_the_checkpoint_are_unread() {
        let unread = id(NEWEST_TWO[1]).previous();
        let scan = rest(&all_time(Criteria::default()), &window(None, 11, 5), unread.previous()).unwrap();
        assert_eq!((scan.start, scan.window.skip, scan.entries), (unread, 9, None));
        let all_read = rest(&all_time(Criteria::default()), &window(None, 11, 5), unread);
        assert!(all_read.is_none());
    }

    #[test]
    fn a_page_by_event_type_makes_one_query_which_is_limited_only_if_a_cursor_can_continue_it() {
        let (first, noon) = (id(NEWEST_TWO[0]), id("2026-11-20T15:00:00Z"));
        let reads = |criteria, window: &Window| {
            let scan = rest(&all_time(criteria), window, first).unwrap();
            (scan.queries, scan.entries)
        };
        let (by_offset, by_cursor) = (window(None, 1, 5), window(Some(noon), 0, 5));
        assert_eq!(reads(Criteria::default(), &by_offset), (3, Some((4 + 1) * 16)));
        assert_eq!(reads(Criteria::default(), &by_cursor), (3, Some((5 + 1) * 16)));
        assert_eq!(reads(of_status(), &by_offset), (3, Some(4 + 1 + 24)));
        assert_eq!(reads(of_type(), &by_offset), (1, None));
        assert_eq!(reads(of_type(), &by_cursor), (1, Some((5 + 1) * 16)));
    }

    #[test]
    fn a_page_without_filters_that_does_not_begin_with_the_newest_delivery_is_read_without_the_counts() {
        let now = Timestamp::parse_floor("2026-11-20T18:00:00Z").unwrap();
        let (cursor, last) = (id("2026-11-20T15:00:00Z"), DeliveryId::last_at(now));
        let scan = |criteria, to, after| {
            let selection = Selection { to, ..all_time(criteria) };
            Scan::for_page(&selection, &window(after, 0, 5), now).map(|scan| (scan.start, scan.entries))
        };
        assert_eq!(scan(Criteria::default(), last, None), None);
        assert_eq!(scan(Criteria::default(), last.previous(), None), Some((last.previous(), Some(7))));
        assert_eq!(scan(Criteria::default(), last, Some(cursor)), Some((cursor, Some(7))));
        for criteria in [of_status(), of_type()] {
            assert_eq!(scan(criteria, last.previous(), None), None);
            assert_eq!(scan(criteria, last, Some(cursor)), None);
        }
    }

    #[test]
    fn the_next_page_begins_after_the_last_match_or_where_the_scan_ended() {
        let [newer, older, cursor, read_to] =
            [4, 3, 6, 2].map(|hour| id(&format!("2026-11-20T0{hour}:00:00Z")));
        let complete = |more, has_cursor| {
            let scanned =
                ScanResult { found: vec![found(older, None)], more, read_to: Some(read_to), has_cursor };
            let draft =
                PageDraft { found: vec![found(newer, None)], next: None, unverified_cursor: Some(cursor) };
            let page = scanned.complete(draft);
            assert_eq!(page.found.iter().map(|found| found.id).collect::<Vec<_>>(), [newer, older]);
            (page.next, page.unverified_cursor)
        };
        assert_eq!(complete(true, false), (Some(older), Some(cursor)));
        assert_eq!(complete(false, true), (Some(read_to), None));
    }
}
