//! Invokes the scheduled functions, as EventBridge does.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use shared::clock::Clock;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::embedded::{ACCOUNT, REGION};
use crate::lambda::Invoke;
use crate::shutdown::Shutdown;
use crate::template::Schedule;

/// The duration of a schedule's minute on this machine. It is short, so that due rows are processed within a
/// second.
const MINUTE: Duration = Duration::from_millis(500);

/// Runs the schedules, each independently of the others, until shutdown is requested. All of them run at once
/// when `run_now` is notified.
pub(super) async fn run(
    schedules: Vec<(Schedule, Invoke)>,
    clock: Clock,
    run_now: Arc<Notify>,
    mut shutdown: Shutdown,
) {
    let mut tasks = JoinSet::new();
    let mut waiting = Vec::new();
    for (schedule, invoke) in schedules {
        let run_now = Arc::new(Notify::new());
        waiting.push(Arc::clone(&run_now));
        tasks.spawn(run_one(schedule, invoke, clock.clone(), run_now, shutdown.clone()));
    }
    while !shutdown.is_requested() {
        tokio::select! {
            () = run_now.notified() => waiting.iter().for_each(|schedule| schedule.notify_one()),
            () = shutdown.requested() => {}
        }
    }
    while tasks.join_next().await.is_some() {}
}

/// Invokes a function once per period, and at once when `run_now` is notified. As with EventBridge, the first
/// period begins now.
async fn run_one(
    schedule: Schedule,
    invoke: Invoke,
    clock: Clock,
    run_now: Arc<Notify>,
    mut shutdown: Shutdown,
) {
    let period = MINUTE.saturating_mul(schedule.minutes);
    loop {
        tokio::select! {
            () = run_now.notified() => {}
            () = tokio::time::sleep(period) => {}
            () = shutdown.requested() => return,
        }
        let event = schedule.input.clone().unwrap_or_else(|| scheduled_event(&clock));
        if let Err(error) = invoke(event).await {
            tracing::error!(error, "a scheduled function failed");
        }
    }
}

fn scheduled_event(clock: &Clock) -> Value {
    json!({
        "version": "0",
        "id": uuid::Uuid::new_v4().to_string(),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": clock.now().to_iso(),
        "region": REGION,
        "resources": [],
        "detail": {},
    })
}
