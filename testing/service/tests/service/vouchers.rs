//! Tests of live charges by boleto, Multibanco and MB WAY at two stand-ins of Stripe, in Brazil and in Portugal.

use bank::PayRequest;
use domain::calendar::Day;
use domain::charge::Charge;
use domain::ids::ChargeId;
use domain::payment_method::PaymentMethod;
use local::stack::Options;
use serde_json::{Value, json};
use services::Receipts;
use services::reconciliation::Reconciler;
use stripe_stand_in::Stripe;

use crate::live_charges::{Live, MARIA};
use crate::support::{Answer, CapturedLog, advance_until, id, operator, raw_id, wait_until};

const DAY: i64 = 24 * 60 * 60;

/// What Stripe takes of a boleto of R$ 100,00.
const FEE: i64 = 438;

/// As the payer's data are sent.
fn body(key: &str, methods: &[&str]) -> Value {
    let currency = if methods.contains(&"MULTIBANCO") || methods.contains(&"MBWAY") { "EUR" } else { "BRL" };
    let address =
        json!({"line1": "Av. Paulista, 1", "city": "São Paulo", "state": "SP", "postal_code": "01310-100"});
    json!({
        "amount": 10_000, "currency": currency, "paymentMethods": methods, "idempotencyKey": key,
        "customerName": "Maria Souza", "customerEmail": "maria@example.com", "customerDocument": MARIA,
        "metadata": {"payerAddress": address, "phone": "+351912345678"},
    })
}

struct Vouchers {
    live: Live,
}

impl Vouchers {
    async fn start() -> Self {
        let live = Live::start_with(Options { other_acquirers: true, ..Options::in_memory() }).await;
        Self { live }
    }

    async fn post(&self, body: &Value) -> Answer {
        self.live.client.post("/v1/payments", body).await
    }

    async fn create(&self, key: &str, methods: &[&str]) -> Value {
        let created = self.post(&body(key, methods)).await.expect(201);
        assert_eq!(created["status"], "WAITING_PAYMENT", "{created}");
        self.read(&created).await
    }

    async fn read(&self, charge: &Value) -> Value {
        self.live.client.get(&format!("/v1/payments/{}", raw_id(charge))).await.expect(200)
    }

    async fn row(&self, charge: &Value) -> Charge {
        self.live.service.stored_charge(ChargeId::parse_any(id(charge)).unwrap()).await
    }

    async fn until(&self, charge: &Value, status: &str) -> Value {
        let is_reached = async || self.read(charge).await["status"] == status;
        match status {
            // The acquirer may not have closed it at the first try.
            "EXPIRED" => advance_until((&self.live.service, 3_600), status, is_reached).await,
            _ => wait_until(status, is_reached).await,
        }
        self.read(charge).await
    }

    fn stripe(&self, method: PaymentMethod) -> &Stripe {
        match method {
            PaymentMethod::Multibanco | PaymentMethod::Mbway => {
                &self.live.service.stack.others.as_ref().unwrap().europe
            }
            _ => &self.live.service.stack.cards,
        }
    }

    async fn intent(&self, charge: &Value, method: PaymentMethod) -> String {
        let made = self.row(charge).await.artefacts;
        let intent = match method {
            PaymentMethod::Boleto => made.boleto.and_then(|boleto| boleto.intent),
            PaymentMethod::Multibanco => made.multibanco.and_then(|voucher| voucher.intent),
            _ => made.mbway.and_then(|push| push.intent),
        };
        intent.unwrap()
    }

    /// Plays the payer.
    async fn act(&self, path: &str, charge: &Value, method: PaymentMethod, more: Value) {
        let mut body = json!({"payment_intent": self.intent(charge, method).await});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, answer) = self.stripe(method).control("POST", path, &body);
        assert!(status < 300, "{path}: {status} {answer}");
    }

    async fn status_there(&self, charge: &Value, method: PaymentMethod) -> Value {
        let intent = self.intent(charge, method).await;
        let (_, books) = self.stripe(method).control("GET", "/books", &json!({}));
        let intents = books["payment_intents"].as_array().unwrap().clone();
        intents.into_iter().find(|known| known["id"] == *intent).unwrap()["status"].clone()
    }

    async fn days(&self, days: i64) {
        for _ in 0..days {
            self.live.service.advance_seconds(DAY).await;
        }
    }

    /// The fees of the charge that the platform bears.
    async fn borne(&self, charge: &Value) -> i64 {
        self.row(charge).await.costs.iter().map(|costs| costs.minor.get()).sum()
    }

    /// Compares the last days with the books of Stripe in Brazil.
    async fn check_reconciled(&self, days: u64) {
        let service = &self.live.service;
        let (account, now) = (self.live.scope().account, service.stack.clock.now());
        let reconciler = Reconciler::new(service.store(), service.acquirers(), service.stack.clock.clone());
        let found = service.acquirers().current(&account, PaymentMethod::Boleto).await.unwrap().unwrap();
        let id = Some(found.acquirer.connection);
        let connection = reconciler.connections().at(account, id).await.unwrap();
        for before in 0..=days {
            let day = Day::of(now).minus_days(before);
            let found = Box::pin(reconciler.reconcile(&connection, (day, false), now)).await.unwrap();
            assert_eq!(found.first_differences(9), "[]", "{day}");
        }
    }

    async fn check_ledger(&self) {
        self.live.service.check_ledger_of(&self.live.scope()).await;
    }
}

#[tokio::test]
async fn a_boleto_is_created_at_the_acquirer_and_paid_there() {
    let vouchers = Vouchers::start().await;
    let boleto = vouchers.create("boleto-1", &["BOLETO"]).await;
    assert_eq!(
        boleto["boletoLine"].as_str().unwrap().bytes().filter(u8::is_ascii_digit).count(),
        47,
        "{boleto}"
    );
    assert_eq!(boleto["boletoBarcode"].as_str().unwrap().len(), 44);
    let pdf = boleto["boletoPdfUrl"].as_str().unwrap();
    let path = &pdf[pdf.find("/checkout").unwrap()..];
    let page = vouchers.live.client.get(path).await;
    assert_eq!(page.status, 303, "{page:?}");
    assert!(page.header("location").unwrap().starts_with(vouchers.stripe(PaymentMethod::Boleto).url()));
    vouchers.act("/pay", &boleto, PaymentMethod::Boleto, json!({"fee": 345})).await;
    let paid = vouchers.until(&boleto, "PAID").await;
    assert_eq!((&paid["paidWith"], &paid["providerFee"]), (&json!("BOLETO"), &json!(345)), "{paid}");
    let status = format!("/v1/payments/{}/provider-status", raw_id(&paid));
    let status = vouchers.live.client.get(&status).await.expect(200);
    assert_eq!((&status["provider"], &status["providerStatus"]), (&json!("boleto"), &json!("paid")));
    let refused = vouchers.live.refund(&paid, json!({"amount": 100, "idempotencyKey": "refund-0001"})).await;
    assert_eq!(refused.problem().2, "REFUND_NOT_SUPPORTED", "{refused:?}");
    vouchers.check_ledger().await;
}

#[tokio::test]
async fn a_boleto_of_the_last_day_is_confirmed_later_and_one_after_the_close_waits_for_an_operator() {
    let vouchers = Vouchers::start().await;
    let in_time = vouchers.create("boleto-2", &["BOLETO"]).await;
    let late = vouchers.create("boleto-3", &["BOLETO"]).await;
    let unpaid = vouchers.create("boleto-4", &["BOLETO"]).await;
    vouchers.act("/pay", &in_time, PaymentMethod::Boleto, json!({"processing_s": 4 * DAY})).await;
    vouchers.act("/pay", &late, PaymentMethod::Boleto, json!({"processing_s": 60 * DAY})).await;
    vouchers.days(4).await;
    let waits = vouchers.read(&in_time).await;
    let expires_at = waits["boletoExpiresAt"].as_str().unwrap();
    assert!(expires_at.parse::<domain::time::Timestamp>().unwrap() < vouchers.live.service.stack.clock.now());
    assert_eq!(waits["status"], "WAITING_PAYMENT");
    let page = vouchers.live.client.get(&format!("/checkout/{}", raw_id(&waits))).await;
    let text = String::from_utf8_lossy(&page.bytes).into_owned();
    assert!(text.contains("Prazo encerrado, aguardando confirmação"), "{text}");
    vouchers.days(1).await;
    vouchers.until(&in_time, "PAID").await;
    vouchers.days(10).await;
    vouchers.until(&unpaid, "EXPIRED").await;

    vouchers.until(&late, "EXPIRED").await;

    let log = CapturedLog::start();
    let scope = vouchers.live.scope();
    let receipts = Receipts::new(vouchers.live.service.store());
    wait_until("the receipt", async || {
        vouchers.days(1).await;
        !receipts.waiting(&scope, None).await.unwrap().0.is_empty()
    })
    .await;
    wait_until("the error", async || log.text().contains("its acquirer can't return it")).await;
    let receipt = receipts.waiting(&scope, None).await.unwrap().0.remove(0);
    let arrived = async || {
        let timeline = format!("/v1/charges/ch_{}/timeline", raw_id(&late));
        let entries = vouchers.live.client.get(&timeline).await.expect(200)["data"].clone();
        let entries = entries.as_array().unwrap().clone();
        let of_payments = entries.into_iter().filter(|entry| entry["type"] == "payment");
        of_payments.map(|entry| (entry["state"].clone(), entry["amount"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(arrived().await, [(json!("unapplied"), json!(10_000))]);
    let now = vouchers.live.service.stack.clock.now();
    let by = operator();
    let refused = receipts.give_back(&scope, &receipt.payment_id, Some(&by), now).await.unwrap_err();
    assert!(refused.to_string().contains("no acquirer returns"), "{refused}");
    let charge = ChargeId::parse_any(id(&late)).unwrap();
    let borne = async || vouchers.borne(&late).await;
    wait_until("the platform bears the fee", async || borne().await == FEE).await;
    receipts.apply(&scope, &receipt.payment_id, charge, Some(&by), now).await.unwrap();
    let paid = vouchers.read(&late).await;
    assert_eq!((&paid["status"], &paid["providerFee"]), (&json!("PAID"), &json!(FEE)), "{paid}");
    assert!(vouchers.row(&late).await.settlement.unwrap().release_on.is_some());
    advance_until((&vouchers.live.service, 600), "the fee back", async || borne().await == 0).await;
    assert_eq!(arrived().await, [(json!("accepted"), json!(10_000))]);
    vouchers.check_ledger().await;
    vouchers.check_reconciled(2).await;
}

#[tokio::test]
async fn a_boleto_that_is_applied_to_another_charge_pays_its_fee_there_and_is_held() {
    let vouchers = Vouchers::start().await;
    let first = vouchers.create("boleto-5", &["BOLETO", "PIX"]).await;
    let other = vouchers.create("boleto-6", &["BOLETO", "PIX"]).await;
    let lost = json!({"kind": "lost_notification", "count": 50});
    let (status, answer) = vouchers.stripe(PaymentMethod::Boleto).control("POST", "/faults", &lost);
    assert!(status < 300, "{status} {answer}");
    vouchers.act("/pay", &first, PaymentMethod::Boleto, json!({})).await;
    let txid = vouchers.row(&first).await.id.txid();
    vouchers.live.service.stack.bank.pay(&PayRequest { txid, ..PayRequest::default() }).unwrap();
    let paid = vouchers.until(&first, "PAID").await;
    assert_eq!(paid["paidWith"], "PIX", "{paid}");
    let scope = vouchers.live.scope();
    let receipts = Receipts::new(vouchers.live.service.store());
    let waiting = async || receipts.waiting(&scope, None).await.unwrap().0.pop();
    advance_until((&vouchers.live.service, 600), "the receipt", async || waiting().await.is_some()).await;
    let receipt = waiting().await.unwrap();
    wait_until("the platform bears the fee", async || vouchers.borne(&first).await == FEE).await;

    let (now, by) = (vouchers.live.service.stack.clock.now(), operator());
    let charge = ChargeId::parse_any(id(&other)).unwrap();
    receipts.apply(&scope, &receipt.payment_id, charge, Some(&by), now).await.unwrap();
    let paid = vouchers.read(&other).await;
    assert_eq!((&paid["paidWith"], &paid["providerFee"]), (&json!("BOLETO"), &json!(FEE)), "{paid}");
    assert!(vouchers.row(&other).await.settlement.unwrap().release_on.is_some());
    let is_back = async || vouchers.borne(&first).await == 0;
    advance_until((&vouchers.live.service, 600), "the fee back", is_back).await;
    vouchers.check_ledger().await;
    vouchers.check_reconciled(2).await;
}

#[tokio::test]
async fn two_accounts_of_an_acquirer_take_their_methods_and_close_each_others_legs() {
    let vouchers = Vouchers::start().await;
    let both = vouchers.create("europe-1", &["MULTIBANCO", "MBWAY"]).await;
    assert!(both["mbEntity"].is_string() && both["mbReference"].is_string(), "{both}");
    vouchers.act("/decline", &both, PaymentMethod::Mbway, json!({})).await;
    wait_until("the push ends alone", async || !vouchers.row(&both).await.ended_legs.is_empty()).await;
    assert_eq!(vouchers.read(&both).await["status"], "WAITING_PAYMENT");
    vouchers.act("/pay", &both, PaymentMethod::Multibanco, json!({})).await;
    let paid = vouchers.until(&both, "PAID").await;
    assert_eq!(paid["paidWith"], "MULTIBANCO", "{paid}");

    let pushed = vouchers.create("europe-2", &["MBWAY"]).await;
    vouchers.act("/decline", &pushed, PaymentMethod::Mbway, json!({})).await;
    vouchers.until(&pushed, "REFUSED").await;
    let poor = vouchers.create("europe-5", &["MBWAY"]).await;
    vouchers
        .act("/decline", &poor, PaymentMethod::Mbway, json!({"decline_code": "insufficient_funds"}))
        .await;
    let failure = vouchers.until(&poor, "REFUSED").await["metadata"]["failure"].to_string();
    assert!(failure.contains("The payer has insufficient funds.") && !failure.contains("card"), "{failure}");
    let silent = vouchers.create("europe-3", &["MBWAY"]).await;
    vouchers.live.service.advance_seconds(10 * 60).await;
    vouchers.until(&silent, "EXPIRED").await;

    // A Pix closes the boleto and the page for cards.
    let all = vouchers.create("brazil-1", &["PIX", "BOLETO", "CREDIT_CARD"]).await;
    assert!(
        all["pixCopyPaste"].is_string()
            && all["boletoLine"].is_string()
            && all["cardRedirectUrl"].is_string()
    );
    let with_pix = json!({"pix": {"txid": ChargeId::parse_any(id(&all)).unwrap().txid()}});
    vouchers.live.pay(&with_pix, bank::PayRequest::default());
    vouchers.until(&all, "PAID").await;
    wait_until("the boleto is closed", async || {
        vouchers.status_there(&all, PaymentMethod::Boleto).await == "canceled"
    })
    .await;
    let cancelled = vouchers.create("brazil-2", &["PIX", "BOLETO"]).await;
    assert_eq!(vouchers.live.cancel(&cancelled).await.expect(200)["status"], "CANCELLED");
    assert_eq!(vouchers.status_there(&cancelled, PaymentMethod::Boleto).await, "canceled");
    vouchers.check_ledger().await;
}

#[tokio::test]
async fn a_second_payment_by_multibanco_goes_back_by_a_refund_at_the_acquirer() {
    let vouchers = Vouchers::start().await;
    let charge = vouchers.create("europe-4", &["MULTIBANCO", "MBWAY"]).await;
    // A bank has accepted it when the other payment succeeds, and confirms it later.
    vouchers.stripe(PaymentMethod::Multibanco).control(
        "POST",
        "/behaviour",
        &json!({"voucher_processing": "when_accepted"}),
    );
    vouchers.act("/pay", &charge, PaymentMethod::Multibanco, json!({"processing_s": DAY})).await;
    vouchers.act("/pay", &charge, PaymentMethod::Mbway, json!({})).await;
    vouchers.until(&charge, "PAID").await;
    vouchers.days(2).await;
    wait_until("the return", async || {
        vouchers.read(&charge).await["returnedPayments"][0]["status"] == "returned"
    })
    .await;
    vouchers.check_ledger().await;
}

#[tokio::test]
async fn a_push_that_the_payer_accepted_is_processed_and_a_voucher_waits_also_beside_a_card() {
    let vouchers = Vouchers::start().await;
    let processing = json!({"voucher_processing": "when_accepted"});
    for method in [PaymentMethod::Boleto, PaymentMethod::Multibanco] {
        vouchers.stripe(method).control("POST", "/behaviour", &processing);
    }
    let boleto = vouchers.create("accepted-1", &["BOLETO", "CREDIT_CARD"]).await;
    vouchers.act("/pay", &boleto, PaymentMethod::Boleto, json!({"processing_s": DAY})).await;
    let push = vouchers.create("accepted-2", &["MBWAY"]).await;
    vouchers.act("/pay", &push, PaymentMethod::Mbway, json!({"processing_s": 60})).await;
    let both = vouchers.create("accepted-3", &["MULTIBANCO", "MBWAY"]).await;
    vouchers.act("/pay", &both, PaymentMethod::Multibanco, json!({"processing_s": DAY})).await;
    vouchers.act("/pay", &both, PaymentMethod::Mbway, json!({"processing_s": 0})).await;
    for charge in [&push, &both] {
        vouchers.until(charge, "PROCESSING").await;
    }
    wait_until("accepted", async || vouchers.row(&boleto).await.unconfirmed.is_some()).await;
    assert_eq!(vouchers.read(&boleto).await["status"], "WAITING_PAYMENT");
    for (charge, says) in [(&boleto, "Um banco aceitou o pagamento"), (&push, "pagamento com MB WAY")] {
        let page = vouchers.live.client.get(&format!("/checkout/{}", raw_id(charge))).await;
        let page = String::from_utf8_lossy(&page.bytes).into_owned();
        assert!(page.contains(says) && page.contains("Não pague de novo"), "{page}");
        assert!(!page.contains("Pague até"), "{page}");
    }
    // It may be paid until the bank has confirmed it.
    let refused = vouchers.live.cancel(&boleto).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "payment_not_cancellable"));
    let until = vouchers.row(&boleto).await.artefacts.ends_at(PaymentMethod::Boleto).unwrap().to_string();
    let message = refused.body["error"]["message"].as_str().unwrap();
    assert!(message.contains("may have been paid") && message.contains(&until), "{message}");
    // The voucher stays when the push fails.
    vouchers.act("/decline", &both, PaymentMethod::Mbway, json!({})).await;
    vouchers.until(&both, "WAITING_PAYMENT").await;
    vouchers.days(2).await;
    for charge in [&boleto, &push, &both] {
        vouchers.until(charge, "PAID").await;
    }
    vouchers.check_ledger().await;
}

#[tokio::test]
async fn limits_and_the_payers_data_are_checked_before_anything_is_stored() {
    let vouchers = Vouchers::start().await;
    for (methods, amount) in [
        (&["BOLETO"][..], 499),
        (&["BOLETO", "PIX"], 5_000_000),
        (&["MBWAY"], 49),
        (&["MBWAY"], 500_001),
        (&["MULTIBANCO"], 9_999_901),
    ] {
        let mut of_amount = body("limits", methods);
        of_amount["amount"] = amount.into();
        for answer in
            [vouchers.post(&of_amount).await, vouchers.live.service.post("/v1/payments", &of_amount).await]
        {
            assert_eq!(answer.problem().0, 422, "{methods:?} {amount}");
            assert!(
                answer.body["error"]["message"].as_str().unwrap().contains(" minor units of "),
                "{answer:?}"
            );
        }
    }
    let mut nobody = body("nobody", &["BOLETO"]);
    for field in ["customerName", "customerEmail", "customerDocument", "metadata"] {
        nobody.as_object_mut().unwrap().remove(field);
    }
    let answer = vouchers.post(&nobody).await;
    assert_eq!(answer.problem().0, 400);
    let mut params = answer.params();
    params.sort_unstable();
    assert_eq!(params, ["customerDocument", "customerEmail", "customerName", "metadata.payerAddress"]);
    // The sandbox takes it.
    vouchers.live.service.post("/v1/payments", &nobody).await.expect(201);
    assert_eq!(vouchers.live.client.get("/v1/payments").await.expect(200)["data"], json!([]));
}
