//! Audit rows: who did what, when and why. They form a hash chain for each account ([`chain`]).
//!
//! Actions of operators, and of users on API keys, write their audit row in the same transaction. For actions
//! of an API key or of a member, the event dispatcher derives it from the changed row, which stores the [`Actor`].

pub mod chain;

use serde::{Deserialize, Serialize};

use self::chain::Link;
use crate::ids::{AccountId, ApiKeyId, AuditId, Fingerprint, Scope, UserId};
use crate::row::Key;
use crate::source_address::SourceAddress;
use crate::time::Timestamp;

/// The operator who acts, and the reason.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Operator {
    /// The operator's name.
    pub actor: String,
    /// The reason, in one sentence.
    pub reason: String,
    /// Unknown for an operator of the service.
    pub source: SourceAddress,
}

/// The `reason` of audit rows for actions of an API key. API requests carry no reason.
pub const BY_API_KEY: &str = "requested with this API key";

/// The `reason` of audit rows for a member's actions at the dashboard.
pub const BY_MEMBER: &str = "requested at the dashboard";

/// Who acts for the merchant.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum ActorId {
    /// The API key with this fingerprint.
    #[serde(rename = "fingerprint")]
    Key(Fingerprint),
    /// A member of the account.
    #[serde(rename = "user")]
    Member(UserId),
}

impl ActorId {
    fn reason(&self) -> &'static str {
        match self {
            Self::Key(_) => BY_API_KEY,
            Self::Member(_) => BY_MEMBER,
        }
    }
}

/// `key_…` or `usr_…`.
impl std::fmt::Display for ActorId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(fingerprint) => ApiKeyId::from(fingerprint.clone()).fmt(f),
            Self::Member(user) => user.fmt(f),
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

/// An audit row, which never expires. It is not a [`Row`](crate::row::Row), so that it can only be appended to
/// its account's chain.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Audit {
    /// `aud_…`. Ids sort by time.
    pub id: AuditId,
    /// The account that the action concerns.
    pub account: AccountId,
    /// An operator, a user (`usr_…`), an API key (`key_…`, which contains its fingerprint) or a function.
    pub actor: String,
    /// The address that the request came from. Set for actions of API keys and users only.
    #[serde(default, skip_serializing_if = "SourceAddress::is_unknown")]
    pub source: SourceAddress,
    /// The action, for example `payout.create`.
    pub action: String,
    /// The object of the action, for example a payout's id.
    pub subject: String,
    /// The reason for the action.
    pub reason: String,
    /// Details that `subject` does not contain: amounts, or settings before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// The time of the action.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
    /// The row's place in the account's chain. `None`: the row is not stored yet.
    #[serde(flatten)]
    pub link: Option<Link>,
}

impl Audit {
    /// Builds the audit row of an operator's action.
    pub fn by_operator(
        operator: &Operator,
        account: AccountId,
        (id, at): (AuditId, Timestamp),
        action: &str,
        subject: impl Into<String>,
    ) -> Self {
        Self {
            id,
            account,
            actor: operator.actor.clone(),
            source: operator.source,
            action: action.to_owned(),
            subject: subject.into(),
            reason: operator.reason.clone(),
            details: None,
            at,
            link: None,
        }
    }

    /// Builds the audit row of an API key's or member's action. `details` is prefixed with the mode, `test` or `live`.
    pub fn by_actor(
        (actor, source): (&ActorId, SourceAddress),
        scope: Scope,
        (id, at): (AuditId, Timestamp),
        action: &str,
        subject: String,
        details: &str,
    ) -> Self {
        Self {
            id,
            account: scope.account,
            actor: actor.to_string(),
            source,
            action: action.to_owned(),
            subject,
            reason: actor.reason().to_owned(),
            details: Some(format!("{} {details}", scope.mode)),
            at,
            link: None,
        }
    }

    /// Returns the row with these details.
    #[must_use]
    pub fn with_details(self, details: String) -> Self {
        Self { details: Some(details), ..self }
    }
}

/// Whether this key of the state table is an audit row's.
pub fn is_at(key: &Key) -> bool {
    key.pk.starts_with("audit#")
}

/// Returns the partition key of an account's audit rows.
pub fn partition(account: &AccountId) -> String {
    format!("audit#{account}")
}
