//! The values of the configuration: URLs, ids and secrets. Each is checked when an operator sets it.

use std::collections::HashSet;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use url::Url;

use domain::hex;
use domain::text::checked_text;
use domain::url_policy::{AddressPolicy, LocalNames, check_url, is_loopback_url};

use shared::random::{self, RandomError};

/// The longest client id, client secret or scope, in characters.
const MAX_CREDENTIAL_CHARS: usize = 512;

/// The number of hex digits of a secret's hash that are shown as its fingerprint. These digits suffice to
/// distinguish secrets. The whole hash is not shown, because a weak secret could be guessed from it.
const FINGERPRINT_DIGITS: usize = 16;

/// The number of hex digits that are shown of the hash of a header's or parameter's value. They suffice to
/// notice a change. The value may be an account number, which more digits would reveal.
const SHORT_FINGERPRINT_DIGITS: usize = 4;

const MAX_CONNECTION_NAME_CHARS: usize = 40;

/// The longest name of a header or query parameter, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The most extra headers, or extra query parameters, of a connection.
pub(crate) const MAX_EXTRAS: usize = 10;

/// A configured value is not valid. The message states the rule that the value breaks. It contains no part of
/// a secret.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSetting(String);

impl InvalidSetting {
    pub(super) fn because(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

fn require(is_valid: bool, rule: impl FnOnce() -> String) -> Result<(), InvalidSetting> {
    if is_valid { Ok(()) } else { Err(InvalidSetting(rule())) }
}

/// Checks an OAuth 2 client id or secret: only visible ASCII characters (RFC 6749, appendix A). Whitespace is
/// refused, so that an operator notices a line break at the end of a file.
fn check_credential(text: &str) -> Result<(), InvalidSetting> {
    let has_valid_length = (1..=MAX_CREDENTIAL_CHARS).contains(&text.len());
    let is_valid = has_valid_length && text.bytes().all(|byte| byte.is_ascii_graphic());
    require(is_valid, || format!("must be 1 to {MAX_CREDENTIAL_CHARS} visible ASCII characters"))
}

/// Defines a text that an operator sets, with the function that checks it.
macro_rules! setting {
    ($(#[$meta:meta])* $name:ident, $check:path) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        checked_text!($name, InvalidSetting, $check);
    };
}

setting!(
    /// A valid and normalised URL of an acquirer.
    AcquirerUrl,
    check_stored_url
);

impl AcquirerUrl {
    /// Parses the base URL of the API, to which paths such as `/cob/{txid}` are appended.
    pub fn base(text: &str, policy: &AddressPolicy) -> Result<Self, InvalidSetting> {
        let url = checked(text, policy)?;
        if url.query().is_some() {
            return Err(InvalidSetting::because("a base URL must not have a query"));
        }
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }

    /// Parses the URL that issues OAuth 2 tokens. It may have a query, in which some banks expect the grant type.
    pub fn token(text: &str, policy: &AddressPolicy) -> Result<Self, InvalidSetting> {
        checked(text, policy).map(|url| Self(url.into()))
    }

    /// Returns the URL with `…` in place of its query, which may contain a credential.
    pub(super) fn without_query(&self) -> String {
        self.0.split_once('?').map_or_else(|| self.0.clone(), |(address, _)| format!("{address}?…"))
    }

    pub fn is_loopback(&self) -> bool {
        Url::parse(&self.0).is_ok_and(|url| is_loopback_url(&url))
    }
}

fn checked(text: &str, policy: &AddressPolicy) -> Result<Url, InvalidSetting> {
    check_url(text, policy).map_err(|refusal| InvalidSetting::because(refusal.to_string()))
}

/// Checks a stored URL with the most permissive policy. The deployment's policy was applied when an operator set
/// the URL.
fn check_stored_url(text: &str) -> Result<(), InvalidSetting> {
    checked(text, &AddressPolicy::PublicOrLocal(LocalNames::default())).map(drop)
}

setting!(
    /// The name of a bank connection, by which an account distinguishes its connections.
    ConnectionName,
    check_connection_name
);

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

setting!(
    /// Stripe's id of an account (`acct_…`).
    StripeAccount,
    check_stripe_account
);

fn check_stripe_account(text: &str) -> Result<(), InvalidSetting> {
    let id = text.strip_prefix("acct_").unwrap_or_default();
    let is_valid = (1..=MAX_CONNECTION_NAME_CHARS).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    require(is_valid, || "must be acct_ and letters and digits".to_owned())
}

impl Default for ConnectionName {
    fn default() -> Self {
        Self("pix".to_owned())
    }
}

fn check_connection_name(text: &str) -> Result<(), InvalidSetting> {
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = (1..=MAX_CONNECTION_NAME_CHARS).contains(&text.len()) && text.bytes().all(is_valid);
    require(is_name, || {
        format!("must be 1 to {MAX_CONNECTION_NAME_CHARS} lower-case letters, digits and hyphens")
    })
}

fn check_scope(text: &str) -> Result<(), InvalidSetting> {
    let is_character = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(is_character);
    require(text.len() <= MAX_CREDENTIAL_CHARS && text.split(' ').all(is_word), || {
        format!(
            "must be words separated by single spaces, at most {MAX_CREDENTIAL_CHARS} visible ASCII characters"
        )
    })
}

/// A secret that is stored in cleartext, because the service must send it or sign with it. It is never shown.
#[derive(Clone, Debug)]
pub struct Secret(SecretString);

impl Secret {
    /// Parses a client secret: 1 to 512 visible ASCII characters.
    pub fn credential(text: SecretString) -> Result<Self, InvalidSetting> {
        check_credential(text.expose_secret()).map(|()| Self(text))
    }

    pub(super) fn unchecked(text: SecretString) -> Self {
        Self(text)
    }

    /// Returns 256 random bits, as 64 hex digits.
    pub(super) fn random() -> Result<Self, RandomError> {
        Ok(Self(hex::encode(random::bytes::<32>()?).into()))
    }

    pub fn as_secret(&self) -> &SecretString {
        &self.0
    }

    pub(super) fn fingerprint(&self) -> String {
        self.first_digits(FINGERPRINT_DIGITS)
    }

    fn first_digits(&self, digits: usize) -> String {
        let mut hash = sha256(self.0.expose_secret().as_bytes());
        hash.truncate(digits);
        hash
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.expose_secret())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into()))
    }
}

/// Returns the SHA-256 hash of bytes, in hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
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

    pub(super) fn value(&self) -> &Secret {
        &self.value
    }

    /// Returns the name and the first digits of the value's hash.
    pub(super) fn shown(&self) -> String {
        format!("{} ({}…)", self.name, self.value.first_digits(SHORT_FINGERPRINT_DIGITS))
    }
}

/// Checks the number of extra headers or parameters, and that no name occurs twice.
pub(super) fn check_extras(extras: &[NamedSecret]) -> Result<(), InvalidSetting> {
    if extras.len() > MAX_EXTRAS {
        return Err(InvalidSetting::because(format!("there may be at most {MAX_EXTRAS} of them")));
    }
    let mut names = HashSet::new();
    match extras.iter().find(|extra| !names.insert(&extra.name)) {
        Some(extra) => Err(InvalidSetting::because(format!("`{}` occurs twice", extra.name))),
        None => Ok(()),
    }
}
