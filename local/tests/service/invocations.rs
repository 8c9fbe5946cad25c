//! Invokes functions by hand, for tests that run without event sources.

use local::stack::Stack;
use serde_json::{Value, json};

/// Dispatches all records of the stream in one batch.
pub(crate) async fn dispatch(stack: &Stack) {
    dispatch_records(stack, &stream_records(stack).await).await;
}

/// Reads all records of the stream.
pub(crate) async fn stream_records(stack: &Stack) -> Vec<Value> {
    stream_records_after(stack, None).await
}

/// Reads the records of the stream after the one with this sequence number.
pub(crate) async fn stream_records_after(stack: &Stack, after: Option<&str>) -> Vec<Value> {
    local::event_sources::stream_records(&stack.endpoints.dynamodb_url, "StateTable", after).await.unwrap()
}

/// Invokes the dispatcher with one batch of records. Fails if the dispatcher reports a failed record.
pub(crate) async fn dispatch_records(stack: &Stack, records: &[Value]) {
    let dispatcher = stack.functions.get("EventDispatcherFunction").unwrap().clone();
    let answer = dispatcher(json!({ "Records": records })).await.unwrap();
    assert_eq!(answer["batchItemFailures"], json!([]));
}

/// Invokes the webhook worker with a delivery's message, as the event source does.
pub(crate) async fn run_webhook_worker(stack: &Stack, delivery: &Value) {
    run_webhook_workers(stack, std::slice::from_ref(delivery)).await;
}

/// Invokes the webhook worker with the messages of deliveries in one batch.
pub(crate) async fn run_webhook_workers(stack: &Stack, deliveries: &[Value]) {
    let worker = stack.functions.get("WebhookWorkerFunction").unwrap().clone();
    let scope = format!("{}:test", stack.seed.first.id);
    let record = |delivery: &Value| {
        let message = json!({"scope": scope, "delivery": delivery["id"], "endpoint": delivery["endpointId"]});
        json!({"messageId": delivery["id"], "body": message.to_string(), "eventSource": "aws:sqs"})
    };
    let records: Vec<Value> = deliveries.iter().map(record).collect();
    let answer = worker(json!({ "Records": records })).await.unwrap();
    assert_eq!(answer["batchItemFailures"], json!([]));
}

/// Invokes the acquirer worker with a refund's message, as the event source does.
pub(crate) async fn run_acquirer_worker(stack: &Stack, refund: &Value) {
    run_acquirer_worker_with(stack, &json!({ "refund": refund["id"] })).await;
}

/// Invokes the acquirer worker with a message, as the event source does.
pub(crate) async fn run_acquirer_worker_with(stack: &Stack, message: &Value) {
    let worker = stack.functions.get("AcquirerWorkerFunction").unwrap().clone();
    let body = message.to_string();
    let answer = worker(json!({"Records": [{"messageId": "m", "body": body, "eventSource": "aws:sqs"}]}))
        .await
        .unwrap();
    assert_eq!(answer["batchItemFailures"], json!([]));
}
