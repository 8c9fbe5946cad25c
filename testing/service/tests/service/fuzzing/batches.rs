//! Generated stream records and queue messages. A batch has bad ones beside a good one: the good one must be
//! processed, and each bad one that can't be read must be reported or set aside.

use std::cell::Cell;
use std::collections::BTreeSet;

use effects::webhook::queue::DeliveryMessage;
use local::event_sources::sequence_number;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use shared::queue::Message;

use super::mutation::{Mutation, mutated, mutations};
use super::{Property, StreamReader, TIME_LIMIT, check, runtime};
use crate::invocations::{dispatch_records, invoke};
use crate::set_aside::BUCKET;
use crate::stream_filter::service_with_one_row_of_each_kind;
use crate::support::{CapturedLog, Listener, Service, id};

const PROPERTY: Property = Property { source_file: file!(), cases: 60, limit: TIME_LIMIT };

/// Attribute values in the form of stream records, separated by white space.
const ODD_ATTRIBUTES: &str = r#"
    {"S":""} {"S":"x"} {"S":"charge"} {"S":"PAID"} {"S":"\u0000"} {"S":"2026-11-22T12:00:00.000Z"}
    {"S":"ch_00000000-0000-8000-8000-000000000000"} {"S":"acc_0123456789abcdef:live"} {"N":"0"}
    {"N":"1"} {"N":"2"} {"N":"-1"} {"N":"1.5"} {"N":"1E+2"} {"N":"9223372036854775807"}
    {"N":"18446744073709551616"} {"N":"99999999999999999999999999999999999999"} {"N":"253402300800000"}
    {"BOOL":true} {"NULL":true} {"L":[]} {"L":[{"M":{"id":{"S":"x"}}}]} {"M":{}}
    {"M":{"a":{"L":[{"M":{}}]}}} {"SS":["a"]} {"NS":["1"]} {"B":"AAEC"} {"B":""}
"#;

/// One change of a stream record.
#[derive(Clone, Debug)]
enum RecordChange {
    /// Replaces an attribute of an image.
    Replace { is_old: bool, attribute: Index, value: String },
    /// Replaces an attribute by one of another record.
    Splice { is_old: bool, attribute: Index, record: Index, of: Index },
    /// Removes an attribute.
    Remove { is_old: bool, attribute: Index },
    /// Adds an attribute that no version knows.
    Add { is_old: bool, value: String },
    /// Sets the version of the row's format.
    Format(u16),
    /// Names another kind of change.
    Name(&'static str),
    /// Exchanges the images.
    Swap,
    /// Removes an image.
    Drop { is_old: bool },
}

fn record_change() -> impl Strategy<Value = RecordChange> {
    let (index, is_old) = (any::<Index>, || prop::bool::weighted(0.2));
    let value = || select(ODD_ATTRIBUTES.split_whitespace().collect::<Vec<_>>()).prop_map(str::to_owned);
    prop_oneof![
        6 => (is_old(), index(), value())
            .prop_map(|(is_old, attribute, value)| RecordChange::Replace { is_old, attribute, value }),
        3 => (is_old(), index(), index(), index()).prop_map(|(is_old, attribute, record, of)| {
            RecordChange::Splice { is_old, attribute, record, of }
        }),
        3 => (is_old(), index()).prop_map(|(is_old, attribute)| RecordChange::Remove { is_old, attribute }),
        1 => (is_old(), value()).prop_map(|(is_old, value)| RecordChange::Add { is_old, value }),
        1 => any::<u16>().prop_map(RecordChange::Format),
        1 => select(vec!["INSERT", "MODIFY", "REMOVE", ""]).prop_map(RecordChange::Name),
        1 => Just(RecordChange::Swap),
        1 => is_old().prop_map(|is_old| RecordChange::Drop { is_old }),
    ]
}

/// Records by their number among those of the service, and their changes.
fn records() -> impl Strategy<Value = Vec<(Index, Vec<RecordChange>)>> {
    vec((any::<Index>(), vec(record_change(), 1..4)), 1..6)
}

fn image_name(is_old: bool) -> &'static str {
    if is_old { "OldImage" } else { "NewImage" }
}

fn attribute_names(record: &Value, is_old: bool) -> Vec<String> {
    let image = record["dynamodb"][image_name(is_old)].as_object();
    image.map(|image| image.keys().cloned().collect()).unwrap_or_default()
}

fn change(record: &mut Value, corpus: &[Value], change: &RecordChange) {
    let names = |is_old: bool| attribute_names(record, is_old);
    let (is_old, name, value) = match change {
        RecordChange::Replace { is_old, attribute, value } if !names(*is_old).is_empty() => {
            (*is_old, attribute.get(&names(*is_old)).clone(), serde_json::from_str(value).unwrap())
        }
        RecordChange::Splice { is_old, attribute, record, of } if !names(*is_old).is_empty() => {
            let other = record.get(corpus);
            let name = of.get(&attribute_names(other, false)).clone();
            (*is_old, attribute.get(&names(*is_old)).clone(), other["dynamodb"]["NewImage"][name].clone())
        }
        RecordChange::Remove { is_old, attribute } if !names(*is_old).is_empty() => {
            let name = attribute.get(&names(*is_old)).clone();
            record["dynamodb"][image_name(*is_old)].as_object_mut().unwrap().remove(&name);
            return;
        }
        RecordChange::Add { is_old, value } if !names(*is_old).is_empty() => {
            (*is_old, "unknown".to_owned(), serde_json::from_str(value).unwrap())
        }
        RecordChange::Format(version) if !names(false).is_empty() => {
            (false, "format".to_owned(), json!({"N": version.to_string()}))
        }
        RecordChange::Name(name) => {
            record["eventName"] = json!(name);
            return;
        }
        RecordChange::Swap => {
            let images = record["dynamodb"].as_object_mut().unwrap();
            let (old, new) = (images.remove("OldImage"), images.remove("NewImage"));
            images.extend(old.map(|image| ("NewImage".to_owned(), image)));
            images.extend(new.map(|image| ("OldImage".to_owned(), image)));
            return;
        }
        RecordChange::Drop { is_old } => {
            record["dynamodb"].as_object_mut().unwrap().remove(image_name(*is_old));
            return;
        }
        // The record has no such image.
        _ => return,
    };
    record["dynamodb"][image_name(is_old)][name] = value;
}

/// The ids of the failed records or messages in a function's response.
fn failed(response: &Value) -> BTreeSet<String> {
    let failures = response["batchItemFailures"].as_array().unwrap();
    failures.iter().map(|failure| failure["itemIdentifier"].as_str().unwrap().to_owned()).collect()
}

/// Returns the sequence numbers of the records that the dispatcher could not read and will not retry.
fn unreadable(log: &CapturedLog) -> Vec<String> {
    let text = log.text();
    let lines = text.lines().filter(|line| line.contains("can't read a stream record"));
    let number = |line: &str| {
        let (_, rest) = line.split_once("sequence_number=").unwrap_or_else(|| panic!("{line}"));
        rest.chars().filter(|c| *c != '"').take_while(char::is_ascii_digit).collect()
    };
    lines.map(number).collect()
}

#[test]
fn bad_stream_records_are_set_aside_or_retried_and_the_good_one_beside_them_is_published() {
    let runtime = runtime();
    let _entered = runtime.enter();
    let (service, corpus, stream) = runtime.block_on(async {
        let service = service_with_one_row_of_each_kind().await;
        let stream = StreamReader::default();
        let corpus = stream.new_records(&service);
        (service, corpus, stream)
    });
    let number = Cell::new(0_u64);
    let s3 = local::sdk::s3(&service.stack.endpoints.s3_url);
    check(&PROPERTY, &runtime, &(records(), any::<Index>()), &async |(changes, place), log| {
        let mut batch = Vec::new();
        for (record, changes) in &changes {
            let mut bad = record.get(&corpus).clone();
            for each in changes {
                change(&mut bad, &corpus, each);
            }
            number.set(number.get() + 1);
            // Longer than the numbers of the service's own records.
            bad["dynamodb"]["SequenceNumber"] = json!(format!("9{:040}", number.get()));
            batch.push(bad);
        }
        let number_of = |record: &Value| sequence_number(record).unwrap().to_owned();
        let bad: BTreeSet<String> = batch.iter().map(number_of).collect();
        let charge = service.charge().await;
        let place = place.index(batch.len() + 1);
        batch.splice(place..place, stream.new_records(&service));

        let response = invoke(&service.stack, "EventDispatcherFunction", &batch).await;
        let failed = failed(&response);
        assert!(failed.is_subset(&bad), "a good record is reported: {failed:?}\n{}", log.text());
        let events = service.get(&format!("/v1/events?object={}", id(&charge))).await.expect(200);
        let events = events["data"].as_array().unwrap();
        let types: BTreeSet<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
        assert!(types.contains("charge.created"), "{types:?}\n{}", log.text());
        for number in unreadable(log) {
            let key = format!("failed-stream-records/{number}.json");
            let object = s3.get_object().bucket(BUCKET).key(&key).send().await;
            assert!(object.is_ok(), "{number} is lost\n{}", log.text());
            s3.delete_object().bucket(BUCKET).key(&key).send().await.unwrap();
        }
        // Records of events and deliveries that the batch caused. Their effects are not of interest.
        stream.new_records(&service);
    });
}

/// Changed messages, by their number among the valid ones of a queue.
fn messages() -> impl Strategy<Value = Vec<(Index, Vec<Mutation>)>> {
    vec((any::<Index>(), mutations()), 1..6)
}

/// Invokes a worker with changed messages and a good one. Checks that a message that can't be read is reported, and
/// that the good one is not.
async fn check_batch<M: Message>(
    service: &Service,
    function: &str,
    valid: &[Value],
    (changes, place): (Vec<(Index, Vec<Mutation>)>, Index),
    good: &Value,
    log: &CapturedLog,
) {
    let mut bodies: Vec<(String, String)> = changes
        .iter()
        .enumerate()
        .map(|(number, (message, mutations))| {
            let body = mutated(message.get(valid), mutations);
            (format!("bad-{number}"), String::from_utf8_lossy(&body).into_owned())
        })
        .collect();
    let is_unreadable = |body: &str| serde_json::from_str::<M>(body).is_err();
    let unreadable: BTreeSet<String> =
        bodies.iter().filter(|(_, body)| is_unreadable(body)).map(|(id, _)| id.clone()).collect();
    let place = place.index(bodies.len() + 1);
    bodies.insert(place, ("good".to_owned(), good.to_string()));
    let records: Vec<Value> = bodies
        .iter()
        .map(|(id, body)| json!({"messageId": id, "body": body, "eventSource": "aws:sqs"}))
        .collect();
    let failed = failed(&invoke(&service.stack, function, &records).await);
    assert!(!failed.contains("good"), "the good message is reported\n{}", log.text());
    assert!(failed.is_superset(&unreadable), "{unreadable:?} are lost: {failed:?}\n{}", log.text());
}

#[test]
fn bad_messages_of_deliveries_are_reported_and_the_good_one_beside_them_is_delivered() {
    let runtime = runtime();
    let _entered = runtime.enter();
    let (service, listener, stream) = runtime.block_on(async {
        let service = Service::without_event_sources().await;
        let listener = Listener::start().await;
        service.register_endpoint(&listener.url, &["charge.created"]).await;
        (service, listener, StreamReader::default())
    });
    let new_message = async || {
        service.charge().await;
        dispatch_records(&service.stack, &stream.new_records(&service)).await;
        let newest = service.get("/v1/webhooks/deliveries?limit=1").await.expect(200);
        let delivery = &newest["data"][0];
        json!({"scope": service.scope(), "delivery": delivery["id"], "endpoint": delivery["endpointId"]})
    };
    let earlier = runtime.block_on(async { vec![new_message().await, new_message().await] });
    check(&PROPERTY, &runtime, &(messages(), any::<Index>()), &async |batch, log| {
        let message = new_message().await;
        check_batch::<DeliveryMessage>(&service, "WebhookWorkerFunction", &earlier, batch, &message, log)
            .await;
        let path = format!("/v1/webhooks/deliveries/{}", message["delivery"].as_str().unwrap());
        let delivery = service.get(&path).await.expect(200);
        assert_eq!(delivery["status"], "DELIVERED", "{}", log.text());
    });
    assert!(!listener.hooks().is_empty());
}
