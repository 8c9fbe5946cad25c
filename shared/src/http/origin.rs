//! The API's public origin: the URL of its documentation, the check that a request passed the content delivery network
//! (CDN) in front of the API, and the client's address that only such a request reports.

use std::sync::Arc;

use axum::http::HeaderMap;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

use domain::source_address::SourceAddress;

use crate::config::{ConfigError, PublicUrls, Vars, required};

/// The header in which the CDN sends its secret. The CDN replaces a client's header of this name.
const ORIGIN_SECRET: &str = "x-origin-secret";

/// The header in which the CDN sends the client's address. It replaces a client's header of this name.
const VIEWER_ADDRESS: &str = "x-viewer-address";

const ORIGIN_SECRETS: &str = "ORIGIN_SECRETS";

/// The shortest secret, in bytes. An empty secret would admit requests without the header.
const MIN_SECRET_BYTES: usize = 32;

/// What the middleware needs to know of the host at which clients reach the API.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The secrets by which a CDN shows that a request passed it. During a rotation two are valid. Without secrets
    /// there is no CDN, and every request is accepted.
    secrets: Arc<[SecretString]>,
    /// The base URL of the API, whose guide explains errors. `None`: clients are no merchants' programs.
    api_base_url: Option<Arc<str>>,
}

impl Origin {
    /// Reads `CHECKOUT_BASE_URL`, and `ORIGIN_SECRETS`: secrets separated by commas. Not set or empty: no CDN.
    /// Errors: When a secret has fewer than 32 bytes, or the base URL is not set or not valid.
    pub fn from_vars(var: Vars<'_>) -> Result<Self, ConfigError> {
        let public_urls = PublicUrls::new(&required(var, "CHECKOUT_BASE_URL")?)?;
        let api_base_url = Some(public_urls.api_base_url().into());
        let text = var(ORIGIN_SECRETS).unwrap_or_default();
        if text.is_empty() {
            return Ok(Self { secrets: Arc::default(), api_base_url });
        }
        let secrets: Arc<[SecretString]> = text.split(',').map(SecretString::from).collect();
        if secrets.iter().any(|secret| secret.expose_secret().len() < MIN_SECRET_BYTES) {
            let text = format!("each secret in {ORIGIN_SECRETS} must have at least {MIN_SECRET_BYTES} bytes");
            return Err(ConfigError::new(text));
        }
        Ok(Self { secrets, api_base_url })
    }

    /// The part of the guide that explains an error code.
    pub(super) fn doc_url(&self, code: &str) -> Option<String> {
        self.api_base_url.as_deref().map(|base| format!("{base}/docs/errors#{code}"))
    }

    /// Whether a request with these headers may reach a handler: there is no CDN, or the request has one of
    /// its secrets.
    pub(super) fn admit(&self, headers: &HeaderMap) -> bool {
        self.secrets.is_empty() || self.is_sent_in(headers)
    }

    /// Returns the client's address. `peer` is the address that connected to API Gateway: the client's, or
    /// the CDN's. A header with the client's address counts only together with the CDN's secret, because a
    /// client can send any header.
    pub(super) fn source_of(&self, headers: &HeaderMap, peer: SourceAddress) -> SourceAddress {
        if !self.is_sent_in(headers) {
            return peer;
        }
        let text = headers.get(VIEWER_ADDRESS).and_then(|value| value.to_str().ok());
        let reported = SourceAddress::parse(text);
        if reported.is_unknown() { peer } else { reported }
    }

    /// Whether the request has one of the secrets. Compares digests with all secrets, so that the duration
    /// depends neither on the value that was sent nor on which secret it equals.
    fn is_sent_in(&self, headers: &HeaderMap) -> bool {
        let sent = headers.get(ORIGIN_SECRET).map_or(&[][..], |value| value.as_bytes());
        self.secrets
            .iter()
            .fold(false, |found, secret| found | equal(secret.expose_secret().as_bytes(), sent))
    }
}

/// Compares two texts in constant time, by their keyed digests.
fn equal(secret: &[u8], sent: &[u8]) -> bool {
    let digest = |text: &[u8]| Hmac::<Sha256>::new_from_slice(secret).map(|mac| mac.chain_update(text));
    match (digest(secret), digest(sent)) {
        (Ok(expected), Ok(sent)) => sent.verify_slice(&expected.finalize().into_bytes()).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const CURRENT: &str = "current-0123456789abcdef0123456789abcdef";
    const PREVIOUS: &str = "previous-0123456789abcdef0123456789abcdef";

    fn secrets(text: &str) -> Result<Origin, ConfigError> {
        Origin::from_vars(&|name| {
            Some(if name == ORIGIN_SECRETS { text } else { "https://pay.example.com/checkout" }.to_owned())
        })
    }

    fn headers(secret: &str, viewer: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [(ORIGIN_SECRET, secret), (VIEWER_ADDRESS, viewer)] {
            if !value.is_empty() {
                headers.insert(name, HeaderValue::from_str(value).unwrap());
            }
        }
        headers
    }

    #[test]
    fn without_secrets_every_request_is_admitted_and_the_address_header_is_ignored() {
        let peer = SourceAddress::parse(Some("192.0.2.1"));
        for origin in [Origin::default(), secrets("").unwrap()] {
            assert!(origin.admit(&headers("", "")));
            for secret in ["", CURRENT] {
                assert_eq!(origin.source_of(&headers(secret, "203.0.113.9"), peer), peer);
            }
        }
    }

    #[test]
    fn the_address_header_counts_only_with_a_secret() {
        let origin = secrets(CURRENT).unwrap();
        let peer = SourceAddress::parse(Some("192.0.2.1"));
        let viewer = SourceAddress::parse(Some("2001:db8::7"));
        assert_eq!(origin.source_of(&headers(CURRENT, "2001:db8::7"), peer), viewer);
        for (secret, address) in
            [("", "2001:db8::7"), (PREVIOUS, "2001:db8::7"), (CURRENT, ""), (CURRENT, "x")]
        {
            assert_eq!(origin.source_of(&headers(secret, address), peer), peer, "{secret} {address}");
        }
    }

    #[test]
    fn a_short_or_missing_secret_stops_the_start() {
        for text in ["short", ",", &format!("{CURRENT},"), &format!("{CURRENT},short")] {
            assert!(secrets(text).is_err(), "{text}");
        }
    }
}
