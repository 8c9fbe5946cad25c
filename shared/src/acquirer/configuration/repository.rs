//! Reads and writes the configuration of the accounts' acquirers. Credentials and claims are in the table of
//! secrets. The sweeps of bank connections and the audit rows are in the state table. A change writes all of
//! them in one transaction.

use secrecy::SecretString;
use serde::Serialize;

use api_pix::ClockOffsets;
use domain::acquirer::ConnectionSweep;
use domain::audit::{Audit, Operator};
use domain::ids::{AccountId, ConnectionId};
use domain::pix_key::PixKey;
use domain::row::{Replaceable, Row};
use domain::time::Timestamp;

use super::callback::{CallbackChoice, CallbackSettings, CallbackToken, CallbackView, MedSecret};
use super::rows::{AccountAcquirer, PixKeyClaim, RETIRED_PREFIX, RetiredAcquirer};
use super::settings::{AcquirerSettings, AcquirerView};
use crate::audit;
use crate::random::RandomError;
use crate::store::{Store, StoreError, Write};

/// The name of the updated object in errors.
const SUBJECT: &str = "an account's acquirer";

/// Why an account's acquirer can't be changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The Pix key belongs to another account.
    #[error("the Pix key is claimed by the account {0}; a Pix key belongs to one account")]
    KeyTaken(AccountId),
    /// The account has no acquirer.
    #[error("the account {0} has no acquirer")]
    NoAcquirer(AccountId),
    /// The account never used the connection, still uses it, or has forgotten it.
    #[error("the account {0} has no retired acquirer with the connection {1}")]
    NotRetired(AccountId, ConnectionId),
    /// DynamoDB failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system returned no random bytes.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The details of the audit row can't be serialised.
    #[error("an audit row can't be written: {0}")]
    Audit(#[from] serde_json::Error),
}

/// An acquirer that was set.
#[derive(Debug)]
pub struct ConfiguredAcquirer {
    /// The acquirer.
    pub acquirer: AccountAcquirer,
    /// The callback settings.
    pub callback: CallbackSettings,
    /// The URL for notifications with a new token, to be shown once and registered at the bank. `None`: the
    /// earlier tokens are still valid for this connection, key and base URL.
    pub new_callback_url: Option<SecretString>,
}

/// The rows of an account, as they were read.
struct Stored {
    acquirer: Option<AccountAcquirer>,
    retired: Vec<AccountAcquirer>,
    callback: Option<CallbackSettings>,
}

impl Stored {
    /// Returns the connection of new settings: the one with their name, or else a new one.
    fn connection_of(&self, settings: &AcquirerSettings) -> ConnectionId {
        let mut known = self.acquirer.iter().chain(&self.retired);
        let named = known.find(|known| known.settings.name == settings.name);
        named.map_or_else(|| settings.new_connection(), |known| known.connection)
    }

    /// Whether the bank of `acquirer` may have the URL of a token that remains valid: connection, client, Pix key
    /// and base URL of notifications stay the same.
    fn has_callback_url(&self, acquirer: &AccountAcquirer, choice: &CallbackChoice) -> bool {
        let registrant = |settings: &AcquirerSettings| {
            (settings.base_url.clone(), settings.client_id.clone(), settings.pix_key.clone())
        };
        let has_key = self
            .acquirer
            .as_ref()
            .is_some_and(|before| registrant(&before.settings) == registrant(&acquirer.settings));
        let has_url = self.callback.as_ref().is_some_and(|callback| {
            callback.connection == acquirer.connection && callback.base_url == choice.base_url
        });
        has_key && has_url
    }
}

/// What binds an account to a bank: its claim of a Pix key, and its place in the sweep of a connection.
#[derive(Clone, Copy)]
struct Binding<'a> {
    connection: ConnectionId,
    pix_key: &'a PixKey,
}

impl<'a> Binding<'a> {
    fn of(acquirer: &'a AccountAcquirer) -> Self {
        Self { connection: acquirer.connection, pix_key: &acquirer.settings.pix_key }
    }
}

/// The repository of the accounts' acquirers.
#[derive(Clone, Debug)]
pub struct AccountAcquirers {
    pub(super) state: Store,
    pub(super) secrets: Store,
}

impl AccountAcquirers {
    /// Creates the repository over the state table and the table of secrets.
    pub fn new(state: Store, secrets: Store) -> Self {
        Self { state, secrets }
    }

    /// Reads an account's acquirer. `None`: the account has none.
    pub async fn find(&self, account: &AccountId) -> Result<Option<AccountAcquirer>, StoreError> {
        Ok(self.find_with_stop(account).await?.0)
    }

    /// Reads an acquirer that the account replaced or removed. `None`: the account has none with this
    /// connection.
    pub async fn find_retired(
        &self,
        account: &AccountId,
        connection: ConnectionId,
    ) -> Result<Option<AccountAcquirer>, StoreError> {
        // The functions' roles permit `BatchGetItem` on these rows, as `find_with_stop` needs, and not `GetItem`.
        let key = RetiredAcquirer::key_of(account, connection);
        let found = self.secrets.get_in_order::<RetiredAcquirer>(&[key]).await?.pop();
        Ok(found.map(|RetiredAcquirer(acquirer)| acquirer))
    }

    /// Reads all acquirers that the account replaced or removed, in the order of their connections.
    pub async fn retired(&self, account: &AccountId) -> Result<Vec<AccountAcquirer>, StoreError> {
        self.secrets.rows_of_prefix(&AccountAcquirer::key_of(account).pk, RETIRED_PREFIX).await
    }

    /// Reads the settings that authenticate a bank's notifications for an account. `None`: the account never
    /// had an acquirer, or has forgotten all.
    pub async fn callback_settings(
        &self,
        account: &AccountId,
    ) -> Result<Option<CallbackSettings>, StoreError> {
        self.secrets.get(&CallbackSettings::key_of(account)).await
    }

    /// Reads the claim of a Pix key. `None`: no account has the key.
    pub async fn claim_of_key(&self, key: &PixKey) -> Result<Option<PixKeyClaim>, StoreError> {
        self.secrets.get(&PixKeyClaim::key_of(key)).await
    }

    /// Sets an account's acquirer and its callback settings, and writes an audit row, except for the seeded
    /// account of a local stack, which no operator set. If nothing changes, nothing is written. The caller must
    /// check that the account exists.
    ///
    /// The name of the settings selects the connection: the current one, a retired one, or a new one. Another
    /// connection, bank, client, Pix key or callback base URL gets a new callback token. The newest earlier token
    /// remains valid, because the bank may still send notifications with it. When the connection changes, the
    /// former acquirer is retired, see [`Self::remove`].
    ///
    /// # Errors
    ///
    /// [`SettingsError::KeyTaken`] when another account has the Pix key.
    pub async fn set(
        &self,
        account: AccountId,
        settings: &AcquirerSettings,
        choice: &CallbackChoice,
        by: Option<&Operator>,
        now: Timestamp,
    ) -> Result<ConfiguredAcquirer, SettingsError> {
        let (token, stored_token) = CallbackToken::create(now)?;
        let med_secret = MedSecret::create()?;
        let mut update = self.state.start_update(SUBJECT);
        loop {
            update.next_attempt().await?;
            let stored = self.read(&account).await?;
            let acquirer = next_acquirer(&stored, account, settings, now);
            let has_new_token = !stored.has_callback_url(&acquirer, choice);
            let new_token = has_new_token.then_some(&stored_token);
            let callback = next_callback(&stored, &acquirer, choice, new_token, &med_secret);
            let new_callback_url = has_new_token.then(|| callback.url(&token));
            let before = stored.acquirer.as_ref();
            let callback_before = stored.callback.as_ref().map(|callback| callback.version);
            let callback_changes = callback_before != Some(callback.version);
            let settings_change = before.is_none_or(|before| before.settings != acquirer.settings);
            if let (Some(found), false, false) = (before, settings_change, callback_changes) {
                return Ok(ConfiguredAcquirer { acquirer: found.clone(), callback, new_callback_url });
            }
            let (same, left) = match before {
                Some(before) if before.connection == acquirer.connection => (Some(before), None),
                before => (None, before),
            };
            let (from, to) = (same.map(Binding::of), Some(Binding::of(&acquirer)));
            let mut writes = self.binding_writes(account, from, to, now).await?;
            writes.extend(left.map(|left| self.put(&RetiredAcquirer(left.clone()), None)).transpose()?);
            if let Some(earlier) = stored.retired.iter().find(|each| each.connection == acquirer.connection) {
                writes.push(self.delete(&RetiredAcquirer(earlier.clone()), earlier.version));
            }
            writes.push(self.put(&acquirer, before.map(|before| before.version))?);
            if callback_changes {
                writes.push(self.put(&callback, callback_before)?);
            }
            if let Some(operator) = by {
                let audit = audit_row(operator, account, "account.set-acquirer", now)?;
                let details = change_details(&stored, &acquirer, &callback)?;
                writes.push(Write::audit(&audit.with_details(details)));
            }
            if update.commit(writes).await? {
                return Ok(ConfiguredAcquirer { acquirer, callback, new_callback_url });
            }
        }
    }

    /// Removes an account's acquirer, so that the account can create no live charges, and writes an audit row.
    /// Returns the removed row; `None`: the account has none.
    ///
    /// The acquirer becomes a retired one: its credentials, its claim of the Pix key, its place in the sweep and
    /// its callback settings remain, so that its charges, refunds and returns end. [`Self::forget`] removes
    /// them.
    pub async fn remove(
        &self,
        account: AccountId,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Option<AccountAcquirer>, SettingsError> {
        let mut update = self.state.start_update(SUBJECT);
        loop {
            update.next_attempt().await?;
            let stored = self.read(&account).await?;
            let Some(acquirer) = stored.acquirer else { return Ok(None) };
            let details = format!("was {}", serde_json::to_string(&acquirer.view().for_audit())?);
            let audit = audit_row(operator, account, "account.remove-acquirer", now)?;
            let writes = vec![
                self.delete(&acquirer, acquirer.version),
                self.put(&RetiredAcquirer(acquirer.clone()), None)?,
                Write::audit(&audit.with_details(details)),
            ];
            if update.commit(writes).await? {
                return Ok(Some(acquirer));
            }
        }
    }

    /// Removes a retired acquirer with its callback settings, its claim of the Pix key and its place in the
    /// sweep, and writes an audit row. Returns the removed row. Afterwards the account's charges, refunds and
    /// returns at this bank can't end.
    ///
    /// # Errors
    ///
    /// [`SettingsError::NotRetired`] when the account has no retired acquirer with this connection.
    pub async fn forget(
        &self,
        account: AccountId,
        connection: ConnectionId,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<AccountAcquirer, SettingsError> {
        let mut update = self.state.start_update(SUBJECT);
        loop {
            update.next_attempt().await?;
            let found = self.find_retired(&account, connection).await?;
            let retired = found.ok_or(SettingsError::NotRetired(account, connection))?;
            let mut writes = self.binding_writes(account, Some(Binding::of(&retired)), None, now).await?;
            writes.push(self.delete(&RetiredAcquirer(retired.clone()), retired.version));
            let callback = self.callback_settings(&account).await?;
            if let Some(found) = callback.filter(|found| found.of_connection(connection).is_some()) {
                writes.push(match found.without_connection(connection) {
                    Some(next) => self.put(&next, Some(found.version))?,
                    None => self.delete(&found, found.version),
                });
            }
            let was = serde_json::to_string(&retired.view().for_audit())?;
            let audit = audit_row(operator, account, "account.forget-acquirer", now)?;
            writes.push(Write::audit(&audit.with_details(format!("was {was}"))));
            if update.commit(writes).await? {
                return Ok(retired);
            }
        }
    }

    /// Creates another callback token and writes an audit row. Returns the settings and the URL with the new
    /// token. Of the earlier tokens, the one with the hash `in_use` remains valid, or else the newest.
    ///
    /// # Errors
    ///
    /// [`SettingsError::NoAcquirer`] when the account has no acquirer.
    pub async fn rotate_callback_token(
        &self,
        account: AccountId,
        in_use: Option<&str>,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<(CallbackSettings, SecretString), SettingsError> {
        let (token, stored_token) = CallbackToken::create(now)?;
        let next = |callback: &CallbackSettings| Some(callback.with_token(stored_token.clone(), in_use));
        let action = "account.rotate-callback-token";
        let callback = self.change_callback(account, next, action, operator, now).await?;
        let url = callback.url(&token);
        Ok((callback, url))
    }

    /// Removes all callback tokens but the newest, and writes an audit row if there were others.
    ///
    /// # Errors
    ///
    /// [`SettingsError::NoAcquirer`] when the account has no acquirer.
    pub async fn drop_old_callback_tokens(
        &self,
        account: AccountId,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<CallbackSettings, SettingsError> {
        let action = "account.drop-old-callback-tokens";
        self.change_callback(account, CallbackSettings::with_newest_token, action, operator, now).await
    }

    /// Replaces the secret that signs MED notifications, and writes an audit row. Returns the new secret.
    ///
    /// # Errors
    ///
    /// [`SettingsError::NoAcquirer`] when the account has no acquirer.
    pub async fn rotate_med_secret(
        &self,
        account: AccountId,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<MedSecret, SettingsError> {
        let secret = MedSecret::create()?;
        let next = |callback: &CallbackSettings| Some(callback.with_med_secret(secret.clone()));
        self.change_callback(account, next, "account.rotate-med-secret", operator, now).await?;
        Ok(secret)
    }

    /// Stores whether the bank's payer filter excludes other payers, and writes an audit row if that
    /// changed. Nothing is written either if the account meanwhile has another connection than the one that
    /// was checked.
    ///
    /// # Errors
    ///
    /// [`SettingsError::NoAcquirer`] when the account has no acquirer.
    pub async fn set_filter_verified(
        &self,
        account: AccountId,
        checked: ConnectionId,
        filter_verified: bool,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<(), SettingsError> {
        let mut update = self.state.start_update(SUBJECT);
        loop {
            update.next_attempt().await?;
            let found = self.find(&account).await?.ok_or(SettingsError::NoAcquirer(account))?;
            if found.connection != checked || found.settings.filter_verified == filter_verified {
                return Ok(());
            }
            let version = found.version;
            let next = AccountAcquirer {
                settings: AcquirerSettings { filter_verified, ..found.settings },
                updated_at: now,
                version: version.saturating_add(1),
                ..found
            };
            let audit = audit_row(operator, account, "account.check-acquirer", now)?;
            let audit = audit.with_details(format!(r#"{{"filter_verified":{filter_verified}}}"#));
            let writes = vec![self.put(&next, Some(version))?, Write::audit(&audit)];
            if update.commit(writes).await? {
                return Ok(());
            }
        }
    }

    async fn read(&self, account: &AccountId) -> Result<Stored, StoreError> {
        let acquirer = self.find(account).await?;
        let callback = self.callback_settings(account).await?;
        let retired = self.retired(account).await?;
        Ok(Stored { acquirer, retired, callback })
    }

    /// Replaces a row of the table of secrets that has this version, or inserts it.
    fn put<R: Replaceable>(&self, row: &R, version: Option<u64>) -> Result<Write, StoreError> {
        let write = match version {
            Some(version) => Write::replace(row, version)?,
            None => Write::insert(row)?,
        };
        Ok(write.in_table(self.secrets.table()))
    }

    /// Deletes a row of the table of secrets that has this version.
    fn delete<R: Row>(&self, row: &R, version: u64) -> Write {
        Write::remove(row.key(), "version", version_number(version)).in_table(self.secrets.table())
    }

    /// Returns the writes that move an account's claim of a Pix key, and its place in the sweep of a
    /// connection, from one bank to another.
    async fn binding_writes(
        &self,
        account: AccountId,
        from: Option<Binding<'_>>,
        to: Option<Binding<'_>>,
        now: Timestamp,
    ) -> Result<Vec<Write>, SettingsError> {
        let mut writes = Vec::new();
        if let Some(Binding { connection, pix_key }) = to {
            let claim = |version| PixKeyClaim { key: pix_key.clone(), account, connection, version };
            match self.claim_of_key(pix_key).await? {
                Some(found) if found.account != account => {
                    return Err(SettingsError::KeyTaken(found.account));
                }
                Some(found) if found.connection != connection => {
                    let next = claim(found.version.saturating_add(1));
                    writes.push(self.put(&next, Some(found.version))?);
                }
                Some(_) => {}
                None => writes.push(self.put(&claim(1), None)?),
            }
            match self.sweep(connection).await? {
                Some(sweep) => {
                    let next = sweep.with_account(account);
                    writes.extend(next.map(|next| Write::replace(&next, sweep.version)).transpose()?);
                }
                None => writes.push(Write::insert(&ConnectionSweep::new(connection, account, now))?),
            }
        }
        if let Some(left) = from.filter(|from| to.is_none_or(|to| to.pix_key != from.pix_key)) {
            let found = self.claim_of_key(left.pix_key).await?;
            let is_own =
                |claim: &PixKeyClaim| claim.account == account && claim.connection == left.connection;
            let own = found.filter(is_own);
            writes.extend(own.map(|claim| self.delete(&claim, claim.version)));
        }
        if let Some(left) = from.filter(|from| to.is_none_or(|to| to.connection != from.connection)) {
            let found = self.sweep(left.connection).await?;
            let next = found.and_then(|sweep| Some((sweep.without_account(account)?, sweep.version)));
            writes.extend(next.map(|(next, version)| Write::replace(&next, version)).transpose()?);
        }
        Ok(writes)
    }

    /// Stores how far a bank's times are from ours, for the sweeps of its connection. If another caller changed
    /// the row meanwhile, nothing is written: a wrong clock is measured again.
    pub(crate) async fn store_clock_offsets(
        &self,
        connection: ConnectionId,
        offsets: ClockOffsets,
    ) -> Result<(), StoreError> {
        let Some(sweep) = self.sweep(connection).await? else { return Ok(()) };
        let clock_offsets = Some((offsets.behind_seconds(), offsets.ahead_seconds()));
        if sweep.clock_offsets != clock_offsets {
            let next = ConnectionSweep { clock_offsets, ..sweep.next_version() };
            let _conflict_or_done = self.state.commit(vec![Write::replace(&next, sweep.version)?]).await?;
        }
        Ok(())
    }

    async fn sweep(&self, connection: ConnectionId) -> Result<Option<ConnectionSweep>, StoreError> {
        self.state.get(&ConnectionSweep::key_of(connection)).await
    }

    /// Replaces an account's callback settings by `next`, with an audit row. `next` returns `None` if
    /// nothing changes.
    async fn change_callback(
        &self,
        account: AccountId,
        next: impl Fn(&CallbackSettings) -> Option<CallbackSettings>,
        action: &str,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<CallbackSettings, SettingsError> {
        let mut update = self.state.start_update(SUBJECT);
        loop {
            update.next_attempt().await?;
            let has_acquirer = self.find(&account).await?.is_some();
            let found = self.callback_settings(&account).await?.filter(|_| has_acquirer);
            let found = found.ok_or(SettingsError::NoAcquirer(account))?;
            let Some(next) = next(&found) else { return Ok(found) };
            let details = serde_json::to_string(&CallbackView::new(&next))?;
            let audit = audit_row(operator, account, action, now)?.with_details(details);
            let writes = vec![self.put(&next, Some(found.version))?, Write::audit(&audit)];
            if update.commit(writes).await? {
                return Ok(next);
            }
        }
    }
}

/// Returns the next row of an account's acquirer. What was seen of the bank's payer filter remains known
/// unless the connection or its base URL changes.
fn next_acquirer(
    stored: &Stored,
    account: AccountId,
    settings: &AcquirerSettings,
    now: Timestamp,
) -> AccountAcquirer {
    let connection = stored.connection_of(settings);
    let before = stored.acquirer.as_ref();
    let filter_verified = before.is_some_and(|before| {
        before.connection == connection
            && before.settings.base_url == settings.base_url
            && before.settings.filter_verified
    });
    AccountAcquirer {
        account,
        connection,
        settings: AcquirerSettings { filter_verified, ..settings.clone() },
        updated_at: now,
        version: before.map_or(1, |before| before.version.saturating_add(1)),
    }
}

/// Returns the next callback settings. If nothing changes, they have the stored version.
fn next_callback(
    stored: &Stored,
    acquirer: &AccountAcquirer,
    choice: &CallbackChoice,
    new_token: Option<&CallbackToken>,
    med_secret: &MedSecret,
) -> CallbackSettings {
    let Some(found) = &stored.callback else {
        return CallbackSettings {
            account: acquirer.account,
            connection: acquirer.connection,
            base_url: choice.base_url.clone(),
            authentication: choice.authentication,
            certificate_subject: choice.certificate_subject.clone(),
            source_addresses: choice.source_addresses.clone(),
            tokens: new_token.cloned().into_iter().collect(),
            med_secret: med_secret.clone(),
            retired: Vec::new(),
            version: 1,
        };
    };
    let next = match new_token {
        Some(token) if found.connection == acquirer.connection => found.with_token(token.clone(), None),
        Some(token) => found.with_connection(acquirer.connection).with_token(token.clone(), None),
        None if found.choice() == *choice => return found.clone(),
        None => found.next_version(),
    };
    CallbackSettings {
        base_url: choice.base_url.clone(),
        authentication: choice.authentication,
        certificate_subject: choice.certificate_subject.clone(),
        source_addresses: choice.source_addresses.clone(),
        ..next
    }
}

/// The configuration of an account in an audit row.
#[derive(Serialize)]
struct Details<'a> {
    acquirer: AcquirerView<'a>,
    callback: Option<CallbackView<'a>>,
}

fn change_details(
    stored: &Stored,
    acquirer: &AccountAcquirer,
    callback: &CallbackSettings,
) -> Result<String, serde_json::Error> {
    let details = |acquirer: &AccountAcquirer, callback: Option<&CallbackSettings>| {
        let acquirer = acquirer.view().for_audit();
        serde_json::to_string(&Details { acquirer, callback: callback.map(CallbackView::new) })
    };
    let after = details(acquirer, Some(callback))?;
    Ok(match &stored.acquirer {
        Some(before) => format!("{} became {after}", details(before, stored.callback.as_ref())?),
        None => after,
    })
}

fn version_number(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

fn audit_row(
    operator: &Operator,
    account: AccountId,
    action: &str,
    now: Timestamp,
) -> Result<Audit, RandomError> {
    audit::by_operator(operator, account, action, account.to_string(), now)
}
