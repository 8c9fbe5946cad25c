//! The audit of what an API key does with money and security (design: Authentication, rate limit, audit): one row for each
//! action, derived from the row that it changed, however often its record comes.

use shared::audit;
use std::collections::BTreeSet;

use domain::audit::Audit;
use local::embedded::fault_proxy::Fault;
use local::stack::Options;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::budgets::{ask_acquirer, dispatch, hand_over, stream};
use crate::support::{Client, Service, eventually, id, operator};

/// A row's action, subject and details.
type Line = (String, String, String);

impl Service {
    /// The audit of the first account, oldest first.
    async fn audit(&self) -> Vec<Audit> {
        let (mut rows, has_more) = audit::page(&self.store(), &self.scope().account, None).await.unwrap();
        assert!(!has_more);
        rows.reverse();
        rows
    }

    async fn lines(&self) -> Vec<Line> {
        let line = |row: Audit| (row.action, row.subject, row.details.unwrap());
        self.audit().await.into_iter().map(line).collect()
    }

    /// Requests that are a second apart are in the audit in their order.
    async fn a_second_later(&self) {
        self.advance(1).await;
    }
}

fn raw(charge: &Value) -> &str {
    id(charge).trim_start_matches("ch_")
}

fn line(action: &str, subject: &str, details: &str) -> Line {
    (action.to_owned(), subject.to_owned(), details.to_owned())
}

async fn without_event_sources() -> Service {
    Service::with(Options { event_sources: false, ..Options::in_memory() }).await
}

#[tokio::test]
async fn what_an_api_key_does_with_money_and_security_is_in_the_audit_with_key_and_address() {
    let service = Service::start().await;
    let open = service.charge().await;
    let (refunded, contested) = (service.paid_charge(1000).await, service.paid_charge(500).await);
    let accepted = service.paid_charge(300).await;
    let appeal = service.open_case(&contested, json!({})).await;
    let accept = service.open_case(&accepted, json!({})).await;

    service.a_second_later().await;
    let cancel = format!("/v1/payments/{}/cancel", raw(&open));
    service.post(&cancel, &json!({})).await.expect(200);
    service.a_second_later().await;
    let refund = json!({"idempotencyKey": "refund-01", "amount": 400, "destinationKey": "maria@example.com"});
    let refund = service.post(&format!("/v1/payments/{}/refund", raw(&refunded)), &refund).await.expect(201);
    service.a_second_later().await;
    service.answer_case(&appeal, "appeal", json!({"reason": "Entregue a Maria"})).await.expect(200);
    service.a_second_later().await;
    service.answer_case(&accept, "accept", json!({})).await.expect(200);
    service.a_second_later().await;
    let url = "http://127.0.0.1:9/hook?token=s3cret";
    let endpoint = service.register(url, &["charge.paid"]).await;
    service.a_second_later().await;
    let path = format!("/v1/webhooks/endpoints/{}", id(&endpoint));
    let change = json!({"url": "http://127.0.0.1:9/other", "events": ["charge.paid", "charge.failed"]});
    service.patch(&path, &change).await.expect(200);
    service.a_second_later().await;
    let rotated = service.post(&format!("{path}/rotate-secret"), &json!({})).await.expect(200);
    service.a_second_later().await;
    service.delete(&path).await.expect(200);
    service.a_second_later().await;
    let overridden = service.post("/v1/webhooks/override-secret/rotate", &json!({})).await.expect(200);

    let rows = eventually("nine actions", async || {
        let rows = service.audit().await;
        (rows.len() >= 9).then_some(rows)
    })
    .await;
    let key = format!("key_{}", domain::hex::encode(&Sha256::digest(service.key())));
    for row in &rows {
        assert_eq!((row.actor.as_str(), &json!(row.source)), (key.as_str(), &json!("127.0.0.1")), "{row:?}");
    }
    let of_refund = format!("test BRL 400 of {}, cashout to m***@e***.com", id(&refunded));
    let scope = service.scope().to_string();
    assert_eq!(
        service.lines().await,
        [
            line("charge.cancel", id(&open), "test BRL 1000, before: WAITING_PAYMENT"),
            line("refund.create", id(&refund), &of_refund),
            line("med.appeal", id(&appeal), "test BRL 500"),
            line("med.accept", id(&accept), "test BRL 300, lost: 300"),
            line("webhook-endpoint.register", id(&endpoint), "test http://127.0.0.1:9, events: charge.paid"),
            line(
                "webhook-endpoint.change",
                id(&endpoint),
                "test url: another path or query at http://127.0.0.1:9; events added: charge.failed"
            ),
            line("webhook-endpoint.rotate-secret", id(&endpoint), "test http://127.0.0.1:9"),
            line("webhook-endpoint.delete", id(&endpoint), "test http://127.0.0.1:9"),
            line("override-secret.rotate", &scope, "test secret for webhookUrl"),
        ]
    );
    let text = format!("{rows:?}");
    let secrets = [&endpoint, &rotated, &overridden].map(|shown| shown["secret"].as_str().unwrap());
    for hidden in secrets.into_iter().chain(["s3cret", "hook?", "maria", "Maria"]) {
        assert!(!text.contains(hidden), "{hidden}");
    }
}

#[tokio::test]
async fn a_record_that_comes_again_and_a_request_that_is_repeated_leave_no_second_row() {
    let service = without_event_sources().await;
    let open = service.charge().await;
    let paid = service.paid_charge(1000).await;
    let contested = service.paid_charge(500).await;
    let case = service.open_case(&contested, json!({})).await;
    let endpoint = service.register("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let path = format!("/v1/webhooks/endpoints/{}", id(&endpoint));
    let cancel = format!("/v1/payments/{}/cancel", raw(&open));
    let refund = format!("/v1/payments/{}/refund", raw(&paid));
    let body = json!({"idempotencyKey": "refund-01", "amount": 400});
    service.post(&cancel, &json!({})).await.expect(200);
    service.post(&refund, &body).await.expect(201);
    service.answer_case(&case, "accept", json!({})).await.expect(200);
    service.delete(&path).await.expect(200);
    dispatch(&service).await;
    let once = service.lines().await;
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
    // The whole stream once more.
    for _again in 0..2 {
        dispatch(&service).await;
    }
    assert_eq!(service.lines().await, once);
}

#[tokio::test]
async fn an_audit_row_that_can_not_be_written_now_is_written_when_the_record_comes_again() {
    let service =
        Service::with(Options { fault_proxy: true, event_sources: false, ..Options::in_memory() }).await;
    service.register("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let records = stream(&service).await;
    let proxy = service.stack.fault_proxy.as_ref().unwrap();
    for _ in 0..50 {
        proxy.inject("PutItem", Fault::InternalError);
    }
    let dispatcher = service.stack.functions.get("EventDispatcherFunction").unwrap().clone();
    let answer = dispatcher(json!({ "Records": records })).await.unwrap();
    assert_eq!(answer["batchItemFailures"].as_array().unwrap().len(), 1, "{answer}");
    assert_eq!(service.lines().await, []);
    proxy.reset();
    hand_over(&service, &records).await;
    assert_eq!(service.audit().await.len(), 1);
}

#[tokio::test]
async fn forty_rotations_of_the_override_secret_at_once_all_take_effect_and_are_all_recorded() {
    let service = without_event_sources().await;
    let rotations: Vec<_> = (0..40)
        .map(|_| {
            let client = Client::new(&service.base_url, &service.key());
            tokio::spawn(async move { client.post("/v1/webhooks/override-secret/rotate", &json!({})).await })
        })
        .collect();
    let mut shown = BTreeSet::new();
    for rotation in rotations {
        let answer = rotation.await.unwrap().expect(200);
        shown.insert(answer["secret"].as_str().unwrap().to_owned());
    }
    assert_eq!((shown.len(), service.audit().await.len()), (40, 40));
    let row = service.rows(&format!("override-secret#{}", service.scope()), "override-secret").await;
    assert_eq!(row[0]["version"].as_n().unwrap(), "40");
    assert!(shown.contains(row[0]["secret"].as_s().unwrap()));
}

#[tokio::test]
async fn what_the_acquirer_the_scheduler_and_the_sandbox_do_to_a_row_is_not_the_keys_doing() {
    let service = without_event_sources().await;
    let paid = service.paid_charge(1000).await;
    let body = json!({"idempotencyKey": "refund-01", "amount": 400});
    let refund = service.post(&format!("/v1/payments/{}/refund", raw(&paid)), &body).await.expect(201);
    let case = service.open_case(&service.paid_charge(500).await, json!({})).await;
    service.a_second_later().await;
    service.answer_case(&case, "appeal", json!({"reason": "Entregue"})).await.expect(200);
    // From here on rows change that carry the key as their actor.
    service.decide_case(&case, "payer").await.expect(200);
    ask_acquirer(&service, &refund).await;
    service.advance(3).await;
    ask_acquirer(&service, &refund).await;
    for what in ["fail", "expire"] {
        let charge = service.charge().await;
        service.sandbox(&charge, what, &json!({})).await;
    }
    dispatch(&service).await;
    let actions: Vec<String> = service.audit().await.into_iter().map(|row| row.action).collect();
    assert_eq!(actions, ["refund.create", "med.appeal"]);
}

#[tokio::test]
async fn the_address_is_api_gateways_whatever_the_client_says() {
    let service = without_event_sources().await;
    let payments = service.stack.functions.get("PaymentsFunction").unwrap().clone();
    let charge = service.charge().await;
    let path = format!("/v1/payments/{}/cancel", raw(&charge));
    let event = json!({
        "version": "2.0", "routeKey": "ANY /v1/payments/{proxy+}", "rawPath": path, "rawQueryString": "",
        "headers": {
            "host": "localhost", "apikey": service.key(), "x-forwarded-for": "192.0.2.1", "forwarded": "for=192.0.2.1",
        },
        "requestContext": {
            "http": {"method": "POST", "path": path, "protocol": "HTTP/1.1", "sourceIp": "2001:db8::7", "userAgent": ""},
            "requestId": "r", "stage": "$default", "time": "", "timeEpoch": 0
        },
        "isBase64Encoded": false,
    });
    let answer = payments(event).await.unwrap();
    assert_eq!(answer["statusCode"], 200, "{answer}");
    assert!(!answer.to_string().contains("2001:db8"), "{answer}");
    dispatch(&service).await;
    let rows = service.audit().await;
    assert_eq!((rows.len(), json!(rows[0].source)), (1, json!("2001:db8::7")));
}

#[tokio::test]
async fn what_keys_and_operators_did_is_read_page_by_page_in_its_order() {
    let service = without_event_sources().await;
    let (store, account) = (service.store(), service.scope().account);
    let mut expected = Vec::new();
    for number in 0..52 {
        service.stack.clock.advance(1_000);
        let by_operator =
            audit::by_operator(&operator(), account, "test", number.to_string(), service.stack.clock.now());
        store.insert(&by_operator.unwrap()).await.unwrap();
        expected.push(number.to_string());
        let charge = service.charge().await;
        service.stack.clock.advance(1_000);
        service.post(&format!("/v1/payments/{}/cancel", raw(&charge)), &json!({})).await.expect(200);
        expected.push(id(&charge).to_owned());
    }
    dispatch(&service).await;
    expected.reverse();
    let (first, has_more) = audit::page(&store, &account, None).await.unwrap();
    assert_eq!((first.len(), has_more), (100, true));
    let (second, has_more) = audit::page(&store, &account, Some(first[99].id)).await.unwrap();
    assert_eq!((second.len(), has_more), (4, false));
    let subjects: Vec<String> = first.into_iter().chain(second).map(|row| row.subject).collect();
    assert_eq!(subjects, expected);
}
