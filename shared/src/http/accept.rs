//! Content negotiation by the `Accept` header (RFC 9110, section 12.5.1).

use axum::http::header::{ACCEPT, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderMap};
use axum::response::{IntoResponse, Response};

/// A browser stores the text under this name. It does not show it.
pub fn csv_attachment(name: &str, text: Vec<u8>) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [(CONTENT_TYPE, "text/csv; charset=utf-8"), (CONTENT_DISPOSITION, disposition.as_str())];
    (headers, text).into_response()
}

/// Whether a client accepts CSV with a greater weight than JSON. A client that accepts neither receives JSON,
/// because the API has no status 406.
pub(super) fn prefers_csv(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges = texts.flat_map(|text| text.split(',')).filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?.to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        // A range whose weight is not a weight is ignored.
        let weight = weight.map_or(Ok(1.0), str::parse::<f32>).ok()?;
        (0.0..=1.0).contains(&weight).then_some((name, weight))
    });
    let ranges: Vec<(String, f32)> = ranges.collect();
    // The first range of `names` that the client sent is the most specific one.
    let weight = |names: [&str; 3]| {
        let sent = names.iter().find_map(|name| ranges.iter().find(|(range, _)| range == name));
        sent.map_or(0.0, |(_, weight)| *weight)
    };
    weight(["text/csv", "text/*", "*/*"]) > weight(["application/json", "application/*", "*/*"])
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn prefers(accept: &str) -> bool {
        prefers_csv(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]))
    }

    #[test]
    fn csv_is_preferred_only_with_a_greater_weight() {
        for accept in [
            "text/csv",
            "TEXT/CSV; q=0.9",
            "text/csv, application/json;q=0.5",
            "text/*, */*;q=0.1",
            "text/csv;header=present",
            "application/json;q=0, text/csv;q=0.001",
        ] {
            assert!(prefers(accept), "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "application/json",
            "text/csv, application/json",
            "text/csv;q=0",
            "text/csv;q=2, application/json;q=0.1",
            "image/png",
            "text/csv;q=0.1.1",
            "text/csv;q=0.1, */*;q=0.2",
        ] {
            assert!(!prefers(accept), "{accept}");
        }
        assert!(!prefers_csv(&HeaderMap::new()));
    }

    #[test]
    fn repeated_accept_headers_are_combined() {
        let mut headers = HeaderMap::new();
        headers.append(ACCEPT, HeaderValue::from_static("application/json;q=0.1"));
        headers.append(ACCEPT, HeaderValue::from_static("text/csv"));
        assert!(prefers_csv(&headers));
    }
}
