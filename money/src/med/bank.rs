//! Devoluções by MED: money that a bank took back from the merchant's account and returned to the payer.

use std::collections::BTreeMap;

use domain::charge::Charge;
use domain::ids::{ChargeId, MedCaseId};
use domain::med::{
    CASE_SORT, CaseKind, CaseNotification, CaseRefused, CaseStep, Decision, MedCase, MoneyOutcome,
};
use domain::money::{Amount, MinorUnits};
use domain::time::Timestamp;

use super::repository::step_writes;
use super::{CaseError, MedCases};
use shared::store::{StoreError, Write};

/// Each change ends a case, takes a part of one or opens one, so only a charge with more open cases needs more.
const MAX_STEPS: usize = 100;

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BankMedReturn {
    pub id: String,
    pub amount: Amount,
}

enum NextStep {
    Change(Box<CaseChange>),
    Complete,
    /// The text says why.
    Impossible(String),
}

struct CaseChange {
    /// `None`: the step opens the case.
    stored: Option<MedCase>,
    step: CaseStep,
    was_won: bool,
}

impl MedCases {
    /// Records the devoluções by MED of a charge's Pix as lost. `returned` are all devoluções that the bank has
    /// executed, not only new ones: their sum determines how much is still to be recorded, so a repeated call
    /// changes nothing.
    ///
    /// The money is taken from the open cases of the charge, the oldest first. If it covers the rest of a
    /// case's claim, the case is decided for the payer. Otherwise only that part of the claim is lost. For
    /// money beyond all claims, a case is opened and closed at once as lost. These are two writes. After a
    /// crash between them, the next call closes the case.
    ///
    /// A devolução after a case that was won, and one that can't be debited because the payment was refunded or
    /// never credited, are logged as errors for an operator.
    pub async fn apply_bank_returns(
        &self,
        charge: ChargeId,
        returned: &[BankMedReturn],
        now: Timestamp,
    ) -> Result<(), CaseError> {
        for _ in 0..MAX_STEPS {
            if !self.apply_next(charge, returned, now).await? {
                return Ok(());
            }
        }
        tracing::error!(%charge, "a devolução by MED needs more than {MAX_STEPS} changes of cases");
        Ok(())
    }

    /// False when nothing is left to record.
    async fn apply_next(
        &self,
        id: ChargeId,
        returned: &[BankMedReturn],
        now: Timestamp,
    ) -> Result<bool, CaseError> {
        let mut update = self.store.start_update("the MED cases of a charge");
        loop {
            // The amount to record is computed from the rows of each attempt, so that two concurrent calls
            // cannot record it twice.
            let charge = self.get_charge(id).await?;
            let charge = charge.as_stored();
            let cases: Vec<MedCase> = self.store.rows_of_prefix(&Charge::key_of(id).pk, CASE_SORT).await?;
            let planned = match next_step(charge, cases, returned, now)? {
                NextStep::Complete => return Ok(false),
                NextStep::Impossible(why) => {
                    tracing::error!(charge = %id, why, "a devolução by MED is not recorded; an operator must decide its cases with `admin med decide`, or correct the ledger with `admin ledger adjust`");
                    return Ok(false);
                }
                NextStep::Change(planned) => *planned,
            };
            let step = &planned.step;
            let case = Write::put(&step.case, planned.stored.as_ref().map(|stored| stored.version))?;
            if update.commit(step_writes(vec![case], step, charge)?).await? {
                planned.log_unusual(charge);
                return Ok(true);
            }
        }
    }
}

fn next_step(
    charge: &Charge,
    cases: Vec<MedCase>,
    returned: &[BankMedReturn],
    now: Timestamp,
) -> Result<NextStep, CaseError> {
    let funds = &charge.funds;
    // A bank that lists a devolução twice has still executed it once.
    let amounts: BTreeMap<&str, Amount> =
        returned.iter().map(|item| (item.id.as_str(), item.amount)).collect();
    let total = MinorUnits::checked_sum(amounts.into_values().map(MinorUnits::from));
    let total = total.map_err(StoreError::from)?;
    let recorded = funds.med_lost.checked_add(funds.med_unmet).map_err(StoreError::from)?;
    let excess = total.checked_sub(recorded).map_err(StoreError::from)?;
    let Ok(excess) = Amount::parse(excess) else { return Ok(NextStep::Complete) };
    let known: Vec<MedCaseId> = cases.iter().map(|case| case.id).collect();
    let was_won = cases.iter().any(|case| case.money_outcome == Some(MoneyOutcome::RefundedToMerchant));
    let open = cases.into_iter().filter(|case| !case.status.is_over());
    if let Some(case) = open.min_by_key(|case| (case.created_at, case.id)) {
        let step = match case.partially_lost(charge, excess, now)? {
            Some(step) => Some(step),
            None => case.decided(charge, Decision::Payer, now)?,
        };
        let why = || format!("the case {} cannot be decided", case.id);
        return Ok(match step {
            Some(step) => NextStep::Change(Box::new(CaseChange { stored: Some(case), step, was_won })),
            None => NextStep::Impossible(why()),
        });
    }
    let id = |item: &BankMedReturn| MedCaseId::derive(charge.id, &format!("devolucao#{}", item.id));
    let Some(id) = returned.iter().map(id).find(|id| !known.contains(id)) else {
        return Ok(NextStep::Impossible("the cases of all devoluções are over".to_owned()));
    };
    let notification = CaseNotification {
        id: None,
        kind: CaseKind::Med,
        reason: None,
        method: None,
        response_deadline: None,
        amount: Some(excess),
        reported_at: None,
    };
    Ok(match MedCase::open(id, charge, &notification, now) {
        Ok(step) => {
            let case = MedCase { opened_by_return: true, ..step.case };
            let step = CaseStep { case, ..step };
            NextStep::Change(Box::new(CaseChange { stored: None, step, was_won }))
        }
        Err(CaseRefused::NotSettled(status)) => {
            NextStep::Impossible(format!("no payment was credited; the charge is {}", status.as_str()))
        }
        Err(error @ CaseRefused::SelfCustody) => NextStep::Impossible(error.to_string()),
        Err(error @ CaseRefused::Funds(_)) => return Err(error.into()),
    })
}

impl CaseChange {
    fn log_unusual(&self, charge: &Charge) {
        let case = &self.step.case;
        if self.stored.is_none() && self.was_won {
            tracing::error!(
                charge = %charge.id, case = %case.id,
                "the bank returned money by MED after a case was won; the merchant is debited again"
            );
        }
        let unmet = self.step.charge.funds.med_unmet;
        if unmet > charge.funds.med_unmet {
            tracing::error!(
                charge = %charge.id, case = %case.id, %unmet,
                "the bank returned more by MED than was left of the payment after its refunds"
            );
        }
    }
}
