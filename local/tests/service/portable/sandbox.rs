//! The routes of the crate `acquirer-events`: the sandbox, its 3-D Secure page, the form of the checkout page
//! that simulates a payment, and banks' notifications.

use serde_json::{Value, json};

use super::{Portable, Routes, UNKNOWN_ID, raw_id, unique};
use crate::support::{Answer, eventually, id};

/// A notification of a bank is accepted only with a secret token, which the ready file does not have. The bank
/// of the ready file sends such notifications.
pub(super) const ROUTES: &Routes = &[
    ("POST /v1/sandbox/charges/{id}/pay", &[200, 400, 401, 403, 404]),
    ("POST /v1/sandbox/charges/{id}/fail", &[200, 400, 401, 403, 404]),
    ("POST /v1/sandbox/charges/{id}/expire", &[200, 400, 401, 403, 404]),
    ("POST /v1/sandbox/charges/{id}/review", &[200, 400, 401, 403, 404, 422]),
    ("POST /v1/sandbox/refunds/{id}/resolve", &[200, 400, 401, 403, 404]),
    ("POST /v1/sandbox/charges/{id}/med-cases", &[201, 400, 401, 403, 404]),
    ("POST /v1/sandbox/med/cases/{id}/request-evidence", &[200, 400, 401, 403, 404]),
    ("POST /v1/sandbox/med/cases/{id}/resolve", &[200, 400, 401, 403, 404]),
    ("GET /checkout/{raw_id}/card", &[200, 404]),
    ("POST /checkout/{raw_id}/card", &[303, 404]),
    ("POST /checkout/{raw_id}/simulate", &[303, 400, 404, 429]),
    ("POST /v1/acquirer-events/{account}/{token}", &[401]),
    ("POST /v1/acquirer-events/{account}/{token}/pix", &[401]),
    ("POST /v1/acquirer-events/{account}/{token}/med", &[401]),
];

impl Portable {
    async fn act(&self, route: &'static str, object: &Value, body: Value) -> Answer {
        self.call(route).id(id(object)).json(&body).send().await
    }
}

#[tokio::test]
async fn the_sandbox_answers_with_every_status() {
    let service = Portable::start().await;
    let [pay, fail, expire, review, resolve_refund, open_case, request_evidence, resolve_case, ..] = ROUTES
    else {
        panic!("{ROUTES:?}");
    };
    let paid = service.act(pay.0, &service.charge().await, json!({})).await.expect(200);
    assert_eq!(paid["status"], "paid");
    let declined = service.act(fail.0, &service.charge().await, json!({})).await.expect(200);
    assert_eq!(declined["status"], "failed");
    let expired = service.act(expire.0, &service.charge().await, json!({})).await.expect(200);
    assert_eq!(expired["status"], "expired");
    let nothing_held = service.act(review.0, &paid, json!({"decision": "approve"})).await;
    assert_eq!(nothing_held.problem(), (422, "invalid_request_error", "unprocessable_entity"));
    let body = json!({
        "amount": 1000, "expected_payer_tax_id": "29537995593",
        "customer": {"name": "Maria", "document": "29537995593"},
    });
    let create = service.call("POST /v1/pix/charges").header("idempotency-key", unique());
    let locked = create.json(&body).send().await.expect(201);
    let held = service.act(pay.0, &locked, json!({"payer_tax_id": null})).await.expect(200);
    assert_eq!(held["status"], "processing");
    let approved = service.act(review.0, &locked, json!({"decision": "approve"})).await.expect(200);
    assert_eq!(approved["status"], "paid");

    let body = json!({"idempotencyKey": unique(), "amount": 100, "reason": "sandbox:hold"});
    let refund = service.call("POST /v1/payments/{id}/refund").id(raw_id(&paid)).json(&body);
    let refund = refund.send().await.expect(201);
    let resolved = service.act(resolve_refund.0, &refund, json!({"status": "REFUNDED"})).await.expect(200);
    assert_eq!(resolved["status"], "REFUNDED");
    let case = service.act(open_case.0, &approved, json!({})).await.expect(201);
    service.act(request_evidence.0, &case, json!({})).await.expect(200);
    let won = service.act(resolve_case.0, &case, json!({"decision": "merchant"})).await.expect(200);
    assert_eq!((&won["status"], &won["money_outcome"]), (&json!("closed"), &json!("refunded_to_merchant")));

    let live_key = service.ready("/live_api_key");
    for (route, _) in ROUTES.iter().filter(|(_, statuses)| statuses.contains(&403)) {
        let call = service.call(route).id(UNKNOWN_ID).key(&live_key).json(&json!({}));
        assert_eq!(call.send().await.problem(), (403, "permission_error", "live_key_not_allowed"), "{route}");
    }
    for route in ROUTES.iter().map(|(route, _)| *route).filter(|route| route.contains("{token}")) {
        let answer = service.call(route).id("acc_none").id("none").json(&json!({"pix": []})).send().await;
        assert_eq!(answer.problem(), (401, "authentication_error", "unauthorized"), "{route}");
    }
    pay_by_card(&service).await;
    simulate(&service).await;
    let known = |route: &str| {
        let object = if route.contains("refunds") {
            &refund
        } else if route.contains("/med/cases") {
            &case
        } else {
            &paid
        };
        id(object).to_owned()
    };
    service.refuse(ROUTES, known).await;
    service.check_statuses(ROUTES);
}

/// Sends the form of the checkout page until the charge has no simulation left in a minute.
async fn simulate(service: &Portable) {
    let charge = service.charge().await;
    let post = async |raw_id: &str| {
        let call = service.call("POST /checkout/{raw_id}/simulate").id(raw_id);
        call.form("outcome=paid").send().await
    };
    post(UNKNOWN_ID).await.expect(404);
    post(raw_id(&charge)).await.expect(303);
    let read = service.call("GET /v1/charges/{id}").id(id(&charge)).send().await.expect(200);
    assert_eq!(read["status"], "paid");
    // The minute may end once meanwhile.
    let mut answers = Vec::new();
    while answers.len() < 20 && answers.last() != Some(&429) {
        answers.push(post(raw_id(&charge)).await.status.as_u16());
    }
    assert_eq!(answers.last(), Some(&429), "{answers:?}");
}

/// Pays a payment by card on the 3-D Secure page.
async fn pay_by_card(service: &Portable) {
    let body = json!({"amount": 1000, "paymentMethods": ["CREDIT_CARD"], "idempotencyKey": unique()});
    let payment = service.call("POST /v1/payments").json(&body).send().await.expect(201);
    let page = service.call("GET /checkout/{raw_id}/card");
    eventually("the page of the card", async || {
        let page = service.call("GET /checkout/{raw_id}/card").id(id(&payment)).send().await;
        (page.status == 200).then_some(())
    })
    .await;
    assert_eq!(page.id(UNKNOWN_ID).send().await.status, 404);
    for step in ["begin", "approve"] {
        let call = service.call("POST /checkout/{raw_id}/card").id(id(&payment));
        call.form(&format!("step={step}")).send().await.expect(303);
    }
    let unknown = service.call("POST /checkout/{raw_id}/card").id(UNKNOWN_ID);
    unknown.form("step=begin").send().await.expect(404);
    let read = service.call("GET /v1/payments/{id}").id(id(&payment)).send().await.expect(200);
    assert_eq!((&read["status"], &read["paidWith"]), (&json!("APPROVED"), &json!("CREDIT_CARD")));
}
