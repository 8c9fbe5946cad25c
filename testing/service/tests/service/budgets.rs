//! Tests of the budgets: the maximum numbers of DynamoDB requests, of requests in sequence, and of write
//! units. The fault proxy counts the requests, so the counts do not depend on the machine.
//! `cargo test -p service budgets -- --nocapture` prints the write units of whole flows.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use axum::http::Method;
use domain::account::terms::MethodTerms;
use domain::shard::ShardCount;
use faults::proxy::Report;
use serde_json::{Value, json};

use crate::bank_proxy::BankProxy;
use crate::invocations::{dispatch, first_delivery, run_webhook_worker, run_webhook_workers};
use crate::support::{Client, Listener, Service, id, raw_id};
use crate::unit_costs::{self, Cost, highest};
use crate::webhooks::pay_with_webhook_url;

/// The minimum latency of a DynamoDB request in tests that count sequential requests. It is long enough that
/// two concurrent requests overlap.
const LATENCY: Duration = Duration::from_millis(100);

#[track_caller]
fn assert_within_budget(report: &Report, requests: usize, sequential: usize) {
    assert!(report.requests() <= requests, "{report:?}");
    assert!(report.sequential_requests <= sequential, "{report:?}");
}

#[tokio::test]
async fn a_new_or_replayed_charge_takes_two_requests_and_a_new_one_five_write_units() {
    let service = Service::without_event_sources().await;
    let body = json!({"amount": 1000, "description": "Pedido 1"});
    let (_, new) = service.cost(service.post_charge("order-0001", &body)).await;
    assert_within_budget(&new, 2, 2);
    // One unit for the API key's row, and four for the charge's row in the table and in three indexes.
    assert!((new.write_units - 5.0).abs() < f64::EPSILON, "{new:?}");
    let (_, replayed) = service.cost(service.post_charge("order-0001", &body)).await;
    assert_within_budget(&replayed, 2, 2);
    let full = json!({
        "amount": 1000, "description": "Pedido 1", "expected_payer_tax_id": "29537995593",
        "customer": {"name": "Maria da Silva", "document": "29537995593", "email": "maria@example.com", "phone": "+5511999999999"},
        "metadata": {"order": "2026-000001", "channel": "web"},
    });
    let (_, full) = service.cost(service.post_charge("order-0002", &full)).await;
    assert!(full.write_units <= 8.0, "{full:?}");
}

/// The charge has a document, so both velocity guards count it.
#[tokio::test]
async fn a_live_charge_costs_five_requests_and_one_to_the_bank_and_its_refusal_without_an_acquirer_three() {
    let service = Service::without_event_sources().await;
    let bank = BankProxy::start(&service, |_settings| {}).await;
    let client = service.live_client();
    let body = json!({"amount": 1000, "customer": {"name": "Maria", "document": "29537995593"}});
    // The first request reads the account's connections and its settings, and fetches a token. The next ones use the
    // cache.
    for (order, most, at_bank) in [
        ("order-0001", 7, ["POST", "PUT"].as_slice()),
        ("order-0002", 5, ["PUT"].as_slice()),
        ("order-0003", 5, ["PUT"].as_slice()),
    ] {
        let (created, report) = service.cost(client.post_charge(order, &body)).await;
        created.expect(201);
        assert!(report.requests() <= most, "{order}: {report:?}");
        let requests = bank.take_requests();
        let methods: Vec<&str> = requests.iter().map(|(method, _)| method.as_str()).collect();
        assert_eq!(methods, at_bank, "{order}: {requests:?}");
    }
    // For another account, the function reads the settings once, and finds no acquirer.
    let other = Client::new(&service.base_url, &service.stack.seed.other.live_api_key);
    let (refused, report) = service.cost(other.post_charge("order-0001", &json!({"amount": 1000}))).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "unprocessable_entity"));
    // One of them writes the log of requests.
    assert_eq!(report.requests(), 3, "{report:?}");
}

#[tokio::test]
async fn a_payment_costs_as_much_as_a_charge() {
    let service = Service::without_event_sources().await;
    let phone = json!({"phone": "+351912345678"});
    for body in [
        json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "order-0001"}),
        json!({"amount": 1000, "paymentMethods": ["PIX", "BOLETO", "CREDIT_CARD"], "idempotencyKey": "order-0002"}),
        json!({"amount": 1000, "currency": "EUR", "paymentMethods": ["MBWAY", "MULTIBANCO", "CREDIT_CARD", "CRYPTO"],
               "metadata": phone, "idempotencyKey": "order-0003", "customerDocument": "PT123456789"}),
    ] {
        let (payment, new) = service.cost(service.post("/v1/payments", &body)).await;
        assert_within_budget(&new, 2, 2);
        assert!(new.write_units <= 8.0, "{new:?}");
        let (_, replayed) = service.cost(service.post("/v1/payments", &body)).await;
        assert_within_budget(&replayed, 2, 2);
        service.proxy().set_min_latency(LATENCY);
        let path = format!("/v1/payments/{}", id(&payment.expect(201)));
        let (_, read) = service.cost(service.get(&path)).await;
        assert_within_budget(&read, 2, 1);
        service.proxy().set_min_latency(Duration::ZERO);
    }
}

#[tokio::test]
async fn reading_a_charge_takes_two_concurrent_requests_and_its_settlement_three_of_which_two_are_sequential()
{
    let service = Service::without_event_sources().await;
    let charge = service.charge().await;
    service.proxy().set_min_latency(LATENCY);
    let (_, report) = service.cost(service.get_charge(&charge)).await;
    assert_within_budget(&report, 2, 1);
    let (_, report) = service.cost(service.sandbox(&charge, "pay", &json!({}))).await;
    assert_within_budget(&report, 3, 2);
}

#[tokio::test]
async fn reading_a_balance_takes_two_requests_for_any_number_of_movements() {
    let service = Service::without_event_sources().await;
    service.set_terms(MethodTerms { hold_days: 1, ..MethodTerms::default() }).await;
    let mut read_units = Vec::new();
    for settlements in [3, 150] {
        for _ in 0..settlements {
            service.pay(1_000).await;
        }
        for path in ["/v1/wallets", "/v1/wallets/balance", "/v1/wallets/balance?currency=BRL"] {
            let (_, report) = service.cost(service.get(path)).await;
            assert_within_budget(&report, 2, 2);
            read_units.push(report.read_units);
        }
        let (_, report) = service.cost(service.get("/v1/wallets/transactions")).await;
        assert_within_budget(&report, 2, 2);
    }
    // A balance is in nine rows of less than 1 KB each, and one more row for each release day. One query
    // reads all of them, and one read unit covers 4 KB.
    assert!(read_units.iter().all(|units| *units <= 2.0), "{read_units:?}");
}

#[tokio::test]
async fn a_page_of_charges_stays_within_its_budget_even_when_few_charges_match() {
    let service = Service::without_event_sources().await;
    for order in 0..150 {
        let customer =
            if order < 3 { json!({"document": "29537995593"}) } else { json!({"document": "25524893033"}) };
        let metadata = json!({"order_id": "4711"});
        let body = json!({"amount": 1000, "customer": customer, "metadata": metadata});
        let charge = service.new_charge(&body).await;
        if order < 3 {
            service.sandbox(&charge, "pay", &json!({})).await;
        }
    }
    dispatch(&service.stack).await;
    let first = service.get("/v1/charges?limit=100").await.expect(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let txid = first["data"][0]["pix"]["txid"].as_str().unwrap();
    let of_order = service.get("/v1/charges?order_id=4711&limit=100").await.expect(200);
    assert_eq!(of_order["data"].as_array().unwrap().len(), 100);
    let queries = [
        "limit=100".to_owned(),
        format!("limit=100&starting_after={cursor}"),
        "order_id=4711&limit=100".to_owned(),
        format!("order_id=4711&status=paid&amount=1000&starting_after={cursor}"),
        format!("txid={txid}&starting_after={cursor}"),
        format!("end_to_end_id=E00000000202611211000abcdefghijk&starting_after={cursor}"),
        format!("amount=1000&limit=100&starting_after={cursor}"),
        "status=paid".to_owned(),
        "status=pending".to_owned(),
        "status=disputed".to_owned(),
        "customer_id=29537995593".to_owned(),
        "customer_id=29537995593&status=paid".to_owned(),
        "customer_id=25524893033&status=paid".to_owned(),
        "created_after=2020-01-01&status=paid".to_owned(),
    ];
    service.proxy().set_min_latency(LATENCY);
    for query in queries {
        let (_, report) = service.cost(service.get(&format!("/v1/charges?{query}"))).await;
        assert!(report.requests() <= 5 && report.sequential_requests <= 3, "{query}: {report:?}");
    }
}

#[tokio::test]
async fn a_page_of_the_event_log_stays_within_its_budget_with_any_filter() {
    let service = Service::without_event_sources().await;
    let mut paid = Value::Null;
    for _ in 0..50 {
        paid = service.pay(1_000).await;
    }
    let raw = raw_id(&paid);
    service.refund(&paid, "refund-01", json!({})).await.expect(201);
    dispatch(&service.stack).await;
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
    service.proxy().set_min_latency(LATENCY);
    for query in queries {
        let (_, report) = service.cost(service.get(&format!("/v1/events?{query}"))).await;
        // With the filter `object`, the object's cases and refunds are read too, concurrently.
        let requests = if query.starts_with("object") { 4 } else { 3 };
        assert!(report.requests() <= requests && report.sequential_requests <= 3, "{query}: {report:?}");
    }
    let one = format!("/v1/events/{}", id(&first["data"][0]));
    let (_, report) = service.cost(service.get(&one)).await;
    assert_within_budget(&report, 2, 2);
}

#[tokio::test]
async fn a_delivery_to_an_endpoint_or_an_override_url_takes_three_requests_at_its_first_attempt() {
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    let delivery = first_delivery(&service, &listener.url).await;
    let (_, report) = service.cost(run_webhook_worker(&service.stack, &delivery)).await;
    assert_within_budget(&report, 3, 3);
    assert_eq!(listener.hooks().len(), 1);

    pay_with_webhook_url(&service, &listener.url, "order-1").await;
    dispatch(&service.stack).await;
    let mut deliveries = service.deliveries("&status=PENDING").await;
    deliveries.retain(|delivery| delivery["endpointId"].is_null());
    let (_, first) = service.cost(run_webhook_worker(&service.stack, &deliveries[0])).await;
    assert_within_budget(&first, 3, 3);
    // The scope has a secret from now on.
    service.post("/v1/webhooks/override-secret/rotate", &json!({})).await.expect(200);
    let (_, second) = service.cost(run_webhook_worker(&service.stack, &deliveries[1])).await;
    assert_within_budget(&second, 3, 3);
    assert_eq!(listener.hooks().len(), 3);
}

#[tokio::test]
async fn a_batch_of_ten_deliveries_takes_and_releases_its_slots_with_two_write_units() {
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    for minute in 0..3 {
        for _ in 0..11 {
            service.charge().await;
        }
        dispatch(&service.stack).await;
        let deliveries = service.deliveries("&status=PENDING").await;
        let (_, lone) = service.cost(run_webhook_worker(&service.stack, &deliveries[0])).await;
        let (_, batch) = service.cost(run_webhook_workers(&service.stack, &deliveries[1..])).await;
        let for_slots = batch.write_units - 10.0 * lone.write_units;
        assert!(for_slots <= 2.0, "{minute}: {for_slots} {batch:?}");
        assert_eq!(batch.requests(), 32, "{batch:?}");
        service.begin_minute().await;
    }
    assert_eq!(listener.hooks().len(), 33);
}

/// The most write units of a charge among many of a minute.
const CHARGE_OF_A_MINUTE: f64 = 32.0;

/// Prints a figure of a flow beside its budget, with all others of the flow, and checks it.
#[expect(clippy::print_stdout, reason = "`--nocapture` shows the figures")]
#[track_caller]
fn assert_holds(figure: &str, units: f64, at_most: f64, cost: &Cost) {
    println!("{figure}: {units:.2} write units, at most {at_most}\n{}", cost.describe());
    assert!(units <= at_most, "{figure}: {units:.2} > {at_most}");
}

/// The quantities from which `admin cost` computes the cost of a charge.
const USAGE: &str = include_str!("../../../../admin/usage.json");

/// The highest difference between a measured quantity and that in the usage file. The last digits of a thousand
/// charges of a minute depend on the division into batches.
const USAGE_TOLERANCE: f64 = 0.1;

/// Compares a profile of the usage file, with an addition or none, with the quantities of a measured flow.
#[track_caller]
fn assert_usage(profile: &str, addition: &str, cost: &Cost) {
    let usage: Value = serde_json::from_str(USAGE).unwrap();
    let quantities = cost.quantities().map(|(path, measured)| {
        let added = path.strip_prefix("/charge").and_then(|path| usage["additions"][addition].pointer(path));
        let parts = [usage["profiles"][profile].pointer(path), added];
        let stated: f64 = parts.into_iter().flatten().filter_map(Value::as_f64).sum();
        (path, stated, measured)
    });
    assert!(
        quantities.iter().all(|(_, stated, measured)| (stated - measured).abs() <= USAGE_TOLERANCE),
        "the profile `{profile}` of admin/usage.json differs from the service; update it and the figures of \
         `admin cost` in docs (path, stated, measured): {quantities:#?}"
    );
}

#[tokio::test]
async fn a_thousand_charges_of_a_minute_stay_within_their_write_units_and_heat_no_partition() {
    let cost = unit_costs::charges_of_a_minute(1_000, ShardCount::ONE, false).await;
    assert_holds("a charge among 1,000 of a minute", cost.units(), CHARGE_OF_A_MINUTE, &cost);
    assert_holds("the hottest partition key, per charge", highest(&cost.by_partition()), 2.5, &cost);
    // The ids of the charges decide their partitions, so this figure differs by some hundredths between runs.
    let of_due_index = highest(&cost.by_due_partition());
    assert_holds("the hottest partition of the due index, per charge", of_due_index, 0.25, &cost);
    assert_usage("busy", "", &cost);
}

#[tokio::test]
async fn charges_with_an_order_number_an_email_and_a_name_take_a_write_unit_for_each_word() {
    let cost = unit_costs::charges_of_a_minute(100, ShardCount::ONE, true).await;
    // The words of a name are beside the budget.
    assert_holds("a charge that can be searched", cost.units(), CHARGE_OF_A_MINUTE + 2.0, &cost);
    let of_lookups = cost.units_of(|key| key.partition.starts_with("lookup#"));
    assert!((of_lookups - 4.0).abs() < f64::EPSILON, "{of_lookups}");
}

#[tokio::test]
async fn charges_in_eight_shards_heat_no_partition() {
    let cost = unit_costs::charges_of_a_minute(300, ShardCount::try_from(8).unwrap(), false).await;
    assert_holds("a charge in eight shards", cost.units(), CHARGE_OF_A_MINUTE, &cost);
    assert_holds("their hottest partition key, per charge", highest(&cost.by_partition()), 0.5, &cost);
}

#[tokio::test]
async fn a_charge_alone_in_its_minute_stays_within_its_write_units() {
    let cost = unit_costs::charge_alone().await;
    assert_holds("a charge alone in its minute", cost.units(), 38.0, &cost);
    assert_usage("alone", "", &cost);
}

#[tokio::test]
async fn a_live_charge_and_a_look_at_the_checkout_page_add_what_the_usage_file_says() {
    let cost = unit_costs::live_charge_alone().await;
    println!("a live charge, created, paid and delivered\n{}", cost.describe());
    assert_usage("alone", "live", &cost);

    let service = Service::without_event_sources().await;
    let page = service.charge().await["checkout_url"].as_str().unwrap().to_owned();
    let look = async |path: &str| {
        let (answer, report) = service.cost(service.raw(Method::GET, path, &[], "")).await;
        assert_eq!(answer.status, 200);
        report.read_units
    };
    let counted = 6.0 * look(&page).await + look(&format!("{page}/qr.png")).await;
    let usage: Value = serde_json::from_str(USAGE).unwrap();
    let stated = usage["additions"]["checkout"]["measured"]["dynamodb_read_units"].as_f64().unwrap();
    assert!((stated - counted).abs() <= USAGE_TOLERANCE, "{stated}, measured {counted}");
}

#[tokio::test]
async fn a_live_charge_and_a_med_case_stay_within_their_write_units() {
    let live = unit_costs::live_charge().await;
    assert_holds("a live charge, created, with its event and statistics", live.units(), 15.0, &live);
    // Of these, 3 units schedule the count of the statistics, which not each run does.
    let case = unit_costs::med_case().await;
    assert_holds("a MED case, appealed and lost, with events and statistics", case.units(), 46.0, &case);
}

/// The entry in the due index, its removal by an answer, the entry of another case, and the three reminders of that one,
/// the last of which removes the entry.
#[tokio::test]
async fn a_deadline_takes_one_write_unit_and_a_reminder_at_most_three() {
    let units = unit_costs::case_reminders().await;
    println!("a deadline, its answer, a deadline, three reminders: {units:?} write units");
    assert_eq!(units, [1.0, 1.0, 1.0, 3.0, 3.0, 2.0]);
}

/// Refunds to the payer, to the payer from held money, and to a third party within the daily limit.
#[tokio::test]
async fn a_refund_stays_within_its_write_units_from_the_request_to_its_completion() {
    for (figure, hold_days, destination, at_most) in [
        ("a refund", 0, None, 24.0),
        ("a refund of held money", 1, None, 25.0),
        ("a refund to a third party", 0, Some("maria@example.com"), 25.0),
    ] {
        let cost = unit_costs::refund(hold_days, destination).await;
        assert_holds(figure, unit_costs::refund_units(&cost), at_most, &cost);
    }
}

#[tokio::test]
async fn a_dashboard_call_takes_two_requests_and_one_write_unit_before_its_own_work() {
    let service = Service::without_event_sources().await;
    let seed = &service.stack.seed;
    let bearer = format!("Bearer {}", service.stack.owner_token(&seed.first).await.unwrap());
    let path = "/v1/api-keys";
    let (list, report) =
        service.cost(service.raw(Method::GET, path, &[("authorization", &bearer)], "")).await;
    list.expect(200);
    // Two requests authenticate the call and count it for the rate limit. The third reads the list.
    assert_within_budget(&report, 3, 3);
    assert!((report.write_units - 1.0).abs() < f64::EPSILON, "{report:?}");
}

#[tokio::test]
async fn the_row_of_a_typical_charge_is_at_most_one_kilobyte() {
    let service = Service::without_event_sources().await;
    let charge = service
        .new_charge(&json!({
            "amount": 123_456, "description": "Pedido 2026-000001",
            "customer": {"name": "Maria da Silva", "document": "29537995593", "email": "maria@example.com"},
            "metadata": {"order": "2026-000001"},
        }))
        .await;
    service.sandbox(&charge, "pay", &json!({})).await;
    let item = &service.rows(&format!("charge#{}", raw_id(&charge)), "charge").await[0];
    let size = size_of_item(item);
    assert!(size <= 1024, "{size} bytes: {item:#?}");
}

/// The size of an item, as DynamoDB counts it.
pub(crate) fn size_of_item(item: &HashMap<String, AttributeValue>) -> usize {
    item.iter().map(|(name, value)| name.len() + size_of_value(value)).sum()
}

/// Returns an attribute's size in bytes by DynamoDB's rules. A number takes one byte for two digits, and one
/// byte more. A map or a list takes 3 bytes, and one byte for each entry in addition to the entry's size.
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
