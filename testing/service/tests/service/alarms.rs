//! Tests that the template's alarms notify operators with a severity and a runbook, and cover each function, queue,
//! table and index.

use std::path::Path;

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

#[test]
fn each_alarm_notifies_the_topic_and_links_its_row_on_the_page_of_alarms() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(docs.join("operations/alarms.md")).unwrap();
    let mut rows: Vec<&str> =
        page.split("<a id=\"").skip(1).filter_map(|row| row.split('"').next()).collect();
    rows.sort_unstable();
    let expected: Value =
        serde_yaml_ng::from_str("!If [HasAlarmTopic, [!Ref AlarmTopicArn], !Ref AWS::NoValue]").unwrap();
    let mut names = Vec::new();
    for (id, alarm) in alarms() {
        let properties = &alarm["Properties"];
        for actions in ["AlarmActions", "OKActions"] {
            assert_eq!(properties[actions], expected, "{id}");
        }
        let Value::Tagged(name) = &properties["AlarmName"] else { panic!("{id} has no name of its own") };
        let name = name.value.as_str().unwrap().strip_prefix("${AWS::StackName}-").unwrap();
        assert!(["page-", "ticket-"].iter().any(|severity| name.starts_with(severity)), "{name}");
        let description = properties["AlarmDescription"].as_str().unwrap();
        let link = format!(". Runbook at docs/operations/alarms.md#{name}");
        assert!(description.ends_with(&link), "{name}: {description}");
        // CloudWatch refuses more.
        assert!(serde_yaml_ng::to_string(&alarm).unwrap().matches("MetricStat").count() <= 10, "{name}");
        assert!(page.contains(&format!("<a id=\"{name}\"></a>`{name}`")), "{name}");
        names.push(name.to_owned());
    }
    names.sort_unstable();
    assert_eq!(names, rows);
    let pages = std::fs::read_dir(docs.join("operations")).unwrap().map(|page| page.unwrap().path());
    for page in pages.chain(["pix.md", "cards.md", "crypto.md"].map(|name| docs.join(name))) {
        let text = std::fs::read_to_string(&page).unwrap();
        let spans = text.split('`').filter(|span| !span.contains(char::is_whitespace));
        for span in spans {
            let is_name = ["page-", "ticket-"].iter().any(|severity| span.starts_with(severity));
            assert!(!is_name || rows.contains(&span), "{}: there is no alarm {span}", page.display());
            assert!(!span.ends_with("Alarm"), "{}: the pager does not show {span}", page.display());
        }
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
