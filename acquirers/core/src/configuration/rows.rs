//! The rows of an account's acquirer, and the view for operators and audit rows.

use acquirer_kit::setting::{InvalidSetting, Secret};
use api_pix::ConnectionSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use domain::ids::{AccountId, ConnectionId};
use domain::pix_key::PixKey;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use super::callback::Callback;
use super::settings::AcquirerSettings;
use crate::registry::Credentials;

/// The row of the state table: a connection of an account, without its credentials.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AccountAcquirer {
    pub account: AccountId,
    /// It stays when settings other than its name change.
    pub connection: ConnectionId,
    pub settings: AcquirerSettings,
    pub callback: Callback,
    /// Whether the account has replaced or removed the acquirer. It still ends its charges, refunds and returns, until
    /// an operator forgets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_retired: bool,
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    pub version: u64,
}

impl AccountAcquirer {
    pub(super) fn partition(account: &AccountId) -> String {
        format!("acquirer#{account}")
    }

    /// It is the same in both tables.
    pub(super) fn key_of(account: &AccountId, connection: ConnectionId) -> Key {
        Key { pk: Self::partition(account), sk: format!("connection#{connection}") }
    }

    pub(super) fn next_version(self, now: Timestamp) -> Self {
        Self { updated_at: now, version: self.version.saturating_add(1), ..self }
    }
}

impl Row for AccountAcquirer {
    fn key(&self) -> Key {
        Self::key_of(&self.account, self.connection)
    }
}

/// The row of the table of secrets, with the key of its acquirer's row.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct AcquirerSecrets {
    pub(super) account: AccountId,
    pub(super) connection: ConnectionId,
    pub(super) credentials: Credentials,
    pub(super) version: u64,
}

impl Row for AcquirerSecrets {
    fn key(&self) -> Key {
        AccountAcquirer::key_of(&self.account, self.connection)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ConfiguredAcquirer {
    pub acquirer: AccountAcquirer,
    pub credentials: Credentials,
}

impl ConfiguredAcquirer {
    pub(super) fn secrets(&self) -> AcquirerSecrets {
        let AccountAcquirer { account, connection, version, .. } = self.acquirer;
        AcquirerSecrets { account, connection, credentials: self.credentials.clone(), version }
    }

    pub fn pix_connection(&self) -> Result<ConnectionSettings, InvalidSetting> {
        let settings = self.acquirer.settings.pix_connection(&self.credentials);
        settings.ok_or_else(|| InvalidSetting::because("the connection is to no bank of Pix"))
    }

    /// Returns the acquirer for operators, with fingerprints instead of secrets.
    pub fn view(&self) -> Value {
        self.view_with(self.acquirer.settings.kind.of_kind().view())
    }

    pub(super) fn audit_view(&self) -> Value {
        self.view_with(self.acquirer.settings.kind.of_kind().audit_view())
    }

    fn view_with(&self, of_kind: Value) -> Value {
        let AccountAcquirer { account, connection, updated_at, callback, settings, .. } = &self.acquirer;
        let kind: &str = (&settings.kind).into();
        let common = json!({
            "account": account,
            "updated_at": updated_at,
            "kind": kind,
            "name": settings.name,
            "connection": connection,
            "methods": settings.methods(),
            "base_url": settings.base_url,
            "requests_per_second": settings.requests_per_second,
            "expire_after_seconds": settings.expire_after_seconds,
            "callback": callback.view(),
        });
        let parts = [common, of_kind, self.credentials.of_kind().view()];
        let fields = parts.into_iter().filter_map(|part| match part {
            Value::Object(fields) => Some(fields),
            _ => None,
        });
        Value::Object(fields.flatten().collect())
    }
}

/// The secret that signs the notices of a connection, such as those of MED, in the table of secrets. It has a row of its
/// own, because the function that receives notices must not read the acquirer's credentials.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct MedSecret {
    pub(super) account: AccountId,
    pub(super) connection: ConnectionId,
    pub(super) secret: Secret,
    /// The secret before, which signs what was sent before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) former: Option<Secret>,
    pub(super) version: u64,
}

impl MedSecret {
    pub(super) fn key_of(account: &AccountId, connection: ConnectionId) -> Key {
        Key { pk: format!("med-secret#{account}"), sk: connection.to_string() }
    }
}

impl Row for MedSecret {
    fn key(&self) -> Key {
        Self::key_of(&self.account, self.connection)
    }
}

/// The row of the state table that claims a Pix key for an account. Two accounts can't receive by one key, because
/// a Pix without a known txid belongs to the account of its key.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PixKeyClaim {
    pub key: PixKey,
    pub account: AccountId,
    pub connection: ConnectionId,
    pub version: u64,
}

impl PixKeyClaim {
    pub fn key_of(key: &PixKey) -> Key {
        Key { pk: format!("pix-key#{key}"), sk: "pix-key".to_owned() }
    }
}

impl Row for PixKeyClaim {
    fn key(&self) -> Key {
        Self::key_of(&self.key)
    }
}
