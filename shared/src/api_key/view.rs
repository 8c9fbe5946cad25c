//! The wire format of API keys.

use schemars::JsonSchema;
use secrecy::ExposeSecret;
use serde::Serialize;

use domain::ids::{ApiKeyId, Mode};
use domain::time::Timestamp;

use super::{IssuedApiKey, ListedKey};

/// A new API key. Only this response contains the key in cleartext.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "IssuedApiKey")]
#[serde(rename_all = "camelCase")]
pub struct IssuedView<'a> {
    /// The key's id.
    id: ApiKeyId,
    /// The key, shown once.
    #[schemars(regex(pattern = "^ak_(test|live)_[0-9A-Za-z_-]{32}$"))]
    api_key: &'a str,
    /// The SHA-256 of the key in hex.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    fingerprint: &'a str,
    /// The first characters of the key, for display.
    prefix: &'a str,
    /// The label of the key. It may be empty.
    label: &'a str,
    /// When the key was issued.
    created_at: Timestamp,
    /// The mode of the key: `test` for the sandbox, `live` for production.
    mode: Mode,
}

impl<'a> IssuedView<'a> {
    pub fn new(issued: &'a IssuedApiKey) -> Self {
        let key = &issued.key;
        Self {
            id: key.fingerprint.clone().into(),
            api_key: issued.cleartext.expose_secret(),
            fingerprint: key.fingerprint.as_str(),
            prefix: &key.prefix,
            label: &key.label,
            created_at: key.created_at,
            mode: key.mode,
        }
    }
}

/// An API key of the account, without its cleartext.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ApiKey")]
#[serde(rename_all = "camelCase")]
pub struct ListedKeyView<'a> {
    /// The key's id.
    id: ApiKeyId,
    /// The first characters of the key, for display.
    prefix: &'a str,
    /// The label of the key. It may be empty.
    label: &'a str,
    /// When the key was issued.
    created_at: Timestamp,
    /// The mode of the key: `test` for the sandbox, `live` for production.
    mode: Mode,
}

impl<'a> ListedKeyView<'a> {
    pub fn new(key: &'a ListedKey) -> Self {
        Self {
            id: key.fingerprint.clone().into(),
            prefix: &key.prefix,
            label: &key.label,
            created_at: key.created_at,
            mode: key.mode,
        }
    }
}

/// The API keys of the account.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ApiKeyList")]
pub struct ApiKeyListView<'a> {
    /// The keys.
    data: Vec<ListedKeyView<'a>>,
    /// The permissions of the caller.
    access: Access,
}

/// The permissions of the logged-in user.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ApiKeyAccess")]
struct Access {
    /// Whether the user may issue, rotate and revoke keys: `true` for an OWNER or ADMIN.
    #[serde(rename = "canManage")]
    can_manage: bool,
}

impl<'a> ApiKeyListView<'a> {
    pub fn new(keys: &'a [ListedKey], can_manage: bool) -> Self {
        Self { data: keys.iter().map(ListedKeyView::new).collect(), access: Access { can_manage } }
    }
}

/// The confirmation that an API key was revoked.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "RevokedApiKey")]
pub struct RevokedView {
    /// Always `true`.
    #[schemars(extend("const" = true))]
    pub revoked: bool,
}
