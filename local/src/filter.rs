//! The filter patterns of Lambda's event source mappings. They select the stream records that a function
//! receives.
//!
//! This module supports only the operators that the template uses: equality and `prefix`. Any other operator
//! is an error at start, because a misread filter would silently drop records.

use serde_json::Value;

use crate::error::{Context, Error, Result};

/// A pattern whose operators are supported.
#[derive(Debug, Clone)]
pub struct Pattern(Value);

impl Pattern {
    pub fn parse(text: &str) -> Result<Self> {
        let value = serde_json::from_str(text).context("parsing a filter pattern")?;
        check(&value)?;
        Ok(Self(value))
    }

    pub fn matches(&self, record: &Value) -> bool {
        is_match(&self.0, Some(record))
    }
}

fn check(pattern: &Value) -> Result<()> {
    match pattern {
        Value::Object(fields) if !fields.is_empty() => fields.values().try_for_each(|rule| match rule {
            Value::Array(tests) if !tests.is_empty() && tests.iter().all(is_supported) => Ok(()),
            nested => check(nested),
        }),
        _ => Err(Error::new(format!("{pattern} in a filter pattern is not supported on this machine"))),
    }
}

fn is_supported(test: &Value) -> bool {
    match test {
        Value::Object(operator) => {
            operator.len() == 1 && operator.get("prefix").is_some_and(Value::is_string)
        }
        Value::Array(_) => false,
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => true,
    }
}

/// Whether a value has all fields of a pattern, or passes one of the tests in a list.
fn is_match(rule: &Value, value: Option<&Value>) -> bool {
    let Some(value) = value else { return false };
    match rule {
        Value::Object(fields) => fields.iter().all(|(name, rule)| is_match(rule, value.get(name))),
        Value::Array(tests) => tests.iter().any(|test| match test.get("prefix").and_then(Value::as_str) {
            Some(prefix) => value.as_str().is_some_and(|text| text.starts_with(prefix)),
            None => test == value,
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_patterns_are_rejected() {
        for pattern in [
            "",
            "[]",
            "{}",
            r#"{"a": "b"}"#,
            r#"{"a": []}"#,
            r#"{"a": [["b"]]}"#,
            r#"{"a": [{"prefix": 1}]}"#,
            r#"{"a": [{"suffix": "b"}]}"#,
            r#"{"a": [{"prefix": "b", "suffix": "c"}]}"#,
            r#"{"a": {"b": [{"exists": true}]}}"#,
        ] {
            assert!(Pattern::parse(pattern).is_err(), "{pattern}");
        }
    }
}
