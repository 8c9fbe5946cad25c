//! Checks the examples of the description.

use std::sync::Mutex;

use serde_json::{Map, Value, json};

use super::{check, strict};

/// The file with the examples.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../openapi/src/examples.json");

/// The variable that makes the portable tests write the examples of operations into [`FILE`].
const UPDATE: &str = "UPDATE_EXAMPLES";

/// A longer text of a recorded answer is cut, such as that of an image.
const MAX_TEXT: usize = 400;

/// Returns the response of an operation with a schema, and its JSON pointer. `None`: it has none, or it is an
/// alias, whose response is that of another operation.
fn json_response(route: &str) -> Option<(&'static Value, String)> {
    let (method, path) = route.split_once(' ')?;
    let method = method.to_ascii_lowercase();
    let operation = &strict()["paths"][path][&method];
    if operation["operationId"].as_str()?.ends_with("ByAlias") {
        return None;
    }
    let (status, response) =
        operation["responses"].as_object()?.iter().find(|(status, _)| status.starts_with('2'))?;
    let media = response.pointer("/content/application~1json")?;
    let path = super::escaped(path);
    Some((media, format!("/paths/{path}/{method}/responses/{status}/content/application~1json/schema")))
}

/// Whether operations other than this one answer with the same schema. It then has an example of its own.
fn shares_schema(route: &str) -> bool {
    let schema = |route: &str| Some(json_response(route)?.0["schema"]["$ref"].clone());
    let Some(own) = schema(route) else { return false };
    openapi::routes().iter().filter(|other| schema(other).as_ref() == Some(&own)).count() > 1
}

/// Returns the form of a value: the names and types of its fields, and the texts of its statuses.
fn form_of(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let form = |(name, value): (&String, &Value)| {
                let is_status = name == "status" || name == "money_outcome";
                (name.clone(), if is_status { value.clone() } else { form_of(value) })
            };
            // Metadata is the merchant's.
            fields.iter().filter(|(name, _)| *name != "metadata").map(form).collect()
        }
        Value::Array(values) => values.first().map_or(json!([]), |first| json!([form_of(first)])),
        Value::Null => json!("null"),
        Value::Bool(_) => json!("boolean"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("text"),
    }
}

/// Checks that an operation's example has the form of one of the answers that a test received. If [`UPDATE`] is
/// set, the first of the answers becomes the example.
pub(crate) fn check_example(route: &str, answers: &[Value], base_url: &str) {
    if !shares_schema(route) || answers.is_empty() {
        return;
    }
    if std::env::var_os(UPDATE).is_some() {
        return record(route, &answers[0], base_url);
    }
    let example = &json_response(route).unwrap().0["examples"]["default"]["value"];
    let is_true = answers.iter().any(|answer| form_of(answer) == form_of(example));
    assert!(is_true, "{route}: set {UPDATE} to record its example again: {example:#}\n{answers:#?}");
}

fn record(route: &str, answer: &Value, base_url: &str) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap();
    let mut examples: Map<String, Value> = serde_json::from_slice(&std::fs::read(FILE).unwrap()).unwrap();
    examples.insert(route.to_owned(), published(answer, base_url));
    examples.sort_keys();
    let text = format!("{:#}\n", Value::Object(examples));
    std::fs::write(FILE, text).unwrap();
}

/// Returns an answer without the address of the test's service, and without long texts.
fn published(value: &Value, base_url: &str) -> Value {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), published(value, base_url))).collect()
        }
        Value::Array(values) => values.iter().map(|value| published(value, base_url)).collect(),
        Value::String(text) if text.len() > MAX_TEXT => {
            json!(text.chars().take(60).chain("…".chars()).collect::<String>())
        }
        // A receiver of the test.
        Value::String(text) if text.starts_with("http://127.0.0.1:") && !text.starts_with(base_url) => {
            json!("https://shop.example.com/hook")
        }
        Value::String(text) => {
            let host = base_url.trim_start_matches("http://");
            json!(text.replace(base_url, "https://api.example.com").replace(host, "api.example.com"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Collects the JSON pointers of all schemas that have examples, below a value.
fn with_examples(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if fields.get("examples").is_some_and(Value::is_array) {
                found.push(pointer.to_owned());
            }
            for (name, value) in fields {
                with_examples(value, &format!("{pointer}/{}", super::escaped(name)), found);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                with_examples(value, &format!("{pointer}/{index}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_example_of_a_schema_is_valid() {
    let mut pointers = Vec::new();
    with_examples(strict(), "", &mut pointers);
    assert!(pointers.len() > 50, "{pointers:?}");
    for pointer in pointers {
        for example in strict().pointer(&pointer).unwrap()["examples"].as_array().unwrap() {
            check(&pointer, example).unwrap_or_else(|error| panic!("{pointer}: {error}"));
        }
    }
}

#[test]
fn every_example_of_a_request_is_valid_and_every_body_has_one() {
    for (path, operations) in strict()["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let Some(content) = operation.pointer("/requestBody/content/application~1json") else { continue };
            if content["schema"].get("properties").is_none() {
                continue;
            }
            let example = &content["examples"]["default"]["value"];
            let pointer = format!(
                "/paths/{}/{method}/requestBody/content/application~1json/schema",
                super::escaped(path)
            );
            check(&pointer, example).unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        }
    }
}

#[test]
fn every_operation_that_answers_as_others_do_has_a_valid_example_of_its_own() {
    for route in openapi::routes().iter().filter(|route| shares_schema(route)) {
        let (media, schema) = json_response(route).unwrap();
        let example = &media["examples"]["default"]["value"];
        check(&schema, example).unwrap_or_else(|error| panic!("{route}: {error}"));
    }
}

#[test]
fn every_object_in_a_response_has_an_example() {
    for (path, operations) in strict()["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let Some(schema) = response.pointer("/content/application~1json/schema/$ref") else {
                    continue;
                };
                let schema = super::resolve(schema.as_str().unwrap());
                assert!(schema.get("examples").is_some(), "{method} {path}: {status}");
            }
        }
    }
}
