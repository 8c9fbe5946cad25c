//! Checks that no schedule was disabled by hand, and that no stream record waits for `events replay`.

use super::Checked;
use super::aws_cli::text;
use super::deployed::{Deployed, RULE};

const VERIFY_LEDGERS: &str = "LedgerVerifierFunctionDaily";

/// `SchedulerStoppedAlarm` begins only if several of them do not run.
pub(super) async fn check_schedules(deployed: &Deployed) -> Vec<Checked> {
    let is_off = deployed.parameter("LedgerVerification") == Some("off");
    let mut checked = Vec::new();
    for (logical_id, name) in deployed.of_type(RULE) {
        if is_off && logical_id == VERIFY_LEDGERS {
            continue;
        }
        let rule = deployed.cli.read(&["events", "describe-rule", "--name", name]).await;
        checked.push(rule.map(|rule| match rule {
            None => vec![format!("{logical_id}: the schedule {name} does not exist")],
            Some(rule) if text(&rule, "/State") == "DISABLED" => {
                vec![format!("{logical_id}: the schedule {name} is disabled")]
            }
            Some(_) => Vec::new(),
        }));
    }
    checked
}

/// `RecordsSetAsideAlarm` ends while they still wait.
pub(super) async fn check_failed_records(deployed: &Deployed) -> Checked {
    let Some(bucket) = deployed.output("FailedRecordsBucketName") else {
        return Ok(vec!["the stack has no output FailedRecordsBucketName".to_owned()]);
    };
    let words = ["s3api", "list-objects-v2", "--bucket", &bucket, "--max-keys", "1", "--no-paginate"];
    let objects = deployed.cli.read_existing(&words).await?;
    let waiting = objects.pointer("/Contents/0").map(|object| {
        let key = text(object, "/Key");
        format!("stream records were not processed, the first is {key}: run `events replay`")
    });
    Ok(waiting.into_iter().collect())
}
