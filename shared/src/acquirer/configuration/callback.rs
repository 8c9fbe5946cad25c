//! How notifications of a bank are authenticated: by a token in the path, and by the bank's client
//! certificate or its addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use domain::hex;
use domain::ids::{AccountId, ConnectionId};
use domain::row::{Key, Row};
use domain::text::{is_forbidden_in_line, serde_as_text};
use domain::time::Timestamp;

use super::values::{AcquirerUrl, InvalidSetting, StoredSecret, sha256};
use crate::random::{self, RandomError};

/// The path of notifications, before the account and the token.
const CALLBACK_PATH: &str = "/v1/acquirer-events/";

/// Random bytes of a callback token and of a MED secret: 256 bits.
const SECRET_BYTES: usize = 32;

/// The most tokens that are valid at a time: two, while the bank changes from one to the other.
const MAX_TOKENS: usize = 2;

/// The longest subject of a certificate, in characters.
const MAX_SUBJECT_CHARS: usize = 500;

/// The most ranges of source addresses.
const MAX_SOURCE_ADDRESSES: usize = 50;

/// The number of hex digits of a token's hash that are shown.
const SHOWN_TOKEN_DIGITS: usize = 16;

/// How the sender of a notification is authenticated, besides the token in the path.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CallbackAuthentication {
    /// By the subject of its client certificate.
    Mtls,
    /// By the token alone, and its source address if ranges are set.
    Token,
}

/// A range of IP addresses in CIDR notation, such as `203.0.113.0/24`. A single address has no suffix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AddressRange {
    first: IpAddr,
    prefix: u8,
}

impl AddressRange {
    /// Checks whether an address is in the range. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        masked(address.to_canonical(), self.prefix) == Some(self.first)
    }

    fn bits(address: IpAddr) -> u8 {
        if address.is_ipv4() { 32 } else { 128 }
    }
}

/// Sets all bits after the prefix to zero. `None`: the address has fewer bits than the prefix.
fn masked(address: IpAddr, prefix: u8) -> Option<IpAddr> {
    let host_bits = AddressRange::bits(address).checked_sub(prefix)?;
    Some(match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(u32::from(host_bits)).unwrap_or_default();
            IpAddr::from((v4.to_bits() & mask).to_be_bytes())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(u32::from(host_bits)).unwrap_or_default();
            IpAddr::from((v6.to_bits() & mask).to_be_bytes())
        }
    })
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix == Self::bits(self.first) {
            self.first.fmt(formatter)
        } else {
            write!(formatter, "{}/{}", self.first, self.prefix)
        }
    }
}

impl FromStr for AddressRange {
    type Err = InvalidSetting;

    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        let refused = || {
            InvalidSetting::because(
                "must be an IP address or a range such as 203.0.113.0/24, whose bits after the prefix are zero",
            )
        };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| refused())?;
        let prefix = match prefix {
            Some(prefix) if prefix.bytes().all(|byte| byte.is_ascii_digit()) => {
                prefix.parse().map_err(|_| refused())?
            }
            Some(_) => return Err(refused()),
            None => Self::bits(first),
        };
        if first.to_canonical() == first && masked(first, prefix) == Some(first) {
            Ok(Self { first, prefix })
        } else {
            Err(refused())
        }
    }
}

serde_as_text!(AddressRange);

/// A valid token, as it is stored.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CallbackToken {
    /// The SHA-256 hash of the token, in hex. The token has 256 random bits, so its hash reveals nothing.
    pub sha256: String,
    /// When it was created.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
}

impl CallbackToken {
    /// Creates a random token. Returns its cleartext too, which is stored nowhere.
    pub(super) fn create(now: Timestamp) -> Result<(SecretString, Self), RandomError> {
        let token = hex::encode(&random::bytes::<SECRET_BYTES>()?);
        let stored = Self { sha256: sha256(token.as_bytes()), created_at: now };
        Ok((token.into(), stored))
    }
}

/// The secret of the HMAC that signs MED notifications: 64 hex characters.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(transparent)]
pub struct MedSecret(StoredSecret);

impl MedSecret {
    /// Creates a random secret.
    pub(super) fn create() -> Result<Self, RandomError> {
        let secret = hex::encode(&random::bytes::<SECRET_BYTES>()?);
        Ok(Self(StoredSecret::new(secret.into())))
    }

    /// The secret in cleartext.
    pub fn as_secret(&self) -> &SecretString {
        self.0.as_secret()
    }
}

/// The settings of notifications that an operator chooses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CallbackChoice {
    /// The public base URL of the API that receives notifications.
    pub base_url: AcquirerUrl,
    /// How the sender is authenticated.
    pub authentication: CallbackAuthentication,
    /// The subject of the bank's client certificate, as API Gateway reports it; with mTLS only.
    pub certificate_subject: Option<String>,
    /// The addresses that notifications may come from; with a token only. Empty: any.
    pub source_addresses: Vec<AddressRange>,
}

impl CallbackChoice {
    /// Checks the settings that depend on each other.
    ///
    /// # Errors
    ///
    /// When mTLS has no subject or a token has one, mTLS has source addresses, or a value is too long.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        let subject = self.certificate_subject.as_deref();
        let is_valid_subject = |subject: &str| {
            (1..=MAX_SUBJECT_CHARS).contains(&subject.chars().count())
                && !subject.contains(is_forbidden_in_line)
        };
        let because = |why: &str| Err(InvalidSetting::because(why));
        match (self.authentication, subject) {
            (CallbackAuthentication::Mtls, None) => {
                because("`callback-auth mtls` needs `certificate-subject`")
            }
            (CallbackAuthentication::Token, Some(_)) => {
                because("`certificate-subject` is for `callback-auth mtls` only")
            }
            (CallbackAuthentication::Mtls, Some(_)) if !self.source_addresses.is_empty() => {
                because("`source-address` is for `callback-auth token` only")
            }
            (CallbackAuthentication::Mtls, Some(subject)) if !is_valid_subject(subject) => {
                because("`certificate-subject` must have 1 to 500 characters, without control characters")
            }
            (CallbackAuthentication::Mtls | CallbackAuthentication::Token, _)
                if self.source_addresses.len() > MAX_SOURCE_ADDRESSES =>
            {
                because("there may be at most 50 times `source-address`")
            }
            (CallbackAuthentication::Mtls, Some(_)) | (CallbackAuthentication::Token, None) => Ok(()),
        }
    }
}

/// The row of the settings that authenticate a bank's notifications for an account.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CallbackSettings {
    /// The account.
    pub account: AccountId,
    /// The bank connection.
    pub connection: ConnectionId,
    /// The public base URL of the API that receives notifications.
    pub base_url: AcquirerUrl,
    /// How the sender is authenticated, besides the token in the path.
    pub authentication: CallbackAuthentication,
    /// The subject of the bank's client certificate, for [`CallbackAuthentication::Mtls`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_subject: Option<String>,
    /// The addresses that notifications may come from, for [`CallbackAuthentication::Token`]. Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_addresses: Vec<AddressRange>,
    /// The valid tokens, at most two, the newest last.
    pub tokens: Vec<CallbackToken>,
    /// The secret that signs MED notifications.
    pub med_secret: MedSecret,
    /// The settings of the connections that the account used before, the latest last. Their banks still send
    /// notifications about the charges of those connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retired: Vec<Self>,
    /// The version of the row, from 1.
    pub version: u64,
}

impl CallbackSettings {
    /// The primary key of the row of an account's callback settings.
    pub fn key_of(account: &AccountId) -> Key {
        Key { pk: format!("callback#{account}"), sk: "callback".to_owned() }
    }

    /// The operator's choice.
    pub fn choice(&self) -> CallbackChoice {
        CallbackChoice {
            base_url: self.base_url.clone(),
            authentication: self.authentication,
            certificate_subject: self.certificate_subject.clone(),
            source_addresses: self.source_addresses.clone(),
        }
    }

    /// Returns the settings of the connection whose token a notification presents. `None`: the token is not
    /// valid. The comparison takes the same time for each token.
    pub fn of_token(&self, presented: &str) -> Option<&Self> {
        let presented = sha256(presented.as_bytes());
        let accepts = |each: &Self| {
            each.tokens.iter().fold(false, |accepted, token| accepted | same(&token.sha256, &presented))
        };
        // All tokens are compared, without an early exit.
        let all = std::iter::once(self).chain(&self.retired);
        all.fold(None, |found, each| if accepts(each) { Some(each) } else { found })
    }

    /// Returns the settings of a connection that the account uses or used before.
    pub fn of_connection(&self, connection: ConnectionId) -> Option<&Self> {
        std::iter::once(self).chain(&self.retired).find(|each| each.connection == connection)
    }

    /// Checks the address that a notification came from.
    pub fn accepts_source(&self, address: IpAddr) -> bool {
        self.source_addresses.is_empty() || self.source_addresses.iter().any(|range| range.contains(address))
    }

    /// Returns the URL to register at the bank. The bank posts to this URL, or to it and `/pix`.
    pub fn url(&self, token: &SecretString) -> SecretString {
        format!("{}{CALLBACK_PATH}{}/{}", self.base_url, self.account, token.expose_secret()).into()
    }

    /// Returns the stored token of a registered URL. `None`: the URL is not ours, or its token is not valid
    /// any more.
    pub fn token_of_url(&self, url: &str) -> Option<&CallbackToken> {
        let ours = format!("{}{CALLBACK_PATH}{}/", self.base_url, self.account);
        let presented = sha256(url.strip_prefix(&ours)?.as_bytes());
        self.tokens.iter().find(|token| same(&token.sha256, &presented))
    }

    /// Returns the next version, whose newest token is `token`. Of the earlier tokens, it keeps the one with
    /// the hash `in_use`, or else the newest.
    pub(super) fn with_token(&self, token: CallbackToken, in_use: Option<&str>) -> Self {
        let kept = self
            .tokens
            .iter()
            .find(|earlier| Some(earlier.sha256.as_str()) == in_use)
            .or_else(|| self.tokens.last());
        let tokens: Vec<_> = kept.cloned().into_iter().chain([token]).collect();
        debug_assert!(tokens.len() <= MAX_TOKENS, "a row has at most two tokens");
        Self { tokens, ..self.next_version() }
    }

    /// Returns the next version with the newest token alone. `None`: there is no other.
    pub(super) fn with_newest_token(&self) -> Option<Self> {
        let newest = self.tokens.last().filter(|_| self.tokens.len() > 1)?;
        Some(Self { tokens: vec![newest.clone()], ..self.next_version() })
    }

    /// Returns the next version with another MED secret.
    pub(super) fn with_med_secret(&self, med_secret: MedSecret) -> Self {
        Self { med_secret, ..self.next_version() }
    }

    /// Returns the settings with another current connection. Those of the current one become retired. If the
    /// account used the other connection before, its tokens remain valid.
    pub(super) fn with_connection(&self, connection: ConnectionId) -> Self {
        let left = Self { retired: Vec::new(), ..self.clone() };
        let others = self.retired.iter().filter(|each| each.connection != connection).cloned();
        let earlier = self.retired.iter().find(|each| each.connection == connection);
        Self {
            connection,
            tokens: earlier.map(|earlier| earlier.tokens.clone()).unwrap_or_default(),
            retired: others.chain([left]).collect(),
            ..self.clone()
        }
    }

    /// Returns the next version without a connection. Without the current one, the latest retired one takes
    /// its place. `None`: there is no other connection.
    pub(super) fn without_connection(&self, connection: ConnectionId) -> Option<Self> {
        let version = self.next_version().version;
        let mut retired = self.retired.clone();
        retired.retain(|each| each.connection != connection);
        if self.connection != connection {
            return Some(Self { retired, version, ..self.clone() });
        }
        retired.pop().map(|latest| Self { retired, version, ..latest })
    }

    pub(super) fn next_version(&self) -> Self {
        Self { version: self.version.saturating_add(1), ..self.clone() }
    }
}

impl Row for CallbackSettings {
    fn key(&self) -> Key {
        Self::key_of(&self.account)
    }
}

/// Compares two hashes in a time that does not depend on where they differ.
fn same(left: &str, right: &str) -> bool {
    let differing = left.bytes().zip(right.bytes()).fold(0, |bits, (left, right)| bits | (left ^ right));
    left.len() == right.len() && differing == 0
}

/// Callback settings for operators and audit rows, with fingerprints instead of secrets.
#[derive(Debug, Serialize)]
pub struct CallbackView<'a> {
    connection: ConnectionId,
    base_url: &'a AcquirerUrl,
    authentication: CallbackAuthentication,
    certificate_subject: Option<&'a str>,
    source_addresses: &'a [AddressRange],
    tokens: Vec<TokenView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    retired: Vec<Self>,
}

#[derive(Debug, Serialize)]
struct TokenView<'a> {
    fingerprint: &'a str,
    created_at: Timestamp,
}

impl<'a> CallbackView<'a> {
    /// Builds the view of callback settings.
    pub fn new(callback: &'a CallbackSettings) -> Self {
        let token = |token: &'a CallbackToken| TokenView {
            fingerprint: token.sha256.get(..SHOWN_TOKEN_DIGITS).unwrap_or_default(),
            created_at: token.created_at,
        };
        Self {
            connection: callback.connection,
            base_url: &callback.base_url,
            authentication: callback.authentication,
            certificate_subject: callback.certificate_subject.as_deref(),
            source_addresses: &callback.source_addresses,
            tokens: callback.tokens.iter().map(token).collect(),
            retired: callback.retired.iter().map(Self::new).collect(),
        }
    }
}
