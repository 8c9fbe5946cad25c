//! The Pix key to which an account's owners request payouts. An operator checks at the bank that its holder is the
//! account's, and it works 48 hours after its registration at the earliest. So owners, who are mailed, have time to
//! notice a key of a stranger.

use serde::{Deserialize, Serialize};

use super::PayoutDestination;
use crate::ids::AccountId;
use crate::pix_key::PixKey;
use crate::row::{Indexes, Key, Row, sortable};
use crate::tax_id::TaxId;
use crate::time::Timestamp;

/// How long after its registration a key works, in seconds: 48 hours.
const WAIT_SECONDS: i64 = 48 * 60 * 60;

/// The row of an account's payout key, for both modes. Another key replaces it, and begins as [`PayoutKeyState::Waiting`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PayoutKey {
    pub account: AccountId,
    pub key: PixKey,
    pub state: PayoutKeyState,
    #[serde(with = "domain::time::millis")]
    pub registered_at: Timestamp,
    pub version: u64,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PayoutKeyState {
    /// An operator must check the key.
    Waiting,
    Approved {
        /// The document of the key's holder, which is the account's.
        holder: TaxId,
    },
    Rejected {
        /// The owners read it.
        reason: String,
    },
}

/// Why an operator can't approve or reject a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum KeyRefusal {
    #[error("the account has no payout key")]
    NoKey,
    #[error("the account has another payout key now; list the keys and check it")]
    OtherKey,
    #[error("the account has no document; set it with `accounts set-document`")]
    NoDocument,
    #[error("the holder's document is not the account's; reject the key")]
    OtherHolder,
    #[error("the key is rejected; an owner must register it again")]
    Rejected,
}

impl PayoutKey {
    /// The partition of the keys that wait for a check in the `list` index.
    pub const WAITING: &str = "payout-keys";

    pub fn key_of(account: &AccountId) -> Key {
        Key { pk: format!("payout-key#{account}"), sk: "payout-key".to_owned() }
    }

    /// Returns the row after an owner registered a key. `None`: the account has this key, and it is not rejected.
    pub fn registered(
        stored: Option<&Self>,
        (account, key): (AccountId, &PixKey),
        now: Timestamp,
    ) -> Option<Self> {
        let is_same = |stored: &Self| stored.key == *key && !stored.is_rejected();
        if stored.is_some_and(is_same) {
            return None;
        }
        let version = stored.map_or(0, |stored| stored.version).saturating_add(1);
        Some(Self { account, key: key.clone(), state: PayoutKeyState::Waiting, registered_at: now, version })
    }

    /// The time from which the key works if it is approved.
    pub fn works_from(&self) -> Timestamp {
        self.registered_at.plus_seconds(WAIT_SECONDS).unwrap_or(Timestamp::MAX)
    }

    /// Returns where payouts can be sent now. `None`: the key is not approved, or not old enough.
    pub fn destination(&self, now: Timestamp) -> Option<PayoutDestination> {
        match &self.state {
            PayoutKeyState::Approved { holder } if now >= self.works_from() => {
                Some(PayoutDestination { key: self.key.clone(), holder: *holder })
            }
            PayoutKeyState::Approved { .. } | PayoutKeyState::Waiting | PayoutKeyState::Rejected { .. } => {
                None
            }
        }
    }

    /// `checked`: the key that the operator checked, and the document of its holder at the bank. `document`: the
    /// account's. `Ok(None)`: the key is approved already.
    pub fn approved(
        &self,
        (checked, holder): (&PixKey, TaxId),
        document: Option<TaxId>,
    ) -> Result<Option<Self>, KeyRefusal> {
        self.require(checked)?;
        let document = document.ok_or(KeyRefusal::NoDocument)?;
        if holder != document || self.key.document().is_some_and(|own| own != document) {
            return Err(KeyRefusal::OtherHolder);
        }
        let approved = PayoutKeyState::Approved { holder };
        match &self.state {
            PayoutKeyState::Rejected { .. } => Err(KeyRefusal::Rejected),
            state if *state == approved => Ok(None),
            PayoutKeyState::Waiting | PayoutKeyState::Approved { .. } => Ok(Some(self.with(approved))),
        }
    }

    /// Also ends an approval. `Ok(None)`: the key is rejected already.
    pub fn rejected(&self, checked: &PixKey, reason: &str) -> Result<Option<Self>, KeyRefusal> {
        self.require(checked)?;
        let rejected = PayoutKeyState::Rejected { reason: reason.to_owned() };
        Ok((!self.is_rejected()).then(|| self.with(rejected)))
    }

    fn is_rejected(&self) -> bool {
        matches!(self.state, PayoutKeyState::Rejected { .. })
    }

    /// An owner may have registered another key while the operator checked this one.
    fn require(&self, checked: &PixKey) -> Result<(), KeyRefusal> {
        if self.key == *checked { Ok(()) } else { Err(KeyRefusal::OtherKey) }
    }

    fn with(&self, state: PayoutKeyState) -> Self {
        Self { state, version: self.version.saturating_add(1), ..self.clone() }
    }
}

impl Row for PayoutKey {
    fn key(&self) -> Key {
        Self::key_of(&self.account)
    }

    fn indexes(&self) -> Indexes {
        let sort = || format!("{}#{}", sortable(self.registered_at), self.account);
        let is_waiting = self.state == PayoutKeyState::Waiting;
        Indexes { list: is_waiting.then(|| (Self::WAITING.to_owned(), sort())), ..Indexes::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::testing::at;

    const HOURS_48: i64 = 172_800;

    fn tax_id(text: &str) -> TaxId {
        TaxId::parse(text).unwrap()
    }

    fn registered(stored: Option<&PayoutKey>, key: &str) -> Option<PayoutKey> {
        PayoutKey::registered(stored, (AccountId::new([7; 10]), &key.parse().unwrap()), at(0))
    }

    #[test]
    fn a_key_works_once_it_is_approved_and_48_hours_old() {
        let (ours, theirs) = (tax_id("11222333000181"), tax_id("29537995593"));
        let waiting = registered(None, "ana@loja.example").unwrap();
        let key = waiting.key.clone();
        assert!(waiting.indexes().list.is_some());
        assert_eq!(waiting.destination(at(HOURS_48)), None);
        let approve = |by: &PayoutKey, holder, document| by.approved((&key, holder), document);
        assert_eq!(approve(&waiting, ours, None), Err(KeyRefusal::NoDocument));
        assert_eq!(approve(&waiting, theirs, Some(ours)), Err(KeyRefusal::OtherHolder));
        let other = "eva@loja.example".parse().unwrap();
        assert_eq!(waiting.approved((&other, ours), Some(ours)), Err(KeyRefusal::OtherKey));
        assert_eq!(waiting.rejected(&other, "x"), Err(KeyRefusal::OtherKey));
        let approved = approve(&waiting, ours, Some(ours)).unwrap().unwrap();
        assert!(approved.indexes().list.is_none());
        assert_eq!(approve(&approved, ours, Some(ours)), Ok(None));
        assert_eq!(approved.destination(at(HOURS_48 - 1)), None);
        let destination = PayoutDestination { key: key.clone(), holder: ours };
        assert_eq!(approved.destination(at(HOURS_48)), Some(destination));
        let rejected = approved.rejected(&key, "closed").unwrap().unwrap();
        assert_eq!(rejected.destination(at(HOURS_48)), None);
        assert_eq!(rejected.rejected(&key, "closed"), Ok(None));
        assert_eq!(approve(&rejected, ours, Some(ours)), Err(KeyRefusal::Rejected));
        assert_eq!(rejected.version, 3);
        let stored = serde_json::to_value(&approved).unwrap();
        assert_eq!(serde_json::from_value::<PayoutKey>(stored).unwrap(), approved);
    }

    #[test]
    fn a_key_that_is_a_document_has_its_owner_as_holder() {
        let (ours, theirs) = (tax_id("11222333000181"), "29537995593");
        let waiting = registered(None, theirs).unwrap();
        assert_eq!(waiting.approved((&waiting.key, ours), Some(ours)), Err(KeyRefusal::OtherHolder));
    }

    #[test]
    fn a_registration_begins_again_unless_the_key_is_the_same() {
        let first = registered(None, "ana@loja.example").unwrap();
        assert_eq!(registered(Some(&first), "ana@loja.example"), None);
        let other = registered(Some(&first), "eva@loja.example").unwrap();
        assert_eq!((other.version, &other.state), (2, &PayoutKeyState::Waiting));
        let rejected = first.rejected(&first.key, "closed").unwrap().unwrap();
        let again = registered(Some(&rejected), "ana@loja.example").unwrap();
        assert_eq!((again.version, again.state), (3, PayoutKeyState::Waiting));
    }
}
