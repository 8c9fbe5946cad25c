//! The two forms of the header `X-Service-Signature`, and `webhook-signature` of Standard Webhooks, which only
//! canonical events have. All are HMAC-SHA256. The key is the secret's 64 characters as UTF-8 bytes, not the 32
//! bytes that they encode, so that a receiver can use the secret exactly as it was displayed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Sha256;

use crate::hex;
use crate::time::Timestamp;

/// The beginning of a secret in the form of Standard Webhooks.
pub const STANDARD_WEBHOOKS_PREFIX: &str = "whsec_";

/// The signing secret of an endpoint: 64 lower-case hex characters, shown to the merchant once. `Debug` does
/// not show it.
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

    /// The form that libraries of Standard Webhooks read: `whsec_` and the base64 of the secret's characters.
    pub fn for_standard_webhooks(&self) -> SecretString {
        let key = STANDARD.encode(self.0.expose_secret());
        SecretString::from(format!("{STANDARD_WEBHOOKS_PREFIX}{key}"))
    }

    /// Reads [`EndpointSecret::for_standard_webhooks`]. `None`: the text has another form.
    pub fn from_standard_webhooks(text: &SecretString) -> Option<Self> {
        let key = text.expose_secret().strip_prefix(STANDARD_WEBHOOKS_PREFIX)?;
        let key = String::from_utf8(STANDARD.decode(key).ok()?).ok()?;
        Some(Self(SecretString::from(key)))
    }
}

/// In clear, because signing needs it. Responses must omit it, except those that show it once.
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

/// The header of the canonical family: `t=<unix seconds>,v1=<hex>`, signed over `<t>.<body>` as posted.
pub fn canonical(secret: &SecretString, t_unix_seconds: i64, body: &[u8]) -> String {
    let t = t_unix_seconds.to_string();
    let signature = hmac_sha256(secret.expose_secret().as_bytes(), &[t.as_bytes(), b".", body]);
    format!("t={t},v1={}", hex::encode(signature))
}

/// Returns the header value of the legacy family: `sha256=<hex>`, signed over the raw body alone.
pub fn legacy(secret: &SecretString, body: &[u8]) -> String {
    format!("sha256={}", hex::encode(hmac_sha256(secret.expose_secret().as_bytes(), &[body])))
}

/// Checks a header in the form of [`legacy`], by which a BTCPay Server signs its notifications. `body` is the body as it
/// arrived. It contains no time.
pub fn is_legacy(header: &str, body: &[u8], secrets: &[SecretString]) -> bool {
    let Some(signature) = header.strip_prefix("sha256=").and_then(|hex| hex::decode(hex).ok()) else {
        return false;
    };
    // This comparison takes the same time wherever the bytes differ.
    let is_by = |secret: &SecretString| {
        mac(secret.expose_secret().as_bytes(), &[body]).verify_slice(&signature).is_ok()
    };
    secrets.iter().any(is_by)
}

/// `v1,<base64>`, signed over `<id>.<timestamp>.<body>` (Standard Webhooks 1.0). The values are those of the
/// headers.
pub fn standard_webhooks(secret: &SecretString, id: &str, timestamp: i64, body: &[u8]) -> String {
    standard_webhooks_by_key(secret.expose_secret().as_bytes(), id, timestamp, body)
}

fn standard_webhooks_by_key(key: &[u8], id: &str, timestamp: i64, body: &[u8]) -> String {
    let timestamp = timestamp.to_string();
    let signature = hmac_sha256(key, &[id.as_bytes(), b".", timestamp.as_bytes(), b".", body]);
    format!("v1,{}", STANDARD.encode(signature))
}

/// How far the time of a signature may be from the service's clock, in milliseconds, in both directions.
const TOLERANCE_MS: u64 = 300_000;

/// Why [`check_canonical`] refuses a body. The texts do not repeat the header.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SignatureError {
    #[error("the header must have one `t` and at least one `v1`")]
    Header,
    #[error("no signature is one of the body by a known secret")]
    Signature,
    #[error("the time of the signature is more than 300 s from the service's clock")]
    Time,
}

/// Checks a header in the form of [`canonical`], by which acquirers sign their notifications. `body` is the body as it
/// arrived. While a secret is replaced, there may be several secrets and several `v1`.
pub fn check_canonical(
    header: &str,
    body: &[u8],
    secrets: &[SecretString],
    now: Timestamp,
) -> Result<(), SignatureError> {
    let parts = || header.split(',').filter_map(|part| part.trim().split_once('='));
    let mut times = parts().filter(|(name, _)| *name == "t").map(|(_, value)| value);
    let (Some(time), None) = (times.next(), times.next()) else {
        return Err(SignatureError::Header);
    };
    let is_number = (1..=12).contains(&time.len()) && time.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: i64 = time.parse().ok().filter(|_| is_number).ok_or(SignatureError::Header)?;
    let signatures = parts().filter(|(name, _)| *name == "v1");
    let signatures: Vec<Vec<u8>> = signatures.filter_map(|(_, value)| hex::decode(value).ok()).collect();
    if signatures.is_empty() {
        return Err(SignatureError::Header);
    }
    let is_signed = secrets.iter().any(|secret| {
        let expected = mac(secret.expose_secret().as_bytes(), &[time.as_bytes(), b".", body]);
        // This comparison takes the same time wherever the bytes differ.
        signatures.iter().any(|signature| expected.clone().verify_slice(signature).is_ok())
    });
    if !is_signed {
        return Err(SignatureError::Signature);
    }
    let is_near = now.millis().abs_diff(seconds.saturating_mul(1_000)) <= TOLERANCE_MS;
    is_near.then_some(()).ok_or(SignatureError::Time)
}

fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    mac(key, parts).finalize().into_bytes().into()
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC accepts keys of every length")]
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of every length");
    parts.iter().fold(mac, Mac::chain_update)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "4b1d0f3a9c8e7d6b5a4f3e2d1c0b9a8f7e6d5c4b3a29181706f5e4d3c2b1a0ff";

    // The expected digests are the output of `printf '<t>.<body>' | openssl dgst -sha256 -hmac "$SECRET"`.

    #[test]
    fn a_legacy_header_is_the_signature_of_the_body_by_a_known_secret() {
        let (secret, other) = (SecretString::from(SECRET), SecretString::from("other"));
        let header = legacy(&secret, b"{}");
        assert!(is_legacy(&header, b"{}", &[other.clone(), secret.clone()]));
        assert!(!is_legacy(&header, b"{}", &[other]));
        assert!(!is_legacy(&header, b"[]", std::slice::from_ref(&secret)));
        let bare = header.trim_start_matches("sha256=");
        for header in ["", "sha256=", "sha256=zz", bare, &format!("{header}00")] {
            assert!(!is_legacy(header, b"{}", std::slice::from_ref(&secret)), "{header}");
        }
    }

    #[test]
    fn the_canonical_form_signs_time_dot_and_raw_body_and_the_legacy_form_the_body_alone() {
        for (time, body, signed, signed_alone) in [
            (
                1_700_000_000,
                &br#"{"id":"evt_1"}"#[..],
                "t=1700000000,v1=a4ed04b9251ee4307af16c9f1eef239ecc846e7c1e6d9e5da3ec02424bd8d503",
                "sha256=4d1439e5ce31f730a03b2ad8fc7c4de864b3adcc535c9c780e467b666844ce81",
            ),
            (
                -1,
                b"",
                "t=-1,v1=80d3b4fa4577c6ae66ed196bd198c6d955f270a7f380b73096eb8e6ae465c511",
                "sha256=309f666b3252c67b2ff71d4191678b599f10f4b75a864c4439fdb51a948a05ed",
            ),
            (
                1_700_000_000,
                b"\xff\x00\xc3",
                "t=1700000000,v1=934d01071eb6dd6dde8704aad39272975de00d546acd0d1d7fd46ffcc01f6af2",
                "sha256=3ce7211157edfaabb0139424d0740ea7d214bbc5e4a53aef602f01a6dd1c31b3",
            ),
        ] {
            assert_eq!(canonical(&SECRET.into(), time, body), signed);
            assert_eq!(legacy(&SECRET.into(), body), signed_alone);
        }
    }

    // The example of the specification and of its libraries.
    #[test]
    fn the_signature_of_standard_webhooks_is_that_of_its_specification() {
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let (id, timestamp) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330);
        assert_eq!(
            standard_webhooks_by_key(&key, id, timestamp, br#"{"test": 2432232314}"#),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    // The expected value is the output of
    // `printf 'evt_1.1700000000.{}' | openssl dgst -sha256 -hmac "$SECRET" -binary | base64`.
    #[test]
    fn standard_webhooks_are_signed_with_the_characters_of_the_secret() {
        assert_eq!(
            standard_webhooks(&SECRET.into(), "evt_1", 1_700_000_000, b"{}"),
            "v1,8kjnR8LDjKDJsK7/XCpoi8KtEP4U+QVCfFeONDH75wk="
        );
    }

    #[test]
    fn the_secret_for_standard_webhooks_decodes_to_the_characters_of_the_secret() {
        let secret = EndpointSecret::from_random(&[0xab; 32]);
        let shown = secret.for_standard_webhooks();
        let key = shown.expose_secret().strip_prefix("whsec_").unwrap();
        assert_eq!(STANDARD.decode(key).unwrap(), "ab".repeat(32).as_bytes());
        assert!(!format!("{shown:?}").contains(key));
        let read = EndpointSecret::from_standard_webhooks(&shown).unwrap();
        assert_eq!(read.as_secret().expose_secret(), secret.as_secret().expose_secret());
        for text in ["", "whsec_!", "whsec_/w==", key] {
            assert!(EndpointSecret::from_standard_webhooks(&text.into()).is_none(), "{text}");
        }
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
        assert!(!format!("{secret:?}").contains("9ff0ff"));
    }
}
