//! Checks that someone receives the alarms, and that none is on.

use serde_json::Value;

use super::Checked;
use super::aws_cli::{list, text, time};
use super::deployed::{ALARM, Deployed};

pub(super) async fn check(deployed: &Deployed) -> Vec<Checked> {
    vec![check_topic(deployed).await, check_alarms(deployed).await]
}

async fn check_topic(deployed: &Deployed) -> Checked {
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
async fn check_alarms(deployed: &Deployed) -> Checked {
    let declared: Vec<(&str, &str)> = deployed.of_type(ALARM).collect();
    let names = declared.iter().map(|(_, name)| *name);
    let words = ["cloudwatch", "describe-alarms", "--alarm-names"].into_iter().chain(names);
    let read = deployed.cli.read_existing(&words.collect::<Vec<_>>()).await?;
    let alarms = list(&read, "/MetricAlarms");
    let findings = declared.into_iter().flat_map(|(logical_id, name)| {
        match alarms.iter().find(|alarm| text(alarm, "/AlarmName") == name) {
            None => vec![format!("{logical_id}: the alarm {name} does not exist")],
            Some(alarm) => findings(logical_id, alarm),
        }
    });
    Ok(findings.collect())
}

fn findings(logical_id: &str, alarm: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if alarm.get("ActionsEnabled") != Some(&Value::Bool(true)) {
        found.push(format!("{logical_id}: its actions were disabled by hand"));
    }
    if text(alarm, "/StateValue") == "ALARM" {
        let since = time(alarm, "/StateUpdatedTimestamp").map(|at| format!(" since {at}"));
        found.push(format!("{logical_id}: it is on{}", since.unwrap_or_default()));
    }
    found
}
