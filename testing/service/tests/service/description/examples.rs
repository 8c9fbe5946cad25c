//! Checks the examples of the description.

use serde_json::Value;

use super::{check, strict};

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
