//! The state machine of a charge (`docs/architecture.md`, The charge's states).
//!
//! [`apply`] returns the next version of the charge and the other rows to write in the same transaction. If
//! money moves, one of them is a ledger posting. A payment that is reported again changes nothing, because its
//! row is inserted in that transaction. A late notification loses no money: a payment that cannot be applied is
//! recorded together with its return.

use super::incoming_payment::{IncomingPayment, UnappliedReason};
use super::{
    AcquirerCosts, AppliedPayment, Artefacts, Charge, Decision, EndedLeg, Failure, FailureReason,
    TransactionStatus,
};
use crate::account::terms::MethodTerms;
use crate::acquirer::Charged;
use crate::ids::{AcquirerPaymentId, ConnectionId, PostingId, Scope};
use crate::med::{CaseUpdate, add_update};
use crate::money::{Amount, Currency, MinorUnits, MoneyError};
use crate::payment_method::PaymentMethod;
use crate::row::Row as _;
use crate::tax_id::TaxId;
use crate::time::Timestamp;
use crate::wallet::{Cause, Posting, ReturnStatus, Settlement, Subject, rules};

/// A payment as reported by the acquirer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Payment {
    /// Id of the payment. For a Pix it is the end-to-end id.
    pub id: AcquirerPaymentId,
    pub method: PaymentMethod,
    /// Paid amount in minor units of the charge's currency.
    pub amount: Amount,
    /// The payer's document, if the bank reported it in full. A masked document counts as absent.
    pub payer_document: Option<TaxId>,
    /// When the bank received the payment, by the bank's clock.
    pub paid_at: Timestamp,
    /// Whether the acquirer showed that it accepted the payment while the charge was open there. Then `paid_at`
    /// does not decide whether it is late: the acquirer's clock may be wrong.
    pub is_in_time: bool,
    /// What the acquirer took. `None`: what the plan says.
    pub charged: Option<Charged>,
}

/// An input of the state machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// Acquirers created legs of the charge, and refused others.
    Finalise(Box<MadeLegs>),
    /// A leg can't be paid any more.
    EndLeg(PaymentMethod, FailureReason),
    /// The acquirer reported a payment.
    Pay {
        payment: Payment,
        /// Fee and hold terms, which apply if the payment settles.
        terms: MethodTerms,
    },
    /// The card holder began to authenticate.
    Authenticate,
    /// An acquirer has accepted a payment by this method, and not confirmed it. By a boleto or Multibanco, the charge
    /// stays as it is.
    AwaitConfirmation(PaymentMethod),
    /// A try to pay ended unpaid, and the payer may try again.
    EndTry {
        /// Why it was declined. `None`: it was abandoned.
        decline: Option<FailureReason>,
    },
    /// The merchant cancels the charge.
    Cancel,
    /// The acquirer declined the payment, or did not create the charge.
    Decline(FailureReason),
    /// The charge expired unpaid. `metadata.failure` then has the code `expired`.
    Expire {
        /// When it expired, which is before the write. It becomes the `at` of `metadata.failure`.
        at: Timestamp,
    },
    /// The charge expired after its payer's tries had been declined. `metadata.failure` then has the last reason.
    ExpireDeclined {
        /// When it expired.
        at: Timestamp,
        /// Why the last try was declined.
        last: FailureReason,
    },
    /// The bank confirmed that the expected payer made the payment that is held for review.
    ConfirmPayer {
        /// Fee and hold terms, which apply to the payment.
        terms: MethodTerms,
    },
    /// The acquirer charged more, or less, than the fees that are posted.
    BearCosts {
        /// The currency of the acquirer's balance, and whether it is for disputes.
        of: (Currency, bool),
        /// All that the platform bears for the charge, in minor units.
        total: MinorUnits,
        /// How many movements of the acquirer's balance lead to it.
        movements: u32,
    },
    /// A manual review ended.
    Review {
        decision: Decision,
        /// Fee and hold terms, which apply if the payment settles.
        terms: MethodTerms,
    },
}

/// The write of an incoming payment's row.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum IncomingPaymentWrite {
    /// Insert: the payment is reported for the first time.
    Insert(IncomingPayment),
    /// Replace: the payment was accepted before, and its row changes.
    Replace(IncomingPayment),
}

/// A payment and the ledger posting of the money that it moved.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordedPayment {
    pub incoming_payment: IncomingPaymentWrite,
    pub posting: Posting,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing changes: the command was applied before, or no longer applies.
    Unchanged,
    /// The charge changed, and no money moved.
    Changed(Box<Charge>),
    /// The charge changed and money moved: credited, held for review, or returned, which can leave the status
    /// as it was.
    Paid { charge: Box<Charge>, moved: Box<RecordedPayment> },
    /// Money held for review is credited, or costs are posted. The row of the incoming payment does not change.
    Credited { charge: Box<Charge>, posting: Box<Posting> },
}

/// Why a command is rejected.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// Only a held payment can be reviewed. A repeated review with the same decision is not rejected.
    #[error("only a payment held for review can be reviewed")]
    NotHeldForReview,
    /// Only an open charge, or one held for review, can be cancelled.
    #[error("only a charge that waits for its payment can be cancelled")]
    NotCancellable,
    /// The payer has paid at the acquirer, which processes the payment.
    #[error("a payment of the charge is being processed")]
    BeingPaid,
    /// The payer may have paid by a boleto or Multibanco, which is confirmed until then.
    #[error("a voucher of the charge may have been paid, and is confirmed until {until}")]
    AwaitsConfirmation { until: Timestamp },
    /// A sum does not fit 64 bits.
    #[error(transparent)]
    Money(#[from] MoneyError),
    /// The charge cannot be paid by card now, so no card holder can authenticate.
    #[error("it can't be paid by card now")]
    NotPayableByCard,
}

/// Why an operator cannot apply a payment to a charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ReceiptRefused {
    #[error("only an open or expired charge accepts a payment that matched no charge")]
    NotPayable,
    #[error("the charge does not offer the payment's method")]
    OtherMethod,
    #[error("the payment's amount differs from the charge's")]
    WrongAmount,
    /// The payer lock requires another payer than the payment's, or the payment's payer is not known.
    #[error("the charge's payer lock requires another payer")]
    PayerNotExpected,
    #[error("the payment is already applied, or its return was requested")]
    NotUnmatched,
}

pub fn apply(charge: &Charge, command: &Command, now: Timestamp) -> Result<Outcome, Rejection> {
    match command {
        Command::Finalise(made) => Ok(finalise(charge, made, now)),
        Command::EndLeg(method, why) => Ok(end_leg(charge, *method, why, now)),
        Command::Pay { payment, terms } => Ok(pay(charge, payment, terms, now)),
        Command::Authenticate => authenticate(charge, now),
        Command::AwaitConfirmation(method) => Ok(await_confirmation(charge, *method, now)),
        Command::EndTry { decline } => end_try(charge, decline.as_ref(), now),
        Command::Cancel => cancel(charge, now),
        Command::Decline(reason) => Ok(decline(charge, reason, now)),
        Command::Expire { at } => Ok(expire(charge, *at, None)),
        Command::ExpireDeclined { at, last } => Ok(expire(charge, *at, Some(last))),
        Command::ConfirmPayer { terms } => Ok(confirm_payer(charge, terms, now)),
        Command::Review { decision, terms } => review(charge, *decision, terms, now),
        Command::BearCosts { of, total, movements } => {
            Ok(bear_costs(charge, *of, (*total, *movements), now)?)
        }
    }
}

/// A total, so that a repeated command posts nothing.
fn bear_costs(
    charge: &Charge,
    (currency, of_disputes): (Currency, bool),
    (total, movements): (MinorUnits, u32),
    now: Timestamp,
) -> Result<Outcome, MoneyError> {
    let (before, known) = charge.costs_of((currency, of_disputes));
    if total == before || movements < known {
        return Ok(Outcome::Unchanged);
    }
    let mut next = next_version(charge.clone(), now);
    let is_it = |costs: &mut AcquirerCosts| costs.currency == currency && costs.of_disputes == of_disputes;
    let mut posted = next.costs.extract_if(.., is_it).next().map(|costs| costs.posted).unwrap_or_default();
    let dropped = add_update(&mut posted, CaseUpdate { version: next.version, at: next.updated_at });
    next.costs.push(AcquirerCosts { currency, of_disputes, minor: total, movements, posted });
    let cause = Cause { currency, ..cause(&next, None) };
    let mut posting = rules::acquirer_costs(cause, of_disputes, total.checked_sub(before)?)?;
    posting.earlier = dropped.map(|dropped| next.posting_of(dropped.at, dropped.version));
    Ok(Outcome::Credited { charge: Box::new(next), posting: Box::new(posting) })
}

fn finalise(charge: &Charge, made: &MadeLegs, now: Timestamp) -> Outcome {
    let is_first = charge.status == TransactionStatus::Pending;
    if is_first && made.created_none() {
        return refuse(charge, made, now);
    }
    // The charge may have been cancelled in the meantime; it stays cancelled.
    if !charge.is_open() || (!is_first && charge.missing_legs().next().is_none()) {
        return Outcome::Unchanged;
    }
    let status = if is_first { TransactionStatus::WaitingPayment } else { charge.status };
    let mut next = Charge { status, lease_until: None, ..next_version(charge.clone(), now) };
    next.artefacts = next.artefacts.joined(made.artefacts.clone());
    let is_new = |ended: &&EndedLeg| charge.ended_leg(ended.method).is_none();
    next.ended_legs.extend(made.refused.iter().filter(is_new).cloned());
    let lacks_legs = next.lacks_legs();
    if !lacks_legs {
        next.pix_expires_in_seconds = None;
    }
    next.unread_since = charge.unread_since.or(lacks_legs.then_some(now));
    changed(next)
}

/// A leg that was given up may still appear at its acquirer, so it is closed there later.
fn refuse(charge: &Charge, made: &MadeLegs, now: Timestamp) -> Outcome {
    let is_given_up = |leg: &&EndedLeg| leg.why == FailureReason::AcquirerUnavailable;
    let given_up = made.refused.iter().find(is_given_up);
    let why = made.refused.iter().find(|leg| !is_given_up(leg)).or(given_up).map(|leg| &leg.why);
    let unread_since = given_up.filter(|_| charge.acquirer.is_remote()).map(|_| now);
    let charge = Charge { unread_since, ..charge.clone() };
    why.map_or(Outcome::Unchanged, |why| decline(&charge, why, now))
}

/// The last leg that could be paid ends the charge.
fn end_leg(charge: &Charge, method: PaymentMethod, why: &FailureReason, now: Timestamp) -> Outcome {
    if !charge.can_expire() || charge.ended_leg(method).is_some() {
        return Outcome::Unchanged;
    }
    let is_other = |other: &&PaymentMethod| **other != method && charge.ended_leg(**other).is_none();
    if !charge.methods.iter().any(|other| is_other(&other)) {
        return decline(charge, why, now);
    }
    let mut next = next_version(charge.clone(), now);
    next.unconfirmed = next.unconfirmed.filter(|other| *other != method);
    // A transfer of crypto or a push may be processed beside it.
    let is_processed = next.unconfirmed.is_some_and(|other| !other.is_voucher());
    if method == PaymentMethod::CreditCard
        && !is_processed
        && !charge.methods.iter().any(|other| other.is_self_custody())
    {
        next.status = TransactionStatus::WaitingPayment;
    }
    next.ended_legs.push(EndedLeg { method, why: why.clone(), at: now });
    changed(next)
}

/// What acquirers did with legs of a charge.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MadeLegs {
    pub artefacts: Artefacts,
    pub refused: Vec<EndedLeg>,
}

impl MadeLegs {
    pub fn of(method: PaymentMethod, finalised: Finalised, at: Timestamp) -> Self {
        match finalised {
            Finalised::Made(artefacts) => Self { artefacts: *artefacts, refused: Vec::new() },
            Finalised::Refused(why) => {
                Self { refused: vec![EndedLeg { method, why, at }], ..Self::default() }
            }
        }
    }

    /// Whether no leg was created.
    pub fn created_none(&self) -> bool {
        self.artefacts == Artefacts::default()
    }

    #[must_use]
    pub fn joined(mut self, other: Self) -> Self {
        self.refused.extend(other.refused);
        Self { artefacts: self.artefacts.joined(other.artefacts), refused: self.refused }
    }
}

/// An acquirer's answer to the creation of a leg.
#[derive(Clone, Debug, PartialEq)]
pub enum Finalised {
    /// The acquirer created these payment artefacts.
    Made(Box<Artefacts>),
    Refused(FailureReason),
}

/// A new charge that the acquirer finalised before its first write: `WAITING_PAYMENT` or `REFUSED`.
pub fn created_as(charge: Charge, made: MadeLegs) -> Charge {
    let charge = Charge { pix_expires_in_seconds: None, ..charge };
    match made.refused.first() {
        None => Charge { status: TransactionStatus::WaitingPayment, artefacts: made.artefacts, ..charge },
        Some(refused) => {
            let failure = failure(&charge, &refused.why, charge.created_at);
            Charge { status: TransactionStatus::Refused, failure: Some(failure), ..charge }
        }
    }
}

fn pay(charge: &Charge, payment: &Payment, terms: &MethodTerms, now: Timestamp) -> Outcome {
    let accepted_id = charge.applied_payment.as_ref().map(|applied| &applied.payment_id);
    if accepted_id == Some(&payment.id) {
        return Outcome::Unchanged;
    }
    let paid = |charge, moved| Outcome::Paid { charge: Box::new(charge), moved: Box::new(moved) };
    let unapplied = |reason| {
        let connection = charge.connection_of(payment.method).filter(|_| !payment.method.is_returnable());
        if let Some(connection) = connection {
            let moved = unmatched((charge.scope, connection), payment, Some(charge), now);
            return paid(next_version(charge.clone(), now).with_unapplied(&payment.id), moved);
        }
        let (next, moved) = return_unapplied(charge, payment, reason, next_version(charge.clone(), now), now);
        paid(next, moved)
    };
    if !charge.is_open() {
        return match charge.status {
            TransactionStatus::Expired | TransactionStatus::Cancelled | TransactionStatus::Refused => {
                unapplied(UnappliedReason::Late)
            }
            TransactionStatus::Pending
            | TransactionStatus::WaitingPayment
            | TransactionStatus::Processing
            | TransactionStatus::Paid
            | TransactionStatus::Approved
            | TransactionStatus::Refunded
            | TransactionStatus::Chargeback
            | TransactionStatus::Dispute => unapplied(UnappliedReason::SecondPayment),
        };
    }
    if payment.amount != charge.amount {
        return unapplied(UnappliedReason::WrongAmount);
    }
    // A method that was not requested has no expiry. A payment by it counts as late.
    let expires_at = charge.artefacts.expires_at(payment.method);
    if expires_at.is_none_or(|expires_at| payment.paid_at > expires_at && !payment.is_in_time) {
        return unapplied(UnappliedReason::Late);
    }
    let accepted = with_applied_payment(charge, payment, now);
    let insert = || IncomingPaymentWrite::Insert(IncomingPayment::applied(charge, payment, now));
    match (&charge.expected_payer, &payment.payer_document) {
        (Some(expected), Some(payer)) if expected != payer => {
            let refunded = Charge { status: TransactionStatus::Refunded, ..accepted };
            let (next, moved) =
                return_unapplied(charge, payment, UnappliedReason::PayerMismatch, refunded, now);
            paid(next, moved)
        }
        (Some(_), None) => {
            let held = Charge { status: TransactionStatus::Processing, ..accepted };
            let posting = rules::held_for_review(cause(&held, &payment.id), payment.amount);
            paid(held, RecordedPayment { incoming_payment: insert(), posting })
        }
        (None, _) | (Some(_), Some(_)) => {
            let (settled, settlement) = settled(accepted, terms, payment.charged.as_ref(), now);
            let cause = cause(&settled, &payment.id);
            let posting = rules::settled(cause, payment.method, payment.amount, &settlement);
            paid(settled, RecordedPayment { incoming_payment: insert(), posting })
        }
    }
}

/// Applies a payment that matched no charge, as an operator decided. `None`: the charge accepted this payment
/// before.
pub fn apply_receipt(
    charge: &Charge,
    incoming: &IncomingPayment,
    terms: &MethodTerms,
    now: Timestamp,
) -> Result<Option<(Charge, RecordedPayment)>, ReceiptRefused> {
    if charge.applied_payment.as_ref().is_some_and(|applied| applied.payment_id == incoming.payment_id) {
        return Ok(None);
    }
    if !incoming.is_unmatched() {
        return Err(ReceiptRefused::NotUnmatched);
    }
    if !charge.is_open() && charge.status != TransactionStatus::Expired {
        return Err(ReceiptRefused::NotPayable);
    }
    if !charge.methods.contains(&incoming.method) {
        return Err(ReceiptRefused::OtherMethod);
    }
    if (incoming.amount, incoming.currency) != (charge.amount, charge.currency) {
        return Err(ReceiptRefused::WrongAmount);
    }
    if charge.expected_payer.is_some() && charge.expected_payer != incoming.payer_document {
        return Err(ReceiptRefused::PayerNotExpected);
    }
    let payment = incoming.payment();
    let accepted = with_applied_payment(charge, &payment, now);
    // The platform gets the fee back when the charge is read again.
    let is_its = incoming.meant_for() == Some(charge.id);
    let unread_since = charge.unread_since.or((is_its && incoming.has_fee()).then_some(now));
    let accepted = Charge { unread_since, ..accepted };
    let (settled, settlement) = settled(
        Charge { failure: None, lease_until: None, ..accepted },
        terms,
        payment.charged.as_ref(),
        now,
    );
    let of_charge = cause(&settled, &payment.id);
    let posting = rules::receipt_applied(of_charge, payment.method, payment.amount, &settlement);
    let incoming_payment = IncomingPaymentWrite::Replace(incoming.applied_to(charge, now));
    Ok(Some((settled, RecordedPayment { incoming_payment, posting })))
}

/// Records a payment that matches no charge, or that its charge (`of`) does not take and no acquirer returns. Its money
/// stays in [`crate::wallet::LedgerAccount::UnappliedReceipts`] until an operator applies or returns it.
pub fn unmatched(
    at: (Scope, ConnectionId),
    payment: &Payment,
    of: Option<&Charge>,
    now: Timestamp,
) -> RecordedPayment {
    let incoming = IncomingPayment::unmatched(at, payment, of, now);
    let posting = rules::unmatched(incoming.cause(), payment.method, payment.amount);
    RecordedPayment { incoming_payment: IncomingPaymentWrite::Insert(incoming), posting }
}

/// `next`: the charge after this change, to which the return is added.
fn return_unapplied(
    charge: &Charge,
    payment: &Payment,
    reason: UnappliedReason,
    next: Charge,
    now: Timestamp,
) -> (Charge, RecordedPayment) {
    let incoming = IncomingPayment::unapplied(charge, payment, reason, now);
    let next = next.with_returned(&incoming);
    let Cause { id, at, .. } = incoming.cause();
    let cause = Cause { id, at, ..cause(charge, &payment.id) };
    let posting = rules::unapplied(cause, payment.amount, ReturnStatus::initial_at(charge.acquirer));
    (next, RecordedPayment { incoming_payment: IncomingPaymentWrite::Insert(incoming), posting })
}

/// `charge`: after the change. The posting has the time of its version, so that its id can be derived from the row.
fn cause<'a>(charge: &Charge, payment: impl Into<Option<&'a AcquirerPaymentId>>) -> Cause {
    Cause {
        id: PostingId::derive(charge.updated_at, &charge.key().pk, charge.version),
        scope: charge.scope,
        shard: charge.shard(),
        currency: charge.currency,
        at: charge.updated_at,
        subject: Subject { charge: Some(charge.id), payment: payment.into().cloned(), ..Subject::default() },
    }
}

fn authenticate(charge: &Charge, now: Timestamp) -> Result<Outcome, Rejection> {
    if !charge.is_payable_by_card(now) {
        return Err(Rejection::NotPayableByCard);
    }
    if charge.status == TransactionStatus::Processing {
        return Ok(Outcome::Unchanged);
    }
    let next = next_version(charge.clone(), now);
    Ok(changed(Charge { status: TransactionStatus::Processing, ..next }))
}

fn await_confirmation(charge: &Charge, method: PaymentMethod, now: Timestamp) -> Outcome {
    if !charge.can_expire() || charge.awaits(method) {
        return Outcome::Unchanged;
    }
    let status = if method.is_voucher() { charge.status } else { TransactionStatus::Processing };
    changed(Charge { status, unconfirmed: Some(method), ..next_version(charge.clone(), now) })
}

fn end_try(charge: &Charge, decline: Option<&FailureReason>, now: Timestamp) -> Result<Outcome, Rejection> {
    // A transfer of crypto that was replaced, or a push that ended, leaves the other methods.
    let is_pushed = |method: &PaymentMethod| method.is_self_custody() || *method == PaymentMethod::Mbway;
    let leaves_others = charge.is_open() && charge.methods.iter().any(is_pushed);
    if !leaves_others && !charge.is_payable_by_card(now) {
        return Err(Rejection::NotPayableByCard);
    }
    let last_decline = decline.or(charge.last_decline.as_ref()).cloned();
    if charge.status == TransactionStatus::WaitingPayment && charge.last_decline == last_decline {
        return Ok(Outcome::Unchanged);
    }
    let next = next_version(charge.clone(), now);
    let unconfirmed = next.unconfirmed.filter(|method| method.is_voucher());
    Ok(changed(Charge { status: TransactionStatus::WaitingPayment, unconfirmed, last_decline, ..next }))
}

fn cancel(charge: &Charge, now: Timestamp) -> Result<Outcome, Rejection> {
    let failure = failure(charge, &FailureReason::Cancelled, now);
    // A request to create a leg may still be on its way to its acquirer. So it is closed there later.
    let may_appear = charge.lacks_legs().then_some(now);
    let cancelled = Charge {
        status: TransactionStatus::Cancelled,
        failure: Some(failure),
        lease_until: None,
        unread_since: charge.unread_since.or(may_appear),
        ..next_version(charge.clone(), now)
    };
    match charge.applied_payment.as_ref().filter(|_| charge.is_held_for_review()) {
        Some(held) => Ok(return_held(charge, held, cancelled, UnappliedReason::Cancelled, now)),
        None if charge.is_open() => Ok(changed(cancelled)),
        None => Err(Rejection::NotCancellable),
    }
}

/// A held payment goes back to its payer. `next` is the charge after this change.
fn return_held(
    charge: &Charge,
    held: &AppliedPayment,
    next: Charge,
    reason: UnappliedReason,
    now: Timestamp,
) -> Outcome {
    let payment = Payment {
        id: held.payment_id.clone(),
        method: held.method,
        amount: charge.amount,
        payer_document: held.payer_document,
        paid_at: held.paid_at,
        is_in_time: true,
        charged: None,
    };
    let incoming = IncomingPayment::returned_after_hold(charge, &payment, reason, now);
    let cause = cause(&next, &held.payment_id);
    let posting = rules::review_returned(cause, charge.amount, ReturnStatus::initial_at(charge.acquirer));
    Outcome::Paid {
        charge: Box::new(next.with_returned(&incoming)),
        moved: Box::new(RecordedPayment {
            incoming_payment: IncomingPaymentWrite::Replace(incoming),
            posting,
        }),
    }
}

fn failure(charge: &Charge, reason: &FailureReason, at: Timestamp) -> Failure {
    Failure {
        reason: reason.clone(),
        ttl_seconds: charge.artefacts.pix.as_ref().map(|pix| pix.ttl_seconds),
        at,
    }
}

fn decline(charge: &Charge, reason: &FailureReason, now: Timestamp) -> Outcome {
    if !charge.is_open() {
        return Outcome::Unchanged;
    }
    let failure = failure(charge, reason, now);
    let next = next_version(charge.clone(), now);
    changed(Charge { status: TransactionStatus::Refused, failure: Some(failure), lease_until: None, ..next })
}

fn expire(charge: &Charge, at: Timestamp, last_decline: Option<&FailureReason>) -> Outcome {
    if !charge.can_expire() {
        return Outcome::Unchanged;
    }
    let expired = expired(charge.clone(), at);
    let declined = last_decline.map(|why| failure(charge, why, at));
    changed(Charge { failure: declined.or(expired.failure), ..expired })
}

/// Every field is derived from the charge and `at`, so reads before and after the scheduler persists the expiry
/// return the same charge.
pub(super) fn expired(charge: Charge, at: Timestamp) -> Charge {
    let failure = failure(&charge, charge.last_decline.as_ref().unwrap_or(&FailureReason::Expired), at);
    Charge { status: TransactionStatus::Expired, failure: Some(failure), ..next_version(charge, at) }
}

fn confirm_payer(charge: &Charge, terms: &MethodTerms, now: Timestamp) -> Outcome {
    let Some(held) = charge.applied_payment.as_ref().filter(|_| charge.is_held_for_review()) else {
        return Outcome::Unchanged;
    };
    let payment = held.payment_id.clone();
    let confirmed = AppliedPayment { payer_document: charge.expected_payer, ..held.clone() };
    let next = Charge { applied_payment: Some(confirmed), ..next_version(charge.clone(), now) };
    credited(next, &payment, terms, now)
}

/// `next` is the charge after this change.
fn credited(next: Charge, payment: &AcquirerPaymentId, terms: &MethodTerms, now: Timestamp) -> Outcome {
    let amount = next.amount;
    let (settled, settlement) = settled(next, terms, None, now);
    let posting = rules::review_approved(cause(&settled, payment), amount, &settlement);
    Outcome::Credited { charge: Box::new(settled), posting: Box::new(posting) }
}

fn review(
    charge: &Charge,
    decision: Decision,
    terms: &MethodTerms,
    now: Timestamp,
) -> Result<Outcome, Rejection> {
    if charge.reviewed == Some(decision) {
        return Ok(Outcome::Unchanged);
    }
    let Some(held) = charge.applied_payment.as_ref().filter(|_| charge.is_held_for_review()) else {
        return Err(Rejection::NotHeldForReview);
    };
    let next = Charge { reviewed: Some(decision), ..next_version(charge.clone(), now) };
    match decision {
        Decision::Approve => Ok(credited(next, &held.payment_id, terms, now)),
        Decision::Return => {
            let next = Charge { status: TransactionStatus::Refunded, ..next };
            Ok(return_held(charge, held, next, UnappliedReason::ReviewReturned, now))
        }
    }
}

fn settled(
    charge: Charge,
    terms: &MethodTerms,
    charged: Option<&Charged>,
    now: Timestamp,
) -> (Charge, Settlement) {
    let is_own = charge.method().is_self_custody();
    // No acquirer took a fee of what is in the merchant's own wallet, and what is not here is not held.
    let nothing = Charged { fee: MinorUnits::ZERO, available_at: now };
    let mut settlement =
        Settlement::new(terms, charge.amount, if is_own { Some(&nothing) } else { charged }, now);
    settlement.release_on = settlement.release_on.filter(|_| !is_own);
    let status = TransactionStatus::settled_by(charge.method());
    (Charge { status, settlement: Some(settlement), ..charge }, settlement)
}

fn with_applied_payment(charge: &Charge, payment: &Payment, now: Timestamp) -> Charge {
    let applied = AppliedPayment {
        payment_id: payment.id.clone(),
        method: payment.method,
        // The acquirer's clock may be wrong. Its own time remains in the row of the incoming payment.
        paid_at: payment.paid_at.min(now).max(charge.created_at),
        payer_document: payment.payer_document,
    };
    Charge { applied_payment: Some(applied), unconfirmed: None, ..next_version(charge.clone(), now) }
}

/// The next version, at `at` or the first millisecond after the previous version's change time.
pub fn next_version(charge: Charge, at: Timestamp) -> Charge {
    let past = Some(charge.as_past());
    let updated_at = at.strictly_after(charge.updated_at);
    let created_by = charge.created_by.filter(|_| charge.status == TransactionStatus::Pending);
    Charge { version: charge.version.saturating_add(1), updated_at, past, created_by, ..charge }
}

fn changed(charge: Charge) -> Outcome {
    Outcome::Changed(Box::new(charge))
}

#[cfg(test)]
mod tests;
