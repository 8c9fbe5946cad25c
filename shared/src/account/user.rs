//! People who may log in to the dashboard, and what they may do there.

use serde::{Deserialize, Serialize};

use super::password::PasswordHash;
use crate::ids::{AccountId, UserId};
use crate::store::{Indexes, Key, Row, Store, StoreError, sortable};
use crate::time::Timestamp;

/// What a person may do with an account's keys (contract: Authentication).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Role {
    /// May manage keys.
    Owner,
    /// May manage keys.
    Admin,
    /// May list keys.
    Member,
}

impl Role {
    /// Whether it may issue, rotate and revoke keys.
    pub fn manages_keys(self) -> bool {
        match self {
            Self::Owner | Self::Admin => true,
            Self::Member => false,
        }
    }

    /// As it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "OWNER",
            Self::Admin => "ADMIN",
            Self::Member => "MEMBER",
        }
    }
}

/// A person who may log in to the dashboard of one account.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct User {
    /// Follows from the e-mail address, so that it is unique.
    pub id: UserId,
    /// In lower case.
    pub email: String,
    /// What proves them.
    pub password_hash: PasswordHash,
    /// Whose dashboard.
    pub account: AccountId,
    /// What they may do.
    pub role: Role,
    /// When they were added.
    #[serde(with = "crate::time::millis")]
    pub created_at: Timestamp,
    /// No token from before counts: somebody who was removed and added again, or whose password was set anew, logs in
    /// again.
    #[serde(with = "crate::time::millis")]
    pub tokens_from: Timestamp,
    /// Counts the row's changes, from 1.
    pub version: u64,
}

impl User {
    /// Somebody new.
    pub fn new(
        email: &str,
        password_hash: PasswordHash,
        account: AccountId,
        role: Role,
        now: Timestamp,
    ) -> Self {
        Self {
            id: UserId::of_email(email),
            email: email.to_lowercase(),
            password_hash,
            account,
            role,
            created_at: now,
            tokens_from: now,
            version: 1,
        }
    }

    /// Where a person's row lives.
    pub fn key_of(id: &UserId) -> Key {
        Key { pk: format!("user#{id}"), sk: "user".to_owned() }
    }
}

impl Row for User {
    fn key(&self) -> Key {
        Self::key_of(&self.id)
    }

    fn indexes(&self) -> Indexes {
        let sort = format!("{}#{}", sortable(self.created_at), self.id);
        Indexes { list: Some((list_of(&self.account), sort)), ..Indexes::default() }
    }
}

/// The partition of the list index that names an account's people.
fn list_of(account: &AccountId) -> String {
    format!("users#{account}")
}

/// Everybody who may log in.
#[derive(Clone, Debug)]
pub struct Users {
    store: Store,
}

impl Users {
    /// People in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Reads a person's row.
    pub async fn find(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        self.store.get(&User::key_of(id)).await
    }
}
