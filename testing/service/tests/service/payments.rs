//! Tests of `/v1/payments`: the same object as a charge, in the wire format of a transaction.

use std::sync::Arc;

use artefacts::boleto::Boleto;
use artefacts::digits::Digits;
use artefacts::multibanco;
use axum::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::account::terms::{Fee, MethodTerms};
use domain::payment_method::PaymentMethod;
use domain::time::Timestamp;
use local::stack::Options;
use screen_reader::{Page, Role};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::dashboard::shown;
use crate::support::{Answer, Listener, Service, eventually, id, raw_id, wait_until};

const METHOD_FIELDS: [&str; 15] = [
    "pixQrCode",
    "pixCopyPaste",
    "pixExpiresAt",
    "cardRedirectUrl",
    "mbEntity",
    "mbReference",
    "mbExpiresAt",
    "boletoBarcode",
    "boletoLine",
    "boletoPdfUrl",
    "boletoExpiresAt",
    "cryptoAddress",
    "cryptoAmount",
    "cryptoNetwork",
    "cryptoCurrency",
];

impl Service {
    async fn payment_answer(&self, body: &Value) -> Answer {
        self.post("/v1/payments", body).await
    }

    async fn payment(&self, extra: Value) -> Value {
        let key = format!("key-{}", domain::hex::encode(shared::random::bytes::<8>().unwrap()));
        let mut body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": key});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        self.payment_answer(&body).await.expect(201)
    }

    pub(crate) async fn read_payment(&self, payment: &Value) -> Value {
        self.get(&format!("/v1/payments/{}", id(payment))).await.expect(200)
    }

    /// Returns the URL of the payer's page for cards.
    async fn card_url(&self, payment: &Value) -> String {
        self.read_payment(payment).await["cardRedirectUrl"].as_str().unwrap().to_owned()
    }

    /// Reads the PDF of a receipt.
    async fn receipt(&self, path: &str) -> String {
        let receipt = self.get(path).await.expect(200);
        assert_eq!(receipt["contentType"], "application/pdf");
        let pdf = STANDARD.decode(receipt["base64"].as_str().unwrap()).unwrap();
        String::from_utf8_lossy(&pdf).into_owned()
    }

    async fn page(&self, url: &str) -> Answer {
        self.raw(Method::GET, url, &[], "").await
    }

    async fn post_card_step(&self, url: &str, step: &str) -> Answer {
        let form = [("content-type", "application/x-www-form-urlencoded")];
        self.raw(Method::POST, url, &form, format!("step={step}")).await
    }
}

/// Returns the names of the method fields that are not null.
fn filled_method_fields(payment: &Value) -> Vec<&'static str> {
    METHOD_FIELDS.into_iter().filter(|field| !payment[field].is_null()).collect()
}

#[tokio::test]
async fn a_payment_is_created_and_read_in_the_transaction_format() {
    let service = Service::start().await;
    let body = json!({
        "amount": 1990, "paymentMethods": ["PIX"], "customerId": "user-7", "customerName": "Maria da Silva",
        "customerDocument": "29537995593", "customerEmail": "maria@example.com",
        "metadata": {"order": 7, "_secret": 1, "med": {}}, "idempotencyKey": "order-7",
    });
    let created = service.payment_answer(&body).await.expect(201);
    assert_eq!(
        created,
        json!({
            "id": created["id"], "status": "WAITING_PAYMENT", "amount": 1990, "currency": "BRL",
            "paymentMethods": ["PIX"], "customerName": "Maria da Silva", "customerDocument": "29537995593",
            "customerEmail": "maria@example.com", "metadata": {"order": 7}, "createdAt": created["createdAt"],
        })
    );
    let read = service.read_payment(&created).await;
    for field in METHOD_FIELDS {
        assert!(read.get(field).is_some(), "{field} is present even when null");
    }
    assert_eq!(filled_method_fields(&read), ["pixQrCode", "pixCopyPaste", "pixExpiresAt"]);
    assert!(read["pixQrCode"].as_str().unwrap().starts_with("data:image/png;base64,iVBOR"));
    assert_eq!(
        (&read["paidWith"], &read["paidAt"], &read["providerFee"], &read["platformFee"], &read["netAmount"]),
        (&json!(null), &json!(null), &json!(0), &json!(0), &json!(1990))
    );
    // Each spelling of the id returns the same object, also on the charges surface.
    let raw = id(&created);
    for spelling in [raw.to_owned(), format!("ch_{raw}"), format!("tx_{raw}")] {
        assert_eq!(service.get(&format!("/v1/payments/{spelling}")).await.expect(200), read);
    }
    let charge = service.get(&format!("/v1/charges/{raw}")).await.expect(200);
    assert_eq!((&charge["status"], &charge["payment_method"]), (&json!("pending"), &json!("pix")));
    assert_eq!(charge["pix"]["br_code"], read["pixCopyPaste"]);

    // A paid payment shows its fees and its net amount.
    let terms = MethodTerms {
        acquirer_fee: Fee::new(5, 99).unwrap(),
        platform_fee: Fee::new(0, 100).unwrap(),
        ..MethodTerms::default()
    };
    service.set_terms(terms).await;
    let payment = service.payment(json!({"amount": 10_000})).await;
    service.sandbox(&payment, "pay", &json!({})).await;
    let paid = service.read_payment(&payment).await;
    assert_eq!(
        (&paid["status"], &paid["paidWith"], &paid["providerFee"], &paid["platformFee"], &paid["netAmount"]),
        (&json!("PAID"), &json!("PIX"), &json!(104), &json!(100), &json!(9_796))
    );
    assert!(paid["paidAt"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn each_method_creates_its_payment_details_and_settles() {
    let service = Service::start().await;
    let fields = |payment: &Value, names: &[&str]| {
        names.iter().map(|name| payment[name].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let card = service.payment(json!({"paymentMethods": ["CREDIT_CARD"], "currency": "USD"})).await;
    assert_eq!(filled_method_fields(&service.read_payment(&card).await), ["cardRedirectUrl"]);

    let phone = json!({"phone": "+351912345678"});
    let mbway = json!({"paymentMethods": ["MBWAY"], "currency": "EUR", "metadata": phone});
    let mbway = service.payment(mbway).await;
    assert_eq!(filled_method_fields(&service.read_payment(&mbway).await), [""; 0]);
    assert_eq!(mbway["metadata"], phone);

    let multibanco = json!({"paymentMethods": ["MULTIBANCO"], "currency": "EUR", "amount": 43_211});
    let multibanco = service.payment(multibanco).await;
    let read = service.read_payment(&multibanco).await;
    assert_eq!(filled_method_fields(&read), ["mbEntity", "mbReference", "mbExpiresAt"]);
    let [entity, reference] = fields(&read, &["mbEntity", "mbReference"]).try_into().unwrap();
    let (entity, reference) = (Digits::parse(&entity).unwrap(), Digits::parse(&reference).unwrap());
    let number = reference.part(0);
    assert_eq!(multibanco::reference(&entity, &number, 43_211), Ok(reference));

    let boleto = service.payment(json!({"paymentMethods": ["BOLETO"], "customerName": "Maria"})).await;
    let read = service.read_payment(&boleto).await;
    assert_eq!(
        filled_method_fields(&read),
        ["boletoBarcode", "boletoLine", "boletoPdfUrl", "boletoExpiresAt"]
    );
    let [barcode, line, url] =
        fields(&read, &["boletoBarcode", "boletoLine", "boletoPdfUrl"]).try_into().unwrap();
    let today = service.stack.clock.now().to_chrono().date_naive();
    let slip = Boleto::from_barcode(&barcode, today).unwrap();
    assert_eq!((slip.line().to_string(), slip.amount_centavos()), (line, 1000));
    let expires_at = read["boletoExpiresAt"].as_str().unwrap();
    assert!(
        expires_at.ends_with("T02:59:59.999Z"),
        "a boleto expires at the end of a day in São Paulo: {expires_at}"
    );
    let pdf = service.page(&url).await;
    assert_eq!((pdf.status.as_u16(), pdf.header("content-type")), (200, Some("application/pdf")));
    assert!(pdf.bytes.starts_with(b"%PDF-") && pdf.bytes.len() < 20_000);
    let boleto_url = url;

    for (currency, amount, token_amount, address, token) in [
        ("BRL", 1_000, "2.000000", "T", "USDT"),
        ("USDT", 1_234_567, "1.234567", "T", "USDT"),
        // One token costs 0.90 EUR. The token amount is rounded up.
        ("EUR", 100, "1.111112", "T", "USDT"),
        ("BTC", 1, "0.00000001", "tb1q", "BTC"),
    ] {
        let body = json!({"paymentMethods": ["CRYPTO"], "currency": currency, "amount": amount});
        let read = service.read_payment(&service.payment(body).await).await;
        assert_eq!(
            filled_method_fields(&read),
            ["cryptoAddress", "cryptoAmount", "cryptoNetwork", "cryptoCurrency"]
        );
        assert_eq!((&read["cryptoAmount"], &read["cryptoCurrency"]), (&json!(token_amount), &json!(token)));
        assert!(read["cryptoAddress"].as_str().unwrap().starts_with(address), "{read}");
    }
    let crypto = service.payment(json!({"paymentMethods": ["CRYPTO"], "currency": "USDT"})).await;

    for (payment, method, status) in [
        (card, "CREDIT_CARD", "APPROVED"),
        (mbway, "MBWAY", "PAID"),
        (multibanco, "MULTIBANCO", "PAID"),
        (boleto, "BOLETO", "PAID"),
        (crypto, "CRYPTO", "PAID"),
    ] {
        let charge = service.sandbox(&payment, "pay", &json!({})).await;
        assert_eq!((&charge["status"], &charge["pix"]), (&json!("paid"), &json!(null)));
        assert_eq!(
            (&charge["payment_method"], &charge["settlement"]),
            (&json!(method.to_lowercase()), &json!({}))
        );
        let paid = service.read_payment(&payment).await;
        assert_eq!((&paid["status"], &paid["paidWith"]), (&json!(status), &json!(method)));
    }
    // The PDF of a paid boleto is no longer available.
    assert_eq!(service.page(&boleto_url).await.status, 404);
    let wallets = service.get("/v1/wallets").await.expect(200);
    let codes: Vec<(&str, &str)> = wallets
        .as_array()
        .unwrap()
        .iter()
        .map(|w| (w["currency"].as_str().unwrap(), w["walletType"].as_str().unwrap()))
        .collect();
    let operational = "OPERATIONAL";
    let expected =
        [("BRL", operational), ("EUR", operational), ("USD", operational), ("USDT", "SELF_CUSTODY")];
    assert_eq!(codes, expected);
}

#[tokio::test]
async fn crypto_comes_to_the_merchants_own_wallet_and_available_pays_its_fee() {
    let service = Service::start().await;
    let pay = async |amount: i64| {
        let body = json!({"paymentMethods": ["CRYPTO"], "amount": amount});
        let payment = service.payment(body).await;
        service.sandbox(&payment, "pay", &json!({})).await;
        payment
    };
    let wallets = async || {
        let wallets = service.get("/v1/wallets").await.expect(200);
        let wallets = wallets.as_array().unwrap().iter().map(|wallet| wallet["balance"].as_i64().unwrap());
        wallets.collect::<Vec<_>>()
    };
    let balance = async || service.get("/v1/wallets/balance").await.expect(200);
    let currency = service.read_payment(&pay(1_000).await).await["currency"].clone();
    assert_eq!(wallets().await.last(), Some(&1_000), "{currency}");
    assert_eq!((&balance().await["available"], &balance().await["total"]), (&json!(0), &json!(0)));
    assert_eq!(balance().await["balances"].as_array().unwrap().len(), 1);
    assert_eq!(service.movements("").await, Vec::<Value>::new());

    service
        .change_settings(|settings| {
            let fee = Fee::new(7, 100).unwrap();
            let terms = MethodTerms { platform_fee: fee, hold_days: 2, ..MethodTerms::default() };
            settings.terms.0.insert(PaymentMethod::Crypto, terms);
        })
        .await;
    let paid = pay(2_000).await;
    assert_eq!(wallets().await.last(), Some(&3_000));
    let fees = service.movements(&format!("?currency={}", currency.as_str().unwrap())).await;
    let shown = ["type", "amount", "fee", "net"].map(|field| fees[0][field].clone());
    assert_eq!((fees.len(), shown), (1, [json!("fee"), json!(0), json!(27), json!(-27)]));
    let disputed = service.sandbox_answer(&paid, "med-cases", &json!({})).await;
    assert_eq!(disputed.problem().0, 422);
    service.check_ledger().await;
}

#[tokio::test]
async fn paying_by_one_method_closes_the_others() {
    let service = Service::start().await;
    let methods = json!({"paymentMethods": ["BOLETO", "PIX", "CREDIT_CARD"]});
    let payment = service.payment(methods).await;
    let charge = service.get(&format!("/v1/charges/{}", id(&payment))).await.expect(200);
    assert_eq!(charge["payment_method"], "boleto", "`payment_method` is the first requested method");
    let refused = service.sandbox_answer(&payment, "pay", &json!({"method": "MBWAY"})).await;
    assert_eq!((refused.problem().0, refused.params()), (400, vec!["method"]));
    let paid = service.sandbox(&payment, "pay", &json!({"method": "PIX"})).await;
    assert_eq!((&paid["status"], &paid["payment_method"]), (&json!("paid"), &json!("pix")));
    let again = service.sandbox(&payment, "pay", &json!({"method": "BOLETO"})).await;
    assert_eq!(again, paid);
    assert_eq!(service.count_returned_payments().await, 1);
    let url = service.card_url(&payment).await;
    assert!(shown(&service.page(&url).await).contains("não pode mais ser paga com cartão"));
}

#[tokio::test]
async fn a_card_may_be_declined_and_then_paid() {
    let service = Service::start().await;
    let [paid, expired] = [
        service.payment(json!({"paymentMethods": ["CREDIT_CARD"]})).await,
        service.payment(json!({"paymentMethods": ["CREDIT_CARD"]})).await,
    ];
    let declined = json!({"retry": true, "reason": "No money.", "code": "insufficient_funds"});
    for payment in [&paid, &expired] {
        assert_eq!(service.sandbox(payment, "fail", &declined).await["status"], "pending");
    }
    assert_eq!(service.sandbox(&paid, "pay", &json!({})).await["status"], "paid");
    service.sandbox(&expired, "expire", &json!({})).await;
    let failure = &service.read_payment(&expired).await["metadata"]["failure"];
    assert_eq!(failure["providerErrorCode"], "insufficient_funds", "{failure}");
    // A decline is no event.
    let timeline =
        service.get(&format!("/v1/charges/ch_{}/timeline", id(&paid))).await.expect(200).to_string();
    assert!(!timeline.contains("payment.failed") && !timeline.contains("charge.failed"), "{timeline}");
    let pix = service.payment(json!({"paymentMethods": ["PIX"]})).await;
    let refused = service.sandbox_answer(&pix, "fail", &declined).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "unprocessable_entity"));
}

#[tokio::test]
async fn one_idempotency_key_creates_one_payment() {
    let service = Service::start().await;
    let body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "same-key-1"});
    let created = service.payment_answer(&body).await;
    assert_eq!(created.header("idempotent-replayed"), None);
    let created = created.expect(201);
    let again = service.payment_answer(&body).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.expect(201)["id"], created["id"]);
    let other = json!({"amount": 1001, "paymentMethods": ["PIX"], "idempotencyKey": "same-key-1"});
    let reused = service.payment_answer(&other).await;
    assert_eq!(reused.problem(), (409, "conflict_error", "idempotency_key_reused"));
    // The charges surface has a separate idempotency namespace.
    let charge = service.post_charge("same-key-1", &json!({"amount": 1000})).await.expect(201);
    assert_ne!(raw_id(&charge), id(&created));
}

#[tokio::test]
async fn a_payment_is_found_only_in_its_scope_and_the_message_names_it() {
    let service = Service::start().await;
    let seed = &service.stack.seed;
    let payment = service.payment(json!({})).await;
    for key in [&seed.first.live_api_key, &seed.other.test_api_key] {
        let path = format!("/v1/payments/{}", id(&payment));
        assert_eq!(service.get_as(key, &path).await.problem(), (404, "not_found_error", "not_found"));
        let cancel = service.post_as(key, &format!("{path}/cancel"), &json!({}), &[]).await;
        assert_eq!(cancel.problem(), (404, "not_found_error", "not_found"));
    }
    let unknown = service.get("/v1/payments/none").await;
    assert_eq!(unknown.code(), "not_found");
    let unknown = unknown.body["error"]["message"].as_str().unwrap();
    assert!(unknown.contains("payment") && !unknown.contains("charge"), "{unknown}");
    for route in ["refund", "cancel", "resend-webhook"] {
        let body = json!({"idempotencyKey": "refund-0001"});
        let answer = service.post(&format!("/v1/payments/none/{route}"), &body).await;
        assert_eq!((answer.code(), answer.body["error"]["message"].as_str()), ("not_found", Some(unknown)));
    }
    for route in ["refunds", "provider-status", "receipt"] {
        let answer = service.get(&format!("/v1/payments/none/{route}")).await;
        assert_eq!((answer.code(), answer.body["error"]["message"].as_str()), ("not_found", Some(unknown)));
    }
}

#[tokio::test]
async fn a_waiting_or_held_payment_can_be_cancelled_once_and_a_settled_one_cannot() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.failed"]).await;
    let cancel = async |payment: &Value| {
        service.post(&format!("/v1/payments/{}/cancel", id(payment)), &json!({})).await
    };
    let payment = service.payment(json!({"paymentMethods": ["PIX", "BOLETO"]})).await;
    let cancelled = cancel(&payment).await.expect(200);
    assert_eq!((&cancelled["status"], &cancelled["id"]), (&json!("CANCELLED"), &payment["id"]));
    assert_eq!(cancelled["metadata"]["failure"]["providerErrorCode"], "canceled");
    assert_eq!(cancelled, service.read_payment(&payment).await);
    let event = listener.wait_for_event("charge.failed").await.json();
    assert_eq!(event["data"]["object"]["status"], "cancelled");
    let again = cancel(&payment).await;
    assert_eq!(again.problem(), (422, "invalid_request_error", "payment_not_cancellable"));
    // A payment after the cancellation is returned to its payer.
    service.sandbox(&payment, "pay", &json!({})).await;
    assert_eq!(service.count_returned_payments().await, 1);

    let paid = service.payment(json!({})).await;
    service.sandbox(&paid, "pay", &json!({})).await;
    assert_eq!(cancel(&paid).await.code(), "payment_not_cancellable");

    // Cancelling a charge that is held for review returns its payment to the payer.
    let held = service.charge_locked_to_payer().await;
    service.sandbox(&held, "pay", &json!({"payer_tax_id": null})).await;
    assert_eq!(cancel(&held).await.expect(200)["status"], "CANCELLED");
    assert_eq!(service.count_returned_payments().await, 2);
    let review = service.sandbox_answer(&held, "review", &json!({"decision": "approve"})).await;
    assert_eq!(review.code(), "unprocessable_entity");
    assert_eq!(service.get("/v1/wallets/balance").await.expect(200)["available"], 1000);
}

/// The steps that a page of a card offers.
fn buttons(answer: &Answer) -> Vec<String> {
    shown(answer).all(Role::Button).iter().map(Page::value).collect()
}

#[tokio::test]
async fn the_3_d_secure_page_approves_or_declines_a_payment_and_links_back_to_the_shop() {
    let service = Service::start().await;
    for (step, status, title) in
        [("approve", "APPROVED", "Pagamento aprovado"), ("decline", "REFUSED", "Pagamento recusado")]
    {
        let body = json!({"paymentMethods": ["CREDIT_CARD"], "metadata": {"returnUrl": "https://shop.example/back?o=7"}});
        let payment = service.payment(body).await;
        let url = service.card_url(&payment).await;
        let first = service.page(&url).await;
        assert_eq!(
            (first.status.as_u16(), first.header("content-type")),
            (200, Some("text/html; charset=utf-8"))
        );
        let policy = first.header("content-security-policy").unwrap();
        assert!(policy.contains("form-action 'self';"), "{policy}");
        assert_eq!(buttons(&first), ["begin"]);
        // A decision before the step `begin` has no effect.
        assert_eq!(service.post_card_step(&url, step).await.status, 303);
        assert_eq!(service.read_payment(&payment).await["status"], "WAITING_PAYMENT");

        let started = service.post_card_step(&url, "begin").await;
        assert_eq!((started.status.as_u16(), started.header("location")), (303, Some("card")));
        assert_eq!(service.read_payment(&payment).await["status"], "PROCESSING");
        assert_eq!(buttons(&service.page(&url).await), ["approve", "decline"]);
        let decided = service.post_card_step(&url, step).await;
        assert_eq!((decided.status.as_u16(), decided.header("location")), (303, Some("card")));
        assert_eq!(service.read_payment(&payment).await["status"], status);
        // Later steps do not change the decision.
        for other in ["approve", "decline", "begin", ""] {
            assert_eq!(service.post_card_step(&url, other).await.status, 303);
        }
        assert_eq!(service.read_payment(&payment).await["status"], status);
        let last = service.page(&url).await;
        assert_eq!(last.header("refresh"), Some("2; url=https://shop.example/back?o=7"));
        let last = shown(&last);
        assert_eq!(last.names(Role::Heading), [title]);
        assert_eq!(last.get(Role::Link, "Voltar à loja").target(), "https://shop.example/back?o=7");
    }
    assert_eq!(service.get("/v1/wallets/balance").await.expect(200)["available"], 1000);
    let pix = service.payment(json!({})).await;
    let none = service.page(&format!("/checkout/{}/card", id(&pix))).await;
    assert_eq!(none.status, 404);
    let garbled = service.page("/checkout/%FF/card").await;
    let unknown = service.post_card_step("/checkout/none/card", "approve").await;
    for answer in [garbled, unknown] {
        let shown = (answer.status.as_u16(), answer.header("content-type"));
        assert_eq!(shown, (404, Some("text/html; charset=utf-8")));
    }
}

#[tokio::test]
async fn a_payment_expires_when_its_last_method_expires() {
    let service = Service::start_with(Options { event_sources: true, ..Options::in_memory() }).await;
    let body =
        json!({"paymentMethods": ["MBWAY"], "currency": "EUR", "metadata": {"phone": "+351912345678"}});
    let short = service.payment(body).await;
    let long = service.payment(json!({"paymentMethods": ["PIX", "BOLETO"]})).await;
    service.advance_seconds(241).await;
    assert_eq!(service.read_payment(&short).await["status"], "EXPIRED");
    service.advance_seconds(3_600).await;
    // The Pix code has expired and the boleto has not.
    assert_eq!(service.read_payment(&long).await["status"], "WAITING_PAYMENT");
    service.sandbox(&long, "pay", &json!({"method": "PIX"})).await;
    assert_eq!(
        (service.count_returned_payments().await, service.read_payment(&long).await["status"].clone()),
        (1, json!("WAITING_PAYMENT"))
    );
    service.advance_seconds(5 * 86_400).await;
    assert_eq!(service.read_payment(&long).await["status"], "EXPIRED");
    // A card payment left in `PROCESSING` expires too.
    let card = service.payment(json!({"paymentMethods": ["CREDIT_CARD"]})).await;
    let url = service.card_url(&card).await;
    service.post_card_step(&url, "begin").await;
    service.advance_seconds(86_401).await;
    wait_until("the scheduler persists all three expiries", async || {
        service.list("/v1/charges?status=expired").await.len() == 3
    })
    .await;
    assert_eq!(service.read_payment(&card).await["status"], "EXPIRED");
}

#[tokio::test]
async fn the_receipt_and_the_provider_status_of_a_payment_have_no_document_of_the_payer() {
    let service = Service::start().await;
    let payment = service.payment(json!({"customerName": "Maria", "customerDocument": "29537995593"})).await;
    let path = format!("/v1/payments/{}/receipt", id(&payment));
    let early = service.get(&path).await;
    assert_eq!(early.problem(), (422, "invalid_request_error", "unprocessable_entity"));
    service.sandbox(&payment, "pay", &json!({"payer_tax_id": "29537995593"})).await;
    let text = service.receipt(&path).await;
    assert!(text.starts_with("%PDF-") && text.contains(id(&payment)), "{text}");
    assert!(!text.contains("29537995593") && !text.contains("295.379"));
    assert!(!text.contains("Total devolvido"));
    service.refund(&payment, "refund-0001", json!({"amount": 300})).await.expect(201);
    let receipt = eventually("the refund is on the receipt", async || {
        Some(service.receipt(&path).await).filter(|text| text.contains("Total devolvido"))
    })
    .await;
    assert!(receipt.contains("R$ 3,00"), "{receipt}");
    let seed = &service.stack.seed;
    assert_eq!(service.get_as(&seed.other.test_api_key, &path).await.code(), "not_found");

    let payment = service.payment(json!({"customerDocument": "29537995593"})).await;
    let path = format!("/v1/payments/{}/provider-status", id(&payment));
    let waiting = service.get(&path).await.expect(200);
    assert_eq!(
        (&waiting["localStatus"], &waiting["provider"], &waiting["providerStatus"], waiting.get("error")),
        (&json!("WAITING_PAYMENT"), &json!("sandbox"), &json!("active"), None)
    );
    service.sandbox(&payment, "pay", &json!({})).await;
    let paid = service.get(&path).await.expect(200);
    assert_eq!((&paid["localStatus"], &paid["providerStatus"]), (&json!("PAID"), &json!("paid")));
    assert_eq!(paid["rawResponse"]["id"], paid["providerTransactionId"]);
    assert!(!paid.to_string().contains("29537995593"));
}

#[tokio::test]
async fn a_card_approved_twice_or_too_late_causes_no_second_payment() {
    let service = Arc::new(Service::start().await);
    let payment = service.payment(json!({"paymentMethods": ["CREDIT_CARD"]})).await;
    let url = service.card_url(&payment).await;
    service.post_card_step(&url, "begin").await;
    let mut clicks = JoinSet::new();
    for _ in 0..8 {
        let (service, url) = (Arc::clone(&service), url.clone());
        clicks.spawn(async move { service.post_card_step(&url, "approve").await.status });
    }
    assert!(clicks.join_all().await.iter().all(|status| *status == 303));
    assert_eq!(service.read_payment(&payment).await["status"], "APPROVED");
    assert_eq!(service.count_returned_payments().await, 0);

    // The card has expired and the boleto has not.
    let payment = service.payment(json!({"paymentMethods": ["CREDIT_CARD", "BOLETO"]})).await;
    let started = service.payment(json!({"paymentMethods": ["CREDIT_CARD", "BOLETO"]})).await;
    let (url, started_url) = (service.card_url(&payment).await, service.card_url(&started).await);
    service.post_card_step(&started_url, "begin").await;
    service.advance_seconds(86_401).await;
    for (payment, url, status) in
        [(&payment, &url, "WAITING_PAYMENT"), (&started, &started_url, "PROCESSING")]
    {
        let page = shown(&service.page(url).await);
        assert!(
            page.contains("não pode mais ser paga com cartão") && page.all(Role::Button).is_empty(),
            "{page}"
        );
        for step in ["begin", "approve", "decline"] {
            assert_eq!(service.post_card_step(url, step).await.status, 303);
        }
        assert_eq!(service.read_payment(payment).await["status"], status);
        assert_eq!(service.sandbox(payment, "pay", &json!({"method": "BOLETO"})).await["status"], "paid");
    }
    assert_eq!(service.count_returned_payments().await, 0);
}

#[tokio::test]
async fn a_payment_with_a_slow_acquirer_is_pending_until_it_is_finalised_or_refused() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created", "charge.failed"]).await;
    let methods = json!({"paymentMethods": ["PIX", "CREDIT_CARD"]});
    let later = |sandbox: &str| {
        let mut body = methods.clone();
        body["metadata"] = json!({"sandbox": sandbox, "returnUrl": "https://loja.example/volta"});
        body
    };
    let payment = service.payment(later("finalise:later")).await;
    assert_eq!(payment["status"], "PENDING");
    let finalised = eventually("the payment is finalised", async || {
        Some(service.read_payment(&payment).await).filter(|payment| payment["status"] == "WAITING_PAYMENT")
    })
    .await;
    assert_eq!(
        filled_method_fields(&finalised),
        ["pixQrCode", "pixCopyPaste", "pixExpiresAt", "cardRedirectUrl"]
    );
    let created = listener.wait_for_event("charge.created").await.json();
    assert_eq!(created["data"]["object"]["pix"]["br_code"], finalised["pixCopyPaste"]);
    service.sandbox(&payment, "pay", &json!({})).await;
    assert_eq!(service.read_payment(&payment).await["status"], "PAID");

    let refused = service.payment(later("finalise:refuse")).await;
    eventually("the payment is refused", async || {
        Some(service.read_payment(&refused).await).filter(|payment| payment["status"] == "REFUSED")
    })
    .await;
    let failed = listener.wait_for_event("charge.failed").await.json();
    assert_eq!(failed["data"]["object"]["metadata"]["failure"]["providerErrorCode"], "refused");
    let status = service.get(&format!("/v1/payments/{}/provider-status", id(&refused))).await.expect(200);
    assert_eq!(status["error"], "TRANSACTION_HAS_NO_PROVIDER_REFERENCE");

    // A payment can be cancelled before the acquirer has finalised it.
    let cancelled = service.payment(later("finalise:unavailable")).await;
    let cancel =
        service.post(&format!("/v1/payments/{}/cancel", id(&cancelled)), &json!({})).await.expect(200);
    assert_eq!(cancel["status"], "CANCELLED");

    // A payment whose acquirer stays unavailable is refused.
    let away = service.payment(json!({"metadata": {"sandbox": "finalise:unavailable"}})).await;
    assert_eq!(service.read_payment(&away).await["status"], "PENDING");
    let page = format!("{}/checkout/{}", service.base_url, id(&away));
    assert_eq!(service.page(&page).await.status, 200);
    service.advance_seconds(601).await;
    let refused = eventually("the payment is refused", async || {
        Some(service.read_payment(&away).await).filter(|payment| payment["status"] == "REFUSED")
    })
    .await;
    assert_eq!(refused["metadata"]["failure"]["providerErrorCode"], "acquirer_unavailable");
}

#[tokio::test]
async fn a_boleto_that_would_be_due_after_its_last_possible_day_is_refused() {
    let service = Service::start().await;
    let last: Timestamp = "2049-10-10T12:00:00-03:00".parse().unwrap();
    loop {
        let left = last.millis_since(service.stack.clock.now()) / 1_000;
        if left <= 0 {
            break;
        }
        service.advance_seconds(left.min(10 * 365 * 86_400)).await;
    }
    let boleto = json!({"paymentMethods": ["BOLETO", "PIX"]});
    assert_eq!(service.payment(boleto.clone()).await["status"], "WAITING_PAYMENT");
    service.advance_seconds(86_400).await;
    for methods in [json!(["BOLETO"]), json!(["PIX", "BOLETO"])] {
        let body = json!({"amount": 1000, "paymentMethods": methods, "idempotencyKey": "order-late-1"});
        let refused = service.payment_answer(&body).await.expect(422);
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("`paymentMethods`: BOLETO") && message.contains("2049-10-13"), "{message}");
    }
    assert_eq!(service.payment(json!({"paymentMethods": ["PIX"]})).await["status"], "WAITING_PAYMENT");
}
