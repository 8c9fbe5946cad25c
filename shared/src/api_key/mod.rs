//! API keys: what they look like, and the row that stands for one. The cleartext is never stored.

use std::collections::HashMap;

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::account::{Account, AccountSettings};
use crate::hex;
use crate::ids::{AccountId, Mode};
use crate::store::{StoreError, text, unavailable};
use crate::time::Timestamp;

/// Characters of a key that are shown: `ak_test_` and four more (contract: API key).
const PREFIX_CHARS: usize = 12;

/// Characters that spell a key's 24 random bytes.
const RANDOM_CHARS: usize = 32;

/// A key's SHA-256 in lower-case hex: names its row, and stands for it in logs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
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

/// A key's row, in a table of its own without a stream; under 1 KB, for every request updates it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ApiKey {
    /// SHA-256 of the key.
    #[serde(rename = "pk")]
    pub fingerprint: Fingerprint,
    /// Whose it is.
    pub account: AccountId,
    /// What it may touch.
    pub mode: Mode,
    /// The account's salt for ids, in hex.
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
    #[serde(with = "crate::time::millis")]
    pub created_at: Timestamp,
}

impl ApiKey {
    /// The row for a new key of an account.
    pub fn new(
        key: &SecretString,
        account: &Account,
        mode: Mode,
        salt: &str,
        label: &str,
        now: Timestamp,
    ) -> Self {
        Self {
            fingerprint: Fingerprint::of(key),
            account: account.id,
            mode,
            salt: salt.to_owned(),
            settings: account.settings.clone(),
            settings_version: account.version,
            prefix: key.expose_secret().chars().take(PREFIX_CHARS).collect(),
            label: label.to_owned(),
            created_at: now,
        }
    }
}

/// The table of keys. Clones share one client.
#[derive(Clone, Debug)]
pub struct ApiKeys {
    client: aws_sdk_dynamodb::Client,
    table: String,
}

impl ApiKeys {
    /// Keys in a table.
    pub fn new(client: aws_sdk_dynamodb::Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into() }
    }

    pub(crate) fn client(&self) -> &aws_sdk_dynamodb::Client {
        &self.client
    }

    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// Writes a key's row.
    pub async fn put(&self, key: &ApiKey) -> Result<(), StoreError> {
        let item: HashMap<String, AttributeValue> =
            serde_dynamo::to_item(key).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        self.client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item))
            .send()
            .await
            .map_err(unavailable)?;
        Ok(())
    }

    /// The keys of an account. Reads the whole table, page by page: for operators, not for requests.
    pub async fn of_account(&self, account: &AccountId) -> Result<Vec<Fingerprint>, StoreError> {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let answer = self
                .client
                .scan()
                .table_name(&self.table)
                .consistent_read(true)
                .filter_expression("account = :account")
                .expression_attribute_values(":account", AttributeValue::S(account.to_string()))
                .projection_expression("pk")
                .set_exclusive_start_key(after)
                .send()
                .await
                .map_err(unavailable)?;
            let keys = answer.items.unwrap_or_default();
            found.extend(keys.iter().filter_map(|item| text(item, "pk")).map(Fingerprint));
            after = answer.last_evaluated_key;
            if after.is_none() {
                return Ok(found);
            }
        }
    }

    /// Gives a key its account's settings, unless it has newer ones. A key that is gone needs none.
    pub async fn set_settings(&self, key: &Fingerprint, account: &Account) -> Result<(), StoreError> {
        let settings: AttributeValue = serde_dynamo::to_attribute_value(&account.settings)
            .map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let answer = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", AttributeValue::S(key.as_str().to_owned()))
            .condition_expression(
                "attribute_exists(pk) AND (attribute_not_exists(settings_version) OR settings_version <= :version)",
            )
            .update_expression("SET settings = :settings, settings_version = :version")
            .expression_attribute_values(":settings", settings)
            .expression_attribute_values(":version", AttributeValue::N(account.version.to_string()))
            .send()
            .await;
        match answer {
            Ok(_) => Ok(()),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(()),
                _ => Err(unavailable(error)),
            },
        }
    }
}
