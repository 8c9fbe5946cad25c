//! Reads and writes of cases.

use domain::audit::{Audit, Operator};
use domain::charge::{Charge, StoredCharge};
use domain::ids::MedCaseId;
use domain::med::{AppealReason, CaseNotification, CaseStep, Decision, MedCase};
use domain::time::Timestamp;

use super::CaseError;
use crate::audit;
use crate::auth::Caller;
use crate::random::RandomError;
use crate::store::{Store, StoreError, Write, just_read_or};
use crate::wallet::counters::{self, Cover};

/// The cases of all scopes.
#[derive(Clone, Debug)]
pub struct MedCases {
    pub(super) store: Store,
}

impl MedCases {
    /// Cases in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Reads a case, whatever its scope; none has no id.
    pub async fn find(&self, id: Option<MedCaseId>) -> Result<Option<MedCase>, StoreError> {
        match id {
            Some(id) => self.store.get(&MedCase::key_of(id)).await,
            None => Ok(None),
        }
    }

    /// Opens a case on a charge that was just read. `name` is the notification's own: told again, it is one case.
    ///
    /// # Errors
    ///
    /// [`CaseError::NotSettled`] when nothing was credited for the charge.
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
            update.next_attempt().await?;
            if let Some(known) = self.find(Some(id)).await? {
                return Ok(known);
            }
            let charge = just_read_or(&mut just_read, self.charge(id)).await?.at(now);
            let step = MedCase::open(id, &charge, notification, now)?;
            let insert = Write::insert(&step.case)?;
            if update.commit(writes(vec![insert], &step, &charge)?).await? {
                return Ok(step.case);
            }
        }
    }

    /// The merchant contests a case that was just read.
    ///
    /// # Errors
    ///
    /// [`CaseError::NotOpen`] when it is not open.
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

    /// The platform asks for evidence, by an operator where there is one. A case that is over stays as it is.
    pub async fn request_evidence(
        &self,
        case: MedCase,
        by: Option<&Operator>,
        now: Timestamp,
    ) -> Result<MedCase, CaseError> {
        let audit = audit(by, &case, "med.request-evidence", None, now)?;
        self.change(case, audit.as_ref(), |case, charge| Ok(case.evidence_requested(charge, now))).await
    }

    /// The merchant accepts a case that was just read.
    ///
    /// # Errors
    ///
    /// [`CaseError::NotOpen`] when it is not open.
    pub async fn accept(&self, case: MedCase, caller: &Caller, now: Timestamp) -> Result<MedCase, CaseError> {
        let step = |case: &MedCase, charge: &Charge| {
            let accepted = case.accepted(charge, now)?.ok_or(CaseError::NotOpen(case.status))?;
            Ok(Some(accepted.by(|version| caller.actor(version))))
        };
        self.change(case, None, step).await
    }

    /// A case that was just read is decided, by an operator where there is one. One that is over stays as it is.
    pub async fn decide(
        &self,
        case: MedCase,
        decision: Decision,
        by: Option<&Operator>,
        now: Timestamp,
    ) -> Result<MedCase, CaseError> {
        let audit = audit(by, &case, "med.decide", Some(decision.as_str().to_owned()), now)?;
        self.change(case, audit.as_ref(), |case, charge| Ok(case.decided(charge, decision, now)?)).await
    }

    /// An operator confirms a case that claims another amount than its charge's. Another stays as it is.
    pub async fn confirm(&self, case: MedCase, by: &Operator, now: Timestamp) -> Result<MedCase, CaseError> {
        let claimed = format!("{} {} {}", case.scope.mode, case.currency, case.amount.minor());
        let audit = audit(Some(by), &case, "med.confirm", Some(claimed), now)?;
        self.change(case, audit.as_ref(), |case, charge| Ok(case.confirmed(charge, now)?)).await
    }

    /// A move of the case and its charge.
    async fn change(
        &self,
        case: MedCase,
        audit: Option<&Audit>,
        step: impl Fn(&MedCase, &Charge) -> Result<Option<CaseStep>, CaseError>,
    ) -> Result<MedCase, CaseError> {
        let (id, mut just_read) = (case.id, Some(case));
        let mut update = self.store.start_update("a MED case");
        loop {
            update.next_attempt().await?;
            let case = just_read_or(&mut just_read, self.get_existing(id)).await?;
            let charge = self.charge(id).await?;
            // A charge with a case is settled: it does not expire.
            let charge = charge.as_stored();
            let Some(step) = step(&case, charge)? else { return Ok(case) };
            if update.commit(writes(replacing(&step.case, &case, audit)?, &step, charge)?).await? {
                return Ok(step.case);
            }
        }
    }

    async fn charge(&self, id: MedCaseId) -> Result<StoredCharge, StoreError> {
        let charge = self.store.get(&Charge::key_of(id.charge())).await?;
        charge.ok_or_else(|| StoreError::Corrupt("a case has no charge".to_owned()))
    }

    pub(super) async fn get_existing(&self, id: MedCaseId) -> Result<MedCase, StoreError> {
        let case = self.store.get(&MedCase::key_of(id)).await?;
        case.ok_or_else(|| StoreError::Corrupt("a case vanished".to_owned()))
    }
}

/// The rows of a step: those of the case, the charge, the posting. The debit needs no cover: a case may take a balance below
/// zero.
fn writes(case: Vec<Write>, step: &CaseStep, charge: &Charge) -> Result<Vec<Write>, StoreError> {
    let mut writes = case;
    writes.push(Write::replace(&step.charge, charge.version)?);
    if let Some(posting) = &step.posting {
        writes.extend(counters::posting_writes(posting, Cover::NotNeeded)?);
    }
    Ok(writes)
}

/// A case's next row, and who wrote it where that was an operator.
pub(super) fn replacing(
    next: &MedCase,
    case: &MedCase,
    audit: Option<&Audit>,
) -> Result<Vec<Write>, StoreError> {
    let audit = audit.map(Write::insert).transpose()?;
    Ok(std::iter::once(Write::replace(next, case.version)?).chain(audit).collect())
}

/// What an operator does to a case.
pub(super) fn audit(
    by: Option<&Operator>,
    case: &MedCase,
    action: &str,
    details: Option<String>,
    now: Timestamp,
) -> Result<Option<Audit>, RandomError> {
    let Some(operator) = by else { return Ok(None) };
    let audit = audit::by_operator(operator, case.scope.account, action, case.id.to_string(), now)?;
    Ok(Some(Audit { details, ..audit }))
}
