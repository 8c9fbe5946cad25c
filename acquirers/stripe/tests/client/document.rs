//! The parts of Stripe's OpenAPI document that the tests use.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

use crate::server::Recorded;

#[derive(Deserialize)]
struct Parameter {
    r#type: String,
    max: Option<usize>,
    r#enum: Option<Vec<String>>,
}

type Operations = BTreeMap<String, BTreeMap<String, Parameter>>;

/// Returns a form of an object: `minimal`, `nulls` or `full`.
pub(crate) fn object(name: &str, form: &str) -> Value {
    static OBJECTS: OnceLock<Value> = OnceLock::new();
    let objects = OBJECTS.get_or_init(|| serde_json::from_str(include_str!("objects.json")).unwrap());
    let object = objects[name][form].clone();
    assert!(object.is_object(), "{name} {form}");
    object
}

/// Returns why the document does not allow a request.
pub(crate) fn problems(request: &Recorded) -> Vec<String> {
    static OPERATIONS: OnceLock<Operations> = OnceLock::new();
    let operations =
        OPERATIONS.get_or_init(|| serde_json::from_str(include_str!("parameters.json")).unwrap());
    let path = request.path.split('?').next().unwrap();
    let Some((_, parameters)) = operations.iter().find(|(operation, _)| {
        let (method, template) = operation.split_once(' ').unwrap();
        method == request.method && matches_path(template, path)
    }) else {
        return vec![format!("no operation {} {path}", request.method)];
    };
    let sent = request.parameters();
    let is_repeated = |name: &String| sent.iter().filter(|(other, _)| other == name).count() > 1;
    sent.iter()
        .filter_map(|(name, value)| {
            let rule = parameters.iter().find(|(pattern, _)| matches_name(pattern, name));
            let is_allowed = rule.is_some_and(|(_, rule)| {
                let has_type = match rule.r#type.as_str() {
                    "integer" => value.parse::<i64>().is_ok(),
                    "boolean" => value == "true" || value == "false",
                    _ => true,
                };
                has_type
                    && rule.max.is_none_or(|max| value.chars().count() <= max)
                    && rule.r#enum.as_ref().is_none_or(|values| values.contains(value))
            });
            (!is_allowed || is_repeated(name)).then(|| format!("{name}={value}"))
        })
        .collect()
}

fn matches_path(template: &str, path: &str) -> bool {
    let (template, path) = (template.split('/'), path.split('/'));
    template.clone().count() == path.clone().count()
        && template.zip(path).all(|(expected, part)| expected.starts_with('{') || expected == part)
}

/// `[#]` is the index in a list, `[*]` any key.
fn matches_name(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.split('['), name.split('['));
    pattern.clone().count() == name.clone().count()
        && pattern.zip(name).all(|(expected, part)| match expected {
            "#]" => part.trim_end_matches(']').parse::<usize>().is_ok(),
            "*]" => part.ends_with(']'),
            _ => expected == part,
        })
}
