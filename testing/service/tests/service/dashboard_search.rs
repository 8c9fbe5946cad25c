//! Tests of the dashboard's search, and of the filters of its list of charges.

use domain::ids::Mode;
use screen_reader::{Page, Role};
use serde_json::{Value, json};

use crate::dashboard::{Browser, location, shown, text};
use crate::invocations::dispatch;
use crate::support::{Service, id, raw_id};

const MARIA: &str = "29537995593";

/// The page of a search.
fn of(text: &str) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("q", text).finish();
    format!("/dashboard/search?{query}")
}

impl Browser<'_> {
    /// Searches, checks the cost, and returns where the search led; `None`: it found nothing.
    async fn search(&self, service: &Service, text: &str) -> Option<String> {
        let (answer, report) = service.cost(self.answer(&of(text), &[])).await;
        // The charges of the first of several words are read if those of the last one do not match: a query and a batch.
        let more = usize::from(text.trim().contains(' '));
        assert!(report.requests() <= 6 + 2 * more && report.read_units <= 35.0, "{text}: {report:?}");
        assert!(report.sequential_requests <= 4 + more && report.write_units <= 1.0, "{text}: {report:?}");
        let location = answer.header("location").map(str::to_owned);
        assert_eq!(answer.status.as_u16(), if location.is_some() { 303 } else { 200 }, "{text}: {answer:?}");
        location
    }
}

async fn charge_of_order(service: &Service, order: &str) -> Value {
    let customer = json!({"name": "Maria Souza", "document": MARIA, "email": "maria@example.com"});
    service.new_charge(&json!({"amount": 1290, "customer": customer, "metadata": {"order_id": order}})).await
}

#[tokio::test]
async fn a_search_with_one_hit_leads_to_its_page() {
    let service = Service::without_event_sources().await;
    let endpoint = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let charge = charge_of_order(&service, "4711").await;
    let paid = service.sandbox(&charge, "pay", &json!({})).await;
    let refund = service.refund(&charge, "refund-0001", json!({"amount": 300})).await.expect(201);
    let case = service.sandbox_answer(&charge, "med-cases", &json!({})).await.expect(201);
    let foreign = json!({
        "amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "order-0001", "customerDocument": "PT 123",
    });
    let foreign = service.post("/v1/payments", &foreign).await.expect(201);
    dispatch(&service.stack).await;
    let delivery = service.deliveries("").await.remove(0);
    let event = service.get("/v1/events?type=charge.paid").await.expect(200)["data"][0].clone();
    let movement = service.get("/v1/wallets/transactions").await.expect(200)["data"][0].clone();
    let browser = Browser::owner(&service).await;

    let page = format!("/dashboard/charges/{}", id(&charge));
    let txid = charge["pix"]["txid"].as_str().unwrap();
    let end_to_end_id = paid["settlement"]["end_to_end_id"].as_str().unwrap();
    let raw = raw_id(&charge);
    let texts = [
        id(&charge),
        &format!("tx_{raw}"),
        raw,
        txid,
        &txid.to_uppercase(),
        end_to_end_id,
        id(&refund),
        MARIA,
        "295.379.955-93",
        " maria@EXAMPLE.com ",
        "4711",
    ]
    .map(str::to_owned);
    for text in texts {
        assert_eq!(browser.search(&service, &text).await.as_ref(), Some(&page), "{text}");
    }
    let foreign = format!("/dashboard/charges/ch_{}", id(&foreign));
    assert_eq!(browser.search(&service, "PT 123").await, Some(foreign));
    for (object, below) in
        [(&case, "disputes"), (&endpoint, "webhooks"), (&delivery, "deliveries"), (&event, "events")]
    {
        let expected = format!("/dashboard/{below}/{}", id(object));
        assert_eq!(browser.search(&service, id(object)).await.as_ref(), Some(&expected));
        browser.page(&expected).await;
    }
    // The statement, with this movement alone.
    let statement = browser.search(&service, id(&movement)).await.unwrap();
    let rows = browser.page(&statement).await.links_to("/dashboard/charges/").len();
    assert!(statement.starts_with("/dashboard/wallet?") && rows == 1, "{statement}: {rows}");
    // The form of the list shows the amount as it was typed.
    let list = browser.search(&service, "12,90").await.unwrap();
    assert_eq!(list, "/dashboard/charges?amount=12%2C90");
    assert_eq!(listed(&browser.page(&list).await), 1);
    // Another mode and another account.
    let live = Browser::owner(&service).await.in_mode(Mode::Live);
    for text in [id(&charge), txid, end_to_end_id, "4711", MARIA, id(&endpoint), id(&movement)] {
        assert_eq!(live.search(&service, text).await, None, "{text}");
    }
}

#[tokio::test]
async fn a_search_with_several_hits_leads_to_their_list_and_one_without_says_what_can_be_found() {
    let service = Service::without_event_sources().await;
    for _ in 0..3 {
        charge_of_order(&service, "4711").await;
    }
    // An order number of the form of a CPF.
    for _ in 0..2 {
        charge_of_order(&service, "52998224725").await;
    }
    dispatch(&service.stack).await;
    let browser = Browser::member(&service).await;
    for (text, list, rows) in [
        ("4711", "order_id=4711", 3),
        ("52998224725", "order_id=52998224725", 2),
        ("maria@example.com", "customer_email=maria%40example.com", 5),
        ("295.379.955-93", "customer_id=29537995593", 5),
        ("maria souza", "customer_name=maria+souza", 5),
        ("Souza", "customer_name=Souza", 5),
        ("#4711", "order_id=4711", 3),
        ("Pedido nº 4711", "order_id=4711", 3),
        ("12.90", "amount=12.90", 5),
    ] {
        let led = browser.search(&service, text).await.unwrap();
        assert_eq!(led, format!("/dashboard/charges?{list}"));
        assert_eq!(listed(&browser.page(&led).await), rows, "{text}");
    }
    // The form of the list finds what is typed with points or capitals.
    for typed in
        ["customer_id=295.379.955-93", "customer_id=29537995593", "customer_email=Maria%40EXAMPLE.com"]
    {
        assert_eq!(listed(&browser.page(&format!("/dashboard/charges?{typed}")).await), 5, "{typed}");
    }
    let unknown = "ch_fe5392dd-e865-8656-a544-24ef3d590c1b";
    for text in [
        "4712",
        "Maria Silva",
        "#4712",
        "req_1",
        "11144477735",
        "111.444.777-35",
        "E00000000202611211000abcdefghijk",
        unknown,
    ] {
        assert_eq!(browser.search(&service, text).await, None, "{text}");
        let html = browser.page(&of(text)).await;
        assert!(html.contains(&format!("Nada com “{text}”")), "{html}");
        assert!(
            html.contains("número do pedido, com ou sem #; nome do cliente;")
                && html.contains("Um cliente é encontrado pelo primeiro ou pelo último nome"),
            "{html}"
        );
    }
    // Several words are found by the first or the last of them, of which one must be an end of the name.
    let body = json!({"amount": 1_290, "customer": {"name": "Joana Prado Lima"}});
    let joana = format!("/dashboard/charges/{}", id(&service.new_charge(&body).await));
    dispatch(&service.stack).await;
    for text in ["joana prado", "Prado Lima", "Joana Lima", "Joana Prado Lima", "joana", "LIMA"] {
        assert_eq!(browser.search(&service, text).await.as_ref(), Some(&joana), "{text}");
    }
    for text in ["Prado", "Lima Joana", "Joana Souza"] {
        assert_eq!(browser.search(&service, text).await, None, "{text}");
    }
    let by_middle = browser.page("/dashboard/charges?customer_name=Prado").await;
    assert!(by_middle.contains("Um cliente é encontrado pelo primeiro ou pelo último nome"), "{by_middle}");
    let blank = browser.page("/dashboard/search?q=+").await;
    assert!(!blank.contains("Nada com") && blank.contains("número do pedido, com ou sem #"), "{blank}");

    // A hostile search is shown as text, and a long one is refused.
    for text in [
        "<script>alert(1)</script>\"'&",
        "' OR 1=1 --",
        "ch_../../x",
        "%00\u{0}\u{202e}é",
        "R$ 99999999999999999999,00",
        "@",
        "E0000000020261121100\u{7f}bcdefghijk",
        &"ж".repeat(200),
    ] {
        let page = browser.page(&of(text)).await;
        assert!(!page.source().contains("<script>alert") && page.contains("Nada com “"), "{page}");
    }
    for text in ["x".repeat(201), "é".repeat(1_000)] {
        let refused = browser.answer(&of(&text), &[]).await;
        assert_eq!(location(&refused), "/dashboard/search?error=text_too_long");
    }
    let html = browser.page("/dashboard/search?error=text_too_long").await;
    assert!(html.contains("A busca aceita até 200 caracteres."), "{html}");
}

#[tokio::test]
async fn charges_are_filtered_by_amount_as_people_write_it_and_states_keep_the_other_filters() {
    let service = Service::without_event_sources().await;
    for amount in [129_000, 1290, 1291] {
        service.new_charge(&json!({"amount": amount})).await;
    }
    let browser = Browser::owner(&service).await;
    for (amount, shown) in [("1.290,00", "R$ 1.290,00"), ("12,90", "R$ 12,90"), ("R%24+12,91", "R$ 12,91")] {
        let page = browser.page(&format!("/dashboard/charges?amount={amount}")).await;
        let [cell] = <[Page; 1]>::try_from(page.get(Role::Table, "Cobranças").column("Valor")).unwrap();
        assert_eq!(cell.text(), shown);
    }
    for (label, refused, kept, rule) in [
        ("Valor", "amount=dez", "created_after=2026-01-02", "O valor não é válido. Use, por exemplo, 129,90"),
        ("Até", "created_before=ontem", "order_id=4711", "Use uma data, como 2026-11-26."),
        ("txid", "txid=1", "customer_email=a%40b.example", "Use as 26 letras e números do txid da cobrança."),
    ] {
        let path = format!("/dashboard/charges?status=paid&{refused}&{kept}");
        let answer = browser.answer(&path, &[]).await;
        let page = shown(&answer);
        assert_eq!(answer.status, 400, "{page}");
        assert!(page.has(Role::Navigation, "Menu"), "{page}");
        let fields = page.all(Role::Field);
        let invalid: Vec<&Page> = fields.iter().filter(|field| field.is_invalid()).collect();
        assert!(invalid.len() == 1 && invalid[0].name() == label, "{invalid:?}");
        assert!(invalid[0].description().unwrap().starts_with(rule), "{page}");
        let again = page.press("Filtrar", &[]).fields;
        for pair in [refused, kept] {
            let (name, value) = pair.split_once('=').unwrap();
            assert!(again.contains(&(name.to_owned(), value.replace("%40", "@"))), "{pair}: {again:?}");
        }
    }
    let led = browser.answer("/dashboard/wallet?created_after=ontem", &[]).await;
    let led = location(&led).to_owned();
    assert_eq!(led, "/dashboard/wallet?error=invalid_request&field=created_after");
    assert!(browser.page(&led).await.contains("Corrija e envie de novo. (De)"), "{led}");
    let led = browser.answer("/dashboard/wallet?created_after=ontem&created_before=x", &[]).await;
    let led = location(&led).to_owned();
    assert!(browser.page(&led).await.contains("Corrija e envie de novo. (De, Até)"), "{led}");

    let chip = async |path: &str, name: &str| {
        browser.page(path).await.get(Role::Navigation, "Situação").get(Role::Link, name).target().to_owned()
    };
    let filtered = "/dashboard/charges?created_after=2026-01-02&method=PIX";
    let failed = format!("{filtered}&status=failed");
    assert_eq!(chip(&failed, "Todas").await, filtered);
    assert_eq!(chip(&failed, "Paga").await, format!("{filtered}&status=paid"));
    assert_eq!(chip("/dashboard/charges", "Paga").await, "/dashboard/charges?status=paid");
}

/// How many charges a list has.
fn listed(page: &Page) -> usize {
    page.links_to("/dashboard/charges/ch_").len()
}

#[tokio::test]
async fn a_method_has_a_name_in_the_users_language_on_every_page() {
    let service = Service::without_event_sources().await;
    let body = json!({"amount": 10_000, "paymentMethods": ["CREDIT_CARD"], "idempotencyKey": "card-0001"});
    let payment = service.post("/v1/payments", &body).await.expect(201);
    let charge = format!("ch_{}", id(&payment));
    service.sandbox(&json!({"id": charge}), "pay", &json!({})).await;
    let case = service.sandbox_answer(&json!({"id": charge}), "med-cases", &json!({})).await;
    let browser = Browser::owner(&service).await;
    let mut paths = vec![
        "/dashboard/charges".to_owned(),
        format!("/dashboard/charges/{charge}"),
        format!("/dashboard/charges/{charge}/receipt"),
    ];
    if case.status == 201 {
        paths.push(format!("/dashboard/disputes/{}", id(&case.body)));
    }
    for path in &paths {
        for (language, name) in
            [("pt-BR", "Cartão de crédito"), ("en", "Credit card"), ("es", "Tarjeta de crédito")]
        {
            let shown = text(&browser.answer(path, &[("accept-language", language)]).await);
            assert!(shown.contains(name), "{path} {language}: {shown}");
        }
    }
}
