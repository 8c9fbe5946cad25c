//! Tests that no account and no slow receiver delays the webhooks of others: slots of an account, circuit breakers, and
//! the separate queue of test deliveries.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::types::AttributeValue;
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use domain::ids::{Mode, Scope};
use effects::webhook::breaker::{Breaker, Breakers, Passage};
use effects::webhook::endpoint::Endpoint;
use effects::webhook::in_flight::{InFlight, Occupancy, Slot};
use local::stack::Options;
use local::template::queue_arn;
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio::sync::watch;

use crate::invocations::{count_messages, dispatch, invoke, run_webhook_worker};
use crate::support::{Listener, Service, eventually, id, serve};

/// A server that answers no request until it is released.
struct Hanging {
    url: String,
    /// The number of requests with each delivery id.
    requests: Arc<Mutex<BTreeMap<String, usize>>>,
    released: watch::Sender<bool>,
}

impl Hanging {
    async fn start() -> Self {
        let requests: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let released = watch::channel(false).0;
        let (received, release) = (Arc::clone(&requests), released.clone());
        let hang = async move |headers: HeaderMap| {
            let delivery = headers["x-service-delivery-id"].to_str().unwrap().to_owned();
            *received.lock().unwrap().entry(delivery).or_default() += 1;
            release.subscribe().wait_for(|released| *released).await.unwrap();
        };
        Self { url: serve(Router::new().fallback(hang)).await, requests, released }
    }

    fn requests(&self) -> BTreeMap<String, usize> {
        self.requests.lock().unwrap().clone()
    }

    fn release(&self) {
        self.released.send_replace(true);
    }

    async fn wait_for_requests(&self, count: usize) {
        let is_reached = || self.requests().values().sum::<usize>() == count;
        eventually("the requests arrive", async || is_reached().then_some(())).await;
    }
}

/// Starts a service without event sources, with these values of the template's parameters.
async fn service_with(parameters: &[(&str, &str)]) -> Service {
    let parameters =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Service::start_with(Options { event_sources: false, parameters, ..Options::in_memory() }).await
}

/// Creates charges. Returns the messages of their deliveries, which are no longer in the queue.
async fn messages_of_new_charges(service: &Service, charges: usize) -> Vec<Value> {
    let before = service.deliveries("").await.len();
    for _ in 0..charges {
        service.charge().await;
    }
    dispatch(&service.stack).await;
    service.take_messages("TestDeliveryQueue").await;
    let deliveries = service.deliveries("").await;
    assert_eq!(deliveries.len(), before + charges);
    deliveries.iter().take(charges).map(|delivery| message_of(service.scope(), delivery)).collect()
}

fn message_of(scope: Scope, delivery: &Value) -> Value {
    json!({"scope": scope, "delivery": delivery["id"], "endpoint": delivery["endpointId"]})
}

/// Invokes the worker with a batch of messages from a queue. Nothing in it may fail.
async fn work(service: &Service, queue: &str, messages: &[Value]) {
    let records: Vec<Value> = messages
        .iter()
        .enumerate()
        .map(|(number, message)| {
            json!({
                "messageId": format!("m{number}"), "body": message.to_string(), "eventSource": "aws:sqs",
                "eventSourceARN": queue_arn(queue),
            })
        })
        .collect();
    let answer = invoke(&service.stack, "WebhookWorkerFunction", &records).await;
    assert_eq!(answer["batchItemFailures"], json!([]));
}

/// Reads the row of the account's slots.
async fn occupancy(service: &Service) -> Occupancy {
    let row = service.store().get_item(&InFlight::key_of(&service.scope())).await.unwrap();
    Occupancy::of(row.unwrap_or_default())
}

async fn slots_in_use(service: &Service) -> i64 {
    occupancy(service).await.in_use(service.stack.clock.now())
}

/// Receives and deletes all visible messages of a queue.
async fn received_from(service: &Service, queue: &str) -> Vec<Value> {
    let bodies = service.take_messages(queue).await;
    bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
}

/// Counts the messages that were sent back, whether or not their delay is over.
async fn count_returned(service: &Service, queue: &str) -> usize {
    let [visible, _in_flight, delayed] = count_messages(service, queue).await;
    visible + delayed
}

/// Takes slots of the account.
async fn take_slots(service: &Service, count: usize) -> Vec<Slot> {
    let in_flight = InFlight::new(service.store());
    let mut slots = Vec::new();
    for taken in 0..count {
        let (slot, before) = in_flight.take(&service.scope(), service.stack.clock.now()).await.unwrap();
        assert_eq!(usize::try_from(before.in_use(service.stack.clock.now())).unwrap(), taken);
        slots.push(slot);
    }
    slots
}

#[tokio::test]
async fn batches_beyond_the_limit_of_an_account_return_to_the_queue_and_no_delivery_is_lost_or_repeated() {
    let service = service_with(&[("AccountDeliveryConcurrency", "2")]).await;
    let server = Hanging::start().await;
    service.register_endpoint(&server.url, &["charge.created"]).await;
    let messages = messages_of_new_charges(&service, 30).await;
    let returned = async {
        server.wait_for_requests(20).await;
        work(&service, "TestDeliveryQueue", &messages[20..]).await;
        assert_eq!(count_returned(&service, "TestDeliveryQueue").await, 10);
        assert_eq!(slots_in_use(&service).await, 2, "an invocation has one slot");
        let waiting = service.deliveries("&status=PENDING").await;
        assert_eq!(waiting.len(), 10, "they wait without a claim");
        assert!(waiting.iter().all(|delivery| delivery["attempts"] == 0));
        server.release();
        service.stack.clock.advance(15_000);
        received_from(&service, "TestDeliveryQueue").await
    };
    let batch =
        |number: usize| work(&service, "TestDeliveryQueue", &messages[10 * number..10 * (number + 1)]);
    let (returned, (), ()) = tokio::join!(returned, batch(0), batch(1));
    assert_eq!((server.requests().len(), returned.len(), slots_in_use(&service).await), (20, 10, 0));
    work(&service, "TestDeliveryQueue", &returned).await;
    let requests = server.requests();
    assert!(requests.len() == 30 && requests.values().all(|times| *times == 1), "{requests:?}");
    assert_eq!(service.deliveries("&status=DELIVERED").await.len(), 30);
}

#[tokio::test]
async fn a_message_without_a_slot_returns_later_each_time_until_the_slots_of_a_dead_worker_lapse() {
    let service = service_with(&[("AccountDeliveryConcurrency", "2")]).await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    let mut messages = messages_of_new_charges(&service, 2).await;
    service.begin_minute().await;
    let slots = take_slots(&service, 2).await;
    // The longest delay of each round, in milliseconds.
    for (round, delay_ms) in [1_000, 2_000, 4_000, 8_000, 8_000].into_iter().enumerate() {
        // A message that is alone in its batch is checked after its claim.
        for batch in messages.chunks(if round == 0 { 1 } else { 2 }) {
            work(&service, "TestDeliveryQueue", batch).await;
        }
        assert_eq!(count_returned(&service, "TestDeliveryQueue").await, 2);
        service.stack.clock.advance(delay_ms);
        messages = received_from(&service, "TestDeliveryQueue").await;
        assert!(messages.iter().all(|message| message["waits"] == round + 1), "{messages:?}");
    }
    let deliveries = service.deliveries("&status=PENDING").await;
    assert!(deliveries.len() == 2 && deliveries.iter().all(|delivery| delivery["attempts"] == 0));
    service.stack.clock.advance(120_000);
    work(&service, "TestDeliveryQueue", &messages).await;
    assert_eq!(listener.hooks().len(), 2);
    // They are released late.
    for slot in slots {
        InFlight::new(service.store()).release(slot).await.unwrap();
    }
    assert_eq!(slots_in_use(&service).await, 0);
    let row = service.store().get_item(&InFlight::key_of(&service.scope())).await.unwrap().unwrap();
    let counters = row.keys().filter(|name| name.starts_with("slots#")).count();
    assert_eq!(counters, 2, "a release removes those of earlier minutes: {row:?}");
}

#[tokio::test]
async fn a_slow_receiver_may_use_a_third_of_the_slots_for_some_minutes() {
    let service = service_with(&[("AccountDeliveryConcurrency", "3")]).await;
    let (hanging, healthy) = (Hanging::start().await, Listener::start().await);
    let slow = service.register_endpoint(&hanging.url, &["charge.created"]).await;
    service.register_endpoint(&healthy.url, &["charge.failed"]).await;
    let first = messages_of_new_charges(&service, 1).await;
    tokio::join!(work(&service, "TestDeliveryQueue", &first), async {
        eventually("the receiver is marked, and the lone attempt takes a slot", async || {
            let occupancy = occupancy(&service).await;
            let now = service.stack.clock.now();
            (occupancy.is_slow(id(&slow), now) && occupancy.in_use(now) == 1).then_some(())
        })
        .await;
        // Alone in its batch, and together with others. The scheduler sends the third again.
        let mut next = messages_of_new_charges(&service, 3).await;
        next[2]["due"] = json!(true);
        work(&service, "TestDeliveryQueue", &next[..1]).await;
        work(&service, "TestDeliveryQueue", &next[1..]).await;
        assert_eq!(count_returned(&service, "TestDeliveryQueue").await, 2);
        service.stack.clock.advance(7_000);
        assert_eq!(received_from(&service, "TestDeliveryQueue").await.len(), 0, "they wait for long");
        service.stack.clock.advance(8_000);
        assert_eq!(received_from(&service, "TestDeliveryQueue").await.len(), 2);
        assert_eq!(hanging.requests().len(), 1);
        let waiting = service.deliveries("&status=PENDING").await;
        assert!(waiting.len() == 3 && waiting.iter().all(|delivery| delivery["attempts"] == 0));
        let charge = service.charge().await;
        service.sandbox(&charge, "fail", &json!({})).await;
        dispatch(&service.stack).await;
        let failed = service.deliveries("&eventType=charge.failed").await.remove(0);
        run_webhook_worker(&service.stack, &failed).await;
        assert_eq!(healthy.hooks().len(), 1, "another receiver of the account is not deferred");
        hanging.release();
    });
    assert_eq!(slots_in_use(&service).await, 0);
    let _slot = take_slots(&service, 1).await;
    let later = messages_of_new_charges(&service, 1).await;
    work(&service, "TestDeliveryQueue", &later).await;
    assert_eq!(hanging.requests().len(), 1);
    service.stack.clock.advance(301_000);
    let _slot = take_slots(&service, 1).await;
    work(&service, "TestDeliveryQueue", &later).await;
    assert_eq!(hanging.requests().len(), 2, "the mark has ended");
}

#[tokio::test]
async fn the_message_of_the_next_attempt_waits_in_sqs_unless_sqs_can_not_delay_it_so_long() {
    let service = service_with(&[]).await;
    let listener = Listener::answering(|number| {
        let retry_after = if number == 0 { "600" } else { "1000" };
        (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", retry_after)]).into_response()
    })
    .await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    let mut messages = messages_of_new_charges(&service, 1).await;
    // The message has returned to its queue before.
    messages[0]["waits"] = json!(2);
    let delayed = async || count_messages(&service, "TestDeliveryQueue").await[2];
    work(&service, "TestDeliveryQueue", &messages).await;
    assert_eq!((listener.hooks().len(), delayed().await), (1, 1));
    service.stack.clock.advance(600_000);
    let due = received_from(&service, "TestDeliveryQueue").await;
    assert_eq!((due.len(), &due[0]["due"], &due[0]["waits"]), (1, &json!(true), &Value::Null), "{due:?}");
    work(&service, "TestDeliveryQueue", &due).await;
    assert_eq!((listener.hooks().len(), delayed().await), (2, 0));
    assert!(service.deliveries("").await[0]["nextRetryAt"].is_string());
}

#[tokio::test]
async fn a_breaker_postpones_attempts_without_counting_them_and_closes_when_the_server_answers() {
    let service = service_with(&[]).await;
    // A socket that does not listen yet refuses connections, and keeps its port.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/hook", closed.local_addr().unwrap());
    service.register_endpoint(&url, &["charge.created"]).await;
    let messages = messages_of_new_charges(&service, 8).await;
    for message in &messages[..5] {
        work(&service, "TestDeliveryQueue", std::slice::from_ref(message)).await;
    }
    work(&service, "TestDeliveryQueue", &messages[5..]).await;
    let deliveries = service.deliveries("").await;
    let attempts = |deliveries: &[Value]| -> Vec<u64> {
        let mut attempts: Vec<u64> =
            deliveries.iter().map(|delivery| delivery["attempts"].as_u64().unwrap()).collect();
        attempts.sort_unstable();
        attempts
    };
    assert_eq!(attempts(&deliveries), [0, 0, 0, 1, 1, 1, 1, 1]);
    for delivery in &deliveries {
        assert_eq!((&delivery["status"], delivery["nextRetryAt"].is_string()), (&json!("PENDING"), true));
    }
    // Another merchant's deliveries to the same server are attempted.
    let other = service.other_account();
    other.register_endpoint(&url, &["charge.created"]).await;
    other.new_charge("order-other-1", &json!({"amount": 1000})).await;
    dispatch(&service.stack).await;
    let read = async || other.deliveries("").await.remove(0);
    let theirs = Scope { account: service.stack.seed.other.id, mode: Mode::Test };
    work(&service, "TestDeliveryQueue", &[message_of(theirs, &read().await)]).await;
    assert_eq!(read().await["attempts"], 1);

    // After 30 seconds, one attempt is the probe. It fails, so the others wait for another minute.
    service.stack.clock.advance(45_000);
    work(&service, "TestDeliveryQueue", &messages[5..]).await;
    assert_eq!(attempts(&service.deliveries("").await), [0, 0, 1, 1, 1, 1, 1, 1]);
    service.stack.clock.advance(45_000);
    work(&service, "TestDeliveryQueue", &messages[5..]).await;
    assert_eq!(attempts(&service.deliveries("").await), [0, 0, 1, 1, 1, 1, 1, 1]);
    // The server answers the next probe, which closes the breaker.
    let router = Router::new().fallback(async || StatusCode::NO_CONTENT);
    let listener = closed.listen(16).unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    service.stack.clock.advance(75_000);
    work(&service, "TestDeliveryQueue", &messages[5..]).await;
    assert!(!service.deliveries("&status=DELIVERED").await.is_empty());
    service.stack.clock.advance(75_000);
    for message in &messages[5..] {
        work(&service, "TestDeliveryQueue", std::slice::from_ref(message)).await;
    }
    let delivered = service.deliveries("&status=DELIVERED").await;
    assert_eq!(attempts(&delivered), [1, 1, 2], "a postponed attempt is not counted");
}

#[tokio::test]
async fn breakers_open_for_hundreds_of_dead_servers_and_the_row_stays_bounded() {
    let service = Service::start().await;
    let (breakers, scope) = (Breakers::new(service.store()), service.scope());
    let servers: Vec<String> = (0..600).map(|number| format!("{number:08x}")).collect();
    let (dead, more) = servers.split_at(400);
    let now = service.stack.clock.now();
    // All but the last of the failures that open a breaker.
    let key = Breakers::key_of(&scope);
    let attributes: Vec<String> = dead.iter().map(|server| format!("failures#{server}")).collect();
    let failures = attributes.iter().map(|name| (name.as_str(), AttributeValue::N("4".to_owned())));
    let failures: Vec<(&str, AttributeValue)> = failures.collect();
    for some in failures.chunks(100) {
        service.set_attributes(&key.pk, &key.sk, some).await;
    }
    for servers in [dead, more] {
        for server in servers {
            breakers.record_failure((&scope, server), None, now).await.unwrap();
        }
        let row = service.store().get_item(&Breakers::key_of(&scope)).await.unwrap();
        let is_open = |server: &String| Breaker::of(row.as_ref(), server).admit(now) != Passage::Pass;
        assert!(dead.iter().all(is_open));
        let known = row.iter().flatten().filter(|(name, _)| name.starts_with("failures#")).count();
        assert!((400..=512).contains(&known), "{known} servers");
    }
}

#[tokio::test]
async fn an_attempt_that_sends_nothing_does_not_count_for_the_breaker() {
    let service = service_with(&[]).await;
    let registered = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.created"]).await;
    let messages = messages_of_new_charges(&service, 2).await;
    let breakers = Breakers::key_of(&service.scope());
    let has_failures = async || service.store().get_item(&breakers).await.unwrap().is_some();
    // A URL that the rules do not allow.
    let store = service.store();
    let key = Endpoint::key_of(&service.scope(), id(&registered).parse().unwrap());
    let mut row = store.get_item(&key).await.unwrap().unwrap();
    let allowed = row.insert("url".to_owned(), AttributeValue::S("http://10.0.0.1/hook".to_owned())).unwrap();
    service.put_item(row.clone()).await;
    work(&service, "TestDeliveryQueue", &messages[..1]).await;
    let refused =
        service.deliveries("").await.into_iter().find(|delivery| delivery["attempts"] == 1).unwrap();
    assert_eq!((&refused["status"], &refused["lastStatusCode"]), (&json!("PENDING"), &Value::Null));
    assert!(!has_failures().await, "{refused}");
    row.insert("url".to_owned(), allowed);
    service.put_item(row).await;
    work(&service, "TestDeliveryQueue", &messages[1..]).await;
    assert!(has_failures().await, "nothing listens on the port");
}

#[tokio::test]
async fn a_flood_of_test_deliveries_does_not_delay_live_ones() {
    let parameters = [("TestDeliveryConcurrency".to_owned(), "2".to_owned())].into();
    let service = Service::start_with(Options { parameters, ..Options::in_memory() }).await;
    let (hanging, healthy) = (Hanging::start().await, Listener::start().await);
    service.register_endpoint(&hanging.url, &["charge.created"]).await;
    let live = service.live_client();
    live.register_endpoint(&healthy.url, &["charge.created"]).await;
    for _ in 0..60 {
        service.charge().await;
    }
    eventually("the test deliveries hang", async || (hanging.requests().len() >= 2).then_some(())).await;
    live.new_charge("order-live-1", &json!({"amount": 1000})).await;
    healthy.received(1).await;
    assert!(hanging.requests().len() < 60, "test deliveries are still waiting");
    hanging.release();
}
