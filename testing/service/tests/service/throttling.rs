//! Tests of writes that DynamoDB throttles, because an account writes more to a partition than its ceiling. A
//! throttled write is retried for a few seconds, and nothing is lost or done twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::row::{Key, sortable};
use domain::time::Timestamp;
use faults::proxy::{Ceiling, Fault};
use serde_json::{Value, json};
use shared::store::{due_attributes, key_attributes};

use crate::invocations::{dispatch, dispatch_records, invoke, stream_records};
use crate::set_aside::{set_aside_objects, set_aside_text};
use crate::support::{CapturedLog, Listener, Service, id};

/// The number of concurrent requests. Together, they write several times as much as [`CEILING`] allows while
/// they are retried.
const REQUESTS: usize = 40;

/// A ceiling that a slow machine exceeds too.
const CEILING: Ceiling = Ceiling { write: 4.0, period: Duration::from_secs(1) };

/// Sends the requests concurrently. Returns the statuses and bodies in their order.
async fn send_all(service: &Arc<Service>, requests: Vec<(String, String, Value)>) -> Vec<(u16, Value)> {
    let mut sent = tokio::task::JoinSet::new();
    for (index, (path, key, body)) in requests.into_iter().enumerate() {
        let service = Arc::clone(service);
        sent.spawn(async move {
            let headers: &[(&str, &str)] = if key.is_empty() { &[] } else { &[("idempotency-key", &key)] };
            let answer = service.post_as(&service.key(), &path, &body, headers).await;
            let status = answer.status.as_u16();
            if status == 503 {
                let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
                assert!((1..=3).contains(&seconds), "{answer:?}");
            }
            (index, status, answer.body)
        });
    }
    let answers = sent.join_all().await.into_iter();
    let answers: BTreeMap<usize, (u16, Value)> =
        answers.map(|(index, status, body)| (index, (status, body))).collect();
    answers.into_values().collect()
}

fn creations() -> Vec<(String, String, Value)> {
    let creation =
        |order| ("/v1/pix/charges".to_owned(), format!("order-{order:04}"), json!({"amount": 1000}));
    (0..REQUESTS).map(creation).collect()
}

#[tokio::test]
async fn throttled_creations_and_payments_end_in_201_or_200_or_503_and_lose_or_repeat_nothing() {
    let service = Arc::new(Service::without_event_sources().await);
    service.proxy().throttle(CEILING);
    let throttled = send_all(&service, creations()).await;
    let statuses: BTreeSet<u16> = throttled.iter().map(|(status, _)| *status).collect();
    assert!(service.proxy().throttled_requests() > 0);
    assert!(statuses.is_subset(&BTreeSet::from([201, 503])), "{statuses:?}");
    assert!(statuses.contains(&201), "a throttled write is retried");

    service.proxy().stop_throttling();
    let repeated = send_all(&service, creations()).await;
    let ids: BTreeSet<&str> = repeated.iter().map(|(_, charge)| id(charge)).collect();
    assert_eq!(ids.len(), REQUESTS);
    for ((status, first), (again, charge)) in throttled.iter().zip(&repeated) {
        assert_eq!(*again, 201);
        assert!(*status == 503 || id(first) == id(charge), "{first}: {charge}");
    }
    let page = service.get("/v1/charges?limit=100").await.expect(200);
    let listed: BTreeSet<&str> = page["data"].as_array().unwrap().iter().map(id).collect();
    assert_eq!(listed, ids);

    let payments = || -> Vec<_> {
        let pay = |(_, charge): &(u16, Value)| {
            (format!("/v1/sandbox/charges/{}/pay", id(charge)), String::new(), json!({}))
        };
        repeated.iter().map(pay).collect()
    };
    service.proxy().throttle(CEILING);
    let throttled = send_all(&service, payments()).await;
    let statuses: BTreeSet<u16> = throttled.iter().map(|(status, _)| *status).collect();
    assert!(service.proxy().throttled_requests() > 0);
    assert!(statuses.is_subset(&BTreeSet::from([200, 503])), "{statuses:?}");
    assert!(statuses.contains(&200), "a cancelled transaction is retried");

    service.proxy().stop_throttling();
    for ((status, _), (path, _, body)) in throttled.iter().zip(payments()) {
        if *status == 503 {
            service.post(&path, &body).await.expect(200);
        }
    }
    let page = service.get("/v1/charges?limit=100&status=paid").await.expect(200);
    assert_eq!(page["data"].as_array().unwrap().len(), REQUESTS);
    let wallet = service.get("/v1/wallets/balance").await.expect(200);
    assert_eq!(wallet["available"], json!(1000 * REQUESTS), "{wallet}");
    service.check_ledger().await;
}

#[tokio::test]
async fn throttled_records_of_an_account_do_not_delay_another_and_are_published_once_later() {
    let service = Service::without_event_sources().await;
    let other = service.other_account();
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    other.register_endpoint(&listener.url, &["charge.created"]).await;
    let mut expected = BTreeSet::new();
    for _ in 0..20 {
        expected.insert(id(&service.charge().await).to_owned());
    }
    // The last records of the batch.
    other.new_charge("order-0001", &json!({"amount": 1000})).await;
    let records = stream_records(&service.stack);
    // The partition of the account's events is hot for the whole invocation. The other account writes less.
    service.proxy().throttle(Ceiling { write: 12.0, period: Duration::from_hours(1) });
    // No record blocks the stream.
    dispatch_records(&service.stack, &records).await;
    assert!(service.proxy().throttled_requests() > 0);
    let delivered = other.get("/v1/webhooks/deliveries").await.expect(200);
    assert_eq!(delivered["data"].as_array().unwrap().len(), 1, "the other account's event is published");
    assert!(service.deliveries("").await.len() < 20);
    let of_other = service.stack.seed.other.id.to_string();
    let messages = service.take_messages("TestDeliveryQueue").await;
    assert!(messages.iter().any(|message| message.contains(&of_other)), "its delivery is started");
    let postponed = set_aside_objects(&service).await;
    assert_eq!(postponed.len(), 1, "the records are one object");

    // A replay during the throttle leaves them for later. After 15 minutes, operators see that they fail.
    let log = CapturedLog::start();
    let is_logged = || log.text().contains("postponed stream records still fail");
    replay_postponed(&service, 1).await;
    assert!(!is_logged(), "{}", log.text());
    replay_postponed(&service, 20).await;
    assert!(is_logged(), "{}", log.text());
    drop(log);
    assert_eq!(set_aside_objects(&service).await, postponed);
    // A replay that publishes some of the events leaves the other records for later.
    let kept = set_aside_records(&service).await;
    service.proxy().throttle(Ceiling { write: 4.0, period: Duration::from_hours(1) });
    replay_postponed(&service, 1).await;
    let left = set_aside_records(&service).await;
    assert!(!left.is_empty() && left.len() < kept.len(), "{} of {}", left.len(), kept.len());
    assert!(left.iter().all(|record| kept.contains(record)));
    service.proxy().stop_throttling();
    replay_postponed(&service, 1).await;
    assert_eq!(set_aside_objects(&service).await, [""; 0]);
    dispatch(&service.stack).await;
    let events = service.get("/v1/events?limit=100&type=charge.created").await.expect(200);
    let charges: Vec<String> = events["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| id(&event["data"]["object"]).to_owned())
        .collect();
    assert_eq!(charges.len(), 20);
    assert_eq!(charges.into_iter().collect::<BTreeSet<_>>(), expected);
    assert_eq!(service.deliveries("").await.len(), 20);
    let stats = service.get("/v1/payments/stats").await.expect(200);
    assert_eq!(stats["totalTransactions"], 20, "{stats}");
}

/// Returns the records of the only object that was set aside.
async fn set_aside_records(service: &Service) -> Vec<Value> {
    let keys = set_aside_objects(service).await;
    let [key] = keys.as_slice() else { panic!("{keys:?}") };
    let object: Value = serde_json::from_str(&set_aside_text(service, key).await).unwrap();
    object["Records"].as_array().unwrap().clone()
}

/// Lets some minutes pass, then runs the dispatcher's schedule.
async fn replay_postponed(service: &Service, minutes: i64) {
    service.stack.clock.advance(minutes * 60_000);
    let dispatcher = service.stack.functions.get("EventDispatcherFunction").unwrap().clone();
    dispatcher(json!({"task": "replay-postponed"})).await.unwrap();
}

#[tokio::test]
async fn a_throttle_of_the_whole_table_sets_no_record_aside() {
    let service = Service::without_event_sources().await;
    service.charge().await;
    let records = stream_records(&service.stack);
    service.proxy().inject_where("", Fault::Throttled);
    let answer = invoke(&service.stack, "EventDispatcherFunction", &records).await;
    assert_ne!(answer["batchItemFailures"], json!([]));
    service.proxy().reset();
    assert_eq!(set_aside_objects(&service).await, [""; 0]);
    dispatch(&service.stack).await;
}

/// Inserts a row that is due since `at`. `shard`: the shard of the due index that it must be in.
async fn put_due_row(service: &Service, pk: &str, name: &str, at: Timestamp, shard: Option<&str>) -> Key {
    let key = |suffix: usize| Key { pk: pk.to_owned(), sk: format!("{name}{suffix}") };
    let shard_of = |key: &Key| due_attributes(key, at)[0].1.as_s().unwrap().clone();
    let mut keys = (0..).map(key);
    let key = keys.find(|key| shard.is_none_or(|shard| shard_of(key) == shard)).unwrap();
    let mut item = key_attributes(&key);
    item.extend(due_attributes(&key, at));
    service.put_item(item).await;
    key
}

#[tokio::test]
async fn throttled_due_rows_of_an_account_stay_due_and_do_not_delay_those_of_another() {
    let service = Service::without_event_sources().await;
    let busy = format!("deliveries#{}", service.scope());
    let other = format!("deliveries#{}:test", service.stack.seed.other.id);
    let now = service.stack.clock.now();
    let at = now.saturating_plus_seconds(-120);
    let first = put_due_row(&service, &busy, "wd_0_", at, None).await;
    let shard = due_attributes(&first, at)[0].1.as_s().unwrap().clone();
    // More rows than a page of the index, all before that of the other account.
    for number in 1..=100 {
        put_due_row(&service, &busy, &format!("wd_{number}_"), at, Some(&shard)).await;
    }
    let later = now.saturating_plus_seconds(-60);
    let last = put_due_row(&service, &other, "wd_0_", later, Some(&shard)).await;
    let due_since = async |key: &Key| {
        let rows = service.rows(&key.pk, &key.sk).await;
        rows[0]["due_sk"].as_s().unwrap().clone()
    };
    let before = (due_since(&first).await, due_since(&last).await);
    // This text is in the requests that postpone the rows, and not in those that read the index.
    let postponing = format!(r#"":v2":{{"S":"{}#{busy}"#, sortable(at));
    service.proxy().inject_where(&postponing, Fault::Throttled);
    let scheduler = service.stack.functions.get("SchedulerFunction").unwrap().clone();
    let shard: u8 = shard.trim_start_matches("due#").parse().unwrap();
    assert!(scheduler(json!({ "shard": shard })).await.is_err(), "the alarm reports it");
    assert_eq!(due_since(&first).await, before.0);
    assert!(due_since(&last).await > before.1);
}
