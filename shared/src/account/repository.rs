//! Reads and writes accounts. Each change by an operator writes an audit row in the same transaction.

use serde::Serialize;

use domain::account::{ACCOUNTS, Account, AccountSettings, Contact};
use domain::audit::Operator;
use domain::hex;
use domain::ids::{AccountId, Scope};
use domain::row::Key;
use domain::shard::{ShardCount, ShardedScope};
use domain::time::Timestamp;

use crate::audit;
use crate::random::{self, RandomError};
use crate::store::{CommitOutcome, ListIndex, Order, Plan, Store, StoreError, Write};

/// The number of accounts that one query reads.
const PAGE: usize = 500;

/// Why an account can't be opened or changed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// No account has this id.
    #[error("there is no such account")]
    NotFound,
    /// The number of shards would become smaller.
    #[error(
        "the number of shards must be at least {present}, the account's present number: rows stay in their shards, so the number can only grow"
    )]
    FewerShards {
        /// The present number.
        present: u8,
    },
    /// DynamoDB failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system returned no random bytes for the id of an account or audit row.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The details of the audit row can't be serialised.
    #[error("an audit row can't be written: {0}")]
    Audit(#[from] serde_json::Error),
}

/// The repository of accounts.
#[derive(Clone, Debug)]
pub struct Accounts {
    store: Store,
}

impl Accounts {
    /// Creates the repository over `store`.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Reads an account. `None`: there is no account with this id.
    pub async fn find(&self, id: &AccountId) -> Result<Option<Account>, StoreError> {
        self.store.get(&Account::key_of(id)).await
    }

    /// Returns a scope with the number of shards in its account's row; one shard if the account has no row. A
    /// change of the settings writes this row before it writes the rows of the API keys.
    pub async fn sharded_scope(&self, scope: &Scope) -> Result<ShardedScope, StoreError> {
        let account = self.find(&scope.account).await?;
        let shards = account.map_or(ShardCount::ONE, |account| account.settings.shards.read);
        Ok(ShardedScope { scope: *scope, shards })
    }

    /// Opens an account and writes an audit row. The account's id is random, and so is the secret salt from
    /// which the ids of its charges are derived.
    pub async fn open(
        &self,
        settings: AccountSettings,
        contact: Contact,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Account, AccountError> {
        let id = AccountId::new(random::bytes()?);
        let salt = hex::encode(&random::bytes::<16>()?);
        let account = Account { id, settings, contact, salt, created_at: now, version: 1 };
        let audit = audit::by_operator(operator, id, "account.open", id.to_string(), now)?;
        let audit = audit.with_details(format!(
            "{}, contact {}",
            serde_json::to_string(&account.settings)?,
            serde_json::to_string(&account.contact)?
        ));
        match self.store.commit(vec![Write::insert(&account)?, Write::audit(&audit)]).await? {
            CommitOutcome::Done => Ok(account),
            CommitOutcome::Conflict { .. } => {
                Err(StoreError::Unavailable("the new account's random id is already in use".to_owned())
                    .into())
            }
        }
    }

    /// Reads all accounts, newest first.
    pub async fn all(&self) -> Result<Vec<Account>, StoreError> {
        let mut accounts = Vec::new();
        // A sort key begins with a digit, so all of them are between "0" and "~".
        let mut up_to = "~".to_owned();
        loop {
            let entries =
                self.store.list(ListIndex::All, ACCOUNTS, ("0", &up_to), Order::NewestFirst, PAGE).await?;
            let is_last = entries.len() < PAGE;
            // `up_to` is inclusive, so each page after the first begins with the last entry of the page
            // before it. That entry is dropped.
            let new = entries.into_iter().filter(|entry| entry.sort != up_to).collect::<Vec<_>>();
            let keys: Vec<Key> = new.iter().map(|entry| entry.key.clone()).collect();
            accounts.extend(self.store.get_in_order::<Account>(&keys).await?);
            match new.into_iter().next_back() {
                Some(entry) if !is_last => up_to = entry.sort,
                _ => return Ok(accounts),
            }
        }
    }

    /// Changes the settings in an account's row, and writes an audit row. `action` is the name of the
    /// change in the audit row, such as `account.set-fees`. The rows of the account's API keys contain
    /// copies of the settings, which this does not change; [`crate::services::change_account_settings`]
    /// changes the row and the copies.
    pub(crate) async fn change_settings(
        &self,
        id: &AccountId,
        action: &str,
        change: impl Fn(&mut AccountSettings),
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Account, AccountError> {
        self.change(id, action, |account| &mut account.settings, change, operator, now).await
    }

    /// Changes the contact that receives an account's emails, and writes an audit row. `action` is the name
    /// of the change in the audit row, such as `account.set-contact`.
    pub async fn change_contact(
        &self,
        id: &AccountId,
        action: &str,
        change: impl Fn(&mut Contact),
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Account, AccountError> {
        self.change(id, action, |account| &mut account.contact, change, operator, now).await
    }

    /// Changes one part of an account's row, its settings or its contact; `part_of` selects it. If `change`
    /// leaves this part as it was, nothing is written.
    async fn change<P: Clone + PartialEq + Serialize>(
        &self,
        id: &AccountId,
        action: &str,
        part_of: fn(&mut Account) -> &mut P,
        change: impl Fn(&mut P),
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Account, AccountError> {
        let plan = |account: Option<Account>| {
            let account = account.ok_or(AccountError::NotFound)?;
            let mut next = Account { version: account.version.saturating_add(1), ..account.clone() };
            let part = part_of(&mut next);
            let before = part.clone();
            change(part);
            if *part == before {
                return Ok(Plan::Finished(account));
            }
            let details =
                format!("{} became {}", serde_json::to_string(&before)?, serde_json::to_string(part)?);
            let audit = audit::by_operator(operator, *id, action, id.to_string(), now)?.with_details(details);
            let writes = vec![Write::replace(&next, account.version)?, Write::audit(&audit)];
            Ok(Plan::Commit(writes, next))
        };
        self.store.update("an account", &Account::key_of(id), plan).await
    }
}
