//! The connections whose acquirers sign their notifications: setting one, and registering the URL with the secret of its
//! signatures.

use std::error::Error;

use acquirer_core::configuration::{
    AccountAcquirer, AcquirerChoice, ConfiguredAcquirer, KindSettings, SIGNED_PATH,
};
use async_trait::async_trait;
use domain::audit::Operator;
use domain::ids::AccountId;
use secrecy::{ExposeSecret, SecretString};

use super::arguments::known;
use super::check::Checks;
use super::{btcpay, print_set, stripe};
use crate::target::Stack;
use crate::{Result, print_json};

/// An acquirer, with the credentials of one connection.
#[async_trait(?Send)]
pub(super) trait Signing {
    /// Registers a URL. Returns its id there, and the secret of its signatures.
    async fn register(&self, url: &str) -> Result<(String, SecretString)>;

    async fn remove(&self, id: &str) -> Result<()>;

    /// Removes all URLs of the account there but these, which are those of its other connections.
    async fn remove_all(&self, of: &AccountAcquirer, others: &[String]) -> Result<()>;

    async fn check(&self, checks: &mut Checks<'_>, stack: &Stack, found: &ConfiguredAcquirer) -> Result<()>;
}

pub(super) fn of(stack: &Stack, choice: &AcquirerChoice) -> Result<Box<dyn Signing>> {
    Ok(match choice.settings.kind {
        KindSettings::Pix(_) => return Err("the acquirer signs no notifications".into()),
        KindSettings::Stripe(_) => Box::new(stripe::of(stack, choice)?),
        KindSettings::Btcpay(_) => Box::new(btcpay::of(stack, choice)?),
    })
}

/// The command that registers another URL. Without the name, it is that of the bank of Pix.
pub(super) fn rotation(acquirer: &AccountAcquirer) -> String {
    let AccountAcquirer { account, settings, .. } = acquirer;
    format!("accounts rotate-callback-token {account} --name {}", settings.name)
}

/// Whether a registered URL is one of the account, whose id is random: no other service has it in a URL.
pub(super) fn is_of_account(account: AccountId, url: &str) -> bool {
    url.contains(&format!("/{account}/")) && url.ends_with(SIGNED_PATH)
}

/// Whether a registered URL has a valid token.
pub(super) fn has_token(acquirer: &AccountAcquirer, url: &str) -> bool {
    let url = url.strip_suffix(SIGNED_PATH);
    url.and_then(|url| acquirer.callback.token_of_url(acquirer.account, url)).is_some()
}

/// Sets a connection whose credentials were tried.
pub(super) async fn set(
    stack: &Stack,
    account: AccountId,
    choice: &AcquirerChoice,
    operator: &Operator,
) -> Result<()> {
    let (acquirers, name) = (stack.acquirers()?, &choice.settings.name);
    let all = acquirers.all(&account).await?;
    let set = Box::pin(stack.set_acquirer(account, choice, operator)).await?;
    let registered = match &set.new_callback_url {
        Some(url) => Box::pin(register(stack, (account, &set.current), url)).await,
        None if set.current.acquirer.settings.clone().webhook_endpoint().is_some() => Ok(()),
        None => Box::pin(rotate(stack, account, &set.current, operator)).await,
    };
    registered.map_err(|error| {
        let run = rotation(&set.current.acquirer);
        format!("the connection is set, but its URL was not registered; run `{run}`: {error}")
    })?;
    let current = acquirers.named(account, Some(name)).await?;
    print_set(known(&all, name), &current, &set.replaced)?;
    print_json(&current.view())
}

/// Registers a URL, and stores the secret of its signatures. The URL that was registered before is removed.
async fn register(
    stack: &Stack,
    (account, found): (AccountId, &ConfiguredAcquirer),
    url: &SecretString,
) -> Result<()> {
    let there = of(stack, &found.choice())?;
    let (id, secret) = there.register(&format!("{}{SIGNED_PATH}", url.expose_secret())).await?;
    let name = &found.acquirer.settings.name;
    let set = stack.acquirers()?.set_registered(account, name, (&id, &secret), stack.clock.now());
    if let Some(before) = Box::pin(set).await? {
        there.remove(&before).await?;
    }
    Ok(())
}

/// Creates another token and another secret, and registers the URL.
pub(super) async fn rotate(
    stack: &Stack,
    account: AccountId,
    found: &ConfiguredAcquirer,
    operator: &Operator,
) -> Result<()> {
    let name = &found.acquirer.settings.name;
    let rotated =
        stack.acquirers()?.rotate_callback_token(account, Some(name), None, operator, stack.clock.now());
    let (_, url) = Box::pin(rotated).await?;
    Box::pin(register(stack, (account, found), &url)).await
}

/// Removes the URLs of the account at its acquirer, but those of other connections.
pub(super) async fn unregister(stack: &Stack, found: &ConfiguredAcquirer) -> Result<()> {
    let there = of(stack, &found.choice())?;
    let AccountAcquirer { account, connection, .. } = found.acquirer;
    let all = stack.acquirers()?.all(&account).await?;
    let others = all.into_iter().filter(|each| each.acquirer.connection != connection);
    let others: Vec<String> =
        others.filter_map(|each| each.acquirer.settings.clone().webhook_endpoint().cloned()).collect();
    there.remove_all(&found.acquirer, &others).await.map_err(|error: Box<dyn Error>| {
        format!("nothing was changed, because the URL can't be removed at the acquirer: {error}. --no-remove-webhook skips it").into()
    })
}
