//! What requests cost, counted at the DynamoDB endpoint (design: Budgets). Counts do not depend on the machine, so
//! they are held by tests; `cargo bench -p local` prints them beside the times of a run.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use axum::http::Method;
use domain::account::terms::MethodTerms;
use local::embedded::fault_proxy::Report;
use local::stack::Options;
use serde_json::{Value, json};

use crate::support::{Listener, Service, id};

/// How long a request takes at least where it counts which ones wait for one another: long enough that two sent side by
/// side overlap.
const LATENCY: Duration = Duration::from_millis(100);

/// A service whose functions' DynamoDB is counted, and where nothing but requests runs.
async fn counted() -> Service {
    Service::with(Options { fault_proxy: true, event_sources: false, ..Options::in_memory() }).await
}

fn proxy(service: &Service) -> &local::embedded::fault_proxy::FaultProxy {
    service.stack.fault_proxy.as_ref().unwrap()
}

/// What happens between a reset and the report.
async fn cost<T>(service: &Service, work: impl Future<Output = T>) -> (T, Report) {
    proxy(service).reset();
    let value = work.await;
    (value, proxy(service).report())
}

#[track_caller]
fn within(report: &Report, requests: usize, one_after_another: usize) {
    assert!(report.requests() <= requests, "{report:?}");
    assert!(report.one_after_another <= one_after_another, "{report:?}");
}

#[tokio::test]
async fn creating_a_charge_is_two_requests_new_or_replayed_and_five_write_units() {
    let service = counted().await;
    let body = json!({"amount": 1000, "description": "Pedido 1"});
    let (_, new) = cost(&service, service.create_with("order-0001", &body)).await;
    within(&new, 2, 2);
    // The key's row; the charge in its table and three indexes.
    assert!((new.write_units - 5.0).abs() < f64::EPSILON, "{new:?}");
    let (_, replayed) = cost(&service, service.create_with("order-0001", &body)).await;
    within(&replayed, 2, 2);
    let full = json!({
        "amount": 1000, "description": "Pedido 1", "expected_payer_tax_id": "29537995593",
        "customer": {"name": "Maria da Silva", "document": "29537995593", "email": "maria@example.com", "phone": "+5511999999999"},
        "metadata": {"order": "2026-000001", "channel": "web"},
    });
    let (_, full) = cost(&service, service.create_with("order-0002", &full)).await;
    assert!(full.write_units <= 8.0, "{full:?}");
}

/// The functions that merchants reach may not read rows with acquirers' credentials (`NoAcquirerCredentials`).
#[tokio::test]
async fn a_live_charge_is_refused_without_a_read_beyond_its_key() {
    let service = counted().await;
    let key = service.stack.seed.first.live_api_key.clone();
    let headers = [("idempotency-key", "order-0001")];
    let body = json!({"amount": 1000});
    let live = service.post_as(&key, "/v1/pix/charges", &body, &headers);
    let (refused, report) = cost(&service, live).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "unprocessable_entity"));
    assert_eq!(report.requests(), 1, "{report:?}");
}

#[tokio::test]
async fn a_payment_costs_what_a_charge_does() {
    let service = counted().await;
    let phone = json!({"phone": "+351912345678"});
    for body in [
        json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "order-0001"}),
        json!({"amount": 1000, "paymentMethods": ["PIX", "BOLETO", "CREDIT_CARD"], "idempotencyKey": "order-0002"}),
        json!({"amount": 1000, "currency": "EUR", "paymentMethods": ["MBWAY", "MULTIBANCO", "CREDIT_CARD", "CRYPTO"],
               "metadata": phone, "idempotencyKey": "order-0003", "customerDocument": "PT123456789"}),
    ] {
        let (payment, new) = cost(&service, service.post("/v1/payments", &body)).await;
        within(&new, 2, 2);
        assert!(new.write_units <= 8.0, "{new:?}");
        let (_, replayed) = cost(&service, service.post("/v1/payments", &body)).await;
        within(&replayed, 2, 2);
        proxy(&service).slow_down(LATENCY);
        let path = format!("/v1/payments/{}", id(&payment.expect(201)));
        let (_, read) = cost(&service, service.get(&path)).await;
        within(&read, 2, 1);
        proxy(&service).slow_down(Duration::ZERO);
    }
}

#[tokio::test]
async fn reading_a_charge_is_two_requests_side_by_side() {
    let service = counted().await;
    let charge = service.charge().await;
    proxy(&service).slow_down(LATENCY);
    let (_, report) = cost(&service, service.read(&charge)).await;
    within(&report, 2, 1);
}

#[tokio::test]
async fn a_settlement_is_three_requests_two_one_after_another() {
    let service = counted().await;
    let charge = service.charge().await;
    proxy(&service).slow_down(LATENCY);
    let (_, report) = cost(&service, service.sandbox(&charge, "pay", &json!({}))).await;
    within(&report, 3, 2);
}

#[tokio::test]
async fn a_balance_is_two_requests_however_much_moved() {
    let service = counted().await;
    service.set_terms(MethodTerms { hold_days: 1, ..MethodTerms::default() }).await;
    let mut read_units = Vec::new();
    for settlements in [3, 150] {
        for _ in 0..settlements {
            let charge = service.charge().await;
            service.sandbox(&charge, "pay", &json!({})).await;
        }
        for path in ["/v1/wallets", "/v1/wallets/balance", "/v1/wallets/balance?currency=BRL"] {
            let (_, report) = cost(&service, service.get(path)).await;
            within(&report, 2, 2);
            read_units.push(report.read_units);
        }
        let (_, report) = cost(&service, service.get("/v1/wallets/transactions")).await;
        within(&report, 2, 2);
    }
    // Nine rows under 1 KB, and one for each day on which something is released.
    assert!(read_units.iter().all(|units| *units <= 2.0), "{read_units:?}");
}

#[tokio::test]
async fn a_page_costs_the_same_however_long_the_list_and_rare_the_match() {
    let service = counted().await;
    for order in 0..150 {
        let customer =
            if order < 3 { json!({"document": "29537995593"}) } else { json!({"document": "25524893033"}) };
        let charge = service.charge_of(&json!({"amount": 1000, "customer": customer})).await;
        if order < 3 {
            service.sandbox(&charge, "pay", &json!({})).await;
        }
    }
    let first = service.get("/v1/charges?limit=100").await.expect(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let queries = [
        "limit=100".to_owned(),
        format!("limit=100&starting_after={cursor}"),
        "status=paid".to_owned(),
        "status=pending".to_owned(),
        "status=disputed".to_owned(),
        "customer_id=29537995593".to_owned(),
        "customer_id=29537995593&status=paid".to_owned(),
        "customer_id=25524893033&status=paid".to_owned(),
        "created_after=2020-01-01&status=paid".to_owned(),
    ];
    proxy(&service).slow_down(LATENCY);
    for query in queries {
        let (_, report) = cost(&service, service.get(&format!("/v1/charges?{query}"))).await;
        assert!(report.requests() <= 5 && report.one_after_another <= 3, "{query}: {report:?}");
    }
}

#[tokio::test]
async fn a_page_of_the_event_log_is_within_its_budget_by_any_filter() {
    let service = counted().await;
    let mut paid = Value::Null;
    for _ in 0..50 {
        paid = service.charge().await;
        service.sandbox(&paid, "pay", &json!({})).await;
    }
    let raw = id(&paid).trim_start_matches("ch_").to_owned();
    service
        .post(&format!("/v1/payments/{raw}/refund"), &json!({"idempotencyKey": "refund-01"}))
        .await
        .expect(201);
    dispatch(&service).await;
    let first = service.get("/v1/events?limit=100").await.expect(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let queries = [
        "limit=100".to_owned(),
        format!("limit=100&starting_after={cursor}"),
        "type=charge.paid".to_owned(),
        "type=med.resolved".to_owned(),
        format!("type=payment.refunded&starting_after={cursor}"),
        format!("object={raw}"),
        format!("object={raw}&type=payment.refunded"),
        "created_after=2020-01-01&type=payout.paid".to_owned(),
    ];
    proxy(&service).slow_down(LATENCY);
    for query in queries {
        let (_, report) = cost(&service, service.get(&format!("/v1/events?{query}"))).await;
        // Of an object its cases and its refunds are read side by side.
        let requests = if query.starts_with("object") { 4 } else { 3 };
        assert!(report.requests() <= requests && report.one_after_another <= 3, "{query}: {report:?}");
    }
    let one = format!("/v1/events/{}", id(&first["data"][0]));
    let (_, report) = cost(&service, service.get(&one)).await;
    within(&report, 2, 2);
}

#[tokio::test]
async fn a_delivery_taken_at_once_is_three_requests() {
    let service = counted().await;
    let listener = Listener::start().await;
    service.register(&listener.url, &["charge.created"]).await;
    service.charge().await;
    dispatch(&service).await;
    let delivery = service.deliveries("").await.remove(0);
    let (_, report) = cost(&service, work(&service, &delivery)).await;
    within(&report, 3, 3);
    assert_eq!(listener.hooks().len(), 1);
}

#[tokio::test]
async fn a_delivery_to_a_transactions_own_address_costs_the_same_once_the_scope_has_a_secret() {
    let service = counted().await;
    let listener = Listener::start().await;
    let body = json!({
        "amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "order-1", "webhookUrl": listener.url,
    });
    service.post("/v1/payments", &body).await.expect(201);
    dispatch(&service).await;
    let deliveries = service.deliveries("").await;
    let (_, first) = cost(&service, work(&service, &deliveries[0])).await;
    within(&first, 4, 4);
    let (_, second) = cost(&service, work(&service, &deliveries[1])).await;
    within(&second, 3, 3);
    assert_eq!(listener.hooks().len(), 2);
}

#[tokio::test]
async fn a_charge_created_paid_and_told_of_stays_within_its_write_units() {
    let service = counted().await;
    let listener = Listener::start().await;
    service.register(&listener.url, &["charge.created", "charge.paid"]).await;
    let before = stream(&service).await.len();
    let (charge, created) = cost(&service, service.charge()).await;
    let (_, paid) = cost(&service, service.sandbox(&charge, "pay", &json!({}))).await;
    // Each change comes alone, the dearest way: changes of one batch share the writes of their sums.
    let (_, dispatched) = cost(&service, async {
        for record in stream(&service).await.split_off(before) {
            hand_over(&service, &[record]).await;
        }
    })
    .await;
    let deliveries = service.deliveries("").await;
    assert_eq!(deliveries.len(), 2);
    let (_, delivered) = cost(&service, async {
        for delivery in &deliveries {
            work(&service, delivery).await;
        }
    })
    .await;
    assert_eq!(listener.hooks().len(), 2);
    let total = created.write_units + paid.write_units + dispatched.write_units + delivered.write_units;
    assert!(total <= 45.0, "{total}: {created:?} {paid:?} {dispatched:?} {delivered:?}");
}

#[tokio::test]
async fn a_refund_through_to_its_end_stays_within_its_write_units() {
    // To its payer, out of held money, and to a third party out of the day's limit.
    for (hold_days, destination, most) in
        [(0, None, 23.0), (1, None, 25.0), (0, Some("maria@example.com"), 25.0)]
    {
        let service = counted().await;
        service.change_settings(|settings| settings.third_party_refunds.test = Some(100_000)).await;
        service.set_terms(MethodTerms { hold_days, ..MethodTerms::default() }).await;
        let charge = service.charge().await;
        service.sandbox(&charge, "pay", &json!({})).await;
        let path = format!("/v1/payments/{}/refund", id(&charge).trim_start_matches("ch_"));
        let body = json!({
            "idempotencyKey": "refund-01", "reason": "Devolvido pelo cliente", "destinationKey": destination,
        });
        let (refund, asked) = cost(&service, service.post(&path, &body)).await;
        let refund = refund.expect(201);
        let (_, begun) = cost(&service, ask_acquirer(&service, &refund)).await;
        service.stack.clock.advance(3_000);
        let (_, ended) = cost(&service, ask_acquirer(&service, &refund)).await;
        dispatch(&service).await;
        let audit = service.rows(&format!("audit#{}", service.scope().account), "aud_").await;
        let audit: Vec<usize> =
            audit.iter().filter(|row| row.contains_key("source")).map(size_of_item).collect();
        // One put of at most a kilobyte outside a transaction is one unit.
        assert!(audit.len() == 1 && audit[0] <= 1024, "{audit:?}");
        let total = asked.write_units + begun.write_units + ended.write_units + 1.0;
        assert!(total <= most, "{total}, of 26: {asked:?} {begun:?} {ended:?}");
        let read = service.read(&charge).await;
        assert_eq!(read["status"], "refunded");
    }
}

#[tokio::test]
async fn proving_and_counting_a_request_of_the_dashboard_is_two_requests_and_a_write_unit() {
    let service = counted().await;
    let seed = &service.stack.seed;
    let bearer = format!("Bearer {}", seed.owner_token(&seed.first, service.stack.clock.now()).unwrap());
    let path = "/v1/api-keys";
    let (list, report) =
        cost(&service, service.raw(Method::GET, path, &[("authorization", &bearer)], "")).await;
    list.expect(200);
    // The third is the list.
    within(&report, 3, 3);
    assert!((report.write_units - 1.0).abs() < f64::EPSILON, "{report:?}");
}

#[tokio::test]
async fn a_usual_charges_row_is_under_a_kilobyte() {
    let service = counted().await;
    let charge = service
        .charge_of(&json!({
            "amount": 123_456, "description": "Pedido 2026-000001",
            "customer": {"name": "Maria da Silva", "document": "29537995593", "email": "maria@example.com"},
            "metadata": {"order": "2026-000001"},
        }))
        .await;
    service.sandbox(&charge, "pay", &json!({})).await;
    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    let text = |text: String| AttributeValue::S(text);
    let pk = format!("charge#{}", id(&charge).trim_start_matches("ch_"));
    let item =
        client.get_item().table_name("StateTable").key("pk", text(pk)).key("sk", text("charge".to_owned()));
    let item = item.send().await.unwrap().item.unwrap();
    let size = size_of_item(&item);
    assert!(size <= 1024, "{size} bytes: {item:#?}");
}

fn size_of_item(item: &HashMap<String, AttributeValue>) -> usize {
    item.iter().map(|(name, value)| name.len() + size_of_value(value)).sum()
}

/// As DynamoDB counts an attribute's size: texts by their bytes, numbers by their digits, maps with 3 bytes of frame
/// and one for each entry.
fn size_of_value(value: &AttributeValue) -> usize {
    use AttributeValue as Value;
    match value {
        Value::S(text) => text.len(),
        Value::N(number) => number.len().div_ceil(2) + 1,
        Value::M(map) => {
            3 + map.iter().map(|(name, value)| 1 + name.len() + size_of_value(value)).sum::<usize>()
        }
        Value::L(list) => 3 + list.iter().map(|value| 1 + size_of_value(value)).sum::<usize>(),
        _ => 1,
    }
}

/// Hands the stream's records to the dispatcher, as its event source would.
pub(crate) async fn dispatch(service: &Service) {
    hand_over(service, &stream(service).await).await;
}

/// All that the stream has.
pub(crate) async fn stream(service: &Service) -> Vec<Value> {
    local::event_sources::stream_records(&service.stack.endpoints.dynamodb_url, "StateTable").await.unwrap()
}

/// Hands records to the dispatcher as one batch.
pub(crate) async fn hand_over(service: &Service, records: &[Value]) {
    let dispatcher = service.stack.functions.get("EventDispatcherFunction").unwrap().clone();
    let answer = dispatcher(json!({ "Records": records })).await.unwrap();
    assert_eq!(answer["batchItemFailures"], json!([]));
}

/// Hands a delivery's message to the worker, as its event source would.
pub(crate) async fn work(service: &Service, delivery: &Value) {
    let worker = service.stack.functions.get("WebhookWorkerFunction").unwrap().clone();
    let scope = format!("{}:test", service.stack.seed.first.id);
    let body =
        json!({"scope": scope, "delivery": delivery["id"], "endpoint": delivery["endpointId"]}).to_string();
    let answer = worker(json!({"Records": [{"messageId": "m", "body": body, "eventSource": "aws:sqs"}]}))
        .await
        .unwrap();
    assert_eq!(answer["batchItemFailures"], json!([]));
}

/// Hands a refund's message to the worker, as its event source would.
pub(crate) async fn ask_acquirer(service: &Service, refund: &Value) {
    let worker = service.stack.functions.get("AcquirerWorkerFunction").unwrap().clone();
    let body = json!({ "refund": refund["id"] }).to_string();
    let answer = worker(json!({"Records": [{"messageId": "m", "body": body, "eventSource": "aws:sqs"}]}))
        .await
        .unwrap();
    assert_eq!(answer["batchItemFailures"], json!([]));
}
