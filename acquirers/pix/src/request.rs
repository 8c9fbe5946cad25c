use hyper::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::error::ApiError;

/// The lengths of a txid that the receiver chooses.
pub(crate) const TXID_CHARS: std::ops::RangeInclusive<usize> = 26..=35;

/// The lengths of the id of a devolução or Pix out, and of the txid of any Pix.
pub(crate) const ID_CHARS: std::ops::RangeInclusive<usize> = 1..=35;

pub(crate) struct ApiRequest {
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
    pub(crate) fn new(operation: &'static str, method: Method, segments: &[&str]) -> Self {
        let mut path = String::new();
        for segment in segments {
            path.push('/');
            path.extend(utf8_percent_encode(segment, &RESERVED));
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

/// All characters that are not unreserved in a URI (RFC 3986, section 2.3).
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

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
