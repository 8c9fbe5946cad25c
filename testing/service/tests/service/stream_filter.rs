//! Tests of the stream filter of the event dispatcher (template.yaml, `FilterCriteria`). The filter passes
//! every record that the dispatcher acts on. It drops the others, so that the dispatcher is invoked less
//! often.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use domain::ids::PayoutId;
use local::template::Template;
use money::payout::Payouts;
use serde_json::{Value, json};
use shared::random;

use crate::invocations::{dispatch, dispatch_records, first_delivery, run_webhook_worker, stream_records};
use crate::support::{Listener, Service, id, operator, raw_id};
use crate::webhooks::endpoint_path;

/// Returns the kind of the row that a record changes: the prefix of the row's keys.
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

/// Checks whether the filter passes a record to the dispatcher.
fn passes_filter(record: &Value) -> bool {
    let template = Template::deployed().unwrap();
    template.function("EventDispatcherFunction").unwrap().streams[0]
        .filters
        .iter()
        .any(|filter| filter.matches(record))
}

/// Starts a service, writes at least one row of each kind and dispatches the stream. Then attempts a delivery
/// and requests a resend. The records of the attempt and the resend are not dispatched.
pub(crate) async fn service_with_one_row_of_each_kind() -> Service {
    let service = Service::without_event_sources().await;
    let listener = Listener::answering(|_| StatusCode::BAD_GATEWAY.into_response()).await;
    service.register_endpoint(&listener.url, &["charge.paid"]).await;
    let charge = service.pay(1000).await;
    let raw = raw_id(&charge).to_owned();
    let refund = json!({"amount": 300, "idempotencyKey": "refund-01"});
    service.post(&format!("/v1/payments/{raw}/refund"), &refund).await.expect(201);
    let contested = service.pay(500).await;
    let case = service.open_case(&contested, json!({})).await;
    let file = json!({"file_name": "a.png", "file_size": 10, "mime_type": "image/png"});
    service.answer_case(&case, "evidence", file).await.expect(201);
    let endpoint = service.register_endpoint("http://127.0.0.1:9/hook", &["payout.failed"]).await;
    let path = endpoint_path(&endpoint);
    service.patch(&path, &json!({"status": "INACTIVE"})).await.expect(200);
    let payout = PayoutId::new(service.stack.clock.now(), random::bytes().unwrap());
    let money = (domain::money::Amount::parse(100).unwrap(), domain::money::Currency::BRL);
    let now = service.stack.clock.now();
    Payouts::new(service.store())
        .create((payout, &payout.into()), service.scope(), money, &operator(), now)
        .await
        .unwrap();
    let report = json!({"type": "fees", "format": "csv", "from": "2026-01-01", "to": "2026-01-02"});
    let key = [("idempotency-key", "report-0001")];
    service.post_as(&service.key(), "/v1/reports", &report, &key).await.expect(202);
    dispatch(&service.stack).await;
    let delivery = service.deliveries("").await.remove(0);
    run_webhook_worker(&service.stack, &delivery).await;
    let same = format!("/v1/webhooks/deliveries/{}/resend", id(&delivery));
    service.post(&same, &json!({})).await.expect(200);
    let again = format!("/v1/payments/{raw}/resend-webhook");
    assert_eq!(service.post(&again, &json!({})).await.expect(200)["resent"], true);
    service.get("/v1/charges?color=red").await.expect(400);
    service
}

#[tokio::test]
async fn the_filter_passes_the_rows_that_the_dispatcher_acts_on_and_no_others() {
    let service = service_with_one_row_of_each_kind().await;
    let records = stream_records(&service.stack);
    let (passing, filtered_out): (Vec<Value>, Vec<Value>) = records.iter().cloned().partition(passes_filter);
    let kinds = |records: &[Value]| records.iter().map(kind).collect::<BTreeSet<String>>();
    assert_eq!(
        kinds(&passing).into_iter().collect::<Vec<_>>(),
        [
            "audit",
            "charge/case",
            "charge/charge",
            "charge/refund",
            "delivery",
            "endpoints",
            "payout",
            "reports",
            "resends",
        ]
    );
    let filtered_out_kinds = kinds(&filtered_out);
    for kind in [
        "abandonments",
        "account",
        "audit",
        "charge/upload",
        "endpoint-count",
        "events",
        "ledger",
        "receipts",
        "request",
        "report-limits",
        "rollup",
        "user",
        "wallet",
    ] {
        assert!(filtered_out_kinds.contains(kind), "{kind} is not among {filtered_out_kinds:?}");
    }
    assert_eq!(
        filtered_out_kinds.intersection(&kinds(&passing)).collect::<Vec<_>>(),
        ["audit", "delivery"],
        "only deliveries that are inserted as listed, and audit rows of changes of access, pass the filter"
    );
    let actions = |records: &[Value]| -> BTreeSet<String> {
        let rows = records.iter().filter(|record| kind(record) == "audit");
        rows.map(|record| record["dynamodb"]["NewImage"]["action"]["S"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(actions(&passing).is_disjoint(&actions(&filtered_out)));
    // Those that effects/src/email/access.rs reads.
    for action in [
        "api-key.issue",
        "api-key.rotate",
        "payout-key.approve",
        "payout-key.register",
        "payout-key.reject",
        "user.add",
        "user.remove",
        "user.reset-password",
        "user.second-factor-off",
        "user.second-factor-on",
        "user.set-role",
        "webhook-endpoint.change",
        "webhook-endpoint.register",
    ] {
        let row = json!({"pk": {"S": "audit#acc_0123456789abcdef"}, "action": {"S": action}});
        assert!(passes_filter(&json!({"eventName": "INSERT", "dynamodb": {"NewImage": row}})), "{action}");
    }
    let is_new_delivery = |record: &&Value| kind(record) == "delivery" && passes_filter(record);
    assert!(records.iter().filter(is_new_delivery).all(|record| record["eventName"] == "INSERT"));
    let mut event_names: BTreeMap<&str, usize> = BTreeMap::new();
    for record in &passing {
        *event_names.entry(record["eventName"].as_str().unwrap()).or_default() += 1;
    }
    assert!(event_names.contains_key("MODIFY") && !event_names.contains_key("REMOVE"), "{event_names:?}");

    // Dispatching the filtered-out records writes nothing, so the filter loses nothing.
    dispatch_records(&service.stack, &filtered_out).await;
    assert_eq!(stream_records(&service.stack).len(), records.len());
    // Dispatching the passing records creates the delivery of the resend.
    let before = service.deliveries("").await.len();
    dispatch_records(&service.stack, &passing).await;
    assert!(service.deliveries("").await.len() > before, "the resend creates a delivery");
}

#[tokio::test]
async fn the_records_of_a_removed_row_and_of_a_delivery_cancelled_before_any_attempt_are_filtered_out() {
    let service = Service::without_event_sources().await;
    let delivery = first_delivery(&service, "http://127.0.0.1:9/hook").await;
    let before = stream_records(&service.stack).len();
    let endpoint = delivery["endpointId"].as_str().unwrap();
    service.delete(&format!("/v1/webhooks/endpoints/{endpoint}")).await.expect(200);
    run_webhook_worker(&service.stack, &delivery).await;
    let records = &stream_records(&service.stack)[before..];
    let is_removed = |record: &&Value| record["eventName"] == "REMOVE";
    let is_cancelled = |record: &&Value| record["dynamodb"]["NewImage"]["status"]["S"] == "CANCELLED";
    let removed: Vec<&Value> = records.iter().filter(is_removed).collect();
    let of_delivery: Vec<&Value> = records.iter().filter(|record| kind(record) == "delivery").collect();
    assert_eq!(removed.len(), 1);
    assert!(of_delivery.iter().any(is_cancelled));
    assert!(of_delivery.iter().any(|record| record["dynamodb"]["NewImage"]["attempts"]["N"] == "0"));
    assert!(!removed.into_iter().chain(of_delivery).any(passes_filter));
}
