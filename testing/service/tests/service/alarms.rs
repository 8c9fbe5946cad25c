//! Tests that the template's alarms notify operators with a severity and a runbook, and cover each function, queue,
//! table and index.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_yaml_ng::Value;

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

/// Returns the texts of some alarms, with the tags of their intrinsic functions.
fn text_of(names: &[&str]) -> String {
    let found = alarms().into_iter().filter(|(name, _)| names.contains(&name.as_str()));
    let texts: Vec<String> = found.map(|(_, alarm)| serde_yaml_ng::to_string(&alarm).unwrap()).collect();
    assert_eq!(texts.len(), names.len(), "{names:?}");
    texts.concat()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the links to a page's headings: lower case, without punctuation, with hyphens for spaces.
fn headings(page: &str) -> BTreeSet<String> {
    let titles =
        page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let letter = |letter: char| match letter {
        ' ' => Some('-'),
        letter => (letter.is_alphanumeric() || letter == '-').then_some(letter),
    };
    titles.map(|title| title.to_lowercase().chars().filter_map(letter).collect()).collect()
}

/// Returns the pages for operators.
fn operations() -> String {
    let docs = root().join("docs");
    let pages = std::fs::read_dir(docs.join("operations")).into_iter().flatten();
    let pages = pages
        .map(|page| page.unwrap().path())
        .chain(["operations.md", "pix.md", "cards.md", "crypto.md"].map(|name| docs.join(name)));
    pages.map(|page| std::fs::read_to_string(page).unwrap()).collect()
}

#[test]
fn each_alarm_notifies_the_topic_with_a_severity_and_a_runbook_that_exists() {
    let (alarms, operations) = (alarms(), operations());
    let expected: Value =
        serde_yaml_ng::from_str("!If [HasAlarmTopic, [!Ref AlarmTopicArn], !Ref AWS::NoValue]").unwrap();
    for (name, alarm) in &alarms {
        let properties = &alarm["Properties"];
        for actions in ["AlarmActions", "OKActions"] {
            assert_eq!(properties[actions], expected, "{name}");
        }
        let Value::Tagged(shown) = &properties["AlarmName"] else { panic!("{name} has no name of its own") };
        let shown = shown.value.as_str().unwrap();
        let severities = ["${AWS::StackName}-page-", "${AWS::StackName}-ticket-"];
        assert!(severities.iter().any(|severity| shown.starts_with(severity)), "{name}: {shown}");
        let description = properties["AlarmDescription"].as_str().unwrap();
        let (_, runbook) = description.split_once(" Runbook at ").unwrap();
        let (page, heading) = runbook.split_once('#').unwrap();
        let page = std::fs::read_to_string(root().join(page)).unwrap();
        assert!(headings(&page).contains(heading), "{name}: there is no {runbook}");
        let row =
            operations.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{name}`")));
        assert!(row.is_some(), "the operators' pages do not explain {name}");
    }
    let known: BTreeSet<&str> = alarms.iter().map(|(name, _)| name.as_str()).collect();
    let named =
        operations.split('`').filter(|text| text.ends_with("Alarm") && !text.contains(char::is_whitespace));
    for name in named {
        assert!(known.contains(name), "the operators' pages name {name}, which the template does not have");
    }
}

#[test]
fn errors_throttles_and_ages_of_all_functions_queues_tables_and_indexes_raise_an_alarm() {
    let errors = text_of(&["HttpErrorsAlarm", "WorkErrorsAlarm"]);
    for (function, _) in resources_of("AWS::Serverless::Function") {
        assert!(errors.contains(&format!("!Ref {function}\n")), "{function}");
    }
    // The metric without a dimension counts all functions.
    assert!(!text_of(&["ThrottlesAlarm"]).contains("Dimensions"));
    let (dead_letters, ages) =
        (text_of(&["DeadLettersAlarm"]), text_of(&["QueueAgeAlarm", "OtherQueueAgeAlarm"]));
    // The queue of exhausted deliveries has no alarm: one merchant's dead endpoint fills it.
    let queues = resources_of("AWS::SQS::Queue").into_iter();
    for (queue, _) in queues.filter(|(queue, _)| queue != "ExhaustedDeliveriesQueue") {
        let watching = if queue.ends_with("DeadLetterQueue") { &dead_letters } else { &ages };
        assert!(watching.contains(&format!("{queue}.QueueName")), "{queue}");
    }
    for alarm in ["ReadThrottlesAlarm", "WriteThrottlesAlarm"] {
        let text = text_of(&[alarm]);
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
