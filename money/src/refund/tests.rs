//! Tests the state machine of refunds and the validation of requests. The tests in
//! `domain/src/wallet/tests.rs` cover the effects on wallets.

use serde_json::{Value, json};

use domain::account::{AccountSettings, ThirdPartyLimits};
use domain::acquirer::{AcquirerName, RefundCapabilities};
use domain::calendar::Day;
use domain::charge::{Charge, RefundRefused, TransactionStatus};
use domain::ids::MedCaseId;
use domain::med::{CaseStep, Decision, MedCase};
use domain::money::MinorUnits;
use domain::payment_method::PaymentMethod;
use domain::refund::*;
use domain::row::Row;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::wallet::{LedgerAccount, RefundStrategy, Settlement};

use crate::charge::testing::{at, paid};
use crate::refund::{NewRefund, RefundError};
use crate::testing::object;
use shared::http::{JsonObject, Problem};
use shared::store::StoreError;

fn parse(extra: Value) -> Result<NewRefund, Problem> {
    let mut body = json!({"idempotencyKey": "refund-01"});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    NewRefund::parse(&object(&body))
}

fn settings(pix_out_fee: i64) -> AccountSettings {
    AccountSettings {
        pix_out_fee: MinorUnits::new(pix_out_fee),
        ..AccountSettings::new("Loja Exemplo", "Recife")
    }
}

fn requested(charge: &Charge, key: &str, extra: Value) -> Result<RefundStep, RefundRefused> {
    let mut extra = extra;
    extra["idempotencyKey"] = json!(key);
    let request = parse(extra).unwrap();
    let plan = request.plan(charge, RefundCapabilities::SANDBOX, &settings(0), at(100)).unwrap();
    Refund::request(request.id(charge.id), charge, plan, at(100))
}

fn plan(
    charge: &Charge,
    extra: Value,
    settings: &AccountSettings,
    now: Timestamp,
) -> Result<RefundPlan, RefundError> {
    parse(extra).unwrap().plan(charge, RefundCapabilities::SANDBOX, settings, now)
}

fn ended(refund: &Refund, charge: &Charge, end: RefundOutcome) -> RefundStep {
    refund.started(charge, at(101)).unwrap().unwrap().ended(charge, end, at(103)).unwrap().unwrap()
}

#[test]
fn a_refund_ends_once_and_only_from_in_progress() {
    let step = requested(&paid(), "refund-01", json!({})).unwrap();
    assert_eq!((step.refund.status, step.charge.status), (RefundStatus::Pending, TransactionStatus::Paid));
    assert_eq!(step.refund.ended(&step.charge, RefundOutcome::Refunded, at(101)).unwrap(), None);
    let started = step.refund.started(&step.charge, at(101)).unwrap().unwrap();
    assert_eq!(
        (started.status, started.version, started.started(&step.charge, at(102)).unwrap()),
        (RefundStatus::InProgress, 2, None)
    );
    for (end, status, charge_status) in [
        (RefundOutcome::Refunded, RefundStatus::Refunded, TransactionStatus::Refunded),
        (RefundOutcome::Failed, RefundStatus::Failed, TransactionStatus::Paid),
    ] {
        let done = started.ended(&step.charge, end, at(103)).unwrap().unwrap();
        assert_eq!((done.refund.status, done.refund.version, done.charge.status), (status, 3, charge_status));
        assert_eq!(done.refund.indexes().due, None);
        for repeated in [RefundOutcome::Refunded, RefundOutcome::Failed] {
            assert_eq!(done.refund.ended(&done.charge, repeated, at(104)).unwrap(), None);
        }
        assert_eq!(done.refund.started(&done.charge, at(104)), Ok(None));
    }
}

#[test]
fn an_unfinished_refund_is_due_two_minutes_after_its_creation_and_then_after_its_last_change() {
    let step = requested(&paid(), "refund-01", json!({})).unwrap();
    let due = |now| step.refund.started(&step.charge, now).unwrap().unwrap().indexes().due;
    let after = |seconds| step.refund.created_at.saturating_plus_seconds(seconds);
    assert_eq!(step.refund.indexes().due, Some(after(120)));
    assert_eq!([1, 119, 120].map(|now| due(after(now))), [120, 120, 240].map(|due| Some(after(due))));
}

#[test]
fn step_times_increase_even_when_the_clock_goes_back() {
    let step = requested(&paid(), "refund-01", json!({})).unwrap();
    let started = step.refund.started(&step.charge, at(90)).unwrap().unwrap();
    let done = started.ended(&step.charge, RefundOutcome::Refunded, at(80)).unwrap().unwrap();
    let times: Vec<Timestamp> = done.refund.steps().map(|(_, _, at)| at).collect();
    assert!(times.len() == 3 && times.is_sorted_by(|earlier, later| earlier < later), "{times:?}");
}

#[test]
fn only_a_rule_refuses_a_refund() {
    assert!(RefundError::PayerOnly.is_refusal());
    assert!(!RefundError::Store(StoreError::Corrupt(String::new())).is_refusal());
}

#[test]
fn a_pix_is_returned_by_devolution_for_ninety_days_also_with_a_test_key() {
    for acquirer in [AcquirerName::Sandbox, AcquirerName::Pix] {
        let charge = Charge { acquirer, ..paid() };
        let plan = |extra, now| plan(&charge, extra, &settings(0), now);
        let paid_at = charge.applied_payment.as_ref().unwrap().paid_at;
        let last = paid_at.saturating_plus_seconds(90 * 24 * 60 * 60);
        let later = last.plus_millis(1).unwrap();
        let devolution = json!({"strategy": "devolution"});
        plan(devolution.clone(), last).unwrap();
        assert!(matches!(plan(devolution, later), Err(RefundError::TooOldForDevolution)));
        plan(json!({"destinationKey": "maria@example.com"}), later).unwrap();
    }
}

#[test]
fn only_a_settled_and_undisputed_charge_can_be_refunded() {
    for (status, refused) in [
        (TransactionStatus::WaitingPayment, RefundRefused::NotSettled),
        (TransactionStatus::Processing, RefundRefused::NotSettled),
        (TransactionStatus::Expired, RefundRefused::NotSettled),
        (TransactionStatus::Refunded, RefundRefused::NotSettled),
        (TransactionStatus::Dispute, RefundRefused::CaseLost),
        (TransactionStatus::Chargeback, RefundRefused::CaseLost),
    ] {
        let charge = Charge { status, ..paid() };
        assert_eq!(requested(&charge, "refund-01", json!({})), Err(refused), "{status:?}");
    }
}

fn disputed(charge: &Charge) -> CaseStep {
    let notification = crate::med::request::case_notification(&JsonObject::new()).unwrap();
    MedCase::open(MedCaseId::derive(charge.id, "1"), charge, &notification, at(102)).unwrap()
}

fn devolution(amount: i64) -> RefundStep {
    requested(&paid(), "refund-01", json!({"amount": amount, "strategy": "devolution"})).unwrap()
}

#[test]
fn a_charge_stays_disputed_when_a_refund_ends_during_the_dispute() {
    let step = devolution(1000);
    let case = disputed(&step.charge);
    let done = ended(&step.refund, &case.charge, RefundOutcome::Refunded);
    assert_eq!(
        (done.charge.status, done.charge.funds.refunded().unwrap().get()),
        (TransactionStatus::Dispute, 1000)
    );
    // The refund returned the whole amount. So the charge is refunded after every decision, whether the
    // refund or the case ends first.
    for decision in Decision::all() {
        let over = case.case.decided(&done.charge, decision, at(104)).unwrap().unwrap();
        assert_eq!((over.charge.status, over.posting), (TransactionStatus::Refunded, None));
        let over = case.case.decided(&case.charge, decision, at(102)).unwrap().unwrap();
        let done = ended(&step.refund, &over.charge, RefundOutcome::Refunded);
        assert_eq!(done.charge.status, TransactionStatus::Refunded);
    }
}

#[test]
fn a_fully_refunded_charge_ends_as_refunded_even_if_a_case_is_lost() {
    let step = requested(&paid(), "refund-01", json!({"strategy": "cashout"})).unwrap();
    let case = disputed(&step.charge);
    assert_eq!(case.case.moved, 1000, "a cash-out does not reduce the amount that a case can claim");
    let done = ended(&step.refund, &case.charge, RefundOutcome::Refunded);
    let lost = case.case.accepted(&done.charge, at(104)).unwrap().unwrap();
    assert_eq!(
        (done.charge.status, lost.charge.status),
        (TransactionStatus::Dispute, TransactionStatus::Refunded)
    );
    let again = disputed(&Charge { disputes: None, ..lost.charge });
    assert_eq!(again.charge.status, TransactionStatus::Refunded);
    assert_eq!(requested(&again.charge, "refund-02", json!({})), Err(RefundRefused::NotSettled));
}

#[test]
fn the_amount_of_a_failed_refund_goes_to_the_case_that_claimed_it() {
    let step = devolution(400);
    let case = disputed(&step.charge);
    assert_eq!(case.case.moved, 600);
    assert_eq!(requested(&case.charge, "refund-02", json!({})), Err(RefundRefused::Disputed));
    let change = |step: &RefundStep, account| step.posting.change(account).unwrap();
    // The case is still open, so it retains the refund's amount too.
    let failed = ended(&step.refund, &case.charge, RefundOutcome::Failed);
    assert_eq!(change(&failed, LedgerAccount::MerchantRetained), 400);
    assert_eq!(change(&failed, LedgerAccount::MerchantAvailable), 0);
    let lost = case.case.accepted(&failed.charge, at(104)).unwrap().unwrap();
    assert_eq!((lost.case.moved.get(), lost.charge.funds.med_lost.get()), (1000, 1000));
    let won = case.case.decided(&failed.charge, Decision::Merchant, at(104)).unwrap().unwrap();
    assert_eq!((won.case.moved.get(), won.charge.status), (1000, TransactionStatus::Paid));
    // The case was lost before the refund failed, so the refund's amount is lost too.
    let lost = case.case.accepted(&case.charge, at(102)).unwrap().unwrap();
    let failed = ended(&step.refund, &lost.charge, RefundOutcome::Failed);
    assert_eq!(change(&failed, LedgerAccount::MedLosses), 400);
    assert_eq!(failed.posting.subject.case, Some(case.case.id));
    assert_eq!(change(&failed, LedgerAccount::MerchantAvailable), 0);
    assert_eq!(failed.posting.amount.checked_sub(failed.posting.fee), failed.posting.net());
    assert_eq!((failed.charge.status, failed.charge.funds.med_unmet.get()), (TransactionStatus::Dispute, 0));
    // The case was won before the refund failed, so the merchant gets the refund's amount back.
    let won = case.case.decided(&case.charge, Decision::Merchant, at(102)).unwrap().unwrap();
    let failed = ended(&step.refund, &won.charge, RefundOutcome::Failed);
    assert_eq!(change(&failed, LedgerAccount::MerchantAvailable), 400);
    assert_eq!(failed.posting.subject.case, None);
    assert!(failed.charge.funds.is_whole());
}

#[test]
fn the_merchant_chooses_the_strategy_of_a_pix_refund() {
    let strategy = |charge: &Charge, extra| {
        let parameters = plan(charge, extra, &settings(25), at(100)).unwrap().parameters;
        (parameters.strategy, parameters.pix_out_fee.get())
    };
    let (cashout, devolution) = ((RefundStrategy::Cashout, 25), (RefundStrategy::Devolution, 0));
    assert_eq!(strategy(&paid(), json!({})), cashout);
    let to_key = json!({"strategy": "cashout", "destinationKey": "maria@example.com"});
    assert_eq!(strategy(&paid(), to_key), cashout);
    assert_eq!(strategy(&paid(), json!({"strategy": "devolution"})), devolution);
    // An acquirer that cannot send a Pix refuses a request that needs a cash-out.
    let without_cashout = |extra: Value| parse(extra).unwrap().strategy_of_pix(false);
    assert_eq!(without_cashout(json!({})).unwrap(), RefundStrategy::Devolution);
    for extra in [
        json!({"strategy": "cashout"}),
        json!({"destinationKey": "29537995593"}),
        json!({"passFeeToTenant": true}),
    ] {
        assert!(matches!(without_cashout(extra), Err(RefundError::CashoutNotSupported)));
    }
    let by = |method| {
        let mut charge = paid();
        charge.applied_payment.as_mut().unwrap().method = method;
        charge
    };
    let plan = |method, extra| plan(&by(method), extra, &settings(25), at(100));
    assert_eq!(strategy(&by(PaymentMethod::CreditCard), json!({})), devolution);
    for extra in [
        json!({"strategy": "devolution"}),
        json!({"destinationKey": "29537995593"}),
        json!({"passFeeToTenant": true}),
    ] {
        assert!(matches!(plan(PaymentMethod::CreditCard, extra), Err(RefundError::OnlyForPix(_))));
    }
    for method in
        [PaymentMethod::Boleto, PaymentMethod::Mbway, PaymentMethod::Multibanco, PaymentMethod::Crypto]
    {
        assert!(matches!(plan(method, json!({})), Err(RefundError::MethodNotSupported(_))), "{method:?}");
    }
}

#[test]
fn each_change_of_a_refund_copies_the_charges_current_state() {
    let first = requested(&paid(), "refund-01", json!({"amount": 300})).unwrap();
    let second = requested(&first.charge, "refund-02", json!({"amount": 500})).unwrap();
    let ended = ended(&second.refund, &second.charge, RefundOutcome::Refunded);
    let started = first.refund.started(&ended.charge, at(104)).unwrap().unwrap();
    assert_eq!(started.charge.refunded, 500);
    let disputed = Charge { status: TransactionStatus::Dispute, ..ended.charge };
    assert_eq!(
        first.refund.started(&disputed, at(105)).unwrap().unwrap().charge.status,
        TransactionStatus::Dispute
    );
}

#[test]
fn a_refund_to_the_payer_has_no_third_party_attributes_in_its_row() {
    let step = requested(&paid(), "refund-01", json!({})).unwrap();
    let row = serde_json::to_value(&step.refund).unwrap();
    for name in ["destination", "third_party", "limited_on"] {
        assert!(row.get(name).is_none(), "{row}");
    }
    assert_eq!(serde_json::from_value::<Refund>(row).unwrap(), step.refund);
}

#[test]
fn every_key_except_the_payers_reported_document_counts_as_a_third_partys() {
    let reported = |document: Option<&str>| {
        let mut charge = paid();
        charge.applied_payment.as_mut().unwrap().payer_document =
            document.map(|document| document.parse().unwrap());
        charge
    };
    let known = reported(Some("29537995593"));
    let limited = AccountSettings {
        third_party_refunds: ThirdPartyLimits { test: Some(700), live: Some(7) },
        ..settings(0)
    };
    let plan = |charge: &Charge, key: &str, settings: &AccountSettings| {
        plan(charge, json!({ "destinationKey": key }), settings, at(100))
    };
    for (charge, key, third_party) in [
        (&known, "29537995593", false),
        (&known, "25524893033", true),
        (&known, "maria@example.com", true),
        (&reported(None), "29537995593", true),
    ] {
        let plan_of = plan(charge, key, &limited).unwrap();
        assert_eq!((plan_of.third_party, plan_of.limit), (third_party, third_party.then_some(700)));
        let payer_only = AccountSettings { refunds_to_payer_only: true, ..settings(0) };
        let refused = matches!(plan(charge, key, &payer_only), Err(RefundError::PayerOnly));
        assert_eq!(refused, third_party, "{key}");
        let step =
            Refund::request(parse(json!({})).unwrap().id(charge.id), charge, plan_of, at(100)).unwrap();
        assert_eq!(step.refund.limited_on, third_party.then(|| Day::of(at(100))));
    }
}

#[test]
fn a_refund_takes_held_money_until_the_day_of_its_release_begins() {
    let day = Day::of(at(100_000));
    let settlement = paid().settlement.map(|settled| Settlement { release_on: Some(day), ..settled });
    let charge = Charge { settlement, ..paid() };
    let is_held = |now| plan(&charge, json!({}), &settings(0), now).unwrap().parameters.is_held;
    let begins = day.starts_at();
    assert!(is_held(begins.plus_millis(-1).unwrap()));
    assert!(!is_held(begins));
}
