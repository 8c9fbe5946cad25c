//! Who did what, why and when. An operator's action, and what a person does to an account's API keys, write their row with
//! what they change. What an API key does with money and security is derived from the rows that it
//! changes.

use serde::{Deserialize, Serialize};

use crate::ids::{AccountId, ApiKeyId, AuditId, Fingerprint, Scope};
use crate::row::{Key, Row};
use crate::source_address::SourceAddress;
use crate::time::Timestamp;

/// Who acts, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Operator {
    /// Who, as they are known to the others.
    pub actor: String,
    /// Why, in a sentence.
    pub reason: String,
}

/// Why an API key acts, in the audit: the API knows no reason.
pub const BY_API_KEY: &str = "requested with this API key";

/// The API key that made a version of a row. Later versions of the row keep it, so `version` says which one it made.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Actor {
    /// The key.
    pub fingerprint: Fingerprint,
    /// The address that the request came from.
    #[serde(default, skip_serializing_if = "SourceAddress::is_unknown")]
    pub source: SourceAddress,
    /// The version of the row that it made.
    pub version: u64,
}

/// An audit row. Kept for good.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Audit {
    /// `aud_…`; sorts by time.
    pub id: AuditId,
    /// Whose account.
    pub account: AccountId,
    /// Who acted: an operator's name, a person (`usr_…`), an API key (`key_…` and its fingerprint) or a function.
    pub actor: String,
    /// The address that an API key's request came from.
    #[serde(default, skip_serializing_if = "SourceAddress::is_unknown")]
    pub source: SourceAddress,
    /// What was done, such as `payout.create`.
    pub action: String,
    /// What it was done to, such as a payout's id.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// What exactly, where the subject does not say it: amounts, the settings before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// When.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
}

impl Audit {
    /// An action of an operator: the row's id and time, whose account, what was done to what.
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
            source: SourceAddress::default(),
            action: action.to_owned(),
            subject: subject.into(),
            reason: operator.reason.clone(),
            details: None,
            at,
        }
    }

    /// An action of an API key: who and from where, whose, the row's id and time, what was done to what, and details.
    pub fn by_key(
        (fingerprint, source): (&Fingerprint, SourceAddress),
        scope: Scope,
        (id, at): (AuditId, Timestamp),
        action: &str,
        subject: String,
        details: &str,
    ) -> Self {
        Self {
            id,
            account: scope.account,
            actor: ApiKeyId::from(fingerprint.clone()).to_string(),
            source,
            action: action.to_owned(),
            subject,
            reason: BY_API_KEY.to_owned(),
            details: Some(format!("{} {details}", scope.mode)),
            at,
        }
    }

    /// The same, with what exactly was done.
    #[must_use]
    pub fn with(self, details: String) -> Self {
        Self { details: Some(details), ..self }
    }
}

/// The partition of an account's audit rows.
pub fn partition(account: &AccountId) -> String {
    format!("audit#{account}")
}

impl Row for Audit {
    fn key(&self) -> Key {
        Key { pk: partition(&self.account), sk: self.id.to_string() }
    }
}
