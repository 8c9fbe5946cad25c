//! The commands about a connection to Stripe.

use std::sync::Arc;

use domain::hex;
use domain::ids::AccountId;
use secrecy::{ExposeSecret, SecretString};
use shared::acquirer::configuration::{
    AccountAcquirer, ConfiguredAcquirer, Credentials, KindSettings, StripeSettings,
};
use shared::random;
use stripe_client::{Account, Client, ConnectionSettings, EVENT_TYPES, Hidden, WebhookEndpoint};

use super::arguments::SetStripe;
use super::check::{Checks, Outcome};
use crate::target::Stack;
use crate::{Result, print_json};

/// The part of the URL after the token.
const PATH: &str = "/hosted";

/// The longest offset of the clocks, in seconds. Stripe's signatures are refused after five minutes.
const MAX_OFFSET_SECONDS: u64 = 60;

fn connect(stack: &Stack, settings: &ConnectionSettings) -> Result<Client> {
    let clock = stack.clock.clone();
    let client = Client::new(settings, Arc::new(move || clock.now()));
    Ok(client.map_err(|error| format!("Stripe can't be called with these settings: {error}"))?)
}

/// Returns a client and the settings of a connection to Stripe.
fn of(stack: &Stack, found: &ConfiguredAcquirer) -> Result<(Client, StripeSettings)> {
    let settings = &found.acquirer.settings;
    let (KindSettings::Stripe(stripe), Credentials::Stripe(credentials)) =
        (&settings.kind, &found.credentials)
    else {
        return Err("the connection is not to Stripe".into());
    };
    Ok((connect(stack, &credentials.connection(settings, stripe))?, stripe.clone()))
}

pub(super) async fn set(stack: &Stack, account: AccountId, arguments: &SetStripe) -> Result<()> {
    let acquirers = stack.acquirers()?;
    let key = arguments.key()?;
    let client = connect(stack, &arguments.connection(&key))?;
    let tried = client.account().await;
    let seen = tried.map_err(|error| {
        format!("nothing was changed, because Stripe refused a trial of the key: {error}")
    })?;
    if let Some(why) = lacking(&seen) {
        return Err(format!("nothing was changed, because {why}").into());
    }
    let all = acquirers.all(&account).await?;
    let before = all.first().map(|each| &each.acquirer.callback.choice);
    let choice = arguments.choice(stack, before, (&seen.id, &key))?;
    let (now, operator) = (stack.clock.now(), arguments.operator.clone().operator());
    let set = Box::pin(acquirers.set(account, &choice, Some(&operator), now)).await?;
    let registered = match set.new_callback_url {
        Some(url) => Box::pin(register(stack, &client, (account, &set.current), &url)).await,
        None if is_registered(&set.current) => Ok(()),
        None => Box::pin(rotate(stack, account, &set.current, arguments.operator.clone())).await,
    };
    registered.map_err(|error| {
        format!("the connection is set, but its URL was not registered; run `accounts rotate-callback-token`: {error}")
    })?;
    print_json(&acquirers.named(account, Some(arguments.name())).await?.view())
}

fn is_registered(found: &ConfiguredAcquirer) -> bool {
    matches!(&found.acquirer.settings.kind, KindSettings::Stripe(stripe) if stripe.webhook_endpoint.is_some())
}

/// Why an account can't take cards. `None`: it can.
fn lacking(account: &Account) -> Option<String> {
    let card = account.capabilities.get("card_payments").map(String::as_str);
    if !account.charges_enabled {
        return Some("the account can't take charges yet; finish its registration at Stripe".to_owned());
    }
    (card != Some("active"))
        .then(|| format!("the capability `card_payments` of the account is {}", card.unwrap_or("missing")))
}

/// Registers a URL at Stripe, and stores the secret of its signatures. The URL that was registered before is removed.
async fn register(
    stack: &Stack,
    client: &Client,
    (account, found): (AccountId, &ConfiguredAcquirer),
    url: &SecretString,
) -> Result<()> {
    let url = Hidden(format!("{}{PATH}", url.expose_secret()));
    let key = hex::encode(random::bytes::<16>()?);
    let endpoint = client.create_webhook_endpoint(&url, &EVENT_TYPES, &key).await?;
    let secret = endpoint.secret.map(|secret| SecretString::from(secret.0));
    let secret = secret.ok_or("Stripe returned no secret for the registered URL")?;
    let name = &found.acquirer.settings.name;
    let set = stack.acquirers()?.set_registered(account, name, (&endpoint.id, &secret), stack.clock.now());
    if let Some(before) = Box::pin(set).await? {
        client.delete_webhook_endpoint(&before).await?;
    }
    Ok(())
}

/// Creates another token and another secret, and registers the URL.
pub(super) async fn rotate(
    stack: &Stack,
    account: AccountId,
    found: &ConfiguredAcquirer,
    operator: crate::OperatorArguments,
) -> Result<()> {
    let (client, _) = of(stack, found)?;
    let (name, operator) = (&found.acquirer.settings.name, operator.operator());
    let rotated =
        stack.acquirers()?.rotate_callback_token(account, Some(name), None, &operator, stack.clock.now());
    let (_, url) = Box::pin(rotated).await?;
    Box::pin(register(stack, &client, (account, found), &url)).await
}

pub(super) async fn unregister(stack: &Stack, found: &ConfiguredAcquirer) -> Result<()> {
    let (client, stripe) = of(stack, found)?;
    let Some(endpoint) = stripe.webhook_endpoint else { return Ok(()) };
    Ok(client.delete_webhook_endpoint(&endpoint).await.map_err(|error| {
        format!("nothing was changed, because the URL can't be removed at Stripe: {error}. --no-remove-webhook skips it")
    })?)
}

pub(super) async fn check(checks: &mut Checks<'_>, stack: &Stack, found: &ConfiguredAcquirer) -> Result<()> {
    let (client, stripe) = of(stack, found)?;
    let seen = match client.account().await {
        Ok(seen) => seen,
        Err(error) => {
            checks.print("key", Outcome::Failed, error.to_string())?;
            return checks.skip(&["account", "webhook", "clock"], "the key can't be used");
        }
    };
    checks.print("key", Outcome::Ok, "Stripe accepts it")?;
    let is_same = seen.id == stripe.stripe_account.as_str();
    let country = seen.country.as_deref().unwrap_or("unknown");
    let (result, detail) = match (is_same, lacking(&seen)) {
        (false, _) => (Outcome::Failed, "the key is of another account than before".to_owned()),
        (true, Some(why)) => (Outcome::Failed, why),
        (true, None) => (Outcome::Ok, format!("it is in {country}, and takes cards")),
    };
    checks.print("account", result, detail)?;
    let (result, detail) = webhook(&client, &found.acquirer, &stripe).await;
    checks.print("webhook", result, detail)?;
    let offset = client.clock_offset_seconds();
    let is_wrong = offset.is_some_and(|offset| offset.unsigned_abs() > MAX_OFFSET_SECONDS);
    let detail = offset
        .map_or_else(|| "not measured".to_owned(), |offset| format!("Stripe's clock is {offset} s ahead"));
    checks.print("clock", if is_wrong { Outcome::Failed } else { Outcome::Ok }, detail)
}

async fn webhook(client: &Client, acquirer: &AccountAcquirer, stripe: &StripeSettings) -> (Outcome, String) {
    let failed = |why: &str| {
        (Outcome::Failed, format!("{why}; run `accounts rotate-callback-token {}`", acquirer.account))
    };
    let Some(id) = &stripe.webhook_endpoint else { return failed("no URL is registered") };
    let endpoint = match client.retrieve::<WebhookEndpoint>(id).await {
        Ok(endpoint) => endpoint,
        Err(error) => return failed(&format!("the registered URL can't be read: {error}")),
    };
    let token = endpoint
        .url
        .0
        .strip_suffix(PATH)
        .and_then(|url| acquirer.callback.token_of_url(acquirer.account, url));
    let lacks =
        EVENT_TYPES.iter().find(|event| !endpoint.enabled_events.iter().any(|enabled| enabled == *event));
    match (token, lacks) {
        (None, _) => failed("another URL is registered"),
        _ if endpoint.status != "enabled" => failed("the registered URL is disabled"),
        _ if endpoint.api_version.as_deref() != Some(stripe_client::API_VERSION) => {
            failed("the registered URL has another version of the API")
        }
        (_, Some(event)) => failed(&format!("the registered URL does not receive {event}")),
        (Some(_), None) => (Outcome::Ok, "the URL of the account is registered".to_owned()),
    }
}
