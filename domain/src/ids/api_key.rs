//! Ids of API keys.

use std::fmt;
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::IdError;
use crate::hex;
use crate::text::serde_as_text;

/// Characters of a SHA-256 in hex.
const FINGERPRINT_CHARS: usize = 64;

/// A key's SHA-256 in lower-case hex: names its row, and stands for it in logs.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Of a key exactly as it was sent: not trimmed, not folded.
    pub fn of(key: &SecretString) -> Self {
        Self(hex::encode(&Sha256::digest(key.expose_secret().as_bytes())))
    }

    /// The hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The id of a key: `key_` and its fingerprint. So it says where the key's row lives, which is read without an index, and
/// a line of the request log is found by it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApiKeyId(Fingerprint);

impl ApiKeyId {
    const PREFIX: &str = "key_";
    const EXPECTED: IdError = IdError { expected: "key_ and 64 lower-case hex digits" };

    /// What names the row.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.0
    }
}

impl From<Fingerprint> for ApiKeyId {
    fn from(fingerprint: Fingerprint) -> Self {
        Self(fingerprint)
    }
}

impl fmt::Display for ApiKeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", Self::PREFIX, self.0.as_str())
    }
}

impl FromStr for ApiKeyId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let digits = text.strip_prefix(Self::PREFIX).ok_or(Self::EXPECTED)?;
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() == FINGERPRINT_CHARS && digits.bytes().all(is_hex) {
            Ok(Self(Fingerprint(digits.to_owned())))
        } else {
            Err(Self::EXPECTED)
        }
    }
}

serde_as_text!(ApiKeyId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_fingerprint_in_one_spelling() {
        let id = ApiKeyId::from(Fingerprint::of(&SecretString::from("ak_test_1")));
        assert_eq!(id.to_string().parse::<ApiKeyId>(), Ok(id.clone()));
        let digits = id.fingerprint().as_str();
        for wrong in [
            digits.to_owned(),
            format!("key_{}", digits.to_uppercase()),
            format!("key_{digits}0"),
            format!("key_{}", "g".repeat(64)),
            "key_".to_owned(),
        ] {
            assert!(wrong.parse::<ApiKeyId>().is_err(), "{wrong}");
        }
    }
}
