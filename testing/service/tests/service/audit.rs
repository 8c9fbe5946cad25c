//! Tests of the audit of an API key's money and security actions. Each action has one audit row,
//! derived from the row that it changed, even when its stream record is delivered again.

use domain::audit::{Action, Audit};
use faults::proxy::Fault;
use screen_reader::Role;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use shared::audit;

use crate::dashboard::{Browser, next_of, shown};
use crate::invocations::{
    api_event, dispatch, dispatch_records, invoke, run_acquirer_worker, stream_records,
};
use crate::support::{Service, eventually, id, operator, raw_id};
use crate::webhooks::endpoint_path;

impl Service {
    /// Reads the first account's audit in the order of the actions. The rows of the dispatcher are written
    /// some moments after them.
    async fn audit_rows(&self) -> Vec<Audit> {
        let (mut rows, has_more) = audit::page(&self.store(), &self.scope().account, None).await.unwrap();
        assert!(!has_more);
        rows.sort_by_key(|row| row.id);
        rows
    }

    /// Returns the action, subject and details of each row.
    async fn audit_lines(&self) -> Vec<String> {
        let line =
            |row: Audit| format!("{} {}: {}", row.action.name(), row.subject, row.action.details().unwrap());
        self.audit_rows().await.into_iter().map(line).collect()
    }
}

#[tokio::test]
async fn the_audit_records_an_api_keys_money_and_security_actions_with_key_and_source_address() {
    let service = Service::start().await;
    let open = service.charge().await;
    let (refunded, contested) = (service.pay(1000).await, service.pay(500).await);
    let accepted = service.pay(300).await;
    let appeal = service.open_case(&contested, json!({})).await;
    let accept = service.open_case(&accepted, json!({})).await;

    // The audit lists the requests in their order, because each is a second later.
    service.advance_seconds(1).await;
    let cancel = format!("/v1/payments/{}/cancel", raw_id(&open));
    service.post(&cancel, &json!({})).await.expect(200);
    service.advance_seconds(1).await;
    let parts = json!({"amount": 400, "destinationKey": "maria@example.com"});
    let refund = service.refund(&refunded, "refund-01", parts).await.expect(201);
    service.advance_seconds(1).await;
    service.answer_case(&appeal, "appeal", json!({"reason": "Entregue a Maria"})).await.expect(200);
    service.advance_seconds(1).await;
    service.answer_case(&accept, "accept", json!({})).await.expect(200);
    service.advance_seconds(1).await;
    let url = "http://127.0.0.1:9/hook?token=s3cret";
    let endpoint = service.register_endpoint(url, &["charge.paid"]).await;
    service.advance_seconds(1).await;
    let path = endpoint_path(&endpoint);
    let change = json!({"url": "http://127.0.0.1:9/other", "events": ["charge.paid", "charge.failed"]});
    service.patch(&path, &change).await.expect(200);
    service.advance_seconds(1).await;
    let rotated = service.post(&format!("{path}/rotate-secret"), &json!({})).await.expect(200);
    service.advance_seconds(1).await;
    service.delete(&path).await.expect(200);
    service.advance_seconds(1).await;
    let overridden = service.post("/v1/webhooks/override-secret/rotate", &json!({})).await.expect(200);

    let rows = eventually("the audit has nine rows", async || {
        let rows = service.audit_rows().await;
        (rows.len() >= 9).then_some(rows)
    })
    .await;
    let key = format!("key_{}", domain::hex::encode(Sha256::digest(service.key())));
    for row in &rows {
        assert_eq!((row.actor.as_str(), &json!(row.source)), (key.as_str(), &json!("127.0.0.1")), "{row:?}");
    }
    let (scope, endpoint_id) = (service.scope(), id(&endpoint));
    let line = |action: &str, subject: &str, details: &Value| format!("{action} {subject}: {details}");
    let sum = |minor: i64| json!({"mode": "test", "currency": "BRL", "minor": minor});
    let (server, to) = ("http://127.0.0.1:9", "m***@e***.com");
    let refund_details = json!({"sum": sum(400), "charge": id(&refunded), "strategy": "cashout", "to": to});
    let at_server = json!({"mode": "test", "server": server});
    let registered = json!({"mode": "test", "server": server, "events": ["charge.paid"]});
    let (added, url) = (["charge.failed"], [server, server]);
    let changed = json!({"mode": "test", "url": url, "added": added, "removed": [], "status": null});
    assert_eq!(
        service.audit_lines().await,
        [
            line("charge.cancel", id(&open), &json!({"sum": sum(1_000), "before": "WAITING_PAYMENT"})),
            line("refund.create", id(&refund), &refund_details),
            line("med.appeal", id(&appeal), &sum(500)),
            line("med.accept", id(&accept), &json!({"sum": sum(300), "lost": 300})),
            line("webhook-endpoint.register", endpoint_id, &registered),
            line("webhook-endpoint.change", endpoint_id, &changed),
            line("webhook-endpoint.rotate-secret", endpoint_id, &at_server),
            line("webhook-endpoint.delete", endpoint_id, &at_server),
            line("override-secret.rotate", &scope.to_string(), &json!("test")),
        ]
    );
    let text = format!("{rows:?}");
    let secrets = [&endpoint, &rotated, &overridden].map(|shown| shown["secret"].as_str().unwrap());
    for hidden in secrets.into_iter().chain(["s3cret", "hook?", "maria", "Maria"]) {
        assert!(!text.contains(hidden), "{hidden}");
    }
}

#[tokio::test]
async fn a_repeated_stream_record_or_request_adds_no_audit_row() {
    let service = Service::without_event_sources().await;
    let open = service.charge().await;
    let paid = service.pay(1000).await;
    let contested = service.pay(500).await;
    let case = service.open_case(&contested, json!({})).await;
    let endpoint = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let path = endpoint_path(&endpoint);
    let cancel = format!("/v1/payments/{}/cancel", raw_id(&open));
    let refund = format!("/v1/payments/{}/refund", raw_id(&paid));
    let body = json!({"idempotencyKey": "refund-01", "amount": 400});
    service.post(&cancel, &json!({})).await.expect(200);
    service.post(&refund, &body).await.expect(201);
    service.answer_case(&case, "accept", json!({})).await.expect(200);
    service.delete(&path).await.expect(200);
    dispatch(&service.stack).await;
    let once = service.audit_lines().await;
    assert_eq!(once.len(), 5, "{once:?}");

    service.post(&cancel, &json!({})).await.expect(422);
    let replayed = service.post(&refund, &body).await;
    assert_eq!((replayed.header("idempotent-replayed"), replayed.status.as_u16()), (Some("true"), 201));
    let reused = json!({"idempotencyKey": "refund-01", "amount": 401});
    service.post(&refund, &reused).await.expect(409);
    service.answer_case(&case, "accept", json!({})).await.expect(400);
    service.answer_case(&case, "appeal", json!({"reason": "Entregue"})).await.expect(400);
    service.delete(&path).await.expect(404);
    service.patch(&path, &json!({"status": "ACTIVE"})).await.expect(404);
    // Dispatch the whole stream twice more.
    for _repeat in 0..2 {
        dispatch(&service.stack).await;
    }
    assert_eq!(service.audit_lines().await, once);
}

#[tokio::test]
async fn an_audit_row_that_could_not_be_written_is_retried_and_a_repeated_change_of_an_endpoint_adds_none() {
    let service = Service::without_event_sources().await;
    let endpoint = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let records = stream_records(&service.stack);
    let proxy = service.proxy();
    for _ in 0..50 {
        proxy.inject("PutItem", Fault::ServerError);
    }
    let answer = invoke(&service.stack, "EventDispatcherFunction", &records).await;
    assert_eq!(answer["batchItemFailures"].as_array().unwrap().len(), 1, "{answer}");
    assert!(service.audit_lines().await.is_empty());
    proxy.reset();
    dispatch_records(&service.stack, &records).await;
    assert_eq!(service.audit_rows().await.len(), 1);

    let path = endpoint_path(&endpoint);
    let mut expected = vec!["webhook-endpoint.register"];
    for change in [
        json!({"url": "http://127.0.0.1:9/other", "events": ["charge.failed"]}),
        json!({"status": "INACTIVE"}),
        json!({"status": "ACTIVE"}),
    ] {
        service.advance_seconds(1).await;
        let changed = service.patch(&path, &change).await.expect(200);
        service.advance_seconds(1).await;
        assert_eq!(service.patch(&path, &change).await.expect(200), changed, "{change}");
        expected.push("webhook-endpoint.change");
    }
    dispatch(&service.stack).await;
    let actions: Vec<&str> = service.audit_rows().await.iter().map(|row| row.action.name()).collect();
    assert_eq!(actions, expected);
}

#[tokio::test]
async fn changes_by_the_acquirer_the_scheduler_and_the_sandbox_are_not_attributed_to_the_key() {
    let service = Service::without_event_sources().await;
    let paid = service.pay(1000).await;
    let refund = service.refund(&paid, "refund-01", json!({"amount": 400})).await.expect(201);
    let case = service.open_case(&service.pay(500).await, json!({})).await;
    service.advance_seconds(1).await;
    service.answer_case(&case, "appeal", json!({"reason": "Entregue"})).await.expect(200);
    // The decision and the refund's steps update rows that still store the key as their actor.
    service.decide_case(&case, "payer").await.expect(200);
    run_acquirer_worker(&service.stack, &refund).await;
    service.advance_seconds(3).await;
    run_acquirer_worker(&service.stack, &refund).await;
    for what in ["fail", "expire"] {
        let charge = service.charge().await;
        service.sandbox(&charge, what, &json!({})).await;
    }
    dispatch(&service.stack).await;
    let actions: Vec<&str> = service.audit_rows().await.iter().map(|row| row.action.name()).collect();
    assert_eq!(actions, ["refund.create", "med.appeal"]);
}

#[tokio::test]
async fn the_source_address_comes_from_api_gateway_and_not_from_the_clients_headers() {
    let service = Service::without_event_sources().await;
    let payments = service.stack.functions.get("PaymentsFunction").unwrap().clone();
    let charge = service.charge().await;
    let path = format!("/v1/payments/{}/cancel", raw_id(&charge));
    let key = service.key();
    let headers = [("apikey", &*key), ("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=192.0.2.1")];
    let event = api_event(("POST", &path), &headers, "2001:db8::7", "");
    let answer = payments(event).await.unwrap();
    assert_eq!(answer["statusCode"], 200, "{answer}");
    assert!(!answer.to_string().contains("2001:db8"), "{answer}");
    dispatch(&service.stack).await;
    let rows = service.audit_rows().await;
    assert_eq!((rows.len(), json!(rows[0].source)), (1, json!("2001:db8::7")));
}

#[tokio::test]
async fn audit_pages_list_the_rows_of_keys_and_operators_in_the_order_in_which_they_were_written() {
    let service = Service::without_event_sources().await;
    let (store, account) = (service.store(), service.scope().account);
    let (mut expected, mut of_keys) = (Vec::new(), Vec::new());
    for number in 0..52 {
        service.stack.clock.advance(1_000);
        let by_operator = audit::by_operator(
            &operator(),
            account,
            Action::ReplayEvents,
            number.to_string(),
            service.stack.clock.now(),
        );
        audit::append(&store, &by_operator.unwrap()).await.unwrap();
        expected.push(number.to_string());
        let charge = service.charge().await;
        service.stack.clock.advance(1_000);
        service.post(&format!("/v1/payments/{}/cancel", raw_id(&charge)), &json!({})).await.expect(200);
        of_keys.push(id(&charge).to_owned());
    }
    // The dispatcher appends the rows of a batch in the order of their actions.
    dispatch(&service.stack).await;
    expected.extend(of_keys);
    expected.reverse();
    let (first, has_more) = audit::page(&store, &account, None).await.unwrap();
    assert_eq!((first.len(), has_more), (100, true));
    let number = |row: &Audit| row.link.as_ref().map(|link| link.sequence);
    let (second, has_more) = audit::page(&store, &account, number(&first[99])).await.unwrap();
    assert_eq!((second.len(), has_more), (4, false));
    let (third, has_more) = audit::page(&store, &account, number(&second[3])).await.unwrap();
    assert_eq!((third.len(), has_more), (0, false));
    let subjects: Vec<String> = first.into_iter().chain(second).map(|row| row.subject).collect();
    assert_eq!(subjects, expected);

    // The dashboard filters the rows of a page by actor and day.
    let browser = Browser::owner(&service).await;
    let by_operator = format!("/dashboard/audit?actor={}", operator().actor);
    let day = domain::calendar::Day::of(service.stack.clock.now());
    let mut replays = 0;
    let mut next = Some(format!("{by_operator}&day={}", day.date()));
    while let Some(path) = next {
        let page = browser.page(&path).await;
        assert!(!page.contains("Cobrança cancelada"), "{page}");
        replays += page.count("Eventos reprocessados");
        next = next_of(&page);
    }
    assert_eq!(replays, 52);
    let page = browser.page(&format!("{by_operator}&day={}", day.minus_days(2).date())).await;
    assert!(page.contains("Nenhuma nesta parte da lista.") && next_of(&page).is_some(), "{page}");
    let page = browser.page(&format!("{by_operator}&day={}", day.plus_days(1).date())).await;
    assert!(page.contains("Nenhuma ação com estes filtros.") && next_of(&page).is_none(), "{page}");
    // A member is found by e-mail address, which is shown beside the id.
    let email = &service.stack.seed.first.owner_email;
    let owner = domain::ids::UserId::from_email(email).to_string();
    let page = browser.page(&format!("/dashboard/audit?actor={}", email.to_uppercase())).await;
    let by = page.get(Role::Table, "Auditoria").column("Quem");
    assert!(by.iter().all(|cell| cell.text() == *email), "{page}");
    assert!(by[0].links_to("/dashboard/audit?")[0].ends_with(&format!("actor={owner}")), "{page}");
    let page = browser.page("/dashboard/audit?actor=nobody%40loja.example").await;
    assert!(page.all(Role::Row).is_empty(), "{page}");
    let refused = browser.answer("/dashboard/audit?day=x", &[]).await;
    assert_eq!(refused.status, 400);
    let page = shown(&refused);
    assert_eq!(page.get(Role::Field, "Dia").value(), "x");
    assert!(page.names(Role::Alert)[0].ends_with("Corrija e envie de novo. (Dia)"), "{page}");
}
