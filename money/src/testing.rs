//! What several tests of this crate need.

use shared::http::JsonObject;
use shared::http::json::parse_object;

/// Converts a value to the body that a client would send.
pub(crate) fn object(value: &serde_json::Value) -> JsonObject {
    parse_object(value.to_string().as_bytes()).unwrap()
}
