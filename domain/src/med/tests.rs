//! Tests the state changes of a MED case. `domain/src/wallet/tests.rs` tests the postings of cases with
//! random steps, and `testing/service/tests/service/med.rs` tests their events.

use proptest::prelude::*;

use super::*;
use crate::charge::testing::{at, paid};
use crate::ids::Fingerprint;
use crate::payment_method::PaymentMethod;
use crate::source_address::SourceAddress;
use crate::vocabulary::Vocabulary;
use crate::wallet::LedgerAccount;

fn notification(amount: Option<i64>) -> CaseNotification {
    CaseNotification {
        id: None,
        kind: CaseKind::Med,
        reason: None,
        method: None,
        response_deadline: None,
        amount: amount.map(|amount| Amount::parse(amount).unwrap()),
        reported_at: None,
    }
}

fn opened(charge: &Charge, name: &str, amount: Option<i64>) -> CaseStep {
    MedCase::open(MedCaseId::derive(charge.id, name), charge, &notification(amount), at(100)).unwrap()
}

fn reason() -> AppealReason {
    AppealReason::parse("Entregue").unwrap()
}

#[test]
fn a_card_scheme_takes_refunded_money_again_and_what_it_took_decides_the_loss() {
    let by = |method| {
        let mut charge = paid();
        charge.applied_payment.as_mut().unwrap().method = method;
        charge.funds.refunded_devolution = MinorUnits::new(400);
        opened(&charge, "1", None)
    };
    let held = |method| by(method).charge.funds.med_held.get();
    assert_eq!((held(PaymentMethod::Pix), held(PaymentMethod::CreditCard)), (600, 1000));
    let step = by(PaymentMethod::CreditCard);
    let taken = |minor, movements| Taken { minor: MinorUnits::new(minor), movements };
    let change = |step: &CaseStep| {
        let posting = step.posting.as_ref().unwrap();
        let of = |account| posting.change(account).unwrap().get();
        (
            of(LedgerAccount::MerchantAvailable),
            of(LedgerAccount::MerchantRetained),
            of(LedgerAccount::MedLosses),
        )
    };
    let decision = (Decision::Payer, Some(taken(700, 1)));
    let lost = step.case.decided_at_acquirer(&step.charge, decision, at(120)).unwrap().unwrap();
    assert_eq!((change(&lost), lost.case.loss()), ((300, -1000, 700), Ok(MinorUnits::new(700))));
    let more = lost.case.taken_after_end(&lost.charge, taken(900, 2), at(130)).unwrap().unwrap();
    assert_eq!((change(&more), more.charge.funds.med_lost.get()), ((-200, 0, 200), 900));
    assert_eq!(more.case.taken_after_end(&more.charge, taken(700, 1), at(140)), Ok(None), "an older report");
    let less = more.case.taken_after_end(&more.charge, taken(500, 3), at(140)).unwrap().unwrap();
    assert_eq!((change(&less), less.case.loss()), ((400, 0, -400), Ok(MinorUnits::new(500))));
    assert_eq!(less.case.taken_after_end(&less.charge, taken(500, 3), at(150)), Ok(None));
}

#[test]
fn a_case_makes_only_the_state_changes_of_the_contract() {
    let step = opened(&paid(), "1", None);
    let (open, charge) = (&step.case, &step.charge);
    let appealed = open.appealed(charge, &reason(), at(110)).unwrap().case;
    assert_eq!((appealed.status, appealed.money_outcome), (CaseStatus::Appealed, None));
    assert!(appealed.appealed(charge, &reason(), at(120)).is_none());
    assert!(appealed.accepted(charge, at(120)).unwrap().is_none());
    let lost = (CaseStatus::Rejected, Some(MoneyOutcome::Lost));
    let won = (CaseStatus::Closed, Some(MoneyOutcome::RefundedToMerchant));
    let kept = (CaseStatus::Closed, Some(MoneyOutcome::ClosedWithoutRefund));
    for case in [open, &appealed] {
        for (decision, expected) in [
            (Decision::Payer, lost),
            (Decision::Merchant, won),
            (Decision::Withdrawn, won),
            (Decision::ClosedWithoutRefund, kept),
        ] {
            let end = case.decided(charge, decision, at(130)).unwrap().unwrap();
            assert_eq!((end.case.status, end.case.money_outcome), expected);
            assert_eq!(end.case.closed_at, Some(at(130)));
            assert_eq!(end.posting.unwrap().change(LedgerAccount::MerchantRetained).unwrap(), -1000);
            // A final status never changes.
            for second in Decision::all() {
                assert!(end.case.decided(&end.charge, second, at(140)).unwrap().is_none());
            }
            assert!(end.case.accepted(&end.charge, at(140)).unwrap().is_none());
            assert!(end.case.appealed(&end.charge, &reason(), at(140)).is_none());
            assert!(end.case.evidence_requested(&end.charge, at(140)).is_none());
            assert!(end.case.confirmed(&end.charge, at(140)).unwrap().is_none());
        }
    }
    let accepted = open.accepted(charge, at(120)).unwrap().unwrap().case;
    assert_eq!((accepted.status, accepted.money_outcome), (CaseStatus::Accepted, Some(MoneyOutcome::Lost)));
}

#[test]
fn a_charge_with_a_lost_case_stays_disputed_after_another_case_is_won() {
    let first = opened(&paid(), "1", None);
    let second = opened(&first.charge, "2", None);
    assert_eq!((first.case.moved.get(), second.case.moved.get()), (1000, 0));
    assert_eq!(second.posting, None);
    let lost = first.case.decided(&second.charge, Decision::Payer, at(110)).unwrap().unwrap();
    assert_eq!(lost.charge.status, TransactionStatus::Dispute);
    let won = second.case.decided(&lost.charge, Decision::Merchant, at(120)).unwrap().unwrap();
    assert_eq!((won.charge.status, won.posting), (TransactionStatus::Dispute, None));
    assert!(!won.charge.has_open_case());
}

#[test]
fn an_unconfirmed_case_holds_no_money_but_blocks_refunds() {
    let step = opened(&paid(), "1", Some(300));
    assert_eq!(
        (step.charge.status, step.posting.clone(), step.case.moved.get()),
        (TransactionStatus::Paid, None, 0)
    );
    assert!(step.charge.has_open_case() && step.charge.disputes.as_ref().unwrap().latest.amount_mismatch);
    let confirmed = step.case.confirmed(&step.charge, at(110)).unwrap().unwrap();
    assert_eq!((confirmed.charge.status, confirmed.case.moved.get()), (TransactionStatus::Dispute, 300));
    assert!(confirmed.case.confirmed(&confirmed.charge, at(120)).unwrap().is_none());
    let disputes = confirmed.charge.disputes.as_ref().unwrap();
    assert_eq!((disputes.open, disputes.unconfirmed), (1, 0));
    let lost = step.case.decided(&step.charge, Decision::Payer, at(110)).unwrap().unwrap();
    let posting = lost.posting.unwrap();
    assert_eq!(posting.change(LedgerAccount::MerchantAvailable).unwrap(), -300);
    assert_eq!(posting.change(LedgerAccount::MedLosses).unwrap(), 300);
    assert_eq!((lost.charge.status, lost.charge.funds.med_lost.get()), (TransactionStatus::Paid, 300));
    for decision in Decision::all() {
        let end = step.case.decided(&step.charge, decision, at(110)).unwrap().unwrap();
        let unconfirmed = end.charge.disputes.as_ref().unwrap().unconfirmed;
        assert_eq!((end.case.unconfirmed, unconfirmed, end.charge.has_open_case()), (false, 0, false));
        assert_eq!(end.charge.status, TransactionStatus::Paid);
    }
    let won = step.case.decided(&step.charge, Decision::Merchant, at(110)).unwrap().unwrap();
    assert_eq!(won.posting, None);
}

#[test]
fn a_case_accepts_evidence_until_it_is_over_or_full() {
    let step = opened(&paid(), "1", None);
    let appealed = step.case.appealed(&step.charge, &reason(), at(110)).unwrap().case;
    for case in [&step.case, &appealed] {
        assert!(case.check_evidence_allowed().is_ok());
        let last = MedCase { evidence_count: MAX_EVIDENCE - 1, ..case.clone() };
        let full = last.with_evidence(at(120)).unwrap();
        assert_eq!((full.evidence_count, full.version), (MAX_EVIDENCE, case.version + 1));
        assert_eq!((full.status, full.updated_at), (case.status, at(120)));
        assert!(matches!(full.with_evidence(at(130)), Err(EvidenceRefused::Full)));
    }
    for decision in Decision::all() {
        let over = step.case.decided(&step.charge, decision, at(130)).unwrap().unwrap().case;
        assert!(matches!(over.check_evidence_allowed(), Err(EvidenceRefused::CaseOver(_))));
        assert!(matches!(over.with_evidence(at(140)), Err(EvidenceRefused::CaseOver(_))));
    }
}

#[test]
fn a_case_lost_before_its_confirmation_does_not_keep_its_charge_disputed() {
    let small = opened(&paid(), "1", Some(300));
    let lost = small.case.decided(&small.charge, Decision::Payer, at(110)).unwrap().unwrap();
    let second = opened(&lost.charge, "2", None);
    assert_eq!((second.case.moved.get(), second.charge.status), (700, TransactionStatus::Dispute));
    let won = second.case.decided(&second.charge, Decision::Merchant, at(120)).unwrap().unwrap();
    assert_eq!(won.charge.status, TransactionStatus::Paid);
}

#[test]
fn the_med_block_of_a_charges_metadata_has_the_time_of_its_cases_last_change() {
    let open = opened(&paid(), "1", None);
    let times = |charge: &Charge| {
        let block = &charge.disputes.as_ref().unwrap().latest;
        assert_eq!(block.updated_at, block.last_event_at);
        block.last_event_at
    };
    assert_eq!(times(&open.charge), at(100));
    let requested = open.case.evidence_requested(&open.charge, at(110)).unwrap();
    assert_eq!(times(&requested.charge), at(110));
    let appealed = requested.case.appealed(&requested.charge, &reason(), at(120)).unwrap();
    assert_eq!((times(&appealed.charge), appealed.charge.status), (at(120), TransactionStatus::Dispute));
    // The block describes only the case that opened last.
    let second = opened(&appealed.charge, "2", Some(300));
    let closed = appealed.case.decided(&second.charge, Decision::Merchant, at(130)).unwrap().unwrap();
    assert_eq!(times(&closed.charge), second.case.created_at);
    let block = &closed.charge.disputes.as_ref().unwrap().latest;
    assert_eq!((block.status, block.amount_mismatch), (MedStatus::Created, true));
    let confirmed = second.case.confirmed(&closed.charge, at(140)).unwrap().unwrap();
    assert_eq!(times(&confirmed.charge), at(140));
    assert!(!confirmed.charge.disputes.unwrap().latest.amount_mismatch);
}

#[test]
fn a_case_and_the_med_block_record_each_change() {
    let open = opened(&paid(), "1", None);
    let requested = open.case.evidence_requested(&open.charge, at(110)).unwrap();
    assert_eq!(requested.case.evidence_requested_at, Some(at(110)));
    let appealed = requested.case.appealed(&requested.charge, &reason(), at(120)).unwrap();
    assert_eq!(appealed.case.appeal_reason.as_deref(), Some("Entregue"));
    assert_eq!(appealed.case.appealed_at, Some(at(120)));
    for (decision, status, result) in [
        (Decision::Merchant, MedStatus::Closed, Some("disagreed")),
        (Decision::Payer, MedStatus::Closed, Some("agreed")),
        (Decision::Withdrawn, MedStatus::Canceled, None),
        (Decision::ClosedWithoutRefund, MedStatus::Closed, Some("agreed")),
    ] {
        let end = appealed.case.decided(&appealed.charge, decision, at(130)).unwrap().unwrap();
        for other in Decision::all() {
            assert_eq!(end.case.ended_by(other), other == decision, "{decision:?}");
        }
        let block = end.charge.disputes.unwrap().latest;
        assert_eq!((block.status, block.result.as_deref()), (status, result), "{decision:?}");
        assert_eq!(
            (block.updated_at, block.last_event_at, block.closed_at),
            (at(130), at(130), Some(at(130)))
        );
        let applied = end.charge.applied_payment.unwrap();
        let subject = Subject {
            charge: Some(end.charge.id),
            payment: Some(applied.payment_id),
            case: Some(end.case.id),
            ..Subject::default()
        };
        assert_eq!(end.posting.unwrap().subject, subject);
    }
}

#[test]
fn an_appeal_has_5_to_2000_legible_characters() {
    for text in ["Entre", "linha 1\n\tlinha 2", &"é".repeat(2_000)] {
        assert_eq!(AppealReason::parse(text).unwrap().as_str(), text);
    }
    for text in
        ["Entr", &"e".repeat(2_001), "      ", "Entregue\u{7}", "\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}"]
    {
        assert_eq!(AppealReason::parse(text), None, "{text:?}");
    }
}

#[test]
fn change_times_strictly_increase_when_an_older_request_commits_second() {
    let open = opened(&paid(), "1", None);
    let appealed = open.case.appealed(&open.charge, &reason(), at(120)).unwrap();
    let over = appealed.case.decided(&appealed.charge, Decision::Merchant, at(110)).unwrap().unwrap();
    assert!(over.case.closed_at > over.case.appealed_at);
    assert_eq!(over.case.closed_at, Some(over.case.updated_at));
    assert!(over.case.published_updates.is_sorted_by(|earlier, later| earlier.at < later.at));
    assert_eq!(over.posting.unwrap().at, over.case.updated_at);
    assert!(over.charge.updated_at > appealed.charge.updated_at);
    let status_changes = over.charge.status_changes();
    assert!(
        status_changes.is_sorted_by(|(earlier, _), (later, _)| earlier.at < later.at),
        "{status_changes:?}"
    );
}

#[test]
fn money_released_by_a_won_case_stays_held_for_other_cases_that_claim_it() {
    let first = opened(&paid(), "1", None);
    let second = opened(&first.charge, "2", None);
    let won = first.case.decided(&second.charge, Decision::Merchant, at(110)).unwrap().unwrap();
    assert_eq!((won.posting, won.case.moved.get()), (None, 0));
    assert_eq!((won.charge.status, won.charge.funds.med_held.get()), (TransactionStatus::Dispute, 1000));
    let lost = second.case.accepted(&won.charge, at(120)).unwrap().unwrap();
    assert_eq!(lost.posting.unwrap().change(LedgerAccount::MedLosses).unwrap(), 1000);
    assert_eq!((lost.case.moved.get(), lost.charge.funds.med_lost.get()), (1000, 1000));
    // When both cases are won, the last one returns all the money.
    let won = second.case.decided(&won.charge, Decision::Withdrawn, at(120)).unwrap().unwrap();
    assert_eq!(won.posting.unwrap().change(LedgerAccount::MerchantAvailable).unwrap(), 1000);
    assert_eq!(won.charge.status, TransactionStatus::Paid);
}

#[test]
fn a_case_is_in_the_shard_of_its_charge() {
    let charge = Charge { shards: crate::shard::ShardCount::MAX, ..paid() };
    assert!(!charge.shard().is_first());
    assert_eq!(opened(&charge, "1", None).case.shard(), charge.shard());
}

#[test]
fn a_fully_refunded_charge_stays_refunded_after_every_decision() {
    let charge = paid();
    let funds = domain::charge::Funds { refunded_devolution: charge.amount.into(), ..charge.funds };
    let refunded = Charge { status: TransactionStatus::Refunded, funds, ..charge };
    let open = opened(&refunded, "1", None);
    assert_eq!((open.charge.status, open.posting.clone()), (TransactionStatus::Refunded, None));
    for decision in Decision::all() {
        let over = open.case.decided(&open.charge, decision, at(110)).unwrap().unwrap();
        assert_eq!((over.charge.status, over.posting), (TransactionStatus::Refunded, None), "{decision:?}");
    }
}

#[test]
fn a_case_stores_at_most_its_latest_16_published_updates() {
    let open = opened(&paid(), "1", None);
    let mut case = open.case;
    assert!(case.published_updates.is_empty(), "the opening is not an update");
    for second in 110..140 {
        case = case.evidence_requested(&open.charge, at(second)).unwrap().case;
    }
    let with_evidence = case.with_evidence(at(140)).unwrap();
    assert_eq!(with_evidence.published_updates, case.published_updates, "new evidence is not published");
    let over = with_evidence.accepted(&open.charge, at(150)).unwrap().unwrap().case;
    assert_eq!(over.published_updates.len(), MAX_UPDATES);
    assert_eq!(over.published_updates.last(), Some(&CaseUpdate { version: over.version, at: at(150) }));
    assert_eq!(over.published_updates[0].at, at(110 + 30 + 1 - i64::try_from(MAX_UPDATES).unwrap()));
}

fn amount(minor: i64) -> Amount {
    Amount::parse(minor).unwrap()
}

#[test]
fn a_partly_lost_case_retains_the_rest_of_its_claim_until_it_ends() {
    let open = opened(&paid(), "1", None);
    let part = open.case.partially_lost(&open.charge, amount(300), at(110)).unwrap().unwrap();
    assert_eq!((part.case.status, part.charge.status), (CaseStatus::Open, TransactionStatus::Dispute));
    assert_eq!((part.case.lost.get(), part.case.moved.get()), (300, 700));
    let posting = part.posting.as_ref().unwrap();
    assert_eq!(posting.change(LedgerAccount::MerchantRetained).unwrap(), -300);
    assert_eq!(posting.change(LedgerAccount::MedLosses).unwrap(), 300);
    assert!(part.case.published_updates.is_empty(), "the case's status did not change");
    let funds = part.charge.funds;
    assert_eq!((funds.med_held.get(), funds.med_claimed.get(), funds.med_lost.get()), (700, 700, 300));
    let second = part.case.partially_lost(&part.charge, amount(200), at(120)).unwrap().unwrap();
    assert_eq!(second.case.lost.get(), 500);
    let won = second.case.decided(&second.charge, Decision::Merchant, at(130)).unwrap().unwrap();
    assert_eq!(won.posting.unwrap().change(LedgerAccount::MerchantAvailable).unwrap(), 500);
    assert_eq!((won.charge.status, won.charge.funds.med_lost.get()), (TransactionStatus::Paid, 500));
    let lost = second.case.decided(&second.charge, Decision::Payer, at(130)).unwrap().unwrap();
    assert_eq!(lost.posting.unwrap().change(LedgerAccount::MedLosses).unwrap(), 500);
    assert_eq!((lost.charge.funds.med_lost.get(), lost.charge.funds.med_held.get()), (1000, 0));
    let corrupt = MedCase { lost: part.case.amount.into(), ..part.case.clone() };
    assert_eq!(corrupt.remaining(), Err(FundsError::LostAboveClaim));
}

#[test]
fn an_unconfirmed_case_that_is_partly_lost_claims_only_the_part() {
    let open = opened(&paid(), "1", Some(600));
    let part = open.case.partially_lost(&open.charge, amount(200), at(110)).unwrap().unwrap();
    assert!(part.case.unconfirmed);
    let posting = part.posting.as_ref().unwrap();
    assert_eq!(posting.change(LedgerAccount::MerchantAvailable).unwrap(), -200);
    assert_eq!((part.charge.funds.med_held.get(), part.charge.funds.med_lost.get()), (0, 200));
    assert_eq!((part.case.moved.get(), part.charge.status), (0, TransactionStatus::Paid));
    let confirmed = part.case.confirmed(&part.charge, at(120)).unwrap().unwrap();
    assert_eq!((confirmed.case.moved.get(), confirmed.charge.funds.med_held.get()), (400, 400));
    let lost = part.case.decided(&part.charge, Decision::Payer, at(120)).unwrap().unwrap();
    assert_eq!(lost.charge.funds.med_lost.get(), 600);
}

#[test]
fn a_change_records_its_caller_and_a_new_version() {
    let step = opened(&paid(), "1", None);
    let actor = |version| Actor {
        by: crate::actor::ActorId::Key(Fingerprint::of(&"key".into())),
        source: SourceAddress::default(),
        version,
    };
    let by = step.clone().by(actor);
    assert_eq!(by.case, MedCase { actor: Some(actor(step.case.version)), ..step.case.clone() });
    let known = step.case.of_infraction("infraction-1");
    assert_eq!((known.infraction.as_deref(), known.version), (Some("infraction-1"), step.case.version + 1));
}

#[test]
fn an_older_notice_of_the_payers_bank_changes_nothing() {
    let reported = |reported_at, text: &str| CaseNotification {
        reason: Some(text.to_owned()),
        method: Some("scam"),
        response_deadline: Some(at(900)),
        reported_at: Some(reported_at),
        ..notification(None)
    };
    let charge = paid();
    let open = |first| MedCase::open(MedCaseId::derive(charge.id, "1"), &charge, &first, at(100)).unwrap();
    let step = open(reported(at(50), "first"));
    assert!(step.case.reported_again(&step.charge, &reported(at(50), "second"), at(110)).is_none());
    assert!(step.case.reported_again(&step.charge, &reported(at(49), "second"), at(110)).is_none());
    let newer = CaseNotification { method: None, ..reported(at(51), "second") };
    let again = step.case.reported_again(&step.charge, &newer, at(110)).unwrap();
    assert_eq!((again.case.reason.as_deref(), again.case.reported_at), (Some("second"), Some(at(51))));
    assert_eq!((again.case.status, again.posting.clone()), (CaseStatus::Open, None));
    let block = &again.charge.disputes.as_ref().unwrap().latest;
    assert_eq!((block.reason.as_deref(), block.method.as_deref()), (Some("second"), Some("scam")));
    assert_eq!(block.last_event_at, at(110));
    let extended = CaseNotification { response_deadline: Some(at(950)), ..newer };
    let longer = step.case.reported_again(&step.charge, &extended, at(110)).unwrap().case;
    assert_eq!(longer.response_deadline, Some(at(950)));
    let without = CaseNotification { reported_at: Some(at(52)), ..notification(None) };
    let kept = again.case.reported_again(&again.charge, &without, at(120)).unwrap().case;
    assert_eq!((kept.reason.as_deref(), kept.response_deadline), (Some("second"), Some(at(900))));
    let over = again.case.decided(&again.charge, Decision::Merchant, at(130)).unwrap().unwrap();
    assert!(over.case.reported_again(&over.charge, &reported(at(60), "late"), at(140)).is_none());
    // A case that the sandbox opened has no time, so every notice is newer.
    let unreported = opened(&charge, "2", None);
    assert!(unreported.case.reported_again(&unreported.charge, &reported(at(1), "first"), at(110)).is_some());
}

#[test]
fn an_open_case_is_due_for_the_reminders_before_its_deadline_until_it_is_answered() {
    const HOUR: i64 = 3_600;
    let open = |deadline| {
        let with_deadline = CaseNotification { response_deadline: deadline, ..notification(None) };
        MedCase::open(MedCaseId::derive(paid().id, "1"), &paid(), &with_deadline, at(100)).unwrap()
    };
    let due = |case: &MedCase| case.indexes().due;
    let step = open(Some(at(100 * HOUR)));
    let mut case = step.case.clone();
    for (hours, next) in [(52, Some(at(76 * HOUR))), (76, Some(at(94 * HOUR))), (94, None)] {
        let now = at(hours * HOUR);
        assert_eq!((due(&case), case.reminded(at(hours * HOUR - 1))), (Some(now), None));
        let sent = case.reminded(now).unwrap();
        assert_eq!(
            (sent.version, sent.reminders.len(), due(&sent)),
            (case.version + 1, case.reminders.len() + 1, next)
        );
        case = sent;
    }
    assert_eq!(case.reminded(at(99 * HOUR)), None);
    // Another deadline has reminders of its own.
    let later = MedCase { response_deadline: Some(at(200 * HOUR)), ..case };
    assert_eq!(due(&later), Some(at(152 * HOUR)));
    // Those that are past are sent as one, and none after the deadline.
    let late = step.case.reminded(at(80 * HOUR)).unwrap();
    assert_eq!((late.reminders.len(), due(&late)), (1, Some(at(94 * HOUR))));
    let missed = late.reminded(at(101 * HOUR)).unwrap();
    assert_eq!((missed.reminders.len(), due(&missed)), (1, None));
    let appealed = step.case.appealed(&step.charge, &reason(), at(200)).unwrap().case;
    assert_eq!((due(&appealed), appealed.reminded(at(90 * HOUR))), (None, None));
    for deadline in [None, Some(at(50))] {
        assert_eq!(due(&open(deadline).case), None);
    }
}

/// A change of one of the cases of a charge.
#[derive(Clone, Debug)]
enum Change {
    Open { claim: i64 },
    LosePart { case: usize, part: i64 },
    Confirm { case: usize },
    End { case: usize, decision: usize },
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let case = any::<usize>;
    let change = prop_oneof![
        2 => prop_oneof![Just(1000), 1_i64..1500].prop_map(|claim| Change::Open { claim }),
        3 => (case(), 1_i64..1000).prop_map(|(case, part)| Change::LosePart { case, part }),
        1 => case().prop_map(|case| Change::Confirm { case }),
        2 => (case(), case()).prop_map(|(case, decision)| Change::End { case, decision }),
    ];
    proptest::collection::vec(change, 1..40)
}

proptest! {
    #[test]
    fn postings_of_partly_lost_cases_agree_with_the_charges_funds(changes in changes()) {
        let mut charge = paid();
        let mut cases: Vec<MedCase> = Vec::new();
        let (mut retained, mut losses, mut available) = (0, 0, 0);
        let decisions: Vec<Decision> = Decision::all().collect();
        for (number, change) in changes.iter().enumerate() {
            let now = at(200 + i64::try_from(number).unwrap());
            let pick = |index: &usize| index.checked_rem(cases.len());
            let (index, step) = match change {
                Change::Open { claim } => {
                    let id = MedCaseId::derive(charge.id, &number.to_string());
                    (None, Some(MedCase::open(id, &charge, &notification(Some(*claim)), now).unwrap()))
                }
                Change::LosePart { case, part } => {
                    let Some(index) = pick(case) else { continue };
                    let rest = cases[index].remaining().unwrap();
                    let step = cases[index].partially_lost(&charge, amount(*part), now).unwrap();
                    prop_assert_eq!(step.is_some(), !cases[index].status.is_over() && amount(*part) < rest);
                    (Some(index), step)
                }
                Change::Confirm { case } => {
                    let Some(index) = pick(case) else { continue };
                    (Some(index), cases[index].confirmed(&charge, now).unwrap())
                }
                Change::End { case, decision } => {
                    let Some(index) = pick(case) else { continue };
                    let decision = decisions[decision % decisions.len()];
                    (Some(index), cases[index].decided(&charge, decision, now).unwrap())
                }
            };
            let Some(step) = step else { continue };
            if let Some(posting) = &step.posting {
                retained += posting.change(LedgerAccount::MerchantRetained).unwrap().get();
                losses += posting.change(LedgerAccount::MedLosses).unwrap().get();
                available += posting.change(LedgerAccount::MerchantAvailable).unwrap().get();
            }
            charge = step.charge;
            match index {
                Some(index) => cases[index] = step.case,
                None => cases.push(step.case),
            }
            let funds = charge.funds.checked(charge.amount).unwrap();
            prop_assert_eq!((funds.med_held.get(), funds.med_lost.get()), (retained, losses));
            prop_assert_eq!(retained + losses + available, 0);
            let claims = |is_claimed: fn(&MedCase) -> bool| -> i64 {
                let open = cases.iter().filter(|case| !case.status.is_over() && is_claimed(case));
                open.map(|case| case.remaining().unwrap().minor()).sum()
            };
            prop_assert_eq!(funds.med_claimed.get(), claims(|case| !case.unconfirmed));
            let taken: i64 = cases.iter().map(|case| case.lost.get()).sum();
            prop_assert!(funds.med_lost.get() + funds.med_unmet.get() >= taken);
        }
    }
}
