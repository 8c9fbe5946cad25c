//! The connections of the accounts that this function instance has used. An account's settings are cached for a
//! minute. The client of a connection, with its token and its circuit breaker, lives as long as the instance.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use acquirer_kit::setting::AcquirerUrl;
use acquirer_kit::{Connector, KitError};
use api_pix::PixBank;
use sandbox::Sandbox;
use sha2::{Digest, Sha256};
use stripe_client::{StripeConnector, VoucherConnector, VoucherMethod};
use tracing::field::display;

use domain::acquirer::AcquirerName;
use domain::charge::Charge;
use domain::ids::{AccountId, ConnectionId, Mode, Scope};
use domain::payment_method::PaymentMethod;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary as _;

use super::AcquirerError;
use super::configuration::{
    AccountAcquirer, AccountAcquirers, ConfiguredAcquirer, Credentials, KindSettings,
};
use super::legs::Legs;
use shared::clock::Clock;

/// How long an account's settings and credentials are cached, in milliseconds.
const CACHED_MS: i64 = 60_000;

/// The most accounts and clients that one instance caches. Beyond, the cache is emptied.
const MAX_CACHED: usize = 1_000;

/// The sandbox, or an acquirer with the credentials of one account. Clones share its client.
#[derive(Clone, Debug)]
pub struct Connection {
    account: AccountId,
    id: Option<ConnectionId>,
    /// `None`: the sandbox.
    configured: Option<Arc<ConfiguredAcquirer>>,
    connector: Arc<dyn Connector>,
    /// The connectors of methods that have one of their own.
    of_methods: Vec<(PaymentMethod, Arc<dyn Connector>)>,
    /// The services of Pix read lists of payments, which no other acquirer has.
    pix: Option<PixBank>,
    expire_after_seconds: u32,
}

impl Connection {
    fn sandbox(account: AccountId) -> Self {
        Self {
            account,
            id: None,
            configured: None,
            connector: Arc::new(Sandbox),
            of_methods: Vec::new(),
            pix: None,
            expire_after_seconds: 0,
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
        self.id
    }

    pub fn connector(&self) -> &dyn Connector {
        &*self.connector
    }

    /// The same for the charges, payments and returns of one method.
    #[must_use]
    pub fn of_method(mut self, method: PaymentMethod) -> Self {
        if let Some((_, own)) = self.of_methods.iter().find(|(taken, _)| *taken == method) {
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

    /// `None`: the acquirer does not speak API Pix.
    pub fn as_pix(&self) -> Option<&PixBank> {
        self.pix.as_ref()
    }

    /// # Errors
    ///
    /// [`KitError::Unavailable`] when the acquirer does not speak API Pix.
    pub fn pix(&self) -> Result<&PixBank, AcquirerError> {
        self.as_pix().ok_or_else(|| AcquirerError::unavailable("the connection is to no bank of Pix"))
    }

    pub(crate) fn check(&self, method: PaymentMethod, charge: &Charge) -> Result<(), AcquirerError> {
        let Some(taken) = self.connector.capabilities(method, charge.currency) else {
            return Err(AcquirerError::MethodNotConfigured { supported: "other methods".to_owned() });
        };
        let (name, amount, currency) = (method.as_str(), charge.amount.minor(), charge.currency);
        let refused = |why: String| Err(AcquirerError::NotTaken(why));
        let Some((least, greatest)) = taken.amounts else {
            return refused(format!("`currency`: {name} does not take {currency}."));
        };
        if !(least..=greatest).contains(&amount) {
            return refused(format!(
                "`amount`: {name} takes {least} to {greatest} minor units of {currency}."
            ));
        }
        let step = taken.multiple_of;
        if amount.checked_rem(step) != Some(0) {
            return refused(format!("`amount`: {name} takes multiples of {step} minor units of {currency}."));
        }
        Ok(())
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
    clients: HashMap<ClientKey, CachedClient>,
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

/// The clients by kind. A further kind of acquirers is added here and in [`KindSettings`].
#[derive(Clone, Debug)]
enum CachedClient {
    Pix(api_pix::Client),
    Stripe(stripe_client::Client),
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
        let of_pix = async || self.routes(account, &[PaymentMethod::Pix]).await;
        let id = match connection {
            Some(id) => Some(id),
            None => of_pix().await?.first().map(|(_, id)| *id),
        };
        Ok(self.cached(account, id.ok_or(AcquirerError::NotConfigured)?).await?.connection)
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
        let clock = self.clock.clone();
        let now = Arc::new(move || clock.now());
        let settings = &configured.acquirer.settings;
        let at = (&settings.base_url, settings.requests_per_second);
        let unusable = |error: &dyn std::fmt::Display| AcquirerError::unavailable(&error.to_string());
        let client = match (known, &settings.kind, &configured.credentials) {
            (Some(known), ..) => known,
            (None, KindSettings::Pix(pix), Credentials::Pix(credentials)) => {
                let client = api_pix::Client::new(&pix.connection(credentials, at), now);
                CachedClient::Pix(client.map_err(|error| unusable(&error))?)
            }
            (None, KindSettings::Stripe(stripe), Credentials::Stripe(credentials)) => {
                let client = stripe_client::Client::new(&stripe.connection(credentials, at), now);
                CachedClient::Stripe(client.map_err(|error| unusable(&error))?)
            }
            (None, ..) => return Err(unusable(&"the credentials are of another kind than the settings")),
        };
        let client = self.with_cache(|cache| cache.clients.entry(key).or_insert(client).clone());
        let configured = Arc::new(configured);
        let expire_after_seconds = configured.acquirer.settings.expire_after_seconds;
        let mut of_methods: Vec<(PaymentMethod, Arc<dyn Connector>)> = Vec::new();
        let (connector, pix): (Arc<dyn Connector>, _) = match (client, &configured.acquirer.settings.kind) {
            (CachedClient::Pix(client), KindSettings::Pix(pix)) => {
                let AccountAcquirer { account, connection, settings, .. } = &configured.acquirer;
                let of_bank = (pix.clone(), settings.base_url.clone());
                let bank = PixBank::new((*account, *connection), of_bank, client);
                (Arc::new(bank.clone()), Some(bank))
            }
            (CachedClient::Stripe(client), KindSettings::Stripe(_)) => {
                for (method, voucher) in
                    PaymentMethod::all().filter_map(|it| Some((it, VoucherMethod::of(it)?)))
                {
                    of_methods.push((method, Arc::new(VoucherConnector::new(client.clone(), voucher))));
                }
                (Arc::new(StripeConnector::new(client)), None)
            }
            _ => return Err(unusable(&"the client is of another kind than the settings")),
        };
        let AccountAcquirer { account, connection, .. } = configured.acquirer;
        let (id, configured) = (Some(connection), Some(configured));
        Ok(Connection { account, id, configured, connector, of_methods, pix, expire_after_seconds })
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
