use api_pix::{ConnectionSettings, Identity, TokenAuthentication};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use domain::ids::ConnectionId;
use domain::pix_key::PixKey;
use domain::time::{SECONDS_A_DAY, Timestamp};

use super::certificate::{ClientIdentity, ServerAuthorities};
use super::rows::ConfiguredAcquirer;
use super::values::{
    AcquirerUrl, ClientId, ConnectionName, InvalidSetting, NamedSecret, Secret, TokenScope, check_extras,
};

/// The longest period that `GET /pix` is asked for, in seconds, unless a bank allows less: 366 days.
pub const DEFAULT_MAX_PERIOD_SECONDS: u32 = 366 * 24 * 60 * 60;

/// The shortest period that may be set, in seconds. With less, a sweep could not catch up.
const MIN_PERIOD_SECONDS: u32 = 60 * 60;

/// Requests a second to a bank by one function instance, by default.
pub const DEFAULT_REQUESTS_PER_SECOND: u32 = 20;

const MAX_REQUESTS_PER_SECOND: u32 = 1_000;

/// Seconds from the expiry of a cob until it is removed at the bank, by default. A payer who confirmed in
/// time has paid by then.
pub const DEFAULT_EXPIRE_AFTER_SECONDS: u32 = 60;

const MAX_EXPIRE_AFTER_SECONDS: u32 = 60 * 60;

/// A warning is given this many days before a client certificate ends. A bank takes days to issue a new one.
pub const CERTIFICATE_WARNING_DAYS: i64 = 30;

#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AcquirerKind {
    /// A bank that offers the API Pix of Brazil's Central Bank.
    Pix,
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

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AcquirerSettings {
    pub kind: AcquirerKind,
    /// The name of the connection. All other settings of a connection may change.
    pub name: ConnectionName,
    pub base_url: AcquirerUrl,
    pub client_id: ClientId,
    pub token_authentication: TokenAuthentication,
    /// The scope of tokens. `None`: the request names no scope, and the bank applies its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<TokenScope>,
    /// Authorities that may issue the bank's server certificate, besides the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_ca: Option<ServerAuthorities>,
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

/// What only the functions that call a bank may read.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Credentials {
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

impl AcquirerSettings {
    /// Returns the id of a connection that is set with these settings first. It stays when they change.
    pub fn new_connection(&self) -> ConnectionId {
        ConnectionId::derive(self.name.as_str(), self.base_url.as_str(), self.client_id.as_str())
    }

    /// Checks the numbers, and the settings that depend on each other.
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
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
        if self.send_pix == SendPix::Local && !self.base_url.is_loopback() {
            return Err(InvalidSetting::because(
                "`send-pix local` is the dialect of the bank for laptops; the base URL must be a loopback address",
            ));
        }
        Ok(())
    }
}

impl Credentials {
    /// Checks that no extra header or parameter occurs twice, and their number.
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        for (name, extras) in [
            ("header", &self.headers),
            ("query", &self.query_parameters),
            ("webhook-header", &self.webhook_headers),
        ] {
            check_extras(extras)
                .map_err(|refused| InvalidSetting::because(format!("`{name}`: {refused}")))?;
        }
        Ok(())
    }

    /// Returns the settings for the client of API Pix.
    pub(super) fn connection_settings(&self, settings: &AcquirerSettings) -> ConnectionSettings {
        let pairs = |extras: &[NamedSecret]| {
            extras.iter().map(|extra| (extra.name().to_owned(), extra.value().as_secret().clone())).collect()
        };
        ConnectionSettings {
            base_url: settings.base_url.to_string(),
            token_url: self.token_url.to_string(),
            scope: settings.scope.as_ref().map(ToString::to_string),
            token_authentication: settings.token_authentication,
            client_id: settings.client_id.to_string(),
            client_secret: self.client_secret.as_secret().clone(),
            identity: self.identity.as_ref().map(|identity| Identity {
                certificate_pem: identity.certificate.clone(),
                private_key_pem: identity.private_key.as_secret().clone(),
            }),
            additional_ca_pem: settings.additional_ca.as_ref().map(|ca| ca.pem().to_owned()),
            headers: pairs(&self.headers),
            query_parameters: pairs(&self.query_parameters),
            webhook_headers: pairs(&self.webhook_headers),
            requests_per_second: Some(settings.requests_per_second),
        }
    }
}

impl ConfiguredAcquirer {
    /// Returns a warning from 30 days before the client certificate ends. `None`: there is no client
    /// certificate, or it is valid for longer.
    pub fn certificate_warning(&self, now: Timestamp) -> Option<String> {
        self.credentials.identity.as_ref()?;
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
