//! Content negotiation by the `Accept` header (RFC 9110, section 12.5.1).

use axum::http::header::{ACCEPT, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderMap};
use axum::response::{IntoResponse, Response};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MediaType {
    Json,
    Csv,
}

impl MediaType {
    fn exact_and_wildcard_range(self) -> (&'static str, &'static str) {
        match self {
            Self::Json => ("application/json", "application/*"),
            Self::Csv => ("text/csv", "text/*"),
        }
    }
}

/// A browser stores the text under this name. It does not show it.
pub fn csv_attachment(name: &str, text: Vec<u8>) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [(CONTENT_TYPE, "text/csv; charset=utf-8"), (CONTENT_DISPOSITION, disposition.as_str())];
    (headers, text).into_response()
}

/// The weight 1. Weights are stored as integers, in thousandths, because RFC 9110 allows three decimals.
const WHOLE: u16 = 1000;

/// The `Accept` headers of a request: media ranges with their weights in thousandths.
#[derive(Clone, Debug, Default)]
pub struct Accept(Vec<(String, u16)>);

impl Accept {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let texts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges = texts.flat_map(|text| text.split(',')).filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().filter(|name| !name.is_empty())?.to_ascii_lowercase();
            let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            Some((name, weight.map_or(Some(WHOLE), thousandths)?))
        });
        Self(ranges.collect())
    }

    /// Returns the weight of the most specific range that matches a media type; 0 if no range matches.
    fn weight(&self, media_type: MediaType) -> u16 {
        let (exact, wildcard) = media_type.exact_and_wildcard_range();
        let of = |name: &str| self.0.iter().find(|(range, _)| range == name).map(|(_, weight)| *weight);
        of(exact).or_else(|| of(wildcard)).or_else(|| of("*/*")).unwrap_or(0)
    }

    /// Returns `other` if its weight is greater than that of `usual`, else `usual`. A client that accepts
    /// neither receives `usual`, because the API has no status 406.
    pub fn preferred(&self, other: MediaType, usual: MediaType) -> MediaType {
        if self.weight(other) > self.weight(usual) { other } else { usual }
    }
}

/// Parses a weight such as `0.5`, `1` or `1.000` as thousandths. `None`: the text is not a weight, and its
/// range is ignored.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let decimals: u16 = format!("{decimals:0<3}").parse().ok()?;
    match (whole, decimals) {
        ("0", decimals) => Some(decimals),
        ("1", 0) => Some(WHOLE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn preferred(accept: &str) -> MediaType {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]);
        Accept::of(&headers).preferred(MediaType::Csv, MediaType::Json)
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
            assert_eq!(preferred(accept), MediaType::Csv, "{accept}");
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
            assert_eq!(preferred(accept), MediaType::Json, "{accept}");
        }
        assert_eq!(Accept::default().preferred(MediaType::Csv, MediaType::Json), MediaType::Json);
    }

    #[test]
    fn repeated_accept_headers_are_combined() {
        let mut headers = HeaderMap::new();
        headers.append(ACCEPT, HeaderValue::from_static("application/json;q=0.1"));
        headers.append(ACCEPT, HeaderValue::from_static("text/csv"));
        assert_eq!(Accept::of(&headers).preferred(MediaType::Csv, MediaType::Json), MediaType::Csv);
    }
}
