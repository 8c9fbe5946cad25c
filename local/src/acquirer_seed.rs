//! Configures the bank on this machine as the acquirer of the first seeded account, as `admin accounts
//! set-acquirer` does for a real bank. The other account has no acquirer.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acquirer_core::Connections;
use acquirer_core::configuration::{
    AccountAcquirers, AcquirerChoice, AcquirerSettings, AcquirerUrl, BtcpayCredentials, BtcpaySettings,
    CallbackAuthentication, CallbackChoice, ConfiguredAcquirer, ConnectionName, Credentials,
    DEFAULT_EXPIRE_AFTER_SECONDS, DEFAULT_REQUESTS_PER_SECOND, KindSettings, NamedSecret, PixCredentials,
    PixSettings, SIGNED_PATH, Secret, SendPix, StripeCredentials, StripeSettings, TokenAuthentication,
};
use bank::{Bank, Behaviour};
use domain::payment_method::PaymentMethod;
use domain::url_policy::{AddressPolicy, LocalNames};
use secrecy::{ExposeSecret as _, SecretString};
use shared::clock::Clock;
use stripe_client::{Client, EVENT_TYPES, Hidden};

use crate::error::{Error, Result};
use crate::files::write_atomically;
use crate::local_cards::StripeAccount;
use crate::other_acquirers::{STORE, crypto_key};
use crate::seed::Seed;

/// An operator may remove the acquirer later, and the next start must not configure it again.
pub(crate) const MARKER: &str = "acquirer-seeded";

pub(crate) const BTCPAY_MARKER: &str = "btcpay-seeded";

/// Requests a second to the bank: as many as the load tests on a laptop send.
const REQUESTS_PER_SECOND: u32 = 1_000;

type Outcome<T> = std::result::Result<T, Box<dyn StdError>>;

/// What the configuration of both acquirers needs.
pub(crate) struct AcquirerSeed<'a> {
    /// `None`: the state is in memory.
    pub(crate) directory: Option<&'a Path>,
    pub(crate) seed: &'a Seed,
    pub(crate) acquirers: AccountAcquirers,
    /// The base URL of the API, for notifications.
    pub(crate) base_url: &'a str,
    pub(crate) clock: &'a Clock,
}

impl AcquirerSeed<'_> {
    /// `bank_url`: the bank's URL, as the functions reach it.
    pub(crate) async fn configure_pix(&self, bank: &Bank, bank_url: &str) -> Result<()> {
        let configured = Box::pin(self.pix(bank, bank_url)).await;
        configured.map_err(|error| Error::because("configuring the bank", &*error))
    }

    /// Configures a stand-in of Stripe, as `admin accounts set-acquirer … stripe` does for Stripe. `url`: its URL, as the
    /// functions reach it.
    pub(crate) async fn configure_stripe(&self, of: &StripeAccount, url: &str) -> Result<()> {
        let configured = Box::pin(self.stripe(of, url)).await;
        configured.map_err(|error| Error::because("configuring a stand-in of Stripe", &*error))
    }

    async fn pix(&self, bank: &Bank, bank_url: &str) -> Outcome<()> {
        let account = self.seed.first.id;
        let new = self.pix_choice(bank, bank_url)?;
        let stored = self.acquirers.current(&account, PaymentMethod::Pix).await?;
        let connection = new.settings.new_connection();
        let is_same = |stored: &ConfiguredAcquirer| stored.acquirer.settings.new_connection() == connection;
        let Some(choice) = self.choice(MARKER, stored, is_same, async || Ok(new)).await? else {
            return Ok(());
        };
        let configured = self.acquirers.set(account, &choice, None, self.clock.now()).await?;
        if let Some(url) = configured.new_callback_url {
            let connections = Connections::new(self.acquirers.clone(), self.clock.clone());
            connections.at(account, None).await?.pix()?.register_webhook(&url).await?;
        }
        self.mark(MARKER)
    }

    /// Returns what to configure: the stored settings with the present URL for notifications, or the new ones. `None`:
    /// nothing, because an operator has removed the acquirer or set another one.
    async fn choice(
        &self,
        marker: &str,
        stored: Option<ConfiguredAcquirer>,
        is_same: impl Fn(&ConfiguredAcquirer) -> bool,
        new: impl AsyncFnOnce() -> Outcome<AcquirerChoice>,
    ) -> Outcome<Option<AcquirerChoice>> {
        let was_seeded = self.marker(marker).is_some_and(|marker| marker.exists());
        Ok(match stored {
            // An operator may have changed other settings.
            Some(stored) if is_same(&stored) => {
                Some(AcquirerChoice { callback: self.callback()?, ..stored.choice() })
            }
            None if !was_seeded => Some(new().await?),
            Some(_) | None => None,
        })
    }

    fn marker(&self, name: &str) -> Option<PathBuf> {
        self.directory.map(|directory| directory.join(name))
    }

    fn mark(&self, name: &str) -> Outcome<()> {
        match self.marker(name).filter(|marker| !marker.exists()) {
            Some(marker) => Ok(write_atomically(&marker, b"\n")?),
            None => Ok(()),
        }
    }

    fn callback(&self) -> Outcome<CallbackChoice> {
        Ok(CallbackChoice {
            base_url: AcquirerUrl::base(self.base_url, &policy())?,
            authentication: CallbackAuthentication::Token,
            certificate_subject: None,
            source_addresses: Vec::new(),
        })
    }

    fn pix_choice(&self, bank: &Bank, bank_url: &str) -> Outcome<AcquirerChoice> {
        let seed = &self.seed.bank;
        let behaviour: &Behaviour = bank.behaviour();
        let header = |(name, value): (&str, &str)| NamedSecret::header(name, SecretString::from(value));
        let parameter =
            |(name, value): (&str, &str)| NamedSecret::query_parameter(name, SecretString::from(value));
        let pix = PixSettings {
            client_id: seed.client_id.parse()?,
            token_authentication: match behaviour.token_authentication {
                bank::TokenAuthentication::Basic => TokenAuthentication::Basic,
                bank::TokenAuthentication::Body => TokenAuthentication::Body,
            },
            scope: None,
            additional_ca: None,
            max_period_seconds: u32::try_from(behaviour.max_period_s).unwrap_or(u32::MAX),
            pix_key: seed.pix_key.parse()?,
            send_pix: SendPix::Local,
            filter_verified: false,
        };
        let settings = AcquirerSettings {
            name: ConnectionName::default(),
            base_url: AcquirerUrl::base(bank_url, &policy())?,
            requests_per_second: REQUESTS_PER_SECOND.max(DEFAULT_REQUESTS_PER_SECOND),
            expire_after_seconds: DEFAULT_EXPIRE_AFTER_SECONDS,
            kind: KindSettings::Pix(pix),
        };
        let token_url = bank.token_url().replacen(&bank.url(), bank_url, 1);
        let credentials = Credentials::Pix(PixCredentials {
            token_url: AcquirerUrl::token(&token_url, &policy())?,
            client_secret: Secret::credential(seed.client_secret.clone().into())?,
            identity: None,
            headers: behaviour.required_header.map(header).transpose()?.into_iter().collect(),
            query_parameters: behaviour.required_parameter.map(parameter).transpose()?.into_iter().collect(),
            webhook_headers: behaviour.webhook_header.map(header).transpose()?.into_iter().collect(),
        });
        Ok(AcquirerChoice { settings, credentials, callback: self.callback()? })
    }

    async fn stripe(&self, of: &StripeAccount, url: &str) -> Outcome<()> {
        let (account, key) = (self.seed.first.id, SecretString::from(self.seed.card_key.clone()));
        let connection = stripe_client::ConnectionSettings {
            base_url: url.to_owned(),
            files_url: url.to_owned(),
            api_key: key.clone(),
            requests_per_second: None,
        };
        let service_clock = self.clock.clone();
        let client = Client::new(&connection, Arc::new(move || service_clock.now()))?;
        let api = AcquirerUrl::base(url, &policy())?;
        let stored = match of.methods.first() {
            Some(method) => self.acquirers.current(&account, *method).await?,
            None => None,
        };
        let is_same = |stored: &ConfiguredAcquirer| stored.acquirer.settings.base_url == api;
        let new = async || {
            let stripe = StripeSettings {
                methods: of.methods.to_vec(),
                stripe_account: client.account().await?.id.parse()?,
                files_url: api.clone(),
                webhook_endpoint: None,
            };
            let settings = AcquirerSettings {
                name: of.name.parse()?,
                base_url: api.clone(),
                requests_per_second: REQUESTS_PER_SECOND,
                expire_after_seconds: 0,
                kind: KindSettings::Stripe(stripe),
            };
            let credentials = Credentials::Stripe(StripeCredentials { api_key: Secret::credential(key)? });
            Ok(AcquirerChoice { settings, credentials, callback: self.callback()? })
        };
        let Some(choice) = self.choice(of.marker, stored, is_same, new).await? else { return Ok(()) };
        let register = async |url: String, key: &str| {
            let made = client.create_webhook_endpoint(&Hidden(url), &EVENT_TYPES, key).await?;
            Ok((made.id, made.secret.map(|secret| secret.0.into()).unwrap_or_default()))
        };
        let before = self.set_signed(&choice, register).await?;
        if let Some(before) = before {
            client.delete_webhook_endpoint(&before).await?;
        }
        self.mark(of.marker)
    }

    /// Sets a connection whose acquirer signs its notifications. `register` gets a new URL and its token, which nothing else
    /// uses, and returns the id there and the secret of the signatures. Returns the id of the URL that was registered
    /// before.
    async fn set_signed(
        &self,
        choice: &AcquirerChoice,
        register: impl AsyncFnOnce(String, &str) -> Outcome<(String, SecretString)>,
    ) -> Outcome<Option<String>> {
        let (account, now) = (self.seed.first.id, self.clock.now());
        let set = self.acquirers.set(account, choice, None, now).await?;
        let Some(url) = set.new_callback_url else { return Ok(None) };
        let url = url.expose_secret();
        let token = url.rsplit('/').next().unwrap_or_default();
        let (id, secret) = register(format!("{url}{SIGNED_PATH}"), token).await?;
        let name = &choice.settings.name;
        Ok(self.acquirers.set_registered(account, name, (&id, &secret), now).await?)
    }

    /// Configures the stand-in of BTCPay Server, as `admin accounts set-acquirer … btcpay` does for a real one. `url`: its
    /// URL.
    pub(crate) async fn configure_btcpay(&self, url: &str) -> Result<()> {
        let configured = Box::pin(self.btcpay(url)).await;
        configured.map_err(|error| Error::because("configuring a stand-in of BTCPay Server", &*error))
    }

    async fn btcpay(&self, url: &str) -> Outcome<()> {
        let account = self.seed.first.id;
        let api = AcquirerUrl::base(url, &policy())?;
        let stored = self.acquirers.current(&account, PaymentMethod::Crypto).await?;
        let is_same = |stored: &ConfiguredAcquirer| stored.acquirer.settings.base_url == api;
        let btcpay = BtcpaySettings {
            methods: vec![PaymentMethod::Crypto],
            store: STORE.parse()?,
            webhook_endpoint: None,
        };
        let secrets = BtcpayCredentials { api_key: Secret::credential(crypto_key(self.seed).into())? };
        let at = (&api, REQUESTS_PER_SECOND);
        let clock = self.clock.clone();
        let client =
            btcpay_client::Client::new(&btcpay.connection(&secrets, at), Arc::new(move || clock.now()))?;
        let settings = AcquirerSettings {
            name: "crypto".parse()?,
            base_url: api.clone(),
            requests_per_second: REQUESTS_PER_SECOND,
            expire_after_seconds: 0,
            kind: KindSettings::Btcpay(btcpay),
        };
        let new = AcquirerChoice {
            settings,
            credentials: Credentials::Btcpay(secrets),
            callback: self.callback()?,
        };
        let Some(choice) = self.choice(BTCPAY_MARKER, stored, is_same, async || Ok(new)).await? else {
            return Ok(());
        };
        let register = async |url: String, token: &str| {
            let secret = SecretString::from(token);
            Ok((client.create_webhook(&url, &secret).await?.id, secret))
        };
        let before = self.set_signed(&choice, register).await?;
        if let Some(before) = before {
            client.delete_webhook(&before).await?;
        }
        self.mark(BTCPAY_MARKER)
    }
}

/// Which URLs the acquirers may have.
fn policy() -> AddressPolicy {
    AddressPolicy::PublicOrLocal(LocalNames::default())
}
