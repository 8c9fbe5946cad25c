//! The filter patterns of Lambda's event source mappings. They select the stream records that a function
//! receives.
//!
//! This module supports only the operators that the template uses: equality and `prefix`. Any other operator
//! is an error at start, because a misread filter would silently drop records.

use serde_json::Value;

use crate::error::{Error, Result};

#[derive(Debug, Clone)]
pub struct Pattern(Vec<(String, Rule)>);

#[derive(Debug, Clone)]
enum Rule {
    Nested(Pattern),
    AnyOf(Vec<Test>),
}

#[derive(Debug, Clone)]
enum Test {
    Equals(Value),
    HasPrefix(String),
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Self> {
        let value = serde_json::from_str(text).map_err(|e| Error::because("parsing a filter pattern", &e))?;
        Self::from_json(&value)
    }

    fn from_json(value: &Value) -> Result<Self> {
        let Some(fields) = value.as_object().filter(|fields| !fields.is_empty()) else {
            return Err(unsupported(value));
        };
        let rules = fields.iter().map(|(name, value)| Ok((name.clone(), Rule::from_json(value)?)));
        rules.collect::<Result<_>>().map(Self)
    }

    pub fn matches(&self, record: &Value) -> bool {
        self.0.iter().all(|(name, rule)| match (record.get(name), rule) {
            (Some(value), Rule::Nested(pattern)) => pattern.matches(value),
            (Some(value), Rule::AnyOf(tests)) => tests.iter().any(|test| test.matches(value)),
            (None, _) => false,
        })
    }
}

impl Rule {
    fn from_json(value: &Value) -> Result<Self> {
        match value {
            Value::Array(tests) if !tests.is_empty() => {
                tests.iter().map(Test::from_json).collect::<Result<_>>().map(Self::AnyOf)
            }
            Value::Object(_) => Pattern::from_json(value).map(Self::Nested),
            _ => Err(unsupported(value)),
        }
    }
}

impl Test {
    fn from_json(value: &Value) -> Result<Self> {
        match value {
            Value::Object(operator) if operator.len() == 1 => match operator.get("prefix") {
                Some(Value::String(prefix)) => Ok(Self::HasPrefix(prefix.clone())),
                _ => Err(unsupported(value)),
            },
            Value::Object(_) | Value::Array(_) => Err(unsupported(value)),
            Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {
                Ok(Self::Equals(value.clone()))
            }
        }
    }

    fn matches(&self, value: &Value) -> bool {
        match self {
            Self::Equals(expected) => expected == value,
            Self::HasPrefix(prefix) => value.as_str().is_some_and(|text| text.starts_with(prefix)),
        }
    }
}

fn unsupported(value: &Value) -> Error {
    Error::new(format!("{value} in a filter pattern is not supported on this machine"))
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
