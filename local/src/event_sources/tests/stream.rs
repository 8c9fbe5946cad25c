use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Fixture, Received, all, charge_ids, recording, succeed, wait_until};
use crate::embedded::State;

const FUNCTION: &str = "EventDispatcherFunction";

#[tokio::test]
async fn a_record_that_passes_the_filters_arrives_soon_in_the_format_of_lambda() {
    let fixture = Fixture::start(State::InMemory).await;
    let received = Received::default();
    let sources = fixture.event_sources(FUNCTION, recording(&received, succeed));
    fixture.put_row("rollup#acc_1:test", "total").await;
    fixture.put_charge("a").await;
    let written = Instant::now();
    wait_until("the change is received", async || !received.lock().unwrap().is_empty()).await;
    assert_eq!(all(&received, charge_ids), ["a"], "the filters drop the rollup's row");
    assert!(written.elapsed() < Duration::from_secs(2));
    let event = received.lock().unwrap()[0].clone();
    let record = &event["Records"][0];
    assert_eq!((&record["eventName"], &record["eventSource"]), (&json!("INSERT"), &json!("aws:dynamodb")));
    assert_eq!(record["dynamodb"]["NewImage"], json!({"pk": {"S": "charge#a"}, "sk": {"S": "charge"}}));
    assert!(record["eventSourceARN"].as_str().unwrap().contains("table/StateTable/stream/"));
    // Functions deserialize the event as this type.
    let typed: aws_lambda_events::event::dynamodb::Event = serde_json::from_value(event).unwrap();
    assert_eq!(typed.records.len(), 1);
    sources.stop().await;
}

#[tokio::test]
async fn a_partly_failed_batch_is_retried_from_its_first_failed_record() {
    let fixture = Fixture::start(State::InMemory).await;
    for id in ["a", "b", "c", "d"] {
        fixture.put_charge(id).await;
    }
    let received = Received::default();
    // The first record of each batch succeeds and the second fails.
    let sources = fixture.event_sources(
        FUNCTION,
        recording(&received, |event| {
            let second = event.pointer("/Records/1/dynamodb/SequenceNumber");
            let failed: Vec<Value> =
                second.map(|number| json!({"itemIdentifier": number})).into_iter().collect();
            Ok(json!({ "batchItemFailures": failed }))
        }),
    );
    wait_until("the last record is received alone", async || {
        received.lock().unwrap().iter().any(|event| charge_ids(event) == ["d"])
    })
    .await;
    let batches: Vec<Vec<String>> = received.lock().unwrap().iter().map(charge_ids).collect();
    assert_eq!(batches[..4], [vec!["a", "b", "c", "d"], vec!["b", "c", "d"], vec!["c", "d"], vec!["d"]]);
    sources.stop().await;
}

#[tokio::test]
async fn a_record_that_fails_delays_only_its_lane_and_is_received_again_after_a_restart() {
    let directory = std::env::temp_dir().join(format!("event-sources-{}", uuid::Uuid::new_v4()));
    let fixture = Fixture::start_with_lanes(State::Directory(directory.clone()), 10).await;
    let received = Received::default();
    let sources = fixture.event_sources(
        FUNCTION,
        recording(&received, |event| {
            let is_bad = |record: &&Value| record["dynamodb"]["Keys"]["pk"]["S"] == "charge#bad";
            let bad = event["Records"].as_array().unwrap().iter().find(is_bad);
            let failed = bad.map(|record| json!({"itemIdentifier": record["dynamodb"]["SequenceNumber"]}));
            Ok(json!({"batchItemFailures": failed.into_iter().collect::<Vec<_>>()}))
        }),
    );
    fixture.put_charge("bad").await;
    wait_until("the first record fails", async || !received.lock().unwrap().is_empty()).await;
    for number in 0..30 {
        fixture.put_charge(&number.to_string()).await;
    }
    wait_until("other lanes continue", async || all(&received, charge_ids).len() > 20).await;
    sources.stop().await;

    let received = Received::default();
    let sources = fixture.event_sources(FUNCTION, recording(&received, succeed));
    wait_until("the record is received again", async || {
        all(&received, charge_ids).iter().any(|id| id == "bad")
    })
    .await;
    sources.stop().await;
    fixture.embedded.stop().await;
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn a_restart_resumes_after_the_last_checkpoint() {
    let directory = std::env::temp_dir().join(format!("event-sources-{}", uuid::Uuid::new_v4()));
    let first = Fixture::start(State::Directory(directory.clone())).await;
    let received = Received::default();
    let sources = first.event_sources(FUNCTION, recording(&received, succeed));
    first.put_charge("a").await;
    wait_until("the checkpoint is saved", async || directory.join("stream-StateTable.json").exists()).await;
    sources.stop().await;
    first.put_charge("b").await;
    first.embedded.stop().await;

    let second = Fixture::start(State::Directory(directory.clone())).await;
    let received = Received::default();
    let sources = second.event_sources(FUNCTION, recording(&received, succeed));
    second.put_charge("c").await;
    wait_until("both changes are received", async || all(&received, charge_ids).len() >= 2).await;
    assert_eq!(all(&received, charge_ids), ["b", "c"]);
    sources.stop().await;
    second.embedded.stop().await;
    std::fs::remove_dir_all(directory).unwrap();
}
