//! An object of an acquirer that can't be used: an item of a bank's notification, an entry of a list. Its row waits
//! for an operator, so that the other objects are processed.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex;
use crate::ids::{AccountId, ConnectionId};
use crate::row::{Indexes, Key, Row, sortable};
use crate::time::Timestamp;

/// 90 days.
const KEPT_SECONDS: i64 = 90 * 86_400;

/// An object that an acquirer lists and that can't be used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OddObject {
    /// Its id at the acquirer, as far as it can be read.
    pub id: String,
    /// Why it can't be used, without personal data.
    pub why: String,
}

impl fmt::Display for OddObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, self.why)
    }
}

/// The longest id of an object that is kept, in characters.
const MAX_ID_CHARS: usize = 80;

impl OddObject {
    /// Creates an object. Of `id`, only letters, digits and `_` are kept.
    pub fn new(id: &str, why: impl Into<String>) -> Self {
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        Self { id: id.chars().filter(is_plain).take(MAX_ID_CHARS).collect(), why: why.into() }
    }
}

/// The row of an item that was set aside.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SetAsideItem {
    /// The account in whose path the notification arrived.
    pub account: AccountId,
    /// The bank connection of the account when the notification arrived.
    pub connection: ConnectionId,
    /// The SHA-256 of the item as the bank sent it, in hex. So a repeated item is one row.
    pub sha256: String,
    /// The item without personal data. Of a long item, only the beginning.
    pub item: String,
    /// When the notification arrived.
    #[serde(with = "domain::time::millis")]
    pub received_at: Timestamp,
}

impl SetAsideItem {
    /// Creates the row of an odd object of a connection.
    pub fn of_object(
        (connection, account): (ConnectionId, AccountId),
        odd: &OddObject,
        received_at: Timestamp,
    ) -> Self {
        let sha256 = hex::encode(Sha256::digest(format!("{connection}#{odd}")));
        Self { account, connection, sha256, item: odd.to_string(), received_at }
    }

    pub fn key_of(account: &AccountId, sha256: &str) -> Key {
        Key { pk: Self::partition_of(account), sk: sha256.to_owned() }
    }

    pub fn partition_of(account: &AccountId) -> String {
        format!("bad-notification#{account}")
    }

    /// Returns the partition of the items of all accounts in the `list` index.
    pub const ALL_ACCOUNTS_PARTITION: &str = "set-aside-items";
}

impl Row for SetAsideItem {
    fn key(&self) -> Key {
        Self::key_of(&self.account, &self.sha256)
    }

    fn indexes(&self) -> Indexes {
        let sort = format!("{}#{}#{}", sortable(self.received_at), self.account, self.sha256);
        Indexes { list: Some((Self::ALL_ACCOUNTS_PARTITION.to_owned(), sort)), ..Indexes::default() }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.received_at.plus_seconds(KEPT_SECONDS).ok()
    }
}
