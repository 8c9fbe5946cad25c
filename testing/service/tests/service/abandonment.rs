//! Tests of abandoned deliveries: deliveries whose endpoint was deleted or set to `INACTIVE` by its merchant
//! (`docs/guide/webhooks.md`). Reads, lists and statistics show an abandoned delivery as `CANCELLED` at once. If the endpoint is later set to `ACTIVE`, the delivery stays cancelled.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use aws_sdk_dynamodb::types::AttributeValue;
use axum::Router;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;
use effects::webhook::delivery::{Deliveries, Delivery, DeliveryStatus};
use effects::webhook::endpoint::{Endpoint, Endpoints};
use effects::webhook::event::{Event, Origin};
use faults::proxy::Fault;
use serde_json::{Value, json};
use shared::store::{from_item, to_item};

use crate::description::example;
use crate::invocations::{another_delivery, dispatch, first_delivery, run_webhook_worker, stream_records};
use crate::seeding::write;
use crate::support::{Client, Listener, Service, id, serve};
use crate::webhooks::{endpoint_path as path, pay_with_webhook_url};

const INACTIVE: &str = r#"{"status": "INACTIVE"}"#;
const ACTIVE: &str = r#"{"status": "ACTIVE"}"#;

/// The merchant's change that abandons an endpoint's pending deliveries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum AbandonedBy {
    Deletion,
    Deactivation,
    /// The endpoint is set to `INACTIVE`, then at once to `ACTIVE` again.
    DeactivationAndReactivation,
}

impl AbandonedBy {
    const ALL: [Self; 3] = [Self::Deletion, Self::Deactivation, Self::DeactivationAndReactivation];

    async fn apply(self, client: &Client, path: &str) {
        let requests: &[(Method, &str)] = match self {
            Self::Deletion => &[(Method::DELETE, "")],
            Self::Deactivation => &[(Method::PATCH, INACTIVE)],
            Self::DeactivationAndReactivation => &[(Method::PATCH, INACTIVE), (Method::PATCH, ACTIVE)],
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
            Self::Deactivation | Self::DeactivationAndReactivation => "the endpoint was set to INACTIVE",
        }
    }
}

async fn read_delivery(service: &Service, delivery: &Value) -> Value {
    service.get(&format!("/v1/webhooks/deliveries/{}", id(delivery))).await.expect(200)
}

/// Creates two charges. Returns the deliveries of their events: one with a failed attempt, and one without an
/// attempt. The endpoint must respond with an error.
async fn two_pending_deliveries(service: &Service) -> [Value; 2] {
    let attempted = another_delivery(service).await;
    run_webhook_worker(&service.stack, &attempted).await;
    let new = another_delivery(service).await;
    [read_delivery(service, &attempted).await, new]
}

/// Reads the abandonment rows of the scope.
async fn abandonment_rows(service: &Service) -> Vec<HashMap<String, AttributeValue>> {
    service.rows(&format!("abandonments#{}", service.scope()), "wh_").await
}

async fn run_scheduler(service: &Service) {
    let scheduler = service.stack.functions.get("SchedulerFunction").unwrap().clone();
    // The error of a failed run is ignored, because the schedule would start another run.
    drop(scheduler(json!({})).await);
}

/// Checks the numbers of pending and cancelled deliveries in the statistics and in the filtered lists.
async fn expect_counts(service: &Service, pending: usize, cancelled: usize) {
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

/// Dispatches the stream, and cancels the rows of abandoned deliveries.
async fn dispatch_and_cancel(service: &Service) {
    dispatch(&service.stack).await;
    run_scheduler(service).await;
}

#[tokio::test]
async fn a_delivery_reads_cancelled_as_soon_as_its_endpoint_is_deleted_or_deactivated() {
    for by in AbandonedBy::ALL {
        let service = Service::without_event_sources().await;
        let failing = || Listener::answering(|_number| (StatusCode::BAD_GATEWAY, "why").into_response());
        let (listener, other) = (failing().await, failing().await);
        let endpoint = service.register_endpoint(&listener.url, &["charge.created"]).await;
        let [attempted, new] = two_pending_deliveries(&service).await;
        assert_eq!((&attempted["status"], &new["status"]), (&json!("PENDING"), &json!("PENDING")));
        service.register_endpoint(&other.url, &["charge.paid"]).await;
        service.pay(1_000).await;
        pay_with_webhook_url(&service, &other.url, "own").await;
        dispatch(&service.stack).await;
        by.apply(&service, &path(&endpoint)).await;

        let read_attempted = read_delivery(&service, &attempted).await;
        let mut expected = attempted.clone();
        expected["status"] = json!("CANCELLED");
        expected["lastError"] = json!(format!("{}; the last attempt: answered 502", by.reason()));
        expected["nextRetryAt"] = Value::Null;
        expected["updatedAt"] = read_attempted["updatedAt"].clone();
        assert_eq!(read_attempted, expected, "{by:?}");
        assert!(read_attempted["updatedAt"].as_str() > attempted["updatedAt"].as_str(), "{by:?}");
        let read_new = read_delivery(&service, &new).await;
        assert_eq!((&read_new["status"], &read_new["lastError"]), (&json!("CANCELLED"), &json!(by.reason())));
        assert_eq!((&read_new["attempts"], read_new.get("lastResponseBody")), (&json!(0), None));
        let (_, report) = service.cost(read_delivery(&service, &new)).await;
        assert_eq!(report.requests(), 3, "requests to read one delivery: {report:?}");

        // The four deliveries to the abandoned endpoint are shown as cancelled. One delivery to the other endpoint and
        // two to the payment's `webhookUrl` are pending. All rows are still pending.
        assert_eq!(count_cancelled_rows(&service).await, 0);
        expect_counts(&service, 3, 4).await;
        for query in ["", "&eventType=charge.created"] {
            let query = format!("&status=CANCELLED&endpointId={}{query}", id(&endpoint));
            assert_eq!(service.deliveries(&query).await[2..], [read_new.clone(), read_attempted.clone()]);
        }
        // The scheduler cancels the row of the listed one, which changes no response.
        let before = service.deliveries("").await;
        dispatch_and_cancel(&service).await;
        assert_eq!((count_cancelled_rows(&service).await, service.deliveries("").await), (1, before));
        // Dispatching the same records again, as in the retry of a failed batch, writes nothing.
        let written = stream_records(&service.stack).len();
        dispatch(&service.stack).await;
        assert_eq!(stream_records(&service.stack).len(), written, "{by:?}");

        // A worker that receives the deliveries' messages starts no attempt.
        service.stack.clock.advance(37_000);
        for delivery in [&attempted, &new] {
            run_webhook_worker(&service.stack, delivery).await;
            let ended = read_delivery(&service, delivery).await;
            assert_eq!((&ended["status"], &ended["attempts"]), (&json!("CANCELLED"), &delivery["attempts"]));
        }
        assert_eq!(listener.hooks().len(), 1, "{by:?}");
        // Later counts include each delivery once.
        service.stack.clock.advance(300_000);
        for _ in 0..3 {
            run_scheduler(&service).await;
        }
        expect_counts(&service, 3, 4).await;
    }
}

/// Starts a merchant's server that abandons its endpoint's pending deliveries while it handles a webhook,
/// then responds with `status`. Returns the server's URL, and a cell for the path of the endpoint's route.
/// The caller must set the cell before the first webhook.
async fn endpoint_that_abandons_its_deliveries(
    service: &Service,
    by: AbandonedBy,
    status: StatusCode,
) -> (String, Arc<OnceLock<String>>) {
    let path: Arc<OnceLock<String>> = Arc::default();
    let client = Arc::new(Client::new(&service.base_url, &service.key()));
    let endpoint_path = Arc::clone(&path);
    let answer = move || {
        let (client, endpoint_path) = (Arc::clone(&client), Arc::clone(&endpoint_path));
        async move {
            by.apply(&client, endpoint_path.get().unwrap()).await;
            (status, "late")
        }
    };
    (serve(Router::new().fallback(answer)).await, path)
}

#[tokio::test]
async fn an_attempt_in_flight_during_abandonment_ends_as_delivered_or_cancelled() {
    for by in AbandonedBy::ALL {
        for (status, attempts_before) in
            [(StatusCode::NO_CONTENT, 0), (StatusCode::BAD_GATEWAY, 0), (StatusCode::BAD_GATEWAY, 14)]
        {
            let case = format!("{by:?} {status} after {attempts_before}");
            let service = Service::without_event_sources().await;
            let (url, endpoint_path) = endpoint_that_abandons_its_deliveries(&service, by, status).await;
            let endpoint = service.register_endpoint(&url, &["charge.created"]).await;
            endpoint_path.set(path(&endpoint)).unwrap();
            let delivery = another_delivery(&service).await;
            let attempts = AttributeValue::N(attempts_before.to_string());
            let partition = format!("delivery#{}#{}", service.scope(), id(&delivery));
            service.set_attributes(&partition, id(&delivery), &[("attempts", attempts)]).await;
            run_webhook_worker(&service.stack, &delivery).await;
            let ended = read_delivery(&service, &delivery).await;
            assert_eq!(ended["attempts"], attempts_before + 1, "{case}");
            assert_eq!(ended["lastStatusCode"], status.as_u16(), "{case}");
            let is_delivered = status.is_success();
            let error = json!(format!("{}; the last attempt: answered 502", by.reason()));
            let expected = if is_delivered {
                [json!("DELIVERED"), Value::Null, Value::Null, Value::Null]
            } else {
                [json!("CANCELLED"), error, json!("late"), Value::Null]
            };
            let fields = ["status", "lastError", "lastResponseBody", "nextRetryAt"];
            assert_eq!(fields.map(|field| ended[field].clone()), expected, "{case}");
            expect_counts(&service, 0, usize::from(!is_delivered)).await;
            assert_eq!(count_dead_letters(&service).await, 0, "{case}");
            // The steps of the abandonment do not change the delivery.
            dispatch_and_cancel(&service).await;
            assert_eq!(read_delivery(&service, &delivery).await, ended, "{case}");
        }
    }
}

async fn count_dead_letters(service: &Service) -> usize {
    service.take_messages("ExhaustedDeliveriesQueue").await.len()
}

#[tokio::test]
async fn a_delivery_that_becomes_pending_after_the_abandonment_is_shown_as_cancelled_until_a_worker_meets_it()
{
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    let registered = service.register_endpoint(&listener.url, &["charge.paid"]).await;
    let stale_endpoints = Endpoints::new(service.store()).list(&service.scope()).await.unwrap();
    AbandonedBy::DeactivationAndReactivation.apply(&service, &path(&registered)).await;
    dispatch_and_cancel(&service).await;
    // The dispatcher's clock may be a few seconds ahead of the clock of the function that changed the
    // endpoint.
    let now = service.stack.clock.now().plus_seconds(5).unwrap();
    // The dispatcher has read the endpoint before its deactivation, or a worker that then ended a failed attempt.
    for (number, listed) in [(1, false), (2, true)] {
        let event = charge_paid_event(&service, number, now);
        let late = Delivery { listed, ..Delivery::for_event(&event, &stale_endpoints, now).remove(0) };
        write(&service.dynamodb(), &[to_item(&event).unwrap(), to_item(&late).unwrap()]).await;
        let late = json!({"id": late.id, "endpointId": registered["id"]});
        assert_eq!(read_delivery(&service, &late).await["status"], "CANCELLED");
        expect_counts(&service, 0, number).await;
        assert_eq!(count_cancelled_rows(&service).await, number - 1);
        service.stack.clock.advance(6_000);
        run_webhook_worker(&service.stack, &late).await;
        assert_eq!(count_cancelled_rows(&service).await, number);
        expect_counts(&service, 0, number).await;
    }
    assert_eq!(listener.hooks().len(), 0);
}

fn charge_paid_event(service: &Service, number: usize, at: Timestamp) -> Event {
    let origin = Origin::new(service.scope(), format!("charge#{number}"), at);
    Event::of_one(EventType::ChargePaid, &origin, &example("Charge")).unwrap()
}

/// Writes `count` pending deliveries, which had an attempt, to the endpoint that subscribes to `charge.paid`. Their
/// next attempt is due in an hour.
async fn seed_pending_deliveries(service: &Service, count: usize) {
    let endpoints = Endpoints::new(service.store()).list(&service.scope()).await.unwrap();
    let now = service.stack.clock.now();
    let events: Vec<Event> = (0..count)
        .map(|number| {
            charge_paid_event(service, number, now.plus_millis(-i64::try_from(number).unwrap()).unwrap())
        })
        .collect();
    let deliveries = events.iter().flat_map(|event| Delivery::for_event(event, &endpoints, now));
    let pending = deliveries.map(|delivery| Delivery {
        next_attempt_at: now.plus_seconds(3_600).unwrap(),
        attempts: 1,
        listed: true,
        ..delivery
    });
    let items: Vec<_> = pending.map(|delivery| to_item(&delivery).unwrap()).collect();
    assert_eq!(items.len(), count);
    write(&service.dynamodb(), &items).await;
}

/// Counts the cancelled deliveries. Checks that exactly the cancelled rows have a list key of cancelled
/// deliveries, and that exactly the other listed rows are in the due index.
async fn count_cancelled_rows(service: &Service) -> usize {
    let all = service.delivery_rows().await;
    let cancelled = all.into_iter().filter(|item| {
        let delivery: Delivery = from_item(item.clone()).unwrap();
        let is_cancelled = delivery.status == DeliveryStatus::Cancelled;
        let list_sk = item.get("list_sk").map(|list_sk| list_sk.as_s().unwrap().as_str());
        assert_eq!(list_sk.is_some_and(|list_sk| list_sk.starts_with("CANCELLED#")), is_cancelled);
        assert_eq!(item.contains_key("due_pk"), delivery.listed && !is_cancelled);
        assert!(delivery.listed || !is_cancelled);
        is_cancelled
    });
    cancelled.count()
}

#[tokio::test]
async fn the_scheduler_cancels_deliveries_in_steps_and_resumes_after_a_failure() {
    let service = Service::without_event_sources().await;
    let proxy = service.proxy();
    let endpoint = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    seed_pending_deliveries(&service, 1_300).await;
    AbandonedBy::Deactivation.apply(&service, &path(&endpoint)).await;
    proxy.inject_every("TransactWriteItems", 1, Fault::ServerError);
    let row = abandonment_rows(&service).await.remove(0);
    run_scheduler(&service).await;
    assert_eq!(count_cancelled_rows(&service).await, 0);
    assert_eq!(abandonment_rows(&service).await.remove(0), row, "it stays due");

    // The last transaction of the second step fails.
    proxy.reset();
    let newest = service.deliveries("").await.remove(0);
    proxy.inject_where(id(&newest), Fault::ServerError);
    run_scheduler(&service).await;
    assert_eq!(count_cancelled_rows(&service).await, 1_250);
    proxy.reset();
    tokio::join!(run_scheduler(&service), run_scheduler(&service));
    assert_eq!(count_cancelled_rows(&service).await, 1_300);
    Deliveries::new(service.store()).count(&service.scope(), service.stack.clock.now()).await.unwrap();
    expect_counts(&service, 0, 1_300).await;
    let row = abandonment_rows(&service).await.remove(0);
    assert!(!row.contains_key("due_pk"), "it has ended");
    let kept_until: i64 = row["ttl"].as_n().unwrap().parse().unwrap();
    assert!(kept_until > service.stack.clock.now().seconds() + 91 * 24 * 60 * 60);
}

#[tokio::test]
async fn a_delivery_reads_cancelled_when_neither_its_endpoint_nor_an_abandonment_row_exists() {
    let service = Service::without_event_sources().await;
    let pending = first_delivery(&service, "http://127.0.0.1:9/hook").await;
    // Deletes only the endpoint's row. The API would also write a tombstone: the deletion's abandonment row.
    let endpoint = pending["endpointId"].as_str().unwrap().parse().unwrap();
    let key = Endpoint::key_of(&service.scope(), endpoint);
    service.delete_row(&key.pk, &key.sk).await;
    let read = read_delivery(&service, &pending).await;
    assert_eq!(
        (&read["status"], &read["lastError"]),
        (&json!("CANCELLED"), &json!("the endpoint was deleted"))
    );
    assert_eq!(read["updatedAt"], pending["updatedAt"]);
}

#[tokio::test]
async fn deactivating_an_inactive_endpoint_writes_no_second_abandonment() {
    let service = Service::without_event_sources().await;
    let endpoint = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.created"]).await;
    for (changes, rows) in
        [(&["ACTIVE"][..], 0), (&["INACTIVE", "INACTIVE"], 1), (&["ACTIVE", "INACTIVE"], 2)]
    {
        for status in changes {
            service.patch(&path(&endpoint), &json!({"status": status})).await.expect(200);
        }
        assert_eq!(abandonment_rows(&service).await.len(), rows, "{changes:?}");
    }
    service.patch(&path(&endpoint), &json!({"url": "http://127.0.0.1:9/other"})).await.expect(200);
    assert_eq!(abandonment_rows(&service).await.len(), 2);
    service.delete(&path(&endpoint)).await.expect(200);
    let rows = abandonment_rows(&service).await;
    let generation = |row: &HashMap<String, AttributeValue>| {
        row["sk"].as_s().unwrap().rsplit('#').next().unwrap().to_owned()
    };
    assert_eq!(rows.iter().map(generation).collect::<Vec<_>>(), ["0000000001", "0000000002", "deleted"]);
}
