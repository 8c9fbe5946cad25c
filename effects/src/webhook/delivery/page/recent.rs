//! Pages of deliveries for people, without bodies and totals. A page takes two rounds of requests, and the same read
//! units at any number of deliveries.

use std::cmp::Reverse;
use std::collections::HashMap;

use domain::calendar::Day;
use domain::ids::{ChargeId, DeliveryId, EndpointId};
use domain::shard::ShardedScope;
use domain::time::Timestamp;

use super::super::entry::Entry;
use super::super::log::LogPage;
use super::super::rows::Rows;
use super::super::{Cause, Deliveries, Delivery, DeliveryStatus, counts};
use super::{Selection, Tally};
use crate::webhook::endpoint::{Endpoint, Endpoints};
use shared::store::{Order, StoreError};

/// The most deliveries of a page. A row of one that failed may take two read units.
const PAGE: usize = 15;

/// The entries among which those of an endpoint are searched: four read units. A page of one may be short although
/// more follow.
const WINDOW: usize = 100;

#[derive(Clone, Copy, Debug)]
pub struct RecentFilter {
    pub endpoint: Option<EndpointId>,
    pub status: Option<DeliveryStatus>,
    /// The last delivery of the previous page.
    pub after: Option<DeliveryId>,
}

/// The deliveries of a day that are counted: all, those without attempts left, and the cancelled ones.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DayFigures {
    pub all: u64,
    pub failed: u64,
    pub cancelled: u64,
}

#[derive(Debug)]
pub struct RecentDeliveries {
    /// Newest first.
    pub deliveries: Vec<Delivery>,
    /// The charges that they are about.
    pub charges: HashMap<DeliveryId, ChargeId>,
    pub next: Option<DeliveryId>,
    /// All of the scope, or only that of the filter if it exists.
    pub endpoints: Vec<Endpoint>,
    /// Today and yesterday. Only on the first page of all deliveries to an endpoint. Some of the last four minutes
    /// are missing if more than `WINDOW` were made in them.
    pub days: Option<[DayFigures; 2]>,
}

impl Deliveries {
    pub async fn recent(
        &self,
        scope: &ShardedScope,
        filter: &RecentFilter,
        now: Timestamp,
    ) -> Result<RecentDeliveries, StoreError> {
        let today = Day::of(now);
        let shown = Selection { endpoint: filter.endpoint, ..Selection::shown(now) };
        let of_days = Selection { first: today.minus_days(1), ..shown };
        let (from, last) = shown.ids();
        let to = filter.after.map_or(last, DeliveryId::previous);
        let most = if filter.endpoint.is_some() { WINDOW } else { PAGE.saturating_add(1) };
        let entries = async {
            match filter.status {
                None | Some(DeliveryStatus::Delivered) => {
                    self.log(scope, (from, to), Order::NewestFirst, most).await
                }
                Some(status) => {
                    let status = status.as_str();
                    let range = (format!("{status}#{from}"), format!("{status}#{to}~"));
                    self.listed(&scope.scope, range, most).await
                }
            }
        };
        let has_figures = filter.endpoint.is_some() && filter.status.is_none() && filter.after.is_none();
        // An abandoned delivery is listed as pending until the scheduler cancels it.
        let pending = async {
            if filter.status != Some(DeliveryStatus::Cancelled) {
                return Ok(LogPage::default());
            }
            self.listed(&scope.scope, (format!("PENDING#{from}"), format!("PENDING#{to}~")), WINDOW).await
        };
        let endpoints = async {
            // That of the filter is read with the rows.
            if filter.endpoint.is_some() {
                return Ok(Vec::new());
            }
            Endpoints::new(self.store.clone()).list(&scope.scope).await
        };
        let counts = async {
            if has_figures { self.load_counts(&scope.scope, of_days.first).await.map(Some) } else { Ok(None) }
        };
        let (entries, pending, endpoints, counts) =
            tokio::try_join!(Box::pin(entries), Box::pin(pending), Box::pin(endpoints), Box::pin(counts))?;
        let may_be_abandoned = |entry: &&Entry| {
            let endpoint = endpoints.iter().find(|endpoint| Some(endpoint.id) == entry.endpoint);
            let is_abandoned = || Cause::of_generation(entry.generation, endpoint).is_some();
            entry.endpoint.is_some()
                && entries.read_to.is_none_or(|read_to| read_to <= entry.id)
                && (filter.endpoint.is_some() || is_abandoned())
        };
        let abandoned = pending.entries.iter().filter(may_be_abandoned);
        let mut matching: Vec<&Entry> = entries.entries.iter().chain(abandoned).collect();
        matching.retain(|entry| shown.admits_endpoint(entry.endpoint));
        matching.sort_by_key(|entry| Reverse(entry.id));
        let on_page = || matching.iter().take(PAGE);
        let receiver = filter.endpoint.map(|id| Endpoint::key_of(&scope.scope, id));
        let keys = on_page().flat_map(|entry| entry.keys(&scope.scope)).chain(receiver).collect();
        let mut rows = Rows::of(scope.scope);
        self.load(&mut rows, keys).await?;
        let endpoints =
            filter.endpoint.map_or(endpoints, |id| rows.endpoint(id).cloned().into_iter().collect());
        let days = counts.map(|counts| {
            let counted_to = counts.counted_to.as_ref().and_then(|id| id.parse::<DeliveryId>().ok());
            let mut days = counts::by_day(&counts, &of_days);
            let new = matching.iter().filter(|entry| Some(entry.id) > counted_to && !entry.counted);
            for entry in new {
                days.entry(Day::of(entry.at())).or_default().add(None, 1);
            }
            let of = |day| days.get(&day).map(figures).unwrap_or_default();
            [of(today), of(today.minus_days(1))]
        });
        let is_shown = |delivery: &Delivery| filter.status.is_none_or(|status| delivery.status == status);
        let deliveries: Vec<Delivery> = on_page()
            .filter_map(|entry| Some(rows.stored(entry.id)?.clone().shown(&endpoints)))
            .filter(is_shown)
            .collect();
        let charges = deliveries.iter().filter_map(|delivery| Some((delivery.id, rows.charge(delivery)?)));
        Ok(RecentDeliveries {
            charges: charges.collect(),
            next: if matching.len() > PAGE {
                on_page().next_back().map(|entry| entry.id)
            } else {
                entries.read_to
            },
            deliveries,
            endpoints,
            days,
        })
    }
}

fn figures(tally: &Tally) -> DayFigures {
    DayFigures {
        all: tally.of(None),
        failed: tally.of(Some(DeliveryStatus::Failed)),
        cancelled: tally.of(Some(DeliveryStatus::Cancelled)),
    }
}
