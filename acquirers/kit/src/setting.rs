//! The values of a connection's settings: URLs, names and secrets. Each is checked when an operator sets it.

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use url::Url;

use domain::hex;
use domain::url_policy::{AddressPolicy, LocalNames, check_url, is_loopback_url};

/// The longest client id, client secret or scope, in characters.
pub const MAX_CREDENTIAL_CHARS: usize = 512;

/// The number of hex digits of a secret's hash that are shown as its fingerprint. These digits suffice to
/// distinguish secrets. The whole hash is not shown, because a weak secret could be guessed from it.
const FINGERPRINT_DIGITS: usize = 16;

const MAX_CONNECTION_NAME_CHARS: usize = 40;

/// A configured value is not valid. The message states the rule that the value breaks. It contains no part of
/// a secret.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSetting(String);

impl InvalidSetting {
    pub fn because(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

pub fn require(is_valid: bool, rule: impl FnOnce() -> String) -> Result<(), InvalidSetting> {
    if is_valid { Ok(()) } else { Err(InvalidSetting::because(rule())) }
}

/// Checks an OAuth 2 client id or secret: only visible ASCII characters (RFC 6749, appendix A). Whitespace is
/// refused, so that an operator notices a line break at the end of a file.
pub fn check_credential(text: &str) -> Result<(), InvalidSetting> {
    let has_valid_length = (1..=MAX_CREDENTIAL_CHARS).contains(&text.len());
    let is_valid = has_valid_length && text.bytes().all(|byte| byte.is_ascii_graphic());
    require(is_valid, || format!("must be 1 to {MAX_CREDENTIAL_CHARS} visible ASCII characters"))
}

/// Defines a text that an operator sets, with the function that checks it.
#[macro_export]
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

        ::domain::text::checked_text!($name, $crate::setting::InvalidSetting, $check);
    };
}

crate::setting!(
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
    pub fn without_query(&self) -> String {
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

crate::setting!(
    /// The name of a bank connection, by which an account distinguishes its connections.
    ConnectionName,
    check_connection_name
);

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

/// A secret that is stored in cleartext, because the service must send it or sign with it. It is never shown.
#[derive(Clone, Debug)]
pub struct Secret(SecretString);

impl Secret {
    /// Parses a client secret: 1 to 512 visible ASCII characters.
    pub fn credential(text: SecretString) -> Result<Self, InvalidSetting> {
        check_credential(text.expose_secret()).map(|()| Self(text))
    }

    /// For what an acquirer or the service itself made.
    pub fn unchecked(text: SecretString) -> Self {
        Self(text)
    }

    pub fn as_secret(&self) -> &SecretString {
        &self.0
    }

    pub fn fingerprint(&self) -> String {
        self.first_digits(FINGERPRINT_DIGITS)
    }

    /// Returns the first hex digits of the secret's hash.
    pub fn first_digits(&self, digits: usize) -> String {
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
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
