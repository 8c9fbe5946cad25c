//! Invokes the scheduled functions, as EventBridge does. The scheduler is only invoked when it could find a due
//! row, because otherwise it would use most of the CPU time of an idle service.

use std::time::Duration;

use serde_json::{Value, json};
use shared::clock::Clock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::due_rows::DueRows;
use crate::embedded::{ACCOUNT, REGION};
use crate::lambda::Invoke;
use crate::template::{MINUTES_OF_A_DAY, Schedule};

/// The duration of a schedule's minute on this machine. It is short, so that due rows are processed within a
/// second.
const MINUTE: Duration = Duration::from_millis(500);

pub(super) struct ScheduledFunction {
    pub(super) schedule: Schedule,
    pub(super) invoke: Invoke,
    /// Set if the function processes due rows. It is then not invoked while no row is due.
    pub(super) due_rows: Option<DueRows>,
}

/// Invokes a function once per period, and at once when `run_now` changes, until shutdown is requested. A daily
/// schedule follows the service's clock instead, so that it does not run at each change.
pub(super) async fn run(
    function: ScheduledFunction,
    clock: Clock,
    mut run_now: watch::Receiver<()>,
    shutdown: CancellationToken,
) {
    let ScheduledFunction { schedule, invoke, mut due_rows } = function;
    let period = MINUTE.saturating_mul(schedule.minutes);
    let is_daily = schedule.minutes == MINUTES_OF_A_DAY;
    let mut ran_at = clock.now();
    loop {
        let is_notified = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            Ok(()) = run_now.changed() => true,
            () = tokio::time::sleep(period) => false,
        };
        if !is_notified && due_rows.as_ref().is_some_and(|due_rows| !due_rows.may_exist(clock.now())) {
            continue;
        }
        let now = clock.now();
        if is_daily && now < ran_at.saturating_plus_seconds(i64::from(schedule.minutes).saturating_mul(60)) {
            continue;
        }
        ran_at = now;
        let version = due_rows.as_ref().map(DueRows::version);
        let event = schedule.input.clone().unwrap_or_else(|| scheduled_event(&clock));
        if let Err(error) = invoke(event).await {
            tracing::error!(error, "a scheduled function failed");
        }
        if let (Some(due_rows), Some(version)) = (&mut due_rows, version) {
            due_rows.update(version).await;
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
