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
    /// What is no JSON object, and what is not understood here.
    pub fn parse(text: &str) -> Result<Self> {
        let value = serde_json::from_str(text).map_err(|e| Error::because("a filter pattern", &e))?;
        Self::of(&value)
    }

    fn of(value: &Value) -> Result<Self> {
        let Some(fields) = value.as_object().filter(|fields| !fields.is_empty()) else {
            return Err(not_understood(value));
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
            _ => Err(not_understood(value)),
        }
    }
}

impl Test {
    fn of(value: &Value) -> Result<Self> {
        match value {
            Value::Object(operator) if operator.len() == 1 => match operator.get("prefix") {
                Some(Value::String(prefix)) => Ok(Self::BeginsWith(prefix.clone())),
                _ => Err(not_understood(value)),
            },
            Value::Object(_) | Value::Array(_) => Err(not_understood(value)),
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

fn not_understood(value: &Value) -> Error {
    Error::new(format!("{value} in a filter pattern is not understood on this machine"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::template::Template;

    fn record(event: &str, pk: &str, sk: &str) -> Value {
        json!({"eventName": event, "dynamodb": {"Keys": {"pk": {"S": pk}, "sk": {"S": sk}}}})
    }

    #[test]
    fn the_dispatcher_is_invoked_for_what_it_reads_and_nothing_else() {
        let template = Template::deployed().unwrap();
        let dispatcher = template.functions.iter().find(|one| one.logical_id == "EventDispatcherFunction");
        let stream = &dispatcher.unwrap().streams[0];
        let is_taken =
            |event, pk, sk| stream.filters.iter().any(|filter| filter.takes(&record(event, pk, sk)));
        for (pk, sk) in
            [("charge#1", "charge"), ("charge#1", "refund#1"), ("charge#1", "case#1"), ("payout#1", "payout")]
        {
            assert!(is_taken("INSERT", pk, sk) && is_taken("MODIFY", pk, sk), "{pk} {sk}");
            assert!(!is_taken("REMOVE", pk, sk), "{pk} {sk}: removed by TTL");
        }
        for (event, pk, sk) in [
            ("INSERT", "resends#acc_1:test", "rs_1"),
            ("INSERT", "deliveries#acc_1:test", "wd_1"),
            ("MODIFY", "endpoints#acc_1:test", "wh_1"),
        ] {
            assert!(is_taken(event, pk, sk), "{event} {pk} {sk}");
        }
        for (pk, sk) in [
            ("counted#1", "1"),
            ("rollup#acc_1:test", "total"),
            ("ledger#acc_1:test", "wallet#BRL#mv_1"),
            ("wallet#acc_1:test", "BRL#shard#0"),
            ("receipts#acc_1:test", "E1"),
            ("events#acc_1:test", "evt_1"),
            ("charge#1", "evidence#1#mev_1"),
            ("charge#1", "upload#1#mev_1"),
            ("audit#acc_1", "aud_1"),
        ] {
            assert!(!is_taken("INSERT", pk, sk) && !is_taken("MODIFY", pk, sk), "{pk} {sk}");
        }
        assert!(!is_taken("MODIFY", "deliveries#acc_1:test", "wd_1"), "an attempt of a delivery");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
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
