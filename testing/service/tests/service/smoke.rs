//! A smoke test that a deployed stack can run. It sends HTTP requests and receives webhooks, and uses nothing else
//! of the service: `SERVICE_READY_FILE=ready.json cargo test -p service smoke`.

use axum::http::Method;
use domain::calendar::Day;
use serde_json::{Value, json};

use crate::support::{Answer, Client, Listener, ReceivedWebhook, Service, eventually, id, raw_id};

/// The variable that names the ready file of a running service.
const READY_FILE: &str = "SERVICE_READY_FILE";

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand so on";

/// Returns a text that no earlier request used.
fn unique() -> String {
    uuid::Uuid::new_v4().to_string()
}

async fn ends_as(client: &Client, path: &str, field: &str, expected: &str) -> Value {
    eventually(expected, async || {
        let found = client.get(path).await.expect(200);
        (found[field] == expected).then_some(found)
    })
    .await
}

/// Each function, queue, table, bucket and the stream does its work once.
#[tokio::test]
async fn a_stack_takes_a_payment_delivers_its_event_refunds_it_and_handles_its_dispute() {
    let (ready, _in_process) = if let Ok(path) = std::env::var(READY_FILE) {
        (serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap(), None)
    } else {
        let service = Service::start().await;
        (service.stack.ready().await.unwrap(), Some(service))
    };
    let ready = |pointer: &str| ready.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    let client = Client::new(&ready("/base_url"), &ready("/test_api_key"));

    // The webhook worker sends, and the event is in the log.
    let listener = Listener::start().await;
    let endpoint = client.register_endpoint(&listener.url, &["charge.paid"]).await;
    let charge = client.new_charge(&unique(), &json!({"amount": 1990})).await;
    assert!(charge["pix"]["br_code"].as_str().unwrap().starts_with("000201"), "{charge}");
    let raw_id = raw_id(&charge);
    let sandbox = format!("/v1/sandbox/charges/{}", id(&charge));
    assert_eq!(client.post(&format!("{sandbox}/pay"), &json!({})).await.expect(200)["status"], "paid");
    let hook = eventually("the webhook of the charge", async || {
        let is_of_charge = |hook: &Value| hook["data"]["object"]["id"] == charge["id"];
        listener.hooks().iter().map(ReceivedWebhook::json).find(is_of_charge)
    })
    .await;
    assert_eq!(client.get(&format!("/v1/events/{}", id(&hook))).await.expect(200), hook);
    let deliveries = client.deliveries(&format!("&endpointId={}", id(&endpoint))).await;
    let delivery = deliveries.iter().find(|found| found["payload"]["id"] == hook["id"]).unwrap();
    ends_as(&client, &format!("/v1/webhooks/deliveries/{}", id(delivery)), "status", "DELIVERED").await;

    // The acquirer worker pays a card payment's artefacts and a refund.
    let body = json!({"amount": 1000, "paymentMethods": ["CREDIT_CARD"], "idempotencyKey": unique()});
    let by_card = client.post("/v1/payments", &body).await.expect(201);
    let payment = format!("/v1/payments/{}", id(&by_card));
    ends_as(&client, &payment, "status", "WAITING_PAYMENT").await;
    for step in ["begin", "approve"] {
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let page = format!("/checkout/{}/card", id(&by_card));
        client.raw(Method::POST, &page, &form, format!("step={step}")).await.expect(303);
    }
    assert_eq!(client.get(&payment).await.expect(200)["status"], "APPROVED");
    let refund = json!({"idempotencyKey": unique(), "amount": 400});
    let refund = client.post(&format!("/v1/payments/{raw_id}/refund"), &refund).await.expect(201);
    eventually("the refund is completed", async || {
        let refunds = client.get(&format!("/v1/payments/{raw_id}/refunds")).await.expect(200);
        let found = refunds["data"].as_array().unwrap().iter().find(|found| found["id"] == refund["id"]);
        found.filter(|found| found["status"] == "REFUNDED").map(|_| ())
    })
    .await;
    let movements = client.get("/v1/wallets/transactions?limit=100").await.expect(200);
    assert!(movements.to_string().contains(id(&charge)), "{movements}");
    // The dispatcher counts the payment.
    eventually("the payment is counted", async || {
        let stats = client.get("/v1/payments/stats").await.expect(200);
        stats["totalTransactions"].as_u64().filter(|count| *count > 0)
    })
    .await;

    // The worker of reports makes a file.
    let today = Day::of(charge["created_at"].as_str().unwrap().parse().unwrap()).to_string();
    let body = json!({"type": "statement", "format": "csv", "from": today, "to": today});
    let asked = client.post_as(&client.key(), "/v1/reports", &body, &[("idempotency-key", &unique())]).await;
    let report =
        ends_as(&client, &format!("/v1/reports/{}", id(&asked.expect(202))), "status", "ready").await;
    let file = client.raw(Method::GET, report["url"].as_str().unwrap(), &[], "").await;
    assert!(String::from_utf8_lossy(&file.bytes).contains(id(&charge)), "{file:?}");

    // Evidence passes through the bucket.
    let case = client.post(&format!("{sandbox}/med-cases"), &json!({})).await.expect(201);
    let evidence = format!("/v1/med/cases/{}/evidence", id(&case));
    let file = json!({"file_name": "prova.png", "file_size": PNG.len(), "mime_type": "image/png"});
    let ticket = client.post(&evidence, &file).await.expect(201);
    let url = ticket["upload_url"].as_str().unwrap();
    let headers = [("content-type", "image/png")];
    assert_eq!(client.raw(Method::PUT, url, &headers, PNG.to_vec()).await.status, 200);
    client.post(&format!("{evidence}/{}/complete", id(&ticket)), &json!({})).await.expect(200);
    let files = client.get(&evidence).await.expect(200);
    let view_url = files["data"][0]["view_url"].as_str().unwrap();
    assert_eq!(client.raw(Method::GET, view_url, &[], "").await.bytes.as_ref(), PNG);

    let dossier = client.get(&format!("/v1/med/cases/{}/dossier", id(&case))).await;
    assert_eq!((dossier.status.as_u16(), dossier.header("content-type")), (200, Some("application/pdf")));
    client.get("/v1/med/cases?sort=deadline").await.expect(200);

    // The dashboard, the payer's pages, and a charge at the bank.
    let log_in = json!({"email": ready("/dashboard/email"), "password": ready("/dashboard/password")});
    let token = client.post_as("", "/v1/auth/login", &log_in, &[]).await.expect(200);
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    let keys = client.raw(Method::GET, "/v1/api-keys", &[("authorization", &bearer)], "").await;
    assert!(!keys.expect(200)["data"].as_array().unwrap().is_empty());
    let page = async |path: &str| -> Answer { client.raw(Method::GET, path, &[], "").await };
    for (path, content_type) in [
        (format!("/checkout/{raw_id}"), "text/html; charset=utf-8"),
        (format!("/checkout/{raw_id}/qr.png"), "image/png"),
        ("/v1/openapi.json".to_owned(), "application/json"),
    ] {
        let answer = page(&path).await;
        assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, Some(content_type)));
    }
    assert_eq!(page("/v1/none").await.problem(), (404, "not_found_error", "not_found"));
    // A request that fails is in the log.
    let refused = client.get("/v1/charges?color=red").await;
    let request = client.get(&format!("/v1/requests/{}", refused.header("x-request-id").unwrap())).await;
    assert_eq!(request.expect(200)["code"], "invalid_request");
    let live = Client::new(&ready("/base_url"), &ready("/live_api_key"));
    let at_bank = live.new_charge(&unique(), &json!({"amount": 1990})).await;
    assert!(at_bank["pix"]["br_code"].is_string(), "{at_bank}");
}
