//! Configures the bank on this machine as the acquirer of the first seeded account, as `admin accounts
//! set-acquirer` does for a real bank. The other account has no acquirer.

use std::path::Path;

use bank::{Bank, Behaviour};
use domain::time::Timestamp;
use domain::url_policy::{AddressPolicy, LocalNames};
use secrecy::SecretString;
use shared::acquirer::Banks;
use shared::acquirer::configuration::{
    AccountAcquirers, AcquirerKind, AcquirerSettings, AcquirerUrl, CallbackAuthentication, CallbackChoice,
    ClientSecret, ConnectionName, DEFAULT_EXPIRE_AFTER_SECONDS, DEFAULT_REQUESTS_PER_SECOND, NamedSecret,
    SendPix, TokenAuthentication,
};
use shared::clock::Clock;

use crate::error::{Error, Result};
use crate::seed::{Seed, write_atomically};

/// An operator may remove the acquirer later, and the next start must not configure it again.
pub(crate) const MARKER: &str = "acquirer-seeded";

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
    let settings = settings(seed, bank, bank_url)?;
    let stored = acquirers.find(&account).await.map_err(|error| failed(&error))?;
    let marker = directory.map(|directory| directory.join(MARKER));
    let was_seeded = marker.as_ref().is_some_and(|marker| marker.exists());
    let settings = match stored {
        // An operator may have changed other settings than bank and client.
        Some(stored) if stored.settings.new_connection() == settings.new_connection() => stored.settings,
        Some(_) => return Ok(()),
        None if was_seeded => return Ok(()),
        None => settings,
    };
    let policy = AddressPolicy::PublicOrLocal(LocalNames::default());
    let choice = CallbackChoice {
        base_url: AcquirerUrl::base(base_url, &policy).map_err(|error| failed(&error))?,
        authentication: CallbackAuthentication::Token,
        certificate_subject: None,
        source_addresses: Vec::new(),
    };
    let now: Timestamp = clock.now();
    let configured =
        acquirers.set(account, &settings, &choice, None, now).await.map_err(|error| failed(&error))?;
    if let Some(url) = configured.new_callback_url {
        let bank = Banks::new(acquirers, clock.clone()).of(account).await.map_err(|error| failed(&error))?;
        bank.register_webhook(&url).await.map_err(|error| failed(&error))?;
    }
    match marker {
        Some(marker) if !was_seeded => write_atomically(&marker, b"\n"),
        Some(_) | None => Ok(()),
    }
}

fn settings(seed: &Seed, bank: &Bank, bank_url: &str) -> Result<AcquirerSettings> {
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
    Ok(AcquirerSettings {
        kind: AcquirerKind::Pix,
        name: ConnectionName::default(),
        base_url: AcquirerUrl::base(bank_url, &policy).map_err(|error| failed(&error))?,
        token_url: AcquirerUrl::token(&bank.token_url().replacen(&bank.url(), bank_url, 1), &policy)
            .map_err(|error| failed(&error))?,
        client_id: seed.bank.client_id.parse().map_err(|error| failed(&error))?,
        client_secret: ClientSecret::new(seed.bank.client_secret.clone().into())
            .map_err(|error| failed(&error))?,
        token_authentication: match behaviour.token_authentication {
            bank::TokenAuthentication::Basic => TokenAuthentication::Basic,
            bank::TokenAuthentication::Body => TokenAuthentication::Body,
        },
        scope: None,
        identity: None,
        additional_ca: None,
        headers: headers.map_err(|error| failed(&error))?,
        query_parameters: parameters.map_err(|error| failed(&error))?,
        webhook_headers: webhook_headers.map_err(|error| failed(&error))?,
        max_period_seconds: u32::try_from(behaviour.max_period_s).unwrap_or(u32::MAX),
        requests_per_second: REQUESTS_PER_SECOND.max(DEFAULT_REQUESTS_PER_SECOND),
        expire_after_seconds: DEFAULT_EXPIRE_AFTER_SECONDS,
        pix_key: seed.bank.pix_key.parse().map_err(|error| failed(&error))?,
        send_pix: SendPix::Local,
        filter_verified: false,
    })
}
