//! Tests of the list and the statistics of deliveries. The numbers are those of the rows for any order of claims,
//! attempts and counting runs, although no counter is written for each delivery. The cost of a page does not grow with
//! the number of deliveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::calendar::Day;
use domain::ids::{DeliveryId, EndpointId, Scope};
use domain::shard::{ShardCount, ShardedScope};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::webhook::event_type::EventType;
use domain::webhook::failure::AttemptFailure;
use effects::webhook::delivery::{
    AttemptOutcome, Cause, Claim, Deliveries, Delivery, DeliveryFilter, DeliveryListView, DeliveryStatus,
    FailedAttempt,
};
use effects::webhook::endpoint::Endpoint;
use effects::webhook::event::{Event, Origin};
use effects::webhook::recovery::{NewRecovery, Recoveries, Recovery};
use faults::proxy::{Fault, Report};
use serde_json::{Value, json};
use shared::http::Query;
use shared::store::{CommitOutcome, Item, RowUpdate, Write, from_item, text, to_item};

use crate::description::{example, example_body};
use crate::invocations::{count_messages, run_counts, send_count};
use crate::rollups::SeededRandom;
use crate::seeding::{other_endpoint, seed_deliveries, write};
use crate::support::{Listener, Service, eventually, wait_until};

/// A service with two endpoints, whose deliveries the test inserts itself. There is no dispatcher.
struct DeliveryFixture {
    service: Service,
    deliveries: Deliveries,
    scope: Scope,
    /// The shards in which the events of the deliveries are.
    shards: ShardCount,
    endpoints: [Endpoint; 2],
    inserted: u64,
}

/// A combination of the list's filters.
#[derive(Clone)]
struct Filter {
    status: Option<(&'static str, DeliveryStatus)>,
    event_type: Option<EventType>,
    endpoint: Option<EndpointId>,
    from: Option<Day>,
    to: Option<Day>,
}

impl Filter {
    fn query(&self, limit: usize) -> String {
        let mut query = format!("limit={limit}");
        let mut add = |name: &str, value: Option<String>| {
            query.extend(value.map(|value| format!("&{name}={value}")));
        };
        add("status", self.status.map(|(name, _)| name.to_owned()));
        add("eventType", self.event_type.map(|event_type| event_type.as_str().to_owned()));
        add("endpointId", self.endpoint.map(|endpoint| endpoint.to_string()));
        add("created_after", self.from.map(|from| from.to_string()));
        add("created_before", self.to.map(|to| to.to_string()));
        query
    }

    fn admits(&self, delivery: &Delivery) -> bool {
        let at = Day::of(delivery.id.timestamp().unwrap());
        self.status.is_none_or(|(_, status)| delivery.status == status)
            && self.event_type.is_none_or(|event_type| delivery.event_type == event_type)
            && self.endpoint.is_none_or(|endpoint| delivery.endpoint == Some(endpoint))
            && self.from.is_none_or(|from| from <= at)
            && self.to.is_none_or(|to| at <= to)
    }
}

impl DeliveryFixture {
    async fn new() -> Self {
        Self::in_shards(ShardCount::ONE).await
    }

    async fn in_shards(shards: ShardCount) -> Self {
        let service = Service::without_event_sources().await;
        if !shards.is_one() {
            service.raise_shards(shards).await;
        }
        let (scope, now) = (service.scope(), service.stack.clock.now());
        let events = [EventType::ChargePaid, EventType::ChargeCreated];
        let endpoints = [7, 8].map(|random| {
            let (id, url) = (EndpointId::new(now, [random; 10]), "https://shop.example.com/hook".to_owned());
            Endpoint::new(scope, id, (url, events.to_vec()), now)
        });
        let deliveries = Deliveries::new(service.store());
        let rows = endpoints.iter().map(|endpoint| Write::insert(endpoint).unwrap()).collect();
        assert_eq!(service.store().commit(rows).await.unwrap(), CommitOutcome::Done);
        Self { service, deliveries, scope, shards, endpoints, inserted: 0 }
    }

    fn sharded(&self) -> ShardedScope {
        ShardedScope { scope: self.scope, shards: self.shards }
    }

    fn now(&self) -> Timestamp {
        self.service.stack.clock.now()
    }

    /// Claims a delivery under the name `claim`.
    async fn claimed(&self, id: DeliveryId, claim: u64) -> Box<Delivery> {
        match self.deliveries.claim(&self.scope, id, claim, self.now()).await.unwrap() {
            Claim::Claimed(delivery) => delivery,
            other => panic!("{other:?}"),
        }
    }

    /// Inserts a delivery of an event that happened `seconds_ago`, as the dispatcher does. A delivery that is
    /// inserted at least 150 s after its event is listed and counted from the start, because the checkpoint may
    /// already have passed its id.
    async fn insert(&mut self, seconds_ago: i64) -> Delivery {
        let delivery = self.insert_changed(seconds_ago, |delivery| delivery).await;
        assert_eq!(
            (delivery.listed, delivery.counted),
            (seconds_ago >= 150, seconds_ago >= 150),
            "{delivery:?}"
        );
        delivery
    }

    /// Inserts a delivery and makes the attempt that leads to a status. `listed`: also adds it to the list first.
    async fn insert_in(&mut self, status: DeliveryStatus, listed: bool) -> Delivery {
        let delivery = self.insert(0).await;
        if listed {
            self.deliveries.add_to_list(delivery.clone(), self.now()).await.unwrap();
        }
        let now = self.now();
        let outcome = match status {
            DeliveryStatus::Pending => return delivery,
            DeliveryStatus::Processing => {
                self.claimed(delivery.id, self.inserted).await;
                return delivery;
            }
            DeliveryStatus::Delivered => AttemptOutcome::Delivered { status_code: 200 },
            DeliveryStatus::Failed => AttemptOutcome::Exhausted(answered_500()),
            DeliveryStatus::Cancelled => AttemptOutcome::Cancelled(Cause::Deleted),
        };
        let claimed = self.claimed(delivery.id, self.inserted).await;
        assert!(self.deliveries.end_attempt(&claimed, (&outcome, Duration::ZERO), now).await.unwrap());
        delivery
    }

    async fn insert_changed(&mut self, seconds_ago: i64, change: impl Fn(Delivery) -> Delivery) -> Delivery {
        self.inserted += 1;
        let now = self.now();
        let (event_type, endpoint) = match self.inserted % 5 {
            0..3 => (EventType::ChargePaid, &self.endpoints[0]),
            3 => (EventType::ChargeCreated, &self.endpoints[1]),
            _ => (EventType::ChargeCreated, &self.endpoints[0]),
        };
        let (row, at) = (format!("charge#{}", self.inserted), now.plus_seconds(-seconds_ago).unwrap());
        let number = self.inserted % u64::from(self.shards.get());
        let shard = self.shards.shards().nth(usize::try_from(number).unwrap()).unwrap();
        let origin = Origin { shard, ..Origin::new(self.scope, row, at) };
        let event = Event::of_one(event_type, &origin, &example_body(event_type)["data"]["object"]).unwrap();
        let mut deliveries = Delivery::for_event(&event, std::slice::from_ref(endpoint), now);
        let delivery = change(deliveries.remove(0));
        let writes = vec![Write::insert(&event).unwrap()];
        assert_eq!(self.service.store().commit(writes).await.unwrap(), CommitOutcome::Done);
        self.deliveries.insert(delivery).await.unwrap()
    }

    fn partition(&self) -> String {
        format!("deliveries#{}", self.scope)
    }

    /// Reads all deliveries of the last 90 days from their own rows, newest first.
    async fn all(&self) -> Vec<Delivery> {
        let first = DeliveryId::first_at(Day::of(self.now()).minus_days(90).starts_at());
        let rows = self.service.delivery_rows().await;
        let mut all: Vec<Delivery> = rows.into_iter().map(|row| from_item(row).unwrap()).collect();
        all.retain(|delivery| delivery.id >= first);
        all.sort_by_key(|delivery| std::cmp::Reverse(delivery.id));
        all
    }

    async fn page(&self, query: &str) -> (Vec<String>, u64) {
        let page = page_of(&self.deliveries, &self.sharded(), query, self.now()).await;
        (ids_of(&page), page["total"].as_u64().unwrap())
    }

    /// Reads all pages of a list by their cursors. Checks that each page has the same total.
    async fn all_pages(&self, deliveries: &Deliveries, query: &str) -> (Vec<String>, u64) {
        let (mut ids, mut path, mut totals) = (Vec::new(), query.to_owned(), Vec::new());
        loop {
            let page = page_of(deliveries, &self.sharded(), &path, self.now()).await;
            ids.extend(ids_of(&page));
            totals.push(page["total"].as_u64().unwrap());
            assert_eq!(page["has_more"], !page["next_cursor"].is_null(), "{query}");
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            assert!(totals.len() < 200, "{query}");
            path = format!("{query}&starting_after={cursor}");
        }
        totals.dedup();
        assert_eq!(totals.len(), 1, "{query}: {totals:?}");
        (ids, totals[0])
    }

    /// Returns combinations of filters by event type, endpoint and dates, each with every status and without
    /// a status.
    fn filters(&self, all: &[Delivery]) -> Vec<Filter> {
        let [first, second] = self.endpoints.each_ref().map(|endpoint| Some(endpoint.id));
        let [newer, older] = [4, 2].map(|part| all[all.len() / part].id.timestamp().map(Day::of));
        let (created, paid) = (Some(EventType::ChargeCreated), Some(EventType::ChargePaid));
        let expired = Some(Day::of(self.now()).minus_days(100));
        let without_status = [
            (None, None, None, None),
            (created, None, None, None),
            (None, second, None, None),
            (created, first, None, None),
            (paid, second, None, None),
            (None, None, older, newer),
            (paid, None, None, older),
            // Dates that exclude each other, and the time before the first shown day.
            (None, None, newer, older),
            (None, first, None, expired),
        ];
        let statuses = DeliveryStatus::vocabulary().into_iter().map(Some).chain([None]);
        let of_status = |status| {
            without_status.map(|(event_type, endpoint, from, to)| Filter {
                status,
                event_type,
                endpoint,
                from,
                to,
            })
        };
        statuses.flat_map(of_status).collect()
    }

    /// Compares all filtered lists and the statistics with the deliveries' rows. Each DynamoDB query reads at
    /// most 60 rows.
    async fn check_filters(&self, step: &str) {
        let (all, deliveries) = (self.all().await, self.deliveries.clone().with_rows_a_query(60));
        if all.is_empty() {
            return;
        }
        let stats =
            serde_json::to_value(deliveries.stats(&self.sharded(), self.now()).await.unwrap()).unwrap();
        assert_eq!(stats["total"], all.len(), "{step}");
        for (name, status) in DeliveryStatus::vocabulary() {
            let count = all.iter().filter(|delivery| delivery.status == status).count();
            assert_eq!(stats[name], count, "{step}: {name}");
        }
        for filter in self.filters(&all) {
            let query = filter.query(30);
            let ids: Vec<String> =
                all.iter().filter(|row| filter.admits(row)).map(|row| row.id.to_string()).collect();
            let (listed, total) = self.all_pages(&deliveries, &query).await;
            assert_eq!(listed, ids, "{step}: {query}");
            assert_eq!(total, u64::try_from(ids.len()).unwrap(), "{step}: {query}");
        }
    }
}

fn filter_of(query: &str) -> DeliveryFilter {
    DeliveryFilter::parse(&Query::parse(Some(query))).unwrap()
}

async fn page_of(deliveries: &Deliveries, scope: &ShardedScope, query: &str, now: Timestamp) -> Value {
    let filter = filter_of(query);
    let page = deliveries.list(scope, &filter, now).await.unwrap();
    serde_json::to_value(DeliveryListView::new(&page, &filter)).unwrap()
}

fn ids_of(page: &Value) -> Vec<String> {
    let rows = page["data"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["payload"]["type"] == row["eventType"]), "{page}");
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

fn answered_500() -> FailedAttempt {
    FailedAttempt::without_body(Some(500), AttemptFailure::Answered(500))
}

fn random_outcome(random: &mut SeededRandom, now: Timestamp) -> AttemptOutcome {
    match random.below(10) {
        0..6 => AttemptOutcome::Delivered { status_code: 200 },
        6..8 => {
            AttemptOutcome::Retry { failed: answered_500(), next_attempt_at: now.plus_seconds(30).unwrap() }
        }
        8 => AttemptOutcome::Exhausted(answered_500()),
        _ => AttemptOutcome::Cancelled(Cause::Deleted),
    }
}

#[tokio::test]
async fn lists_and_statistics_match_the_rows_after_any_sequence_of_changes() {
    let mut fixture = DeliveryFixture::in_shards(ShardCount::try_from(5).unwrap()).await;
    let mut random = SeededRandom(2026);
    let mut claimed: Vec<Delivery> = Vec::new();
    for step in 0..500_u32 {
        match random.below(20) {
            0..7 => drop(fixture.insert(0).await),
            7 => drop(fixture.insert(i64::try_from(random.below(600)).unwrap()).await),
            8..12 => {
                let all = fixture.all().await;
                let is_open = |delivery: &&Delivery| {
                    matches!(delivery.status, DeliveryStatus::Pending | DeliveryStatus::Processing)
                };
                let open: Vec<&Delivery> = all.iter().filter(is_open).collect();
                if !open.is_empty() {
                    let id = open[random.below(open.len())].id;
                    let claim = u64::from(step);
                    let claim =
                        fixture.deliveries.claim(&fixture.scope, id, claim, fixture.now()).await.unwrap();
                    if let Claim::Claimed(delivery) = claim {
                        claimed.push(*delivery);
                    }
                }
            }
            12..16 if !claimed.is_empty() => {
                let delivery = claimed.swap_remove(random.below(claimed.len()));
                let end = random_outcome(&mut random, fixture.now());
                // If another claim took over the lease, the attempt's outcome is not written.
                let _ended_or_lost = fixture
                    .deliveries
                    .end_attempt(&delivery, (&end, Duration::ZERO), fixture.now())
                    .await
                    .unwrap();
            }
            16 => {
                // The scheduler adds slow deliveries to the list in the same way.
                let all = fixture.all().await;
                if !all.is_empty() {
                    let delivery = all[random.below(all.len())].clone();
                    fixture.deliveries.add_to_list(delivery, fixture.now()).await.unwrap();
                }
            }
            17 => drop(fixture.deliveries.count(&fixture.scope, fixture.now()).await.unwrap()),
            _ => {
                let max_ms = if random.below(8) == 0 { 86_400_000 } else { 40_000 };
                fixture.service.stack.clock.advance(i64::try_from(random.below(max_ms)).unwrap());
            }
        }
        if step % 100 == 99 {
            // Deliveries that still wait for their first attempt are listed, but the newest.
            fixture.service.stack.clock.advance(120_000);
            fixture.deliveries.count(&fixture.scope, fixture.now()).await.unwrap();
            Box::pin(fixture.check_filters(&format!("step {step}"))).await;
        }
    }
    let rows = fixture.service.rows(&fixture.partition(), "day#").await;
    assert!(rows.len() > 4, "the counts cover several days: {rows:?}");
    for status in ["n#charge.paid", "FAILED#charge.paid", "CANCELLED#charge.paid"] {
        assert!(rows.iter().any(|row| row.contains_key(status)), "{rows:?}");
    }
}

#[tokio::test]
async fn a_page_from_any_cursor_or_offset_matches_the_rows_however_few_rows_a_query_reads() {
    let mut fixture = DeliveryFixture::new().await;
    let mut random = SeededRandom(77);
    for number in 0..400 {
        // Most are delivered at their first attempt.
        let status = match random.below(2) {
            0 => DeliveryStatus::all().nth(random.below(5)).unwrap(),
            _ => DeliveryStatus::Delivered,
        };
        let listed = random.below(6) == 0;
        fixture.insert_in(status, listed).await;
        fixture.service.stack.clock.advance(i64::try_from(random.below(2_400_000)).unwrap());
        if number == 390 {
            fixture.deliveries.count(&fixture.scope, fixture.now()).await.unwrap();
        }
    }
    let all = fixture.all().await;
    let filters = fixture.filters(&all);
    let readers = [1_000, 60, 25, 10].map(|rows| (rows, fixture.deliveries.clone().with_rows_a_query(rows)));
    for _ in 0..250 {
        let filter = &filters[random.below(filters.len())];
        let (rows, reader) = &readers[random.below(readers.len())];
        let matching: Vec<DeliveryId> =
            all.iter().filter(|row| filter.admits(row)).map(|row| row.id).collect();
        let limit = [1, 2, 7, 30, 100][random.below(5)];
        let (mut query, mut offset) = (filter.query(limit), 0);
        let rest: Vec<String> = if random.below(2) == 0 {
            // A third of the pages ends exactly at the last match.
            let last_page = matching.len().saturating_sub(limit);
            offset = if random.below(3) == 0 { last_page } else { random.below(matching.len() + 2) };
            query = format!("{query}&offset={offset}");
            matching.iter().skip(offset).map(ToString::to_string).collect()
        } else {
            // Any delivery can be a cursor, also one that does not match.
            let cursor = all[random.below(all.len())].id;
            // No delivery has the lowest id of a millisecond.
            let unknown = DeliveryId::first_at(cursor.timestamp().unwrap());
            let after_unknown = filter_of(&format!("{query}&starting_after={unknown}"));
            let refused = reader.list(&fixture.sharded(), &after_unknown, fixture.now()).await.is_err();
            // A cursor that is newer than the dates has no effect.
            assert!(refused || filter.to.is_some(), "{query} after {unknown} with {rows} rows a query");
            query = format!("{query}&starting_after={cursor}");
            matching.iter().filter(|id| **id < cursor).map(ToString::to_string).collect()
        };
        let page = page_of(reader, &fixture.sharded(), &query, fixture.now()).await;
        let (listed, wanted) = (ids_of(&page), &rest[..limit.min(rest.len())]);
        let case = format!("{query} with {rows} rows a query: {listed:?} instead of {wanted:?}");
        assert_eq!(page["total"], matching.len(), "{case}");
        assert_eq!((&page["limit"], &page["offset"]), (&json!(limit), &json!(offset)), "{case}");
        assert_eq!(page["has_more"], !page["next_cursor"].is_null(), "{case}");
        // A page whose queries end early has a cursor that continues there.
        let is_cut = *rows < 1_000 && page["has_more"] == true;
        assert!(listed == wanted || (is_cut && wanted.starts_with(&listed)), "{case}");
        assert!(is_cut || page["has_more"] == (rest.len() > limit), "{case}");
        if let Some(cursor) = page["next_cursor"].as_str() {
            let is_passed = |id: &&String| id.as_str() >= cursor;
            assert!(
                query.contains("offset") || rest.iter().filter(is_passed).count() <= listed.len(),
                "{case}: no match is skipped before {cursor}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn totals_are_exact_while_deliveries_are_inserted_retried_and_counted() {
    let mut fixture = DeliveryFixture::new().await;
    for _ in 0..60 {
        fixture.insert(0).await;
    }
    fixture.service.stack.clock.advance(300_000);
    let (insert_started, inserted) = (Arc::new(AtomicU64::new(60)), Arc::new(AtomicU64::new(60)));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut others = tokio::task::JoinSet::new();
    let (deliveries, scope, clock) = (&fixture.deliveries, fixture.scope, &fixture.service.stack.clock);
    let sharded = fixture.sharded();
    for reader in [deliveries.clone(), deliveries.clone().with_rows_a_query(40)] {
        for is_of_statistics in [true, false] {
            let (reader, insert_started, inserted, is_over) =
                (reader.clone(), insert_started.clone(), inserted.clone(), is_over.clone());
            let clock = clock.clone();
            others.spawn(async move {
                let mut reads = 0;
                while !is_over.load(Ordering::SeqCst) {
                    let at_least = inserted.load(Ordering::SeqCst);
                    let read = if is_of_statistics {
                        serde_json::to_value(reader.stats(&sharded, clock.now()).await.unwrap()).unwrap()
                    } else {
                        page_of(&reader, &sharded, "limit=5", clock.now()).await
                    };
                    let total = read["total"].as_u64().unwrap();
                    let at_most = insert_started.load(Ordering::SeqCst);
                    assert!(
                        (at_least..=at_most).contains(&total),
                        "the total is {total}, not {at_least} to {at_most}"
                    );
                    reads += 1;
                }
                reads
            });
        }
    }
    for _counter in 0..2 {
        let (counting, counted, at) = (deliveries.clone(), is_over.clone(), clock.clone());
        others.spawn(async move {
            let mut counts = 0;
            while !counted.load(Ordering::SeqCst) {
                counting.count(&scope, at.now()).await.unwrap();
                counts += 1;
            }
            counts
        });
    }
    let mut random = SeededRandom(7);
    for round in 0..25_u64 {
        for _ in 0..10 {
            insert_started.fetch_add(1, Ordering::SeqCst);
            let status = DeliveryStatus::all().nth(random.below(5)).unwrap();
            fixture.insert_in(status, random.below(2) == 0).await;
            inserted.fetch_add(1, Ordering::SeqCst);
        }
        let all = fixture.all().await;
        let open = all.iter().filter(|one| one.status == DeliveryStatus::Pending);
        for one in open.take(3) {
            let claim = fixture.deliveries.claim(&scope, one.id, round, fixture.now()).await.unwrap();
            if let Claim::Claimed(claimed) = claim {
                let end = random_outcome(&mut random, fixture.now());
                fixture
                    .deliveries
                    .end_attempt(&claimed, (&end, Duration::ZERO), fixture.now())
                    .await
                    .unwrap();
            }
        }
        fixture.service.stack.clock.advance(300_000);
    }
    is_over.store(true, Ordering::SeqCst);
    let reads: Vec<u32> = others.join_all().await;
    assert!(reads.iter().all(|reads| *reads >= 5), "{reads:?}");
    fixture.service.stack.clock.advance(300_000);
    fixture.deliveries.count(&fixture.scope, fixture.now()).await.unwrap();
    fixture.check_filters("after all inserts").await;
}

#[tokio::test]
async fn a_message_finds_its_delivery_claimable_leased_early_or_not_to_be_attempted_by_it() {
    let mut fixture = DeliveryFixture::new().await;
    let (now, scope) = (fixture.now(), fixture.scope);
    let deliveries = fixture.deliveries.clone();
    let claim = async |id, name, now| deliveries.claim(&scope, id, name, now).await.unwrap();
    for (listed, seconds_ahead, is_early) in
        [(true, 5, true), (true, 6, false), (false, 6, true), (false, 3_600, true)]
    {
        let next_attempt_at = now.plus_seconds(seconds_ahead).unwrap();
        let waiting = |delivery| Delivery { listed, next_attempt_at, ..delivery };
        let id = fixture.insert_changed(0, waiting).await.id;
        match claim(id, 1, now).await {
            Claim::Early { due_at } => assert!(is_early && due_at == next_attempt_at, "{listed} {due_at}"),
            // The due index has the delivery, so the scheduler sends another message.
            Claim::NotNow => assert!(!is_early, "{listed} {seconds_ahead}"),
            other => panic!("{other:?}"),
        }
    }
    for status in [DeliveryStatus::Delivered, DeliveryStatus::Failed, DeliveryStatus::Cancelled] {
        let id = fixture.insert_changed(0, |delivery| Delivery { status, listed: true, ..delivery }).await.id;
        assert!(matches!(claim(id, 1, now).await, Claim::NotNow), "{status:?}");
    }
    assert!(
        matches!(claim(DeliveryId::first_at(now), 1, now).await, Claim::NotNow),
        "there is no such delivery"
    );
    let id = fixture.insert(0).await.id;
    let now = fixture.now();
    for (name, is_claimed) in [(1, true), (1, true), (2, false)] {
        match claim(id, name, now).await {
            Claim::Claimed(delivery) => assert!(is_claimed && delivery.attempts == 1, "{delivery:?}"),
            Claim::Leased { until } => assert!(!is_claimed && until == now.plus_seconds(60).unwrap()),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_attempt_of_a_delivery_that_was_listed_meanwhile_ends_even_if_the_response_is_lost() {
    let mut fixture = DeliveryFixture::new().await;
    let id = fixture.insert(0).await.id;
    let claimed = fixture.claimed(id, 1).await;
    fixture.deliveries.add_to_list((*claimed).clone(), fixture.now()).await.unwrap();
    assert_eq!(fixture.page("status=PROCESSING").await.1, 1);
    let proxy = fixture.service.proxy();
    let deliveries = Deliveries::new(fixture.service.store_behind_proxy());
    // The first update finds that the delivery is listed. The second one is executed, and its response is lost.
    proxy.inject_every("UpdateItem", 2, Fault::AnswerLost);
    let delivered = AttemptOutcome::Delivered { status_code: 200 };
    assert!(deliveries.end_attempt(&claimed, (&delivered, Duration::ZERO), fixture.now()).await.unwrap());
    proxy.reset();
    Box::pin(fixture.check_filters("delivered")).await;
    assert_eq!(fixture.all().await.remove(0).status, DeliveryStatus::Delivered);
}

#[tokio::test]
async fn a_worker_whose_lease_ended_does_not_end_the_attempt_of_the_next_worker() {
    let mut fixture = DeliveryFixture::new().await;
    let id = fixture.insert(0).await.id;
    let late = fixture.claimed(id, 1).await;
    fixture.service.stack.clock.advance(61_000);
    let next = fixture.claimed(id, 2).await;
    let failed = AttemptOutcome::Exhausted(answered_500());
    let delivered = AttemptOutcome::Delivered { status_code: 200 };
    for outcome in [&failed, &delivered] {
        assert!(
            !fixture.deliveries.end_attempt(&late, (outcome, Duration::ZERO), fixture.now()).await.unwrap()
        );
        assert_eq!(fixture.all().await, [(*next).clone()]);
    }
    assert!(
        fixture.deliveries.end_attempt(&next, (&delivered, Duration::ZERO), fixture.now()).await.unwrap()
    );
    assert!(!fixture.deliveries.end_attempt(&late, (&failed, Duration::ZERO), fixture.now()).await.unwrap());
    assert_eq!(fixture.all().await.remove(0).status, DeliveryStatus::Delivered);
}

#[tokio::test]
async fn a_recovery_considers_the_last_delivery_of_an_event_unless_one_was_delivered() {
    let mut fixture = DeliveryFixture::new().await;
    let (failed, delivered) = (DeliveryStatus::Failed, DeliveryStatus::Delivered);
    for (first, second) in [(delivered, failed), (failed, delivered), (failed, failed)] {
        let of_status = |status| move |delivery| Delivery { status, listed: true, ..delivery };
        let earlier = fixture.insert_changed(10, of_status(first)).await;
        let id = DeliveryId::first_at(fixture.now());
        let later = Delivery { id, ..of_status(second)(earlier.clone()) };
        let event = earlier.event_key();
        let update = RowUpdate::of(event).add("resent", AttributeValue::Ss(vec![id.to_string()]));
        let writes = vec![Write::insert(&later).unwrap(), Write::update(update)];
        assert_eq!(fixture.service.store().commit(writes).await.unwrap(), CommitOutcome::Done);
        fixture.service.stack.clock.advance(1_000);
    }
    let endpoint = fixture.all().await.remove(0).endpoint;
    let request = NewRecovery::of_failed(fixture.now());
    let recovery = Recovery::new((fixture.scope, endpoint, None), "one", request, fixture.now());
    let recoveries = Recoveries::new(fixture.service.store());
    let found = recoveries.count(recovery, fixture.now()).await.unwrap();
    assert_eq!(found, 1, "only the last event was never delivered");
}

#[tokio::test]
async fn deliveries_past_their_retention_are_not_counted() {
    let mut fixture = DeliveryFixture::new().await;
    for (status, listed) in [
        (DeliveryStatus::Delivered, false),
        (DeliveryStatus::Delivered, true),
        (DeliveryStatus::Failed, true),
    ] {
        fixture.insert_in(status, listed).await;
    }
    for (days, total) in [(1, 3), (88, 3), (3, 0)] {
        fixture.service.stack.clock.advance(days * 86_400_000);
        fixture.deliveries.count(&fixture.scope, fixture.now()).await.unwrap();
        let stats = fixture.deliveries.stats(&fixture.sharded(), fixture.now()).await.unwrap();
        assert_eq!(serde_json::to_value(stats).unwrap()["total"], total, "after {days} more days");
        Box::pin(fixture.check_filters(&format!("after {days} more days"))).await;
    }
}

/// Seeds 5,000 deliveries over 40 days and counts them. Three of them failed, and one third were inserted late.
/// Returns the endpoint that every tenth of them went to.
async fn seed_counted_deliveries() -> (DeliveryFixture, EndpointId) {
    let fixture = DeliveryFixture::new().await;
    let client = fixture.service.dynamodb();
    // The requests of some pages depend on the time of day, so it is always noon in São Paulo.
    let noon = Day::of(fixture.now()).ends_at().plus_seconds(12 * 60 * 60).unwrap();
    fixture.service.stack.clock.advance(noon.millis_since(fixture.now()));
    let origin = Origin::new(fixture.scope, "charge#1".to_owned(), fixture.now());
    let event = Event::of_one(EventType::ChargePaid, &origin, &example("Charge")).unwrap();
    seed_deliveries(&client, &event, 5_000, 40, &[1, 2_500, 4_998]).await;
    fixture.deliveries.count(&fixture.scope, fixture.now()).await.unwrap();
    (fixture, other_endpoint(&event))
}

async fn cost(service: &Service, path: &str) -> (Value, Report) {
    // Long enough that concurrent requests overlap even on a busy machine.
    service.proxy().set_min_latency(Duration::from_millis(400));
    let (answer, report) = service.cost(service.get(path)).await;
    (answer.expect(200), report)
}

/// Asserts that a request made at most so many requests, and so many of them in sequence.
#[track_caller]
fn assert_within(what: &str, report: &Report, requests: usize, sequential: usize) {
    let is_within = report.requests() <= requests && report.sequential_requests <= sequential;
    assert!(is_within, "{what}: {report:?}");
}

#[tokio::test]
async fn a_page_of_5000_deliveries_and_their_statistics_take_few_requests() {
    let (fixture, other) = Box::pin(seed_counted_deliveries()).await;
    let service = &fixture.service;
    // Of 5,000 deliveries, 500 are of `charge.created` and go to the other endpoint. Three deliveries to the
    // first endpoint failed. The oldest delivery is of `payout.paid`.
    for (query, requests, sequential, total, on_page) in [
        ("", 4, 3, 5_000, 25),
        // The rows, events and endpoints of 100 deliveries take three requests, which are concurrent.
        ("limit=100", 6, 3, 5_000, 100),
        ("status=DELIVERED", 5, 3, 4_997, 25),
        ("status=FAILED", 4, 3, 3, 3),
        ("status=CANCELLED", 6, 3, 0, 0),
        ("status=PENDING", 5, 3, 0, 0),
        ("status=PROCESSING", 5, 3, 0, 0),
        ("eventType=charge.created", 4, 3, 500, 25),
        ("eventType=charge.created&limit=100", 6, 3, 500, 100),
        ("endpointId=OTHER&limit=100&offset=100", 7, 4, 500, 100),
        // The page is not among the newest 3,000 deliveries.
        ("endpointId=OTHER&limit=100&offset=400", 7, 4, 500, 100),
        ("endpointId=OTHER&eventType=charge.paid", 4, 3, 0, 0),
        ("eventType=payout.paid", 5, 4, 1, 1),
        ("eventType=payout.paid&status=DELIVERED", 8, 6, 1, 1),
        ("eventType=charge.paid&status=FAILED", 4, 3, 3, 3),
        ("endpointId=OTHER&status=FAILED", 4, 3, 0, 0),
        ("endpointId=OTHER&status=CANCELLED", 6, 3, 0, 0),
        ("endpointId=OTHER&status=PENDING", 5, 3, 0, 0),
        ("eventType=charge.created&status=PROCESSING", 5, 3, 0, 0),
    ] {
        let path = format!("/v1/webhooks/deliveries?{}", query.replace("OTHER", &other.to_string()));
        let (body, report) = cost(service, &path).await;
        assert_within(&path, &report, requests, sequential);
        assert_eq!(
            (&body["total"], body["data"].as_array().unwrap().len()),
            (&json!(total), on_page),
            "{path}"
        );
        assert_eq!(body["has_more"], on_page < total && !query.contains("offset=400"), "{path}");
    }
    let (body, report) = cost(service, "/v1/webhooks/stats").await;
    assert_within("statistics", &report, 5, 3);
    assert_eq!((&body["DELIVERED"], &body["total"]), (&json!(4_997), &json!(5_000)));

    // Pages after a cursor, or with dates.
    let ids: Vec<DeliveryId> = fixture.all().await.iter().map(|one| one.id).collect();
    let day = Day::of(ids[2_000].timestamp().unwrap());
    let (from, to) = (day.minus_days(9), day);
    let within = |from: Day, to: Day| {
        ids.iter().filter(|id| (from..=to).contains(&Day::of(id.timestamp().unwrap()))).count()
    };
    let (start, end) = (Day::of(Timestamp::MIN), Day::of(Timestamp::MAX));
    for (query, requests, sequential, total) in [
        (format!("limit=100&starting_after={}", ids[99]), 6, 3, 5_000),
        (format!("limit=100&starting_after={}", ids[4_000]), 7, 4, 5_000),
        (format!("starting_after={}", ids[4_000]), 5, 4, 5_000),
        (format!("status=DELIVERED&starting_after={}", ids[4_000]), 8, 6, 4_997),
        (format!("status=FAILED&starting_after={}", ids[1]), 4, 3, 3),
        (format!("eventType=payout.paid&starting_after={}", ids[100]), 5, 4, 1),
        (format!("created_after={from}"), 4, 3, within(from, end)),
        // A time stands for its day.
        (format!("created_after={}", from.ends_at()), 4, 3, within(from, end)),
        (format!("created_before={to}"), 5, 4, within(start, to)),
        (format!("created_after={from}&created_before={to}&limit=100"), 7, 4, within(from, to)),
    ] {
        let (body, report) = cost(service, &format!("/v1/webhooks/deliveries?{query}")).await;
        assert_eq!(body["total"], total, "{query}");
        assert_within(&query, &report, requests, sequential);
    }
    for (offset, status) in [(5_000, 200), (5_001, 400)] {
        service.get(&format!("/v1/webhooks/deliveries?offset={offset}")).await.expect(status);
    }
}

/// Inserts deliveries, one each millisecond, without an attempt.
async fn burst(fixture: &DeliveryFixture, count: i64) -> Vec<Delivery> {
    let began = fixture.now();
    let deliveries = (0..count).map(|number| {
        let at = began.plus_millis(number).unwrap();
        let origin = Origin::new(fixture.scope, format!("charge#{number}"), at);
        let event = Event::of_one(EventType::ChargePaid, &origin, &example("Charge")).unwrap();
        (Delivery::for_event(&event, &fixture.endpoints[..1], at).remove(0), event)
    });
    let deliveries: Vec<(Delivery, Event)> = deliveries.collect();
    let items: Vec<Item> = deliveries
        .iter()
        .flat_map(|(delivery, event)| [to_item(delivery).unwrap(), to_item(event).unwrap()])
        .collect();
    write(&fixture.service.dynamodb(), &items).await;
    fixture.service.stack.clock.advance(6_000);
    deliveries.into_iter().map(|(delivery, _)| delivery).collect()
}

#[tokio::test]
async fn numbers_take_five_requests_and_are_exact_seconds_after_3000_deliveries_in_three_seconds() {
    let mut fixture = DeliveryFixture::new().await;
    let deliveries = burst(&fixture, 3_000).await;
    // The first request of each proves the API key.
    for (path, requests, sequential) in [
        ("/v1/webhooks/stats", 5, 3),
        ("/v1/webhooks/deliveries", 4, 3),
        ("/v1/webhooks/deliveries?status=PENDING", 5, 3),
        ("/v1/webhooks/deliveries?status=PROCESSING", 5, 3),
        ("/v1/webhooks/deliveries?status=FAILED", 5, 3),
        ("/v1/webhooks/deliveries?status=CANCELLED", 6, 3),
    ] {
        let (body, report) = cost(&fixture.service, path).await;
        assert_within(path, &report, requests, sequential);
        match path.split_once("status=") {
            None => assert_eq!(body["total"], 3_000, "{path}"),
            Some((_, "PENDING")) => {
                assert_eq!(
                    (&body["total"], body["data"].as_array().unwrap().len(), &body["complete"]),
                    (&json!(3_000), 25, &json!(false)),
                    "{path}"
                );
            }
            Some(_) => assert_eq!(body["total"], 0, "{path}"),
        }
    }

    fixture.service.proxy().set_min_latency(Duration::ZERO);
    let mut attempts = tokio::task::JoinSet::new();
    for (number, some) in deliveries.chunks(200).enumerate() {
        let (deliveries, some, now) = (fixture.deliveries.clone(), some.to_vec(), fixture.now());
        attempts.spawn(async move {
            for (index, one) in some.into_iter().enumerate() {
                let Claim::Claimed(claimed) = deliveries.claim(&one.scope, one.id, 1, now).await.unwrap()
                else {
                    panic!("{one:?}")
                };
                let outcome = match index {
                    0..3 => AttemptOutcome::Exhausted(answered_500()),
                    3 if number == 0 => AttemptOutcome::Cancelled(Cause::Deleted),
                    4 => AttemptOutcome::Retry {
                        failed: answered_500(),
                        next_attempt_at: now.plus_seconds(3_600).unwrap(),
                    },
                    _ => AttemptOutcome::Delivered { status_code: 200 },
                };
                assert!(deliveries.end_attempt(&claimed, (&outcome, Duration::ZERO), now).await.unwrap());
            }
        });
    }
    attempts.join_all().await;
    send_count(&fixture.service).await;
    for after_ms in [6_000, 60_000, 210_000, 300_000] {
        fixture.service.stack.clock.advance(after_ms);
        run_counts(&fixture.service).await;
        fixture.service.run_scheduler().await;
        // A late delivery does not disturb the counts.
        let late = fixture.insert(400).await;
        let claimed = fixture.claimed(late.id, 1).await;
        let delivered = AttemptOutcome::Delivered { status_code: 200 };
        assert!(
            fixture
                .deliveries
                .end_attempt(&claimed, (&delivered, Duration::ZERO), fixture.now())
                .await
                .unwrap()
        );
        let expected = |status: DeliveryStatus, all: &[Delivery]| {
            u64::try_from(all.iter().filter(|one| one.status == status).count()).unwrap()
        };
        let all = fixture.all().await;
        let stats = fixture.service.get("/v1/webhooks/stats").await.expect(200);
        for (name, status) in DeliveryStatus::vocabulary() {
            assert_eq!(stats[name], expected(status, &all), "{name} after {after_ms}");
            let page =
                fixture.service.get(&format!("/v1/webhooks/deliveries?status={name}")).await.expect(200);
            assert_eq!(page["total"], expected(status, &all), "{name} after {after_ms}");
        }
        assert_eq!(stats["total"], all.len());
    }
    let other = fixture.service.other_account().get("/v1/webhooks/stats").await;
    assert_eq!(other.expect(200)["total"], 0);
    assert!(text(&fixture.service.rows(&fixture.partition(), "total").await[0], "up_to").is_some());
}

#[tokio::test]
async fn a_delivery_without_an_answer_is_never_counted_as_delivered() {
    let fixture = DeliveryFixture::new().await;
    let deliveries = burst(&fixture, 300).await;
    let delivered = AttemptOutcome::Delivered { status_code: 200 };
    let mut claimed = Vec::new();
    for one in &deliveries[..100] {
        claimed.push(fixture.claimed(one.id, 1).await);
    }
    let numbers = async || {
        let stats = fixture.service.get("/v1/webhooks/stats").await.expect(200);
        let list = async |status: &str| {
            let path = format!("/v1/webhooks/deliveries?status={status}&limit=100");
            fixture.service.get(&path).await.expect(200)
        };
        let (pending, processing) = (list("PENDING").await, list("PROCESSING").await);
        assert_eq!((&pending["total"], &pending["complete"]), (&stats["PENDING"], &processing["complete"]));
        assert_eq!(list("DELIVERED").await["total"], stats["DELIVERED"]);
        let number = |status: &str| stats[status].as_u64().unwrap();
        (["PENDING", "PROCESSING", "DELIVERED"].map(number), pending["complete"] == true)
    };
    // Only the rows of the newest 40 are read.
    assert_eq!(numbers().await, ([300, 0, 0], false));
    for one in &claimed[..50] {
        assert!(
            fixture.deliveries.end_attempt(one, (&delivered, Duration::ZERO), fixture.now()).await.unwrap()
        );
    }
    // Several messages lead to one count, and to one message for the next.
    send_count(&fixture.service).await;
    send_count(&fixture.service).await;
    fixture.service.stack.clock.advance(6_000);
    run_counts(&fixture.service).await;
    assert_eq!(numbers().await, ([250, 0, 50], false));
    assert_eq!(count_messages(&fixture.service, "CountQueue").await, [0, 0, 1]);
    for one in &claimed[50..75] {
        assert!(
            fixture.deliveries.end_attempt(one, (&delivered, Duration::ZERO), fixture.now()).await.unwrap()
        );
    }
    fixture.service.stack.clock.advance(6_000);
    run_counts(&fixture.service).await;
    assert_eq!(numbers().await, ([225, 0, 75], false));
    // Those that are still open are listed, and their status is exact.
    fixture.service.stack.clock.advance(36_000);
    run_counts(&fixture.service).await;
    assert_eq!(numbers().await, ([200, 25, 75], true));
    assert!(
        fixture
            .deliveries
            .end_attempt(&claimed[75], (&delivered, Duration::ZERO), fixture.now())
            .await
            .unwrap()
    );
    // The next count finds that they are listed. Then each change is seen at once.
    fixture.service.stack.clock.advance(12_000);
    run_counts(&fixture.service).await;
    assert_eq!(numbers().await, ([200, 24, 76], true));
    assert!(
        fixture
            .deliveries
            .end_attempt(&claimed[76], (&delivered, Duration::ZERO), fixture.now())
            .await
            .unwrap()
    );
    assert_eq!(numbers().await, ([200, 23, 77], true));
}

#[tokio::test]
async fn the_service_schedules_counting_as_deliveries_are_inserted() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    let partition = format!("deliveries#{}", service.scope());
    // One delivery in 64 schedules a count, and so does each 32nd of a minute.
    let mut created = 0;
    loop {
        for _ in 0..20 {
            service.charge().await;
            created += 1;
        }
        eventually("all deliveries are delivered", async || {
            let stats = service.get("/v1/webhooks/stats").await.expect(200);
            (stats["DELIVERED"] == created).then_some(())
        })
        .await;
        if count_messages(&service, "CountQueue").await != [0; 3]
            || !service.rows(&partition, "total").await.is_empty()
        {
            break;
        }
        assert!(created < 60, "none of {created} deliveries scheduled a count");
    }
    service.advance_seconds(300).await;
    eventually("all deliveries are counted", async || {
        let row = service.rows(&partition, "total").await.into_iter().next()?;
        let newest = service.deliveries("").await[0]["id"].clone();
        (text(&row, "up_to").as_deref() == newest.as_str()).then_some(())
    })
    .await;
    let stats = service.get("/v1/webhooks/stats").await.expect(200);
    assert_eq!((&stats["DELIVERED"], &stats["total"]), (&json!(created), &json!(created)));
}

/// The checkpoint of the counts follows the present after some minutes, because no insert takes so long.
#[tokio::test]
async fn a_step_of_the_clock_while_deliveries_are_inserted_loses_no_count() {
    const ENDPOINTS: usize = 8;
    let (service, listener) = (Service::start().await, Listener::start().await);
    for number in 0..ENDPOINTS {
        service.register_endpoint(&format!("{}/{number}", listener.url), &["charge.created"]).await;
    }
    let deliveries = Deliveries::new(service.store());
    let total = async || {
        let page = service.get("/v1/webhooks/deliveries?limit=1").await.expect(200);
        usize::try_from(page["total"].as_u64().unwrap()).unwrap()
    };
    service.proxy().set_min_latency(Duration::from_millis(50));
    service.new_charge(&json!({"amount": 1_000})).await;
    wait_until("the first delivery", async || total().await > 0).await;
    service.advance_seconds(900).await;
    deliveries.count(&service.scope(), service.stack.clock.now()).await.unwrap();
    listener.received(ENDPOINTS).await;
    assert_eq!(total().await, ENDPOINTS);
}
