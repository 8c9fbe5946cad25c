//! Audit rows: who did what, when and why. They form a hash chain for each account ([`chain`]).
//!
//! Actions of operators, and of users on API keys, write their audit row in the same transaction. For actions
//! of an API key or of a member, the event dispatcher derives it from the changed row, which stores the [`Actor`].

mod action;
pub mod chain;

use std::fmt::Display;

pub use action::{Action, AddedEvidence, AuditedKey, Changed, Sum};
use serde::{Deserialize, Serialize};

use self::chain::Link;
pub use crate::actor::{Actor, ActorId, BY_API_KEY, BY_MEMBER, Operator};
use crate::ids::{AccountId, AuditId};
use crate::row::Key;
use crate::source_address::SourceAddress;
use crate::time::Timestamp;

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
    /// Who the operator is at AWS, such as the ARN of a role's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    #[serde(flatten)]
    pub action: Action,
    /// The object of the action, for example a payout's id.
    pub subject: String,
    pub reason: String,
    /// The time of the action.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
    /// The row's place in the account's chain. `None`: the row is not stored yet.
    #[serde(flatten)]
    pub link: Option<Link>,
}

impl Audit {
    /// Builds the audit row of an action.
    pub fn by_operator(
        operator: &Operator,
        account: AccountId,
        (id, at): (AuditId, Timestamp),
        action: Action,
        subject: impl Display,
    ) -> Self {
        Self {
            id,
            account,
            actor: operator.actor.clone(),
            source: operator.source,
            identity: operator.identity.clone(),
            action,
            subject: subject.to_string(),
            reason: operator.reason.clone(),
            at,
            link: None,
        }
    }
}

pub fn is_at(key: &Key) -> bool {
    key.pk.starts_with("audit#")
}

pub fn partition(account: &AccountId) -> String {
    format!("audit#{account}")
}
