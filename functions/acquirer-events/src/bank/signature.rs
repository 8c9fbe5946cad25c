//! Verifies the signature of a MED notice: `X-Signature: t=<unix seconds>,v1=<hex>`, where the value of `v1`
//! is the HMAC-SHA256 of `<t>.<raw body>`. The key is the secret's 64 characters, not the bytes that they
//! encode, as in the signatures of webhooks.

use domain::hex;
use domain::time::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

pub(super) const HEADER: &str = "x-signature";

/// How far the time of the signature may differ from the service's clock, in seconds: 5 minutes.
const TOLERANCE_SECONDS: u64 = 300;

/// The most signatures of one header. A sender that changes its secret may sign with both.
const MAX_SIGNATURES: usize = 2;

/// Checks the signature of a body. The comparison takes the same time for each signature.
pub(super) fn is_valid(secret: &SecretString, header: &str, body: &[u8], now: Timestamp) -> bool {
    let fields = || header.split(',').filter_map(|field| field.trim().split_once('='));
    let mut times = fields().filter(|(name, _)| *name == "t").map(|(_, time)| time);
    let (Some(time), None) = (times.next(), times.next()) else { return false };
    let is_number = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
    let Some(seconds) = time.parse::<i64>().ok().filter(|_| is_number) else { return false };
    if now.seconds().abs_diff(seconds) > TOLERANCE_SECONDS {
        return false;
    }
    let Ok(keyed) = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes()) else { return false };
    let expected = keyed.chain_update(time).chain_update(b".").chain_update(body);
    let signatures = fields().filter(|(name, _)| *name == "v1").take(MAX_SIGNATURES);
    let is_match = |signature: &str| {
        hex::decode(signature).is_ok_and(|bytes| expected.clone().verify_slice(&bytes).is_ok())
    };
    signatures.fold(false, |is_valid, (_, signature)| is_valid | is_match(signature))
}

#[cfg(test)]
mod tests {
    use domain::webhook::signature::canonical;

    use super::*;

    const SECRET: &str = "4b1d0f3a9c8e7d6b5a4f3e2d1c0b9a8f7e6d5c4b3a29181706f5e4d3c2b1a0ff";
    const T: i64 = 1_700_000_000;

    fn accepts(header: &str, body: &[u8], at_seconds: i64) -> bool {
        let now = Timestamp::from_millis(at_seconds * 1_000).unwrap();
        is_valid(&SECRET.into(), header, body, now)
    }

    // The digest is the output of `printf '1700000000.{"id":"evt_1"}' | openssl dgst -sha256 -hmac "$SECRET"`.
    #[test]
    fn the_signature_is_that_of_openssl() {
        let header = "t=1700000000,v1=a4ed04b9251ee4307af16c9f1eef239ecc846e7c1e6d9e5da3ec02424bd8d503";
        assert!(accepts(header, br#"{"id":"evt_1"}"#, T));
    }

    #[test]
    fn a_malformed_header_is_refused() {
        let header = canonical(&SECRET.into(), T, b"{}");
        let (_, digest) = header.split_once("v1=").unwrap();
        for header in [
            String::new(),
            "t=".to_owned(),
            format!("t={T}"),
            format!("v1={digest}"),
            format!("t=+{T},v1={digest}"),
            format!("t={T},t={T},v1={digest}"),
            format!("t=99999999999999999999,v1={digest}"),
            format!("t={T},v1={}", digest.get(..62).unwrap()),
            format!("t={T},v1=zz"),
            format!("t={T},v0={digest}"),
        ] {
            assert!(!accepts(&header, b"{}", T), "{header}");
        }
    }
}
