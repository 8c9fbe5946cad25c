//! Tests of the figures on the dashboard: open disputes on the home page, deliveries on an endpoint's page.

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use domain::ids::{Mode, Scope};
use domain::med::MedCase;
use domain::pt_br;
use effects::email::{Email, EmailTopic, Emails};
use faults::proxy::FaultProxy;
use serde_json::json;
use shared::store::{Item, to_item};

use crate::dashboard::{Browser, next_of};
use crate::support::{Listener, Service, eventually, id};

#[tokio::test]
async fn home_counts_all_open_disputes_and_names_the_first_deadline() {
    let service = Service::without_event_sources().await;
    let charge = service.pay(1_000).await;
    let first = json!({"response_deadline": "2030-01-02T15:00:00Z"});
    let case = service.sandbox_answer(&charge, "med-cases", &first).await.expect(201);
    let browser = Browser::owner(&service).await;
    let alert = async |number: &str| {
        let html = browser.page("/dashboard").await;
        let expected =
            format!("Disputas que esperam resposta: {number}. A mais próxima vence em 02/01/2030 12:00.");
        assert!(html.contains(&expected), "{number}: {html}");
        assert!(html.contains("<a href=\"/dashboard/disputes\">Responder</a>"), "{html}");
    };
    alert("1").await;
    // Newer cases, which are due later, in another order than that of their opening.
    let rank = |number: i64| number * 37 % 311;
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
    for (numbers, shown) in [(1..=99, "100"), (100..=310, "300+")] {
        crate::seeding::write(&dynamodb, &numbers.map(copy).collect::<Vec<_>>()).await;
        proxy.reset();
        alert(shown).await;
        let report = proxy.report();
        assert!(report.requests() <= 8 && report.read_units <= 60.0, "{report:?}");
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
    assert_eq!(home.matches("href=\"/dashboard/disputes/med_").count(), 6, "{home}");
    assert_eq!(home.matches("Disputa aberta</a>").count(), 3, "{home}");
    assert!(
        home.contains(&format!(" · até {}<", pt_br::format_time_of_day(service.stack.clock.now()))),
        "{home}"
    );
    assert!(home.contains("dias</span>") && all_disputes(&browser, proxy).await.len() == 301);
    assert!(browser.page("/dashboard/disputes").await.contains("Prazos seguintes"));
}

/// The disputes of all pages of the list, in their order.
async fn all_disputes(browser: &Browser<'_>, proxy: &FaultProxy) -> Vec<String> {
    let (mut path, mut found) = (Some("/dashboard/disputes".to_owned()), Vec::new());
    while let Some(page) = path {
        proxy.reset();
        let html = browser.page(&page).await;
        let report = proxy.report();
        assert!(report.requests() <= 5 && report.read_units <= 40.0, "{page}: {report:?}");
        let links = html.split("href=\"/dashboard/disputes/").skip(1);
        found.extend(links.map(|link| link.split('"').next().unwrap().to_owned()));
        path = html.contains("rel=\"next\"").then(|| next_of(&html));
    }
    found
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
    let html = browser.page(&page).await;
    assert!(html.contains("3 das 3 mais recentes"), "{html}");
    let filtered = browser.page(&format!("{page}?status=PENDING")).await;
    assert_eq!(filtered.matches("href=\"/dashboard/deliveries/wd_").count(), 3, "{filtered}");
    for words in [
        "<dd>3 entregas; 0 esgotaram as tentativas; 0 canceladas</dd>",
        "<dd>0 entregas; 0 esgotaram as tentativas; 0 canceladas</dd>",
        "O servidor respondeu com o status HTTP 500.",
    ] {
        assert!(html.contains(words), "{words}: {html}");
    }
    eventually("six deliveries", async || {
        (service.deliveries("&status=DELIVERED").await.len() == 6).then_some(())
    })
    .await;
    let html = browser.page(&format!("/dashboard/webhooks/{}", id(&other))).await;
    assert!(html.contains("<dd>6 entregas;") && !html.contains("status HTTP"), "{html}");
    let delivered = browser.page(&format!("/dashboard/webhooks/{}?status=DELIVERED", id(&other))).await;
    assert_eq!(delivered.matches("href=\"/dashboard/deliveries/wd_").count(), 6, "{delivered}");
    // The next day, the figures are those of yesterday.
    service.stack.clock.advance(24 * 60 * 60 * 1_000);
    let html = Browser::member(&service).await.page(&page).await;
    let (today, yesterday) = html.split_once("<dt>Ontem</dt>").unwrap();
    assert!(today.contains("<dd>0 entregas;") && yesterday.contains("<dd>3 entregas;"), "{html}");
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
        assert_eq!(first.matches("href=\"/dashboard/deliveries/wd_").count(), 15, "{first}");
        let next = crate::dashboard::next_of(&first);
        let second = browser.page(&next).await;
        assert_eq!(second.matches("href=\"/dashboard/deliveries/wd_").count(), 2, "{second}");
        assert!(!second.contains("rel=\"next\""), "{second}");
    }
}
