//! Tests of refunds. A refund is debited once under any number of replays, and a failed refund is credited
//! back in full.

use std::collections::BTreeSet;

use domain::account::terms::{Fee, FeesOnRefund, MethodTerms};
use domain::calendar::Day;
use domain::money::{Currency, MinorUnits};
use domain::refund::Refund;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::invocations::{dispatch, invoke, run_acquirer_worker};
use crate::support::{Answer, Client, Listener, ReceivedWebhook, Service, eventually, id, raw_id};

impl Service {
    async fn available(&self) -> i64 {
        self.get("/v1/wallets/balance?currency=BRL").await.expect(200)["available"].as_i64().unwrap()
    }

    /// Returns the wallet's available and pending balances.
    async fn available_and_pending(&self) -> (i64, i64) {
        let balance = self.get("/v1/wallets/balance?currency=BRL").await.expect(200);
        (balance["available"].as_i64().unwrap(), balance["pending"].as_i64().unwrap())
    }
}

impl Client {
    pub(crate) async fn resolve(&self, refund: &Value, status: &str) -> Answer {
        self.post(&format!("/v1/sandbox/refunds/{}/resolve", id(refund)), &json!({ "status": status })).await
    }

    /// Waits until the newest refund of a charge has this status.
    pub(crate) async fn wait_for_refund_status(&self, charge: &Value, status: &str) -> Value {
        eventually(&format!("the refund becomes {status}"), async || {
            self.refunds(charge).await.into_iter().next().filter(|refund| refund["status"] == status)
        })
        .await
    }

    async fn payment_and_charge_status(&self, charge: &Value) -> (String, String) {
        let payment = self.get(&format!("/v1/payments/{}", raw_id(charge))).await.expect(200);
        let status = self.get_charge(charge).await["status"].as_str().unwrap().to_owned();
        (payment["status"].as_str().unwrap().to_owned(), status)
    }
}

fn statuses(transaction: &str, public: &str) -> (String, String) {
    (transaction.to_owned(), public.to_owned())
}

#[tokio::test]
async fn a_refund_is_created_pending_completed_by_the_worker_and_replayed_at_any_time() {
    let service = Service::start().await;
    let charge = service.pay(1000).await;
    let path = format!("/v1/payments/{}/refund", raw_id(&charge));
    let body = json!({"idempotencyKey": "refund-01", "reason": "Devolvido"});
    let headers = [("x-request-id", "req-of-the-refund")];
    let refund = service.post_as(&service.key(), &path, &body, &headers).await.expect(201);
    assert_eq!(
        refund,
        json!({
            "id": refund["id"], "transactionId": raw_id(&charge), "amount": 1000, "currency": "BRL",
            "status": "PENDING", "reason": "Devolvido", "strategy": "cashout", "destinationKey": null,
            "endToEndId": null, "failureReason": null, "createdAt": refund["createdAt"], "completedAt": null,
        })
    );
    let key = Refund::key_of(id(&refund).parse().unwrap());
    let stored: Refund = service.store().get(&key).await.unwrap().unwrap();
    assert!(id(&refund).starts_with("re_") && stored.request_id.as_str() == "req-of-the-refund");
    assert_eq!(service.available().await, 0);
    let done = service.wait_for_refund_status(&charge, "REFUNDED").await;
    assert_eq!(done["id"], refund["id"]);
    assert_eq!(service.payment_and_charge_status(&charge).await, statuses("REFUNDED", "refunded"));
    service.check_ledger().await;

    // Neither the balance nor the status allows another refund now.
    let replay = service.refund(&charge, "refund-01", json!({"reason": "Devolvido"})).await;
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    let replay = replay.expect(201);
    assert_eq!((&replay["id"], &replay["status"]), (&refund["id"], &json!("REFUNDED")));
    let reused = service.refund(&charge, "refund-01", json!({"amount": 5})).await;
    assert_eq!(reused.problem(), (409, "conflict_error", "idempotency_key_reused"));
    assert_eq!(service.refunds(&charge).await.len(), 1);
    // Each payment has its own idempotency namespace.
    let other = service.pay(1000).await;
    let other = service.refund(&other, "refund-01", json!({})).await.expect(201);
    assert_ne!(other["id"], refund["id"]);
}

#[tokio::test]
async fn partial_refunds_add_up_and_are_listed_newest_first() {
    let service = Service::start().await;
    let charge = service.pay(1000).await;
    let hold = |amount: i64| json!({"amount": amount, "reason": "sandbox:hold"});
    let first = service.refund(&charge, "refund-01", hold(300)).await.expect(201);
    service.advance_seconds(1).await;
    let second = service.refund(&charge, "refund-02", hold(700)).await.expect(201);
    let exceeding = service.refund(&charge, "refund-03", hold(1)).await;
    assert_eq!(exceeding.problem(), (422, "invalid_request_error", "refund_exceeds_remaining"));
    let listed: Vec<Value> =
        service.refunds(&charge).await.iter().map(|refund| refund["id"].clone()).collect();
    assert_eq!(listed, [second["id"].clone(), first["id"].clone()]);

    assert_eq!(service.resolve(&first, "REFUNDED").await.expect(200)["status"], "REFUNDED");
    assert_eq!(service.payment_and_charge_status(&charge).await, statuses("PAID", "paid"));
    // A repeated or different final status changes nothing.
    for status in ["REFUNDED", "FAILED"] {
        assert_eq!(service.resolve(&first, status).await.expect(200)["status"], "REFUNDED");
    }
    service.resolve(&second, "REFUNDED").await.expect(200);
    assert_eq!(service.payment_and_charge_status(&charge).await, statuses("REFUNDED", "refunded"));
    let again = service.refund(&charge, "refund-03", json!({})).await;
    assert_eq!(again.problem(), (422, "invalid_request_error", "payment_not_refundable"));
    service.check_ledger().await;
}

#[tokio::test]
async fn a_refund_is_limited_by_the_wallets_available_balance() {
    let service = Service::start().await;
    let fee = MethodTerms { platform_fee: Fee::new(100, 0).unwrap(), ..MethodTerms::default() };
    service.set_terms(fee).await;
    let charge = service.pay(1000).await;
    let other = service.pay(1000).await;
    // Each charge has a net of 900. A partial refund returns its share of the fee.
    service.refund(&other, "refund-01", json!({"amount": 500, "reason": "sandbox:hold"})).await.expect(201);
    assert_eq!(service.available().await, 1350);
    let body = json!({"strategy": "cashout", "passFeeToTenant": true, "reason": "sandbox:hold"});
    service.change_settings(|settings| settings.pix_out_fee = MinorUnits::new(451)).await;
    let short = service.refund(&charge, "refund-01", body.clone()).await;
    assert_eq!(short.problem(), (422, "invalid_request_error", "insufficient_balance"));
    let message = short.body["error"]["message"].as_str().unwrap();
    assert!(message.contains("takes 1351 ") && message.contains("has 1350 "), "{message}");
    // A refused refund stores nothing, so its key can be used again.
    service.change_settings(|settings| settings.pix_out_fee = MinorUnits::new(450)).await;
    let refund = service.refund(&charge, "refund-01", body).await.expect(201);
    assert_eq!(service.available().await, 0);
    service.resolve(&refund, "FAILED").await.expect(200);
    assert_eq!(service.available().await, 1350);
    // Without `passFeeToTenant`, the Pix-out fee is a platform expense.
    service.refund(&charge, "refund-02", json!({"reason": "sandbox:hold"})).await.expect(201);
    assert_eq!(service.available().await, 450);
    service.check_ledger().await;
}

#[tokio::test]
async fn an_unsettled_unsupported_invalid_or_foreign_refund_is_refused() {
    let service = Service::start().await;
    let pending = service.charge().await;
    let refused = service.refund(&pending, "refund-01", json!({})).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "payment_not_refundable"));
    let body = json!({"amount": 1000, "paymentMethods": ["BOLETO"], "idempotencyKey": "boleto-1"});
    let boleto = service.post("/v1/payments", &body).await.expect(201);
    service.sandbox(&boleto, "pay", &json!({})).await;
    let refused = service.refund(&boleto, "refund-01", json!({})).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "REFUND_NOT_SUPPORTED"));
    let paid = service.pay(1000).await;
    let refused = service.refund(&paid, "short", json!({"amount": 0, "strategy": "pix"})).await;
    assert_eq!(refused.problem(), (400, "invalid_request_error", "invalid_amount"));
    assert_eq!(refused.params(), ["amount", "idempotencyKey", "strategy"]);
    // Another account's key and a live key cannot see the payment or its refunds.
    let refund = service.refund(&paid, "refund-01", json!({"reason": "sandbox:hold"})).await.expect(201);
    let other = &service.stack.seed.other;
    for key in [&other.test_api_key, &service.stack.seed.first.live_api_key] {
        let stranger = Client::new(&service.base_url, key);
        assert_eq!(stranger.refund(&paid, "refund-02", json!({})).await.code(), "not_found");
        let listed = stranger.get(&format!("/v1/payments/{}/refunds", raw_id(&paid))).await;
        assert_eq!(listed.code(), "not_found");
    }
    let stranger = Client::new(&service.base_url, &other.test_api_key);
    assert_eq!(stranger.resolve(&refund, "FAILED").await.problem().0, 404);
    assert_eq!(service.resolve(&refund, "PENDING").await.params(), ["status"]);
}

#[tokio::test]
async fn a_card_payment_can_be_refunded_in_parts() {
    let service = Service::start().await;
    let body = json!({"amount": 1000, "currency": "USD", "paymentMethods": ["CREDIT_CARD"], "idempotencyKey": "card-1"});
    let card = service.post("/v1/payments", &body).await.expect(201);
    service.sandbox(&card, "pay", &json!({})).await;
    assert_eq!(service.payment_and_charge_status(&card).await, statuses("APPROVED", "paid"));
    let refused = service.refund(&card, "refund-01", json!({"strategy": "cashout"})).await;
    assert_eq!(refused.params(), ["strategy"]);
    let refund = service.refund(&card, "refund-01", json!({"amount": 400})).await.expect(201);
    assert_eq!((&refund["strategy"], &refund["destinationKey"]), (&Value::Null, &Value::Null));
    service.wait_for_refund_status(&card, "REFUNDED").await;
    assert_eq!(service.payment_and_charge_status(&card).await, statuses("APPROVED", "paid"));
    service.refund(&card, "refund-02", json!({})).await.expect(201);
    service.wait_for_refund_status(&card, "REFUNDED").await;
    assert_eq!(service.payment_and_charge_status(&card).await, statuses("REFUNDED", "refunded"));
    let wallet =
        service.wallets().in_currency(&service.sharded(&service.scope()).await, Currency::USD).await.unwrap();
    assert_eq!(wallet.available().unwrap(), 0);
    service.check_ledger().await;
}

/// Returns whether the only refund of a charge is in the due index.
async fn is_due(service: &Service, charge: &Value) -> bool {
    let rows = service.rows(&format!("charge#{}", raw_id(charge)), "refund#").await;
    rows[0].contains_key("due_pk")
}

#[tokio::test]
async fn a_refund_whose_message_was_lost_is_resumed_by_the_scheduler() {
    let service = Service::without_event_sources().await;
    let charge = service.pay(1000).await;
    service.refund(&charge, "refund-01", json!({})).await.expect(201);
    dispatch(&service.stack).await;
    let (sqs, queue) = service.queue("AcquirerQueue");
    sqs.purge_queue().queue_url(&queue).send().await.unwrap();
    assert!(is_due(&service, &charge).await);
    service.stack.clock.advance(119_000);
    service.run_scheduler().await;
    let none = sqs.receive_message().queue_url(&queue).send().await.unwrap().messages.unwrap_or_default();
    assert!(none.iter().all(|message| !message.body.as_deref().unwrap().contains("refund")));
    service.stack.clock.advance(1_000);
    // The first message starts the refund and the next completes it.
    for (status, wait) in [("IN_PROGRESS", 0), ("REFUNDED", 600_000)] {
        service.stack.clock.advance(wait);
        service.run_scheduler().await;
        let receive = sqs.receive_message().queue_url(&queue).max_number_of_messages(10);
        let received = receive.send().await.unwrap().messages.unwrap();
        // The other message starts the sweep of the bank.
        let bodies: Vec<&str> = received.iter().map(|message| message.body.as_deref().unwrap()).collect();
        let body = bodies.iter().find(|body| body.contains("refund")).unwrap();
        // Deliver each message twice. The duplicate does nothing.
        for _ in 0..2 {
            let message = json!({"messageId": "1", "body": body});
            let answer = invoke(&service.stack, "AcquirerWorkerFunction", &[message]).await;
            assert_eq!(answer["batchItemFailures"], json!([]));
        }
        sqs.purge_queue().queue_url(&queue).send().await.unwrap();
        assert_eq!(service.refunds(&charge).await[0]["status"], status);
        assert_eq!(is_due(&service, &charge).await, status == "IN_PROGRESS");
    }
    service.check_ledger().await;
}

#[tokio::test]
async fn completing_a_refund_is_postponed_for_a_bounded_time_while_clients_change_its_charge() {
    let service = Service::without_event_sources().await;
    let charge = service.pay(1000).await;
    let part = json!({"amount": 100});
    let first = service.refund(&charge, "refund-01", part.clone()).await.expect(201);
    run_acquirer_worker(&service.stack, &first).await;
    let status = async || service.refunds(&charge).await.last().unwrap()["status"].clone();
    service.stack.clock.advance(10_000);
    service.refund(&charge, "refund-02", part.clone()).await.expect(201);
    run_acquirer_worker(&service.stack, &first).await;
    assert_eq!(status().await, "IN_PROGRESS");
    // From 60 s after the refund was started, it is completed even if its charge is busy.
    service.stack.clock.advance(60_000);
    service.refund(&charge, "refund-03", part).await.expect(201);
    run_acquirer_worker(&service.stack, &first).await;
    assert_eq!(status().await, "REFUNDED");
}

#[tokio::test]
async fn a_refund_is_published_as_the_api_shows_it_and_a_full_refund_as_its_charge() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    let events =
        ["refund.created", "refund.succeeded", "refund.failed", "charge.refunded", "payment.refunded"];
    service.register_endpoint(&listener.url, &events).await;
    let charge = service.pay(1000).await;
    let failing = json!({"reason": "sandbox:fail"});
    let failed = service.refund(&charge, "refund-01", failing).await.expect(201);
    service.wait_for_refund_status(&charge, "FAILED").await;
    let whole = service.refund(&charge, "refund-02", json!({})).await.expect(201);
    service.wait_for_refund_status(&charge, "REFUNDED").await;
    let hooks = listener.received(6 + 4 + 1).await;
    let of = |event: &str, id: &Value| -> Value {
        let hook = hooks.iter().map(ReceivedWebhook::json);
        let mut hook = hook.filter(|hook| hook["type"] == event && hook["data"]["object"]["id"] == *id);
        hook.next().unwrap_or_else(|| panic!("{event} of {id}"))["data"]["object"].clone()
    };
    let shown = service.refunds(&charge).await;
    for (event, refund) in [("refund.failed", &failed), ("refund.succeeded", &whole)] {
        assert_eq!(of("refund.created", &refund["id"])["status"], "PENDING");
        let mut object = of(event, &refund["id"]);
        let fields = object.as_object_mut().unwrap();
        assert_eq!(fields.remove("object"), Some(json!("refund")));
        assert_eq!(fields.remove("charge_id"), Some(charge["id"].clone()));
        assert!(shown.contains(&object), "{object} is not in {shown:?}");
        assert_eq!(object["completedAt"].is_null(), event == "refund.failed");
    }
    let refunded = of("charge.refunded", &charge["id"]);
    assert_eq!((&refunded["status"], &refunded["amount_refunded"]), (&json!("refunded"), &json!(1000)));
    let current = service.get_charge(&charge).await;
    assert_eq!(
        (&current["amount_refunded"], &current["paid_at"]),
        (&refunded["amount_refunded"], &refunded["paid_at"])
    );
    let payment = service.get(&format!("/v1/payments/{}", raw_id(&charge))).await.expect(200);
    assert_eq!((&payment["refundedAmount"], &payment["paidAt"]), (&json!(1000), &current["paid_at"]));
    // Each step of a refund is an event: its status, then those of the charge and the amount after it.
    let steps = |refund: &Value, fields: &[&str]| -> BTreeSet<String> {
        let hooks = hooks.iter().filter(|hook| hook.header("x-service-event-type") == "payment.refunded");
        let data = hooks.map(|hook| hook.json()["data"].clone());
        data.filter(|data| data["refund"]["id"] == refund["id"])
            .map(|data| {
                assert_eq!(
                    (&data["transactionId"], &data["refund"]["amount"]),
                    (&payment["id"], &json!(1000))
                );
                let fields = fields.iter().map(|field| data.pointer(field).unwrap().to_string());
                fields.collect::<Vec<_>>().join(" ").replace('"', "")
            })
            .collect()
    };
    let of_failed = steps(&failed, &["/refund/status"]);
    assert_eq!(of_failed, ["FAILED", "IN_PROGRESS", "PENDING"].map(str::to_owned).into());
    let of_whole = steps(&whole, &["/refund/status", "/previousStatus", "/status", "/refundedAmount"]);
    let expected = ["PENDING PAID PAID 0", "IN_PROGRESS PAID PAID 0", "REFUNDED PAID REFUNDED 1000"];
    assert_eq!(of_whole, expected.map(str::to_owned).into());
    // A legacy delivery names its event in a header, a canonical one in its body.
    for hook in &hooks {
        let is_legacy = hook.header("x-service-event-type") == "payment.refunded";
        let named = hook.headers.get("x-service-event-id").map(|id| id.to_str().unwrap().to_owned());
        assert_eq!(named.is_some(), is_legacy);
        if let Some(named) = named {
            let event = service.get(&format!("/v1/events/{named}")).await.expect(200);
            assert_eq!((&event["id"], &event["data"]), (&json!(named), &hook.json()["data"]));
        }
    }
}

#[tokio::test]
async fn a_charge_is_published_as_refunded_when_its_payer_lock_is_broken_but_never_because_of_a_case() {
    let service = Service::start().await;
    let charge = service.charge_locked_to_payer().await;
    service.sandbox(&charge, "pay", &json!({"payer_tax_id": "25524893033"})).await;
    let disputed = service.pay(1000).await;
    let held = service.refund(&disputed, "refund-01", json!({"reason": "sandbox:hold"})).await.expect(201);
    let case = service.open_case(&disputed, json!({})).await;
    service.resolve(&held, "REFUNDED").await.expect(200);
    assert_eq!(service.get_charge(&disputed).await["status"], "disputed");
    service.decide_case(&case, "merchant").await.expect(200);
    let names = async |charge: &Value| -> Vec<String> {
        let events = service.list(&format!("/v1/events?object={}&limit=100", raw_id(charge))).await;
        events.iter().filter_map(|event| event["type"].as_str().map(str::to_owned)).collect()
    };
    let refunded = eventually("the payer lock's events are published", async || {
        Some(names(&charge).await).filter(|names| names.len() == 2)
    })
    .await;
    assert_eq!(refunded, ["charge.refunded", "charge.created"]);
    assert_eq!(service.get_charge(&disputed).await["status"], "refunded");
    let of_case = eventually("the case's events are published", async || {
        Some(names(&disputed).await).filter(|names| {
            ["med.resolved", "refund.succeeded"].iter().all(|name| names.iter().any(|each| each == name))
        })
    })
    .await;
    assert!(!of_case.iter().any(|name| name == "charge.refunded"), "{of_case:?}");
    // A resend publishes the same events.
    service.register_endpoint("http://127.0.0.1:9/hook", &["charge.refunded"]).await;
    for (charge, resent) in [(&charge, true), (&disputed, false)] {
        let path = format!("/v1/payments/{}/resend-webhook", raw_id(charge));
        assert_eq!(service.post(&path, &json!({})).await.expect(200)["resent"], resent);
    }
}

#[tokio::test]
async fn a_payment_shows_the_money_that_went_back_without_being_credited() {
    let service = Service::start().await;
    let charge = service.charge().await;
    let payment =
        async |charge: &Value| service.get(&format!("/v1/payments/{}", raw_id(charge))).await.expect(200);
    assert_eq!(payment(&charge).await["returnedPayments"], json!([]));
    service.sandbox(&charge, "pay", &json!({"amount": 999})).await;
    let shown = payment(&charge).await;
    let back = shown["returnedPayments"][0].clone();
    assert_eq!(
        (&back["amount"], &back["reason"], &back["status"]),
        (&json!(999), &json!("wrong_amount"), &json!("returned"))
    );
    assert!(back["endToEndId"].as_str().unwrap().starts_with('E') && back["returnedAt"].is_string());
    assert_eq!((&shown["status"], &shown["refundedAmount"]), (&json!("WAITING_PAYMENT"), &json!(0)));
    service.sandbox(&charge, "pay", &json!({})).await;
    service.sandbox(&charge, "pay", &json!({})).await;
    // A charge that has expired shows a late payment too, whether or not the expiry was persisted before.
    let late = service.charge().await;
    service.advance_seconds(2 * 86_400).await;
    service.sandbox(&late, "pay", &json!({})).await;
    let [paid, expired] = [payment(&charge).await, payment(&late).await];
    let reasons = |payment: &Value| -> Vec<Value> {
        payment["returnedPayments"].as_array().unwrap().iter().map(|back| back["reason"].clone()).collect()
    };
    assert_eq!(
        (&paid["status"], reasons(&paid)),
        (&json!("PAID"), vec![json!("wrong_amount"), json!("second_payment")])
    );
    assert_eq!((&expired["status"], reasons(&expired)), (&json!("EXPIRED"), vec![json!("late")]));
    let listed = service.get("/v1/payments").await.expect(200);
    assert!(
        listed["data"]
            .as_array()
            .unwrap()
            .iter()
            .any(|item| item["returnedPayments"] == expired["returnedPayments"])
    );
    service.check_ledger().await;
}

#[tokio::test]
async fn concurrent_refunds_after_a_hold_ends_see_the_money_that_one_of_them_released() {
    let service = Service::without_event_sources().await;
    service.set_terms(MethodTerms { hold_days: 1, ..MethodTerms::default() }).await;
    for _round in 0..10 {
        let charge = service.pay(1000).await;
        service.stack.clock.advance(2 * 86_400_000);
        // The scheduler has not released the due tranche.
        assert_eq!(service.available_and_pending().await, (0, 1000));
        let quarter = async |key: &str| service.refund(&charge, key, json!({"amount": 250})).await.status;
        let statuses = tokio::join!(
            quarter("refund-01"),
            quarter("refund-02"),
            quarter("refund-03"),
            quarter("refund-04")
        );
        let statuses = [statuses.0, statuses.1, statuses.2, statuses.3].map(|status| status.as_u16());
        assert_eq!(statuses, [201; 4]);
    }
    assert_eq!(service.available_and_pending().await, (0, 0));
    service.check_ledger().await;
}

#[tokio::test]
async fn a_refund_during_the_hold_takes_what_is_missing_from_the_tranches_that_end_first() {
    let service = Service::start().await;
    let terms = |hold_days| MethodTerms {
        platform_fee: Fee::new(100, 0).unwrap(),
        fees_on_refund: FeesOnRefund::Keep,
        hold_days,
        ..MethodTerms::default()
    };
    service.set_terms(terms(30)).await;
    let last = service.pay(1_000).await;
    service.set_terms(terms(10)).await;
    let _first = service.pay(160).await;
    service.set_terms(terms(20)).await;
    let _second = service.pay(1_000).await;
    assert_eq!(service.available_and_pending().await, (0, 1_860));
    let releases = async || -> Vec<i64> {
        let scope = service.sharded(&service.scope()).await;
        let wallet = service.wallets().in_currency(&scope, Currency::BRL).await.unwrap();
        wallet.releases().map(|release| release.minor.get()).collect()
    };
    // The payment's own 900, the 60 of the first tranche and 40 of the second.
    let held = service.refund(&last, "refund-01", json!({"reason": "sandbox:hold"})).await.expect(201);
    assert_eq!(releases().await, [860]);
    service.check_ledger().await;
    service.resolve(&held, "FAILED").await.expect(200);
    assert_eq!(releases().await, [60, 900, 900]);
    // After the release day of the first tranche, its part becomes available.
    let held = service.refund(&last, "refund-02", json!({"reason": "sandbox:hold"})).await.expect(201);
    service.advance_seconds(12 * 86_400).await;
    service.resolve(&held, "FAILED").await.expect(200);
    assert_eq!((service.available_and_pending().await, releases().await), ((60, 1_800), vec![900, 900]));
    service.check_ledger().await;
}

#[tokio::test]
async fn refunds_together_overdraw_the_wallet_only_as_far_as_the_account_may() {
    let service = Service::start().await;
    let terms = MethodTerms {
        platform_fee: Fee::new(100, 0).unwrap(),
        fees_on_refund: FeesOnRefund::Keep,
        ..MethodTerms::default()
    };
    service.set_terms(terms).await;
    let mut charges = Vec::new();
    for _ in 0..5 {
        charges.push(service.pay(1_000).await);
    }
    // All that is left is 900, and two refunds of 500 need 1,000.
    service.adjust(-3_600, "payout").await;
    let refund = async |charge: &Value, amount: i64| {
        let body = json!({"amount": amount, "reason": "sandbox:hold"});
        service.refund(charge, "refund-01", body).await.status.as_u16()
    };
    assert_eq!(refund(&charges[0], 901).await, 422);
    service.change_settings(|settings| settings.refund_overdraft = MinorUnits::new(99)).await;
    assert_eq!(refund(&charges[0], 1_000).await, 422);
    service.change_settings(|settings| settings.refund_overdraft = MinorUnits::new(100)).await;
    let statuses = tokio::join!(
        refund(&charges[0], 500),
        refund(&charges[1], 500),
        refund(&charges[2], 500),
        refund(&charges[3], 500),
    );
    let statuses = [statuses.0, statuses.1, statuses.2, statuses.3];
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 2, "{statuses:?}");
    assert_eq!(service.available_and_pending().await, (-100, 0));
    assert_eq!(refund(&charges[4], 1).await, 422);
    service.check_ledger().await;
}

#[tokio::test]
async fn a_refund_shows_its_strategy_and_its_masked_destination() {
    let service = Service::start().await;
    let charge = service.pay(1000).await;
    for (number, (extra, strategy, destination)) in [
        (json!({"destinationKey": "29537995593"}), "cashout", json!("*********93")),
        (json!({"strategy": "cashout"}), "cashout", Value::Null),
        (json!({"strategy": "devolution"}), "devolution", Value::Null),
    ]
    .into_iter()
    .enumerate()
    {
        let mut extra = extra;
        extra["amount"] = json!(10);
        extra["reason"] = json!("sandbox:hold");
        let refund = service.refund(&charge, &format!("refund-{number:02}"), extra).await.expect(201);
        assert_eq!((&refund["strategy"], &refund["destinationKey"]), (&json!(strategy), &destination));
        let refunds = service.refunds(&charge).await;
        let listed = refunds.iter().find(|listed| listed["id"] == refund["id"]).unwrap();
        assert_eq!(listed, &refund);
        assert_eq!(service.resolve(&refund, "FAILED").await.expect(200)["destinationKey"], destination);
    }
}

/// The tax id of the payer in these tests, and a third party's Pix key.
const PAYER: &str = "29537995593";
const OTHER: &str = "maria@example.com";

impl Service {
    /// Creates a charge and pays it, with the payer's tax id as the bank reports it. Null means not reported.
    async fn paid_by(&self, payer: Value, amount: i64) -> Value {
        let charge = self.new_charge(&json!({ "amount": amount })).await;
        self.sandbox(&charge, "pay", &json!({ "payer_tax_id": payer })).await;
        charge
    }

    /// Returns the amount that refunds to third parties have reserved on a day.
    async fn reserved(&self, day: Day) -> i64 {
        let rows = self.rows(&format!("third-party-refunds#{}", self.scope()), &day.to_string()).await;
        rows.first().map_or(0, |row| row["reserved"].as_n().unwrap().parse().unwrap())
    }

    async fn limit_third_party_refunds(&self, test: i64) {
        self.change_settings(|settings| settings.third_party_refunds.test = Some(test)).await;
    }
}

fn refund_to(key: &str, amount: i64) -> Value {
    json!({"amount": amount, "destinationKey": key, "reason": "sandbox:hold"})
}

#[tokio::test]
async fn refunds_to_third_parties_stay_within_the_daily_limit() {
    let service = Service::start().await;
    service.change_settings(|settings| settings.third_party_refunds.live = Some(0)).await;
    let charge = service.paid_by(json!(PAYER), 10_000).await;
    service.refund(&charge, "refund-00", refund_to(OTHER, 100)).await.expect(201);
    let today = Day::of(service.stack.clock.now());
    assert_eq!(service.reserved(today).await, 0, "without a limit, refunds reserve nothing");
    service.limit_third_party_refunds(500).await;
    let first = service.refund(&charge, "refund-01", refund_to(OTHER, 300)).await.expect(201);
    for (key, amount) in [("refund-02", 201), ("refund-03", 501)] {
        let refused = service.refund(&charge, key, refund_to("25524893033", amount)).await;
        assert_eq!(refused.problem(), (422, "invalid_request_error", "unprocessable_entity"));
        assert_eq!(refused.body["error"]["param"], "amount");
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.contains("limited to 500 ") && message.contains("of which 200 is left"), "{message}");
    }
    service.refund(&charge, "refund-02", refund_to("25524893033", 200)).await.expect(201);
    // Refunds to the payer do not count, and a replay is recognised before the limit is checked.
    service.refund(&charge, "refund-04", refund_to(PAYER, 1000)).await.expect(201);
    service.refund(&charge, "refund-05", json!({"amount": 1000})).await.expect(201);
    let replay = service.refund(&charge, "refund-01", refund_to(OTHER, 300)).await;
    assert_eq!((replay.header("idempotent-replayed"), replay.status.as_u16()), (Some("true"), 201));
    // A failed refund frees its share of the limit. A completed refund does not.
    service.resolve(&first, "FAILED").await.expect(200);
    service.resolve(&first, "FAILED").await.expect(200);
    assert_eq!(service.reserved(today).await, 200);
    let second = service.refund(&charge, "refund-06", refund_to(OTHER, 300)).await.expect(201);
    service.resolve(&second, "REFUNDED").await.expect(200);
    assert_eq!(service.refund(&charge, "refund-07", refund_to(OTHER, 1)).await.status, 422);
}

#[tokio::test]
async fn a_failed_refund_frees_the_limit_of_the_day_on_which_it_was_created() {
    let service = Service::without_event_sources().await;
    service.limit_third_party_refunds(500).await;
    let charge = service.paid_by(json!(PAYER), 10_000).await;
    let first = service.refund(&charge, "refund-01", refund_to(OTHER, 500)).await.expect(201);
    let day = Day::of(service.stack.clock.now());
    service.stack.clock.advance(86_400_000);
    service.refund(&charge, "refund-02", refund_to(OTHER, 400)).await.expect(201);
    service.resolve(&first, "FAILED").await.expect(200);
    assert_eq!((service.reserved(day).await, service.reserved(day.plus_days(1)).await), (0, 400));
    assert_eq!(service.refund(&charge, "refund-03", refund_to(OTHER, 101)).await.status, 422);
    // The worker frees it when the acquirer fails the refund.
    let failing = json!({"amount": 100, "destinationKey": OTHER, "reason": "sandbox:fail"});
    let failing = service.refund(&charge, "refund-03", failing).await.expect(201);
    for _ in 0..2 {
        run_acquirer_worker(&service.stack, &failing).await;
        service.stack.clock.advance(20_000);
    }
    assert_eq!(service.reserved(day.plus_days(1)).await, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_concurrent_refunds_never_exceed_the_daily_limit() {
    let service = Service::without_event_sources().await;
    service.limit_third_party_refunds(1_050).await;
    let mut charges = Vec::new();
    for _ in 0..10 {
        charges.push(service.paid_by(json!(PAYER), 1_000).await);
    }
    let mut requests = JoinSet::new();
    for number in 0..50 {
        let client = Client::new(&service.base_url, &service.key());
        let charge = charges[number % charges.len()].clone();
        let key = format!("refund-{number:02}");
        requests.spawn(async move { client.refund(&charge, &key, refund_to(OTHER, 100)).await });
    }
    let answers = requests.join_all().await;
    let accepted = answers.iter().filter(|answer| answer.status == 201).count();
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!(answer.problem(), (422, "invalid_request_error", "unprocessable_entity"));
    }
    assert_eq!((accepted, service.reserved(Day::of(service.stack.clock.now())).await), (10, 1_000));
}
