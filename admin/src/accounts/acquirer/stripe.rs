//! The commands about a connection to Stripe.

use std::io::Write;
use std::sync::Arc;

use acquirer_core::configuration::{
    AccountAcquirer, AcquirerChoice, ConfiguredAcquirer, Credentials, KindSettings, StripeSettings,
};
use async_trait::async_trait;
use domain::audit::Operator;
use domain::hex;
use domain::ids::AccountId;
use domain::payment_method::PaymentMethod;
use domain::time::{SECONDS_A_DAY, Timestamp};
use secrecy::SecretString;
use shared::random;
use stripe_client::{
    Account, ApiError, Client, ConnectionSettings, EVENT_TYPES, Event, Hidden, ListQuery, WebhookEndpoint,
    capability,
};

use super::check::{Checked, Checks, Outcome, failed, ok};
use super::signed::{self, Signing, has_token, is_of_account};
use crate::Result;
use crate::target::Stack;

/// The longest offset of the clocks, in seconds. Stripe's signatures are refused after five minutes.
const MAX_OFFSET_SECONDS: u64 = 60;

/// An event that was created this long ago has been delivered, or an attempt has failed.
const DELIVERED_AFTER_SECONDS: i64 = 120;

fn connect(stack: &Stack, settings: &ConnectionSettings) -> Result<Client> {
    let clock = stack.clock.clone();
    let client = Client::new(settings, Arc::new(move || clock.now()));
    Ok(client.map_err(|error| format!("Stripe can't be called with these settings: {error}"))?)
}

pub(super) struct Stripe {
    client: Client,
    settings: StripeSettings,
}

pub(super) fn of(stack: &Stack, choice: &AcquirerChoice) -> Result<Stripe> {
    let settings = &choice.settings;
    let (KindSettings::Stripe(stripe), Credentials::Stripe(credentials)) =
        (&settings.kind, &choice.credentials)
    else {
        return Err("the connection is not to Stripe".into());
    };
    let at = (&settings.base_url, settings.requests_per_second);
    let client = connect(stack, &stripe.connection(credentials, at))?;
    Ok(Stripe { client, settings: stripe.clone() })
}

pub(super) async fn set(
    stack: &Stack,
    account: AccountId,
    mut choice: AcquirerChoice,
    operator: &Operator,
) -> Result<()> {
    let Stripe { client, settings } = of(stack, &choice)?;
    let seen = try_key(&client, &settings.methods)
        .await
        .map_err(|why| format!("nothing was changed, because {why}"))?;
    choice.settings.kind =
        KindSettings::Stripe(StripeSettings { stripe_account: seen.id.parse()?, ..settings });
    Box::pin(signed::set(stack, account, &choice, operator)).await
}

/// Returns the account of a key with all rights. The error says why the key or its account can't be used.
async fn try_key(client: &Client, methods: &[PaymentMethod]) -> Result<Account> {
    let refused = |error: ApiError| format!("Stripe refused a trial of the key: {error}");
    let missing = client.missing_rights(methods).await.map_err(refused)?;
    if !missing.is_empty() {
        return Err(lacks_rights(&missing).into());
    }
    let seen = client.account().await.map_err(refused)?;
    match lacking(&seen, methods, client.is_live()) {
        Some((true, why)) => return Err(why.into()),
        Some((false, why)) => writeln!(std::io::stderr(), "warning: {why}")?,
        None => {}
    }
    Ok(seen)
}

fn lacks_rights(missing: &[&str]) -> String {
    format!("the key lacks the rights: {}", missing.join(", "))
}

/// What an account lacks to take methods, and whether it then certainly does not take them. `None`: it takes them. Stripe
/// does not list the capability of every account that takes cards, and a sandbox takes them before the account is
/// activated. Other methods are taken in some countries only, and never without their capability.
fn lacking(account: &Account, methods: &[PaymentMethod], is_live: bool) -> Option<(bool, String)> {
    if !account.charges_enabled {
        let why = "the account can't take live charges yet; finish its registration at Stripe";
        return Some((is_live, why.to_owned()));
    }
    let lacks = |method: &PaymentMethod| {
        let name = capability(*method)?;
        let state = account.capabilities.get(name).map_or("not listed", String::as_str);
        let is_certain = match method {
            PaymentMethod::CreditCard => is_live && state == "inactive",
            _ => state != "pending",
        };
        let country = account.country.as_deref().unwrap_or("unknown");
        let why = format!("the capability `{name}` of the account, whose country is {country}, is {state}");
        (state != "active").then_some((is_certain, why))
    };
    methods.iter().filter_map(lacks).max_by_key(|(is_certain, _)| *is_certain)
}

#[async_trait(?Send)]
impl Signing for Stripe {
    async fn register(&self, url: &str) -> Result<(String, SecretString)> {
        let key = hex::encode(random::bytes::<16>()?);
        let endpoint =
            self.client.create_webhook_endpoint(&Hidden(url.to_owned()), &EVENT_TYPES, &key).await?;
        let secret = endpoint.secret.map(|secret| SecretString::from(secret.0));
        Ok((endpoint.id, secret.ok_or("Stripe returned no secret for the registered URL")?))
    }

    async fn remove(&self, id: &str) -> Result<()> {
        Ok(self.client.delete_webhook_endpoint(id).await?)
    }

    async fn remove_all(&self, of: &AccountAcquirer, others: &[String]) -> Result<()> {
        for endpoint in self.client.list::<WebhookEndpoint>(ListQuery::default()).await?.data {
            if is_of_account(of.account, &endpoint.url.0) && !others.contains(&endpoint.id) {
                self.client.delete_webhook_endpoint(&endpoint.id).await?;
            }
        }
        Ok(())
    }

    async fn check(&self, checks: &mut Checks<'_>, stack: &Stack, found: &ConfiguredAcquirer) -> Result<()> {
        let Self { client, settings: stripe } = self;
        let missing = client.missing_rights(&stripe.methods).await;
        let Some(missing) = checks.request("key", missing, |_missing| ok("Stripe accepts it"))? else {
            let others = ["rights", "account", "webhook", "notifications", "clock"];
            return checks.skip(&others, "the key can't be used");
        };
        let rights =
            if missing.is_empty() { ok("the key has all rights") } else { failed(lacks_rights(&missing)) };
        checks.print("rights", rights)?;
        checks.request("account", client.account().await, |seen| {
            if seen.id != stripe.stripe_account.as_str() {
                return failed("the key is of another account than before");
            }
            match lacking(seen, &stripe.methods, client.is_live()) {
                Some((true, why)) => failed(why),
                Some((false, why)) => (Outcome::NotVerified, why),
                None => {
                    let country = seen.country.as_deref().unwrap_or("unknown");
                    ok(format!("it is in {country}, and takes the methods"))
                }
            }
        })?;
        checks.print("webhook", webhook(client, &found.acquirer, stripe).await)?;
        let refused = refused_events(client, &found.acquirer, stack.clock.now()).await;
        checks.print("notifications", refused.unwrap_or_else(failed))?;
        let offset = client.clock_offset_seconds();
        let is_wrong = offset.is_some_and(|offset| offset.unsigned_abs() > MAX_OFFSET_SECONDS);
        let detail = offset.map_or_else(
            || "not measured".to_owned(),
            |offset| format!("Stripe's clock is {offset} s ahead"),
        );
        checks.print("clock", (if is_wrong { Outcome::Failed } else { Outcome::Ok }, detail))
    }
}

/// Looks for events since the newest token, of at most a day, that Stripe could not deliver. It does not say to which
/// URL, so the URL of another system leaves it open whose fault it is.
async fn refused_events(
    client: &Client,
    acquirer: &AccountAcquirer,
    now: Timestamp,
) -> Result<Checked, ApiError> {
    let day_ago = now.seconds().saturating_sub(SECONDS_A_DAY);
    let since =
        acquirer.callback.tokens.last().map_or(day_ago, |token| token.created_at.seconds().max(day_ago));
    let query = ListQuery {
        types: &EVENT_TYPES,
        delivery_success: Some(false),
        created_from: Some(since),
        created_to: Some(now.seconds().saturating_sub(DELIVERED_AFTER_SECONDS)),
        ..ListQuery::default()
    };
    let events = client.list::<Event>(query).await?.data.len();
    if events == 0 {
        return Ok(ok("Stripe has delivered the events of the last day"));
    }
    let endpoints = client.list::<WebhookEndpoint>(ListQuery::default()).await?.data;
    let are_all_ours = endpoints.iter().all(|endpoint| is_of_account(acquirer.account, &endpoint.url.0));
    let result = if are_all_ours { Outcome::Failed } else { Outcome::NotVerified };
    let why = format!(
        "{events} events of the last day were not delivered. If the secret of the signatures was changed at Stripe, run `{}`; see also `clock`",
        signed::rotation(acquirer)
    );
    Ok((result, why))
}

async fn webhook(client: &Client, acquirer: &AccountAcquirer, stripe: &StripeSettings) -> Checked {
    let failed = |why: &str| failed(format_args!("{why}; run `{}`", signed::rotation(acquirer)));
    let Some(id) = &stripe.webhook_endpoint else { return failed("no URL is registered") };
    let endpoint = match client.retrieve::<WebhookEndpoint>(id).await {
        Ok(endpoint) => endpoint,
        Err(error) => return failed(&format!("the registered URL can't be read: {error}")),
    };
    let lacks =
        EVENT_TYPES.iter().find(|event| !endpoint.enabled_events.iter().any(|enabled| enabled == *event));
    match lacks {
        _ if !has_token(acquirer, &endpoint.url.0) => failed("another URL is registered"),
        _ if endpoint.status != "enabled" => failed("the registered URL is disabled"),
        _ if endpoint.api_version.as_deref() != Some(stripe_client::API_VERSION) => {
            failed("the registered URL has another version of the API")
        }
        Some(event) => failed(&format!("the registered URL does not receive {event}")),
        None => ok("the URL of the account is registered"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_account_that_certainly_takes_no_cards_is_refused() {
        let is_refused = |charges_enabled, card: Option<&str>, is_live| {
            let capabilities = card.map(|state| ("card_payments".to_owned(), state.to_owned()));
            let capabilities = capabilities.into_iter().collect();
            let account = Account { id: "acct_1".to_owned(), country: None, charges_enabled, capabilities };
            lacking(&account, &[PaymentMethod::CreditCard], is_live).map(|(is_refused, _)| is_refused)
        };
        for (charges_enabled, card, of_live_key, of_test_key) in [
            (true, Some("active"), None, None),
            (true, None, Some(false), Some(false)),
            (true, Some("pending"), Some(false), Some(false)),
            (true, Some("inactive"), Some(true), Some(false)),
            (false, Some("active"), Some(true), Some(false)),
            (false, None, Some(true), Some(false)),
        ] {
            let seen = [true, false].map(|is_live| is_refused(charges_enabled, card, is_live));
            assert_eq!(seen, [of_live_key, of_test_key], "{charges_enabled} {card:?}");
        }
        let capabilities = [("boleto_payments".to_owned(), "active".to_owned())].into();
        let account = Account { id: "acct_1".to_owned(), country: None, charges_enabled: true, capabilities };
        assert_eq!(lacking(&account, &[PaymentMethod::Boleto], true), None);
        let lacks =
            |methods: &[PaymentMethod]| lacking(&account, methods, false).map(|(is_refused, _)| is_refused);
        assert_eq!(lacks(&[PaymentMethod::Boleto, PaymentMethod::CreditCard]), Some(false));
        assert_eq!(lacks(&[PaymentMethod::CreditCard, PaymentMethod::Multibanco]), Some(true));
    }
}
