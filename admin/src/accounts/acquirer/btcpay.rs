//! The commands about a connection to a merchant's own BTCPay Server.

use std::sync::Arc;

use acquirer_core::configuration::{
    AccountAcquirer, AcquirerChoice, ConfiguredAcquirer, Credentials, KindSettings,
};
use async_trait::async_trait;
use btcpay_client::{ApiError, Client, EVENT_TYPES, PAYMENT_METHOD, RIGHT_TO_SEE_STORE, Webhook};
use domain::audit::Operator;
use domain::hex;
use domain::ids::AccountId;
use secrecy::SecretString;
use shared::random;

use super::check::{Checked, Checks, Outcome, failed, ok};
use super::signed::{self, Signing, has_token};
use crate::Result;
use crate::target::Stack;

pub(super) struct Server {
    client: Client,
    webhook: Option<String>,
}

pub(super) fn of(stack: &Stack, choice: &AcquirerChoice) -> Result<Server> {
    let settings = &choice.settings;
    let (KindSettings::Btcpay(btcpay), Credentials::Btcpay(credentials)) =
        (&settings.kind, &choice.credentials)
    else {
        return Err("the connection is not to a BTCPay Server".into());
    };
    let connection = btcpay.connection(credentials, (&settings.base_url, settings.requests_per_second));
    let clock = stack.clock.clone();
    let client = Client::new(&connection, Arc::new(move || clock.now()))
        .map_err(|error| format!("the server can't be called with these settings: {error}"))?;
    Ok(Server { client, webhook: btcpay.webhook_endpoint.clone() })
}

pub(super) async fn set(
    stack: &Stack,
    account: AccountId,
    choice: &AcquirerChoice,
    operator: &Operator,
) -> Result<()> {
    let missing = of(stack, choice)?.client.missing_rights().await;
    let refused = |why: String| format!("nothing was changed, because {why}");
    let missing =
        missing.map_err(|error| refused(format!("the server refused a trial of the key: {error}")))?;
    if !missing.is_empty() {
        return Err(refused(lacks_rights(&missing)).into());
    }
    Box::pin(signed::set(stack, account, choice, operator)).await
}

fn lacks_rights(missing: &[&str]) -> String {
    format!("the key lacks the rights: {}", missing.join(", "))
}

#[async_trait(?Send)]
impl Signing for Server {
    async fn register(&self, url: &str) -> Result<(String, SecretString)> {
        let secret = SecretString::from(hex::encode(random::bytes::<32>()?));
        let made = self.client.create_webhook(url, &secret).await?;
        Ok((made.id, secret))
    }

    async fn remove(&self, id: &str) -> Result<()> {
        Ok(self.client.delete_webhook(id).await?)
    }

    async fn remove_all(&self, _of: &AccountAcquirer, others: &[String]) -> Result<()> {
        match self.webhook.as_ref().filter(|id| !others.contains(id)) {
            Some(id) => self.remove(id).await,
            None => Ok(()),
        }
    }

    async fn check(&self, checks: &mut Checks<'_>, _stack: &Stack, found: &ConfiguredAcquirer) -> Result<()> {
        let missing = self.client.missing_rights().await;
        let Some(missing) = checks.request("key", missing, |_missing| ok("the server accepts it"))? else {
            return checks.skip(&["rights", "store", "webhook"], "the key can't be used");
        };
        let rights =
            if missing.is_empty() { ok("the key has all rights") } else { failed(lacks_rights(&missing)) };
        checks.print("rights", rights)?;
        checks.print("store", store(self.client.store_payment_methods().await))?;
        checks.print("webhook", self.webhook(&found.acquirer).await)
    }
}

fn store(methods: Result<Vec<btcpay_client::StorePaymentMethod>, ApiError>) -> Checked {
    match methods {
        Ok(methods)
            if methods.iter().any(|each| each.payment_method_id == PAYMENT_METHOD && each.enabled) =>
        {
            ok("the store takes Bitcoin on the chain")
        }
        Ok(_) => failed(format_args!("the store has no wallet for {PAYMENT_METHOD}; set one up there")),
        Err(error) => {
            let why = format!("the key may not see the store, which needs {RIGHT_TO_SEE_STORE}: {error}");
            (Outcome::NotVerified, why)
        }
    }
}

impl Server {
    async fn webhook(&self, acquirer: &AccountAcquirer) -> Checked {
        let failed = |why: &str| failed(format_args!("{why}; run `{}`", signed::rotation(acquirer)));
        let Some(id) = &self.webhook else { return failed("no URL is registered") };
        let Webhook { url, enabled, automatic_redelivery, authorized_events: events, .. } =
            match self.client.webhook(id).await {
                Ok(webhook) => webhook,
                Err(error) => return failed(&format!("the registered URL can't be read: {error}")),
            };
        let lacks = EVENT_TYPES.iter().find(|event| {
            !events.everything && !events.specific_events.iter().any(|specific| specific == *event)
        });
        match lacks {
            _ if !has_token(acquirer, &url) => failed("another URL is registered"),
            _ if !enabled => failed("the registered URL is disabled"),
            _ if !automatic_redelivery => failed("the registered URL gets no repetitions"),
            Some(event) => failed(&format!("the registered URL does not receive {event}")),
            None => ok("the URL of the account is registered"),
        }
    }
}
