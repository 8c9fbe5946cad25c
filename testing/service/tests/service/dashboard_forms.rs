//! Tests of the dashboard's forms: what they change, and who may send them.

use axum::http::Method;
use domain::ids::Mode;
use serde_json::{Value, json};

use crate::dashboard::{Browser, location, shown_secret, text};
use crate::support::{Listener, Service, eventually, id, wait_until};
use crate::webhooks::endpoint_path;

/// The hidden fields and the rest of the form with this action, as a browser sends them.
fn fields_of(html: &str, action: &str) -> Vec<(String, String)> {
    let form = html.split("<form").find(|form| form.contains(&format!("action=\"{action}\"")));
    let form = form.unwrap_or_else(|| panic!("no form {action}: {html}")).split("</form>").next().unwrap();
    let attribute = |input: &str, name: &str| {
        let value = input.split(&format!("{name}=\"")).nth(1)?.split('"').next()?;
        Some(value.replace("&amp;", "&"))
    };
    let inputs = form.split("<input").skip(1).map(|input| input.split('>').next().unwrap());
    inputs
        .filter(|input| input.contains("type=\"hidden\""))
        .map(|input| (attribute(input, "name").unwrap(), attribute(input, "value").unwrap_or_default()))
        .collect()
}

/// The paths to which the forms of a page post.
pub(crate) fn actions(html: &str) -> Vec<String> {
    html.split("action=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

impl Browser<'_> {
    /// Fills in the form of a page, sends it, and returns where it led.
    pub(crate) async fn submit(&self, page: &str, action: &str, more: &[(&str, &str)]) -> String {
        let html = self.page(page).await;
        let hidden = fields_of(&html, action);
        let hidden = hidden.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<(&str, &str)> = hidden.chain(more.iter().copied()).collect();
        let answer = self.post(action, &fields).await;
        assert_eq!(answer.status, 303, "{action}: {answer:?}");
        answer.header("location").unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_charge_is_created_paid_and_refunded_in_part() {
    let service = Service::start().await;
    let browser = Browser::member(&service).await;
    let fields = [
        ("amount", "129,90"),
        ("order_id", "4711"),
        ("name", "Maria Silva"),
        ("document", "295.379.955-93"),
        ("email", ""),
    ];
    let page = browser.submit("/dashboard/charges/new", "/dashboard/charges", &fields).await;
    assert!(page.starts_with("/dashboard/charges/ch_"), "{page}");
    assert!(browser.page(&page).await.contains("R$ 129,90"));

    let simulate = format!("{page}/simulate");
    let back = browser.submit(&page, &simulate, &[("outcome", "paid")]).await;
    assert_eq!(back, format!("{page}?done=1"));
    let charge = service.get(&page.replace("/dashboard/", "/v1/")).await.expect(200);
    assert_eq!((&charge["status"], &charge["metadata"]["order_id"]), (&json!("paid"), &json!("4711")));

    let refund = format!("{page}/refund");
    let key = key_of(&browser.page(&page).await, &refund);
    let fields =
        [("mode", "test"), ("idempotency_key", key.as_str()), ("amount", "29,90"), ("reason", "Troca")];
    // A form that is sent twice refunds once.
    for _ in 0..2 {
        let answer = browser.post(&refund, &fields).await;
        assert_eq!(location(&answer), format!("{page}?done=1"), "{answer:?}");
    }
    let [refund_made] = <[Value; 1]>::try_from(service.refunds(&charge).await).unwrap();
    assert_eq!((&refund_made["amount"], &refund_made["strategy"]), (&json!(2_990), &json!("devolution")));
    // A refused form keeps what was typed.
    for (amount, status, rule) in
        [("500,00", 422, "O valor é maior do que o que resta devolver."), ("dez", 400, "id=\"amount-error\"")]
    {
        let typed =
            [("mode", "test"), ("idempotency_key", "refund-0002"), ("amount", amount), ("reason", "Troca")];
        let refused = browser.post(&refund, &typed).await;
        let html = String::from_utf8_lossy(&refused.bytes);
        assert_eq!(refused.status, status, "{html}");
        for part in [rule, &format!("value=\"{amount}\""), "value=\"Troca\"", "tudo (R$ 100,00)"] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    let failed = browser.submit(&page, &refund, &[("amount", "1,00"), ("reason", "sandbox:hold")]).await;
    assert_eq!(failed, format!("{page}?done=1"));
    let newest = service.refunds(&charge).await.remove(0);
    assert!(browser.page("/dashboard/refunds").await.contains("Em andamento"));
    service.resolve(&newest, "FAILED").await.expect(200);
    let html = browser.page("/dashboard/refunds").await;
    assert_eq!(
        (html.matches("<code class=\"sm\">re_").count(), html.matches("Falhou").count()),
        (2, 1),
        "{html}"
    );
}

#[tokio::test]
async fn a_refund_is_typed_in_the_currency_of_the_charge() {
    let service = Service::start().await;
    let browser = Browser::member(&service).await;
    let body = json!({"amount": 1_990, "currency": "JPY", "paymentMethods": ["CREDIT_CARD"], "idempotencyKey": "yen-1"});
    let payment = service.post("/v1/payments", &body).await.expect(201);
    let page = format!("/dashboard/charges/ch_{}", payment["id"].as_str().unwrap());
    let charge = service.get(&page.replace("/dashboard/", "/v1/")).await.expect(200);
    service.sandbox(&charge, "pay", &json!({})).await;
    let refund = format!("{page}/refund");
    let question = "data-confirm=\"Devolver JPY {} a quem pagou (Cartão de crédito)?";
    assert!(browser.page(&page).await.contains(question));
    let typed = [("mode", "test"), ("idempotency_key", "refund-yen1"), ("amount", "10,50")];
    let refused = browser.post(&refund, &typed).await;
    assert_eq!(refused.status, 400, "a yen has no decimals");
    let done = browser.submit(&page, &refund, &[("amount", "10")]).await;
    assert_eq!(done, format!("{page}?done=1"));
    assert_eq!(service.refunds(&charge).await[0]["amount"], 10);
    // The filter and the search read the amount in the currency of each charge.
    for (typed, is_listed) in [("1.990", true), ("JPY+1.990", true), ("19,90", false), ("R$+1990", false)] {
        let list = browser.page(&format!("/dashboard/charges?amount={typed}")).await;
        assert_eq!(list.contains(&page), is_listed, "{typed}");
    }
    let found = browser.answer("/dashboard/search?q=JPY+1.990", &[]).await;
    assert_eq!(location(&found), "/dashboard/charges?amount=JPY+1.990");
}

#[tokio::test]
async fn a_refused_new_charge_keeps_what_was_typed_and_its_expiry_is_in_minutes() {
    let service = Service::start().await;
    let browser = Browser::member(&service).await;
    let typed = [("amount", "129,90"), ("document", "123"), ("name", "Maria <b>"), ("expires_in", "15")];
    let sent = [&[("mode", "test"), ("idempotency_key", "0123456789abcdef")], &typed[..]].concat();
    // Each refused field is marked.
    let two = [&sent[..], &[("email", "maria")]].concat();
    let html = text(&browser.post("/dashboard/charges", &two).await);
    for name in ["document", "email"] {
        assert!(html.contains(&format!("aria-describedby=\"{name}-error\"")), "{name}: {html}");
    }
    assert_eq!(html.matches("aria-invalid").count(), 2, "{html}");
    let refused = browser.post("/dashboard/charges", &sent).await;
    let html = text(&refused);
    assert_eq!((refused.status.as_u16(), refused.header("location")), (400, None), "{html}");
    for (name, value) in &sent {
        let value = value.replace('<', "&lt;").replace('>', "&gt;");
        assert!(
            html.contains(&format!("name=\"{name}\"")) && html.contains(&format!("value=\"{value}\"")),
            "{name}: {html}"
        );
    }
    let field = html.split("id=\"document\"").nth(1).unwrap();
    assert!(
        field.contains("aria-invalid=\"true\" aria-describedby=\"document-error\"><p class=\"alert bad\" id=\"document-error\""),
        "{html}"
    );
    let corrected = [("document", "29537995593"), ("name", "Maria")];
    let created = browser.post("/dashboard/charges", &[&sent[..3], &sent[5..], &corrected].concat()).await;
    let page = created.header("location").unwrap_or_else(|| panic!("{created:?}")).to_owned();
    let charge = service.get(&page.replace("/dashboard/", "/v1/")).await.expect(200);
    let at = |time: &Value| time.as_str().unwrap().parse::<domain::time::Timestamp>().unwrap();
    let lasts = at(&charge["pix"]["expires_at"]).millis_since(at(&charge["created_at"]));
    assert_eq!(lasts, 15 * 60 * 1_000, "{charge}");
    // A key that has made another charge is replaced.
    let again = browser.post("/dashboard/charges", &sent).await;
    assert_eq!(again.status, 400);
    let again = browser.post("/dashboard/charges", &sent[..3]).await;
    let html = text(&again);
    assert!(again.status == 409 && html.contains("129,90") && !html.contains("0123456789abcdef"), "{html}");
    for minutes in ["0", "dez", "1,5"] {
        let fields =
            [("mode", "test"), ("idempotency_key", "other-key"), ("amount", "1"), ("expires_in", minutes)];
        assert_eq!(browser.post("/dashboard/charges", &fields).await.status, 400, "{minutes}");
    }
}

#[tokio::test]
async fn an_action_that_would_be_refused_is_disabled_and_says_why() {
    let service = Service::start().await;
    let page_of = |charge: &Value| format!("/dashboard/charges/{}", id(charge));
    let disabled =
        |label: &str, why: &str| format!("<button disabled>{label}</button> <span class=\"sm soft\">{why}");
    let (open, refunded) = (service.charge().await, service.pay(10_000).await);
    let (old, contested) = (service.pay(10_000).await, service.pay(10_000).await);
    let owner = Browser::owner(&service).await;
    let html = owner.page(&page_of(&open)).await;
    assert!(html.contains(&disabled("Devolver", "Só uma cobrança paga")), "{html}");
    assert!(html.contains(&format!("{}/cancel\"", page_of(&open))), "{html}");
    let html = owner.page(&page_of(&refunded)).await;
    assert!(html.contains(&disabled("Cancelar cobrança", "Só uma cobrança ainda não paga")), "{html}");
    owner.submit(&page_of(&refunded), &format!("{}/refund", page_of(&refunded)), &[]).await;
    assert!(
        owner.page(&page_of(&refunded)).await.contains(&disabled("Devolver", "Não resta nada a devolver."))
    );

    // A test dispute is opened once.
    let simulate = format!("{}/simulate", page_of(&contested));
    for _ in 0..2 {
        let sent = owner.post(&simulate, &[("mode", "test"), ("outcome", "disputed")]).await;
        assert_eq!(location(&sent), format!("{}?done=1", page_of(&contested)));
    }
    let [case] = <[Value; 1]>::try_from(service.list("/v1/med/cases").await).unwrap();
    let due: domain::time::Timestamp = case["response_deadline"].as_str().unwrap().parse().unwrap();
    assert!(due.millis_since(service.stack.clock.now()) > 6 * 86_400_000, "{case}");
    let html = owner.page(&page_of(&contested)).await;
    assert!(html.contains(&disabled("Devolver", "A cobrança tem ou teve uma disputa.")), "{html}");
    assert!(
        !html.contains("Simular disputa") && owner.page(&page_of(&old)).await.contains("Simular disputa")
    );

    service.advance_seconds(90 * 86_400 + 1).await;
    let owner = Browser::owner(&service).await;
    let html = owner.page(&page_of(&old)).await;
    assert!(html.contains(&disabled("Devolver", "O banco só devolve um Pix até 90 dias")), "{html}");
    let late = owner
        .post(&format!("{}/refund", page_of(&old)), &[("mode", "test"), ("idempotency_key", "refund-0001")])
        .await;
    assert_eq!(location(&late), format!("{}?error=payment_not_refundable", page_of(&old)));
}

#[tokio::test]
async fn a_charge_refreshes_only_while_something_may_change() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.paid"]).await;
    let (open, charge) = (service.charge().await, service.pay(10_000).await);
    let page = format!("/dashboard/charges/{}", id(&charge));
    listener.wait_for_event("charge.paid").await;
    wait_until("a delivered event", async || {
        service.deliveries("").await.iter().all(|delivery| delivery["status"] == "DELIVERED")
    })
    .await;
    let refreshes = async |page: &str| {
        let html = Browser::owner(&service).await.page(page).await;
        html.contains("<div id=\"charge\" data-refresh=\"10\">")
    };
    assert!(refreshes(&page).await, "its events may still appear");
    service.advance_seconds(61).await;
    assert!(!refreshes(&page).await && refreshes(&format!("/dashboard/charges/{}", id(&open))).await);
    service.register_endpoint("http://127.0.0.1:9/", &["refund.created"]).await;
    service.refund(&charge, "refund-0001", json!({"amount": 100})).await.expect(201);
    eventually("a delivery", async || service.deliveries("&status=PENDING").await.into_iter().next()).await;
    service.advance_seconds(61).await;
    assert!(refreshes(&page).await, "a delivery is retried");
}

#[tokio::test]
async fn a_form_is_refused_if_the_mode_changed_or_the_session_ended() {
    let service = Service::start().await;
    let charge = service.pay(10_000).await;
    let path = format!("/dashboard/charges/{}/refund", id(&charge));
    let fields = [("mode", "test"), ("idempotency_key", "refund-0001"), ("amount", "1,00")];
    let owner = Browser::owner(&service).await;
    for mode in [&[("mode", "live")][..], &[]] {
        let fields = [mode, &fields[1..]].concat();
        assert_eq!(owner.post(&path, &fields).await.status, 409);
    }
    owner.post("/dashboard/logout", &[]).await;
    let ended = owner.post(&path, &fields).await;
    assert_eq!(location(&ended), "/dashboard/login?next=%2Fdashboard&error=log_in_again");
    assert!(service.refunds(&charge).await.is_empty());
    // A charge of another account.
    let other = service.other_account().new_charge("order-0001", &json!({"amount": 777})).await;
    let owner = Browser::owner(&service).await;
    for action in ["refund", "cancel", "simulate"] {
        let answer = owner.post(&format!("/dashboard/charges/{}/{action}", id(&other)), &fields).await;
        assert_eq!(answer.status, 404, "{action}");
    }
}

#[tokio::test]
async fn an_endpoint_is_registered_paused_rotated_and_deleted() {
    let service = Service::start().await;
    let owner = Browser::owner(&service).await;
    let webhooks = "/dashboard/webhooks";
    let key = key_of(&owner.page(webhooks).await, webhooks);
    let fields = [
        ("mode", "test"),
        ("url", "http://127.0.0.1:9/hook"),
        ("events", "charge.paid"),
        ("events", "charge.created"),
        ("idempotency_key", key.as_str()),
    ];
    let registered = owner.post(webhooks, &fields).await;
    let again = owner.post(webhooks, &fields).await;
    assert_eq!(location(&again), "/dashboard/webhooks?error=idempotency_key_reused");
    let mut endpoints = service.list("/v1/webhooks/endpoints").await;
    assert_eq!(endpoints.len(), 1, "a form that is sent twice registers one endpoint");
    let endpoint = endpoints.remove(0);
    assert_eq!(endpoint["events"].as_array().unwrap().len(), 2);
    let page = format!("/dashboard/webhooks/{}", id(&endpoint));
    let first = shown_secret(&registered);
    assert_eq!(first.len(), 64);
    assert!(!owner.page(&page).await.contains(&first));
    let rotate = [("mode", "test"), ("idempotency_key", "k-9")];
    let rotated = owner.post(&format!("{page}/rotate"), &rotate).await;
    assert_ne!(shown_secret(&rotated), first);
    let paused = owner.submit(&page, &format!("{page}/status"), &[]).await;
    assert_eq!(paused, format!("{page}?done=1"));
    assert_eq!(service.get(&endpoint_path(&endpoint)).await.expect(200)["status"], "INACTIVE");
    let html = owner.page(&page).await;
    assert!(html.contains("Enviar teste (o endpoint está pausado: ative-o antes)"), "{html}");
    assert!(!html.contains(&format!("{page}/test")) && html.contains("Última pausa"), "{html}");
    owner.submit(&page, &format!("{page}/status"), &[]).await;
    let test = format!("{page}/test");
    let key = key_of(&owner.page(&page).await, &test);
    for led in ["?done=1", "?error=idempotency_key_reused"] {
        let sent = owner.post(&test, &[("mode", "test"), ("idempotency_key", &key)]).await;
        assert_eq!(location(&sent), format!("{page}{led}"));
    }
    let deleted = owner.submit(&page, &format!("{page}/delete"), &[]).await;
    assert_eq!(deleted, "/dashboard/webhooks?done=1");
    assert_eq!(owner.answer(&page, &[]).await.status, 404);
    // The audit names the member.
    let audit = eventually("audit rows", async || {
        let html = owner.page("/dashboard/audit").await;
        (html.contains("Endpoint registrado") && html.contains("usr_")).then_some(html)
    });
    audit.await;

    // An endpoint is changed, and a refused form keeps what was typed.
    let endpoint = service.register_endpoint("http://127.0.0.1:9/a", &["charge.paid"]).await;
    let page = format!("/dashboard/webhooks/{}", id(&endpoint));
    let change = format!("{page}/change");
    let stored =
        async || service.get(&page.replace("dashboard/webhooks", "v1/webhooks/endpoints")).await.expect(200);
    let html = owner.page(&page).await;
    assert!(
        html.contains("value=\"http://127.0.0.1:9/a\"") && html.contains("value=\"charge.paid\" checked"),
        "{html}"
    );
    let key = fields_of(&html, &change);
    assert!(key.contains(&("before".to_owned(), "http://127.0.0.1:9/a".to_owned())), "{key:?}");
    let fields =
        [("url", "http://127.0.0.1:9/b"), ("events", "charge.created"), ("events", "charge.expired")];
    assert_eq!(owner.submit(&page, &change, &fields).await, format!("{page}?done=1"));
    let changed = stored().await;
    assert_eq!(changed["url"], "http://127.0.0.1:9/b");
    assert_eq!(changed["events"], json!(["charge.created", "charge.expired"]));
    assert!(owner.page(&page).await.contains("Alterado em"));

    // The form of a new endpoint and that of a change, without a valid URL or without an event.
    for action in [change.as_str(), "/dashboard/webhooks"] {
        for (url, events, rule) in [
            (
                "https://loja.example:1/<x>",
                &["charge.paid", "charge.expired"][..],
                "Use uma URL https completa",
            ),
            ("http://127.0.0.1:9/c", &[], "Escolha ao menos um evento."),
        ] {
            let sent = [("mode", "test"), ("idempotency_key", "k-1"), ("url", url)];
            let fields: Vec<_> =
                sent.into_iter().chain(events.iter().map(|name| ("events", *name))).collect();
            let refused = owner.post(action, &fields).await;
            assert_eq!((refused.status.as_u16(), refused.header("location")), (400, None), "{action} {url}");
            let html = text(&refused);
            let typed = format!("value=\"{}\"", url.replace('<', "&lt;").replace('>', "&gt;"));
            assert!(html.contains(&typed) && html.contains(rule), "{action} {url}: {html}");
            for name in ["charge.paid", "charge.expired", "charge.created"] {
                let box_of = format!("value=\"{name}\" checked");
                assert_eq!(html.contains(&box_of), events.contains(&name), "{action} {name}: {html}");
            }
            assert_eq!(key_of(&html, action), "k-1", "a refused form does not use up its key");
        }
    }
    assert_eq!(stored().await, changed);
    let member = Browser::member(&service).await.in_mode(Mode::Live);
    assert_eq!(member.post(&change, &[("mode", "live"), ("url", "https://loja.example/")]).await.status, 403);
}

#[tokio::test]
async fn a_form_that_is_sent_twice_is_done_once_and_never_answered_with_an_error_page() {
    let service = Service::start().await;
    let owner = Browser::owner(&service).await;
    let endpoint = service.register_endpoint("http://127.0.0.1:9/", &["charge.paid"]).await;
    let (open, failing, expiring) = (service.charge().await, service.charge().await, service.charge().await);
    let charge = |charge: &Value| format!("/dashboard/charges/{}", id(charge));
    let (developers, team) = ("/dashboard/developers", "/dashboard/team");
    let webhook = format!("/dashboard/webhooks/{}", id(&endpoint));
    let keys = actions(&owner.page(developers).await);
    let rotate_key = keys.iter().find(|action| action.ends_with("/rotate")).unwrap();
    let member = domain::ids::UserId::from_email(&service.stack.seed.member_email);
    owner.submit(team, "/dashboard/team/invites", &[("role", "ADMIN"), ("email", "bia@loja.example")]).await;
    let once = "?error=idempotency_key_reused";
    // The page, the form, its fields, and where the first and the second answer lead. A secret is shown at the first.
    for (page, action, fields, led) in [
        (&*charge(&open), format!("{}/cancel", charge(&open)), vec![], ["?done=1"; 2]),
        (
            &charge(&failing),
            format!("{}/simulate", charge(&failing)),
            vec![("outcome", "declined")],
            ["?done=1"; 2],
        ),
        (
            &charge(&expiring),
            format!("{}/simulate", charge(&expiring)),
            vec![("outcome", "expired")],
            ["?done=1"; 2],
        ),
        (developers, rotate_key.clone(), vec![], ["", once]),
        (&webhook, format!("{webhook}/rotate"), vec![], ["", once]),
        (&webhook, format!("{webhook}/status"), vec![], ["?done=1"; 2]),
        (
            &webhook,
            format!("{webhook}/change"),
            vec![("url", "http://127.0.0.1:9/b"), ("events", "charge.paid")],
            ["?done=1"; 2],
        ),
        (team, format!("{team}/{member}/role"), vec![("role", "ADMIN")], ["?done=1"; 2]),
        (team, format!("{team}/{member}/remove"), vec![], ["?done=1"; 2]),
        (
            team,
            "/dashboard/team/invites".to_owned(),
            vec![("role", "ADMIN"), ("email", "eva@loja.example")],
            ["?done=1"; 2],
        ),
        ("/dashboard/settings", "/dashboard/settings".to_owned(), vec![("name", "Loja")], ["?done=1"; 2]),
    ] {
        let hidden = fields_of(&owner.page(page).await, &action);
        assert!(
            hidden.iter().any(|(name, value)| name == "idempotency_key" && value.len() == 32),
            "{action}"
        );
        let hidden = hidden.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<(&str, &str)> = hidden.chain(fields).collect();
        for led in led {
            let answer = owner.post(&action, &fields).await;
            let location = answer.header("location").map(str::to_owned);
            let expected = (!led.is_empty()).then(|| format!("{page}{led}"));
            assert_eq!(
                (answer.status.as_u16(), location),
                (if led.is_empty() { 200 } else { 303 }, expected),
                "{action}: {answer:?}"
            );
        }
    }
    // The timeline links to what the member did.
    let html = owner.page(&charge(&open)).await;
    assert!(html.contains("por <a href=\"/dashboard/audit?actor=usr_"), "{html}");
    let said = "Um segredo ou uma chave aparece só na primeira resposta: se não apareceu, troque de novo.";
    assert!(owner.page(&format!("{developers}{once}")).await.contains(said));
    // What is gone is not looked for again.
    let others = actions(&owner.page(developers).await);
    let revoke = others.iter().find(|path| path.ends_with("/revoke") && !keys.contains(path)).unwrap();
    let delete = format!("{webhook}/delete");
    for (page, action, led) in
        [(developers, revoke.as_str(), developers), (&*webhook, delete.as_str(), "/dashboard/webhooks")]
    {
        let key = key_of(&owner.page(page).await, action);
        for _ in 0..2 {
            let answer = owner.post(action, &[("mode", "test"), ("idempotency_key", &key)]).await;
            assert_eq!(location(&answer), format!("{led}?done=1"), "{action}: {answer:?}");
        }
    }
    let (rows, _) = shared::audit::page(&service.store(), &service.scope().account, None).await.unwrap();
    for (action, times) in [
        ("api-key.rotate", 1),
        ("api-key.revoke", 1),
        ("user.set-role", 1),
        ("user.remove", 1),
        ("user.invite", 2),
        ("webhook-endpoint.delete", 1),
    ] {
        assert_eq!(rows.iter().filter(|row| row.action.name() == action).count(), times, "{action}");
    }
}

/// The key of the form with this action.
fn key_of(html: &str, action: &str) -> String {
    let hidden = fields_of(html, action);
    hidden.into_iter().find(|(name, _)| name == "idempotency_key").unwrap().1
}

#[tokio::test]
async fn a_delivery_is_sent_again() {
    let service = Service::start().await;
    service.register_endpoint("http://127.0.0.1:9/", &["charge.paid"]).await;
    service.pay(10_000).await;
    let delivery = eventually("a delivery", async || service.deliveries("").await.into_iter().next()).await;
    let member = Browser::member(&service).await;
    let page = format!("/dashboard/deliveries/{}", id(&delivery));
    let html = member.page(&page).await;
    let charge = service.get("/v1/charges").await.expect(200)["data"][0].clone();
    assert!(html.contains(&format!("href=\"/dashboard/charges/{}\"", id(&charge))), "{html}");
    let event = html.split("href=\"/dashboard/events/").nth(1).unwrap().split('"').next().unwrap();
    for header in [&*format!("x-service-delivery-id: {}", id(&delivery)), &format!("webhook-id: {event}")] {
        assert!(html.contains(header), "{header}: {html}");
    }
    let resend = format!("{page}/resend");
    let key = key_of(&html, &resend);
    let fields = [("mode", "test"), ("idempotency_key", key.as_str())];
    let sent = member.post(&resend, &fields).await;
    let led = location(&sent);
    assert!(led.starts_with("/dashboard/deliveries/wd_") && led.ends_with("?done=1"), "{led}");
    let again = member.post(&resend, &fields).await;
    assert_eq!(location(&again), format!("{page}?error=idempotency_key_reused"));
    wait_until("a second delivery", async || service.deliveries("").await.len() == 2).await;
    let of_charge = format!("/dashboard/charges/{}", id(&charge));
    let led = member.submit(&of_charge, &resend, &[]).await;
    assert!(led.starts_with("/dashboard/deliveries/wd_") && led.ends_with("?done=1"), "{led}");
    wait_until("a third delivery", async || service.deliveries("").await.len() == 3).await;
    // The forms of a page have one key. It counts once for each delivery.
    let other = led.split(['/', '?']).find(|part| part.starts_with("wd_")).unwrap();
    let sent = member.post(&format!("/dashboard/deliveries/{other}/resend"), &fields).await;
    assert!(location(&sent).ends_with("?done=1"), "{sent:?}");
    wait_until("a fourth delivery", async || service.deliveries("").await.len() == 4).await;
    let of_event = format!("/dashboard/events/{event}");
    wait_until("the deliveries of the event", async || {
        member.page(&of_event).await.matches("href=\"/dashboard/deliveries/wd_").count() == 4
    })
    .await;
    // Nothing new is sent to an endpoint that is paused or deleted.
    let endpoint = format!("/v1/webhooks/endpoints/{}", delivery["endpointId"].as_str().unwrap());
    service.patch(&endpoint, &json!({"status": "INACTIVE"})).await.expect(200);
    for path in [&page, &of_charge] {
        let html = member.page(path).await;
        assert!(html.contains("Enviar de novo (o endpoint está pausado: ative-o antes)"), "{path}: {html}");
        assert!(!html.contains("/resend\""), "{path}: {html}");
    }
    let sent = member.post(&resend, &[("mode", "test"), ("idempotency_key", "k-2")]).await;
    assert_eq!(location(&sent), format!("{page}?error=unprocessable_entity"));
    // A form that was refused counts when it is sent again.
    service.patch(&endpoint, &json!({"status": "ACTIVE"})).await.expect(200);
    let sent = member.post(&resend, &[("mode", "test"), ("idempotency_key", "k-2")]).await;
    assert!(location(&sent).ends_with("?done=1"), "{sent:?}");
    service.delete(&endpoint).await.expect(200);
    for path in [&page, &of_charge] {
        assert!(member.page(path).await.contains("Enviar de novo (o endpoint foi excluído)"), "{path}");
    }
    assert_eq!(member.page(&of_event).await.matches("href=\"/dashboard/deliveries/wd_").count(), 5);
}

#[tokio::test]
async fn a_key_is_issued_shown_once_and_revoked() {
    let service = Service::start().await;
    let owner = Browser::owner(&service).await;
    let keys = "/dashboard/developers/keys";
    let key = key_of(&owner.page("/dashboard/developers").await, keys);
    let fields = [("mode", "test"), ("label", "Loja <b>nova"), ("idempotency_key", key.as_str())];
    let issued = owner.post(keys, &fields).await;
    let again = owner.post(keys, &fields).await;
    assert_eq!(location(&again), "/dashboard/developers?error=idempotency_key_reused");
    let key = shown_secret(&issued);
    assert!(key.starts_with("ak_test_"), "{key}");
    service.get_as(&key, "/v1/wallets").await.expect(200);
    // The cookie is no way around the recent log-in that a live key needs, and the API's token opens no page.
    let bearer = |token: &str| format!("Bearer {token}");
    let seed = &service.stack.seed;
    let api = service.stack.owner_token(&seed.first).await.unwrap();
    for (token, status) in [(owner.cookies().split_once('=').unwrap().1, 401), (&*api, 200)] {
        let headers = [("authorization", &*bearer(token))];
        assert_eq!(service.raw(Method::GET, "/v1/api-keys", &headers, "").await.status, status);
        let session = Browser::with_cookies(&service, format!("__Host-session={token}"));
        assert_eq!(session.answer("/dashboard", &[]).await.status, if status == 401 { 200 } else { 303 });
    }
    let list = owner.page("/dashboard/developers").await;
    assert_eq!(list.matches("Loja &lt;b&gt;nova").count(), 1, "{list}");
    assert!(!list.contains(&key), "{list}");
    let revoke = actions(&list).into_iter().find(|path| path.ends_with("/revoke")).unwrap();
    assert_eq!(owner.submit("/dashboard/developers", &revoke, &[]).await, "/dashboard/developers?done=1");
}
