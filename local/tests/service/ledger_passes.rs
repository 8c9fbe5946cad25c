//! Tests of the daily verification of all ledgers, by the scheduled function and in many short invocations.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::charge::Charge;
use scheduler::{LedgerVerifier, Limits};
use serde_json::{Value, json};
use shared::charge::Charges;
use shared::services::{LedgerPass, LedgerPasses, LedgerVerification, PassStep, PassTotals};
use tokio::task::JoinSet;

use crate::support::{CapturedLog, Service, eventually, id};
use crate::wallets::tamper;

/// The ledgers of a new service: two accounts, each with a test and a live ledger.
const LEDGERS: u64 = 4;

const DAY_MS: i64 = 86_400_000;

impl Service {
    /// Returns a verifier whose invocations have at most this many steps of at most this many postings.
    fn verifier(&self, steps: Option<usize>, postings_per_step: Option<i32>) -> LedgerVerifier {
        let limits = Limits { steps, postings_per_step };
        LedgerVerifier { store: self.store(), clock: self.stack.clock.clone(), limits }
    }

    async fn pass(&self) -> LedgerPass {
        self.store().get::<LedgerPass>(&LedgerPass::row_key()).await.unwrap().unwrap()
    }

    async fn refund(&self, charge: &Value, amount: i64, more: &Value) {
        let path = format!("/v1/payments/{}/refund", id(charge).trim_start_matches("ch_"));
        let mut refund = json!({"amount": amount, "idempotencyKey": format!("refund-{amount}")});
        refund.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.post(&path, &refund).await.expect(201);
    }

    /// Pays charges. Some of them have refunds, some a MED case. Returns the paid charges.
    async fn pay_refund_and_contest(&self) -> Vec<Value> {
        let mut charges = Vec::new();
        for number in 0..12 {
            let charge = self.pay(1_000).await;
            match number % 4 {
                1 => self.refund(&charge, 400, &json!({"reason": "sandbox:hold"})).await,
                2 => {
                    self.sandbox_answer(&charge, "med-cases", &json!({})).await.expect(201);
                }
                3 => {
                    self.refund(&charge, 100, &json!({"reason": "sandbox:hold"})).await;
                    self.refund(&charge, 250, &json!({"reason": "sandbox:hold"})).await;
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
    eventually("the first pass", async || (ended(clean) == 1).then_some(())).await;
    assert_eq!(reported(&log), [""; 0]);

    let scope = service.scope();
    tamper(&service, &format!("wallet#{scope}"), "BRL#shard#0", "ADD cr_platform_fees :one").await;
    service.advance_seconds(86_400).await;
    let differing = "ledgers=4 postings=3 differences=1 moving=0";
    eventually("the second pass", async || (ended(differing) == 1).then_some(())).await;
    let lines = reported(&log);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let account = format!("account={} mode=test differences=1", scope.account);
    assert!(lines[0].contains(&account), "{lines:?}");
    assert!(lines[0].contains("BRL platform_fees credits: posted 0, stored 1"), "{lines:?}");
    // Later invocations on the same day have nothing to do.
    assert_eq!(service.verifier(None, None).run().await, 0);
    assert_eq!((ended(clean), ended(differing)), (1, 1));
}

#[tokio::test]
async fn a_pass_in_many_invocations_finds_the_same_as_in_one() {
    let service = Service::without_event_sources().await;
    let charges = service.pay_refund_and_contest().await;
    service.check_ledger().await;
    // In the first pass, all postings are among the newest. In the second and third, none is.
    assert_eq!(service.verifier(None, None).run().await, LEDGERS);
    let clean = service.pass().await.totals;
    assert_eq!((clean.ledgers, clean.differences, clean.moving), (LEDGERS, 0, 0));
    assert!(clean.postings >= 24, "{clean:?}");

    let in_many = async |log: &CapturedLog| {
        let mut invocations = 0;
        service.stack.clock.advance(DAY_MS);
        loop {
            service.verifier(Some(1), Some(2)).run().await;
            invocations += 1;
            let pass = service.pass().await;
            if pass.finished_at.is_some() {
                assert!(invocations > 15, "{invocations}");
                return (pass.totals, reported(log));
            }
            assert!(invocations < 500, "{pass:?}");
        }
    };
    let log = CapturedLog::start();
    assert_eq!(in_many(&log).await, (clean, Vec::new()));
    // The sums of charges with refunds and cases do not fit in the row of the pass.
    let stored = service.store().partition(&format!("verification#{}", service.scope())).await.unwrap();
    assert!(stored.len() >= 3, "{}", stored.len());
    drop(log);

    // A charge with a settlement only, and one with a refund.
    tamper(&service, &format!("wallet#{}", service.scope()), "BRL#shard#0", "ADD cr_platform_fees :one")
        .await;
    for charge in &charges[..2] {
        let key = Charge::key_of(id(charge).parse().unwrap());
        let mut row = service.store().get_item(&key).await.unwrap().unwrap();
        let mut funds = row.remove("funds").map_or_else(HashMap::new, |funds| funds.as_m().unwrap().clone());
        funds.insert("med_lost".to_owned(), AttributeValue::N("7".to_owned()));
        row.insert("funds".to_owned(), AttributeValue::M(funds));
        service.put_item(row).await;
    }
    let log = CapturedLog::start();
    service.stack.clock.advance(DAY_MS);
    assert_eq!(service.verifier(None, None).run().await, LEDGERS);
    let in_one = (service.pass().await.totals, reported(&log));
    assert_eq!(in_one.0, PassTotals { differences: 3, ..clean });
    assert_eq!(in_one.1.len(), 1, "{in_one:?}");
    drop(log);
    let log = CapturedLog::start();
    assert_eq!(in_many(&log).await, in_one);
}

#[tokio::test]
async fn a_pass_continues_after_invocations_that_were_killed_at_any_time() {
    let service = Service::without_event_sources().await;
    service.pay_refund_and_contest().await;
    let expected = service.check_ledger().await.postings;
    service.stack.clock.advance(DAY_MS);
    let verifier = service.verifier(Some(3), Some(4));
    let (mut killed, mut waited) = (0, 0);
    for milliseconds in (1..40).cycle().take(400) {
        let limit = Duration::from_millis(milliseconds);
        if tokio::time::timeout(limit, verifier.run()).await.is_err() {
            killed += 1;
            // The killed invocation's claim ends by time.
            let before = service.store().get::<LedgerPass>(&LedgerPass::row_key()).await.unwrap();
            if before.is_some() && verifier.run().await == 0 && service.pass().await == before.unwrap() {
                waited += 1;
            }
            service.stack.clock.advance(91_000);
        }
        let pass = service.store().get::<LedgerPass>(&LedgerPass::row_key()).await.unwrap();
        let Some(finished) = pass.filter(|pass| pass.finished_at.is_some()) else { continue };
        let totals = finished.totals;
        assert_eq!((totals.ledgers, totals.postings, totals.differences), (LEDGERS, expected, 0));
        assert!(killed > 0 && waited > 0, "{killed} {waited}");
        return;
    }
    panic!("the pass did not end");
}

#[tokio::test]
async fn of_concurrent_invocations_one_verifies_and_a_late_one_can_store_nothing() {
    let service = Service::without_event_sources().await;
    service.pay(1_000).await;
    let verifier = service.verifier(None, None);
    let runs = tokio::join!(verifier.run(), verifier.run(), verifier.run());
    assert_eq!(runs.0 + runs.1 + runs.2, LEDGERS);
    assert!([runs.0, runs.1, runs.2].contains(&LEDGERS), "{runs:?}");

    service.stack.clock.advance(DAY_MS);
    let passes = LedgerPasses::new(service.store());
    let now = || service.stack.clock.now();
    let mut late = passes.claim(now()).await.unwrap().unwrap();
    assert!(matches!(late.step(now(), None).await.unwrap(), PassStep::Unfinished));
    assert!(passes.claim(now()).await.unwrap().is_none());
    service.stack.clock.advance(91_000);
    assert_eq!(verifier.run().await, LEDGERS);
    let finished = service.pass().await;
    late.step(now(), None).await.unwrap();
    assert!(!late.save(now()).await.unwrap());
    assert_eq!(service.pass().await, finished);
}

#[tokio::test]
async fn a_ledger_that_cannot_be_read_is_reported_and_the_others_are_verified() {
    let service = Service::without_event_sources().await;
    service.pay(1_000).await;
    let ledger = format!("ledger#{}", service.scope());
    let posting = service.rows(&ledger, "wallet#").await.remove(0);
    tamper(&service, &ledger, posting["sk"].as_s().unwrap(), "SET transfers = :one").await;
    let log = CapturedLog::start();
    assert_eq!(service.verifier(None, None).run().await, LEDGERS);
    assert_eq!(service.pass().await.totals.differences, 1);
    assert_eq!(log.text().matches("a ledger can't be verified").count(), 1);
}

/// The clock moves, so that postings are among the newest ones at first and are read in pages later.
#[tokio::test]
async fn a_ledger_in_use_is_verified_in_small_steps_without_a_false_difference() {
    let service = Arc::new(Service::start().await);
    let mut payers = JoinSet::new();
    for _ in 0..3 {
        let service = Arc::clone(&service);
        payers.spawn(async move {
            for number in 0..30 {
                let charge = service.pay(1_000).await;
                if number % 3 == 0 {
                    service.refund(&charge, 300, &json!({})).await;
                }
                service.stack.clock.advance(5_000);
            }
        });
    }
    let (wallets, charges) = (service.wallets(), Charges::new(service.store()));
    let mut passes = 0;
    while !payers.is_empty() {
        let mut verification = LedgerVerification::start(service.scope(), service.stack.clock.now());
        let found = loop {
            let now = service.stack.clock.now();
            if let Some(found) = verification.step((&wallets, &charges), now, 7).await.unwrap() {
                break found;
            }
        };
        assert_eq!(found.differences, []);
        passes += 1;
        while payers.try_join_next().is_some() {}
    }
    assert!(passes > 1, "{passes}");
}
