use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use shared::clock::Clock;
use shared::store::{DUE_SHARDS, Store};

use super::super::due_rows::DueRows;
use super::{Fixture, Received, recording, succeed, wait_until};
use crate::embedded::State;
use crate::sdk;

/// The shard of the row `due` in the due index.
const SHARD_OF_DUE: u8 = 2;

#[tokio::test]
async fn the_scheduler_runs_while_a_row_is_due_and_when_notified_until_the_event_sources_stop() {
    let fixture = Fixture::start(State::InMemory).await;
    let received = Received::default();
    let runs = || received.lock().unwrap().len();
    fixture.put_due_row("due", Clock::default().now()).await;
    let shards = || -> BTreeSet<Option<u64>> {
        received.lock().unwrap().iter().map(|event| event["shard"].as_u64()).collect()
    };
    let sources = fixture.event_sources("SchedulerFunction", recording(&received, succeed));
    wait_until("the function runs periodically", async || runs() >= 3 + usize::from(DUE_SHARDS)).await;
    let before = runs();
    fixture.run_schedules_now.notify_one();
    wait_until("the function runs when notified", async || runs() > before).await;
    let each_shard = (0..DUE_SHARDS).map(|shard| Some(u64::from(shard)));
    assert!(each_shard.collect::<BTreeSet<_>>().is_subset(&shards()), "{:?}", shards());
    let stopping = Instant::now();
    sources.stop().await;
    assert!(stopping.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn the_scheduler_can_find_a_due_row_after_a_change_and_when_a_row_becomes_due() {
    let fixture = Fixture::start(State::InMemory).await;
    let database = fixture.embedded.database();
    let store = Store::new(sdk::dynamodb(&fixture.embedded.endpoints().dynamodb_url), "StateTable");
    let now = Clock::default().now();
    let later = now.saturating_plus_seconds(60);
    let mut due_rows = DueRows::new(store, &database, SHARD_OF_DUE);
    assert!(due_rows.may_exist(now), "the index was not read yet");
    let version = due_rows.version();
    due_rows.update(version).await;
    assert!(!due_rows.may_exist(later), "the shard is empty");

    fixture.put_due_row("due", later).await;
    wait_until("the change is announced", async || due_rows.may_exist(now)).await;
    due_rows.update(version).await;
    assert!(due_rows.may_exist(now), "the database has changed since that version");
    let version = due_rows.version();
    due_rows.update(version).await;
    assert_eq!((due_rows.may_exist(now), due_rows.may_exist(later)), (false, true));
}
