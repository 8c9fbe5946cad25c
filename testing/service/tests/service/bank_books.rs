//! Compares the bank's books with the service's records.

use std::collections::BTreeSet;

use domain::acquirer::{ReportedPix, ReportedPixStatus};
use domain::calendar::Day;
use domain::charge::IncomingPayment;
use domain::ids::{AcquirerPaymentId, EndToEndId, Mode, Scope};
use domain::row::Key;
use domain::time::Timestamp;
use domain::wallet::ReturnStatus;
use serde_json::Value;
use services::Receipts;
use services::reconciliation::pix::Comparison;
use services::reconciliation::{Reconciler, Reconciliation};

use crate::live_charges::Live;
use crate::support::eventually;

/// How many of the bank's Pix have each fate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Fates {
    /// Credited to a charge. The money may have been refunded, or lost to a MED case, since then.
    pub(crate) credited: usize,
    /// Returned automatically, or by an operator.
    pub(crate) returned: usize,
    /// Held for review.
    pub(crate) held: usize,
    /// Listed for operators, because no charge matches.
    pub(crate) unapplied: usize,
}

impl Fates {
    /// Each of so many Pix was credited.
    pub(crate) fn credited(count: usize) -> Self {
        Self { credited: count, ..Self::default() }
    }
}

impl Live {
    /// Returns the scope of the first account's live charges.
    pub(crate) fn scope(&self) -> Scope {
        Scope { mode: Mode::Live, ..self.service.scope() }
    }

    /// Returns the payments that wait for an operator.
    pub(crate) async fn unapplied(&self) -> BTreeSet<AcquirerPaymentId> {
        let receipts = Receipts::new(self.service.store());
        let (mut found, mut cursor) = (BTreeSet::new(), None);
        loop {
            let (page, has_more) = receipts.waiting(&self.scope(), cursor.as_ref()).await.unwrap();
            found.extend(page.iter().map(|payment| payment.payment_id.clone()));
            if !has_more {
                return found;
            }
            cursor = page.last().cloned();
        }
    }

    /// Checks that each Pix of the bank is exactly once credited, returned, held for review or listed as
    /// unapplied, that the ledger agrees with its balances, and that the bank and the records do not differ
    /// on any day with a Pix or a devolução. Returns the number of Pix of each fate.
    ///
    /// All refunds and returns must have ended at the bank, and all injected faults must have occurred.
    pub(crate) async fn check_books(&self) -> Fates {
        // A list that ends five seconds ago has everything that the bank has done.
        self.service.advance_seconds(10).await;
        let books = || self.service.stack.bank.snapshot()["pix"].as_array().unwrap().clone();
        let pix: Vec<Value> = books();
        let (store, scope) = (self.service.store(), self.scope());
        let ids: Vec<EndToEndId> =
            pix.iter().map(|pix| pix["endToEndId"].as_str().unwrap().parse().unwrap()).collect();
        let payments: Vec<AcquirerPaymentId> = ids.iter().cloned().map(AcquirerPaymentId::from).collect();
        let keys: Vec<Key> =
            payments.iter().map(|payment| IncomingPayment::key_of(&scope, payment)).collect();
        let incoming = eventually("all Pix are recorded and all returns have ended", async || {
            let rows: Vec<IncomingPayment> = store.get_in_order(&keys).await.unwrap();
            let is_final = rows.iter().all(|row| row.open_return().is_none());
            (rows.len() == keys.len() && is_final).then_some(rows)
        })
        .await;
        // With the returns that ended meanwhile.
        let pix = books();
        let rows = self.service.incoming_payments(&scope).await;
        assert_eq!(rows.len(), pix.len(), "a payment is recorded that the bank does not have");

        let reported: Vec<Key> = ids.iter().map(ReportedPix::key_of).collect();
        let reported: Vec<ReportedPix> = store.get_in_order(&reported).await.unwrap();
        assert_eq!(reported.len(), pix.len());
        assert!(reported.iter().all(|row| row.status == ReportedPixStatus::Recorded), "{reported:?}");

        let unapplied = self.unapplied().await;
        let mut fates = Fates::default();
        for (pix, incoming) in pix.iter().zip(&incoming) {
            assert_eq!(pix["endToEndId"], incoming.payment_id.as_str());
            assert_eq!(pix["valor"], incoming.amount.decimal(2));
            let charge = incoming.charge_id();
            let is_unapplied = unapplied.contains(&incoming.payment_id);
            match (&incoming.returned, charge) {
                (Some(returned), _) => {
                    assert_eq!(returned.status, ReturnStatus::Returned, "{incoming:?}");
                    let executed = executed_devolucoes(pix);
                    if !returned.by_bank {
                        assert_eq!(executed, [returned.id.as_str()], "{pix}");
                    }
                    fates.returned += 1;
                }
                (None, None) => {
                    assert!(is_unapplied, "{incoming:?}");
                    fates.unapplied += 1;
                }
                (None, Some(id)) => {
                    let charge = self.service.stored_charge(id).await;
                    let applied = charge.applied_payment.as_ref().map(|applied| &applied.payment_id);
                    assert_eq!(applied, Some(&incoming.payment_id), "{charge:?}");
                    let fate =
                        if charge.is_held_for_review() { &mut fates.held } else { &mut fates.credited };
                    *fate += 1;
                }
            }
            assert_eq!(is_unapplied, incoming.returned.is_none() && charge.is_none());
        }
        self.service.check_ledger_of(&scope).await;
        self.check_reconciliation(&pix).await;
        fates
    }

    /// Reconciles the day of the first charge.
    pub(crate) async fn reconciled(&self) -> Comparison {
        let created_at = self.client.list("/v1/charges").await.pop().unwrap()["created_at"].take();
        let day = Day::of(Timestamp::parse_floor(created_at.as_str().unwrap()).unwrap());
        self.compare(day).await
    }

    async fn compare(&self, day: Day) -> Comparison {
        let stack = &self.service.stack;
        let reconciler = Reconciler::new(self.service.store(), self.service.acquirers(), stack.clock.clone());
        let account = self.service.scope().account;
        let connection = reconciler.connections().at(account, None).await.unwrap();
        match reconciler.reconcile(&connection, (day, false), stack.clock.now()).await.unwrap() {
            Reconciliation::Pix(found) => found,
            other @ Reconciliation::Movements(_) => panic!("{other:?}"),
        }
    }

    /// Reconciles today, and the days of all Pix and devoluções.
    async fn check_reconciliation(&self, pix: &[Value]) {
        let now = self.service.stack.clock.now();
        let day = |time: &Value| Day::of(Timestamp::parse_floor(time.as_str().unwrap()).unwrap());
        let returns = pix.iter().flat_map(|pix| pix["devolucoes"].as_array().unwrap());
        let settled = returns.map(|item| &item["horario"]["liquidacao"]).filter(|time| time.is_string());
        let mut days: BTreeSet<Day> = pix.iter().map(|pix| &pix["horario"]).chain(settled).map(day).collect();
        days.insert(Day::of(now));
        for day in days {
            let found = self.compare(day).await;
            assert_eq!((found.differences, found.pending), (Vec::new(), Vec::new()), "{day}");
        }
    }
}

/// Returns the ids of the devoluções of a Pix that the bank executed.
fn executed_devolucoes(pix: &Value) -> Vec<&str> {
    let returns = pix["devolucoes"].as_array().unwrap().iter();
    returns.filter(|item| item["status"] == "DEVOLVIDO").map(|item| item["id"].as_str().unwrap()).collect()
}
