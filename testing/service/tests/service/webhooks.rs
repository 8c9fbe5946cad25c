//! Tests of webhook endpoints, events and deliveries.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use local::stack::Options;
use serde_json::{Value, json};
use sha2::Sha256;
use shared::clock::Clock;

use crate::invocations::{count_messages, invoke};
use crate::support::{Listener, ReceivedWebhook, Service, eventually, id};
use crate::webhook_resends::resend;

pub(crate) const CANONICAL: [&str; 4] = ["charge.created", "charge.paid", "charge.failed", "charge.expired"];

pub(crate) const LEGACY: [&str; 6] = [
    "payment.created",
    "payment.completed",
    "payment.failed",
    "payment.expired",
    "payment.refunded",
    "payment.status_changed",
];

fn hmac(secret: &str, parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

fn hmac_in_hex(secret: &str, parts: &[&[u8]]) -> String {
    hmac(secret, parts).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Verifies both signatures of a canonical event as a merchant does, the service's own and that of Standard
/// Webhooks, without the service's code. Returns the signatures' timestamp in seconds.
pub(crate) fn verify(hook: &ReceivedWebhook, secret: &str) -> i64 {
    let signature = hook.header("x-service-signature");
    let (t, v1) = signature.split_once(",v1=").unwrap();
    let t = t.strip_prefix("t=").unwrap();
    assert_eq!(v1, hmac_in_hex(secret, &[t.as_bytes(), b".", &hook.body]));
    let id = hook.header("webhook-id");
    assert_eq!(hook.json()["id"], id);
    assert_eq!(hook.header("webhook-timestamp"), t);
    let signature = hmac(secret, &[id.as_bytes(), b".", t.as_bytes(), b".", &hook.body]);
    assert_eq!(hook.header("webhook-signature"), format!("v1,{}", STANDARD.encode(signature)));
    t.parse().unwrap()
}

/// Verifies the signature of a legacy event, which has no headers of Standard Webhooks.
pub(crate) fn verify_legacy(hook: &ReceivedWebhook, secret: &str) {
    let expected = format!("sha256={}", hmac_in_hex(secret, &[&hook.body]));
    assert_eq!(hook.header("x-service-signature"), expected);
    assert!(!hook.headers.keys().any(|name| name.as_str().starts_with("webhook-")));
}

pub(crate) fn endpoint_path(endpoint: &Value) -> String {
    format!("/v1/webhooks/endpoints/{}", id(endpoint))
}

pub(crate) fn secret(endpoint: &Value) -> &str {
    endpoint["secret"].as_str().unwrap()
}

/// Returns an endpoint as it is shown after its registration.
pub(crate) fn without_secrets(registered: &Value) -> Value {
    let mut endpoint = registered.clone();
    let fields = endpoint.as_object_mut().unwrap();
    assert!(fields.remove("secret").is_some() && fields.remove("standardWebhooksSecret").is_some());
    endpoint
}

/// Checks that a secret is shown in both forms, with the same key.
pub(crate) fn expect_both_forms(shown: &Value) {
    let key = standard_webhooks_secret(shown).strip_prefix("whsec_").unwrap();
    assert_eq!(STANDARD.decode(key).unwrap(), secret(shown).as_bytes());
}

pub(crate) fn standard_webhooks_secret(shown: &Value) -> &str {
    shown["standardWebhooksSecret"].as_str().unwrap()
}

/// Waits until a delivery waits for its next attempt, after this number of attempts. Returns the delivery.
pub(crate) async fn waiting_after(service: &Service, attempts: u32) -> Value {
    eventually("the attempt fails", async || {
        let waiting = service.deliveries("&status=PENDING").await;
        waiting.into_iter().find(|delivery| delivery["attempts"] == attempts)
    })
    .await
}

/// Creates a payment whose legacy events go to `url`. `key`: its idempotency key.
pub(crate) async fn pay_with_webhook_url(service: &Service, url: &str, key: &str) -> Value {
    let body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": key, "webhookUrl": url});
    service.post("/v1/payments", &body).await.expect(201)
}

#[tokio::test]
async fn an_invalid_endpoint_or_change_is_refused_with_the_invalid_fields() {
    let service = Service::start().await;
    let registered = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let events = json!(["charge.paid"]);
    for (body, params) in [
        (json!({"url": 5, "events": "charge.paid"}), vec!["url", "events"]),
        (json!({"url": "https://10.0.0.5/hook", "events": events}), vec!["url"]),
        (json!({"url": "http://host.docker.internal:4000/", "events": events}), vec!["url"]),
        (json!({"url": "https://printer.home.arpa/hook", "events": events}), vec!["url"]),
        (json!({"url": "https://example.com:587/hook", "events": events}), vec!["url"]),
        (json!({"url": "https://example.com/", "events": []}), vec!["events"]),
        (
            json!({"url": "https://example.com/", "events": ["charge.paid", "charge.lost", 7, "webhook.test"]}),
            vec!["events[1]", "events[2]", "events[3]"],
        ),
    ] {
        let change = service.patch(&endpoint_path(&registered), &body).await;
        for answer in [service.post("/v1/webhooks/endpoints", &body).await, change] {
            assert_eq!(answer.problem(), (400, "invalid_request_error", "invalid_request"), "{body}");
            assert_eq!(answer.params(), params, "{body}");
        }
    }
    assert_eq!(service.post("/v1/webhooks/endpoints", &json!({})).await.params(), ["url", "events"]);
    for status in [json!("active"), json!(true)] {
        let answer = service.patch(&endpoint_path(&registered), &json!({ "status": status })).await;
        assert_eq!((answer.code(), answer.params()), ("invalid_request", vec!["status"]), "{status}");
    }
    let listed = service.get("/v1/webhooks/endpoints").await.expect(200);
    assert_eq!(listed["data"], json!([without_secrets(&registered)]));
    // The number of reported fields is limited, so the response stays small.
    let many = json!({"url": "https://example.com/", "events": vec!["x"; 40_000]});
    let answer = service.post("/v1/webhooks/endpoints", &many).await;
    assert_eq!((answer.code(), answer.params().len()), ("invalid_request", 100));
    assert!(answer.bytes.len() < 100_000, "{}", answer.bytes.len());
    assert!(answer.body["error"]["message"].as_str().unwrap().starts_with("100 fields or more"));
}

#[tokio::test]
async fn hosts_in_webhook_local_names_may_use_plain_http() {
    let options = Options { webhook_local_names: "host.docker.internal".to_owned(), ..Options::in_memory() };
    let service = Service::start_with(options).await;
    let url = "http://host.docker.internal:81/hook";
    let registered = service.register_endpoint(url, &["charge.paid"]).await;
    assert_eq!(registered["url"], url);
    pay_with_webhook_url(&service, url, "p-1").await;
}

#[tokio::test]
async fn each_change_emits_a_signed_event_in_the_canonical_envelope_and_legacy_events_signed_over_their_bodies()
 {
    let service = Service::start().await;
    let listener = Listener::start().await;
    let endpoint = service.register_endpoint(&listener.url, &[&CANONICAL[..], &LEGACY].concat()).await;
    let secret = secret(&endpoint);
    let body = json!({
        "amount": 1990, "paymentMethods": ["PIX"], "idempotencyKey": "order-1", "customerId": "user-7",
        "metadata": {"order": "é"},
    });
    let payment = service.post("/v1/payments", &body).await.expect(201);
    let created = listener.wait_for_event("charge.created").await;
    let created_legacy = listener.wait_for_event("payment.created").await;
    let mut paid = service.sandbox(&payment, "pay", &json!({})).await;
    let hook = listener.wait_for_event("charge.paid").await;
    let legacy = listener.wait_for_event("payment.completed").await;
    for hook in [&hook, &legacy] {
        assert_eq!(hook.header("content-type"), "application/json");
        assert!(hook.header("x-service-delivery-id").starts_with("wd_"));
        assert_eq!(hook.header("x-service-mode"), "test");
    }

    let signed_at = verify(&hook, secret);
    assert!((signed_at - Clock::machine_now().seconds()).abs() <= 60);
    let event = hook.json();
    paid["pix"].as_object_mut().unwrap().remove("qr_code_base64");
    assert_eq!(event["data"], json!({"object": paid}));
    assert_eq!((&event["object"], &event["type"]), (&json!("event"), &json!("charge.paid")));
    assert_eq!(event["api_version"], "2026-11-01");
    assert!(event["id"].as_str().unwrap().starts_with("evt_"));
    assert!(event["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(event.as_object().unwrap().len(), 6);
    verify(&created, secret);
    assert_eq!(created.json()["data"]["object"]["status"], "pending");

    verify_legacy(&legacy, secret);
    verify_legacy(&created_legacy, secret);
    let mut completed = legacy.json();
    let occurred_at = completed["data"].as_object_mut().unwrap().remove("occurredAt").unwrap();
    assert!(occurred_at.as_str().unwrap().ends_with('Z'));
    let expected = json!({
        "transactionId": payment["id"], "amount": 1990, "status": "PAID", "previousStatus": "WAITING_PAYMENT",
        "paidWith": "PIX", "providerFee": 0, "platformFee": 0, "netAmount": 1990,
        "customerId": "user-7", "metadata": {"order": "é"},
    });
    assert_eq!(completed, json!({"event": "payment.completed", "data": expected}));
    let created = created_legacy.json();
    assert_eq!(created["data"]["status"], "WAITING_PAYMENT");
    assert_eq!(created["data"]["previousStatus"], "PENDING");
    assert_eq!(created["data"].get("netAmount"), None);
}

#[tokio::test]
async fn every_outcome_emits_its_event_and_only_subscribers_receive_it() {
    let service = Service::start().await;
    let all = Listener::start().await;
    let paid_only = Listener::start().await;
    let other_account = Listener::start().await;
    service.register_endpoint(&all.url, &CANONICAL).await;
    service.register_endpoint(&paid_only.url, &["charge.paid"]).await;
    service.other_account().register_endpoint(&other_account.url, &CANONICAL).await;

    for (action, event) in [("fail", "charge.failed"), ("expire", "charge.expired"), ("pay", "charge.paid")] {
        let charge = service.charge().await;
        service.sandbox(&charge, action, &json!({})).await;
        let hook = all.wait_for_event(event).await;
        assert_eq!(hook.json()["data"]["object"]["id"], charge["id"]);
    }
    paid_only.wait_for_event("charge.paid").await;
    all.received(6).await;
    wait_for_empty_queue(&service).await;
    assert_eq!(paid_only.hooks().len(), 1);
    assert_eq!(other_account.hooks().len(), 0);
}

#[tokio::test]
async fn a_payments_webhook_url_receives_its_legacy_events_instead_of_the_subscribed_endpoints() {
    let service = Service::start().await;
    let own = Listener::start().await;
    let subscribed = Listener::start().await;
    let endpoint = service.register_endpoint(&subscribed.url, &[&CANONICAL[..], &LEGACY].concat()).await;
    let rotated = service.post("/v1/webhooks/override-secret/rotate", &json!({})).await.expect(200);
    assert_eq!(rotated.as_object().unwrap().len(), 1);
    let payment = pay_with_webhook_url(&service, &own.url, "order-1").await;
    service.sandbox(&payment, "pay", &json!({})).await;
    let completed = own.wait_for_event("payment.completed").await;
    verify_legacy(&completed, secret(&rotated));
    assert_eq!(completed.json()["data"]["transactionId"], payment["id"]);

    own.received(4).await;
    subscribed.received(2).await;
    wait_for_empty_queue(&service).await;
    let names = |listener: &Listener| -> Vec<String> {
        let hooks = listener.hooks();
        let mut names: Vec<String> =
            hooks.iter().map(|hook| hook.header("x-service-event-type").to_owned()).collect();
        names.sort_unstable();
        names
    };
    let status_changed = "payment.status_changed";
    assert_eq!(names(&own), ["payment.completed", "payment.created", status_changed, status_changed]);
    assert_eq!(names(&subscribed), ["charge.created", "charge.paid"]);

    let deliveries = eventually("all deliveries are delivered", async || {
        Some(service.deliveries("&status=DELIVERED").await).filter(|deliveries| deliveries.len() == 6)
    })
    .await;
    let to_own: Vec<&Value> =
        deliveries.iter().filter(|delivery| delivery["endpointId"] == Value::Null).collect();
    assert_eq!(to_own.len(), 4);
    assert!(to_own.iter().any(|delivery| delivery["payload"] == completed.json()));
    let filtered = service.deliveries(&format!("&endpointId={}", id(&endpoint))).await;
    assert_eq!(filtered.len(), 2);
    assert_eq!(resend(&service, &payment).await["resent"], true);
    let hooks = own.received(6).await;
    assert_eq!(hooks.iter().filter(|hook| hook.body == completed.body).count(), 2, "a resend goes there too");
}

#[tokio::test]
async fn a_failed_delivery_is_retried_on_schedule_with_the_same_ids_until_it_succeeds() {
    let service = Service::start().await;
    let listener = Listener::answering(|number| match number {
        0 => (StatusCode::INTERNAL_SERVER_ERROR, "no\u{0}thing <works>").into_response(),
        1 => (StatusCode::MOVED_PERMANENTLY, [("location", "/elsewhere")]).into_response(),
        _ => StatusCode::OK.into_response(),
    })
    .await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.created"]).await;
    let charge = service.charge().await;
    let failed = waiting_after(&service, 1).await;
    assert_eq!((&failed["lastStatusCode"], &failed["maxAttempts"]), (&json!(500), &json!(15)));
    assert_eq!(failed["endpointId"], endpoint["id"]);
    assert!(failed["lastError"].as_str().unwrap().contains("500"));
    assert!(failed["lastResponseBody"].as_str().unwrap().contains("thing <works>"));
    assert_eq!(failed["deliveredAt"], Value::Null);
    assert_eq!(failed["payload"]["data"]["object"]["id"], charge["id"]);
    let wait = |delivery: &Value| {
        let time =
            |name: &str| delivery[name].as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>().unwrap();
        (time("nextRetryAt") - time("updatedAt")).num_milliseconds()
    };
    assert!((24_000..=36_000).contains(&wait(&failed)), "{failed}");

    service.advance_seconds(37).await;
    let again = waiting_after(&service, 2).await;
    assert_eq!(again["lastStatusCode"], 301);
    assert!((48_000..=72_000).contains(&wait(&again)), "{again}");

    service.advance_seconds(73).await;
    let done = eventually("the third attempt succeeds", async || {
        service.deliveries("&status=DELIVERED").await.into_iter().next()
    })
    .await;
    assert_eq!((&done["attempts"], &done["lastStatusCode"]), (&json!(3), &json!(200)));
    assert_eq!((&done["nextRetryAt"], &done["lastError"]), (&Value::Null, &Value::Null));
    assert!(done["deliveredAt"].is_string());
    let hooks = listener.hooks();
    assert_eq!(hooks.len(), 3);
    for hook in &hooks {
        assert_eq!(hook.body, hooks[0].body);
        assert_eq!(hook.header("x-service-delivery-id"), id(&done));
        verify(hook, secret(&endpoint));
    }
}

/// Waits until the queue of test deliveries has no visible message and none in flight.
pub(crate) async fn wait_for_empty_queue(service: &Service) {
    eventually("the delivery queue is empty", async || {
        let [visible, in_flight, _delayed] = count_messages(service, "TestDeliveryQueue").await;
        (visible + in_flight == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_duplicate_or_early_message_causes_no_extra_attempt() {
    let service = Service::start().await;
    let listener = Listener::answering(|number| match number {
        0 => StatusCode::BAD_GATEWAY.into_response(),
        _ => StatusCode::NO_CONTENT.into_response(),
    })
    .await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.created"]).await;
    service.charge().await;
    let waiting = waiting_after(&service, 1).await;
    let body =
        json!({"scope": service.scope(), "delivery": waiting["id"], "endpoint": endpoint["id"]}).to_string();
    let record =
        |number: usize| json!({"messageId": format!("m{number}"), "body": body, "eventSource": "aws:sqs"});
    let work = async |records: &[Value]| invoke(&service.stack, "WebhookWorkerFunction", records).await;
    let answer = work(&[record(0), record(1)]).await;
    assert_eq!(answer["batchItemFailures"], json!([]));
    assert_eq!(listener.hooks().len(), 1, "a message before the retry's due time is ignored");

    service.stack.clock.advance(37_000);
    work(&[record(0), record(1), record(2)]).await;
    // The service's own worker may make the attempt.
    eventually("the delivery is delivered", async || {
        (service.deliveries("&status=DELIVERED").await.len() == 1).then_some(())
    })
    .await;
    let poisoned = json!({"messageId": "poison", "body": "{", "eventSource": "aws:sqs"});
    let answer = work(&[record(3), poisoned]).await;
    assert_eq!(answer["batchItemFailures"], json!([{"itemIdentifier": "poison"}]));
    assert_eq!(listener.hooks().len(), 2);
}
