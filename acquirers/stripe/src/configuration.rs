//! The settings and credentials of a connection to Stripe, which an operator sets.

use std::sync::Arc;

use acquirer_kit::setting::{AcquirerUrl, InvalidSetting, Secret, require};
use acquirer_kit::{
    ClientSettingsError, ConnectionOf, Connector, Connectors, Kind, KindCredentials, KindOfAcquirer,
    NotVerified, Notified, Now, Signed, setting,
};
use domain::payment_method::PaymentMethod;
use domain::vocabulary::Vocabulary as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::payments::charge_in;
use crate::verify::{EventObject, verify};
use crate::{Client, ConnectionSettings, StripeConnector, VoucherConnector, VoucherMethod};

/// The header of the signature.
const SIGNATURE: &str = "stripe-signature";

const MAX_ACCOUNT_CHARS: usize = 40;

setting!(
    /// Stripe's id of an account (`acct_…`).
    StripeAccount,
    check_stripe_account
);

fn check_stripe_account(text: &str) -> Result<(), InvalidSetting> {
    let id = text.strip_prefix("acct_").unwrap_or_default();
    let is_valid =
        (1..=MAX_ACCOUNT_CHARS).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    require(is_valid, || "must be acct_ and letters and digits".to_owned())
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct StripeSettings {
    /// The methods of new charges that go to the connection.
    pub methods: Vec<PaymentMethod>,
    /// Stripe's id of the account (`acct_…`), as the trial of the key saw it.
    pub stripe_account: StripeAccount,
    /// The host of uploads.
    pub files_url: AcquirerUrl,
    /// Stripe's id of the registered URL for notifications (`we_…`). `None`: none is registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_endpoint: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct StripeCredentials {
    pub api_key: Secret,
}

impl StripeSettings {
    /// Returns the settings for the client of Stripe's API.
    pub fn connection(
        &self,
        credentials: &StripeCredentials,
        (base_url, requests_per_second): (&AcquirerUrl, u32),
    ) -> ConnectionSettings {
        ConnectionSettings {
            base_url: base_url.to_string(),
            files_url: self.files_url.to_string(),
            api_key: credentials.api_key.as_secret().clone(),
            requests_per_second: Some(requests_per_second),
        }
    }
}

/// The capability of an account that takes a method. `None`: it is not taken at Stripe.
pub fn capability(method: PaymentMethod) -> Option<&'static str> {
    match method {
        PaymentMethod::CreditCard => Some("card_payments"),
        PaymentMethod::Boleto => Some("boleto_payments"),
        PaymentMethod::Multibanco => Some("multibanco_payments"),
        PaymentMethod::Mbway => Some("mb_way_payments"),
        PaymentMethod::Pix | PaymentMethod::Crypto => None,
    }
}

impl KindOfAcquirer for StripeSettings {
    fn client(&self) -> &str {
        self.stripe_account.as_str()
    }

    fn receiver(&self) -> String {
        self.stripe_account.to_string()
    }

    fn methods(&self) -> &[PaymentMethod] {
        &self.methods
    }

    fn check(&self, _base_url: &AcquirerUrl) -> Result<(), InvalidSetting> {
        let is_taken = |method: &PaymentMethod| capability(*method).is_some();
        require(!self.methods.is_empty() && self.methods.iter().all(is_taken), || {
            "`methods` must be of CREDIT_CARD, BOLETO, MULTIBANCO and MBWAY, which are all that is taken there"
                .to_owned()
        })
    }

    fn of_client(&self) -> Value {
        json!((&self.stripe_account, &self.files_url))
    }

    fn view(&self) -> Value {
        json!({
            "stripe_account": self.stripe_account,
            "files_url": self.files_url,
            "webhook_endpoint": self.webhook_endpoint,
        })
    }

    fn webhook_endpoint(&mut self) -> Option<&mut Option<String>> {
        Some(&mut self.webhook_endpoint)
    }

    /// A test key is accepted at a stand-in alone.
    fn verify(&self, signed: &Signed<'_>) -> Result<Notified, NotVerified> {
        let header = (signed.header)(SIGNATURE).unwrap_or_default();
        let event = verify(header, signed.body, signed.secrets, signed.now)
            .map_err(|error| NotVerified::Refused(error.to_string()))?;
        let is_own = event.account.as_ref().is_none_or(|account| account == self.stripe_account.as_str());
        let EventObject { payment_intent, metadata, is_contested, .. } = event.object;
        Ok(Notified {
            id: event.id,
            is_foreign: !is_own || !(event.livemode || signed.base_url.is_loopback()),
            charge: charge_in(&metadata),
            payment: payment_intent.and_then(|payment| payment.parse().ok()),
            is_contested,
        })
    }
}

impl Kind for StripeSettings {
    type Credentials = StripeCredentials;
    type Client = Client;

    fn knowing(self, before: Option<&Self>, _is_same_url: bool) -> Self {
        let same = before.filter(|before| before.stripe_account == self.stripe_account);
        Self { webhook_endpoint: same.and_then(|before| before.webhook_endpoint.clone()), ..self }
    }

    fn open(
        &self,
        credentials: &StripeCredentials,
        at: (&AcquirerUrl, u32),
        now: Now,
    ) -> Result<Client, ClientSettingsError> {
        Client::new(&self.connection(credentials, at), now)
    }

    fn connectors(&self, client: Client, _of: ConnectionOf<'_>) -> Connectors {
        let voucher = |method| {
            let voucher = VoucherConnector::new(client.clone(), VoucherMethod::of(method)?);
            let voucher: Arc<dyn Connector> = Arc::new(voucher);
            Some((method, voucher))
        };
        let of_methods = PaymentMethod::all().filter_map(voucher).collect();
        Connectors { main: Arc::new(StripeConnector::new(client)), of_methods }
    }
}

impl KindCredentials for StripeCredentials {
    fn view(&self) -> Value {
        json!({"api_key_fingerprint": self.api_key.fingerprint()})
    }
}
