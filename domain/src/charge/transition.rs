//! The state machine of a charge (contract: Charge status; design: Money). No I/O, no clock, no randomness:
//! what happened comes in, the new row and what else must be written with it comes out.
//!
//! A repeated notice changes nothing; a late one loses no money, for a payment that can't be applied is recorded
//! with its return. A payment that was reported before is detected by its own row, which is inserted with the change.
//! Whatever moves money comes with the ledger's posting.

use super::incoming_payment::{IncomingPayment, UnappliedReason};
use super::{AppliedPayment, Artefacts, Charge, Decision, Failure, TransactionStatus};
use crate::account::terms::MethodTerms;
use crate::ids::{AcquirerPaymentId, PostingId};
use crate::money::Amount;
use crate::payment_method::PaymentMethod;
use crate::row::Row;
use crate::tax_id::TaxId;
use crate::time::Timestamp;
use crate::wallet::{Cause, Posting, ReturnStatus, Settlement, Subject, rules};

/// A payment that the acquirer reports.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Payment {
    /// The payment's own id: of a Pix, its end-to-end id.
    pub id: AcquirerPaymentId,
    /// By which method.
    pub method: PaymentMethod,
    /// What was paid, in minor units of the charge's currency.
    pub amount: Amount,
    /// The payer's document, where the bank reported it whole; a masked one counts as absent.
    pub payer_document: Option<TaxId>,
    /// When the bank took it.
    pub paid_at: Timestamp,
}

/// What can happen to a charge.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// The acquirer made what it can be paid by.
    Finalise {
        /// What that is.
        artefacts: Box<Artefacts>,
    },
    /// The payer paid.
    Pay {
        /// The payment.
        payment: Payment,
        /// What holds for it, should it settle.
        terms: MethodTerms,
    },
    /// The holder of a card is being asked.
    Authenticate,
    /// The merchant wants it no more.
    Cancel,
    /// The acquirer declined.
    Decline {
        /// The acquirer's text.
        reason: String,
        /// The acquirer's status.
        code: String,
    },
    /// Its time is over: it was so at `at`.
    Expire {
        /// When it became so.
        at: Timestamp,
    },
    /// Its review ended.
    Review {
        /// How.
        decision: Decision,
        /// What holds for the payment, should it settle.
        terms: MethodTerms,
    },
}

/// What must be written of a payment, with what it caused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum IncomingPaymentWrite {
    /// The payment is reported for the first time.
    Insert(IncomingPayment),
    /// It was taken, and its row changes.
    Replace(IncomingPayment),
}

/// A payment with the posting of what it moved.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Moved {
    /// The payment.
    pub incoming_payment: IncomingPaymentWrite,
    /// Where its money went.
    pub posting: Posting,
}

/// What a command makes of a charge.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing: the notice is a repeated one, or came too late to matter.
    Unchanged,
    /// The charge changed, and no money moved.
    Changed(Box<Charge>),
    /// The charge changed, because money moved.
    Paid {
        /// Its next version.
        charge: Box<Charge>,
        /// What moved.
        moved: Box<Moved>,
    },
    /// Money that was held for review is credited; its payment's row stays as it is.
    Credited {
        /// Its next version.
        charge: Box<Charge>,
        /// Where the money went.
        posting: Box<Posting>,
    },
    /// The charge stays as it is, and the money goes back.
    Unapplied(Box<Moved>),
}

/// Why a command is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// A review ends only where money is held for one, or was, with the same end.
    #[error("only a payment held for review can be reviewed")]
    NotHeldForReview,
    /// Only what is open or held can be cancelled.
    #[error("only a charge that waits for its payment can be cancelled")]
    NotCancellable,
    /// Only a card that can still be charged is authenticated.
    #[error("it can't be paid by card now")]
    NotPayableByCard,
}

/// Applies what happened at `now` to a charge.
pub fn apply(charge: &Charge, command: &Command, now: Timestamp) -> Result<Outcome, Rejection> {
    match command {
        Command::Finalise { artefacts } => Ok(finalise(charge, artefacts, now)),
        Command::Pay { payment, terms } => Ok(pay(charge, payment, terms, now)),
        Command::Authenticate => authenticate(charge, now),
        Command::Cancel => cancel(charge, now),
        Command::Decline { reason, code } => Ok(decline(charge, reason, code, now)),
        Command::Expire { at } => Ok(expire(charge, *at)),
        Command::Review { decision, terms } => review(charge, *decision, terms, now),
    }
}

fn finalise(charge: &Charge, artefacts: &Artefacts, now: Timestamp) -> Outcome {
    // What was cancelled meanwhile stays so.
    if charge.status != TransactionStatus::Pending {
        return Outcome::Unchanged;
    }
    let next = next_version(charge.clone(), now);
    let status = TransactionStatus::WaitingPayment;
    changed(Charge { status, artefacts: artefacts.clone(), pix_expires_in_seconds: None, ..next })
}

/// What an acquirer made of a charge.
#[derive(Clone, Debug, PartialEq)]
pub enum Finalised {
    /// What the payer is given.
    Made(Box<Artefacts>),
    /// It takes no such payment.
    Refused {
        /// Its text.
        reason: String,
        /// Its status.
        code: String,
    },
}

/// A new charge of which the acquirer said at once what it makes: it begins in the status that follows.
pub fn created_as(charge: Charge, finalised: Finalised) -> Charge {
    let charge = Charge { pix_expires_in_seconds: None, ..charge };
    match finalised {
        Finalised::Made(artefacts) => {
            Charge { status: TransactionStatus::WaitingPayment, artefacts: *artefacts, ..charge }
        }
        Finalised::Refused { reason, code } => {
            let failure = failure(&charge, &reason, &code, charge.created_at);
            Charge { status: TransactionStatus::Refused, failure: Some(failure), ..charge }
        }
    }
}

fn pay(charge: &Charge, payment: &Payment, terms: &MethodTerms, now: Timestamp) -> Outcome {
    let taken_before = charge.applied_payment.as_ref().map(|incoming| &incoming.payment_id);
    if taken_before == Some(&payment.id) {
        return Outcome::Unchanged;
    }
    let unapplied = |reason| Outcome::Unapplied(Box::new(goes_back(charge, payment, reason, now)));
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
    // A method that was not asked for has no time in which it could be used.
    let expires_at = charge.artefacts.expires_at(payment.method);
    if expires_at.is_none_or(|expires_at| payment.paid_at > expires_at) {
        return unapplied(UnappliedReason::Late);
    }
    let taken = with_receipt(charge, payment, now);
    let paid = |charge, moved| Outcome::Paid { charge: Box::new(charge), moved: Box::new(moved) };
    let insert = || IncomingPaymentWrite::Insert(IncomingPayment::taken(charge, payment, now));
    match (&charge.expected_payer, &payment.payer_document) {
        (Some(expected), Some(payer)) if expected != payer => {
            let refunded = Charge { status: TransactionStatus::Refunded, ..taken };
            paid(refunded, goes_back(charge, payment, UnappliedReason::PayerMismatch, now))
        }
        (Some(_), None) => {
            let held = Charge { status: TransactionStatus::Processing, ..taken };
            let posting = rules::held_for_review(cause(&held, &payment.id, now), payment.amount);
            paid(held, Moved { incoming_payment: insert(), posting })
        }
        (None, _) | (Some(_), Some(_)) => {
            let (settled, settlement) = settled(taken, terms, now);
            let cause = cause(&settled, &payment.id, now);
            let posting = rules::settled(cause, payment.amount, &settlement);
            paid(settled, Moved { incoming_payment: insert(), posting })
        }
    }
}

/// A payment that can't be applied: recorded, with its return, and posted.
fn goes_back(charge: &Charge, payment: &Payment, reason: UnappliedReason, now: Timestamp) -> Moved {
    let incoming = IncomingPayment::unapplied(charge, payment, reason, now);
    // The charge may not change, so the payment's own row names the posting.
    let id = PostingId::derive(now, &incoming.key().whole(), incoming.version);
    let cause = Cause { id, ..cause(charge, &payment.id, now) };
    let posting = rules::unapplied(cause, payment.amount, ReturnStatus::of(charge.acquirer));
    Moved { incoming_payment: IncomingPaymentWrite::Insert(incoming), posting }
}

/// What a posting of this version of a charge is about.
fn cause(charge: &Charge, payment: &AcquirerPaymentId, now: Timestamp) -> Cause {
    Cause {
        id: PostingId::derive(now, &charge.key().pk, charge.version),
        scope: charge.scope,
        currency: charge.currency,
        at: now,
        subject: Subject { charge: Some(charge.id), payment: Some(payment.clone()), ..Subject::default() },
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

fn cancel(charge: &Charge, now: Timestamp) -> Result<Outcome, Rejection> {
    let failure = failure(charge, "The merchant cancelled the charge.", "canceled", now);
    let cancelled = Charge {
        status: TransactionStatus::Cancelled,
        failure: Some(failure),
        ..next_version(charge.clone(), now)
    };
    match charge.applied_payment.as_ref().filter(|_| charge.is_held_for_review()) {
        Some(held) => Ok(held_goes_back(charge, held, cancelled, UnappliedReason::Cancelled, now)),
        None if charge.is_open() => Ok(changed(cancelled)),
        None => Err(Rejection::NotCancellable),
    }
}

/// Money held for review goes back to its payer.
fn held_goes_back(
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
    };
    let incoming = IncomingPayment::given_back(charge, &payment, reason, now);
    let cause = cause(&next, &held.payment_id, now);
    let posting = rules::review_returned(cause, charge.amount, ReturnStatus::of(charge.acquirer));
    Outcome::Paid {
        charge: Box::new(next),
        moved: Box::new(Moved { incoming_payment: IncomingPaymentWrite::Replace(incoming), posting }),
    }
}

fn failure(charge: &Charge, reason: &str, code: &str, at: Timestamp) -> Failure {
    Failure {
        reason: reason.to_owned(),
        provider_error_code: code.to_owned(),
        ttl_seconds: charge.artefacts.pix.as_ref().map(|pix| pix.ttl_seconds),
        at,
    }
}

fn decline(charge: &Charge, reason: &str, code: &str, now: Timestamp) -> Outcome {
    if !charge.is_open() {
        return Outcome::Unchanged;
    }
    let failure = failure(charge, reason, code, now);
    let next = next_version(charge.clone(), now);
    changed(Charge { status: TransactionStatus::Refused, failure: Some(failure), ..next })
}

fn expire(charge: &Charge, at: Timestamp) -> Outcome {
    if charge.can_expire() { changed(expired(charge.clone(), at)) } else { Outcome::Unchanged }
}

/// The charge after its time was over. Every field follows from the charge and `at`, so that a charge read
/// before `scheduler` came by looks the same as after.
pub(super) fn expired(charge: Charge, at: Timestamp) -> Charge {
    let failure = failure(&charge, "The charge was not paid before it expired.", "expired", at);
    Charge { status: TransactionStatus::Expired, failure: Some(failure), ..next_version(charge, at) }
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
        Decision::Approve => {
            let (settled, settlement) = settled(next, terms, now);
            let cause = cause(&settled, &held.payment_id, now);
            let posting = rules::review_approved(cause, charge.amount, &settlement);
            Ok(Outcome::Credited { charge: Box::new(settled), posting: Box::new(posting) })
        }
        Decision::Return => {
            let next = Charge { status: TransactionStatus::Refunded, ..next };
            Ok(held_goes_back(charge, held, next, UnappliedReason::ReviewReturned, now))
        }
    }
}

fn settled(charge: Charge, terms: &MethodTerms, now: Timestamp) -> (Charge, Settlement) {
    let settlement = Settlement::on(terms, charge.amount, now);
    let status = TransactionStatus::settled_by(charge.method());
    (Charge { status, settlement: Some(settlement), ..charge }, settlement)
}

fn with_receipt(charge: &Charge, payment: &Payment, now: Timestamp) -> Charge {
    let incoming = AppliedPayment {
        payment_id: payment.id.clone(),
        method: payment.method,
        paid_at: payment.paid_at,
        payer_document: payment.payer_document,
    };
    Charge { applied_payment: Some(incoming), ..next_version(charge.clone(), now) }
}

/// The charge, about to change at that time.
pub fn next_version(charge: Charge, at: Timestamp) -> Charge {
    let past = Some(charge.as_past());
    let updated_at = at.later_than(charge.updated_at);
    Charge { version: charge.version.saturating_add(1), updated_at, past, ..charge }
}

fn changed(charge: Charge) -> Outcome {
    Outcome::Changed(Box::new(charge))
}

#[cfg(test)]
mod tests;
