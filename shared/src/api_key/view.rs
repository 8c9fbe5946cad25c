//! Keys on the wire (contract: API key).

use secrecy::ExposeSecret;
use serde::Serialize;

use domain::ids::{ApiKeyId, Mode};
use domain::time::Timestamp;

use super::{Issued, ListedKey};

/// A key as issue and rotate answer it: the only time that its cleartext is shown.
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
    /// Of a key that was just made.
    pub fn new(issued: &'a Issued) -> Self {
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
    /// Of a key of the caller's account.
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

/// `GET /v1/api-keys`.
#[derive(Debug, Serialize)]
pub struct ApiKeyListView<'a> {
    data: Vec<ListedKeyView<'a>>,
    access: Access,
}

/// What the caller may do with the keys.
#[derive(Debug, Serialize)]
struct Access {
    #[serde(rename = "canManage")]
    can_manage: bool,
}

impl<'a> ApiKeyListView<'a> {
    /// Of an account's keys.
    pub fn new(keys: &'a [ListedKey], can_manage: bool) -> Self {
        Self { data: keys.iter().map(ListedKeyView::new).collect(), access: Access { can_manage } }
    }
}
