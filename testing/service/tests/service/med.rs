//! Tests of MED cases. Money is retained once and released once, and every step emits its events.

use domain::ids::MedCaseId;
use money::med::MedCases;
use serde_json::{Value, json};

use crate::support::{Answer, Client, Listener, Service, eventually, id, ids, operator};
use crate::webhooks::{secret, verify};

const ALL_EVENTS: [&str; 9] = [
    "med_case.created",
    "med_case.updated",
    "med.resolved",
    "charge.paid",
    "charge.failed",
    "charge.expired",
    "payment.failed",
    "payment.completed",
    "payment.status_changed",
];

impl Service {
    pub(crate) async fn open_case(&self, charge: &Value, body: Value) -> Value {
        self.sandbox_answer(charge, "med-cases", &body).await.expect(201)
    }

    /// Returns the wallet's available and retained balances.
    async fn available_and_retained(&self) -> (i64, i64) {
        let balance = self.get("/v1/wallets/balance").await.expect(200);
        (balance["available"].as_i64().unwrap(), balance["retained"].as_i64().unwrap())
    }

    async fn status_of(&self, charge: &Value) -> Value {
        self.get_charge(charge).await["status"].clone()
    }

    async fn cases(&self, query: &str) -> Vec<String> {
        ids(&self.get(&format!("/v1/med/cases?{query}")).await.expect(200))
    }
}

impl Client {
    pub(crate) async fn answer_case(&self, case: &Value, what: &str, body: Value) -> Answer {
        self.post(&format!("/v1/med/cases/{}/{what}", id(case)), &body).await
    }

    pub(crate) async fn decide_case(&self, case: &Value, decision: &str) -> Answer {
        let path = format!("/v1/sandbox/med/cases/{}/resolve", id(case));
        self.post(&path, &json!({ "decision": decision })).await
    }
}

#[tokio::test]
async fn a_case_retains_the_money_until_it_is_decided_for_the_merchant() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    let endpoint = service.register_endpoint(&listener.url, &ALL_EVENTS).await;
    let charge = service.pay(1000).await;
    let notification =
        json!({"reason": "Golpe", "method": "scam", "response_deadline": "2099-12-01T00:00:00Z"});
    let case = service.open_case(&charge, notification).await;
    assert_eq!(
        case,
        json!({
            "id": case["id"], "object": "med_case", "type": "med", "status": "open", "amount": 1000, "currency": "BRL",
            "charge_id": charge["id"], "reason": "Golpe", "response_deadline": "2099-12-01T00:00:00.000Z",
            "evidence_requested_at": null, "appeal_reason": null, "appealed_at": null, "evidence_count": 0,
            "money_outcome": null, "opened_at": case["created_at"], "closed_at": null,
            "created_at": case["created_at"], "updated_at": case["created_at"],
        })
    );
    assert!(id(&case).starts_with("med_"));
    assert_eq!(service.available_and_retained().await, (0, 1000));
    let disputed = service.get_charge(&charge).await;
    assert_eq!(disputed["status"], "disputed");
    let med = &disputed["metadata"]["med"];
    assert_eq!(
        (&med["referenceId"], &med["status"], &med["method"], &med["amountMismatch"]),
        (&disputed["settlement"]["end_to_end_id"], &json!("created"), &json!("scam"), &Value::Null)
    );
    let refused = service.refund(&charge, "refund-01", json!({})).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "charge_disputed"));

    let evidence = format!("/v1/sandbox/med/cases/{}/request-evidence", id(&case));
    assert!(service.post(&evidence, &json!({})).await.expect(200)["evidence_requested_at"].is_string());
    let updated = service.get_charge(&charge).await["metadata"]["med"].clone();
    assert!(updated["lastEventAt"].as_str() > med["lastEventAt"].as_str(), "{updated}");
    // A case has only one appeal. A refused request does not use it up.
    let short = service.answer_case(&case, "appeal", json!({"reason": "oi"})).await;
    assert_eq!((short.status.as_u16(), short.params()), (400, vec!["reason"]));
    let appealed = service.answer_case(&case, "appeal", json!({"reason": "Entregue em 3 de novembro"})).await;
    let appealed = appealed.expect(200);
    assert_eq!((&appealed["status"], &appealed["money_outcome"]), (&json!("appealed"), &Value::Null));
    assert_eq!(appealed["appeal_reason"], "Entregue em 3 de novembro");
    for (what, body) in [("appeal", json!({"reason": "Outra vez"})), ("accept", json!({}))] {
        let refused = service.answer_case(&case, what, body).await;
        assert_eq!(refused.problem(), (400, "invalid_request_error", "invalid_request"));
    }
    let won = service.decide_case(&case, "merchant").await.expect(200);
    assert_eq!((&won["status"], &won["money_outcome"]), (&json!("closed"), &json!("refunded_to_merchant")));
    assert_eq!(service.available_and_retained().await, (1000, 0));
    let paid = service.get_charge(&charge).await;
    assert_eq!((&paid["status"], &paid["metadata"]["med"]["result"]), (&json!("paid"), &json!("disagreed")));
    // After a decision, neither the same decision nor a different one changes the case.
    for decision in ["merchant", "payer"] {
        assert_eq!(service.decide_case(&case, decision).await.expect(200), won);
    }
    assert_eq!(service.post(&evidence, &json!({})).await.expect(200), won);
    service.check_ledger().await;

    let resolved = listener.wait_for_event("med.resolved").await.json();
    assert_eq!(
        resolved["data"]["object"],
        json!({
            "id": case["id"], "object": "med_case", "charge_id": charge["id"], "amount": 1000, "currency": "BRL",
            "money_outcome": "refunded_to_merchant", "resolved_at": won["closed_at"],
        })
    );
    let created = listener.wait_for_event("med_case.created").await;
    assert_eq!(created.json()["data"]["object"], case);
    verify(&created, secret(&endpoint));
    // `med_case.updated`: evidence requested, appealed, closed. `payment.status_changed`: created, paid,
    // disputed, paid again. Of `charge.*`, only `charge.paid`.
    let hooks = listener.received(12).await;
    let count = |name: &str| hooks.iter().filter(|hook| hook.header("x-service-event-type") == name).count();
    let counts: Vec<usize> = ALL_EVENTS.iter().map(|name| count(name)).collect();
    assert_eq!(counts, [1, 3, 1, 1, 0, 0, 1, 1, 4]);
}

#[tokio::test]
async fn retained_money_returns_to_the_merchant_only_if_the_case_is_won_or_withdrawn() {
    let service = Service::start().await;
    let mut available = 0;
    for (decision, status, outcome, charge_status) in [
        ("payer", "rejected", "lost", "disputed"),
        ("merchant", "closed", "refunded_to_merchant", "paid"),
        ("withdrawn", "closed", "refunded_to_merchant", "paid"),
        ("closed_without_refund", "closed", "closed_without_refund", "disputed"),
        ("accept", "accepted", "lost", "disputed"),
    ] {
        let charge = service.pay(1000).await;
        let case = service.open_case(&charge, json!({})).await;
        assert_eq!(service.available_and_retained().await, (available, 1000));
        let ended = match decision {
            "accept" => service.answer_case(&case, "accept", json!({})).await,
            decision => service.decide_case(&case, decision).await,
        };
        let ended = ended.expect(200);
        assert_eq!(
            (&ended["status"], &ended["money_outcome"]),
            (&json!(status), &json!(outcome)),
            "{decision}"
        );
        assert!(ended["closed_at"].is_string());
        available += if outcome == "refunded_to_merchant" { 1000 } else { 0 };
        assert_eq!(service.available_and_retained().await, (available, 0), "{decision}");
        assert_eq!(service.status_of(&charge).await, charge_status, "{decision}");
        let block = &service.get_charge(&charge).await["metadata"]["med"];
        assert_eq!(block["status"], if decision == "withdrawn" { "canceled" } else { "closed" });
        let refused = service.answer_case(&case, "accept", json!({})).await;
        assert_eq!(refused.status, 400);
        if charge_status == "disputed" {
            assert_eq!(service.refund(&charge, "refund-01", json!({})).await.code(), "charge_disputed");
        } else {
            service.refund(&charge, "refund-01", json!({"reason": "sandbox:hold"})).await.expect(201);
            available -= 1000;
        }
    }
    service.check_ledger().await;
}

#[tokio::test]
async fn a_repeated_case_notification_opens_one_case() {
    let service = Service::start().await;
    let charge = service.pay(1000).await;
    let notification = json!({"notice_id": "bank-0001"});
    let (first, again) = tokio::join!(
        service.open_case(&charge, notification.clone()),
        service.open_case(&charge, notification.clone())
    );
    assert_eq!(first, again);
    service.decide_case(&first, "merchant").await.expect(200);
    let late = service.open_case(&charge, notification).await;
    assert_eq!((&late["id"], &late["status"]), (&first["id"], &json!("closed")));
    assert_eq!(service.available_and_retained().await, (1000, 0));
    let other = service.open_case(&charge, json!({"notice_id": "bank-0002"})).await;
    assert_ne!(other["id"], first["id"]);

    // An unpaid charge can't have a case.
    let charge = service.charge().await;
    let refused = service.sandbox_answer(&charge, "med-cases", &json!({})).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "unprocessable_entity"));

    // A chargeback disputes a card payment.
    let body = json!({"amount": 1000, "paymentMethods": ["CREDIT_CARD"], "idempotencyKey": "card-1"});
    let card = service.post("/v1/payments", &body).await.expect(201);
    service.sandbox(&card, "pay", &json!({})).await;
    let case = service.open_case(&card, json!({"type": "chargeback"})).await;
    assert_eq!(case["charge_id"], format!("ch_{}", id(&card)));
    let status =
        async || service.get(&format!("/v1/payments/{}", id(&card))).await.expect(200)["status"].clone();
    assert_eq!(status().await, "CHARGEBACK");
    service.decide_case(&case, "merchant").await.expect(200);
    assert_eq!(status().await, "APPROVED");
}

#[tokio::test]
async fn a_case_with_another_amount_moves_no_money_until_it_is_confirmed_or_accepted() {
    let service = Service::start().await;
    let charge = service.pay(1000).await;
    let case = service.open_case(&charge, json!({"amount": 300})).await;
    assert_eq!((&case["status"], &case["amount"]), (&json!("open"), &json!(300)));
    assert_eq!(service.available_and_retained().await, (1000, 0));
    let read = service.get_charge(&charge).await;
    assert_eq!((&read["status"], &read["metadata"]["med"]["amountMismatch"]), (&json!("paid"), &json!(true)));
    assert_eq!(service.refund(&charge, "refund-01", json!({})).await.code(), "charge_disputed");
    service.decide_case(&case, "merchant").await.expect(200);
    assert_eq!(
        (service.status_of(&charge).await, service.available_and_retained().await),
        (json!("paid"), (1000, 0))
    );

    // Accepting an unconfirmed case debits exactly the claimed amount.
    let case = service.open_case(&charge, json!({"amount": 300})).await;
    service.answer_case(&case, "accept", json!({})).await.expect(200);
    assert_eq!(
        (service.status_of(&charge).await, service.available_and_retained().await),
        (json!("paid"), (700, 0))
    );

    // After an operator confirms it, the case behaves like any other.
    let case = service.open_case(&charge, json!({"amount": 200})).await;
    let cases = MedCases::new(service.store());
    let row = cases.find(id(&case).parse::<MedCaseId>().ok()).await.unwrap().unwrap();
    cases.confirm(row, &operator(), service.stack.clock.now()).await.unwrap();
    assert_eq!(
        (service.status_of(&charge).await, service.available_and_retained().await),
        (json!("disputed"), (500, 200))
    );
    service.decide_case(&case, "merchant").await.expect(200);
    assert_eq!(service.available_and_retained().await, (700, 0));
    service.check_ledger().await;
}

#[tokio::test]
async fn cases_are_listed_by_every_filter_and_only_in_their_scope() {
    let service = Service::start().await;
    let mut cases = Vec::new();
    for kind in ["med", "fraud", "med", "chargeback", "med"] {
        let charge = service.pay(1000).await;
        service.advance_seconds(1).await;
        cases.push(service.open_case(&charge, json!({ "type": kind })).await);
    }
    service.answer_case(&cases[0], "accept", json!({})).await.expect(200);
    service.answer_case(&cases[1], "accept", json!({})).await.expect(200);
    let ids = |places: &[usize]| places.iter().map(|place| id(&cases[*place]).to_owned()).collect::<Vec<_>>();
    let text = |place: usize, field: &str| cases[place][field].as_str().unwrap();
    let (third, fourth, charge) = (text(2, "created_at"), text(3, "created_at"), text(3, "charge_id"));
    for (query, expected) in [
        ("", ids(&[4, 3, 2, 1, 0])),
        ("limit=2", ids(&[4, 3])),
        ("status=open", ids(&[4, 3, 2])),
        ("status=accepted", ids(&[1, 0])),
        ("type=med", ids(&[4, 2, 0])),
        ("type=med&status=open", ids(&[4, 2])),
        ("type=med&status=open&limit=1", ids(&[4])),
        ("type=dispute", ids(&[])),
        (&format!("charge_id={charge}"), ids(&[3])),
        (&format!("charge_id={charge}&status=accepted"), ids(&[])),
        (&format!("charge_id={charge}&created_after={fourth}"), ids(&[])),
        (&format!("charge_id={charge}&created_before={fourth}"), ids(&[])),
        // The bounds are exclusive.
        (&format!("created_after={third}"), ids(&[4, 3])),
        (&format!("created_before={third}"), ids(&[1, 0])),
        (&format!("created_after={fourth}&created_before={third}"), ids(&[])),
        (&format!("created_before={third}&status=accepted&type=fraud"), ids(&[1])),
    ] {
        eventually(query, async || Some(service.cases(query).await).filter(|found| *found == expected)).await;
    }
    // Cursors page through the list on both paths.
    for path in ["/v1/med/cases", "/v1/infractions"] {
        for (filter, expected) in [("", ids(&[4, 3, 2, 1, 0])), ("&type=med&status=open", ids(&[4, 2]))] {
            let listed = service.all_pages(&format!("{path}?limit=1{filter}")).await;
            assert!(listed.iter().map(id).eq(&expected), "{path} {filter}");
        }
    }
    let twice = service.pay(1000).await;
    let older = service.open_case(&twice, json!({})).await;
    service.advance_seconds(1).await;
    let newer = service.open_case(&twice, json!({})).await;
    let listed = service.all_pages(&format!("/v1/med/cases?charge_id={}&limit=1", id(&twice))).await;
    assert!(listed.iter().map(id).eq([id(&newer), id(&older)]), "{listed:?}");

    // Other scopes cannot read or change the cases.
    let other = service.other_account();
    let live = service.live_client();
    for stranger in [&other, &live] {
        let path = format!("/v1/med/cases/{}", id(&cases[2]));
        assert_eq!(stranger.get(&path).await.code(), "not_found");
        let appeal = stranger.answer_case(&cases[2], "appeal", json!({"reason": "Não é meu"})).await;
        assert_eq!(appeal.code(), "not_found");
        let page = stranger.get("/v1/med/cases").await.expect(200);
        assert_eq!(page["data"], json!([]));
        let cursor = stranger.get(&format!("/v1/med/cases?starting_after={}", id(&cases[2]))).await;
        assert_eq!(cursor.params(), ["starting_after"]);
        let by_charge = stranger.get(&format!("/v1/med/cases?charge_id={charge}")).await.expect(200);
        assert_eq!(by_charge["data"], json!([]));
    }
    assert_eq!(live.decide_case(&cases[2], "payer").await.status, 403);
}
