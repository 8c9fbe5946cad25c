//! Tests of the daily verification of all ledgers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use bank::FaultKind;
use domain::calendar::Day;
use domain::charge::{Charge, IncomingPayment};
use ledger_verifier::{LedgerVerifier, TIME_LIMIT, Totals};
use money::charge::Charges;
use money::wallet::Wallets;
use serde_json::{Value, json};
use services::verify_ledger;
use tokio::task::JoinSet;

use crate::live_charges::Live;
use crate::support::{CapturedLog, Service, id, wait_until};
use crate::wallets::tamper;

/// The ledgers of a new service: two accounts, each with a test and a live ledger.
const LEDGERS: u64 = 4;

impl Service {
    fn verifier(&self, time_limit: Duration) -> LedgerVerifier {
        LedgerVerifier::new(self.store(), self.acquirers(), self.stack.clock.clone(), time_limit)
    }

    /// Pays charges. Some of them have refunds, some a MED case. Returns the paid charges.
    async fn pay_refund_and_contest(&self) -> Vec<Value> {
        let mut charges = Vec::new();
        for number in 0..12 {
            let charge = self.pay(1_000).await;
            let hold = async |amount: i64| {
                let body = json!({"amount": amount, "reason": "sandbox:hold"});
                self.refund(&charge, &format!("refund-{amount}"), body).await.expect(201);
            };
            match number % 4 {
                1 => hold(400).await,
                2 => {
                    self.sandbox_answer(&charge, "med-cases", &json!({})).await.expect(201);
                }
                3 => {
                    hold(100).await;
                    hold(250).await;
                }
                _ => {}
            }
            charges.push(charge);
        }
        charges
    }
}

/// Returns what the log says about ledgers that differ, without times.
fn reported(log: &CapturedLog) -> Vec<String> {
    let text = log.text();
    let lines = text.lines().filter_map(|line| line.split_once("a ledger differs from its postings "));
    lines.map(|(_, fields)| fields.to_owned()).collect()
}

#[tokio::test]
async fn the_schedule_verifies_all_ledgers_once_a_day_and_reports_a_changed_balance() {
    let service = Service::start().await;
    let log = CapturedLog::start();
    for _ in 0..3 {
        service.pay(1_000).await;
    }
    let ended = |expected: &str| log.text().matches(&format!("all ledgers were verified {expected}")).count();
    service.advance_seconds(86_400).await;
    let clean = "ledgers=4 postings=3 differences=0 moving=0";
    wait_until("the first day", async || ended(clean) == 1).await;
    assert_eq!(reported(&log), [""; 0]);

    let scope = service.scope();
    tamper(&service, &format!("wallet#{scope}"), "BRL#shard#0", "ADD cr_platform_fees :one").await;
    // Nothing is due before a day has passed.
    service.advance_seconds(43_200).await;
    service.advance_seconds(43_200).await;
    let differing = "ledgers=4 postings=3 differences=1 moving=0";
    wait_until("the second day", async || ended(differing) == 1).await;
    let lines = reported(&log);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let account = format!("account={} mode=test differences=1", scope.account);
    assert!(lines[0].contains(&account), "{lines:?}");
    assert!(lines[0].contains("BRL platform_fees credits: posted 0, stored 1"), "{lines:?}");
    assert_eq!((ended(clean), ended(differing)), (1, 1));
}

#[tokio::test]
async fn new_and_old_postings_are_verified_alike_and_changed_charges_are_reported() {
    let service = Service::without_event_sources().await;
    let charges = service.pay_refund_and_contest().await;
    let postings = service.check_ledger().await.postings;
    assert!(postings >= 24, "{postings}");
    let clean = Totals { ledgers: LEDGERS, postings, differences: 0, moving: 0 };
    // At first, all postings are among the newest. A day later, none is, and the sums of none were kept.
    for _day in 0..2 {
        assert_eq!(service.verifier(TIME_LIMIT).run().await.unwrap(), clean);
        service.stack.clock.advance(86_400_000);
    }

    // A charge with a settlement only, and one with a refund.
    tamper(&service, &format!("wallet#{}", service.scope()), "BRL#shard#0", "ADD cr_platform_fees :one")
        .await;
    for charge in &charges[..2] {
        let key = Charge::key_of(id(charge).parse().unwrap());
        let lost = HashMap::from([("med_lost".to_owned(), AttributeValue::N("7".to_owned()))]);
        service.set_attributes(&key.pk, &key.sk, &[("funds", AttributeValue::M(lost))]).await;
    }
    let log = CapturedLog::start();
    assert_eq!(service.verifier(TIME_LIMIT).run().await.unwrap(), Totals { differences: 4, ..clean });
    let lines = reported(&log);
    assert_eq!(lines.len(), 1, "{lines:?}");
    for charge in &charges[..2] {
        let difference = format!("{} lost to MED cases: posted 0, stored 7", id(charge));
        assert!(lines[0].contains(&difference), "{lines:?}");
    }
    let of_refund = format!("{} refunds in progress: posted 400, stored 0", id(&charges[1]));
    assert!(lines[0].contains(&of_refund), "{lines:?}");
}

#[tokio::test]
async fn ledgers_that_take_too_long_or_cannot_be_read_are_reported() {
    let service = Service::without_event_sources().await;
    service.pay(1_000).await;
    let log = CapturedLog::start();
    let totals = service.verifier(Duration::ZERO).run().await.unwrap();
    assert_eq!(totals, Totals::default());
    assert!(log.text().contains("the time was not enough to verify all ledgers"), "{}", log.text());
    assert!(!log.text().contains("all ledgers were verified"), "{}", log.text());

    let ledger = format!("ledger#{}", service.scope());
    let posting = service.rows(&ledger, "wallet#").await.remove(0);
    tamper(&service, &ledger, posting["sk"].as_s().unwrap(), "SET transfers = :one").await;
    let log = CapturedLog::start();
    let totals = service.verifier(TIME_LIMIT).run().await.unwrap();
    assert_eq!((totals.ledgers, totals.differences), (LEDGERS, 1));
    assert_eq!(log.text().matches("a ledger can't be verified").count(), 1);
}

/// Each account has its turn once in the seven days. On the other days, only the postings of the day before are read.
#[tokio::test]
async fn all_postings_are_read_once_a_week_and_else_those_since_the_day_before() {
    let service = Service::without_event_sources().await;
    let (mut read, mut postings) = (Vec::new(), 0);
    for day in 0..16 {
        let charge = service.pay(1_000).await;
        service.refund(&charge, "refund-300", json!({"amount": 300})).await.expect(201);
        let added = service.check_ledger().await.postings - postings;
        postings += added;
        let totals = service.verifier(TIME_LIMIT).run().await.unwrap();
        assert_eq!((totals.ledgers, totals.differences, totals.moving), (LEDGERS, 0, 0), "{day}");
        read.push(if totals.postings == postings { "all" } else { "new" });
        // What is written within two minutes of a run may be read by the next one too.
        assert!(totals.postings == postings || totals.postings <= 2 * added, "{day}: {totals:?}");
        service.stack.clock.advance(86_400_000);
    }
    // On the first two days, all postings are new.
    let whole: Vec<usize> = (2..16).filter(|day| read[*day] == "all").collect();
    assert!(matches!(whole[..], [first, second] if second == first + 7), "{read:?}");
}

#[tokio::test]
async fn a_difference_among_new_or_old_postings_is_reported_each_day_until_it_is_mended() {
    let service = Service::without_event_sources().await;
    service.pay_refund_and_contest().await;
    let run = async || {
        service.stack.clock.advance(86_400_000);
        service.verifier(TIME_LIMIT).run().await.unwrap().differences
    };
    assert_eq!((run().await, run().await), (0, 0));
    // An old posting is lost. Only a verification of all postings shows it.
    let (scope, ledger) = (service.scope(), format!("ledger#{}", service.scope()));
    let posting = service.rows(&ledger, "wallet#").await.remove(0);
    let old = posting["sk"].as_s().unwrap().clone();
    service.delete_row(&ledger, &old).await;
    let mut found = Vec::new();
    for _day in 0..8 {
        found.push(run().await > 0);
    }
    let first = found.iter().position(|differs| *differs);
    assert!(first.is_some_and(|first| found[first..].iter().all(|differs| *differs)), "{found:?}");
    service.put_item(posting).await;
    assert_eq!((run().await, run().await), (0, 0));
    // The counters of new postings are compared each day.
    tamper(&service, &format!("wallet#{scope}"), "BRL#shard#0", "ADD cr_platform_fees :one").await;
    assert_eq!((run().await, run().await), (1, 1));
}

/// The clock moves, so that postings are among the newest ones at first and older later.
#[tokio::test]
async fn a_ledger_in_use_is_verified_without_a_false_difference() {
    let service = Arc::new(Service::start().await);
    let mut payers = JoinSet::new();
    for _ in 0..3 {
        let service = Arc::clone(&service);
        payers.spawn(async move {
            for number in 0..30 {
                let charge = service.pay(1_000).await;
                if number % 3 == 0 {
                    service.refund(&charge, "refund-300", json!({"amount": 300})).await.expect(201);
                }
                service.stack.clock.advance(5_000);
            }
        });
    }
    let (wallets, charges) = (service.wallets(), Charges::new(service.store()));
    let mut passes = 0;
    while !payers.is_empty() {
        let now = service.stack.clock.now();
        let found = verify_ledger((&wallets, &charges), &service.scope(), now, &|_| {}).await.unwrap();
        assert_eq!(found.differences, []);
        passes += 1;
        while payers.try_join_next().is_some() {}
    }
    assert!(passes > 1, "{passes}");
}

/// With many merchants, a refund is always written between the reads of the newest postings and of their charges.
#[tokio::test]
async fn refunds_during_each_comparison_are_no_differences() {
    let service = Arc::new(Service::without_event_sources().await);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut merchants = JoinSet::new();
    for _ in 0..16 {
        let (service, is_over) = (Arc::clone(&service), Arc::clone(&is_over));
        merchants.spawn(async move {
            let charge = service.pay(1_000).await;
            for number in 0.. {
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
                let body = json!({"amount": 1, "reason": "sandbox:hold"});
                service.refund(&charge, &format!("refund-{number}"), body).await.expect(201);
            }
        });
    }
    service.proxy().set_min_latency(Duration::from_millis(5));
    let store = service.store_behind_proxy();
    let (wallets, charges) = (Wallets::new(store.clone()), Charges::new(store));
    for _ in 0..2 {
        let now = service.stack.clock.now();
        let found = verify_ledger((&wallets, &charges), &service.scope(), now, &|_| {}).await.unwrap();
        assert_eq!(found.differences, []);
    }
    is_over.store(true, Ordering::SeqCst);
    merchants.join_all().await;
    service.check_ledger().await;
}

#[tokio::test]
async fn each_ended_day_is_compared_with_the_bank_once_and_made_up_for_after_it_was_silent() {
    let live = Live::start().await;
    let first = Day::of(live.service.stack.clock.now());
    live.paid("books-0001").await;
    let log = CapturedLog::start();
    let lines = |text: &str| log.text().matches(text).count();
    let reconciled = async |day: Day| live.last_reconciled().await == Some(day);
    live.service.advance_seconds(86_400).await;
    wait_until("the first day", async || lines("differences=0 failed=0") == 1).await;
    assert!(reconciled(first).await);
    assert_eq!(lines("differs from the records"), 0, "{}", log.text());

    let paid = live.paid("books-0002").await;
    let row = live.service.stored_charge(id(&paid).parse().unwrap()).await;
    let key = IncomingPayment::key_of(&row.scope, &row.applied_payment.unwrap().payment_id);
    live.service.set_attributes(&key.pk, &key.sk, &[("amount", AttributeValue::N("1001".to_owned()))]).await;
    live.fault(FaultKind::Http500, 100_000);
    live.service.advance_seconds(86_400).await;
    wait_until("the bank is silent", async || lines("a day can't be reconciled") == 1).await;
    assert!(reconciled(first).await);

    live.service.stack.bank.clear_faults();
    live.service.advance_seconds(86_400).await;
    wait_until("both days", async || reconciled(first.plus_days(2)).await).await;
    let differing = format!("day={} differences=1", first.plus_days(1));
    assert_eq!((lines("differs from the records"), lines(&differing)), (1, 1), "{}", log.text());
    assert_eq!(lines("the bank reports another amount"), 1);
}
