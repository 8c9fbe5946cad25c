//! Tests of live charges by card at the stand-in of Stripe: a payer's tries, refunds, disputes, expiry and lost
//! notifications.

use std::sync::LazyLock;

use serde_json::{Value, json};

use aws_sdk_dynamodb::types::AttributeValue;
use axum::http::Method;
use bank::{FaultKind, PayRequest};
use domain::audit::Operator;
use domain::charge::Charge;
use domain::ids::{AcquirerPaymentId, ChargeId, Scope};
use domain::money::Currency;
use domain::payment_method::PaymentMethod;
use domain::wallet::LedgerAccount;
use screen_reader::{Page, Role};
use services::Receipts;
use shared::store::{CommitOutcome, Write};

use crate::dashboard::{FORM, encoded, location, shown};
use crate::invocations::count_messages;
use crate::live_charges::Live;
use crate::support::{CapturedLog, Client, Listener, ReceivedWebhook, eventually, id, wait_until};

const KEPT: &str = "POST /v1/checkout/sessions";

fn of_card(key: &str) -> Value {
    json!({"amount": 10_000, "currency": "BRL", "paymentMethods": ["CREDIT_CARD"], "idempotencyKey": key})
}

struct Cards {
    live: Live,
}

impl Cards {
    async fn start() -> Self {
        Self { live: Live::start().await }
    }

    async fn create(&self, key: &str, body: Value) -> Value {
        let mut whole = of_card(key);
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        self.live.client.post("/v1/payments", &whole).await.expect(201)
    }

    /// Calls a route that controls the stand-in.
    fn control(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.live.service.stack.cards.control(method, path, body);
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    fn books(&self) -> Value {
        self.control("GET", "/books", &json!({}))
    }

    /// Plays the payer, the payer's bank or the acquirer's dashboard.
    #[expect(clippy::needless_pass_by_value, reason = "calls are shorter")]
    fn act(&self, path: &str, charge: &Value, more: Value) -> Value {
        let mut body = json!({"metadata": {"charge": format!("ch_{}", id(charge))}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.control("POST", path, &body)
    }

    /// Injects a fault of the next request for a route.
    fn fault(&self, kind: &str, on: &str) {
        self.control("POST", "/faults", &json!({"kind": kind, "on": on, "count": 1}));
    }

    /// Injects a fault of all notifications of a payment.
    fn fault_of_notifications(&self, kind: &str) {
        self.control("POST", "/faults", &json!({"kind": kind, "count": 20}));
    }

    /// Sets the status of a refund or dispute at the acquirer.
    fn set_status(&self, list: &str, object: &Value, status: &str) {
        self.control("POST", &format!("/{list}/{}", id(object)), &json!({"status": status}));
    }

    async fn read(&self, charge: &Value) -> Value {
        self.live.client.get(&format!("/v1/payments/{}", id(charge))).await.expect(200)
    }

    async fn until(&self, charge: &Value, status: &str) -> Value {
        eventually(status, async || {
            let read = self.read(charge).await;
            (read["status"] == status).then_some(read)
        })
        .await
    }

    async fn refund(&self, charge: &Value, amount: i64) -> Value {
        let body = json!({"amount": amount, "idempotencyKey": format!("refund-{amount}")});
        self.live.refund(charge, body).await.expect(201)
    }

    async fn case_of(&self, charge: &Value) -> Option<Value> {
        let path = format!("/v1/med/cases?charge_id=ch_{}", id(charge));
        let cases = self.live.client.list(&path).await;
        assert!(cases.len() < 2, "{cases:?}");
        cases.into_iter().next()
    }

    /// Creates a charge and pays it.
    async fn paid(&self, key: &str, more: Value) -> Value {
        let charge = self.create(key, json!({})).await;
        self.act("/pay", &charge, more);
        self.until(&charge, "APPROVED").await;
        charge
    }

    /// Sends an event of a charge to the service again, so many times at once.
    async fn resend(&self, event: &str, copies: i64) {
        let url = format!("{}/v1/events?type={event}", self.live.service.stack.cards.url());
        let headers = [("authorization", &*format!("Bearer {}", self.live.service.stack.seed.card_key))];
        let listed = Client::of_other_server("").raw(Method::GET, &url, &headers, "").await.expect(200);
        let path = format!("/events/{}/resend", id(&listed["data"][0]));
        self.control("POST", &path, &json!({"copies": copies}));
    }

    /// Sends the payer from the acquirer's page back. Returns where the service sends them on.
    async fn come_back(&self, charge: &Value) -> String {
        self.come_back_by("success_url", charge).await
    }

    async fn come_back_by(&self, link: &str, charge: &Value) -> String {
        let url = self.session(charge)[link].as_str().unwrap().to_owned();
        let answer = Client::of_other_server("").raw(Method::GET, &url, &[], "").await;
        assert_eq!(answer.status, 303, "{answer:?}");
        answer.header("location").unwrap().replace("../", "/checkout/")
    }

    async fn page(&self, path: &str) -> Page {
        let service = &self.live.service.stack;
        let page = Client::of_other_server("")
            .raw(Method::GET, &format!("{}{path}", service.base_url), &[], "")
            .await;
        shown(&page)
    }

    /// How many requests the acquirer has got for charges.
    fn requests(&self) -> u64 {
        let sent = self.control("GET", "/requests", &json!({}));
        let of_charges =
            |(route, _): &(&String, &Value)| !["GET /v1/events", "GET /v1/account"].contains(&&***route);
        sent.as_object().unwrap().iter().filter(of_charges).filter_map(|(_, count)| count.as_u64()).sum()
    }

    /// Waits until the stand-in has no notification left to send, and the service has processed them.
    async fn until_quiet(&self) {
        wait_until("no notification", async || {
            let books = self.books();
            let functions = &self.live.service.stack.functions;
            let is_idle = functions.running_invocations() == 0;
            books["unsent_notifications"] == 0 && is_idle
        })
        .await;
    }

    async fn settlements(&self) -> usize {
        let movements = self.live.client.movements("?limit=100").await;
        movements.iter().filter(|movement| movement["type"] == "settlement").count()
    }

    async fn check_ledger(&self) {
        self.live.service.check_ledger_of(&self.live.scope()).await;
    }

    async fn balance_of(&self, account: LedgerAccount) -> i64 {
        let scope = self.live.service.sharded(&self.live.scope()).await;
        let wallets = self.live.service.wallets().for_scope(&scope).await.unwrap();
        wallets.get(&Currency::BRL).map_or(0, |wallet| wallet.balance(account).unwrap().get())
    }
}

#[tokio::test]
async fn a_card_charge_is_paid_on_the_acquirers_page_and_the_fee_is_the_acquirers() {
    let cards = Cards::start().await;
    let listener = Listener::start().await;
    cards.live.client.register_endpoint(&listener.url, &["charge.created", "charge.paid"]).await;
    let charge =
        cards.create("card-0001", json!({"metadata": {"returnUrl": "https://shop.example/back"}})).await;
    assert_eq!(charge["status"], "WAITING_PAYMENT");
    let read = cards.read(&charge).await;
    let url = read["cardRedirectUrl"].as_str().unwrap();
    let page = Client::of_other_server("").raw(Method::GET, url, &[], "").await;
    assert_eq!(page.status, 303);
    assert!(page.header("location").unwrap().starts_with(cards.live.service.stack.cards.url()), "{page:?}");
    // Nothing of the provider is in what the merchant sees.
    assert!(!read.to_string().to_lowercase().contains("stripe") && !read.to_string().contains("cs_live"));
    cards.act("/pay", &charge, json!({}));
    let paid = cards.until(&charge, "APPROVED").await;
    // 3.99 % and 39 centavos.
    assert_eq!(paid["providerFee"], 438, "{paid}");
    listener.wait_for_event("charge.paid").await;
    // A payer who clicks twice sees the payment, not the page of the sandbox.
    let ended = Client::of_other_server("").raw(Method::GET, url, &[], "").await;
    assert_eq!(
        (ended.status.as_u16(), ended.header("location")),
        (303, Some(&*format!("../{}", id(&charge))))
    );
    assert_eq!(cards.come_back(&charge).await, "https://shop.example/back");
    cards.check_ledger().await;
}

#[tokio::test]
async fn a_declined_payer_may_try_again_until_the_page_expires() {
    let cards = Cards::start().await;
    let retried = cards.create("card-0002", json!({})).await;
    cards.act("/decline", &retried, json!({"decline_code": "insufficient_funds"}));
    cards.act("/3ds", &retried, json!({"outcome": "challenge"}));
    cards.until(&retried, "PROCESSING").await;
    cards.act("/3ds", &retried, json!({"outcome": "fail"}));
    cards.until(&retried, "WAITING_PAYMENT").await;
    cards.act("/3ds", &retried, json!({"outcome": "challenge"}));
    cards.act("/3ds", &retried, json!({"outcome": "succeed"}));
    cards.until(&retried, "APPROVED").await;

    let expired = cards.create("card-0003", json!({})).await;
    cards.act("/decline", &expired, json!({"decline_code": "insufficient_funds"}));
    cards.live.service.advance_seconds(24 * 60 * 60 + 60).await;
    let read = cards.until(&expired, "EXPIRED").await;
    let failure = &read["metadata"]["failure"];
    assert_ne!(failure["providerErrorCode"], "expired", "{read}");
    assert!(!failure.to_string().to_lowercase().contains("stripe"), "{failure}");
}

#[tokio::test]
async fn a_card_charge_with_a_place_of_a_link_is_closed_after_15_minutes() {
    let cards = Cards::start().await;
    let link = json!({"amount": 10_000, "payment_methods": ["CREDIT_CARD"], "max_payments": 1});
    let key = [("idempotency-key", "link-0001")];
    let client = &cards.live.client;
    let link = client.post_as(&client.key(), "/v1/payment_links", &link, &key).await.expect(201);
    let page = format!("/pay/{}", id(&link));
    let send = async |key: &str| client.raw(Method::POST, &page, &[FORM], encoded(&[("key", key)])).await;
    let made = send("1").await;
    let charge = location(&made).strip_prefix("../checkout/").unwrap();
    let charge = cards.read(&json!({ "id": charge })).await;
    assert_eq!(send("2").await.status, 410);
    cards.live.service.advance_seconds(16 * 60).await;
    cards.until(&charge, "EXPIRED").await;
    assert_eq!(cards.session(&charge)["status"], "expired");
    assert_eq!(send("2").await.status, 303);
}

#[tokio::test]
async fn a_payer_who_comes_back_sees_the_result_without_a_notification() {
    let cards = Cards::start().await;
    let reads = || {
        let sent = cards.control("GET", "/requests", &json!({}));
        sent["GET /v1/checkout/sessions/{session}"].as_u64().unwrap_or_default()
    };
    let [paid, unpaid, silent] = [0, 1, 2].map(|number| format!("card-back-{number}"));
    let paid = cards.create(&paid, json!({})).await;
    cards.fault_of_notifications("lost_notification");
    cards.act("/pay", &paid, json!({}));
    let page = cards.come_back(&paid).await;
    let first = cards.page(&page).await;
    assert!(
        ["Confirmando o pagamento", "Pagamento confirmado"].iter().any(|title| first.contains(title)),
        "{first}"
    );
    cards.until(&paid, "APPROVED").await;
    assert!(cards.page(&page).await.contains("Pagamento confirmado"));

    let unpaid = cards.create(&unpaid, json!({"paymentMethods": ["CREDIT_CARD"]})).await;
    let before = reads();
    let page = cards.come_back(&unpaid).await;
    cards.come_back(&unpaid).await;
    wait_until("pay again", async || cards.page(&page).await.contains("Pague de novo")).await;
    assert_eq!(reads(), before + 1, "one read within three seconds");
    cards.live.service.advance_seconds(3).await;
    cards.come_back(&unpaid).await;
    wait_until("a second read", async || reads() == before + 2).await;

    let silent = cards.create(&silent, json!({})).await;
    cards.control("POST", "/faults", &json!({"kind": "http_500", "on": "GET /v1/checkout", "count": 90}));
    let page = cards.come_back(&silent).await;
    assert!(cards.page(&page).await.contains("Confirmando o pagamento"));
    // A payer who gave up on the acquirer's page can pay again, although the acquirer does not answer.
    let page = cards.come_back_by("cancel_url", &silent).await;
    assert!(cards.page(&page).await.contains("O pagamento com cartão não foi concluído. Pague de novo."));
    let page = cards.come_back(&silent).await;
    cards.live.service.advance_seconds(60).await;
    assert!(cards.page(&page).await.contains("Ainda não sabemos"));
}

#[tokio::test]
async fn a_paid_charge_costs_at_most_eight_requests_to_the_acquirer() {
    let cards = Cards::start().await;
    let before = cards.requests();
    cards.paid("card-cost-1", json!({})).await;
    cards.until_quiet().await;
    // Three sweeps list its events.
    for _ in 0..3 {
        cards.live.service.advance_seconds(5 * 60 + 1).await;
        cards.until_quiet().await;
    }
    let sent = cards.requests() - before;
    assert!((2..=8).contains(&sent), "{sent}: {}", cards.control("GET", "/requests", &json!({})));
}

#[tokio::test]
async fn what_the_acquirer_does_not_take_is_refused_before_anything_is_stored() {
    let cards = Cards::start().await;
    for (number, amount, currency, named) in [
        (0, 100_000, "ISK", "`currency`"),
        (1, 100_000, "UGX", "`currency`"),
        (2, 100_000, "VES", "`currency`"),
        (3, 1_234, "KWD", "`amount`"),
        (4, 999, "MXN", "`amount`"),
        (5, 17_499, "HUF", "`amount`"),
        (6, 29, "GBP", "`amount`"),
    ] {
        let mut body = of_card(&format!("card-not-{number}"));
        body["amount"] = json!(amount);
        body["currency"] = json!(currency);
        let refused = cards.live.client.post("/v1/payments", &body).await;
        assert_eq!(refused.problem(), (422, "invalid_request_error", "unprocessable_entity"), "{currency}");
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(named) && message.contains(currency), "{message}");
    }
    assert_eq!(cards.live.client.get("/v1/payments").await.expect(200)["data"], json!([]));
    for (key, amount, currency) in [("gbp", 30, "GBP"), ("kwd", 1_230, "KWD"), ("huf", 17_500, "HUF")] {
        let charge =
            cards.create(&format!("card-{key}-1"), json!({"amount": amount, "currency": currency})).await;
        assert_eq!(charge["status"], "WAITING_PAYMENT", "{charge}");
    }
}

#[tokio::test]
async fn refunds_in_parts_and_those_made_at_the_acquirer_debit_the_wallet_once() {
    let cards = Cards::start().await;
    let listener = Listener::start().await;
    cards.live.client.register_endpoint(&listener.url, &["payment.refunded"]).await;
    let charge = cards.paid("card-0006", json!({})).await;
    // The net is held until the acquirer pays it.
    cards.live.service.advance_seconds(32 * 24 * 60 * 60).await;
    cards.refund(&charge, 3_000).await;
    let refund = cards.live.wait_for_refund(&charge, "REFUNDED").await;
    assert_eq!((&refund["amount"], &refund["endToEndId"]), (&json!(3_000), &Value::Null), "{refund}");
    cards.act("/refund", &charge, json!({"amount": 2_000}));
    wait_until("the refund made there", async || cards.read(&charge).await["refundedAmount"] == 5_000).await;
    wait_until("the event of the refund made there", async || {
        let about = |hook: ReceivedWebhook| hook.json()["data"]["refund"].take();
        let mut refunds = listener.hooks().into_iter().map(about);
        refunds.any(|refund| refund["status"] == "REFUNDED" && refund["amount"] == 2_000)
    })
    .await;
    let account = cards.live.service.scope().account;
    let audit = cards.live.service.rows(&format!("audit#{account}"), "").await;
    let made_there = Some(AttributeValue::S("refund.at-bank".to_owned()));
    let made_there: Vec<_> = audit.iter().filter(|row| row.get("action") == made_there.as_ref()).collect();
    let by_acquirer = Some(AttributeValue::S("acquirer".to_owned()));
    assert!(made_there.len() == 1 && made_there[0].get("actor") == by_acquirer.as_ref(), "{made_there:?}");
    cards.check_ledger().await;
}

static BOTH: LazyLock<Value> = LazyLock::new(|| json!({"paymentMethods": ["PIX", "CREDIT_CARD"]}));

/// The bank's charge of Pix and the page for cards belong to one charge.
impl Cards {
    async fn row(&self, charge: &Value) -> Charge {
        self.live.service.stored_charge(ChargeId::parse_any(id(charge)).unwrap()).await
    }

    async fn created(&self, key: &str, body: Value) -> Value {
        self.read(&self.create(key, body).await).await
    }

    async fn until_all_answered(&self, charge: &Value) {
        wait_until("all have answered", async || self.row(charge).await.unread_since.is_none()).await;
    }

    async fn of_both(&self, key: &str) -> Value {
        let charge = self.create(key, BOTH.clone()).await;
        assert_eq!(charge["status"], "WAITING_PAYMENT", "{charge}");
        let read = self.read(&charge).await;
        assert!(read["cardRedirectUrl"].is_string() && self.cob(&charge)["status"] == "ATIVA", "{read}");
        read
    }

    /// As the charges surface shows it.
    fn with_pix(charge: &Value) -> Value {
        let id = ChargeId::parse_any(id(charge)).unwrap();
        json!({"pix": {"txid": id.txid()}})
    }

    fn cob(&self, charge: &Value) -> Value {
        self.live.cob(&Self::with_pix(charge))
    }

    fn sessions(&self, charge: &Value) -> Vec<Value> {
        let books = self.books();
        let id = json!(format!("ch_{}", id(charge)));
        let sessions = books["sessions"].as_array().unwrap().iter();
        sessions.filter(|session| session["client_reference_id"] == id).cloned().collect()
    }

    fn session(&self, charge: &Value) -> Value {
        self.sessions(charge).remove(0)
    }

    fn pay_by_pix(&self, charge: &Value) {
        self.live.pay(&Self::with_pix(charge), PayRequest::default());
    }

    async fn until_closed(&self, charge: &Value) {
        wait_until("closed at both", async || {
            self.session(charge)["status"] != "open" && self.cob(charge)["status"] != "ATIVA"
        })
        .await;
    }
}

#[tokio::test]
async fn a_charge_by_pix_or_card_is_closed_at_the_one_that_is_not_paid() {
    let cards = Cards::start().await;
    let by_pix = cards.of_both("both-0001").await;
    cards.pay_by_pix(&by_pix);
    let paid = cards.until(&by_pix, "PAID").await;
    assert_eq!(paid["paidWith"], "PIX", "{paid}");
    cards.until_closed(&by_pix).await;
    cards.refund(&by_pix, 1_000).await;
    let by_card = cards.of_both("both-0002").await;
    cards.act("/pay", &by_card, json!({}));
    let paid = cards.until(&by_card, "APPROVED").await;
    assert_eq!(paid["paidWith"], "CREDIT_CARD", "{paid}");
    cards.until_closed(&by_card).await;
    cards.live.service.advance_seconds(32 * 24 * 60 * 60).await;
    cards.refund(&by_card, 2_000).await;
    for (charge, amount) in [(&by_pix, 1_000), (&by_card, 2_000)] {
        wait_until("the refund at its own acquirer", async || {
            cards.read(charge).await["refundedAmount"] == amount
        })
        .await;
    }
    cards.check_ledger().await;
}

#[tokio::test]
async fn a_charge_by_pix_or_card_that_is_paid_by_both_keeps_the_first_and_returns_the_second() {
    let cards = Cards::start().await;
    let charge = cards.of_both("both-0003").await;
    cards.fault_of_notifications("lost_notification");
    cards.act("/pay", &charge, json!({}));
    cards.pay_by_pix(&charge);
    let back = eventually("the return of the second", async || {
        let back = cards.read(&charge).await["returnedPayments"][0].clone();
        (back["status"] == "returned").then_some(back)
    })
    .await;
    assert_eq!((&back["reason"], &back["amount"]), (&json!("second_payment"), &json!(10_000)), "{back}");
    // A sweep may find the payment by card first.
    let read = cards.read(&charge).await;
    let is_by_pix = read["status"] == "PAID" && read["paidWith"] == "PIX";
    assert!(is_by_pix || (read["status"] == "APPROVED" && read["paidWith"] == "CREDIT_CARD"), "{read}");
    assert_eq!(read["returnedPayments"].as_array().unwrap().len(), 1);
    cards.check_ledger().await;
}

#[tokio::test]
async fn a_charge_by_pix_or_card_ends_at_both() {
    let cards = Cards::start().await;
    let cancelled = cards.of_both("both-0004").await;
    assert_eq!(cards.live.cancel(&cancelled).await.expect(200)["status"], "CANCELLED");
    assert_eq!(cards.session(&cancelled)["status"], "expired");
    assert_eq!(cards.cob(&cancelled)["status"], "REMOVIDA_PELO_USUARIO_RECEBEDOR");

    // A Pix whose notification is lost: the cancellation finds it.
    let paid = cards.of_both("both-0005").await;
    cards.live.fault(FaultKind::LostNotification, 1);
    cards.pay_by_pix(&paid);
    assert_eq!(cards.live.cancel(&paid).await.status, 422);
    cards.until(&paid, "PAID").await;

    let expired = cards.of_both("both-0006").await;
    // The Pix ends before the page for cards.
    cards.live.service.advance_seconds(26 * 60 * 60).await;
    cards.until(&expired, "EXPIRED").await;
    cards.until_closed(&expired).await;

    // What one acquirer refuses can be paid at the other.
    cards.fault("http_402", KEPT);
    let refused = cards.created("both-0007", BOTH.clone()).await;
    assert_eq!((&refused["status"], &refused["cardRedirectUrl"]), (&json!("WAITING_PAYMENT"), &Value::Null));
    assert_eq!(cards.row(&refused).await.ended_legs[0].method, PaymentMethod::CreditCard);
    cards.pay_by_pix(&refused);
    cards.until(&refused, "PAID").await;

    // A lost answer makes no second page and no second cob.
    cards.fault("lost_answer", KEPT);
    let mut body = of_card("both-0008");
    body["paymentMethods"] = json!(["PIX", "CREDIT_CARD"]);
    let create = async || cards.live.client.post("/v1/payments", &body).await;
    let first = create().await;
    let charge = if first.status == 201 { first.expect(201) } else { create().await.expect(201) };
    assert_eq!(cards.sessions(&charge).len(), 1);
    cards.check_ledger().await;
}

#[tokio::test]
async fn a_pending_refund_has_one_chain_of_polls() {
    let cards = Cards::start().await;
    let charge = cards.paid("card-0021", json!({"available_on": 1})).await;
    cards.fault("refund_pending", "POST /v1/refunds");
    cards.refund(&charge, 1_000).await;
    wait_until("the request", async || !cards.books()["refunds"].as_array().unwrap().is_empty()).await;
    for _ in 0..12 {
        cards.live.service.advance_seconds(5 * 60).await;
        cards.until_quiet().await;
    }
    // Only the scheduler polls it, so no message waits.
    wait_until("no message", async || {
        count_messages(&cards.live.service, "AcquirerQueue").await == [0, 0, 0]
    })
    .await;
    let refund = cards.books()["refunds"][0].clone();
    cards.fault_of_notifications("lost_notification");
    cards.set_status("refunds", &refund, "succeeded");
    cards.live.service.advance_seconds(15 * 60).await;
    cards.live.wait_for_refund(&charge, "REFUNDED").await;
}

/// The acquirer has the money again, so it waits for an operator, who gives it to the payer or to the merchant.
#[tokio::test]
async fn a_refund_that_fails_after_it_succeeded_waits_for_an_operator() {
    let cards = Cards::start().await;
    let charge = cards.paid("card-0013", json!({})).await;
    cards.live.service.advance_seconds(32 * 24 * 60 * 60).await;
    let [first, second] =
        [1_000, 2_000].map(|amount| cards.act("/refund", &charge, json!({"amount": amount})));
    wait_until("both refunds", async || cards.read(&charge).await["refundedAmount"] == 3_000).await;
    let receipts = Receipts::new(cards.live.service.store());
    let fail = async |refund: &Value| {
        cards.set_status("refunds", refund, "failed");
        let id: AcquirerPaymentId = id(refund).parse().unwrap();
        wait_until("the receipt", async || {
            let (waiting, _) = receipts.waiting(&cards.live.scope(), None).await.unwrap();
            waiting.iter().any(|each| each.payment_id == id)
        })
        .await;
        id
    };
    let (first, second) = (fail(&first).await, fail(&second).await);
    assert_eq!(cards.read(&charge).await["refundedAmount"], 3_000, "the status stays");
    assert!(cards.live.client.refunds(&charge).await.iter().all(|refund| refund["status"] == "REFUNDED"));
    assert_eq!(cards.balance_of(LedgerAccount::ReturnsInFlight).await, 3_000);
    let (operator, now) = (Operator::default(), cards.live.service.stack.clock.now());
    let available = cards.balance_of(LedgerAccount::MerchantAvailable).await;
    receipts.credit(&cards.live.scope(), &first, &operator, now).await.unwrap();
    assert!(receipts.credit(&cards.live.scope(), &first, &operator, now).await.is_err(), "once");
    assert_eq!(cards.balance_of(LedgerAccount::MerchantAvailable).await, available + 1_000);
    let path = format!("/v1/charges/ch_{}/timeline", id(&charge));
    let timeline = cards.live.client.list(&path).await;
    let is_credit = |entry: &&Value| entry["state"] == "adjustment" && entry["amount"] == 1_000;
    assert_eq!(timeline.iter().filter(is_credit).count(), 1, "{timeline:?}");
    receipts.give_back(&cards.live.scope(), &second, Some(&operator), now).await.unwrap();
    wait_until("the second try", async || cards.balance_of(LedgerAccount::ReturnsInFlight).await == 0).await;
    // The second try is no refund of the merchant.
    cards.live.service.advance_seconds(6 * 60).await;
    assert_eq!(cards.read(&charge).await["refundedAmount"], 3_000);
    cards.check_ledger().await;
}

#[tokio::test]
async fn a_payment_after_the_expiry_goes_back_to_the_payer_in_its_currency() {
    let cards = Cards::start().await;
    for (number, amount, currency) in [("card-0012", 10_000, "BRL"), ("card-0014", 500, "JPY")] {
        let charge = cards.create(number, json!({"amount": amount, "currency": currency})).await;
        cards.live.service.advance_seconds(24 * 60 * 60 + 60).await;
        cards.until(&charge, "EXPIRED").await;
        cards.act("/pay", &charge, json!({"late": true}));
        let returned = eventually("the return", async || {
            let returned = cards.read(&charge).await["returnedPayments"][0].clone();
            (returned["status"] == "returned").then_some(returned)
        })
        .await;
        assert_eq!(
            (&returned["reason"], &returned["amount"]),
            (&json!("late"), &json!(amount)),
            "{returned}"
        );
        assert_eq!(cards.read(&charge).await["status"], "EXPIRED");
        assert_eq!(cards.balance_of(LedgerAccount::ReturnsInFlight).await, 0, "in BRL");
    }
    cards.check_ledger().await;
}

#[tokio::test]
async fn a_dispute_is_a_case_that_the_acquirer_decides() {
    let cards = Cards::start().await;
    for (number, kind, status, expected) in [
        ("card-0007", "formal", "won", "refunded_to_merchant"),
        ("card-0008", "formal", "lost", "lost"),
        ("card-0009", "inquiry", "warning_closed", "refunded_to_merchant"),
    ] {
        let charge = cards.paid(number, json!({})).await;
        let dispute = cards.act("/dispute", &charge, json!({"kind": kind}));
        cards.until(&charge, if kind == "formal" { "CHARGEBACK" } else { "DISPUTE" }).await;
        let case = cards.case_of(&charge).await.unwrap();
        assert_eq!(case["type"], if kind == "formal" { "chargeback" } else { "dispute" }, "{case}");
        assert!(case["response_deadline"].is_string(), "{case}");
        // No id of the acquirer is in the charge or its timeline. The provider's status has its own.
        let client = &cards.live.client;
        let shown = client.get(&format!("/v1/charges/{}", id(&charge))).await.expect(200);
        assert_eq!(shown["metadata"]["med"]["referenceId"], case["id"], "{shown}");
        let timeline = client.get(&format!("/v1/charges/{}/timeline", id(&charge))).await.expect(200);
        for text in [shown.to_string(), timeline.to_string()] {
            assert!(
                !["pi_", "cs_", "du_", "dp_", "devolution"]
                    .iter()
                    .any(|id| text.contains(&format!("\"{id}"))),
                "{text}"
            );
        }
        let path = format!("/v1/payments/{}/provider-status", id(&charge));
        assert_eq!(client.get(&path).await.expect(200)["provider"], "card");
        cards.set_status("disputes", &dispute, status);
        eventually(status, async || {
            cards.case_of(&charge).await.filter(|case| case["money_outcome"] == expected)
        })
        .await;
    }
    // Of two formal disputes. The platform bears them.
    wait_until("the fees", async || cards.balance_of(LedgerAccount::PlatformExpense).await == -11_000).await;
    cards.check_ledger().await;
}

#[tokio::test]
async fn the_fee_of_a_dispute_is_posted_after_a_refund_that_the_acquirer_refuses_at_last() {
    let cards = Cards::start().await;
    let charge = cards.paid("card-0020", json!({})).await;
    cards.control("POST", "/faults", &json!({"kind": "http_500", "on": "POST /v1/refunds", "count": 500}));
    cards.refund(&charge, 1_000).await;
    let dispute = cards.act("/dispute", &charge, json!({"kind": "formal"}));
    eventually("a case", async || cards.case_of(&charge).await).await;
    cards.set_status("disputes", &dispute, "lost");
    eventually("a lost case", async || {
        cards.case_of(&charge).await.filter(|case| case["money_outcome"] == "lost")
    })
    .await;
    // Longer than a sweep reads back.
    for _ in 0..5 {
        cards.live.service.advance_seconds(5 * 60 + 1).await;
        cards.until_quiet().await;
    }
    assert_eq!(
        cards.balance_of(LedgerAccount::PlatformExpense).await,
        0,
        "the refund may still return its fee"
    );
    cards.control("DELETE", "/faults", &json!({}));
    wait_until("the refused refund", async || {
        cards.live.service.advance_seconds(60).await;
        cards.live.client.refunds(&charge).await[0]["status"] == "FAILED"
    })
    .await;
    wait_until("the fee", async || cards.balance_of(LedgerAccount::PlatformExpense).await == -5_500).await;
    cards.check_ledger().await;
}

/// The balance at the acquirer.
impl Cards {
    fn moved(&self, what: &str) -> i64 {
        let books = self.books();
        let in_reais = |moved: &&Value| moved["currency"] == "brl";
        let listed = books["balance_transactions"].as_array().unwrap().iter().filter(in_reais);
        listed.map(|moved| moved[what].as_i64().unwrap()).sum()
    }

    /// The same by the ledger.
    async fn posted(&self) -> i64 {
        let mut sum = 0;
        for account in
            [LedgerAccount::AcquirerClearing, LedgerAccount::MedLosses, LedgerAccount::AcquirerFees]
        {
            sum -= self.balance_of(account).await;
        }
        sum
    }

    async fn wallet(&self) -> i64 {
        let mut sum = 0;
        for account in [
            LedgerAccount::MerchantAvailable,
            LedgerAccount::MerchantPending,
            LedgerAccount::MerchantRetained,
        ] {
            sum += self.balance_of(account).await;
        }
        sum
    }

    /// Waits until the ledger has the acquirer's balance, and the merchant has lost that sum since `before`.
    async fn until_equal(&self, what: &str, before: i64, lost: i64) {
        wait_until(what, async || {
            self.moved("net") == self.posted().await && before - self.wallet().await == lost
        })
        .await;
    }
}

#[tokio::test]
async fn the_ledger_has_the_balance_at_the_acquirer_and_the_merchant_bears_what_a_scheme_takes() {
    let cards = Cards::start().await;
    // What was refunded, the amount of the dispute, and its final amount. The wallet had 9,562 of each payment, and a
    // refund returns its share of the fee of 438, which the acquirer keeps.
    for (name, refunded, disputed, taken, lost) in [
        ("after a refund", 4_000, 10_000, 10_000, 13_825),
        ("after a full refund", 10_000, 10_000, 10_000, 19_562),
        ("above the charge", 0, 12_000, 12_000, 12_000),
        ("of a part, reinstated in part", 0, 6_000, 4_000, 4_000),
    ] {
        let charge = cards.paid(&format!("scheme-{refunded}-{disputed}"), json!({})).await;
        let before = cards.wallet().await;
        if refunded > 0 {
            cards.refund(&charge, refunded).await;
            cards.live.wait_for_refund(&charge, "REFUNDED").await;
        }
        let dispute = cards.act("/dispute", &charge, json!({"kind": "formal", "amount": disputed}));
        eventually("a case", async || cards.case_of(&charge).await).await;
        cards.set_status("disputes", &dispute, "lost");
        eventually("a lost case", async || {
            cards.case_of(&charge).await.filter(|case| case["money_outcome"] == "lost")
        })
        .await;
        if taken != disputed {
            cards.control("POST", &format!("/disputes/{}", id(&dispute)), &json!({"amount": taken}));
        }
        cards.until_equal(name, before, lost).await;
    }
    let (expense, before) = (cards.balance_of(LedgerAccount::PlatformExpense).await, cards.wallet().await);
    // Fees of 55.00 for each dispute, and the fees of the two refunds.
    assert_eq!(expense, -4 * 5_500 - 175 - 438);

    let late = cards.create("scheme-late", json!({})).await;
    cards.live.service.advance_seconds(24 * 60 * 60 + 60).await;
    cards.until(&late, "EXPIRED").await;
    cards.act("/pay", &late, json!({"late": true}));
    wait_until("the return", async || cards.read(&late).await["returnedPayments"][0]["status"] == "returned")
        .await;
    cards.until_equal("a returned payment", before, 0).await;
    assert_eq!(cards.balance_of(LedgerAccount::PlatformExpense).await, expense - 438);
    cards.check_ledger().await;
}

#[tokio::test]
async fn fees_and_exchange_in_the_currency_of_the_balance_are_the_platforms() {
    let cards = Cards::start().await;
    cards.control("POST", "/behaviour", &json!({"exchange_rate_millionths": 5_420_000}));
    let charge = cards.create("exchange-1", json!({"currency": "EUR"})).await;
    cards.act("/pay", &charge, json!({"fee": 531}));
    cards.until(&charge, "APPROVED").await;
    wait_until("the fee", async || cards.balance_of(LedgerAccount::AcquirerFees).await == 531).await;
    cards.control("POST", "/behaviour", &json!({"exchange_rate_millionths": 5_500_000}));
    cards.act("/refund", &charge, json!({"amount": 4_000}));
    // 60.00 EUR at 5.42 are 325.20 BRL. Of 542.00 BRL the refund has taken 220.00.
    wait_until("the loss", async || cards.balance_of(LedgerAccount::AcquirerFees).await == 531 + 320).await;
    assert_eq!(cards.moved("amount"), 54_200 - 22_000);
    assert_eq!(cards.balance_of(LedgerAccount::PlatformExpense).await, -851);
    cards.check_ledger().await;
}

#[tokio::test]
async fn only_signed_notifications_of_the_account_are_accepted() {
    let cards = Cards::start().await;
    let text = cards.books().to_string();
    let url = text.split("\"url\":\"").find(|part| part.contains("/v1/acquirer-events/")).unwrap();
    let url = url.split('"').next().unwrap();
    let post = async |path: &str, headers: &[(&str, &str)]| {
        Client::of_other_server("").raw(Method::POST, path, headers, "{}").await.status.as_u16()
    };
    assert_eq!(post(url, &[]).await, 401);
    assert_eq!(post(url, &[("stripe-signature", "t=1,v1=00")]).await, 401);
    let bank = url.trim_end_matches("/hosted");
    assert_eq!(post(bank, &[]).await, 401, "a notification of Pix");
    let mut mixed = of_card("card-0011");
    mixed["paymentMethods"] = json!(["CREDIT_CARD", "CRYPTO"]);
    let refused = cards.live.client.post("/v1/payments", &mixed).await;
    let expected = (422, "invalid_request_error", "unprocessable_entity");
    assert_eq!(refused.problem(), expected, "a method without a connection");
}

#[tokio::test]
async fn a_notification_before_the_charge_is_finalised_leads_to_its_payment() {
    let cards = Cards::start().await;
    // The page exists, and its answer is lost until the payer has paid.
    cards.control("POST", "/faults", &json!({"kind": "lost_answer", "on": KEPT, "count": 20}));
    let first = cards.live.client.post("/v1/payments", &of_card("card-0013")).await;
    assert_eq!(first.status, 503);
    let session = cards.books()["sessions"][0]["id"].clone();
    cards.control("POST", "/pay", &json!({"session": session}));
    cards.control("DELETE", "/faults", &json!({}));
    let charge = eventually("the charge", async || {
        let listed = cards.live.client.get("/v1/payments").await.expect(200);
        let charge = listed["data"][0].clone();
        charge["id"].is_string().then_some(charge)
    })
    .await;
    cards.until(&charge, "APPROVED").await;
    assert_eq!(cards.settlements().await, 1);
    cards.check_ledger().await;
}

#[tokio::test]
async fn one_event_on_three_connections_settles_once_also_beside_the_return_of_the_payer() {
    let cards = Cards::start().await;
    let listener = Listener::start().await;
    cards.live.client.register_endpoint(&listener.url, &["charge.paid"]).await;
    let charge = cards.create("card-0014", json!({})).await;
    cards.fault_of_notifications("lost_notification");
    cards.act("/pay", &charge, json!({}));
    let url = cards.read(&charge).await["cardRedirectUrl"].as_str().unwrap().to_owned();
    let payer = Client::of_other_server("");
    tokio::join!(cards.resend("checkout.session.completed", 3), async {
        let page = payer.raw(Method::GET, &url, &[], "").await;
        assert!([200, 303].contains(&page.status.as_u16()), "{page:?}");
    });
    cards.until(&charge, "APPROVED").await;
    cards.until_quiet().await;
    assert_eq!(cards.settlements().await, 1);
    listener.wait_for_event("charge.paid").await;
    let ids: std::collections::BTreeSet<String> =
        listener.hooks().iter().map(|hook| hook.json()["id"].to_string()).collect();
    assert_eq!(ids.len(), 1);
    cards.check_ledger().await;
}

#[tokio::test]
async fn the_end_of_a_charge_finds_it_paid_without_any_notification() {
    let cards = Cards::start().await;
    let charge = cards.create("card-0016", json!({})).await;
    // The session ends 23 hours after the creation.
    cards.live.service.advance_seconds(23 * 60 * 60 - 60).await;
    cards.fault_of_notifications("lost_notification");
    cards.fault("http_500", "GET /v1/events");
    cards.act("/pay", &charge, json!({}));
    cards.live.service.advance_seconds(2 * 60).await;
    let read = cards.until(&charge, "APPROVED").await;
    assert_eq!(read["metadata"]["failure"], Value::Null, "{read}");
    cards.check_ledger().await;
}

#[tokio::test]
async fn a_payment_in_progress_is_neither_paid_nor_cancelled_until_it_ends() {
    let cards = Cards::start().await;
    let charge = cards.create("card-0017", json!({})).await;
    // The session completes unpaid.
    cards.act("/pay", &charge, json!({"processing_s": 600}));
    cards.until(&charge, "PROCESSING").await;
    cards.until_quiet().await;
    assert_eq!(cards.settlements().await, 0);
    // The session is finished, so nothing leads there.
    let checkout = format!("/checkout/{}", id(&charge));
    let page = cards.page(&checkout).await;
    assert!(page.contains("Estamos confirmando o pagamento com cartão. Não pague de novo"), "{page}");
    assert!(
        page.links_to("card").is_empty() && !page.has(Role::Image, "QR code Pix desta cobrança"),
        "{page}"
    );
    let payer = Client::of_other_server("");
    let read = cards.read(&charge).await;
    let to = payer.raw(Method::GET, read["cardRedirectUrl"].as_str().unwrap(), &[], "").await;
    assert_eq!(to.header("location"), Some(&*format!("../{}", id(&charge))));
    let refused = cards.live.cancel(&charge).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "payment_not_cancellable"));
    assert!(refused.body["error"]["message"].as_str().unwrap().contains("if it is APPROVED, refund it"));
    cards.live.service.advance_seconds(601).await;
    cards.until(&charge, "APPROVED").await;

    // A card holder who authenticates has not paid yet.
    let authenticates = cards.create("card-0006", json!({})).await;
    cards.act("/3ds", &authenticates, json!({"outcome": "challenge"}));
    cards.until(&authenticates, "PROCESSING").await;
    // A payer who left finds the same page again.
    let read = cards.read(&authenticates).await;
    let page = payer.raw(Method::GET, read["cardRedirectUrl"].as_str().unwrap(), &[], "").await;
    assert_eq!(page.header("location"), cards.session(&authenticates)["url"].as_str());
    let page = cards.page(&format!("/checkout/{}", id(&authenticates))).await;
    assert!(page.contains("Se não, continue.") && !page.contains("Pagar de outra forma"), "{page}");
    let way_on = page.get(Role::Link, "Continuar o pagamento com cartão");
    assert_eq!(way_on.target(), format!("{}/card", id(&authenticates)));
    assert_eq!(cards.live.cancel(&authenticates).await.expect(200)["status"], "CANCELLED");
    assert_eq!(cards.session(&authenticates)["status"], "expired");

    // A payer who gave it up a minute ago pays in another way.
    let left = cards.of_both("both-0010").await;
    cards.act("/3ds", &left, json!({"outcome": "challenge"}));
    cards.until(&left, "PROCESSING").await;
    let page = cards.page(&format!("/checkout/{}", id(&left))).await;
    assert!(!page.has(Role::Image, "QR code Pix desta cobrança"), "{page}");
    let other = page.get(Role::Link, "Pagar de outra forma").target().to_owned();
    cards.live.service.advance_seconds(61).await;
    let page = cards.page(&format!("/checkout/{other}")).await;
    assert!(
        page.has(Role::Image, "QR code Pix desta cobrança") && page.contains("não pague de novo"),
        "{page}"
    );
    cards.act("/3ds", &left, json!({"outcome": "fail"}));
    cards.until(&left, "WAITING_PAYMENT").await;
    let page = cards.page(&format!("/checkout/{}", id(&left))).await;
    assert!(page.has(Role::Link, "Pagar com cartão"), "{page}");

    // A refused cancellation leaves the Pix code payable.
    let both = cards.of_both("both-0009").await;
    cards.act("/pay", &both, json!({"processing_s": 600}));
    cards.until(&both, "PROCESSING").await;
    assert_eq!(cards.live.cancel(&both).await.status, 422);
    assert_eq!(cards.cob(&both)["status"], "ATIVA");

    // A cancelled charge can't be paid, and a paid one not cancelled.
    let open = cards.create("card-0004", json!({})).await;
    assert_eq!(cards.live.cancel(&open).await.expect(200)["status"], "CANCELLED");
    let body = json!({"metadata": {"charge": format!("ch_{}", id(&open))}});
    let (status, _) = cards.live.service.stack.cards.control("POST", "/pay", &body);
    assert!(status >= 400, "a cancelled charge is closed there");

    let paid = cards.create("card-0005", json!({})).await;
    cards.fault_of_notifications("lost_notification");
    cards.act("/pay", &paid, json!({}));
    assert_eq!(cards.live.cancel(&paid).await.status, 422);
    cards.until(&paid, "APPROVED").await;
    cards.check_ledger().await;
}

#[tokio::test]
async fn a_paid_charge_whose_fee_is_unknown_is_processed_and_closed_elsewhere() {
    let cards = Cards::start().await;
    cards.control("POST", "/behaviour", &json!({"balance_transaction_after_s": 1800}));
    let charge = cards.of_both("both-0011").await;
    cards.act("/pay", &charge, json!({}));
    cards.until(&charge, "PROCESSING").await;
    let page = cards.page(&format!("/checkout/{}", id(&charge))).await;
    assert!(page.contains("Não pague de novo") && !page.contains("Pix copia e cola"), "{page}");
    wait_until("the Pix code is closed", async || cards.cob(&charge)["status"] != "ATIVA").await;
    assert_eq!((cards.settlements().await, cards.live.cancel(&charge).await.status.as_u16()), (0, 422));
    cards.live.service.advance_seconds(1_860).await;
    let paid = cards.until(&charge, "APPROVED").await;
    assert_eq!(paid["providerFee"], 438, "{paid}");
    cards.check_ledger().await;
}

#[tokio::test]
async fn a_refund_that_waits_for_days_is_requested_once_and_keeps_its_money_reserved() {
    let cards = Cards::start().await;
    // The acquirer pays the net at once.
    let charge = cards.paid("card-0018", json!({"available_on": 1})).await;
    cards.fault("refund_pending", "POST /v1/refunds");
    cards.refund(&charge, 4_000).await;
    cards.live.wait_for_refund(&charge, "IN_PROGRESS").await;
    for _ in 0..3 {
        cards.live.service.advance_seconds(24 * 60 * 60).await;
        cards.until_quiet().await;
        assert_eq!(cards.live.client.refunds(&charge).await[0]["status"], "IN_PROGRESS");
    }
    let books = cards.books();
    let [at_acquirer] = books["refunds"].as_array().unwrap().as_slice() else { panic!("{books}") };
    let rest = json!({"amount": 6_001, "idempotencyKey": "refund-rest"});
    assert_eq!(cards.live.refund(&charge, rest).await.status, 422);
    cards.set_status("refunds", at_acquirer, "succeeded");
    cards.live.wait_for_refund(&charge, "REFUNDED").await;
    cards.check_ledger().await;
}

#[tokio::test]
async fn a_dispute_that_was_decided_before_the_payment_is_known_is_recorded_after_it() {
    let cards = Cards::start().await;
    let listener = Listener::start().await;
    cards.live.client.register_endpoint(&listener.url, &["charge.paid", "med_case.created"]).await;
    let charge = cards.create("card-0020", json!({})).await;
    cards.fault_of_notifications("lost_notification");
    cards.act("/pay", &charge, json!({}));
    let dispute = cards.act("/dispute", &charge, json!({"kind": "formal"}));
    cards.set_status("disputes", &dispute, "lost");
    // No notification of the close is awaited: the sweep reads the outcome.
    cards.live.service.advance_seconds(6 * 60).await;
    eventually("the decision", async || {
        cards.case_of(&charge).await.filter(|case| case["money_outcome"] == "lost")
    })
    .await;
    listener.wait_for_event("charge.paid").await;
    listener.wait_for_event("med_case.created").await;
    assert_eq!(cards.settlements().await, 1);
    cards.check_ledger().await;
}

#[tokio::test]
async fn lost_and_reordered_notifications_of_many_charges_end_in_the_same_state() {
    let cards = Cards::start().await;
    for (number, kind) in
        [(21, "reordered_notification"), (22, "late_notification"), (23, "duplicate_notification")]
    {
        let charge = cards.create(&format!("card-00{number}"), json!({})).await;
        cards.fault_of_notifications(kind);
        cards.act("/decline", &charge, json!({}));
        cards.act("/pay", &charge, json!({}));
        cards.live.service.advance_seconds(31 * 60).await;
        cards.until(&charge, "APPROVED").await;
        cards.control("DELETE", "/faults", &json!({}));
    }
    assert_eq!(cards.settlements().await, 3);
    cards.check_ledger().await;
}

/// The lines of errors about objects that were set aside.
fn set_aside(log: &CapturedLog) -> usize {
    log.text().lines().filter(|line| line.contains("ERROR") && line.contains("was set aside")).count()
}

#[tokio::test]
async fn a_card_payment_is_credited_while_the_bank_is_silent_and_the_cob_is_removed_afterwards() {
    let cards = Cards::start().await;
    let charge = cards.of_both("both-0010").await;
    cards.live.fault(FaultKind::Http500, 1_000_000);
    cards.act("/pay", &charge, json!({}));
    cards.until(&charge, "APPROVED").await;
    // Longer than a message is repeated.
    for _ in 0..20 {
        cards.live.service.advance_seconds(60).await;
    }
    assert_eq!(cards.cob(&charge)["status"], "ATIVA");
    assert!(cards.row(&charge).await.unread_since.is_some());
    cards.live.service.stack.bank.clear_faults();
    cards.live.service.advance_seconds(3_600).await;
    cards.until_closed(&charge).await;
    cards.until_all_answered(&charge).await;
    cards.check_ledger().await;
}

/// A charge is sold by the leg that answers. The other appears when its acquirer does.
#[tokio::test]
async fn a_leg_whose_acquirer_is_silent_holds_up_no_other() {
    let cards = Cards::start().await;
    cards.live.fault(FaultKind::Http500, 1_000_000);
    let late = cards.created("both-0020", BOTH.clone()).await;
    assert_eq!((&late["status"], &late["pixCopyPaste"]), (&json!("WAITING_PAYMENT"), &Value::Null), "{late}");
    assert!(late["cardRedirectUrl"].is_string(), "{late}");
    // Both may be closed only together.
    assert_eq!(cards.live.cancel(&late).await.status, 503);
    assert_eq!(cards.session(&late)["status"], "open");
    cards.live.service.stack.bank.clear_faults();
    cards.live.service.advance_seconds(3 * 60).await;
    wait_until("the Pix code", async || cards.read(&late).await["pixCopyPaste"].is_string()).await;
    cards.pay_by_pix(&late);
    cards.until(&late, "PAID").await;
    cards.until_closed(&late).await;

    for on in [KEPT, "GET /v1/checkout/sessions"] {
        cards.control("POST", "/faults", &json!({"kind": "http_500", "on": on, "count": 1_000}));
    }
    let by_pix = cards.created("both-0021", BOTH.clone()).await;
    assert!(by_pix["pixCopyPaste"].is_string() && by_pix["cardRedirectUrl"].is_null(), "{by_pix}");
    cards.pay_by_pix(&by_pix);
    cards.until(&by_pix, "PAID").await;
    cards.control("DELETE", "/faults", &json!({}));
    cards.live.service.advance_seconds(3 * 3_600).await;
    cards.until_all_answered(&by_pix).await;

    // Neither answers, and then each refuses.
    cards.live.fault(FaultKind::Http500, 1_000_000);
    cards.control("POST", "/faults", &json!({"kind": "http_402", "on": KEPT, "count": 20}));
    let body = json!({"amount": 10_000, "currency": "BRL", "paymentMethods": ["PIX", "CREDIT_CARD"], "idempotencyKey": "both-0022"});
    assert_eq!(cards.live.client.post("/v1/payments", &body).await.status, 503);
    cards.live.service.advance_seconds(11 * 60).await;
    eventually("given up", async || {
        let answer = cards.live.client.post("/v1/payments", &body).await;
        (answer.status == 201 && answer.body["status"] == "REFUSED").then_some(())
    })
    .await;
    cards.check_ledger().await;
}

#[tokio::test]
async fn a_leg_that_was_given_up_is_closed_when_its_acquirer_answers() {
    let cards = Cards::start().await;
    // The bank has the cob.
    cards.live.fault(FaultKind::TimeoutAfterStore, 1);
    let charge = cards.created("both-0023", BOTH.clone()).await;
    assert_eq!((&charge["status"], &charge["pixCopyPaste"]), (&json!("WAITING_PAYMENT"), &Value::Null));
    cards.live.fault(FaultKind::Http500, 1_000_000);
    cards.live.service.advance_seconds(11 * 60).await;
    wait_until("the leg is given up", async || !cards.row(&charge).await.ended_legs.is_empty()).await;
    cards.act("/pay", &charge, json!({}));
    cards.until(&charge, "APPROVED").await;
    assert_eq!(cards.cob(&charge)["status"], "ATIVA");
    cards.live.service.stack.bank.clear_faults();
    cards.live.service.advance_seconds(3_600).await;
    cards.until_closed(&charge).await;
    cards.until_all_answered(&charge).await;

    // The bank does not know this one. Its cancellation waits for nothing.
    cards.live.fault(FaultKind::Http500, 1_000_000);
    let unknown = cards.created("both-0024", BOTH.clone()).await;
    cards.live.service.advance_seconds(11 * 60).await;
    wait_until("the leg is given up", async || !cards.row(&unknown).await.ended_legs.is_empty()).await;
    cards.live.service.stack.bank.clear_faults();
    wait_until("the cancellation", async || {
        cards.live.service.advance_seconds(60).await;
        cards.live.cancel(&unknown).await.status == 200
    })
    .await;
    assert_eq!(cards.session(&unknown)["status"], "expired");
    cards.live.service.advance_seconds(3 * 3_600).await;
    cards.until_all_answered(&unknown).await;
    cards.check_ledger().await;
}

#[tokio::test]
async fn an_odd_object_is_one_error_a_day_and_blocks_nothing_of_its_charge() {
    let cards = Cards::start().await;
    let log = CapturedLog::start();
    let charge = cards.paid("card-0030", json!({"available_on": 1})).await;
    for list in ["refunds", "disputes", "events"] {
        let on = format!("GET /v1/{list}");
        cards.control("POST", "/faults", &json!({"kind": "malformed_entry", "on": on, "count": 1_000}));
    }
    cards.act("/dispute", &charge, json!({"kind": "inquiry", "currency": "usd"}));
    cards.until_quiet().await;
    cards.act("/refund", &charge, json!({"amount": 2_000}));
    wait_until("the refund made there", async || cards.read(&charge).await["refundedAmount"] == 2_000).await;
    cards.refund(&charge, 3_000).await;
    wait_until("the other refund", async || cards.read(&charge).await["refundedAmount"] == 5_000).await;
    let dispute = cards.act("/dispute", &charge, json!({"kind": "formal", "amount": 1_000}));
    eventually("its case", async || cards.case_of(&charge).await).await;
    cards.set_status("disputes", &dispute, "won");
    eventually("won", async || {
        cards.case_of(&charge).await.filter(|case| case["money_outcome"] == "refunded_to_merchant")
    })
    .await;
    for _ in 0..3 {
        cards.live.service.advance_seconds(6 * 60).await;
        cards.until_quiet().await;
    }
    assert_eq!(set_aside(&log), 1, "{}", log.text());
    let account = cards.live.service.scope().account;
    let mut items = cards.live.service.rows(&format!("bad-notification#{account}"), "").await;
    // The fault may also meet a refund that is read alone.
    items.retain(|item| !format!("{item:?}").contains("re_"));
    assert_eq!(items.len(), 2, "the dispute, and the entry of the lists: {items:?}");
    cards.check_ledger().await;
}

#[tokio::test]
async fn a_charge_whose_session_can_not_be_read_is_one_error_a_day_and_is_read_again() {
    let cards = Cards::start().await;
    let charges = [
        cards.create("card-0032", json!({})).await,
        cards.create("card-0033", json!({"paymentMethods": ["CREDIT_CARD"]})).await,
    ];
    let log = CapturedLog::start();
    let on = "GET /v1/checkout/sessions";
    cards.control("POST", "/faults", &json!({"kind": "malformed_entry", "on": on, "count": 1_000_000}));
    for charge in &charges {
        cards.act("/pay", charge, json!({}));
    }
    // A notification is refused if the clock moves on while it is under way.
    cards.until_quiet().await;
    for _ in 0..20 {
        cards.live.service.advance_seconds(6 * 60).await;
    }
    cards.until_quiet().await;
    assert_eq!(cards.settlements().await, 0);
    let errors: Vec<String> =
        log.text().lines().filter(|line| line.contains("ERROR")).map(str::to_owned).collect();
    assert!(errors.len() == 1 && errors[0].contains("was set aside"), "{errors:?}");
    assert_eq!(cards.live.cancel(&charges[0]).await.status, 503);
    cards.control("DELETE", "/faults", &json!({}));
    // The pause until the next read is as long as the charge could not be read.
    cards.live.service.advance_seconds(3 * 3_600).await;
    for charge in &charges {
        cards.until(charge, "APPROVED").await;
    }
    cards.check_ledger().await;
}

/// Nothing is read at an acquirer: neither at this one, nor at that of the other account.
#[tokio::test]
async fn an_event_about_a_charge_that_the_connection_does_not_have_is_ignored() {
    let cards = Cards::start().await;
    let log = CapturedLog::start();
    let foreign = cards.create("card-0031", json!({})).await;
    let stored = cards.live.service.stored_charge(ChargeId::parse_any(id(&foreign)).unwrap()).await;
    let scope = Scope { account: cards.live.service.stack.seed.other.id, ..stored.scope };
    let write = Write::replace(&Charge { scope, ..stored.clone() }, stored.version).unwrap();
    assert_eq!(cards.live.service.store().commit(vec![write]).await.unwrap(), CommitOutcome::Done);
    cards.act("/pay", &foreign, json!({}));
    let unknown = json!({"charge": "ch_f4357470-cd8b-8fda-8eac-d58f8e8e59b9"});
    let body = json!({"amount": 900, "currency": "brl", "metadata": unknown});
    cards.control("POST", "/pay-elsewhere", &body);
    for _ in 0..2 {
        cards.until_quiet().await;
        cards.live.service.advance_seconds(6 * 60).await;
    }
    cards.until_quiet().await;
    let after = cards.live.service.stored_charge(stored.id).await;
    assert_eq!((after.scope, after.version), (scope, stored.version));
    let errors: Vec<String> =
        log.text().lines().filter(|line| line.contains("ERROR")).map(str::to_owned).collect();
    assert_eq!(errors, Vec::<String>::new());
}
