//! The metadata map that a merchant attaches to a charge.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// They are removed from the input.
const RESERVED: [&str; 2] = ["med", "failure"];

/// The keys under which merchants send their order number, the first that has one counts.
const ORDER_KEYS: [&str; 4] = ["order_id", "orderId", "order", "pedido"];

/// Maximum number of keys in a request, without those that [`Metadata::keeps`] rejects.
pub const MAX_KEYS: usize = 50;

/// Maximum size of a request's metadata as JSON, in bytes, without keys that [`Metadata::keeps`] rejects.
pub const MAX_BYTES: usize = 16 * 1024;

/// Stored as JSON text: values are returned as they were sent, at any depth, which DynamoDB limits for its own
/// maps.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Metadata(String);

impl Default for Metadata {
    fn default() -> Self {
        Self("{}".to_owned())
    }
}

impl Metadata {
    /// Removes reserved keys and keys that start with `_`. Stores the charge's description under `description`.
    pub fn from_request(sent: &Map<String, Value>, description: Option<&str>) -> Self {
        let stored = sent.iter().filter(|(key, _)| Self::keeps(key));
        let mut map: Map<String, Value> = stored.map(|(key, value)| (key.clone(), value.clone())).collect();
        if let Some(description) = description {
            map.insert("description".to_owned(), Value::String(description.to_owned()));
        }
        Self(Value::Object(map).to_string())
    }

    /// Checks whether a key of a request is stored: it is not reserved and does not start with `_`.
    pub fn keeps(key: &str) -> bool {
        !key.starts_with('_') && !RESERVED.contains(&key)
    }

    /// Returns the metadata with a text stored under a key.
    #[must_use]
    pub fn with_text(&self, key: &str, text: &str) -> Self {
        let mut map = self.to_map();
        map.insert(key.to_owned(), text.into());
        Self(Value::Object(map).to_string())
    }

    pub fn is_empty(&self) -> bool {
        self.0 == "{}"
    }

    /// Returns the value of a key if it is a string.
    pub fn text(&self, key: &str) -> Option<String> {
        // Most charges lack the key. A search in the JSON text detects that without parsing.
        if !self.0.contains(key) {
            return None;
        }
        self.to_map().get(key)?.as_str().map(str::to_owned)
    }

    /// Returns the merchant's order number, a string or a number under one of the known keys.
    pub fn order_number(&self) -> Option<String> {
        if !ORDER_KEYS.iter().any(|key| self.0.contains(key)) {
            return None;
        }
        let map = self.to_map();
        ORDER_KEYS.iter().find_map(|key| match map.get(*key)? {
            Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        })
    }

    pub fn to_map(&self) -> Map<String, Value> {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fold(sent: &Value, description: Option<&str>) -> Value {
        Value::Object(Metadata::from_request(sent.as_object().unwrap(), description).to_map())
    }

    #[test]
    fn only_reserved_and_underscored_keys_are_removed_and_the_charges_description_replaces_the_key() {
        let sent = json!({"med": {}, "failure": "x", "_internal": true, "deep": {"_kept": [1.5, null]}});
        assert_eq!(fold(&sent, None), json!({"deep": {"_kept": [1.5, null]}}));
        assert_eq!(fold(&json!({"description": "old"}), Some("new")), json!({"description": "new"}));
        assert_eq!(fold(&json!({"description": "kept"}), None), json!({"description": "kept"}));
    }

    #[test]
    fn a_text_is_read_by_its_key() {
        let metadata = Metadata::default().with_text("order", "7 of description");
        assert_eq!(metadata.text("order").as_deref(), Some("7 of description"));
        assert_eq!((metadata.text("description"), metadata.text("customer")), (None, None));
    }
}
