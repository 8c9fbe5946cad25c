//! What MED cases leave on a charge: how many are open, and the block that its metadata shows of the latest. The cases
//! themselves are in [`crate::med`].

use serde::{Deserialize, Serialize};

use super::{Charge, TransactionStatus};
use crate::ids::MedCaseId;
use crate::money::MoneyError;
use crate::time::Timestamp;

/// How far a case is, as the Central Bank names it (contract: `metadata.med`).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MedStatus {
    /// It opened.
    Created,
    /// It was decided.
    Closed,
    /// Who opened it withdrew.
    Canceled,
}

/// `metadata.med` of a charge: for people, and for nobody's logic.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MedBlock {
    /// The contested payment: of a Pix its end-to-end id.
    pub reference_id: String,
    /// How far it is.
    pub status: MedStatus,
    /// `agreed`: lost; `disagreed`: won.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// What is said to have happened: `scam`, `unauthorized`, `coercion`, `invasion`, `other`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The case in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it opened.
    pub opened_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// When its last event was worked on.
    pub last_event_at: Timestamp,
    /// The claim is for another amount than the charge's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub amount_mismatch: bool,
}

/// The cases of a charge.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Disputes {
    /// Cases that are not over and dispute it.
    pub open: u32,
    /// Cases that are not over and wait for an operator to confirm them: they claim another amount.
    pub unconfirmed: u32,
    /// One that disputed it was lost: it stays disputed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// The case that `latest` is about.
    pub case: MedCaseId,
    /// What its metadata shows.
    pub latest: MedBlock,
}

impl Charge {
    /// Whether a case is not over.
    pub fn has_open_case(&self) -> bool {
        self.disputes.as_ref().is_some_and(|disputes| disputes.open > 0 || disputes.unconfirmed > 0)
    }

    /// The status of a settled charge, as its cases and funds are. While a case disputes it, and after one was lost, it
    /// stays what it is, unless refunds gave all of it back.
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
