//! Tests of the rollups. A property test adds up what each change of a charge adds to the counters, and
//! compares the sums with a count from the charge's versions.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::account::terms::MethodTerms;
use crate::calendar::HOURS_A_DAY;
use crate::charge::testing::{at, payment, waiting};
use crate::charge::transition::{Command, Outcome, Payment, apply};
use crate::charge::{Artefacts, Card, Decision, FailureReason};
use crate::ids::EndToEndId;
use crate::money::Amount;
use crate::vocabulary::Vocabulary;

/// Returns every counter.
fn all_counters() -> Vec<Counter> {
    let statuses = PublicStatus::vocabulary().into_iter().map(|(_, status)| status);
    let mut counters =
        vec![Counter::Created, Counter::Attempted, Counter::Paid, Counter::Volume, Counter::SecondsToPay];
    counters.extend([Counter::Received, Counter::ReceivedVolume, Counter::RefundedVolume]);
    for status in statuses {
        counters.push(Counter::Became(status));
        counters.extend(status.transaction_statuses().iter().map(|status| Counter::InStatus(*status)));
    }
    for method in PaymentMethod::all() {
        counters.extend([Counter::PaidBy(method), Counter::VolumeBy(method)]);
    }
    for hour in 0..HOURS_A_DAY {
        counters.extend([Counter::CreatedInHour(hour), Counter::PaidInHour(hour)]);
    }
    counters
}

#[test]
fn every_counter_has_a_distinct_attribute() {
    let attributes: BTreeSet<String> = all_counters().into_iter().map(Counter::attribute).collect();
    assert_eq!(attributes.len(), all_counters().len());
    assert!(!attributes.iter().any(|attribute| ["pk", "sk"].contains(&attribute.as_str())));
}

#[test]
fn a_day_row_of_a_busy_merchant_is_under_one_kilobyte() {
    // Assumes millions of charges and a volume of 13 digits. Sizes are computed as DynamoDB does.
    let size_of_number = |digits: usize| digits.div_ceil(2) + 1;
    let digits = |counter| match counter {
        Counter::Volume | Counter::VolumeBy(_) | Counter::ReceivedVolume | Counter::RefundedVolume => 13,
        Counter::SecondsToPay => 10,
        _ => 7,
    };
    let counter_bytes: usize = all_counters()
        .into_iter()
        .map(|counter| counter.attribute().len() + size_of_number(digits(counter)))
        .sum();
    let key = day_key(&waiting().scope, Day::of(at(0)), "ABCDEFGH".parse().unwrap());
    let size = "pk".len() + key.pk.len() + "sk".len() + key.sk.len() + counter_bytes;
    assert!(size < 1024, "{size} bytes");
}

#[test]
fn the_key_of_a_day_row_contains_scope_day_and_currency() {
    let key = day_key(&waiting().scope, Day::of(at(0)), Currency::BRL);
    insta::assert_snapshot!(key.pk, @"rollup#acc_0w3ge1r70w3ge1r7:test");
    insta::assert_snapshot!(key.sk, @"day#2026-11-21#BRL");
    assert_eq!(parse_day(&key.sk), Some((Day::of(at(0)), Currency::BRL)));
    assert_eq!(parse_day(&format!("{}#x", key.sk)), Some((Day::of(at(0)), Currency::BRL)));
    assert_eq!(parse_day("total"), None);
}

#[test]
fn a_refusal_at_creation_is_no_attempt_to_pay() {
    let pending = Charge { status: TransactionStatus::Pending, ..waiting() };
    let attempts = |before: &Charge, status| {
        let after = Charge { status, version: 2, ..before.clone() };
        rollup_change(Some(before), &after).unwrap().sums.get(Counter::Attempted)
    };
    assert_eq!(attempts(&pending, TransactionStatus::Refused), 0);
    assert_eq!(attempts(&pending, TransactionStatus::Paid), 1);
}

fn payable_by_pix_and_card(created_at: Timestamp) -> Charge {
    let waiting = waiting();
    let card = Card { page: None, return_url: None, expires_at: at(3600) };
    Charge {
        methods: vec![PaymentMethod::Pix, PaymentMethod::CreditCard],
        artefacts: Artefacts { card: Some(card), ..waiting.artefacts.clone() },
        created_at,
        ..waiting
    }
}

/// Applies the command or status change with the number `action` to a charge. Returns `None` if it does not
/// change the charge.
fn step(charge: &Charge, action: u8, seconds: i64) -> Option<Charge> {
    let now = at(seconds);
    let pay = |method, amount| Command::Pay {
        payment: Payment {
            id: EndToEndId::sandbox(now, [action; 8]).into(),
            method,
            amount: Amount::parse(amount).unwrap(),
            paid_at: now,
            ..payment()
        },
        terms: MethodTerms::default(),
    };
    // Status changes that refunds and MED cases make on a settled charge.
    let becomes = |from: &[TransactionStatus], status| {
        let next = Charge { status, version: charge.version + 1, updated_at: now, ..charge.clone() };
        from.contains(&charge.status).then_some(next)
    };
    let settled = [TransactionStatus::Paid, TransactionStatus::Approved];
    let command = match action {
        0 => pay(PaymentMethod::Pix, 1000),
        1 => pay(PaymentMethod::CreditCard, 1000),
        2 => pay(PaymentMethod::Pix, 999),
        3 => Command::Authenticate,
        4 => Command::Cancel,
        5 => Command::Decline(FailureReason::CardDeclined),
        6 => Command::Expire { at: now },
        7 => Command::Review { decision: Decision::Approve, terms: MethodTerms::default() },
        8 => Command::Review { decision: Decision::Return, terms: MethodTerms::default() },
        9 => return becomes(&settled, TransactionStatus::Dispute),
        10 => return becomes(&settled, TransactionStatus::Chargeback),
        11 => return becomes(&[TransactionStatus::Dispute], TransactionStatus::Paid),
        12 => Command::EndTry { decline: None },
        _ => return becomes(&settled, TransactionStatus::Refunded),
    };
    match apply(charge, &command, now).ok()? {
        Outcome::Changed(next)
        | Outcome::Paid { charge: next, .. }
        | Outcome::Credited { charge: next, .. } => Some(*next),
        Outcome::Unchanged => None,
    }
}

/// Returns all versions of a charge that a list of steps produces.
fn history(created_at: i64, has_payer_lock: bool, steps: &[(u8, i64)]) -> Vec<Charge> {
    let expected_payer = has_payer_lock.then(|| "29537995593".parse().unwrap());
    let mut versions = vec![Charge { expected_payer, ..payable_by_pix_and_card(at(created_at)) }];
    for (action, seconds) in steps {
        versions.extend(step(versions.last().unwrap(), *action, *seconds));
    }
    versions
}

/// Computes the counters of a day on which only this charge was created, from the charge's last version and
/// all its statuses.
fn recount(versions: &[Charge]) -> Sums {
    let (first, last) = (&versions[0], versions.last().unwrap());
    let mut sums = Sums::default();
    sums.add(Counter::Created, 1);
    sums.add(Counter::CreatedInHour(hour_of(first.created_at)), 1);
    sums.add(Counter::InStatus(last.status), 1);
    let attempt_statuses = ["PROCESSING", "PAID", "APPROVED", "REFUSED", "REFUNDED"];
    sums.add(
        Counter::Attempted,
        i64::from(versions.iter().any(|version| attempt_statuses.contains(&version.status.as_str()))),
    );
    let mut public_statuses: Vec<PublicStatus> =
        versions.iter().map(|version| version.status.public()).collect();
    public_statuses.dedup();
    for status in public_statuses {
        let is_counted =
            !matches!(status, PublicStatus::Pending | PublicStatus::Processing | PublicStatus::Paid);
        sums.add(Counter::Became(status), i64::from(is_counted));
    }
    if last.settlement.is_some() {
        let applied = last.applied_payment.as_ref().unwrap();
        sums.add(Counter::Paid, 1);
        sums.add(Counter::Volume, 1000);
        sums.add(Counter::SecondsToPay, applied.paid_at.millis_since(first.created_at) / 1000);
        sums.add(Counter::PaidBy(applied.method), 1);
        sums.add(Counter::VolumeBy(applied.method), 1000);
        sums.add(Counter::PaidInHour(hour_of(applied.paid_at)), 1);
    }
    sums
}

#[test]
fn a_completed_refund_counts_on_the_day_on_which_it_ended() {
    let paid = history(-86_400, false, &[(0, 0)]).pop().unwrap();
    let mut refunded = Charge { updated_at: at(86_400), ..paid.clone() };
    refunded.funds.refunded_devolution = MinorUnits::new(400);
    let change = rollup_change(Some(&paid), &refunded).unwrap();
    let days: Vec<(Day, i64)> =
        change.of_days().map(|(day, sums)| (day, sums.get(Counter::RefundedVolume))).collect();
    assert_eq!(days, [(Day::of(paid.created_at), 0), (Day::of(at(86_400)), 400)]);
    let stored = serde_json::to_string(&change).unwrap();
    assert_eq!(serde_json::from_str::<RollupChange>(&stored).unwrap(), change);
}

proptest! {
    #[test]
    fn the_sum_of_all_changes_equals_a_recount_of_the_charge(
        created_at in -86_400_i64..0,
        has_payer_lock: bool,
        steps in prop::collection::vec((0_u8..=13, 0_i64..3600), 0..8),
    ) {
        let versions = history(created_at, has_payer_lock, &steps);
        let (mut of_day, mut of_all_time) = (Sums::default(), Sums::default());
        let mut received = Vec::new();
        let before = std::iter::once(None).chain(versions.iter().map(Some));
        for (old, new) in before.zip(&versions) {
            if let Some(change) = rollup_change(old, new) {
                prop_assert_eq!(change.day, Day::of(versions[0].created_at));
                of_day.add_all(&change.sums);
                let volume = |(day, sums): (Day, &Sums)| (day, sums.get(Counter::ReceivedVolume));
                received.extend(change.of_days().map(volume).filter(|(_, volume)| *volume != 0));
                of_all_time.add_all(&change.of_all_time());
            }
        }
        let last = versions.last().unwrap();
        let paid_at = last.settlement.and(last.applied_payment.as_ref()).map(|applied| applied.paid_at);
        let on_its_day: Vec<(Day, i64)> = paid_at.map(|at| (Day::of(at), 1000)).into_iter().collect();
        prop_assert_eq!(received, on_its_day);
        let expected = recount(&versions);
        let moved = [Counter::Received, Counter::ReceivedVolume, Counter::RefundedVolume];
        for counter in all_counters().into_iter().filter(|counter| !moved.contains(counter)) {
            prop_assert_eq!(of_day.get(counter), expected.get(counter), "{:?} of {:?}", counter, versions);
            let is_in_all_time_row = matches!(counter, Counter::Created | Counter::InStatus(_));
            prop_assert_eq!(of_all_time.get(counter), if is_in_all_time_row { expected.get(counter) } else { 0 });
        }
    }
}
