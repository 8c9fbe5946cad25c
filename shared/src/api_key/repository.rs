//! Each issue, rotation or revocation of a key is one transaction with its audit row. A rotation swaps the
//! rows, so at any time exactly one of the two keys works.

use aws_sdk_dynamodb::types::AttributeValue;
use secrecy::SecretString;

use domain::account::Account;
use domain::audit::{Action, AuditedKey, Operator};
use domain::ids::{AccountId, ApiKeyId, Fingerprint, Mode};
use domain::time::Timestamp;

use super::request::NewApiKey;
use super::{ApiKey, ListedKey, generate};
use crate::request_log::{Recorder, RowCount};
use crate::store::{
    Item, Result, RowUpdate, Store, StoreError, UpdateOutcome, Write, from_item, unavailable,
};
use crate::{audit, random};

pub struct IssuedApiKey {
    pub key: ApiKey,
    /// Only the response contains it; it is never stored.
    pub cleartext: SecretString,
}

domain::text::hidden_debug!(IssuedApiKey);

#[derive(Debug, thiserror::Error)]
pub enum ApiKeyError {
    #[error("the account has no such API key")]
    NotFound,
    #[error("the account is suspended, and gets no live key")]
    Suspended,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Clones share one DynamoDB client.
#[derive(Clone, Debug)]
pub struct ApiKeys {
    store: Store,
    table: String,
    /// The function's rows in the log of requests.
    logged: RowCount,
}

impl ApiKeys {
    pub fn new(store: Store, table: impl Into<String>) -> Self {
        Self { store, table: table.into(), logged: RowCount::default() }
    }

    pub fn table(&self) -> &str {
        &self.table
    }

    /// Has no condition and no audit row. Only the seed of a local stack and tests use it.
    pub async fn put(&self, key: &ApiKey) -> Result<()> {
        let put = self.store.client().put_item().table_name(&self.table).set_item(Some(item(key)?));
        put.send().await.map_err(unavailable)?;
        Ok(())
    }

    /// Strongly consistent. A key of another account is [`ApiKeyError::NotFound`].
    pub async fn find(&self, account: &AccountId, id: Option<&ApiKeyId>) -> Result<ApiKey, ApiKeyError> {
        let Some(id) = id else { return Err(ApiKeyError::NotFound) };
        let get = self.store.client().get_item().table_name(&self.table);
        let get = get.set_key(Some(key_of(id.fingerprint().as_str()))).consistent_read(true);
        let Some(found) = get.send().await.map_err(unavailable)?.item else {
            return Err(ApiKeyError::NotFound);
        };
        let key: ApiKey = from_item(found)?;
        if key.account == *account { Ok(key) } else { Err(ApiKeyError::NotFound) }
    }

    /// Newest first. The index is eventually consistent: a new key may be missing, and a revoked one listed.
    pub async fn list(&self, account: &AccountId) -> Result<Vec<ListedKey>> {
        let query = self
            .store
            .client()
            .query()
            .table_name(&self.table)
            .index_name("account")
            .key_condition_expression("account = :account")
            .expression_attribute_values(":account", AttributeValue::S(account.to_string()))
            .scan_index_forward(false);
        let items: Result<Vec<Item>, _> = query.into_paginator().items().send().try_collect().await;
        let keys = items.map_err(unavailable)?.into_iter().map(serde_dynamo::from_item);
        Ok(keys.collect::<Result<_, _>>()?)
    }

    /// The transaction checks the version of the account's row, and is repeated if the settings changed
    /// meanwhile. So the new key's copy of the settings is current. [`ApiKeys::rotate`] does the same. A suspended
    /// account gets no live key, except by a rotation, which replaces a leaked one.
    pub async fn issue(
        &self,
        account: &AccountId,
        request: &NewApiKey,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<IssuedApiKey, ApiKeyError> {
        let mut update = self.store.start_update("an account");
        loop {
            let account = self.account(account).await?;
            if account.settings.suspended && request.mode == Mode::Live {
                return Err(ApiKeyError::Suspended);
            }
            let issued = new_key(&account, request, now)?;
            let action = Action::IssueKey(described(&issued.key));
            let audit = audit::by_operator(operator, account.id, action, issued.fingerprint(), now)?;
            let writes = vec![
                Write::insert_into(&self.table, item(&issued.key)?),
                Write::check(Account::key_of(&account.id), account.version),
                Write::audit(&audit),
            ];
            if update.commit(writes).await? {
                return Ok(issued);
            }
        }
    }

    /// Replaces a key by a new one of the same mode. `label`: `None` copies the old key's label. The
    /// transaction can conflict with the update that counts a request in the old row. Both are then retried a
    /// limited number of times. [`ApiKeyError::NotFound`] also when a concurrent request rotated or revoked the
    /// key first.
    pub async fn rotate(
        &self,
        account: &AccountId,
        id: Option<&ApiKeyId>,
        label: Option<String>,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<IssuedApiKey, ApiKeyError> {
        let mut update = self.store.start_update("an account");
        loop {
            let (old, account) = tokio::join!(self.find(account, id), self.account(account));
            let (old, account) = (old?, account?);
            let request =
                NewApiKey { label: label.clone().unwrap_or_else(|| old.label.clone()), mode: old.mode };
            let issued = new_key(&account, &request, now)?;
            let (replaced_by, key) = (issued.key.fingerprint.clone(), described(&issued.key));
            let action = Action::RotateKey { replaced_by, key };
            let audit = audit::by_operator(operator, account.id, action, old.fingerprint.as_str(), now)?;
            let writes = vec![
                Write::remove_from(&self.table, key_of(old.fingerprint.as_str())),
                Write::insert_into(&self.table, item(&issued.key)?),
                Write::check(Account::key_of(&account.id), account.version),
                Write::audit(&audit),
            ];
            if update.commit(writes).await? {
                return Ok(issued);
            }
        }
    }

    /// [`ApiKeyError::NotFound`] also when a concurrent request rotated or revoked the key first.
    pub async fn revoke(
        &self,
        account: &AccountId,
        id: Option<&ApiKeyId>,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<ApiKey, ApiKeyError> {
        let key = self.find(account, id).await?;
        let action = Action::RevokeKey(described(&key));
        let audit = audit::by_operator(operator, *account, action, key.fingerprint.as_str(), now)?;
        let writes =
            vec![Write::remove_from(&self.table, key_of(key.fingerprint.as_str())), Write::audit(&audit)];
        self.store.commit(writes).await?.done_or(ApiKeyError::NotFound)?;
        Ok(key)
    }

    async fn account(&self, id: &AccountId) -> Result<Account, ApiKeyError> {
        let account = self.store.get(&Account::key_of(id)).await?;
        account.ok_or_else(|| StoreError::Corrupt(format!("the account {id} has a user, but no row")).into())
    }

    pub(crate) fn recorder(&self, key: &ApiKey, now: Timestamp) -> Recorder {
        Recorder::new(&self.store, &self.logged, key, now)
    }

    /// Records the requests with a key that succeed, until a time. [`ApiKeyError::NotFound`] when the key was revoked.
    pub async fn record_until(&self, key: &Fingerprint, until: Timestamp) -> Result<(), ApiKeyError> {
        let until = AttributeValue::N(until.millis().to_string());
        let update = row(key.as_str()).set("record_until", until).when_exists();
        let outcome = update.run_in(&self.table, &self.store).await?;
        if let UpdateOutcome::Done(_) = outcome { Ok(()) } else { Err(ApiKeyError::NotFound) }
    }

    /// Changes nothing if the row has newer settings or the key was revoked.
    pub async fn copy_settings_to_key(&self, key: &Fingerprint, account: &Account) -> Result<()> {
        let settings: AttributeValue = serde_dynamo::to_attribute_value(&account.settings)?;
        let version = AttributeValue::N(account.version.to_string());
        let update = row(key.as_str()).set("settings", settings).set("settings_version", version.clone());
        let update = update.when_exists().when_absent_or("settings_version", "<=", version);
        update.run_in(&self.table, &self.store).await.map(|_copied_or_newer| ())
    }

    /// Adds to a counter, removes the counters `stale`, and returns the row. `None`: there is no such row, and it
    /// `must_exist`.
    pub(crate) async fn add_requests(
        &self,
        pk: &str,
        (counter, requests): (&str, u64),
        stale: &[String],
        must_exist: bool,
    ) -> Result<Option<Item>> {
        let update = row(pk).add(counter, AttributeValue::N(requests.to_string())).remove_all(stale);
        let update = if must_exist { update.when_exists() } else { update };
        Ok(match update.run_in(&self.table, &self.store).await? {
            UpdateOutcome::Done(row) => Some(row),
            UpdateOutcome::Refused(_) => None,
        })
    }

    pub(crate) async fn remove_counters(&self, pk: &str, counters: &[String]) -> Result<()> {
        let update = row(pk).remove_all(counters).when_exists();
        update.run_in(&self.table, &self.store).await.map(|_removed_or_revoked| ())
    }
}

fn row(pk: &str) -> RowUpdate {
    RowUpdate::of_item(key_of(pk))
}

fn new_key(account: &Account, request: &NewApiKey, now: Timestamp) -> Result<IssuedApiKey> {
    let cleartext = generate(request.mode, random::bytes()?);
    let key = ApiKey::new(&cleartext, account, request.mode, &request.label, now);
    Ok(IssuedApiKey { key, cleartext })
}

impl IssuedApiKey {
    fn fingerprint(&self) -> &str {
        self.key.fingerprint.as_str()
    }
}

fn key_of(pk: &str) -> Item {
    Item::from([("pk".to_owned(), AttributeValue::S(pk.to_owned()))])
}

fn item(key: &ApiKey) -> Result<Item> {
    Ok(serde_dynamo::to_item(key)?)
}

fn described(key: &ApiKey) -> AuditedKey {
    AuditedKey { mode: key.mode, prefix: key.prefix.clone(), label: key.label.clone() }
}
