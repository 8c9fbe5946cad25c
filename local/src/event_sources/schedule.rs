//! Invokes the scheduled functions, as EventBridge does.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use shared::clock::Clock;
use tokio::sync::Notify;

use crate::embedded::{ACCOUNT, REGION};
use crate::lambda::Invoke;
use crate::shutdown::Shutdown;

/// The period of every schedule on this machine. It is shorter than in the template, so that due rows are
/// processed within a second.
const PERIOD: Duration = Duration::from_millis(500);

/// Invokes the functions once per period, and at once when `run_now` is notified, until shutdown is
/// requested.
pub(super) async fn run(functions: Vec<Invoke>, clock: Clock, run_now: Arc<Notify>, mut shutdown: Shutdown) {
    while !shutdown.is_requested() {
        for invoke in &functions {
            if let Err(error) = invoke(scheduled_event(&clock)).await {
                tracing::error!(error, "a scheduled function failed");
            }
        }
        tokio::select! {
            () = run_now.notified() => {}
            () = tokio::time::sleep(PERIOD) => {}
            () = shutdown.requested() => {}
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
