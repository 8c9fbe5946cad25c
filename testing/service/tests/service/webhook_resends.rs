//! Tests of the webhooks that a merchant can request: a resend of the events of a payment's current status, a
//! resend of one delivery, and a test event for an endpoint.

use std::collections::HashSet;

use aws_sdk_dynamodb::types::AttributeValue;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::invocations::dispatch;
use crate::support::{Listener, ReceivedWebhook, Service, eventually, id, raw_id};
use crate::webhooks::{
    CANONICAL, LEGACY, endpoint_path, secret, verify, verify_legacy, wait_for_empty_queue, waiting_after,
    without_secrets,
};

pub(crate) async fn resend(service: &Service, payment: &Value) -> Value {
    let path = format!("/v1/payments/{}/resend-webhook", raw_id(payment));
    service.post(&path, &json!({})).await.expect(200)
}

fn of_event_type<'a>(hooks: &'a [ReceivedWebhook], name: &str) -> Vec<&'a ReceivedWebhook> {
    hooks.iter().filter(|hook| hook.header("x-service-event-type") == name).collect()
}

#[tokio::test]
async fn each_resend_request_delivers_the_events_of_the_current_status_with_the_same_event_ids() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    let endpoint = service.register_endpoint(&listener.url, &[&CANONICAL[..], &LEGACY].concat()).await;
    let charge = service.charge().await;
    listener.received(3).await;
    service.sandbox(&charge, "pay", &json!({})).await;
    listener.received(6).await;
    for request in 1..=2 {
        assert_eq!(resend(&service, &charge).await, json!({"resent": true, "status": "PAID"}));
        listener.received(6 + 3 * request).await;
    }
    // Dispatching every record again, as after a failed batch, creates nothing.
    dispatch(&service.stack).await;
    wait_for_empty_queue(&service).await;
    let hooks = listener.hooks();
    assert_eq!(hooks.len(), 12);
    let ids: HashSet<&str> = hooks.iter().map(|hook| hook.header("x-service-delivery-id")).collect();
    assert_eq!(ids.len(), 12, "each webhook is a separate delivery");
    for name in ["charge.paid", "payment.completed"] {
        let resent = of_event_type(&hooks, name);
        assert_eq!(resent.len(), 3, "{name}");
        assert!(resent.iter().all(|hook| hook.body == resent[0].body), "{name}");
    }
    assert_eq!(of_event_type(&hooks, "payment.status_changed").len(), 4);
    assert_eq!(
        of_event_type(&hooks, "charge.created").len(),
        1,
        "only events of the current status are resent"
    );
    for hook in of_event_type(&hooks, "charge.paid") {
        verify(hook, secret(&endpoint));
    }
    for hook in of_event_type(&hooks, "payment.completed") {
        verify_legacy(hook, secret(&endpoint));
    }
    assert_eq!(service.deliveries("&status=DELIVERED").await.len(), 12);
}

#[tokio::test]
async fn a_resend_after_a_dispute_or_a_refund_repeats_the_original_event() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["payment.completed", "payment.refunded"]).await;
    let disputed = service.pay(1_000).await;
    let case = service.sandbox_answer(&disputed, "med-cases", &json!({})).await.expect(201);
    service.decide_case(&case, "merchant").await.expect(200);
    assert_eq!(resend(&service, &disputed).await, json!({"resent": true, "status": "PAID"}));
    let completed = listener.received(2).await;
    assert_eq!(completed[0].body, completed[1].body);
    assert_eq!(of_event_type(&completed, "payment.completed").len(), 2);

    let refund = async |key: &str, amount: i64| {
        let held = json!({"amount": amount, "reason": "sandbox:hold"});
        let refund = service.refund(&disputed, key, held).await.expect(201);
        service.resolve(&refund, "REFUNDED").await.expect(200);
    };
    // After a partial refund, the payment is repeated and no refund.
    refund("refund-01", 100).await;
    listener.received(5).await;
    assert_eq!(resend(&service, &disputed).await, json!({"resent": true, "status": "PAID"}));
    listener.received(6).await;
    // Creates the deliveries of all events that the service publishes.
    dispatch(&service.stack).await;
    wait_for_empty_queue(&service).await;
    let hooks = listener.hooks();
    let completed = of_event_type(&hooks, "payment.completed");
    assert_eq!((hooks.len(), completed.len()), (6, 3));
    assert_eq!(completed[0].body, completed[2].body);
    let request = service.rows(&format!("resends#{}", service.scope()), "rs_").await.remove(0);
    let kept_seconds = service.seconds_kept(&request);
    assert!((600_000..=604_800).contains(&kept_seconds), "a week: {kept_seconds}");

    refund("refund-02", 900).await;
    listener.received(9).await;
    assert_eq!(resend(&service, &disputed).await, json!({"resent": true, "status": "REFUNDED"}));
    let hooks = listener.received(10).await;
    let last_hook = hooks.last().unwrap();
    assert_eq!(last_hook.json()["data"]["refund"]["status"], "REFUNDED");
    let refunded = of_event_type(&hooks, "payment.refunded");
    assert_eq!(refunded.iter().filter(|hook| hook.body == last_hook.body).count(), 2);
}

#[tokio::test]
async fn a_resend_without_an_active_subscriber_sends_nothing() {
    let service = Service::start().await;
    let charge = service.charge().await;
    let not_resent = json!({"resent": false, "status": "WAITING_PAYMENT"});
    assert_eq!(resend(&service, &charge).await, not_resent);
    let listener = Listener::start().await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.paid"]).await;
    assert_eq!(
        resend(&service, &charge).await,
        not_resent,
        "the endpoint is subscribed to other events only"
    );
    let path = endpoint_path(&endpoint);
    service.patch(&path, &json!({"events": ["charge.created"], "status": "INACTIVE"})).await.expect(200);
    assert_eq!(resend(&service, &charge).await, not_resent, "the endpoint is inactive");
    // An endpoint that subscribed after the event receives the resend.
    service.patch(&path, &json!({"status": "ACTIVE"})).await.expect(200);
    assert_eq!(resend(&service, &charge).await["resent"], true);
    let hook = listener.wait_for_event("charge.created").await;
    assert_eq!(hook.json()["data"]["object"]["id"], charge["id"]);

    let path = format!("/v1/payments/{}/resend-webhook", id(&charge));
    let answer = service.other_account().post(&path, &json!({})).await;
    assert_eq!(answer.problem(), (404, "not_found_error", "not_found"));
}

#[tokio::test]
async fn a_resend_of_an_overdue_charge_persists_its_expiry_before_it_sends_the_events() {
    let service = Service::without_event_sources().await;
    service.register_endpoint("http://127.0.0.1:9/hook", &["charge.expired", "payment.expired"]).await;
    let charge = service.new_charge(&json!({"amount": 1000, "expires_in": 60})).await;
    service.stack.clock.advance(61_000);
    assert_eq!(resend(&service, &charge).await, json!({"resent": true, "status": "EXPIRED"}));
    let page = service.get("/v1/charges?status=expired").await.expect(200);
    assert_eq!(page["data"][0]["id"], charge["id"]);
    dispatch(&service.stack).await;
    // One delivery for the change to `EXPIRED` and one for the resend.
    assert_eq!(service.deliveries("&eventType=charge.expired").await.len(), 2);
    assert_eq!(service.deliveries("&eventType=payment.expired").await.len(), 2);
    let payloads: HashSet<String> = service
        .deliveries("&eventType=charge.expired")
        .await
        .iter()
        .map(|delivery| delivery["payload"].to_string())
        .collect();
    assert_eq!(payloads.len(), 1);
}

#[tokio::test]
async fn a_resend_after_an_events_retention_recreates_the_same_event() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.paid", "payment.completed"]).await;
    let charge = service.pay(1_000).await;
    listener.received(2).await;
    let scope = format!("events#{}", service.scope());
    // Deletes the events' rows, as DynamoDB's TTL does after 90 days.
    for row in service.rows(&scope, "evt_").await {
        service.delete_row(&scope, row["sk"].as_s().unwrap()).await;
    }
    service.advance_seconds(91 * 24 * 60 * 60).await;
    resend(&service, &charge).await;
    let hooks = listener.received(4).await;
    for name in ["charge.paid", "payment.completed"] {
        let resent = of_event_type(&hooks, name);
        assert_eq!(resent.len(), 2);
        assert_eq!(resent[0].body, resent[1].body);
    }
    let now = service.stack.clock.now().seconds();
    for row in service.rows(&scope, "evt_").await {
        let AttributeValue::N(ttl) = &row["ttl"] else { panic!("{row:?}") };
        assert!(ttl.parse::<i64>().unwrap() > now + 80 * 24 * 60 * 60, "the retention of 90 days restarts");
    }
}

#[tokio::test]
async fn resending_a_delivery_creates_a_new_delivery_of_the_same_event() {
    let service = Service::start().await;
    let listener = Listener::answering(|number| match number {
        0 => StatusCode::GONE.into_response(),
        _ => StatusCode::OK.into_response(),
    })
    .await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.created"]).await;
    service.charge().await;
    let failed = waiting_after(&service, 1).await;
    // The endpoint is subscribed to another event now. A resend of the failed delivery still goes to the
    // endpoint.
    let path = endpoint_path(&endpoint);
    service.patch(&path, &json!({"events": ["charge.paid"]})).await.expect(200);
    let resend_path = format!("/v1/webhooks/deliveries/{}/resend", id(&failed));
    let first = service.post(&resend_path, &json!({})).await.expect(200);
    let second = service.post(&resend_path, &json!({})).await.expect(200);
    assert_ne!(first["id"], second["id"]);
    let path_of = |delivery: &Value| format!("/v1/webhooks/deliveries/{}", id(delivery));
    assert_eq!(service.get(&path_of(&failed)).await.expect(200), failed);
    for resent in [&first, &second] {
        assert_ne!(resent["id"], failed["id"]);
        for field in ["endpointId", "eventType", "payload"] {
            assert_eq!(resent[field], failed[field], "{field}");
        }
        assert_eq!((&resent["status"], &resent["attempts"]), (&json!("PENDING"), &json!(0)));
    }
    let hooks = listener.received(3).await;
    for hook in &hooks {
        assert_eq!(hook.body, hooks[0].body);
        assert_eq!(hook.header("webhook-id"), hooks[0].header("webhook-id"));
        verify(hook, secret(&endpoint));
    }
    let ids: HashSet<&str> = hooks.iter().map(|hook| hook.header("x-service-delivery-id")).collect();
    assert_eq!(ids, HashSet::from([id(&failed), id(&first), id(&second)]));
    let listed = eventually("both resends are delivered", async || {
        Some(service.deliveries("&status=DELIVERED").await).filter(|delivered| delivered.len() == 2)
    })
    .await;
    assert_eq!(service.deliveries("").await[..2], listed[..], "newest first");
    assert_eq!(service.get(&path_of(&listed[0])).await.expect(200), listed[0]);

    let unknown = ["wd_00000000000000000000000000", "nothing"];
    for unknown in unknown {
        let answer = service.post(&format!("/v1/webhooks/deliveries/{unknown}/resend"), &json!({})).await;
        assert_eq!(answer.problem(), (404, "not_found_error", "not_found"));
        let answer = service.get(&format!("/v1/webhooks/deliveries/{unknown}")).await;
        assert_eq!(answer.problem(), (404, "not_found_error", "not_found"));
    }
    assert_eq!(service.other_account().post(&resend_path, &json!({})).await.status, 404);
    assert_eq!(service.other_account().get(&path_of(&failed)).await.status, 404);
    service.patch(&path, &json!({"status": "INACTIVE"})).await.expect(200);
    let refused = service.post(&resend_path, &json!({})).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "unprocessable_entity"));
    service.delete(&path).await.expect(200);
    assert_eq!(service.post(&resend_path, &json!({})).await.status, 422);
}

#[tokio::test]
async fn a_test_event_goes_only_to_the_tested_endpoint_whatever_its_subscriptions() {
    let service = Service::start().await;
    let tested = Listener::start().await;
    let other_listener = Listener::start().await;
    let endpoint = service.register_endpoint(&tested.url, &["charge.paid"]).await;
    service.register_endpoint(&other_listener.url, &CANONICAL).await;
    let path = endpoint_path(&endpoint);
    let test_delivery = service.post(&format!("{path}/test"), &json!({})).await.expect(200);
    let hook = tested.wait_for_event("webhook.test").await;
    verify(&hook, secret(&endpoint));
    assert_eq!(hook.header("x-service-delivery-id"), id(&test_delivery));
    let event = hook.json();
    assert_eq!(test_delivery["payload"], event);
    assert_eq!((&event["object"], &event["type"]), (&json!("event"), &json!("webhook.test")));
    assert_eq!(event["data"]["object"], without_secrets(&endpoint));
    for status in ["INACTIVE", "ACTIVE"] {
        service.patch(&path, &json!({ "status": status })).await.expect(200);
    }
    service.post(&format!("{path}/test"), &json!({})).await.expect(200);
    let hooks = tested.received(2).await;
    assert_ne!(hooks[0].json()["id"], hooks[1].json()["id"]);
    wait_for_empty_queue(&service).await;
    assert_eq!(other_listener.hooks().len(), 0);
    assert_eq!(service.deliveries("&eventType=webhook.test").await.len(), 2);

    service.patch(&path, &json!({"status": "INACTIVE"})).await.expect(200);
    assert_eq!(service.post(&format!("{path}/test"), &json!({})).await.status, 422);
    assert_eq!(service.other_account().post(&format!("{path}/test"), &json!({})).await.status, 404);
}

#[tokio::test]
async fn an_endpoint_is_sent_at_most_ten_test_events_a_minute() {
    let service = Service::without_event_sources().await;
    let endpoint = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let other_endpoint = service.register_endpoint("http://127.0.0.1:9/other", &["charge.paid"]).await;
    let test =
        async |endpoint: &Value| service.post(&format!("{}/test", endpoint_path(endpoint)), &json!({})).await;
    service.begin_minute().await;
    for _ in 0..10 {
        test(&endpoint).await.expect(200);
    }
    let refused = test(&endpoint).await;
    assert_eq!(refused.problem(), (429, "rate_limit_error", "rate_limited"));
    let retry_after: i64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&retry_after), "{retry_after}");
    assert!(refused.header("x-ratelimit-limit-minute").is_some(), "{refused:?}");
    assert!(refused.header("x-ratelimit-remaining-minute").is_some(), "{refused:?}");
    assert_eq!(service.deliveries("&eventType=webhook.test").await.len(), 10);
    test(&other_endpoint).await.expect(200);
    service.begin_minute().await;
    test(&endpoint).await.expect(200);
}

#[tokio::test]
async fn a_resend_keeps_its_event_for_at_least_sixteen_more_days() {
    const DAY: i64 = 24 * 60 * 60;
    /// Somewhat more than all attempts of a delivery take, even if `Retry-After` postpones each one.
    const MAX_DELIVERY: i64 = 16 * DAY;
    let service = Service::without_event_sources().await;
    service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let charge = service.pay(1_000).await;
    dispatch(&service.stack).await;
    let delivery = service.deliveries("").await.remove(0);
    let event_ttl = async || {
        let rows = service.rows(&format!("events#{}", service.scope()), "evt_").await;
        let paid = AttributeValue::S("charge.paid".to_owned());
        let row = rows.iter().find(|row| row["types"].as_l().unwrap().contains(&paid));
        row.unwrap()["ttl"].as_n().unwrap().parse::<i64>().unwrap()
    };
    let original_retention = event_ttl().await;
    let resend_path = format!("/v1/webhooks/deliveries/{}/resend", id(&delivery));
    service.stack.clock.advance(70 * DAY * 1_000);
    service.post(&resend_path, &json!({})).await.expect(200);
    assert_eq!(event_ttl().await, original_retention, "the retention is already long enough");
    let now = || service.stack.clock.now().seconds();
    service.stack.clock.advance(10 * DAY * 1_000);
    let requested_at = now();
    service.post(&resend_path, &json!({})).await.expect(200);
    assert!((requested_at..=now()).contains(&(event_ttl().await - MAX_DELIVERY)));
    service.stack.clock.advance(5 * DAY * 1_000);
    let requested_at = now();
    resend(&service, &charge).await;
    dispatch(&service.stack).await;
    assert!((requested_at..=now()).contains(&(event_ttl().await - MAX_DELIVERY)));
    // On day 95 the event is readable, because the resend on day 85 has extended its retention to day 101. On
    // day 112 it is not. The first delivery is found on neither day, because it is older than 90 days.
    let event = format!("/v1/events/{}", delivery["payload"]["id"].as_str().unwrap());
    for (days, found) in [(10, 200), (17, 404)] {
        service.stack.clock.advance(days * DAY * 1_000);
        assert_eq!(service.get(&event).await.status, found, "after {days} more days");
        assert_eq!(service.post(&resend_path, &json!({})).await.status, 404, "after {days} more days");
        let read = service.get(resend_path.trim_end_matches("/resend")).await;
        assert_eq!(read.status, 404, "after {days} more days");
    }
}
