//! Writes what an acquirer says about a charge. [`next_step`] decides; this module loads what is recorded, and writes
//! one change at a time, each in one transaction. After a crash between two changes, the next read writes the rest.

use domain::account::terms::Terms;
use domain::acquirer::OddObject;
use domain::charge::transition::{Command, Payment};
use domain::charge::{Charge, IncomingPayment, StoredCharge};
use domain::ids::{AcquirerPaymentId, ChargeId, Scoped as _};
use domain::med::{CASE_SORT, CaseNotification, MedCase};
use domain::money::MinorUnits;
use domain::payment_method::PaymentMethod;
use domain::refund::{Refund, RefundOutcome, RefundReason};
use domain::snapshot::{Closing, Known, RemoteRefund, Snapshot, Step, contradictions, next_step};
use domain::time::Timestamp;
use domain::wallet::add_to_counter;

use crate::BankPayments;
use acquirer_core::{Legs, RefundEnd};
use money::charge::{Charges, recorded_payment_writes};
use money::med::MedCases;
use money::refund::{MadeThere, RefundError, Refunds};
use shared::store::{Store, StoreError};
use shared::{WorkError, WorkResult, metrics};

/// The most changes that one read causes. Only a charge with more refunds and disputes needs a second read.
const MAX_STEPS: usize = 32;

#[derive(Clone, Debug)]
pub struct RemoteCharges {
    store: Store,
    charges: Charges,
    refunds: Refunds,
    cases: MedCases,
    payments: BankPayments,
}

/// The charge after all changes.
#[derive(Debug)]
pub struct Followed {
    pub charge: StoredCharge,
    /// When the acquirer must be read again, because it does not know a fee yet.
    pub read_again_at: Option<Timestamp>,
    /// What must be set aside: objects that can't be used, and what an operator must look at.
    pub odd: Vec<OddObject>,
}

impl RemoteCharges {
    pub fn new(store: Store, payments: BankPayments) -> Self {
        Self {
            charges: Charges::new(store.clone()),
            refunds: Refunds::new(store.clone()),
            cases: MedCases::new(store.clone()),
            store,
            payments,
        }
    }

    /// `closing`: why the caller closed the charge at the acquirer. A cancellation is left to the caller, whose actor
    /// it records.
    pub async fn follow(
        &self,
        legs: &Legs,
        charge: &Charge,
        (snapshot, closing): (&Snapshot, Option<Closing>),
        now: Timestamp,
    ) -> WorkResult<Followed> {
        let (id, terms) = (charge.id, self.payments.account_of(charge).await?.settings.terms);
        let (mut tried, mut odd) = (Vec::<AcquirerPaymentId>::new(), snapshot.odd.clone());
        for _ in 0..MAX_STEPS {
            let stored = self.charges.get_existing(id).await?;
            let charge = stored.clone().read_at(now);
            let mut recorded = self.recorded(&charge, snapshot).await?;
            recorded.payments.extend(tried.iter().cloned());
            let known = recorded.known(&charge, &terms, closing);
            let Some(step) = next_step(&known, snapshot, now) else {
                odd.extend(contradictions(&known, snapshot));
                return Ok(Followed { charge: stored, read_again_at: None, odd });
            };
            if let Step::ReadAgain(at) = step {
                return Ok(Followed { charge: stored, read_again_at: Some(at), odd });
            }
            if let Step::Charge(command) = &step
                && let Command::Pay { payment, .. } = &**command
            {
                tried.push(payment.id.clone());
            }
            if let Some(not_yet) = Box::pin(self.write(legs, stored, recorded, step, now)).await? {
                odd.push(not_yet);
                break;
            }
        }
        Ok(Followed { charge: self.charges.get_existing(id).await?, read_again_at: None, odd })
    }

    /// The first change that is missing, and what no change can make right. It writes nothing.
    pub(super) async fn missing(
        &self,
        charge: ChargeId,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> WorkResult<(Option<Step>, Vec<OddObject>)> {
        let charge = self.charges.get_existing(charge).await?.read_at(now);
        let terms = self.payments.account_of(&charge).await?.settings.terms;
        let recorded = self.recorded(&charge, snapshot).await?;
        let known = recorded.known(&charge, &terms, None);
        Ok((next_step(&known, snapshot, now), contradictions(&known, snapshot)))
    }

    /// Reads only the rows that the snapshot can concern.
    async fn recorded(&self, charge: &Charge, snapshot: &Snapshot) -> WorkResult<Recorded> {
        let mut recorded = Recorded::default();
        for remote in &snapshot.payments {
            let incoming = self.charges.find_payment(&charge.scope, &remote.payment.id).await?;
            let elsewhere = incoming.as_ref().map(|incoming| incoming.fee_elsewhere(charge.id));
            add_to_counter(&mut recorded.fees_elsewhere, elsewhere.unwrap_or_default())
                .map_err(StoreError::from)?;
            // A Pix that named no charge waits for this one.
            let is_pix = remote.payment.method == PaymentMethod::Pix;
            if incoming.is_some_and(|incoming| !is_pix || incoming.charge_id() == Some(charge.id)) {
                recorded.payments.push(remote.payment.id.clone());
            }
        }
        for failed in snapshot.refunds.iter().filter(|remote| remote.outcome == Some(RefundOutcome::Failed)) {
            if let Some(id) = failed.came_back_as()
                && self.charges.find_payment(&charge.scope, &id).await?.is_some()
            {
                recorded.payments.push(id);
            }
        }
        if !snapshot.refunds.is_empty() {
            recorded.refunds = self.refunds.for_charge(Some(charge.id)).await?;
        }
        if !snapshot.disputes.is_empty() {
            recorded.cases = self.store.rows_of_prefix(&Charge::key_of(charge.id).pk, CASE_SORT).await?;
        }
        Ok(recorded)
    }

    /// Returns why the step can't be written yet. The next read tries it again.
    async fn write(
        &self,
        legs: &Legs,
        stored: StoredCharge,
        recorded: Recorded,
        step: Step,
        now: Timestamp,
    ) -> WorkResult<Option<OddObject>> {
        let charge = stored.as_stored().id;
        match step {
            Step::Charge(command) => match (&*command, legs.as_pix()) {
                (Command::Pay { payment, .. }, Some(bank)) if payment.method == PaymentMethod::Pix => {
                    self.payments.record_by_id(bank, payment.id.as_str(), Some(charge), now).await?;
                    let scope = stored.scope();
                    if self.charges.find_payment(&scope, &payment.id).await?.is_none() {
                        return Err(WorkError::Missing("the bank does not show the Pix of a paid cob yet"));
                    }
                }
                (command, _) => {
                    let next = self.charges.apply(stored, command, now).await?;
                    if let Command::Pay { payment, .. } = command {
                        report_receipt(&next, payment);
                    }
                }
            },
            Step::EndRefund(id, outcome, remote) => {
                if let Some(refund) = recorded.refunds.into_iter().find(|refund| refund.id == id) {
                    self.refunds.end_at_bank(refund, outcome, end_of(&remote), now).await?;
                }
            }
            Step::RefundMadeThere(remote) => {
                if let Some(ours) = remote.ours {
                    tracing::error!(%charge, refund = %ours, remote = remote.id, "the acquirer executed a refund a second time, or after it had failed; the wallet is debited for it: an operator must decide who bears it");
                }
                let made = MadeThere {
                    id: &remote.id,
                    amount: remote.amount,
                    its_id: None,
                    reason: RefundReason::RequestedAtAcquirer,
                };
                let refund = match self.refunds.record_made_there(charge, made, now).await {
                    Ok(refund) => refund,
                    Err(error @ RefundError::Refused { .. }) => {
                        let why = format!("a refund that was made there can't be recorded yet: {error}");
                        return Ok(Some(OddObject::new(&remote.id, why)));
                    }
                    Err(error) => return Err(error.into()),
                };
                self.refunds.end_at_bank(refund, RefundOutcome::Refunded, end_of(&remote), now).await?;
            }
            Step::OpenCase(_, notification) => {
                let name = name_of(&notification);
                self.cases.open(stored, &name, &notification, now).await?;
            }
            Step::RefundCameBack(remote) => {
                tracing::error!(%charge, refund = remote.id, "a refund failed after it had succeeded; an operator must decide who gets the money: `admin receipts list` shows it");
                metrics::increment(metrics::RETURNS_FAILED);
                let came_back = remote.came_back_as().and_then(|id| {
                    IncomingPayment::refund_came_back(stored.as_stored(), id, remote.amount, now)
                });
                let Some(came_back) = came_back else { return Ok(None) };
                // If the row exists, another caller has recorded it.
                let _recorded = self.store.commit(recorded_payment_writes(&came_back)?).await?;
            }
            Step::DecideCase(id, decision, taken) => {
                if let Some(case) = recorded.cases.into_iter().find(|case| case.id == id) {
                    self.cases.decide_at_acquirer(case, (decision, taken), now).await?;
                }
            }
            Step::ChangeLoss(id, taken) => {
                if let Some(case) = recorded.cases.into_iter().find(|case| case.id == id) {
                    self.cases.change_loss(case, taken, now).await?;
                }
            }
            Step::ReadAgain(_) => {}
        }
        Ok(None)
    }
}

#[derive(Debug, Default)]
struct Recorded {
    payments: Vec<AcquirerPaymentId>,
    refunds: Vec<Refund>,
    cases: Vec<MedCase>,
    fees_elsewhere: MinorUnits,
}

impl Recorded {
    fn known<'a>(&'a self, charge: &'a Charge, terms: &'a Terms, closing: Option<Closing>) -> Known<'a> {
        let Self { payments, refunds, cases, fees_elsewhere } = self;
        Known { charge, payments, refunds, cases, fees_elsewhere: *fees_elsewhere, terms, closing }
    }
}

/// An operator must decide about a payment that was not credited and can't be returned.
fn report_receipt(charge: &Charge, payment: &Payment) {
    let is_credited = charge.applied_payment.as_ref().is_some_and(|applied| applied.payment_id == payment.id);
    if !is_credited && !payment.method.is_returnable() {
        tracing::error!(charge = %charge.id, payment = %payment.id, "a payment came that its charge does not take, and its acquirer can't return it; an operator must end it: `admin receipts apply`, or for crypto `admin receipts credit`");
    }
}

/// The id of a case is derived from it, as [`Step::OpenCase`] says.
fn name_of(notification: &CaseNotification) -> String {
    format!("{}#{}", notification.kind.as_str(), notification.id.as_deref().unwrap_or_default())
}

fn end_of(remote: &RemoteRefund) -> RefundEnd {
    RefundEnd { id: Some(remote.id.clone()), reason: remote.reason.clone() }
}
