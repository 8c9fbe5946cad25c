//! Deliveries in lists, and how many there are (contract: `GET /v1/webhooks/deliveries`, `GET /v1/webhooks/stats`).
//!
//! Newest first they lie in their partition, by status in the list of those that were not made at once; what is counted
//! where, [`super::counts`] says. By event type or endpoint there is no index: such a page and its total are read from all.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;

use super::attempt::word;
use super::counts::{self, Counts};
use super::{Deliveries, Delivery, DeliveryStatus, NO_DELIVERY};
use crate::http::{Fields, Problem, Query};
use crate::ids::{DeliveryId, EndpointId, EventId, Scope};
use crate::store::{Item, Key, ListIndex, Order, StoreError, from_item, text, unavailable};
use crate::time::Timestamp;
use crate::webhook::delivery::DeliveryStats;
use crate::webhook::event::Event;
use crate::webhook::event_type::EventType;

/// Deliveries on a page, unless asked otherwise, and at most (contract: Limits).
const DEFAULT_LIMIT: u32 = 25;
const MAX_LIMIT: u32 = 100;

/// The furthest that a page may start: every row before it is read.
const MAX_OFFSET: u32 = 5_000;

/// Newest rows that are looked through for those that wait for their first attempt, or have it: a stride's sample, and
/// those of some minutes.
const NEWEST: usize = 1_000;

/// A list by status that is no longer than this is read to its end, which gives its total.
const WHOLE_LIST: usize = 250;

/// What a client asks of the list.
#[derive(Clone, Debug)]
pub struct DeliveryFilter {
    status: Option<DeliveryStatus>,
    event_type: Option<EventType>,
    endpoint: Option<EndpointId>,
    limit: usize,
    offset: usize,
}

impl DeliveryFilter {
    /// Reads a query string; every failing parameter is reported.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, &["status", "eventType", "endpointId", "limit", "offset"]);
        let endpoint = query
            .parsed(&mut fields, "endpointId", "must be an endpoint id (wh_…)", |text| text.parse().ok());
        let filter = Self {
            status: query.one_of(&mut fields, "status", &DeliveryStatus::VOCABULARY),
            event_type: query.one_of(&mut fields, "eventType", EventType::ALL),
            endpoint,
            limit: usize::try_from(query.integer(&mut fields, "limit", 1, MAX_LIMIT, DEFAULT_LIMIT))
                .unwrap_or_default(),
            offset: usize::try_from(query.integer(&mut fields, "offset", 0, MAX_OFFSET, 0))
                .unwrap_or_default(),
        };
        fields.finish(Some(filter))
    }

    /// Deliveries on a page.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Deliveries before it.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Deliveries up to the end of the page.
    fn wanted(&self) -> usize {
        self.offset.saturating_add(self.limit)
    }
}

/// A page of deliveries, each with the body that is sent, where that is still kept.
#[derive(Debug)]
pub struct DeliveryPage {
    pub(super) deliveries: Vec<(Delivery, Option<String>)>,
    pub(super) total: u64,
}

/// The newest deliveries of a scope, or those of them that were asked for.
struct Newest {
    counts: Counts,
    deliveries: Vec<Delivery>,
    /// The sort key of the last row that was looked at; `None`: all were.
    looked_to: Option<String>,
    /// Not after any delivery that is shown.
    first_shown: DeliveryId,
}

impl Newest {
    /// Those that are neither counted nor listed.
    fn uncounted(&self) -> impl Iterator<Item = &Delivery> {
        let is_uncounted = |delivery: &&Delivery| !delivery.listed && Some(delivery.id) > self.counts.up_to;
        self.deliveries.iter().filter(is_uncounted)
    }

    /// Before which row the others that are uncounted are; `None`: there are none.
    fn looked_short(&self) -> Option<&str> {
        let from = self.uncounted_from();
        self.looked_to.as_deref().filter(|looked_to| *looked_to > from.as_str())
    }

    /// The first sort key that one that is uncounted, and shown, can have.
    fn uncounted_from(&self) -> String {
        counts::after(self.counts.up_to).max(self.first_shown.to_string())
    }
}

impl Deliveries {
    /// A page of a scope's deliveries, newest first, with their bodies.
    pub async fn list(
        &self,
        scope: &Scope,
        filter: &DeliveryFilter,
        now: Timestamp,
    ) -> Result<DeliveryPage, StoreError> {
        if filter.event_type.is_some() || filter.endpoint.is_some() {
            return self.among_all(scope, filter, now).await;
        }
        match filter.status {
            None | Some(DeliveryStatus::Delivered) => self.among_newest(scope, filter, now).await,
            Some(status @ (DeliveryStatus::Pending | DeliveryStatus::Processing)) => {
                self.among_open(scope, status, filter, now).await
            }
            Some(status @ (DeliveryStatus::Failed | DeliveryStatus::Cancelled)) => {
                self.among_given_up(scope, status, filter, now).await
            }
        }
    }

    /// One delivery that is shown, as it reads by itself, with its body.
    ///
    /// # Errors
    ///
    /// 404 for what is not there, what is another scope's, and what lists show no more.
    pub async fn find(
        &self,
        scope: &Scope,
        id: Option<DeliveryId>,
        now: Timestamp,
    ) -> Result<(Delivery, Option<String>), Problem> {
        let found = self.shown(scope, id, now).await?;
        Ok(Box::pin(self.as_it_reads(found)).await?)
    }

    /// One delivery that lists show, or the 404.
    pub(in crate::webhook) async fn shown(
        &self,
        scope: &Scope,
        id: Option<DeliveryId>,
        now: Timestamp,
    ) -> Result<Delivery, Problem> {
        let id = id.filter(|id| *id >= counts::first_shown(now)).ok_or(NO_DELIVERY)?;
        self.store.get(&Delivery::key_of(scope, id)).await?.ok_or(NO_DELIVERY)
    }

    /// How many of a scope's deliveries stand where.
    pub async fn stats(&self, scope: &Scope, now: Timestamp) -> Result<DeliveryStats, StoreError> {
        // Boxed, for a query takes kilobytes.
        let listed = |status| Box::pin(self.count_listed(scope, Some(status), now));
        let (newest, pending, processing, delivered, failed, cancelled) = tokio::try_join!(
            Box::pin(self.newest(scope, None, NEWEST, now)),
            listed(DeliveryStatus::Pending),
            listed(DeliveryStatus::Processing),
            listed(DeliveryStatus::Delivered),
            listed(DeliveryStatus::Failed),
            listed(DeliveryStatus::Cancelled),
        )?;
        let mut stats = DeliveryStats::default();
        stats.add(DeliveryStatus::Pending, pending);
        stats.add(DeliveryStatus::Processing, processing);
        stats.add(DeliveryStatus::Delivered, delivered);
        stats.add(DeliveryStatus::Failed, failed);
        stats.add(DeliveryStatus::Cancelled, cancelled);
        for (_, status) in DeliveryStatus::VOCABULARY {
            stats.add(status, newest.counts.ended(status, now));
        }
        for delivery in newest.uncounted() {
            stats.add(delivery.status, 1);
        }
        if let Some(from) = newest.looked_short() {
            for delivery in Box::pin(self.rest(scope, &newest, from, None)).await? {
                stats.add(delivery.status, 1);
            }
        }
        Ok(stats)
    }

    /// A page of all, or of those that were delivered, which nearly all are.
    async fn among_newest(
        &self,
        scope: &Scope,
        filter: &DeliveryFilter,
        now: Timestamp,
    ) -> Result<DeliveryPage, StoreError> {
        let (newest, listed) = tokio::try_join!(
            self.newest(scope, filter.status, filter.wanted(), now),
            Box::pin(self.count_listed(scope, filter.status, now))
        )?;
        let uncounted = newest.uncounted().count();
        let rest = async {
            match newest.looked_short() {
                Some(from) => self.count_rest(scope, &newest, from, filter.status).await,
                None => Ok(0),
            }
        };
        let page: Vec<Delivery> =
            newest.deliveries.iter().skip(filter.offset).take(filter.limit).cloned().collect();
        let (rest, deliveries) = tokio::try_join!(rest, self.with_bodies(scope, page))?;
        if newest.looked_to.is_none() {
            // All that are shown were read.
            return Ok(DeliveryPage { deliveries, total: as_u64(newest.deliveries.len()) });
        }
        let total = newest.counts.of(filter.status, now).saturating_add(listed);
        Ok(DeliveryPage { deliveries, total: total.saturating_add(rest).saturating_add(as_u64(uncounted)) })
    }

    /// A page of those that are not done: they are listed, but for those whose first attempt is not over.
    async fn among_open(
        &self,
        scope: &Scope,
        status: DeliveryStatus,
        filter: &DeliveryFilter,
        now: Timestamp,
    ) -> Result<DeliveryPage, StoreError> {
        let most = filter.wanted().max(WHOLE_LIST);
        let list = Delivery::partition(scope);
        let (listed, unlisted) = tokio::try_join!(
            self.listed(&list, status, most, now),
            Box::pin(self.unlisted(scope, status, now))
        )?;
        let is_whole = listed.len() < most;
        // One that was listed in between is in both.
        let found: BTreeMap<DeliveryId, Found> = listed
            .into_iter()
            .chain(unlisted.into_iter().map(Found::Read))
            .map(|one| (one.id(), one))
            .collect();
        let total = async {
            if is_whole {
                return Ok(as_u64(found.len()));
            }
            let read = found.values().filter(|one| matches!(one, Found::Read(_))).count();
            Ok(self.count_listed(scope, Some(status), now).await?.saturating_add(as_u64(read)))
        };
        let page = found.values().rev().skip(filter.offset).take(filter.limit).cloned().collect();
        let (total, (deliveries, _)) = tokio::try_join!(total, Box::pin(self.found(scope, page, &[])))?;
        Ok(of_status(deliveries, status, total))
    }

    /// A page of those that nobody will try again: they are listed, and elsewhere after they were counted.
    async fn among_given_up(
        &self,
        scope: &Scope,
        status: DeliveryStatus,
        filter: &DeliveryFilter,
        now: Timestamp,
    ) -> Result<DeliveryPage, StoreError> {
        let most = filter.wanted().max(WHOLE_LIST);
        let (list, done) = (Delivery::partition(scope), Delivery::done_partition(scope));
        let (listed, counted) =
            tokio::try_join!(self.listed(&list, status, most, now), self.listed(&done, status, most, now))?;
        let is_whole = listed.len() < most && counted.len() < most;
        let uncounted = listed.len();
        let found: BTreeMap<DeliveryId, Found> =
            listed.into_iter().chain(counted).map(|one| (one.id(), one)).collect();
        let page = found.values().rev().skip(filter.offset).take(filter.limit).cloned().collect();
        let listed = async {
            if uncounted < most {
                Ok(as_u64(uncounted))
            } else {
                self.count_listed(scope, Some(status), now).await
            }
        };
        let also = [counts::key_of(scope)];
        let (listed, (deliveries, counts)) =
            tokio::try_join!(listed, Box::pin(self.found(scope, page, &also)))?;
        let total = if is_whole {
            as_u64(found.len())
        } else {
            counts.map_or(0, |counts| counts.ended(status, now)).saturating_add(listed)
        };
        Ok(of_status(deliveries, status, total))
    }

    /// A page of those of an event type or to an endpoint: all are read.
    async fn among_all(
        &self,
        scope: &Scope,
        filter: &DeliveryFilter,
        now: Timestamp,
    ) -> Result<DeliveryPage, StoreError> {
        let (first, last) = (counts::first_shown(now), DeliveryId::last_at(Timestamp::MAX));
        let query = || filtered(self.between(scope, &first.to_string(), &last.to_string()), filter);
        let count = self.store.count_all(query());
        let matching = Box::pin(self.matching(query(), filter.wanted()));
        let (matching, total) = tokio::try_join!(matching, Box::pin(count))?;
        let page = matching.into_iter().skip(filter.offset).take(filter.limit).collect();
        Ok(DeliveryPage { deliveries: self.with_bodies(scope, page).await?, total: as_u64(total) })
    }

    /// The newest deliveries, at least so many where there are, and the count of those before. `status`: those in it.
    async fn newest(
        &self,
        scope: &Scope,
        status: Option<DeliveryStatus>,
        wanted: usize,
        now: Timestamp,
    ) -> Result<Newest, StoreError> {
        let first_shown = counts::first_shown(now);
        let mut query = self.between(scope, &first_shown.to_string(), counts::SORT);
        let mut newest =
            Newest { counts: Counts::none(*scope), deliveries: Vec::new(), looked_to: None, first_shown };
        if let Some(status) = status {
            // The count has none.
            query = query
                .filter_expression("attribute_not_exists(#status) OR #status = :status")
                .expression_attribute_names("#status", "status")
                .expression_attribute_values(":status", word(status));
        }
        let mut after = None;
        loop {
            // Unfiltered, what is read is what is wanted, behind the count.
            let left = wanted.saturating_sub(newest.deliveries.len()).saturating_add(1);
            let limit = status.is_none().then(|| i32::try_from(left).unwrap_or(i32::MAX));
            let page = query.clone().set_limit(limit).set_exclusive_start_key(after).send().await;
            let page = page.map_err(unavailable)?;
            for item in page.items.unwrap_or_default() {
                if text(&item, "sk").as_deref() == Some(counts::SORT) {
                    newest.counts = from_item(item)?;
                } else {
                    newest.deliveries.extend(readable(item));
                }
            }
            after = page.last_evaluated_key;
            newest.looked_to = after.as_ref().and_then(|key| text(key, "sk"));
            if after.is_none() || newest.deliveries.len() >= wanted {
                return Ok(newest);
            }
        }
    }

    /// Those in a status that are neither listed nor counted, newest first.
    async fn unlisted(
        &self,
        scope: &Scope,
        status: DeliveryStatus,
        now: Timestamp,
    ) -> Result<Vec<Delivery>, StoreError> {
        let newest = self.newest(scope, None, NEWEST, now).await?;
        let is_asked_for = |delivery: &&Delivery| delivery.status == status;
        let mut found: Vec<Delivery> = newest.uncounted().filter(is_asked_for).cloned().collect();
        if let Some(from) = newest.looked_short() {
            found.extend(self.rest(scope, &newest, from, Some(status)).await?);
        }
        Ok(found)
    }

    /// The uncounted before one that was looked at.
    async fn rest(
        &self,
        scope: &Scope,
        newest: &Newest,
        before: &str,
        status: Option<DeliveryStatus>,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.matching(self.rest_query(scope, newest, before, status), usize::MAX).await
    }

    async fn count_rest(
        &self,
        scope: &Scope,
        newest: &Newest,
        before: &str,
        status: Option<DeliveryStatus>,
    ) -> Result<u64, StoreError> {
        self.store.count_all(self.rest_query(scope, newest, before, status)).await.map(as_u64)
    }

    fn rest_query(
        &self,
        scope: &Scope,
        newest: &Newest,
        before: &str,
        status: Option<DeliveryStatus>,
    ) -> QueryFluentBuilder {
        let before = Key { pk: Delivery::partition(scope), sk: before.to_owned() };
        let query = self
            .between(scope, &newest.uncounted_from(), counts::SORT)
            .set_exclusive_start_key(Some(before.attributes()));
        let unlisted = "attribute_not_exists(listed)";
        match status {
            None => query.filter_expression(unlisted),
            Some(status) => query
                .filter_expression(format!("{unlisted} AND #status = :status"))
                .expression_attribute_names("#status", "status")
                .expression_attribute_values(":status", word(status)),
        }
    }

    /// The newest of a list in a status.
    async fn listed(
        &self,
        partition: &str,
        status: DeliveryStatus,
        most: usize,
        now: Timestamp,
    ) -> Result<Vec<Found>, StoreError> {
        let (from, to) = bounds(Some(status), counts::first_shown(now));
        let entries =
            self.store.list(ListIndex::All, partition, (&from, &to), Order::NewestFirst, most).await?;
        Ok(entries.into_iter().filter_map(|entry| Found::listed(&entry.sort, entry.key)).collect())
    }

    /// How many are listed and not counted. Of all statuses together, also those that are shown no more and not yet gone.
    async fn count_listed(
        &self,
        scope: &Scope,
        status: Option<DeliveryStatus>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let (from, to) = bounds(status, counts::first_shown(now));
        let count = self.store.count(ListIndex::All, &Delivery::partition(scope), (&from, &to)).await?;
        Ok(as_u64(count))
    }

    /// All rows that a query finds, or the first so many.
    async fn matching(&self, query: QueryFluentBuilder, wanted: usize) -> Result<Vec<Delivery>, StoreError> {
        let mut deliveries = Vec::new();
        let mut query = query;
        loop {
            let page = query.clone().send().await.map_err(unavailable)?;
            deliveries.extend(page.items.unwrap_or_default().into_iter().filter_map(readable));
            if page.last_evaluated_key.is_none() || deliveries.len() >= wanted {
                return Ok(deliveries);
            }
            query = query.set_exclusive_start_key(page.last_evaluated_key);
        }
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

    async fn with_bodies(
        &self,
        scope: &Scope,
        deliveries: Vec<Delivery>,
    ) -> Result<Vec<(Delivery, Option<String>)>, StoreError> {
        let page = deliveries.into_iter().map(Found::Read).collect();
        self.found(scope, page, &[]).await.map(|(deliveries, _)| deliveries)
    }

    /// Deliveries of a page with their bodies, in its order: what is missing of both is read at once, with the scope's counts
    /// where they are asked for.
    async fn found(
        &self,
        scope: &Scope,
        page: Vec<Found>,
        counts: &[Key],
    ) -> Result<(Vec<(Delivery, Option<String>)>, Option<Counts>), StoreError> {
        let mut keys: Vec<Key> = page.iter().map(|found| Event::key_of(scope, found.event())).collect();
        keys.sort_by(|left, right| left.sk.cmp(&right.sk));
        keys.dedup();
        keys.extend(page.iter().filter_map(Found::missing));
        keys.extend(counts.iter().cloned());
        let (mut events, mut rows, mut counts) = (HashMap::new(), HashMap::new(), None);
        for item in self.store.batch_get(&keys).await? {
            let key = Key::of(&item);
            if key.as_ref().is_some_and(Delivery::is_at) {
                rows.extend(readable(item).map(|delivery| (delivery.id, delivery)));
            } else if key.as_ref().is_some_and(|key| counts::scope_of(key).is_some()) {
                counts = Some(from_item(item)?);
            } else {
                // One that can't be read must not hide the others.
                match from_item::<Event>(item) {
                    Ok(event) => drop(events.insert(event.id, event)),
                    Err(error) => tracing::error!(%error, "an event can't be read"),
                }
            }
        }
        let with_body = |found: Found| {
            let delivery = match found {
                Found::Read(delivery) => delivery,
                Found::Listed { id, .. } => rows.remove(&id)?,
            };
            let body = events.get(&delivery.event).map(|event| event.body_as(delivery.event_type));
            Some((delivery, body))
        };
        Ok((page.into_iter().filter_map(with_body).collect(), counts))
    }
}

/// The index is a moment behind: those of a page that are in another status by now are left out.
fn of_status(
    mut deliveries: Vec<(Delivery, Option<String>)>,
    status: DeliveryStatus,
    total: u64,
) -> DeliveryPage {
    deliveries.retain(|(delivery, _)| delivery.status == status);
    DeliveryPage { deliveries, total }
}

/// A delivery of a page.
#[derive(Clone)]
enum Found {
    /// Its row was read.
    Read(Delivery),
    /// Its place in the list by status was.
    Listed { id: DeliveryId, event: EventId, key: Key },
}

impl Found {
    /// Reads a place in the list by status.
    fn listed(place: &str, key: Key) -> Option<Self> {
        let mut parts = place.split('#').skip(1);
        let (id, event) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self::Listed { id, event, key })
    }

    fn id(&self) -> DeliveryId {
        match self {
            Self::Read(delivery) => delivery.id,
            Self::Listed { id, .. } => *id,
        }
    }

    fn event(&self) -> EventId {
        match self {
            Self::Read(delivery) => delivery.event,
            Self::Listed { event, .. } => *event,
        }
    }

    fn missing(&self) -> Option<Key> {
        match self {
            Self::Read(_) => None,
            Self::Listed { key, .. } => Some(key.clone()),
        }
    }
}

/// Between which places the deliveries in a status are listed, from an id on; `None`: all.
pub(super) fn bounds(status: Option<DeliveryStatus>, from: DeliveryId) -> (String, String) {
    // '~' sorts after all that ids and statuses are made of.
    match status {
        Some(status) => (format!("{}#{from}", status.as_str()), format!("{}#~", status.as_str())),
        None => (" ".to_owned(), "~".to_owned()),
    }
}

/// One that can't be read must not hide the others.
pub(super) fn readable(item: Item) -> Option<Delivery> {
    from_item(item).map_err(|error| tracing::error!(%error, "a delivery can't be read")).ok()
}

fn filtered(query: QueryFluentBuilder, filter: &DeliveryFilter) -> QueryFluentBuilder {
    let mut query = query;
    let mut conditions = Vec::new();
    if let Some(status) = filter.status {
        conditions.push("#status = :status");
        query = query.expression_attribute_names("#status", "status");
        query = query.expression_attribute_values(":status", word(status));
    }
    if let Some(event_type) = filter.event_type {
        conditions.push("event_type = :type");
        query = query.expression_attribute_values(":type", AttributeValue::S(event_type.as_str().to_owned()));
    }
    if let Some(endpoint) = filter.endpoint {
        conditions.push("endpoint = :endpoint");
        query = query.expression_attribute_values(":endpoint", AttributeValue::S(endpoint.to_string()));
    }
    query.filter_expression(conditions.join(" AND "))
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
