//! API keys: their format and their row, which has a hash of the key and never the key itself.

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

/// `ak_test_` or `ak_live_`, and four more characters.
const PREFIX_CHARS: usize = 12;

/// 24 bytes in base64url.
const RANDOM_CHARS: usize = 32;

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

/// Keys have a table of their own, without a stream. Each request of the merchant updates the row, which costs
/// one write unit while the row is under 1 KB. A revoked key has no row.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ApiKey {
    #[serde(rename = "pk")]
    pub fingerprint: Fingerprint,
    pub account: AccountId,
    pub mode: Mode,
    /// The ids of the account's charges are derived from it.
    pub salt: String,
    /// A copy, so that authentication reads no second row.
    pub settings: AccountSettings,
    /// The version of the account's row from which `settings` were copied.
    pub settings_version: u64,
    pub prefix: String,
    /// At most 64 characters; it may be empty.
    pub label: String,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// Until then, requests with the key that succeed are recorded too. Authentication reads it with the row.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub record_until: Option<Timestamp>,
}

impl ApiKey {
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
            record_until: None,
        }
    }
}

/// The attributes that the index `account` contains. None of them changes when a request is counted, so the
/// count costs no write to the index.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct ListedKey {
    #[serde(rename = "pk")]
    pub fingerprint: Fingerprint,
    pub mode: Mode,
    pub prefix: String,
    pub label: String,
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
