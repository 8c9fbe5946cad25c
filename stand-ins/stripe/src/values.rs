//! Reads and changes fields of JSON objects.

use std::sync::LazyLock;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns an integer field. 0 if it is missing or null.
pub(crate) fn int(object: &Value, name: &str) -> i64 {
    object.get(name).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns what is at a JSON pointer, or null.
pub(crate) fn at(value: &Value, pointer: &str) -> Value {
    value.pointer(pointer).cloned().unwrap_or_default()
}

/// Replaces the fields of an object that the changes name.
pub(crate) fn merge(object: &mut Value, changes: Value) {
    if let (Value::Object(fields), Value::Object(changes)) = (object, changes) {
        fields.extend(changes);
    }
}

/// `objects.json`: the fields that are equal in all new objects of a kind, and lists of currencies.
pub(crate) static CONSTANTS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("objects.json")).unwrap_or_default());

/// Returns a new object: the fields of `objects.json`, and these.
pub(crate) fn object(name: &str, fields: Value) -> Value {
    let mut object = at(&CONSTANTS, &format!("/{name}"));
    merge(&mut object, fields);
    object
}

/// Changes metadata as a request asks: an empty text removes the key.
pub(crate) fn merge_metadata(metadata: &Value, changes: Value) -> Value {
    let mut merged = if metadata.is_null() { json!({}) } else { metadata.clone() };
    merge(&mut merged, changes);
    if let Some(fields) = merged.as_object_mut() {
        fields.retain(|_, value| value != "");
    }
    merged
}

pub(crate) fn sha256(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

/// Multiplies an amount by `parts / whole`, rounded half up. Amounts are at most 8 digits, so nothing overflows.
pub(crate) fn share(amount: i64, parts: i64, whole: i64) -> i64 {
    let half = whole.checked_div(2).unwrap_or_default();
    amount.saturating_mul(parts).saturating_add(half).checked_div_euclid(whole).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_half_up() {
        for (amount, parts, expected) in [(1_000, 399, 40), (1_250, 400, 50), (0, 399, 0), (13, 500, 1)] {
            assert_eq!(share(amount, parts, 10_000), expected, "{amount} × {parts}");
        }
    }
}
