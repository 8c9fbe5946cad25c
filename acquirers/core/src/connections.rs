//! The connections of the accounts that this function instance has used. An account's settings are cached for a
//! minute. The client of a connection, with its token and its circuit breaker, lives as long as the instance.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use acquirer_kit::setting::AcquirerUrl;
use acquirer_kit::{ConnectionOf, Connector, Connectors, KitError};
use api_pix::PixBank;
use sandbox::Sandbox;
use sha2::{Digest, Sha256};
use tracing::field::display;

use domain::acquirer::AcquirerName;
use domain::charge::Charge;
use domain::ids::{AccountId, ConnectionId, Mode, Scope};
use domain::money::Currency;
use domain::payment_method::PaymentMethod;
use domain::time::Timestamp;

use super::AcquirerError;
use super::configuration::{AccountAcquirer, AccountAcquirers, ConfiguredAcquirer};
use super::legs::Legs;
use super::registry::OpenClient;
use shared::clock::Clock;

/// How long an account's settings and credentials are cached, in milliseconds.
const CACHED_MS: i64 = 60_000;

/// The most accounts and clients that one instance caches. Beyond, the cache is emptied.
const MAX_CACHED: usize = 1_000;

/// The sandbox, or an acquirer with the credentials of one account. Clones share its client.
#[derive(Clone, Debug)]
pub struct Connection {
    account: AccountId,
    /// `None`: the sandbox.
    configured: Option<Arc<ConfiguredAcquirer>>,
    /// That of the method of [`Self::of_method`].
    connector: Arc<dyn Connector>,
    connectors: Connectors,
    expire_after_seconds: u32,
}

impl Connection {
    fn sandbox(account: AccountId) -> Self {
        Self::of(account, None, Connectors::one(Sandbox), 0)
    }

    fn of(
        account: AccountId,
        configured: Option<Arc<ConfiguredAcquirer>>,
        connectors: Connectors,
        expire_after_seconds: u32,
    ) -> Self {
        Self {
            account,
            configured,
            connector: Arc::clone(&connectors.main),
            connectors,
            expire_after_seconds,
        }
    }

    /// `None`: the sandbox.
    pub fn configured(&self) -> Option<&ConfiguredAcquirer> {
        self.configured.as_deref()
    }

    pub fn base_url(&self) -> Option<&AcquirerUrl> {
        self.configured().map(|configured| &configured.acquirer.settings.base_url)
    }

    pub fn account(&self) -> AccountId {
        self.account
    }

    /// `None`: the sandbox.
    pub fn id(&self) -> Option<ConnectionId> {
        self.configured().map(|configured| configured.acquirer.connection)
    }

    pub fn connector(&self) -> &dyn Connector {
        &*self.connector
    }

    /// The same for the charges, payments and returns of one method.
    #[must_use]
    pub fn of_method(mut self, method: PaymentMethod) -> Self {
        if let Some((_, own)) = self.connectors.of_methods.iter().find(|(taken, _)| *taken == method) {
            self.connector = Arc::clone(own);
        }
        self
    }

    pub fn name(&self) -> AcquirerName {
        self.connector.name()
    }

    /// How long an overdue charge is left open.
    pub fn expire_after_seconds(&self) -> u32 {
        self.expire_after_seconds
    }

    /// The services of Pix read lists of payments, which no other acquirer has. `None`: the acquirer does not speak API
    /// Pix.
    pub fn as_pix(&self) -> Option<&PixBank> {
        let connector: &dyn Any = self.connector();
        connector.downcast_ref()
    }

    /// # Errors
    ///
    /// [`KitError::Unavailable`] when the acquirer does not speak API Pix.
    pub fn pix(&self) -> Result<&PixBank, AcquirerError> {
        self.as_pix().ok_or_else(|| AcquirerError::unavailable("the connection is to no bank of Pix"))
    }

    /// Returns the part of a range of amounts that the acquirer takes by a method, in minor units. An error if it takes
    /// none of them.
    pub(crate) fn taken(
        &self,
        method: PaymentMethod,
        currency: Currency,
        (min, max): (i64, i64),
    ) -> Result<(i64, i64), AcquirerError> {
        let Some(taken) = self.connector.capabilities(method, currency) else {
            return Err(AcquirerError::MethodNotConfigured { supported: "other methods".to_owned() });
        };
        let name = method.as_str();
        let refused = |why: String| Err(AcquirerError::NotTaken(why));
        let Some((least, greatest)) = taken.amounts else {
            return refused(format!("`currency`: {name} does not take {currency}."));
        };
        let (min, max) = (least.max(min), greatest.min(max));
        if min > max {
            return refused(format!(
                "`amount`: {name} takes {least} to {greatest} minor units of {currency}."
            ));
        }
        let step = taken.multiple_of;
        let above = max.checked_rem(step).unwrap_or_default();
        let below =
            min.checked_rem(step).filter(|over| *over > 0).map_or(0, |over| step.saturating_sub(over));
        let (min, max) = (min.saturating_add(below), max.saturating_sub(above));
        if min > max {
            return refused(format!("`amount`: {name} takes multiples of {step} minor units of {currency}."));
        }
        Ok((min, max))
    }
}

#[derive(Clone, Debug)]
pub struct Connections {
    repository: AccountAcquirers,
    clock: Clock,
    cache: Arc<Mutex<Cache>>,
}

#[derive(Debug, Default)]
struct Cache {
    connections: HashMap<(AccountId, ConnectionId), Cached>,
    /// The connections of an account that take new charges.
    routes: HashMap<AccountId, Routes>,
    clients: HashMap<ClientKey, OpenClient>,
}

#[derive(Clone, Debug)]
struct Cached {
    until: Timestamp,
    connection: Connection,
    is_stopped: bool,
}

#[derive(Clone, Debug)]
struct Routes {
    until: Timestamp,
    connections: Vec<(ConnectionId, Vec<PaymentMethod>)>,
}

/// The hash of everything that a client is made of.
type ClientKey = [u8; 32];

impl Connections {
    pub fn new(repository: AccountAcquirers, clock: Clock) -> Self {
        Self { repository, clock, cache: Arc::default() }
    }

    /// Returns the legs of a scope's new charges with these methods, and whether an operator stopped new live charges.
    /// Both are as they were up to a minute ago.
    pub async fn for_new(
        &self,
        scope: &Scope,
        methods: &[PaymentMethod],
    ) -> Result<(Legs, bool), AcquirerError> {
        if scope.mode == Mode::Test {
            return Ok((Legs::of_sandbox(methods, Connection::sandbox(scope.account)), false));
        }
        let routes = self.routes(scope.account, methods).await?;
        self.legs(scope.account, &routes).await
    }

    /// Returns the acquirer by the name and connection in a charge's or refund's row.
    pub async fn acquirer_named(
        &self,
        name: AcquirerName,
        account: AccountId,
        connection: Option<ConnectionId>,
    ) -> Result<Connection, AcquirerError> {
        if !name.is_remote() {
            return Ok(Connection::sandbox(account));
        }
        self.at(account, connection).await
    }

    pub async fn of_charge(&self, charge: &Charge) -> Result<Legs, AcquirerError> {
        if !charge.acquirer.is_remote() {
            return Ok(Legs::of_sandbox(&charge.methods, Connection::sandbox(charge.scope.account)));
        }
        let of_method = |method: &PaymentMethod| Some((*method, charge.connection_of(*method)?));
        let wanted: Vec<_> = charge.methods.iter().filter_map(of_method).collect();
        Ok(self.legs(charge.scope.account, &wanted).await?.0)
    }

    /// Returns the acquirer that has the charge's payment, or may get it first.
    pub async fn acquirer_of_payment(&self, charge: &Charge) -> Result<Connection, AcquirerError> {
        let method = charge.method();
        let connection = charge.connection_of(method);
        let acquirer = self.acquirer_named(charge.acquirer_of(method), charge.scope.account, connection);
        Ok(acquirer.await?.of_method(method))
    }

    /// Returns the connection of new charges by each of these methods.
    async fn routes(
        &self,
        account: AccountId,
        methods: &[PaymentMethod],
    ) -> Result<Vec<(PaymentMethod, ConnectionId)>, AcquirerError> {
        let routes = self.routes_of(account).await?.connections;
        let route = |method: &PaymentMethod| {
            let (id, _) = routes.iter().find(|(_, taken)| taken.contains(method))?;
            Some((*method, *id))
        };
        if let Some(wanted) = methods.iter().map(route).collect() {
            return Ok(wanted);
        }
        if routes.is_empty() {
            return Err(AcquirerError::NotConfigured);
        }
        let taken = routes.iter().flat_map(|(_, taken)| taken).map(|method| method.as_str());
        Err(AcquirerError::MethodNotConfigured { supported: taken.collect::<Vec<_>>().join(", ") })
    }

    /// Also returns whether an operator stopped new live charges.
    async fn legs(
        &self,
        account: AccountId,
        methods: &[(PaymentMethod, ConnectionId)],
    ) -> Result<(Legs, bool), AcquirerError> {
        let (mut legs, mut is_stopped) = (Vec::new(), false);
        for (method, id) in methods {
            let found = self.cached(account, *id).await?;
            is_stopped |= found.is_stopped;
            legs.push((*method, found.connection.of_method(*method)));
        }
        Ok((Legs::new(legs).ok_or(AcquirerError::NotConfigured)?, is_stopped))
    }

    async fn routes_of(&self, account: AccountId) -> Result<Routes, AcquirerError> {
        let now = self.clock.now();
        let cached = self.with_cache(|cache| cache.routes.get(&account).cloned());
        if let Some(cached) = cached.filter(|cached| now < cached.until) {
            return Ok(cached);
        }
        let acquirers = self.repository.current_of(&account).await?;
        let connections: Vec<_> = acquirers
            .into_iter()
            .map(|acquirer| (acquirer.connection, acquirer.settings.methods().to_vec()))
            .collect();
        let until = now.plus_millis(CACHED_MS).unwrap_or(Timestamp::MAX);
        let read = Routes { until, connections };
        if !read.connections.is_empty() {
            self.with_cache(|cache| cache.routes.insert(account, read.clone()));
        }
        Ok(read)
    }

    /// Returns the connection at which a charge was created or a payment arrived. Without an id, the one
    /// that takes new charges by Pix. All further log lines of the span name the account and the connection, if it has these fields.
    ///
    /// # Errors
    ///
    /// [`KitError::Unavailable`] when an operator removed the credentials of this connection. It must be
    /// configured again to finish its charges.
    pub async fn at(
        &self,
        account: AccountId,
        connection: Option<ConnectionId>,
    ) -> Result<Connection, AcquirerError> {
        let id = if let Some(id) = connection {
            id
        } else {
            let routes = self.routes(account, &[PaymentMethod::Pix]).await?;
            routes.first().ok_or(AcquirerError::NotConfigured)?.1
        };
        Ok(self.cached(account, id).await?.connection)
    }

    /// Returns a connection with the credentials of the first of its accounts that has any. If an account moved it to
    /// another base URL than the others, the connection at each base URL.
    pub async fn of_accounts(&self, accounts: &[AccountId], id: ConnectionId) -> Vec<Connection> {
        let mut found: Vec<Connection> = Vec::new();
        for account in accounts {
            match self.at(*account, Some(id)).await {
                Ok(same) if found.iter().any(|other| other.base_url() == same.base_url()) => {}
                Ok(connection) => found.push(connection),
                Err(error) => tracing::warn!(%error, "an account's credentials can't be used"),
            }
        }
        found
    }

    async fn cached(&self, account: AccountId, id: ConnectionId) -> Result<Cached, AcquirerError> {
        let span = tracing::Span::current();
        span.record("account", display(account));
        span.record("connection", display(id));
        self.read(account, id).await?.ok_or_else(|| {
            tracing::error!("a charge or payment belongs to a connection without credentials; set it with `admin accounts set-acquirer`");
            AcquirerError::unavailable("the account has no credentials for this connection")
        })
    }

    /// Reports an acquirer whose times are more than a minute off, and stores by how much, for the sweeps. A failure
    /// is only logged: the caller's work does not depend on it.
    pub async fn note_clock(&self, connection: &Connection) {
        let Some(bank) = connection.as_pix() else { return };
        let Some(offsets) = bank.report_clock() else { return };
        if let Err(error) = self.repository.store_clock_offsets(bank.connection(), offsets).await {
            tracing::warn!(connection = %bank.connection(), %error, "the offset of a bank's clock was not stored");
        }
    }

    async fn read(&self, account: AccountId, id: ConnectionId) -> Result<Option<Cached>, AcquirerError> {
        let now = self.clock.now();
        let key = (account, id);
        let cached = self.with_cache(|cache| cache.connections.get(&key).cloned());
        if let Some(cached) = cached.filter(|cached| now < cached.until) {
            return Ok(Some(cached));
        }
        let (found, is_stopped) = self.repository.find_with_stop(&account, id).await?;
        let Some(configured) = found else { return Ok(None) };
        let connection = self.connect(configured)?;
        let until = now.plus_millis(CACHED_MS).unwrap_or(Timestamp::MAX);
        let cached = Cached { until, connection, is_stopped };
        self.with_cache(|cache| cache.connections.insert(key, cached.clone()));
        Ok(Some(cached))
    }

    /// Accounts with the same credentials share a client.
    fn connect(&self, configured: ConfiguredAcquirer) -> Result<Connection, AcquirerError> {
        let key = client_key(&configured)?;
        let known = self.with_cache(|cache| cache.clients.get(&key).cloned());
        let settings = &configured.acquirer.settings;
        let client = if let Some(known) = known {
            known
        } else {
            let clock = self.clock.clone();
            let at = (&settings.base_url, settings.requests_per_second);
            let client = settings.kind.open(&configured.credentials, at, Arc::new(move || clock.now()))?;
            self.with_cache(|cache| cache.clients.entry(key).or_insert(client).clone())
        };
        let AccountAcquirer { account, connection, .. } = configured.acquirer;
        let of = ConnectionOf { account, connection, base_url: &settings.base_url };
        let connectors = settings.kind.connectors(client, of)?;
        let expire_after_seconds = settings.expire_after_seconds;
        Ok(Connection::of(account, Some(Arc::new(configured)), connectors, expire_after_seconds))
    }

    fn with_cache<T>(&self, use_cache: impl FnOnce(&mut Cache) -> T) -> T {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let most = cache.connections.len().max(cache.routes.len()).max(cache.clients.len());
        if most > MAX_CACHED {
            *cache = Cache::default();
        }
        use_cache(&mut cache)
    }
}

/// Hashes what a client depends on.
fn client_key(
    ConfiguredAcquirer { acquirer, credentials }: &ConfiguredAcquirer,
) -> Result<ClientKey, AcquirerError> {
    let settings = &acquirer.settings;
    let of_kind = settings.kind.of_kind().of_client();
    let fields =
        serde_json::to_vec(&(&settings.base_url, settings.requests_per_second, of_kind, credentials));
    let fields = fields.map_err(|error| KitError::Invalid(error.to_string()))?;
    Ok(Sha256::digest(fields).into())
}
