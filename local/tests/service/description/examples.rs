//! Checks the examples of the description.

use serde_json::Value;

use super::{check, strict};

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
