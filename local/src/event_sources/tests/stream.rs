use serde_json::{Value, json};

use super::{Fixture, Received, all, charge_ids, recording, succeed, wait_until};
use crate::embedded::State;

const FUNCTION: &str = "EventDispatcherFunction";

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
