//! Compresses texts with gzip for clients that accept it, and inflates bodies that clients compressed.

use std::io::{Read, Write};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::intake::too_long;
use super::problem::Problem;

/// A smaller text fits in one packet, so compression saves no time.
const MIN_BYTES: usize = 1_400;

/// Lambda answers with at most 6 MB.
const MAX_BYTES: usize = 6 * 1024 * 1024;

pub(super) async fn compress(request: Request, next: Next) -> Response {
    let is_accepted = accepts(request.headers());
    let response = next.run(request).await;
    if !is_accepted || !is_text(response.headers()) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, MAX_BYTES).await else {
        tracing::error!("a response is larger than 6 MB");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    head.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    if bytes.len() < MIN_BYTES {
        return Response::from_parts(head, Body::from(bytes));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let compressed = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    let Ok(compressed) = compressed else { return Response::from_parts(head, Body::from(bytes)) };
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    // A strong tag names one sequence of bytes (RFC 9110, section 8.8.1).
    let strong = head.headers.get(ETAG).and_then(|tag| tag.to_str().ok()).filter(|tag| tag.starts_with('"'));
    if let Some(weak) = strong.and_then(|tag| format!("W/{tag}").parse().ok()) {
        head.headers.insert(ETAG, weak);
    }
    Response::from_parts(head, Body::from(compressed))
}

/// Inflates a request's body of at most `max_bytes`.
pub(super) fn inflate(compressed: &[u8], max_bytes: usize) -> Result<Bytes, Problem> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    MultiGzDecoder::new(compressed).take(limit).read_to_end(&mut bytes).map_err(|error| {
        Problem::Unreadable(format!("The body is not valid gzip, as `Content-Encoding` says: {error}."))
    })?;
    if bytes.len() > max_bytes { Err(too_long(max_bytes)) } else { Ok(bytes.into()) }
}

fn accepts(headers: &HeaderMap) -> bool {
    let sent = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    sent.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused =
            weight.trim().strip_prefix("q=").is_some_and(|q| q.trim_matches(['0', '.']).is_empty());
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

fn is_text(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_encoded = headers.contains_key(CONTENT_ENCODING);
    !is_encoded && (content_type.starts_with("text/") || content_type.starts_with("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_accepts_gzip_unless_its_weight_is_zero() {
        for (sent, expected) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("identity", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, sent.parse().unwrap())]);
            assert_eq!(accepts(&headers), expected, "{sent}");
        }
        assert!(!accepts(&HeaderMap::new()));
    }
}
