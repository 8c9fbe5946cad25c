//! The banks of the accounts that this function instance has called. An account's settings are cached for a
//! minute. The client of a connection, with its token and its circuit breaker, lives as long as the instance.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use api_pix::Client;
use sha2::{Digest, Sha256};
use tracing::field::display;

use domain::ids::{AccountId, ConnectionId};
use domain::time::Timestamp;

use super::AcquirerError;
use super::configuration::{AccountAcquirers, ConfiguredAcquirer};
use super::pix::PixBank;
use crate::clock::Clock;

/// How long an account's settings and credentials are cached, in milliseconds.
const CACHED_MS: i64 = 60_000;

/// The most accounts and clients that one instance caches. Beyond, the cache is emptied.
const MAX_CACHED: usize = 1_000;

#[derive(Clone, Debug)]
pub struct Banks {
    repository: AccountAcquirers,
    clock: Clock,
    cache: Arc<Mutex<Cache>>,
}

#[derive(Debug, Default)]
struct Cache {
    /// The key has the connection of a retired acquirer, and none for the account's current one.
    accounts: HashMap<(AccountId, Option<ConnectionId>), Cached>,
    clients: HashMap<Credentials, Client>,
}

#[derive(Clone, Debug)]
struct Cached {
    until: Timestamp,
    bank: PixBank,
    is_stopped: bool,
}

/// The hash of everything that a client is made of.
type Credentials = [u8; 32];

impl Banks {
    pub fn new(repository: AccountAcquirers, clock: Clock) -> Self {
        Self { repository, clock, cache: Arc::default() }
    }

    pub async fn of(&self, account: AccountId) -> Result<PixBank, AcquirerError> {
        self.of_new_charges(account).await.map(|(bank, _)| bank)
    }

    /// Returns the bank of an account, and whether an operator stopped new live charges. Both are as they were up
    /// to a minute ago.
    pub(super) async fn of_new_charges(&self, account: AccountId) -> Result<(PixBank, bool), AcquirerError> {
        let cached = self.cached(account, None).await?.ok_or(AcquirerError::NotConfigured)?;
        Ok((cached.bank, cached.is_stopped))
    }

    /// Returns the bank at which a charge was created or a payment arrived.
    ///
    /// # Errors
    ///
    /// [`AcquirerError::Unavailable`] when an operator removed the credentials of this connection. It must be
    /// configured again to finish its charges.
    pub async fn at(
        &self,
        account: AccountId,
        connection: Option<ConnectionId>,
    ) -> Result<PixBank, AcquirerError> {
        let current = self.cached(account, None).await?;
        let is_meant =
            |found: &Cached| connection.is_none_or(|connection| connection == found.bank.connection());
        let found = match (current.filter(is_meant), connection) {
            (None, Some(_)) => self.cached(account, connection).await?,
            (current, _) => current,
        };
        found.map(|found| found.bank).ok_or_else(|| {
            tracing::error!("a charge or payment belongs to a bank connection without credentials; set it with `admin accounts set-acquirer`");
            AcquirerError::Unavailable("the account has no credentials for this bank connection".to_owned())
        })
    }

    /// Reports a bank whose times are more than a minute off, and stores by how much, for the sweeps. A failure
    /// is only logged: the caller's work does not depend on it.
    pub async fn note_clock(&self, bank: &PixBank) {
        let Some(offsets) = bank.report_clock() else { return };
        let stored = self.repository.store_clock_offsets(bank.connection(), offsets).await;
        if let Err(error) = stored {
            tracing::warn!(connection = %bank.connection(), %error, "the offset of a bank's clock was not stored");
        }
    }

    /// Returns the bank of the account's current acquirer, or of a retired one. `None`: the account has no such
    /// acquirer. All further log lines of the span name the account and the connection, if it has these fields.
    async fn cached(
        &self,
        account: AccountId,
        retired: Option<ConnectionId>,
    ) -> Result<Option<Cached>, AcquirerError> {
        let span = tracing::Span::current();
        span.record("account", display(account));
        let found = self.read(account, retired).await?;
        let connection = found.as_ref().map(|cached| cached.bank.connection()).or(retired);
        span.record("connection", connection.map(display));
        Ok(found)
    }

    async fn read(
        &self,
        account: AccountId,
        retired: Option<ConnectionId>,
    ) -> Result<Option<Cached>, AcquirerError> {
        let now = self.clock.now();
        let key = (account, retired);
        let cached = self.with_cache(|cache| cache.accounts.get(&key).cloned());
        if let Some(cached) = cached.filter(|cached| now < cached.until) {
            return Ok(Some(cached));
        }
        let (found, is_stopped) = self.repository.find_with_stop(&account, retired).await?;
        let Some(configured) = found else { return Ok(None) };
        let client = self.client(&configured)?;
        let until = now.plus_millis(CACHED_MS).unwrap_or(Timestamp::MAX);
        let cached = Cached { until, bank: PixBank::new(configured, client), is_stopped };
        self.with_cache(|cache| cache.accounts.insert(key, cached.clone()));
        Ok(Some(cached))
    }

    /// Returns the client of a connection. Accounts with the same credentials share one.
    fn client(&self, configured: &ConfiguredAcquirer) -> Result<Client, AcquirerError> {
        let credentials = credentials_of(configured)?;
        if let Some(client) = self.with_cache(|cache| cache.clients.get(&credentials).cloned()) {
            return Ok(client);
        }
        let clock = self.clock.clone();
        let client = Client::new(&configured.connection_settings(), Arc::new(move || clock.now()))
            .map_err(|error| AcquirerError::Unavailable(error.to_string()))?;
        Ok(self.with_cache(|cache| cache.clients.entry(credentials).or_insert(client).clone()))
    }

    fn with_cache<T>(&self, use_cache: impl FnOnce(&mut Cache) -> T) -> T {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.accounts.len().max(cache.clients.len()) > MAX_CACHED {
            *cache = Cache::default();
        }
        use_cache(&mut cache)
    }
}

/// Hashes what a client depends on. The other settings belong to the account, not to the connection.
fn credentials_of(
    ConfiguredAcquirer { acquirer, credentials }: &ConfiguredAcquirer,
) -> Result<Credentials, AcquirerError> {
    let settings = &acquirer.settings;
    let fields = serde_json::to_vec(&(
        (&settings.base_url, &settings.client_id, settings.token_authentication, &settings.scope),
        (&settings.additional_ca, settings.requests_per_second, credentials),
    ));
    let fields = fields.map_err(|error| AcquirerError::InvalidArtefact(error.to_string()))?;
    Ok(Sha256::digest(fields).into())
}
