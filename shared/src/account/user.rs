//! The users of the dashboard: their rows and roles, and how operators and members change them.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};

use domain::account::{Role, SalesEmails};
use domain::audit::{Action, Operator};
use domain::ids::{AccountId, UserId};
use domain::row::{Indexes, Key, Row, sortable};
use domain::time::Timestamp;

use crate::account::link::{INVITE, Invite};
use crate::account::password::PasswordHash;
use crate::audit;
use crate::language::Language;
use crate::store::{Item, ListIndex, Order, Plan, RowUpdate, StoreError, Write, from_item, text};

const MAX_LISTED: usize = 1_000;

pub(crate) const USER: &str = "user";

const EMAIL: &str = "email";

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

impl fmt::Display for TokenGeneration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
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
    /// Ends the links for a new password that were sent before. `None`: since the user was added.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub password_set_at: Option<Timestamp>,
    /// The user's choice; `None`: that of the browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
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
            password_set_at: None,
            language: None,
            version: 1,
        }
    }

    pub fn key_of(id: &UserId) -> Key {
        Key { pk: format!("user#{id}"), sk: USER.to_owned() }
    }

    /// Returns the next row and the writes of a change, with its audit row.
    pub(super) fn changed(
        &self,
        change: &UserChange,
        by: &By,
        now: Timestamp,
    ) -> Result<(Self, Vec<Write>), UserError> {
        let next = Self { version: self.version.saturating_add(1), ..self.clone() };
        let email = self.email.clone();
        let (action, next) = match change {
            UserChange::Role(role) => {
                (Action::SetRole { email, from: self.role, to: *role }, Self { role: *role, ..next })
            }
            UserChange::Password(hash, tokens) => {
                let (password_hash, password_set_at) = (hash.clone(), Some(now));
                let next = Self { password_hash, password_set_at, token_generation: *tokens, ..next };
                (Action::ResetPassword { email }, next)
            }
            UserChange::EndSessions(tokens) => {
                (Action::EndSessions { email }, Self { token_generation: *tokens, ..next })
            }
            UserChange::SecondFactorOff(tokens) => {
                let next = Self { second_factor_at: None, token_generation: *tokens, ..next };
                (Action::SecondFactorOff { email }, next)
            }
            UserChange::Remove => (Action::RemoveUser { email, role: self.role }, self.clone()),
        };
        let audit = audit::by_operator(&by.operator, self.account, action, self.id, now)?;
        let mut writes = vec![Write::audit(&audit)];
        if matches!(change, UserChange::Remove) {
            let version = i64::try_from(self.version).unwrap_or(i64::MAX);
            writes.push(Write::remove(self.key(), "version", version));
            writes.push(Write::remove_any(SalesEmails::key_of(&self.account, self.id)));
            // The audit goes on to name the user.
            let email = AttributeValue::S(self.email.clone());
            writes.push(Write::update(RowUpdate::of(removed_key_of(&self.id)).set(EMAIL, email)));
        } else {
            writes.push(Write::replace(&next, self.version)?);
        }
        Ok((next, writes))
    }
}

/// The row with the address of a removed user.
fn removed_key_of(id: &UserId) -> Key {
    Key { sk: "removed".to_owned(), ..User::key_of(id) }
}

impl Row for User {
    fn key(&self) -> Key {
        Self::key_of(&self.id)
    }

    fn indexes(&self) -> Indexes {
        list_entry(&self.account, self.created_at, &self.id.to_string())
    }
}

fn list_of(account: &AccountId) -> String {
    format!("users#{account}")
}

/// The place in the list of an account's users and invites, which one query reads.
pub(super) fn list_entry(account: &AccountId, created_at: Timestamp, id: &str) -> Indexes {
    let sort = format!("{}#{id}", sortable(created_at));
    Indexes { list: Some((list_of(account), sort)), ..Indexes::default() }
}

/// Who changes a user, why, and from where.
#[derive(Clone, Debug)]
pub struct By {
    pub operator: Operator,
    /// Only an operator of the service may leave an account without an OWNER.
    pub keeps_owner: bool,
}

impl By {
    pub fn user(operator: Operator) -> Self {
        Self { operator, keeps_owner: true }
    }
}

impl From<Operator> for By {
    fn from(operator: Operator) -> Self {
        Self { operator, keeps_owner: false }
    }
}

/// The users and open invites of an account, the oldest first.
#[derive(Debug, Default)]
pub struct Team {
    pub users: Vec<User>,
    pub invites: Vec<Invite>,
}

#[derive(Clone, Debug)]
pub enum UserChange {
    Role(Role),
    /// Makes all earlier tokens invalid.
    Password(PasswordHash, TokenGeneration),
    /// Makes all earlier tokens invalid.
    EndSessions(TokenGeneration),
    /// Makes all earlier tokens invalid.
    SecondFactorOff(TokenGeneration),
    /// Makes all tokens of the user invalid.
    Remove,
}

#[derive(Debug, thiserror::Error)]
pub enum UserError {
    #[error("no user of the account has this e-mail address")]
    NotFound,
    #[error("another user has this e-mail address")]
    EmailTaken,
    #[error("an account needs at least one user with the role OWNER")]
    LastOwner,
    #[error("the account has too many open invites; withdraw one first")]
    TooManyInvites,
    #[error("the link was used or withdrawn, or has expired")]
    LinkInvalid,
    #[error(transparent)]
    Store(#[from] StoreError),
}

crate::store::repository!(Users);

impl Users {
    pub async fn find(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        self.store.get(&User::key_of(id)).await
    }

    /// At most 1,000. The list is eventually consistent, the rows are not.
    pub async fn team(&self, account: &AccountId, now: Timestamp) -> Result<Team, StoreError> {
        let (index, partition) = (ListIndex::All, list_of(account));
        let listed = self.store.list(index, &partition, ("0", "~"), Order::OldestFirst, MAX_LISTED).await?;
        let keys: Vec<Key> = listed.into_iter().map(|entry| entry.key).collect();
        let mut team = Team::default();
        for row in self.store.batch_get(&keys).await? {
            match text(&row, "sk").as_deref() {
                Some(INVITE) => team.invites.push(from_item(row)?),
                _ => team.users.push(from_item(row)?),
            }
        }
        team.invites.retain(|invite| invite.expires_at > now);
        team.invites.sort_by_key(|invite| invite.created_at);
        team.users.sort_by_cached_key(|user| (user.created_at, user.id.to_string()));
        Ok(team)
    }

    /// The e-mail addresses of users, also of removed ones.
    pub async fn emails_of(&self, ids: &BTreeSet<UserId>) -> Result<HashMap<UserId, String>, StoreError> {
        let keys: Vec<Key> = ids.iter().flat_map(|id| [User::key_of(id), removed_key_of(id)]).collect();
        let rows = self.store.batch_get(&keys).await?;
        let named = |row: &Item| {
            let id = text(row, "pk")?.strip_prefix("user#")?.parse().ok()?;
            Some((id, text(row, EMAIL)?))
        };
        Ok(rows.iter().filter_map(named).collect())
    }

    pub async fn add(&self, user: &User, operator: &Operator, now: Timestamp) -> Result<(), UserError> {
        let action = Action::AddUser { email: user.email.clone(), role: user.role };
        let audit = audit::by_operator(operator, user.account, action, user.id, now)?;
        let writes = vec![Write::insert(user)?, Write::audit(&audit)];
        self.store.commit(writes).await?.done_or(UserError::EmailTaken)
    }

    /// Returns the changed row or, after a removal, the removed row.
    pub async fn change(
        &self,
        (account, id): (&AccountId, UserId),
        change: &UserChange,
        by: &By,
        now: Timestamp,
    ) -> Result<User, UserError> {
        let mut update = self.store.start_update("a user");
        loop {
            let user = self.find(&id).await?.filter(|user| user.account == *account);
            let user = user.ok_or(UserError::NotFound)?;
            if matches!(change, UserChange::Role(role) if *role == user.role) {
                return Ok(user);
            }
            let (next, mut writes) = user.changed(change, by, now)?;
            let stays_owner = next.role == Role::Owner && !matches!(change, UserChange::Remove);
            if user.role == Role::Owner && !stays_owner {
                let Team { users, invites } = self.team(account, now).await?;
                if by.keeps_owner {
                    let other = users.into_iter().find(|other| other.role == Role::Owner && other.id != id);
                    let other = other.ok_or(UserError::LastOwner)?;
                    // Of two owners who remove each other at the same time, one succeeds.
                    writes.push(Write::check(other.key(), other.version));
                }
                // Their links are invalid from now on. They must not be valid again if the user is made an owner again.
                let sent = invites.iter().filter(|invite| invite.by == id);
                writes.extend(sent.map(|invite| Write::remove_any(invite.key())));
            }
            if update.commit(writes).await? {
                return Ok(next);
            }
        }
    }

    /// Not audited, because it changes no rights.
    pub async fn set_language(&self, id: &UserId, language: Language) -> Result<(), UserError> {
        let plan = |user: Option<User>| {
            let user = user.ok_or(UserError::NotFound)?;
            let version = user.version;
            let next = User { language: Some(language), version: version.saturating_add(1), ..user };
            Ok(Plan::Commit(vec![Write::replace(&next, version)?], ()))
        };
        self.store.update("a user", &User::key_of(id), plan).await
    }

    /// The emails about sales to which a user is subscribed.
    pub async fn sales_emails(&self, account: &AccountId, id: UserId) -> Result<SalesEmails, StoreError> {
        let found = self.store.get(&SalesEmails::key_of(account, id)).await?;
        Ok(found.unwrap_or_else(|| SalesEmails::none(*account, id)))
    }

    /// Not audited, because it changes no rights.
    pub async fn set_sales_emails(
        &self,
        user: &User,
        (each_sale, summary): (bool, bool),
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let none = SalesEmails::none(user.account, user.id);
        let plan = |stored: Option<SalesEmails>| {
            let present = stored.as_ref().unwrap_or(&none);
            let next = present.chosen(each_sale, summary, now);
            let write = match &stored {
                Some(stored) if next.is_none() => {
                    let version = i64::try_from(stored.version).unwrap_or(i64::MAX);
                    Write::remove(stored.key(), "version", version)
                }
                Some(stored) => Write::replace(&next, stored.version)?,
                None if next.is_none() => return Ok(Plan::Finished(())),
                None => Write::insert(&next)?,
            };
            Ok(Plan::Commit(vec![write], ()))
        };
        self.store.update("the emails of a user", &none.key(), plan).await
    }

    /// The users of an account who get an email after each sale.
    pub async fn sale_subscribers(&self, account: &AccountId) -> Result<Vec<UserId>, StoreError> {
        let rows: Vec<SalesEmails> =
            self.store.rows_of_prefix(&SalesEmails::partition(account), "usr_").await?;
        Ok(rows.into_iter().filter(|row| row.each_sale).map(|row| row.user).collect())
    }

    /// Records that a user's summary is due. The stream sends it. If another caller changed the row meanwhile, the row's
    /// next time in the due index is that of the change.
    pub async fn summarise(&self, key: &Key, now: Timestamp) -> Result<(), StoreError> {
        let Some(row) = self.store.get::<SalesEmails>(key).await? else { return Ok(()) };
        let Some(next) = row.summarised(now) else { return Ok(()) };
        self.store.commit(vec![Write::replace(&next, row.version)?]).await.map(|_done_or_conflict| ())
    }
}
