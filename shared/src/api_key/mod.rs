//! API keys: what they look like, and the row that stands for one. The cleartext is never stored.

mod repository;
pub mod request;
pub mod view;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

pub use repository::{ApiKeyError, ApiKeys, Issued};

use domain::account::{Account, AccountSettings};
use domain::ids::{AccountId, Fingerprint, Mode};
use domain::time::Timestamp;

/// Characters of a key that are shown: `ak_test_` and four more (contract: API key).
const PREFIX_CHARS: usize = 12;

/// Characters that spell a key's 24 random bytes.
const RANDOM_CHARS: usize = 32;

/// Makes a key: `ak_live_` or `ak_test_` and 24 bytes in base64url.
pub fn generate(mode: Mode, random: [u8; 24]) -> SecretString {
    SecretString::from(format!("ak_{mode}_{}", URL_SAFE_NO_PAD.encode(random)))
}

/// Whether a text could be a key at all: what could not needs no look-up.
pub fn is_well_formed(key: &SecretString) -> bool {
    let text = key.expose_secret();
    let random = text.strip_prefix("ak_test_").or_else(|| text.strip_prefix("ak_live_"));
    random.is_some_and(|random| random.len() == RANDOM_CHARS && URL_SAFE_NO_PAD.decode(random).is_ok())
}

/// A key's row, in a table of its own without a stream; under 1 KB, for every request updates it. A revoked key has none.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ApiKey {
    /// SHA-256 of the key.
    #[serde(rename = "pk")]
    pub fingerprint: Fingerprint,
    /// Whose it is.
    pub account: AccountId,
    /// What it may touch.
    pub mode: Mode,
    /// The account's salt for ids.
    pub salt: String,
    /// The account's settings, as they were last changed.
    pub settings: AccountSettings,
    /// The version of the account's row that they are from.
    #[serde(default)]
    pub settings_version: u64,
    /// The first 12 characters of the key.
    pub prefix: String,
    /// The merchant's name for it, at most 64 characters.
    pub label: String,
    /// When it was issued.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
}

impl ApiKey {
    /// The row for a new key of an account.
    pub fn new(key: &SecretString, account: &Account, mode: Mode, label: &str, now: Timestamp) -> Self {
        Self {
            fingerprint: Fingerprint::of(key),
            account: account.id,
            mode,
            salt: account.salt.clone(),
            settings: account.settings.clone(),
            settings_version: account.version,
            prefix: key.expose_secret().chars().take(PREFIX_CHARS).collect(),
            label: label.to_owned(),
            created_at: now,
        }
    }
}

/// What the index by account has of a key: all that a list shows, and nothing that a request changes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct ListedKey {
    /// SHA-256 of the key.
    #[serde(rename = "pk")]
    pub fingerprint: Fingerprint,
    /// What it may touch.
    pub mode: Mode,
    /// The first 12 characters of the key.
    pub prefix: String,
    /// The merchant's name for it.
    pub label: String,
    /// When it was issued.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_mode_and_24_bytes_in_base64url() {
        let key = generate(Mode::Live, [255; 24]);
        assert_eq!(key.expose_secret(), "ak_live_________________________________");
        assert!(is_well_formed(&key));
        assert_eq!(format!("{key:?}"), "SecretBox<str>([REDACTED])");
    }
}
