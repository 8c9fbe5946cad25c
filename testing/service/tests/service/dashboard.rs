//! Tests of the dashboard's pages, as a browser requests them.

use std::time::Duration;

use axum::http::Method;
use domain::account::terms::MethodTerms;
use domain::ids::Mode;
use screen_reader::{Page, Role, Sent};
use serde_json::json;

use crate::description::form_routes;
use crate::support::{Answer, Client, Service, eventually, id, raw_id};

/// A browser that is logged in: the cookies that it sends.
pub(crate) struct Browser<'a> {
    service: &'a Service,
    cookies: String,
}

pub(crate) const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
pub(crate) const SAME_ORIGIN: (&str, &str) = ("sec-fetch-site", "same-origin");

pub(crate) fn encoded(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

pub(crate) fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

pub(crate) fn text(answer: &Answer) -> String {
    String::from_utf8(answer.bytes.to_vec()).unwrap()
}

pub(crate) fn shown(answer: &Answer) -> Page {
    Page::read(&text(answer))
}

/// Where an answer leads. The name of what was done is left out: `?done=charges-refund` is `?done`.
pub(crate) fn location(answer: &Answer) -> &str {
    assert_eq!(answer.status, 303, "{answer:?}");
    let led = answer.header("location").unwrap();
    led.find("?done=").and_then(|at| led.get(..at + "?done".len())).unwrap_or(led)
}

/// A secret that a page shows once.
pub(crate) fn shown_secret(answer: &Answer) -> String {
    assert_eq!(
        (answer.status.as_u16(), answer.header("cache-control")),
        (200, Some("no-store")),
        "{answer:?}"
    );
    shown(answer).all(Role::Code)[0].value()
}

impl Service {
    /// Sends the form of the log-in.
    pub(crate) async fn log_in(&self, email: &str, password: &str) -> Answer {
        post(self, "/dashboard/login", "", &[("email", email), ("password", password)]).await
    }
}

impl<'a> Browser<'a> {
    /// Logs in with the form.
    pub(crate) async fn log_in(service: &'a Service, email: &str) -> Self {
        let password = service.stack.seed.first.password.clone();
        let fields = [("email", email), ("password", password.as_str()), ("next", "/dashboard/charges")];
        let answer = post(service, "/dashboard/login", "", &fields).await;
        assert_eq!(location(&answer), "/dashboard/charges");
        Self::of(service, &answer)
    }

    /// A browser with the session that an answer began.
    pub(crate) fn of(service: &'a Service, answer: &Answer) -> Self {
        Self { service, cookies: cookie(answer) }
    }

    pub(crate) fn with_cookies(service: &'a Service, cookies: String) -> Self {
        Self { service, cookies }
    }

    pub(crate) async fn owner(service: &'a Service) -> Self {
        Self::log_in(service, &service.stack.seed.first.owner_email).await
    }

    pub(crate) async fn member(service: &'a Service) -> Self {
        Self::log_in(service, &service.stack.seed.member_email).await
    }

    pub(crate) fn in_mode(self, mode: Mode) -> Self {
        Self { cookies: format!("{}; __Host-mode={mode}", self.cookies), ..self }
    }

    pub(crate) async fn answer(&self, path: &str, more: &[(&str, &str)]) -> Answer {
        let headers = [&[("cookie", self.cookies.as_str())], more].concat();
        self.service.raw(Method::GET, path, &headers, "").await
    }

    pub(crate) async fn page(&self, path: &str) -> Page {
        let answer = self.answer(path, &[]).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        shown(&answer)
    }

    /// Sends a form, and answers its question if it asks one.
    pub(crate) async fn send(&self, form: &Sent) -> Answer {
        let answer = self.post(&form.action, &form.pairs()).await;
        if answer.status != 200 || !text(&answer).contains("name=\"confirmed\"") {
            return answer;
        }
        let question = shown(&answer);
        let button =
            ["Confirmar", "Confirm"].into_iter().find(|name| question.has(Role::Button, name)).unwrap();
        let confirmed = question.press(button, &[]);
        self.post(&confirmed.action, &confirmed.pairs()).await
    }

    /// Fills in the form of a page, presses its button, and returns where it led.
    pub(crate) async fn submit(&self, page: &str, button: &str, typed: &[(&str, &str)]) -> String {
        location(&self.send(&self.page(page).await.press(button, typed)).await).to_owned()
    }

    /// Takes over the session that an answer began.
    pub(crate) fn renew(&mut self, answer: &Answer) {
        let (_, others) = self.cookies.split_once(';').unwrap_or_default();
        self.cookies = format!("{};{others}", cookie(answer));
    }

    pub(crate) fn cookies(&self) -> &str {
        &self.cookies
    }

    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        post(self.service, path, &self.cookies, fields).await
    }
}

pub(crate) async fn post(service: &Service, path: &str, cookies: &str, fields: &[(&str, &str)]) -> Answer {
    let headers = [FORM, SAME_ORIGIN, ("cookie", cookies)];
    service.raw(Method::POST, path, &headers, encoded(fields)).await
}

/// The pages that show no single object.
pub(crate) const PAGES: &[&str] = &[
    "/dashboard",
    "/dashboard/charges",
    "/dashboard/links",
    "/dashboard/charges/new",
    "/dashboard/refunds",
    "/dashboard/payouts",
    "/dashboard/settings",
    "/dashboard/wallet",
    "/dashboard/reports",
    "/dashboard/disputes",
    "/dashboard/webhooks",
    "/dashboard/events",
    "/dashboard/developers",
    "/dashboard/requests",
    "/dashboard/team",
    "/dashboard/security",
    "/dashboard/confirm",
    "/dashboard/audit",
    "/dashboard/notices",
    "/dashboard/help",
];

#[tokio::test]
async fn a_user_logs_in_and_out_with_forms() {
    let service = Service::start().await;
    let seed = &service.stack.seed.first;
    let entered = service.log_in(&seed.owner_email, &seed.password).await;
    // Only this host can receive the cookie, and no script can read it. By https, no other host can set it.
    let sent = entered.header("set-cookie").unwrap();
    assert!(sent.starts_with("local-session="), "{sent}");
    assert!(sent.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax"), "{sent}");
    let browser = Browser::of(&service, &entered);
    let home = browser.page("/dashboard").await;
    assert!(home.contains("Loja Exemplo") && home.contains("owner@loja.example"), "{home}");
    let out = browser.post("/dashboard/logout", &[]).await;
    assert_eq!((out.status.as_u16(), out.header("location")), (303, Some("/dashboard/login")));
    assert!(out.header("set-cookie").unwrap().starts_with("local-session=; Path=/; Max-Age=0;"), "{out:?}");
    assert!(out.header("clear-site-data").is_some());
    // The token has ended, even for a browser that still sends it.
    let ended = browser.answer("/dashboard/charges?status=paid", &[]).await;
    assert_eq!(ended.status, 303);
    let next = "/dashboard/login?next=%2Fdashboard%2Fcharges%3Fstatus%3Dpaid";
    assert_eq!(location(&ended), next);
    assert_eq!(browser.post("/dashboard/logout", &[]).await.status, 303);

    // A wrong password is answered by the form with the same words as an unknown address, and with what was typed.
    for email in [service.stack.seed.first.owner_email.as_str(), "unknown@loja.example"] {
        let fields = [("email", email), ("password", "wrong"), ("next", "//evil.example")];
        let answer = post(&service, "/dashboard/login", "", &fields).await;
        assert_eq!((answer.status.as_u16(), answer.header("set-cookie")), (401, None));
        let form = shown(&answer);
        assert_eq!(form.names(Role::Alert), ["O e-mail ou a senha está errado."]);
        assert_eq!(form.get(Role::Field, "E-mail").value(), email);
        assert!(!form.source().contains("evil.example"));
        assert!(form.has(Role::Button, "English"), "{form}");
    }
}

#[tokio::test]
async fn every_form_of_another_site_is_refused() {
    let service = Service::start().await;
    let browser = Browser::owner(&service).await;
    for path in form_routes() {
        let path = path.replace(['{', '}'], "");
        for foreign in [
            &[("sec-fetch-site", "cross-site")][..],
            &[("sec-fetch-site", "same-site")],
            &[("origin", "https://evil.example")],
            &[("origin", "null")],
            &[],
        ] {
            let headers = [&[FORM, ("cookie", browser.cookies.as_str())], foreign].concat();
            let answer = service.raw(Method::POST, &path, &headers, "mode=test").await;
            assert_eq!(
                (answer.status.as_u16(), answer.header("set-cookie")),
                (403, None),
                "{path} {foreign:?}"
            );
            assert!(text(&answer).contains("O formulário não veio de uma página deste painel"));
        }
    }
    let seed = &service.stack.seed.first;
    let log_in = encoded(&[("email", &seed.owner_email), ("password", &seed.password)]);
    for (path, body) in [
        ("/dashboard/login", log_in.as_str()),
        ("/dashboard/logout", ""),
        ("/dashboard/mode", "mode=live"),
        ("/dashboard/language", "language=en"),
    ] {
        let origin = service.base_url.clone();
        let headers = [FORM, ("origin", origin.as_str())];
        assert_eq!(service.raw(Method::POST, path, &headers, body.to_owned()).await.status, 303, "{path}");
    }
    browser.page("/dashboard").await;
}

#[tokio::test]
async fn every_page_has_the_security_headers_nothing_inline_and_the_users_language() {
    let service = Service::start().await;
    let browser = Browser::owner(&service).await;
    let mut answers = Vec::new();
    for path in ["/dashboard/login", "/dashboard/totp"] {
        answers.push(service.raw(Method::GET, path, &[], "").await);
    }
    for path in PAGES.iter().chain(&["/dashboard/nothing", "/dashboard/charges/x"]) {
        answers.push(browser.answer(path, &[]).await);
    }
    for answer in answers {
        let policy = answer.header("content-security-policy").unwrap();
        for part in
            ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'self'"]
        {
            assert!(policy.contains(part), "{part}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("cross-origin-opener-policy"), Some("same-origin"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let html = text(&answer);
        for inline in ["<style", " style=", " onclick=", "javascript:", "<script>", "http://www.w3"] {
            assert!(!html.contains(inline), "{inline}: {html}");
        }
    }

    // An unknown page shows the id of the request.
    for path in ["/dashboard/nothing", "/dashboard/charges/ch_fe5392dd-e865-8656-a544-24ef3d590c1b"] {
        let answer = browser.answer(path, &[("x-request-id", "mine<b>")]).await;
        assert_eq!(answer.status, 404);
        let html = text(&answer);
        assert!(html.contains("Não encontrado") && html.contains("mine&lt;b&gt;"), "{html}");
    }

    for (accepted, lang, word) in
        [("pt-BR", "pt-BR", "Cobranças"), ("en-US,en", "en", "Charges"), ("es-AR", "es", "Cobros")]
    {
        for path in PAGES {
            let page = shown(&browser.answer(path, &[("accept-language", accepted)]).await);
            assert!(page.language() == lang && page.has(Role::Link, word), "{path} {page}");
        }
    }
    assert!(browser.page("/dashboard").await.form("Trocar idioma").has(Role::Field, "Idioma"));
    // The pages of a shop owner have no developers' words.
    for page in [
        "",
        "/charges",
        "/links",
        "/wallet",
        "/reports",
        "/disputes",
        "/settings",
        "/team",
        "/notices",
        "/search",
    ] {
        let text = browser.page(&format!("/dashboard{page}")).await.text_without_code().to_lowercase();
        for word in ["endpoint", "payload", "pela api"] {
            assert!(!text.contains(word), "{page}: {word}: {text}");
        }
    }
}

#[tokio::test]
async fn a_filtered_list_has_only_matching_charges_and_a_link_to_the_next_page() {
    let service = Service::start().await;
    let browser = Browser::owner(&service).await;
    for order in 0..26 {
        let body = json!({"amount": 1000 + order, "metadata": {"pedido": format!("N{order:02}")}});
        let charge = service.new_charge(&body).await;
        if order % 2 == 0 {
            service.sandbox(&charge, "pay", &json!({})).await;
        }
    }
    let paid = browser.page("/dashboard/charges?status=paid&created_after=&method=PIX").await;
    assert!(paid.contains("N24") && !paid.contains("N25"), "{paid}");
    let first = browser.page("/dashboard/charges?limit=20").await;
    assert!(first.has(Role::Link, "Devoluções e estornos"), "who looks for refunds begins at the charges");
    assert!(first.contains("N25") && !first.contains("N05"), "{first}");
    let second = browser.page(&next_of(&first).unwrap()).await;
    assert!(second.contains("N05") && !second.contains("N25"), "{second}");
    assert_eq!(previous_of(&first), None);
    assert!(browser.page(&previous_of(&second).unwrap()).await.contains("N25"));
    assert_eq!(browser.answer("/dashboard/charges?status=unknown", &[]).await.status, 400);

    let events = eventually("the events", async || {
        let page = browser.page("/dashboard/events?type=charge.paid&created_after=&created_before=").await;
        (page.named(Role::Link, "charge.paid").len() == 13).then_some(page)
    });
    assert!(!events.await.has(Role::Link, "charge.created"));
    let refused =
        browser.answer("/dashboard/events?type=charge.paid&created_after=ontem&created_before=x", &[]).await;
    let page = shown(&refused);
    assert_eq!(refused.status, 400);
    assert!(page.get(Role::Navigation, "Menu").has(Role::Link, "Webhooks"));
    assert_eq!(page.names(Role::Alert), ["Um campo não é válido. Corrija e envie de novo. (De, Até)"]);
    for (label, value) in [("De", "ontem"), ("Até", "x"), ("Tipo", "charge.paid")] {
        assert_eq!(page.get(Role::Field, label).value(), value);
    }
}

#[tokio::test]
async fn a_wallet_shows_the_balance_after_each_movement_on_all_its_pages_and_the_way_back() {
    let service = Service::start().await;
    let browser = Browser::owner(&service).await;
    for amount in [1_000, 250, 4_000, 70] {
        service.pay(amount).await;
    }
    let charge = service.pay(500).await;
    service.refund(&charge, "refund-01", json!({"amount": 200})).await.expect(201);
    let whole = browser.page("/dashboard/wallet").await;
    let balances = ["R$ 56,20", "R$ 58,20", "R$ 53,20", "R$ 52,50", "R$ 12,50", "R$ 10,00"];
    assert_eq!(column(&whole, "Saldo depois"), balances);
    let noticed = browser.page("/dashboard/wallet?done=wallet-key").await;
    assert_eq!(column(&noticed, "Saldo depois"), balances);
    let (money_in, money_out) = (column(&whole, "Entrada"), column(&whole, "Saída"));
    assert_eq!(money_in, ["", "+R$ 5,00", "+R$ 0,70", "+R$ 40,00", "+R$ 2,50", "+R$ 10,00"]);
    assert_eq!(money_out, ["-R$ 2,00", "", "", "", "", ""]);
    let (mut path, mut pages) = (Some("/dashboard/wallet?currency=BRL&limit=2".to_owned()), Vec::new());
    while let Some(next) = path {
        let page = browser.page(&next).await;
        path = next_of(&page);
        pages.push(page);
    }
    let columns = pages.iter().map(|page| column(page, "Saldo depois"));
    assert_eq!(columns.collect::<Vec<_>>(), balances.chunks(2).collect::<Vec<_>>());
    let second = browser.page(&previous_of(&pages[2]).unwrap()).await;
    assert_eq!(column(&second, "Saldo depois"), balances[2..4]);
    let first = browser.page(&previous_of(&second).unwrap()).await;
    assert_eq!(column(&first, "Entrada"), ["", "+R$ 5,00"]);
    assert_eq!(column(&first, "Saldo depois"), balances[..2]);
    assert_eq!(previous_of(&first), None);
    // With a filter, the page does not have all movements.
    let filtered = browser.page("/dashboard/wallet?created_after=2020-01-01").await;
    assert!(column(&filtered, "Saldo depois").iter().all(String::is_empty), "{filtered}");
}

#[tokio::test]
async fn a_page_that_the_browser_has_is_not_sent_again() {
    let service = Service::start().await;
    let browser = Browser::owner(&service).await;
    let charge = service.charge().await;
    let path = format!("/dashboard/charges/{}", id(&charge));
    // The page also shows the charge's events.
    eventually("the charge's event", async || {
        (!service.list(&format!("/v1/events?object={}", raw_id(&charge))).await.is_empty()).then_some(())
    })
    .await;
    let etag = browser.answer(&path, &[]).await.header("etag").unwrap().to_owned();
    let known = browser.answer(&path, &[("if-none-match", &etag)]).await;
    assert_eq!((known.status.as_u16(), known.bytes.len()), (304, 0));
    service.sandbox(&charge, "pay", &json!({})).await;
    let changed = browser.answer(&path, &[("if-none-match", &etag)]).await;
    assert_eq!(changed.status, 200);
    assert!(text(&changed).contains("Paga"));
    // The keys of forms, which differ each time, do not count.
    let etag = browser.answer("/dashboard/webhooks", &[]).await.header("etag").unwrap().to_owned();
    assert_eq!(browser.answer("/dashboard/webhooks", &[("if-none-match", &etag)]).await.status, 304);

    // A user has 300 pages a minute.
    service.begin_minute().await;
    for _ in 0..300 {
        assert_eq!(browser.answer("/dashboard/charges", &[]).await.status, 200);
    }
    let refused = browser.answer("/dashboard/charges", &[]).await;
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_some());
    assert!(text(&refused).contains("Requisições demais"));
    // The other user has pages left.
    Browser::member(&service).await.page("/dashboard/charges").await;
}

#[tokio::test]
async fn texts_are_compressed_and_assets_are_immutable_under_names_of_their_content() {
    let service = Service::start().await;
    for (path, times) in [("/docs", 2), ("/v1/openapi.json", 4)] {
        let plain = service.raw(Method::GET, path, &[], "").await;
        assert_eq!(plain.header("content-encoding"), None);
        let headers = [("accept-encoding", "gzip, br")];
        let compressed =
            Client::of_other_server(&service.base_url).raw(Method::GET, path, &headers, "").await;
        assert_eq!(compressed.header("content-encoding"), Some("gzip"));
        assert_eq!(compressed.header("vary"), Some("accept-encoding"));
        assert!(compressed.bytes.len() * times < plain.bytes.len(), "{path}: {}", compressed.bytes.len());
    }

    let html = text(&service.raw(Method::GET, "/dashboard/login", &[], "").await);
    let links: Vec<&str> = html.split("/dashboard/assets/").skip(1).collect();
    assert_eq!(links.len(), 3, "{html}");
    for link in links {
        let path = format!("/dashboard/assets/{}", link.split('"').next().unwrap());
        let asset = service.raw(Method::GET, &path, &[], "").await;
        assert_eq!(asset.status, 200, "{path}");
        assert_eq!(asset.header("cache-control"), Some("public, max-age=31536000, immutable"));
    }
    assert_eq!(service.raw(Method::GET, "/dashboard/assets/style-0.css", &[], "").await.status, 404);
}

#[tokio::test]
async fn on_a_laptop_the_home_page_leads_to_the_dashboard_and_one_click_logs_in() {
    let service = Service::start().await;
    let home = service.raw(Method::GET, "/", &[], "").await;
    assert_eq!((home.status.as_u16(), home.header("location")), (303, Some("/dashboard")));
    let form = shown(&service.raw(Method::GET, "/dashboard/login?next=/dashboard/charges", &[], "").await);
    let link = form.get(Role::Link, "Entrar com um clique");
    let link = link.target();
    let entered = service.raw(Method::GET, link, &[], "").await;
    assert_eq!(location(&entered), "/dashboard/charges");
    assert!(Browser::of(&service, &entered).page("/dashboard").await.contains("owner@loja.example"));
    let foreign = service.raw(Method::GET, link, &[("sec-fetch-site", "cross-site")], "").await;
    assert_eq!(foreign.status, 403);
}

/// The requests of a page, and those in sequence.
#[tokio::test]
async fn pages_stay_within_their_budgets() {
    let service = Service::without_event_sources().await;
    let browser = Browser::owner(&service).await;
    let endpoint = service.register_endpoint("http://127.0.0.1:9/", &["charge.paid"]).await;
    let mut charge = json!(null);
    for number in 0..30 {
        charge = service.pay(1_000).await;
        if number < 20 {
            service.refund(&charge, "refund-0001", json!({"amount": 100})).await.expect(201);
        }
    }
    let case = service.sandbox_answer(&charge, "med-cases", &json!({})).await.expect(201);
    crate::invocations::dispatch(&service.stack).await;
    let endpoint = format!("/dashboard/webhooks/{}", id(&endpoint));
    let next = next_of(&browser.page("/dashboard/charges").await).unwrap();
    let dispute = format!("/dashboard/disputes/{}", id(&case));
    let refunds = browser.page("/dashboard/refunds").await;
    let older = browser.page(&next_of(&refunds).unwrap()).await;
    assert_eq!((refunds.all(Role::Code).len(), older.all(Role::Code).len()), (15, 5), "{refunds}");
    let delivery = browser.page(&endpoint).await.links_to("/dashboard/deliveries/").remove(0);
    let event = browser.page(&delivery).await.links_to("/dashboard/events/").remove(0);
    let proxy = service.proxy();
    proxy.set_min_latency(Duration::from_millis(100));
    for (path, requests, read_units) in [
        ("/dashboard", 12, 60.0),
        ("/dashboard/charges", 6, 60.0),
        ("/dashboard/charges?status=paid", 7, 60.0),
        (next.as_str(), 7, 60.0),
        ("/dashboard/refunds", 6, 45.0),
        ("/dashboard/payouts", 4, 35.0),
        ("/dashboard/settings", 3, 5.0),
        ("/dashboard/wallet", 8, 45.0),
        ("/dashboard/disputes", 6, 45.0),
        (dispute.as_str(), 5, 20.0),
        ("/dashboard/webhooks", 6, 60.0),
        ("/dashboard/webhooks?status=PENDING", 6, 60.0),
        (endpoint.as_str(), 7, 60.0),
        ("/dashboard/developers", 3, 10.0),
        ("/dashboard/team", 5, 30.0),
        ("/dashboard/security", 3, 30.0),
        ("/dashboard/confirm", 2, 30.0),
        ("/dashboard/audit", 4, 30.0),
        ("/dashboard/audit?actor=usr_x&day=2026-01-01", 4, 30.0),
        ("/dashboard/events?type=charge.paid", 5, 30.0),
        (event.as_str(), 5, 30.0),
        (delivery.as_str(), 5, 30.0),
        ("/dashboard/notices", 5, 30.0),
        ("/dashboard/help", 2, 5.0),
    ] {
        proxy.reset();
        browser.page(path).await;
        let report = proxy.report();
        assert!(report.requests() <= requests, "{path}: {report:?}");
        // The charges of disputes and deliveries are known only after these. The balance is read before and after the
        // movements.
        let is_longer = ["/dashboard/disputes", "/dashboard/wallet", "/dashboard/webhooks"];
        let sequential = if is_longer.iter().any(|longer| path.starts_with(longer)) { 4 } else { 3 };
        assert!(report.sequential_requests <= sequential, "{path}: {report:?}");
        assert!(report.read_units <= read_units, "{path}: {report:?}");
        assert!(report.write_units <= 1.0, "{path}: {report:?}");
    }
}

#[tokio::test]
async fn pages_of_webhooks_stay_within_their_budgets_with_50_endpoints() {
    let service = Service::without_event_sources().await;
    let names = ["charge.created", "charge.paid", "charge.expired", "charge.failed", "refund.created"];
    for number in 0..50 {
        let url = format!("https://shop.example/hooks/a-path-of-a-usual-length/{number}");
        service.register_endpoint(&url, &names).await;
    }
    service.charge().await;
    service.stack.clock.advance(3_600_000);
    crate::invocations::dispatch(&service.stack).await;
    let browser = Browser::owner(&service).await;
    let event = service.get("/v1/events?limit=1").await.expect(200)["data"][0].clone();
    let event = format!("/dashboard/events/{}", id(&event));
    let proxy = service.proxy();
    let within = async |path: &str, requests: usize| {
        proxy.reset();
        let page = browser.page(path).await;
        let report = proxy.report();
        let sequential = if path.starts_with("/dashboard/webhooks") { 4 } else { 3 };
        assert!(
            report.requests() <= requests && report.sequential_requests <= sequential,
            "{path}: {report:?}"
        );
        assert!(report.read_units <= 45.0, "{path}: {report:?}");
        page
    };
    within("/dashboard/webhooks", 6).await;
    within("/dashboard/webhooks?status=PENDING", 6).await;
    // Also reads the pending deliveries, because those of a paused endpoint are shown as cancelled.
    within("/dashboard/webhooks?status=CANCELLED", 7).await;
    let (mut next, mut shown) = (Some(event), 0);
    while let Some(path) = next {
        let page = within(&path, 5).await;
        shown += page.links_to("/dashboard/deliveries/wd_").len();
        next = next_of(&page);
    }
    assert_eq!(shown, 50);

    // The wallet says how many release days it does not list.
    for hold_days in 1..=33 {
        service.set_terms(MethodTerms { hold_days, ..MethodTerms::default() }).await;
        service.pay(1_000).await;
    }
    let wallet = browser.page("/dashboard/wallet").await;
    assert!(wallet.contains("E mais 2 dias."), "{wallet}");
}

/// The texts of a column.
fn column(page: &Page, header: &str) -> Vec<String> {
    page.column(header).iter().map(Page::text).collect()
}

/// The link to the page before in a list.
fn previous_of(page: &Page) -> Option<String> {
    let links = page.all(Role::Link);
    links.iter().find(|link| link.name().starts_with('←')).map(|link| link.target().to_owned())
}

/// The link to the next page of a list.
pub(crate) fn next_of(page: &Page) -> Option<String> {
    let links = page.all(Role::Link);
    links.iter().find(|link| link.name().ends_with('→')).map(|link| link.target().to_owned())
}

#[tokio::test]
async fn every_object_has_a_page_in_its_own_account_and_mode_alone() {
    let service = Service::start().await;
    let browser = Browser::owner(&service).await;
    let endpoint =
        service.register_endpoint("http://127.0.0.1:9/a", &["charge.paid", "payment.completed"]).await;
    let charge = service.pay(5_000).await;
    let case = service.sandbox_answer(&charge, "med-cases", &json!({})).await.expect(201);
    let delivery = eventually("a delivery", async || service.deliveries("").await.into_iter().next()).await;
    let event = service.get("/v1/events?limit=1").await.expect(200)["data"][0].clone();
    let live = Browser::owner(&service).await.in_mode(Mode::Live);
    for (list, object) in [
        ("charges", &charge),
        ("disputes", &case),
        ("webhooks", &endpoint),
        ("deliveries", &delivery),
        ("events", &event),
    ] {
        let path = format!("/dashboard/{list}/{}", id(object));
        let page = browser.page(&path).await;
        assert_eq!(live.answer(&path, &[]).await.status, 404, "{path}");
        // The choice of the other mode leads to the list of that mode, and says so.
        let chosen = page.press("Ver produção", &[]);
        let led = browser.post(&chosen.action, &chosen.pairs()).await;
        let in_live = live.page(led.header("location").unwrap()).await;
        assert!(in_live.contains("O que estava aberto só existe no outro modo"), "{path}: {in_live}");
    }
    let other = service.other_account().new_charge("order-0001", &json!({"amount": 777})).await;
    assert!(!browser.page("/dashboard/charges").await.contains("R$ 7,77"));
    for path in [
        &*format!("charges/{}", id(&other)),
        "refunds/x",
        "disputes/x",
        "webhooks/x",
        "deliveries/x",
        "events/x",
    ] {
        assert_eq!(browser.answer(&format!("/dashboard/{path}"), &[]).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn lists_find_what_the_filters_of_the_api_find() {
    let service = Service::start().await;
    let listener = crate::support::Listener::start().await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.paid"]).await;
    let charge = service
        .new_charge(&json!({
            "amount": 12_990, "metadata": {"order_id": "4711"},
            "customer": {"document": "29537995593", "email": "maria@example.com"},
        }))
        .await;
    let end_to_end_id = "E00000000202611211000abcdefghijk";
    service.sandbox(&charge, "pay", &json!({"end_to_end_id": end_to_end_id})).await;
    listener.wait_for_event("charge.paid").await;
    let payouts = money::payout::Payouts::new(service.store());
    let (operator, now) = (crate::support::operator(), service.stack.clock.now());
    let money = (domain::money::Amount::parse(100).unwrap(), domain::money::Currency::BRL);
    let payout = domain::ids::PayoutId::new(now, shared::random::bytes().unwrap());
    payouts.create((payout, &payout.into()), service.scope(), money, &operator, now).await.unwrap();
    let browser = Browser::owner(&service).await;
    // The filters by order, e-mail address and document are tested with the search.
    let path = format!("/dashboard/charges?end_to_end_id={end_to_end_id}");
    assert_eq!(browser.page(&path).await.links_to("/dashboard/charges/ch_").len(), 1);
    assert!(browser.page("/dashboard/payouts").await.contains("R$ 1,00"));
    // A search leads to the list with the payout alone.
    let found = browser.answer(&format!("/dashboard/search?q={payout}"), &[]).await;
    let list = format!("/dashboard/payouts?id={payout}");
    assert_eq!(location(&found), list);
    assert!(browser.page(&list).await.contains("R$ 1,00"));
    for other in [
        "/dashboard/payouts?id=x".to_owned(),
        format!("/dashboard/payouts?id={}", payout.to_string().replace('0', "1")),
    ] {
        assert!(!browser.page(&other).await.contains("R$ 1,00"), "{other}");
    }
    assert!(!Browser::owner(&service).await.in_mode(Mode::Live).page(&list).await.contains("R$ 1,00"));
    let endpoint = format!("/dashboard/webhooks/{}", id(&endpoint));
    assert!(browser.page(&format!("{endpoint}?status=DELIVERED")).await.has(Role::Link, "charge.paid"));
    browser.page(&format!("{endpoint}?status=FAILED")).await;
}
