//! An item of a bank's notification that can't be parsed. Its row waits for an operator, so that the other
//! items are accepted.

use serde::{Deserialize, Serialize};

use crate::ids::{AccountId, ConnectionId};
use crate::row::{Indexes, Key, Row, sortable};
use crate::time::Timestamp;

/// 90 days.
const KEPT_SECONDS: i64 = 90 * 86_400;

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
    /// Returns the primary key of an account's item.
    pub fn key_of(account: &AccountId, sha256: &str) -> Key {
        Key { pk: Self::partition_of(account), sk: sha256.to_owned() }
    }

    /// Returns the partition of an account's items.
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
