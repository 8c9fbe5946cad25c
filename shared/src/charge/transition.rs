//! The state machine of a charge (contract: Charge status; design: Money). No I/O, no clock, no randomness:
//! what happened comes in, the new row and what else must be written with it comes out.
//!
//! A repeated notice changes nothing; a late one loses no money, for a payment that can't be applied is recorded
//! with its return. Whether a payment was told before is for its own row to say: it is inserted with the change.

use super::receipt::{Receipt, UnappliedReason};
use super::{AppliedReceipt, Charge, Decision, Failure, TransactionStatus};
use crate::ids::EndToEndId;
use crate::money::Amount;
use crate::tax_id::TaxId;
use crate::time::Timestamp;

/// A payment that the acquirer reports.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Payment {
    /// The payment's own id.
    pub end_to_end_id: EndToEndId,
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
    /// The payer paid.
    Pay(Payment),
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
    /// Somebody ended its review.
    Review(Decision),
}

/// What must be written of a payment, with what it caused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ReceiptWrite {
    /// It was not told before.
    Insert(Receipt),
    /// It was taken, and its row changes.
    Replace(Receipt),
}

/// What a command makes of a charge.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing: the notice is a repeated one, or came too late to matter.
    Unchanged,
    /// The charge changed.
    Changed {
        /// Its next version.
        charge: Box<Charge>,
        /// The payment behind it.
        receipt: Option<Box<ReceiptWrite>>,
    },
    /// The charge stays as it is, and the money goes back.
    Unapplied(Box<Receipt>),
}

/// Why a command is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rejection {
    /// A review ends only where money is held for one, or was, with the same end.
    NotHeldForReview,
}

/// Applies what happened at `now` to a charge.
pub fn apply(charge: &Charge, command: &Command, now: Timestamp) -> Result<Outcome, Rejection> {
    match command {
        Command::Pay(payment) => Ok(pay(charge, payment, now)),
        Command::Decline { reason, code } => Ok(decline(charge, reason, code, now)),
        Command::Expire { at } => Ok(expire(charge, *at)),
        Command::Review(decision) => review(charge, *decision, now),
    }
}

fn pay(charge: &Charge, payment: &Payment, now: Timestamp) -> Outcome {
    let taken_before = charge.receipt.as_ref().map(|receipt| &receipt.end_to_end_id);
    if taken_before == Some(&payment.end_to_end_id) {
        return Outcome::Unchanged;
    }
    let unapplied = |reason| Outcome::Unapplied(Box::new(Receipt::unapplied(charge, payment, reason, now)));
    match charge.status {
        TransactionStatus::Pending | TransactionStatus::WaitingPayment => {}
        TransactionStatus::Expired | TransactionStatus::Cancelled | TransactionStatus::Refused => {
            return unapplied(UnappliedReason::Late);
        }
        TransactionStatus::Processing
        | TransactionStatus::Paid
        | TransactionStatus::Approved
        | TransactionStatus::Refunded
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => return unapplied(UnappliedReason::SecondPayment),
    }
    if payment.amount != charge.amount {
        return unapplied(UnappliedReason::WrongAmount);
    }
    if payment.paid_at > charge.pix.expires_at {
        return unapplied(UnappliedReason::Late);
    }
    let insert = |receipt| Some(Box::new(ReceiptWrite::Insert(receipt)));
    let taken = with_receipt(charge, payment, now);
    let told = insert(Receipt::taken(charge, payment, now));
    match (&charge.expected_payer, &payment.payer_document) {
        (Some(expected), Some(payer)) if expected != payer => Outcome::Changed {
            charge: Box::new(Charge { status: TransactionStatus::Refunded, ..taken }),
            receipt: insert(Receipt::unapplied(charge, payment, UnappliedReason::PayerMismatch, now)),
        },
        (Some(_), None) => Outcome::Changed {
            charge: Box::new(Charge { status: TransactionStatus::Processing, ..taken }),
            receipt: told,
        },
        (None, _) | (Some(_), Some(_)) => {
            Outcome::Changed { charge: Box::new(settled(taken, now)), receipt: told }
        }
    }
}

fn decline(charge: &Charge, reason: &str, code: &str, now: Timestamp) -> Outcome {
    match charge.status {
        TransactionStatus::Pending | TransactionStatus::WaitingPayment => {}
        TransactionStatus::Processing
        | TransactionStatus::Paid
        | TransactionStatus::Approved
        | TransactionStatus::Refused
        | TransactionStatus::Cancelled
        | TransactionStatus::Expired
        | TransactionStatus::Refunded
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => return Outcome::Unchanged,
    }
    let failure = Failure {
        reason: reason.to_owned(),
        provider_error_code: code.to_owned(),
        ttl_seconds: Some(charge.pix.ttl_seconds),
        at: now,
    };
    let next = next_version(charge.clone(), now);
    changed(Charge { status: TransactionStatus::Refused, failure: Some(failure), ..next })
}

fn expire(charge: &Charge, at: Timestamp) -> Outcome {
    match charge.status {
        TransactionStatus::WaitingPayment => changed(expired(charge.clone(), at)),
        TransactionStatus::Pending
        | TransactionStatus::Processing
        | TransactionStatus::Paid
        | TransactionStatus::Approved
        | TransactionStatus::Refused
        | TransactionStatus::Cancelled
        | TransactionStatus::Expired
        | TransactionStatus::Refunded
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => Outcome::Unchanged,
    }
}

/// The charge after its time was over. Every field follows from the charge and `at`, so that a charge read
/// before `clock` came by looks the same as after.
pub(super) fn expired(charge: Charge, at: Timestamp) -> Charge {
    let failure = Failure {
        reason: "The charge was not paid before it expired.".to_owned(),
        provider_error_code: "expired".to_owned(),
        ttl_seconds: Some(charge.pix.ttl_seconds),
        at,
    };
    Charge { status: TransactionStatus::Expired, failure: Some(failure), ..next_version(charge, at) }
}

fn review(charge: &Charge, decision: Decision, now: Timestamp) -> Result<Outcome, Rejection> {
    if charge.reviewed == Some(decision) {
        return Ok(Outcome::Unchanged);
    }
    let Some(held) = charge.receipt.as_ref().filter(|_| charge.is_held_for_review()) else {
        return Err(Rejection::NotHeldForReview);
    };
    let next = Charge { reviewed: Some(decision), ..next_version(charge.clone(), now) };
    match decision {
        Decision::Approve => Ok(changed(settled(next, now))),
        Decision::Return => {
            let payment = Payment {
                end_to_end_id: held.end_to_end_id.clone(),
                amount: charge.amount,
                payer_document: held.payer_document,
                paid_at: held.paid_at,
            };
            let receipt = Receipt::given_back(charge, &payment, UnappliedReason::ReviewReturned, now);
            Ok(Outcome::Changed {
                charge: Box::new(Charge { status: TransactionStatus::Refunded, ..next }),
                receipt: Some(Box::new(ReceiptWrite::Replace(receipt))),
            })
        }
    }
}

fn settled(charge: Charge, now: Timestamp) -> Charge {
    Charge { status: TransactionStatus::Paid, settled_at: Some(now), ..charge }
}

fn with_receipt(charge: &Charge, payment: &Payment, now: Timestamp) -> Charge {
    let receipt = AppliedReceipt {
        end_to_end_id: payment.end_to_end_id.clone(),
        paid_at: payment.paid_at,
        payer_document: payment.payer_document,
    };
    Charge { receipt: Some(receipt), ..next_version(charge.clone(), now) }
}

fn next_version(charge: Charge, at: Timestamp) -> Charge {
    Charge { version: charge.version.saturating_add(1), updated_at: at, ..charge }
}

fn changed(charge: Charge) -> Outcome {
    Outcome::Changed { charge: Box::new(charge), receipt: None }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::super::receipt::{Return, ReturnStatus};
    use super::super::testing::{at, waiting};
    use super::*;

    const CPF: &str = "29537995593";
    const OTHER_CPF: &str = "25524893033";

    fn payment(number: u8, amount: i64, document: Option<&str>) -> Payment {
        Payment {
            end_to_end_id: EndToEndId::sandbox(at(60), [number; 8]),
            amount: Amount::parse(amount).unwrap(),
            payer_document: document.map(|text| text.parse().unwrap()),
            paid_at: at(60),
        }
    }

    fn locked() -> Charge {
        Charge { expected_payer: Some(CPF.parse().unwrap()), ..waiting() }
    }

    fn after(charge: &Charge, command: Command) -> Charge {
        match apply(charge, &command, at(60)).unwrap() {
            Outcome::Changed { charge, .. } => *charge,
            other => panic!("{other:?}"),
        }
    }

    fn unapplied(outcome: Outcome) -> Receipt {
        match outcome {
            Outcome::Unapplied(receipt) => *receipt,
            other => panic!("{other:?}"),
        }
    }

    fn returned(receipt: &Receipt) -> &Return {
        receipt.returned.as_ref().unwrap()
    }

    fn written(write: ReceiptWrite) -> Receipt {
        let (ReceiptWrite::Insert(receipt) | ReceiptWrite::Replace(receipt)) = write;
        receipt
    }

    /// A charge in every state that these commands reach.
    fn every_state() -> Vec<Charge> {
        vec![
            waiting(),
            after(&waiting(), Command::Pay(payment(1, 1000, None))),
            after(&locked(), Command::Pay(payment(1, 1000, None))),
            after(&locked(), Command::Pay(payment(1, 1000, Some(OTHER_CPF)))),
            after(&waiting(), Command::Decline { reason: "no".to_owned(), code: "refused".to_owned() }),
            after(&waiting(), Command::Expire { at: at(3600) }),
        ]
    }

    #[test]
    fn the_exact_amount_settles() {
        let paid = after(&waiting(), Command::Pay(payment(1, 1000, Some(CPF))));
        assert_eq!(paid.status, TransactionStatus::Paid);
        assert_eq!(paid.version, 2);
        assert_eq!(paid.settled_at, Some(at(60)));
        assert_eq!(paid.receipt.unwrap().end_to_end_id, payment(1, 1000, None).end_to_end_id);
    }

    #[test]
    fn the_same_payment_reported_again_changes_nothing() {
        for charge in every_state().iter().filter(|charge| charge.receipt.is_some()) {
            let again = Command::Pay(payment(1, 1000, Some(CPF)));
            assert_eq!(apply(charge, &again, at(90)), Ok(Outcome::Unchanged), "{:?}", charge.status);
        }
    }

    #[test]
    fn another_amount_goes_back_and_leaves_the_charge_payable() {
        for amount in [1, 999, 1001, 2000] {
            let back = unapplied(apply(&waiting(), &Command::Pay(payment(1, amount, None)), at(60)).unwrap());
            assert_eq!(returned(&back).reason, UnappliedReason::WrongAmount);
            assert_eq!(back.amount.minor(), amount);
            assert_eq!(returned(&back).status, ReturnStatus::Returned);
            assert!(returned(&back).id.as_str().starts_with('D'));
        }
    }

    #[test]
    fn a_second_payment_goes_back() {
        let states = every_state();
        let taken = states.iter().filter(|charge| charge.receipt.is_some());
        for charge in taken {
            let back = unapplied(apply(charge, &Command::Pay(payment(2, 1000, None)), at(90)).unwrap());
            assert_eq!(returned(&back).reason, UnappliedReason::SecondPayment, "{:?}", charge.status);
        }
    }

    #[test]
    fn lateness_is_when_the_bank_took_the_money_not_when_we_heard() {
        let in_time = Payment { paid_at: at(3600), ..payment(1, 1000, None) };
        let heard_late = apply(&waiting(), &Command::Pay(in_time), at(9000)).unwrap();
        assert!(
            matches!(heard_late, Outcome::Changed { charge, .. } if charge.status == TransactionStatus::Paid)
        );
        let late = Payment { paid_at: at(3600).plus_millis(1).unwrap(), ..payment(1, 1000, None) };
        let back = unapplied(apply(&waiting(), &Command::Pay(late), at(3601)).unwrap());
        assert_eq!(returned(&back).reason, UnappliedReason::Late);
    }

    #[test]
    fn a_payment_after_the_charge_ended_unpaid_goes_back() {
        let ended = [TransactionStatus::Expired, TransactionStatus::Cancelled, TransactionStatus::Refused];
        for status in ended {
            let charge = Charge { status, ..waiting() };
            let back = unapplied(apply(&charge, &Command::Pay(payment(1, 1000, None)), at(90)).unwrap());
            assert_eq!(returned(&back).reason, UnappliedReason::Late);
        }
    }

    #[test]
    fn the_payer_lock_credits_only_whom_it_names() {
        let right = after(&locked(), Command::Pay(payment(1, 1000, Some(CPF))));
        assert_eq!(right.status, TransactionStatus::Paid);

        let wrong = apply(&locked(), &Command::Pay(payment(1, 1000, Some(OTHER_CPF))), at(60)).unwrap();
        let Outcome::Changed { charge, receipt: Some(write) } = wrong else { panic!("{wrong:?}") };
        let back = written(*write);
        assert_eq!(charge.status, TransactionStatus::Refunded);
        assert_eq!(charge.settled_at, None);
        assert_eq!(returned(&back).reason, UnappliedReason::PayerMismatch);
        assert_eq!(back.end_to_end_id, payment(1, 1000, None).end_to_end_id);

        let silent = after(&locked(), Command::Pay(payment(1, 1000, None)));
        assert_eq!(silent.status, TransactionStatus::Processing);
        assert_eq!(silent.settled_at, None);
        assert!(silent.is_held_for_review());
    }

    #[test]
    fn a_review_credits_or_returns_what_is_held_and_nothing_else() {
        let held = after(&locked(), Command::Pay(payment(1, 1000, None)));
        let approved = after(&held, Command::Review(Decision::Approve));
        assert_eq!((approved.status, approved.settled_at), (TransactionStatus::Paid, Some(at(60))));

        let end = apply(&held, &Command::Review(Decision::Return), at(60)).unwrap();
        let Outcome::Changed { charge, receipt: Some(write) } = end else { panic!("{end:?}") };
        let back = written(*write);
        assert_eq!((charge.status, charge.settled_at), (TransactionStatus::Refunded, None));
        assert_eq!((returned(&back).reason, back.amount), (UnappliedReason::ReviewReturned, charge.amount));

        for charge in every_state().iter().filter(|charge| !charge.is_held_for_review()) {
            let refused = apply(charge, &Command::Review(Decision::Approve), at(60));
            assert_eq!(refused, Err(Rejection::NotHeldForReview), "{:?}", charge.status);
        }
        let again = apply(&approved, &Command::Review(Decision::Approve), at(90));
        assert_eq!(again, Ok(Outcome::Unchanged));
        let too_late = apply(&approved, &Command::Review(Decision::Return), at(90));
        assert_eq!(too_late, Err(Rejection::NotHeldForReview));
    }

    #[test]
    fn only_a_waiting_charge_expires_or_fails() {
        let expire = Command::Expire { at: at(3600) };
        let decline = Command::Decline { reason: "no".to_owned(), code: "refused".to_owned() };
        for charge in every_state() {
            let may = charge.status == TransactionStatus::WaitingPayment;
            for command in [&expire, &decline] {
                let outcome = apply(&charge, command, at(90)).unwrap();
                assert_eq!(outcome != Outcome::Unchanged, may, "{:?}", charge.status);
            }
        }
    }

    #[test]
    fn a_failure_tells_why_when_and_how_long_the_code_lived() {
        let expired = after(&waiting(), Command::Expire { at: at(3600) }).failure.unwrap();
        assert_eq!((expired.provider_error_code.as_str(), expired.ttl_seconds), ("expired", Some(3600)));
        assert_eq!(expired.at, at(3600));
    }

    #[test]
    fn a_test_charge_reads_as_expired_exactly_as_clock_will_write_it() {
        let expires_at = waiting().pix.expires_at;
        assert_eq!(waiting().as_of(expires_at), waiting());
        let seen = waiting().as_of(at(3601));
        assert_eq!(seen, after(&waiting(), Command::Expire { at: expires_at }));
    }

    #[derive(Clone, Debug)]
    enum Notice {
        Pay { number: u8, amount: i64, payer: u8, paid_at: i64 },
        Decline,
        Expire,
        Review(bool),
    }

    fn notices() -> impl Strategy<Value = Vec<Notice>> {
        let pay = (0..4_u8, prop_oneof![4 => Just(1000_i64), 1 => 1..2000_i64], 0..3_u8, 0..7200_i64)
            .prop_map(|(number, amount, payer, paid_at)| Notice::Pay { number, amount, payer, paid_at });
        let other =
            prop_oneof![Just(Notice::Decline), Just(Notice::Expire), any::<bool>().prop_map(Notice::Review)];
        proptest::collection::vec(prop_oneof![3 => pay, 1 => other], 1..12)
    }

    fn command(notice: &Notice) -> Command {
        match notice {
            Notice::Pay { number, amount, payer, paid_at } => {
                let document = [None, Some(CPF), Some(OTHER_CPF)][usize::from(*payer)];
                Command::Pay(Payment { paid_at: at(*paid_at), ..payment(*number, *amount, document) })
            }
            Notice::Decline => Command::Decline { reason: "no".to_owned(), code: "refused".to_owned() },
            Notice::Expire => Command::Expire { at: at(3600) },
            Notice::Review(true) => Command::Review(Decision::Approve),
            Notice::Review(false) => Command::Review(Decision::Return),
        }
    }

    fn may_follow(before: TransactionStatus, after: TransactionStatus) -> bool {
        use TransactionStatus::{Expired, Paid, Processing, Refunded, Refused, WaitingPayment};
        matches!(
            (before, after),
            (WaitingPayment, Paid | Refunded | Processing | Refused | Expired)
                | (Processing, Paid | Refunded)
        )
    }

    proptest! {
        /// Whatever order notices come in, each payment is credited, held or returned, and only one of these; the
        /// status moves only as the contract's table allows. The receipts' rows are kept as the store keeps them: an
        /// insert of one that is there changes nothing.
        #[test]
        fn no_sequence_of_notices_loses_money_or_leaves_the_table(
            is_locked in any::<bool>(),
            notices in notices(),
        ) {
            let mut charge = if is_locked { locked() } else { waiting() };
            let mut receipts: BTreeMap<EndToEndId, Receipt> = BTreeMap::new();
            let mut told = BTreeSet::new();
            for notice in &notices {
                let command = command(notice);
                let (next, write) = match apply(&charge, &command, at(60)) {
                    Ok(Outcome::Unchanged) | Err(Rejection::NotHeldForReview) => (None, None),
                    Ok(Outcome::Unapplied(receipt)) => (None, Some(ReceiptWrite::Insert(*receipt))),
                    Ok(Outcome::Changed { charge, receipt }) => (Some(*charge), receipt.map(|write| *write)),
                };
                if let Command::Pay(payment) = command {
                    told.insert(payment.end_to_end_id);
                }
                match write {
                    Some(ReceiptWrite::Insert(receipt)) if receipts.contains_key(&receipt.end_to_end_id) => continue,
                    Some(ReceiptWrite::Insert(receipt)) => {
                        prop_assert_eq!(receipt.version, 1);
                        receipts.insert(receipt.end_to_end_id.clone(), receipt);
                    }
                    Some(ReceiptWrite::Replace(receipt)) => {
                        prop_assert_eq!(receipts[&receipt.end_to_end_id].version + 1, receipt.version);
                        receipts.insert(receipt.end_to_end_id.clone(), receipt);
                    }
                    None => {}
                }
                if let Some(next) = next {
                    prop_assert!(may_follow(charge.status, next.status), "{:?} to {:?}", charge.status, next.status);
                    prop_assert_eq!(next.version, charge.version + 1);
                    charge = next;
                }
            }
            let kept = charge.receipt.as_ref().filter(|_| charge.settled_at.is_some() || charge.is_held_for_review());
            for payment in told {
                let is_kept = kept.is_some_and(|receipt| receipt.end_to_end_id == payment);
                let is_returned = receipts[&payment].returned.is_some();
                prop_assert!(is_kept != is_returned, "{}: kept {}, returned {}", payment, is_kept, is_returned);
            }
            prop_assert_eq!(charge.settled_at.is_some(), charge.status == TransactionStatus::Paid);
        }
    }
}
