use std::sync::Arc;

use acquirer_core::configuration::{AccountAcquirer, CallbackToken};
use api_pix::{ApiError, Client, Cob, ConnectionSettings, NewCob, PixQuery};
use domain::hex;
use domain::ids::AccountId;
use domain::money::Amount;
use domain::pix_key::PixKey;
use domain::time::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use shared::random;

use crate::Result;
use crate::target::Stack;

/// The period of a harmless `GET /pix`, in seconds. It ends a few seconds ago, because banks refuse a period
/// that ends in the future, and clocks differ.
const PROBE_FROM_SECONDS_AGO: i64 = 90;
const PROBE_TO_SECONDS_AGO: i64 = 30;

/// Amount and life of the cob that tries the Pix key: one centavo, for a minute.
pub(super) const PROBE_CENTAVOS: i64 = 1;
const PROBE_EXPIRES_IN_SECONDS: u32 = 60;

pub(super) fn connect(stack: &Stack, settings: &ConnectionSettings) -> Result<Client> {
    let clock = stack.clock.clone();
    let client = Client::new(settings, Arc::new(move || clock.now()));
    Ok(client.map_err(|error| format!("the bank can't be called with these settings: {error}"))?)
}

/// The Pix key whose payments the bank reports.
fn key_of(acquirer: &AccountAcquirer) -> Result<&PixKey, ApiError> {
    let pix = acquirer.settings.pix();
    Ok(&pix.ok_or(ApiError::InvalidRequest("the connection is to no bank of Pix"))?.pix_key)
}

/// Reads the Pix of one minute, which changes nothing at the bank.
pub(super) async fn probe_list(client: &Client, now: Timestamp) -> Result<(), ApiError> {
    let ago = |seconds: i64| now.plus_seconds(seconds.saturating_neg()).unwrap_or(Timestamp::MIN);
    let period = PixQuery::period(ago(PROBE_FROM_SECONDS_AGO), ago(PROBE_TO_SECONDS_AGO));
    client.list_pix(&PixQuery { page_size: 1, ..period }).await.map(drop)
}

/// Tries a Pix key by a cob that is removed again. Returns what the bank answered to its creation and its removal.
pub(super) async fn probe_key(
    client: &Client,
    key: &PixKey,
    txid: &str,
) -> Result<(Result<Cob, ApiError>, Result<Cob, ApiError>)> {
    let cob = NewCob {
        amount: Amount::parse(PROBE_CENTAVOS)?,
        expires_in_seconds: PROBE_EXPIRES_IN_SECONDS,
        key: key.clone(),
        debtor: None,
        payer_request: None,
    };
    let created = client.put_cob(txid, &cob).await;
    // Also after an error, because the bank may have created the cob.
    Ok((created, client.remove_cob(txid).await))
}

pub(super) async fn try_credentials(client: &Client, key: &PixKey, now: Timestamp) -> Result<()> {
    let tried = async {
        client.check_token().await.map_err(|error| ("the token", error))?;
        probe_list(client, now).await.map_err(|error| ("GET /pix", error))
    };
    let tried = match tried.await {
        Ok(()) => match probe_key(client, key, &hex::encode(random::bytes::<16>()?)).await?.0 {
            Err(ApiError::Refused { problem, .. }) if !problem.concerns_connection() => Ok(()),
            created => created.map(drop).map_err(|error| ("--pix-key by PUT /cob/{txid}", error)),
        },
        failed => failed,
    };
    Ok(tried.map_err(|(what, error)| {
        format!(
            "nothing was changed, because the bank refused a trial of {what}: {error}. --no-check skips it"
        )
    })?)
}

pub(super) async fn register(client: &Client, acquirer: &AccountAcquirer, url: &SecretString) -> Result<()> {
    let registered = client.put_webhook(key_of(acquirer)?, url.expose_secret()).await;
    Ok(registered.map_err(|error| {
        let names_key = |error: &ApiError| match error {
            ApiError::Refused { problem, .. } | ApiError::NotFound(problem) => problem.names_key(),
            _ => false,
        };
        let remedy = if names_key(&error) {
            "Run `accounts set-acquirer` again with the Pix key of this client"
        } else {
            "Register the printed URL at the bank, or run `accounts rotate-callback-token`"
        };
        format!("the change was made, but the bank did not register the URL: {error}. {remedy}")
    })?)
}

/// The URL that is registered at the bank for a Pix key. A URL of another service may contain a secret of
/// that service, so neither kind is shown.
pub(super) enum Registered<'a> {
    Nothing,
    Ours(&'a CallbackToken),
    /// Another URL, or one whose token is not valid any more.
    Other,
}

pub(super) async fn registered<'a>(
    client: &Client,
    acquirer @ AccountAcquirer { account, callback, .. }: &'a AccountAcquirer,
) -> Result<Registered<'a>, ApiError> {
    Ok(match client.get_webhook(key_of(acquirer)?).await? {
        None => Registered::Nothing,
        Some(webhook) => {
            callback.token_of_url(*account, &webhook.url).map_or(Registered::Other, Registered::Ours)
        }
    })
}

/// Removes the URL for notifications of a Pix key at the bank, if it is ours. The URL of another service
/// remains.
pub(super) async fn unregister(client: &Client, acquirer: &AccountAcquirer) -> Result<()> {
    let removed = match registered(client, acquirer).await {
        Ok(Registered::Ours(_)) => client.delete_webhook(key_of(acquirer)?).await,
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
pub(super) async fn token_in_use(client: &Client, acquirer: &AccountAcquirer) -> Result<Option<String>> {
    match registered(client, acquirer).await {
        Ok(Registered::Ours(token)) => Ok(Some(token.sha256.clone())),
        Ok(Registered::Nothing | Registered::Other) => Ok(None),
        Err(error) => Err(format!(
            "nothing was changed, because the bank did not say which URL is registered: {error}. --no-register-webhook skips it"
        )
        .into()),
    }
}

pub(super) fn not_ours(account: AccountId) -> String {
    format!(
        "the URL that is registered at the bank is not that of the account; run `accounts rotate-callback-token {account}`"
    )
}
