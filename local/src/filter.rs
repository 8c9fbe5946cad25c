//! Filter patterns of event source mappings, as Lambda has them: which records of a stream a function is invoked for.
//!
//! Of the pattern language this understands what the template uses, equality and `prefix`; a pattern that has more is an
//! error at the start, for a filter that is taken for another would lose records unseen.

use serde_json::Value;

use crate::error::{Error, Result};

/// A pattern: fields by name, and at its leaves what a field may be.
#[derive(Debug, Clone)]
pub struct Pattern(Vec<(String, Rule)>);

#[derive(Debug, Clone)]
enum Rule {
    Within(Pattern),
    OneOf(Vec<Test>),
}

#[derive(Debug, Clone)]
enum Test {
    Is(Value),
    BeginsWith(String),
}

impl Pattern {
    /// Reads a pattern, which is JSON.
    ///
    /// # Errors
    ///
    /// When the text is not a JSON object, or uses an unsupported operator.
    pub fn parse(text: &str) -> Result<Self> {
        let value = serde_json::from_str(text).map_err(|e| Error::because("a filter pattern", &e))?;
        Self::of(&value)
    }

    fn of(value: &Value) -> Result<Self> {
        let Some(fields) = value.as_object().filter(|fields| !fields.is_empty()) else {
            return Err(unsupported(value));
        };
        let rules = fields.iter().map(|(name, value)| Ok((name.clone(), Rule::of(value)?)));
        rules.collect::<Result<_>>().map(Self)
    }

    /// Whether a record is one that it asks for: every field that it names is there, and as it must be.
    pub fn takes(&self, record: &Value) -> bool {
        self.0.iter().all(|(name, rule)| match (record.get(name), rule) {
            (Some(value), Rule::Within(pattern)) => pattern.takes(value),
            (Some(value), Rule::OneOf(tests)) => tests.iter().any(|test| test.takes(value)),
            (None, _) => false,
        })
    }
}

impl Rule {
    fn of(value: &Value) -> Result<Self> {
        match value {
            Value::Array(tests) if !tests.is_empty() => {
                tests.iter().map(Test::of).collect::<Result<_>>().map(Self::OneOf)
            }
            Value::Object(_) => Pattern::of(value).map(Self::Within),
            _ => Err(unsupported(value)),
        }
    }
}

impl Test {
    fn of(value: &Value) -> Result<Self> {
        match value {
            Value::Object(operator) if operator.len() == 1 => match operator.get("prefix") {
                Some(Value::String(prefix)) => Ok(Self::BeginsWith(prefix.clone())),
                _ => Err(unsupported(value)),
            },
            Value::Object(_) | Value::Array(_) => Err(unsupported(value)),
            Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => Ok(Self::Is(value.clone())),
        }
    }

    fn takes(&self, value: &Value) -> bool {
        match self {
            Self::Is(expected) => expected == value,
            Self::BeginsWith(prefix) => value.as_str().is_some_and(|text| text.starts_with(prefix)),
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
