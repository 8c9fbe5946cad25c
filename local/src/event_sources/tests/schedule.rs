use std::time::{Duration, Instant};

use super::{Fixture, Received, recording, succeed, wait_until};
use crate::embedded::State;

#[tokio::test]
async fn a_scheduled_function_runs_periodically_and_when_notified_until_the_event_sources_stop() {
    let fixture = Fixture::start(State::InMemory).await;
    let received = Received::default();
    let sources = fixture.event_sources("SchedulerFunction", recording(&received, succeed));
    wait_until("the function runs periodically", async || received.lock().unwrap().len() >= 2).await;
    let before = received.lock().unwrap().len();
    fixture.run_schedules_now.notify_one();
    wait_until("the function runs when notified", async || received.lock().unwrap().len() > before).await;
    assert_eq!(received.lock().unwrap()[0]["detail-type"], "Scheduled Event");
    let stopping = Instant::now();
    sources.stop().await;
    assert!(stopping.elapsed() < Duration::from_secs(5));
}
