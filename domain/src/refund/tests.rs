//! Tests what the rows of a refund record. `money/src/refund/tests.rs` tests the state machine together with
//! requests.

use super::*;
use crate::account::terms::MethodTerms;
use crate::charge::testing::{at, paid, payment, waiting};
use crate::charge::transition::{Command, Outcome};
use crate::wallet::LedgerAccount;

fn amount(minor: i64) -> Amount {
    Amount::parse(minor).unwrap()
}

fn at_bank(charge: &Charge, is_held: bool) -> RefundStep {
    Refund::requested_at_bank(
        charge,
        ("D1", Some("rtr".to_owned()), RefundReason::RequestedAtBank),
        amount(400),
        is_held,
        at(100),
    )
    .unwrap()
}

#[test]
fn a_refund_that_was_requested_at_the_bank_has_the_banks_ids() {
    let RefundStep { refund, .. } = at_bank(&paid(), false);
    assert_eq!((refund.bank_id().as_str(), refund.rtr_id.as_deref()), ("D1", Some("rtr")));
    assert_eq!(refund.id, Refund::id_of_bank_return(paid().id, "D1"));
    assert_eq!(refund.clone().with_rtr_id(None).rtr_id.as_deref(), Some("rtr"));
    assert_eq!(refund.clone().with_rtr_id(Some("new".to_owned())).rtr_id.as_deref(), Some("new"));
    let requested_here = Refund { requested_at_bank: None, ..refund.clone() };
    let other = Refund { id: Refund::id_of_bank_return(paid().id, "D2"), ..requested_here.clone() };
    assert_ne!(requested_here.bank_id(), other.bank_id());
}

#[test]
fn the_postings_of_a_refund_name_its_charge_payment_and_refund_in_the_charges_shard() {
    let charge = Charge { shards: ShardCount::MAX, ..paid() };
    assert!(!charge.shard().is_first());
    let step = at_bank(&charge, false);
    let started = step.refund.started(&step.charge, at(101)).unwrap().unwrap();
    let end = started.ended(&step.charge, RefundOutcome::Failed, at(102)).unwrap().unwrap();
    let subject = Subject {
        charge: Some(charge.id),
        payment: charge.applied_payment.as_ref().map(|applied| applied.payment_id.clone()),
        refund: Some(step.refund.id),
        ..Subject::default()
    };
    for posting in [step.posting, end.posting] {
        assert_eq!((posting.shard, &posting.subject), (charge.shard(), &subject));
    }
}

#[test]
fn money_of_a_failed_refund_is_pending_again_only_before_its_release_day() {
    let terms = MethodTerms { hold_days: 2, ..MethodTerms::default() };
    let outcome = transition::apply(&waiting(), &Command::Pay { payment: payment(), terms }, at(60)).unwrap();
    let Outcome::Paid { charge, .. } = outcome else { panic!("{outcome:?}") };
    let release = charge.release_on().unwrap().starts_at();
    let step = at_bank(&charge, true);
    let started = step.refund.started(&step.charge, at(101)).unwrap().unwrap();
    let before = release.plus_millis(-1).unwrap();
    assert!(charge.is_net_held(before) && !charge.is_net_held(release));
    for (now, pending, available) in [(before, 400, 0), (release, 0, 400)] {
        let failed = started.ended(&step.charge, RefundOutcome::Failed, now).unwrap().unwrap();
        let change = |account| failed.posting.change(account).unwrap().get();
        let actual = (change(LedgerAccount::MerchantPending), change(LedgerAccount::MerchantAvailable));
        assert_eq!(actual, (pending, available));
        assert!(failed.charge.funds.is_whole());
    }
    assert!(!step.charge.funds.is_whole());
    assert_eq!(step.charge.funds.tranche_taken, 400);
}

#[test]
fn a_devolucao_at_the_bank_is_debited_beside_open_refunds_of_the_whole_payment() {
    let plan = |strategy| RefundPlan {
        parameters: RefundParameters {
            gross: None,
            strategy,
            pix_out_fee: MinorUnits::ZERO,
            merchant_bears_pix_out: false,
            is_held: false,
        },
        destination: None,
        to_payer: false,
        third_party: false,
        limit: None,
        reason: None,
        request_hash: String::new(),
    };
    let start = |step: &RefundStep, now| step.refund.started(&step.charge, now).unwrap().unwrap();
    let end =
        |refund: &Refund, charge: &Charge, outcome, now| refund.ended(charge, outcome, now).unwrap().unwrap();
    for (strategy, outcome, left) in [
        // The bank has no room left for the refund.
        (RefundStrategy::Devolution, RefundOutcome::Failed, 600),
        // A cash-out is another Pix, so the payer has both.
        (RefundStrategy::Cashout, RefundOutcome::Refunded, 0),
    ] {
        let charge = paid();
        let id = Refund::id_of_bank_return(charge.id, "open");
        let open = Refund::request(id, &charge, plan(strategy), at(90)).unwrap();
        let started = start(&open, at(91));
        let foreign = at_bank(&open.charge, false);
        assert_eq!(foreign.posting.change(LedgerAccount::MerchantAvailable).unwrap().get(), -400);
        // Either may end first.
        for is_open_first in [true, false] {
            let own = |charge: &Charge| end(&started, charge, outcome, at(103)).charge;
            let bank = |charge: &Charge| {
                end(&start(&foreign, at(101)), charge, RefundOutcome::Refunded, at(104)).charge
            };
            let after = if is_open_first { bank(&own(&foreign.charge)) } else { own(&bank(&foreign.charge)) };
            assert_eq!(after.funds.refundable(after.amount).unwrap().get(), left, "{strategy:?}");
            assert_eq!(after.funds.refunded_devolution.get(), 400);
            assert!(after.funds.in_progress().unwrap().is_zero());
        }
    }
}
