//! Checks what `template.yaml` can't state of a deployed stack: the receivers of its alarms, its emails and
//! certificates, its schedules, and the stream records that wait for `events replay`.

use domain::time::Timestamp;
use serde_json::Value;

use super::Checked;
use super::deployed::{ALARM, Deployed, RULE};
use crate::aws_cli::{AwsCli, CliError, list, text, time};

/// ACM renews its own certificates 60 days before they end, so a certificate with less left was not renewed.
const MIN_DAYS_LEFT: i64 = 30;
const MS_A_DAY: i64 = 24 * 60 * 60 * 1_000;
const VERIFY_LEDGERS: &str = "LedgerVerifierFunctionDaily";

/// Whether someone receives the alarms, and which are on.
pub(super) async fn alarms(deployed: &Deployed) -> Vec<Checked> {
    vec![topic(deployed).await, states_of_alarms(deployed).await]
}

async fn topic(deployed: &Deployed) -> Checked {
    let Some(topic) = deployed.parameter("AlarmTopicArn") else {
        return Ok(vec!["no one is notified: the parameter AlarmTopicArn is not set".to_owned()]);
    };
    let read = deployed.cli.read(&["sns", "get-topic-attributes", "--topic-arn", topic]).await?;
    let Some(read) = read else {
        return Ok(vec![format!("no one is notified: the topic {topic} does not exist")]);
    };
    let mut found = Vec::new();
    if text(&read, "/Attributes/SubscriptionsConfirmed") == "0" {
        found.push(format!("no one is notified: the topic {topic} has no confirmed subscription"));
    }
    let pending = text(&read, "/Attributes/SubscriptionsPending");
    if pending != "0" {
        found.push(format!("{pending} subscriptions of the topic {topic} are not confirmed"));
    }
    Ok(found)
}

/// One command names up to 100 alarms, which is more than the template has.
async fn states_of_alarms(deployed: &Deployed) -> Checked {
    let declared: Vec<&str> = deployed.of_type(ALARM).map(|(_, name)| name).collect();
    let words =
        ["cloudwatch", "describe-alarms", "--alarm-names"].into_iter().chain(declared.iter().copied());
    let read = deployed.cli.read_existing(&words.collect::<Vec<_>>()).await?;
    let alarms = list(&read, "/MetricAlarms");
    let findings = declared.into_iter().flat_map(|name| {
        match alarms.iter().find(|alarm| text(alarm, "/AlarmName") == name) {
            None => vec![format!("the alarm {name} does not exist")],
            Some(alarm) => about_alarm(name, alarm),
        }
    });
    Ok(findings.collect())
}

fn about_alarm(name: &str, alarm: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if alarm.get("ActionsEnabled") != Some(&Value::Bool(true)) {
        found.push(format!("{name}: its actions were disabled by hand"));
    }
    if text(alarm, "/StateValue") == "ALARM" {
        let since = time(alarm, "/StateUpdatedTimestamp").map(|at| format!(" since {at}"));
        found.push(format!("{name}: it is on{}", since.unwrap_or_default()));
    }
    found
}

pub(super) async fn email(cli: &AwsCli, sender: &str) -> Checked {
    let domain = sender.rsplit('@').next().unwrap_or(sender);
    let account_words = ["sesv2", "get-account"];
    let (account, by_address, by_domain) =
        tokio::join!(cli.read_existing(&account_words), identity(cli, sender), identity(cli, domain));
    Ok(about_email(sender, &account?, by_address?.or(by_domain?).as_ref()))
}

async fn identity(cli: &AwsCli, name: &str) -> Result<Option<Value>, CliError> {
    cli.read(&["sesv2", "get-email-identity", "--email-identity", name]).await
}

fn about_email(sender: &str, account: &Value, identity: Option<&Value>) -> Vec<String> {
    let mut found = Vec::new();
    let is_true = |answer: &Value, member: &str| answer.get(member) == Some(&Value::Bool(true));
    if !is_true(account, "ProductionAccessEnabled") {
        found.push("SES is in its sandbox: request production access".to_owned());
    }
    let health = Some(text(account, "/EnforcementStatus")).filter(|health| !health.is_empty());
    let health = health.unwrap_or("HEALTHY");
    if !is_true(account, "SendingEnabled") || health != "HEALTHY" {
        found.push(format!("SES has restricted this AWS account: its status is {health}"));
    }
    match identity {
        None => found.push(format!("SES knows neither {sender} nor its domain")),
        Some(identity) if !is_true(identity, "VerifiedForSendingStatus") => {
            found.push(format!("SES has not verified {sender} or its domain"));
        }
        Some(identity) => {
            let status = text(identity, "/DkimAttributes/Status");
            if !["", "SUCCESS"].contains(&status) {
                found.push(format!("emails of {sender} have no DKIM signature: its status is {status}"));
            }
        }
    }
    found
}

pub(super) async fn certificates(deployed: &Deployed, now: Timestamp) -> Vec<Checked> {
    let mut checked = Vec::new();
    for (parameter, arn) in deployed.parameters_ending("CertificateArn") {
        let words = ["acm", "describe-certificate", "--certificate-arn", arn];
        let read = deployed.cli.read(&words).await;
        checked.push(read.map(|described| {
            let finding = about_certificate(described.as_ref(), now);
            finding.map(|finding| format!("{parameter}: {finding}")).into_iter().collect()
        }));
    }
    checked
}

fn about_certificate(described: Option<&Value>, now: Timestamp) -> Option<String> {
    let Some(described) = described else { return Some("the certificate does not exist".to_owned()) };
    let status = text(described, "/Certificate/Status");
    if status != "ISSUED" {
        return Some(format!("the certificate is not usable: its status is {status}"));
    }
    let ends = time(described, "/Certificate/NotAfter")?;
    let days = ends.millis_since(now).div_euclid(MS_A_DAY);
    (days < MIN_DAYS_LEFT).then(|| format!("the certificate ends at {ends}, and was not renewed"))
}

/// `SchedulerStoppedAlarm` begins only if several of them do not run.
pub(super) async fn schedules(deployed: &Deployed) -> Vec<Checked> {
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
pub(super) async fn failed_records(deployed: &Deployed) -> Checked {
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
