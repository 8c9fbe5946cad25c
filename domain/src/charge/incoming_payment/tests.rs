//! Tests the states of an incoming payment that cannot be applied, and of its return.

use super::super::testing::{at, payment, waiting};
use super::super::transition;
use super::*;
use crate::ids::Mode;
use crate::wallet::LedgerAccount;

/// Returns a payment whose return a bank must execute.
fn in_return() -> IncomingPayment {
    let charge = Charge { acquirer: AcquirerName::Pix, ..waiting() };
    IncomingPayment::unapplied(&charge, &payment(), UnappliedReason::WrongAmount, at(70))
}

fn unmatched() -> IncomingPayment {
    let connection = ConnectionId::derive("pix", "https://bank.example.com", "client");
    let recorded = transition::unmatched((waiting().scope, connection), &payment(), None, at(70));
    match recorded.incoming_payment {
        transition::IncomingPaymentWrite::Insert(incoming) => incoming,
        transition::IncomingPaymentWrite::Replace(other) => panic!("{other:?}"),
    }
}

fn returned(incoming: &IncomingPayment) -> &Return {
    incoming.returned.as_ref().unwrap()
}

fn with_rtr_id(incoming: IncomingPayment) -> IncomingPayment {
    let returned = Return { rtr_id: Some("D1".to_owned()), ..returned(&incoming).clone() };
    IncomingPayment { returned: Some(returned), ..incoming }
}

#[test]
fn a_return_is_retried_stopped_and_resumed_under_new_ids() {
    let first = with_rtr_id(in_return());
    let retried = first.return_retried(at(80)).unwrap();
    let stopped = with_rtr_id(retried.clone()).return_stopped(at(90)).unwrap();
    let resumed = stopped.return_resumed(at(100)).unwrap();
    let (requested, stop) = (ReturnStatus::Requested, ReturnStatus::Stopped);
    for (incoming, expected) in [
        (&first, (1, at(70), requested, 1, true)),
        (&retried, (2, at(80), requested, 2, false)),
        (&stopped, (3, at(90), stop, 2, true)),
        (&resumed, (4, at(100), requested, 3, false)),
    ] {
        let back = returned(incoming);
        let has_rtr_id = back.rtr_id.is_some();
        let actual = (incoming.version, incoming.recorded_at, back.status, back.attempt, has_rtr_id);
        assert_eq!(actual, expected);
    }
    let ids = [&first, &retried, &resumed].map(|incoming| returned(incoming).id.as_str());
    assert_eq!(ids.map(|id| resumed.has_return_attempt(id)), [true; 3]);
    assert_eq!(ids.map(|id| first.has_return_attempt(id)), [true, false, false]);
    assert_eq!(returned(&stopped).id, returned(&retried).id);
    assert_ne!(returned(&resumed).id, returned(&stopped).id);
    assert_eq!((stopped.return_retried(at(110)), stopped.return_stopped(at(110))), (None, None));
    assert_eq!((stopped.return_completed(None, at(110)), stopped.returned_by_bank(at(110))), (None, None));
    assert_eq!((first.return_resumed(at(110)), unmatched().return_resumed(at(110))), (None, None));
    // The time of a change increases even if the clock goes back.
    assert!(first.return_retried(at(60)).unwrap().recorded_at > first.recorded_at);
}

#[test]
fn a_return_is_completed_once_with_its_posting() {
    let first = in_return();
    let subject =
        Subject { charge: Some(waiting().id), payment: Some(first.payment_id.clone()), ..Subject::default() };
    let by_request = first.return_completed(Some("D1".to_owned()), at(80)).unwrap();
    let by_bank = first.returned_by_bank(at(80)).unwrap();
    for ((done, posting), rtr_id, is_by_bank) in [(by_request, Some("D1"), false), (by_bank, None, true)] {
        let back = returned(&done);
        assert_eq!((back.status, back.rtr_id.as_deref()), (ReturnStatus::Returned, rtr_id));
        assert_eq!((back.by_bank, done.version), (is_by_bank, 2));
        assert_eq!(
            (posting.change(LedgerAccount::AcquirerClearing).unwrap().get(), &posting.subject),
            (1000, &subject)
        );
        assert_eq!((done.return_completed(None, at(90)), done.returned_by_bank(at(90))), (None, None));
    }
}

#[test]
fn only_a_payment_that_matched_no_charge_is_returned_by_an_operator_and_only_once() {
    let (back, posting) = unmatched().return_unmatched(at(80)).unwrap();
    assert_eq!((returned(&back).reason, back.version), (UnappliedReason::Unmatched, 2));
    assert_eq!(returned(&back).status, ReturnStatus::Requested);
    assert_eq!(posting.change(LedgerAccount::ReturnsInFlight).unwrap().get(), 1000);
    assert_eq!(posting.subject.charge, None);
    assert_eq!(back.return_unmatched(at(90)), None);
    let applied = IncomingPayment::applied(&waiting(), &payment(), at(70));
    assert_eq!((applied.return_unmatched(at(80)), in_return().return_unmatched(at(80))), (None, None));
    assert_eq!((applied.charge_id(), unmatched().charge_id()), (Some(waiting().id), None));
}

#[test]
fn a_payment_is_listed_for_operators_or_due_while_something_must_be_done() {
    let applied = IncomingPayment::applied(&waiting(), &payment(), at(70));
    let stopped = in_return().return_stopped(at(80)).unwrap();
    let done = in_return().returned_by_bank(at(80)).unwrap().0;
    for (incoming, is_listed, is_due) in [
        (applied, false, false),
        (in_return(), false, true),
        (stopped, true, false),
        (done, false, false),
        (unmatched(), true, false),
        (unmatched().return_unmatched(at(80)).unwrap().0, false, true),
    ] {
        let Indexes { list, due, .. } = incoming.indexes();
        assert_eq!((incoming.waits_for_operator(), list.is_some()), (is_listed, is_listed), "{incoming:?}");
        let due_at = incoming.recorded_at.plus_seconds(120).unwrap();
        assert_eq!(due, is_due.then_some(due_at), "{incoming:?}");
        assert!(IncomingPayment::is_at(&incoming.key()) && !IncomingPayment::is_at(&waiting().key()));
    }
    let list = |incoming: &IncomingPayment| incoming.indexes().list.unwrap();
    let test = unmatched();
    let live = IncomingPayment { scope: Scope { mode: Mode::Live, ..test.scope }, ..test.clone() };
    assert_ne!(list(&test).0, list(&live).0);
    let later = IncomingPayment { paid_at: at(1000), ..test.clone() };
    assert!(list(&test).1 < list(&later).1);
}
