//! What an acquirer says about a charge when it is read, and what follows from it.
//!
//! [`next_step`] is the only place that decides. It compares what the acquirer says with what is recorded, and
//! returns the first change that is missing. It sees no notification: one that is lost, repeated or out of order
//! only changes when the acquirer is read.

use std::collections::BTreeMap;

use crate::account::terms::Terms;
use crate::acquirer::OddObject;
use crate::charge::transition::{Command, Payment};
use crate::charge::{Charge, FailureReason, TransactionStatus};
use crate::ids::{AcquirerPaymentId, ChargeId, MedCaseId, RefundId};
use crate::med::{CaseKind, CaseNotification, CaseStatus, Decision, MedCase, MoneyOutcome, Taken};
use crate::money::{Amount, Currency, MinorUnits, MoneyError};
use crate::payment_method::PaymentMethod;
use crate::refund::{Refund, RefundFailure, RefundOutcome, RefundStatus};
use crate::time::Timestamp;
use crate::wallet::add_to_counter;

/// How long the fee of a payment may be unknown before the plan's fee is taken, in seconds: two hours.
const FEE_SECONDS: i64 = 2 * 60 * 60;

/// The pause before a payment without a fee is read again, in seconds.
const FEE_PAUSE_SECONDS: i64 = 60;

/// The state of a charge at its acquirer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Snapshot {
    /// Whether it can still be paid.
    pub state: RemoteState,
    /// All its payments that succeeded, the oldest first.
    pub payments: Vec<RemotePayment>,
    /// Why the last try to pay was declined. `None`: no try was, or a later one succeeded.
    pub last_decline: Option<FailureReason>,
    /// All refunds of these payments, the oldest first.
    pub refunds: Vec<RemoteRefund>,
    /// All disputes about these payments, the oldest first.
    pub disputes: Vec<RemoteDispute>,
    /// One of several acquirers did not answer: there may be more, and the charge may be payable there.
    pub is_partial: bool,
    /// The card holder authenticates, and can open the acquirer's page again. Nothing is paid yet.
    pub is_authenticating: bool,
    /// The states of the legs, if there are several.
    pub legs: Vec<(PaymentMethod, RemoteState)>,
    /// Objects that can't be used. They are set aside.
    pub odd: Vec<OddObject>,
    /// All movements of the acquirer's balance for these payments, also those of returns. None: it lists no balance.
    pub movements: Vec<RemoteMovement>,
}

/// A movement of an acquirer's balance.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RemoteMovement {
    /// Its id at the acquirer.
    pub id: String,
    pub payment: AcquirerPaymentId,
    pub object: MovedObject,
    /// In minor units of the charge's currency; negative: a debit.
    pub gross: MinorUnits,
    /// The same in `currency`.
    pub settled: MinorUnits,
    /// What the acquirer charged for it, in `currency`; negative: it gave a fee back.
    pub fee: MinorUnits,
    /// That of the balance.
    pub currency: Currency,
}

/// What an acquirer's balance moved for. The text is the acquirer's id.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum MovedObject {
    Payment,
    Refund(String),
    RefundFailure(String),
    /// The return of a payment that was not credited, or of a refund that came back.
    Return,
    Dispute(String),
}

impl Snapshot {
    /// A charge of which nothing but its state is known.
    pub fn of(state: RemoteState) -> Self {
        Self {
            state,
            payments: Vec::new(),
            last_decline: None,
            is_authenticating: false,
            refunds: Vec::new(),
            disputes: Vec::new(),
            is_partial: false,
            legs: Vec::new(),
            odd: Vec::new(),
            movements: Vec::new(),
        }
    }

    /// A charge whose object at the acquirer can't be used. Nothing follows from it, and it is read again.
    pub fn of_odd(odd: OddObject) -> Self {
        Self { is_partial: true, odd: vec![odd], ..Self::of(RemoteState::Open) }
    }

    /// Joins what two acquirers say about one charge. `None`: the acquirer does not know it.
    pub fn joined(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (mut one, other) = match (one, other) {
            (Some(one), Some(other)) => (one, other),
            (one, other) => return one.or(other),
        };
        if other.state.rank() > one.state.rank() {
            one.state = other.state;
        }
        one.last_decline = one.last_decline.or(other.last_decline);
        one.payments.extend(other.payments);
        one.payments.sort_by_key(|remote| remote.payment.paid_at);
        one.refunds.extend(other.refunds);
        one.disputes.extend(other.disputes);
        one.is_partial |= other.is_partial;
        one.is_authenticating |= other.is_authenticating;
        one.legs.extend(other.legs);
        one.odd.extend(other.odd);
        one.movements.extend(other.movements);
        Some(one)
    }

    /// The methods by which the payer has begun to pay, and neither failed nor succeeded.
    pub fn methods_in_progress(&self, charge: &Charge) -> impl Iterator<Item = PaymentMethod> {
        let is_only = self.legs.is_empty() && self.state == RemoteState::InProgress;
        let only = charge.methods.iter().copied().filter(move |_| is_only);
        let of_legs = self.legs.iter().filter(|(_, state)| *state == RemoteState::InProgress);
        only.chain(of_legs.map(|(method, _)| *method))
    }

    /// What the acquirer has charged, by the currency of its balance and whether it is for disputes. The costs of
    /// exchange count as fees: what is left of a payment at its own rate, less what is left on the balance.
    pub fn charged(&self, currency: Currency) -> Result<BTreeMap<(Currency, bool), MinorUnits>, MoneyError> {
        let mut charged = BTreeMap::from([((currency, false), MinorUnits::ZERO)]);
        let mut add = |of, minor| add_to_counter(charged.entry(of).or_default(), minor);
        for moved in &self.movements {
            add((moved.currency, matches!(moved.object, MovedObject::Dispute(_))), moved.fee)?;
        }
        let payments = self.movements.iter().filter(|moved| moved.object == MovedObject::Payment);
        for paid in payments.filter(|paid| paid.currency != currency) {
            let is_its =
                |moved: &&RemoteMovement| moved.payment == paid.payment && moved.currency == paid.currency;
            let its = || self.movements.iter().filter(is_its);
            let left = MinorUnits::checked_sum(its().map(|moved| moved.gross))?;
            let settled = MinorUnits::checked_sum(its().map(|moved| moved.settled))?;
            add((paid.currency, false), at_rate(left, paid)?.checked_sub(settled)?)?;
        }
        Ok(charged)
    }
}

/// An amount of the charge's currency at the rate of its payment, rounded to zero.
fn at_rate(minor: MinorUnits, paid: &RemoteMovement) -> Result<MinorUnits, MoneyError> {
    let product = i128::from(minor).checked_mul(paid.settled.into());
    let settled = product.and_then(|product| product.checked_div(paid.gross.into()));
    settled.and_then(|settled| i64::try_from(settled).ok()).map(MinorUnits::new).ok_or(MoneyError::Overflow)
}

impl RemoteState {
    /// Of two acquirers, that with the higher rank decides: a charge that can be paid at one can be paid.
    fn rank(&self) -> u8 {
        match self {
            Self::ClosedByAcquirer(_) => 0,
            Self::Expired => 1,
            Self::ClosedByUs => 2,
            Self::Open => 3,
            Self::InProgress => 4,
            Self::Paid => 5,
        }
    }
}

/// Whether a charge can still be paid at its acquirer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RemoteState {
    /// It waits for its payer, who may have tried before.
    Open,
    /// A try of its payer has not ended.
    InProgress,
    /// It was not paid before its time was over.
    Expired,
    /// This service closed it, or asked for that.
    ClosedByUs,
    /// The acquirer closed it on its own.
    ClosedByAcquirer(FailureReason),
    Paid,
}

/// A payment that succeeded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RemotePayment {
    pub payment: Payment,
    /// True: the acquirer does not know its fee yet.
    pub lacks_fee: bool,
}

/// A refund at an acquirer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RemoteRefund {
    /// Its id at the acquirer.
    pub id: String,
    pub payment: AcquirerPaymentId,
    /// The refund of this service that it executes. `None`: it was made at the acquirer.
    pub ours: Option<RefundId>,
    pub amount: Amount,
    /// Whether the payer has the money. `None`: it is not decided.
    pub outcome: Option<RefundOutcome>,
    /// Why it failed.
    pub reason: Option<RefundFailure>,
}

/// A dispute at an acquirer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RemoteDispute {
    /// Its id at the acquirer.
    pub id: String,
    pub payment: AcquirerPaymentId,
    /// [`CaseKind::Dispute`] for an inquiry, which moves no money at the acquirer, else
    /// [`CaseKind::Chargeback`].
    pub kind: CaseKind,
    /// Why the payer contests the payment.
    pub reason: Option<String>,
    /// Claimed amount in minor units.
    pub amount: Amount,
    /// The last moment for evidence.
    pub due_by: Option<Timestamp>,
    /// The decision. `None`: it is open.
    pub decision: Option<Decision>,
    /// What the acquirer has taken for it. `None`: it is not decided, or the acquirer's balance does not show it yet.
    pub taken: Option<Taken>,
}

/// What is recorded about a charge.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub charge: &'a Charge,
    /// The payments of the snapshot that are recorded: credited, held, or on their way back. Also the refunds of
    /// [`Step::RefundCameBack`].
    pub payments: &'a [AcquirerPaymentId],
    pub refunds: &'a [Refund],
    pub cases: &'a [MedCase],
    /// The fees of payments that were applied to other charges, whose settlements have them.
    pub fees_elsewhere: MinorUnits,
    pub terms: &'a Terms,
    /// Why the caller closes the charge at its acquirer. `None`: it only reads.
    pub closing: Option<Closing>,
}

/// Why a charge is closed at its acquirer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Closing {
    /// The merchant cancels it.
    Cancel,
    /// Its time is over.
    Expire,
}

/// A change that is missing. After its write, the caller asks again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// A change of the charge. A payment is claimed in the same transaction.
    Charge(Box<Command>),
    /// Nothing changes before this time, when the acquirer must be read again.
    ReadAgain(Timestamp),
    /// The end of a refund of this service.
    EndRefund(RefundId, RefundOutcome, RemoteRefund),
    /// A refund that was made at the acquirer, and that debits the wallet.
    RefundMadeThere(RemoteRefund),
    OpenCase(MedCaseId, Box<CaseNotification>),
    /// The end of a case, with what the acquirer has taken.
    DecideCase(MedCaseId, Decision, Option<Taken>),
    /// The acquirer took more, or gave some back, after the end of a case.
    ChangeLoss(MedCaseId, Taken),
    /// A refund that failed after it had succeeded: its money is back at the acquirer.
    RefundCameBack(RemoteRefund),
}

/// Returns the first change that is missing. `None`: everything that the acquirer says is recorded.
pub fn next_step(known: &Known<'_>, snapshot: &Snapshot, now: Timestamp) -> Option<Step> {
    payment(known, snapshot, now)
        .or_else(|| refund(known, snapshot))
        .or_else(|| case(known, snapshot))
        .or_else(|| costs(known, snapshot))
        .or_else(|| end(known, snapshot, now))
}

fn payment(known: &Known<'_>, snapshot: &Snapshot, now: Timestamp) -> Option<Step> {
    let is_new = |remote: &&RemotePayment| !known.payments.contains(&remote.payment.id);
    let remote = snapshot.payments.iter().find(is_new)?;
    let paid_at = remote.payment.paid_at.min(now);
    if remote.lacks_fee && known.charge.is_open() && now < paid_at.saturating_plus_seconds(FEE_SECONDS) {
        let (charge, payment) = (known.charge, &remote.payment);
        // The payer has paid, and must not be asked to pay again.
        if charge.can_expire() && payment.amount == charge.amount && !charge.awaits(payment.method) {
            return Some(Step::Charge(Box::new(Command::AwaitConfirmation(payment.method))));
        }
        return Some(Step::ReadAgain(now.saturating_plus_seconds(FEE_PAUSE_SECONDS)));
    }
    let terms = known.terms.for_method(remote.payment.method);
    Some(Step::Charge(Box::new(Command::Pay { payment: remote.payment.clone(), terms })))
}

/// Refunds of a payment that was not credited belong to its return.
fn refund(known: &Known<'_>, snapshot: &Snapshot) -> Option<Step> {
    known.charge.settlement?;
    let credited = &known.charge.applied_payment.as_ref()?.payment_id;
    snapshot.refunds.iter().filter(|remote| remote.payment == *credited).find_map(|remote| {
        let outcome = remote.outcome?;
        // A recorded one that was made there comes first: it may have the name of a refund of this service.
        let same = known.refunds.iter().filter(|refund| is_same(refund, remote));
        let ours = same.max_by_key(|refund| refund.requested_at_bank.is_some());
        match (ours, outcome) {
            (Some(ours), _) if ours.status == RefundStatus::InProgress => {
                Some(Step::EndRefund(ours.id, outcome, remote.clone()))
            }
            (Some(ours), RefundOutcome::Refunded)
                if ours.status == RefundStatus::Failed && ours.requested_at_bank.is_none() =>
            {
                Some(Step::RefundMadeThere(remote.clone()))
            }
            (None, RefundOutcome::Refunded) => Some(Step::RefundMadeThere(remote.clone())),
            (Some(ours), RefundOutcome::Failed) if ours.status == RefundStatus::Refunded => {
                let is_recorded = remote.came_back_as().is_none_or(|id| known.payments.contains(&id));
                (!is_recorded).then(|| Step::RefundCameBack(remote.clone()))
            }
            (None, RefundOutcome::Failed) | (Some(_), _) => None,
        }
    })
}

/// A refund that the acquirer executed is one of its refunds. Another with the same name is a second execution.
fn is_same(refund: &Refund, remote: &RemoteRefund) -> bool {
    if let Some(id) = &refund.requested_at_bank {
        return *id == remote.id;
    }
    let is_other = refund.rtr_id.as_ref().is_some_and(|id| *id != remote.id);
    remote.ours == Some(refund.id) && !is_other
}

/// An inquiry that becomes formal is a second case. It opens before the first one ends, so that the money stays
/// retained.
///
/// A dispute about a payment that was not credited takes none of the merchant's money, so it has no case.
fn case(known: &Known<'_>, snapshot: &Snapshot) -> Option<Step> {
    known.charge.settlement?;
    let credited = &known.charge.applied_payment.as_ref()?.payment_id;
    let find = |id: MedCaseId| known.cases.iter().find(|case| case.id == id);
    snapshot.disputes.iter().filter(|remote| remote.payment == *credited).find_map(|remote| {
        let formal = find(case_id(known.charge.id, remote, CaseKind::Chargeback));
        if remote.kind == CaseKind::Dispute && formal.is_some() {
            // What was read is older than the formal dispute.
            return None;
        }
        let id = remote.case_of(known.charge.id);
        let Some(case) = find(id) else {
            return Some(Step::OpenCase(id, Box::new(notification(remote))));
        };
        let inquiry = find(case_id(known.charge.id, remote, CaseKind::Dispute));
        if let Some(inquiry) = inquiry.filter(|inquiry| inquiry.id != id && !inquiry.status.is_over()) {
            return Some(Step::DecideCase(inquiry.id, Decision::Withdrawn, None));
        }
        if !case.status.is_over() {
            return remote.decision.map(|decision| Step::DecideCase(id, decision, remote.taken));
        }
        remote.taken.filter(|taken| case.has_other_loss(*taken)).map(|taken| Step::ChangeLoss(id, taken))
    })
}

/// The platform bears what the acquirer charged and no settlement posts: the fee of a dispute, of a payment that was
/// returned, a fee that a refund returned to the merchant alone, a fee or a loss by exchange in the currency of the
/// balance. Nothing is compared before the acquirer knows all fees, and while a refund is in progress.
fn costs(known: &Known<'_>, snapshot: &Snapshot) -> Option<Step> {
    let charge = known.charge;
    let is_moving = charge.funds.in_progress().ok()?.is_positive()
        || snapshot.payments.iter().any(|remote| remote.lacks_fee);
    if snapshot.movements.is_empty() || is_moving {
        return None;
    }
    let movements = u32::try_from(snapshot.movements.len()).ok()?;
    snapshot.charged(charge.currency).ok()?.into_iter().find_map(|(of, charged)| {
        let is_posted = of == (charge.currency, false);
        let posted = if is_posted { posted_fees(charge, snapshot).ok()? } else { MinorUnits::ZERO };
        let elsewhere = if is_posted { known.fees_elsewhere } else { MinorUnits::ZERO };
        let total = charged.checked_sub(posted).ok()?.checked_sub(elsewhere).ok()?;
        let (borne, at) = charge.costs_of(of);
        let is_news = total != borne && movements >= at;
        is_news.then(|| Step::Charge(Box::new(Command::BearCosts { of, total, movements })))
    })
}

/// The acquirer's fee that the charge's settlement and refunds have posted. If it was paid elsewhere: none.
fn posted_fees(charge: &Charge, snapshot: &Snapshot) -> Result<MinorUnits, MoneyError> {
    let paid_by = charge.applied_payment.as_ref().map(|applied| &applied.payment_id);
    let is_here = snapshot.movements.iter().any(|moved| Some(&moved.payment) == paid_by);
    charge.settlement.filter(|_| is_here).map_or(Ok(MinorUnits::ZERO), |settlement| {
        settlement.fees.acquirer().checked_sub(charge.funds.acquirer_fee_returned)
    })
}

impl RemoteRefund {
    /// The id of the payment that records that this refund came back. `None`: the acquirer's id is no id of a payment.
    pub fn came_back_as(&self) -> Option<AcquirerPaymentId> {
        self.id.parse().ok()
    }
}

impl RemoteDispute {
    pub fn case_of(&self, charge: ChargeId) -> MedCaseId {
        case_id(charge, self, self.kind)
    }
}

fn case_id(charge: ChargeId, remote: &RemoteDispute, kind: CaseKind) -> MedCaseId {
    MedCaseId::derive(charge, &format!("{}#{}", kind.as_str(), remote.id))
}

fn notification(remote: &RemoteDispute) -> CaseNotification {
    CaseNotification {
        id: Some(remote.id.clone()),
        kind: remote.kind,
        reason: remote.reason.clone(),
        method: None,
        response_deadline: remote.due_by,
        amount: Some(remote.amount),
        reported_at: None,
    }
}

fn end(known: &Known<'_>, snapshot: &Snapshot, now: Timestamp) -> Option<Step> {
    let charge = known.charge;
    if !charge.can_expire() {
        return None;
    }
    if let Some((method, why)) = ended_leg(charge, snapshot, now) {
        return Some(Step::Charge(Box::new(Command::EndLeg(method, why))));
    }
    if let Some(method) = unconfirmed(charge, snapshot, now).filter(|method| !charge.awaits(*method)) {
        return Some(Step::Charge(Box::new(Command::AwaitConfirmation(method))));
    }
    let at = charge.ends_at().min(now);
    let expire = || match &snapshot.last_decline {
        Some(last) => Command::ExpireDeclined { at, last: last.clone() },
        None => Command::Expire { at },
    };
    let command = match (&snapshot.state, known.closing) {
        (RemoteState::InProgress, _)
            if snapshot.methods_in_progress(charge).any(|method| !method.is_voucher()) =>
        {
            let may_begin =
                charge.status == TransactionStatus::WaitingPayment && charge.is_payable_by_card(now);
            may_begin.then_some(Command::Authenticate)?
        }
        _ if snapshot.is_partial => return None,
        (RemoteState::ClosedByAcquirer(why), _) => Command::Decline(why.clone()),
        (RemoteState::ClosedByUs, Some(Closing::Cancel)) => Command::Cancel,
        // Paid, but not by a payment that the charge accepts: its money goes back, and it can't be paid again.
        (RemoteState::Expired, _) | (RemoteState::ClosedByUs | RemoteState::Paid, Some(Closing::Expire)) => {
            expire()
        }
        // A voucher that awaits its confirmation leaves the charge waiting.
        (RemoteState::Open | RemoteState::InProgress, _) => {
            let is_declined = snapshot.last_decline.is_some() && snapshot.last_decline != charge.last_decline;
            let ended = charge.status == TransactionStatus::Processing || is_declined;
            let decline = snapshot.last_decline.clone();
            // A transfer that was replaced and a push that ended leave the other methods. The only transfer that was
            // replaced stays processed: its payer has no other way.
            let is_replaced = charge.status == TransactionStatus::Processing && charge.methods.len() > 1;
            (ended && (charge.is_payable_by_card(now) || is_replaced))
                .then_some(Command::EndTry { decline })?
        }
        (RemoteState::ClosedByUs | RemoteState::Paid, _) => return None,
    };
    Some(Step::Charge(Box::new(command)))
}

/// The method of a payment that its acquirer has accepted and not confirmed. One that a bank decides at once comes
/// before a voucher.
fn unconfirmed(charge: &Charge, snapshot: &Snapshot, now: Timestamp) -> Option<PaymentMethod> {
    let is_accepted = |method: &PaymentMethod| match method {
        PaymentMethod::CreditCard => !snapshot.is_authenticating,
        // After its expiry, each voucher is processed, paid or not.
        PaymentMethod::Boleto | PaymentMethod::Multibanco => {
            charge.artefacts.expires_at(*method).is_some_and(|end| now <= end)
        }
        PaymentMethod::Pix | PaymentMethod::Mbway | PaymentMethod::Crypto => true,
    };
    let accepted = snapshot.methods_in_progress(charge).filter(is_accepted);
    accepted.min_by_key(|method| method.is_voucher())
}

/// A leg that its acquirer ended, while another may be paid. One whose time is over needs no step.
fn ended_leg(charge: &Charge, snapshot: &Snapshot, now: Timestamp) -> Option<(PaymentMethod, FailureReason)> {
    if snapshot.state.rank() < RemoteState::Open.rank() && !snapshot.is_partial {
        return None;
    }
    // A try that ended with the time for it leaves the charge waiting.
    let is_tried =
        |method| charge.status == TransactionStatus::Processing && method == PaymentMethod::CreditCard;
    let is_payable = |method| {
        let is_open = charge.payable_methods(now).any(|(payable, _)| payable == method);
        (is_open || is_tried(method)) && charge.ended_leg(method).is_none()
    };
    snapshot.legs.iter().filter(|(method, _)| is_payable(*method)).find_map(|(method, state)| match state {
        RemoteState::ClosedByAcquirer(why) => Some((*method, why.clone())),
        RemoteState::Expired => Some((*method, FailureReason::Expired)),
        RemoteState::Open | RemoteState::InProgress | RemoteState::ClosedByUs | RemoteState::Paid => None,
    })
}

/// Returns what an operator must look at, because no step can make it right.
pub fn contradictions(known: &Known<'_>, snapshot: &Snapshot) -> Vec<OddObject> {
    let mut found = Vec::new();
    for remote in &snapshot.disputes {
        let id = remote.case_of(known.charge.id);
        let Some(case) = known.cases.iter().find(|case| case.id == id) else { continue };
        // A decided one has taken what its movements say.
        if case.amount != remote.amount && remote.taken.is_none() {
            found.push(OddObject::new(&remote.id, format!("claims another amount than its case {id}")));
        }
        let is_won = remote.decision.map(|decision| decision != Decision::Payer);
        let was_won = case.money_outcome.map(|outcome| outcome == MoneyOutcome::RefundedToMerchant);
        // The merchant may accept a claim that the acquirer has not decided.
        let is_reversed = case.status != CaseStatus::Accepted && is_won.is_some() && was_won.is_some();
        if is_reversed && is_won != was_won {
            let why = format!("was decided in another way than its case {id}");
            found.push(OddObject::new(&remote.id, why));
        }
    }
    found
}

#[cfg(test)]
mod tests;
