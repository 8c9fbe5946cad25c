//! API keys: their format and their row. The row has the key's fingerprint, a hash. The key itself is never
//! stored.

mod repository;
pub mod request;
pub mod view;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

pub use repository::{ApiKeyError, ApiKeys, IssuedApiKey};

use domain::account::{Account, AccountSettings};
use domain::ids::{AccountId, Fingerprint, Mode};
use domain::time::Timestamp;

/// The length of a key's display prefix, in characters: `ak_test_` or `ak_live_`, and four more (contract:
/// API key).
const PREFIX_CHARS: usize = 12;

/// The length of a key's 24 random bytes in base64url, in characters.
const RANDOM_CHARS: usize = 32;

/// Generates a key: `ak_live_` or `ak_test_`, then 24 random bytes in base64url.
pub fn generate(mode: Mode, random: [u8; 24]) -> SecretString {
    SecretString::from(format!("ak_{mode}_{}", URL_SAFE_NO_PAD.encode(random)))
}

/// Checks whether a text has the format of a key. A text without this format is refused before any request to
/// the database.
pub fn is_well_formed(key: &SecretString) -> bool {
    let text = key.expose_secret();
    let random = text.strip_prefix("ak_test_").or_else(|| text.strip_prefix("ak_live_"));
    random.is_some_and(|random| random.len() == RANDOM_CHARS && URL_SAFE_NO_PAD.decode(random).is_ok())
}

/// The row of a key. Keys have a table of their own, without a stream. Each request of the merchant updates
/// the row. The update costs one write unit while the row is under 1 KB. A revoked key has no row.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ApiKey {
    /// The SHA-256 hash of the key.
    #[serde(rename = "pk")]
    pub fingerprint: Fingerprint,
    /// The account that the key belongs to.
    pub account: AccountId,
    /// The key's mode. The key gives access only to resources of this mode.
    pub mode: Mode,
    /// The account's secret salt, from which the ids of its charges are derived.
    pub salt: String,
    /// A copy of the account's settings, so that authentication reads no second row.
    pub settings: AccountSettings,
    /// The version of the account's row from which `settings` were copied.
    pub settings_version: u64,
    /// The first 12 characters of the key.
    pub prefix: String,
    /// The merchant's name for the key, at most 64 characters; it may be empty.
    pub label: String,
    /// When the key was issued.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
}

impl ApiKey {
    /// Creates the row of a new key of an account.
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

/// A key in a list, with the attributes that the index `account` contains. None of these attributes changes
/// when a request is counted, so the count costs no write to the index.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct ListedKey {
    /// The SHA-256 hash of the key.
    #[serde(rename = "pk")]
    pub fingerprint: Fingerprint,
    /// The key's mode.
    pub mode: Mode,
    /// The first 12 characters of the key.
    pub prefix: String,
    /// The merchant's name for the key; it may be empty.
    pub label: String,
    /// When the key was issued.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_consists_of_its_mode_and_24_bytes_in_base64url() {
        let key = generate(Mode::Live, [255; 24]);
        assert_eq!(key.expose_secret(), "ak_live_________________________________");
        assert!(is_well_formed(&key));
        assert_eq!(format!("{key:?}"), "SecretBox<str>([REDACTED])");
        let random = "_".repeat(31);
        for other in ["ak_prod_{}_", "ak_live_{}", "ak_live_{}__", "ak_live_{}/"] {
            assert!(!is_well_formed(&other.replace("{}", &random).into()), "{other}");
        }
    }
}
