//! The wire format of API keys (contract: API key).

use secrecy::ExposeSecret;
use serde::Serialize;

use domain::ids::{ApiKeyId, Mode};
use domain::time::Timestamp;

use super::{IssuedApiKey, ListedKey};

/// A key in the response to its issue or rotation. Only these responses contain the key in cleartext.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IssuedView<'a> {
    id: ApiKeyId,
    api_key: &'a str,
    fingerprint: &'a str,
    prefix: &'a str,
    label: &'a str,
    created_at: Timestamp,
    mode: Mode,
}

impl<'a> IssuedView<'a> {
    /// Builds the view of a newly issued key.
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

/// A key in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedKeyView<'a> {
    id: ApiKeyId,
    prefix: &'a str,
    label: &'a str,
    created_at: Timestamp,
    mode: Mode,
}

impl<'a> ListedKeyView<'a> {
    /// Builds the view of a key.
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

/// The response to `GET /v1/api-keys`.
#[derive(Debug, Serialize)]
pub struct ApiKeyListView<'a> {
    data: Vec<ListedKeyView<'a>>,
    access: Access,
}

/// The permissions of the caller (contract: API keys, rule 4).
#[derive(Debug, Serialize)]
struct Access {
    #[serde(rename = "canManage")]
    can_manage: bool,
}

impl<'a> ApiKeyListView<'a> {
    /// Builds the view of an account's keys. `can_manage`: whether the caller may issue, rotate and revoke
    /// keys.
    pub fn new(keys: &'a [ListedKey], can_manage: bool) -> Self {
        Self { data: keys.iter().map(ListedKeyView::new).collect(), access: Access { can_manage } }
    }
}
