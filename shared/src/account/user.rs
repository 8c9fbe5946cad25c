//! People who may log in to the dashboard, and what they may do there.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use domain::audit::Operator;
use domain::ids::{AccountId, UserId};
use domain::row::{Indexes, Key, Row, sortable};
use domain::time::Timestamp;

use crate::account::password::PasswordHash;
use crate::audit;
use crate::random::RandomError;
use crate::store::{Committed, ListIndex, Order, Plan, Store, StoreError, Write};

/// People of one account who are listed.
const MAX_LISTED: usize = 1_000;

/// What a person may do with an account's keys (contract: Authentication).
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE")]
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
        self.into()
    }
}

/// What a person's tokens are issued under, and end with. It is random, not a time or a count: nobody's clock decides which
/// tokens are older, and somebody who was removed and added again has another one.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct TokenGeneration(u64);

impl TokenGeneration {
    /// A new one, from randomness.
    pub fn new(random: [u8; 8]) -> Self {
        Self(u64::from_be_bytes(random))
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
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// Only tokens of this generation count: another begins when they are added and when their password is set anew.
    pub tokens: TokenGeneration,
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
        tokens: TokenGeneration,
        now: Timestamp,
    ) -> Self {
        Self {
            id: UserId::of_email(email),
            email: email.to_lowercase(),
            password_hash,
            account,
            role,
            created_at: now,
            tokens,
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

/// What an operator may change of a person.
#[derive(Clone, Debug)]
pub enum UserChange {
    /// What they may do.
    Role(Role),
    /// What proves them, and what their tokens are issued under from then on: every one from before ends.
    Password(PasswordHash, TokenGeneration),
    /// They may log in no more, and every token of theirs ends.
    Remove,
}

/// Why a user is not added or changed.
#[derive(Debug, thiserror::Error)]
pub enum UserRefused {
    /// The account has no user of that e-mail address.
    #[error("nobody of the account has that e-mail address")]
    NotFound,
    /// A user of this or another account has that address.
    #[error("somebody has that e-mail address already")]
    EmailTaken,
    /// DynamoDB.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The audit row has no id.
    #[error(transparent)]
    Random(#[from] RandomError),
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

    /// The people of an account, in the order in which they were added.
    pub async fn of_account(&self, account: &AccountId) -> Result<Vec<User>, StoreError> {
        let all = ("0", "~");
        let list = list_of(account);
        let entries = self.store.list(ListIndex::All, &list, all, Order::OldestFirst, MAX_LISTED).await?;
        let keys: Vec<Key> = entries.into_iter().map(|entry| entry.key).collect();
        self.store.get_in_order(&keys).await
    }

    /// Adds somebody, with an audit row.
    pub async fn add(&self, user: &User, operator: &Operator, now: Timestamp) -> Result<(), UserRefused> {
        let audit = audit::by_operator(operator, user.account, "user.add", user.id.to_string(), now)?;
        let audit = audit.with(format!("{} as {}", user.email, user.role.as_str()));
        let writes = vec![Write::insert(user)?, Write::insert(&audit)?];
        match self.store.commit(writes).await? {
            Committed::Done => Ok(()),
            Committed::Overtaken { .. } => Err(UserRefused::EmailTaken),
        }
    }

    /// Changes somebody of an account, with an audit row, and gives their row as it was left.
    pub async fn change(
        &self,
        (account, email): (&AccountId, &str),
        change: &UserChange,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<User, UserRefused> {
        let id = UserId::of_email(email);
        let plan = |user: Option<User>| {
            let user = user.filter(|user| user.account == *account).ok_or(UserRefused::NotFound)?;
            let next = User { version: user.version.saturating_add(1), ..user.clone() };
            let (action, details, next, write) = match change {
                UserChange::Role(role) => {
                    let details = format!("{} became {}", user.role.as_str(), role.as_str());
                    let next = User { role: *role, ..next };
                    ("user.set-role", details, next.clone(), Write::replace(&next, user.version)?)
                }
                UserChange::Password(hash, tokens) => {
                    let next = User { password_hash: hash.clone(), tokens: *tokens, ..next };
                    ("user.reset-password", String::new(), next.clone(), Write::replace(&next, user.version)?)
                }
                UserChange::Remove => {
                    let seen = i64::try_from(user.version).unwrap_or(i64::MAX);
                    let details = format!("was {}", user.role.as_str());
                    ("user.remove", details, user.clone(), Write::remove(user.key(), "version", seen))
                }
            };
            let audit = audit::by_operator(operator, *account, action, id.to_string(), now)?;
            let audit = audit.with(format!("{} {details}", user.email).trim_end().to_owned());
            Ok(Plan::Commit(vec![write, Write::insert(&audit)?], next))
        };
        self.store.update("a user", &User::key_of(&id), plan).await
    }
}
