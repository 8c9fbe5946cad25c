//! Reads and writes the configuration of the accounts' acquirers. A change writes the rows of both tables, the
//! claim of the Pix key, the sweep of the connection and the audit row in one transaction.

use std::collections::HashMap;

use secrecy::SecretString;

use acquirer_kit::setting::{ConnectionName, InvalidSetting, Secret};
use api_pix::{ClockOffsets, PixSettings};
use domain::acquirer::ConnectionSweep;
use domain::audit::{Action, Changed, Operator};
use domain::ids::{AccountId, ConnectionId};
use domain::payment_method::PaymentMethod;
use domain::pix_key::PixKey;
use domain::row::Row;
use domain::time::Timestamp;
use serde_json::Value;

use super::callback::{Callback, CallbackChoice, CallbackToken, random_secret};
use super::live_charges::LiveChargesStop;
use super::rows::{AccountAcquirer, AcquirerSecrets, ConfiguredAcquirer, MedSecret, PixKeyClaim};
use super::settings::AcquirerSettings;
use crate::registry::Credentials;
use shared::audit;
use shared::config::{ConfigError, Vars, required};
use shared::store::{Aws, Item, Result, Store, StoreError, Write, from_item, key_of_item};

/// The name of the updated object in errors.
const SUBJECT: &str = "an account's acquirer";

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("the Pix key is claimed by the account {0}; a Pix key belongs to one account")]
    KeyTaken(AccountId),
    #[error("the account {0} has no acquirer")]
    NoAcquirer(AccountId),
    #[error(
        "the account {0} has no current acquirer with the name {1}; `accounts show-acquirer` lists the names"
    )]
    NotNamed(AccountId, ConnectionName),
    #[error("the account {0} has several connections; name one with --name")]
    Several(AccountId),
    #[error("the account {0} has no bank of Pix; name another connection with --name")]
    NoPix(AccountId),
    #[error("the connection {0} also takes other methods; remove it first, or name it with --name")]
    MethodTaken(ConnectionName),
    /// The account never used the connection, still uses it, or has forgotten it.
    #[error("the account {0} has no retired acquirer with the connection {1}")]
    NotRetired(AccountId, ConnectionId),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Clone, Debug, PartialEq)]
pub struct AcquirerChoice {
    pub settings: AcquirerSettings,
    pub credentials: Credentials,
    pub callback: CallbackChoice,
}

impl AcquirerChoice {
    /// Checks the values that depend on each other.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        self.settings.check()?;
        self.credentials.of_kind().check()?;
        self.callback.check()
    }
}

impl ConfiguredAcquirer {
    pub fn choice(&self) -> AcquirerChoice {
        AcquirerChoice {
            settings: self.acquirer.settings.clone(),
            credentials: self.credentials.clone(),
            callback: self.acquirer.callback.choice.clone(),
        }
    }

    /// Whether the bank has the URL of a token that remains valid: bank, client, Pix key and base URL of
    /// notifications stay the same.
    fn has_callback_url(&self, choice: &AcquirerChoice) -> bool {
        let registrant = |choice: &AcquirerChoice| {
            let AcquirerSettings { base_url, kind, .. } = &choice.settings;
            (base_url.clone(), kind.of_kind().receiver(), choice.callback.base_url.clone())
        };
        registrant(&self.choice()) == registrant(choice)
    }
}

#[derive(Debug)]
pub struct AcquirerChange {
    pub current: ConfiguredAcquirer,
    /// The URL for notifications with a new token, to be shown once and registered at the bank. `None`: the
    /// earlier tokens are still valid for this connection, key and base URL.
    pub new_callback_url: Option<SecretString>,
    /// The connections whose methods this one took over.
    pub replaced: Vec<ConfiguredAcquirer>,
}

#[derive(Clone, Debug)]
pub struct AccountAcquirers {
    pub(super) state: Store,
    pub(super) secrets: Store,
}

impl AccountAcquirers {
    pub fn new(state: Store, secrets: Store) -> Self {
        Self { state, secrets }
    }

    /// Reads `SECRETS_TABLE_NAME`.
    /// Errors: When it is not set.
    pub fn from_vars(aws: &Aws, state: Store, var: Vars<'_>) -> Result<Self, ConfigError> {
        Ok(Self { secrets: Store::new(aws.dynamodb(), required(var, "SECRETS_TABLE_NAME")?), state })
    }

    /// Reads a connection of an account, and whether new live charges are stopped, in one request.
    pub(crate) async fn find_with_stop(
        &self,
        account: &AccountId,
        connection: ConnectionId,
    ) -> Result<(Option<ConfiguredAcquirer>, bool)> {
        let (key, stop) = (AccountAcquirer::key_of(account, connection), LiveChargesStop::the_key());
        let keys = [key.clone(), stop.clone()];
        let (secrets, acquirer) = self.secrets.batch_get_with(&keys, (&self.state, &key)).await?;
        let is_stopped = secrets.iter().any(|item| key_of_item(item).as_ref() == Some(&stop));
        let of_acquirer = secrets.into_iter().find(|item| key_of_item(item).as_ref() == Some(&key));
        Ok((acquirer.map(|acquirer| joined(acquirer, of_acquirer)).transpose()?, is_stopped))
    }

    /// Reads the connections of an account that take new charges, without their credentials.
    pub(crate) async fn current_of(&self, account: &AccountId) -> Result<Vec<AccountAcquirer>> {
        let acquirers = self.state.partition(&AccountAcquirer::partition(account)).await?;
        let acquirers: Result<Vec<AccountAcquirer>> = acquirers.into_iter().map(from_item).collect();
        Ok(acquirers?.into_iter().filter(|acquirer| !acquirer.is_retired).collect())
    }

    /// Reads the connection that takes an account's new charges by a method.
    pub async fn current(
        &self,
        account: &AccountId,
        method: PaymentMethod,
    ) -> Result<Option<ConfiguredAcquirer>> {
        let takes_it = |each: &ConfiguredAcquirer| {
            !each.acquirer.is_retired && each.acquirer.settings.methods().contains(&method)
        };
        Ok(self.all(account).await?.into_iter().find(takes_it))
    }

    /// Reads the connection of an account that has this name, and is not retired. Without a name, the only one, or the
    /// bank of Pix.
    pub async fn named(
        &self,
        account: AccountId,
        name: Option<&ConnectionName>,
    ) -> Result<ConfiguredAcquirer, SettingsError> {
        let mut current = self.all(&account).await?;
        current.retain(|each| !each.acquirer.is_retired);
        let none = match name {
            _ if current.is_empty() => SettingsError::NoAcquirer(account),
            Some(name) => SettingsError::NotNamed(account, name.clone()),
            None => SettingsError::NoPix(account),
        };
        match name {
            Some(name) => current.retain(|each| each.acquirer.settings.name == *name),
            None if current.len() > 1 => current.retain(|each| each.acquirer.settings.pix().is_some()),
            None => {}
        }
        let found = current.pop().ok_or(none)?;
        if current.is_empty() { Ok(found) } else { Err(SettingsError::Several(account)) }
    }

    /// Reads all connections of an account: those that take new charges first, then in the order of the methods that each
    /// takes.
    pub async fn all(&self, account: &AccountId) -> Result<Vec<ConfiguredAcquirer>> {
        let partition = AccountAcquirer::partition(account);
        let (acquirers, secrets) = Box::pin(async {
            tokio::try_join!(self.state.partition(&partition), self.secrets.partition(&partition))
        })
        .await?;
        let secrets = secrets.into_iter().filter_map(|item| Some((key_of_item(&item)?, item)));
        let mut secrets: HashMap<_, _> = secrets.collect();
        let with_secrets = |item: Item| {
            let of_acquirer = key_of_item(&item).and_then(|key| secrets.remove(&key));
            joined(item, of_acquirer)
        };
        let all: Result<Vec<ConfiguredAcquirer>> = acquirers.into_iter().map(with_secrets).collect();
        let mut all = all?;
        all.sort_by_cached_key(|each| (each.acquirer.is_retired, each.acquirer.settings.methods().to_vec()));
        Ok(all)
    }

    /// Reads the sweeps of an account's connections.
    pub async fn sweeps(&self, account: &AccountId) -> Result<Vec<ConnectionSweep>> {
        let items = self.state.partition(&AccountAcquirer::partition(account)).await?;
        let acquirers: Result<Vec<AccountAcquirer>> = items.into_iter().map(from_item).collect();
        let key = |each: &AccountAcquirer| ConnectionSweep::key_of(each.connection);
        self.state.get_in_order(&acquirers?.iter().map(key).collect::<Vec<_>>()).await
    }

    /// Whether an account uses a connection, or did so before.
    pub async fn uses(&self, account: &AccountId, connection: ConnectionId) -> Result<bool> {
        // The functions' roles permit `BatchGetItem` on these rows, as `find_with_stop` needs, and not `GetItem`.
        let key = AccountAcquirer::key_of(account, connection);
        let found: Vec<AccountAcquirer> = self.state.get_in_order(&[key]).await?;
        Ok(!found.is_empty())
    }

    /// Reads the acquirer whose bank presents a token, and reads no credentials.
    pub async fn of_token(&self, account: &AccountId, token: &str) -> Result<Option<AccountAcquirer>> {
        for item in self.state.partition(&AccountAcquirer::partition(account)).await? {
            let acquirer: AccountAcquirer = from_item(item)?;
            if acquirer.callback.accepts_token(token) {
                return Ok(Some(acquirer));
            }
        }
        Ok(None)
    }

    /// Reads the secrets that sign the notices of a connection, the newest first.
    pub async fn signing_secrets(
        &self,
        account: &AccountId,
        connection: ConnectionId,
    ) -> Result<Vec<SecretString>> {
        let found = self.signing_row(account, connection).await?;
        let secrets = found.into_iter().flat_map(|found| [Some(found.secret), found.former]);
        Ok(secrets.flatten().map(|secret| secret.as_secret().clone()).collect())
    }

    /// Stores the URL for notifications that was registered at an acquirer, and the secret of their signatures. The secret
    /// before stays valid too. Returns the id of the URL that was registered before, which the caller removes.
    pub async fn set_registered(
        &self,
        account: AccountId,
        name: &ConnectionName,
        (endpoint, secret): (&str, &SecretString),
        now: Timestamp,
    ) -> Result<Option<String>, SettingsError> {
        let mut update = self.state.start_update(SUBJECT);
        loop {
            let current = self.named(account, Some(name)).await?;
            let mut next = current.clone();
            let stored = next.acquirer.settings.kind.of_kind_mut().webhook_endpoint();
            let before = stored.ok_or(SettingsError::NoAcquirer(account))?.replace(endpoint.to_owned());
            next.acquirer = next.acquirer.next_version(now);
            let connection = current.acquirer.connection;
            let stored = self.signing_row(&account, connection).await?;
            let former = stored.as_ref().map(|stored| stored.secret.clone()).filter(|_| before.is_some());
            let secrets = (Secret::unchecked(secret.clone()), former);
            let mut writes = self.put(&next, Some(&current))?;
            writes.push(self.put_signing_row((account, connection), secrets, stored.as_ref())?);
            if update.commit(writes).await? {
                return Ok(before.filter(|before| before != endpoint));
            }
        }
    }

    /// Reads the claim of a Pix key. `None`: no account has the key.
    pub async fn claim_of_key(&self, key: &PixKey) -> Result<Option<PixKeyClaim>> {
        self.state.get(&PixKeyClaim::key_of(key)).await
    }

    /// Sets a connection of an account. If nothing changes, nothing is written. `by` is `None` for the seeded account of
    /// a local stack, which no operator set. The caller must check that the account exists.
    ///
    /// The name in the settings selects the connection: a current one, a retired one, or a new one. Another acquirer,
    /// client, Pix key or callback base URL gets a new callback token. The newest earlier token of the connection
    /// remains valid, because the acquirer may still send notifications with it. A connection whose methods this one
    /// takes over is retired.
    pub async fn set(
        &self,
        account: AccountId,
        choice: &AcquirerChoice,
        by: Option<&Operator>,
        now: Timestamp,
    ) -> Result<AcquirerChange, SettingsError> {
        let (token, stored_token) = CallbackToken::create(now)?;
        let mut update = self.state.start_update(SUBJECT);
        loop {
            let all = self.all(&account).await?;
            let known = all.iter().find(|each| each.acquirer.settings.name == choice.settings.name);
            let same = known.filter(|known| !known.acquirer.is_retired);
            let replaced = replaced(&all, &choice.settings)?;
            let connection =
                known.map_or_else(|| choice.settings.new_connection(), |known| known.acquirer.connection);
            let has_callback_url = same.is_some_and(|same| same.has_callback_url(choice));
            let tokens = known.map(|known| known.acquirer.callback.tokens.clone()).unwrap_or_default();
            let mut callback = Callback { choice: choice.callback.clone(), tokens };
            if !has_callback_url {
                callback = callback.with_token(stored_token.clone(), None);
            }
            let new_callback_url = (!has_callback_url).then(|| callback.url(account, &token));
            let next = ConfiguredAcquirer {
                acquirer: AccountAcquirer {
                    account,
                    connection,
                    settings: choice.settings.clone().knowing(known.map(|known| &known.acquirer.settings)),
                    callback,
                    is_retired: false,
                    updated_at: now,
                    version: known.map_or(1, |known| known.acquirer.version.saturating_add(1)),
                },
                credentials: choice.credentials.clone(),
            };
            if let Some(same) = same
                && (&same.acquirer.settings, &same.acquirer.callback, &same.credentials)
                    == (&next.acquirer.settings, &next.acquirer.callback, &next.credentials)
            {
                let replaced = Vec::new();
                return Ok(AcquirerChange { current: same.clone(), new_callback_url, replaced });
            }
            let mut writes = self.put(&next, known)?;
            for left in &replaced {
                writes.extend(self.put(&retired(left, now), Some(left))?);
            }
            if same.is_none() {
                // The adapter for MED notices keeps the account's secret when the connection changes.
                let last =
                    all.iter().max_by_key(|each| (!each.acquirer.is_retired, each.acquirer.updated_at));
                let last = match last {
                    Some(last) => self.signing_row(&account, last.acquirer.connection).await?,
                    None => None,
                };
                let secret = match last {
                    Some(last) => last.secret,
                    None => Secret::unchecked(random_secret()?),
                };
                let own = self.signing_row(&account, connection).await?;
                writes.push(self.put_signing_row((account, connection), (secret, None), own.as_ref())?);
            }
            // A retired connection that returns with another Pix key gives up the former key.
            let from = known.map(|known| &known.acquirer);
            writes.extend(self.binding_writes(account, from, Some(&next.acquirer), now).await?);
            if let Some(by) = by {
                let before = same.or(replaced.first().copied());
                let before = before.map_or(Value::Null, ConfiguredAcquirer::audit_view);
                let action = Action::SetAcquirer(Changed { before, after: next.audit_view() });
                writes.push(audit_write(by, account, action, now)?);
            }
            if update.commit(writes).await? {
                let replaced = replaced.into_iter().cloned().collect();
                return Ok(AcquirerChange { current: next, new_callback_url, replaced });
            }
        }
    }

    /// Removes a connection of an account, which then takes no new charges by its methods. Returns the removed one.
    /// Without a name, only the bank of Pix, so that a repeated call does not remove another connection.
    ///
    /// It becomes a retired one: its credentials, its claim of the Pix key, its place in the sweep and
    /// its callback settings remain, so that its charges, refunds and returns end. [`Self::forget`] removes
    /// them.
    pub async fn remove(
        &self,
        account: AccountId,
        name: Option<&ConnectionName>,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<ConfiguredAcquirer, SettingsError> {
        let mut update = self.state.start_update(SUBJECT);
        loop {
            let current = self.named(account, name).await?;
            if name.is_none() && current.acquirer.settings.pix().is_none() {
                return Err(SettingsError::NoPix(account));
            }
            let mut writes = self.put(&retired(&current, now), Some(&current))?;
            let action = Action::RemoveAcquirer(current.audit_view());
            writes.push(audit_write(operator, account, action, now)?);
            if update.commit(writes).await? {
                return Ok(current);
            }
        }
    }

    /// Removes a retired acquirer with its claim of the Pix key and its place in the sweep. Returns the removed
    /// one. Afterwards the account's charges, refunds and returns at this acquirer can't end.
    pub async fn forget(
        &self,
        account: AccountId,
        connection: ConnectionId,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<ConfiguredAcquirer, SettingsError> {
        let mut update = self.state.start_update(SUBJECT);
        loop {
            let retired = self.retired(account, connection).await?;
            let mut writes = self.binding_writes(account, Some(&retired.acquirer), None, now).await?;
            writes.extend(self.delete(&retired));
            let secret = Write::remove_any(MedSecret::key_of(&account, connection));
            writes.push(secret.in_table(self.secrets.table()));
            let action = Action::ForgetAcquirer(retired.audit_view());
            writes.push(audit_write(operator, account, action, now)?);
            if update.commit(writes).await? {
                return Ok(retired);
            }
        }
    }

    /// Reads an acquirer that the account replaced or removed.
    pub async fn retired(
        &self,
        account: AccountId,
        connection: ConnectionId,
    ) -> Result<ConfiguredAcquirer, SettingsError> {
        let (found, _) = self.find_with_stop(&account, connection).await?;
        let found = found.filter(|found| found.acquirer.is_retired);
        found.ok_or(SettingsError::NotRetired(account, connection))
    }

    /// Creates another callback token. Returns the acquirer, and the URL with the new token. Of the earlier tokens,
    /// the one with the hash `in_use` remains valid, or else the newest.
    pub async fn rotate_callback_token(
        &self,
        account: AccountId,
        name: Option<&ConnectionName>,
        in_use: Option<&str>,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<(AccountAcquirer, SecretString), SettingsError> {
        let (token, stored_token) = CallbackToken::create(now)?;
        let rotated = self.change((account, name), Action::RotateCallbackToken, operator, now, |acquirer| {
            acquirer.callback = acquirer.callback.with_token(stored_token.clone(), in_use);
        });
        let acquirer = rotated.await?;
        let url = acquirer.callback.url(account, &token);
        Ok((acquirer, url))
    }

    pub async fn drop_old_callback_tokens(
        &self,
        account: AccountId,
        name: Option<&ConnectionName>,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<AccountAcquirer, SettingsError> {
        self.change((account, name), Action::DropOldCallbackTokens, operator, now, |acquirer| {
            acquirer.callback = acquirer.callback.with_newest_token();
        })
        .await
    }

    /// Stores whether the bank's payer filter excludes other payers.
    pub async fn set_filter_verified(
        &self,
        account: AccountId,
        checked: &ConnectionName,
        filter_verified: bool,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<(), SettingsError> {
        let changed =
            self.change((account, Some(checked)), Action::CheckAcquirer, operator, now, |acquirer| {
                if let Some(pix) = acquirer.settings.pix_mut() {
                    pix.filter_verified = filter_verified;
                }
            });
        changed.await.map(drop)
    }

    /// Changes a connection, with an audit row. Nothing is written if `change` changes nothing.
    async fn change(
        &self,
        (account, name): (AccountId, Option<&ConnectionName>),
        action: fn(Value) -> Action,
        operator: &Operator,
        now: Timestamp,
        change: impl Fn(&mut AccountAcquirer),
    ) -> Result<AccountAcquirer, SettingsError> {
        let mut update = self.state.start_update(SUBJECT);
        loop {
            let current = self.named(account, name).await?;
            let mut next = current.clone();
            change(&mut next.acquirer);
            if next == current {
                return Ok(current.acquirer);
            }
            next.acquirer = next.acquirer.next_version(now);
            let mut writes = self.put(&next, Some(&current))?;
            writes.push(audit_write(operator, account, action(next.audit_view()), now)?);
            if update.commit(writes).await? {
                return Ok(next.acquirer);
            }
        }
    }

    /// Replaces the secret that signs the MED notices of a connection. Returns the new secret.
    pub async fn rotate_med_secret(
        &self,
        account: AccountId,
        name: Option<&ConnectionName>,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<SecretString, SettingsError> {
        let secret = Secret::unchecked(random_secret()?);
        let mut update = self.state.start_update(SUBJECT);
        loop {
            let connection = self.named(account, name).await?.acquirer.connection;
            let found = self.signing_row(&account, connection).await?;
            let found = found.ok_or(SettingsError::NoAcquirer(account))?;
            let secrets = (secret.clone(), found.former.clone());
            let replace = self.put_signing_row((account, connection), secrets, Some(&found))?;
            let audit = audit_write(operator, account, Action::RotateMedSecret(connection), now)?;
            if update.commit(vec![replace, audit]).await? {
                return Ok(secret.as_secret().clone());
            }
        }
    }

    async fn signing_row(&self, account: &AccountId, connection: ConnectionId) -> Result<Option<MedSecret>> {
        self.secrets.get(&MedSecret::key_of(account, connection)).await
    }

    /// Returns the write that replaces the secrets that sign the notices of a connection, or inserts them.
    fn put_signing_row(
        &self,
        (account, connection): (AccountId, ConnectionId),
        (secret, former): (Secret, Option<Secret>),
        before: Option<&MedSecret>,
    ) -> Result<Write> {
        let before = before.map(|before| before.version);
        let version = before.unwrap_or(0).saturating_add(1);
        let next = MedSecret { account, connection, secret, former, version };
        Ok(Write::put(&next, before)?.in_table(self.secrets.table()))
    }

    /// Returns the writes that replace both rows of an acquirer, or insert them.
    fn put(&self, next: &ConfiguredAcquirer, before: Option<&ConfiguredAcquirer>) -> Result<Vec<Write>> {
        let version = before.map(|before| before.acquirer.version);
        let secrets = Write::put(&next.secrets(), version)?.in_table(self.secrets.table());
        Ok(vec![Write::put(&next.acquirer, version)?, secrets])
    }

    fn delete(&self, acquirer: &ConfiguredAcquirer) -> [Write; 2] {
        let version = i64::try_from(acquirer.acquirer.version).unwrap_or(i64::MAX);
        let remove = || Write::remove(acquirer.acquirer.key(), "version", version);
        [remove(), remove().in_table(self.secrets.table())]
    }

    /// Returns the writes that move an account's claim of a Pix key, and its place in the sweep of a
    /// connection, from one acquirer to another.
    async fn binding_writes(
        &self,
        account: AccountId,
        from: Option<&AccountAcquirer>,
        to: Option<&AccountAcquirer>,
        now: Timestamp,
    ) -> Result<Vec<Write>, SettingsError> {
        let mut writes = Vec::new();
        if let Some(AccountAcquirer { connection, settings, .. }) = to {
            if let Some(PixSettings { pix_key, .. }) = settings.pix() {
                let claimed = self.claim_of_key(pix_key).await?;
                if let Some(claim) = claimed.as_ref().filter(|claim| claim.account != account) {
                    return Err(SettingsError::KeyTaken(claim.account));
                }
                if claimed.as_ref().is_none_or(|claim| claim.connection != *connection) {
                    let version = claimed.map(|claim| claim.version);
                    let next = PixKeyClaim {
                        key: pix_key.clone(),
                        account,
                        connection: *connection,
                        version: version.unwrap_or(0).saturating_add(1),
                    };
                    writes.push(Write::put(&next, version)?);
                }
            }
            match self.sweep(*connection).await? {
                Some(sweep) => {
                    let next = sweep.with_account(account);
                    writes.extend(next.map(|next| Write::replace(&next, sweep.version)).transpose()?);
                }
                None => writes.push(Write::insert(&ConnectionSweep::new(*connection, account, now))?),
            }
        }
        let Some(AccountAcquirer { connection, settings, .. }) = from else { return Ok(writes) };
        let key = |settings: &AcquirerSettings| settings.pix().map(|pix| pix.pix_key.clone());
        if let Some(left) =
            key(settings).filter(|left| to.and_then(|to| key(&to.settings)).as_ref() != Some(left))
            && let Some(claim) = self.claim_of_key(&left).await?
            && (claim.account, claim.connection) == (account, *connection)
        {
            let version = i64::try_from(claim.version).unwrap_or(i64::MAX);
            writes.push(Write::remove(claim.key(), "version", version));
        }
        if to.is_none_or(|to| to.connection != *connection)
            && let Some(sweep) = self.sweep(*connection).await?
            && let Some(next) = sweep.without_account(account)
        {
            writes.push(Write::replace(&next, sweep.version)?);
        }
        Ok(writes)
    }

    /// Stores how far a bank's times are from ours, for the sweeps of its connection. If another caller changed
    /// the row meanwhile, nothing is written: a wrong clock is measured again.
    pub(crate) async fn store_clock_offsets(
        &self,
        connection: ConnectionId,
        offsets: ClockOffsets,
    ) -> Result<()> {
        let Some(sweep) = self.sweep(connection).await? else { return Ok(()) };
        let clock_offsets = Some((offsets.behind_seconds(), offsets.ahead_seconds()));
        if sweep.clock_offsets != clock_offsets {
            let next = ConnectionSweep { clock_offsets, ..sweep.next_version() };
            let _conflict_or_done = self.state.commit(vec![Write::replace(&next, sweep.version)?]).await?;
        }
        Ok(())
    }

    async fn sweep(&self, connection: ConnectionId) -> Result<Option<ConnectionSweep>> {
        self.state.get(&ConnectionSweep::key_of(connection)).await
    }
}

/// Joins the rows of an acquirer. They were not read at one moment, so a change between shows as another version.
fn joined(acquirer: Item, secrets: Option<Item>) -> Result<ConfiguredAcquirer> {
    let acquirer: AccountAcquirer = from_item(acquirer)?;
    let secrets: Option<AcquirerSecrets> = secrets.map(from_item).transpose()?;
    match secrets.filter(|secrets| secrets.version == acquirer.version) {
        Some(AcquirerSecrets { credentials, .. }) => Ok(ConfiguredAcquirer { acquirer, credentials }),
        None => Err(StoreError::Unavailable("the acquirer was changed at the same time".to_owned())),
    }
}

fn retired(acquirer: &ConfiguredAcquirer, now: Timestamp) -> ConfiguredAcquirer {
    let ConfiguredAcquirer { acquirer, credentials } = acquirer.clone();
    let acquirer = AccountAcquirer { is_retired: true, ..acquirer.next_version(now) };
    ConfiguredAcquirer { acquirer, credentials }
}

/// Returns the connections whose methods a connection with these settings takes over.
fn replaced<'a>(
    all: &'a [ConfiguredAcquirer],
    settings: &AcquirerSettings,
) -> Result<Vec<&'a ConfiguredAcquirer>, SettingsError> {
    let methods = settings.methods();
    let is_other = |each: &&ConfiguredAcquirer| {
        !each.acquirer.is_retired && each.acquirer.settings.name != settings.name
    };
    let mut replaced = Vec::new();
    for other in all.iter().filter(is_other) {
        let taken = other.acquirer.settings.methods();
        let left = taken.iter().filter(|method| !methods.contains(method)).count();
        if left == 0 {
            replaced.push(other);
        } else if left < taken.len() {
            return Err(SettingsError::MethodTaken(other.acquirer.settings.name.clone()));
        }
    }
    Ok(replaced)
}

fn audit_write(operator: &Operator, account: AccountId, action: Action, now: Timestamp) -> Result<Write> {
    Ok(Write::audit(&audit::by_operator(operator, account, action, account, now)?))
}
