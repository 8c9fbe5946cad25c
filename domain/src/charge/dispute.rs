//! The part of a charge's row that summarises its MED cases. Each case also has its own row; see
//! [`crate::med`].

use serde::{Deserialize, Serialize};

use super::{Charge, TransactionStatus};
use crate::ids::MedCaseId;
use crate::money::MoneyError;
use crate::time::Timestamp;

/// Status of a case in the Central Bank's terms.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MedStatus {
    /// The case was opened.
    Created,
    /// The case was decided.
    Closed,
    /// The case was withdrawn by its opener.
    Canceled,
}

/// The block `metadata.med` of a charge. It is information for people; no logic may depend on it.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MedBlock {
    /// Id of the contested payment. For a Pix it is the end-to-end id.
    pub reference_id: String,
    pub status: MedStatus,
    /// `agreed`: the merchant lost. `disagreed`: the merchant won. `None`: not decided, or withdrawn.
    pub result: Option<String>,
    /// The alleged fraud method: `scam`, `unauthorized`, `coercion`, `invasion` or `other`.
    pub method: Option<String>,
    /// Reason that the payer alleges.
    pub reason: Option<String>,
    pub opened_at: Timestamp,
    pub updated_at: Timestamp,
    pub closed_at: Option<Timestamp>,
    /// When the service processed the case's latest event. Added evidence does not set it.
    pub last_event_at: Timestamp,
    /// True when the claimed amount differs from the charge's amount and no operator has confirmed the case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub amount_mismatch: bool,
}

/// The MED cases of a charge.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Disputes {
    /// Number of cases that are not over, without those in `unconfirmed`.
    pub open: u32,
    /// Number of cases that wait for an operator, because they claim an amount other than the charge's.
    pub unconfirmed: u32,
    /// True after a case that was counted in `open` was lost. The charge then stays disputed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// The case that `latest` describes: the one that opened last.
    pub case: MedCaseId,
    /// The block that the charge's metadata shows.
    pub latest: MedBlock,
}

impl Charge {
    /// Whether the charge is disputed and no case is open: the payer has the money.
    pub fn has_lost_dispute(&self) -> bool {
        let is_lost = self.disputes.as_ref().is_some_and(|disputes| disputes.lost);
        let is_disputed = matches!(self.status, TransactionStatus::Dispute | TransactionStatus::Chargeback);
        is_disputed && is_lost && !self.has_open_case()
    }

    pub(crate) fn has_open_case(&self) -> bool {
        self.disputes.as_ref().is_some_and(|disputes| disputes.open > 0 || disputes.unconfirmed > 0)
    }

    /// The status of a settled charge: unchanged while a case counts in [`Disputes::open`], else `REFUNDED`
    /// when refunds returned the whole amount, else unchanged after a lost case, else the settled status of the
    /// method. A case with the decision `closed_without_refund` counts as lost.
    pub(crate) fn status_by_funds(&self) -> Result<TransactionStatus, MoneyError> {
        let disputes = self.disputes.as_ref();
        let is_open = disputes.is_some_and(|disputes| disputes.open > 0);
        let lost = disputes.is_some_and(|disputes| disputes.lost);
        Ok(match (is_open, self.funds.is_refunded(self.amount)?, lost) {
            (true, _, _) | (false, false, true) => self.status,
            (false, true, _) => TransactionStatus::Refunded,
            (false, false, false) => TransactionStatus::settled_by(self.method()),
        })
    }
}
