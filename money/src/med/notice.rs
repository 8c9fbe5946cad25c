//! Processes notices of MED infractions. The row of a notice is inserted first. So if the request dies, the
//! scheduler processes the notice, and a repeated notice changes nothing.

use domain::acquirer::{ReportedPix, ReportedPixStatus};
use domain::charge::{Charge, StoredCharge};
use domain::ids::{AccountId, ChargeId, MedCaseId, Mode, Scope};
use domain::med::{CASE_SORT, CaseStep, Decision, MedCase, MedNotice, MoneyOutcome, NoticeStatus};
use domain::money::MinorUnits;
use domain::time::Timestamp;

use super::repository::step_writes;
use super::{CaseError, MedCases};
use shared::store::{CommitOutcome, Inserted, StoreError, Write, reuse_or_read};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoticeOutcome {
    /// Now or before.
    Processed(MedCaseId),
    /// The notice will be processed later.
    Waiting,
    /// It is never processed.
    Dismissed,
}

#[derive(Clone, Debug)]
pub enum ContestedPix {
    Unknown,
    Unconfirmed,
    OtherAccount(AccountId),
    Unmatched,
    HeldForReview(ChargeId),
    /// Its payer gets it back.
    Returned(ChargeId),
    Credited(Box<StoredCharge>),
}

impl MedCases {
    /// A notice with the same id as an earlier one has the outcome of the earlier one.
    pub async fn receive_notice(
        &self,
        notice: MedNotice,
        now: Timestamp,
    ) -> Result<NoticeOutcome, CaseError> {
        let notice = match self.store.insert(&notice).await? {
            Inserted::New => notice,
            Inserted::Existing(stored) => stored,
        };
        self.process(&notice, now).await
    }

    /// A notice whose Pix is not credited is postponed. 24 hours after its arrival, it is left to an operator
    /// and logged as an error.
    pub async fn process_notice(
        &self,
        account: &AccountId,
        notice_id: &str,
        now: Timestamp,
    ) -> Result<(), CaseError> {
        let key = MedNotice::key_of(account, notice_id);
        let Some(notice) = self.store.get::<MedNotice>(&key).await? else { return Ok(()) };
        if notice.status != NoticeStatus::Waiting {
            return Ok(());
        }
        match self.process(&notice, now).await? {
            NoticeOutcome::Processed(_) | NoticeOutcome::Dismissed => Ok(()),
            NoticeOutcome::Waiting => {
                let next = notice.not_matched(now);
                let is_replaced = self.replace_notice(&next, &notice).await?;
                if is_replaced && next.status == NoticeStatus::Unmatched {
                    tracing::error!(
                        %account, notice = notice_id, pix = %notice.end_to_end_id,
                        "a MED notice names a Pix that was not credited within 24 hours; an operator must end it with `admin med notices retry` or `admin med notices dismiss`"
                    );
                }
                Ok(())
            }
        }
    }

    async fn process(&self, notice: &MedNotice, now: Timestamp) -> Result<NoticeOutcome, CaseError> {
        if let Some(case) = notice.case {
            return Ok(NoticeOutcome::Processed(case));
        }
        if notice.dismissed_at.is_some() {
            return Ok(NoticeOutcome::Dismissed);
        }
        let ContestedPix::Credited(charge) = self.contested_pix(notice).await? else {
            return Ok(NoticeOutcome::Waiting);
        };
        let case = self.apply_notice(notice, *charge, now).await?;
        // If another caller processed the notice meanwhile, it found the same case.
        let _is_replaced = self.replace_notice(&notice.processed(case), notice).await?;
        Ok(NoticeOutcome::Processed(case))
    }

    async fn replace_notice(&self, next: &MedNotice, notice: &MedNotice) -> Result<bool, StoreError> {
        let write = Write::replace(next, notice.version)?;
        Ok(self.store.commit(vec![write]).await? == CommitOutcome::Done)
    }

    /// Only a Pix that is credited to a live charge of the notice's account can be contested.
    pub async fn contested_pix(&self, notice: &MedNotice) -> Result<ContestedPix, StoreError> {
        let key = ReportedPix::key_of(&notice.end_to_end_id);
        let Some(reported) = self.store.get::<ReportedPix>(&key).await? else {
            return Ok(ContestedPix::Unknown);
        };
        let Some(id) = reported.charge else {
            return Ok(match reported.status {
                ReportedPixStatus::Reported | ReportedPixStatus::Unconfirmed | ReportedPixStatus::Unowned => {
                    ContestedPix::Unconfirmed
                }
                ReportedPixStatus::Recorded if reported.account != notice.account => {
                    ContestedPix::OtherAccount(reported.account)
                }
                ReportedPixStatus::Recorded => ContestedPix::Unmatched,
            });
        };
        let stored = self.get_charge(id).await?;
        let charge = stored.as_stored();
        if charge.scope != (Scope { account: notice.account, mode: Mode::Live }) {
            return Ok(ContestedPix::OtherAccount(charge.scope.account));
        }
        let is_applied = charge
            .applied_payment
            .as_ref()
            .is_some_and(|payment| payment.payment_id.as_str() == notice.end_to_end_id.as_str());
        Ok(if is_applied && charge.settlement.is_some() {
            ContestedPix::Credited(Box::new(stored))
        } else if is_applied && charge.is_held_for_review() {
            ContestedPix::HeldForReview(id)
        } else {
            ContestedPix::Returned(id)
        })
    }

    pub(super) async fn apply_notice(
        &self,
        notice: &MedNotice,
        charge: StoredCharge,
        now: Timestamp,
    ) -> Result<MedCaseId, CaseError> {
        let id = notice.case_id(charge.as_stored().id);
        let case = match self.find(Some(id)).await? {
            Some(case) => case,
            None => self.open_for_infraction(notice, charge, now).await?,
        };
        let id = case.id;
        let Some(decision) = notice.infraction_status.decision() else {
            let notification = notice.notification();
            let step = |case: &MedCase, charge: &Charge| Ok(case.reported_again(charge, &notification, now));
            self.change(case, None, step).await?;
            return Ok(id);
        };
        let reported_at = Some(notice.reported_at);
        if case.status.is_over() {
            if case.reported_at <= reported_at && !agrees(&case, decision) {
                tracing::error!(case = %id, decision = decision.as_str(), "the bank decided a MED case that ended otherwise");
            }
            return Ok(id);
        }
        let step = |case: &MedCase, charge: &Charge| {
            if case.reported_at > reported_at {
                return Ok(None);
            }
            let decided = case.decided(charge, decision, now)?;
            Ok(decided.map(|step| CaseStep { case: MedCase { reported_at, ..step.case }, ..step }))
        };
        self.change(case, None, step).await?;
        Ok(id)
    }

    /// Opens the case of an infraction whose first notice this is. If devoluções by MED opened lost cases
    /// before ([`MedCases::apply_bank_returns`]) and such a case does not belong to an infraction yet, it
    /// belongs to this one, because otherwise the same money would be lost twice. If those cases cover the
    /// claim, the first of them is the infraction's case. Otherwise the new case claims only the rest.
    async fn open_for_infraction(
        &self,
        notice: &MedNotice,
        charge: StoredCharge,
        now: Timestamp,
    ) -> Result<MedCase, CaseError> {
        let charge_id = charge.as_stored().id;
        let id = notice.case_id(charge_id);
        let mut just_read = Some(charge);
        let mut update = self.store.start_update("the MED cases of a charge");
        loop {
            let charge = reuse_or_read(&mut just_read, self.get_charge(charge_id)).await?.read_at(now);
            let mut cases: Vec<MedCase> = if charge.disputes.is_some() {
                self.store.rows_of_prefix(&Charge::key_of(charge_id).pk, CASE_SORT).await?
            } else {
                Vec::new()
            };
            let is_own = |case: &MedCase| {
                case.id == id || case.infraction.as_deref() == Some(notice.infraction_id.as_str())
            };
            if let Some(own) = cases.iter().find(|case| is_own(case)) {
                return Ok(own.clone());
            }
            cases.retain(|case| case.opened_by_return && case.infraction.is_none());
            cases.sort_by_key(|case| (case.created_at, case.id));
            let lost = MinorUnits::checked_sum(cases.iter().map(|case| case.amount.into()));
            let lost = lost.map_err(StoreError::from)?;
            let claimed = |case: &MedCase| {
                let next = case.of_infraction(&notice.infraction_id);
                Write::replace(&next, case.version).map(|write| (next, write))
            };
            if let Some(first) =
                cases.first().filter(|_| lost >= notice.amount.unwrap_or(charge.amount).into())
            {
                let (next, write) = claimed(first)?;
                if update.commit(vec![write]).await? {
                    return Ok(next);
                }
                continue;
            }
            let step = MedCase::open_after_losses(id, &charge, &notice.notification(), lost, now)?;
            let mut writes = vec![Write::insert(&step.case)?];
            for case in &cases {
                writes.push(claimed(case)?.1);
            }
            if update.commit(step_writes(writes, &step, &charge)?).await? {
                return Ok(step.case);
            }
        }
    }
}

/// Also if the merchant accepted the claim.
fn agrees(case: &MedCase, decision: Decision) -> bool {
    let is_won = case.money_outcome == Some(MoneyOutcome::RefundedToMerchant);
    match decision {
        Decision::Merchant | Decision::Withdrawn => is_won,
        Decision::Payer | Decision::ClosedWithoutRefund => !is_won,
    }
}
