use schemars::JsonSchema;
use serde::Serialize;

use domain::ids::{ChargeId, MedCaseId};
use domain::med::{CaseKind, CaseStatus, MedCase, MoneyOutcome};
use domain::money::{Amount, Currency};
use domain::time::Timestamp;

use crate::med::CasePage;
use shared::http::ListView;

/// A claim of a payer to get the money of a payment back, or another dispute about a payment.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "MedCase")]
pub struct CaseView<'a> {
    /// The case's id.
    id: MedCaseId,
    /// Always `med_case`.
    #[schemars(extend("const" = "med_case"))]
    object: &'static str,
    /// The type of the case.
    #[serde(rename = "type")]
    kind: CaseKind,
    /// The status of the case.
    status: CaseStatus,
    /// The disputed amount in the currency's smallest unit.
    amount: Amount,
    /// The currency of the amount.
    currency: Currency,
    /// The id of the disputed charge.
    charge_id: ChargeId,
    /// The alleged reason. `null` if none was reported.
    reason: Option<&'a str>,
    /// Until when the merchant can respond. `null` if no deadline was communicated.
    response_deadline: Option<Timestamp>,
    /// When the platform asked for evidence. `null` if it did not.
    evidence_requested_at: Option<Timestamp>,
    /// The text of the merchant's appeal. `null` if there is none.
    appeal_reason: Option<&'a str>,
    /// When the merchant appealed. `null` if the merchant did not.
    appealed_at: Option<Timestamp>,
    /// The number of evidence files with a confirmed upload.
    evidence_count: u32,
    /// Who has the money. `null` while the case is `open` or `appealed`.
    money_outcome: Option<MoneyOutcome>,
    /// When the case was opened.
    opened_at: Timestamp,
    /// When the case reached a final status. `null` until then.
    closed_at: Option<Timestamp>,
    /// When the case was created.
    created_at: Timestamp,
    /// When the case last changed.
    updated_at: Timestamp,
}

impl<'a> CaseView<'a> {
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

/// The outcome of a case that has ended.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "MedCaseOutcome")]
pub struct ResolvedView {
    /// The case's id.
    id: MedCaseId,
    /// Always `med_case`.
    #[schemars(extend("const" = "med_case"))]
    object: &'static str,
    /// The id of the disputed charge.
    charge_id: ChargeId,
    /// The disputed amount in the currency's smallest unit.
    amount: Amount,
    /// The currency of the amount.
    currency: Currency,
    /// Who has the money.
    money_outcome: Option<MoneyOutcome>,
    /// When the case ended.
    resolved_at: Option<Timestamp>,
}

impl ResolvedView {
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

/// A page of cases.
pub type CaseListView<'a> = ListView<CaseView<'a>, MedCaseId>;

pub fn case_list(page: &CasePage) -> CaseListView<'_> {
    ListView::new(page.items.iter().map(CaseView::new).collect(), page.next_cursor)
}
