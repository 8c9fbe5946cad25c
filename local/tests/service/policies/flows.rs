//! Runs every function through its routes and events, and records the calls that IAM would decide on. The fault
//! proxy names the function of each call, so the flows of all functions can overlap.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use bank::{Cents, FaultKind, MedNature, PayRequest, Payer, ReportedTxid};
use domain::account::terms::MethodTerms;
use domain::acquirer::ConnectionSweep;
use domain::charge::IncomingPayment;
use domain::ids::{ChargeId, Mode, PayoutId, Scope};
use domain::money::{Amount, Currency};
use domain::webhook::signature::canonical;
use local::embedded::fault_proxy::{Call, Fault};
use local::stack::{Options, Stack};
use local::template::queue_url;
use serde_json::json;
use shared::payout::Payouts;
use shared::random;
use shared::store::{CommitOutcome, Write};
use shared::webhook::delivery::Deliveries;

use crate::bank_med::credit;
use crate::bank_proxy::BankProxy;
use crate::invocations::{dispatch, run_acquirer_worker, run_webhook_worker};
use crate::live_charges::{JOAO, Live, MARIA};
use crate::support::{Client, Listener, Service, eventually, id, operator};

const DAY_MS: i64 = 86_400_000;

/// Returns the calls of all flows.
pub(super) async fn record() -> BTreeSet<Call> {
    let service = Service::without_event_sources().await;
    Box::pin(charges_and_payments(&service)).await;
    Box::pin(wallets_and_checkout(&service)).await;
    Box::pin(med_cases(&service)).await;
    Box::pin(api_keys(&service)).await;
    Box::pin(webhooks(&service)).await;
    Box::pin(emails(&service)).await;
    Box::pin(bank_notifications(&service)).await;
    Box::pin(due_rows(&service)).await;
    Box::pin(recovered_deliveries(&service)).await;
    Box::pin(verification(&service)).await;
    Box::pin(records_that_fail(&service)).await;
    Box::pin(due_rows_that_cannot_be_read(&service)).await;
    let mut calls = calls(&service.stack);
    let live = Live::start().await;
    Box::pin(live_charges(&live)).await;
    calls.extend(self::calls(&live.service.stack));
    calls.extend(Box::pin(cancellation_of_a_returned_payment()).await);
    calls.extend(Box::pin(charges_at_a_bank_with_a_wrong_clock()).await);
    calls
}

fn calls(stack: &Stack) -> BTreeSet<Call> {
    stack.fault_proxy.as_ref().unwrap().calls().all()
}

async fn charges_and_payments(service: &Service) {
    let charge = service.charge().await;
    let by_maria = json!({"amount": 1000, "customer": {"name": "Maria", "document": MARIA}});
    let expiring = service.new_charge(&by_maria).await;
    service.get_charge(&charge).await;
    for query in ["", "?status=pending", "?customer_id=29537995593"] {
        service.get(&format!("/v1/charges{query}")).await.expect(200);
    }
    // If the bank does not report the payer's document, the payment of this charge is held for review.
    let locked = json!({"amount": 1000, "customer": {"name": "Maria"}, "expected_payer_tax_id": MARIA});
    let [approved, returned] = [service.new_charge(&locked).await, service.new_charge(&locked).await];
    service.sandbox(&charge, "pay", &json!({})).await;
    service.sandbox(&charge, "pay", &json!({})).await;
    for (held, decision) in [(&approved, "approve"), (&returned, "return")] {
        service.sandbox(held, "pay", &json!({"payer_tax_id": null})).await;
        service.sandbox(held, "review", &json!({"decision": decision})).await;
    }
    service.sandbox(&expiring, "expire", &json!({})).await;
    service.sandbox(&service.charge().await, "fail", &json!({})).await;

    for more in [json!({}), json!({"webhookUrl": "http://127.0.0.1:9/hook"})] {
        let mut body = json!({
            "amount": 1000, "paymentMethods": ["PIX"], "customerName": "Maria", "customerDocument": MARIA,
            "idempotencyKey": format!("payment-{}", more.to_string().len()),
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let payment = service.post("/v1/payments", &body).await.expect(201);
        service.get(&format!("/v1/payments/{}", id(&payment))).await.expect(200);
        service.post(&format!("/v1/payments/{}/cancel", id(&payment)), &json!({})).await.expect(200);
    }
    let held = service.new_charge(&locked).await;
    service.sandbox(&held, "pay", &json!({"payer_tax_id": null})).await;
    service.get(&format!("/v1/payments/{}", id(&held))).await.expect(200);
    service.post(&format!("/v1/payments/{}/cancel", id(&held)), &json!({})).await.expect(200);
    for path in ["", "?status=REFUSED", "/stats"] {
        service.get(&format!("/v1/payments{path}")).await.expect(200);
    }
    refunds(service).await;
}

async fn refunds(service: &Service) {
    // A refund of held money after its release day also releases the money's tranche.
    service.set_terms(MethodTerms { hold_days: 1, ..MethodTerms::default() }).await;
    let settled = service.new_charge(&json!({"amount": 100_000})).await;
    service.sandbox(&settled, "pay", &json!({"payer_tax_id": MARIA})).await;
    service.set_terms(MethodTerms::default()).await;
    service.stack.clock.advance(2 * DAY_MS);
    let path = format!("/v1/payments/{}", id(&settled).trim_start_matches("ch_"));
    // A refund to a third party reserves a part of the day's limit, and frees it when it fails.
    service.change_settings(|settings| settings.third_party_refunds.test = Some(10_000)).await;
    let refund = async |number: u8, amount: u32, destination: Option<&str>, reason: &str| {
        let body = json!({
            "idempotencyKey": format!("refund-{number:02}"), "amount": amount,
            "destinationKey": destination, "reason": reason,
        });
        service.post(&format!("{path}/refund"), &body).await
    };
    let other = Some("maria.souza@example.com");
    // More than what is available without the tranche.
    let to_payer = refund(1, 80_000, None, "Devolvido").await.expect(201);
    let held = refund(2, 123, other, "sandbox:hold").await.expect(201);
    let failing = refund(3, 123, other, "sandbox:fail").await.expect(201);
    assert_eq!(refund(4, 9_990, other, "Devolvido").await.status, 422);
    service.get(&format!("{path}/refunds")).await.expect(200);
    service.get(&format!("{path}/provider-status")).await;
    let resolve = format!("/v1/sandbox/refunds/{}/resolve", id(&held));
    service.post(&resolve, &json!({"status": "FAILED"})).await.expect(200);
    // The worker waits for up to a minute while others change the charge.
    for _ in 0..5 {
        run_acquirer_worker(&service.stack, &to_payer).await;
        run_acquirer_worker(&service.stack, &failing).await;
        service.stack.clock.advance(20_000);
    }
}

async fn wallets_and_checkout(service: &Service) {
    for path in ["", "/balance?currency=BRL", "/transactions"] {
        service.get(&format!("/v1/wallets{path}")).await.expect(200);
    }
    let charge = service.charge().await;
    service.raw(Method::GET, charge["checkout_url"].as_str().unwrap(), &[], "").await;
    service.raw(Method::GET, charge["pix"]["qr_code_url"].as_str().unwrap(), &[], "").await;
    let url = format!("{}/simulate", charge["checkout_url"].as_str().unwrap());
    let form = [("content-type", "application/x-www-form-urlencoded")];
    service.raw(Method::POST, &url, &form, "outcome=paid").await;
}

async fn med_cases(service: &Service) {
    let contested = service.charge().await;
    service.sandbox(&contested, "pay", &json!({})).await;
    let case = service.sandbox_answer(&contested, "med-cases", &json!({})).await.expect(201);
    let path = format!("/v1/med/cases/{}", id(&case));
    service.get(&path).await.expect(200);
    for query in ["", "?status=open", "?type=med", "?charge_id=ch_00000000-0000-8000-8000-000000000000"] {
        service.get(&format!("/v1/med/cases{query}")).await.expect(200);
    }
    let body = json!({"file_name": "a.gif", "file_size": 6, "mime_type": "image/gif"});
    let ticket = service.post(&format!("{path}/evidence"), &body).await.expect(201);
    let url = ticket["upload_url"].as_str().unwrap();
    service.raw(Method::PUT, url, &[("content-type", "image/gif")], "GIF89a").await;
    service.post(&format!("{path}/evidence/{}/complete", id(&ticket)), &json!({})).await.expect(200);
    service.get(&format!("{path}/evidence")).await.expect(200);
    service.post(&format!("{path}/accept"), &json!({})).await.expect(200);
}

async fn api_keys(service: &Service) {
    let seed = &service.stack.seed;
    let token = format!("Bearer {}", seed.owner_token(&seed.first, service.stack.clock.now()).unwrap());
    let dashboard = [("authorization", token.as_str())];
    let issued = service.raw(Method::POST, "/v1/api-keys", &dashboard, "").await.expect(201);
    let rotate = format!("/v1/api-keys/{}/rotate", id(&issued));
    let rotated = service.raw(Method::POST, &rotate, &dashboard, "").await.expect(201);
    service.raw(Method::DELETE, &format!("/v1/api-keys/{}", id(&rotated)), &dashboard, "").await.expect(200);
    service.raw(Method::GET, "/v1/api-keys", &dashboard, "").await.expect(200);
    for (password, status) in [(seed.first.password.as_str(), 200), ("wrong", 401)] {
        let credentials = json!({"email": seed.first.owner_email, "password": password});
        service.post("/v1/auth/login", &credentials).await.expect(status);
    }
    assert_eq!(service.raw(Method::POST, "/v1/auth/logout", &dashboard, "").await.status, 204);
}

async fn webhooks(service: &Service) {
    let answers = |number: usize| match number {
        0 => StatusCode::BAD_GATEWAY.into_response(),
        _ => StatusCode::NO_CONTENT.into_response(),
    };
    let listener = Listener::answering(answers).await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.created", "charge.paid"]).await;
    let path = format!("/v1/webhooks/endpoints/{}", id(&endpoint));
    service.get("/v1/webhooks/endpoints").await.expect(200);
    service.get(&path).await.expect(200);
    service.post(&format!("{path}/rotate-secret"), &json!({})).await.expect(200);
    service.post(&format!("{path}/test"), &json!({})).await.expect(200);
    let body = json!({
        "amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "override", "webhookUrl": listener.url,
    });
    service.post("/v1/payments", &body).await.expect(201);
    let charge = service.charge().await;
    service.sandbox(&charge, "pay", &json!({})).await;
    let now = service.stack.clock.now();
    let payout = PayoutId::new(now, random::bytes().unwrap());
    let money = (Amount::parse(100).unwrap(), Currency::BRL);
    Payouts::new(service.store()).create(payout, service.scope(), money, &operator(), now).await.unwrap();
    dispatch(&service.stack).await;
    let deliveries = service.deliveries("").await;
    for delivery in &deliveries {
        run_webhook_worker(&service.stack, delivery).await;
    }
    service.deliveries("&status=DELIVERED").await;
    service.deliveries(&format!("&status=FAILED&starting_after={}", id(&deliveries[0]))).await;
    service.get(&format!("/v1/webhooks/deliveries/{}", id(&deliveries[0]))).await.expect(200);
    service.get("/v1/webhooks/stats").await.expect(200);
    service.get("/v1/events").await.expect(200);
    let contested = service.charge().await;
    service.sandbox(&contested, "pay", &json!({})).await;
    let case = service.sandbox_answer(&contested, "med-cases", &json!({})).await.expect(201);
    for object in [id(&charge).to_owned(), id(&case).to_owned(), payout.to_string()] {
        service.get(&format!("/v1/events?object={object}")).await.expect(200);
    }
    let logged = service.get("/v1/events?limit=1").await.expect(200);
    service.get(&format!("/v1/events/{}", id(&logged["data"][0]))).await.expect(200);
    service.post(&format!("/v1/webhooks/deliveries/{}/resend", id(&deliveries[0])), &json!({})).await;
    service.post("/v1/webhooks/override-secret/rotate", &json!({})).await.expect(200);
    let raw = id(&charge).trim_start_matches("ch_");
    service.post(&format!("/v1/payments/{raw}/resend-webhook"), &json!({})).await.expect(200);
    service.patch(&path, &json!({"events": ["charge.paid"]})).await.expect(200);
    service.patch(&path, &json!({"status": "INACTIVE"})).await.expect(200);
    service.delete(&path).await.expect(200);
    for query in ["", "&status=PENDING", "&status=CANCELLED"] {
        service.deliveries(query).await;
    }
    // The first dispatch runs a step of the deleted endpoint's abandonment and updates its row. The stream
    // record of that update makes the second dispatch run the next step.
    dispatch(&service.stack).await;
    dispatch(&service.stack).await;
    failing_endpoint(service).await;
    late_resends(service).await;
}

/// The worker switches off an endpoint that fails for days.
async fn failing_endpoint(service: &Service) {
    let dead = Listener::answering(|_| StatusCode::BAD_GATEWAY.into_response()).await;
    service.register_endpoint(&dead.url, &["charge.created"]).await;
    for day in 0..20 {
        if day % 3 == 0 {
            service.charge().await;
            dispatch(&service.stack).await;
        }
        for delivery in service.deliveries("&status=PENDING").await {
            run_webhook_worker(&service.stack, &delivery).await;
        }
        service.stack.clock.advance(DAY_MS);
    }
    let endpoints = service.get("/v1/webhooks/endpoints").await.expect(200);
    assert!(endpoints.to_string().contains("INACTIVE"), "{endpoints}");
}

/// A resend of an old event extends the time for which the event is kept.
async fn late_resends(service: &Service) {
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created", "charge.paid"]).await;
    let charge = service.charge().await;
    service.sandbox(&charge, "pay", &json!({})).await;
    dispatch(&service.stack).await;
    let delivery = service.deliveries("").await.remove(0);
    run_webhook_worker(&service.stack, &delivery).await;
    service.stack.clock.advance(80 * DAY_MS);
    service.post(&format!("/v1/webhooks/deliveries/{}/resend", id(&delivery)), &json!({})).await.expect(200);
    let raw = id(&charge).trim_start_matches("ch_");
    service.post(&format!("/v1/payments/{raw}/resend-webhook"), &json!({})).await.expect(200);
    dispatch(&service.stack).await;
}

async fn emails(service: &Service) {
    dispatch(&service.stack).await;
    for message in service.take_queued_emails().await {
        service.run_mailer(&message).await;
    }
}

async fn bank_notifications(service: &Service) {
    let live = Client::new(&service.stack.base_url, &service.stack.seed.first.live_api_key);
    let paid = async |key: &str, end_to_end_id: &str| {
        let created = live.new_charge(key, &json!({"amount": 1000})).await;
        let charge: ChargeId = id(&created).parse().unwrap();
        credit(service, charge, end_to_end_id).await;
    };
    paid("order-0001", "E1").await;
    let path = service.new_callback_path().await;
    let account = service.scope().account;
    let callback = service.acquirers().callback_settings(&account).await.unwrap().unwrap();
    for pix in [
        json!([{"endToEndId": "E2"}, {}]),
        json!([{"endToEndId": "E1", "devolucoes": [{"id": "D1", "status": "DEVOLVIDO"}]}]),
    ] {
        service.raw(Method::POST, &path, &[], json!({ "pix": pix }).to_string()).await.expect(200);
    }
    // The second infraction of a charge queries its cases. The Pix of the last two is not known yet, so
    // the scheduler processes them later.
    for (infraction, pix) in [("i-1", "E1"), ("i-2", "E1"), ("i-3", "E3"), ("i-4", "E3")] {
        let notice = json!({
            "notice_id": infraction, "infraction_id": infraction, "end_to_end_id": pix, "status": "OPEN",
            "reported_at": service.stack.clock.now().to_iso(),
        });
        let body = notice.to_string();
        let now = service.stack.clock.now().seconds();
        let signature = canonical(callback.med_secret.as_secret(), now, body.as_bytes());
        let headers = [("x-signature", signature.as_str())];
        service.raw(Method::POST, &format!("{path}/med"), &headers, body).await;
    }
    paid("order-0002", "E3").await;
}

/// Makes rows of each kind due. One run of the scheduler processes all of them.
async fn due_rows(service: &Service) {
    let dead = Listener::answering(|_| StatusCode::BAD_GATEWAY.into_response()).await;
    let endpoint = service.register_endpoint(&dead.url, &["charge.created", "charge.paid"]).await;
    service.set_terms(MethodTerms { hold_days: 1, ..MethodTerms::default() }).await;
    let settled = service.charge().await;
    service.sandbox(&settled, "pay", &json!({})).await;
    service.stack.clock.advance(DAY_MS);
    service.new_charge(&json!({"amount": 1000, "expires_in": 60})).await;
    let raw = id(&settled).trim_start_matches("ch_");
    let refund = json!({"amount": 300, "idempotencyKey": "refund-of-settled"});
    service.post(&format!("/v1/payments/{raw}/refund"), &refund).await.expect(201);
    dispatch(&service.stack).await;
    service.delete(&format!("/v1/webhooks/endpoints/{}", id(&endpoint))).await.expect(200);
    let deliveries = Deliveries::new(service.store());
    deliveries.schedule_counting(&service.scope(), service.stack.clock.now()).await.unwrap();
    service.stack.clock.advance(300_000);
    run_scheduler(service).await;
}

/// A delivery whose message was lost, and a dead letter.
async fn recovered_deliveries(service: &Service) {
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    service.charge().await;
    for _hop in 0..2 {
        dispatch(&service.stack).await;
    }
    let delivery = service.deliveries("&status=PENDING").await.remove(0);
    let sqs_url = &service.stack.endpoints.sqs_url;
    let body = json!({"scope": service.scope().to_string(), "delivery": delivery["id"]}).to_string();
    let send = local::sdk::sqs(sqs_url).send_message().message_body(body);
    send.queue_url(queue_url(sqs_url, "DeliveryDeadLetterQueue")).send().await.unwrap();
    service.stack.clock.advance(900_000);
    let scheduler = service.stack.functions.get("SchedulerFunction").unwrap().clone();
    scheduler(json!({"task": "recover-messages"})).await.unwrap();
}

/// The daily verification of the ledgers.
async fn verification(service: &Service) {
    let verifier = service.stack.functions.get("LedgerVerifierFunction").unwrap().clone();
    verifier(json!({})).await.unwrap();
}

/// A record that can't be counted now is set aside. The scheduler starts its replay.
async fn records_that_fail(service: &Service) {
    let proxy = service.stack.fault_proxy.as_ref().unwrap();
    proxy.inject_where(&format!("rollup#{}", service.scope()), Fault::InternalError);
    service.charge().await;
    dispatch(&service.stack).await;
    proxy.reset();
    service.stack.clock.advance(300_000);
    run_scheduler(service).await;
    dispatch(&service.stack).await;
}

/// The scheduler postpones each due row that it can't process.
async fn due_rows_that_cannot_be_read(service: &Service) {
    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    let scope = service.scope();
    let rows = BTreeMap::from([
        (format!("abandonments#{scope}"), "wh_1#0000000001".to_owned()),
        ("charge#6f0c6c1e-0000-8000-8000-000000000001".to_owned(), "charge".to_owned()),
        (format!("med-notice#{}", scope.account), "n".to_owned()),
        ("pix#E9".to_owned(), "pix".to_owned()),
        (format!("receipts#{scope}"), "E9".to_owned()),
        ("sweep#con_1".to_owned(), "sweep".to_owned()),
    ]);
    for (pk, sk) in rows {
        let text = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
        let due = format!("000000000000001#{pk}#{sk}");
        let put = client.put_item().table_name("StateTable").item("pk", text(&pk)).item("sk", text(&sk));
        put.item("due_pk", text("due#0")).item("due_sk", text(&due)).send().await.unwrap();
    }
    run_scheduler(service).await;
}

async fn run_scheduler(service: &Service) {
    let scheduler = service.stack.functions.get("SchedulerFunction").unwrap().clone();
    scheduler(json!({})).await.unwrap();
}

/// With event sources, so that the worker finalises, polls and sweeps.
async fn live_charges(live: &Live) {
    card(&live.service).await;
    let of_maria = json!({"name": "Maria", "document": MARIA});
    let expiring = json!({"amount": 1000, "expires_in": 60, "customer": of_maria});
    let expiring = live.create("order-000001", &expiring).await;
    // The worker frees the customer's slot only while it counts, for ten minutes.
    live.service.advance_seconds(400).await;
    live.wait_for_status(&expiring, "expired").await;
    let cancelled = live.create("order-000002", &json!({"amount": 1000, "customer": of_maria})).await;
    live.cancel(&cancelled).await.expect(200);
    let body = json!({
        "amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "payment-01", "customerName": "Joao",
        "customerDocument": JOAO,
    });
    live.client.post("/v1/payments", &body).await.expect(201);
    // The notification of this payment is lost. So the payment is found only when the merchant cancels the charge.
    let paid_unnoticed = live.create("order-000003", &json!({"amount": 1000})).await;
    live.fault(FaultKind::LostNotification, 1);
    live.pay(&paid_unnoticed, PayRequest::default());
    assert_eq!(live.cancel(&paid_unnoticed).await.status, 422);

    let paid = live.paid("order-000004").await;
    let path = format!("/v1/payments/{}/provider-status", Live::raw_id(&paid));
    live.client.get(&path).await.expect(200);
    for (key, strategy) in [("refund-01", "devolution"), ("refund-02", "cashout")] {
        let body = json!({"amount": 100, "idempotencyKey": key, "strategy": strategy});
        live.refund(&paid, body).await;
        live.wait_for_refund(&paid, "REFUNDED").await;
    }
    returned_payments(live).await;
    live.return_at_bank(paid["settlement"]["end_to_end_id"].as_str().unwrap(), "4.00").await;
    live.service.advance_seconds(400).await;
    foreign_key(live).await;
}

/// A charge is paid and partly returned at the bank. Nothing processes the notifications, so the cancellation of
/// the charge records both.
async fn cancellation_of_a_returned_payment() -> BTreeSet<Call> {
    let options = Options { event_sources: false, ..Options::in_memory() };
    let live = Live::of(Service::start_with(options).await);
    let charge = live.create("order-000001", &json!({"amount": 1000})).await;
    let pix = live.pay(&charge, PayRequest::default());
    live.return_at_bank(&pix, "4.00").await;
    eventually("the bank has returned a part", async || {
        (live.pix(&pix)["devolucoes"][0]["status"] == "DEVOLVIDO").then_some(())
    })
    .await;
    assert_eq!(live.cancel(&charge).await.status, 422);
    calls(&live.service.stack)
}

/// The functions that create live charges store the offset of the bank's clock.
async fn charges_at_a_bank_with_a_wrong_clock() -> BTreeSet<Call> {
    let options = Options { event_sources: false, bank_skew_seconds: -90, ..Options::in_memory() };
    let live = Live::of(Service::start_with(options).await);
    live.create("order-000001", &json!({"amount": 1000})).await;
    let sweep = live.sweep_row().await;
    assert!(sweep.clock_offsets.is_some());
    let forgotten = ConnectionSweep { clock_offsets: None, ..sweep.next_version() };
    let stored = live.service.store().commit(vec![Write::replace(&forgotten, sweep.version).unwrap()]).await;
    assert_eq!(stored.unwrap(), CommitOutcome::Done);
    let body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "payment-01"});
    live.client.post("/v1/payments", &body).await.expect(201);
    assert!(live.sweep_row().await.clock_offsets.is_some());
    calls(&live.service.stack)
}

/// A bank lists a Pix to a key that is not the account's. The worker asks which account claimed the key.
async fn foreign_key(live: &Live) {
    let proxy = BankProxy::start(&live.service, |_settings| {}).await;
    proxy.edit_list(100, |_request, listed| {
        for pix in listed {
            pix["chave"] = json!("other@example.com");
        }
    });
    // The functions cache the former connection for a minute.
    live.service.advance_seconds(61).await;
    let charge = live.create("order-000011", &json!({"amount": 1000})).await;
    live.fault(FaultKind::LostNotification, 1);
    live.pay(&charge, PayRequest { reported_txid: ReportedTxid::Missing, ..PayRequest::default() });
    live.sweep_after(400).await;
}

async fn returned_payments(live: &Live) {
    // A payment of another amount and one by another payer go back.
    let charge = live.create("order-000005", &json!({"amount": 1000})).await;
    let wrong = live.pay(&charge, PayRequest { amount: Cents::new(999), ..PayRequest::default() });
    let locked = json!({"amount": 1000, "customer": {"name": "Maria"}, "expected_payer_tax_id": MARIA});
    let by_other = live.create("order-000006", &locked).await;
    let payer = Payer::Person { tax_id: JOAO.to_owned(), name: "Joao".to_owned() };
    live.pay(&by_other, PayRequest { payer, ..PayRequest::default() });
    live.wait_for_status(&by_other, "refunded").await;
    eventually("the Pix of another amount is returned", async || {
        (live.pix(&wrong)["devolucoes"][0]["status"] == "DEVOLVIDO").then_some(())
    })
    .await;
    // One without a reported payer is held for review, and one without a txid matches no charge.
    let held = live.create("order-000007", &locked).await;
    live.fault(FaultKind::MaskedPayer, 1);
    let held_pix = live.pay(&held, PayRequest::default());
    live.wait_for_status(&held, "processing").await;
    // This charge is cancelled after its Pix was recorded without it.
    let unnamed = live.create("order-000010", &json!({"amount": 1000})).await;
    live.fault(FaultKind::MissingTxid, 1);
    let unnamed_pix = live.pay(&unnamed, PayRequest::default());
    wait_for_incoming(live, &unnamed_pix).await;
    live.cancel(&unnamed).await;
    let unmatched = live.create("order-000008", &json!({"amount": 1000})).await;
    let request = PayRequest { reported_txid: ReportedTxid::Missing, ..PayRequest::default() };
    let unmatched_pix = live.pay(&unmatched, request);
    let contested = live.paid("order-000009").await;
    let contested_pix = contested["settlement"]["end_to_end_id"].as_str().unwrap().to_owned();
    live.service.advance_seconds(400).await;
    wait_for_incoming(live, &unmatched_pix).await;
    let before = live.balance().await;
    for pix in [&held_pix, &contested_pix, &unmatched_pix] {
        live.service.stack.bank.open_med_devolucao(pix, None, MedNature::Fraud).unwrap();
    }
    live.service.advance_seconds(400).await;
    live.wait_for_status(&held, "refunded").await;
    eventually("the contested money is lost", async || (live.balance().await < before).then_some(())).await;
}

/// Waits until a Pix is recorded as an incoming payment.
async fn wait_for_incoming(live: &Live, end_to_end_id: &str) {
    let scope = Scope { account: live.service.stack.seed.first.id, mode: Mode::Live };
    let key = IncomingPayment::key_of(&scope, &end_to_end_id.parse().unwrap());
    eventually("the Pix is recorded", async || {
        live.service.store().get_item(&key).await.unwrap().map(|_| ())
    })
    .await;
}

/// A payment by card, which the payer approves.
async fn card(service: &Service) {
    let body = json!({"amount": 1000, "paymentMethods": ["CREDIT_CARD"], "idempotencyKey": "card-0001"});
    let payment = service.post("/v1/payments", &body).await.expect(201);
    let read = service.get(&format!("/v1/payments/{}", id(&payment))).await.expect(200);
    let url = read["cardRedirectUrl"].as_str().unwrap();
    for step in ["begin", "approve"] {
        let form = [("content-type", "application/x-www-form-urlencoded")];
        service.raw(Method::POST, url, &form, format!("step={step}")).await;
    }
}
