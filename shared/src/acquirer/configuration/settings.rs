//! The settings of an account's acquirer, and their view for operators and audit rows.

use api_pix::{ConnectionSettings, Identity};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use domain::ids::ConnectionId;
use domain::pix_key::PixKey;
use domain::time::{SECONDS_A_DAY, Timestamp};

use super::certificate::{ClientIdentity, ServerAuthorities};
use super::values::{
    AcquirerUrl, ClientId, ClientSecret, ConnectionName, InvalidSetting, NamedSecret, TokenScope,
    check_extras,
};

/// The number of characters at the end of a merchant's Pix key that audit rows contain.
const PIX_KEY_ENDING: usize = 4;

/// The longest period that `GET /pix` is asked for, in seconds, unless a bank allows less: 366 days.
pub const DEFAULT_MAX_PERIOD_SECONDS: u32 = 366 * 24 * 60 * 60;

/// The shortest period that may be set, in seconds. With less, a sweep could not catch up.
const MIN_PERIOD_SECONDS: u32 = 60 * 60;

/// Requests a second to a bank by one function instance, by default.
pub const DEFAULT_REQUESTS_PER_SECOND: u32 = 20;

/// The most requests a second that may be set.
const MAX_REQUESTS_PER_SECOND: u32 = 1_000;

/// Seconds from the expiry of a cob until it is removed at the bank, by default. A payer who confirmed in
/// time has paid by then.
pub const DEFAULT_EXPIRE_AFTER_SECONDS: u32 = 60;

/// The most seconds from the expiry of a cob until it is removed: one hour.
const MAX_EXPIRE_AFTER_SECONDS: u32 = 60 * 60;

/// A warning is given this many days before a client certificate ends. A bank takes days to issue a new one.
pub const CERTIFICATE_WARNING_DAYS: i64 = 30;

/// The kind of an acquirer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AcquirerKind {
    /// A bank that offers the API Pix of Brazil's Central Bank.
    Pix,
}

/// How the client authenticates to the token endpoint (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TokenAuthentication {
    /// By the header `Authorization: Basic`.
    #[default]
    Basic,
    /// By `client_id` and `client_secret` in the form.
    Body,
}

impl From<TokenAuthentication> for api_pix::TokenAuthentication {
    fn from(authentication: TokenAuthentication) -> Self {
        match authentication {
            TokenAuthentication::Basic => Self::Basic,
            TokenAuthentication::Body => Self::Body,
        }
    }
}

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

/// The settings of an account's acquirer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AcquirerSettings {
    /// The kind of acquirer.
    pub kind: AcquirerKind,
    /// The name of the connection. All other settings of a connection may change.
    pub name: ConnectionName,
    /// The base URL of the acquirer's API.
    pub base_url: AcquirerUrl,
    /// The URL that issues OAuth 2 tokens for client credentials.
    pub token_url: AcquirerUrl,
    /// The OAuth 2 client id.
    pub client_id: ClientId,
    /// The OAuth 2 client secret.
    pub client_secret: ClientSecret,
    /// How the client authenticates to the token URL.
    pub token_authentication: TokenAuthentication,
    /// The scope of tokens. `None`: the request names no scope, and the bank applies its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<TokenScope>,
    /// The client certificate, if the bank requires mutual TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ClientIdentity>,
    /// Authorities that may issue the bank's server certificate, besides the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_ca: Option<ServerAuthorities>,
    /// Extra headers of each request to the API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<NamedSecret>,
    /// Extra query parameters of each request to the API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query_parameters: Vec<NamedSecret>,
    /// Extra headers of the request that registers the webhook.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhook_headers: Vec<NamedSecret>,
    /// The longest period that the bank's `GET /pix` accepts, in seconds.
    pub max_period_seconds: u32,
    /// The most requests a second that one function instance sends to the bank.
    pub requests_per_second: u32,
    /// Seconds from the expiry of a cob until it is removed at the bank.
    pub expire_after_seconds: u32,
    /// The merchant's Pix key, which receives the payments.
    pub pix_key: PixKey,
    /// The dialect in which the bank sends a Pix. Refunds by cash-out require one.
    pub send_pix: SendPix,
    /// Whether `GET /pix` with a payer's document was seen to exclude the Pix of other payers. Only then can
    /// the filter confirm a payer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filter_verified: bool,
}

impl AcquirerSettings {
    /// Returns the id of a connection that is set with these settings first. It stays when they change.
    pub fn new_connection(&self) -> ConnectionId {
        ConnectionId::derive(self.name.as_str(), self.base_url.as_str(), self.client_id.as_str())
    }

    /// Returns the settings for the client of API Pix.
    pub fn connection_settings(&self) -> ConnectionSettings {
        let pairs = |extras: &[NamedSecret]| {
            extras.iter().map(|extra| (extra.name().to_owned(), extra.value().clone())).collect()
        };
        ConnectionSettings {
            base_url: self.base_url.as_str().to_owned(),
            token_url: self.token_url.as_str().to_owned(),
            scope: self.scope.as_ref().map(|scope| scope.as_str().to_owned()),
            token_authentication: self.token_authentication.into(),
            client_id: self.client_id.as_str().to_owned(),
            client_secret: self.client_secret.as_secret().clone(),
            identity: self.identity.as_ref().map(|identity| Identity {
                certificate_pem: identity.certificate().to_owned(),
                private_key_pem: identity.private_key().clone(),
            }),
            additional_ca_pem: self.additional_ca.as_ref().map(|ca| ca.pem().to_owned()),
            headers: pairs(&self.headers),
            query_parameters: pairs(&self.query_parameters),
            webhook_headers: pairs(&self.webhook_headers),
            requests_per_second: Some(self.requests_per_second),
        }
    }

    /// Returns the first and the last second in which the client certificate is valid. `None`: there is none, or
    /// its validity can't be read.
    pub fn certificate_validity(&self) -> Option<(Timestamp, Timestamp)> {
        self.identity.as_ref()?;
        self.connection_settings().certificate_validity()
    }

    /// Returns when the client certificate ends. `None`: there is none, or its validity can't be read.
    pub fn certificate_ends_at(&self) -> Option<Timestamp> {
        self.certificate_validity().map(|(_, ends_at)| ends_at)
    }

    /// Checks the settings that depend on each other, and the numbers.
    ///
    /// # Errors
    ///
    /// When a number is out of range, an extra header or parameter occurs twice, or the dialect
    /// [`SendPix::Local`] is set for a bank that is not on this machine.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        for (name, number, range) in [
            ("max-period-seconds", self.max_period_seconds, MIN_PERIOD_SECONDS..=DEFAULT_MAX_PERIOD_SECONDS),
            ("requests-per-second", self.requests_per_second, 1..=MAX_REQUESTS_PER_SECOND),
            ("expire-after-seconds", self.expire_after_seconds, 0..=MAX_EXPIRE_AFTER_SECONDS),
        ] {
            if !range.contains(&number) {
                let (least, most) = (range.start(), range.end());
                return Err(InvalidSetting::because(format!("`{name}` must be {least} to {most}")));
            }
        }
        for (name, extras) in [
            ("header", &self.headers),
            ("query", &self.query_parameters),
            ("webhook-header", &self.webhook_headers),
        ] {
            check_extras(extras)
                .map_err(|refused| InvalidSetting::because(format!("`{name}`: {refused}")))?;
        }
        if self.send_pix == SendPix::Local && !self.base_url.is_loopback() {
            return Err(InvalidSetting::because(
                "`send-pix local` is the dialect of the bank for laptops; the base URL must be a loopback address",
            ));
        }
        Ok(())
    }
}

/// Returns a warning from 30 days before the client certificate of an acquirer ends. `None`: there is no
/// client certificate, or it is valid for longer.
pub fn certificate_warning(settings: &AcquirerSettings, now: Timestamp) -> Option<String> {
    settings.identity.as_ref()?;
    let Some(ends_at) = settings.certificate_ends_at() else {
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

/// Returns the whole days until a certificate ends. Negative: it has ended.
pub fn days_left(ends_at: Timestamp, now: Timestamp) -> i64 {
    ends_at.seconds().saturating_sub(now.seconds()).div_euclid(SECONDS_A_DAY)
}

/// The settings of an acquirer for operators and audit rows. The view contains fingerprints instead of
/// secrets.
#[derive(Debug, Serialize)]
pub struct AcquirerView<'a> {
    kind: AcquirerKind,
    name: &'a ConnectionName,
    connection: ConnectionId,
    base_url: &'a AcquirerUrl,
    token_url: String,
    token_authentication: TokenAuthentication,
    scope: Option<&'a TokenScope>,
    client_id: &'a ClientId,
    client_secret_fingerprint: String,
    certificate_fingerprint: Option<String>,
    certificate_ends_at: Option<Timestamp>,
    private_key_fingerprint: Option<String>,
    additional_ca_fingerprints: Vec<String>,
    headers: Vec<String>,
    query_parameters: Vec<String>,
    webhook_headers: Vec<String>,
    max_period_seconds: u32,
    requests_per_second: u32,
    expire_after_seconds: u32,
    pix_key: String,
    send_pix: SendPix,
    filter_verified: bool,
}

impl<'a> AcquirerView<'a> {
    /// Builds the view of the settings of a connection.
    pub(super) fn new(connection: ConnectionId, settings: &'a AcquirerSettings) -> Self {
        let identity = settings.identity.as_ref();
        let shown = |extras: &[NamedSecret]| extras.iter().map(NamedSecret::shown).collect();
        Self {
            kind: settings.kind,
            name: &settings.name,
            connection,
            base_url: &settings.base_url,
            token_url: settings.token_url.without_query(),
            token_authentication: settings.token_authentication,
            scope: settings.scope.as_ref(),
            client_id: &settings.client_id,
            client_secret_fingerprint: settings.client_secret.fingerprint(),
            certificate_fingerprint: identity.and_then(ClientIdentity::certificate_fingerprint),
            certificate_ends_at: settings.certificate_ends_at(),
            private_key_fingerprint: identity.map(ClientIdentity::private_key_fingerprint),
            additional_ca_fingerprints: settings
                .additional_ca
                .as_ref()
                .map(ServerAuthorities::fingerprints)
                .unwrap_or_default(),
            headers: shown(&settings.headers),
            query_parameters: shown(&settings.query_parameters),
            webhook_headers: shown(&settings.webhook_headers),
            max_period_seconds: settings.max_period_seconds,
            requests_per_second: settings.requests_per_second,
            expire_after_seconds: settings.expire_after_seconds,
            pix_key: settings.pix_key.as_str().to_owned(),
            send_pix: settings.send_pix,
            filter_verified: settings.filter_verified,
        }
    }

    /// Returns the view for an audit row, with only the end of the merchant's Pix key. The Pix key may be a
    /// tax id, and audit rows are stored forever.
    pub(super) fn for_audit(self) -> Self {
        let shown = self;
        let ending = shown.pix_key.chars().rev().take(PIX_KEY_ENDING).collect::<Vec<_>>();
        let pix_key = std::iter::once('…').chain(ending.into_iter().rev()).collect();
        Self { pix_key, ..shown }
    }
}
