//! The routes of the function `payments`.

use serde_json::{Value, json};

use super::{Portable, Routes, raw_id, unique};
use crate::support::{Answer, eventually, id};

pub(super) const ROUTES: &Routes = &[
    ("POST /v1/payments", &[201, 400, 401, 409, 422]),
    ("GET /v1/payments", &[200, 400, 401]),
    ("GET /v1/payments/stats", &[200, 400, 401]),
    ("GET /v1/payments/metrics", &[200, 400, 401]),
    ("GET /v1/payments/{id}", &[200, 400, 401, 404]),
    ("POST /v1/payments/{id}/cancel", &[200, 400, 401, 404, 422]),
    ("GET /v1/payments/{id}/provider-status", &[200, 400, 401, 404]),
    ("GET /v1/payments/{id}/receipt", &[200, 400, 401, 404, 422]),
    ("POST /v1/payments/{id}/refund", &[201, 400, 401, 404, 409, 422]),
    ("GET /v1/payments/{id}/refunds", &[200, 400, 401, 404]),
    ("POST /v1/payments/{id}/resend-webhook", &[200, 400, 401, 404]),
];

impl Portable {
    async fn create_payment(&self, key: &str, idempotency_key: &str, amount: u32) -> Answer {
        let body = json!({"amount": amount, "paymentMethods": ["PIX"], "idempotencyKey": idempotency_key});
        self.call("POST /v1/payments").key(key).json(&body).send().await
    }

    async fn refund(&self, charge: &Value, idempotency_key: &str, amount: u32) -> Answer {
        let body = json!({"idempotencyKey": idempotency_key, "amount": amount});
        self.call("POST /v1/payments/{id}/refund").id(raw_id(charge)).json(&body).send().await
    }
}

#[tokio::test]
async fn payments_answer_with_every_status() {
    let service = Portable::start().await;
    let order = unique();
    let key = service.client.key();
    let payment = service.create_payment(&key, &order, 1000).await.expect(201);
    assert_eq!(service.create_payment(&key, &order, 1000).await.expect(201)["id"], payment["id"]);
    let reused = service.create_payment(&key, &order, 1).await;
    assert_eq!(reused.problem(), (409, "conflict_error", "idempotency_key_reused"));
    let other_key = service.ready("/other_account/live_api_key");
    let no_bank = service.create_payment(&other_key, &unique(), 1000).await;
    assert_eq!(no_bank.problem(), (422, "invalid_request_error", "unprocessable_entity"));

    let get = async |route: &'static str| service.call(route).id(id(&payment)).send().await;
    let read = get("GET /v1/payments/{id}").await.expect(200);
    assert_eq!((&read["id"], &read["status"]), (&payment["id"], &json!("WAITING_PAYMENT")));
    let early = get("GET /v1/payments/{id}/receipt").await;
    assert_eq!(early.problem(), (422, "invalid_request_error", "unprocessable_entity"));
    assert_eq!(get("GET /v1/payments/{id}/provider-status").await.expect(200)["provider"], "sandbox");
    let resend = service.call("POST /v1/payments/{id}/resend-webhook").id(id(&payment));
    assert_eq!(resend.send().await.expect(200)["status"], "WAITING_PAYMENT");
    let cancel = async || service.call("POST /v1/payments/{id}/cancel").id(id(&payment)).send().await;
    assert_eq!(cancel().await.expect(200)["status"], "CANCELLED");
    assert_eq!(cancel().await.problem(), (422, "invalid_request_error", "payment_not_cancellable"));

    let list = service.call("GET /v1/payments").query("limit=100").send().await.expect(200);
    assert!(list["data"].as_array().unwrap().iter().any(|listed| listed["id"] == payment["id"]), "{list}");
    eventually("the payment is counted", async || {
        let stats = service.call("GET /v1/payments/stats").send().await.expect(200);
        stats["totalTransactions"].as_u64().filter(|count| *count > 0)
    })
    .await;
    service.call("GET /v1/payments/metrics").query("days=30&currency=BRL").send().await.expect(200);

    let paid = service.paid_charge().await;
    let receipt = service.call("GET /v1/payments/{id}/receipt").id(raw_id(&paid)).send().await.expect(200);
    assert_eq!(receipt["contentType"], "application/pdf");
    let order = unique();
    let refund = service.refund(&paid, &order, 400).await.expect(201);
    let reused = service.refund(&paid, &order, 401).await;
    assert_eq!(reused.problem(), (409, "conflict_error", "idempotency_key_reused"));
    let exceeding = service.refund(&paid, &unique(), 601).await;
    assert_eq!(exceeding.problem(), (422, "invalid_request_error", "refund_exceeds_remaining"));
    eventually("the refund is completed", async || {
        let refunds = service.call("GET /v1/payments/{id}/refunds").id(raw_id(&paid)).send().await;
        let refunds = refunds.expect(200);
        let found = refunds["data"].as_array().unwrap().iter().find(|found| found["id"] == refund["id"]);
        found.filter(|found| found["status"] == "REFUNDED").cloned()
    })
    .await;
    service.refuse(ROUTES, |_| raw_id(&paid).to_owned()).await;
    service.check_statuses(ROUTES);
}
