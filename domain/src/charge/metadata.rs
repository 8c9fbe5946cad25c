//! The merchant's own map on a charge.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Keys that the service itself fills in; stripped on input.
const RESERVED: [&str; 2] = ["med", "failure"];

/// The most keys a map may have; stripped ones do not count.
pub const MAX_KEYS: usize = 50;

/// The most bytes a map may take as JSON; stripped keys do not count.
pub const MAX_BYTES: usize = 16 * 1024;

/// The map, kept as JSON text: values of any depth come back as they were sent, numbers as JSON's
/// usual 64-bit ones, whatever the database's own limits.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Metadata(String);

impl Default for Metadata {
    fn default() -> Self {
        Self("{}".to_owned())
    }
}

impl Metadata {
    /// Keeps what a client sent: reserved keys and those that start with `_` are stripped, and the charge's
    /// description is folded in as `description`.
    pub fn fold(sent: &Map<String, Value>, description: Option<&str>) -> Self {
        let kept = sent.iter().filter(|(key, _)| Self::keeps(key));
        let mut map: Map<String, Value> = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
        if let Some(description) = description {
            map.insert("description".to_owned(), Value::String(description.to_owned()));
        }
        Self(Value::Object(map).to_string())
    }

    /// Whether a client's key is kept.
    pub fn keeps(key: &str) -> bool {
        !key.starts_with('_') && !RESERVED.contains(&key)
    }

    /// The map with another text under a key.
    #[must_use]
    pub fn with_text(&self, key: &str, text: &str) -> Self {
        let mut map = self.to_map();
        map.insert(key.to_owned(), text.into());
        Self(Value::Object(map).to_string())
    }

    /// No keys at all.
    pub fn is_empty(&self) -> bool {
        self.0 == "{}"
    }

    /// A value that is a text.
    pub fn text(&self, key: &str) -> Option<String> {
        // Most maps have no such key, which their text tells faster than their values.
        if !self.0.contains(key) {
            return None;
        }
        self.to_map().get(key)?.as_str().map(str::to_owned)
    }

    /// The map.
    pub fn to_map(&self) -> Map<String, Value> {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fold(sent: &Value, description: Option<&str>) -> Value {
        Value::Object(Metadata::fold(sent.as_object().unwrap(), description).to_map())
    }

    #[test]
    fn strips_reserved_and_underscored_keys_and_keeps_the_rest_as_it_was() {
        let sent =
            json!({"order": 7, "med": {}, "failure": "x", "_internal": true, "deep": {"_kept": [1.5, null]}});
        assert_eq!(fold(&sent, None), json!({"order": 7, "deep": {"_kept": [1.5, null]}}));
    }

    #[test]
    fn folds_the_description_over_a_key_of_that_name() {
        assert_eq!(fold(&json!({"description": "old"}), Some("new")), json!({"description": "new"}));
        assert_eq!(fold(&json!({"description": "kept"}), None), json!({"description": "kept"}));
    }
}
