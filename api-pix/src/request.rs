//! API requests before they are sent.

use hyper::Method;
use serde_json::Value;

use crate::error::ApiError;

/// The lengths of a txid that the receiver chooses.
pub(crate) const TXID_CHARS: std::ops::RangeInclusive<usize> = 26..=35;

/// The lengths of the id of a devolução or Pix out, and of the txid of any Pix.
pub(crate) const ID_CHARS: std::ops::RangeInclusive<usize> = 1..=35;

/// A request of the API.
pub(crate) struct ApiRequest {
    /// The name of the operation, for logs.
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    /// The path after the base URL, encoded.
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Value>,
    /// Whether the request registers a callback URL, which some banks require additional headers for.
    pub(crate) registers_webhook: bool,
}

impl ApiRequest {
    /// Creates a request. The segments of the path are encoded.
    pub(crate) fn new(operation: &'static str, method: Method, segments: &[&str]) -> Self {
        let mut path = String::new();
        for segment in segments {
            path.push('/');
            encode_segment(segment, &mut path);
        }
        Self { operation, method, path, query: Vec::new(), body: None, registers_webhook: false }
    }

    pub(crate) fn get(operation: &'static str, segments: &[&str]) -> Self {
        Self::new(operation, Method::GET, segments)
    }

    pub(crate) fn put(operation: &'static str, segments: &[&str], body: Value) -> Self {
        Self { body: Some(body), ..Self::new(operation, Method::PUT, segments) }
    }
}

/// Encodes all characters that are not unreserved in a URI (RFC 3986, section 2.3).
fn encode_segment(segment: &str, path: &mut String) {
    const HEX: [u8; 16] = *b"0123456789ABCDEF";
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            path.push(char::from(byte));
        } else {
            path.push('%');
            for digit in [byte >> 4, byte & 0xf] {
                path.push(HEX.get(usize::from(digit)).copied().map_or('0', char::from));
            }
        }
    }
}

/// Checks an id of letters and digits. With an empty id, the path would be that of a list.
pub(crate) fn check_id(
    id: &str,
    chars: std::ops::RangeInclusive<usize>,
    error: &'static str,
) -> Result<(), ApiError> {
    if chars.contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        Ok(())
    } else {
        Err(ApiError::InvalidRequest(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_segments_of_a_path_are_encoded() {
        let path = |segment: &str| ApiRequest::get("get_webhook", &["webhook", segment]).path;
        assert_eq!(path("+5511999990000"), "/webhook/%2B5511999990000");
        assert_eq!(path("loja@example.com"), "/webhook/loja%40example.com");
        assert_eq!(path("a/b?c#d%é"), "/webhook/a%2Fb%3Fc%23d%25%C3%A9");
        assert_eq!(path("7d9f0335-8dcc"), "/webhook/7d9f0335-8dcc");
    }

    #[test]
    fn an_id_has_only_letters_and_digits() {
        for (id, is_valid) in
            [("a", true), ("A1", true), ("", false), ("a-b", false), ("é", false), ("a/b", false)]
        {
            assert_eq!(check_id(id, ID_CHARS, "error").is_ok(), is_valid, "{id}");
        }
        assert!(check_id(&"a".repeat(36), ID_CHARS, "error").is_err());
        assert!(check_id(&"a".repeat(25), TXID_CHARS, "error").is_err());
    }
}
