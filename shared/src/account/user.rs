//! The users of the dashboard: their rows and roles, and how operators change them.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use domain::audit::Operator;
use domain::ids::{AccountId, UserId};
use domain::row::{Indexes, Key, Row, sortable};
use domain::time::Timestamp;

use crate::account::password::PasswordHash;
use crate::audit;
use crate::random::RandomError;
use crate::store::{CommitOutcome, ListIndex, Plan, StoreError, Write};

const MAX_LISTED: usize = 1_000;

pub(crate) const USER: &str = "user";

/// The role decides what a user may do with the account's API keys.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE")]
pub enum Role {
    Owner,
    Admin,
    Member,
}

impl Role {
    pub fn manages_keys(self) -> bool {
        match self {
            Self::Owner | Self::Admin => true,
            Self::Member => false,
        }
    }

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A token is valid only while it has the generation in its user's row. Generations are random: with times, a
/// wrong clock could keep an old token valid; with counters, a user who is added again could have an old
/// generation again.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct TokenGeneration(u64);

impl TokenGeneration {
    pub fn new(random: [u8; 8]) -> Self {
        Self(u64::from_be_bytes(random))
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct User {
    /// A hash of the e-mail address, so that an e-mail address can belong to only one user.
    pub id: UserId,
    pub email: String,
    pub password_hash: PasswordHash,
    pub account: AccountId,
    pub role: Role,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// It changes when the password is reset.
    #[serde(rename = "tokens")]
    pub token_generation: TokenGeneration,
    /// Since when a log-in needs a code too. `None`: the second factor is off.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub second_factor_at: Option<Timestamp>,
    pub version: u64,
}

impl User {
    pub fn new(
        email: &str,
        password_hash: PasswordHash,
        account: AccountId,
        role: Role,
        tokens: TokenGeneration,
        now: Timestamp,
    ) -> Self {
        Self {
            id: UserId::from_email(email),
            email: email.to_lowercase(),
            password_hash,
            account,
            role,
            created_at: now,
            token_generation: tokens,
            second_factor_at: None,
            version: 1,
        }
    }

    pub fn key_of(id: &UserId) -> Key {
        Key { pk: format!("user#{id}"), sk: USER.to_owned() }
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

fn list_of(account: &AccountId) -> String {
    format!("users#{account}")
}

#[derive(Clone, Debug)]
pub enum UserChange {
    Role(Role),
    /// Makes all earlier tokens invalid.
    Password(PasswordHash, TokenGeneration),
    /// Makes all earlier tokens invalid.
    EndSessions(TokenGeneration),
    SecondFactorOff,
    /// Makes all tokens of the user invalid.
    Remove,
}

#[derive(Debug, thiserror::Error)]
pub enum UserError {
    #[error("no user of the account has this e-mail address")]
    NotFound,
    #[error("another user has this e-mail address")]
    EmailTaken,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Random(#[from] RandomError),
}

crate::store::repository!(Users);

impl Users {
    pub async fn find(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        self.store.get(&User::key_of(id)).await
    }

    /// At most 1,000 users, in the order in which they were added.
    pub async fn list(&self, account: &AccountId) -> Result<Vec<User>, StoreError> {
        let list = (ListIndex::All, &[list_of(account)][..]);
        let (mut users, _) = self.store.rows_after::<User>(list, ("0", "~"), None, MAX_LISTED).await?;
        users.reverse();
        Ok(users)
    }

    pub async fn add(&self, user: &User, operator: &Operator, now: Timestamp) -> Result<(), UserError> {
        let audit = audit::by_operator(operator, user.account, "user.add", user.id.to_string(), now)?;
        let audit = audit.with_details(format!("{} as {}", user.email, user.role.as_str()));
        let writes = vec![Write::insert(user)?, Write::audit(&audit)];
        match self.store.commit(writes).await? {
            CommitOutcome::Done => Ok(()),
            CommitOutcome::Conflict { .. } => Err(UserError::EmailTaken),
        }
    }

    /// Returns the changed row or, after a removal, the removed row.
    pub async fn change(
        &self,
        (account, email): (&AccountId, &str),
        change: &UserChange,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<User, UserError> {
        let id = UserId::from_email(email);
        let plan = |user: Option<User>| {
            let user = user.filter(|user| user.account == *account).ok_or(UserError::NotFound)?;
            let next = User { version: user.version.saturating_add(1), ..user.clone() };
            let (action, details, next, write) = match change {
                UserChange::Role(role) => {
                    let details = format!("{} became {}", user.role.as_str(), role.as_str());
                    let next = User { role: *role, ..next };
                    ("user.set-role", details, next.clone(), Write::replace(&next, user.version)?)
                }
                UserChange::Password(hash, tokens) => {
                    let next = User { password_hash: hash.clone(), token_generation: *tokens, ..next };
                    ("user.reset-password", String::new(), next.clone(), Write::replace(&next, user.version)?)
                }
                UserChange::EndSessions(tokens) => {
                    let next = User { token_generation: *tokens, ..next };
                    ("user.end-sessions", String::new(), next.clone(), Write::replace(&next, user.version)?)
                }
                UserChange::SecondFactorOff => {
                    let next = User { second_factor_at: None, ..next };
                    (
                        "user.second-factor-off",
                        String::new(),
                        next.clone(),
                        Write::replace(&next, user.version)?,
                    )
                }
                UserChange::Remove => {
                    let expected_version = i64::try_from(user.version).unwrap_or(i64::MAX);
                    let details = format!("was {}", user.role.as_str());
                    (
                        "user.remove",
                        details,
                        user.clone(),
                        Write::remove(user.key(), "version", expected_version),
                    )
                }
            };
            let audit = audit::by_operator(operator, *account, action, id.to_string(), now)?;
            let audit = audit.with_details(format!("{} {details}", user.email).trim_end().to_owned());
            Ok(Plan::Commit(vec![write, Write::audit(&audit)], next))
        };
        self.store.update("a user", &User::key_of(&id), plan).await
    }
}
