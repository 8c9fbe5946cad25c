//! Checks that someone receives the alarms, and that none is on.

use std::collections::HashMap;

use serde::Deserialize;

use super::Checked;
use super::aws_cli::Time;
use super::deployed::{ALARM, Deployed};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribeAlarms {
    #[serde(default)]
    metric_alarms: Vec<Alarm>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Alarm {
    #[serde(rename = "AlarmName")]
    name: String,
    #[serde(default)]
    actions_enabled: bool,
    state_value: String,
    state_updated_timestamp: Time,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Topic {
    attributes: Subscriptions,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Subscriptions {
    subscriptions_confirmed: String,
    subscriptions_pending: String,
}

pub(super) async fn check(deployed: &Deployed) -> Vec<Checked> {
    vec![check_topic(deployed).await, check_alarms(deployed).await]
}

async fn check_topic(deployed: &Deployed) -> Checked {
    let Some(topic) = deployed.parameter("AlarmTopicArn") else {
        return Ok(vec!["no one is notified: the parameter AlarmTopicArn is not set".to_owned()]);
    };
    let read = deployed.cli.read::<Topic>(&["sns", "get-topic-attributes", "--topic-arn", topic]).await?;
    let Some(Topic { attributes }) = read else {
        return Ok(vec![format!("no one is notified: the topic {topic} does not exist")]);
    };
    let mut found = Vec::new();
    if attributes.subscriptions_confirmed == "0" {
        found.push(format!("no one is notified: the topic {topic} has no confirmed subscription"));
    }
    if attributes.subscriptions_pending != "0" {
        let pending = attributes.subscriptions_pending;
        found.push(format!("{pending} subscriptions of the topic {topic} are not confirmed"));
    }
    Ok(found)
}

/// One command names up to 100 alarms, which is more than the template has.
async fn check_alarms(deployed: &Deployed) -> Checked {
    let declared: Vec<(&str, &str)> = deployed.of_type(ALARM).collect();
    let names = declared.iter().map(|(_, name)| *name);
    let words = ["cloudwatch", "describe-alarms", "--alarm-names"].into_iter().chain(names);
    let read: DescribeAlarms = deployed.cli.read_existing(&words.collect::<Vec<_>>()).await?;
    let alarms: HashMap<&str, &Alarm> =
        read.metric_alarms.iter().map(|alarm| (alarm.name.as_str(), alarm)).collect();
    let findings = declared.into_iter().flat_map(|(logical_id, name)| match alarms.get(name) {
        None => vec![format!("{logical_id}: the alarm {name} does not exist")],
        Some(alarm) => findings(logical_id, alarm),
    });
    Ok(findings.collect())
}

fn findings(logical_id: &str, alarm: &Alarm) -> Vec<String> {
    let mut found = Vec::new();
    if !alarm.actions_enabled {
        found.push(format!("{logical_id}: its actions were disabled by hand"));
    }
    if alarm.state_value == "ALARM" {
        found.push(format!("{logical_id}: it is on since {}", alarm.state_updated_timestamp.0));
    }
    found
}
