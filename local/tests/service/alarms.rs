//! Tests that the template's alarms notify operators, cover each function, queue, table and index, and are
//! explained in the runbook.

use std::collections::BTreeSet;

use serde_yaml_ng::Value;

const RUNBOOK: &str = include_str!("../../../docs/operations/alarms.md");

fn resources_of(kind: &str) -> Vec<(String, Value)> {
    let template: Value = serde_yaml_ng::from_str(local::template::TEMPLATE).unwrap();
    let resources = template["Resources"].as_mapping().unwrap();
    resources
        .iter()
        .filter(|(_, resource)| resource["Type"] == kind)
        .map(|(name, resource)| (name.as_str().unwrap().to_owned(), resource.clone()))
        .collect()
}

fn alarms() -> Vec<(String, Value)> {
    resources_of("AWS::CloudWatch::Alarm")
}

/// Returns the text of an alarm, with the tags of its intrinsic functions.
fn text_of(alarm: &str) -> String {
    let (_, found) = alarms().into_iter().find(|(name, _)| name == alarm).unwrap();
    serde_yaml_ng::to_string(&found).unwrap()
}

#[test]
fn each_alarm_notifies_the_topic_and_is_explained_in_the_runbook() {
    let alarms = alarms();
    assert!(alarms.len() > 20);
    let expected: Value =
        serde_yaml_ng::from_str("!If [HasAlarmTopic, [!Ref AlarmTopicArn], !Ref AWS::NoValue]").unwrap();
    for (name, alarm) in &alarms {
        for actions in ["AlarmActions", "OKActions"] {
            assert_eq!(alarm["Properties"][actions], expected, "{name}");
        }
        let row = RUNBOOK.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{name}`")));
        assert!(row.is_some(), "the runbook does not explain {name}");
    }
    let known: BTreeSet<&str> = alarms.iter().map(|(name, _)| name.as_str()).collect();
    let named =
        RUNBOOK.split('`').filter(|text| text.ends_with("Alarm") && !text.contains(char::is_whitespace));
    for name in named {
        assert!(known.contains(name), "the runbook explains {name}, which the template does not have");
    }
}

#[test]
fn throttles_and_ages_of_all_functions_queues_tables_and_indexes_raise_an_alarm() {
    let throttles = ["HttpThrottlesAlarm", "WorkThrottlesAlarm", "BankNotificationThrottlesAlarm"];
    let throttles = throttles.map(text_of).concat();
    for (function, _) in resources_of("AWS::Serverless::Function") {
        assert!(throttles.contains(&format!("!Ref {function}\n")), "{function}");
    }
    // The queue of exhausted deliveries has no alarm: one merchant's dead endpoint fills it.
    let queues = resources_of("AWS::SQS::Queue").into_iter();
    for (queue, _) in queues.filter(|(queue, _)| queue != "ExhaustedDeliveriesQueue") {
        let is_dead = queue.ends_with("DeadLetterQueue");
        let alarm = if is_dead { "LettersAlarm" } else { "QueueAgeAlarm" };
        let watched = alarms().into_iter().any(|(name, alarm_of)| {
            let text = serde_yaml_ng::to_string(&alarm_of).unwrap();
            name.ends_with(alarm) && text.contains(&format!("{queue}.QueueName"))
        });
        assert!(watched, "{queue}");
    }
    for alarm in ["ReadThrottlesAlarm", "WriteThrottlesAlarm"] {
        let text = text_of(alarm);
        for (table, resource) in resources_of("AWS::DynamoDB::Table") {
            assert!(text.contains(&format!("!Ref {table}\n")), "{alarm} {table}");
            let indexes = resource["Properties"]["GlobalSecondaryIndexes"].as_sequence().cloned();
            for index in indexes.unwrap_or_default() {
                let name = index["IndexName"].as_str().unwrap();
                assert!(text.contains(&format!("Value: {name}\n")), "{alarm} {table} {name}");
            }
        }
    }
}
