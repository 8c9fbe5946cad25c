//! Reads pages of a scope's deliveries, and their numbers. The parent module's head explains the terms.
//! Callers of [`Deliveries::page`] and [`Deliveries::count_by_status`] need not know where deliveries are
//! stored, listed and counted.
//!
//! # Sources
//!
//! - The log: an entry for each delivery, newest first. Pages of all deliveries and of `DELIVERED` ones are
//!   read from it. The sort keys contain everything that a list is filtered by, except the status.
//! - The `list` index: the status list, and the done list for counted `FAILED` and `CANCELLED` deliveries.
//!   Pages of the other statuses are read from it. The sort keys contain everything that a list is filtered
//!   by.
//! - The counts: numbers of done deliveries by day, and for each day by endpoint and event type.
//! - The rows of the deliveries: those on the page, and those whose status a page or the statistics need: the
//!   unlisted ones after the checkpoint.
//!
//! # Totals
//!
//! A total is the number of counted deliveries, plus the number of ids in the status list and in the log after
//! the checkpoint.
//!
//! The counts and the status list are read concurrently. If the counts are written between the two reads, a
//! delivery could be missing or counted twice. The [`Marker`] in the index shows this. Then both are read
//! again.
//!
//! Entries and rows are merged by id. So a delivery that is listed between two reads is counted once.
//!
//! DynamoDB's indexes are eventually consistent. While an index is behind its table, a delivery that was just
//! created, listed or counted may be missing, or a listed one may be counted twice.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use domain::calendar::Day;
use domain::ids::{DeliveryId, Scope};
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;

use super::counts::{self, Criteria, LoadedCounts};
use super::list_key::{Marker, bounds, bounds_with_marker, last_key_in_status};
use super::log::{ENTRIES_PER_QUERY, Events, LogPage, event_keys, sort_in};
use super::newest::Newest;
use super::page::{
    ById, FoundDelivery, PageDraft, Selection, Window, as_u64, by_id, count_in_days, select_page, sum,
};
use super::scan::{SPARE_ROWS, Scan, ScanResult};
use super::{Deliveries, Delivery, DeliveryStatus};
use crate::random;
use crate::store::{Item, ListIndex, Order, PageError, StoreError, from_item};

/// How many of the newest entries a page reads to find the deliveries after the checkpoint. Usually fewer
/// deliveries than this were created after the checkpoint. A page by event type or endpoint reads
/// [`ENTRIES_PER_QUERY`], in which its deliveries usually are.
const NEWEST: usize = 1_000;

/// The most deliveries among the newest ones whose rows a page by status reads to find its deliveries. A page
/// with a large `offset` reads the others in a search.
const MAX_CANDIDATES: usize = 500;

/// How many entries a search by status reads in a query. It reads the rows of all these.
const ENTRIES_WITH_ROWS: usize = 1_000;

/// The most times that numbers are read again because the counts were written between the reads. The limit of
/// the random pause grows by 5 ms each time. All pauses together take at most 2.5 s.
const MAX_READS: u64 = 30;
const PAUSE_MS: u64 = 5;

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

/// The entries of a scope's status list that have the status of a selection.
struct StatusList {
    found: Vec<FoundDelivery>,
    state: ListState,
}

/// Shows whether the counts were written while the status list was read.
#[derive(Clone, Copy)]
struct ListState {
    marker: Marker,
    /// Whether the read may have taken several requests. Only one of them read the marker.
    is_long: bool,
}

/// The number of reads whose results did not agree, because the counts were written between two requests.
#[derive(Default)]
struct FailedReads(u64);

impl FailedReads {
    /// Whether the next read is the last one.
    fn is_next_last(&self) -> bool {
        self.0 >= MAX_READS
    }

    /// Counts a failed read, and waits a random time before the next one.
    async fn add(&mut self) {
        self.0 = self.0.saturating_add(1);
        let most_ms = self.0.saturating_mul(PAUSE_MS);
        tokio::time::sleep(Duration::from_millis(random::below(most_ms).saturating_add(PAUSE_MS))).await;
    }
}

impl Deliveries {
    /// Returns a page of a scope's deliveries, newest first.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownCursor`] when the page is to begin after a delivery that does not exist.
    pub(super) async fn page(
        &self,
        scope: &ShardedScope,
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
    /// meanwhile.
    async fn read_page(
        &self,
        scope: &ShardedScope,
        selection: &Selection,
        window: &Window,
        now: Timestamp,
    ) -> Result<DeliveryPage, PageError> {
        let mut failed = FailedReads::default();
        loop {
            let is_last = failed.is_next_last();
            // Boxed, because the future of a query takes kilobytes.
            let page = match selection.criteria.status {
                Some(DeliveryStatus::Pending | DeliveryStatus::Processing) => {
                    Box::pin(self.page_of_open(scope, selection, window, now)).await?
                }
                Some(status @ (DeliveryStatus::Failed | DeliveryStatus::Cancelled)) => {
                    let page =
                        self.page_of_failed_or_cancelled(scope, status, selection, window, now, is_last);
                    Box::pin(page).await?
                }
                Some(DeliveryStatus::Delivered) | None => {
                    Box::pin(self.page_from_log(scope, selection, window, now, is_last)).await?
                }
            };
            match page {
                Some(page) => return Ok(page),
                None => failed.add().await,
            }
        }
    }

    /// Returns how many of a scope's deliveries are in each status.
    pub(super) async fn count_by_status(
        &self,
        scope: &ShardedScope,
        now: Timestamp,
    ) -> Result<Tally, StoreError> {
        let mut failed = FailedReads::default();
        let selection = Selection {
            criteria: Criteria::default(),
            from: counts::first_shown(now),
            to: DeliveryId::last_at(Timestamp::MAX),
        };
        loop {
            let (newest, listing) = tokio::try_join!(
                Box::pin(self.newest(scope, &selection, now)),
                Box::pin(self.status_list(scope, &selection))
            )?;
            if !self.is_consistent(scope, &newest.loaded, listing.state, failed.is_next_last()).await? {
                failed.add().await;
                continue;
            }
            let rest = self.remaining(scope, &newest).await?;
            let uncounted = newest.uncounted(rest, listing.found);
            let uncounted = self.with_statuses(scope, uncounted, None).await?;
            let count = |status| {
                let of_status =
                    |found: &&FoundDelivery| found.status == Some(status) && selection.admits(found);
                as_u64(uncounted.values().filter(of_status).count())
            };
            let of = |status| {
                let criteria = Criteria { status: Some(status), ..Criteria::default() };
                let counted =
                    sum(&newest.loaded.by_day(&criteria, (counts::first_day(now), Day::of(Timestamp::MAX))));
                // The counts have done deliveries only, so `counted` is 0 for an open status.
                (status, counted.saturating_add(count(status)))
            };
            return Ok(DeliveryStatus::all().map(of).collect());
        }
    }

    /// Reads a page of all statuses or of `DELIVERED` deliveries from the log, because nearly all deliveries are
    /// `DELIVERED`. `None`: the counts were written between two reads, so the results may not agree.
    async fn page_from_log(
        &self,
        scope: &ShardedScope,
        selection: &Selection,
        window: &Window,
        now: Timestamp,
        is_last: bool,
    ) -> Result<Option<DeliveryPage>, PageError> {
        let is_by_status = selection.criteria.status.is_some();
        // The counts of incomplete days need the uncounted deliveries in all statuses.
        let in_any_status =
            Selection { criteria: Criteria { status: None, ..selection.criteria }, ..*selection };
        let scan = Scan::for_page(selection, window, now);
        let mut events = Events::new();
        let scanned = async {
            match &scan {
                Some(scan) => self.scan(scope, selection, scan, &mut events).await.map(Some),
                None => Ok(None),
            }
        };
        let (mut newest, listing, scanned) = tokio::try_join!(
            Box::pin(self.newest(scope, selection, now)),
            Box::pin(self.status_list(scope, &in_any_status)),
            Box::pin(scanned)
        )?;
        if newest.is_whole() && !is_by_status {
            let total = newest.found.iter().filter(|found| selection.admits(found)).count();
            let draft = select_page(newest.found, selection, window);
            return self
                .complete_draft(scope, selection, draft, events, async { Ok(Some(as_u64(total))) })
                .await;
        }
        if !self.is_consistent(scope, &newest.loaded, listing.state, is_last).await? {
            return Ok(None);
        }
        let mut known_uncounted = newest.uncounted(Vec::new(), listing.found);
        if is_by_status {
            known_uncounted = self
                .load_candidates(scope, selection, window, &mut newest, known_uncounted, &mut events)
                .await?;
        }
        let draft = if let Some(scanned) = scanned {
            scanned.complete(PageDraft { found: Vec::new(), next: None, unverified_cursor: window.after })
        } else {
            Box::pin(self.complete_page(scope, selection, window, &newest, &known_uncounted, &mut events))
                .await?
        };
        let total = async {
            let rest = by_id(self.remaining(scope, &newest).await?.into_iter());
            let mut uncounted = known_uncounted;
            if is_by_status {
                uncounted.extend(self.with_statuses(scope, rest, None).await?);
            } else {
                uncounted.extend(rest);
            }
            let (whole, parts) = selection.days();
            let parts = self.count_partial_days(scope, parts, &uncounted).await?;
            let counted = whole.map_or(0, |days| sum(&newest.loaded.by_day(&selection.criteria, days)));
            let uncounted = count_in_days(&uncounted, selection, whole);
            Ok(Some(counted.saturating_add(uncounted).saturating_add(parts)))
        };
        self.complete_draft(scope, selection, draft, events, total).await
    }

    /// Reads the rows that a page by status needs, in one batch: those of the uncounted deliveries, and those of
    /// the page's candidates among the newest deliveries. Returns the uncounted deliveries with their statuses.
    /// The newest deliveries then end before the first candidate whose status was not read.
    async fn load_candidates(
        &self,
        scope: &ShardedScope,
        selection: &Selection,
        window: &Window,
        newest: &mut Newest,
        uncounted: ById,
        events: &mut Events,
    ) -> Result<ById, StoreError> {
        let most = window.wanted().saturating_add(SPARE_ROWS).min(MAX_CANDIDATES);
        // A match in the status list may be on the page, so its row is read too. The rows of uncounted deliveries
        // with an unknown status are read in any case.
        let is_match_without_row =
            |one: &FoundDelivery| one.status.is_some() && one.row.is_none() && selection.admits(one);
        let is_candidate = |found: &&FoundDelivery| {
            window.may_show(selection, found) && uncounted.get(&found.id).is_none_or(is_match_without_row)
        };
        let candidates: Vec<_> = newest.found.iter().filter(is_candidate).take(most).cloned().collect();
        let of_uncounted: BTreeSet<DeliveryId> = uncounted.keys().copied().collect();
        let requested = by_id(uncounted.into_values().chain(candidates));
        let ids: BTreeSet<DeliveryId> = requested.keys().copied().collect();
        let mut known = self.with_statuses(scope, requested, Some(events)).await?;
        let mut found = Vec::new();
        for one in std::mem::take(&mut newest.found) {
            if ids.contains(&one.id) {
                // A delivery whose row has expired is omitted.
                found.extend(known.get(&one.id).cloned());
            } else if one.status.is_none() && window.may_show(selection, &one) {
                newest.read_to = Some(one.id.next());
                break;
            } else {
                found.push(one);
            }
        }
        newest.found = found;
        known.retain(|id, _| of_uncounted.contains(id));
        Ok(known)
    }

    /// Reads the rows of those deliveries whose status is not known. Removes deliveries whose rows have expired.
    async fn with_statuses(
        &self,
        scope: &ShardedScope,
        found: ById,
        events: Option<&mut Events>,
    ) -> Result<ById, StoreError> {
        let (known, unknown): (Vec<_>, Vec<_>) =
            found.into_values().partition(|found| found.status.is_some());
        let mut all = by_id(known.into_iter());
        if !unknown.is_empty() {
            all.extend(by_id(self.with_rows(&scope.scope, unknown, events).await?.into_iter()));
        }
        Ok(all)
    }

    /// Selects a page, and searches the older deliveries for those that are not among the newest ones.
    ///
    /// `known_uncounted`: see [`Scan::for_rest`].
    async fn complete_page(
        &self,
        scope: &ShardedScope,
        selection: &Selection,
        window: &Window,
        newest: &Newest,
        known_uncounted: &ById,
        events: &mut Events,
    ) -> Result<PageDraft, PageError> {
        let draft = select_page(newest.found.clone(), selection, window);
        match Scan::for_rest(&draft, selection, window, newest, known_uncounted) {
            Some(scan) => {
                let scanned = self.scan(scope, selection, &scan, events).await?;
                Ok(scanned.complete(draft))
            }
            None => Ok(draft),
        }
    }

    /// Searches the log for matches, from an id towards older ones. Reads the rows of the entries if the
    /// selection has a status.
    async fn scan(
        &self,
        scope: &ShardedScope,
        selection: &Selection,
        scan: &Scan,
        events: &mut Events,
    ) -> Result<ScanResult, StoreError> {
        let (wanted, is_by_status) = (scan.window.wanted(), selection.criteria.status.is_some());
        let (mut entries, mut start) = (scan.entries, scan.start);
        let (mut found, mut has_cursor, mut read_to) = (Vec::new(), false, None);
        for _query in 0..scan.queries {
            let limit =
                entries.take().unwrap_or(if is_by_status { ENTRIES_WITH_ROWS } else { ENTRIES_PER_QUERY });
            let range = (selection.from, start);
            let page = self.log(scope, range, Order::NewestFirst, limit).await?;
            has_cursor |= page.found.iter().any(|one| Some(one.id) == scan.window.after);
            let mut matching = page.found;
            matching.retain(|one| scan.window.may_show(selection, one));
            if is_by_status {
                matching = self.with_rows(&scope.scope, matching, Some(&mut *events)).await?;
                matching.retain(|one| selection.admits(one));
            }
            found.extend(matching);
            read_to = page.read_to;
            match read_to {
                Some(read_to) if found.len() < wanted => start = read_to.previous(),
                Some(_) | None => break,
            }
        }
        let more = found.len() >= wanted;
        let found = found.into_iter().skip(scan.window.skip).take(scan.window.limit).collect();
        Ok(ScanResult { found, more, read_to, has_cursor })
    }

    /// Reads a page of `PENDING` or `PROCESSING` deliveries. They are in the status list, except those whose
    /// first attempt is not over: these are after the checkpoint, and their rows are read. None of them is counted, so
    /// it does not matter if the counts are written meanwhile.
    async fn page_of_open(
        &self,
        scope: &ShardedScope,
        selection: &Selection,
        window: &Window,
        now: Timestamp,
    ) -> Result<Option<DeliveryPage>, PageError> {
        let (newest, listing) = tokio::try_join!(
            Box::pin(self.newest(scope, selection, now)),
            Box::pin(self.status_list(scope, selection))
        )?;
        let rest = self.remaining(scope, &newest).await?;
        let mut found = newest.uncounted(rest, listing.found);
        // Deliveries that can't match are not read.
        found.retain(|_, found| selection.admits(found));
        let mut events = Events::new();
        let found = self.with_statuses(scope, found, Some(&mut events)).await?;
        let total = as_u64(found.values().filter(|found| selection.admits(found)).count());
        let draft = select_page(found.into_values().rev().collect(), selection, window);
        self.complete_draft(scope, selection, draft, events, async { Ok(Some(total)) }).await
    }

    /// Reads a page of `FAILED` or `CANCELLED` deliveries. They are in the status list until they are
    /// counted, then in the done list. `None`: the counts were written between two reads, so the results may not
    /// agree.
    async fn page_of_failed_or_cancelled(
        &self,
        scope: &ShardedScope,
        status: DeliveryStatus,
        selection: &Selection,
        window: &Window,
        now: Timestamp,
        is_last: bool,
    ) -> Result<Option<DeliveryPage>, PageError> {
        let most = window.wanted().max(self.at_once(ENTRIES_PER_QUERY));
        let (from, to) =
            (bounds(Some(status), selection.from).0, last_key_in_status(status, window.start(selection)));
        let partition = Delivery::done_partition(&scope.scope);
        let counted =
            || Box::pin(self.store.list(ListIndex::All, &partition, (&from, &to), Order::NewestFirst, most));
        let (listing, mut counted_entries) =
            tokio::try_join!(Box::pin(self.status_list(scope, selection)), counted())?;
        let StatusList { found: listed, state } = listing;
        if state.marker.is_recent(now) {
            // Reads the done list again, now after the status list. A delivery that was counted during the
            // concurrent reads might be in neither result. In this order, it is in at least one.
            counted_entries = counted().await?;
        }
        let is_whole = counted_entries.len() < most;
        let counted: Vec<FoundDelivery> =
            counted_entries.into_iter().filter_map(FoundDelivery::of_list_entry).collect();
        let read_to = counted.last().map(|found| found.id).filter(|_| !is_whole);
        let uncounted_ids: BTreeSet<DeliveryId> = listed.iter().map(|found| found.id).collect();
        let mut found = by_id(counted.into_iter().chain(listed));
        let is_uncounted = |(id, _): &(&DeliveryId, &FoundDelivery)| uncounted_ids.contains(*id);
        let uncounted: ById = found.iter().filter(is_uncounted).map(|(id, one)| (*id, one.clone())).collect();
        if let Some(read_to) = read_to {
            found = found.split_off(&read_to);
        }
        let matches = found.values().filter(|found| selection.admits(found)).count();
        let mut draft = select_page(found.into_values().rev().collect(), selection, window);
        draft.next = draft.next.or(read_to);
        let total = async {
            if is_whole && window.after.is_none() {
                return Ok(Some(as_u64(matches)));
            }
            let (whole, parts) = selection.days();
            let loaded = Box::pin(self.load_counts(&scope.scope, selection.criteria.needs_breakdown()));
            let parts = Box::pin(self.count_partial_days(scope, parts, &uncounted));
            let (loaded, parts) = tokio::try_join!(loaded, parts)?;
            // The counts were read after the whole list, so they need not be read again.
            let state = ListState { is_long: false, ..state };
            if !self.is_consistent(scope, &loaded, state, is_last).await? {
                return Ok(None);
            }
            let counted = whole.map_or(0, |days| sum(&loaded.by_day(&selection.criteria, days)));
            let uncounted = count_in_days(&uncounted, selection, whole);
            Ok(Some(counted.saturating_add(uncounted).saturating_add(parts)))
        };
        self.complete_draft(scope, selection, draft, Events::new(), total).await
    }

    /// Whether the reads of the counts and of the list agree: no write was between them. The last read is
    /// always accepted, with a warning, so that lists can be read while the index is seconds behind its
    /// table.
    async fn is_consistent(
        &self,
        scope: &ShardedScope,
        loaded: &LoadedCounts,
        list: ListState,
        is_last: bool,
    ) -> Result<bool, StoreError> {
        let agree = |loaded: &LoadedCounts| loaded.counts.marker() == list.marker;
        // If the list took several requests, the counts may have been written between the one that read the
        // marker and the last one. So the marker of the counts is read again.
        let is_consistent =
            agree(loaded) && (!list.is_long || agree(&self.load_counts(&scope.scope, false).await?));
        if is_last && !is_consistent {
            tracing::warn!(scope = %scope.scope, "the list index is behind the counts of deliveries; totals may be wrong for a moment");
        }
        Ok(is_consistent || is_last)
    }

    /// Reads the counts and the newest deliveries.
    async fn newest(
        &self,
        scope: &ShardedScope,
        selection: &Selection,
        now: Timestamp,
    ) -> Result<Newest, StoreError> {
        let first_shown = counts::first_shown(now);
        let needs_breakdown = selection.criteria.needs_breakdown();
        let entries = if needs_breakdown { ENTRIES_PER_QUERY } else { NEWEST };
        let shown = (first_shown, DeliveryId::last_at(Timestamp::MAX));
        let (loaded, log) = tokio::try_join!(
            Box::pin(self.load_counts(&scope.scope, needs_breakdown)),
            Box::pin(self.log(scope, shown, Order::NewestFirst, entries))
        )?;
        let LogPage { found, read_to } = log;
        Ok(Newest { loaded, found, read_to, first_shown })
    }

    /// Reads the entries of the status list in the selection's status.
    async fn status_list(
        &self,
        scope: &ShardedScope,
        selection: &Selection,
    ) -> Result<StatusList, StoreError> {
        let (from, to) = bounds_with_marker(selection.criteria.status, selection.from);
        let partition = Delivery::partition(&scope.scope);
        let entries =
            self.store.list(ListIndex::All, &partition, (&from, &to), Order::NewestFirst, usize::MAX).await?;
        let marker = entries.iter().find_map(|entry| Marker::parse(&entry.sort)).unwrap_or_default();
        let status = selection.criteria.status;
        let is_long = entries.len() >= self.at_once(ENTRIES_PER_QUERY);
        let found = entries.into_iter().filter_map(FoundDelivery::of_list_entry);
        let found = found.filter(|found| status.is_none() || found.status == status).collect();
        Ok(StatusList { found, state: ListState { marker, is_long } })
    }

    /// Reads the uncounted deliveries after the checkpoint that are not among the newest deliveries already
    /// read. Usually there are none.
    async fn remaining(
        &self,
        scope: &ShardedScope,
        newest: &Newest,
    ) -> Result<Vec<FoundDelivery>, StoreError> {
        let (mut rest, mut before) = (Vec::new(), newest.unread_after_checkpoint());
        while let Some(read_to) = before {
            let range = (newest.uncounted_from(), read_to.previous());
            let page = self.log(scope, range, Order::NewestFirst, ENTRIES_PER_QUERY).await?;
            rest.extend(page.found.into_iter().filter(|found| newest.is_uncounted(found)));
            before = page.read_to;
        }
        Ok(rest)
    }

    /// Returns how many deliveries match on the days that a selection contains only in part. Takes about one
    /// request for every 3,000 deliveries.
    ///
    /// `uncounted`: the uncounted deliveries, with their statuses if the parts have a status.
    async fn count_partial_days(
        &self,
        scope: &ShardedScope,
        parts: Vec<Selection>,
        uncounted: &ById,
    ) -> Result<u64, StoreError> {
        let (first, second) = tokio::try_join!(
            Box::pin(self.count_part(scope, parts.first(), uncounted)),
            Box::pin(self.count_part(scope, parts.get(1), uncounted))
        )?;
        Ok(as_u64(first.saturating_add(second)))
    }

    /// Returns how many deliveries match in a part of a day, at most two of which a selection has.
    async fn count_part(
        &self,
        scope: &ShardedScope,
        part: Option<&Selection>,
        uncounted: &ById,
    ) -> Result<usize, StoreError> {
        let Some(part) = part else { return Ok(0) };
        let (mut matching, of_entries) = match part.criteria.status {
            // Counted deliveries with one of these statuses are in the done list.
            Some(status @ (DeliveryStatus::Failed | DeliveryStatus::Cancelled)) => {
                (self.done_in(scope, status, part).await?, BTreeSet::new())
            }
            // An open delivery is uncounted.
            Some(DeliveryStatus::Pending | DeliveryStatus::Processing) => (ById::new(), BTreeSet::new()),
            // All entries of the log match, except those of the done list and the uncounted ones.
            Some(DeliveryStatus::Delivered) => {
                let (failed, cancelled, mut ids) = tokio::try_join!(
                    Box::pin(self.done_in(scope, DeliveryStatus::Failed, part)),
                    Box::pin(self.done_in(scope, DeliveryStatus::Cancelled, part)),
                    Box::pin(self.ids_in(scope, part))
                )?;
                ids.retain(|id| {
                    !(failed.contains_key(id) || cancelled.contains_key(id) || uncounted.contains_key(id))
                });
                (ById::new(), ids)
            }
            None => return Ok(self.ids_in(scope, part).await?.len()),
        };
        matching.extend(uncounted.iter().map(|(id, found)| (*id, found.clone())));
        let matching = matching.values().filter(|found| part.admits(found)).count();
        Ok(matching.saturating_add(of_entries.len()))
    }

    /// Reads the entries of the done list in a status and in the range of a selection.
    async fn done_in(
        &self,
        scope: &ShardedScope,
        status: DeliveryStatus,
        part: &Selection,
    ) -> Result<ById, StoreError> {
        let (from, to) = (bounds(Some(status), part.from).0, last_key_in_status(status, part.to));
        let list = Delivery::done_partition(&scope.scope);
        let entries =
            self.store.list(ListIndex::All, &list, (&from, &to), Order::OldestFirst, usize::MAX).await?;
        Ok(by_id(entries.into_iter().filter_map(FoundDelivery::of_list_entry)))
    }

    /// Reads the ids of a range of the log that may match: the log has no statuses.
    async fn ids_in(
        &self,
        scope: &ShardedScope,
        part: &Selection,
    ) -> Result<BTreeSet<DeliveryId>, StoreError> {
        let (mut ids, mut from) = (BTreeSet::new(), part.from);
        loop {
            let range = (from, part.to);
            let page = self.log(scope, range, Order::OldestFirst, ENTRIES_PER_QUERY).await?;
            ids.extend(page.found.iter().filter(|found| part.admits(found)).map(|found| found.id));
            let Some(read_to) = page.read_to else { return Ok(ids) };
            from = read_to.next();
        }
    }

    /// Completes a draft: reads the bodies of its deliveries while `total` is computed. Omits deliveries whose
    /// rows have another status, because their entries in the `list` index were stale. Returns `None` if `total`
    /// is `None`: the counts were written between two reads.
    async fn complete_draft(
        &self,
        scope: &ShardedScope,
        selection: &Selection,
        draft: PageDraft,
        events: Events,
        total: impl Future<Output = Result<Option<u64>, StoreError>>,
    ) -> Result<Option<DeliveryPage>, PageError> {
        let PageDraft { found, next, unverified_cursor: unverified } = draft;
        let loaded = Box::pin(self.load_bodies(&scope.scope, found, events, unverified));
        let ((mut deliveries, cursor_exists), total) = tokio::try_join!(loaded, Box::pin(total))?;
        let Some(total) = total else { return Ok(None) };
        if !cursor_exists {
            return Err(PageError::UnknownCursor("a delivery of this account and mode"));
        }
        let status = selection.criteria.status;
        deliveries.retain(|(delivery, _)| status.is_none_or(|status| delivery.status == status));
        Ok(Some(DeliveryPage { deliveries, total, next }))
    }

    /// Reads in one batch the events of a page, unless they are among `events`, the rows of deliveries of which
    /// only an entry was read, and the row of `unverified`. Returns the deliveries with their bodies in the
    /// page's order, and whether `unverified` exists.
    async fn load_bodies(
        &self,
        scope: &Scope,
        page: Vec<FoundDelivery>,
        mut events: Events,
        unverified: Option<DeliveryId>,
    ) -> Result<(Vec<(Delivery, Option<String>)>, bool), StoreError> {
        let unread = page.iter().filter(|found| !events.contains_key(&found.event));
        let mut keys = event_keys(scope, unread);
        keys.extend(page.iter().filter(|found| found.row.is_none()).map(|found| found.key.clone()));
        keys.extend(unverified.map(|id| Delivery::key_of(scope, id)));
        let mut rows = HashMap::new();
        if !keys.is_empty() {
            for item in self.store.batch_get(&keys).await? {
                sort_in(item, &mut rows, &mut events);
            }
        }
        let cursor_exists = unverified.is_none_or(|id| rows.contains_key(&id));
        let with_body = |found: FoundDelivery| {
            let delivery = *found.row.or_else(|| rows.remove(&found.id)?.row)?;
            let body =
                events.get(&delivery.event).and_then(|event| event.as_ref()?.body_as(delivery.event_type));
            Some((delivery, body))
        };
        Ok((page.into_iter().filter_map(with_body).collect(), cursor_exists))
    }
}

/// Parses a delivery's row. Logs an error and returns `None` if it can't: one bad row must not hide the other
/// deliveries.
pub(super) fn parse_or_log(item: Item) -> Option<Delivery> {
    from_item(item).map_err(|error| tracing::error!(%error, "can't read a delivery; it is skipped")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_thirty_times_more_at_most() {
        let is_last = |reads| FailedReads(reads).is_next_last();
        assert!(!is_last(0) && !is_last(29) && is_last(30));
    }
}
