//! Requests to an account's bank: try credentials, and register the URL for notifications.

use std::error::Error;
use std::sync::Arc;

use api_pix::{ApiError, Client, PixQuery};
use domain::ids::AccountId;
use domain::pix_key::PixKey;
use domain::time::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use shared::acquirer::configuration::{AcquirerSettings, CallbackSettings, CallbackToken};

use crate::target::Stack;

/// The period of a harmless `GET /pix`, in seconds. It ends a few seconds ago, because banks refuse a period
/// that ends in the future, and clocks differ.
const PROBE_FROM_SECONDS_AGO: i64 = 90;
const PROBE_TO_SECONDS_AGO: i64 = 30;

/// Returns a client for a bank. It sends nothing yet.
pub(super) fn connect(stack: &Stack, settings: &AcquirerSettings) -> Result<Client, Box<dyn Error>> {
    let clock = stack.clock.clone();
    let client = Client::new(&settings.connection_settings(), Arc::new(move || clock.now()));
    Ok(client.map_err(|error| format!("the bank can't be called with these settings: {error}"))?)
}

/// Reads the Pix of one minute, which changes nothing at the bank.
pub(super) async fn probe_list(client: &Client, now: Timestamp) -> Result<(), ApiError> {
    let ago = |seconds: i64| now.plus_seconds(seconds.saturating_neg()).unwrap_or(Timestamp::MIN);
    let period = PixQuery::period(ago(PROBE_FROM_SECONDS_AGO), ago(PROBE_TO_SECONDS_AGO));
    client.list_pix(&PixQuery { page_size: 1, ..period }).await.map(drop)
}

/// Tries new credentials: a token, and the Pix of one minute.
pub(super) async fn try_credentials(client: &Client, now: Timestamp) -> Result<(), Box<dyn Error>> {
    let tried = match client.check_token().await {
        Ok(_) => probe_list(client, now).await.map_err(|error| ("GET /pix", error)),
        Err(error) => Err(("the token", error)),
    };
    Ok(tried.map_err(|(what, error)| {
        format!(
            "nothing was changed, because the bank refused a trial of {what}: {error}. --no-check skips it"
        )
    })?)
}

/// Registers the URL for notifications of a Pix key.
pub(super) async fn register(
    client: &Client,
    key: &PixKey,
    url: &SecretString,
) -> Result<(), Box<dyn Error>> {
    let registered = client.put_webhook(key, url.expose_secret()).await;
    Ok(registered.map_err(|error| {
        format!(
            "the change was made, but the bank did not register the URL: {error}. Register the printed URL at the bank, or run `accounts rotate-callback-token`"
        )
    })?)
}

/// The URL that is registered at the bank for a Pix key. A URL of another service may contain a secret of
/// that service, so neither kind is shown.
pub(super) enum Registered<'a> {
    /// No URL.
    Nothing,
    /// The URL of the account, with this token.
    Ours(&'a CallbackToken),
    /// Another URL, or one whose token is not valid any more.
    Other,
}

/// Reads which URL is registered at the bank.
pub(super) async fn registered<'a>(
    client: &Client,
    key: &PixKey,
    callback: &'a CallbackSettings,
) -> Result<Registered<'a>, ApiError> {
    Ok(match client.get_webhook(key).await? {
        None => Registered::Nothing,
        Some(webhook) => callback.token_of_url(&webhook.url).map_or(Registered::Other, Registered::Ours),
    })
}

/// Removes the URL for notifications of a Pix key at the bank, if it is ours. The URL of another service
/// remains.
pub(super) async fn unregister(
    client: &Client,
    key: &PixKey,
    callback: Option<&CallbackSettings>,
) -> Result<(), Box<dyn Error>> {
    let Some(callback) = callback else { return Ok(()) };
    let removed = match registered(client, key, callback).await {
        Ok(Registered::Ours(_)) => client.delete_webhook(key).await,
        Ok(Registered::Nothing | Registered::Other) => Ok(()),
        Err(error) => Err(error),
    };
    Ok(removed.map_err(|error| {
        format!(
            "nothing was changed, because the URL can't be removed at the bank: {error}. --no-remove-webhook skips it"
        )
    })?)
}

/// Returns the hash of the token that the bank uses. `None`: it uses none of ours.
pub(super) async fn token_in_use(
    client: &Client,
    key: &PixKey,
    callback: &CallbackSettings,
) -> Result<Option<String>, Box<dyn Error>> {
    match registered(client, key, callback).await {
        Ok(Registered::Ours(token)) => Ok(Some(token.sha256.clone())),
        Ok(Registered::Nothing | Registered::Other) => Ok(None),
        Err(error) => Err(format!(
            "nothing was changed, because the bank did not say which URL is registered: {error}. --no-register-webhook skips it"
        )
        .into()),
    }
}

/// The message for an account whose registered URL is not ours.
pub(super) fn not_ours(account: AccountId) -> String {
    format!(
        "the URL that is registered at the bank is not that of the account; run `accounts rotate-callback-token {account}`"
    )
}
