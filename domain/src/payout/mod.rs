//! Payouts: transfers of a merchant's money to the merchant's bank. Operators create them, and owners request them at
//! the dashboard, to their account's [`PayoutKey`]. Only operators end them.

mod key;
#[cfg(test)]
mod testing;

pub use key::{KeyRefusal, PayoutKey, PayoutKeyState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::ids::{PayoutId, Scope};
use crate::money::{Amount, Currency};
use crate::pix_key::PixKey;
use crate::reference::Reference;
use crate::row::{Indexes, Key, Row};
use crate::tax_id::TaxId;
use crate::time::Timestamp;

/// Status of a payout.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[schemars(rename = "PayoutStatus", description = "The status of a payout.")]
pub enum PayoutStatus {
    /// The wallet was debited.
    Pending,
    /// The money reached the merchant's bank.
    Paid,
    /// The payout failed; the money is back in the wallet.
    Failed,
}

crate::named!(PayoutStatus);

/// The row of a payout.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Payout {
    /// `po_…`.
    pub id: PayoutId,
    /// The account and mode whose money is paid out.
    pub scope: Scope,
    /// Amount in minor units of `currency`.
    pub amount: Amount,
    pub currency: Currency,
    /// Operators' name of the payout, or `form/` and the key of the form that requested it. Rows of earlier versions have
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// Where an owner's request sends the money, as the key was at the request. `None`: an operator created the payout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<PayoutDestination>,
    pub status: PayoutStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub paid_at: Option<Timestamp>,
    /// The version that an operator booked again after a restore. It was published before, so it is not published again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booked_again: Option<u64>,
    pub version: u64,
}

/// An approved payout key.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PayoutDestination {
    pub key: PixKey,
    /// The document of the key's holder.
    pub holder: TaxId,
}

/// The row of the last payout that an owner requested in a currency. The next request replaces it, on condition of its
/// version, once that payout has ended. So one request at most is pending.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LastRequest {
    pub scope: Scope,
    pub currency: Currency,
    pub payout: PayoutId,
    pub version: u64,
}

impl LastRequest {
    pub fn key_of(scope: &Scope, currency: Currency) -> Key {
        Key { pk: format!("payout-requests#{scope}"), sk: currency.to_string() }
    }
}

impl Row for LastRequest {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, self.currency)
    }
}

/// The final outcome of a payout.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PayoutOutcome {
    /// The money reached the merchant's bank.
    Paid,
    Failed {
        reason: String,
    },
}

impl Payout {
    /// The partition of all accounts' pending payouts in the `list_by_status` index.
    pub const PENDING: &str = "payouts#pending";

    pub fn key_of(id: PayoutId) -> Key {
        Key { pk: format!("payout#{id}"), sk: "payout".to_owned() }
    }

    pub fn is_at(key: &Key) -> bool {
        key.sk == "payout" && key.pk.starts_with("payout#")
    }

    /// Returns the partition of a scope's payouts in the `list` index.
    pub fn list_partition(scope: &Scope) -> String {
        format!("payouts#{scope}")
    }

    /// The payout as its request created it.
    #[must_use]
    pub fn requested(&self) -> Self {
        Self {
            status: PayoutStatus::Pending,
            failure_reason: None,
            updated_at: self.created_at,
            paid_at: None,
            version: 1,
            ..self.clone()
        }
    }

    /// Whether the last change was booked again after a restore.
    pub fn is_booked_again(&self) -> bool {
        self.booked_again == Some(self.version)
    }

    /// `Ok(None)`: the payout already ended with that outcome. Fails with its status after the other outcome.
    pub fn ended(&self, end: &PayoutOutcome, now: Timestamp) -> Result<Option<Self>, PayoutStatus> {
        match (self.status, end) {
            (PayoutStatus::Pending, _) => {}
            (PayoutStatus::Paid, PayoutOutcome::Paid)
            | (PayoutStatus::Failed, PayoutOutcome::Failed { .. }) => {
                return Ok(None);
            }
            (PayoutStatus::Paid, PayoutOutcome::Failed { .. })
            | (PayoutStatus::Failed, PayoutOutcome::Paid) => {
                return Err(self.status);
            }
        }
        let now = now.strictly_after(self.updated_at);
        let next = Self { updated_at: now, version: self.version.saturating_add(1), ..self.clone() };
        Ok(Some(match end {
            PayoutOutcome::Paid => Self { status: PayoutStatus::Paid, paid_at: Some(now), ..next },
            PayoutOutcome::Failed { reason } => {
                Self { status: PayoutStatus::Failed, failure_reason: Some(reason.clone()), ..next }
            }
        }))
    }
}

impl Row for Payout {
    fn key(&self) -> Key {
        Self::key_of(self.id)
    }

    fn indexes(&self) -> Indexes {
        // Ids sort by time, so the id is the sort key of the list.
        Indexes {
            list: Some((Self::list_partition(&self.scope), self.id.to_string())),
            status: (self.status == PayoutStatus::Pending).then(|| Self::PENDING.to_owned()),
            ..Indexes::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::pending;
    use super::*;
    use crate::charge::testing::at;
    use crate::ids::Mode;

    #[test]
    fn the_key_of_a_payout_is_recognised_and_its_list_is_of_its_scope() {
        let key = pending().key();
        assert!(Payout::is_at(&key));
        assert!(!Payout::is_at(&Key { sk: "other".to_owned(), ..key.clone() }));
        assert!(!Payout::is_at(&Key { pk: "charge#1".to_owned(), ..key }));
        let scope = pending().scope;
        let other = Scope { mode: Mode::Live, ..scope };
        assert_ne!(Payout::list_partition(&scope), Payout::list_partition(&other));
    }

    #[test]
    fn only_a_pending_payout_is_among_those_of_all_accounts() {
        let paid = pending().ended(&PayoutOutcome::Paid, at(60)).unwrap().unwrap();
        assert_eq!(pending().indexes().status.as_deref(), Some(Payout::PENDING));
        assert_eq!(paid.indexes().status, None);
    }

    #[test]
    fn a_payout_ends_once() {
        let failed = PayoutOutcome::Failed { reason: "account closed".to_owned() };
        for (end, other, status) in [
            (PayoutOutcome::Paid, failed.clone(), PayoutStatus::Paid),
            (failed, PayoutOutcome::Paid, PayoutStatus::Failed),
        ] {
            let ended = pending().ended(&end, at(60)).unwrap().unwrap();
            assert_eq!((ended.status, ended.version), (status, 2));
            assert_eq!(ended.paid_at.is_some(), status == PayoutStatus::Paid);
            assert_eq!(ended.failure_reason.is_some(), status == PayoutStatus::Failed);
            assert_eq!(ended.ended(&end, at(90)), Ok(None));
            assert_eq!(ended.ended(&other, at(90)), Err(status));
        }
    }
}
