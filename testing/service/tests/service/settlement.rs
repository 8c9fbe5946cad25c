//! Tests of what an incoming payment does to a charge, played by the sandbox.

use serde_json::json;

use crate::support::{CapturedLog, Listener, Service, id, wait_until};

const CPF: &str = "29537995593";
const OTHER_CPF: &str = "25524893033";

#[tokio::test]
async fn a_payment_is_applied_or_returned_once_even_if_a_later_notification_differs() {
    let service = Service::start().await;
    let notification = |id: &str, amount: i64| json!({"end_to_end_id": id, "amount": amount});
    // A payment returned for its amount cannot be credited later.
    let charge = service.charge().await;
    service.sandbox(&charge, "pay", &notification("E1", 999)).await;
    assert_eq!(service.sandbox(&charge, "pay", &notification("E1", 1000)).await, charge);
    // A payment credited to one charge cannot pay another.
    service.sandbox(&charge, "pay", &notification("E2", 1000)).await;
    let other = service.charge().await;
    assert_eq!(service.sandbox(&other, "pay", &notification("E2", 1000)).await, other);
    // A returned payment stays returned when a later notification names another payer.
    let locked = service.charge_locked_to_payer().await;
    service.sandbox(&locked, "pay", &notification("E3", 999)).await;
    let mismatch = json!({"end_to_end_id": "E3", "payer_tax_id": OTHER_CPF});
    assert_eq!(service.sandbox(&locked, "pay", &mismatch).await, locked);
    assert_eq!(service.count_returned_payments().await, 2);
    // The end-to-end id is unique within a scope only.
    let other = service.other_account();
    let theirs = other.new_charge("order-0001", &json!({"amount": 1000})).await;
    let paid = other.sandbox(&theirs, "pay", &notification("E2", 1000)).await;
    assert_eq!(paid["status"], "paid");

    // A charge that is locked to a payer is settled only by that payer.
    let charge = service.charge_locked_to_payer().await;
    let paid = service.sandbox(&charge, "pay", &json!({"payer_tax_id": CPF})).await;
    assert_eq!((&paid["status"], &paid["expected_payer_tax_id"]), (&json!("paid"), &json!(CPF)));

    let charge = service.charge_locked_to_payer().await;
    let refunded = service.sandbox(&charge, "pay", &json!({"payer_tax_id": OTHER_CPF})).await;
    assert_eq!((&refunded["status"], &refunded["settlement"]), (&json!("refunded"), &json!({})));
    assert_eq!(service.count_returned_payments().await, 3);
    assert!(
        !refunded.to_string().contains(OTHER_CPF),
        "the response does not show the other payer's document"
    );
}

#[tokio::test]
async fn a_charge_that_reads_expired_stays_expired() {
    let service = Service::without_event_sources().await;
    let charge = service.new_charge(&json!({"amount": 1000, "expires_in": 60})).await;
    let in_time = charge["created_at"].clone();
    service.stack.clock.advance(61_000);
    let expired = service.get_charge(&charge).await;
    assert_eq!(expired["status"], "expired");
    assert_eq!(service.sandbox(&charge, "pay", &json!({ "paid_at": in_time })).await, expired);
    assert_eq!(service.sandbox(&charge, "fail", &json!({})).await, expired);
    assert_eq!(service.count_returned_payments().await, 1);
    assert_eq!(service.sandbox(&charge, "expire", &json!({})).await, expired);
    assert_eq!(service.get_charge(&charge).await, expired);

    // A failed charge has the failure in its metadata.
    let body = json!({"amount": 1000, "expires_in": 300, "metadata": {"order": 1}});
    let charge = service.new_charge(&body).await;
    let failed =
        service.sandbox(&charge, "fail", &json!({"reason": "Saldo insuficiente", "code": "canceled"})).await;
    let failure = &failed["metadata"]["failure"];
    assert_eq!((&failed["status"], &failed["metadata"]["order"]), (&json!("failed"), &json!(1)));
    assert_eq!(failure["reason"], "Saldo insuficiente");
    assert_eq!(failure["providerErrorCode"], "canceled");
    assert_eq!(failure["ttlSeconds"], 300);
    assert!(failure["at"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn of_concurrent_payments_one_settles_and_the_rest_are_returned() {
    let service = std::sync::Arc::new(Service::start().await);
    let charge = service.charge().await;
    let mut payers = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (service, charge) = (service.clone(), charge.clone());
        payers.spawn(async move { service.sandbox(&charge, "pay", &json!({})).await });
    }
    let paid = payers.join_all().await;
    let settled = service.get_charge(&charge).await;
    for answer in paid {
        assert_eq!(answer, settled);
    }
    assert_eq!(service.count_returned_payments().await, 19);
}

#[tokio::test]
async fn a_payment_that_waits_for_its_review_for_a_day_is_reported_every_hour_until_it_is_decided() {
    let service = Service::start().await;
    let log = CapturedLog::start();
    let reports = || log.text().matches("a payment has waited for its review for more than a day").count();
    let charge = service.charge_locked_to_payer().await;
    service.sandbox(&charge, "pay", &json!({"payer_tax_id": null})).await;
    service.advance_seconds(86_000).await;
    assert_eq!(reports(), 0);
    for report in 1..=3 {
        service.advance_seconds(3_600).await;
        wait_until("a report", async || reports() == report).await;
    }
    service.sandbox(&charge, "review", &json!({"decision": "approve"})).await;
    // The expiry of another charge shows that the scheduler has run.
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.expired"]).await;
    service.charge().await;
    service.advance_seconds(90_000).await;
    listener.wait_for_event("charge.expired").await;
    assert_eq!(reports(), 3);
}

#[tokio::test]
async fn a_review_decides_a_held_charge_once() {
    let service = Service::start().await;
    for (decision, status, returned) in [("approve", "paid", 0), ("return", "refunded", 1)] {
        let charge = service.charge_locked_to_payer().await;
        let early = service.sandbox_answer(&charge, "review", &json!({"decision": decision})).await;
        assert_eq!(early.problem(), (422, "invalid_request_error", "unprocessable_entity"));
        let held = service.sandbox(&charge, "pay", &json!({"payer_tax_id": null})).await;
        assert_eq!((&held["status"], &held["settlement"]), (&json!("processing"), &json!({})));
        // Neither time nor the acquirer ends a review.
        service.advance_seconds(86_400).await;
        for what in ["expire", "fail"] {
            assert_eq!(service.sandbox(&charge, what, &json!({})).await["status"], "processing");
        }
        assert_eq!(
            service.sandbox(&charge, "review", &json!({"decision": decision})).await["status"],
            status
        );
        assert_eq!(service.count_returned_payments().await, returned);
        assert_eq!(
            service.get_charge(&charge).await["settlement"].get("end_to_end_id").is_some(),
            status == "paid"
        );
        // A repeated decision changes nothing, and a different one is refused.
        assert_eq!(
            service.sandbox(&charge, "review", &json!({ "decision": decision })).await["status"],
            status
        );
        let other = if decision == "approve" { "return" } else { "approve" };
        let refused = service.sandbox_answer(&charge, "review", &json!({ "decision": other })).await;
        assert_eq!(refused.code(), "unprocessable_entity");
    }
}

#[tokio::test]
async fn a_charge_expires_at_its_time_and_emits_one_event() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.expired", "charge.failed"]).await;
    let charge = service.new_charge(&json!({"amount": 1000, "expires_in": 60})).await;
    service.advance_seconds(40).await;
    assert_eq!(service.get_charge(&charge).await["status"], "pending");
    service.advance_seconds(21).await;
    let expired = service.get_charge(&charge).await;
    assert_eq!(expired["status"], "expired");
    let failure = &expired["metadata"]["failure"];
    assert_eq!(
        (&failure["at"], &failure["providerErrorCode"]),
        (&charge["pix"]["expires_at"], &json!("expired"))
    );
    let event = listener.wait_for_event("charge.expired").await.json();
    assert_eq!(event["data"]["object"]["id"], charge["id"]);
    assert_eq!(
        service.get_charge(&charge).await,
        expired,
        "the persisted expiry equals the one shown before"
    );
    assert_eq!(listener.hooks().len(), 1);
}

#[tokio::test]
async fn hundreds_of_charges_due_at_the_same_time_expire() {
    let service = std::sync::Arc::new(Service::start().await);
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..300 {
        let service = service.clone();
        requests.spawn(async move { service.new_charge(&json!({"amount": 1000, "expires_in": 60})).await });
    }
    let charges = requests.join_all().await;
    service.advance_seconds(61).await;
    wait_until("all charges are listed as expired", async || {
        let page = service.get("/v1/charges?status=expired&limit=100").await.expect(200);
        let last = service.get("/v1/charges?status=pending").await.expect(200);
        page["has_more"] == true && last["data"] == json!([])
    })
    .await;
    assert_eq!(service.get_charge(&charges[299]).await["status"], "expired", "{}", id(&charges[299]));
}
