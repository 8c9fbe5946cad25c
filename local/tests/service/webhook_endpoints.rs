//! Changing endpoints, and what becomes of what is on its way to them (contract: Webhooks).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_sdk_sqs::types::Message;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;
use local::embedded::fault_proxy::Fault;
use local::stack::Options;
use serde_json::{Value, json};
use shared::audit;
use shared::webhook::delivery::AttemptOutcome;
use shared::webhook::endpoint::{Endpoint, EndpointStatus, Endpoints};

use crate::budgets::{dispatch, work};
use crate::support::{Listener, Service, eventually, id};
use crate::webhooks::{queue_is_empty, secret, verify};

fn path(endpoint: &Value) -> String {
    format!("/v1/webhooks/endpoints/{}", id(endpoint))
}

/// A listener that fails each time, and a delivery that waits for its second attempt to it.
async fn with_a_waiting_delivery(service: &Service) -> (Listener, Value) {
    let listener = Listener::answering(|_number| (StatusCode::BAD_GATEWAY, "why").into_response()).await;
    let endpoint = service.register(&listener.url, &["charge.created"]).await;
    service.charge().await;
    eventually("the first failure", async || {
        let waiting = service.deliveries("&status=PENDING").await;
        waiting.into_iter().find(|delivery| delivery["attempts"] == 1)
    })
    .await;
    (listener, endpoint)
}

async fn is_cancelled(service: &Service, listener: &Listener, reason: &str) {
    let cancelled = eventually("it is cancelled", async || {
        service.deliveries("&status=CANCELLED").await.into_iter().next()
    })
    .await;
    // What was attempted stays on record.
    assert_eq!(cancelled["lastError"], format!("{reason}; the last attempt: answered 502"));
    assert_eq!((&cancelled["lastStatusCode"], &cancelled["attempts"]), (&json!(502), &json!(1)));
    assert_eq!((&cancelled["lastResponseBody"], &cancelled["nextRetryAt"]), (&json!("why"), &Value::Null));
    service.advance(37).await;
    queue_is_empty(service).await;
    assert_eq!(listener.hooks().len(), 1);
}

#[tokio::test]
async fn a_change_takes_only_the_fields_that_are_sent() {
    let service = Service::start().await;
    let made = service.register("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let mut expected = made.clone();
    expected.as_object_mut().unwrap().remove("secret");
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
        let changed = service.patch(&path(&made), &change).await.expect(200);
        expected[field] = value;
        expected["updatedAt"] = changed["updatedAt"].clone();
        assert_eq!(changed, expected, "{change}");
    }
    assert_eq!(service.get("/v1/webhooks/endpoints").await.expect(200), json!({"data": [expected]}));
}

#[tokio::test]
async fn a_change_is_held_to_the_rules_of_registration() {
    let service = Service::start().await;
    let made = service.register("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    for (change, params) in [
        (json!({"url": "http://example.com/hook"}), vec!["url"]),
        (json!({"url": "https://printer.home.arpa/hook"}), vec!["url"]),
        (json!({"url": "https://example.com:587/hook"}), vec!["url"]),
        (json!({"url": 5, "events": [], "status": "active"}), vec!["url", "events", "status"]),
        (json!({"events": ["charge.paid", "webhook.test"]}), vec!["events[1]"]),
        (json!({"status": true}), vec!["status"]),
    ] {
        let answer = service.patch(&path(&made), &change).await;
        assert_eq!(answer.problem(), (400, "invalid_request_error", "invalid_request"), "{change}");
        assert_eq!(answer.params(), params, "{change}");
    }
}

#[tokio::test]
async fn another_scopes_endpoint_is_not_found() {
    let service = Service::start().await;
    let made = service.register("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let strangers = [&service.stack.seed.other.test_api_key, &service.stack.seed.first.live_api_key];
    let own = service.key();
    let mut cases = Vec::new();
    for stranger in strangers {
        cases.push((stranger.as_str(), path(&made)));
    }
    cases.push((own.as_str(), "/v1/webhooks/endpoints/wh_00000000000000000000000000".to_owned()));
    cases.push((own.as_str(), "/v1/webhooks/endpoints/nothing".to_owned()));
    for (key, path) in cases {
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
    assert_eq!(service.get(&path(&made)).await.expect(200), listed["data"][0]);
}

#[tokio::test]
async fn what_waits_for_an_endpoint_that_its_merchant_sets_to_inactive_is_cancelled() {
    let service = Service::start().await;
    let (listener, endpoint) = with_a_waiting_delivery(&service).await;
    service.patch(&path(&endpoint), &json!({"status": "INACTIVE"})).await.expect(200);
    is_cancelled(&service, &listener, "the endpoint was set to INACTIVE").await;
    // And nothing new is made for it.
    service.charge().await;
    let told = Listener::start().await;
    service.register(&told.url, &["charge.created"]).await;
    service.charge().await;
    told.received(1).await;
    assert_eq!(service.deliveries(&format!("&endpointId={}", id(&endpoint))).await.len(), 1);
}

/// One attempt of a delivery to an endpoint that fails each time; gives the delivery after it.
async fn another_attempt(service: &Service, delivery: &Value) -> Value {
    // Longer than the longest pause between two attempts.
    service.stack.clock.advance(15 * 60 * 60 * 1000);
    work(service, delivery).await;
    service.deliveries("").await.into_iter().find(|other| other["id"] == delivery["id"]).unwrap()
}

async fn only_endpoint(service: &Service) -> Value {
    service.get("/v1/webhooks/endpoints").await.expect(200)["data"][0].clone()
}

#[tokio::test]
async fn an_endpoint_that_failed_everything_for_five_days_is_switched_off_and_says_why() {
    let service = Service::with(Options { event_sources: false, ..Options::in_memory() }).await;
    let is_up = Arc::new(AtomicBool::new(false));
    let reply = {
        let is_up = is_up.clone();
        move |_number| {
            let up = is_up.load(Ordering::SeqCst);
            if up { StatusCode::NO_CONTENT } else { StatusCode::BAD_GATEWAY }.into_response()
        }
    };
    let listener = Listener::answering(reply).await;
    let made = service.register(&listener.url, &["charge.created"]).await;
    service.charge().await;
    dispatch(&service).await;
    let first = service.deliveries("").await.remove(0);
    another_attempt(&service, &first).await;
    let failing = only_endpoint(&service).await;
    assert_eq!((&failing["status"], &failing["updatedAt"]), (&json!("ACTIVE"), &made["updatedAt"]));
    assert!(failing["failingSince"].is_string(), "{failing}");
    // A success in between, and it begins anew.
    is_up.store(true, Ordering::SeqCst);
    assert_eq!(another_attempt(&service, &first).await["status"], "DELIVERED");
    assert_eq!(only_endpoint(&service).await.get("failingSince"), None);
    is_up.store(false, Ordering::SeqCst);
    let charge = async || {
        service.charge().await;
        dispatch(&service).await;
        service.deliveries("").await.remove(0)
    };
    // The first of an outage gets all its attempts, however long they take.
    let second = charge().await;
    for _ in 0..5 {
        another_attempt(&service, &second).await;
    }
    let (third, fourth) = (charge().await, charge().await);
    for _ in 5..15 {
        another_attempt(&service, &second).await;
    }
    let given_up = service.deliveries("&status=FAILED").await;
    assert_eq!((given_up.len(), id(&given_up[0])), (1, id(&second)));
    assert_eq!(only_endpoint(&service).await["status"], "ACTIVE");
    for _ in 0..15 {
        another_attempt(&service, &third).await;
    }
    let off = only_endpoint(&service).await;
    assert_eq!((&off["status"], &off["disabledAt"]), (&json!("INACTIVE"), &off["updatedAt"]));
    let reason = off["disabledReason"].as_str().unwrap();
    assert!(reason.contains("answered 502"), "{reason}");
    let (audit, _) = audit::page(&service.store(), &service.scope().account, None).await.unwrap();
    assert_eq!((audit[0].subject.as_str(), audit[0].reason.as_str()), (id(&made), reason));

    // What was made before is attempted to its end, and then in the dead-letter queue.
    let arrived = listener.hooks().len();
    assert_eq!(another_attempt(&service, &fourth).await["status"], "PENDING");
    assert_eq!(listener.hooks().len(), arrived + 1);
    for _ in 1..15 {
        another_attempt(&service, &fourth).await;
    }
    let ended = service.deliveries("&status=FAILED").await.remove(0);
    assert_eq!((&ended["id"], &ended["attempts"]), (&fourth["id"], &json!(15)));
    let sqs = local::sdk::sqs(&service.stack.endpoints.sqs_url);
    let url = local::template::queue_url(&service.stack.endpoints.sqs_url, "DeliveryDeadLetterQueue");
    let dead = sqs.receive_message().queue_url(url).max_number_of_messages(10).send().await.unwrap();
    let names_it = |message: &Message| message.body().unwrap().contains(id(&fourth));
    assert_eq!(dead.messages().iter().filter(|message| names_it(message)).count(), 1);

    // Nothing new is sent to it, and what was missed is in the log.
    let resend = format!("/v1/webhooks/deliveries/{}/resend", id(&fourth));
    assert_eq!(service.post(&resend, &json!({})).await.status, 422);
    let missed = service.charge().await;
    dispatch(&service).await;
    assert_eq!(service.deliveries("").await.len(), 4);
    let logged = service.get(&format!("/v1/events?object={}", id(&missed))).await.expect(200);
    assert_eq!(logged["data"].as_array().unwrap().len(), 3);

    let on = service.patch(&path(&made), &json!({"status": "ACTIVE"})).await.expect(200);
    let mut expected = made.clone();
    expected.as_object_mut().unwrap().remove("secret");
    expected["updatedAt"] = on["updatedAt"].clone();
    assert_eq!(on, expected, "as if nothing had been");
}

#[tokio::test]
async fn an_endpoint_that_is_switched_off_is_abandoned_by_its_merchant_alone() {
    let noted = Noted::start().await;
    let service = &noted.service;
    service.charge().await;
    dispatch(service).await;
    let waiting = service.deliveries("").await.remove(0);
    let seen = noted.failing().await;
    service.stack.clock.advance(5 * DAY * 1_000);
    noted.note(&seen, &Noted::given_up(), 5 * DAY).await;
    let off = only_endpoint(service).await;
    assert_eq!((&off["status"], off["disabledAt"].is_string()), (&json!("INACTIVE"), true));
    let read = async || {
        let read = service.get(&format!("/v1/webhooks/deliveries/{}", id(&waiting))).await.expect(200);
        read["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(read().await, "PENDING");
    // A change of something else leaves it so.
    noted.change(json!({"events": ["charge.created", "charge.paid"]})).await;
    assert_eq!(read().await, "PENDING");
    noted.change(json!({"status": "INACTIVE"})).await;
    assert_eq!(read().await, "CANCELLED");
    let abandoned = only_endpoint(service).await;
    assert_eq!((&abandoned["status"], &abandoned["disabledAt"]), (&json!("INACTIVE"), &off["disabledAt"]));
    noted.change(json!({"status": "ACTIVE"})).await;
    let on = only_endpoint(service).await;
    assert_eq!((&on["status"], on.get("disabledAt")), (&json!("ACTIVE"), None));
    assert_eq!(read().await, "CANCELLED");
    work(service, &waiting).await;
    assert_eq!(service.deliveries("&status=CANCELLED").await.len(), 1);
}

/// A registered endpoint, as workers read it, and how their attempts end.
struct Noted {
    service: Service,
    endpoints: Endpoints,
    at: Timestamp,
}

const DAY: i64 = 24 * 60 * 60;

impl Noted {
    async fn start() -> Self {
        let service = Service::with(Options { event_sources: false, ..Options::in_memory() }).await;
        service.register("http://127.0.0.1:9/hook", &["charge.created"]).await;
        let endpoints = Endpoints::new(service.store());
        Self { at: service.stack.clock.now(), service, endpoints }
    }

    fn after(&self, seconds: i64) -> Timestamp {
        self.at.plus_seconds(seconds).unwrap()
    }

    async fn read(&self) -> Endpoint {
        self.endpoints.of(&self.service.scope()).await.unwrap().remove(0)
    }

    async fn note(&self, seen: &Endpoint, end: &AttemptOutcome, seconds: i64) {
        // Of a delivery that was made two days after all began.
        self.endpoints.note(seen, (end, self.after(2 * DAY)), self.after(seconds)).await.unwrap();
    }

    fn failed() -> AttemptOutcome {
        let next_attempt_at = Timestamp::MAX;
        let error = "answered 502".to_owned();
        AttemptOutcome::Retry { status_code: Some(502), error, response_body: None, next_attempt_at }
    }

    fn given_up() -> AttemptOutcome {
        AttemptOutcome::Exhausted { status_code: None, error: "timeout".to_owned(), response_body: None }
    }

    /// Failing since the first moment, as workers read it then.
    async fn failing(&self) -> Endpoint {
        self.note(&self.read().await, &Self::failed(), 0).await;
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
async fn a_success_is_noted_whoever_changed_the_endpoint_meanwhile() {
    let noted = Noted::start().await;
    let seen = noted.failing().await;
    noted.change(json!({"events": ["charge.paid"]})).await;
    noted.note(&seen, &DELIVERED, 60).await;
    let now = noted.read().await;
    assert_eq!((now.failing_since, now.events), (None, vec![EventType::ChargePaid]));
    // A failure that began before, and ends now, is older than what is known by now.
    noted.note(&seen, &Noted::given_up(), 5 * DAY).await;
    assert_eq!(noted.read().await.failing_since, None);
    assert_eq!(noted.read().await.version, now.version);
}

#[tokio::test]
async fn an_endpoint_is_not_switched_off_for_what_a_success_made_untrue() {
    let noted = Noted::start().await;
    let seen = noted.failing().await;
    // Two workers read it so. One delivers just before the other gives up.
    noted.note(&seen, &DELIVERED, 5 * DAY).await;
    noted.note(&seen, &Noted::given_up(), 5 * DAY).await;
    let now = noted.read().await;
    assert_eq!((now.status, now.failing_since, now.disabled), (EndpointStatus::Active, None, None));
    // And it failed again meanwhile: it fails since then.
    let again = noted.read().await;
    noted.note(&again, &Noted::failed(), 5 * DAY + 1).await;
    noted.note(&seen, &Noted::given_up(), 6 * DAY).await;
    let now = noted.read().await;
    assert_eq!((now.status, now.failing_since), (EndpointStatus::Active, Some(noted.after(5 * DAY + 1))));
}

#[tokio::test]
async fn an_endpoint_is_switched_off_once_though_somebody_changed_it_meanwhile() {
    let noted = Noted::start().await;
    let seen = noted.failing().await;
    noted.change(json!({"events": ["charge.paid"]})).await;
    let end = Noted::given_up();
    let note = || noted.note(&seen, &end, 5 * DAY);
    tokio::join!(note(), note(), note(), note());
    let off = noted.read().await;
    assert_eq!((off.status, off.events), (EndpointStatus::Inactive, vec![EventType::ChargePaid]));
    let (audit, _) = audit::page(&noted.service.store(), &noted.service.scope().account, None).await.unwrap();
    assert_eq!(audit.len(), 1, "{audit:?}");
}

#[tokio::test]
async fn what_was_posted_to_another_address_or_a_deleted_endpoint_is_not_noted() {
    let noted = Noted::start().await;
    let seen = noted.failing().await;
    noted.change(json!({"url": "http://127.0.0.1:9/new"})).await;
    noted.note(&noted.read().await, &Noted::failed(), 60).await;
    for end in [DELIVERED, Noted::given_up()] {
        noted.note(&seen, &end, 9 * DAY).await;
        let now = noted.read().await;
        assert_eq!((now.status, now.failing_since), (EndpointStatus::Active, Some(noted.after(60))));
    }
    let path = path(&only_endpoint(&noted.service).await);
    noted.service.delete(&path).await.expect(200);
    noted.note(&seen, &DELIVERED, 9 * DAY).await;
    assert_eq!(noted.service.get("/v1/webhooks/endpoints").await.expect(200)["data"], json!([]));
}

#[tokio::test]
async fn a_success_is_noted_before_its_delivery_is_done() {
    let service =
        Service::with(Options { event_sources: false, fault_proxy: true, ..Options::in_memory() }).await;
    let listener = Listener::start().await;
    service.register(&listener.url, &["charge.created"]).await;
    service.charge().await;
    dispatch(&service).await;
    let delivery = service.deliveries("").await.remove(0);
    let endpoints = Endpoints::new(service.store());
    let seen = endpoints.of(&service.scope()).await.unwrap().remove(0);
    let now = service.stack.clock.now();
    endpoints.note(&seen, (&Noted::failed(), now), now).await.unwrap();
    // The note does not go through: the delivery is not done, and comes again.
    let proxy = service.stack.fault_proxy.as_ref().unwrap();
    proxy.inject_every("PutItem", 1, Fault::InternalError);
    let worker = service.stack.functions.get("WebhookWorkerFunction").unwrap().clone();
    let scope = service.scope().to_string();
    let body = json!({"scope": scope, "delivery": delivery["id"], "endpoint": delivery["endpointId"]});
    let record = json!({"messageId": "m", "body": body.to_string(), "eventSource": "aws:sqs"});
    let answer = worker(json!({ "Records": [record] })).await.unwrap();
    assert_eq!(answer["batchItemFailures"].as_array().unwrap().len(), 1);
    assert_eq!(service.deliveries("").await[0]["status"], "PROCESSING");
    proxy.inject_every("PutItem", usize::MAX, Fault::InternalError);
    service.stack.clock.advance(61_000);
    work(&service, &delivery).await;
    assert_eq!(service.deliveries("").await[0]["status"], "DELIVERED");
    assert_eq!(only_endpoint(&service).await.get("failingSince"), None);
}

#[tokio::test]
async fn what_waits_for_a_deleted_endpoint_is_cancelled() {
    let service = Service::start().await;
    let (listener, endpoint) = with_a_waiting_delivery(&service).await;
    let deleted = service.delete(&path(&endpoint)).await.expect(200);
    assert_eq!(deleted, json!({"deleted": true}));
    assert_eq!(service.get("/v1/webhooks/endpoints").await.expect(200), json!({"data": []}));
    assert_eq!(service.delete(&path(&endpoint)).await.status, 404);
    is_cancelled(&service, &listener, "the endpoint was deleted").await;
}

#[tokio::test]
async fn a_rotated_secret_signs_the_next_delivery() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    let made = service.register(&listener.url, &["charge.created"]).await;
    service.charge().await;
    verify(&listener.received(1).await[0], secret(&made));
    let path = format!("{}/rotate-secret", path(&made));
    let rotated = service.post(&path, &json!({"id": made["id"]})).await.expect(200);
    assert_eq!(rotated.as_object().unwrap().len(), 2);
    assert_eq!(rotated["id"], made["id"]);
    assert_eq!(secret(&rotated).len(), 64);
    assert_ne!(secret(&rotated), secret(&made));
    service.charge().await;
    verify(&listener.received(2).await[1], secret(&rotated));

    let other = json!({"id": "wh_00000000000000000000000000"});
    let refused = service.post(&path, &other).await;
    assert_eq!((refused.problem().0, refused.params()), (400, vec!["id"]));
    assert_eq!(service.post(&path, &json!({"id": 7})).await.status, 400);
    service.charge().await;
    verify(&listener.received(3).await[2], secret(&rotated));
    let without_body = service.raw(Method::POST, &path, &[("apikey", &service.key())], "").await;
    assert_eq!(without_body.status, 200);
}

#[tokio::test]
async fn an_endpoint_that_changes_its_events_hears_the_new_ones() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    let made = service.register(&listener.url, &["charge.created"]).await;
    service.patch(&path(&made), &json!({"events": ["payment.completed"]})).await.expect(200);
    let charge = service.charge().await;
    service.sandbox(&charge, "pay", &json!({})).await;
    listener.event("payment.completed").await;
    queue_is_empty(&service).await;
    assert_eq!(listener.hooks().len(), 1);
}

#[tokio::test]
async fn the_catalog_is_public_and_lists_what_can_be_subscribed_to() {
    let service = Service::start().await;
    let answer = service.raw(Method::GET, "/v1/webhooks/event-catalog", &[], "").await;
    assert!(answer.header("x-request-id").is_some());
    let catalog = answer.expect(200);
    let entries = catalog.as_array().unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| entry["event"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "charge.created",
            "charge.paid",
            "charge.failed",
            "charge.expired",
            "payout.created",
            "payout.paid",
            "payout.failed",
            "med_case.created",
            "med_case.updated",
            "med.resolved",
            "payment.created",
            "payment.completed",
            "payment.failed",
            "payment.expired",
            "payment.refunded",
            "payment.status_changed",
            "withdrawal.created",
            "withdrawal.completed",
            "withdrawal.failed",
            "withdrawal.status_changed",
        ]
    );
    for entry in entries {
        let name = entry["event"].as_str().unwrap();
        let is_legacy = name.starts_with("payment.") || name.starts_with("withdrawal.");
        assert_eq!(entry.get("legacy"), is_legacy.then_some(&json!(true)), "{name}");
        assert!(!entry["description"].as_str().unwrap().is_empty());
    }
    service.register("http://127.0.0.1:9/hook", &names).await;
}

#[tokio::test]
async fn of_many_endpoints_that_are_registered_at_once_fifty_are() {
    let service = Arc::new(Service::with(Options { event_sources: false, ..Options::in_memory() }).await);
    let body = json!({"url": "https://shop.example.com/hook", "events": ["charge.paid"]});
    let mut answers = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let (service, body) = (Arc::clone(&service), body.clone());
        answers.spawn(async move { service.post("/v1/webhooks/endpoints", &body).await });
    }
    let answers = answers.join_all().await;
    let of = |status| answers.iter().filter(|answer| answer.status == status).count();
    let listed = async || {
        let page = service.get("/v1/webhooks/endpoints").await.expect(200);
        page["data"].as_array().unwrap().clone()
    };
    // One that met the others too often is told to try again.
    assert_eq!((of(201) + of(422) + of(503), of(201)), (60, listed().await.len()));
    while listed().await.len() < 50 {
        service.post("/v1/webhooks/endpoints", &body).await.expect(201);
    }
    let refused = service.post("/v1/webhooks/endpoints", &body).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "unprocessable_entity"));
    let first = listed().await.remove(0);
    service.delete(&path(&first)).await.expect(200);
    assert_eq!(service.delete(&path(&first)).await.status, 404);
    service.post("/v1/webhooks/endpoints", &body).await.expect(201);
    assert_eq!(service.post("/v1/webhooks/endpoints", &body).await.status, 422);
    // Each scope has its own.
    let other = &service.stack.seed.first.live_api_key;
    let live = service.post_as(other, "/v1/webhooks/endpoints", &body, &[]).await;
    assert_eq!(live.status, 201);
}

#[tokio::test]
async fn a_success_is_noted_also_when_somebody_changed_the_endpoint_meanwhile() {
    let service = Service::with(Options { event_sources: false, ..Options::in_memory() }).await;
    let made = service.register("https://shop.example.com/hook", &["charge.created"]).await;
    let endpoints = Endpoints::new(service.store());
    let read = async || endpoints.find(&service.scope(), id(&made).parse().unwrap()).await.unwrap();
    let now = service.stack.clock.now();
    let failed =
        AttemptOutcome::Exhausted { status_code: None, error: "no answer".to_owned(), response_body: None };
    let delivered = AttemptOutcome::Delivered { status_code: 200 };
    endpoints.note(&read().await, (&failed, now), now).await.unwrap();
    let seen = read().await;
    assert_eq!(seen.failing_since, Some(now));
    service.patch(&path(&made), &json!({"events": ["charge.paid"]})).await.expect(200);
    endpoints.note(&seen, (&delivered, now), now).await.unwrap();
    assert_eq!(read().await.failing_since, None);

    // A failure of the address before says nothing of the new one; and of a deleted endpoint nothing is noted.
    let seen = read().await;
    service.patch(&path(&made), &json!({"url": "https://shop.example.com/other"})).await.expect(200);
    endpoints.note(&seen, (&failed, now), now).await.unwrap();
    assert_eq!(read().await.failing_since, None);
    let seen = read().await;
    service.delete(&path(&made)).await.expect(200);
    endpoints.note(&seen, (&failed, now), now).await.unwrap();
    assert!(service.get("/v1/webhooks/endpoints").await.expect(200)["data"].as_array().unwrap().is_empty());
}
