//! Configures the bank on this machine as the acquirer of the first seeded account, as `admin accounts
//! set-acquirer` does for a real bank. The other account has no acquirer.

use std::path::Path;

use bank::{Bank, Behaviour};
use domain::time::Timestamp;
use domain::url_policy::{AddressPolicy, LocalNames};
use secrecy::SecretString;
use shared::acquirer::Banks;
use shared::acquirer::configuration::{
    AccountAcquirers, AcquirerChoice, AcquirerKind, AcquirerSettings, AcquirerUrl, CallbackAuthentication,
    CallbackChoice, ConnectionName, Credentials, DEFAULT_EXPIRE_AFTER_SECONDS, DEFAULT_REQUESTS_PER_SECOND,
    NamedSecret, Secret, SendPix, TokenAuthentication,
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
    let choice = choice(seed, bank, bank_url, base_url)?;
    let stored = acquirers.find(&account).await.map_err(|error| failed(&error))?;
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
        let bank = Banks::new(acquirers, clock.clone()).of(account).await.map_err(|error| failed(&error))?;
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
    let settings = AcquirerSettings {
        kind: AcquirerKind::Pix,
        name: ConnectionName::default(),
        base_url: AcquirerUrl::base(bank_url, &policy).map_err(|error| failed(&error))?,
        client_id: seed.bank.client_id.parse().map_err(|error| failed(&error))?,
        token_authentication: match behaviour.token_authentication {
            bank::TokenAuthentication::Basic => TokenAuthentication::Basic,
            bank::TokenAuthentication::Body => TokenAuthentication::Body,
        },
        scope: None,
        additional_ca: None,
        max_period_seconds: u32::try_from(behaviour.max_period_s).unwrap_or(u32::MAX),
        requests_per_second: REQUESTS_PER_SECOND.max(DEFAULT_REQUESTS_PER_SECOND),
        expire_after_seconds: DEFAULT_EXPIRE_AFTER_SECONDS,
        pix_key: seed.bank.pix_key.parse().map_err(|error| failed(&error))?,
        send_pix: SendPix::Local,
        filter_verified: false,
    };
    let token_url = bank.token_url().replacen(&bank.url(), bank_url, 1);
    let credentials = Credentials {
        token_url: AcquirerUrl::token(&token_url, &policy).map_err(|error| failed(&error))?,
        client_secret: Secret::credential(seed.bank.client_secret.clone().into())
            .map_err(|error| failed(&error))?,
        identity: None,
        headers: headers.map_err(|error| failed(&error))?,
        query_parameters: parameters.map_err(|error| failed(&error))?,
        webhook_headers: webhook_headers.map_err(|error| failed(&error))?,
    };
    let callback = CallbackChoice {
        base_url: AcquirerUrl::base(base_url, &policy).map_err(|error| failed(&error))?,
        authentication: CallbackAuthentication::Token,
        certificate_subject: None,
        source_addresses: Vec::new(),
    };
    Ok(AcquirerChoice { settings, credentials, callback })
}
