//! The settings and credentials of a connection to a bank, which an operator sets.

use std::collections::HashSet;

use acquirer_kit::setting::{
    AcquirerUrl, InvalidSetting, MAX_CREDENTIAL_CHARS, Secret, check_credential, require,
};
use acquirer_kit::{
    ClientSettingsError, ConnectionOf, Connectors, Kind, KindCredentials, KindOfAcquirer, Now, setting,
};
use domain::payment_method::PaymentMethod;
use domain::pix_key::PixKey;
use domain::time::{SECONDS_A_DAY, Timestamp};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::{IntoStaticStr, VariantArray};

use crate::client::Client;
use crate::connector::PixBank;
use crate::identity::{ClientIdentity, ServerAuthorities};
use crate::settings::{ConnectionSettings, TokenAuthentication};

/// The longest period that `GET /pix` is asked for, in seconds, unless a bank allows less: 366 days.
pub const DEFAULT_MAX_PERIOD_SECONDS: u32 = 366 * 24 * 60 * 60;

/// The shortest period that may be set, in seconds. With less, a sweep could not catch up.
const MIN_PERIOD_SECONDS: u32 = 60 * 60;

/// A warning is given this many days before a client certificate ends. A bank takes days to issue a new one.
pub const CERTIFICATE_WARNING_DAYS: i64 = 30;

/// The longest name of a header or query parameter, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The most extra headers, or extra query parameters, of a connection.
const MAX_EXTRAS: usize = 10;

/// The number of characters at the end of a Pix key that audit rows contain, which are stored for ever.
const PIX_KEY_ENDING: usize = 4;

/// The number of hex digits that are shown of the hash of a header's or parameter's value. They suffice to
/// notice a change. The value may be an account number, which more digits would reveal.
const SHORT_FINGERPRINT_DIGITS: usize = 4;

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

setting!(
    /// An OAuth 2 client's id.
    ClientId,
    check_credential
);

setting!(
    /// The scope of the OAuth 2 token: words of visible ASCII characters, separated by single spaces (RFC 6749,
    /// section 3.3).
    TokenScope,
    check_scope
);

fn check_scope(text: &str) -> Result<(), InvalidSetting> {
    let is_character = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(is_character);
    require(text.len() <= MAX_CREDENTIAL_CHARS && text.split(' ').all(is_word), || {
        format!(
            "must be words separated by single spaces, at most {MAX_CREDENTIAL_CHARS} visible ASCII characters"
        )
    })
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

impl PixSettings {
    /// Returns the settings for the client of API Pix.
    pub fn connection(
        &self,
        credentials: &PixCredentials,
        (base_url, requests_per_second): (&AcquirerUrl, u32),
    ) -> ConnectionSettings {
        let pairs = |extras: &[NamedSecret]| {
            extras.iter().map(|extra| (extra.name().to_owned(), extra.value().as_secret().clone())).collect()
        };
        ConnectionSettings {
            base_url: base_url.to_string(),
            token_url: credentials.token_url.to_string(),
            scope: self.scope.as_ref().map(ToString::to_string),
            token_authentication: self.token_authentication,
            client_id: self.client_id.to_string(),
            client_secret: credentials.client_secret.as_secret().clone(),
            identity: credentials.identity.as_ref().map(ClientIdentity::of_connection),
            additional_ca_pem: self.additional_ca.as_ref().map(|ca| ca.pem().to_owned()),
            headers: pairs(&credentials.headers),
            query_parameters: pairs(&credentials.query_parameters),
            webhook_headers: pairs(&credentials.webhook_headers),
            requests_per_second: Some(requests_per_second),
        }
    }
}

impl KindOfAcquirer for PixSettings {
    fn client(&self) -> &str {
        self.client_id.as_str()
    }

    fn receiver(&self) -> String {
        format!("{} {}", self.client_id, self.pix_key)
    }

    fn methods(&self) -> &[PaymentMethod] {
        &[PaymentMethod::Pix]
    }

    fn check(&self, base_url: &AcquirerUrl) -> Result<(), InvalidSetting> {
        let (least, most) = (MIN_PERIOD_SECONDS, DEFAULT_MAX_PERIOD_SECONDS);
        require((least..=most).contains(&self.max_period_seconds), || {
            format!("`max-period-seconds` must be {least} to {most}")
        })?;
        require(self.send_pix != SendPix::Local || base_url.is_loopback(), || {
            "`send-pix local` is the dialect of the bank for laptops; the base URL must be a loopback address"
                .to_owned()
        })
    }

    fn of_client(&self) -> Value {
        json!((&self.client_id, self.token_authentication, &self.scope, &self.additional_ca))
    }

    fn view(&self) -> Value {
        json!({
            "token_authentication": self.token_authentication,
            "scope": self.scope,
            "client_id": self.client_id,
            "additional_ca_fingerprints":
                self.additional_ca.as_ref().map(ServerAuthorities::fingerprints).unwrap_or_default(),
            "max_period_seconds": self.max_period_seconds,
            "pix_key": self.pix_key.as_str(),
            "send_pix": self.send_pix,
            "filter_verified": self.filter_verified,
        })
    }

    /// With only the end of the merchant's Pix key, which may be a tax id.
    fn audit_view(&self) -> Value {
        let (mut view, key) = (self.view(), self.pix_key.as_str());
        let hidden = key.chars().count().saturating_sub(PIX_KEY_ENDING);
        let ending: String = key.chars().skip(hidden).collect();
        if let Some(fields) = view.as_object_mut() {
            fields.insert("pix_key".to_owned(), format!("…{ending}").into());
        }
        view
    }
}

impl Kind for PixSettings {
    type Credentials = PixCredentials;
    type Client = Client;

    /// What was seen of the payer filter is a fact about the bank at this base URL.
    fn knowing(self, before: Option<&Self>, is_same_url: bool) -> Self {
        let filter_verified = is_same_url && before.is_some_and(|before| before.filter_verified);
        Self { filter_verified, ..self }
    }

    fn open(
        &self,
        credentials: &PixCredentials,
        at: (&AcquirerUrl, u32),
        now: Now,
    ) -> Result<Client, ClientSettingsError> {
        Client::new(&self.connection(credentials, at), now)
    }

    fn connectors(&self, client: Client, of: ConnectionOf<'_>) -> Connectors {
        let settings = (self.clone(), of.base_url.clone());
        Connectors::one(PixBank::new((of.account, of.connection), settings, client))
    }
}

impl PixCredentials {
    /// Returns the first and the last second in which the client certificate is valid. `None`: there is none, or
    /// its validity can't be read.
    pub fn certificate_validity(&self) -> Option<(Timestamp, Timestamp)> {
        self.identity.as_ref()?.validity()
    }

    /// Returns a warning from 30 days before the client certificate ends. `None`: there is no client
    /// certificate, or it is valid for longer.
    pub fn certificate_warning(&self, now: Timestamp) -> Option<String> {
        self.identity.as_ref()?;
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

impl KindCredentials for PixCredentials {
    fn check(&self) -> Result<(), InvalidSetting> {
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

    fn view(&self) -> Value {
        let shown = |extras: &[NamedSecret]| extras.iter().map(NamedSecret::shown).collect::<Vec<_>>();
        let identity = self.identity.as_ref();
        json!({
            "token_url": self.token_url.without_query(),
            "client_secret_fingerprint": self.client_secret.fingerprint(),
            "certificate_fingerprint": identity.and_then(ClientIdentity::certificate_fingerprint),
            "certificate_ends_at": self.certificate_validity().map(|(_, ends_at)| ends_at),
            "private_key_fingerprint": identity.map(ClientIdentity::key_fingerprint),
            "headers": shown(&self.headers),
            "query_parameters": shown(&self.query_parameters),
            "webhook_headers": shown(&self.webhook_headers),
        })
    }
}

/// Returns the whole days until a certificate ends. Negative: it has ended.
pub fn days_left(ends_at: Timestamp, now: Timestamp) -> i64 {
    ends_at.seconds().saturating_sub(now.seconds()).div_euclid(SECONDS_A_DAY)
}

/// Headers that the client sets itself, so an operator can't.
const RESERVED_HEADERS: [&str; 13] = [
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// Query parameters of API Pix that the client sets itself, besides those that begin with `paginacao.`.
const RESERVED_PARAMETERS: [&str; 11] = [
    "cnpj",
    "cpf",
    "devolucaoPresente",
    "fim",
    "grant_type",
    "inicio",
    "locationPresente",
    "revisao",
    "scope",
    "status",
    "txid",
];

/// An extra header or query parameter of requests to a bank, such as an application key. Its value is secret.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct NamedSecret {
    name: String,
    value: Secret,
}

impl NamedSecret {
    /// Creates a header. Its name becomes lower case.
    pub fn header(name: &str, value: SecretString) -> Result<Self, InvalidSetting> {
        let name = name.to_ascii_lowercase();
        // The characters of a token (RFC 9110, section 5.6.2).
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if !name.bytes().all(is_token) || RESERVED_HEADERS.contains(&name.as_str()) {
            return Err(InvalidSetting::because(format!(
                "`{name}` is not the name of a header, or is a header that the service sets itself"
            )));
        }
        Self::new(name, value)
    }

    pub fn query_parameter(name: &str, value: SecretString) -> Result<Self, InvalidSetting> {
        let is_reserved = name.starts_with("paginacao.") || RESERVED_PARAMETERS.contains(&name);
        if is_reserved || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidSetting::because(format!(
                "`{}` is not visible ASCII, or is a parameter that API Pix defines",
                name.escape_debug()
            )));
        }
        Self::new(name.to_owned(), value)
    }

    fn new(name: String, value: SecretString) -> Result<Self, InvalidSetting> {
        if !(1..=MAX_NAME_CHARS).contains(&name.len()) {
            return Err(InvalidSetting::because(format!(
                "a name must have 1 to {MAX_NAME_CHARS} characters"
            )));
        }
        match Secret::credential(value) {
            Ok(value) => Ok(Self { name, value }),
            Err(refused) => Err(InvalidSetting::because(format!("the value of `{name}` {refused}"))),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn value(&self) -> &Secret {
        &self.value
    }

    /// Returns the name and the first digits of the value's hash.
    fn shown(&self) -> String {
        format!("{} ({}…)", self.name, self.value.first_digits(SHORT_FINGERPRINT_DIGITS))
    }
}

/// Checks the number of extra headers or parameters, and that no name occurs twice.
fn check_extras(extras: &[NamedSecret]) -> Result<(), InvalidSetting> {
    if extras.len() > MAX_EXTRAS {
        return Err(InvalidSetting::because(format!("there may be at most {MAX_EXTRAS} of them")));
    }
    let mut names = HashSet::new();
    match extras.iter().find(|extra| !names.insert(&extra.name)) {
        Some(extra) => Err(InvalidSetting::because(format!("`{}` occurs twice", extra.name))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn credentials_must_be_visible_ascii() {
        for text in ["", " ", "a b", "a\n", "ção", &"x".repeat(513)] {
            assert!(text.parse::<ClientId>().is_err() && Secret::credential(text.into()).is_err(), "{text}");
        }
        assert!(Secret::credential("x".repeat(512).into()).is_ok());
    }

    #[test]
    fn headers_and_parameters_that_the_client_sets_are_refused() {
        for name in ["Authorization", "content-type", "HOST", "a b", "a:", "", &"x".repeat(65)] {
            assert!(NamedSecret::header(name, "v".into()).is_err(), "{name}");
        }
        for name in ["cpf", "inicio", "paginacao.paginaAtual", "a b", "é", ""] {
            assert!(NamedSecret::query_parameter(name, "v".into()).is_err(), "{name}");
        }
        for value in ["", "a\n", "a b", "é", &"x".repeat(513)] {
            let refused = NamedSecret::header("x-key", value.into()).unwrap_err().to_string();
            assert!(refused.starts_with("the value of `x-key` must be"), "{refused}");
        }
        for scope in ["", " ", "a  b", "a\"b", "ção", &"x".repeat(513)] {
            assert!(scope.parse::<TokenScope>().is_err(), "{scope}");
        }
    }

    #[test]
    fn a_certificate_is_warned_of_for_thirty_days_before_it_ends() {
        let ending = |identity| PixCredentials {
            token_url: "https://pix.example.com/oauth".parse().unwrap(),
            client_secret: Secret::credential("s3cret".into()).unwrap(),
            identity,
            headers: Vec::new(),
            query_parameters: Vec::new(),
            webhook_headers: Vec::new(),
        };
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["loja.example".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2026, 12, 24);
        let certificate = params.self_signed(&key).unwrap();
        let identity = ClientIdentity::new(&certificate.pem(), key.serialize_pem().into()).unwrap();
        let until_christmas = ending(Some(identity));
        let warned_at = |at: &str| until_christmas.certificate_warning(Timestamp::parse_floor(at).unwrap());
        assert_eq!(warned_at("2026-11-24T00:00:00Z"), None);
        assert_eq!(
            warned_at("2026-11-24T00:00:01Z").unwrap(),
            "the client certificate ends on 2026-12-24T00:00:00.000Z, in 29 days"
        );
        let ended = warned_at("2026-12-24T00:00:00Z").unwrap();
        assert_eq!(ended, "the client certificate ended on 2026-12-24T00:00:00.000Z");
        assert_eq!(
            ending(None).certificate_warning(Timestamp::parse_floor("2026-11-22T12:00:00Z").unwrap()),
            None
        );
    }
}
