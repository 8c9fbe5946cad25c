//! Checks that the schedules run, and that no work was given up: messages in dead-letter queues, and stream
//! records that were not processed.

use serde::Deserialize;

use super::Checked;
use super::aws_cli::AwsCli;

/// The end of the logical id of each dead-letter queue.
const DEAD_LETTERS: &str = "DeadLetterQueue";

/// The bucket of stream records that were not processed.
const FAILED_RECORDS: &str = "FailedRecordsBucket";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Rule {
    state: String,
}

/// Checks that a schedule is enabled. `SchedulerStoppedAlarm` reports that it does not run.
pub(super) async fn check_rule(cli: AwsCli, logical_id: String, name: String) -> Checked {
    let rule = cli.read::<Rule>(&["events", "describe-rule", "--name", &name]).await?;
    Ok(match rule {
        None => vec![format!("{logical_id}: the schedule {name} does not exist")],
        Some(rule) if rule.state == "DISABLED" => {
            vec![format!("{logical_id}: the schedule {name} is disabled")]
        }
        Some(_) => Vec::new(),
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QueueAttributes {
    attributes: Messages,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Messages {
    approximate_number_of_messages: String,
}

pub(super) async fn check_dead_letters(cli: AwsCli, logical_id: String, url: String) -> Checked {
    if !logical_id.ends_with(DEAD_LETTERS) {
        return Ok(Vec::new());
    }
    let words = ["sqs", "get-queue-attributes", "--queue-url", &url];
    let words = [&words[..], &["--attribute-names", "ApproximateNumberOfMessages"]].concat();
    let Some(queue) = cli.read::<QueueAttributes>(&words).await? else {
        return Ok(vec![format!("{logical_id}: the queue does not exist")]);
    };
    let count = queue.attributes.approximate_number_of_messages;
    Ok(dead_letters(&logical_id, &count).into_iter().collect())
}

/// Returns the finding about a dead-letter queue with this number of messages.
pub(super) fn dead_letters(queue: &str, count: &str) -> Option<String> {
    (count != "0").then(|| format!("{queue}: {count} messages were given up"))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Objects {
    #[serde(default)]
    contents: Vec<Object>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Object {
    key: String,
}

pub(super) async fn check_failed_records(cli: AwsCli, logical_id: String, bucket: String) -> Checked {
    if logical_id != FAILED_RECORDS {
        return Ok(Vec::new());
    }
    let words = ["s3api", "list-objects-v2", "--bucket", &bucket, "--max-keys", "1", "--no-paginate"];
    let Some(objects) = cli.read::<Objects>(&words).await? else {
        return Ok(vec![format!("{logical_id}: the bucket {bucket} does not exist")]);
    };
    let first = objects.contents.first();
    let finding = first.map(|object| {
        format!(
            "{logical_id}: stream records were not processed, the first is {}: run `events replay`",
            object.key
        )
    });
    Ok(finding.into_iter().collect())
}
