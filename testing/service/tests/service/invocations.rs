//! Invokes functions by hand, for tests that run without event sources.

use aws_sdk_sqs::types::QueueAttributeName;
use effects::webhook::queue::{CountMessage, CountQueue};
use local::stack::Stack;
use serde_json::{Value, json};

use crate::support::Service;

/// Invokes a function with a batch of stream records or messages. Returns its response.
pub(crate) async fn invoke(stack: &Stack, function: &str, records: &[Value]) -> Value {
    let invoke = stack.functions.get(function).unwrap().clone();
    invoke(json!({ "Records": records })).await.unwrap()
}

/// The delivery of a new charge to a new endpoint, which waits for its first attempt.
pub(crate) async fn first_delivery(service: &Service, url: &str) -> Value {
    service.register_endpoint(url, &["charge.created"]).await;
    another_delivery(service).await
}

/// The delivery of a new charge to the endpoint of `charge.created`.
pub(crate) async fn another_delivery(service: &Service) -> Value {
    service.charge().await;
    dispatch(&service.stack).await;
    service.deliveries("").await.remove(0)
}

/// Dispatches all records of the stream in one batch.
pub(crate) async fn dispatch(stack: &Stack) {
    dispatch_records(stack, &stream_records(stack)).await;
}

/// Counts the messages of a queue: the visible ones, those in flight, and the delayed ones.
pub(crate) async fn count_messages(service: &Service, queue: &str) -> [usize; 3] {
    let (sqs, url) = service.queue(queue);
    let got = sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
    let counts = got.send().await.unwrap().attributes.unwrap();
    let names = [
        QueueAttributeName::ApproximateNumberOfMessages,
        QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        QueueAttributeName::ApproximateNumberOfMessagesDelayed,
    ];
    names.map(|name| counts[&name].parse().unwrap())
}

/// Reads all records of the stream.
pub(crate) fn stream_records(stack: &Stack) -> Vec<Value> {
    stream_records_after(stack, None)
}

/// Reads the records of the stream after the one with this sequence number.
pub(crate) fn stream_records_after(stack: &Stack, after: Option<&str>) -> Vec<Value> {
    local::event_sources::stream_records(&stack.database(), "StateTable", after).unwrap()
}

/// Invokes the dispatcher with one batch of records. Fails if the dispatcher reports a failed record.
pub(crate) async fn dispatch_records(stack: &Stack, records: &[Value]) {
    let answer = invoke(stack, "EventDispatcherFunction", records).await;
    assert_eq!(answer["batchItemFailures"], json!([]));
}

/// Invokes the webhook worker with a delivery's message, as the event source does.
pub(crate) async fn run_webhook_worker(stack: &Stack, delivery: &Value) {
    run_webhook_workers(stack, std::slice::from_ref(delivery)).await;
}

/// Invokes the webhook worker with the messages of deliveries in one batch.
pub(crate) async fn run_webhook_workers(stack: &Stack, deliveries: &[Value]) {
    let scope = format!("{}:test", stack.seed.first.id);
    let record = |delivery: &Value| {
        let message = json!({"scope": scope, "delivery": delivery["id"], "endpoint": delivery["endpointId"]});
        json!({"messageId": delivery["id"], "body": message.to_string(), "eventSource": "aws:sqs"})
    };
    let records: Vec<Value> = deliveries.iter().map(record).collect();
    let answer = invoke(stack, "WebhookWorkerFunction", &records).await;
    assert_eq!(answer["batchItemFailures"], json!([]));
}

/// Sends the message of a count of the test deliveries, as the dispatcher does.
pub(crate) async fn send_count(service: &Service) {
    let (sqs, url) = service.queue("CountQueue");
    CountMessage { scope: service.scope() }.send_next(&CountQueue::new(sqs, url)).await.unwrap();
}

/// Invokes the scheduler with the visible messages of counts, as the event source does.
pub(crate) async fn run_counts(service: &Service) {
    let record = |body: String| json!({"messageId": "m", "body": body, "eventSource": "aws:sqs"});
    let records: Vec<Value> = service.take_messages("CountQueue").await.into_iter().map(record).collect();
    let answer = invoke(&service.stack, "SchedulerFunction", &records).await;
    assert_eq!(answer["batchItemFailures"], json!([]));
}

/// Invokes the acquirer worker with a refund's message, as the event source does.
pub(crate) async fn run_acquirer_worker(stack: &Stack, refund: &Value) {
    run_acquirer_worker_with(stack, &json!({"refund": {"id": refund["id"]}})).await;
}

/// Invokes the acquirer worker with a message, as the event source does.
pub(crate) async fn run_acquirer_worker_with(stack: &Stack, message: &Value) {
    let answer = try_acquirer_worker(stack, message).await;
    assert_eq!(answer["batchItemFailures"], json!([]));
}

/// Invokes the acquirer worker with a message, which may fail. Returns the response.
pub(crate) async fn try_acquirer_worker(stack: &Stack, message: &Value) -> Value {
    let record = json!({"messageId": "m", "body": message.to_string(), "eventSource": "aws:sqs"});
    invoke(stack, "AcquirerWorkerFunction", &[record]).await
}

/// Returns the event of API Gateway for a request with the content type of JSON from this address.
pub(crate) fn api_event(
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    source_address: &str,
    body: &str,
) -> Value {
    let mut all = json!({"host": "localhost", "content-type": "application/json"});
    all.as_object_mut()
        .unwrap()
        .extend(headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    json!({
        "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": "", "headers": all,
        "requestContext": {
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": source_address, "userAgent": ""},
            "requestId": "r", "stage": "$default", "time": "", "timeEpoch": 0,
        },
        "body": body, "isBase64Encoded": false,
    })
}
