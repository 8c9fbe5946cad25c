//! The state of an HTTP function: repositories, clock, public URLs and settings from the environment.

use std::ops::Deref;
use std::sync::Arc;

use domain::url_policy::{AddressPolicy, LocalNames};

use crate::{BankPayments, ChargeCancellation, ChargeCreation, PaymentList, RemoteCharges};
use acquirer_core::configuration::AccountAcquirers;
use acquirer_core::{AcquirerQueue, Acquirers, Connections};
use effects::rollup::Rollups;
use effects::webhook::delivery::Deliveries;
use effects::webhook::endpoint::Endpoints;
use effects::webhook::log::EventLog;
use effects::webhook::resend::Resends;
use money::charge::Charges;
use money::med::MedCases;
use money::refund::Refunds;
use money::wallet::Wallets;
use shared::account::Accounts;
use shared::api_key::ApiKeys;
use shared::auth::dashboard::{Dashboard, PUBLIC_KEYS};
use shared::clock::Clock;
use shared::config::{ConfigError, PublicUrls, Vars, required};
use shared::http::OriginSecrets;
use shared::store::{Aws, Store};

/// The state of an HTTP function. Clones share it, because each request makes several.
#[derive(Clone, Debug)]
pub struct App(Arc<Parts>);

#[derive(Debug)]
pub struct Parts {
    pub api_keys: ApiKeys,
    pub charges: Charges,
    pub acquirers: Acquirers,
    /// `None` in functions that request no work at acquirers.
    pub acquirer_queue: Option<AcquirerQueue>,
    /// Writes what acquirers say; `None` in functions that call no acquirer.
    pub remote_charges: Option<RemoteCharges>,
    pub payment_list: PaymentList,
    pub refunds: Refunds,
    pub cases: MedCases,
    pub accounts: Accounts,
    pub rollups: Rollups,
    pub wallets: Wallets,
    pub endpoints: Endpoints,
    pub deliveries: Deliveries,
    pub events: EventLog,
    pub resends: Resends,
    pub clock: Clock,
    pub public_urls: PublicUrls,
    /// The sessions of dashboard users; `None` in functions that serve no page or form of the dashboard.
    pub dashboard: Option<Dashboard>,
    /// Which addresses webhooks may be sent to.
    pub address_policy: AddressPolicy,
    pub charge_list_enabled: bool,
    /// The secrets of the CDN in front of the API.
    pub origin: OriginSecrets,
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    /// Reads `TABLE_NAME`, `API_KEYS_TABLE_NAME`, `CHECKOUT_BASE_URL`, `CHARGE_LIST` (`off` disables the
    /// list), `SECRETS_TABLE_NAME` (functions that call banks need it), `ACQUIRER_QUEUE_URL`, and the variables of
    /// [`address_policy`] and [`OriginSecrets::from_vars`].
    /// Errors: When one of the first three is not set, or `CHECKOUT_BASE_URL` or a secret of the CDN is not
    /// valid.
    pub fn from_vars(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<Self, ConfigError> {
        let client = aws.dynamodb();
        let store = Store::new(client, required(var, "TABLE_NAME")?);
        let api_keys = ApiKeys::new(store.clone(), required(var, "API_KEYS_TABLE_NAME")?);
        let secrets = var("SECRETS_TABLE_NAME").filter(|name| !name.is_empty());
        let settings =
            secrets.map(|table| AccountAcquirers::new(store.clone(), Store::new(aws.dynamodb(), table)));
        Ok(Self(Arc::new(Parts {
            remote_charges: settings.clone().map(|settings| {
                RemoteCharges::new(store.clone(), BankPayments::new(store.clone(), settings))
            }),
            acquirers: settings.map_or_else(Acquirers::sandbox_only, |settings| {
                Acquirers::with_connections(Connections::new(settings, clock.clone()))
            }),
            acquirer_queue: var("ACQUIRER_QUEUE_URL").map(|url| AcquirerQueue::new(aws.sqs(), url)),
            accounts: Accounts::new(store.clone()),
            api_keys,
            charges: Charges::new(store.clone()),
            payment_list: PaymentList::new(store.clone()),
            refunds: Refunds::new(store.clone()),
            rollups: Rollups::new(store.clone()),
            cases: MedCases::new(store.clone()),
            wallets: Wallets::new(store.clone()),
            endpoints: Endpoints::new(store.clone()),
            deliveries: Deliveries::new(store.clone()),
            events: EventLog::new(store.clone()),
            resends: Resends::new(store.clone()),
            clock,
            dashboard: var(PUBLIC_KEYS).map(|_set| Dashboard::from_vars(store.clone(), var)).transpose()?,
            public_urls: PublicUrls::new(&required(var, "CHECKOUT_BASE_URL")?)?,
            address_policy: address_policy(var),
            charge_list_enabled: var("CHARGE_LIST").as_deref() != Some("off"),
            origin: OriginSecrets::from_vars(var)?,
        })))
    }

    pub fn charge_creation(&self) -> ChargeCreation<'_> {
        let Parts { charges, acquirers, public_urls, clock, .. } = &**self;
        ChargeCreation { charges, acquirers, public_urls, clock }
    }

    pub fn charge_cancellation(&self) -> ChargeCancellation<'_> {
        let Parts { charges, acquirers, remote_charges, .. } = &**self;
        ChargeCancellation { charges, acquirers, remote: remote_charges.as_ref() }
    }
}

/// Reads the address policy of webhooks from `WEBHOOK_ADDRESSES`. Webhooks may always be sent to public
/// addresses. If the value is exactly `loopback`, they may also be sent to loopback addresses and to the
/// hosts in `WEBHOOK_LOCAL_NAMES` (separated by commas).
pub fn address_policy(var: Vars<'_>) -> AddressPolicy {
    match var("WEBHOOK_ADDRESSES").as_deref() {
        Some("loopback") => {
            let names = var("WEBHOOK_LOCAL_NAMES").unwrap_or_default();
            AddressPolicy::PublicOrLocal(LocalNames::parse(&names))
        }
        _ => AddressPolicy::PublicOnly,
    }
}
