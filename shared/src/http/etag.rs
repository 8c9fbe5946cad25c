//! Entity tags (RFC 9110, section 8.8.3): the hash of what is shown, so that a client that has it gets 304.

use axum::http::HeaderMap;
use axum::http::header::IF_NONE_MATCH;
use sha2::{Digest, Sha256};

/// Returns the strong tag of a content, with its quotes.
pub fn etag_of(content: impl AsRef<[u8]>) -> String {
    format!("\"{}\"", domain::hex::encode(Sha256::digest(content)))
}

/// Whether the request says that its sender has the content with this tag. The comparison is weak, because a cache
/// may have marked the tag as weak (RFC 9110, section 13.1.2).
pub fn is_known(request: &HeaderMap, etag: &str) -> bool {
    let strong = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag) == etag.strip_prefix("W/").unwrap_or(etag);
    let values = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).any(|tag| tag == "*" || strong(tag))
}
