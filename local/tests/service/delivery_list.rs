//! Deliveries are counted without a write for each, and exactly, whatever becomes of them and in whatever order; and what their
//! lists and statistics cost does not grow with their number.

use std::time::Duration;

use local::embedded::probe::Report;
use local::stack::Options;
use serde_json::{Value, json};
use shared::http::Query;
use shared::ids::{DeliveryId, EndpointId, Scope};
use shared::rollup::Day;
use shared::store::{Committed, Write, from_item, text};
use shared::time::Timestamp;
use shared::webhook::delivery::{
    AttemptEnd, Claim, Deliveries, Delivery, DeliveryFilter, DeliveryListView, DeliveryStatus,
};
use shared::webhook::endpoint::{Endpoint, EndpointStatus};
use shared::webhook::event::{Event, Origin};
use shared::webhook::event_type::EventType;
use shared::webhook::signature::EndpointSecret;

use crate::rollups::Dice;
use crate::seeding::{count_all, seed_deliveries};
use crate::support::{Listener, Service, eventually};

const STATUSES: [(&str, DeliveryStatus); 5] = DeliveryStatus::VOCABULARY;

/// Deliveries of one scope, made here and not by a dispatcher.
struct Ground {
    service: Service,
    deliveries: Deliveries,
    scope: Scope,
    endpoint: Endpoint,
    made: u64,
}

impl Ground {
    async fn new(options: Options) -> Self {
        let service = Service::with(Options { pumps: false, ..options }).await;
        let (scope, now) = (service.scope(), service.stack.clock.now());
        let endpoint = Endpoint {
            id: EndpointId::new(now, [7; 10]),
            scope,
            url: "https://shop.example.com/hook".to_owned(),
            events: vec![EventType::ChargePaid],
            secret: EndpointSecret::from_random(&[7; 32]),
            status: EndpointStatus::Active,
            failing_since: None,
            disabled: None,
            abandoned: None,
            created_at: now,
            updated_at: now,
            version: 1,
            actor: None,
        };
        let deliveries = Deliveries::new(service.store());
        Self { service, deliveries, scope, endpoint, made: 0 }
    }

    fn now(&self) -> Timestamp {
        self.service.stack.clock.now()
    }

    /// A new delivery of an event that happened so many seconds ago, as a dispatcher makes it.
    async fn insert(&mut self, seconds_ago: i64) -> Delivery {
        let delivery = self.made_of(seconds_ago, |delivery| delivery).await;
        assert_eq!(delivery.listed, seconds_ago >= 150, "{delivery:?}");
        delivery
    }

    async fn made_of(&mut self, seconds_ago: i64, change: impl Fn(Delivery) -> Delivery) -> Delivery {
        self.made += 1;
        let now = self.now();
        let (row, at) = (format!("charge#{}", self.made), now.plus_seconds(-seconds_ago).unwrap());
        let origin = Origin { scope: self.scope, row, version: 1, at };
        let event = Event::canonical(EventType::ChargePaid, &origin, json!({})).unwrap();
        let mut deliveries = Delivery::of_event(&event, std::slice::from_ref(&self.endpoint), now);
        let delivery = change(deliveries.remove(0));
        let writes = vec![Write::insert(&event).unwrap(), Write::insert(&delivery).unwrap()];
        assert_eq!(self.service.store().commit(writes).await.unwrap(), Committed::Done);
        delivery
    }

    /// All of the last 90 days, newest first, read from their own rows.
    async fn all(&self) -> Vec<Delivery> {
        let first = DeliveryId::first_at(Day::of(self.now()).back(90).starts_at());
        let rows = self.service.rows(&format!("deliveries#{}", self.scope), "wd_").await;
        let mut all: Vec<Delivery> = rows.into_iter().map(|row| from_item(row).unwrap()).collect();
        all.retain(|delivery| delivery.id >= first);
        all.sort_by_key(|delivery| std::cmp::Reverse(delivery.id));
        all
    }

    async fn page(&self, query: &str) -> (Vec<String>, u64) {
        let filter = DeliveryFilter::parse(&Query::of(Some(query))).unwrap();
        let page = self.deliveries.list(&self.scope, &filter, self.now()).await.unwrap();
        let view = serde_json::to_value(DeliveryListView::new(&page, &filter)).unwrap();
        let rows = view["data"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["payload"]["type"] == "charge.paid"), "{view}");
        let ids = rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
        (ids, view["total"].as_u64().unwrap())
    }

    /// Compares all lists and numbers with the rows.
    async fn check(&self, what: &str) {
        let all = self.all().await;
        let stats = self.deliveries.stats(&self.scope, self.now()).await.unwrap();
        let stats = serde_json::to_value(stats).unwrap();
        assert_eq!(stats["total"], all.len(), "{what}");
        let lists = STATUSES.into_iter().map(|(word, status)| (format!("status={word}"), Some(status)));
        for (query, status) in lists.chain([(String::new(), None)]) {
            let of_status =
                all.iter().filter(|delivery| status.is_none_or(|status| delivery.status == status));
            let ids: Vec<String> = of_status.map(|delivery| delivery.id.to_string()).collect();
            if status.is_some() {
                let word = query.trim_start_matches("status=");
                assert_eq!(stats[word], ids.len(), "{what}: {query} {stats}");
            }
            let by_type = format!("{query}&eventType=charge.paid");
            for (query, limit) in [(&query, 100), (&query, 30), (&by_type, 100)] {
                let mut listed = Vec::new();
                loop {
                    let (page, total) =
                        self.page(&format!("{query}&limit={limit}&offset={}", listed.len())).await;
                    assert_eq!(total, u64::try_from(ids.len()).unwrap(), "{what}: {query}");
                    let is_last = page.len() < limit;
                    listed.extend(page);
                    if is_last {
                        break;
                    }
                }
                assert_eq!(listed, ids, "{what}: {query} by {limit}");
            }
        }
    }
}

fn end(dice: &mut Dice, now: Timestamp) -> AttemptEnd {
    let (status_code, error) = (Some(500), "answered 500".to_owned());
    match dice.below(10) {
        0..6 => AttemptEnd::Delivered { status_code: 200 },
        6..8 => AttemptEnd::Retry {
            status_code,
            error,
            response_body: None,
            next_attempt_at: now.plus_seconds(30).unwrap(),
        },
        8 => AttemptEnd::Exhausted { status_code, error, response_body: None },
        _ => AttemptEnd::Cancelled { reason: "the endpoint was deleted".to_owned() },
    }
}

#[tokio::test]
async fn whatever_becomes_of_deliveries_their_lists_and_numbers_are_those_of_their_rows() {
    let mut ground = Ground::new(Options::in_memory()).await;
    let mut dice = Dice(2026);
    let mut claimed: Vec<Delivery> = Vec::new();
    for step in 0..500_u32 {
        match dice.below(20) {
            0..7 => drop(ground.insert(0).await),
            7 => drop(ground.insert(i64::try_from(dice.below(600)).unwrap()).await),
            8..12 => {
                let all = ground.all().await;
                let is_open = |delivery: &&Delivery| {
                    matches!(delivery.status, DeliveryStatus::Pending | DeliveryStatus::Processing)
                };
                let open: Vec<&Delivery> = all.iter().filter(is_open).collect();
                if !open.is_empty() {
                    let id = open[dice.below(open.len())].id;
                    let claim = u64::from(step);
                    let claim =
                        ground.deliveries.claim(&ground.scope, id, claim, ground.now()).await.unwrap();
                    if let Claim::Claimed(delivery) = claim {
                        claimed.push(*delivery);
                    }
                }
            }
            12..16 if !claimed.is_empty() => {
                let delivery = claimed.swap_remove(dice.below(claimed.len()));
                let end = end(&mut dice, ground.now());
                // One whose lease was lost to another claim is not ended.
                let _ended_or_lost = ground.deliveries.end(&delivery, &end, ground.now()).await.unwrap();
            }
            16 => {
                // As `clock` does with what takes long.
                let all = ground.all().await;
                if !all.is_empty() {
                    let delivery = &all[dice.below(all.len())];
                    ground.deliveries.enlist(delivery).await.unwrap();
                }
            }
            17 => ground.deliveries.count(&ground.scope, ground.now()).await.unwrap(),
            _ => {
                ground.service.stack.clock.advance(i64::try_from(dice.below(40_000)).unwrap());
            }
        }
        if step % 100 == 99 {
            Box::pin(ground.check(&format!("step {step}"))).await;
        }
    }
    let rows = ground.service.rows(&format!("deliveries#{}", ground.scope), "~counts").await;
    assert!(rows[0].contains_key("up_to"), "{rows:?}");
    assert!(rows[0]["days"].as_m().unwrap().values().any(|day| day.as_m().unwrap().len() == 3), "{rows:?}");
}

#[tokio::test]
async fn a_delivery_that_was_listed_while_its_first_attempt_ran_leaves_that_list_when_it_is_delivered() {
    let mut ground = Ground::new(Options::in_memory()).await;
    let id = ground.insert(0).await.id;
    let Claim::Claimed(claimed) = ground.deliveries.claim(&ground.scope, id, 1, ground.now()).await.unwrap()
    else {
        panic!("claimable")
    };
    ground.deliveries.enlist(&ground.all().await[0]).await.unwrap();
    assert_eq!(ground.page("status=PROCESSING").await.1, 1);
    let delivered = AttemptEnd::Delivered { status_code: 200 };
    assert!(ground.deliveries.end(&claimed, &delivered, ground.now()).await.unwrap());
    Box::pin(ground.check("delivered")).await;
    // An answer that was lost is asked for again.
    assert!(ground.deliveries.end(&claimed, &delivered, ground.now()).await.unwrap());
    Box::pin(ground.check("delivered again")).await;
}

#[tokio::test]
async fn what_is_no_longer_kept_is_no_longer_counted() {
    let mut ground = Ground::new(Options::in_memory()).await;
    for (status, listed) in [
        (DeliveryStatus::Delivered, false),
        (DeliveryStatus::Delivered, true),
        (DeliveryStatus::Failed, true),
    ] {
        ground.made_of(0, |delivery| Delivery { status, listed, ..delivery }).await;
    }
    for (days, total) in [(1, 3), (88, 3), (3, 0)] {
        ground.service.stack.clock.advance(days * 86_400_000);
        ground.deliveries.count(&ground.scope, ground.now()).await.unwrap();
        let stats = ground.deliveries.stats(&ground.scope, ground.now()).await.unwrap();
        assert_eq!(serde_json::to_value(stats).unwrap()["total"], total, "{days} days on");
        Box::pin(ground.check(&format!("{days} days on"))).await;
    }
}

#[tokio::test]
async fn a_delivery_that_was_left_behind_does_not_hold_up_the_count() {
    let mut ground = Ground::new(Options::in_memory()).await;
    // As a version that knew no list left it.
    ground.made_of(0, |delivery| Delivery { status: DeliveryStatus::Failed, ..delivery }).await;
    ground.made_of(0, |delivery| Delivery { status: DeliveryStatus::Delivered, ..delivery }).await;
    for _ in 0..2 {
        ground.service.stack.clock.advance(600_000);
        ground.deliveries.count(&ground.scope, ground.now()).await.unwrap();
    }
    Box::pin(ground.check("counted")).await;
    let row = ground.service.rows(&format!("deliveries#{}", ground.scope), "~counts").await.remove(0);
    let newest = ground.all().await[0].id.to_string();
    assert_eq!(text(&row, "up_to"), Some(newest));
    assert!(!row.contains_key("due_pk"), "nothing is left to count: {row:?}");
}

/// So many deliveries over 40 days, three of which failed and a third of which were late, counted.
async fn with(count: usize) -> Ground {
    let ground = Ground::new(Options { probe: true, ..Options::in_memory() }).await;
    let client = local::sdk::dynamodb(&ground.service.stack.endpoints.dynamodb_url);
    let origin = Origin { scope: ground.scope, row: "charge#1".to_owned(), version: 1, at: ground.now() };
    let event = Event::canonical(EventType::ChargePaid, &origin, json!({})).unwrap();
    seed_deliveries(&client, &event, count, 40, &[1, count / 2, count - 2]).await;
    count_all(&ground.deliveries, &ground.scope, ground.now(), count).await;
    ground
}

async fn cost(ground: &Ground, path: &str) -> (Value, Report) {
    let probe = ground.service.stack.probe.as_ref().unwrap();
    probe.slow_down(Duration::from_millis(100));
    probe.reset();
    let body = ground.service.get(path).await.expect(200);
    (body, probe.report())
}

#[tokio::test]
async fn a_page_of_deliveries_and_their_numbers_cost_the_same_among_few_and_many() {
    let (few, many) = (with(200).await, with(5_000).await);
    for (path, requests, in_a_row) in [
        ("/v1/webhooks/deliveries", 5, 3),
        ("/v1/webhooks/deliveries?limit=100", 5, 3),
        ("/v1/webhooks/deliveries?status=DELIVERED", 5, 3),
        ("/v1/webhooks/deliveries?status=FAILED", 5, 3),
        ("/v1/webhooks/deliveries?status=PENDING", 5, 3),
        ("/v1/webhooks/deliveries?status=PROCESSING", 5, 3),
        ("/v1/webhooks/stats", 7, 2),
    ] {
        let ((_, few), (body, many)) = tokio::join!(cost(&few, path), cost(&many, path));
        for report in [&few, &many] {
            let is_within = report.requests() <= requests && report.one_after_another <= in_a_row;
            assert!(is_within, "{path}: {report:?}");
        }
        assert_eq!(few.requests(), many.requests(), "{path}: {few:?} {many:?}");
        let total = match path.split_once("status=").map(|(_, status)| status) {
            Some("DELIVERED") => 4_997,
            Some("FAILED") => 3,
            Some(_) => 0,
            None => 5_000,
        };
        assert_eq!(body["total"], total, "{path}");
    }
}

#[tokio::test]
async fn the_service_counts_its_deliveries_as_they_are_made() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register(&listener.url, &["charge.created"]).await;
    let partition = format!("deliveries#{}", service.scope());
    // One in 64 deliveries has them counted.
    let mut made = 0;
    loop {
        for _ in 0..20 {
            service.charge().await;
            made += 1;
        }
        eventually("all delivered", async || {
            let stats = service.get("/v1/webhooks/stats").await.expect(200);
            (stats["DELIVERED"] == made).then_some(())
        })
        .await;
        if !service.rows(&partition, "~counts").await.is_empty() {
            break;
        }
        assert!(made < 2_000, "none of them was");
    }
    service.advance(300).await;
    eventually("all counted", async || {
        let row = service.rows(&partition, "~counts").await.remove(0);
        let newest = service.deliveries("").await[0]["id"].clone();
        (text(&row, "up_to").as_deref() == newest.as_str() && !row.contains_key("due_pk")).then_some(())
    })
    .await;
    let stats = service.get("/v1/webhooks/stats").await.expect(200);
    assert_eq!((&stats["DELIVERED"], &stats["total"]), (&json!(made), &json!(made)));
}
