//! Tests of payment links: the API, the public page, and the places of a link with a maximum of payments.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use axum::http::Method;
use domain::ids::ChargeId;
use screen_reader::Role;
use serde_json::{Value, json};

use crate::bank_books::Fates;
use crate::dashboard::{Browser, FORM, cookie, encoded, location, shown, text};
use crate::live_charges::Live;
use crate::support::{Answer, Client, Service, id, wait_until};

async fn make(client: &Client, key: &str, body: &Value) -> Answer {
    client.post_as(&client.key(), "/v1/payment_links", body, &[("idempotency-key", key)]).await
}

async fn link(client: &Client, body: Value) -> Value {
    let mut whole = json!({"amount": 1990, "payment_methods": ["PIX"], "description": "Aula de violão"});
    whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    make(client, &format!("payment-link-{body}"), &whole).await.expect(201)
}

fn path(link: &Value) -> String {
    format!("/v1/payment_links/{}", id(link))
}

fn page(link: &Value) -> String {
    format!("/pay/{}", id(link))
}

/// A payer's browser at an address of its own.
struct Payer {
    client: Client,
    key: String,
}

impl Payer {
    fn new(client: &Client, number: u8) -> Self {
        let client = client.at_address(IpAddr::V4(Ipv4Addr::new(127, 0, 0, number)));
        Self { client, key: format!("key-of-{number}") }
    }

    async fn open(&self, link: &Value) -> Answer {
        self.client.raw(Method::GET, &page(link), &[("accept-language", "pt-BR")], "").await
    }

    async fn send(&self, link: &Value, fields: &[(&str, &str)]) -> Answer {
        let body = encoded(&[&[("key", &*self.key)], fields].concat());
        self.client.raw(Method::POST, &page(link), &[FORM, ("accept-language", "pt-BR")], body).await
    }
}

/// The charge to which an answer leads.
fn charge_of(answer: &Answer) -> ChargeId {
    ChargeId::parse_any(location(answer).strip_prefix("../checkout/").unwrap()).unwrap()
}

fn shown_charge(charge: ChargeId) -> Value {
    json!({ "id": charge.to_string() })
}

#[tokio::test]
async fn a_link_is_made_read_listed_changed_and_deactivated() {
    let service = Service::start().await;
    let body = json!({"min_amount": 500, "max_amount": 50_000, "payment_methods": ["PIX", "CREDIT_CARD"], "ask": ["email", "name"]});
    let made = make(&service, "link-0001", &body).await.expect(201);
    assert!(made["url"].as_str().unwrap().ends_with(&page(&made)), "{made}");
    let shown = ["amount", "min_amount", "max_amount", "ask", "active", "payments", "amount_paid"];
    let expected = json!([null, 500, 50_000, ["name", "email"], true, 0, 0]);
    assert_eq!(Value::from(shown.map(|name| made[name].clone()).to_vec()), expected);
    let replayed = make(&service, "link-0001", &body).await;
    assert_eq!((replayed.header("idempotent-replayed"), &replayed.body), (Some("true"), &made));
    let other = json!({"amount": 1, "payment_methods": ["PIX"]});
    assert_eq!(make(&service, "link-0001", &other).await.code(), "idempotency_key_reused");
    assert_eq!(service.get(&path(&made)).await.expect(200), made);
    let second = link(&service, json!({"payment_methods": ["PIX", "CREDIT_CARD", "PIX"]})).await;
    assert_eq!(second["payment_methods"], json!(["PIX", "CREDIT_CARD"]), "a repeated method counts once");
    let older = Browser::member(&service)
        .await
        .page(&format!("/dashboard/links?starting_after={}", id(&second)))
        .await;
    let _first = older.get(Role::Link, made["url"].as_str().unwrap());
    let list = service.all_pages("/v1/payment_links?limit=1").await;
    assert_eq!(list.iter().map(id).collect::<Vec<_>>(), [id(&second), id(&made)]);
    for stranger in [service.other_account(), service.live_client()] {
        assert_eq!(stranger.get(&path(&made)).await.problem().0, 404);
        assert_eq!(stranger.patch(&path(&made), &json!({"active": false})).await.problem().0, 404);
    }
    let changed = json!({"active": false, "description": "Outra aula", "ask": null});
    let changed = service.patch(&path(&made), &changed).await.expect(200);
    assert_eq!(
        json!([changed["active"], changed["description"], changed["ask"], changed["min_amount"]]),
        json!([false, "Outra aula", [], 500])
    );
    let audit: Vec<Value> = service
        .rows(&format!("audit#{}", service.scope().account), "")
        .await
        .iter()
        .map(|row| json!(row["action"].as_s().ok()))
        .collect();
    for action in ["payment-link.create", "payment-link.change"] {
        assert!(
            audit.iter().any(|row| row.as_str().is_some_and(|text| text.contains(action))),
            "{action}: {audit:?}"
        );
    }
}

#[tokio::test]
async fn each_invalid_field_of_a_link_is_named() {
    let service = Service::start().await;
    for (body, params) in [
        (json!({"payment_methods": ["PIX"]}), vec!["amount"]),
        (json!({"amount": 1, "min_amount": 1, "payment_methods": ["PIX"]}), vec!["amount"]),
        (json!({"min_amount": 2, "max_amount": 1, "payment_methods": ["PIX"]}), vec!["max_amount"]),
        (json!({"min_amount": 2, "payment_methods": ["PIX"]}), vec!["max_amount"]),
        (json!({"amount": 1}), vec!["payment_methods"]),
        (json!({"amount": 1, "payment_methods": ["PIX"], "currency": "EUR"}), vec!["payment_methods"]),
        (json!({"amount": 1, "payment_methods": ["BOLETO"], "max_payments": 3}), vec!["max_payments"]),
        (json!({"amount": 1, "payment_methods": ["PIX"], "max_payments": 0}), vec!["max_payments"]),
        (json!({"amount": 1, "payment_methods": ["PIX"], "expires_at": "2020-01-01"}), vec!["expires_at"]),
        (
            json!({"amount": 1, "payment_methods": ["PIX"], "success_url": "javascript:alert(1)"}),
            vec!["success_url"],
        ),
        (json!({"amount": 1, "payment_methods": ["PIX"], "ask": ["age"]}), vec!["ask"]),
        (json!({"amount": 1, "payment_methods": ["PIX"], "colour": "red"}), vec!["colour"]),
    ] {
        assert_eq!(make(&service, "link-0001", &body).await.params(), params, "{body}");
    }
    let missing = service.post("/v1/payment_links", &json!({"amount": 1, "payment_methods": ["PIX"]})).await;
    assert_eq!(missing.params(), ["Idempotency-Key"]);
    let without = link(&service, json!({})).await;
    assert_eq!(service.patch(&path(&without), &json!({"max_payments": 3})).await.params(), ["max_payments"]);
}

#[tokio::test]
async fn a_link_at_which_no_payer_could_pay_is_refused_as_its_charges_would_be() {
    let service = Service::start().await;
    let of = |method: &str, currency: &str, amount: Value| {
        let mut body = json!({"payment_methods": [method], "currency": currency});
        body.as_object_mut().unwrap().extend(amount.as_object().unwrap().clone());
        body
    };
    let long = json!({"amount": 1000, "metadata": {"a": "x".repeat(16_000)}, "description": "y".repeat(500)});
    let refused = [
        (of("MBWAY", "EUR", json!({"amount": 10})), "MBWAY takes 50 to 500000"),
        (of("MBWAY", "EUR", json!({"amount": 500_001})), "MBWAY takes 50 to 500000"),
        (of("BOLETO", "BRL", json!({"amount": 499})), "BOLETO takes 500 to"),
        (of("BOLETO", "BRL", json!({"min_amount": 1, "max_amount": 499})), "BOLETO takes 500 to"),
        (of("PIX", "BRL", long), "metadata"),
        (
            of(
                "CREDIT_CARD",
                "BRL",
                json!({"amount": 1000, "metadata": {"returnUrl": "javascript:alert(1)"}}),
            ),
            "metadata.returnUrl",
        ),
    ];
    for (body, said) in refused {
        let answer = make(&service, "link-0001", &body).await;
        assert!([400, 422].contains(&answer.status.as_u16()), "{said}: {answer:?}");
        assert!(answer.body.to_string().contains(said), "{said}: {}", answer.body);
    }
    for body in [
        of("BOLETO", "BRL", json!({"min_amount": 1, "max_amount": 500})),
        of("MBWAY", "EUR", json!({"amount": 50, "ask": ["phone"]})),
        of("PIX", "BRL", json!({"amount": 1, "metadata": {"returnUrl": "/pedido/7"}})),
        of("CREDIT_CARD", "KWD", json!({"min_amount": 1_001, "max_amount": 1_005})),
        of("CRYPTO", "USDT", json!({"min_amount": 500, "max_amount": 1_234_567})),
    ] {
        make(&service, &format!("valid-{body}"), &body).await.expect(201);
    }
    // A live link needs an acquirer.
    let live = make(&service.live_client(), "link-0001", &of("CRYPTO", "BRL", json!({"amount": 1000}))).await;
    assert_eq!(live.status.as_u16(), 422, "{live:?}");
    // A change is checked too. A link can be deactivated whatever it has.
    let card = link(&service, json!({"payment_methods": ["CREDIT_CARD"]})).await;
    let change = json!({"metadata": {"returnUrl": "javascript:alert(1)"}});
    assert_eq!(service.patch(&path(&card), &change).await.params(), ["metadata.returnUrl"]);
}

#[tokio::test]
async fn a_live_link_by_card_takes_what_the_acquirer_takes() {
    let live = Live::start().await;
    let of = |amount: i64| json!({"amount": amount, "currency": "KWD", "payment_methods": ["CREDIT_CARD"]});
    let refused = make(&live.client, "link-0001", &of(1_234)).await;
    assert_eq!(refused.status.as_u16(), 422);
    assert!(refused.body.to_string().contains("multiples of 10"), "{}", refused.body);
    make(&live.client, "link-0002", &of(1_230)).await.expect(201);
    let range = json!({
        "min_amount": 1_231, "max_amount": 1_239, "currency": "KWD", "payment_methods": ["CREDIT_CARD"],
    });
    assert_eq!(make(&live.client, "link-0003", &range).await.status.as_u16(), 422);
}

#[tokio::test]
async fn a_payer_makes_one_charge_finds_it_again_and_the_totals_follow_its_payment() {
    let service = Service::start().await;
    let link = link(&service, json!({"ask": ["name", "email"], "metadata": {"course": "7"}})).await;
    let payer = Payer::new(&service, 1);
    let opened = payer.open(&link).await;
    assert_eq!((opened.status.as_u16(), opened.header("cache-control")), (200, Some("no-store")));
    assert!(text(&opened).contains("Aula de violão") && text(&opened).contains("19,90"), "{}", text(&opened));
    assert_eq!(service.get("/v1/charges").await.expect(200)["data"], json!([]), "opening makes no charge");
    // What was typed stays when a field is refused.
    let refused = payer.send(&link, &[("name", "Ana Souza"), ("email", "ana")]).await;
    assert_eq!(refused.status.as_u16(), 422);
    assert!(
        text(&refused).contains("value=\"Ana Souza\"") && text(&refused).contains("email-error"),
        "{}",
        text(&refused)
    );
    let fields = [("name", "Ana Souza"), ("email", "ana@example.com")];
    let sent = payer.send(&link, &fields).await;
    let charge = charge_of(&sent);
    assert_eq!(charge_of(&payer.send(&link, &fields).await), charge, "a form that is sent twice");
    let stored = service.stored_charge(charge).await;
    let read = service.get(&format!("/v1/charges/{charge}")).await.expect(200);
    assert_eq!(
        json!([
            read["amount"],
            stored.customer.email,
            read["metadata"]["description"],
            read["metadata"]["course"]
        ]),
        json!([1990, "ana@example.com", "Aula de violão", "7"])
    );
    assert_eq!(stored.link.map(|link| link.to_string()).as_deref(), Some(id(&link)));
    let again = [("cookie", &*cookie(&sent))];
    let again = service.raw(Method::GET, &page(&link), &again, "").await;
    assert_eq!(charge_of(&again), charge, "the same browser finds its open charge");
    service.sandbox(&shown_charge(charge), "pay", &json!({})).await;
    wait_until("the totals", async || {
        let read = service.get(&path(&link)).await.expect(200);
        json!([read["payments"], read["amount_paid"]]) == json!([1, 1990])
    })
    .await;
    let after = service.raw(Method::GET, &page(&link), &[("cookie", &cookie(&sent))], "").await;
    assert_eq!(after.status.as_u16(), 200, "a paid charge is not opened again");
    let browser = Browser::member(&service).await;
    // The link's own page leads to its charges alone.
    let of_link = format!("/dashboard/links/{}", id(&link));
    let other = service.charge().await;
    let own = browser.page(&of_link).await;
    let to_charge = format!("/dashboard/charges/{}", id(&shown_charge(charge)));
    assert_eq!(own.get(Role::Table, "Cobranças deste link").links_to("/dashboard/charges/"), [&*to_charge]);
    let all = own.get(Role::Link, "Todas as cobranças deste link").target().to_owned();
    let all = browser.page(&all).await;
    assert_eq!(all.links_to("/dashboard/charges/ch_"), [&*to_charge], "{} is of no link", id(&other));
    assert!(all.contains("Filtros: Link de pagamento"), "{all}");
    let again = all.press("Filtrar", &[]).fields;
    assert!(again.contains(&("payment_link".to_owned(), id(&link).to_owned())), "{again:?}");
    let by_api = service.get(&format!("/v1/charges?payment_link={}", id(&link))).await.expect(200);
    assert_eq!(by_api["data"].as_array().unwrap().len(), 1);
    // At the counter, a customer scans the link and sees nothing else of the shop.
    let counter = browser.page(own.get(Role::Link, "Mostrar no balcão").target()).await;
    assert!(counter.has(Role::Image, "QR code deste link") && counter.contains("R$ 19,90"), "{counter}");
    assert!(!counter.has(Role::Navigation, "Menu"), "{counter}");
    let list = browser.page("/dashboard/links").await;
    let _shown = list.get(Role::Link, link["url"].as_str().unwrap());
    let form = list.press("Criar link", &[("Descrição", "Rifa do colégio"), ("Valor (R$)", "x")]);
    let refused = browser.send(&form).await;
    assert_eq!(refused.status.as_u16(), 400);
    assert!(text(&refused).contains("Rifa do colégio"), "{}", text(&refused));
    let form = shown(&refused).press("Criar link", &[("Valor (R$)", "10,00")]);
    let made = browser.send(&form).await;
    let led = made.header("location").unwrap();
    assert!(led.starts_with("/dashboard/links/pl_") && led.ends_with("?done=links"), "{led}");
    let own = browser.page(led).await;
    assert!(own.has(Role::Image, "QR code deste link") && own.contains("R$ 10,00"), "{own}");
    let path = led.split('?').next().unwrap();
    for (typed, status) in
        [([("Encerra no início de", "2020-01-01")], 400), ([("Encerra no início de", "2030-01-01")], 303)]
    {
        let sent = browser.send(&browser.page(path).await.press("Salvar", &typed)).await;
        assert_eq!(sent.status.as_u16(), status, "{sent:?}");
    }
    let again =
        browser.page(path).await.press("Salvar", &[("Descrição", "Rifa da turma"), ("Nome completo", "on")]);
    assert_eq!(browser.send(&again).await.header("location"), Some(&*format!("{path}?done=links-change")));
    let changed = service.get(&path.replace("/dashboard/links", "/v1/payment_links")).await.expect(200);
    assert_eq!(
        json!([changed["description"], changed["expires_at"], changed["ask"], changed["active"]]),
        json!(["Rifa da turma", "2030-01-01T03:00:00.000Z", ["name"], true])
    );
    let closed = browser.send(&browser.page(path).await.press("Desativar", &[])).await;
    assert_eq!(closed.header("location"), Some(&*format!("{path}?done=links-active")));
    assert!(browser.page(path).await.has(Role::Button, "Ativar"));
    let live = Browser::owner(&service).await.in_mode(domain::ids::Mode::Live);
    assert_eq!(live.answer(path, &[]).await.status, 404);
    let listed = service.get("/v1/payment_links").await.expect(200);
    assert_eq!(
        json!([listed["data"][0]["description"], listed["data"][0]["amount"]]),
        json!(["Rifa da turma", 1000])
    );
}

#[tokio::test]
async fn a_field_that_is_emptied_in_the_form_is_removed() {
    let service = Service::start().await;
    let whole = json!({
        "ask": ["name", "email"], "success_url": "https://loja.example/obrigado", "max_payments": 5,
        "expires_at": "2030-01-01",
    });
    let link = link(&service, whole).await;
    let page = Browser::member(&service).await;
    let own = page.page(&format!("/dashboard/links/{}", id(&link))).await;
    let emptied = [
        ("Descrição", ""),
        ("Nome completo", ""),
        ("E-mail", ""),
        ("Máximo de pagamentos", ""),
        ("Encerra no início de", ""),
        ("Página depois do pagamento (opcional)", ""),
    ];
    assert_eq!(page.send(&own.press("Salvar", &emptied)).await.status.as_u16(), 303);
    let changed = service.get(&path(&link)).await.expect(200);
    for name in ["description", "success_url", "max_payments", "expires_at"] {
        assert_eq!(changed[name], Value::Null, "{name}");
    }
    assert_eq!((&changed["ask"], &changed["amount"]), (&json!([]), &json!(1990)));
}

#[tokio::test]
async fn an_amount_is_typed_within_its_bounds() {
    let service = Service::start().await;
    let open = make(
        &service,
        "link-0001",
        &json!({"min_amount": 500, "max_amount": 50_000, "payment_methods": ["PIX"]}),
    )
    .await
    .expect(201);
    let payer = Payer::new(&service, 1);
    for refused in ["4,99", "500,01", "", "x"] {
        let answer = payer.send(&open, &[("amount", refused)]).await;
        assert_eq!(answer.status.as_u16(), 422, "{refused}");
        assert!(text(&answer).contains("amount-error"), "{refused}");
    }
    let charge = charge_of(&payer.send(&open, &[("amount", "129,90")]).await);
    assert_eq!(service.stored_charge(charge).await.amount.minor(), 12_990);
    // Three decimals: a lone point begins them.
    let dinar = json!({
        "min_amount": 10, "max_amount": 5_000_000, "currency": "KWD", "payment_methods": ["CREDIT_CARD"],
    });
    let dinar = make(&service, "link-0002", &dinar).await.expect(201);
    for (typed, minor) in [("1.250", 1_250), ("0.500", 500), ("1.250,000", 1_250_000)] {
        let charge = charge_of(&payer.send(&dinar, &[("amount", typed)]).await);
        assert_eq!(service.stored_charge(charge).await.amount.minor(), minor, "{typed}");
    }
}

#[tokio::test]
async fn a_link_that_ended_says_so_and_makes_no_charge() {
    let service = Service::start().await;
    let payer = Payer::new(&service, 1);
    let inactive = link(&service, json!({"description": "a"})).await;
    service.patch(&path(&inactive), &json!({"active": false})).await.expect(200);
    let end = service.stack.clock.now().plus_seconds(3_600).unwrap().to_iso();
    let ended = link(&service, json!({"description": "b", "expires_at": end})).await;
    let suspended = link(&service, json!({"description": "c"})).await;
    let unknown = json!({"id": "pl_00000000000000000000000000"});
    assert_eq!(payer.open(&ended).await.status.as_u16(), 200);
    service.advance_seconds(3_601).await;
    service.change_settings(|settings| settings.suspended = true).await;
    for link in [&inactive, &ended, &suspended] {
        for answer in [payer.open(link).await, payer.send(link, &[]).await] {
            assert_eq!(answer.status.as_u16(), 410);
            let page = shown(&answer);
            let _title = page.get(Role::Heading, "Este link não está disponível");
        }
    }
    assert_eq!(payer.open(&unknown).await.status.as_u16(), 404);
}

#[tokio::test]
async fn a_hundred_payers_at_once_get_no_more_places_than_there_are() {
    let service = Service::start().await;
    let link = link(&service, json!({"max_payments": 7})).await;
    let payers = (1..=60).map(|number| Payer::new(&service, number));
    let answers = shared::concurrently(60, payers, |payer| {
        let link = link.clone();
        async move { payer.send(&link, &[]).await }
    })
    .await;
    let (made, refused): (Vec<&Answer>, Vec<&Answer>) =
        answers.iter().partition(|answer| answer.status == 303);
    let charges: BTreeSet<ChargeId> = made.iter().map(|answer| charge_of(answer)).collect();
    let busy = refused.iter().filter(|answer| answer.status == 503).count();
    assert!(refused.iter().all(|answer| [410, 503].contains(&answer.status.as_u16())), "{refused:?}");
    assert!(charges.len() <= 7 && (busy > 0 || charges.len() == 7), "{} of 60, {busy} busy", charges.len());
    // A limit of forms of the link.
    service.advance_seconds(60).await;
    let mut charges = charges;
    for number in 61..=120 {
        let answer = Payer::new(&service, number).send(&link, &[]).await;
        if answer.status == 303 {
            charges.insert(charge_of(&answer));
        }
    }
    assert_eq!(charges.len(), 7);
    assert_eq!(Payer::new(&service, 121).send(&link, &[]).await.status.as_u16(), 429);
    let charges: Vec<ChargeId> = charges.into_iter().collect();
    for charge in &charges[..5] {
        let stored = service.stored_charge(*charge).await;
        assert_eq!(stored.artefacts.pix.as_ref().unwrap().ttl_seconds, 900);
        service.sandbox(&shown_charge(*charge), "pay", &json!({})).await;
    }
    // Two places are free again after 15 minutes.
    let late = Payer::new(&service, 200);
    assert_eq!(late.open(&link).await.status.as_u16(), 410);
    service.advance_seconds(901).await;
    assert_eq!(late.open(&link).await.status.as_u16(), 200);
    for number in [201, 202] {
        let charge = charge_of(&Payer::new(&service, number).send(&link, &[]).await);
        service.sandbox(&shown_charge(charge), "pay", &json!({})).await;
    }
    let full = late.send(&link, &[]).await;
    assert_eq!(full.status.as_u16(), 410);
    assert!(text(&full).contains("já foram feitos"), "{}", text(&full));
    wait_until("the totals", async || service.get(&path(&link)).await.expect(200)["payments"] == 7).await;
}

#[tokio::test]
async fn a_place_that_is_not_paid_is_free_after_15_minutes_whatever_the_method() {
    let service = Service::start().await;
    for (number, methods) in [(1, json!(["CREDIT_CARD"])), (3, json!(["PIX", "CREDIT_CARD"]))] {
        let link = link(&service, json!({"max_payments": 1, "payment_methods": methods})).await;
        let charge = charge_of(&Payer::new(&service, number).send(&link, &[]).await);
        let late = Payer::new(&service, number + 1);
        service.advance_seconds(899).await;
        assert_eq!(late.open(&link).await.status.as_u16(), 410, "{methods}");
        service.advance_seconds(2).await;
        assert_eq!(late.open(&link).await.status.as_u16(), 200, "{methods}");
        let read = service.get(&format!("/v1/charges/{charge}")).await.expect(200);
        assert_eq!(read["status"], "expired", "{methods}");
    }
}

#[tokio::test]
async fn what_is_asked_must_have_digits_where_only_digits_count() {
    let service = Service::start().await;
    let link = link(&service, json!({"ask": ["phone", "address"]})).await;
    let payer = Payer::new(&service, 1);
    let address = [("line1", "Rua A, 1"), ("city", "São Paulo"), ("state", "sp")];
    for (phone, code, field) in [("abc", "01001-000", "phone"), ("11 99999-9999", "abc", "postal_code")] {
        let typed = [&address[..], &[("phone", phone), ("postal_code", code)]].concat();
        let refused = payer.send(&link, &typed).await;
        assert_eq!(refused.status.as_u16(), 422, "{field}");
        assert!(text(&refused).contains(&format!("{field}-error")), "{}", text(&refused));
    }
    let typed = [&address[..], &[("phone", "11 99999-9999"), ("postal_code", "01001-000")]].concat();
    charge_of(&payer.send(&link, &typed).await);
}

#[tokio::test]
async fn a_change_of_a_live_link_in_the_dashboard_needs_a_recent_log_in() {
    let live = Live::start().await;
    let link = link(&live.client, json!({})).await;
    let browser = Browser::member(&live.service).await.in_mode(domain::ids::Mode::Live);
    let path = format!("/dashboard/links/{}", id(&link));
    live.service.advance_seconds(601).await;
    let typed = [("Página depois do pagamento (opcional)", "https://other.example/")];
    let form = browser.page(&path).await.press("Salvar", &typed);
    assert_eq!(browser.send(&form).await.status.as_u16(), 401);
    assert_eq!(live.client.get(&self::path(&link)).await.expect(200)["success_url"], Value::Null);
    let form = browser.page(&path).await.press("Desativar", &[]);
    assert_eq!(browser.send(&form).await.status.as_u16(), 303);
}

#[tokio::test]
async fn an_address_has_two_open_charges_of_a_link_with_places() {
    let service = Service::start().await;
    let link = link(&service, json!({"max_payments": 30})).await;
    let mut payer = Payer::new(&service, 1);
    for key in ["1", "2"] {
        key.clone_into(&mut payer.key);
        charge_of(&payer.send(&link, &[]).await);
    }
    "3".clone_into(&mut payer.key);
    let third = payer.send(&link, &[]).await;
    assert_eq!(third.status.as_u16(), 429);
    let page = shown(&third);
    let _form = page.get(Role::Button, "Pagar");
    charge_of(&Payer::new(&service, 2).send(&link, &[]).await);
}

#[tokio::test]
async fn a_maximum_is_never_below_the_payments_and_open_charges() {
    let service = Service::start().await;
    let link = link(&service, json!({"max_payments": 10})).await;
    let charges: Vec<ChargeId> = {
        let mut charges = Vec::new();
        for number in 1..=4 {
            charges.push(charge_of(&Payer::new(&service, number).send(&link, &[]).await));
        }
        charges
    };
    service.sandbox(&shown_charge(charges[0]), "pay", &json!({})).await;
    let lower = async |max: u32| service.patch(&path(&link), &json!({ "max_payments": max })).await;
    let refused = lower(3).await;
    assert_eq!(refused.params(), ["max_payments"]);
    assert!(refused.body.to_string().contains("at least 4"), "{}", refused.body);
    assert_eq!(lower(4).await.expect(200)["max_payments"], 4);
    assert_eq!(Payer::new(&service, 5).send(&link, &[]).await.status.as_u16(), 410);
    // Charges that ended free their places.
    service.advance_seconds(901).await;
    assert_eq!(lower(1).await.expect(200)["max_payments"], 1);
    assert_eq!(Payer::new(&service, 5).send(&link, &[]).await.status.as_u16(), 410);
}

#[tokio::test]
async fn places_that_are_taken_while_a_maximum_is_lowered_are_no_more_than_it() {
    let service = Service::start().await;
    let link = link(&service, json!({"max_payments": 30})).await;
    let payers = (1..=20).map(|number| Payer::new(&service, number));
    let sent = shared::concurrently(20, payers, |payer| {
        let link = link.clone();
        async move { payer.send(&link, &[]).await.status == 303 }
    });
    let lowered = async {
        let mut last = 30;
        for max in (1..30).rev() {
            if service.patch(&path(&link), &json!({ "max_payments": max })).await.status == 200 {
                last = max;
            }
        }
        last
    };
    let (sent, last) = tokio::join!(sent, lowered);
    let made = sent.into_iter().filter(|is_made| *is_made).count();
    assert!(made <= last, "{made} charges, {last} places");
}

#[tokio::test]
async fn a_payment_beyond_the_number_is_returned() {
    let live = Live::start().await;
    let link = link(&live.client, json!({"max_payments": 1})).await;
    let unpaid = charge_of(&Payer::new(&live.service, 1).send(&link, &[]).await);
    assert_eq!(Payer::new(&live.service, 2).send(&link, &[]).await.status.as_u16(), 410);
    live.service.advance_seconds(20 * 60).await;
    live.wait_for_status(&shown_charge(unpaid), "expired").await;
    let charge = charge_of(&Payer::new(&live.service, 2).send(&link, &[]).await);
    let shown = live.client.get(&format!("/v1/charges/{charge}")).await.expect(200);
    live.pay(&shown, bank::PayRequest::default());
    live.wait_for_status(&shown, "paid").await;
    let second = live.pay(&shown, bank::PayRequest { again: true, ..bank::PayRequest::default() });
    wait_until("the second one goes back", async || {
        live.pix(&second)["devolucoes"][0]["status"] == "DEVOLVIDO"
    })
    .await;
    assert_eq!(Payer::new(&live.service, 3).open(&link).await.status.as_u16(), 410);
    wait_until("the totals", async || live.client.get(&path(&link)).await.expect(200)["payments"] == 1).await;
    let expected = Fates { credited: 1, returned: 1, ..Fates::default() };
    assert_eq!(live.check_books().await, expected);
}
