//! Tests of resends on request: the events of a payment's status, one delivery, and the test event of an endpoint.

use std::collections::HashSet;

use aws_sdk_dynamodb::types::AttributeValue;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use local::stack::Options;
use serde_json::{Value, json};

use crate::budgets::dispatch;
use crate::support::{Hook, Listener, Service, eventually, id};
use crate::webhooks::{CANONICAL, LEGACY, secret, verify, verify_legacy, wait_for_empty_queue};

async fn resend(service: &Service, payment: &Value) -> Value {
    let path = format!("/v1/payments/{}/resend-webhook", id(payment).trim_start_matches("ch_"));
    service.post(&path, &json!({})).await.expect(200)
}

fn of_event_type<'a>(hooks: &'a [Hook], name: &str) -> Vec<&'a Hook> {
    hooks.iter().filter(|hook| hook.header("x-service-event-type") == name).collect()
}

#[tokio::test]
async fn each_resend_request_delivers_the_events_of_the_current_status_with_their_ids() {
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
    dispatch(&service).await;
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
    let disputed = service.charge().await;
    service.sandbox(&disputed, "pay", &json!({})).await;
    let case = service.sandbox_answer(&disputed, "med-cases", &json!({})).await.expect(201);
    let path = format!("/v1/sandbox/med/cases/{}/resolve", id(&case));
    service.post(&path, &json!({"decision": "merchant"})).await.expect(200);
    assert_eq!(resend(&service, &disputed).await, json!({"resent": true, "status": "PAID"}));
    let completed = listener.received(2).await;
    assert_eq!(completed[0].body, completed[1].body);
    assert_eq!(of_event_type(&completed, "payment.completed").len(), 2);

    let path = format!("/v1/payments/{}/refund", id(&disputed).trim_start_matches("ch_"));
    let body = json!({"idempotencyKey": "refund-01", "reason": "sandbox:hold"});
    let refund = service.post(&path, &body).await.expect(201);
    let path = format!("/v1/sandbox/refunds/{}/resolve", id(&refund));
    service.post(&path, &json!({"status": "REFUNDED"})).await.expect(200);
    listener.received(5).await;
    assert_eq!(resend(&service, &disputed).await, json!({"resent": true, "status": "REFUNDED"}));
    let hooks = listener.received(6).await;
    let again = hooks.last().unwrap();
    assert_eq!(again.json()["data"]["refund"]["status"], "REFUNDED");
    assert_eq!(
        of_event_type(&hooks, "payment.refunded").iter().filter(|hook| hook.body == again.body).count(),
        2
    );
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
    let path = format!("/v1/webhooks/endpoints/{}", id(&endpoint));
    service.patch(&path, &json!({"events": ["charge.created"], "status": "INACTIVE"})).await.expect(200);
    assert_eq!(resend(&service, &charge).await, not_resent, "the endpoint is inactive");
    // An endpoint that subscribed after the event receives the resend.
    service.patch(&path, &json!({"status": "ACTIVE"})).await.expect(200);
    assert_eq!(resend(&service, &charge).await["resent"], true);
    let hook = listener.wait_for_event("charge.created").await;
    assert_eq!(hook.json()["data"]["object"]["id"], charge["id"]);

    let path = format!("/v1/payments/{}/resend-webhook", id(&charge));
    let other = service.stack.seed.other.test_api_key.clone();
    let answer = service.post_as(&other, &path, &json!({}), &[]).await;
    assert_eq!(answer.problem(), (404, "not_found_error", "not_found"));
}

#[tokio::test]
async fn a_resend_goes_to_the_payments_webhook_url() {
    let service = Service::start().await;
    let own = Listener::start().await;
    let body = json!({
        "amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "order-1", "webhookUrl": own.url,
    });
    let payment = service.post("/v1/payments", &body).await.expect(201);
    own.received(2).await;
    assert_eq!(resend(&service, &payment).await["resent"], true);
    let hooks = own.received(4).await;
    let created = of_event_type(&hooks, "payment.created");
    assert_eq!(created.len(), 2);
    assert_eq!(created[0].body, created[1].body);
}

#[tokio::test]
async fn a_resend_persists_a_due_expiry_before_it_sends_the_events() {
    let service = Service::start_with(Options { event_sources: false, ..Options::in_memory() }).await;
    service.register_endpoint("http://127.0.0.1:9/hook", &["charge.expired", "payment.expired"]).await;
    let charge = service.new_charge(&json!({"amount": 1000, "expires_in": 60})).await;
    service.stack.clock.advance(61_000);
    assert_eq!(resend(&service, &charge).await, json!({"resent": true, "status": "EXPIRED"}));
    let page = service.get("/v1/charges?status=expired").await.expect(200);
    assert_eq!(page["data"][0]["id"], charge["id"]);
    dispatch(&service).await;
    // One delivery for the change and one for the resend.
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
    let charge = service.charge().await;
    service.sandbox(&charge, "pay", &json!({})).await;
    listener.received(2).await;
    let scope = format!("events#{}", service.scope());
    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    for row in service.rows(&scope, "evt_").await {
        let delete = client.delete_item().table_name("StateTable");
        let delete = delete.key("pk", row["pk"].clone()).key("sk", row["sk"].clone());
        delete.send().await.unwrap();
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
        assert!(ttl.parse::<i64>().unwrap() > now + 80 * 24 * 60 * 60, "the event outlives its delivery");
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
    let failed = eventually("the first attempt fails", async || {
        service.deliveries("&status=PENDING").await.into_iter().find(|delivery| delivery["attempts"] == 1)
    })
    .await;
    // The endpoint is no longer subscribed to the event, but a resend of its delivery still goes to it.
    let path = format!("/v1/webhooks/endpoints/{}", id(&endpoint));
    service.patch(&path, &json!({"events": ["charge.paid"]})).await.expect(200);
    let again = format!("/v1/webhooks/deliveries/{}/resend", id(&failed));
    let first = service.post(&again, &json!({})).await.expect(200);
    let second = service.post(&again, &json!({})).await.expect(200);
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
    assert!(hooks.iter().all(|hook| hook.body == hooks[0].body));
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
    let other = service.stack.seed.other.test_api_key.clone();
    assert_eq!(service.post_as(&other, &again, &json!({}), &[]).await.status, 404);
    assert_eq!(service.get_as(&other, &path_of(&failed)).await.status, 404);
    service.patch(&path, &json!({"status": "INACTIVE"})).await.expect(200);
    let refused = service.post(&again, &json!({})).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "unprocessable_entity"));
    service.delete(&path).await.expect(200);
    assert_eq!(service.post(&again, &json!({})).await.status, 422);
}

#[tokio::test]
async fn a_delivery_older_than_ninety_days_is_not_listed_counted_or_resent() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    service.charge().await;
    let delivered = eventually("the webhook is delivered", async || {
        service.deliveries("&status=DELIVERED").await.into_iter().next()
    })
    .await;
    let total = async || {
        let page = service.get("/v1/webhooks/deliveries").await.expect(200);
        let stats = service.get("/v1/webhooks/stats").await.expect(200);
        assert_eq!(page["total"], stats["total"]);
        assert_eq!(page["total"], page["data"].as_array().unwrap().len());
        page["total"].clone()
    };
    assert_eq!(total().await, 1);
    service.advance_seconds(92 * 24 * 60 * 60).await;
    assert_eq!(total().await, 0);
    let path = format!("/v1/webhooks/deliveries/{}", id(&delivered));
    assert_eq!(service.get(&path).await.status, 404);
    assert_eq!(service.post(&format!("{path}/resend"), &json!({})).await.status, 404);
}

#[tokio::test]
async fn a_test_event_goes_only_to_its_endpoint_whether_subscribed_or_not() {
    let service = Service::start().await;
    let tested = Listener::start().await;
    let other = Listener::start().await;
    let endpoint = service.register_endpoint(&tested.url, &["charge.paid"]).await;
    service.register_endpoint(&other.url, &CANONICAL).await;
    let path = format!("/v1/webhooks/endpoints/{}", id(&endpoint));
    let test_delivery = service.post(&format!("{path}/test"), &json!({})).await.expect(200);
    let hook = tested.wait_for_event("webhook.test").await;
    verify(&hook, secret(&endpoint));
    assert_eq!(hook.header("x-service-delivery-id"), id(&test_delivery));
    let event = hook.json();
    assert_eq!(test_delivery["payload"], event);
    assert_eq!((&event["object"], &event["type"]), (&json!("event"), &json!("webhook.test")));
    let mut expected = endpoint.clone();
    expected.as_object_mut().unwrap().remove("secret");
    assert_eq!(event["data"]["object"], expected);
    service.post(&format!("{path}/test"), &json!({})).await.expect(200);
    let hooks = tested.received(2).await;
    assert_ne!(hooks[0].json()["id"], hooks[1].json()["id"]);
    wait_for_empty_queue(&service).await;
    assert_eq!(other.hooks().len(), 0);
    assert_eq!(service.deliveries("&eventType=webhook.test").await.len(), 2);

    service.patch(&path, &json!({"status": "INACTIVE"})).await.expect(200);
    assert_eq!(service.post(&format!("{path}/test"), &json!({})).await.status, 422);
    let stranger = service.stack.seed.other.test_api_key.clone();
    assert_eq!(service.post_as(&stranger, &format!("{path}/test"), &json!({}), &[]).await.status, 404);
}

#[tokio::test]
async fn an_endpoint_gets_at_most_ten_tests_a_minute() {
    let service = Service::start_with(Options { event_sources: false, ..Options::in_memory() }).await;
    let endpoint = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let other = service.register_endpoint("http://127.0.0.1:9/other", &["charge.paid"]).await;
    let test = async |endpoint: &Value| {
        service.post(&format!("/v1/webhooks/endpoints/{}/test", id(endpoint)), &json!({})).await
    };
    let next_minute = async || {
        let past_seconds = service.stack.clock.now().seconds() % 60;
        service.advance_seconds(60 - past_seconds).await;
    };
    next_minute().await;
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
    test(&other).await.expect(200);
    next_minute().await;
    test(&endpoint).await.expect(200);
}

#[tokio::test]
async fn a_resend_extends_an_events_retention_until_its_attempts_can_end() {
    const DAY: i64 = 24 * 60 * 60;
    let service = Service::start_with(Options { event_sources: false, ..Options::in_memory() }).await;
    service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let charge = service.charge().await;
    service.sandbox(&charge, "pay", &json!({})).await;
    dispatch(&service).await;
    let delivery = service.deliveries("").await.remove(0);
    let kept_until = async || {
        let rows = service.rows(&format!("events#{}", service.scope()), "evt_").await;
        let canonical = rows.iter().find(|row| row["payload"].as_s().unwrap().contains("charge.paid"));
        canonical.unwrap()["ttl"].as_n().unwrap().parse::<i64>().unwrap()
    };
    let original_retention = kept_until().await;
    let again = format!("/v1/webhooks/deliveries/{}/resend", id(&delivery));
    service.stack.clock.advance(70 * DAY * 1_000);
    service.post(&again, &json!({})).await.expect(200);
    assert_eq!(kept_until().await, original_retention, "the retention is already long enough");
    let now = || service.stack.clock.now().seconds();
    service.stack.clock.advance(10 * DAY * 1_000);
    let requested_at = now();
    service.post(&again, &json!({})).await.expect(200);
    assert!((requested_at..=now()).contains(&(kept_until().await - 16 * DAY)));
    service.stack.clock.advance(5 * DAY * 1_000);
    let requested_at = now();
    resend(&service, &charge).await;
    dispatch(&service).await;
    assert!((requested_at..=now()).contains(&(kept_until().await - 16 * DAY)));
    // The event stays readable for the extended retention, past its ninety days. Its deliveries are no longer readable.
    let event = format!("/v1/events/{}", delivery["payload"]["id"].as_str().unwrap());
    for (days, found) in [(10, 200), (17, 404)] {
        service.stack.clock.advance(days * DAY * 1_000);
        assert_eq!(service.get(&event).await.status, found, "after {days} more days");
        assert_eq!(service.post(&again, &json!({})).await.status, 404, "after {days} more days");
    }
}
