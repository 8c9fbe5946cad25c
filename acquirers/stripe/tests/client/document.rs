//! The objects of Stripe's OpenAPI document that the tests use.

use std::sync::OnceLock;

use serde_json::Value;

/// Returns a form of an object: `minimal`, `nulls` or `full`.
pub(crate) fn object(name: &str, form: &str) -> Value {
    static OBJECTS: OnceLock<Value> = OnceLock::new();
    let objects = OBJECTS.get_or_init(|| serde_json::from_str(include_str!("objects.json")).unwrap());
    let object = objects[name][form].clone();
    assert!(object.is_object(), "{name} {form}");
    object
}
