//! Who acts: operators, and the API keys and members whose changes rows store.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{ApiKeyId, Fingerprint, PaymentLinkId, UserId};
use crate::source_address::SourceAddress;

/// The operator who acts, and the reason.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Operator {
    /// The operator's name.
    pub actor: String,
    /// The reason, in one sentence.
    pub reason: String,
    /// Unknown for an operator of the service.
    pub source: SourceAddress,
    /// Who an operator of the service is at AWS, such as the ARN of a role's session.
    pub identity: Option<String>,
    /// The most that an operator of the service may pay out and correct of a live account in a day, in minor units of the
    /// currency. `None`: what is moved is not counted.
    pub most_a_day: Option<u64>,
}

/// The `reason` of audit rows for actions of an API key. API requests carry no reason.
pub const BY_API_KEY: &str = "requested with this API key";

/// The `reason` of audit rows for a member's actions at the dashboard.
pub const BY_MEMBER: &str = "requested at the dashboard";

const BY_PAYER: &str = "requested at a payment link";

/// Who acts for the merchant, or made a charge.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum ActorId {
    /// The API key with this fingerprint.
    #[serde(rename = "fingerprint")]
    Key(Fingerprint),
    #[serde(rename = "user")]
    Member(UserId),
    /// A payer, at this payment link.
    #[serde(rename = "link")]
    Payer(PaymentLinkId),
}

impl ActorId {
    /// Who acts in an audit row, from this address.
    pub fn as_operator(&self, source: SourceAddress) -> Operator {
        let reason = match self {
            Self::Key(_) => BY_API_KEY,
            Self::Member(_) => BY_MEMBER,
            Self::Payer(_) => BY_PAYER,
        };
        Operator { actor: self.to_string(), reason: reason.to_owned(), source, ..Operator::default() }
    }
}

/// `key_…`, `usr_…` or `pl_…`.
impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(fingerprint) => ApiKeyId::from(fingerprint.clone()).fmt(f),
            Self::Member(user) => user.fmt(f),
            Self::Payer(link) => link.fmt(f),
        }
    }
}

/// Who wrote a version of a row. Later versions still carry it, so `version` says which one.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Actor {
    /// The API key or member.
    #[serde(flatten)]
    pub by: ActorId,
    /// The address that the request came from.
    #[serde(default, skip_serializing_if = "SourceAddress::is_unknown")]
    pub source: SourceAddress,
    /// The version that was written.
    pub version: u64,
}
