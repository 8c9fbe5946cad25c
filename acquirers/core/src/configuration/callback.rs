use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::{IntoStaticStr, VariantArray};

use domain::hex;
use domain::ids::AccountId;
use domain::text::{is_forbidden_in_line, serde_as_text};
use domain::time::Timestamp;

use acquirer_kit::setting::{AcquirerUrl, InvalidSetting, require, sha256};
use shared::random;
use shared::store::Result;

/// The path of notifications, before the account and the token.
const CALLBACK_PATH: &str = "/v1/acquirer-events/";

/// The part of the URL after the token, if the acquirer signs its notifications.
pub const SIGNED_PATH: &str = "/hosted";

const MAX_SUBJECT_CHARS: usize = 500;
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

/// A range of IP addresses in CIDR notation, such as `203.0.113.0/24`, or a single address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AddressRange(IpNet);

impl AddressRange {
    /// Whether this range has all addresses of another one.
    pub fn contains(&self, other: &Self) -> bool {
        self.0.contains(&other.0)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for AddressRange {
    type Err = InvalidSetting;

    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        let range = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).ok();
        // An IPv4-mapped IPv6 address would match no source, because sources are canonical.
        let is_exact = |range: &IpNet| {
            range.prefix_len() > 0 && range.trunc() == *range && range.addr().to_canonical() == range.addr()
        };
        range.filter(is_exact).map(Self).ok_or_else(|| {
            InvalidSetting::because(
                "must be an IP address or a range such as 203.0.113.0/24, whose bits after the prefix are zero, and not all addresses",
            )
        })
    }
}

serde_as_text!(AddressRange);

/// A valid token, as it is stored.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CallbackToken {
    /// The SHA-256 hash of the token, in hex. The token has 256 random bits, so its hash reveals nothing.
    pub sha256: String,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
}

impl CallbackToken {
    /// Creates a random token. Returns its cleartext too, which is stored nowhere.
    pub(super) fn create(now: Timestamp) -> Result<(SecretString, Self)> {
        let token = random_secret()?;
        let sha256 = sha256(token.expose_secret().as_bytes());
        Ok((token, Self { sha256, created_at: now }))
    }
}

/// Returns 256 random bits, as 64 hex digits.
pub(super) fn random_secret() -> Result<SecretString> {
    Ok(hex::encode(random::bytes::<32>()?).into())
}

/// The settings of notifications that an operator chooses.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CallbackChoice {
    /// The public base URL of the API that receives notifications.
    pub base_url: AcquirerUrl,
    pub authentication: CallbackAuthentication,
    /// The subject of the bank's client certificate, as API Gateway reports it; with mTLS only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_subject: Option<String>,
    /// The addresses that notifications may come from; with a token only. Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_addresses: Vec<AddressRange>,
}

impl CallbackChoice {
    /// Checks the settings that depend on each other.
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        let is_valid = |subject: &String| {
            (1..=MAX_SUBJECT_CHARS).contains(&subject.chars().count())
                && !subject.contains(is_forbidden_in_line)
        };
        let is_mtls = self.authentication == CallbackAuthentication::Mtls;
        let (subject, sources) = (&self.certificate_subject, &self.source_addresses);
        let rule = |is_kept, why: &str| require(is_kept, || why.to_owned());
        rule(!is_mtls || subject.is_some(), "`callback-auth mtls` needs `certificate-subject`")?;
        rule(is_mtls || subject.is_none(), "`certificate-subject` is for `callback-auth mtls` only")?;
        rule(!is_mtls || sources.is_empty(), "`source-address` is for `callback-auth token` only")?;
        let of_subject = "`certificate-subject` must have 1 to 500 characters, without control characters";
        rule(subject.iter().all(is_valid), of_subject)?;
        rule(sources.len() <= MAX_SOURCE_ADDRESSES, "there may be at most 50 times `source-address`")
    }
}

/// How a connection's notifications are authenticated.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Callback {
    pub choice: CallbackChoice,
    /// The valid tokens, the newest last: two while the bank changes from one to the other.
    pub tokens: Vec<CallbackToken>,
}

impl Callback {
    /// Whether a notification may present this token. Only hashes are compared, so the time that it takes says
    /// nothing about a token.
    pub fn accepts_token(&self, presented: &str) -> bool {
        let presented = sha256(presented.as_bytes());
        self.tokens.iter().any(|token| token.sha256 == presented)
    }

    pub fn accepts_source(&self, address: IpAddr) -> bool {
        let ranges = &self.choice.source_addresses;
        ranges.is_empty() || ranges.iter().any(|range| range.0.contains(&address.to_canonical()))
    }

    fn url_before_token(&self, account: AccountId) -> String {
        format!("{}{CALLBACK_PATH}{account}/", self.choice.base_url)
    }

    /// Returns the URL to register at the bank. The bank posts to this URL, or to it and `/pix`.
    pub(super) fn url(&self, account: AccountId, token: &SecretString) -> SecretString {
        format!("{}{}", self.url_before_token(account), token.expose_secret()).into()
    }

    /// Returns the stored token of a registered URL. `None`: the URL is not ours, or its token is not valid
    /// any more.
    pub fn token_of_url(&self, account: AccountId, url: &str) -> Option<&CallbackToken> {
        let presented = sha256(url.strip_prefix(&self.url_before_token(account))?.as_bytes());
        self.tokens.iter().find(|token| token.sha256 == presented)
    }

    /// Adds a token. Of the earlier tokens, the one with the hash `in_use` remains, or else the newest.
    #[must_use]
    pub(super) fn with_token(&self, token: CallbackToken, in_use: Option<&str>) -> Self {
        let used = self.tokens.iter().find(|earlier| Some(earlier.sha256.as_str()) == in_use);
        let kept = used.or_else(|| self.tokens.last());
        Self { tokens: kept.cloned().into_iter().chain([token]).collect(), ..self.clone() }
    }

    #[must_use]
    pub(super) fn with_newest_token(&self) -> Self {
        Self { tokens: self.tokens.last().cloned().into_iter().collect(), ..self.clone() }
    }

    /// Returns the settings for operators and audit rows, with fingerprints instead of tokens.
    pub fn view(&self) -> Value {
        let shown = |token: &CallbackToken| {
            let fingerprint = token.sha256.get(..SHOWN_TOKEN_DIGITS);
            json!({"fingerprint": fingerprint, "created_at": token.created_at})
        };
        let CallbackChoice { base_url, authentication, certificate_subject, source_addresses } = &self.choice;
        json!({
            "base_url": base_url,
            "authentication": authentication,
            "certificate_subject": certificate_subject,
            "source_addresses": source_addresses,
            "tokens": self.tokens.iter().map(shown).collect::<Vec<_>>(),
        })
    }
}
