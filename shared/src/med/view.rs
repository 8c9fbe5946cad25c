//! The wire formats of a case (contract: MED case) and of its outcome.

use serde::Serialize;

use domain::ids::{ChargeId, MedCaseId};
use domain::med::{CaseKind, CaseStatus, MedCase, MoneyOutcome};
use domain::money::{Amount, Currency};
use domain::time::Timestamp;

use crate::med::CasePage;

/// A case on the wire.
#[derive(Clone, Debug, Serialize)]
pub struct CaseView<'a> {
    id: MedCaseId,
    object: &'static str,
    #[serde(rename = "type")]
    kind: CaseKind,
    status: CaseStatus,
    amount: Amount,
    currency: Currency,
    charge_id: ChargeId,
    reason: Option<&'a str>,
    response_deadline: Option<Timestamp>,
    evidence_requested_at: Option<Timestamp>,
    appeal_reason: Option<&'a str>,
    appealed_at: Option<Timestamp>,
    evidence_count: u32,
    money_outcome: Option<MoneyOutcome>,
    opened_at: Timestamp,
    closed_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl<'a> CaseView<'a> {
    /// Serialises a case.
    pub fn new(case: &'a MedCase) -> Self {
        Self {
            id: case.id,
            object: "med_case",
            kind: case.kind,
            status: case.status,
            amount: case.amount,
            currency: case.currency,
            charge_id: case.id.charge(),
            reason: case.reason.as_deref(),
            response_deadline: case.response_deadline,
            evidence_requested_at: case.evidence_requested_at,
            appeal_reason: case.appeal_reason.as_deref(),
            appealed_at: case.appealed_at,
            evidence_count: case.evidence_count,
            money_outcome: case.money_outcome,
            opened_at: case.created_at,
            closed_at: case.closed_at,
            created_at: case.created_at,
            updated_at: case.updated_at,
        }
    }
}

/// The outcome of a case on the wire: `data.object` of the event `med.resolved` (design: MED events'
/// envelope).
#[derive(Clone, Debug, Serialize)]
pub struct ResolvedView {
    id: MedCaseId,
    object: &'static str,
    charge_id: ChargeId,
    amount: Amount,
    currency: Currency,
    money_outcome: Option<MoneyOutcome>,
    resolved_at: Option<Timestamp>,
}

impl ResolvedView {
    /// Serialises the outcome of a case that has ended.
    pub fn new(case: &MedCase) -> Self {
        Self {
            id: case.id,
            object: "med_case",
            charge_id: case.id.charge(),
            amount: case.amount,
            currency: case.currency,
            money_outcome: case.money_outcome,
            resolved_at: case.closed_at,
        }
    }
}

/// A page of cases on the wire.
#[derive(Debug, Serialize)]
pub struct CaseListView<'a> {
    object: &'static str,
    data: Vec<CaseView<'a>>,
    has_more: bool,
    next_cursor: Option<MedCaseId>,
}

impl<'a> CaseListView<'a> {
    /// Serialises a page.
    pub fn new(page: &'a CasePage) -> Self {
        Self {
            object: "list",
            data: page.cases.iter().map(CaseView::new).collect(),
            has_more: page.next_cursor.is_some(),
            next_cursor: page.next_cursor,
        }
    }
}
