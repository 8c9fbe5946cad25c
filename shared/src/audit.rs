//! Who did what, why and when. An operator's action, and what a person does to an account's API keys, write their row with
//! what they change. What an API key does with money and security is derived from the rows that it changes: see [`crate::audit_trail`].

use serde::{Deserialize, Serialize};

use domain::ids::{AccountId, ApiKeyId, AuditId, Fingerprint, Scope};
use domain::row::{Key, Row};
use domain::source_address::SourceAddress;
use domain::time::Timestamp;

use crate::random::{self, RandomError};
use crate::store::{Order, Store, StoreError, from_item};

/// Audit rows that are listed at once.
const PAGE: usize = 100;

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
    /// An action of an operator, at this moment.
    pub fn of(
        operator: &Operator,
        account: AccountId,
        action: &str,
        subject: impl Into<String>,
        at: Timestamp,
    ) -> Result<Self, RandomError> {
        Ok(Self {
            id: AuditId::new(at, random::bytes()?),
            account,
            actor: operator.actor.clone(),
            source: SourceAddress::default(),
            action: action.to_owned(),
            subject: subject.into(),
            reason: operator.reason.clone(),
            details: None,
            at,
        })
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

    /// A page of an account's audit rows, newest first, those before `before` where it is given; and whether there are
    /// older ones.
    pub async fn page(
        store: &Store,
        account: &AccountId,
        before: Option<AuditId>,
    ) -> Result<(Vec<Self>, bool), StoreError> {
        let to = before.map_or_else(|| "aud_~".to_owned(), |before| before.to_string());
        // One more says whether there is another page, and one is the row that it begins after.
        let most = PAGE.saturating_add(2);
        let items = store.range(&partition(account), ("aud_", &to), Order::NewestFirst, most).await?;
        let rows: Result<Vec<Self>, StoreError> = items.into_iter().map(from_item).collect();
        let mut rows = rows?;
        rows.retain(|row| Some(row.id) != before);
        let has_more = rows.len() > PAGE;
        rows.truncate(PAGE);
        Ok((rows, has_more))
    }
}

fn partition(account: &AccountId) -> String {
    format!("audit#{account}")
}

impl Row for Audit {
    fn key(&self) -> Key {
        Key { pk: partition(&self.account), sk: self.id.to_string() }
    }
}
