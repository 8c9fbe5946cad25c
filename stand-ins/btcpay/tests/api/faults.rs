//! Faults.

use serde_json::{Value, json};

use crate::support::{INVOICES, KEY, Receiver, World, eventually};

#[tokio::test]
async fn a_timeout_does_nothing_and_a_lost_answer_does() {
    let world = World::start().await;
    world.fault("timeout", "POST");
    let faults = async || world.btcpay.control("GET", "/faults", &json!({})).1;
    let create = async || world.try_send("POST", INVOICES, KEY, &json!({"amount": "1"})).await;
    let waits = async {
        eventually("the fault occurs", async || (faults().await == json!([])).then_some(())).await;
        world.advance_s(60);
    };
    let (answer, ()) = futures(create(), waits).await;
    assert_eq!(answer, None);
    assert_eq!(world.get(INVOICES).await, json!([]));
    world.fault("lost_answer", "POST");
    assert_eq!(create().await, None);
    assert_eq!(world.get(INVOICES).await.as_array().unwrap().len(), 1);
}

/// Waits for both.
async fn futures<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> (A, B) {
    tokio::join!(first, second)
}

#[tokio::test]
async fn requests_fail_and_webhooks_are_lost() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    world.register(&receiver).await;
    world.control("/faults", json!({"kind": "http_500", "on": "POST", "count": 2}));
    world.fault("rate_limit", "GET");
    world.send("POST", INVOICES, json!({"amount": "1"}), 500).await;
    world.send("POST", INVOICES, json!({"amount": "1"}), 500).await;
    world.send("GET", INVOICES, Value::Null, 429).await;
    assert_eq!(world.get(INVOICES).await, json!([]));
    world.fault("lost_notification", "InvoiceReceivedPayment");
    let id = world.invoice("a", json!({})).await;
    world.control("/pay", json!({"invoice": id}));
    assert_eq!(receiver.types(2).await, ["InvoiceCreated", "InvoiceProcessing"]);
    assert_eq!(world.btcpay.control("GET", "/requests", &json!({})).1["POST stores/{storeId}/invoices"], 3);
}

#[tokio::test]
async fn behaviours_and_faults_are_read_and_changed() {
    let world = World::start().await;
    let changed = world.control("/behaviour", json!({"rates": {"EUR": 1_000_000}}));
    assert_eq!(world.btcpay.control("GET", "/behaviour", &json!({})).1, changed);
    world.send("POST", INVOICES, json!({"amount": "1", "currency": "BRL"}), 400).await;
    let invoice = world.send("POST", INVOICES, json!({"amount": "0.01", "currency": "eur"}), 200).await;
    let method = world.method(invoice["id"].as_str().unwrap()).await;
    assert_eq!([&method["rate"], &method["amount"]], ["10000.00", "0.00000100"]);
    world.refuse("/behaviour", json!({"other": 1}), 422);
    world.refuse("/faults", json!({"kind": "other"}), 422);
    world.control("/faults", json!({"kind": "http_500", "on": null}));
    let faults = |method: &str| world.btcpay.control(method, "/faults", &json!({})).1;
    assert_eq!(faults("GET"), json!([{"kind": "http_500", "on": "", "count": 1}]));
    assert_eq!(faults("DELETE"), json!([]));
}
