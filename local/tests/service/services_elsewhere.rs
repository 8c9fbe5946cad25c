//! The service with DynamoDB, SQS and S3 that were started elsewhere.

use local::embedded::{Embedded, Listen, State};
use local::event_sources::stream_records;
use local::stack::{Options, Stack};
use serde_json::json;
use shared::clock::Clock;

use crate::support::{Client, Listener, eventually, id};

#[tokio::test]
async fn functions_and_event_sources_use_the_services_of_another_program() {
    let others = Embedded::start(&State::InMemory, Listen::AnyPort, &Clock::default()).await.unwrap();
    let options = Options { services_elsewhere: Some(others.endpoints()), ..Options::in_memory() };
    let stack = Stack::start(options).await.unwrap();
    assert_eq!(stack.endpoints, others.endpoints());
    let client = Client::new(&stack.base_url, &stack.seed.first.test_api_key);
    let listener = Listener::start().await;
    client.register_endpoint(&listener.url, &["charge.paid"]).await;
    let charge = client.new_charge("order-0001", &json!({"amount": 1990})).await;
    let pay = format!("/v1/sandbox/charges/{}/pay", id(&charge));
    client.post(&pay, &json!({})).await.expect(200);
    eventually("the webhook", async || {
        let hooks = listener.hooks();
        hooks.iter().find(|hook| hook.json()["data"]["object"]["id"] == charge["id"]).map(|_| ())
    })
    .await;
    // The rows are in the other program.
    let url = others.endpoints().dynamodb_url;
    let records = stream_records(&url, "StateTable", None).await.unwrap();
    let raw_id = id(&charge).strip_prefix("ch_").unwrap();
    assert!(records.iter().any(|record| record["dynamodb"]["Keys"].to_string().contains(raw_id)));
    stack.stop().await;
    // Its services still run.
    stream_records(&url, "StateTable", None).await.unwrap();
    others.stop().await;
}
