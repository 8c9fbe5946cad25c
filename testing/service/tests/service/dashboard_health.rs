//! Tests of the figures on the dashboard: open disputes on the home page, deliveries on an endpoint's page.

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use domain::calendar::Day;
use domain::ids::{Mode, Scope};
use domain::med::MedCase;
use domain::pt_br;
use effects::email::{Email, EmailTopic, Emails};
use faults::proxy::FaultProxy;
use screen_reader::{Page, Role};
use serde_json::json;
use shared::store::{Item, to_item};

use crate::dashboard::{Browser, next_of};
use crate::invocations::dispatch;
use crate::support::{Listener, Service, eventually, id};

#[tokio::test]
async fn home_counts_all_open_disputes_and_names_the_first_deadline() {
    let service = Service::without_event_sources().await;
    let charge = service.pay(1_000).await;
    let first = json!({"response_deadline": "2030-01-02T15:00:00Z"});
    let case = service.sandbox_answer(&charge, "med-cases", &first).await.expect(201);
    let browser = Browser::owner(&service).await;
    let alert = async |number: &str| {
        let home = browser.page("/dashboard").await;
        let waits = if number == "1" { "disputa espera" } else { "disputas esperam" };
        let expected =
            format!("{number} {waits} sua resposta. O primeiro prazo termina em 02/01/2030 12:00.");
        assert!(home.contains(&expected), "{number}: {home}");
        assert_eq!(home.get(Role::Link, "Responder").target(), "/dashboard/disputes");
    };
    alert("1").await;
    // Newer cases, which are due later, in another order than that of their opening.
    let rank = |number: i64| number * 37 % 1_011;
    let stored: MedCase =
        service.store().get(&MedCase::key_of(id(&case).parse().unwrap())).await.unwrap().unwrap();
    let dynamodb = service.dynamodb();
    let copy = |number: i64| -> Item {
        to_item(&MedCase {
            id: format!("med_{}{number:016}", stored.id.charge().txid()).parse().unwrap(),
            created_at: stored.created_at.plus_seconds(number).unwrap(),
            response_deadline: stored.response_deadline.map(|due| due.plus_seconds(rank(number)).unwrap()),
            ..stored.clone()
        })
        .unwrap()
    };
    let (emails, now) = (Emails::new(service.store()), service.stack.clock.now());
    for (version, mode) in
        [(1, Mode::Test), (2, Mode::Test), (3, Mode::Test), (4, Mode::Test), (5, Mode::Live)]
    {
        let scope = Scope { mode, ..service.scope() };
        let email = Email { scope, about: EmailTopic::MedOpened(stored.id), version, at: now };
        emails.claim(&email, 7, now).await.unwrap();
    }
    let proxy = service.proxy();
    for (numbers, shown) in [(1..=99, "100"), (100..=1_010, "1000+")] {
        crate::seeding::write(&dynamodb, &numbers.map(copy).collect::<Vec<_>>()).await;
        proxy.reset();
        alert(shown).await;
        let report = proxy.report();
        assert!(report.requests() <= 11 && report.read_units <= 100.0, "{report:?}");
        if shown == "100" {
            let mut expected: Vec<i64> = (0..=99).collect();
            expected.sort_by_key(|number| rank(*number));
            let expected = expected.into_iter().map(|number| match number {
                0 => id(&case).to_owned(),
                _ => format!("med_{}{number:016}", stored.id.charge().txid()),
            });
            assert_eq!(all_disputes(&browser, proxy).await, expected.collect::<Vec<_>>());
        }
    }
    let home = browser.page("/dashboard").await;
    // Three disputes and three notices.
    assert_eq!(home.links_to("/dashboard/disputes/med_").len(), 6, "{home}");
    assert_eq!(home.named(Role::Link, "Disputa aberta").len(), 3, "{home}");
    let counted_to = format!(" · até {} ", pt_br::format_time_of_day(service.stack.clock.now()));
    assert!(home.contains(&counted_to) && home.contains(" dias "), "{home}");
    assert_eq!(all_disputes(&browser, proxy).await.len(), 1_001);
    assert!(browser.page("/dashboard/disputes").await.contains("Prazos seguintes"));
}

/// The disputes of all pages of the list, in their order.
async fn all_disputes(browser: &Browser<'_>, proxy: &FaultProxy) -> Vec<String> {
    let (mut path, mut found) = (Some("/dashboard/disputes".to_owned()), Vec::new());
    while let Some(page) = path {
        proxy.reset();
        let list = browser.page(&page).await;
        let report = proxy.report();
        assert!(report.requests() <= 6 && report.read_units <= 80.0, "{page}: {report:?}");
        let links = list.links_to("/dashboard/disputes/").into_iter();
        found.extend(links.map(|link| link.replace("/dashboard/disputes/", "")));
        path = next_of(&list);
    }
    found
}

#[tokio::test]
async fn money_counts_on_the_day_on_which_it_is_received() {
    let service = Service::without_event_sources().await;
    let charge = service.new_charge(&json!({"amount": 31_415, "expires_in": 86_400})).await;
    service.advance_seconds(23 * 60 * 60).await;
    service.sandbox(&charge, "pay", &json!({})).await;
    let other = service.new_charge(&json!({"amount": 500})).await;
    service.sandbox(&other, "pay", &json!({})).await;
    dispatch(&service.stack).await;
    let home = Browser::member(&service).await.page("/dashboard").await;
    assert!(home.contains("Recebido hoje R$ 319,15") && home.contains("2 vendas"), "{home}");
    assert!(home.contains("Ontem: R$ 0,00"), "{home}");
    // The chart has the sales by the day of creation, and what was received on the day of the payment, as the numbers.
    for (period, days) in [("?days=7", 7), ("", 30), ("?days=90", 13)] {
        let home = Browser::member(&service).await.page(&format!("/dashboard{period}")).await;
        assert!(home.contains("R$ 319,15 Pix: R$ 319,15"), "{home}");
        let sales = home.all(Role::Table).into_iter().find(|table| table.text().contains("Vendas")).unwrap();
        let received = sales.column("Recebido");
        assert_eq!((received.len(), received[0].text()), (days, "R$ 319,15".into()), "{home}");
    }
    service.advance_seconds(24 * 60 * 60).await;
    let home = Browser::member(&service).await.page("/dashboard").await;
    assert!(home.contains("Recebido hoje R$ 0,00") && home.contains("Ontem: R$ 319,15"), "{home}");
}

/// Two sales of one day, of which one was created the day before, one unpaid charge, and one sale in another currency.
#[tokio::test]
async fn charges_are_listed_by_the_day_of_their_payment_with_what_they_add_up_to() {
    let service = Service::without_event_sources().await;
    let late = service.new_charge(&json!({"amount": 31_415, "expires_in": 86_400})).await;
    let created = Day::of(service.stack.clock.now());
    service.advance_seconds(23 * 60 * 60).await;
    service.sandbox(&late, "pay", &json!({})).await;
    let other = service.pay(500).await;
    service.charge().await;
    let in_euros = json!({
        "amount": 700, "currency": "EUR", "paymentMethods": ["CREDIT_CARD"], "customerName": "Ana",
        "customerEmail": "ana@example.com", "idempotencyKey": "euros-0001",
    });
    let in_euros = service.post("/v1/payments", &in_euros).await.expect(201);
    service.sandbox(&in_euros, "pay", &json!({})).await;
    dispatch(&service.stack).await;
    let (browser, paid) = (Browser::member(&service).await, Day::of(service.stack.clock.now()));
    assert!(created < paid);
    let list = async |query: &str| browser.page(&format!("/dashboard/charges?{query}")).await;
    let ids = |page: &Page| page.links_to("/dashboard/charges/ch_");
    let received = list(&format!("paid_after={paid}&paid_before={paid}")).await;
    let expected = [id(&other), id(&late)].map(|id| format!("/dashboard/charges/{id}"));
    assert_eq!(ids(&received), expected, "{received}");
    let sums = "2 vendas: R$ 319,15 · 1 venda: EUR 7,00";
    assert!(received.contains(&format!("{sums} (antes de devoluções; pelo dia do pagamento)")), "{received}");
    // The heading of the filters has their days.
    let shown_day = domain::pt_br::format_day(paid);
    let heading = format!("Filtros: Paga de {shown_day}, Paga até {shown_day}");
    assert!(received.contains(&heading), "{heading}: {received}");
    // The sums of a day of payment are of all methods.
    let by_card = list(&format!("paid_after={paid}&paid_before={paid}&method=CREDIT_CARD")).await;
    assert!(ids(&by_card).is_empty(), "{by_card}");
    assert!(
        by_card.contains(&format!("{sums} (de todos os métodos juntos, antes de devoluções;")),
        "{by_card}"
    );
    let euros = list(&format!("paid_after={paid}&currency=EUR")).await;
    assert_eq!(ids(&euros).len(), 1, "{euros}");
    // The other filters leave some of them, and then nothing is added up.
    let filtered = list(&format!("paid_after={created}&amount=5,00")).await;
    assert_eq!(ids(&filtered), expected[..1]);
    assert!(!filtered.contains("vendas:"), "{filtered}");
    let before = list(&format!("paid_before={created}")).await;
    assert!(ids(&before).is_empty() && before.contains("Nenhuma cobrança"), "{before}");
    let refused = browser.answer("/dashboard/charges?paid_after=ontem", &[]).await;
    let shown = Page::read(&String::from_utf8_lossy(&refused.bytes));
    assert_eq!(refused.status, 400);
    assert!(shown.get(Role::Field, "Paga de").is_invalid(), "{shown}");

    // By the day of their creation, and in all.
    let day = |day: Day, more: &str| format!("created_after={day}&created_before={day}{more}");
    for (query, adds_up_to) in [
        (day(created, ""), "1 cobrança · 1 venda: R$ 314,15"),
        (day(paid, ""), "3 cobranças · 1 venda: R$ 5,00 · 1 venda: EUR 7,00"),
        (day(paid, "&method=PIX&amount=&paid_after="), "1 venda: R$ 5,00"),
        (day(paid, "&status=pending"), "1 cobrança"),
        (day(created, "&status=paid"), "1 cobrança · 1 venda: R$ 314,15"),
        (String::new(), "4 cobranças"),
        ("status=paid".to_owned(), "3 cobranças"),
    ] {
        let page = list(&query).await;
        assert!(page.contains(&format!("{adds_up_to} ")), "{query}: {page}");
    }
    service.sandbox_answer(&late, "med-cases", &json!({})).await.expect(201);
    dispatch(&service.stack).await;
    let disputed = list(&day(created, "&status=paid")).await;
    assert!(disputed.contains("0 cobranças ") && !disputed.contains("1 venda"), "{disputed}");
    let home = browser.page("/dashboard").await;
    assert!(home.contains("EUR 7,00 1 venda Ontem"), "{home}");
    service.refund(&in_euros, "refund-euros", json!({"amount": 200})).await.expect(201);
    dispatch(&service.stack).await;
    let refunds = browser.page("/dashboard/refunds").await;
    assert!(!refunds.contains("EUR 2,00"), "{refunds}");
    let in_euros = browser.page(refunds.get(Role::Link, "EUR").target()).await;
    assert!(in_euros.contains("EUR 2,00"), "{in_euros}");
    let sized = list("limit=50&status=paid").await;
    let hundred = sized.get(Role::Link, "100");
    assert_eq!(hundred.target(), "/dashboard/charges?status=paid&limit=100");
}

#[tokio::test]
async fn a_payment_that_is_held_for_review_is_not_called_paid() {
    let service = Service::start().await;
    let held = service.charge_locked_to_payer().await;
    service.sandbox(&held, "pay", &json!({"payer_tax_id": null})).await;
    let page = Browser::member(&service).await.page(&format!("/dashboard/charges/{}", id(&held))).await;
    assert!(page.contains("o banco não informou o CPF ou CNPJ de quem pagou"), "{page}");
    assert!(!page.values("Recebido em").is_empty() && page.values("Paga").is_empty(), "{page}");
    assert!(page.contains("chegou e está em análise") && !page.contains("Aceito"), "{page}");
    let returned = service.charge_locked_to_payer().await;
    service.sandbox(&returned, "pay", &json!({"payer_tax_id": "52998224725"})).await;
    let page = Browser::member(&service).await.page(&format!("/dashboard/charges/{}", id(&returned))).await;
    assert!(page.values("Paga").is_empty(), "{page}");
}

#[tokio::test]
async fn a_charge_without_an_order_is_known_by_what_was_typed_and_a_member_sees_names_masked() {
    let service = Service::without_event_sources().await;
    let body = json!({"amount": 8_000, "description": "Conserto do relógio", "customer": {"email": "antonio@x.example"}});
    let charge = service.new_charge(&body).await;
    let named =
        service.new_charge(&json!({"amount": 100, "customer": {"name": "Fernanda Lima Souza"}})).await;
    dispatch(&service.stack).await;
    let (member, owner) = (Browser::member(&service).await, Browser::owner(&service).await);
    let list = member.page("/dashboard/charges").await;
    assert!(list.has(Role::Link, "Conserto do relógio") && list.has(Role::Link, "Fernanda S."), "{list}");
    assert!(owner.page("/dashboard/charges").await.has(Role::Link, "Fernanda Lima Souza"));
    let page = member.page(&format!("/dashboard/charges/{}", id(&charge))).await;
    assert_eq!(page.values("Descrição"), ["Conserto do relógio"]);
    assert_eq!(page.values("E-mail"), ["antonio@x.example"]);
    let event = service.list("/v1/events").await;
    let event = event.iter().find(|event| event["data"]["object"]["id"] == named["id"]).unwrap();
    for (browser, is_whole) in [(&member, false), (&owner, true)] {
        let event = browser.page(&format!("/dashboard/events/{}", id(event))).await;
        assert_eq!(event.contains("Fernanda Lima Souza"), is_whole, "{event}");
    }
}

#[tokio::test]
async fn the_page_of_an_endpoint_shows_its_figures_and_the_last_failure_in_words() {
    let service = Service::start().await;
    let failing = Listener::answering(|_| (StatusCode::INTERNAL_SERVER_ERROR, "down").into_response()).await;
    let endpoint = service.register_endpoint(&failing.url, &["charge.paid"]).await;
    let healthy = Listener::start().await;
    let other = service.register_endpoint(&healthy.url, &["charge.created", "charge.paid"]).await;
    for _ in 0..3 {
        service.pay(1_000).await;
    }
    let browser = Browser::member(&service).await;
    let page = format!("/dashboard/webhooks/{}", id(&endpoint));
    eventually("three failed deliveries", async || {
        let waiting = service.deliveries("&status=PENDING").await;
        (waiting.iter().filter(|delivery| delivery["attempts"] == 1).count() == 3).then_some(())
    })
    .await;
    let deliveries = "/dashboard/deliveries/wd_";
    let shown = browser.page(&page).await;
    let filtered = browser.page(&format!("{page}?status=PENDING")).await;
    assert_eq!(filtered.links_to(deliveries).len(), 3, "{filtered}");
    let figures =
        |number| [format!("{number} entregas, das quais 0 esgotaram as tentativas e 0 foram canceladas")];
    assert_eq!(
        (shown.values("Criadas hoje"), shown.values("Criadas ontem")),
        (figures(3).into(), figures(0).into())
    );
    assert!(shown.values("Esperam nova tentativa") == ["3"], "{shown}");
    assert!(
        shown.values("Última falha")[0].contains("O servidor respondeu com o status HTTP 500."),
        "{shown}"
    );
    eventually("six deliveries", async || {
        (service.deliveries("&status=DELIVERED").await.len() == 6).then_some(())
    })
    .await;
    let shown = browser.page(&format!("/dashboard/webhooks/{}", id(&other))).await;
    assert_eq!(shown.values("Criadas hoje"), figures(6));
    assert!(!shown.contains("status HTTP"), "{shown}");
    let delivered = browser.page(&format!("/dashboard/webhooks/{}?status=DELIVERED", id(&other))).await;
    assert_eq!(delivered.links_to(deliveries).len(), 6, "{delivered}");
    // The next day, the figures are those of yesterday.
    service.stack.clock.advance(24 * 60 * 60 * 1_000);
    let shown = Browser::member(&service).await.page(&page).await;
    assert_eq!(
        (shown.values("Criadas hoje"), shown.values("Criadas ontem")),
        (figures(0).into(), figures(3).into())
    );
}

#[tokio::test]
async fn deliveries_have_a_link_to_the_older_ones() {
    let service = Service::without_event_sources().await;
    let endpoint = service.register_endpoint("http://127.0.0.1:9/", &["charge.created"]).await;
    for _ in 0..17 {
        service.charge().await;
    }
    crate::invocations::dispatch(&service.stack).await;
    let browser = Browser::member(&service).await;
    for list in ["/dashboard/webhooks".to_owned(), format!("/dashboard/webhooks/{}", id(&endpoint))] {
        let first = browser.page(&list).await;
        assert_eq!(first.links_to("/dashboard/deliveries/wd_").len(), 15, "{first}");
        let second = browser.page(&next_of(&first).unwrap()).await;
        assert_eq!(second.links_to("/dashboard/deliveries/wd_").len(), 2, "{second}");
        assert_eq!(next_of(&second), None);
    }
}
