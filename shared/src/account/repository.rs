//! Reads and writes accounts. Each change by an operator writes an audit row in the same transaction.

use serde::Serialize;

use domain::account::{ACCOUNTS, Account, AccountSettings, Brand, Contact};
use domain::audit::{Action, Changed, Operator};
use domain::hex;
use domain::ids::{AccountId, Scope};
use domain::shard::{ShardCount, ShardedScope};
use domain::time::Timestamp;

use crate::store::{ListIndex, PageRange, Plan, StoreError, Write};
use crate::{audit, random};

#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("there is no such account")]
    NotFound,
    #[error(
        "the number of shards must be at least {present}, the account's present number: rows stay in their shards, so the number can only grow"
    )]
    FewerShards { present: u8 },
    #[error(
        "the basis points of the acquirer's and the platform's fee must be at most 10000 together, the whole amount"
    )]
    FeesAboveAmount,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("an audit row can't be written: {0}")]
    Audit(#[from] serde_json::Error),
}

crate::store::repository!(Accounts);

impl Accounts {
    pub async fn find(&self, id: &AccountId) -> Result<Option<Account>, StoreError> {
        self.store.get(&Account::key_of(id)).await
    }

    /// An account without a row has one shard. A change of the settings writes this row before those of the API
    /// keys.
    pub async fn sharded_scope(&self, scope: &Scope) -> Result<ShardedScope, StoreError> {
        let account = self.find(&scope.account).await?;
        let shards = account.map_or(ShardCount::ONE, |account| account.settings.shards.read);
        Ok(ShardedScope { scope: *scope, shards })
    }

    pub async fn open(
        &self,
        settings: AccountSettings,
        contact: Contact,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Account, AccountError> {
        let id = AccountId::new(random::bytes().map_err(StoreError::from)?);
        let salt = hex::encode(random::bytes::<16>().map_err(StoreError::from)?);
        let account = Account {
            id,
            settings,
            contact,
            document: None,
            brand: Brand::default(),
            requires_second_factor: false,
            salt,
            created_at: now,
            version: 1,
        };
        let action = Action::OpenAccount {
            settings: serde_json::to_value(&account.settings)?,
            contact: serde_json::to_value(&account.contact)?,
        };
        let audit = audit::by_operator(operator, id, action, id, now)?;
        let taken = StoreError::Unavailable("the new account's random id is already in use".to_owned());
        self.store.commit(vec![Write::insert(&account)?, Write::audit(&audit)]).await?.done_or(taken)?;
        Ok(account)
    }

    /// The newest first.
    pub async fn all(&self) -> Result<Vec<Account>, StoreError> {
        let list = (ListIndex::All, &[ACCOUNTS.to_owned()][..]);
        Ok(self.store.rows_page(list, PageRange::newest_first(("0", "~"), None, usize::MAX)).await?.0)
    }

    /// Changes a part of an account's row. If `change` leaves the part as it was, nothing is written. `action` is that of
    /// the audit row, such as [`Action::SetBrand`]. The settings have copies in the rows of API keys, which
    /// `services::change_account_settings` also changes.
    pub async fn change<P: Clone + PartialEq + Serialize>(
        &self,
        id: &AccountId,
        action: fn(Changed) -> Action,
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
            let changed =
                Changed { before: serde_json::to_value(&before)?, after: serde_json::to_value(part)? };
            if !next.settings.terms.are_within_amount() {
                return Err(AccountError::FeesAboveAmount);
            }
            let audit = audit::by_operator(operator, *id, action(changed), id, now)?;
            let writes = vec![Write::replace(&next, account.version)?, Write::audit(&audit)];
            Ok(Plan::Commit(writes, next))
        };
        self.store.update("an account", &Account::key_of(id), plan).await
    }
}
