//! Configures the bank on this machine as the acquirer of the first seeded account, as `admin accounts
//! set-acquirer` does for a real bank. The other account has no acquirer.

use std::path::Path;
use std::sync::Arc;

use bank::{Bank, Behaviour};
use domain::payment_method::PaymentMethod;
use domain::time::Timestamp;
use domain::url_policy::{AddressPolicy, LocalNames};
use secrecy::{ExposeSecret as _, SecretString};
use shared::acquirer::Connections;
use shared::acquirer::configuration::{
    AccountAcquirers, AcquirerChoice, AcquirerSettings, AcquirerUrl, CallbackAuthentication, CallbackChoice,
    ConnectionName, Credentials, DEFAULT_EXPIRE_AFTER_SECONDS, DEFAULT_REQUESTS_PER_SECOND, KindSettings,
    NamedSecret, PixCredentials, PixSettings, Secret, SendPix, StripeCredentials, StripeSettings,
    TokenAuthentication,
};
use shared::clock::Clock;
use stripe_client::{Client, EVENT_TYPES, Hidden};

use crate::error::{Error, Result};
use crate::seed::{Seed, write_atomically};

/// An operator may remove the acquirer later, and the next start must not configure it again.
pub(crate) const MARKER: &str = "acquirer-seeded";
pub(crate) const CARDS_MARKER: &str = "cards-seeded";

/// Requests a second to the bank: as many as the load tests on a laptop send.
const REQUESTS_PER_SECOND: u32 = 1_000;

pub(crate) async fn configure(
    directory: Option<&Path>,
    (seed, bank, bank_url): (&Seed, &Bank, &str),
    acquirers: AccountAcquirers,
    base_url: &str,
    clock: &Clock,
) -> Result<()> {
    let failed = |error: &(dyn std::error::Error + 'static)| Error::because("configuring the bank", error);
    let account = seed.first.id;
    let choice = choice(seed, bank, bank_url, base_url)?;
    let stored = acquirers.current(&account, PaymentMethod::Pix).await.map_err(|error| failed(&error))?;
    let marker = directory.map(|directory| directory.join(MARKER));
    let was_seeded = marker.as_ref().is_some_and(|marker| marker.exists());
    let connection = choice.settings.new_connection();
    let choice = match stored {
        // An operator may have changed other settings than bank and client.
        Some(stored) if stored.acquirer.settings.new_connection() == connection => {
            AcquirerChoice { callback: choice.callback, ..stored.choice() }
        }
        Some(_) => return Ok(()),
        None if was_seeded => return Ok(()),
        None => choice,
    };
    let now: Timestamp = clock.now();
    let configured = acquirers.set(account, &choice, None, now).await.map_err(|error| failed(&error))?;
    if let Some(url) = configured.new_callback_url {
        let connections = Connections::new(acquirers, clock.clone());
        let connection = connections.at(account, None).await.map_err(|error| failed(&error))?;
        let bank = connection.pix().map_err(|error| failed(&error))?;
        bank.register_webhook(&url).await.map_err(|error| failed(&error))?;
    }
    match marker {
        Some(marker) if !was_seeded => write_atomically(&marker, b"\n"),
        Some(_) | None => Ok(()),
    }
}

fn choice(seed: &Seed, bank: &Bank, bank_url: &str, base_url: &str) -> Result<AcquirerChoice> {
    let failed = |error: &(dyn std::error::Error + 'static)| Error::because("configuring the bank", error);
    let policy = AddressPolicy::PublicOrLocal(LocalNames::default());
    let behaviour: &Behaviour = bank.behaviour();
    let header = |(name, value): (&str, &str)| NamedSecret::header(name, SecretString::from(value));
    let parameter =
        |(name, value): (&str, &str)| NamedSecret::query_parameter(name, SecretString::from(value));
    let headers: std::result::Result<Vec<_>, _> = behaviour.required_header.map(header).into_iter().collect();
    let parameters: std::result::Result<Vec<_>, _> =
        behaviour.required_parameter.map(parameter).into_iter().collect();
    let webhook_headers: std::result::Result<Vec<_>, _> =
        behaviour.webhook_header.map(header).into_iter().collect();
    let pix = PixSettings {
        client_id: seed.bank.client_id.parse().map_err(|error| failed(&error))?,
        token_authentication: match behaviour.token_authentication {
            bank::TokenAuthentication::Basic => TokenAuthentication::Basic,
            bank::TokenAuthentication::Body => TokenAuthentication::Body,
        },
        scope: None,
        additional_ca: None,
        max_period_seconds: u32::try_from(behaviour.max_period_s).unwrap_or(u32::MAX),
        pix_key: seed.bank.pix_key.parse().map_err(|error| failed(&error))?,
        send_pix: SendPix::Local,
        filter_verified: false,
    };
    let settings = AcquirerSettings {
        name: ConnectionName::default(),
        base_url: AcquirerUrl::base(bank_url, &policy).map_err(|error| failed(&error))?,
        requests_per_second: REQUESTS_PER_SECOND.max(DEFAULT_REQUESTS_PER_SECOND),
        expire_after_seconds: DEFAULT_EXPIRE_AFTER_SECONDS,
        kind: KindSettings::Pix(pix),
    };
    let token_url = bank.token_url().replacen(&bank.url(), bank_url, 1);
    let credentials = Credentials::Pix(PixCredentials {
        token_url: AcquirerUrl::token(&token_url, &policy).map_err(|error| failed(&error))?,
        client_secret: Secret::credential(seed.bank.client_secret.clone().into())
            .map_err(|error| failed(&error))?,
        identity: None,
        headers: headers.map_err(|error| failed(&error))?,
        query_parameters: parameters.map_err(|error| failed(&error))?,
        webhook_headers: webhook_headers.map_err(|error| failed(&error))?,
    });
    Ok(AcquirerChoice { settings, credentials, callback: callback(base_url)? })
}

fn callback(base_url: &str) -> Result<CallbackChoice> {
    let policy = AddressPolicy::PublicOrLocal(LocalNames::default());
    Ok(CallbackChoice {
        base_url: AcquirerUrl::base(base_url, &policy)
            .map_err(|error| Error::because("configuring an acquirer", &error))?,
        authentication: CallbackAuthentication::Token,
        certificate_subject: None,
        source_addresses: Vec::new(),
    })
}

/// Configures the stand-in of Stripe, as `admin accounts set-acquirer … stripe` does for Stripe.
pub(crate) async fn configure_cards(
    directory: Option<&Path>,
    (seed, url): (&Seed, &str),
    acquirers: AccountAcquirers,
    base_url: &str,
    clock: &Clock,
) -> Result<()> {
    let failed = |error: &(dyn std::error::Error + 'static)| Error::because("configuring cards", error);
    let account = seed.first.id;
    let stored =
        acquirers.current(&account, PaymentMethod::CreditCard).await.map_err(|error| failed(&error))?;
    let marker = directory.map(|directory| directory.join(CARDS_MARKER));
    let was_seeded = marker.as_ref().is_some_and(|marker| marker.exists());
    let connection = stripe_client::ConnectionSettings {
        base_url: url.to_owned(),
        files_url: url.to_owned(),
        api_key: seed.card_key.clone().into(),
        requests_per_second: None,
    };
    let (now, service_clock) = (clock.now(), clock.clone());
    let client =
        Client::new(&connection, Arc::new(move || service_clock.now())).map_err(|error| failed(&error))?;
    let policy = AddressPolicy::PublicOrLocal(LocalNames::default());
    let api = AcquirerUrl::base(url, &policy).map_err(|error| failed(&error))?;
    let choice = match stored {
        // An operator may have changed other settings.
        Some(stored) if stored.acquirer.settings.base_url == api => {
            AcquirerChoice { callback: callback(base_url)?, ..stored.choice() }
        }
        Some(_) => return Ok(()),
        None if was_seeded => return Ok(()),
        None => {
            let merchant = client.account().await.map_err(|error| failed(&error))?;
            let stripe = StripeSettings {
                methods: vec![PaymentMethod::CreditCard],
                stripe_account: merchant.id.parse().map_err(|error| failed(&error))?,
                files_url: api.clone(),
                webhook_endpoint: None,
            };
            let settings = AcquirerSettings {
                name: "cards".parse().map_err(|error| failed(&error))?,
                base_url: api,
                requests_per_second: REQUESTS_PER_SECOND,
                expire_after_seconds: 0,
                kind: KindSettings::Stripe(stripe),
            };
            let api_key = Secret::credential(seed.card_key.clone().into()).map_err(|error| failed(&error))?;
            let credentials = Credentials::Stripe(StripeCredentials { api_key });
            AcquirerChoice { settings, credentials, callback: callback(base_url)? }
        }
    };
    let set = acquirers.set(account, &choice, None, now).await.map_err(|error| failed(&error))?;
    if let Some(url) = set.new_callback_url {
        let url = Hidden(format!("{}/hosted", url.expose_secret()));
        let key = url.0.rsplit('/').nth(1).unwrap_or_default();
        let made =
            client.create_webhook_endpoint(&url, &EVENT_TYPES, key).await.map_err(|error| failed(&error))?;
        let secret = made.secret.map(|secret| secret.0.into()).unwrap_or_default();
        let name = &choice.settings.name;
        let registered = acquirers.set_registered(account, name, (&made.id, &secret), now);
        if let Some(before) = registered.await.map_err(|error| failed(&error))? {
            client.delete_webhook_endpoint(&before).await.map_err(|error| failed(&error))?;
        }
    }
    match marker {
        Some(marker) if !was_seeded => write_atomically(&marker, b"\n"),
        Some(_) | None => Ok(()),
    }
}
