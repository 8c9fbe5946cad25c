//! Tests of the dashboard's forms: what they change, and who may send them.

use axum::http::Method;
use domain::ids::Mode;
use screen_reader::{Page, Role, Sent};
use serde_json::{Value, json};

use crate::dashboard::{Browser, location, shown, shown_secret};
use crate::support::{Listener, Service, eventually, id, wait_until};
use crate::webhooks::endpoint_path;

#[tokio::test]
async fn a_refund_form_that_is_sent_again_after_its_refund_failed_says_so() {
    let service = Service::start().await;
    let charge = service.pay(1_000).await;
    let browser = Browser::member(&service).await;
    let page = format!("/dashboard/charges/{}", id(&charge));
    let form = browser.page(&page).await.press("Devolver", &[("Motivo", "sandbox:fail")]);
    assert_eq!(location(&browser.send(&form).await), format!("{page}?done"));
    service.wait_for_refund_status(&charge, "FAILED").await;
    let again = browser.send(&form).await;
    assert_eq!(again.status, 409, "{again:?}");
    let again = shown(&again);
    assert!(again.names(Role::Alert)[0].starts_with("Esta devolução já foi pedida e falhou"), "{again}");
    let retried = browser.send(&again.press("Devolver", &[("Motivo", "Troca")])).await;
    assert_eq!(location(&retried), format!("{page}?done"));
    assert_eq!(service.refunds(&charge).await.len(), 2);
}

#[tokio::test]
async fn a_charge_is_created_paid_and_refunded_in_part() {
    let service = Service::start().await;
    let browser = Browser::member(&service).await;
    let typed = [
        ("Valor (R$)", "129,90"),
        ("Pedido", "4711"),
        ("Cliente", "Maria Silva"),
        ("CPF ou CNPJ", "295.379.955-93"),
    ];
    let page = browser.submit("/dashboard/charges/new", "Criar", &typed).await;
    assert!(page.starts_with("/dashboard/charges/ch_"), "{page}");
    assert!(browser.page(&page).await.contains("R$ 129,90"));

    let back = browser.submit(&page, "Simular pagamento", &[]).await;
    assert_eq!(back, format!("{page}?done"));
    let charge = service.get(&page.replace("/dashboard/", "/v1/")).await.expect(200);
    assert_eq!((&charge["status"], &charge["metadata"]["order_id"]), (&json!("paid"), &json!("4711")));

    let typed = [("Valor", "29,90"), ("Motivo", "Troca")];
    let form = browser.page(&page).await.press("Devolver", &typed);
    // A form that is sent twice refunds once.
    for _ in 0..2 {
        let answer = browser.send(&form).await;
        assert_eq!(location(&answer), format!("{page}?done"), "{answer:?}");
    }
    let [refund_made] = <[Value; 1]>::try_from(service.refunds(&charge).await).unwrap();
    assert_eq!((&refund_made["amount"], &refund_made["strategy"]), (&json!(2_990), &json!("devolution")));
    // A refused form keeps what was typed.
    for (amount, status, rule) in [
        ("500,00", 422, "O valor é maior do que o que ainda pode voltar a quem pagou."),
        ("dez", 400, "O valor não é válido."),
        ("", 400, "O valor não é válido."),
    ] {
        let typed = [("Valor", amount), ("Motivo", "Troca")];
        let refused = browser.send(&browser.page(&page).await.press("Devolver", &typed)).await;
        let answer = shown(&refused);
        assert_eq!(refused.status, status, "{answer}");
        let [field, reason] = ["Valor", "Motivo"].map(|label| answer.get(Role::Field, label));
        assert_eq!((field.value(), reason.value()), (amount.to_owned(), "Troca".to_owned()));
        assert!(answer.contains("Ainda pode devolver: R$ 100,00."), "{answer}");
        assert!(answer.names(Role::Alert)[0].starts_with(rule), "{answer}");
        assert_eq!(field.is_invalid(), status == 400, "{answer}");
    }

    let refunded_in_part = eventually("the refund", async || {
        Some(browser.page(&page).await).filter(|page| page.contains("Devolvida em parte"))
    })
    .await;
    assert_eq!(refunded_in_part.form("Devolver").get(Role::Field, "Valor").value(), "100,00");
    for said in [
        "Cobrança de R$ 129,90 criada",
        "Maria S. pagou R$ 129,90 por Pix",
        "Devolução de R$ 29,90 pedida",
        "R$ 29,90 devolvidos a quem pagou",
        "Devolvido -R$ 29,90",
    ] {
        assert!(refunded_in_part.contains(said), "{said}: {refunded_in_part}");
    }
    assert_eq!(refunded_in_part.values("Fica com a loja").len(), 1, "{refunded_in_part}");
    let told = browser.page(&format!("{page}?done=charges-refund")).await;
    assert!(told.contains("o dinheiro volta a quem pagou"), "{told}");
    let failed = browser.submit(&page, "Devolver", &[("Valor", "1,00"), ("Motivo", "sandbox:hold")]).await;
    assert_eq!(failed, format!("{page}?done"));
    let newest = service.refunds(&charge).await.remove(0);
    assert!(browser.page("/dashboard/refunds").await.contains("Em andamento"));
    service.resolve(&newest, "FAILED").await.expect(200);
    let refunds = browser.page("/dashboard/refunds").await;
    assert_eq!((refunds.all(Role::Code).len(), refunds.count("Falhou")), (2, 1), "{refunds}");
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
    let shown = browser.page(&page).await;
    let asked = shown.press("Estornar", &[("Valor", "10")]);
    let asked = browser.post(&asked.action, &asked.pairs()).await;
    let question = crate::dashboard::shown(&asked);
    assert!(question.contains("Estornar JPY 10 a quem pagou (Cartão de crédito)?"), "{question}");
    assert!(service.refunds(&charge).await.is_empty(), "nothing is refunded before the answer");
    let refused = browser.send(&shown.press("Estornar", &[("Valor", "10,50")])).await;
    assert_eq!(refused.status, 400, "a yen has no decimals");
    let done = browser.submit(&page, "Estornar", &[("Valor", "10")]).await;
    assert_eq!(done, format!("{page}?done"));
    assert_eq!(service.refunds(&charge).await[0]["amount"], 10);
    assert!(browser.page(&page).await.contains("Estorno de JPY 10 pedido"));
    // The filter and the search read the amount in the currency of each charge.
    for (typed, is_listed) in [("1.990", true), ("JPY+1.990", true), ("19,90", false), ("R$+1990", false)] {
        let list = browser.page(&format!("/dashboard/charges?amount={typed}")).await;
        assert_eq!(list.links_to(&page).len(), usize::from(is_listed), "{typed}");
    }
    let found = browser.answer("/dashboard/search?q=JPY+1.990", &[]).await;
    assert_eq!(location(&found), "/dashboard/charges?amount=JPY+1.990");
}

#[tokio::test]
async fn a_refused_new_charge_keeps_what_was_typed_and_its_expiry_is_in_minutes() {
    let service = Service::start().await;
    let browser = Browser::member(&service).await;
    // The form names what the account's usual time is.
    for (seconds, usual) in [(3_600, "1 hora (padrão da conta)"), (7_200, "120 minutos (padrão da conta)")]
    {
        service.change_settings(|settings| settings.charge_expires_in_seconds = seconds).await;
        let form = browser.page("/dashboard/charges/new").await.get(Role::Field, "Vence em").text();
        assert!(form.starts_with(usual) && form.matches("1 hora").count() == 1, "{form}");
    }
    let typed = [("amount", "129,90"), ("document", "123"), ("name", "Maria <b>"), ("expires_in", "15")];
    let sent = [&[("mode", "test"), ("idempotency_key", "0123456789abcdef")], &typed[..]].concat();
    // Each refused field is marked.
    let two = [&sent[..], &[("email", "maria")]].concat();
    let invalid = |page: &Page| {
        let fields = page.all(Role::Field).into_iter().filter(Page::is_invalid);
        fields.map(|field| (field.name(), field.description().unwrap())).collect::<Vec<_>>()
    };
    let answer = invalid(&shown(&browser.post("/dashboard/charges", &two).await));
    assert_eq!(answer.iter().map(|(label, _)| label.as_str()).collect::<Vec<_>>(), ["CPF ou CNPJ", "E-mail"]);
    let refused = browser.post("/dashboard/charges", &sent).await;
    let answer = shown(&refused);
    assert_eq!((refused.status.as_u16(), refused.header("location")), (400, None), "{answer}");
    assert_eq!(invalid(&answer), [("CPF ou CNPJ".to_owned(), "Use um CPF ou CNPJ válido.".to_owned())]);
    let again = answer.press("Criar", &[]).fields;
    for (name, value) in &sent {
        assert!(again.contains(&((*name).to_owned(), (*value).to_owned())), "{name}: {again:?}");
    }
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
    let page = shown(&again);
    assert_eq!(
        (again.status.as_u16(), page.get(Role::Field, "Valor (R$)").value().as_str()),
        (409, "129,90")
    );
    assert!(!page.source().contains("0123456789abcdef"), "{page}");
    for minutes in ["0", "dez", "1,5"] {
        let fields =
            [("mode", "test"), ("idempotency_key", "other-key"), ("amount", "1"), ("expires_in", minutes)];
        assert_eq!(browser.post("/dashboard/charges", &fields).await.status, 400, "{minutes}");
    }
}

#[tokio::test]
async fn a_charge_is_shared_beside_its_page_in_the_name_of_the_brand() {
    let service = Service::start().await;
    let browser = Browser::owner(&service).await;
    browser.submit("/dashboard/settings", "Salvar", &[("Nome da loja", "Café & Cia")]).await;
    let page = browser.page(&format!("/dashboard/charges/{}", id(&service.charge().await))).await;
    for name in ["WhatsApp", "Mostrar no balcão", "Página de pagamento"] {
        let link = page.get(Role::Link, name);
        let opens = ["target", "rel"].map(|attribute| link.attribute(attribute));
        assert_eq!(opens, [Some("_blank"), Some("noopener")], "{name}");
    }
    // A plus sign would be shown as one.
    let text = page.get(Role::Link, "WhatsApp").target().to_owned();
    assert!(text.starts_with("https://wa.me/?text=Pague%20R%24%20") && !text.contains('+'), "{text}");
    let mail = page.get(Role::Link, "E-mail").target().to_owned();
    assert!(mail.starts_with("mailto:?subject=Caf%C3%A9%20%26%20Cia%3A%20R%24"), "{mail}");
}

#[tokio::test]
async fn an_action_that_would_be_refused_has_no_button_and_says_why() {
    let service = Service::start().await;
    let page_of = |charge: &Value| format!("/dashboard/charges/{}", id(charge));
    let is_refused = |page: &Page, label: &str, why: &str| {
        !page.has(Role::Button, label) && page.contains(&format!("{label}: {why}"))
    };
    let (open, refunded) = (service.charge().await, service.pay(10_000).await);
    let (old, contested) = (service.pay(10_000).await, service.pay(10_000).await);
    let owner = Browser::owner(&service).await;
    let page = owner.page(&page_of(&open)).await;
    assert!(is_refused(&page, "Devolver", "Só uma cobrança paga"), "{page}");
    assert!(!page.get(Role::Button, "Cancelar cobrança").is_disabled(), "{page}");
    let page = owner.page(&page_of(&refunded)).await;
    assert!(is_refused(&page, "Cancelar cobrança", "Só uma cobrança ainda não paga"), "{page}");
    owner.submit(&page_of(&refunded), "Devolver", &[]).await;
    let page = owner.page(&page_of(&refunded)).await;
    assert!(is_refused(&page, "Devolver", "Não resta nada a devolver."), "{page}");

    // A test dispute is opened once.
    let simulation = owner.page(&page_of(&contested)).await.press("Simular disputa", &[]);
    for _ in 0..2 {
        let sent = owner.send(&simulation).await;
        assert_eq!(location(&sent), format!("{}?done", page_of(&contested)));
    }
    let [case] = <[Value; 1]>::try_from(service.list("/v1/med/cases").await).unwrap();
    let due: domain::time::Timestamp = case["response_deadline"].as_str().unwrap().parse().unwrap();
    assert!(due.millis_since(service.stack.clock.now()) > 6 * 86_400_000, "{case}");
    let page = owner.page(&page_of(&contested)).await;
    assert!(is_refused(&page, "Devolver", "A cobrança tem ou teve uma disputa."), "{page}");
    assert!(!page.has(Role::Button, "Simular disputa"));
    assert!(owner.page(&page_of(&old)).await.has(Role::Button, "Simular disputa"));

    service.advance_seconds(90 * 86_400 + 1).await;
    let owner = Browser::owner(&service).await;
    let page = owner.page(&page_of(&old)).await;
    assert!(is_refused(&page, "Devolver", "O banco só devolve um Pix até 90 dias"), "{page}");
    let late = owner
        .post(
            &format!("{}/refund", page_of(&old)),
            &[("mode", "test"), ("idempotency_key", "refund-0001"), ("amount", "1,00"), ("confirmed", "1")],
        )
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
        let page = Browser::owner(&service).await.page(page).await;
        page.source().contains("<div id=\"charge\" data-refresh=\"10\">")
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
    let form = owner.page("/dashboard/webhooks").await.form("Registrar");
    let proposed = form.all(Role::Field).iter().filter(|field| field.attribute("checked").is_some()).count();
    let form = form.press("Registrar", &[("URL", "http://127.0.0.1:9/hook")]);
    let registered = owner.send(&form).await;
    let again = owner.send(&form).await;
    assert_eq!(location(&again), "/dashboard/webhooks?error=idempotency_key_reused");
    let mut endpoints = service.list("/v1/webhooks/endpoints").await;
    assert_eq!(endpoints.len(), 1, "a form that is sent twice registers one endpoint");
    let endpoint = endpoints.remove(0);
    assert_eq!(endpoint["events"].as_array().unwrap().len(), proposed);
    let page = format!("/dashboard/webhooks/{}", id(&endpoint));
    let first = shown_secret(&registered);
    assert_eq!(first.len(), 64);
    let registered = owner.page(&page).await;
    assert!(!registered.source().contains(&first));
    let rotated = owner.send(&registered.press("Trocar segredo", &[])).await;
    assert_ne!(shown_secret(&rotated), first);
    let paused = owner.submit(&page, "Pausar", &[]).await;
    assert_eq!(paused, format!("{page}?done"));
    assert_eq!(service.get(&endpoint_path(&endpoint)).await.expect(200)["status"], "INACTIVE");
    let inactive = owner.page(&page).await;
    let test = inactive.get(Role::Button, "Enviar teste (o endpoint está pausado: ative-o antes)");
    assert!(
        test.is_disabled() && !inactive.values("Última pausa, que cancelou as entregas em espera").is_empty(),
        "{inactive}"
    );
    owner.submit(&page, "Reativar", &[]).await;
    let test = owner.page(&page).await.press("Enviar teste", &[]);
    for led in ["?done", "?error=idempotency_key_reused"] {
        assert_eq!(location(&owner.send(&test).await), format!("{page}{led}"));
    }
    let deleted = owner.submit(&page, "Excluir", &[]).await;
    assert_eq!(deleted, "/dashboard/webhooks?done");
    assert_eq!(owner.answer(&page, &[]).await.status, 404);
    // The audit names the member.
    let audit = eventually("audit rows", async || {
        let html = owner.page("/dashboard/audit").await;
        (html.contains("Endpoint registrado") && !html.links_to("/dashboard/audit?actor=usr_").is_empty())
            .then_some(html)
    });
    audit.await;

    // An endpoint is changed, and a refused form keeps what was typed.
    let endpoint = service.register_endpoint("http://127.0.0.1:9/a", &["charge.paid"]).await;
    let page = format!("/dashboard/webhooks/{}", id(&endpoint));
    let change = format!("{page}/change");
    let stored =
        async || service.get(&page.replace("dashboard/webhooks", "v1/webhooks/endpoints")).await.expect(200);
    let drawn = owner.page(&page).await.press("Salvar", &[]).fields;
    let expected =
        [("before", "http://127.0.0.1:9/a"), ("url", "http://127.0.0.1:9/a"), ("events", "charge.paid")];
    assert_eq!(drawn[4..], expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let typed = [
        ("URL", "http://127.0.0.1:9/b"),
        ("charge.created", "on"),
        ("charge.expired", "on"),
        ("charge.paid", ""),
    ];
    assert_eq!(owner.submit(&page, "Salvar", &typed).await, format!("{page}?done"));
    let changed = stored().await;
    assert_eq!(changed["url"], "http://127.0.0.1:9/b");
    assert_eq!(changed["events"], json!(["charge.created", "charge.expired"]));
    assert!(owner.page(&page).await.contains("Alterado em"));

    // The form of a new endpoint and that of a change, without a valid URL or without an event.
    for (action, button) in [(change.as_str(), "Salvar"), ("/dashboard/webhooks", "Registrar")] {
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
            let answer = shown(&refused);
            assert!(answer.contains(rule), "{action} {url}: {answer}");
            assert_eq!(answer.get(Role::Field, "URL").value(), url);
            for name in ["charge.paid", "charge.expired", "charge.created"] {
                let is_checked = answer.get(Role::Field, name).attribute("checked").is_some();
                assert_eq!(is_checked, events.contains(&name), "{action} {name}");
            }
            let again = answer.press(button, &[]).fields;
            let key = ("idempotency_key".to_owned(), "k-1".to_owned());
            assert!(again.contains(&key), "a refused form does not use up its key: {again:?}");
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
    let keys = async || {
        let column = owner.page(developers).await.get(Role::Table, "Chaves da API").column("Chave");
        column.iter().map(Page::text).collect::<Vec<_>>()
    };
    let (keys_before, member) = (keys().await, service.stack.seed.member_email.as_str());
    owner.submit(team, "Convidar", &[("Função", "Administrador"), ("E-mail", "bia@loja.example")]).await;
    let (once, done) = ("?error=idempotency_key_reused", ["?done"; 2]);
    // The page, the row, the button, what is typed, and where the first and the second answer lead. A secret is shown at
    // the first.
    for (page, row, button, typed, led) in [
        (&*charge(&open), None, "Cancelar cobrança", &[][..], done),
        (&charge(&failing), None, "Simular recusa", &[], done),
        (&charge(&expiring), None, "Simular vencimento", &[], done),
        (developers, Some(keys_before[0].as_str()), "Trocar chave", &[], ["", once]),
        (&webhook, None, "Trocar segredo", &[], ["", once]),
        (&webhook, None, "Pausar", &[], done),
        (&webhook, None, "Salvar", &[("URL", "http://127.0.0.1:9/b")], done),
        (team, Some(member), "Mudar função", &[("Função", "Administrador")], done),
        (team, Some(member), "Remover", &[], done),
        (team, None, "Convidar", &[("Função", "Administrador"), ("E-mail", "eva@loja.example")], done),
        ("/dashboard/settings", None, "Salvar", &[("Nome da loja", "Loja")], done),
    ] {
        let mut part = owner.page(page).await;
        if let Some(row) = row {
            part = part.row(row);
        }
        let form = part.press(button, typed);
        let key = form.fields.iter().find(|(name, _)| name == "idempotency_key");
        assert!(key.is_some_and(|(_, value)| value.len() == 32), "{form:?}");
        for led in led {
            let answer = owner.send(&form).await;
            let led_to = (!led.is_empty()).then(|| location(&answer).to_owned());
            let expected = (!led.is_empty()).then(|| format!("{page}{led}"));
            let status = if led.is_empty() { 200 } else { 303 };
            assert_eq!((answer.status.as_u16(), led_to), (status, expected), "{button}: {answer:?}");
        }
    }
    // The timeline links to what the member did.
    let timeline = owner.page(&charge(&open)).await;
    assert!(!timeline.links_to("/dashboard/audit?actor=usr_").is_empty(), "{timeline}");
    let said = "Um segredo ou uma chave aparece só na primeira resposta: se não apareceu, troque de novo.";
    assert!(owner.page(&format!("{developers}{once}")).await.contains(said));
    // What is gone is not looked for again.
    let rotated = keys().await.into_iter().find(|key| !keys_before.contains(key)).unwrap();
    let revoke = owner.page(developers).await.row(&rotated).press("Revogar", &[]);
    let delete = owner.page(&webhook).await.press("Excluir", &[]);
    for (form, led) in [(revoke, developers), (delete, "/dashboard/webhooks")] {
        for _ in 0..2 {
            assert_eq!(location(&owner.send(&form).await), format!("{led}?done"), "{form:?}");
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

#[tokio::test]
async fn a_delivery_is_sent_again() {
    let service = Service::start().await;
    service.register_endpoint("http://127.0.0.1:9/", &["charge.paid"]).await;
    service.pay(10_000).await;
    let delivery = eventually("a delivery", async || service.deliveries("").await.into_iter().next()).await;
    let member = Browser::member(&service).await;
    let page = format!("/dashboard/deliveries/{}", id(&delivery));
    let shown = member.page(&page).await;
    let charge = service.get("/v1/charges").await.expect(200)["data"][0].clone();
    let of_charge = format!("/dashboard/charges/{}", id(&charge));
    assert_eq!(shown.links_to("/dashboard/charges/"), [of_charge.as_str()]);
    let of_event = shown.links_to("/dashboard/events/").remove(0);
    let event = of_event.rsplit('/').next().unwrap();
    for header in [&*format!("x-service-delivery-id: {}", id(&delivery)), &format!("webhook-id: {event}")] {
        assert!(shown.contains(header), "{header}: {shown}");
    }
    let resend = shown.press("Enviar de novo", &[]);
    let sent = member.send(&resend).await;
    let led = location(&sent);
    assert!(led.starts_with("/dashboard/deliveries/wd_") && led.ends_with("?done"), "{led}");
    let again = member.send(&resend).await;
    assert_eq!(location(&again), format!("{page}?error=idempotency_key_reused"));
    wait_until("a second delivery", async || service.deliveries("").await.len() == 2).await;
    let timeline = member.page(&of_charge).await.all(Role::Item);
    let of_delivery = timeline.iter().find(|item| !item.links_to(&page).is_empty()).unwrap();
    let sent = member.send(&of_delivery.press("Enviar de novo", &[])).await;
    let led = location(&sent);
    assert!(led.starts_with("/dashboard/deliveries/wd_") && led.ends_with("?done"), "{led}");
    wait_until("a third delivery", async || service.deliveries("").await.len() == 3).await;
    // The forms of a page have one key. It counts once for each delivery.
    let other = led.split(['/', '?']).find(|part| part.starts_with("wd_")).unwrap();
    let of_other = Sent { action: format!("/dashboard/deliveries/{other}/resend"), ..resend.clone() };
    let sent = member.send(&of_other).await;
    assert!(location(&sent).ends_with("?done"), "{sent:?}");
    wait_until("a fourth delivery", async || service.deliveries("").await.len() == 4).await;
    let of_event = async || member.page(&of_event).await.links_to("/dashboard/deliveries/wd_").len();
    wait_until("the deliveries of the event", async || of_event().await == 4).await;
    // Nothing new is sent to an endpoint that is paused or deleted.
    let endpoint = format!("/v1/webhooks/endpoints/{}", delivery["endpointId"].as_str().unwrap());
    service.patch(&endpoint, &json!({"status": "INACTIVE"})).await.expect(200);
    for path in [&page, &of_charge] {
        let shown = member.page(path).await;
        let paused = shown.named(Role::Button, "Enviar de novo (o endpoint está pausado: ative-o antes)");
        assert!(!paused.is_empty() && paused.iter().all(Page::is_disabled), "{path}: {shown}");
        assert!(!shown.has(Role::Button, "Enviar de novo"), "{path}: {shown}");
    }
    let resend = resend.action.as_str();
    let sent = member.post(resend, &[("mode", "test"), ("idempotency_key", "k-2")]).await;
    assert_eq!(location(&sent), format!("{page}?error=unprocessable_entity"));
    // A form that was refused counts when it is sent again.
    service.patch(&endpoint, &json!({"status": "ACTIVE"})).await.expect(200);
    let sent = member.post(resend, &[("mode", "test"), ("idempotency_key", "k-2")]).await;
    assert!(location(&sent).ends_with("?done"), "{sent:?}");
    service.delete(&endpoint).await.expect(200);
    for path in [&page, &of_charge] {
        assert!(member.page(path).await.contains("Enviar de novo (o endpoint foi excluído)"), "{path}");
    }
    assert_eq!(of_event().await, 5);
}

#[tokio::test]
async fn a_key_is_issued_shown_once_and_revoked() {
    let service = Service::start().await;
    let owner = Browser::owner(&service).await;
    let form = owner.page("/dashboard/developers").await.press("Emitir", &[("Nome", "Loja <b>nova")]);
    let issued = owner.send(&form).await;
    let again = owner.send(&form).await;
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
    assert!(!list.source().contains(&key), "{list}");
    let revoke = owner.send(&list.row("Loja <b>nova").press("Revogar", &[])).await;
    assert_eq!(location(&revoke), "/dashboard/developers?done");
    service.get_as(&key, "/v1/wallets").await.expect(401);
}
