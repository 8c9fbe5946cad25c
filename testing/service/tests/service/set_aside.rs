//! Tests that no stream record is lost that fails, and that one that can't be read delays no other: corrupt
//! statistics, a row without fields, and an outage of the database. `throttling` has the throttled accounts.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::charge::TransactionStatus;
use domain::charge::transition::Command;
use domain::rollup::Counter;
use event_dispatcher::Dispatcher;
use event_dispatcher::replay::ReplayError;
use faults::proxy::Fault;
use money::charge::Charges;
use serde_json::{Value, json};
use shared::store::{Aws, Item};

use crate::support::{Listener, ReceivedWebhook, Service, all_time_sums, eventually, id, wait_until};

pub(crate) const BUCKET: &str = "failed-records-bucket";

/// Returns the keys of the objects that were set aside.
pub(crate) async fn set_aside_objects(service: &Service) -> Vec<String> {
    let s3 = local::sdk::s3(&service.stack.endpoints.s3_url);
    let listed = s3.list_objects_v2().bucket(BUCKET).send().await.unwrap();
    listed.contents().iter().map(|object| object.key().unwrap().to_owned()).collect()
}

/// Returns the text of an object that was set aside.
pub(crate) async fn set_aside_text(service: &Service, key: &str) -> String {
    let s3 = local::sdk::s3(&service.stack.endpoints.s3_url);
    let object = s3.get_object().bucket(BUCKET).key(key).send().await.unwrap();
    String::from_utf8(object.body.collect().await.unwrap().to_vec()).unwrap()
}

/// Returns a dispatcher whose requests do not pass the fault proxy.
fn operators_dispatcher(service: &Service) -> Dispatcher {
    dispatcher_with_bucket_at(service, &service.stack.endpoints.s3_url)
}

fn dispatcher_with_bucket_at(service: &Service, s3_url: &str) -> Dispatcher {
    let variables = service.variables("EventDispatcherFunction", s3_url);
    let var = |name: &str| variables[name].as_str().map(str::to_owned);
    Dispatcher::from_vars(&Aws::from_vars(&var).unwrap(), service.stack.clock.clone(), &var).unwrap()
}

/// Sets the number of expired charges in the first account's statistics of all time.
async fn set_expired_count(service: &Service, value: AttributeValue) {
    let rollup = format!("rollup#{}", service.scope());
    service.set_attributes(&rollup, "total", &[("s_ex", value)]).await;
}

/// Waits until a counter of all time has a value.
async fn wait_for_count(service: &Service, counter: Counter, expected: i64) {
    wait_until("the charges are counted", async || {
        all_time_sums(service, &service.scope()).await.get(counter) == expected
    })
    .await;
}

/// Cancels a charge without the fault proxy.
async fn cancel_directly(service: &Service, charge: &Value) {
    let charges = Charges::new(service.store());
    let stored = charges.find(id(charge).parse().ok()).await.unwrap().unwrap();
    charges.apply(stored, &Command::Cancel, service.stack.clock.now()).await.unwrap();
}

/// Waits until a webhook about a charge has arrived that has this event type.
async fn wait_for_webhook(listener: &Listener, event_type: &str, charge: &Value) {
    wait_until("the webhook arrives", async || {
        listener.hooks().iter().any(|hook: &ReceivedWebhook| {
            hook.header("x-service-event-type") == event_type
                && hook.json()["data"]["object"]["id"] == charge["id"]
        })
    })
    .await;
}

#[tokio::test]
async fn corrupt_statistics_of_an_account_delay_no_webhook_and_are_right_after_their_repair() {
    let service = Service::start().await;
    let other = service.other_account();
    let (listener, others_listener) = (Listener::start().await, Listener::start().await);
    let events = ["charge.created", "charge.expired"];
    service.register_endpoint(&listener.url, &events).await;
    other.register_endpoint(&others_listener.url, &events).await;
    set_expired_count(&service, AttributeValue::S("not a number".to_owned())).await;
    for number in 0..5 {
        service.charge().await;
        other.new_charge(&format!("order-{number:04}"), &json!({"amount": 1000})).await;
    }
    wait_for_count(&service, Counter::Created, 5).await;
    // The charges expire, and the scheduler finds them late. So their changes are not left to a fold.
    service.advance_seconds(2 * 60 * 60).await;
    others_listener.received(10).await;
    listener.received(10).await;
    set_expired_count(&service, AttributeValue::N("0".to_owned())).await;
    wait_for_count(&service, Counter::InStatus(TransactionStatus::Expired), 5).await;
    let stats = service.get("/v1/payments/stats").await.expect(200);
    assert_eq!(stats["totalTransactions"], 5, "{stats}");
    assert_eq!(set_aside_objects(&service).await, [""; 0]);
}

#[tokio::test]
async fn a_replay_distinguishes_a_removed_object_from_a_bucket_that_does_not_answer() {
    let service = Service::start().await;
    let mut record = Item::from([("pk".to_owned(), AttributeValue::S("charge#poison".to_owned()))]);
    record.insert("sk".to_owned(), AttributeValue::S("charge".to_owned()));
    service.put_item(record).await;
    let dispatcher = operators_dispatcher(&service);
    let object = eventually("the record is set aside", async || {
        dispatcher.list_quarantined().await.unwrap().into_iter().next()
    })
    .await;
    let unreachable = dispatcher_with_bucket_at(&service, "http://127.0.0.1:9");
    assert!(matches!(unreachable.replay(&object).await, Err(ReplayError::Bucket(_))));
    assert!(matches!(dispatcher.replay(&object).await, Err(ReplayError::Permanent(_))));
    dispatcher.remove(&object).await.unwrap();
    assert!(matches!(dispatcher.replay(&object).await, Err(ReplayError::Removed)));
}

#[tokio::test]
async fn a_record_whose_statistics_fail_publishes_its_event_once_and_is_retried_until_it_is_counted() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    service.proxy().inject_where(&format!("rollup#{}", service.scope()), Fault::ServerError);
    service.charge().await;
    listener.received(1).await;
    assert_eq!(set_aside_objects(&service).await, [""; 0], "it is retried");
    service.proxy().reset();
    wait_for_count(&service, Counter::Created, 1).await;
    assert_eq!(listener.hooks().len(), 1);
}

#[tokio::test]
async fn an_hour_without_the_database_sets_nothing_aside_and_every_event_is_published() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created", "charge.failed"]).await;
    let mut charges = Vec::new();
    for _ in 0..5 {
        charges.push(service.charge().await);
    }
    listener.received(5).await;
    wait_for_count(&service, Counter::Created, 5).await;

    service.proxy().reset();
    service.proxy().inject_where("", Fault::ServerError);
    for charge in &charges {
        cancel_directly(&service, charge).await;
    }
    for _ in 0..2 {
        // The dispatcher's inserts: five records, each tried three times by the client of DynamoDB. After half an
        // hour they are late, and transactions.
        let inserts = || {
            let operations = service.proxy().report().operations;
            ["PutItem", "TransactWriteItems"]
                .into_iter()
                .filter_map(|name| operations.get(name))
                .sum::<usize>()
        };
        let before = inserts();
        wait_until("the dispatcher fails again", async || inserts() > before + 30).await;
        service.stack.clock.advance(30 * 60_000);
    }
    assert_eq!(set_aside_objects(&service).await, [""; 0], "during the outage");
    service.proxy().reset();
    for charge in &charges {
        wait_for_webhook(&listener, "charge.failed", charge).await;
    }
    assert_eq!(set_aside_objects(&service).await, [""; 0], "after the outage");
    wait_for_count(&service, Counter::InStatus(TransactionStatus::Cancelled), 5).await;
}
