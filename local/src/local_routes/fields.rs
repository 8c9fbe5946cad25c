//! Reads the fields of a request's body. All failing fields are reported together.

use axum::http::StatusCode;
use serde_json::{Map, Value};

use super::Refusal;

/// The fields of a body that were not read yet, and the rules that fields failed.
pub(super) struct Fields {
    unread: Map<String, Value>,
    failures: Vec<String>,
}

impl Fields {
    /// Parses a body, which must be a JSON object.
    pub(super) fn parse(body: &str) -> Result<Self, Refusal> {
        let unread = serde_json::from_str(body).map_err(|_| bad_request("the body must be a JSON object"))?;
        Ok(Self { unread, failures: Vec::new() })
    }

    /// `rule` completes the sentence "`name` must be …" of the failure.
    pub(super) fn optional<T>(
        &mut self,
        name: &str,
        rule: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.unread.remove(name)?;
        let content = read(&value);
        if content.is_none() {
            self.fail(format!("{name} must be {rule}"));
        }
        content
    }

    /// Reads a field that must be present.
    pub(super) fn required<T>(
        &mut self,
        name: &str,
        rule: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        if !self.unread.contains_key(name) {
            self.fail(format!("{name} is required and must be {rule}"));
        }
        self.optional(name, rule, read)
    }

    pub(super) fn fail(&mut self, failure: String) {
        self.failures.push(failure);
    }

    /// Refuses the body if a field failed or is unknown. Otherwise returns the required field `content`.
    pub(super) fn end<T>(mut self, content: Option<T>) -> Result<T, Refusal> {
        let unknown = self.unread.keys().map(|name| format!("{name} is not a field of this request"));
        self.failures.extend(unknown);
        match content {
            Some(content) if self.failures.is_empty() => Ok(content),
            Some(_) | None => Err(bad_request(&self.failures.join("; "))),
        }
    }
}

/// Reads a text whose number of characters is in the range.
pub(super) fn text(value: &Value, lengths: std::ops::RangeInclusive<usize>) -> Option<String> {
    let text = value.as_str().filter(|text| lengths.contains(&text.chars().count()))?;
    Some(text.to_owned())
}

fn bad_request(error: &str) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, error.to_owned())
}
