//! The rows of an account's acquirer, and the view for operators and audit rows.

use api_pix::ConnectionSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use domain::ids::{AccountId, ConnectionId};
use domain::pix_key::PixKey;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use super::callback::Callback;
use super::certificate::{ClientIdentity, ServerAuthorities};
use super::settings::{AcquirerSettings, Credentials};
use super::values::{NamedSecret, Secret};

/// The number of characters at the end of a merchant's Pix key that audit rows contain. The key may be a tax
/// id, and audit rows are stored forever.
const PIX_KEY_ENDING: usize = 4;

/// The row of the state table: a current or retired acquirer, without its credentials.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AccountAcquirer {
    pub account: AccountId,
    /// It stays when settings other than its name change.
    pub connection: ConnectionId,
    pub settings: AcquirerSettings,
    pub callback: Callback,
    /// Whether the account has replaced or removed the acquirer. It still ends the charges, refunds and returns of
    /// its bank, until an operator forgets it.
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

    /// Returns the key of a retired acquirer's rows, or of the current one's. It is the same in both tables.
    pub(super) fn key_of(account: &AccountId, retired: Option<ConnectionId>) -> Key {
        let sk = retired.map_or_else(|| "acquirer".to_owned(), |connection| format!("retired#{connection}"));
        Key { pk: Self::partition(account), sk }
    }
}

impl Row for AccountAcquirer {
    fn key(&self) -> Key {
        Self::key_of(&self.account, self.is_retired.then_some(self.connection))
    }
}

/// The row of the table of secrets, with the key of its acquirer's row.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct AcquirerSecrets {
    pub(super) account: AccountId,
    /// As in the sort key: set if the acquirer is retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retired: Option<ConnectionId>,
    pub(super) credentials: Credentials,
    pub(super) version: u64,
}

impl Row for AcquirerSecrets {
    fn key(&self) -> Key {
        AccountAcquirer::key_of(&self.account, self.retired)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ConfiguredAcquirer {
    pub acquirer: AccountAcquirer,
    pub credentials: Credentials,
}

impl ConfiguredAcquirer {
    pub(super) fn secrets(&self) -> AcquirerSecrets {
        let AccountAcquirer { account, connection, is_retired, version, .. } = self.acquirer;
        let credentials = self.credentials.clone();
        AcquirerSecrets { account, retired: is_retired.then_some(connection), credentials, version }
    }

    /// Returns the settings for the client of API Pix.
    pub fn connection_settings(&self) -> ConnectionSettings {
        self.credentials.connection_settings(&self.acquirer.settings)
    }

    /// Returns the first and the last second in which the client certificate is valid. `None`: there is none, or
    /// its validity can't be read.
    pub fn certificate_validity(&self) -> Option<(Timestamp, Timestamp)> {
        self.credentials.identity.as_ref()?;
        self.connection_settings().certificate_validity()
    }

    /// Returns the acquirer for operators, with fingerprints instead of secrets.
    pub fn view(&self) -> Value {
        let AccountAcquirer { account, connection, updated_at, callback, .. } = &self.acquirer;
        let (settings, credentials) = (&self.acquirer.settings, &self.credentials);
        let identity = credentials.identity.as_ref();
        let shown = |extras: &[NamedSecret]| extras.iter().map(NamedSecret::shown).collect::<Vec<_>>();
        json!({
            "account": account,
            "updated_at": updated_at,
            "kind": settings.kind,
            "name": settings.name,
            "connection": connection,
            "base_url": settings.base_url,
            "token_url": credentials.token_url.without_query(),
            "token_authentication": settings.token_authentication,
            "scope": settings.scope,
            "client_id": settings.client_id,
            "client_secret_fingerprint": credentials.client_secret.fingerprint(),
            "certificate_fingerprint": identity.and_then(ClientIdentity::certificate_fingerprint),
            "certificate_ends_at": self.certificate_validity().map(|(_, ends_at)| ends_at),
            "private_key_fingerprint": identity.map(|identity| identity.private_key.fingerprint()),
            "additional_ca_fingerprints":
                settings.additional_ca.as_ref().map(ServerAuthorities::fingerprints).unwrap_or_default(),
            "headers": shown(&credentials.headers),
            "query_parameters": shown(&credentials.query_parameters),
            "webhook_headers": shown(&credentials.webhook_headers),
            "max_period_seconds": settings.max_period_seconds,
            "requests_per_second": settings.requests_per_second,
            "expire_after_seconds": settings.expire_after_seconds,
            "pix_key": settings.pix_key.as_str(),
            "send_pix": settings.send_pix,
            "filter_verified": settings.filter_verified,
            "callback": callback.view(),
        })
    }

    /// Returns the view for an audit row, with only the end of the merchant's Pix key.
    pub(super) fn audit_view(&self) -> Value {
        let mut view = self.view();
        let key = self.acquirer.settings.pix_key.as_str();
        let hidden = key.chars().count().saturating_sub(PIX_KEY_ENDING);
        if let Some(fields) = view.as_object_mut() {
            let ending: String = key.chars().skip(hidden).collect();
            fields.insert("pix_key".to_owned(), format!("…{ending}").into());
        }
        view
    }
}

/// The secret that signs the MED notices of a connection, in the table of secrets. It has a row of its own,
/// because the function that receives notices must not read the bank's credentials.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct MedSecret {
    pub(super) account: AccountId,
    pub(super) connection: ConnectionId,
    pub(super) secret: Secret,
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
    pub(super) fn key_of(key: &PixKey) -> Key {
        Key { pk: format!("pix-key#{key}"), sk: "pix-key".to_owned() }
    }
}

impl Row for PixKeyClaim {
    fn key(&self) -> Key {
        Self::key_of(&self.key)
    }
}
