//! Deliveries that are abandoned, because their endpoint was deleted or its merchant set it to `INACTIVE` (contract: Delivery
//! semantics): by themselves at once, in lists and statistics soon after, and for good.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use aws_sdk_dynamodb::types::AttributeValue;
use axum::Router;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;
use local::embedded::fault_proxy::Fault;
use local::stack::Options;
use serde_json::{Value, json};
use shared::store::{from_item, key_attributes, to_item};
use shared::webhook::delivery::{Delivery, DeliveryStatus};
use shared::webhook::endpoint::{Endpoint, Endpoints};
use shared::webhook::event::{Event, Origin};

use crate::budgets::{dispatch, hand_over, stream, work};
use crate::seeding::write;
use crate::support::{Client, Listener, Service, eventually, id};
use crate::webhooks::queue_is_empty;

const INACTIVE: &str = r#"{"status": "INACTIVE"}"#;
const ACTIVE: &str = r#"{"status": "ACTIVE"}"#;

/// How a merchant abandons what waits for an endpoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum By {
    Deletion,
    Deactivation,
    /// And it is `ACTIVE` again at once.
    DeactivationAndBack,
}

impl By {
    const ALL: [Self; 3] = [Self::Deletion, Self::Deactivation, Self::DeactivationAndBack];

    async fn change(self, client: &Client, path: &str) {
        let requests: &[(Method, &str)] = match self {
            Self::Deletion => &[(Method::DELETE, "")],
            Self::Deactivation => &[(Method::PATCH, INACTIVE)],
            Self::DeactivationAndBack => &[(Method::PATCH, INACTIVE), (Method::PATCH, ACTIVE)],
        };
        let key = client.key();
        let headers = [("apikey", key.as_str()), ("content-type", "application/json")];
        for (method, body) in requests {
            client.raw(method.clone(), path, &headers, (*body).to_owned()).await.expect(200);
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Deletion => "the endpoint was deleted",
            Self::Deactivation | Self::DeactivationAndBack => "the endpoint was set to INACTIVE",
        }
    }
}

fn path(endpoint: &Value) -> String {
    format!("/v1/webhooks/endpoints/{}", id(endpoint))
}

/// A service in which only requests run.
async fn still() -> Service {
    Service::with(Options { event_sources: false, fault_proxy: true, ..Options::in_memory() }).await
}

async fn read(service: &Service, delivery: &Value) -> Value {
    service.get(&format!("/v1/webhooks/deliveries/{}", id(delivery))).await.expect(200)
}

/// The deliveries of two new charges to an endpoint that fails: one that was attempted, and one that was not.
async fn two_waiting(service: &Service) -> [Value; 2] {
    service.charge().await;
    dispatch(service).await;
    let attempted = service.deliveries("").await.remove(0);
    work(service, &attempted).await;
    service.charge().await;
    dispatch(service).await;
    let new = service.deliveries("").await.remove(0);
    [read(service, &attempted).await, new]
}

/// The rows of abandonments.
async fn abandonments(service: &Service) -> Vec<HashMap<String, AttributeValue>> {
    service.rows(&format!("abandonments#{}", service.scope()), "wh_").await
}

async fn scheduler(service: &Service) {
    let scheduler = service.stack.functions.get("SchedulerFunction").unwrap().clone();
    // A run that fails is followed by the next.
    drop(scheduler(json!({})).await);
}

/// Checks that lists, filters and statistics say so of all deliveries to an endpoint that was abandoned.
async fn expect_in_lists(service: &Service, pending: usize, cancelled: usize) {
    let stats = service.get("/v1/webhooks/stats").await.expect(200);
    let of = |status: &str| stats[status].as_u64().unwrap();
    let expected = (u64::try_from(pending).unwrap(), u64::try_from(cancelled).unwrap());
    assert_eq!((of("PENDING"), of("CANCELLED")), expected, "{stats}");
    for (status, count) in [("PENDING", pending), ("CANCELLED", cancelled)] {
        let page =
            service.get(&format!("/v1/webhooks/deliveries?status={status}&limit=100")).await.expect(200);
        assert_eq!(page["total"], count, "{status}");
        assert_eq!(page["data"].as_array().unwrap().len(), count.min(100), "{status}");
    }
}

/// Hands over what the stream has until abandonments have no step left that it makes.
async fn dispatch_all(service: &Service) {
    let mut seen = 0;
    loop {
        let records = stream(service).await;
        if records.len() == seen {
            return;
        }
        hand_over(service, &records[seen..]).await;
        seen = records.len();
    }
}

#[tokio::test]
async fn a_delivery_whose_endpoint_is_deleted_or_deactivated_reads_cancelled_at_once() {
    for by in By::ALL {
        let service = still().await;
        let listener = Listener::answering(|_number| (StatusCode::BAD_GATEWAY, "why").into_response()).await;
        let endpoint = service.register(&listener.url, &["charge.created"]).await;
        let [attempted, new] = two_waiting(&service).await;
        assert_eq!((&attempted["status"], &new["status"]), (&json!("PENDING"), &json!("PENDING")));
        by.change(&service, &path(&endpoint)).await;

        let read_attempted = read(&service, &attempted).await;
        let mut expected = attempted.clone();
        expected["status"] = json!("CANCELLED");
        expected["lastError"] = json!(format!("{}; the last attempt: answered 502", by.reason()));
        expected["nextRetryAt"] = Value::Null;
        expected["updatedAt"] = read_attempted["updatedAt"].clone();
        assert_eq!(read_attempted, expected, "{by:?}");
        assert!(read_attempted["updatedAt"].as_str() > attempted["updatedAt"].as_str(), "{by:?}");
        let read_new = read(&service, &new).await;
        assert_eq!((&read_new["status"], &read_new["lastError"]), (&json!("CANCELLED"), &json!(by.reason())));
        assert_eq!((&read_new["attempts"], read_new.get("lastResponseBody")), (&json!(0), None));

        // The rows do not say so yet, and reading one costs what it did.
        expect_in_lists(&service, 2, 0).await;
        let proxy = service.stack.fault_proxy.as_ref().unwrap();
        proxy.reset();
        read(&service, &new).await;
        assert_eq!(proxy.report().requests(), 3, "{:?}", proxy.report());

        // No attempt begins.
        service.stack.clock.advance(37_000);
        for delivery in [&attempted, &new] {
            work(&service, delivery).await;
            let ended = read(&service, delivery).await;
            assert_eq!(ended["status"], "CANCELLED", "{by:?}");
            assert_eq!(ended["attempts"], delivery["attempts"], "{by:?}");
        }
        assert_eq!(listener.hooks().len(), 1, "{by:?}");
        expect_in_lists(&service, 0, 2).await;
    }
}

#[tokio::test]
async fn the_rows_of_abandoned_deliveries_are_cancelled_as_they_read_and_others_are_left_alone() {
    for by in By::ALL {
        let service = still().await;
        let failing = || Listener::answering(|_number| (StatusCode::BAD_GATEWAY, "why").into_response());
        let (listener, other) = (failing().await, failing().await);
        let endpoint = service.register(&listener.url, &["charge.created"]).await;
        let waiting = two_waiting(&service).await;
        service.register(&other.url, &["charge.paid"]).await;
        let charge = service.charge().await;
        service.sandbox(&charge, "pay", &json!({})).await;
        let own = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "own", "webhookUrl": other.url});
        service.post("/v1/payments", &own).await.expect(201);
        dispatch(&service).await;
        by.change(&service, &path(&endpoint)).await;
        let as_read = [read(&service, &waiting[0]).await, read(&service, &waiting[1]).await];
        dispatch_all(&service).await;
        // Four to the endpoint; one to the other, two to the payment's own address.
        expect_in_lists(&service, 3, 4).await;
        for (before, waiting) in as_read.iter().zip(&waiting) {
            assert_eq!(read(&service, waiting).await, *before, "{by:?}");
        }
        for query in ["", "&eventType=charge.created"] {
            let cancelled =
                service.deliveries(&format!("&status=CANCELLED&endpointId={}{query}", id(&endpoint))).await;
            assert_eq!(cancelled.len(), 4, "{by:?}");
        }
        // Handed over again, as after a failed batch: nothing more happens.
        let written = stream(&service).await.len();
        dispatch(&service).await;
        assert_eq!(stream(&service).await.len(), written, "{by:?}");
        // Each is counted once.
        service.stack.clock.advance(300_000);
        for _ in 0..3 {
            scheduler(&service).await;
        }
        expect_in_lists(&service, 3, 4).await;
    }
}

#[tokio::test]
async fn a_later_active_revives_nothing_and_new_events_are_delivered() {
    let service = Service::start().await;
    let listener = Listener::answering(|number| match number {
        0 => StatusCode::BAD_GATEWAY.into_response(),
        _ => StatusCode::NO_CONTENT.into_response(),
    })
    .await;
    let endpoint = service.register(&listener.url, &["charge.created"]).await;
    service.charge().await;
    let waiting = eventually("the first failure", async || {
        let waiting = service.deliveries("&status=PENDING").await;
        waiting.into_iter().find(|delivery| delivery["attempts"] == 1)
    })
    .await;
    By::DeactivationAndBack.change(&service, &path(&endpoint)).await;
    eventually("it is cancelled", async || {
        service
            .deliveries("&status=CANCELLED")
            .await
            .into_iter()
            .find(|delivery| delivery["id"] == waiting["id"])
    })
    .await;
    service.advance(37).await;
    let charge = service.charge().await;
    let hooks = listener.received(2).await;
    assert_eq!(hooks[1].json()["data"]["object"]["id"], charge["id"]);
    service.advance(15 * 60 * 60).await;
    assert_eq!(read(&service, &waiting).await["status"], "CANCELLED");
    let again = format!("/v1/webhooks/deliveries/{}/resend", id(&waiting));
    let resent = service.post(&again, &json!({})).await.expect(200);
    let hooks = listener.received(3).await;
    assert_eq!(hooks[2].header("x-service-delivery-id"), id(&resent));
}

/// A merchant's server that abandons what waits for its endpoint while a request to it runs, and answers so. Gives its address, and
/// where it reads the endpoint's path from.
async fn abandoning(service: &Service, by: By, status: StatusCode) -> (String, Arc<OnceLock<String>>) {
    let path: Arc<OnceLock<String>> = Arc::default();
    let client = Arc::new(Client::new(&service.base_url, &service.key()));
    let known = Arc::clone(&path);
    let answer = move || {
        let (client, known) = (Arc::clone(&client), Arc::clone(&known));
        async move {
            by.change(&client, known.get().unwrap()).await;
            (status, "late")
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.unwrap() });
    (url, path)
}

#[tokio::test]
async fn an_attempt_that_runs_meanwhile_ends_as_delivered_or_cancelled() {
    for by in By::ALL {
        for (status, attempts_before) in
            [(StatusCode::NO_CONTENT, 0), (StatusCode::BAD_GATEWAY, 0), (StatusCode::BAD_GATEWAY, 14)]
        {
            let what = format!("{by:?} {status} after {attempts_before}");
            let service = still().await;
            let (url, known) = abandoning(&service, by, status).await;
            let endpoint = service.register(&url, &["charge.created"]).await;
            known.set(path(&endpoint)).unwrap();
            service.charge().await;
            dispatch(&service).await;
            let delivery = service.deliveries("").await.remove(0);
            let attempts = AttributeValue::N(attempts_before.to_string());
            set(&service, "deliveries", id(&delivery), "attempts", attempts).await;
            work(&service, &delivery).await;
            let ended = read(&service, &delivery).await;
            assert_eq!(ended["attempts"], attempts_before + 1, "{what}");
            assert_eq!(ended["lastStatusCode"], status.as_u16(), "{what}");
            let is_delivered = status.is_success();
            if is_delivered {
                assert_eq!(
                    (&ended["status"], &ended["lastError"]),
                    (&json!("DELIVERED"), &Value::Null),
                    "{what}"
                );
            } else {
                let error = format!("{}; the last attempt: answered 502", by.reason());
                assert_eq!(
                    (&ended["status"], &ended["lastError"]),
                    (&json!("CANCELLED"), &json!(error)),
                    "{what}"
                );
                assert_eq!(
                    (&ended["lastResponseBody"], &ended["nextRetryAt"]),
                    (&json!("late"), &Value::Null)
                );
            }
            expect_in_lists(&service, 0, usize::from(!is_delivered)).await;
            assert_eq!(dead_letters(&service).await, 0, "{what}");
            // And the steps that follow change nothing of it.
            dispatch_all(&service).await;
            assert_eq!(read(&service, &delivery).await, ended, "{what}");
        }
    }
}

async fn dead_letters(service: &Service) -> usize {
    let sqs = local::sdk::sqs(&service.stack.endpoints.sqs_url);
    let url = local::template::queue_url(&service.stack.endpoints.sqs_url, "DeliveryDeadLetterQueue");
    let received = sqs.receive_message().queue_url(url).max_number_of_messages(10).send().await.unwrap();
    received.messages().len()
}

/// Sets an attribute of a row of the scope.
async fn set(service: &Service, partition: &str, sk: &str, name: &str, value: AttributeValue) {
    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    let update = client.update_item().table_name("StateTable");
    update
        .key("pk", AttributeValue::S(format!("{partition}#{}", service.scope())))
        .key("sk", AttributeValue::S(sk.to_owned()))
        .update_expression("SET #name = :value")
        .expression_attribute_names("#name", name)
        .expression_attribute_values(":value", value)
        .send()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_delivery_made_from_an_endpoint_that_was_read_before_it_was_deactivated_is_abandoned_too() {
    let service = still().await;
    let listener = Listener::start().await;
    let made = service.register(&listener.url, &["charge.paid"]).await;
    let read_before = Endpoints::new(service.store()).of(&service.scope()).await.unwrap();
    By::DeactivationAndBack.change(&service, &path(&made)).await;
    // The dispatcher's clock may be ahead.
    let now = service.stack.clock.now().plus_seconds(5).unwrap();
    let event = event(&service, 1, now);
    let late = Delivery::of_event(&event, &read_before, now).remove(0);
    write(&dynamodb(&service), &[to_item(&event).unwrap(), to_item(&late).unwrap()]).await;
    let late = json!({"id": late.id, "endpointId": made["id"]});
    assert_eq!(read(&service, &late).await["status"], "CANCELLED");
    service.stack.clock.advance(6_000);
    work(&service, &late).await;
    assert_eq!(service.deliveries("&status=CANCELLED").await.len(), 1);
    assert_eq!(listener.hooks().len(), 0);
}

fn dynamodb(service: &Service) -> aws_sdk_dynamodb::Client {
    local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url)
}

fn event(service: &Service, number: usize, at: Timestamp) -> Event {
    let origin = Origin { scope: service.scope(), row: format!("charge#{number}"), version: 1, at };
    Event::canonical(EventType::ChargePaid, &origin, json!({})).unwrap()
}

/// So many deliveries that wait for an hour for their next attempt to the endpoint that takes `charge.paid`, every second of
/// which is listed.
async fn seed_waiting(service: &Service, count: usize) {
    let endpoints = Endpoints::new(service.store()).of(&service.scope()).await.unwrap();
    let now = service.stack.clock.now();
    let events: Vec<Event> = (0..count)
        .map(|number| event(service, number, now.plus_millis(-i64::try_from(number).unwrap()).unwrap()))
        .collect();
    let deliveries = events.iter().flat_map(|event| Delivery::of_event(event, &endpoints, now)).enumerate();
    let waiting = deliveries.map(|(place, delivery)| Delivery {
        next_attempt_at: now.plus_seconds(3_600).unwrap(),
        attempts: u32::from(place % 4 < 2),
        listed: place % 4 < 2,
        ..delivery
    });
    let items: Vec<_> = waiting.map(|delivery| to_item(&delivery).unwrap()).collect();
    assert_eq!(items.len(), count);
    write(&dynamodb(service), &items).await;
}

/// How many deliveries were cancelled so far, each in its row and its place of the list.
async fn cancelled(service: &Service) -> usize {
    let all =
        service.store().partition_prefix(&format!("deliveries#{}", service.scope()), "wd_").await.unwrap();
    let cancelled = all.into_iter().filter(|item| {
        let delivery: Delivery = from_item(item.clone()).unwrap();
        let is_cancelled = delivery.status == DeliveryStatus::Cancelled;
        let place = item.get("list_sk").map(|place| place.as_s().unwrap().as_str());
        assert_eq!(place.is_some_and(|place| place.starts_with("CANCELLED#")), is_cancelled);
        assert_eq!(item.contains_key("due_pk"), !is_cancelled);
        assert!(delivery.listed || !is_cancelled);
        is_cancelled
    });
    cancelled.count()
}

#[tokio::test]
async fn deliveries_are_cancelled_in_bounded_steps_each_safe_to_repeat() {
    let service = still().await;
    let endpoint = service.register("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    seed_waiting(&service, 1_300).await;
    let before = stream(&service).await.len();
    By::Deletion.change(&service, &path(&endpoint)).await;
    let of_abandonment =
        |record: &Value| record["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap().starts_with("abandonments#");
    let mut counts = vec![0];
    let mut seen = before;
    loop {
        let records = stream(&service).await;
        let steps: Vec<Value> =
            records[seen..].iter().filter(|record| of_abandonment(record)).cloned().collect();
        if steps.is_empty() {
            break;
        }
        seen = records.len();
        assert_eq!(steps.len(), 1);
        // The first alone, for two at once may cancel twice as many; the others as several batches at once.
        if counts.len() == 1 {
            hand_over(&service, &steps).await;
        } else {
            tokio::join!(hand_over(&service, &steps), hand_over(&service, &steps));
        }
        let after_step = cancelled(&service).await;
        hand_over(&service, &steps).await;
        assert_eq!(cancelled(&service).await, after_step, "the same record once more");
        counts.push(after_step);
    }
    assert!((1..=1_000).contains(&counts[1]) && counts.len() > 3, "{counts:?}");
    assert_eq!(counts.last(), Some(&1_300));
    expect_in_lists(&service, 0, 1_300).await;
}

#[tokio::test]
async fn the_scheduler_continues_what_the_stream_lost_and_ends_it() {
    let service = still().await;
    let proxy = service.stack.fault_proxy.as_ref().unwrap();
    let endpoint = service.register("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    seed_waiting(&service, 200).await;
    By::Deactivation.change(&service, &path(&endpoint)).await;
    // The dispatcher's step fails: its batch is done all the same, for the stream must not wait.
    proxy.inject_every("TransactWriteItems", 1, Fault::InternalError);
    let records = stream(&service).await;
    let of_abandonment: Vec<Value> = records
        .iter()
        .filter(|record| record["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap().starts_with("abandonments#"))
        .cloned()
        .collect();
    assert_eq!(of_abandonment.len(), 1);
    hand_over(&service, &of_abandonment).await;
    proxy.reset();
    assert_eq!(cancelled(&service).await, 0);

    // Others hold some of the rows: they are waited for.
    let mut seconds = 0;
    let is_over = |rows: &[HashMap<String, AttributeValue>]| !rows[0].contains_key("due_pk");
    while !is_over(&abandonments(&service).await) {
        seconds += 61;
        service.stack.clock.advance(61_000);
        proxy.inject_every("TransactWriteItems", 2, Fault::TransactionConflict);
        scheduler(&service).await;
        proxy.reset();
        assert!(seconds < 20 * 61, "never over");
    }
    assert_eq!(cancelled(&service).await, 200);
    expect_in_lists(&service, 0, 200).await;
    let row = abandonments(&service).await.remove(0);
    let kept_until: i64 = row["ttl"].as_n().unwrap().parse().unwrap();
    assert!(kept_until > service.stack.clock.now().seconds() + 91 * 24 * 60 * 60);
}

#[tokio::test]
async fn what_an_attempt_left_pending_behind_the_passes_is_cancelled_by_the_last_one() {
    let service = still().await;
    let endpoint = service.register("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    seed_waiting(&service, 10).await;
    By::Deactivation.change(&service, &path(&endpoint)).await;
    let before = Endpoints::new(service.store()).of(&service.scope()).await.unwrap();
    dispatch_all(&service).await;
    assert_eq!(cancelled(&service).await, 10);
    // As a worker writes it that read the endpoint just before.
    let now = service.stack.clock.now();
    let event = event(&service, 99, now);
    let endpoint = Endpoint {
        abandoned: None,
        status: shared::webhook::endpoint::EndpointStatus::Active,
        ..before[0].clone()
    };
    let left = Delivery { listed: true, ..Delivery::of_event(&event, &[endpoint], now).remove(0) };
    write(&dynamodb(&service), &[to_item(&event).unwrap(), to_item(&left).unwrap()]).await;
    service.stack.clock.advance(121_000);
    scheduler(&service).await;
    assert_eq!(cancelled(&service).await, 11);
    assert!(!abandonments(&service).await[0].contains_key("due_pk"));
}

/// Pending deliveries in the test of many; `cargo run` is measured with 10,000 (docs/decisions.md).
const MANY: usize = 1_500;

#[tokio::test]
async fn all_that_waits_for_a_deleted_endpoint_is_cancelled_in_lists_and_statistics() {
    let service = Service::start().await;
    let other = service.register("http://127.0.0.1:9/other", &["charge.paid"]).await;
    seed_waiting(&service, 100).await;
    service.patch(&path(&other), &json!({"events": ["charge.failed"]})).await.expect(200);
    let endpoint = service.register("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    seed_waiting(&service, MANY).await;
    // The stream is read in order: what was put there before is dispatched.
    let listener = Listener::start().await;
    service.register(&listener.url, &["charge.created"]).await;
    service.charge().await;
    listener.received(1).await;
    queue_is_empty(&service).await;

    service.delete(&path(&endpoint)).await.expect(200);
    eventually("two passes are made", async || {
        let row = abandonments(&service).await.remove(0);
        (row["pass"].as_s().unwrap() == "last").then_some(())
    })
    .await;
    expect_in_lists(&service, 100, MANY).await;
    let page = async |query: &str| service.get(&format!("/v1/webhooks/deliveries?{query}")).await.expect(200);
    for (endpoint, status, count) in [(&endpoint, "CANCELLED", MANY), (&other, "PENDING", 100)] {
        assert_eq!(page(&format!("endpointId={}&status={status}", id(endpoint))).await["total"], count);
        assert_eq!(page(&format!("endpointId={}", id(endpoint))).await["total"], count);
    }
}

#[tokio::test]
async fn an_endpoint_deactivated_before_abandonments_were_counted_revives_nothing_when_it_is_active_again() {
    let service = still().await;
    let listener = Listener::start().await;
    let endpoint = service.register(&listener.url, &["charge.created"]).await;
    service.charge().await;
    dispatch(&service).await;
    let waiting = service.deliveries("").await.remove(0);
    // As an earlier version left it.
    set(&service, "endpoints", id(&endpoint), "status", AttributeValue::S("INACTIVE".to_owned())).await;
    assert_eq!(read(&service, &waiting).await["status"], "CANCELLED");
    service.patch(&path(&endpoint), &json!({"status": "ACTIVE"})).await.expect(200);
    assert_eq!(read(&service, &waiting).await["status"], "CANCELLED");
    work(&service, &waiting).await;
    assert_eq!(listener.hooks().len(), 0);
    service.charge().await;
    dispatch(&service).await;
    let new = service.deliveries("").await.remove(0);
    work(&service, &new).await;
    assert_eq!(listener.hooks().len(), 1);
    dispatch_all(&service).await;
    expect_in_lists(&service, 0, 1).await;
}

#[tokio::test]
async fn a_delivery_whose_endpoint_was_deleted_without_a_tombstone_reads_cancelled() {
    let service = still().await;
    let endpoint = service.register("http://127.0.0.1:9/hook", &["charge.created"]).await;
    service.charge().await;
    dispatch(&service).await;
    let waiting = service.deliveries("").await.remove(0);
    let key = Endpoint::key_of(&service.scope(), id(&endpoint).parse().unwrap());
    let delete =
        dynamodb(&service).delete_item().table_name("StateTable").set_key(Some(key_attributes(&key)));
    delete.send().await.unwrap();
    let read = read(&service, &waiting).await;
    assert_eq!(
        (&read["status"], &read["lastError"]),
        (&json!("CANCELLED"), &json!("the endpoint was deleted"))
    );
    assert_eq!(read["updatedAt"], waiting["updatedAt"]);
}

#[tokio::test]
async fn an_endpoint_that_is_inactive_already_has_nothing_to_abandon() {
    let service = still().await;
    let endpoint = service.register("http://127.0.0.1:9/hook", &["charge.created"]).await;
    for (changes, rows) in
        [(&["ACTIVE"][..], 0), (&["INACTIVE", "INACTIVE"], 1), (&["ACTIVE", "INACTIVE"], 2)]
    {
        for status in changes {
            service.patch(&path(&endpoint), &json!({"status": status})).await.expect(200);
        }
        assert_eq!(abandonments(&service).await.len(), rows, "{changes:?}");
    }
    service.patch(&path(&endpoint), &json!({"url": "http://127.0.0.1:9/other"})).await.expect(200);
    assert_eq!(abandonments(&service).await.len(), 2);
    service.delete(&path(&endpoint)).await.expect(200);
    let rows = abandonments(&service).await;
    let of = |row: &HashMap<String, AttributeValue>| {
        row["sk"].as_s().unwrap().rsplit('#').next().unwrap().to_owned()
    };
    assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), ["0000000001", "0000000002", "deleted"]);
}
