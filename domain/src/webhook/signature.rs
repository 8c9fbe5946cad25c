//! The two forms of the header `X-Service-Signature`, and the secret that deliveries are signed with.
//!
//! The functions are pure: they map a secret, a time and the exact posted bytes to the header's text. The
//! event's family determines the form.
//!
//! Both forms are HMAC-SHA256 in lower-case hex. The key is the secret's 64 characters as UTF-8 bytes, not
//! the 32 bytes that they encode. So a receiver can use the secret exactly as it was displayed (design:
//! Settled where the contract is silent).

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Sha256;

use crate::hex;

/// The signing secret of an endpoint: 64 lower-case hex characters, shown to the merchant once.
///
/// `Debug` does not show it. Contract: `POST /v1/webhooks/endpoints` and `…/rotate-secret`.
#[derive(Clone, Debug)]
pub struct EndpointSecret(SecretString);

impl EndpointSecret {
    /// Creates a secret from 32 bytes of a cryptographic random source.
    pub fn from_random(random: &[u8; 32]) -> Self {
        Self(SecretString::from(hex::encode(random)))
    }

    /// Returns the secret for the signing functions.
    pub fn as_secret(&self) -> &SecretString {
        &self.0
    }
}

/// Serialises the secret in clear, because signing needs it. Responses must omit it, except those that show
/// it to the merchant once.
impl Serialize for EndpointSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.expose_secret())
    }
}

impl<'de> Deserialize<'de> for EndpointSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(SecretString::from(text)))
    }
}

impl From<EndpointSecret> for SecretString {
    fn from(secret: EndpointSecret) -> Self {
        secret.0
    }
}

/// Returns the header value of the canonical family: `t=<unix seconds>,v1=<hex>`, signed over `<t>.<body>`.
///
/// `body` is the raw body exactly as posted.
pub fn canonical(secret: &SecretString, t_unix_seconds: i64, body: &[u8]) -> String {
    let t = t_unix_seconds.to_string();
    let signature = hmac_sha256(secret, &[t.as_bytes(), b".", body]);
    format!("t={t},v1={signature}")
}

/// Returns the header value of the legacy family: `sha256=<hex>`, signed over the raw body alone.
pub fn legacy(secret: &SecretString, body: &[u8]) -> String {
    format!("sha256={}", hmac_sha256(secret, &[body]))
}

fn hmac_sha256(secret: &SecretString, parts: &[&[u8]]) -> String {
    #[expect(clippy::expect_used, reason = "HMAC accepts keys of every length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes())
        .expect("HMAC accepts keys of every length");
    for part in parts {
        mac.update(part);
    }
    hex::encode(&mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "4b1d0f3a9c8e7d6b5a4f3e2d1c0b9a8f7e6d5c4b3a29181706f5e4d3c2b1a0ff";

    // The expected digests are the output of `printf '<t>.<body>' | openssl dgst -sha256 -hmac "$SECRET"`.

    #[test]
    fn the_canonical_form_signs_time_dot_and_raw_body() {
        assert_eq!(
            canonical(&SECRET.into(), 1_700_000_000, br#"{"id":"evt_1"}"#),
            "t=1700000000,v1=a4ed04b9251ee4307af16c9f1eef239ecc846e7c1e6d9e5da3ec02424bd8d503"
        );
    }

    #[test]
    fn the_canonical_form_signs_an_empty_body_and_a_time_before_1970() {
        assert_eq!(
            canonical(&SECRET.into(), -1, b""),
            "t=-1,v1=80d3b4fa4577c6ae66ed196bd198c6d955f270a7f380b73096eb8e6ae465c511"
        );
    }

    #[test]
    fn the_legacy_form_signs_the_raw_body_alone() {
        assert_eq!(
            legacy(&SECRET.into(), br#"{"id":"evt_1"}"#),
            "sha256=4d1439e5ce31f730a03b2ad8fc7c4de864b3adcc535c9c780e467b666844ce81"
        );
        assert_eq!(
            legacy(&SECRET.into(), b""),
            "sha256=309f666b3252c67b2ff71d4191678b599f10f4b75a864c4439fdb51a948a05ed"
        );
    }

    #[test]
    fn a_body_that_is_not_utf8_is_signed_byte_by_byte() {
        let body = b"\xff\x00\xc3";
        assert_eq!(
            canonical(&SECRET.into(), 1_700_000_000, body),
            "t=1700000000,v1=934d01071eb6dd6dde8704aad39272975de00d546acd0d1d7fd46ffcc01f6af2"
        );
        assert_eq!(
            legacy(&SECRET.into(), body),
            "sha256=3ce7211157edfaabb0139424d0740ea7d214bbc5e4a53aef602f01a6dd1c31b3"
        );
    }

    #[test]
    fn the_signature_depends_on_secret_time_and_body() {
        let v1 = |secret: &str, t, body| {
            canonical(&secret.into(), t, body).split_once(",v1=").unwrap().1.to_owned()
        };
        let signed = v1(SECRET, 1, b"{}");
        assert_ne!(signed, v1(&SECRET.to_uppercase(), 1, b"{}"));
        assert_ne!(signed, v1(SECRET, 2, b"{}"));
        assert_ne!(signed, v1(SECRET, 1, b"{} "));
    }

    #[test]
    fn a_secret_is_32_random_bytes_in_lower_case_hex() {
        let mut random = [0; 32];
        for (byte, value) in random.iter_mut().zip([0x00, 0x01, 0x0a, 0x9f, 0xf0, 0xff]) {
            *byte = value;
        }
        let secret = EndpointSecret::from_random(&random);
        let text = SecretString::from(secret.clone());
        assert_eq!(text.expose_secret(), format!("00010a9ff0ff{}", "0".repeat(52)));
        assert_eq!(secret.as_secret().expose_secret().len(), 64);
    }

    #[test]
    fn debug_does_not_show_the_secret() {
        let secret = EndpointSecret::from_random(&[0xab; 32]);
        assert!(!format!("{secret:?}").contains("abab"));
    }
}
