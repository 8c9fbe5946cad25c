//! What the event dispatcher is not invoked for (template.yaml, `FilterCriteria`): the filter and the function are two lists
//! of the same rows.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use domain::ids::PayoutId;
use local::stack::Options;
use local::template::Template;
use serde_json::{Value, json};
use shared::payout::Payouts;
use shared::random;

use crate::budgets::{dispatch, hand_over, stream, work};
use crate::support::{Listener, Service, id, operator};

/// What kind of row a record is of: what its keys begin with.
fn kind(record: &Value) -> String {
    let key = |name: &str| {
        let text = record["dynamodb"]["Keys"][name]["S"].as_str().unwrap();
        text.split(['#', '_']).next().unwrap().to_owned()
    };
    match key("pk").as_str() {
        "charge" => format!("charge/{}", key("sk")),
        pk => pk.to_owned(),
    }
}

/// Whether the dispatcher is invoked for a record.
fn passes(record: &Value) -> bool {
    let template = Template::deployed().unwrap();
    template.function("EventDispatcherFunction").unwrap().streams[0]
        .filters
        .iter()
        .any(|filter| filter.takes(record))
}

/// A service in which one of everything happened, and nothing was dispatched since.
async fn lived_in() -> Service {
    let service = Service::with(Options { event_sources: false, ..Options::in_memory() }).await;
    let listener = Listener::answering(|_| StatusCode::BAD_GATEWAY.into_response()).await;
    service.register(&listener.url, &["charge.paid"]).await;
    let charge = service.paid_charge(1000).await;
    let raw = id(&charge).trim_start_matches("ch_").to_owned();
    let refund = json!({"amount": 300, "idempotencyKey": "refund-01"});
    service.post(&format!("/v1/payments/{raw}/refund"), &refund).await.expect(201);
    let contested = service.paid_charge(500).await;
    let case = service.open_case(&contested, json!({})).await;
    let file = json!({"file_name": "a.png", "file_size": 10, "mime_type": "image/png"});
    service.answer_case(&case, "evidence", file).await.expect(201);
    let gone = service.register("http://127.0.0.1:9/hook", &["payout.failed"]).await;
    let gone = format!("/v1/webhooks/endpoints/{}", id(&gone));
    service.patch(&gone, &json!({"status": "INACTIVE"})).await.expect(200);
    let payout = PayoutId::new(service.stack.clock.now(), random::bytes().unwrap());
    let money = (domain::money::Amount::parse(100).unwrap(), domain::money::Currency::BRL);
    let now = service.stack.clock.now();
    Payouts::new(service.store()).create(payout, service.scope(), money, &operator(), now).await.unwrap();
    dispatch(&service).await;
    let delivery = service.deliveries("").await.remove(0);
    work(&service, &delivery).await;
    let again = format!("/v1/payments/{raw}/resend-webhook");
    assert_eq!(service.post(&again, &json!({})).await.expect(200)["resent"], true);
    service
}

#[tokio::test]
async fn the_dispatcher_is_invoked_for_the_rows_that_it_reads_and_what_is_held_back_asks_for_nothing() {
    let service = lived_in().await;
    let records = stream(&service).await;
    let (passed, held_back): (Vec<Value>, Vec<Value>) = records.iter().cloned().partition(passes);
    let kinds = |records: &[Value]| records.iter().map(kind).collect::<BTreeSet<String>>();
    assert_eq!(
        kinds(&passed).into_iter().collect::<Vec<_>>(),
        [
            "abandonments",
            "charge/case",
            "charge/charge",
            "charge/refund",
            "deliveries",
            "endpoints",
            "payout",
            "resends",
        ]
    );
    let never = kinds(&held_back);
    for kind in [
        "account",
        "audit",
        "charge/upload",
        "counted",
        "endpoint-count",
        "events",
        "ledger",
        "receipts",
        "rollup",
        "user",
        "wallet",
    ] {
        assert!(never.contains(kind), "{kind} is not among {never:?}");
    }
    assert_eq!(
        never.intersection(&kinds(&passed)).collect::<Vec<_>>(),
        ["deliveries"],
        "of these only what is new starts"
    );
    let starts = |record: &&Value| kind(record) == "deliveries" && passes(record);
    assert!(records.iter().filter(starts).all(|record| record["eventName"] == "INSERT"));
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for record in &passed {
        *names.entry(record["eventName"].as_str().unwrap()).or_default() += 1;
    }
    assert!(names.contains_key("MODIFY") && !names.contains_key("REMOVE"), "{names:?}");

    // As if all of it came first now: nothing is written, so nothing was asked for.
    hand_over(&service, &held_back).await;
    assert_eq!(stream(&service).await.len(), records.len());
    // And what passes is all that anybody is told.
    let told = service.deliveries("").await.len();
    hand_over(&service, &passed).await;
    assert!(service.deliveries("").await.len() > told, "the resend");
}

#[tokio::test]
async fn what_is_removed_is_held_back_whatever_it_was() {
    let service = Service::with(Options { event_sources: false, ..Options::in_memory() }).await;
    let endpoint = service.register("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    service.delete(&format!("/v1/webhooks/endpoints/{}", id(&endpoint))).await.expect(200);
    let records = stream(&service).await;
    let removed: Vec<&Value> = records.iter().filter(|record| record["eventName"] == "REMOVE").collect();
    assert_eq!(removed.len(), 1);
    assert!(!passes(removed[0]));
}

#[tokio::test]
async fn a_delivery_that_is_cancelled_before_any_attempt_is_held_back() {
    let service = Service::with(Options { event_sources: false, ..Options::in_memory() }).await;
    let endpoint = service.register("http://127.0.0.1:9/hook", &["charge.created"]).await;
    service.charge().await;
    dispatch(&service).await;
    service.delete(&format!("/v1/webhooks/endpoints/{}", id(&endpoint))).await.expect(200);
    let before = stream(&service).await.len();
    dispatch(&service).await;
    assert_eq!(service.deliveries("&status=CANCELLED").await.len(), 1);
    let records = stream(&service).await;
    let cancelled: Vec<&Value> =
        records[before..].iter().filter(|record| kind(record) == "deliveries").collect();
    assert!(cancelled.iter().any(|record| record["dynamodb"]["NewImage"]["attempts"]["N"] == "0"));
    assert!(!cancelled.into_iter().any(passes));
}

#[tokio::test]
async fn of_the_changes_of_a_charge_that_is_paid_and_told_of_few_invoke_it() {
    let service = Service::with(Options { event_sources: false, ..Options::in_memory() }).await;
    let listener = Listener::start().await;
    service.register(&listener.url, &["charge.created", "charge.paid"]).await;
    // The endpoint's audit row is not a change of the charge.
    dispatch(&service).await;
    let before = stream(&service).await.len();
    let charge = service.charge().await;
    dispatch(&service).await;
    service.sandbox(&charge, "pay", &json!({})).await;
    dispatch(&service).await;
    for delivery in service.deliveries("").await {
        work(&service, &delivery).await;
    }
    let records = &stream(&service).await[before..];
    let passed = records.iter().filter(|record| passes(record)).count();
    assert_eq!((passed, records.len()), (4, 21));
}
