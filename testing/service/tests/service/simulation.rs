//! Tests of the form of the checkout page that simulates the payment of a test charge.

use axum::http::Method;
use screen_reader::{Page, Role};
use serde_json::{Value, json};

use crate::dashboard::{encoded, shown};
use crate::support::{Answer, Listener, Service, id, raw_id};

const FORM: &str = "application/x-www-form-urlencoded";

impl Service {
    async fn checkout_page(&self, object: &Value) -> Page {
        let page = self.raw(Method::GET, &format!("/checkout/{}", raw_id(object)), &[], "").await;
        assert_eq!(page.status, 200);
        shown(&page)
    }

    /// Posts the form of the checkout page.
    async fn simulate(&self, object: &Value, form: &str) -> Answer {
        self.simulate_raw_id(raw_id(object), FORM, form).await
    }

    async fn simulate_raw_id(&self, raw_id: &str, content_type: &str, form: &str) -> Answer {
        let headers = [("content-type", content_type)];
        self.raw(Method::POST, &format!("/checkout/{raw_id}/simulate"), &headers, form.to_owned()).await
    }

    async fn payment_by(&self, methods: &[&str], currency: &str) -> Value {
        let body = json!({
            "amount": 1000, "paymentMethods": methods, "currency": currency,
            "idempotencyKey": uuid::Uuid::new_v4().to_string(), "customerName": "Maria",
            "customerDocument": "29537995593", "metadata": {"phone": "+351912345678"},
        });
        let created = self.post("/v1/payments", &body).await.expect(201);
        self.read_payment(&created).await
    }
}

#[tokio::test]
async fn the_form_of_the_checkout_page_pays_or_declines_a_test_charge() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.paid", "charge.failed"]).await;
    for (button, status, title, event) in [
        ("Pago", "paid", "Pagamento confirmado", "charge.paid"),
        ("Recusado", "failed", "Pagamento recusado", "charge.failed"),
    ] {
        let charge = service.charge().await;
        let checkout_url = charge["checkout_url"].as_str().unwrap();
        let page = service.raw(Method::GET, checkout_url, &[], "").await;
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("form-action 'self';"), "{policy}");
        let page = service.checkout_page(&charge).await;
        assert!(
            page.has(Role::Heading, "Simular pagamento") && page.contains("nenhum dinheiro é movimentado")
        );
        let form = page.press(button, &[]);

        // The browser resolves both relative URLs.
        let (base, _) = checkout_url.rsplit_once('/').unwrap();
        let url = format!("{base}/{}", form.action);
        let headers = [("content-type", FORM), ("origin", "null")];
        let answer = service.raw(Method::POST, &url, &headers, encoded(&form.pairs())).await;
        let location = format!("../{}", raw_id(&charge));
        assert_eq!((answer.status.as_u16(), answer.header("location")), (303, Some(location.as_str())));
        assert_eq!(answer.header("cache-control"), Some("no-store"));

        let page = service.checkout_page(&charge).await;
        assert!(page.has(Role::Heading, title) && page.all(Role::Form).is_empty(), "{page}");
        assert_eq!(service.get_charge(&charge).await["status"], status);
        assert_eq!(listener.wait_for_event(event).await.json()["data"]["object"]["id"], charge["id"]);
    }
    assert_eq!(service.get("/v1/wallets/balance").await.expect(200)["available"], 1000);
}

/// What the forms of a checkout page send.
fn offered(page: &Page) -> Vec<String> {
    let forms = page.all(Role::Form).into_iter();
    forms.map(|form| encoded(&form.press(&form.names(Role::Button)[0], &[]).pairs())).collect()
}

#[tokio::test]
async fn each_method_of_a_payment_can_be_simulated() {
    let service = Service::start().await;
    for (methods, currency) in [
        (&["PIX", "BOLETO", "CREDIT_CARD"][..], "BRL"),
        (&["MULTIBANCO", "MBWAY"], "EUR"),
        (&["CRYPTO"], "USDT"),
    ] {
        for method in methods {
            let payment = service.payment_by(methods, currency).await;
            let page = service.checkout_page(&payment).await;
            let form = format!("method={method}&outcome=paid");
            assert!(offered(&page).contains(&form), "{page}");
            assert_eq!(service.simulate(&payment, &form).await.status, 303);
            let paid = service.read_payment(&payment).await;
            let status = if *method == "CREDIT_CARD" { "APPROVED" } else { "PAID" };
            assert_eq!((&paid["status"], &paid["paidWith"]), (&json!(status), &json!(method)));
        }
    }
    // A method that has expired is no longer shown or paid.
    let payment = service.payment_by(&["PIX", "BOLETO"], "BRL").await;
    service.advance_seconds(3_601).await;
    let offered = offered(&service.checkout_page(&payment).await);
    assert_eq!(offered, ["method=BOLETO&outcome=paid", "outcome=declined"]);
    assert_eq!(service.simulate(&payment, "method=PIX&outcome=paid").await.status, 303);
    assert_eq!(service.read_payment(&payment).await["status"], "WAITING_PAYMENT");
    assert_eq!(service.count_returned_payments().await, 0);
    assert_eq!(service.simulate(&payment, "outcome=paid").await.status, 303);
    assert_eq!(service.read_payment(&payment).await["paidWith"], "BOLETO");
}

#[tokio::test]
async fn a_simulation_changes_only_a_charge_that_can_be_paid() {
    // Without event sources, the acquirer never finalises the third charge.
    let service = Service::without_event_sources().await;
    let paid = service.pay(1_000).await;
    let declined = service.charge().await;
    service.sandbox(&declined, "fail", &json!({})).await;
    let later = service.new_charge(&json!({"amount": 1000, "metadata": {"sandbox": "finalise:later"}})).await;
    let expired = service.new_charge(&json!({"amount": 1000, "expires_in": 60})).await;
    service.advance_seconds(61).await;
    for charge in [&paid, &declined, &later, &expired] {
        let before = service.get_charge(charge).await;
        for form in ["outcome=paid", "outcome=declined"] {
            let answer = service.simulate(charge, form).await;
            assert_eq!(answer.status, 303, "{answer:?}");
        }
        let unchanged = service.get_charge(charge).await;
        assert_eq!(unchanged["status"], before["status"]);
    }
    assert_eq!(service.count_returned_payments().await, 0);
}

#[tokio::test]
async fn a_form_pays_once_by_the_expected_payer_and_only_as_a_post() {
    let service = Service::start().await;
    let charge = service.charge().await;
    let post = || service.simulate(&charge, "outcome=paid");
    let (first, second, third) = tokio::join!(post(), post(), post());
    assert_eq!([first.status, second.status, third.status].map(|status| status.as_u16()), [303; 3]);
    assert_eq!(service.get("/v1/wallets/balance").await.expect(200)["available"], 1000);
    assert_eq!(service.count_returned_payments().await, 0);

    // The expected payer pays a charge with a payer lock.
    let charge = service.charge_locked_to_payer().await;
    assert_eq!(service.simulate(&charge, "outcome=paid").await.status, 303);
    assert_eq!(service.get_charge(&charge).await["status"], "paid");

    let charge = service.charge().await;
    let path = format!("/checkout/{}/simulate", raw_id(&charge));
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
        let answer = service.raw(method, &format!("{path}?outcome=paid"), &[], "").await;
        assert_eq!(answer.problem(), (404, "not_found_error", "not_found"));
    }
    assert_eq!(service.get_charge(&charge).await["status"], "pending");
    let with_charset = format!("{FORM}; charset=UTF-8");
    let answer = service.simulate_raw_id(raw_id(&charge), &with_charset, "outcome=declined").await;
    assert_eq!(answer.status, 303);
}

#[tokio::test]
async fn a_live_charge_is_answered_like_an_unknown_one_and_its_page_has_no_form() {
    let service = Service::start().await;
    let live = service.live_client();
    let charge = live.new_charge("order-0001", &json!({"amount": 1000})).await;
    let page = service.checkout_page(&charge).await;
    assert!(page.has(Role::Heading, "Pague com Pix") && page.all(Role::Form).is_empty(), "{page}");
    assert!(!page.contains("Simular"), "{page}");
    let unknown = uuid::Uuid::new_v4().to_string();
    let upper_case = raw_id(&charge).to_uppercase();
    let mut errors = Vec::new();
    for id in [raw_id(&charge), &unknown, "none", "%FF", &upper_case] {
        for outcome in ["paid", "declined"] {
            let answer = service.simulate_raw_id(id, FORM, &format!("outcome={outcome}")).await;
            assert_eq!(answer.problem(), (404, "not_found_error", "not_found"), "{id}");
            assert_eq!(answer.header("x-ratelimit-limit-minute"), None, "{id}");
            errors.push(answer.body["error"].clone());
        }
    }
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    assert_eq!(live.get_charge(&charge).await["status"], "pending");
}

#[tokio::test]
async fn a_charge_has_ten_simulations_a_minute() {
    let service = Service::start().await;
    let [charge, other] = [service.charge().await, service.charge().await];
    let headers = |answer: &Answer| {
        ["x-ratelimit-limit-minute", "x-ratelimit-remaining-minute"]
            .map(|name| answer.header(name).unwrap().parse::<i64>().unwrap())
    };
    service.begin_minute().await;
    for remaining in (0..10).rev() {
        let answer = service.simulate(&charge, "outcome=paid").await;
        assert_eq!((answer.status.as_u16(), headers(&answer)), (303, [10, remaining]));
    }
    let refused = service.simulate(&charge, "outcome=paid").await;
    assert_eq!(refused.problem(), (429, "rate_limit_error", "rate_limited"));
    assert_eq!(headers(&refused), [10, 0]);
    let wait: i64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let answer = service.simulate(&other, "outcome=paid").await;
    assert_eq!((answer.status.as_u16(), headers(&answer)), (303, [10, 9]));
    let minute = service.stack.clock.now().seconds() / 60;
    let rows = service.rows(&format!("simulations#{}", id(&charge)), &minute.to_string()).await;
    assert_eq!(rows[0]["ttl"].as_n().unwrap(), &((minute + 1) * 60).to_string());
    service.advance_seconds(60).await;
    assert_eq!(headers(&service.simulate(&charge, "outcome=paid").await), [10, 9]);
}
