//! Tests that each delivery is attempted although its message is not followed by the scheduler: a worker dies,
//! the database fails for hours, or a message is lost.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue::S;
use aws_sdk_sqs::types::Message;
use domain::ids::Scope;
use effects::notes::Period;
use effects::webhook::delivery::{Claim, Deliveries};
use faults::proxy::Fault;
use local::template::queue_arn;
use serde_json::{Value, json};

use crate::invocations::{count_messages, dispatch, invoke};
use crate::support::{Listener, Service, id};

const QUEUE: &str = "TestDeliveryQueue";
const DEAD_LETTERS: &str = "DeliveryDeadLetterQueue";

/// The visibility timeout of the queue, and a second.
const VISIBLE_AGAIN_MS: i64 = 361_000;

struct Queue {
    client: aws_sdk_sqs::Client,
    url: String,
}

impl Queue {
    fn of(service: &Service) -> Self {
        let (client, url) = service.queue(QUEUE);
        Self { client, url }
    }

    async fn send(&self, body: &str) {
        self.client.send_message().queue_url(&self.url).message_body(body).send().await.unwrap();
    }

    async fn receive(&self) -> Vec<Message> {
        let receive = self.client.receive_message().queue_url(&self.url).max_number_of_messages(10);
        receive.send().await.unwrap().messages.unwrap_or_default()
    }

    async fn delete(&self, message: &Message) {
        let handle = message.receipt_handle().unwrap();
        self.client.delete_message().queue_url(&self.url).receipt_handle(handle).send().await.unwrap();
    }
}

/// The numbers of visible messages and of those in flight.
async fn count(service: &Service, queue: &str) -> [usize; 2] {
    let [visible, in_flight, _delayed] = count_messages(service, queue).await;
    [visible, in_flight]
}

/// Receives the visible messages of the queue and invokes the worker with them, as the event source does: deletes
/// the messages that succeeded and leaves the others. Returns the numbers of both.
async fn work(service: &Service) -> (usize, usize) {
    let queue = Queue::of(service);
    let (mut succeeded, mut failed) = (0, 0);
    loop {
        let messages = queue.receive().await;
        if messages.is_empty() {
            return (succeeded, failed);
        }
        let record = |message: &Message| {
            json!({
                "messageId": message.message_id(), "receiptHandle": message.receipt_handle(),
                "body": message.body(), "eventSource": "aws:sqs", "eventSourceARN": queue_arn(QUEUE),
            })
        };
        let records: Vec<Value> = messages.iter().map(record).collect();
        let answer = invoke(&service.stack, "WebhookWorkerFunction", &records).await;
        let failures = answer["batchItemFailures"].as_array().unwrap();
        for message in &messages {
            if failures.iter().any(|failure| failure["itemIdentifier"] == json!(message.message_id())) {
                failed += 1;
            } else {
                queue.delete(message).await;
                succeeded += 1;
            }
        }
    }
}

async fn recover(service: &Service) -> Result<Value, String> {
    let scheduler = service.stack.functions.get("SchedulerFunction").unwrap().clone();
    scheduler(json!({"task": "recover-messages"})).await
}

/// Starts a service without event sources, with charges whose deliveries have a message in the queue.
async fn with_queued_deliveries(charges: usize) -> (Service, Listener, Vec<Value>) {
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    for _ in 0..charges {
        service.charge().await;
    }
    dispatch(&service.stack).await;
    let deliveries = service.deliveries("&status=PENDING").await;
    assert_eq!(deliveries.len(), charges);
    (service, listener, deliveries)
}

#[tokio::test]
async fn a_message_that_finds_a_lease_returns_when_it_ends_and_replaces_the_worker_that_died() {
    let (service, listener, mut waiting) = with_queued_deliveries(1).await;
    let delivery = waiting.remove(0);
    let queue = Queue::of(&service);
    // A worker receives the message and claims the delivery, then dies. SQS delivers the message a second time.
    let received = queue.receive().await;
    queue.send(received[0].body().unwrap()).await;
    let deliveries = Deliveries::new(service.store());
    let now = service.stack.clock.now();
    let claimed = deliveries.claim(&service.scope(), id(&delivery).parse().unwrap(), 7, now).await.unwrap();
    assert!(matches!(claimed, Claim::Claimed(_)));

    assert_eq!(work(&service).await, (0, 1), "the message is not acknowledged");
    service.stack.clock.advance(59_000);
    assert_eq!(work(&service).await, (0, 0), "the message waits for the end of the lease");
    service.stack.clock.advance(4_000);
    assert_eq!(work(&service).await, (1, 0));
    assert_eq!(listener.hooks().len(), 1);
    let done = service.deliveries("&status=DELIVERED").await.remove(0);
    assert_eq!(done["attempts"], 2);

    service.stack.clock.advance(VISIBLE_AGAIN_MS);
    assert_eq!(work(&service).await, (1, 0), "the first message is acknowledged");
    assert_eq!(listener.hooks().len(), 1);
    assert_eq!(count(&service, QUEUE).await, [0, 0]);
}

#[tokio::test]
async fn throttled_claims_give_up_no_message() {
    let (service, listener, _waiting) = with_queued_deliveries(3).await;
    let proxy = service.proxy();
    proxy.inject_every("UpdateItem", 1, Fault::Throttled);
    // More than the receives of the other queues. A test of the template has the number for 12 hours.
    for round in 0..8 {
        assert_eq!(work(&service).await, (0, 3), "round {round}");
        service.stack.clock.advance(VISIBLE_AGAIN_MS);
    }
    assert_eq!(count(&service, DEAD_LETTERS).await, [0, 0]);
    proxy.reset();
    assert_eq!(work(&service).await, (3, 0));
    assert_eq!(listener.hooks().len(), 3);
    assert!(service.deliveries("&status=DELIVERED").await.iter().all(|delivery| delivery["attempts"] == 1));
}

#[tokio::test]
async fn a_lost_message_is_sent_again_and_the_delivery_is_listed_meanwhile() {
    let (service, listener, _waiting) = with_queued_deliveries(2).await;
    service.take_messages(QUEUE).await;
    let expect_pending = async |count: usize| {
        assert_eq!(service.deliveries("&status=PENDING").await.len(), count);
        let page = service.get("/v1/webhooks/deliveries").await.expect(200);
        assert_eq!((&page["total"], page["data"].as_array().unwrap().len()), (&json!(2), 2));
        assert_eq!(service.get("/v1/webhooks/stats").await.expect(200)["PENDING"], count);
    };
    service.run_scheduler().await;
    expect_pending(2).await;
    service.stack.clock.advance(900_000);
    service.run_scheduler().await;
    assert_eq!(count(&service, QUEUE).await[0], 0, "the deliveries are not in the due index");
    expect_pending(2).await;

    let proxy = service.proxy();
    proxy.inject("UpdateItem", Fault::ServerError);
    for _ in 0..2 {
        // A run that failed is repeated, and one that succeeded has nothing left to do.
        let _outcome = recover(&service).await;
    }
    expect_pending(2).await;
    service.run_scheduler().await;
    assert_eq!(count(&service, QUEUE).await[0], 2);
    assert_eq!(work(&service).await, (2, 0));
    assert_eq!(listener.hooks().len(), 2);
    expect_pending(0).await;
    service.stack.clock.advance(900_000);
    recover(&service).await.unwrap();
    service.run_scheduler().await;
    assert_eq!(count(&service, QUEUE).await, [0, 0], "delivered deliveries are not due");
}

#[tokio::test]
async fn a_scope_that_cant_be_read_is_checked_later_and_delays_no_other() {
    let (service, _listener, _waiting) = with_queued_deliveries(1).await;
    service.take_messages(QUEUE).await;
    let other: Scope = "acc_00000000000000ff:test".parse().unwrap();
    let broken_row = |row: &str| {
        HashMap::from([("pk".to_owned(), S(row.to_owned())), ("sk".to_owned(), S("account".to_owned()))])
    };
    service.put_item(broken_row("account#acc_00000000000000ff")).await;
    // Its period is an earlier one.
    let now = service.stack.clock.now();
    let earlier = Period::of(now.saturating_plus_seconds(-300));
    earlier.note(&service.store(), &other).await.unwrap();

    service.stack.clock.advance(900_000);
    recover(&service).await.unwrap_err();
    service.run_scheduler().await;
    assert_eq!(count(&service, QUEUE).await[0], 1, "the message of the other scope is sent again");
    let unchecked = Period::unchecked(&service.store(), service.stack.clock.now()).await.unwrap();
    assert_eq!(unchecked, []);

    service.stack.clock.advance(900_000);
    recover(&service).await.unwrap_err();
    service.delete_row("account#acc_00000000000000ff", "account").await;
    service.stack.clock.advance(900_000);
    recover(&service).await.unwrap();
}

#[tokio::test]
async fn a_repeated_stream_record_sends_the_message_of_an_existing_delivery_again() {
    // A delivery that is inserted after 200 seconds would count as late.
    for repeated_after_ms in [0, 200_000] {
        let (service, listener, _waiting) = with_queued_deliveries(1).await;
        // The dispatcher died before it sent the message.
        service.take_messages(QUEUE).await;
        service.stack.clock.advance(repeated_after_ms);
        dispatch(&service.stack).await;
        assert_eq!(count(&service, QUEUE).await, [1, 0]);
        // The dispatcher died after it sent the message.
        dispatch(&service.stack).await;
        assert_eq!(count(&service, QUEUE).await, [2, 0]);
        for _ in 0..2 {
            // The second message may find the lease of the first one, and returns.
            work(&service).await;
            service.stack.clock.advance(VISIBLE_AGAIN_MS);
        }
        assert_eq!(listener.hooks().len(), 1);
        dispatch(&service.stack).await;
        assert_eq!(count(&service, QUEUE).await, [0, 0], "the delivery is done");
        let stats = service.get("/v1/webhooks/stats").await.expect(200);
        assert_eq!((&stats["DELIVERED"], &stats["total"]), (&json!(1), &json!(1)));
    }
}

#[tokio::test]
async fn a_count_lists_old_deliveries_and_makes_them_due_but_not_those_of_the_last_seconds() {
    let (service, _listener, _waiting) = with_queued_deliveries(1).await;
    let deliveries = Deliveries::new(service.store());
    let due = async || {
        let rows = service.delivery_rows().await;
        rows.iter().filter(|row| row.contains_key("due_pk") && row.contains_key("list_pk")).count()
    };
    service.stack.clock.advance(40_000);
    service.charge().await;
    dispatch(&service.stack).await;
    deliveries.count(&service.scope(), service.stack.clock.now()).await.unwrap();
    assert_eq!(due().await, 0);
    service.stack.clock.advance(15_000);
    deliveries.count(&service.scope(), service.stack.clock.now()).await.unwrap();
    assert_eq!(due().await, 1);
    assert_eq!(service.deliveries("&status=PENDING").await.len(), 2);
}
