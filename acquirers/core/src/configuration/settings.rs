use api_pix::{ConnectionSettings, Identity, TokenAuthentication};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::{IntoStaticStr, VariantArray};

use domain::ids::ConnectionId;
use domain::payment_method::PaymentMethod;
use domain::pix_key::PixKey;
use domain::time::{SECONDS_A_DAY, Timestamp};

use super::certificate::{ClientIdentity, ServerAuthorities};
use super::rows::ConfiguredAcquirer;
use super::values::{
    AcquirerUrl, ClientId, ConnectionName, InvalidSetting, NamedSecret, Secret, StripeAccount, TokenScope,
    check_extras,
};

/// The longest period that `GET /pix` is asked for, in seconds, unless a bank allows less: 366 days.
pub const DEFAULT_MAX_PERIOD_SECONDS: u32 = 366 * 24 * 60 * 60;

/// The shortest period that may be set, in seconds. With less, a sweep could not catch up.
const MIN_PERIOD_SECONDS: u32 = 60 * 60;

/// Requests a second to a bank by one function instance, by default.
pub const DEFAULT_REQUESTS_PER_SECOND: u32 = 20;

/// The same for Stripe, which allows 100 requests a second in an account.
pub const DEFAULT_CARD_REQUESTS_PER_SECOND: u32 = 80;

const MAX_REQUESTS_PER_SECOND: u32 = 1_000;

/// Seconds from the expiry of a cob until it is removed at the bank, by default. A payer who confirmed in
/// time has paid by then.
pub const DEFAULT_EXPIRE_AFTER_SECONDS: u32 = 60;

const MAX_EXPIRE_AFTER_SECONDS: u32 = 60 * 60;

/// A warning is given this many days before a client certificate ends. A bank takes days to issue a new one.
pub const CERTIFICATE_WARNING_DAYS: i64 = 30;

/// The dialect in which a bank can send a Pix. It is not a part of API Pix, so each bank has its own.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SendPix {
    /// The bank can't send a Pix, or its dialect is not supported.
    #[default]
    None,
    /// The dialect of the bank for laptops and tests.
    Local,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AcquirerSettings {
    /// The name of the connection. All other settings of a connection may change.
    pub name: ConnectionName,
    pub base_url: AcquirerUrl,
    /// The most requests a second that one function instance sends to the acquirer.
    pub requests_per_second: u32,
    /// Seconds from the expiry of a charge until it is closed at the acquirer.
    pub expire_after_seconds: u32,
    #[serde(flatten)]
    pub kind: KindSettings,
}

#[derive(Clone, Debug, Deserialize, IntoStaticStr, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[strum(serialize_all = "snake_case")]
pub enum KindSettings {
    /// A bank that offers the API Pix of Brazil's Central Bank.
    Pix(PixSettings),
    /// Stripe, which takes payments on a page of its own.
    Stripe(StripeSettings),
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

#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PixSettings {
    pub client_id: ClientId,
    pub token_authentication: TokenAuthentication,
    /// The scope of tokens. `None`: the request names no scope, and the bank applies its default.
    pub scope: Option<TokenScope>,
    /// Authorities that may issue the bank's server certificate, besides the public ones.
    pub additional_ca: Option<ServerAuthorities>,
    /// The longest period that the bank's `GET /pix` accepts, in seconds.
    pub max_period_seconds: u32,
    /// The merchant's Pix key, which receives the payments.
    pub pix_key: PixKey,
    /// The dialect in which the bank sends a Pix. Refunds by cash-out require one.
    pub send_pix: SendPix,
    /// Whether `GET /pix` with a payer's document was seen to exclude the Pix of other payers. Only then can
    /// the filter confirm a payer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filter_verified: bool,
}

/// What only the functions that call an acquirer may read. It is of the settings' kind.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Credentials {
    Pix(PixCredentials),
    Stripe(StripeCredentials),
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct StripeCredentials {
    pub api_key: Secret,
}

impl StripeCredentials {
    /// Returns the settings for the client of Stripe's API.
    pub fn connection(
        &self,
        settings: &AcquirerSettings,
        stripe: &StripeSettings,
    ) -> stripe_client::ConnectionSettings {
        stripe_client::ConnectionSettings {
            base_url: settings.base_url.to_string(),
            files_url: stripe.files_url.to_string(),
            api_key: self.api_key.as_secret().clone(),
            requests_per_second: Some(settings.requests_per_second),
        }
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PixCredentials {
    /// Its query may contain a credential.
    pub token_url: AcquirerUrl,
    pub client_secret: Secret,
    /// The client certificate, if the bank requires mutual TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ClientIdentity>,
    /// Extra headers of each request to the API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<NamedSecret>,
    /// Extra query parameters of each request to the API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query_parameters: Vec<NamedSecret>,
    /// Extra headers of the request that registers the webhook.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhook_headers: Vec<NamedSecret>,
}

impl KindSettings {
    /// What a client depends on, beside the base URL.
    pub(crate) fn of_client(&self) -> Value {
        match self {
            Self::Pix(pix) => {
                json!((&pix.client_id, pix.token_authentication, &pix.scope, &pix.additional_ca))
            }
            Self::Stripe(stripe) => json!((&stripe.stripe_account, &stripe.files_url)),
        }
    }
}

impl AcquirerSettings {
    /// Returns the id of a connection that is set with these settings first. It stays when they change.
    pub fn new_connection(&self) -> ConnectionId {
        let client = match &self.kind {
            KindSettings::Pix(pix) => pix.client_id.as_str(),
            KindSettings::Stripe(stripe) => stripe.stripe_account.as_str(),
        };
        ConnectionId::derive(self.name.as_str(), self.base_url.as_str(), client)
    }

    /// The methods of new charges that go to the connection.
    pub fn methods(&self) -> &[PaymentMethod] {
        match &self.kind {
            KindSettings::Pix(_) => &[PaymentMethod::Pix],
            KindSettings::Stripe(stripe) => &stripe.methods,
        }
    }

    /// `None`: the acquirer does not speak API Pix.
    pub fn pix(&self) -> Option<&PixSettings> {
        if let KindSettings::Pix(pix) = &self.kind { Some(pix) } else { None }
    }

    pub fn pix_mut(&mut self) -> Option<&mut PixSettings> {
        if let KindSettings::Pix(pix) = &mut self.kind { Some(pix) } else { None }
    }

    /// Adds what is no choice: what was seen of the payer filter, which is a fact about the bank at this base URL, and
    /// the registered URL.
    pub(super) fn knowing(mut self, before: Option<&Self>) -> Self {
        let is_verified = before.filter(|before| before.base_url == self.base_url).and_then(Self::pix);
        let is_verified = is_verified.is_some_and(|before| before.filter_verified);
        match &mut self.kind {
            KindSettings::Pix(pix) => pix.filter_verified = is_verified,
            KindSettings::Stripe(stripe) => {
                stripe.webhook_endpoint = match before.map(|before| &before.kind) {
                    Some(KindSettings::Stripe(before)) if before.stripe_account == stripe.stripe_account => {
                        before.webhook_endpoint.clone()
                    }
                    _ => None,
                };
            }
        }
        self
    }

    /// Checks the numbers, and the settings that depend on each other.
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        let max_period = self.pix().map_or(DEFAULT_MAX_PERIOD_SECONDS, |pix| pix.max_period_seconds);
        for (name, number, range) in [
            ("max-period-seconds", max_period, MIN_PERIOD_SECONDS..=DEFAULT_MAX_PERIOD_SECONDS),
            ("requests-per-second", self.requests_per_second, 1..=MAX_REQUESTS_PER_SECOND),
            ("expire-after-seconds", self.expire_after_seconds, 0..=MAX_EXPIRE_AFTER_SECONDS),
        ] {
            if !range.contains(&number) {
                let (least, most) = (range.start(), range.end());
                return Err(InvalidSetting::because(format!("`{name}` must be {least} to {most}")));
            }
        }
        if let KindSettings::Stripe(stripe) = &self.kind
            && stripe.methods != [PaymentMethod::CreditCard]
        {
            return Err(InvalidSetting::because(
                "`methods` must be CREDIT_CARD, which is all that is taken there",
            ));
        }
        let sends_locally = self.pix().is_some_and(|pix| pix.send_pix == SendPix::Local);
        if sends_locally && !self.base_url.is_loopback() {
            return Err(InvalidSetting::because(
                "`send-pix local` is the dialect of the bank for laptops; the base URL must be a loopback address",
            ));
        }
        Ok(())
    }
}

impl Credentials {
    pub fn pix(&self) -> Option<&PixCredentials> {
        if let Self::Pix(credentials) = self { Some(credentials) } else { None }
    }

    pub fn pix_mut(&mut self) -> Option<&mut PixCredentials> {
        if let Self::Pix(credentials) = self { Some(credentials) } else { None }
    }

    /// Checks that no extra header or parameter occurs twice, and their number.
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        let Some(pix) = self.pix() else { return Ok(()) };
        for (name, extras) in [
            ("header", &pix.headers),
            ("query", &pix.query_parameters),
            ("webhook-header", &pix.webhook_headers),
        ] {
            check_extras(extras)
                .map_err(|refused| InvalidSetting::because(format!("`{name}`: {refused}")))?;
        }
        Ok(())
    }

    /// Returns the settings for the client of API Pix. `None`: they are of another kind.
    pub(super) fn of_pix(&self, settings: &AcquirerSettings) -> Option<ConnectionSettings> {
        let (pix, credentials) = settings.pix().zip(self.pix())?;
        let pairs = |extras: &[NamedSecret]| {
            extras.iter().map(|extra| (extra.name().to_owned(), extra.value().as_secret().clone())).collect()
        };
        Some(ConnectionSettings {
            base_url: settings.base_url.to_string(),
            token_url: credentials.token_url.to_string(),
            scope: pix.scope.as_ref().map(ToString::to_string),
            token_authentication: pix.token_authentication,
            client_id: pix.client_id.to_string(),
            client_secret: credentials.client_secret.as_secret().clone(),
            identity: credentials.identity.as_ref().map(|identity| Identity {
                certificate_pem: identity.certificate.clone(),
                private_key_pem: identity.private_key.as_secret().clone(),
            }),
            additional_ca_pem: pix.additional_ca.as_ref().map(|ca| ca.pem().to_owned()),
            headers: pairs(&credentials.headers),
            query_parameters: pairs(&credentials.query_parameters),
            webhook_headers: pairs(&credentials.webhook_headers),
            requests_per_second: Some(settings.requests_per_second),
        })
    }
}

impl ConfiguredAcquirer {
    /// Returns a warning from 30 days before the client certificate ends. `None`: there is no client
    /// certificate, or it is valid for longer.
    pub fn certificate_warning(&self, now: Timestamp) -> Option<String> {
        self.identity()?;
        let Some((_, ends_at)) = self.certificate_validity() else {
            return Some("the validity of the client certificate can't be read".to_owned());
        };
        let days = days_left(ends_at, now);
        if ends_at <= now {
            Some(format!("the client certificate ended on {ends_at}"))
        } else if days < CERTIFICATE_WARNING_DAYS {
            Some(format!("the client certificate ends on {ends_at}, in {days} days"))
        } else {
            None
        }
    }
}

/// Returns the whole days until a certificate ends. Negative: it has ended.
pub fn days_left(ends_at: Timestamp, now: Timestamp) -> i64 {
    ends_at.seconds().saturating_sub(now.seconds()).div_euclid(SECONDS_A_DAY)
}
