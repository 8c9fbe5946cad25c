//! The rows of the table of secrets that an operator's configuration consists of, besides
//! [`CallbackSettings`](super::CallbackSettings).

use serde::{Deserialize, Serialize};

use domain::ids::{AccountId, ConnectionId};
use domain::pix_key::PixKey;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use super::settings::{AcquirerSettings, AcquirerView};

/// The row of an account's acquirer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AccountAcquirer {
    /// The account.
    pub account: AccountId,
    /// The bank connection. It stays when settings other than its name change.
    pub connection: ConnectionId,
    /// The current settings.
    pub settings: AcquirerSettings,
    /// When the settings were last changed.
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    /// The version of the row, from 1.
    pub version: u64,
}

impl AccountAcquirer {
    /// The primary key of the row of an account's acquirer.
    pub fn key_of(account: &AccountId) -> Key {
        Key { pk: format!("acquirer#{account}"), sk: "acquirer".to_owned() }
    }

    /// Returns the settings for operators, with fingerprints instead of secrets.
    pub fn view(&self) -> AcquirerView<'_> {
        AcquirerView::new(self.connection, &self.settings)
    }
}

impl Row for AccountAcquirer {
    fn key(&self) -> Key {
        Self::key_of(&self.account)
    }
}

/// The row of an acquirer that an account has replaced or removed. Its credentials are needed to finish the
/// charges, refunds and returns of that bank, until an operator forgets the acquirer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(transparent)]
pub struct RetiredAcquirer(pub AccountAcquirer);

/// The start of the sort key of a retired acquirer.
pub(super) const RETIRED_PREFIX: &str = "retired#";

impl RetiredAcquirer {
    /// The primary key of the row of an account's retired acquirer.
    pub fn key_of(account: &AccountId, connection: ConnectionId) -> Key {
        Key { sk: format!("{RETIRED_PREFIX}{connection}"), ..AccountAcquirer::key_of(account) }
    }
}

impl Row for RetiredAcquirer {
    fn key(&self) -> Key {
        Self::key_of(&self.0.account, self.0.connection)
    }
}

/// The row that claims a Pix key for an account. Two accounts can't receive by one key, because a Pix without
/// a known txid belongs to the account of its key.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PixKeyClaim {
    /// The Pix key.
    pub key: PixKey,
    /// The account.
    pub account: AccountId,
    /// The account's bank connection.
    pub connection: ConnectionId,
    /// The version of the row, from 1.
    pub version: u64,
}

impl PixKeyClaim {
    /// The primary key of the claim of a Pix key.
    pub fn key_of(key: &PixKey) -> Key {
        Key { pk: format!("pix-key#{key}"), sk: "pix-key".to_owned() }
    }
}

impl Row for PixKeyClaim {
    fn key(&self) -> Key {
        Self::key_of(&self.key)
    }
}
