//! Checks that each alarm notifies a topic, and is quiet.

use std::collections::HashMap;

use domain::time::Timestamp;
use serde::Deserialize;

use super::Checked;
use super::aws_cli::{CliError, Time};
use super::deployed::{ALARM, Deployed};

/// The most alarms that one command names.
const ALARMS_PER_READ: usize = 50;

/// An alarm of this stack always has data, because missing data counts as good or as bad. A new alarm needs
/// some minutes.
const MAX_MS_WITHOUT_DATA: i64 = 60 * 60 * 1_000;

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
    #[serde(default, rename = "AlarmActions")]
    actions: Vec<String>,
    state_value: String,
    state_updated_timestamp: Time,
}

pub(super) async fn check(deployed: &Deployed, now: Timestamp) -> Vec<Checked> {
    let declared: Vec<(&str, &str)> = deployed.of_type(ALARM).collect();
    let mut checked = Vec::new();
    for chunk in declared.chunks(ALARMS_PER_READ) {
        let names = chunk.iter().map(|(_, name)| *name);
        let words = ["cloudwatch", "describe-alarms", "--alarm-names"].into_iter().chain(names);
        let words: Vec<&str> = words.collect();
        let read = deployed.cli.read_existing::<DescribeAlarms>(&words).await;
        checked.push(read.map(|found| findings(chunk, &found.metric_alarms, now)));
    }
    if declared.is_empty() {
        checked.push(Ok::<_, CliError>(vec!["the stack has no alarms".to_owned()]));
    }
    checked
}

fn findings(declared: &[(&str, &str)], found: &[Alarm], now: Timestamp) -> Vec<String> {
    let alarms: HashMap<&str, &Alarm> = found.iter().map(|alarm| (alarm.name.as_str(), alarm)).collect();
    let mut findings = Vec::new();
    let mut without_action = Vec::new();
    for (logical_id, name) in declared {
        let Some(alarm) = alarms.get(name) else {
            findings.push(format!("{logical_id}: the alarm {name} does not exist"));
            continue;
        };
        if !alarm.actions_enabled || alarm.actions.is_empty() {
            without_action.push(*logical_id);
        }
        let since = alarm.state_updated_timestamp.0;
        match alarm.state_value.as_str() {
            "OK" => {}
            "INSUFFICIENT_DATA" if now.millis_since(since) < MAX_MS_WITHOUT_DATA => {}
            state => findings.push(format!("{logical_id}: it is in the state {state} since {since}")),
        }
    }
    if !without_action.is_empty() {
        findings.push(format!(
            "no one is notified, because AlarmTopicArn is not set or actions are disabled: {}",
            without_action.join(", ")
        ));
    }
    findings
}
