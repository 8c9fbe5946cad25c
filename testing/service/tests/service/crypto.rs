//! Tests of live charges by crypto at a stand-in of BTCPay Server.

use axum::http::Method;
use domain::calendar::Day;
use domain::charge::Charge;
use domain::ids::ChargeId;
use domain::payment_method::PaymentMethod;
use local::stack::Options;
use serde_json::{Value, json};
use services::Receipts;
use services::reconciliation::{Reconciler, Reconciliation};

use crate::live_charges::Live;
use crate::support::{Answer, Client, advance_until, id, operator, raw_id, wait_until};

/// What a charge of the tests costs, at the stand-in's price, and in Bitcoin.
const AMOUNT: i64 = 5_400_000;
const DUE: &str = "0.10000000";

const HOUR: i64 = 60 * 60;

struct Crypto {
    live: Live,
}

impl Crypto {
    async fn start() -> Self {
        let live = Live::start_with(Options { other_acquirers: true, ..Options::in_memory() }).await;
        Self { live }
    }

    async fn post(&self, key: &str, methods: &[&str]) -> Answer {
        let body = json!({"amount": AMOUNT, "paymentMethods": methods, "idempotencyKey": key});
        self.live.client.post("/v1/payments", &body).await
    }

    async fn create(&self, key: &str, methods: &[&str]) -> Value {
        let created = self.post(key, methods).await.expect(201);
        self.until(&created, "WAITING_PAYMENT").await
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
            "EXPIRED" => advance_until((&self.live.service, HOUR), status, is_reached).await,
            _ => wait_until(status, is_reached).await,
        }
        self.read(charge).await
    }

    fn control(&self, method: &str, path: &str, body: &Value) -> Value {
        let btcpay = &self.live.service.stack.others.as_ref().unwrap().btcpay;
        let (status, answer) = btcpay.control(method, path, body);
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    /// Plays the payer and the network.
    fn act(&self, path: &str, charge: &Value, more: &Value) -> Value {
        let mut body = json!({"order_id": ChargeId::parse_any(id(charge)).unwrap()});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.control("POST", path, &body)
    }

    fn pay(&self, charge: &Value, amount: &str) {
        self.act("/pay", charge, &json!({"amount": amount, "confirmed": true}));
    }

    fn invoices(&self) -> Vec<Value> {
        self.control("GET", "/books", &json!({}))["invoices"].as_array().unwrap().clone()
    }

    /// What the own wallet has in BRL, once it has this much.
    async fn until_own(&self, expected: i64) {
        wait_until("the own wallet", async || {
            let wallets = self.live.client.get("/v1/wallets").await.expect(200);
            let own =
                wallets.as_array().unwrap().iter().find(|wallet| wallet["walletType"] == "SELF_CUSTODY");
            own.map_or(0, |own| own["balance"].as_i64().unwrap()) == expected
        })
        .await;
    }

    /// The ledger is right, nothing is available, and the own wallet has what the stand-in's books have in BRL.
    async fn check_ledger(&self) {
        let invoices = self.invoices();
        let payments = invoices.iter().flat_map(|invoice| invoice["paymentMethods"].as_array().unwrap());
        let payments = payments.flat_map(|method| method["payments"].as_array().unwrap());
        let confirmed = payments.filter(|payment| payment["status"] == "Settled");
        let satoshi: i64 = confirmed
            .map(|payment| payment["value"].as_str().unwrap().replace('.', "").parse::<i64>().unwrap())
            .sum();
        // 0.10000000 BTC cost R$ 54.000,00.
        self.until_own(satoshi * 54 / 100).await;
        let balance = self.live.client.get("/v1/wallets/balance").await.expect(200);
        assert_eq!((&balance["total"], &balance["retained"]), (&json!(0), &json!(0)));
        self.live.service.check_ledger_of(&self.live.scope()).await;
        self.check_reconciled().await;
    }

    /// Each payment there in the days of the test is recorded once, and no other is.
    async fn check_reconciled(&self) {
        let service = &self.live.service;
        let (acquirers, now) = (service.acquirers(), service.stack.clock.now());
        let account = self.live.scope().account;
        let found = acquirers.current(&account, PaymentMethod::Crypto).await.unwrap().unwrap();
        let reconciler = Reconciler::new(service.store(), acquirers, service.stack.clock.clone());
        let id = Some(found.acquirer.connection);
        let connection = reconciler.connections().at(account, id).await.unwrap();
        let mut payments = 0;
        for day in [now.plus_seconds(-24 * HOUR).unwrap(), now].map(Day::of) {
            let found = Box::pin(reconciler.reconcile(&connection, (day, false), now)).await.unwrap();
            let Reconciliation::Movements(found) = found else { panic!("{found:?}") };
            assert_eq!(found.differences, []);
            payments += found.payments;
        }
        assert!(payments > 0);
    }
}

#[tokio::test]
async fn a_payment_is_processed_until_its_network_confirms_it() {
    let crypto = Crypto::start().await;
    let charge = crypto.create("crypto-0001", &["CRYPTO"]).await;
    let shown = ["cryptoAmount", "cryptoCurrency", "cryptoNetwork"].map(|field| charge[field].clone());
    assert_eq!(shown, [json!(DUE), json!("BTC"), json!("BITCOIN")], "{charge}");
    let page = crypto.live.client.get(&format!("/checkout/{}", raw_id(&charge))).await;
    let address = charge["cryptoAddress"].as_str().unwrap();
    assert!(String::from_utf8(page.bytes.to_vec()).unwrap().contains(address));
    let code = crypto.live.client.get(&format!("/checkout/{}/crypto.png", raw_id(&charge))).await;
    assert_eq!((code.status.as_u16(), code.header("content-type")), (200, Some("image/png")));

    crypto.act("/pay", &charge, &json!({}));
    crypto.until(&charge, "PROCESSING").await;
    assert_eq!(crypto.live.cancel(&charge).await.problem().0, 422);
    // A transaction that replaces it takes the invoice back there, and leaves the charge.
    crypto.act("/replace", &charge, &json!({}));
    wait_until("the server waits again", async || crypto.invoices()[0]["status"] == "New").await;
    crypto.act("/pay", &charge, &json!({}));
    assert_eq!(crypto.read(&charge).await["status"], "PROCESSING");
    crypto.act("/confirm", &charge, &json!({}));
    let paid = crypto.until(&charge, "PAID").await;
    assert_eq!((&paid["paidWith"], &paid["providerFee"]), (&json!("CRYPTO"), &json!(0)), "{paid}");
    let refund = json!({"amount": 100, "idempotencyKey": "refund-0001"});
    let path = format!("/v1/payments/{}/refund", raw_id(&charge));
    let refused = crypto.live.client.post(&path, &refund).await;
    assert_eq!((refused.problem().0, refused.problem().2), (422, "REFUND_NOT_SUPPORTED"));
    let seen = crypto.live.client.get(&format!("/v1/payments/{}/provider-status", raw_id(&charge))).await;
    assert_eq!(seen.expect(200)["provider"], "crypto");
    crypto.check_ledger().await;
}

#[tokio::test]
async fn what_comes_too_late_or_exceeds_the_amount_is_a_receipt_in_the_own_wallet() {
    let crypto = Crypto::start().await;
    let over = crypto.create("crypto-0002", &["CRYPTO"]).await;
    crypto.pay(&over, "0.15000000");
    crypto.until(&over, "PAID").await;
    let part = crypto.create("crypto-0003", &["CRYPTO"]).await;
    crypto.pay(&part, "0.04000000");
    let late = crypto.create("crypto-0004", &["CRYPTO"]).await;
    let cancelled = crypto.create("crypto-0005", &["CRYPTO"]).await;
    assert_eq!(crypto.live.cancel(&cancelled).await.expect(200)["status"], "CANCELLED");
    crypto.pay(&cancelled, DUE);
    for charge in [&part, &late] {
        crypto.until(charge, "EXPIRED").await;
    }
    crypto.pay(&part, "0.06000000");
    crypto.pay(&late, DUE);
    crypto.live.service.advance_seconds(HOUR).await;
    crypto.check_ledger().await;
    crypto.until_own(AMOUNT * 45 / 10).await;

    let (scope, receipts) = (crypto.live.scope(), Receipts::new(crypto.live.service.store()));
    let (waiting, _) = receipts.waiting(&scope, None).await.unwrap();
    let meant_for = |charge: &Value| {
        let charge = ChargeId::parse_any(id(charge)).unwrap();
        let its = waiting.iter().filter(|receipt| receipt.meant_for() == Some(charge));
        let mut amounts: Vec<i64> = its.map(|receipt| receipt.amount.minor()).collect();
        amounts.sort_unstable();
        amounts
    };
    let expected = [vec![AMOUNT / 2], vec![AMOUNT * 4 / 10, AMOUNT * 6 / 10], vec![AMOUNT], vec![AMOUNT]];
    assert_eq!([&over, &part, &late, &cancelled].map(meant_for), expected);
    // An operator makes the late one pay its charge. It can't go back.
    let now = crypto.live.service.stack.clock.now();
    let of_late = ChargeId::parse_any(id(&late)).unwrap();
    let receipt = waiting.iter().find(|receipt| receipt.meant_for() == Some(of_late)).unwrap();
    let back = receipts.give_back(&scope, &receipt.payment_id, Some(&operator()), now).await;
    assert!(back.unwrap_err().to_string().contains("merchant's own wallet"));
    receipts.apply(&scope, &receipt.payment_id, of_late, Some(&operator()), now).await.unwrap();
    crypto.until(&late, "PAID").await;
    // The others stay in the merchant's wallet.
    for receipt in waiting.iter().filter(|receipt| receipt.meant_for() != Some(of_late)) {
        receipts.credit(&scope, &receipt.payment_id, &operator(), now).await.unwrap();
        receipts.credit(&scope, &receipt.payment_id, &operator(), now).await.unwrap_err();
    }
    wait_until("nothing waits", async || receipts.waiting(&scope, None).await.unwrap().0.is_empty()).await;
    crypto.check_ledger().await;
}

#[tokio::test]
async fn the_first_payment_closes_the_other_legs_and_a_later_one_is_a_receipt() {
    let crypto = Crypto::start().await;
    let charge = crypto.create("crypto-0006", &["PIX", "CRYPTO"]).await;
    let with_pix = json!({"pix": {"txid": crypto.row(&charge).await.id.txid()}});
    crypto.live.pay(&with_pix, bank::PayRequest::default());
    assert_eq!(crypto.until(&charge, "PAID").await["paidWith"], "PIX");
    wait_until("the invoice is closed", async || crypto.invoices()[0]["status"] == "Invalid").await;
    crypto.pay(&charge, DUE);
    crypto.live.service.advance_seconds(HOUR).await;
    crypto.until_own(AMOUNT).await;
    assert_eq!(crypto.read(&charge).await["paidWith"], "PIX");

    let other = crypto.create("crypto-0007", &["PIX", "CRYPTO"]).await;
    crypto.pay(&other, DUE);
    assert_eq!(crypto.until(&other, "PAID").await["paidWith"], "CRYPTO");
    let cob = crypto.row(&other).await.id.txid();
    wait_until("the cob is removed", async || {
        let books = crypto.live.service.stack.bank.snapshot();
        let cobs = books["cobs"].as_array().unwrap().clone();
        cobs.iter().any(|it| it["txid"] == *cob && it["status"] == "REMOVIDA_PELO_USUARIO_RECEBEDOR")
    })
    .await;
}

#[tokio::test]
async fn a_transfer_that_another_payment_overtakes_is_a_receipt_without_a_notification() {
    let crypto = Crypto::start().await;
    let replaced = crypto.create("crypto-0009", &["PIX", "CRYPTO"]).await;
    crypto.act("/pay", &replaced, &json!({}));
    crypto.until(&replaced, "PROCESSING").await;
    // The other method can be used again.
    crypto.act("/replace", &replaced, &json!({}));
    advance_until((&crypto.live.service, 60), "the charge waits again", async || {
        crypto.read(&replaced).await["status"] == "WAITING_PAYMENT"
    })
    .await;

    let charge = crypto.create("crypto-0010", &["PIX", "CRYPTO"]).await;
    crypto.act("/pay", &charge, &json!({}));
    crypto.until(&charge, "PROCESSING").await;
    let with_pix = json!({"pix": {"txid": crypto.row(&charge).await.id.txid()}});
    crypto.live.pay(&with_pix, bank::PayRequest::default());
    assert_eq!(crypto.until(&charge, "PAID").await["paidWith"], "PIX");
    crypto.control("POST", "/faults", &json!({"kind": "lost_notification", "count": 100}));
    crypto.act("/confirm", &charge, &json!({}));
    advance_until((&crypto.live.service, 400), "the sweep", async || {
        let wallets = crypto.live.client.get("/v1/wallets").await.expect(200);
        wallets
            .as_array()
            .unwrap()
            .iter()
            .any(|wallet| wallet["walletType"] == "SELF_CUSTODY" && wallet["balance"] == AMOUNT)
    })
    .await;
}

#[tokio::test]
async fn lost_answers_and_notifications_change_nothing() {
    let crypto = Crypto::start().await;
    let fault = |kind: &str, on: &str| {
        crypto.control("POST", "/faults", &json!({"kind": kind, "on": on, "count": 1}));
    };
    // There are no idempotency keys: the second creation finds the invoice of the first one.
    fault("lost_answer", "POST stores/{storeId}/invoices");
    let first = crypto.post("crypto-0008", &["CRYPTO"]).await;
    assert!([201, 503].contains(&first.status.as_u16()), "{first:?}");
    let charge = crypto.create("crypto-0008", &["CRYPTO"]).await;
    assert_eq!(crypto.invoices().len(), 1);
    // The sweep finds what no notification names.
    crypto.control("POST", "/faults", &json!({"kind": "lost_notification", "count": 100}));
    crypto.pay(&charge, DUE);
    advance_until((&crypto.live.service, 400), "the sweep", async || {
        crypto.read(&charge).await["status"] == "PAID"
    })
    .await;
    crypto.check_ledger().await;
}

#[tokio::test]
async fn only_signed_notifications_of_the_store_are_accepted() {
    let crypto = Crypto::start().await;
    let webhooks = &crypto.control("GET", "/books", &json!({}))["webhooks"];
    let webhook = webhooks.as_object().unwrap().values().next().unwrap();
    let url = webhook["url"].as_str().unwrap();
    for headers in [&[][..], &[("btcpay-sig", "sha256=00")]] {
        let answer = Client::of_other_server("").raw(Method::POST, url, headers, "{}").await;
        assert_eq!(answer.status.as_u16(), 401);
    }
}
