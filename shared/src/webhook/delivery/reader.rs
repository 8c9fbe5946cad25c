//! Reads pages and numbers of a scope's deliveries. With [`super::counts`] and [`super::place`] the only module that knows
//! where deliveries are stored, listed and counted: callers see [`Deliveries::page`] and [`Deliveries::tally`].
//!
//! There are three sources. The scope's partition has all rows, newest first, after the rows of the counts; a page of all
//! deliveries or of `DELIVERED` ones is read there. The index lists the deliveries that did not succeed at once by status,
//! with what they are filtered by in the key, and lists `FAILED` and `CANCELLED` ones apart once they are counted. The counts
//! have what is done, by day, event type and endpoint.
//!
//! A total is the sum of three numbers: what is counted, what is listed and not counted, and the rows behind the checkpoint.
//! The first two are read side by side, so [`Marker`] in the index shows whether a count was written in between; then they
//! are read again. Listed and unlisted deliveries are joined by id, so that one that was listed between the reads is
//! counted once. An index of DynamoDB is a moment behind its table: a delivery that was just listed or counted may be
//! missing or be counted twice for that moment, unless its row is among the newest, which are read from the table itself.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;

use domain::calendar::Day;
use domain::ids::{DeliveryId, Scope};
use domain::row::Key;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;

use super::attempt::word;
use super::counts::{self, Book, Criteria};
use super::found::{
    ById, Draft, Found, Scan, Scanned, Selection, Window, as_u64, by_id, left_by_day, on_page, read, sum,
    within,
};
use super::place::{Marker, Place, bounds, bounds_with_marker, last_place};
use super::{Deliveries, Delivery, DeliveryStatus};
use crate::random;
use crate::store::{
    Item, ListIndex, Order, PageError, StoreError, from_item, key_attributes, key_of_item, text, unavailable,
};
use crate::webhook::event::Event;

/// Newest rows that are looked through for deliveries that wait for their first attempt, or have it: those of some minutes.
const NEWEST: usize = 1_000;

/// Rows of the counts at most: a scope's, and those of the days that are shown or not yet removed, some.
const ROWS_OF_COUNTS: usize = 100;

/// Entries of the index that one request reads at least: 1 MB (DynamoDB), and an entry has under 300 bytes.
const ENTRIES_OF_A_QUERY: usize = 3_000;

/// Entries whose event type is not in their keys, for an earlier version wrote them, that are read for a page: one request.
/// Of more, the page is read from rows.
const MAX_OUTDATED: usize = 100;

/// Queries of a page of `DELIVERED` after the first. A page by event type or endpoint makes one, which keeps it within five
/// requests.
const MAX_SCANS: usize = 3;

/// How often numbers are read again because a count was written in between, with a pause of up to 5 ms more each time: some
/// two seconds in all.
const MAX_READS: u64 = 30;
const PAUSE_MS: u64 = 5;

/// How long after a count was written the two lists of the index are read one after the other, in milliseconds. Clocks of
/// two functions are less than that apart.
const RECENTLY_MS: i64 = 10_000;

/// A page of deliveries, each with the body that is sent, where that is still kept.
#[derive(Debug)]
pub struct DeliveryPage {
    pub(super) deliveries: Vec<(Delivery, Option<String>)>,
    pub(super) total: u64,
    /// The delivery that the next page begins after; `None`: there is no next page.
    pub(super) next: Option<DeliveryId>,
}

/// Deliveries by status.
pub(super) type Tally = Vec<(DeliveryStatus, u64)>;

/// What is read of the top of a scope's partition: the counts, and the newest rows that were asked for.
struct Top {
    book: Book,
    rows: Vec<Seen>,
    /// The sort key of the last row that was looked at; `None`: all that are shown were.
    looked_to: Option<String>,
    /// Not after any delivery that is shown.
    first_shown: DeliveryId,
}

/// A row, and whether it is in the list of its scope.
#[derive(Clone)]
struct Seen {
    delivery: Delivery,
    in_list: bool,
}

impl Top {
    fn is_whole(&self) -> bool {
        self.looked_to.is_none()
    }

    /// Before which row the others that are uncounted and unlisted are; `None`: there are none.
    fn looked_short(&self) -> Option<&str> {
        let from = self.uncounted_from();
        self.looked_to.as_deref().filter(|looked_to| *looked_to > from.as_str())
    }

    /// The first sort key that a delivery that is uncounted and unlisted, and shown, can have.
    fn uncounted_from(&self) -> String {
        counts::after(self.book.counts.up_to).max(self.first_shown.to_string())
    }
}

/// What the index lists of a scope.
struct Listing {
    places: Vec<Place>,
    marker: Marker,
    /// Entries that were read, those in other statuses too.
    read: usize,
}

/// How a page is read.
#[derive(Clone, Copy)]
struct How {
    now: Timestamp,
    /// From rows, for the index can't be used.
    from_rows: bool,
    /// Not again, whatever was written meanwhile.
    is_last: bool,
}

/// A total, unless it can't be had so.
enum Total {
    Is(u64),
    Moved,
    FromRows,
}

/// How a read ended.
enum Attempt {
    Read(DeliveryPage),
    /// A count was written meanwhile: the numbers do not belong together.
    Moved,
    /// The page can only be read from rows.
    FromRows,
}

impl Deliveries {
    /// A page of a scope's deliveries, newest first.
    ///
    /// # Errors
    ///
    /// When the page is to begin after a delivery that does not exist.
    pub(super) async fn page(
        &self,
        scope: &Scope,
        selection: &Selection,
        window: &Window,
        now: Timestamp,
    ) -> Result<DeliveryPage, PageError> {
        let selection = Selection { from: selection.from.max(counts::first_shown(now)), ..*selection };
        // A page that begins after something newer than all that is selected begins with the newest of that.
        let after = window.after.filter(|after| *after <= selection.to);
        let window = Window { after, ..*window };
        if selection.from > selection.to || after.is_some_and(|after| after < selection.from) {
            let total = match after {
                // What the page would follow is shown no more.
                Some(_) if selection.from <= selection.to => {
                    let first = Window { after: None, skip: 0, limit: 1 };
                    Box::pin(self.page_of(scope, &selection, &first, now)).await?.total
                }
                _ => 0,
            };
            return Ok(DeliveryPage { deliveries: Vec::new(), total, next: None });
        }
        self.page_of(scope, &selection, &window, now).await
    }

    async fn page_of(
        &self,
        scope: &Scope,
        selection: &Selection,
        window: &Window,
        now: Timestamp,
    ) -> Result<DeliveryPage, PageError> {
        let (mut made, mut from_rows) = (0, false);
        loop {
            pause(made).await;
            let how = How { now, from_rows, is_last: made >= MAX_READS };
            // Boxed, for a query takes kilobytes.
            let attempt = match selection.criteria.status {
                Some(status @ (DeliveryStatus::Pending | DeliveryStatus::Processing)) if !from_rows => {
                    Box::pin(self.among_open(scope, status, selection, window, how)).await?
                }
                Some(status @ (DeliveryStatus::Failed | DeliveryStatus::Cancelled)) if !from_rows => {
                    Box::pin(self.among_given_up(scope, status, selection, window, how)).await?
                }
                _ => Box::pin(self.among_rows(scope, selection, window, how)).await?,
            };
            match attempt {
                Attempt::Read(page) => return Ok(page),
                Attempt::Moved => made = made.saturating_add(1),
                Attempt::FromRows => from_rows = true,
            }
        }
    }

    /// How many of a scope's deliveries are in which status.
    pub(super) async fn tally(&self, scope: &Scope, now: Timestamp) -> Result<Tally, StoreError> {
        let mut made = 0;
        loop {
            pause(made).await;
            let selection = Selection {
                criteria: Criteria::default(),
                from: counts::first_shown(now),
                to: DeliveryId::last_at(Timestamp::MAX),
            };
            let (top, listing) = tokio::try_join!(
                Box::pin(self.top(scope, &selection, Sample::newest(), now)),
                Box::pin(self.listing(scope, &selection))
            )?;
            let count = |rows: &ById, status| {
                as_u64(
                    rows.values().filter(|found| found.status() == status && selection.admits(found)).count(),
                )
            };
            if top.is_whole() {
                let rows = by_id(top.rows.into_iter().map(|seen| read(seen.delivery)));
                return Ok(DeliveryStatus::all().map(|status| (status, count(&rows, status))).collect());
            }
            made = made.saturating_add(1);
            if !self.belong_together(scope, &top.book, &listing, made > MAX_READS).await? {
                continue;
            }
            let rest = self.rest(scope, &top, &selection).await?;
            let uncounted = uncounted(&top, rest, listing);
            let of = |status| {
                let criteria = Criteria { status: Some(status), ..Criteria::default() };
                let counted =
                    sum(&top.book.by_day(&criteria, (counts::first_day(now), Day::of(Timestamp::MAX))));
                // Nothing is counted in an open status, and `by_day` of it is 0.
                (status, counted.saturating_add(count(&uncounted, status)))
            };
            return Ok(DeliveryStatus::all().map(of).collect());
        }
    }

    /// A page of all, or of those that were delivered, which nearly all are; or of any, where the index can't be used.
    async fn among_rows(
        &self,
        scope: &Scope,
        selection: &Selection,
        window: &Window,
        how: How,
    ) -> Result<Attempt, PageError> {
        let now = how.now;
        let is_filtered = selection.criteria.status.is_some() || selection.criteria.is_by_kind();
        let is_at_top = window.after.is_none() && selection.to >= DeliveryId::last_at(now);
        let sample = match (is_filtered, is_at_top) {
            (true, _) => Sample { cursor: window.after, ..Sample::newest() },
            (false, true) => Sample { rows: window.wanted(), wanted: window.wanted(), cursor: None },
            (false, false) => Sample::newest(),
        };
        let start = window.after.map_or(selection.to, |after| after.min(selection.to));
        let scan = Scan {
            before: start,
            after: window.after,
            skip: window.skip,
            limit: window.limit,
            // Unfiltered, what is read is what is wanted, and the row that the page follows.
            rows: Some(window.wanted().saturating_add(1)),
            queries: usize::MAX,
        };
        let scanned = async {
            let is_needed = !is_filtered && !is_at_top;
            if is_needed { self.scan(scope, selection, &scan).await.map(Some) } else { Ok(None) }
        };
        let (top, listing, scanned) = tokio::try_join!(
            Box::pin(self.top(scope, selection, sample, now)),
            Box::pin(self.listing(scope, selection)),
            Box::pin(scanned)
        )?;
        let from_rows = how.from_rows || (selection.criteria.is_by_kind() && !top.book.counts.is_by_kind());
        if top.is_whole() {
            let all: Vec<Found> = top.rows.into_iter().map(|seen| read(seen.delivery)).collect();
            let total = all.iter().filter(|found| selection.admits(found)).count();
            let draft = on_page(all, selection, window);
            return self.with_total(scope, draft, async { Ok(Total::Is(as_u64(total))) }).await;
        }
        if !from_rows && !self.belong_together(scope, &top.book, &listing, how.is_last).await? {
            return Ok(Attempt::Moved);
        }
        let mut listed = uncounted(&top, Vec::new(), listing);
        if !from_rows && !self.resolve(scope, selection, &mut listed).await? {
            return Ok(Attempt::FromRows);
        }
        let draft = if let Some(scanned) = scanned {
            scanned.below(Vec::new(), window.after)
        } else {
            let listed = (!from_rows).then_some(&listed);
            Box::pin(self.after_top(scope, selection, window, &top, listed)).await?
        };
        let total = async {
            if from_rows {
                return self.count_rows(scope, selection, now).await.map(Total::Is);
            }
            let rest = self.rest(scope, &top, selection);
            let (whole, parts) = selection.days();
            let (rest, parts) = tokio::try_join!(Box::pin(rest), Box::pin(self.parts(scope, parts)))?;
            let mut uncounted = listed;
            uncounted.extend(by_id(rest.into_iter().map(|seen| read(seen.delivery))));
            let counted = whole.map_or(0, |days| sum(&top.book.by_day(&selection.criteria, days)));
            let uncounted = within(&uncounted, selection, whole);
            Ok(Total::Is(counted.saturating_add(uncounted).saturating_add(parts)))
        };
        self.with_total(scope, draft, total).await
    }

    /// The rest of a page whose deliveries are not all among the newest rows: from where the counts say that it lies.
    /// `listed`: the deliveries that are not counted; `None`: the counts can't be used.
    async fn after_top(
        &self,
        scope: &Scope,
        selection: &Selection,
        window: &Window,
        top: &Top,
        listed: Option<&ById>,
    ) -> Result<Draft, PageError> {
        let all: Vec<Found> = top.rows.iter().map(|seen| read(seen.delivery.clone())).collect();
        let start = window.after.map_or(selection.to, |after| after.min(selection.to));
        let looked_to = top.looked_to.as_deref().map_or(selection.from, before_row);
        let is_in_top = looked_to < start;
        let draft = on_page(all.clone(), selection, window);
        let is_after = |found: &&Found| window.after.is_none_or(|after| found.id() < after);
        let matching = all.iter().filter(|found| selection.admits(found)).filter(is_after).count();
        if draft.next.is_some() || looked_to < selection.from {
            return Ok(draft);
        }
        let scan = Scan {
            before: start.min(looked_to),
            after: window.after.filter(|_| !is_in_top),
            skip: window.skip.saturating_sub(matching),
            limit: window.limit.saturating_sub(draft.found.len()),
            rows: None,
            queries: match listed {
                None => usize::MAX,
                Some(_) if selection.criteria.is_by_kind() => 1,
                Some(_) => MAX_SCANS,
            },
        };
        // Rows behind the checkpoint are in no number yet, so that none of them is passed over.
        let scan = match listed.filter(|_| top.looked_short().is_none()) {
            Some(listed) => {
                let left = left_by_day(&top.book, listed, &all, selection);
                let done =
                    top.book.by_day(&Criteria::default(), (Day::of(Timestamp::MIN), Day::of(Timestamp::MAX)));
                let moved = scan.moved_on(&left, selection, is_in_top);
                // A page by number is not to be short where one query makes it.
                let may_be_short = window.after.is_some() || scan.queries > 1;
                moved.map(|scan| if may_be_short { scan.where_dense(&left, &done) } else { scan })
            }
            None => Some(scan),
        };
        let Some(scan) = scan else { return Ok(draft) };
        let scanned = self.scan(scope, selection, &scan).await?;
        let unproved = if is_in_top { draft.unproved } else { window.after.filter(|_| !scanned.is_proved) };
        Ok(Draft { unproved, ..scanned.below(draft.found, None) })
    }

    /// Matching rows from an id down, after those that are skipped.
    async fn scan(&self, scope: &Scope, selection: &Selection, scan: &Scan) -> Result<Scanned, StoreError> {
        let wanted = scan.wanted();
        let query = self.between(scope, &selection.from.to_string(), &scan.before.to_string());
        let query = filtered(query, &selection.criteria, scan.after);
        let mut rows = scan.rows;
        let (mut found, mut is_proved, mut after) = (Vec::new(), scan.after.is_none(), None);
        for _query in 0..scan.queries {
            let limit = self.rows_of_a_query(rows.take());
            let page = query.clone().set_limit(limit).set_exclusive_start_key(after).send().await;
            let page = page.map_err(unavailable)?;
            let read = page.items.unwrap_or_default().into_iter().filter_map(readable).map(read);
            // Reading a row takes longer than getting it.
            for row in read {
                is_proved |= scan.after == Some(row.id());
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
        let looked_to = after.as_ref().and_then(|key| text(key, "sk")).and_then(|sort| sort.parse().ok());
        let found = found.into_iter().skip(scan.skip).take(scan.limit).collect();
        Ok(Scanned { found, more, looked_to, is_proved })
    }

    /// A page of those that are not done: they are listed, but for those whose first attempt is not over. None of them is
    /// counted, so no count that is written meanwhile matters.
    async fn among_open(
        &self,
        scope: &Scope,
        status: DeliveryStatus,
        selection: &Selection,
        window: &Window,
        how: How,
    ) -> Result<Attempt, PageError> {
        // A row that moved on since its entry was read says so.
        let any_status = Criteria { status: None, ..selection.criteria };
        let sampled = Selection { criteria: any_status, ..*selection };
        let (top, listing) = tokio::try_join!(
            Box::pin(self.top(scope, &sampled, Sample { cursor: window.after, ..Sample::newest() }, how.now)),
            Box::pin(self.listing(scope, selection))
        )?;
        let found = if top.is_whole() {
            by_id(top.rows.into_iter().map(|seen| read(seen.delivery)))
        } else {
            let rest = self.rest(scope, &top, &sampled).await?;
            let mut found = uncounted(&top, rest, listing);
            if !self.resolve(scope, selection, &mut found).await? {
                return Ok(Attempt::FromRows);
            }
            found
        };
        let total = as_u64(found.values().filter(|found| selection.admits(found)).count());
        let draft = on_page(found.into_values().rev().collect(), selection, window);
        let page = self.with_total(scope, draft, async { Ok(Total::Is(total)) }).await?;
        Ok(of_status(page, status))
    }

    /// A page of those that are not tried again: they are in the list of their scope, and in another after they were counted.
    async fn among_given_up(
        &self,
        scope: &Scope,
        status: DeliveryStatus,
        selection: &Selection,
        window: &Window,
        how: How,
    ) -> Result<Attempt, PageError> {
        let most = window.wanted().max(self.at_once(ENTRIES_OF_A_QUERY));
        let to = window.after.map_or(selection.to, |after| after.min(selection.to));
        let (from, to) = (bounds(Some(status), selection.from).0, last_place(status, to));
        let partition = Delivery::done_partition(scope);
        let counted =
            || Box::pin(self.store.list(ListIndex::All, &partition, (&from, &to), Order::NewestFirst, most));
        let (listing, mut counted_places) =
            tokio::try_join!(Box::pin(self.listing(scope, selection)), counted())?;
        if listing.marker.at.is_some_and(|at| how.now.millis_since(at) < RECENTLY_MS) {
            // One that was counted between the two reads would be in neither; read in this order, it is in one at least.
            counted_places = counted().await?;
        }
        let is_whole = counted_places.len() < most;
        let looked_to = counted_places.last().and_then(|entry| Some(Place::parse(&entry.sort)?.id));
        let places = counted_places.iter().filter_map(|entry| Place::parse(&entry.sort));
        let uncounted = by_id(listing.places.iter().cloned().map(Found::Listed));
        let mut found = by_id(places.map(Found::Listed));
        found.extend(uncounted.clone());
        if let Some(looked_to) = looked_to.filter(|_| !is_whole) {
            found = found.split_off(&looked_to);
        }
        if !self.resolve(scope, selection, &mut found).await? {
            return Ok(Attempt::FromRows);
        }
        let matches = found.values().filter(|found| selection.admits(found)).count();
        let mut draft = on_page(found.into_values().rev().collect(), selection, window);
        if !is_whole {
            draft.next = draft.next.or(looked_to);
        }
        let total = async {
            if is_whole && window.after.is_none() {
                return Ok(Total::Is(as_u64(matches)));
            }
            let is_by_kind = selection.criteria.is_by_kind();
            let (whole, parts) = selection.days();
            let book = Box::pin(self.book(scope, is_by_kind));
            let (book, parts) = tokio::try_join!(book, Box::pin(self.parts(scope, parts)))?;
            let mut uncounted = uncounted;
            if is_by_kind && !book.counts.is_by_kind()
                || !self.resolve(scope, selection, &mut uncounted).await?
            {
                return Ok(Total::FromRows);
            }
            if book.counts.marker() != listing.marker && !how.is_last {
                return Ok(Total::Moved);
            }
            let counted = whole.map_or(0, |days| sum(&book.by_day(&selection.criteria, days)));
            let uncounted = within(&uncounted, selection, whole);
            Ok(Total::Is(counted.saturating_add(uncounted).saturating_add(parts)))
        };
        let page = self.with_total(scope, draft, total).await?;
        Ok(of_status(page, status))
    }

    /// Reads the rows of entries whose keys do not say what they are filtered by. `false`: there are too many.
    async fn resolve(
        &self,
        scope: &Scope,
        selection: &Selection,
        found: &mut ById,
    ) -> Result<bool, StoreError> {
        if !selection.criteria.is_by_kind() {
            return Ok(true);
        }
        let outdated = found.values().filter(|one| one.kind().is_none() && selection.admits(one));
        let keys: Vec<Key> = outdated.map(|one| Delivery::key_of(scope, one.id())).collect();
        if keys.len() > MAX_OUTDATED {
            return Ok(false);
        }
        let rows = if keys.is_empty() { Vec::new() } else { self.store.batch_get(&keys).await? };
        found.extend(by_id(rows.into_iter().filter_map(readable).map(read)));
        Ok(true)
    }

    /// Whether no count was written between the reads of the counts and of the list. The last read is taken as it is: an
    /// index that is seconds behind must not keep lists away.
    async fn belong_together(
        &self,
        scope: &Scope,
        book: &Book,
        listing: &Listing,
        is_last: bool,
    ) -> Result<bool, StoreError> {
        let mut marker = book.counts.marker();
        if marker == listing.marker && listing.read >= ENTRIES_OF_A_QUERY {
            // The list took several requests, of which one has the marker: what it read after that may be of a later count.
            marker = self.book(scope, false).await?.counts.marker();
        }
        let belong_together = marker == listing.marker;
        if is_last && !belong_together {
            tracing::warn!(%scope, "the index is behind the counts of deliveries: numbers may be off");
        }
        Ok(belong_together || is_last)
    }

    /// The counts and the newest rows.
    async fn top(
        &self,
        scope: &Scope,
        selection: &Selection,
        sample: Sample,
        now: Timestamp,
    ) -> Result<Top, StoreError> {
        let first_shown = counts::first_shown(now);
        let criteria = &selection.criteria;
        let first_sort = if criteria.is_by_kind() { counts::SORT_WITH_DAYS } else { counts::SORT };
        let query = self.between(scope, &first_shown.to_string(), first_sort);
        let query = filtered(query, criteria, sample.cursor);
        let mut top = Top { book: Book::new(*scope), rows: Vec::new(), looked_to: None, first_shown };
        let mut after = None;
        let partition = Delivery::partition(scope);
        loop {
            let limit = self.rows_of_a_query(Some(sample.limit(top.rows.len(), criteria.is_by_kind())));
            let page = query.clone().set_limit(limit).set_exclusive_start_key(after).send().await;
            let page = page.map_err(unavailable)?;
            for item in page.items.unwrap_or_default() {
                let Some(item) = top.book.take(item)? else { continue };
                let in_list = text(&item, "list_pk").is_some_and(|list| list == partition);
                top.rows.extend(readable(item).map(|delivery| Seen { delivery, in_list }));
            }
            after = page.last_evaluated_key;
            top.looked_to = after.as_ref().and_then(|key| text(key, "sk"));
            let is_before_counts = top.looked_to.as_deref().is_some_and(|sort| sort > counts::SORT);
            if after.is_none() || (top.rows.len() >= sample.wanted && !is_before_counts) {
                return Ok(top);
            }
        }
    }

    /// What is listed in the selection's status and not counted.
    async fn listing(&self, scope: &Scope, selection: &Selection) -> Result<Listing, StoreError> {
        let (from, to) = bounds_with_marker(selection.criteria.status, selection.from);
        let partition = Delivery::partition(scope);
        let entries =
            self.store.list(ListIndex::All, &partition, (&from, &to), Order::NewestFirst, usize::MAX).await?;
        let marker = entries.iter().find_map(|entry| Marker::parse(&entry.sort)).unwrap_or_default();
        let status = selection.criteria.status;
        let places = entries.iter().filter_map(|entry| Place::parse(&entry.sort));
        let places = places.filter(|place| status.is_none_or(|status| status == place.status)).collect();
        Ok(Listing { places, marker, read: entries.len() })
    }

    /// The other rows behind the checkpoint, where the newest did not include them: none, unless more than a thousand deliveries
    /// were made in some minutes.
    async fn rest(&self, scope: &Scope, top: &Top, selection: &Selection) -> Result<Vec<Seen>, StoreError> {
        let Some(before) = top.looked_short() else { return Ok(Vec::new()) };
        let partition = Delivery::partition(scope);
        let key = Key { pk: partition.clone(), sk: before.to_owned() };
        let query = self.between(scope, &top.uncounted_from(), counts::SORT);
        let mut query =
            filtered(query, &selection.criteria, None).set_exclusive_start_key(Some(key_attributes(&key)));
        let mut rest = Vec::new();
        loop {
            let page = query.clone().send().await.map_err(unavailable)?;
            for item in page.items.unwrap_or_default() {
                let in_list = text(&item, "list_pk").is_some_and(|list| list == partition);
                let seen = readable(item).map(|delivery| Seen { delivery, in_list });
                rest.extend(seen.filter(|seen| !seen.delivery.listed || seen.in_list));
            }
            if page.last_evaluated_key.is_none() {
                return Ok(rest);
            }
            query = query.set_exclusive_start_key(page.last_evaluated_key);
        }
    }

    /// How many matching rows parts of days have: one request for every 1,500 deliveries of them, some.
    async fn parts(&self, scope: &Scope, parts: Vec<Selection>) -> Result<u64, StoreError> {
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
        self.store.count_all(filtered(query, &part.criteria, None)).await.map(as_u64)
    }

    /// How many rows match, each looked at: until the scheduler has counted by event type and endpoint what an earlier version
    /// counted without, which this asks for.
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

    /// A page's bodies, read beside its total.
    async fn with_total(
        &self,
        scope: &Scope,
        draft: Draft,
        total: impl Future<Output = Result<Total, StoreError>>,
    ) -> Result<Attempt, PageError> {
        let Draft { found, next, unproved } = draft;
        let loaded = Box::pin(self.loaded(scope, found, unproved));
        let ((deliveries, is_proved), total) = tokio::try_join!(loaded, Box::pin(total))?;
        let total = match total {
            Total::Is(total) => total,
            Total::Moved => return Ok(Attempt::Moved),
            Total::FromRows => return Ok(Attempt::FromRows),
        };
        if !is_proved {
            return Err(PageError::UnknownCursor("a delivery of this account and mode"));
        }
        Ok(Attempt::Read(DeliveryPage { deliveries, total, next }))
    }

    /// Deliveries of a page with their bodies, in its order: the rows and events that are missing are read at once, with that of
    /// the delivery whose existence is to be proved.
    async fn loaded(
        &self,
        scope: &Scope,
        page: Vec<Found>,
        unproved: Option<DeliveryId>,
    ) -> Result<(Vec<(Delivery, Option<String>)>, bool), StoreError> {
        let mut keys: Vec<Key> = page.iter().map(|found| Event::key_of(scope, found.event())).collect();
        keys.sort_by(|left, right| left.sk.cmp(&right.sk));
        keys.dedup();
        let missing = page.iter().filter(|found| matches!(found, Found::Listed(_))).map(Found::id);
        keys.extend(missing.chain(unproved).map(|id| Delivery::key_of(scope, id)));
        let (mut events, mut rows) = (HashMap::new(), HashMap::new());
        for item in self.store.batch_get(&keys).await? {
            if key_of_item(&item).as_ref().is_some_and(Delivery::is_at) {
                rows.extend(readable(item).map(|delivery| (delivery.id, delivery)));
            } else {
                // One that can't be read must not hide the others.
                match from_item::<Event>(item) {
                    Ok(event) => drop(events.insert(event.id, event)),
                    Err(error) => tracing::error!(%error, "an event can't be read"),
                }
            }
        }
        let is_proved = unproved.is_none_or(|id| rows.contains_key(&id));
        let with_body = |found: Found| {
            let delivery = match found {
                Found::Read(delivery) => *delivery,
                Found::Listed(place) => rows.remove(&place.id)?,
            };
            let body = events.get(&delivery.event).map(|event| event.body_as(delivery.event_type));
            Some((delivery, body))
        };
        Ok((page.into_iter().filter_map(with_body).collect(), is_proved))
    }
}

/// How much is read of the top of a partition.
#[derive(Clone, Copy)]
struct Sample {
    /// Rows that are looked at.
    rows: usize,
    /// Rows that are wanted: with fewer, the next request follows.
    wanted: usize,
    /// A row that is read whether it matches or not.
    cursor: Option<DeliveryId>,
}

impl Sample {
    fn newest() -> Self {
        Self { rows: NEWEST, wanted: 0, cursor: None }
    }

    /// The limit of the next request, with room for the rows of the counts before them.
    fn limit(&self, read: usize, with_days: bool) -> usize {
        let counts = if with_days { ROWS_OF_COUNTS } else { 1 };
        self.rows.saturating_sub(read).saturating_add(counts)
    }
}

/// The id below a row's, or the last of all where the row is one of the counts.
fn before_row(sort: &str) -> DeliveryId {
    sort.parse().map_or(DeliveryId::last_at(Timestamp::MAX), DeliveryId::previous)
}

/// The deliveries that are not counted: those that are listed, and of the rows those that are listed or behind the checkpoint.
/// A row is newer than an entry of the index.
fn uncounted(top: &Top, rest: Vec<Seen>, listing: Listing) -> ById {
    let mut found = by_id(listing.places.into_iter().map(Found::Listed));
    let up_to = top.book.counts.up_to;
    let rows = top
        .rows
        .iter()
        .filter(|seen| if seen.delivery.listed { seen.in_list } else { Some(seen.delivery.id) > up_to });
    found.extend(by_id(rows.cloned().chain(rest).map(|seen| read(seen.delivery))));
    found
}

/// The index is a moment behind: those of a page that are in another status by now are left out.
fn of_status(attempt: Attempt, status: DeliveryStatus) -> Attempt {
    match attempt {
        Attempt::Read(mut page) => {
            page.deliveries.retain(|(delivery, _)| delivery.status == status);
            Attempt::Read(page)
        }
        other @ (Attempt::Moved | Attempt::FromRows) => other,
    }
}

/// One that can't be read must not hide the others.
pub(super) fn readable(item: Item) -> Option<Delivery> {
    from_item(item).map_err(|error| tracing::error!(%error, "a delivery can't be read")).ok()
}

/// Leaves out rows that do not match, but for those of the counts, which have no event type, and the row of `cursor`.
fn filtered(
    query: QueryFluentBuilder,
    criteria: &Criteria,
    cursor: Option<DeliveryId>,
) -> QueryFluentBuilder {
    let mut query = query;
    let mut conditions = Vec::new();
    if let Some(status) = criteria.status {
        conditions.push("#status = :status");
        query = query.expression_attribute_names("#status", "status");
        query = query.expression_attribute_values(":status", word(status));
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

async fn pause(reads: u64) {
    let ceiling_ms = reads.saturating_mul(PAUSE_MS);
    if ceiling_ms > 0 {
        tokio::time::sleep(Duration::from_millis(
            random::below(ceiling_ms.saturating_add(1)).saturating_add(PAUSE_MS),
        ))
        .await;
    }
}
