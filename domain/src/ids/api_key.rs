//! API key ids and fingerprints.

use std::fmt;
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{IdError, IdText};
use crate::hex;
use crate::text::{serde_as_text, text_schema};

const FINGERPRINT_CHARS: usize = 64;

/// The SHA-256 of an API key in lower-case hex. It identifies the key's row, and logs show it in place of the
/// key.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Computes the fingerprint of a key exactly as the client sent it: neither trimmed nor lower-cased.
    pub fn of(key: &SecretString) -> Self {
        Self(hex::encode(Sha256::digest(key.expose_secret().as_bytes())))
    }

    /// Returns the 64 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `key_` and the fingerprint. So the row can be read by id without an index, and the id matches request logs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApiKeyId(Fingerprint);

impl ApiKeyId {
    const PREFIX: &str = "key_";
    const EXPECTED: IdError = IdError { expected: "key_ and 64 lower-case hex digits" };

    /// Returns the fingerprint, which is the key of the row.
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
impl IdText for ApiKeyId {
    const CHARS: usize = 68;
    const PATTERN: &'static str = "^key_[0-9a-f]{64}$";
}

text_schema!(ApiKeyId, "An API key's id: `key_` and 64 hex digits.", { "pattern": ApiKeyId::PATTERN });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_key_id_has_exactly_one_spelling() {
        let id = ApiKeyId::from(Fingerprint::of(&SecretString::from("ak_test_1")));
        assert_eq!(id.to_string().parse::<ApiKeyId>(), Ok(id.clone()));
        let digits = id.fingerprint().as_str();
        for wrong in [format!("key_{}", digits.to_uppercase()), format!("key_{digits}0")] {
            assert!(wrong.parse::<ApiKeyId>().is_err(), "{wrong}");
        }
    }
}
