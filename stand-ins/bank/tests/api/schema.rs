//! Validates answers and callbacks against the Central Bank's document, after `corrections.yaml`.

use std::sync::OnceLock;

use boon::{Compiler, Draft, Schemas};
use serde_json::Value;

const DOCUMENT: &str = include_str!("../api-pix-2.9.0.yaml");
const CORRECTIONS: &str = include_str!("../corrections.yaml");
const ADDRESS: &str = "https://bank.example/api-pix.json";
const CALLBACK: &str = "/components/requestBodies/WebhookPixBody/content/application~1json/schema";

/// Returns the corrected document.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT_ONCE: OnceLock<Value> = OnceLock::new();
    DOCUMENT_ONCE.get_or_init(|| {
        let mut document: Value = serde_yaml_ng::from_str(DOCUMENT).unwrap();
        let corrections: Vec<Value> = serde_yaml_ng::from_str(CORRECTIONS).unwrap();
        for correction in corrections {
            assert!(!correction["reason"].as_str().unwrap().is_empty());
            let before = document.clone();
            apply(&mut document, &correction);
            assert_ne!(document, before, "this correction changes nothing: {correction}");
        }
        document
    })
}

fn apply(document: &mut Value, correction: &Value) {
    if let Some(pattern) = correction["pattern"].as_str() {
        replace_pattern(document, pattern, correction["becomes"].as_str().unwrap());
        return;
    }
    let (parent, field) = correction["at"].as_str().unwrap().rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap_or_else(|| panic!("no such place: {correction}"));
    if correction["remove"] == true {
        parent.as_object_mut().unwrap().remove(field);
    } else {
        parent[field] = correction["set"].clone();
    }
}

fn replace_pattern(value: &mut Value, pattern: &str, becomes: &str) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "pattern" && *value == pattern {
                    *value = becomes.into();
                } else {
                    replace_pattern(value, pattern, becomes);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_pattern(item, pattern, becomes)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Checks a value against the schema at a JSON pointer of the document.
pub(crate) fn check(pointer: &str, value: &Value) -> Result<(), String> {
    let mut compiler = Compiler::new();
    // A schema of OpenAPI 3.0 is based on a draft between 4 and 5.
    compiler.set_default_draft(Draft::V4);
    compiler.enable_format_assertions();
    compiler.add_resource(ADDRESS, document().clone()).unwrap();
    let mut schemas = Schemas::new();
    let index = compiler.compile(&format!("{ADDRESS}#{pointer}"), &mut schemas).unwrap();
    schemas.validate(value, index).map_err(|error| format!("{error:#}"))
}

/// Asserts that the body of a callback is valid.
pub(crate) fn assert_callback(body: &Value) {
    check(CALLBACK, body).unwrap_or_else(|error| panic!("{error}\n{body:#}"));
}

/// Asserts that an answer is valid for its route and status. The route is a path of the document. A status
/// that the document does not list must be an error with a `Problema`.
pub(crate) fn assert_answer(method: &str, route: &str, status: u16, content_type: &str, body: &Value) {
    let operation = &document()["paths"][route][method.to_lowercase()];
    let mut answer = &operation["responses"][status.to_string()];
    if let Some(reference) = answer["$ref"].as_str() {
        answer = document().pointer(reference.trim_start_matches('#')).unwrap();
    }
    let pointer = if answer.is_null() {
        assert!(status >= 400, "{method} {route}: the document has no answer {status}: {body:#}");
        assert_eq!(content_type, "application/problem+json", "{method} {route}");
        "/components/schemas/Problema"
    } else if answer["content"].is_null() {
        assert_eq!((content_type, body), ("", &Value::Null), "{method} {route}: {status} has no body");
        return;
    } else {
        let schema = &answer["content"][content_type]["schema"]["$ref"];
        let reference =
            schema.as_str().unwrap_or_else(|| panic!("{method} {route}: {status}, {content_type}"));
        reference.trim_start_matches('#')
    };
    check(pointer, body).unwrap_or_else(|error| panic!("{method} {route}: {status}: {error}\n{body:#}"));
    if status >= 400 {
        assert_eq!(body["status"], status);
    }
}

#[test]
fn the_validator_finds_what_the_document_forbids() {
    let good = serde_json::json!({
        "endToEndId": "E9999900420231114221300000000042",
        "valor": "1.00",
        "horario": "2026-11-22T12:00:00Z",
    });
    let check = |value: &Value| check("/components/schemas/Pix", value);
    assert_eq!(check(&good), Ok(()));
    for (field, value) in [
        ("endToEndId", Value::from("E99999004202311142213000000000421")),
        ("valor", "1.000".into()),
        ("valor", 1.into()),
        ("horario", "yesterday".into()),
        ("txid", "a-b".into()),
        ("devolucoes", serde_json::json!([{}])),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        assert!(check(&bad).is_err(), "{bad}");
    }
    assert!(self::check(CALLBACK, &serde_json::json!({})).is_err());
}
