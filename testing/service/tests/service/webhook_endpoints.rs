//! Tests of changes to endpoints and of their effect on pending deliveries.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::Method;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;
use domain::webhook::failure::{AttemptFailure, ConnectionFailure};
use effects::webhook::delivery::{AttemptOutcome, FailedAttempt};
use effects::webhook::endpoint::{Endpoint, EndpointStatus, Endpoints};
use faults::proxy::Fault;
use serde_json::{Value, json};
use shared::audit;

use crate::invocations::{another_delivery, dispatch, first_delivery, invoke, run_webhook_worker};
use crate::support::{Listener, Service, id};
use crate::webhooks::{endpoint_path as path, expect_both_forms, secret, without_secrets};

#[tokio::test]
async fn an_endpoint_shows_its_secret_once_and_a_patch_changes_only_the_fields_in_its_body() {
    let service = Service::start().await;
    let (url, events) = ("http://127.0.0.1:9/hook", ["charge.paid", "charge.paid", "charge.created"]);
    let registered = service.register_endpoint(url, &events).await;
    expect_both_forms(&registered);
    assert!(id(&registered).starts_with("wh_"));
    assert_eq!(registered["events"], json!(["charge.paid", "charge.created"]));
    assert_eq!((&registered["url"], &registered["status"]), (&json!(url), &json!("ACTIVE")));
    let mut expected = without_secrets(&registered);
    assert_eq!(service.get("/v1/webhooks/endpoints").await.expect(200), json!({"data": [expected]}));
    for (change, field, value) in [
        (json!({"url": "http://127.0.0.1:9/other"}), "url", json!("http://127.0.0.1:9/other")),
        (
            json!({"events": ["payment.completed", "med.resolved"]}),
            "events",
            json!(["payment.completed", "med.resolved"]),
        ),
        (json!({"status": "INACTIVE", "url": null}), "status", json!("INACTIVE")),
        (json!({}), "status", json!("INACTIVE")),
    ] {
        service.advance_seconds(1).await;
        let changed = service.patch(&path(&registered), &change).await.expect(200);
        expected[field] = value;
        let is_later = changed["updatedAt"].as_str() > expected["updatedAt"].as_str();
        assert_eq!(is_later, change != json!({}), "{change}");
        expected["updatedAt"] = changed["updatedAt"].clone();
        assert_eq!(changed, expected, "{change}");
    }
    assert_eq!(service.get("/v1/webhooks/endpoints").await.expect(200), json!({"data": [expected]}));
}

#[tokio::test]
async fn another_scopes_endpoint_is_not_found() {
    let service = Service::start().await;
    let registered = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let (seed, own) = (&service.stack.seed, service.key());
    for (key, path) in [
        (seed.other.test_api_key.as_str(), path(&registered)),
        (seed.first.live_api_key.as_str(), path(&registered)),
        (own.as_str(), "/v1/webhooks/endpoints/wh_00000000000000000000000000".to_owned()),
        (own.as_str(), "/v1/webhooks/endpoints/nothing".to_owned()),
    ] {
        let json = ("content-type", "application/json");
        for (method, path, body) in [
            (Method::GET, path.clone(), ""),
            (Method::PATCH, path.clone(), "{\"status\": \"INACTIVE\"}"),
            (Method::POST, format!("{path}/rotate-secret"), "{}"),
            (Method::DELETE, path.clone(), ""),
        ] {
            let answer = service.raw(method.clone(), &path, &[("apikey", key), json], body).await;
            assert_eq!(answer.problem(), (404, "not_found_error", "not_found"), "{method} {path}");
        }
    }
    let listed = service.get("/v1/webhooks/endpoints").await.expect(200);
    assert_eq!(listed["data"][0]["status"], "ACTIVE");
    assert_eq!(service.get(&path(&registered)).await.expect(200), listed["data"][0]);
}

/// Makes one more attempt of a delivery. Returns the delivery afterwards.
async fn another_attempt(service: &Service, delivery: &Value) -> Value {
    // Longer than the longest retry delay.
    service.stack.clock.advance(15 * 60 * 60 * 1000);
    run_webhook_worker(&service.stack, delivery).await;
    service.deliveries("").await.into_iter().find(|other| other["id"] == delivery["id"]).unwrap()
}

async fn only_endpoint(service: &Service) -> Value {
    service.get("/v1/webhooks/endpoints").await.expect(200)["data"][0].clone()
}

#[tokio::test]
async fn an_endpoint_that_fails_every_attempt_for_five_days_is_disabled_with_the_reason() {
    let service = Service::without_event_sources().await;
    let (listener, is_up) = Listener::down().await;
    let registered = service.register_endpoint(&listener.url, &["charge.created"]).await;
    let first = another_delivery(&service).await;
    another_attempt(&service, &first).await;
    let failing = only_endpoint(&service).await;
    assert_eq!((&failing["status"], &failing["updatedAt"]), (&json!("ACTIVE"), &registered["updatedAt"]));
    assert!(failing["failingSince"].is_string(), "{failing}");
    // A success resets `failingSince`.
    is_up.store(true, Ordering::SeqCst);
    assert_eq!(another_attempt(&service, &first).await["status"], "DELIVERED");
    assert_eq!(only_endpoint(&service).await.get("failingSince"), None);
    is_up.store(false, Ordering::SeqCst);
    // The first delivery of an outage gets all its attempts before the endpoint is disabled.
    let second = another_delivery(&service).await;
    for _ in 0..5 {
        another_attempt(&service, &second).await;
    }
    let (third, fourth) = (another_delivery(&service).await, another_delivery(&service).await);
    for _ in 5..15 {
        another_attempt(&service, &second).await;
    }
    let given_up = service.deliveries("&status=FAILED").await;
    assert_eq!((given_up.len(), id(&given_up[0])), (1, id(&second)));
    assert_eq!(only_endpoint(&service).await["status"], "ACTIVE");
    for _ in 0..15 {
        another_attempt(&service, &third).await;
    }
    let disabled = only_endpoint(&service).await;
    assert_eq!((&disabled["status"], &disabled["disabledAt"]), (&json!("INACTIVE"), &disabled["updatedAt"]));
    let reason = disabled["disabledReason"].as_str().unwrap();
    assert!(reason.contains("answered 502"), "{reason}");
    let page = format!("/dashboard/webhooks/{}", id(&registered));
    let html = crate::dashboard::Browser::member(&service).await.page(&page).await;
    for words in [
        "nenhuma tentativa iniciada desde ",
        " teve sucesso. A última: O servidor respondeu com o status HTTP 502.",
        "Enviar teste (o serviço desligou o endpoint: ative-o antes)",
    ] {
        assert!(html.contains(words), "{words}: {html}");
    }
    dispatch(&service.stack).await;
    let (audit, _) = audit::page(&service.store(), &service.scope().account, None).await.unwrap();
    assert_eq!((audit[0].subject.as_str(), audit[0].reason.as_str()), (id(&registered), reason));

    // A delivery created before the endpoint was disabled gets all its attempts and then goes to the
    // queue of exhausted deliveries.
    let arrived = listener.hooks().len();
    assert_eq!(another_attempt(&service, &fourth).await["status"], "PENDING");
    assert_eq!(listener.hooks().len(), arrived + 1);
    for _ in 1..15 {
        another_attempt(&service, &fourth).await;
    }
    let ended = service.deliveries("&status=FAILED").await.remove(0);
    assert_eq!(
        (&ended["id"], &ended["attempts"], &ended["nextRetryAt"]),
        (&fourth["id"], &json!(15), &Value::Null)
    );
    let dead = service.take_messages("ExhaustedDeliveriesQueue").await;
    assert_eq!(dead.iter().filter(|message| message.contains(id(&fourth))).count(), 1);

    // A disabled endpoint gets no new deliveries. The missed events are in the event log.
    let resend = format!("/v1/webhooks/deliveries/{}/resend", id(&fourth));
    assert_eq!(service.post(&resend, &json!({})).await.status, 422);
    let missed = service.charge().await;
    dispatch(&service.stack).await;
    assert_eq!(service.deliveries("").await.len(), 4);
    let logged = service.get(&format!("/v1/events?object={}", id(&missed))).await.expect(200);
    assert_eq!(logged["data"].as_array().unwrap().len(), 3);

    let reactivated = service.patch(&path(&registered), &json!({"status": "ACTIVE"})).await.expect(200);
    let mut expected = without_secrets(&registered);
    expected["updatedAt"] = reactivated["updatedAt"].clone();
    assert_eq!(reactivated, expected, "reactivation clears every trace of the failures");
}

#[tokio::test]
async fn only_its_merchants_change_abandons_the_deliveries_of_a_disabled_endpoint() {
    let fixture = OutcomeFixture::start().await;
    let service = &fixture.service;
    let waiting = another_delivery(service).await;
    let worker_view = fixture.failing().await;
    service.stack.clock.advance(5 * DAY * 1_000);
    fixture.record(&worker_view, &OutcomeFixture::given_up(), 5 * DAY).await;
    let disabled = only_endpoint(service).await;
    assert_eq!((&disabled["status"], disabled["disabledAt"].is_string()), (&json!("INACTIVE"), true));
    let read = async || {
        let read = service.get(&format!("/v1/webhooks/deliveries/{}", id(&waiting))).await.expect(200);
        read["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(read().await, "PENDING");
    // A change of other fields abandons nothing.
    fixture.change(json!({"events": ["charge.created", "charge.paid"]})).await;
    assert_eq!(read().await, "PENDING");
    fixture.change(json!({"status": "INACTIVE"})).await;
    assert_eq!(read().await, "CANCELLED");
    let abandoned = only_endpoint(service).await;
    assert_eq!(
        (&abandoned["status"], &abandoned["disabledAt"]),
        (&json!("INACTIVE"), &disabled["disabledAt"])
    );
    fixture.change(json!({"status": "ACTIVE"})).await;
    let reactivated = only_endpoint(service).await;
    assert_eq!((&reactivated["status"], reactivated.get("disabledAt")), (&json!("ACTIVE"), None));
    assert_eq!(read().await, "CANCELLED");
    // A resend and a new event go to the endpoint.
    service.stack.clock.advance(37_000);
    let resend = format!("/v1/webhooks/deliveries/{}/resend", id(&waiting));
    service.post(&resend, &json!({})).await.expect(200);
    service.charge().await;
    dispatch(&service.stack).await;
    assert_eq!(service.deliveries("&status=PENDING").await.len(), 2);
    run_webhook_worker(&service.stack, &waiting).await;
    assert_eq!(service.deliveries("&status=CANCELLED").await.len(), 1);
}

/// A registered endpoint and helpers that record attempt outcomes for it, as workers do. Times are relative
/// to `at`.
struct OutcomeFixture {
    service: Service,
    endpoints: Endpoints,
    at: Timestamp,
}

const DAY: i64 = 24 * 60 * 60;

impl OutcomeFixture {
    async fn start() -> Self {
        let service = Service::without_event_sources().await;
        service.register_endpoint("http://127.0.0.1:9/hook", &["charge.created"]).await;
        let endpoints = Endpoints::new(service.store());
        Self { at: service.stack.clock.now(), service, endpoints }
    }

    fn after(&self, seconds: i64) -> Timestamp {
        self.at.plus_seconds(seconds).unwrap()
    }

    async fn read(&self) -> Endpoint {
        self.endpoints.list(&self.service.scope()).await.unwrap().remove(0)
    }

    async fn record(&self, worker_view: &Endpoint, end: &AttemptOutcome, seconds: i64) {
        // The attempt's delivery was created two days after `at`.
        self.endpoints
            .record_attempt(worker_view, (end, self.after(2 * DAY)), self.after(seconds))
            .await
            .unwrap();
    }

    fn failed() -> AttemptOutcome {
        let failed = FailedAttempt::without_body(Some(502), AttemptFailure::Answered(502));
        AttemptOutcome::Retry { failed, next_attempt_at: Timestamp::MAX }
    }

    fn given_up() -> AttemptOutcome {
        AttemptOutcome::Exhausted(FailedAttempt::without_body(None, ConnectionFailure::Timeout.into()))
    }

    /// Records a failure at `at`. Returns the endpoint as a worker then reads it.
    async fn failing(&self) -> Endpoint {
        self.record(&self.read().await, &Self::failed(), 0).await;
        let failing = self.read().await;
        assert_eq!(failing.failing_since, Some(self.at));
        failing
    }

    async fn change(&self, change: Value) {
        self.service.patch(&path(&only_endpoint(&self.service).await), &change).await.expect(200);
    }
}

const DELIVERED: AttemptOutcome = AttemptOutcome::Delivered { status_code: 204 };

#[tokio::test]
async fn a_success_is_recorded_despite_a_concurrent_change_and_an_older_failure_is_not() {
    let fixture = OutcomeFixture::start().await;
    let worker_view = fixture.failing().await;
    fixture.change(json!({"events": ["charge.paid"]})).await;
    fixture.record(&worker_view, &DELIVERED, 60).await;
    let now = fixture.read().await;
    assert_eq!((now.failing_since, now.events), (None, vec![EventType::ChargePaid]));
    // A failure whose worker read the endpoint before the success is stale and is not recorded.
    fixture.record(&worker_view, &OutcomeFixture::given_up(), 5 * DAY).await;
    let unchanged = fixture.read().await;
    assert_eq!((unchanged.status, unchanged.failing_since), (EndpointStatus::Active, None));
    assert_eq!(unchanged.version, now.version);
    // The endpoint then fails again, so `failing_since` is the time of that failure.
    fixture.record(&unchanged, &OutcomeFixture::failed(), 5 * DAY + 1).await;
    fixture.record(&worker_view, &OutcomeFixture::given_up(), 6 * DAY).await;
    let now = fixture.read().await;
    assert_eq!((now.status, now.failing_since), (EndpointStatus::Active, Some(fixture.after(5 * DAY + 1))));
}

#[tokio::test]
async fn an_endpoint_is_disabled_once_despite_concurrent_workers_and_a_concurrent_change() {
    let fixture = OutcomeFixture::start().await;
    let worker_view = fixture.failing().await;
    fixture.change(json!({"events": ["charge.paid"]})).await;
    let end = OutcomeFixture::given_up();
    let record = || fixture.record(&worker_view, &end, 5 * DAY);
    tokio::join!(record(), record(), record(), record());
    let disabled = fixture.read().await;
    assert_eq!((disabled.status, disabled.events), (EndpointStatus::Inactive, vec![EventType::ChargePaid]));
    dispatch(&fixture.service.stack).await;
    let (mut audit, _) =
        audit::page(&fixture.service.store(), &fixture.service.scope().account, None).await.unwrap();
    audit.retain(|row| row.action.name() == "webhook-endpoint.disable");
    assert_eq!(audit.len(), 1, "{audit:?}");
}

#[tokio::test]
async fn the_outcome_of_an_attempt_at_an_earlier_url_or_a_deleted_endpoint_is_not_recorded() {
    let fixture = OutcomeFixture::start().await;
    let worker_view = fixture.failing().await;
    fixture.change(json!({"url": "http://127.0.0.1:9/new"})).await;
    fixture.record(&fixture.read().await, &OutcomeFixture::failed(), 60).await;
    for end in [DELIVERED, OutcomeFixture::given_up()] {
        fixture.record(&worker_view, &end, 9 * DAY).await;
        let now = fixture.read().await;
        assert_eq!((now.status, now.failing_since), (EndpointStatus::Active, Some(fixture.after(60))));
    }
    let path = path(&only_endpoint(&fixture.service).await);
    fixture.service.delete(&path).await.expect(200);
    fixture.record(&worker_view, &DELIVERED, 9 * DAY).await;
    assert_eq!(fixture.service.get("/v1/webhooks/endpoints").await.expect(200)["data"], json!([]));
}

#[tokio::test]
async fn a_success_is_recorded_in_the_endpoint_before_its_delivery_is_marked_delivered() {
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    let delivery = first_delivery(&service, &listener.url).await;
    let endpoints = Endpoints::new(service.store());
    let worker_view = endpoints.list(&service.scope()).await.unwrap().remove(0);
    let now = service.stack.clock.now();
    endpoints.record_attempt(&worker_view, (&OutcomeFixture::failed(), now), now).await.unwrap();
    // The write to the endpoint fails, so the delivery stays undelivered and its message is retried. Of the
    // worker's requests, only this one names the attribute.
    let proxy = service.proxy();
    proxy.inject_where("failing_since", Fault::ServerError);
    let body =
        json!({"scope": service.scope(), "delivery": delivery["id"], "endpoint": delivery["endpointId"]});
    let record = json!({"messageId": "m", "body": body.to_string(), "eventSource": "aws:sqs"});
    let answer = invoke(&service.stack, "WebhookWorkerFunction", &[record]).await;
    assert_eq!(answer["batchItemFailures"].as_array().unwrap().len(), 1);
    assert_eq!(service.deliveries("").await[0]["status"], "PROCESSING");
    proxy.reset();
    service.stack.clock.advance(61_000);
    run_webhook_worker(&service.stack, &delivery).await;
    assert_eq!(service.deliveries("").await[0]["status"], "DELIVERED");
    assert_eq!(only_endpoint(&service).await.get("failingSince"), None);
}

#[tokio::test]
async fn a_rotation_shows_the_new_secret_and_changes_nothing_else() {
    let service = Service::start().await;
    let registered = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.created"]).await;
    let (endpoint, rotation) = (path(&registered), format!("{}/rotate-secret", path(&registered)));
    service.advance_seconds(1).await;
    let rotated = service.post(&rotation, &json!({"id": registered["id"]})).await.expect(200);
    assert_eq!((rotated.as_object().unwrap().len(), &rotated["id"]), (3, &registered["id"]));
    expect_both_forms(&rotated);
    assert_ne!(secret(&rotated), secret(&registered));
    // Of the endpoint, only the time of the last change differs.
    let shown = service.get(&endpoint).await.expect(200);
    let mut expected = without_secrets(&registered);
    assert!(shown["updatedAt"].as_str() > expected["updatedAt"].as_str());
    expected["updatedAt"] = shown["updatedAt"].clone();
    assert_eq!(shown, expected);
    let refused = service.post(&rotation, &json!({"id": "wh_00000000000000000000000000"})).await;
    assert_eq!((refused.problem().0, refused.params()), (400, vec!["id"]));
    assert_eq!(service.post(&rotation, &json!({"id": 7})).await.status, 400);
    assert_eq!(service.get(&endpoint).await.expect(200), shown, "a refused rotation changes nothing");
    let without_body = service.raw(Method::POST, &rotation, &[("apikey", &service.key())], "").await;
    assert_eq!(without_body.status, 200);
}

#[tokio::test]
async fn the_catalog_is_public_and_lists_what_can_be_subscribed_to() {
    let service = Service::start().await;
    let answer = service.raw(Method::GET, "/v1/webhooks/event-catalog", &[], "").await;
    assert!(answer.header("x-request-id").is_some());
    let catalog = answer.expect(200);
    let entries = catalog.as_array().unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| entry["event"].as_str().unwrap()).collect();
    assert_eq!(names, EventType::subscribable().map(EventType::as_str).collect::<Vec<_>>());
    for entry in entries {
        let name = entry["event"].as_str().unwrap();
        let is_legacy = name.starts_with("payment.") || name.starts_with("withdrawal.");
        assert_eq!(entry.get("legacy"), is_legacy.then_some(&json!(true)), "{name}");
        assert!(!entry["description"].as_str().unwrap().is_empty());
    }
    service.register_endpoint("http://127.0.0.1:9/hook", &names).await;
}

#[tokio::test]
async fn a_scope_may_have_fifty_endpoints_even_when_they_are_registered_concurrently() {
    let service = Arc::new(Service::without_event_sources().await);
    let body = json!({"url": "https://shop.example.com/hook", "events": ["charge.paid"]});
    let mut answers = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let (service, body) = (Arc::clone(&service), body.clone());
        answers.spawn(async move { service.post("/v1/webhooks/endpoints", &body).await });
    }
    let answers = answers.join_all().await;
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    let listed = async || {
        let page = service.get("/v1/webhooks/endpoints").await.expect(200);
        page["data"].as_array().unwrap().clone()
    };
    // A request that conflicted too often gets 503 and may retry.
    assert_eq!((count(201) + count(422) + count(503), count(201)), (60, listed().await.len()));
    while listed().await.len() < 50 {
        service.post("/v1/webhooks/endpoints", &body).await.expect(201);
    }
    let refused = service.post("/v1/webhooks/endpoints", &body).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "unprocessable_entity"));
    let first = listed().await.remove(0);
    assert_eq!(service.delete(&path(&first)).await.expect(200), json!({"deleted": true}));
    assert_eq!(service.delete(&path(&first)).await.status, 404);
    service.post("/v1/webhooks/endpoints", &body).await.expect(201);
    assert_eq!(service.post("/v1/webhooks/endpoints", &body).await.status, 422);
    // Each scope has a separate limit.
    let other = &service.stack.seed.first.live_api_key;
    let live = service.post_as(other, "/v1/webhooks/endpoints", &body, &[]).await;
    assert_eq!(live.status, 201);
}
