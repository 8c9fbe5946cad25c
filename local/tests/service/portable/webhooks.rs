//! The routes of the function `webhooks`: endpoints, deliveries and the event log. The webhook worker sends to a
//! server of the test.

use serde_json::{Value, json};

use super::{Portable, Routes};
use crate::support::{Listener, ReceivedWebhook, eventually, id};

pub(super) const ROUTES: &Routes = &[
    ("POST /v1/webhooks/endpoints", &[201, 400, 401, 422]),
    ("GET /v1/webhooks/endpoints", &[200, 400, 401]),
    ("GET /v1/webhooks/endpoints/{id}", &[200, 400, 401, 404]),
    ("PATCH /v1/webhooks/endpoints/{id}", &[200, 400, 401, 404]),
    ("DELETE /v1/webhooks/endpoints/{id}", &[200, 400, 401, 404]),
    ("POST /v1/webhooks/endpoints/{id}/rotate-secret", &[200, 400, 401, 404]),
    ("POST /v1/webhooks/endpoints/{id}/test", &[200, 400, 401, 404, 422, 429]),
    ("POST /v1/webhooks/override-secret/rotate", &[200, 400, 401]),
    ("GET /v1/webhooks/event-catalog", &[200, 400]),
    ("GET /v1/webhooks/deliveries", &[200, 400, 401]),
    ("GET /v1/webhooks/deliveries/{id}", &[200, 400, 401, 404]),
    ("POST /v1/webhooks/deliveries/{id}/resend", &[200, 400, 401, 404, 422]),
    ("GET /v1/webhooks/stats", &[200, 400, 401]),
    ("GET /v1/events", &[200, 400, 401]),
    ("GET /v1/events/{id}", &[200, 400, 401, 404]),
];

/// The most endpoints of an account in one mode.
const MOST_ENDPOINTS: usize = 50;

/// The most test events of an endpoint in a minute.
const MOST_TESTS: usize = 10;

#[tokio::test]
async fn webhooks_are_delivered_and_their_routes_answer_with_every_status() {
    let service = Portable::start().await;
    let listener = Listener::start().await;
    let body = json!({"url": listener.url, "events": ["charge.paid"]});
    let endpoint = service.call("POST /v1/webhooks/endpoints").json(&body).send().await.expect(201);
    let of_endpoint = |route: &'static str| service.call(route).id(id(&endpoint));
    let list = service.call("GET /v1/webhooks/endpoints").send().await.expect(200);
    assert!(list["data"].as_array().unwrap().iter().any(|listed| listed["id"] == endpoint["id"]));
    assert_eq!(of_endpoint("GET /v1/webhooks/endpoints/{id}").send().await.expect(200)["id"], endpoint["id"]);

    let charge = service.paid_charge().await;
    let hook = eventually("the webhook of the charge", async || {
        let is_of_charge = |hook: &Value| hook["data"]["object"]["id"] == charge["id"];
        listener.hooks().iter().map(ReceivedWebhook::json).find(is_of_charge)
    })
    .await;
    let event = service.call("GET /v1/events/{id}").id(id(&hook)).send().await.expect(200);
    assert_eq!(event, hook);
    let log = service.call("GET /v1/events").query(&format!("object={}", id(&charge)));
    let log = log.send().await.expect(200);
    assert!(log["data"].as_array().unwrap().contains(&hook), "{log}");

    let delivery = eventually("the delivery ends", async || {
        let query = format!("endpointId={}&limit=100", id(&endpoint));
        let page = service.call("GET /v1/webhooks/deliveries").query(&query).send().await.expect(200);
        let deliveries = page["data"].as_array().unwrap();
        let of_charge = |found: &&Value| found["payload"]["data"]["object"]["id"] == charge["id"];
        deliveries.iter().find(of_charge).filter(|found| found["status"] == "DELIVERED").cloned()
    })
    .await;
    let read = service.call("GET /v1/webhooks/deliveries/{id}").id(id(&delivery)).send().await.expect(200);
    assert_eq!((&read["id"], &read["attempts"]), (&delivery["id"], &json!(1)));
    eventually("the delivery is counted", async || {
        let stats = service.call("GET /v1/webhooks/stats").send().await.expect(200);
        stats["DELIVERED"].as_u64().filter(|count| *count > 0)
    })
    .await;
    let resend =
        async || service.call("POST /v1/webhooks/deliveries/{id}/resend").id(id(&delivery)).send().await;
    assert_eq!(resend().await.expect(200)["status"], "PENDING");
    eventually("the event arrives again", async || {
        (listener.hooks().iter().filter(|sent| sent.json() == hook).count() == 2).then_some(())
    })
    .await;

    let rotated = of_endpoint("POST /v1/webhooks/endpoints/{id}/rotate-secret").send().await.expect(200);
    assert_ne!(rotated["secret"], endpoint["secret"]);
    service.call("POST /v1/webhooks/override-secret/rotate").send().await.expect(200);
    let catalog = service.call("GET /v1/webhooks/event-catalog").send().await.expect(200);
    assert!(catalog.as_array().unwrap().iter().any(|entry| entry["event"] == "charge.paid"));
    let known = |route: &str| {
        let object = if route.contains("/deliveries") {
            &delivery
        } else if route.contains("/events/") {
            &hook
        } else {
            &endpoint
        };
        id(object).to_owned()
    };
    service.refuse(ROUTES, known).await;

    // The limit holds for each minute, so a new minute may begin between two requests.
    let test = async || of_endpoint("POST /v1/webhooks/endpoints/{id}/test").send().await;
    let mut answer = test().await;
    for _ in 0..2 * MOST_TESTS {
        if answer.status == 429 {
            break;
        }
        answer.expect(200);
        answer = test().await;
    }
    assert_eq!(answer.problem(), (429, "rate_limit_error", "rate_limited"));
    let off = json!({"status": "INACTIVE"});
    let changed = of_endpoint("PATCH /v1/webhooks/endpoints/{id}").json(&off).send().await.expect(200);
    assert_eq!(changed["status"], "INACTIVE");
    assert_eq!(test().await.problem(), (422, "invalid_request_error", "unprocessable_entity"));
    assert_eq!(resend().await.problem(), (422, "invalid_request_error", "unprocessable_entity"));
    let deleted = of_endpoint("DELETE /v1/webhooks/endpoints/{id}").send().await.expect(200);
    assert_eq!(deleted, json!({"deleted": true}));
    register_too_many(&service).await;
    service.check_statuses(ROUTES);
}

/// Registers endpoints until the limit of the other account is reached.
async fn register_too_many(service: &Portable) {
    let key = service.ready("/other_account/live_api_key");
    let body = json!({"url": "https://hooks.example.com/hook", "events": ["charge.paid"]});
    let register = async || service.call("POST /v1/webhooks/endpoints").key(&key).json(&body).send().await;
    let mut answer = register().await;
    for _ in 0..MOST_ENDPOINTS {
        if answer.status == 422 {
            break;
        }
        answer.expect(201);
        answer = register().await;
    }
    assert_eq!(answer.problem(), (422, "invalid_request_error", "unprocessable_entity"));
}
