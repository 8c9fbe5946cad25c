//! Reads pages of a scope's deliveries, and their numbers, in rounds of concurrent requests:
//!
//! 1. the counts, the open deliveries in `list`, the newest entries of the log; for `FAILED` and `CANCELLED`, the
//!    deliveries in that status in `list`;
//! 2. the rows of the newest unlisted deliveries, which may be in their first attempt; the endpoints, which show
//!    which deliveries are abandoned; and usually all rows of the page;
//! 3. the rows of the page that were not read yet. A page of the log that is not among the newest entries takes more.
//!
//! A delivery in its first attempt is not listed, because that would cost a write unit. Beyond the newest
//! [`NEW_ROWS`], it is *unknown*, and counted as `PENDING`, until a count reads its row ([`super::counts`]). A page by
//! status that may lack such deliveries says so.

mod recent;

pub use recent::{DayFigures, RecentDeliveries, RecentFilter};

use std::collections::BTreeMap;

use domain::calendar::Day;
use domain::ids::{ChargeId, DeliveryId, EndpointId, Scope};
use domain::row::Key;
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;

use super::counts::{self, Tally, first_day};
use super::entry::Entry;
use super::log::{ENTRIES_PER_QUERY, IdRange, LogPage, rows_of};
use super::rows::Rows;
use super::{Deliveries, Delivery, DeliveryFilter, DeliveryStats, DeliveryStatus};
use crate::webhook::endpoint::Endpoint;
use crate::webhook::event::charge_of_body;
use shared::checkpoint::Loaded;
use shared::store::{ListIndex, Order, PageError, Result};

/// The most unlisted deliveries whose rows are read for numbers and pages by status. With the rows and events of 25
/// deliveries and some endpoints, they are one request.
pub(super) const NEW_ROWS: usize = 40;

/// How many further deliveries a page of `DELIVERED` ones considers at first: as many of the newest may be in another
/// status.
const SPARE: usize = 14;

/// How many rows of the log a page of `DELIVERED` ones reads next, to find its deliveries, and how often.
const MORE_ROWS: usize = 100;
const MAX_MORE: usize = 3;

/// The most queries of the log for a page, after the newest entries. A page that needs more ends early, with a cursor.
const MAX_QUERIES: usize = 3;

/// The most further queries for the entries after the checkpoint. Within a minute after the last change, the
/// stored sums contain them.
const MAX_QUERIES_FOR_COUNT: usize = 4;

/// The deliveries that match a request's filters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection {
    pub(super) status: Option<DeliveryStatus>,
    pub(super) event_type: Option<EventType>,
    pub(super) endpoint: Option<EndpointId>,
    /// Both days are included. They are whole days, as the counts are.
    pub(super) first: Day,
    pub(super) last: Day,
}

impl Selection {
    pub(super) fn shown(now: Timestamp) -> Self {
        let (first, last) = (first_day(now), Day::of(Timestamp::MAX));
        Self { status: None, event_type: None, endpoint: None, first, last }
    }

    pub(super) fn admits_day(&self, day: Day) -> bool {
        (self.first..=self.last).contains(&day)
    }

    pub(super) fn admits_endpoint(&self, endpoint: Option<EndpointId>) -> bool {
        self.endpoint.is_none_or(|wanted| endpoint == Some(wanted))
    }

    /// Whether a delivery matches, whatever its status.
    fn admits(&self, entry: &Entry) -> bool {
        let (from, to) = self.ids();
        (from..=to).contains(&entry.id)
            && self.admits_endpoint(entry.endpoint)
            && self.event_type.is_none_or(|wanted| wanted == entry.event_type)
    }

    fn ids(&self) -> IdRange {
        (DeliveryId::first_at(self.first.starts_at()), last_of(self.last))
    }

    /// Whether the log has entries between those that match.
    fn is_sparse(&self) -> bool {
        self.event_type.is_some() || self.endpoint.is_some()
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// The page begins after this delivery, which must exist (`starting_after`).
    pub(super) after: Option<DeliveryId>,
    /// The number of matches before the page (`offset`).
    pub(super) skip: usize,
    pub(super) limit: usize,
}

impl Window {
    /// Returns the number of matches to find: those up to the end of the page, and one that shows whether
    /// there is a next page.
    fn wanted(&self) -> usize {
        self.skip.saturating_add(self.limit).saturating_add(1)
    }
}

/// A page of deliveries, each with the body that is sent; `None`: the event has expired.
#[derive(Debug)]
pub struct DeliveryPage {
    pub(super) deliveries: Vec<(Delivery, Option<String>)>,
    pub(super) total: u64,
    /// `false`: deliveries in the selected status may be missing on all pages.
    pub(super) is_complete: bool,
    /// The cursor of the next page; `None`: there is no next page.
    pub(super) next: Option<DeliveryId>,
}

impl DeliveryPage {
    /// The deliveries, and the charge that each is about. `None`: it is about another object, or the event has expired.
    pub fn deliveries(&self) -> impl Iterator<Item = (&Delivery, Option<ChargeId>)> {
        let about = |body: &Option<String>| body.as_deref().and_then(charge_of_body);
        self.deliveries.iter().map(move |(delivery, body)| (delivery, about(body)))
    }

    /// The cursor of the next page.
    pub fn next(&self) -> Option<DeliveryId> {
        self.next
    }
}

/// What a request has read.
struct Found {
    scope: Scope,
    counts: Loaded,
    open: BTreeMap<DeliveryId, Entry>,
    /// Deliveries of the selected status in `list`: `FAILED` or `CANCELLED`.
    ended: LogPage,
    newest: LogPage,
    rows: Rows,
}

fn last_of(day: Day) -> DeliveryId {
    DeliveryId::last_at(day.ends_at())
}

/// Returns the id from which matches are searched, towards older ones, and how many of them are skipped. Days without
/// a match are skipped, and days whose matches are all before the page. `None`: no match is left.
fn begin(
    days: &BTreeMap<Day, Tally>,
    status: Option<DeliveryStatus>,
    start: DeliveryId,
    mut skip: usize,
) -> Option<(DeliveryId, usize)> {
    let first = Day::of(start.timestamp().unwrap_or(Timestamp::MIN));
    for (day, tally) in days.range(..=first).rev() {
        let matches = usize::try_from(tally.most_of(status)).unwrap_or(usize::MAX);
        if skip < matches {
            return Some((start.min(last_of(*day)), skip));
        }
        skip = skip.saturating_sub(matches);
    }
    None
}

impl Found {
    /// Returns the entries of the log that the counts do not have.
    fn uncounted(&self) -> impl Iterator<Item = &Entry> {
        let counted_to = self.counted_to();
        self.newest.entries.iter().take_while(move |entry| Some(entry.id) > counted_to)
    }

    fn counted_to(&self) -> Option<DeliveryId> {
        self.counts.counted_to.as_ref().and_then(|id| id.parse().ok())
    }

    /// Returns the deliveries that are not listed as open, the newest first.
    fn unlisted(&self) -> impl Iterator<Item = &Entry> {
        self.newest.entries.iter().filter(|entry| !self.open.contains_key(&entry.id))
    }

    fn newest_unlisted(&self) -> impl Iterator<Item = &Entry> {
        self.unlisted().take(NEW_ROWS)
    }

    /// Returns the numbers of matches by day. The statuses of the new deliveries, and which are abandoned, are known
    /// once the rows of `keys_by_status` were read.
    fn by_day(&self, selection: &Selection, now: Timestamp) -> BTreeMap<Day, Tally> {
        let mut days = counts::by_day(&self.counts, selection);
        let known_to = now.plus_millis(counts::KNOWN_AFTER_MS.saturating_neg()).unwrap_or(Timestamp::MIN);
        for entry in self.uncounted().filter(|entry| !entry.counted && selection.admits(entry)) {
            let day = days.entry(Day::of(entry.at())).or_default();
            day.add(None, 1);
            let is_known = self.rows.has_read(entry.id) || self.open.contains_key(&entry.id);
            if !is_known && entry.at() > known_to {
                day.add_unknown(1);
            }
        }
        let settled_to = self.counts.settled_to.as_ref().map(|id| id.parse::<DeliveryId>().ok());
        let in_open_sums = |entry: &Entry| {
            let id = Some(entry.id);
            settled_to.is_some_and(|settled_to| id > settled_to) && id <= self.counted_to()
        };
        // A page of `DELIVERED` ones has read further rows.
        let read = self.unlisted().filter(|entry| self.rows.has_read(entry.id));
        for entry in self.open.values().chain(read).filter(|entry| selection.admits(entry)) {
            if let Some(DeliveryStatus::Pending | DeliveryStatus::Processing) = self.rows.stored_status(entry)
                && let Some(shown) = self.rows.shown_status(entry)
            {
                let day = days.entry(Day::of(entry.at())).or_default();
                day.add(Some(shown), 1);
                // The last count found it open too.
                if in_open_sums(entry) {
                    day.add_unknown(-1);
                }
            }
        }
        days
    }

    /// Returns the keys of the new deliveries, and of the endpoints of all that may be open.
    fn keys_by_status(&self) -> Vec<Key> {
        let rows = self.newest_unlisted().map(|entry| Delivery::key_of(&self.scope, entry.id));
        let endpoints = self.open.values().chain(self.newest_unlisted()).filter_map(|entry| entry.endpoint);
        rows.chain(endpoints.map(|id| Endpoint::key_of(&self.scope, id))).collect()
    }

    /// Returns the keys of the deliveries that are probably on a page, to be read with those of
    /// `keys_by_status`.
    fn probable_keys(&self, selection: &Selection, window: &Window, start: DeliveryId) -> Vec<Key> {
        let cursor = window.after.map(|cursor| Delivery::key_of(&self.scope, cursor));
        let is_delivered = selection.status == Some(DeliveryStatus::Delivered);
        let limit = window.limit.saturating_add(if is_delivered { SPARE } else { 0 });
        let (candidates, _) = self.candidates(selection, start);
        let probable = candidates.iter().filter(|entry| !is_delivered || !self.open.contains_key(&entry.id));
        let probable = probable.take(if window.skip > 0 { 0 } else { limit });
        probable.flat_map(|entry| rows_of(&self.scope, entry)).chain(cursor).collect()
    }

    /// Returns the deliveries that may be on a page, newest first, from the entries that were read first. Also
    /// returns the last id of these entries; `None`: there are no more.
    fn candidates(&self, selection: &Selection, start: DeliveryId) -> (Vec<Entry>, Option<DeliveryId>) {
        let may_match = |entry: &&Entry| entry.id <= start && selection.admits(entry);
        if let Some(DeliveryStatus::Delivered) | None = selection.status {
            let of_log = self.newest.entries.iter().filter(may_match);
            return (of_log.copied().collect(), self.newest.read_to);
        }
        let read_to = self.ended.read_to;
        let listed = self.newest_unlisted().chain(self.ended.entries.iter()).chain(self.open.values());
        let listed =
            listed.filter(may_match).filter(|entry| read_to.is_none_or(|read_to| read_to <= entry.id));
        let by_id: BTreeMap<DeliveryId, Entry> = listed.map(|entry| (entry.id, *entry)).collect();
        (by_id.into_values().rev().collect(), read_to)
    }
}

impl Deliveries {
    /// Returns how many of a scope's deliveries of the last 90 days are in each status.
    pub async fn stats(&self, scope: &ShardedScope, now: Timestamp) -> Result<DeliveryStats> {
        let selection = Selection::shown(now);
        // For this status, the open and the newest deliveries are read.
        let read = Selection { status: Some(DeliveryStatus::Delivered), ..selection };
        let mut found = Box::pin(self.find_first(scope, &read, (selection.ids().1, 0))).await?;
        self.load_found(&mut found, Vec::new()).await?;
        Ok(DeliveryStats::new(&found.by_day(&selection, now)))
    }

    /// Returns a page of a scope's deliveries, newest first, with their bodies.
    /// Errors: [`PageError::UnknownCursor`] when the page is to begin after a delivery that does not exist.
    pub async fn list(
        &self,
        scope: &ShardedScope,
        DeliveryFilter { selection, window }: &DeliveryFilter,
        now: Timestamp,
    ) -> Result<DeliveryPage, PageError> {
        let selection = Selection { first: selection.first.max(first_day(now)), ..*selection };
        if selection.first > selection.last {
            return Ok(DeliveryPage { deliveries: Vec::new(), total: 0, is_complete: true, next: None });
        }
        // A cursor that is newer than the selection changes nothing: the page begins with the newest match.
        let window = Window { after: window.after.filter(|after| *after <= selection.ids().1), ..*window };
        let start = window.after.map_or(selection.ids().1, DeliveryId::previous);
        let mut found = Box::pin(self.find_first(scope, &selection, (start, window.wanted()))).await?;
        if selection.status.is_some() {
            let rows = found.probable_keys(&selection, &window, start);
            self.load_found(&mut found, rows).await?;
        }
        let days = found.by_day(&selection, now);
        // Those of the other statuses are listed, or found in the log.
        let is_open = matches!(selection.status, Some(DeliveryStatus::Pending | DeliveryStatus::Processing));
        let is_complete = !is_open || days.values().all(|day| day.unknown() == 0);
        let total = days.values().fold(0, |sum: u64, day| sum.saturating_add(day.of(selection.status)));
        let (matches, skip, read_to) =
            Box::pin(self.matches(scope, &mut found, &selection, &window, (start, &days))).await?;
        let on_page: Vec<&Entry> = matches.iter().skip(skip).take(window.limit).collect();
        let has_more = matches.len() > skip.saturating_add(window.limit);
        let mut keys: Vec<Key> = on_page.iter().flat_map(|entry| rows_of(&scope.scope, entry)).collect();
        keys.extend(window.after.map(|cursor| Delivery::key_of(&scope.scope, cursor)));
        self.load(&mut found.rows, keys).await?;
        if window.after.is_some_and(|cursor| found.rows.stored(cursor).is_none()) {
            return Err(PageError::UnknownCursor("a delivery of this account and mode"));
        }
        let next = if has_more { on_page.last().map(|entry| entry.id) } else { read_to };
        let shown = on_page.iter().filter_map(|entry| found.rows.delivery(entry.id));
        let is_in_status =
            |(delivery, _): &(Delivery, _)| selection.status.is_none_or(|status| delivery.status == status);
        Ok(DeliveryPage { deliveries: shown.filter(is_in_status).collect(), total, is_complete, next })
    }

    /// Reads the first round: the counts, and the entries that the status needs. `start`, `wanted`: where the page
    /// begins, and the number of matches up to its end.
    async fn find_first(
        &self,
        scope: &ShardedScope,
        selection: &Selection,
        (start, wanted): (DeliveryId, usize),
    ) -> Result<Found> {
        let status = selection.status;
        let (from, _) = selection.ids();
        let shown = (from, DeliveryId::last_at(Timestamp::MAX));
        let open = async {
            if matches!(status, None | Some(DeliveryStatus::Failed)) {
                return Ok(LogPage::default());
            }
            self.listed(&scope.scope, (format!("PENDING#{from}"), "PROCESSING#~".to_owned()), usize::MAX)
                .await
        };
        let ended = async {
            let Some(status @ (DeliveryStatus::Failed | DeliveryStatus::Cancelled)) = status else {
                return Ok(LogPage::default());
            };
            let range = (format!("{}#{from}", status.as_str()), format!("{}#{start}~", status.as_str()));
            let most = if selection.is_sparse() { wanted.max(ENTRIES_PER_QUERY) } else { wanted };
            self.listed(&scope.scope, range, most).await
        };
        let newest = async {
            if status == Some(DeliveryStatus::Failed) {
                return Ok(LogPage::default());
            }
            self.log(scope, shown, Order::NewestFirst, ENTRIES_PER_QUERY).await
        };
        let counts = self.load_counts(&scope.scope, selection.first);
        let (counts, open, ended, newest) =
            tokio::try_join!(Box::pin(counts), Box::pin(open), Box::pin(ended), Box::pin(newest))?;
        let open = open.entries.into_iter().map(|entry| (entry.id, entry)).collect();
        let rows = Rows::of(scope.scope);
        let mut found = Found { scope: scope.scope, counts, open, ended, newest, rows };
        for _query in 0..MAX_QUERIES_FOR_COUNT {
            let Some(read_to) = found.newest.read_to.filter(|read_to| Some(*read_to) > found.counted_to())
            else {
                break;
            };
            let older = (from, read_to.previous());
            let more = Box::pin(self.log(scope, older, Order::NewestFirst, ENTRIES_PER_QUERY)).await?;
            found.newest.entries.extend(more.entries);
            found.newest.read_to = more.read_to;
        }
        Ok(found)
    }

    /// Reads the entries of `list` within a range of sort keys, newest first, at most `most`.
    async fn listed(&self, scope: &Scope, (from, to): (String, String), most: usize) -> Result<LogPage> {
        let (list, most) =
            (Delivery::partition(scope), if most == usize::MAX { most } else { self.at_once(most) });
        let read = self.store.list(ListIndex::All, &list, (&from, &to), Order::NewestFirst, most).await?;
        let read_to = read.last().filter(|_| read.len() >= most).and_then(Entry::of).map(|entry| entry.id);
        Ok(LogPage { entries: read.iter().filter_map(Entry::of).collect(), read_to })
    }

    /// Reads the rows by which the statuses of the found deliveries are known, and further ones.
    async fn load_found(&self, found: &mut Found, further: Vec<Key>) -> Result<()> {
        let keys = found.keys_by_status().into_iter().chain(further).collect();
        self.load(&mut found.rows, keys).await
    }

    /// Finds the matches up to the end of the page, and one more. Returns them, how many of them are before the page,
    /// and the last id that was considered; `None`: there are no more matches.
    async fn matches(
        &self,
        scope: &ShardedScope,
        found: &mut Found,
        selection: &Selection,
        window: &Window,
        (start, days): (DeliveryId, &BTreeMap<Day, Tally>),
    ) -> Result<(Vec<Entry>, usize, Option<DeliveryId>)> {
        let is_of_log = matches!(selection.status, None | Some(DeliveryStatus::Delivered));
        let (mut start, mut skip) = (start, window.skip);
        if is_of_log {
            let Some(begins) = begin(days, selection.status, start, skip) else {
                return Ok((Vec::new(), skip, None));
            };
            (start, skip) = begins;
        }
        let wanted = Window { skip, ..*window }.wanted();
        let (mut candidates, mut read_to) = found.candidates(selection, start);
        let mut matches = Vec::new();
        for query in 0..=MAX_QUERIES {
            let missing = wanted.saturating_sub(matches.len());
            let (more, stopped_at) = self.select(found, selection.status, candidates, missing).await?;
            matches.extend(more);
            if stopped_at.is_some() {
                return Ok((matches, skip, stopped_at));
            }
            let Some(read) = read_to.filter(|_| is_of_log && matches.len() < wanted) else { break };
            let next = begin(days, selection.status, start.min(read.previous()), 0);
            let Some((next, _)) = next.filter(|(next, _)| *next >= selection.ids().0) else {
                return Ok((matches, skip, None));
            };
            if query == MAX_QUERIES {
                break;
            }
            let missing = wanted.saturating_sub(matches.len()).saturating_add(SPARE);
            let most = if selection.is_sparse() { ENTRIES_PER_QUERY } else { missing };
            let range = (selection.ids().0, next);
            let page = Box::pin(self.log(scope, range, Order::NewestFirst, most)).await?;
            candidates = page.entries.into_iter().filter(|entry| selection.admits(entry)).collect();
            (start, read_to) = (next, page.read_to);
        }
        Ok((matches, skip, read_to))
    }

    /// Selects the first `most` candidates in a status, and reads the rows of those whose status is not known. Also
    /// returns the last candidate that was considered, if others were not.
    async fn select(
        &self,
        found: &mut Found,
        status: Option<DeliveryStatus>,
        candidates: Vec<Entry>,
        most: usize,
    ) -> Result<(Vec<Entry>, Option<DeliveryId>)> {
        let Some(status) = status else {
            return Ok((candidates.into_iter().take(most).collect(), None));
        };
        let (mut selected, mut reads, mut last) = (Vec::new(), 0_usize, None);
        let mut left = candidates.as_slice();
        while let Some((entry, rest)) = left.split_first() {
            if selected.len() >= most {
                break;
            }
            let listed = found.open.get(&entry.id).copied().unwrap_or(*entry);
            if listed.status.is_none() && !found.rows.has_read(entry.id) {
                if reads >= MAX_MORE {
                    return Ok((selected, last));
                }
                reads = reads.saturating_add(1);
                let rows = left
                    .iter()
                    .take(MORE_ROWS.max(most.saturating_sub(selected.len()).saturating_add(SPARE)));
                let keys = rows.flat_map(|entry| {
                    let endpoint = entry.endpoint.map(|id| Endpoint::key_of(&found.scope, id));
                    std::iter::once(Delivery::key_of(&found.scope, entry.id)).chain(endpoint)
                });
                let keys = keys.collect();
                self.load(&mut found.rows, keys).await?;
            }
            if found.rows.shown_status(&listed) == Some(status) {
                selected.push(listed);
            }
            (last, left) = (Some(entry.id), rest);
        }
        Ok((selected, None))
    }
}
