//! Each change is one transaction that writes the case, its charge, the posting if money moves and, for an
//! operator's action, the audit row.

use domain::audit::{Action, Audit, Operator, Sum};
use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, MedCaseId};
use domain::med::{AppealReason, CaseNotification, CaseStep, Decision, MedCase, Taken};
use domain::row::{Key, Row as _};
use domain::time::Timestamp;

use super::CaseError;
use crate::wallet::counters::{self, DebitCheck};
use shared::audit;
use shared::auth::Caller;
use shared::store::{Plan, Result, RowUpdate, StoreError, Write, number, reuse_or_read};

shared::store::repository!(MedCases);

impl MedCases {
    /// Reads a case of any scope; the caller checks the scope. Without an id nothing is read.
    pub async fn find(&self, id: Option<MedCaseId>) -> Result<Option<MedCase>> {
        self.store.find(id.map(MedCase::key_of)).await
    }

    /// `name` identifies the notification within the charge, or is random if the notification has no id. The
    /// same `name` returns the case that it opened first.
    pub async fn open(
        &self,
        charge: StoredCharge,
        name: &str,
        notification: &CaseNotification,
        now: Timestamp,
    ) -> Result<MedCase, CaseError> {
        let id = MedCaseId::derive(charge.as_stored().id, name);
        let mut just_read = Some(charge);
        let mut update = self.store.start_update("the charge of a case");
        loop {
            if let Some(stored) = self.find(Some(id)).await? {
                return Ok(stored);
            }
            let charge = reuse_or_read(&mut just_read, self.charge(id)).await?.read_at(now);
            let step = MedCase::open(id, &charge, notification, now)?;
            let insert = Write::insert(&step.case)?;
            if update.commit(step_writes(vec![insert], &step, &charge)?).await? {
                return Ok(step.case);
            }
        }
    }

    pub async fn appeal(
        &self,
        case: MedCase,
        reason: &AppealReason,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<MedCase, CaseError> {
        let step = |case: &MedCase, charge: &Charge| {
            let appealed = case.appealed(charge, reason, now).ok_or(CaseError::NotOpen(case.status))?;
            Ok(Some(appealed.by(|version| caller.actor(version))))
        };
        self.change(case, None, step).await
    }

    /// Records the reminder of the deadline that is due, if there is one. The event and the e-mails follow from it.
    pub async fn remind(&self, case: &Key, now: Timestamp) -> Result<()> {
        let plan = |case: Option<MedCase>| {
            let next = case.as_ref().and_then(|case| case.reminded(now));
            Ok(match case.zip(next) {
                Some((case, next)) => Plan::Commit(vec![Write::replace(&next, case.version)?], ()),
                None => Plan::Finished(()),
            })
        };
        self.store.update("a MED case", case, plan).await
    }

    /// Stores the text of an appeal that is not sent yet, if the case is open.
    pub async fn save_draft(&self, id: MedCaseId, text: &str, now: Timestamp) -> Result<()> {
        let plan = |case: Option<MedCase>| {
            let next = case.as_ref().and_then(|case| case.with_draft(text, now));
            Ok(match case.zip(next) {
                Some((case, next)) => Plan::Commit(vec![Write::replace(&next, case.version)?], ()),
                None => Plan::Finished(()),
            })
        };
        self.store.update("a MED case", &MedCase::key_of(id), plan).await
    }

    /// A case that has ended is returned unchanged.
    pub async fn request_evidence(
        &self,
        case: MedCase,
        by: Option<&Operator>,
        now: Timestamp,
    ) -> Result<MedCase, CaseError> {
        let audit = audit_row(by, &case, Action::RequestEvidence, now)?;
        self.change(case, audit.as_ref(), |case, charge| Ok(case.evidence_requested(charge, now))).await
    }

    pub async fn accept(&self, case: MedCase, caller: &Caller, now: Timestamp) -> Result<MedCase, CaseError> {
        let step = |case: &MedCase, charge: &Charge| {
            let accepted = case.accepted(charge, now)?.ok_or(CaseError::NotOpen(case.status))?;
            Ok(Some(accepted.by(|version| caller.actor(version))))
        };
        self.change(case, None, step).await
    }

    /// A case that has ended is returned unchanged.
    pub async fn decide(
        &self,
        case: MedCase,
        decision: Decision,
        by: Option<&Operator>,
        now: Timestamp,
    ) -> Result<MedCase, CaseError> {
        let audit = audit_row(by, &case, Action::DecideCase(decision), now)?;
        self.change(case, audit.as_ref(), |case, charge| Ok(case.decided(charge, decision, now)?)).await
    }

    /// Stores that the acquirer will never execute the last submission of evidence. Returns how many those are.
    pub async fn spend_submission(&self, case: &MedCase) -> Result<u32, StoreError> {
        let spent = case.spent_submissions.saturating_add(1);
        let update = RowUpdate::of(case.key()).set("spent_submissions", number(spent.into()));
        update.when_exists().run(&self.store).await?;
        Ok(spent)
    }

    /// As [`Self::decide`], with what the acquirer has taken.
    pub async fn decide_at_acquirer(
        &self,
        case: MedCase,
        decided: (Decision, Option<Taken>),
        now: Timestamp,
    ) -> Result<MedCase, CaseError> {
        self.change(case, None, |case, charge| Ok(case.decided_at_acquirer(charge, decided, now)?)).await
    }

    /// Posts what the acquirer took, or gave back, after the case's end.
    pub async fn change_loss(
        &self,
        case: MedCase,
        taken: Taken,
        now: Timestamp,
    ) -> Result<MedCase, CaseError> {
        self.change(case, None, |case, charge| Ok(case.taken_after_end(charge, taken, now)?)).await
    }

    /// A case whose amount differs from the charge's retains no money before this. Any other case is returned
    /// unchanged.
    pub async fn confirm(&self, case: MedCase, by: &Operator, now: Timestamp) -> Result<MedCase, CaseError> {
        let claimed = Sum { mode: case.scope.mode, currency: case.currency, minor: case.amount.minor() };
        let audit = audit_row(Some(by), &case, Action::ConfirmCase(claimed), now)?;
        self.change(case, audit.as_ref(), |case, charge| Ok(case.confirmed(charge, now)?)).await
    }

    /// `step` plans the change; `None` leaves the case unchanged. If another caller changed the case or the
    /// charge meanwhile, both are read again.
    pub(super) async fn change(
        &self,
        case: MedCase,
        audit: Option<&Audit>,
        step: impl Fn(&MedCase, &Charge) -> Result<Option<CaseStep>, CaseError>,
    ) -> Result<MedCase, CaseError> {
        let (id, mut just_read) = (case.id, Some(case));
        let mut update = self.store.start_update("a MED case");
        loop {
            let case = reuse_or_read(&mut just_read, self.get_existing(id)).await?;
            let charge = self.charge(id).await?;
            // A charge with a case is settled, so it cannot expire.
            let charge = charge.as_stored();
            let Some(step) = step(&case, charge)? else { return Ok(case) };
            if update
                .commit(step_writes(replacement_writes(&step.case, &case, audit)?, &step, charge)?)
                .await?
            {
                return Ok(step.case);
            }
        }
    }

    async fn charge(&self, id: MedCaseId) -> Result<StoredCharge> {
        self.get_charge(id.charge()).await
    }

    pub(super) async fn get_charge(&self, id: ChargeId) -> Result<StoredCharge> {
        let charge = self.store.get(&Charge::key_of(id)).await?;
        charge.ok_or_else(|| StoreError::Corrupt(format!("the charge {id} of a MED case does not exist")))
    }

    pub(super) async fn get_existing(&self, id: MedCaseId) -> Result<MedCase> {
        let case = self.store.get(&MedCase::key_of(id)).await?;
        case.ok_or_else(|| StoreError::Corrupt(format!("the MED case {id} no longer exists")))
    }
}

/// Those in `case`, then those of the charge and the posting. The debit is not checked, because a case may make
/// the available balance negative.
pub(super) fn step_writes(case: Vec<Write>, step: &CaseStep, charge: &Charge) -> Result<Vec<Write>> {
    let mut writes = case;
    writes.push(Write::replace(&step.charge, charge.version)?);
    if let Some(posting) = &step.posting {
        writes.extend(counters::posting_writes(posting, DebitCheck::Unchecked)?);
    }
    Ok(writes)
}

/// With the insert of the audit row when an operator acts.
pub(super) fn replacement_writes(
    next: &MedCase,
    case: &MedCase,
    audit: Option<&Audit>,
) -> Result<Vec<Write>> {
    let replace = Write::replace(next, case.version)?;
    Ok(std::iter::once(replace).chain(audit.map(Write::audit)).collect())
}

pub(super) fn audit_row(
    by: Option<&Operator>,
    case: &MedCase,
    action: Action,
    now: Timestamp,
) -> Result<Option<Audit>> {
    let Some(operator) = by else { return Ok(None) };
    Ok(Some(audit::by_operator(operator, case.scope.account, action, case.id, now)?))
}
