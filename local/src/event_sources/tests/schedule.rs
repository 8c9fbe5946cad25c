use std::time::{Duration, Instant};

use shared::clock::Clock;

use super::super::due_rows::DueRows;
use super::{Fixture, Received, recording, succeed, wait_until};
use crate::embedded::State;

#[tokio::test]
async fn the_scheduler_runs_while_a_row_is_due_and_when_notified_until_the_event_sources_stop() {
    let fixture = Fixture::start(State::InMemory).await;
    let received = Received::default();
    let runs = || received.lock().unwrap().len();
    fixture.put_due_row("due", Clock::default().now()).await;
    let sources = fixture.event_sources("SchedulerFunction", recording(&received, succeed));
    wait_until("the function runs periodically", async || runs() >= 3).await;
    let before = runs();
    fixture.run_schedules_now.notify_one();
    wait_until("the function runs when notified", async || runs() > before).await;
    assert_eq!(received.lock().unwrap()[0]["detail-type"], "Scheduled Event");
    let stopping = Instant::now();
    sources.stop().await;
    assert!(stopping.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn the_scheduler_can_find_a_due_row_after_a_change_and_when_a_row_becomes_due() {
    let fixture = Fixture::start(State::InMemory).await;
    let mut due_rows = DueRows::new(&fixture.embedded.endpoints(), &fixture.embedded.signals().changes);
    let now = Clock::default().now();
    let later = now.saturating_plus_seconds(60);
    assert!(due_rows.may_exist(now), "the index was not read yet");
    let version = due_rows.version();
    due_rows.update(version).await;
    assert!(!due_rows.may_exist(later), "the index is empty");

    fixture.put_due_row("due", later).await;
    wait_until("the change is announced", async || due_rows.may_exist(now)).await;
    due_rows.update(version).await;
    assert!(due_rows.may_exist(now), "the database has changed since that version");
    let version = due_rows.version();
    due_rows.update(version).await;
    assert_eq!((due_rows.may_exist(now), due_rows.may_exist(later)), (false, true));
}
