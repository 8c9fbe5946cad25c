//! Tests every command in every status of a charge, and random sequences of commands.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::incoming_payment::{Return, ReturnedPayment};
use super::super::testing::{at, waiting};
use super::super::{Artefacts, Card, Customer};
use super::*;
use crate::account::terms::Fee;
use crate::acquirer::AcquirerName;
use crate::ids::EndToEndId;
use crate::money::Currency;
use crate::shard::ShardCount;
use crate::tax_id::Document;
use crate::wallet::{LedgerAccount, Wallet};

const CPF: &str = "29537995593";
const OTHER_CPF: &str = "25524893033";

fn payment(number: u8, amount: i64, document: Option<&str>) -> Payment {
    Payment {
        id: EndToEndId::sandbox(at(60), [number; 8]).into(),
        amount: Amount::parse(amount).unwrap(),
        payer_document: document.map(|text| text.parse().unwrap()),
        ..super::super::testing::payment()
    }
}

/// Returns terms with a platform fee of 10 centavos, an acquirer fee of 0.99% and no hold.
fn terms() -> MethodTerms {
    MethodTerms {
        acquirer_fee: Fee::new(0, 99).unwrap(),
        platform_fee: Fee::new(10, 0).unwrap(),
        ..MethodTerms::default()
    }
}

fn pay_command(payment: Payment) -> Command {
    Command::Pay { payment, terms: terms() }
}

fn review_command(decision: Decision) -> Command {
    Command::Review { decision, terms: terms() }
}

fn locked() -> Charge {
    Charge { expected_payer: Some(CPF.parse().unwrap()), ..waiting() }
}

fn after(charge: &Charge, command: Command) -> Charge {
    match apply(charge, &command, at(60)).unwrap() {
        Outcome::Changed(charge) | Outcome::Paid { charge, .. } | Outcome::Credited { charge, .. } => *charge,
        Outcome::Unchanged => panic!("unchanged"),
    }
}

fn unapplied(outcome: Outcome) -> IncomingPayment {
    match outcome {
        Outcome::Paid { charge, moved } => {
            let incoming = written(moved.incoming_payment);
            assert_eq!(charge.returned.last(), ReturnedPayment::of(&incoming).as_ref());
            incoming
        }
        other => panic!("{other:?}"),
    }
}

fn returned(incoming: &IncomingPayment) -> &Return {
    incoming.returned.as_ref().unwrap()
}

fn written(write: IncomingPaymentWrite) -> IncomingPayment {
    let (IncomingPaymentWrite::Insert(incoming) | IncomingPaymentWrite::Replace(incoming)) = write;
    incoming
}

/// Returns one charge for each status that commands can lead to.
fn every_state() -> Vec<Charge> {
    vec![
        waiting(),
        after(&waiting(), pay_command(payment(1, 1000, None))),
        after(&locked(), pay_command(payment(1, 1000, None))),
        after(&locked(), pay_command(payment(1, 1000, Some(OTHER_CPF)))),
        after(&waiting(), Command::Decline(FailureReason::CardDeclined)),
        after(&waiting(), Command::Expire { at: at(3600) }),
        after(&waiting(), Command::Cancel),
        after(&by_card(), Command::Authenticate),
    ]
}

fn finalise() -> Command {
    Command::Finalise(Box::new(MadeLegs { artefacts: waiting().artefacts, refused: Vec::new() }))
}

#[test]
fn a_charge_is_finalised_once_and_only_while_pending() {
    let pending = Charge { status: TransactionStatus::Pending, artefacts: Artefacts::default(), ..waiting() };
    let finalise = finalise();
    let finalised = after(&pending, finalise.clone());
    assert_eq!((finalised.status, finalised.version), (TransactionStatus::WaitingPayment, 2));
    assert_eq!(finalised.artefacts, waiting().artefacts);
    for charge in every_state() {
        assert_eq!(apply(&charge, &finalise, at(90)), Ok(Outcome::Unchanged), "{:?}", charge.status);
    }
    // A pending charge is not payable yet, so a payment is returned. The charge can be cancelled.
    let back = unapplied(apply(&pending, &pay_command(payment(1, 1000, None)), at(60)).unwrap());
    assert_eq!(returned(&back).reason, UnappliedReason::Late);
    assert_eq!(after(&pending, Command::Cancel).status, TransactionStatus::Cancelled);
}

#[test]
fn a_charge_stores_every_status_change_except_its_creation() {
    use TransactionStatus::{Dispute, Paid, Refunded, WaitingPayment};
    let with_status =
        |charge: Charge, status, seconds| Charge { status, ..next_version(charge, at(seconds)) };
    let paid = after(&waiting(), pay_command(payment(1, 1000, None)));
    let history = |charge: &Charge| -> Vec<(u64, TransactionStatus, i64)> {
        let changes = charge.status_changes();
        assert_eq!(changes.last().unwrap().0, charge.latest_status_change());
        changes
            .into_iter()
            .map(|(entry, to)| (entry.version, to, entry.at.millis_since(at(0)) / 1000))
            .collect()
    };
    assert_eq!(history(&waiting()), [(1, WaitingPayment, 0)]);
    assert_eq!(history(&paid), [(1, WaitingPayment, 0), (2, Paid, 60)]);
    assert!(paid.past.as_ref().unwrap().earlier.is_empty());
    let refunded = next_version(with_status(next_version(paid, at(70)), Refunded, 80), at(90));
    let all = [(1, WaitingPayment, 0), (2, Paid, 60), (4, Refunded, 80)];
    assert_eq!(history(&refunded), all);
    let disputed = with_status(with_status(refunded, Dispute, 100), Refunded, 110);
    assert_eq!(history(&disputed), [&all[..], &[(6, Dispute, 100), (7, Refunded, 110)]].concat());
    assert!(disputed.status_changes().windows(2).all(|pair| pair[1].0.from == pair[0].1));
    let endless = (0..50).fold(disputed, |charge, _| {
        let other = if charge.status == Dispute { Refunded } else { Dispute };
        with_status(charge, other, 120)
    });
    assert!(endless.status_changes().len() <= 20, "the row must stay small");
}

#[test]
fn the_same_payment_reported_again_changes_nothing() {
    for charge in every_state().iter().filter(|charge| charge.applied_payment.is_some()) {
        let again = pay_command(payment(1, 1000, Some(CPF)));
        assert_eq!(apply(charge, &again, at(90)), Ok(Outcome::Unchanged), "{:?}", charge.status);
    }
}

#[test]
fn a_charge_lists_its_newest_returned_payments_with_the_progress_of_their_returns() {
    let mut charge = Charge { acquirer: AcquirerName::Pix, ..waiting() };
    let mut incoming = Vec::new();
    for number in 1..=12 {
        let outcome = apply(&charge, &pay_command(payment(number, 999, None)), at(60)).unwrap();
        let Outcome::Paid { charge: next, moved } = outcome else { panic!("{outcome:?}") };
        incoming.push(written(moved.incoming_payment));
        charge = *next;
    }
    assert_eq!((charge.status, charge.version), (TransactionStatus::WaitingPayment, 13));
    let listed: Vec<ReturnedPayment> = incoming[2..].iter().filter_map(ReturnedPayment::of).collect();
    assert_eq!((listed.len(), &charge.returned), (10, &listed));
    let [dropped, kept] =
        [&incoming[0], &incoming[11]].map(|paid| paid.return_completed(None, at(90)).unwrap().0);
    assert_eq!(charge.with_return_progress(&dropped, at(90)), None);
    let returned = charge.with_return_progress(&kept, at(90)).unwrap();
    let last = returned.returned.last().unwrap();
    assert_eq!((last.status, last.updated_at, last.paid_at), (ReturnStatus::Returned, at(90), at(60)));
    assert_eq!((returned.version, returned.returned.len()), (14, 10));
    assert_eq!(returned.with_return_progress(&kept, at(95)), None, "repeated");
}

#[test]
fn a_payment_that_the_charge_cannot_take_is_returned_with_its_reason() {
    use UnappliedReason::{Late, SecondPayment, WrongAmount};
    let reason = |charge: &Charge, minor| {
        let back = unapplied(apply(charge, &pay_command(payment(2, minor, None)), at(90)).unwrap());
        let result = returned(&back);
        assert_eq!((back.amount.minor(), result.status), (minor, ReturnStatus::Returned));
        assert!(result.id.as_str().starts_with('D'));
        result.reason
    };
    for minor in [1, 999, 1001, 2000] {
        assert_eq!(reason(&waiting(), minor), WrongAmount);
    }
    for charge in every_state().iter().filter(|charge| !charge.is_open()) {
        let expected = if charge.applied_payment.is_some() { SecondPayment } else { Late };
        assert_eq!(reason(charge, 1000), expected, "{:?}", charge.status);
    }
    assert_eq!(reason(&by_card(), 1000), Late, "a method that was not requested");
}

#[test]
fn a_payment_is_late_if_the_bank_received_it_late_not_if_it_was_reported_late() {
    let in_time = Payment { paid_at: at(3600), ..payment(1, 1000, None) };
    let accepted_in_time = Payment { paid_at: at(3601), is_in_time: true, ..payment(1, 1000, None) };
    for payment in [in_time, accepted_in_time] {
        let outcome = apply(&waiting(), &pay_command(payment), at(9000)).unwrap();
        assert!(matches!(outcome, Outcome::Paid { charge, .. } if charge.status == TransactionStatus::Paid));
    }
    let late = Payment { paid_at: at(3600).plus_millis(1).unwrap(), ..payment(1, 1000, None) };
    let back = unapplied(apply(&waiting(), &pay_command(late), at(3601)).unwrap());
    assert_eq!(returned(&back).reason, UnappliedReason::Late);
}

#[test]
fn the_payer_lock_credits_only_the_expected_payer() {
    let right = after(&locked(), pay_command(payment(1, 1000, Some(CPF))));
    assert_eq!((right.status, right.version), (TransactionStatus::Paid, 2));
    assert_eq!(right.settlement.map(|settlement| settlement.at), Some(at(60)));

    let wrong = apply(&locked(), &pay_command(payment(1, 1000, Some(OTHER_CPF))), at(60)).unwrap();
    let Outcome::Paid { charge, moved } = wrong else { panic!("{wrong:?}") };
    let back = written(moved.incoming_payment);
    assert_eq!(charge.status, TransactionStatus::Refunded);
    assert_eq!(charge.settlement, None);
    assert_eq!(returned(&back).reason, UnappliedReason::PayerMismatch);
    assert_eq!(back.payment_id, payment(1, 1000, None).id);

    let unreported = after(&locked(), pay_command(payment(1, 1000, None)));
    assert_eq!(unreported.status, TransactionStatus::Processing);
    assert_eq!(unreported.settlement, None);
    assert!(unreported.is_held_for_review());
    // The scheduler reports a review that takes a day. A card holder who authenticates has less time.
    let in_a_day = Some(unreported.updated_at.saturating_plus_seconds(24 * 60 * 60));
    assert_eq!(unreported.indexes().due, in_a_day);
    let authenticating = Charge { applied_payment: None, ..unreported };
    assert!(authenticating.indexes().due < in_a_day);
}

#[test]
fn a_review_credits_or_returns_only_held_payments() {
    let held = after(&locked(), pay_command(payment(1, 1000, None)));
    let approved = after(&held, review_command(Decision::Approve));
    let credited_at = approved.settlement.map(|settlement| settlement.at);
    assert_eq!((approved.status, credited_at), (TransactionStatus::Paid, Some(at(60))));

    let end = apply(&held, &review_command(Decision::Return), at(60)).unwrap();
    let Outcome::Paid { charge, moved } = end else { panic!("{end:?}") };
    let back = written(moved.incoming_payment);
    assert_eq!((charge.status, charge.settlement), (TransactionStatus::Refunded, None));
    assert_eq!((returned(&back).reason, back.amount), (UnappliedReason::ReviewReturned, charge.amount));

    for charge in every_state().iter().filter(|charge| !charge.is_held_for_review()) {
        let refused = apply(charge, &review_command(Decision::Approve), at(60));
        assert_eq!(refused, Err(Rejection::NotHeldForReview), "{:?}", charge.status);
    }
    let again = apply(&approved, &review_command(Decision::Approve), at(90));
    assert_eq!(again, Ok(Outcome::Unchanged));
    let too_late = apply(&approved, &review_command(Decision::Return), at(90));
    assert_eq!(too_late, Err(Rejection::NotHeldForReview));
}

#[test]
fn a_confirmed_payer_credits_only_a_held_payment() {
    let held = after(&locked(), pay_command(payment(1, 1000, None)));
    let command = Command::ConfirmPayer { terms: terms() };
    let confirmed = after(&held, command.clone());
    let payer = confirmed.applied_payment.as_ref().and_then(|applied| applied.payer_document);
    assert_eq!((confirmed.status, confirmed.reviewed), (TransactionStatus::Paid, None));
    assert!(payer.is_some() && payer == held.expected_payer && confirmed.settlement.is_some());
    for charge in every_state().iter().filter(|charge| !charge.is_held_for_review()) {
        assert_eq!(apply(charge, &command, at(60)), Ok(Outcome::Unchanged), "{:?}", charge.status);
    }
}

fn by_card() -> Charge {
    let card = Some(Card { page: None, return_url: None, expires_at: at(3600) });
    Charge {
        methods: vec![PaymentMethod::CreditCard],
        artefacts: Artefacts { card, ..Artefacts::default() },
        ..waiting()
    }
}

#[test]
fn a_card_charge_is_processing_until_it_is_approved_refused_cancelled_or_expired() {
    let in_flight = after(&by_card(), Command::Authenticate);
    assert_eq!(
        (in_flight.status, in_flight.applied_payment.is_none()),
        (TransactionStatus::Processing, true)
    );
    assert_eq!(apply(&in_flight, &Command::Authenticate, at(61)), Ok(Outcome::Unchanged));
    let payment = Payment { method: PaymentMethod::CreditCard, ..payment(1, 1000, None) };
    for (command, status) in [
        (pay_command(payment), TransactionStatus::Approved),
        (Command::Decline(FailureReason::CardDeclined), TransactionStatus::Refused),
        (Command::Cancel, TransactionStatus::Cancelled),
        (Command::Expire { at: at(3600) }, TransactionStatus::Expired),
    ] {
        let ended = after(&in_flight, command);
        assert_eq!(ended.status, status);
        assert_eq!(apply(&ended, &Command::Authenticate, at(61)), Err(Rejection::NotPayableByCard));
    }
    let decline = Some(FailureReason::CardDeclined);
    let declined = after(&in_flight, Command::EndTry { decline: decline.clone() });
    assert_eq!((declined.status, &declined.last_decline), (TransactionStatus::WaitingPayment, &decline));
    for repeated in [Command::EndTry { decline }, Command::EndTry { decline: None }] {
        assert_eq!(apply(&declined, &repeated, at(61)), Ok(Outcome::Unchanged));
    }
    // The acquirer may have forgotten the decline.
    let expired = after(&declined, Command::Expire { at: at(3600) });
    assert_eq!(expired.failure.unwrap().reason, FailureReason::CardDeclined);
    assert_eq!(in_flight.clone().read_at(at(3600)), in_flight);
    assert_eq!(in_flight.read_at(at(3601)).status, TransactionStatus::Expired);
    assert_eq!(apply(&waiting(), &Command::Authenticate, at(60)), Err(Rejection::NotPayableByCard));
    assert_eq!(apply(&by_card(), &Command::Authenticate, at(3601)), Err(Rejection::NotPayableByCard));
}

#[test]
fn only_open_or_held_charges_can_be_cancelled_and_held_money_is_returned() {
    for charge in every_state() {
        let outcome = apply(&charge, &Command::Cancel, at(90));
        let is_allowed = charge.is_open() || charge.is_held_for_review();
        assert_eq!(outcome.is_ok(), is_allowed, "{:?}", charge.status);
    }
    let held = after(&locked(), pay_command(payment(1, 1000, None)));
    let outcome = apply(&held, &Command::Cancel, at(90)).unwrap();
    let Outcome::Paid { charge, moved } = outcome else { panic!("{outcome:?}") };
    assert_eq!(charge.status, TransactionStatus::Cancelled);
    assert_eq!(charge.failure.as_ref().unwrap().reason.code(), "canceled");
    assert_eq!(returned(&written(moved.incoming_payment)).reason, UnappliedReason::Cancelled);
    let back = unapplied(apply(&charge, &pay_command(payment(2, 1000, None)), at(95)).unwrap());
    assert_eq!(returned(&back).reason, UnappliedReason::Late);
}

#[test]
fn only_an_open_charge_can_expire_or_be_declined() {
    let expire = Command::Expire { at: at(3600) };
    let decline = Command::Decline(FailureReason::CardDeclined);
    for charge in every_state() {
        for command in [&expire, &decline] {
            let outcome = apply(&charge, command, at(90)).unwrap();
            let is_allowed =
                charge.settlement.is_none() && charge.applied_payment.is_none() && charge.failure.is_none();
            assert_eq!(outcome != Outcome::Unchanged, is_allowed, "{:?}", charge.status);
        }
    }
}

#[test]
fn an_expired_test_charge_reads_exactly_as_the_scheduler_persists_it() {
    let expires_at = waiting().expires_at();
    assert_eq!(waiting().read_at(expires_at), waiting());
    let seen = waiting().read_at(at(3601));
    assert_eq!(seen, after(&waiting(), Command::Expire { at: expires_at }));
    let failure = seen.failure.unwrap();
    assert_eq!((failure.reason.code(), failure.ttl_seconds), ("expired", Some(3600)));
    assert_eq!(failure.at, at(3600));
}

#[derive(Clone, Debug)]
enum Notification {
    Pay { number: u8, amount: i64, payer: u8, paid_at: i64 },
    Authenticate,
    Cancel,
    Decline,
    EndTry,
    Expire,
    Review(bool),
}

fn notifications() -> impl Strategy<Value = Vec<Notification>> {
    let pay = (0..4_u8, prop_oneof![4 => Just(1000_i64), 1 => 1..2000_i64], 0..3_u8, 0..7200_i64)
        .prop_map(|(number, amount, payer, paid_at)| Notification::Pay { number, amount, payer, paid_at });
    let other = prop_oneof![
        Just(Notification::Authenticate),
        Just(Notification::Cancel),
        Just(Notification::Decline),
        Just(Notification::EndTry),
        Just(Notification::Expire),
        any::<bool>().prop_map(Notification::Review)
    ];
    proptest::collection::vec(prop_oneof![3 => pay, 1 => other], 1..12)
}

fn command(notification: &Notification) -> Command {
    match notification {
        Notification::Pay { number, amount, payer, paid_at } => {
            let document = [None, Some(CPF), Some(OTHER_CPF)][usize::from(*payer)];
            pay_command(Payment { paid_at: at(*paid_at), ..payment(*number, *amount, document) })
        }
        Notification::Authenticate => Command::Authenticate,
        Notification::EndTry => Command::EndTry { decline: None },
        Notification::Cancel => Command::Cancel,
        Notification::Decline => Command::Decline(FailureReason::CardDeclined),
        Notification::Expire => Command::Expire { at: at(3600) },
        Notification::Review(true) => review_command(Decision::Approve),
        Notification::Review(false) => review_command(Decision::Return),
    }
}

fn may_follow(before: TransactionStatus, after: TransactionStatus) -> bool {
    use TransactionStatus::{Cancelled, Expired, Paid, Processing, Refunded, Refused, WaitingPayment};
    matches!(
        (before, after),
        (WaitingPayment | Processing, Processing | Paid | Refunded | Refused | Cancelled | Expired)
            | (Processing, WaitingPayment)
    )
}

proptest! {
    /// In any order of notifications, each payment is either credited, held or returned, and the status
    /// changes only as the table of states allows. Like the table, the map of incoming payments rejects the
    /// insert of an existing row.
    #[test]
    fn no_sequence_of_notifications_loses_money_or_makes_a_forbidden_transition(
        is_locked in any::<bool>(),
        notifications in notifications(),
    ) {
        let mut charge = if is_locked { locked() } else { waiting() };
        // With a card method, the charge can become `PROCESSING` without a payment.
        charge.methods.push(PaymentMethod::CreditCard);
        charge.artefacts.card = Some(Card { page: None, return_url: None, expires_at: at(7200) });
        let mut incoming_payments: BTreeMap<AcquirerPaymentId, IncomingPayment> = BTreeMap::new();
        let (mut reported, mut posted) = (BTreeSet::new(), BTreeSet::new());
        let mut wallet = Wallet::empty(Currency::BRL);
        for notification in &notifications {
            let command = command(notification);
            let (next, write, posting) = match apply(&charge, &command, at(60)) {
                Ok(Outcome::Unchanged)
                | Err(
                    Rejection::NotHeldForReview
                    | Rejection::NotCancellable
                    | Rejection::BeingPaid
                    | Rejection::AwaitsConfirmation { .. }
                    | Rejection::NotPayableByCard,
                ) => (None, None, None),
                Err(Rejection::Money(error)) => panic!("{error}"),
                Ok(Outcome::Changed(charge)) => (Some(*charge), None, None),
                Ok(Outcome::Paid { charge, moved }) => (Some(*charge), Some(moved.incoming_payment), Some(moved.posting)),
                Ok(Outcome::Credited { charge, posting }) => (Some(*charge), None, Some(*posting)),
            };
            if let Command::Pay { payment, .. } = command {
                reported.insert(payment.id);
            }
            match write {
                Some(IncomingPaymentWrite::Insert(incoming)) if incoming_payments.contains_key(&incoming.payment_id) => continue,
                Some(IncomingPaymentWrite::Insert(incoming)) => {
                    prop_assert_eq!(incoming.version, 1);
                    incoming_payments.insert(incoming.payment_id.clone(), incoming);
                }
                Some(IncomingPaymentWrite::Replace(incoming)) => {
                    prop_assert_eq!(incoming_payments[&incoming.payment_id].version + 1, incoming.version);
                    incoming_payments.insert(incoming.payment_id.clone(), incoming);
                }
                None => {}
            }
            if let Some(posting) = posting {
                prop_assert!(posted.insert(posting.id), "two postings with one id");
                wallet.post(&posting).unwrap();
            }
            if let Some(next) = next {
                let is_return = next.status == charge.status && next.returned != charge.returned;
                prop_assert!(
                    is_return || may_follow(charge.status, next.status),
                    "{:?} to {:?}", charge.status, next.status
                );
                // The status stays `PROCESSING` when a payment by another method is held for review during
                // card authentication, and when a payment is returned.
                let stays = charge.status == next.status;
                let is_held = charge.applied_payment.is_none() && next.is_held_for_review();
                prop_assert!(!stays || is_held || is_return);
                prop_assert_eq!(next.version, charge.version + 1);
                charge = next;
            }
        }
        let kept = charge.applied_payment.as_ref().filter(|_| charge.settlement.is_some() || charge.is_held_for_review());
        for payment in reported {
            let is_kept = kept.is_some_and(|incoming| incoming.payment_id == payment);
            let is_returned = incoming_payments[&payment].returned.is_some();
            prop_assert!(is_kept != is_returned, "{}: kept {}, returned {}", payment, is_kept, is_returned);
        }
        prop_assert_eq!(charge.settlement.is_some(), charge.status == TransactionStatus::Paid);
        // In the ledger, the accepted payment is credited to merchant and fees, or held for review. All other
        // money was returned.
        let (credited, held) = match &kept {
            Some(_) if charge.is_held_for_review() => (0, 1000),
            Some(_) => (1000, 0),
            None => (0, 0),
        };
        let balance = |account| wallet.balance(account).unwrap().get();
        let fees = balance(LedgerAccount::AcquirerFees) + balance(LedgerAccount::PlatformFees);
        prop_assert_eq!(balance(LedgerAccount::MerchantAvailable) + fees, credited);
        prop_assert_eq!(fees, charge.settlement.map_or(0, |settlement| settlement.fees.total().get()));
        prop_assert_eq!(balance(LedgerAccount::HeldForReview), held);
        prop_assert_eq!(balance(LedgerAccount::UnappliedReceipts), 0);
        prop_assert_eq!(balance(LedgerAccount::AcquirerClearing), -credited - held);
    }
}

#[test]
fn the_bank_must_confirm_an_expiry_and_execute_returns() {
    let charge = Charge { acquirer: AcquirerName::Pix, ..waiting() };
    assert_eq!(charge.clone().read_at(at(3601)), charge, "the bank must first confirm that it was not paid");
    let wrong_amount = pay_command(payment(1, 999, None));
    let returned_to = |charge: &Charge| match apply(charge, &wrong_amount, at(60)).unwrap() {
        Outcome::Paid { moved, .. } => moved.posting.transfers.last().unwrap().to,
        other => panic!("{other:?}"),
    };
    assert_eq!(returned_to(&charge), LedgerAccount::ReturnsInFlight);
    assert_eq!(returned_to(&waiting()), LedgerAccount::AcquirerClearing);
}

#[test]
fn the_lease_of_a_pending_charge_ends_with_every_change_of_its_status() {
    let lease = Charge { lease_until: Some(at(90)), pix_expires_in_seconds: Some(600), ..waiting() };
    let pending = Charge { status: TransactionStatus::Pending, ..lease };
    let finalise = finalise();
    let decline = Command::Decline(FailureReason::CardDeclined);
    assert_eq!(after(&pending, finalise.clone()).pix_expires_in_seconds, None);
    for command in [finalise, decline, Command::Cancel] {
        assert_eq!(after(&pending, command).lease_until, None);
    }
    assert!(pending.is_leased(at(89)) && !pending.is_leased(at(90)) && !waiting().is_leased(at(0)));
}

#[test]
fn a_charge_that_is_finalised_before_its_first_write_begins_as_waiting_or_refused() {
    let pending = Charge {
        status: TransactionStatus::Pending,
        artefacts: Artefacts::default(),
        pix_expires_in_seconds: Some(600),
        ..waiting()
    };
    let legs = |finalised| MadeLegs::of(PaymentMethod::Pix, finalised, at(0));
    let made = created_as(pending.clone(), legs(Finalised::Made(Box::new(waiting().artefacts))));
    assert_eq!(made, waiting());
    let refused = created_as(pending, legs(Finalised::Refused(FailureReason::AcquirerRefused)));
    let failure = refused.failure.unwrap();
    assert_eq!((refused.status, refused.pix_expires_in_seconds), (TransactionStatus::Refused, None));
    assert_eq!((failure.reason.code(), failure.at), ("acquirer_refused", at(0)));
}

#[test]
fn a_posting_names_the_charge_and_the_payment_in_the_charges_shard() {
    let charge = Charge { shards: ShardCount::MAX, ..locked() };
    assert!(!charge.shard().is_first());
    let payment = payment(1, 1000, Some(CPF));
    let outcome = apply(&charge, &pay_command(payment.clone()), at(60)).unwrap();
    let Outcome::Paid { moved, .. } = outcome else { panic!("{outcome:?}") };
    let subject = Subject { charge: Some(charge.id), payment: Some(payment.id), ..Subject::default() };
    assert_eq!((moved.posting.shard, moved.posting.subject), (charge.shard(), subject));
}

#[test]
fn an_operator_applies_a_payment_only_to_an_unpaid_charge_that_could_accept_it() {
    let unmatched = |amount, document| {
        let connection = crate::ids::ConnectionId::derive("pix", "https://bank.example.com", "client");
        let recorded =
            super::unmatched((waiting().scope, connection), &payment(1, amount, document), None, at(60));
        written(recorded.incoming_payment)
    };
    let receipt = unmatched(1000, None);
    let expired = after(&waiting(), Command::Expire { at: at(3600) });
    let leased = Charge { lease_until: Some(at(90)), ..waiting() };
    for charge in [leased, expired] {
        let (settled, moved) = apply_receipt(&charge, &receipt, &terms(), at(4000)).unwrap().unwrap();
        assert_eq!(
            (settled.status, settled.lease_until, &settled.failure),
            (TransactionStatus::Paid, None, &None)
        );
        let applied = written(moved.incoming_payment);
        assert_eq!((applied.charge_id(), applied.version), (Some(charge.id), 2));
        assert_eq!(moved.posting.change(LedgerAccount::UnappliedReceipts).unwrap(), -1000);
        assert_eq!(apply_receipt(&settled, &receipt, &terms(), at(4001)), Ok(None));
        let other = IncomingPayment { payment_id: payment(2, 1000, None).id, ..receipt.clone() };
        assert_eq!(apply_receipt(&settled, &other, &terms(), at(4001)), Err(ReceiptRefused::NotPayable));
        assert_eq!(apply_receipt(&charge, &applied, &terms(), at(4001)), Err(ReceiptRefused::NotUnmatched));
    }
    let refusal = |charge: &Charge, receipt: &IncomingPayment| {
        apply_receipt(charge, receipt, &terms(), at(90)).unwrap_err()
    };
    let cancelled = after(&waiting(), Command::Cancel);
    assert_eq!(refusal(&cancelled, &receipt), ReceiptRefused::NotPayable);
    assert_eq!(refusal(&waiting(), &unmatched(999, None)), ReceiptRefused::WrongAmount);
    assert_eq!(refusal(&locked(), &receipt), ReceiptRefused::PayerNotExpected);
    assert_eq!(refusal(&locked(), &unmatched(1000, Some(OTHER_CPF))), ReceiptRefused::PayerNotExpected);
    let expected = unmatched(1000, Some(CPF));
    assert!(apply_receipt(&locked(), &expected, &terms(), at(90)).unwrap().is_some());
    assert!(apply_receipt(&waiting(), &expected, &terms(), at(90)).unwrap().is_some());
}

#[test]
fn the_payer_is_the_one_of_the_lock_or_else_the_customer() {
    let customer = Customer { document: Some(Document::parse(OTHER_CPF).unwrap()), ..Customer::default() };
    let of_customer = Charge { customer, ..waiting() };
    let locked = Charge { expected_payer: Some(CPF.parse().unwrap()), ..of_customer.clone() };
    for (charge, expected) in [(&waiting(), None), (&of_customer, Some(OTHER_CPF)), (&locked, Some(CPF))] {
        assert_eq!(charge.payer(), expected);
        assert_eq!(charge.payer_tax_id(), expected.map(|text| text.parse().unwrap()));
    }
}
