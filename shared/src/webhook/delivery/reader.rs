//! Reads pages of a scope's deliveries, and their numbers. The parent module's head explains the terms.
//! Callers of [`Deliveries::page`] and [`Deliveries::count_by_status`] need not know where deliveries are
//! stored, listed and counted.
//!
//! # Sources
//!
//! - The scope's partition: the rows of the counts, then all deliveries, newest first. Pages of all
//!   deliveries and of `DELIVERED` ones are read from it.
//! - The `list` index: the status list, and the done list for counted `FAILED` and `CANCELLED` deliveries.
//!   Pages of the other statuses are read from it. The sort keys contain everything that a list is filtered
//!   by.
//! - The counts: numbers of done deliveries by day, and for each day by endpoint and event type.
//!
//! # Totals
//!
//! A total is the sum of three numbers: the counted deliveries, the entries of the status list, and the
//! unlisted rows after the checkpoint.
//!
//! The counts and the status list are read concurrently. If the counts are written between the two reads, a
//! delivery could be missing or counted twice. The [`Marker`] in the index shows this. Then both are read
//! again.
//!
//! Entries and rows are merged by id. So a delivery that is listed between two reads is counted once.
//!
//! DynamoDB's indexes are eventually consistent. While the index is behind its table, a delivery that was
//! just listed or counted may be missing or counted twice. Deliveries among the newest rows are not affected,
//! because these rows are read from the table itself.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;

use domain::calendar::Day;
use domain::ids::{DeliveryId, Scope};
use domain::row::Key;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;

use super::attempt::status_value;
use super::counts::{self, Criteria, LoadedCounts};
use super::list_key::{ListKey, Marker, bounds, bounds_with_marker, last_key_in_status};
use super::page::{
    ById, FoundDelivery, PageDraft, Scan, ScanResult, Selection, Window, as_u64, by_id, count_in_days,
    from_row, select_page, sum, unseen_by_day,
};
use super::{Deliveries, Delivery, DeliveryStatus};
use crate::random;
use crate::store::{
    Item, ListIndex, Order, PageError, StoreError, from_item, key_attributes, key_of_item, text, unavailable,
};
use crate::webhook::event::Event;

/// How many of the newest rows a page reads to find the unlisted deliveries after the checkpoint. Usually
/// fewer deliveries than this were created after the checkpoint.
const NEWEST: usize = 1_000;

/// The most rows of a scope's counts, with a margin: one for the scope, and one for each day. The row of a
/// day that lists no longer show exists until it expires.
const ROWS_OF_COUNTS: usize = 100;

/// The number of index entries that one request can always read. DynamoDB reads 1 MB a request, and an entry
/// has less than 300 bytes.
const ENTRIES_PER_QUERY: usize = 3_000;

/// The most entries with outdated sort keys for which a page reads the rows, in one request. An earlier
/// version wrote these sort keys, which lack the event type. If there are more, the whole page is read from
/// rows.
const MAX_OUTDATED: usize = 100;

/// The most queries of older rows for a page of `DELIVERED` deliveries. A page by event type or endpoint
/// makes one such query, so that it takes at most five requests.
const MAX_SCANS: usize = 3;

/// The most times that numbers are read again because the counts were written between the reads. The limit of
/// the random pause grows by 5 ms each time. All pauses together take at most 2.5 s.
const MAX_READS: u64 = 30;
const PAUSE_MS: u64 = 5;

/// If the counts were written less than this many milliseconds before a read, a delivery may have just moved
/// to the done list. Then the done list is read again, after the status list. The time is longer than the
/// difference between the clocks of two functions.
const RECENTLY_MS: i64 = 10_000;

/// A page of deliveries, each with the body that is sent; `None`: the event has expired.
#[derive(Debug)]
pub struct DeliveryPage {
    pub(super) deliveries: Vec<(Delivery, Option<String>)>,
    pub(super) total: u64,
    /// The cursor of the next page; `None`: there is no next page.
    pub(super) next: Option<DeliveryId>,
}

/// Numbers of deliveries by status.
pub(super) type Tally = Vec<(DeliveryStatus, u64)>;

/// The counts of a scope and its newest rows.
struct NewestRows {
    loaded: LoadedCounts,
    /// The rows that passed the query's filter.
    rows: Vec<DeliveryRow>,
    /// The sort key of the last row that was read; `None`: all rows that are shown were read.
    read_to: Option<String>,
    /// The lowest id that lists show.
    first_shown: DeliveryId,
}

/// A delivery's row, and whether it has an entry in the status list.
#[derive(Clone)]
struct DeliveryRow {
    delivery: Delivery,
    in_list: bool,
}

impl NewestRows {
    /// Whether all rows that are shown were read.
    fn is_whole(&self) -> bool {
        self.read_to.is_none()
    }

    /// Returns the sort key of the last row that was read, if older rows after the checkpoint were not read;
    /// `None`: all rows after the checkpoint were read.
    fn unread_after_checkpoint(&self) -> Option<&str> {
        let from = self.uncounted_from();
        self.read_to.as_deref().filter(|read_to| *read_to > from.as_str())
    }

    /// Returns the lowest sort key that a shown row after the checkpoint can have.
    fn uncounted_from(&self) -> String {
        DeliveryId::sort_key_after(self.loaded.counts.checkpoint).max(self.first_shown.to_string())
    }
}

/// The entries of a scope's status list that have the status of a selection.
struct StatusList {
    list_keys: Vec<ListKey>,
    marker: Marker,
    /// The number of entries that were read, including those in other statuses.
    read: usize,
}

/// How one attempt reads a page.
#[derive(Clone, Copy)]
struct ReadMode {
    now: Timestamp,
    /// Reads everything from rows. Needed if too many sort keys of the index lack the event type, or if the
    /// counts by endpoint and event type (the breakdown) are incomplete.
    from_rows: bool,
    /// Accepts the result even if the counts were written meanwhile.
    is_last: bool,
}

/// The result of an attempt to compute a total.
enum Total {
    Known(u64),
    /// The counts were written between two reads, so the results may not agree.
    CountsChanged,
    /// The total can only be counted from rows.
    NeedsRows,
}

/// The result of one attempt to read a page.
enum PageAttempt {
    Read(DeliveryPage),
    /// The counts were written between two reads, so the results may not agree.
    CountsChanged,
    /// The page can only be read from rows.
    NeedsRows,
}

impl Deliveries {
    /// Returns a page of a scope's deliveries, newest first.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownCursor`] when the page is to begin after a delivery that does not exist.
    pub(super) async fn page(
        &self,
        scope: &Scope,
        selection: &Selection,
        window: &Window,
        now: Timestamp,
    ) -> Result<DeliveryPage, PageError> {
        let selection = Selection { from: selection.from.max(counts::first_shown(now)), ..*selection };
        // A cursor that is newer than the selection changes nothing: the page begins with the newest match.
        let after = window.after.filter(|after| *after <= selection.to);
        let window = Window { after, ..*window };
        if selection.from > selection.to || after.is_some_and(|after| after < selection.from) {
            let total = match after {
                // The cursor is older than the selection: the page is empty, and only the total is read.
                Some(_) if selection.from <= selection.to => {
                    let first = Window { after: None, skip: 0, limit: 1 };
                    Box::pin(self.read_page(scope, &selection, &first, now)).await?.total
                }
                _ => 0,
            };
            return Ok(DeliveryPage { deliveries: Vec::new(), total, next: None });
        }
        self.read_page(scope, &selection, &window, now).await
    }

    /// Reads a page of a selection whose range of ids is not empty. Reads again if the counts were written
    /// meanwhile, and reads from rows if the index can't be used.
    async fn read_page(
        &self,
        scope: &Scope,
        selection: &Selection,
        window: &Window,
        now: Timestamp,
    ) -> Result<DeliveryPage, PageError> {
        let (mut attempts, mut from_rows) = (0, false);
        loop {
            pause(attempts).await;
            let mode = ReadMode { now, from_rows, is_last: attempts >= MAX_READS };
            // Boxed, because the future of a query takes kilobytes.
            let attempt = match selection.criteria.status {
                Some(status @ (DeliveryStatus::Pending | DeliveryStatus::Processing)) if !from_rows => {
                    Box::pin(self.page_of_open(scope, status, selection, window, mode)).await?
                }
                Some(status @ (DeliveryStatus::Failed | DeliveryStatus::Cancelled)) if !from_rows => {
                    Box::pin(self.page_of_failed_or_cancelled(scope, status, selection, window, mode)).await?
                }
                _ => Box::pin(self.page_from_rows(scope, selection, window, mode)).await?,
            };
            match attempt {
                PageAttempt::Read(page) => return Ok(page),
                PageAttempt::CountsChanged => attempts = attempts.saturating_add(1),
                PageAttempt::NeedsRows => from_rows = true,
            }
        }
    }

    /// Returns how many of a scope's deliveries are in each status.
    pub(super) async fn count_by_status(&self, scope: &Scope, now: Timestamp) -> Result<Tally, StoreError> {
        let mut attempts = 0;
        loop {
            pause(attempts).await;
            let selection = Selection {
                criteria: Criteria::default(),
                from: counts::first_shown(now),
                to: DeliveryId::last_at(Timestamp::MAX),
            };
            let (newest, listing) = tokio::try_join!(
                Box::pin(self.newest_rows(scope, &selection, ReadLimit::newest(), now)),
                Box::pin(self.status_list(scope, &selection))
            )?;
            let count = |rows: &ById, status| {
                as_u64(
                    rows.values().filter(|found| found.status() == status && selection.admits(found)).count(),
                )
            };
            if newest.is_whole() {
                let rows = by_id(newest.rows.into_iter().map(|seen| from_row(seen.delivery)));
                return Ok(DeliveryStatus::all().map(|status| (status, count(&rows, status))).collect());
            }
            attempts = attempts.saturating_add(1);
            if !self.is_consistent(scope, &newest.loaded, &listing, attempts > MAX_READS).await? {
                continue;
            }
            let rest = self.remaining_rows(scope, &newest, &selection).await?;
            let uncounted = uncounted(&newest, rest, listing);
            let of = |status| {
                let criteria = Criteria { status: Some(status), ..Criteria::default() };
                let counted =
                    sum(&newest.loaded.by_day(&criteria, (counts::first_day(now), Day::of(Timestamp::MAX))));
                // The counts have done deliveries only, so `counted` is 0 for an open status.
                (status, counted.saturating_add(count(&uncounted, status)))
            };
            return Ok(DeliveryStatus::all().map(of).collect());
        }
    }

    /// Reads a page from rows. Used for pages of all statuses or of `DELIVERED` deliveries, because nearly
    /// all rows are `DELIVERED`. Also used for any other status if the index can't be used.
    async fn page_from_rows(
        &self,
        scope: &Scope,
        selection: &Selection,
        window: &Window,
        mode: ReadMode,
    ) -> Result<PageAttempt, PageError> {
        let now = mode.now;
        let is_filtered = selection.criteria.status.is_some() || selection.criteria.needs_breakdown();
        let begins_at_newest = window.after.is_none() && selection.to >= DeliveryId::last_at(now);
        let read_limit = match (is_filtered, begins_at_newest) {
            (true, _) => ReadLimit { cursor: window.after, ..ReadLimit::newest() },
            (false, true) => ReadLimit { rows: window.wanted(), wanted: window.wanted(), cursor: None },
            (false, false) => ReadLimit::newest(),
        };
        let start = window.after.map_or(selection.to, |after| after.min(selection.to));
        let scan = Scan {
            start,
            after: window.after,
            skip: window.skip,
            limit: window.limit,
            // The scan is used without filters only, so each row is a match, except the row of
            // `starting_after`.
            rows: Some(window.wanted().saturating_add(1)),
            queries: usize::MAX,
        };
        let scanned = async {
            let is_needed = !is_filtered && !begins_at_newest;
            if is_needed { self.scan(scope, selection, &scan).await.map(Some) } else { Ok(None) }
        };
        let (newest, listing, scanned) = tokio::try_join!(
            Box::pin(self.newest_rows(scope, selection, read_limit, now)),
            Box::pin(self.status_list(scope, selection)),
            Box::pin(scanned)
        )?;
        let from_rows =
            mode.from_rows || (selection.criteria.needs_breakdown() && !newest.loaded.counts.has_breakdown());
        if newest.is_whole() {
            let all: Vec<FoundDelivery> =
                newest.rows.into_iter().map(|seen| from_row(seen.delivery)).collect();
            let total = all.iter().filter(|found| selection.admits(found)).count();
            let draft = select_page(all, selection, window);
            return self.complete_draft(scope, draft, async { Ok(Total::Known(as_u64(total))) }).await;
        }
        if !from_rows && !self.is_consistent(scope, &newest.loaded, &listing, mode.is_last).await? {
            return Ok(PageAttempt::CountsChanged);
        }
        let mut known_uncounted = uncounted(&newest, Vec::new(), listing);
        if !from_rows && !self.load_kinds(scope, selection, &mut known_uncounted).await? {
            return Ok(PageAttempt::NeedsRows);
        }
        let draft = if let Some(scanned) = scanned {
            scanned.into_page(Vec::new(), window.after)
        } else {
            let known_uncounted = (!from_rows).then_some(&known_uncounted);
            Box::pin(self.complete_page(scope, selection, window, &newest, known_uncounted)).await?
        };
        let total = async {
            if from_rows {
                return self.count_rows(scope, selection, now).await.map(Total::Known);
            }
            let rest = self.remaining_rows(scope, &newest, selection);
            let (whole, parts) = selection.days();
            let (rest, parts) =
                tokio::try_join!(Box::pin(rest), Box::pin(self.count_partial_days(scope, parts)))?;
            let mut uncounted = known_uncounted;
            uncounted.extend(by_id(rest.into_iter().map(|seen| from_row(seen.delivery))));
            let counted = whole.map_or(0, |days| sum(&newest.loaded.by_day(&selection.criteria, days)));
            let uncounted = count_in_days(&uncounted, selection, whole);
            Ok(Total::Known(counted.saturating_add(uncounted).saturating_add(parts)))
        };
        self.complete_draft(scope, draft, total).await
    }

    /// Completes a page whose deliveries are not all among the newest rows, by a search in the older ones.
    /// The counts show on which day the search must begin.
    ///
    /// `known_uncounted`: the uncounted deliveries of the status list and of the newest rows; `None`: the
    /// counts can't be used.
    async fn complete_page(
        &self,
        scope: &Scope,
        selection: &Selection,
        window: &Window,
        newest: &NewestRows,
        known_uncounted: Option<&ById>,
    ) -> Result<PageDraft, PageError> {
        let all: Vec<FoundDelivery> =
            newest.rows.iter().map(|seen| from_row(seen.delivery.clone())).collect();
        let start = window.after.map_or(selection.to, |after| after.min(selection.to));
        let read_to = newest.read_to.as_deref().map_or(selection.from, before_row);
        let begins_among_newest = read_to < start;
        let draft = select_page(all.clone(), selection, window);
        let is_after = |found: &&FoundDelivery| window.after.is_none_or(|after| found.id() < after);
        let matching = all.iter().filter(|found| selection.admits(found)).filter(is_after).count();
        if draft.next.is_some() || read_to < selection.from {
            return Ok(draft);
        }
        let scan = Scan {
            start: start.min(read_to),
            after: window.after.filter(|_| !begins_among_newest),
            skip: window.skip.saturating_sub(matching),
            limit: window.limit.saturating_sub(draft.found.len()),
            rows: None,
            queries: match known_uncounted {
                None => usize::MAX,
                Some(_) if selection.criteria.needs_breakdown() => 1,
                Some(_) => MAX_SCANS,
            },
        };
        // Days can be skipped only if all rows after the checkpoint were read, because unread ones are in no
        // count.
        let scan = match known_uncounted.filter(|_| newest.unread_after_checkpoint().is_none()) {
            Some(known_uncounted) => {
                let left = unseen_by_day(&newest.loaded, known_uncounted, &all, selection);
                let done = newest
                    .loaded
                    .by_day(&Criteria::default(), (Day::of(Timestamp::MIN), Day::of(Timestamp::MAX)));
                let moved = scan.skip_days(&left, selection, begins_among_newest);
                // A limited query may find too few matches. Then another query follows, or the page ends
                // early and its cursor continues there. A page by `offset` can't continue from a cursor. If
                // it makes only one query, this query is not limited.
                let may_be_limited = window.after.is_some() || scan.queries > 1;
                moved.map(|scan| if may_be_limited { scan.limited_if_dense(&left, &done) } else { scan })
            }
            None => Some(scan),
        };
        let Some(scan) = scan else { return Ok(draft) };
        let scanned = self.scan(scope, selection, &scan).await?;
        let unverified = if begins_among_newest {
            draft.unverified_cursor
        } else {
            window.after.filter(|_| !scanned.has_cursor)
        };
        Ok(PageDraft { unverified_cursor: unverified, ..scanned.into_page(draft.found, None) })
    }

    /// Searches rows for matches, from an id towards older ones.
    async fn scan(
        &self,
        scope: &Scope,
        selection: &Selection,
        scan: &Scan,
    ) -> Result<ScanResult, StoreError> {
        let wanted = scan.wanted();
        let query = self.between(scope, &selection.from.to_string(), &scan.start.to_string());
        let query = with_filter(query, &selection.criteria, scan.after);
        let mut rows = scan.rows;
        let (mut found, mut has_cursor, mut after) = (Vec::new(), scan.after.is_none(), None);
        for _query in 0..scan.queries {
            let limit = self.rows_of_a_query(rows.take());
            let page = query.clone().set_limit(limit).set_exclusive_start_key(after).send().await;
            let page = page.map_err(unavailable)?;
            let read = page.items.unwrap_or_default().into_iter().filter_map(parse_or_log).map(from_row);
            // Parsing a row takes longer than fetching it, so parsing ends when enough matches are found.
            for row in read {
                has_cursor |= scan.after == Some(row.id());
                if scan.after.is_none_or(|after| row.id() < after) && selection.admits(&row) {
                    found.push(row);
                }
                if found.len() >= wanted {
                    break;
                }
            }
            after = page.last_evaluated_key;
            if after.is_none() || found.len() >= wanted {
                break;
            }
        }
        let more = found.len() >= wanted;
        let read_to = after.as_ref().and_then(|key| text(key, "sk")).and_then(|sort| sort.parse().ok());
        let found = found.into_iter().skip(scan.skip).take(scan.limit).collect();
        Ok(ScanResult { found, more, read_to, has_cursor })
    }

    /// Reads a page of `PENDING` or `PROCESSING` deliveries. They are in the status list, except those whose
    /// first attempt is not over: these are among the rows after the checkpoint. None of them is counted, so
    /// it does not matter if the counts are written meanwhile.
    async fn page_of_open(
        &self,
        scope: &Scope,
        status: DeliveryStatus,
        selection: &Selection,
        window: &Window,
        mode: ReadMode,
    ) -> Result<PageAttempt, PageError> {
        // Rows are read in any status, so that a row whose status changed replaces its stale entry.
        let any_status = Criteria { status: None, ..selection.criteria };
        let in_any_status = Selection { criteria: any_status, ..*selection };
        let (newest, listing) = tokio::try_join!(
            Box::pin(self.newest_rows(
                scope,
                &in_any_status,
                ReadLimit { cursor: window.after, ..ReadLimit::newest() },
                mode.now
            )),
            Box::pin(self.status_list(scope, selection))
        )?;
        let found = if newest.is_whole() {
            by_id(newest.rows.into_iter().map(|seen| from_row(seen.delivery)))
        } else {
            let rest = self.remaining_rows(scope, &newest, &in_any_status).await?;
            let mut found = uncounted(&newest, rest, listing);
            if !self.load_kinds(scope, selection, &mut found).await? {
                return Ok(PageAttempt::NeedsRows);
            }
            found
        };
        let total = as_u64(found.values().filter(|found| selection.admits(found)).count());
        let draft = select_page(found.into_values().rev().collect(), selection, window);
        let page = self.complete_draft(scope, draft, async { Ok(Total::Known(total)) }).await?;
        Ok(retain_status(page, status))
    }

    /// Reads a page of `FAILED` or `CANCELLED` deliveries. They are in the status list until they are
    /// counted, then in the done list.
    async fn page_of_failed_or_cancelled(
        &self,
        scope: &Scope,
        status: DeliveryStatus,
        selection: &Selection,
        window: &Window,
        mode: ReadMode,
    ) -> Result<PageAttempt, PageError> {
        let most = window.wanted().max(self.at_once(ENTRIES_PER_QUERY));
        let to = window.after.map_or(selection.to, |after| after.min(selection.to));
        let (from, to) = (bounds(Some(status), selection.from).0, last_key_in_status(status, to));
        let partition = Delivery::done_partition(scope);
        let counted =
            || Box::pin(self.store.list(ListIndex::All, &partition, (&from, &to), Order::NewestFirst, most));
        let (listing, mut counted_entries) =
            tokio::try_join!(Box::pin(self.status_list(scope, selection)), counted())?;
        if listing.marker.at.is_some_and(|at| mode.now.millis_since(at) < RECENTLY_MS) {
            // Reads the done list again, now after the status list. A delivery that was counted during the
            // concurrent reads might be in neither result. In this order, it is in at least one.
            counted_entries = counted().await?;
        }
        let is_whole = counted_entries.len() < most;
        let read_to = counted_entries.last().and_then(|entry| Some(ListKey::parse(&entry.sort)?.id));
        let list_keys = counted_entries.iter().filter_map(|entry| ListKey::parse(&entry.sort));
        let uncounted = by_id(listing.list_keys.iter().cloned().map(FoundDelivery::Entry));
        let mut found = by_id(list_keys.map(FoundDelivery::Entry));
        found.extend(uncounted.clone());
        if let Some(read_to) = read_to.filter(|_| !is_whole) {
            found = found.split_off(&read_to);
        }
        if !self.load_kinds(scope, selection, &mut found).await? {
            return Ok(PageAttempt::NeedsRows);
        }
        let matches = found.values().filter(|found| selection.admits(found)).count();
        let mut draft = select_page(found.into_values().rev().collect(), selection, window);
        if !is_whole {
            draft.next = draft.next.or(read_to);
        }
        let total = async {
            if is_whole && window.after.is_none() {
                return Ok(Total::Known(as_u64(matches)));
            }
            let is_by_kind = selection.criteria.needs_breakdown();
            let (whole, parts) = selection.days();
            let loaded = Box::pin(self.load_counts(scope, is_by_kind));
            let (loaded, parts) = tokio::try_join!(loaded, Box::pin(self.count_partial_days(scope, parts)))?;
            let mut uncounted = uncounted;
            if is_by_kind && !loaded.counts.has_breakdown()
                || !self.load_kinds(scope, selection, &mut uncounted).await?
            {
                return Ok(Total::NeedsRows);
            }
            if loaded.counts.marker() != listing.marker && !mode.is_last {
                return Ok(Total::CountsChanged);
            }
            let counted = whole.map_or(0, |days| sum(&loaded.by_day(&selection.criteria, days)));
            let uncounted = count_in_days(&uncounted, selection, whole);
            Ok(Total::Known(counted.saturating_add(uncounted).saturating_add(parts)))
        };
        let page = self.complete_draft(scope, draft, total).await?;
        Ok(retain_status(page, status))
    }

    /// Reads the rows of entries whose sort keys lack the event type and endpoint, if the selection is
    /// filtered by these. Returns `false` if there are more than [`MAX_OUTDATED`].
    async fn load_kinds(
        &self,
        scope: &Scope,
        selection: &Selection,
        found: &mut ById,
    ) -> Result<bool, StoreError> {
        if !selection.criteria.needs_breakdown() {
            return Ok(true);
        }
        let outdated = found.values().filter(|one| one.kind().is_none() && selection.admits(one));
        let keys: Vec<Key> = outdated.map(|one| Delivery::key_of(scope, one.id())).collect();
        if keys.len() > MAX_OUTDATED {
            return Ok(false);
        }
        let rows = if keys.is_empty() { Vec::new() } else { self.store.batch_get(&keys).await? };
        found.extend(by_id(rows.into_iter().filter_map(parse_or_log).map(from_row)));
        Ok(true)
    }

    /// Whether the reads of the counts and of the list agree: no write was between them. The last read is
    /// always accepted, with a warning, so that lists can be read while the index is seconds behind its
    /// table.
    async fn is_consistent(
        &self,
        scope: &Scope,
        loaded: &LoadedCounts,
        listing: &StatusList,
        is_last: bool,
    ) -> Result<bool, StoreError> {
        let mut marker = loaded.counts.marker();
        if marker == listing.marker && listing.read >= ENTRIES_PER_QUERY {
            // The list took several requests, and only one of them read the marker. The counts may have been
            // written between that request and the last one. So the marker of the counts is read again.
            marker = self.load_counts(scope, false).await?.counts.marker();
        }
        let is_consistent = marker == listing.marker;
        if is_last && !is_consistent {
            tracing::warn!(%scope, "the list index is behind the counts of deliveries; totals may be wrong for a moment");
        }
        Ok(is_consistent || is_last)
    }

    /// Reads the counts and the newest rows.
    async fn newest_rows(
        &self,
        scope: &Scope,
        selection: &Selection,
        read_limit: ReadLimit,
        now: Timestamp,
    ) -> Result<NewestRows, StoreError> {
        let first_shown = counts::first_shown(now);
        let criteria = &selection.criteria;
        let first_sort =
            if criteria.needs_breakdown() { counts::LAST_DAY_SORT_KEY } else { counts::SCOPE_SORT_KEY };
        let query = self.between(scope, &first_shown.to_string(), first_sort);
        let query = with_filter(query, criteria, read_limit.cursor);
        let mut newest =
            NewestRows { loaded: LoadedCounts::new(*scope), rows: Vec::new(), read_to: None, first_shown };
        let mut after = None;
        let partition = Delivery::partition(scope);
        loop {
            let limit =
                self.rows_of_a_query(Some(read_limit.limit(newest.rows.len(), criteria.needs_breakdown())));
            let page = query.clone().set_limit(limit).set_exclusive_start_key(after).send().await;
            let page = page.map_err(unavailable)?;
            for item in page.items.unwrap_or_default() {
                let Some(item) = newest.loaded.add_row(item)? else { continue };
                let in_list = text(&item, "list_pk").is_some_and(|list| list == partition);
                newest.rows.extend(parse_or_log(item).map(|delivery| DeliveryRow { delivery, in_list }));
            }
            after = page.last_evaluated_key;
            newest.read_to = after.as_ref().and_then(|key| text(key, "sk"));
            let scope_row_is_unread =
                newest.read_to.as_deref().is_some_and(|sort| sort > counts::SCOPE_SORT_KEY);
            if after.is_none() || (newest.rows.len() >= read_limit.wanted && !scope_row_is_unread) {
                return Ok(newest);
            }
        }
    }

    /// Reads the entries of the status list in the selection's status.
    async fn status_list(&self, scope: &Scope, selection: &Selection) -> Result<StatusList, StoreError> {
        let (from, to) = bounds_with_marker(selection.criteria.status, selection.from);
        let partition = Delivery::partition(scope);
        let entries =
            self.store.list(ListIndex::All, &partition, (&from, &to), Order::NewestFirst, usize::MAX).await?;
        let marker = entries.iter().find_map(|entry| Marker::parse(&entry.sort)).unwrap_or_default();
        let status = selection.criteria.status;
        let list_keys = entries.iter().filter_map(|entry| ListKey::parse(&entry.sort));
        let list_keys =
            list_keys.filter(|list_key| status.is_none_or(|status| status == list_key.status)).collect();
        Ok(StatusList { list_keys, marker, read: entries.len() })
    }

    /// Reads the rows after the checkpoint that are not among the newest rows already read. Usually there are
    /// none, because the newest thousand rows were read. Only the first page without filters reads fewer: the
    /// rows that it shows.
    async fn remaining_rows(
        &self,
        scope: &Scope,
        newest: &NewestRows,
        selection: &Selection,
    ) -> Result<Vec<DeliveryRow>, StoreError> {
        let Some(before) = newest.unread_after_checkpoint() else { return Ok(Vec::new()) };
        let partition = Delivery::partition(scope);
        let key = Key { pk: partition.clone(), sk: before.to_owned() };
        let query = self.between(scope, &newest.uncounted_from(), counts::SCOPE_SORT_KEY);
        let mut query =
            with_filter(query, &selection.criteria, None).set_exclusive_start_key(Some(key_attributes(&key)));
        let mut rest = Vec::new();
        loop {
            let page = query.clone().send().await.map_err(unavailable)?;
            for item in page.items.unwrap_or_default() {
                let in_list = text(&item, "list_pk").is_some_and(|list| list == partition);
                let seen = parse_or_log(item).map(|delivery| DeliveryRow { delivery, in_list });
                rest.extend(seen.filter(|seen| !seen.delivery.listed || seen.in_list));
            }
            if page.last_evaluated_key.is_none() {
                return Ok(rest);
            }
            query = query.set_exclusive_start_key(page.last_evaluated_key);
        }
    }

    /// Returns how many rows match on the days that a selection contains only in part. Takes about one
    /// request for every 1,500 deliveries.
    async fn count_partial_days(&self, scope: &Scope, parts: Vec<Selection>) -> Result<u64, StoreError> {
        let mut counting = tokio::task::JoinSet::new();
        for part in parts {
            let (deliveries, scope) = (self.clone(), *scope);
            counting.spawn(async move { deliveries.count_matching(&scope, &part).await });
        }
        let mut sum: u64 = 0;
        while let Some(joined) = counting.join_next().await {
            let count = joined.map_err(|error| StoreError::Unavailable(error.to_string()))??;
            sum = sum.saturating_add(count);
        }
        Ok(sum)
    }

    async fn count_matching(&self, scope: &Scope, part: &Selection) -> Result<u64, StoreError> {
        let query = self.between(scope, &part.from.to_string(), &part.to.to_string());
        self.store.count_all(with_filter(query, &part.criteria, None)).await.map(as_u64)
    }

    /// Counts the matching rows by reading all rows of the selection. Used while the breakdown is incomplete
    /// or too many sort keys are outdated; both come from an earlier version. Also schedules the scheduler's
    /// next count, which continues the recount if it is not finished.
    async fn count_rows(
        &self,
        scope: &Scope,
        selection: &Selection,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let scheduled = self.schedule_counting(scope, now);
        let (count, ()) =
            tokio::try_join!(Box::pin(self.count_matching(scope, selection)), Box::pin(scheduled))?;
        Ok(count)
    }

    /// Returns a strongly consistent query of the scope's partition for these sort keys, both included,
    /// newest first.
    pub(super) fn between(&self, scope: &Scope, from: &str, to: &str) -> QueryFluentBuilder {
        self.store
            .client()
            .query()
            .table_name(self.store.table())
            .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
            .expression_attribute_values(":pk", AttributeValue::S(Delivery::partition(scope)))
            .expression_attribute_values(":from", AttributeValue::S(from.to_owned()))
            .expression_attribute_values(":to", AttributeValue::S(to.to_owned()))
            .scan_index_forward(false)
            .consistent_read(true)
    }

    /// Completes a draft: reads the bodies of its deliveries while `total` is computed.
    async fn complete_draft(
        &self,
        scope: &Scope,
        draft: PageDraft,
        total: impl Future<Output = Result<Total, StoreError>>,
    ) -> Result<PageAttempt, PageError> {
        let PageDraft { found, next, unverified_cursor: unverified } = draft;
        let loaded = Box::pin(self.load_bodies(scope, found, unverified));
        let ((deliveries, cursor_exists), total) = tokio::try_join!(loaded, Box::pin(total))?;
        let total = match total {
            Total::Known(total) => total,
            Total::CountsChanged => return Ok(PageAttempt::CountsChanged),
            Total::NeedsRows => return Ok(PageAttempt::NeedsRows),
        };
        if !cursor_exists {
            return Err(PageError::UnknownCursor("a delivery of this account and mode"));
        }
        Ok(PageAttempt::Read(DeliveryPage { deliveries, total, next }))
    }

    /// Reads in one batch the events of a page, the rows of deliveries of which only the entry was read, and
    /// the row of `unverified`. Returns the deliveries with their bodies in the page's order, and whether
    /// `unverified` exists.
    async fn load_bodies(
        &self,
        scope: &Scope,
        page: Vec<FoundDelivery>,
        unverified: Option<DeliveryId>,
    ) -> Result<(Vec<(Delivery, Option<String>)>, bool), StoreError> {
        let mut keys: Vec<Key> = page.iter().map(|found| found.event_key(scope)).collect();
        keys.sort_by(|left, right| left.sk.cmp(&right.sk));
        keys.dedup();
        let missing =
            page.iter().filter(|found| matches!(found, FoundDelivery::Entry(_))).map(FoundDelivery::id);
        keys.extend(missing.chain(unverified).map(|id| Delivery::key_of(scope, id)));
        let (mut events, mut rows) = (HashMap::new(), HashMap::new());
        for item in self.store.batch_get(&keys).await? {
            if key_of_item(&item).as_ref().is_some_and(Delivery::is_at) {
                rows.extend(parse_or_log(item).map(|delivery| (delivery.id, delivery)));
            } else {
                // An event that can't be read must not hide the other deliveries of the page.
                match from_item::<Event>(item) {
                    Ok(event) => drop(events.insert(event.id, event)),
                    Err(error) => tracing::error!(%error, "can't read an event; no payload is shown"),
                }
            }
        }
        let cursor_exists = unverified.is_none_or(|id| rows.contains_key(&id));
        let with_body = |found: FoundDelivery| {
            let delivery = match found {
                FoundDelivery::Row(delivery) => *delivery,
                FoundDelivery::Entry(list_key) => rows.remove(&list_key.id)?,
            };
            let body = events.get(&delivery.event).and_then(|event| event.body_as(delivery.event_type));
            Some((delivery, body))
        };
        Ok((page.into_iter().filter_map(with_body).collect(), cursor_exists))
    }
}

/// How many of the newest rows are read.
#[derive(Clone, Copy)]
struct ReadLimit {
    /// The rows of the first request.
    rows: usize,
    /// Requests follow until this many rows were returned; 0: one request is enough.
    wanted: usize,
    /// This row is returned even if it does not match the filter.
    cursor: Option<DeliveryId>,
}

impl ReadLimit {
    fn newest() -> Self {
        Self { rows: NEWEST, wanted: 0, cursor: None }
    }

    /// Returns the `Limit` of the next request, with room for the rows of the counts, which come first.
    fn limit(&self, read: usize, with_days: bool) -> usize {
        let counts = if with_days { ROWS_OF_COUNTS } else { 1 };
        self.rows.saturating_sub(read).saturating_add(counts)
    }
}

/// Returns the greatest id that is lower than this sort key. Rows of the counts sort after all deliveries, so
/// for their sort keys this is the highest id.
fn before_row(sort: &str) -> DeliveryId {
    sort.parse().map_or(DeliveryId::last_at(Timestamp::MAX), DeliveryId::previous)
}

/// Returns the uncounted deliveries: the entries of the status list, and the rows that are in the list, or
/// unlisted and after the checkpoint. A row replaces the entry of the same delivery, because the index may be
/// behind its table.
fn uncounted(newest: &NewestRows, rest: Vec<DeliveryRow>, listing: StatusList) -> ById {
    let mut found = by_id(listing.list_keys.into_iter().map(FoundDelivery::Entry));
    let up_to = newest.loaded.counts.checkpoint;
    let rows = newest
        .rows
        .iter()
        .filter(|seen| if seen.delivery.listed { seen.in_list } else { Some(seen.delivery.id) > up_to });
    found.extend(by_id(rows.cloned().chain(rest).map(|seen| from_row(seen.delivery))));
    found
}

/// Removes the deliveries of a page whose rows have another status, because their index entries were stale.
fn retain_status(attempt: PageAttempt, status: DeliveryStatus) -> PageAttempt {
    match attempt {
        PageAttempt::Read(mut page) => {
            page.deliveries.retain(|(delivery, _)| delivery.status == status);
            PageAttempt::Read(page)
        }
        other @ (PageAttempt::CountsChanged | PageAttempt::NeedsRows) => other,
    }
}

/// Parses a delivery's row. Logs an error and returns `None` if it can't: one bad row must not hide the other
/// deliveries.
pub(super) fn parse_or_log(item: Item) -> Option<Delivery> {
    from_item(item).map_err(|error| tracing::error!(%error, "can't read a delivery; it is skipped")).ok()
}

/// Adds the criteria to a query as a filter. Rows of the counts, which have no event type, and the row of
/// `cursor` always pass.
fn with_filter(
    query: QueryFluentBuilder,
    criteria: &Criteria,
    cursor: Option<DeliveryId>,
) -> QueryFluentBuilder {
    let mut query = query;
    let mut conditions = Vec::new();
    if let Some(status) = criteria.status {
        conditions.push("#status = :status");
        query = query.expression_attribute_names("#status", "status");
        query = query.expression_attribute_values(":status", status_value(status));
    }
    if let Some(event_type) = criteria.event_type {
        conditions.push("event_type = :type");
        query = query.expression_attribute_values(":type", AttributeValue::S(event_type.as_str().to_owned()));
    }
    if let Some(endpoint) = criteria.endpoint {
        conditions.push("endpoint = :endpoint");
        query = query.expression_attribute_values(":endpoint", AttributeValue::S(endpoint.to_string()));
    }
    if conditions.is_empty() {
        return query;
    }
    let mut expression = format!("attribute_not_exists(event_type) OR ({})", conditions.join(" AND "));
    if let Some(cursor) = cursor {
        expression.push_str(" OR id = :cursor");
        query = query.expression_attribute_values(":cursor", AttributeValue::S(cursor.to_string()));
    }
    query.filter_expression(expression)
}

/// Waits a random time before a read is repeated; not before the first read.
async fn pause(reads: u64) {
    let ceiling_ms = reads.saturating_mul(PAUSE_MS);
    if ceiling_ms > 0 {
        tokio::time::sleep(Duration::from_millis(
            random::below(ceiling_ms.saturating_add(1)).saturating_add(PAUSE_MS),
        ))
        .await;
    }
}
