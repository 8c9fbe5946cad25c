//! What the service must do: the statuses, money and events of an account. Written from the contract alone.

use std::collections::{BTreeMap, BTreeSet};

/// The status of a charge.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Status {
    /// It can be paid.
    Pending,
    /// It is paid.
    Paid,
    /// It was declined.
    Failed,
    /// The merchant cancelled it.
    Cancelled,
    /// It was not paid in time.
    Expired,
    /// All of it was refunded.
    Refunded,
    /// A case is open, or was decided for the payer.
    Disputed,
}

impl Status {
    /// Returns the status in `/v1/charges`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Paid => "paid",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Refunded => "refunded",
            Self::Disputed => "disputed",
        }
    }
}

/// A charge.
#[derive(Clone, Debug)]
pub struct Charge {
    /// Its id at the service.
    pub id: String,
    /// In centavos.
    pub amount: i64,
    /// Its status.
    pub status: Status,
    /// When it expires, in milliseconds.
    pub expires_at_ms: i64,
    /// What was refunded, in centavos.
    pub refunded: i64,
    /// The id of the open case, and what it retains.
    pub case: Option<(String, i64)>,
    /// How many refunds there were.
    pub refunds: usize,
    /// How many payments were received.
    pub payments: usize,
}

/// An account in one mode.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// The charges by order.
    pub charges: BTreeMap<usize, Charge>,
    /// What can be spent, in centavos.
    pub available: i64,
    /// What cases retain, in centavos.
    pub retained: i64,
    /// How often each event was published.
    pub events: BTreeMap<&'static str, u64>,
    /// The numbers of the payments that were received.
    pub payments: BTreeSet<usize>,
    /// How many charges were ever paid.
    pub paid_once: u64,
    /// What all payers paid, in centavos.
    pub received: i64,
    /// What goes back to payers, in centavos: refunds, and payments that no charge could take.
    pub returned: i64,
}

/// The events of a change, of both families.
const CREATED: &[&str] = &["charge.created", "payment.created", "payment.status_changed"];
const PAID: &[&str] = &["charge.paid", "payment.completed", "payment.status_changed"];
const FAILED: &[&str] = &["charge.failed", "payment.failed", "payment.status_changed"];
const EXPIRED: &[&str] = &["charge.expired", "payment.expired", "payment.failed", "payment.status_changed"];
/// A refund is created, in progress, and then completed or failed.
const REFUND: &[&str] = &["payment.refunded", "payment.refunded", "payment.refunded"];
const ALL_REFUNDED: &[&str] = &["payment.status_changed"];
const CASE_OPENED: &[&str] = &["med_case.created", "payment.failed", "payment.status_changed"];
const CASE_DECIDED: &[&str] = &["med_case.updated", "med.resolved"];
const PAID_AGAIN: &[&str] = &["payment.status_changed"];
const PAYOUT_CREATED: &[&str] = &["payout.created", "withdrawal.created"];
const PAYOUT_PAID: &[&str] = &["payout.paid", "withdrawal.completed", "withdrawal.status_changed"];
const PAYOUT_FAILED: &[&str] = &["payout.failed", "withdrawal.failed", "withdrawal.status_changed"];

impl Account {
    fn publish(&mut self, events: &[&'static str]) {
        for event in events {
            let count = self.events.entry(event).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// A charge was created.
    pub fn create(&mut self, order: usize, id: &str, amount: i64, expires_at_ms: i64) {
        let charge = Charge {
            id: id.to_owned(),
            amount,
            status: Status::Pending,
            expires_at_ms,
            refunded: 0,
            case: None,
            refunds: 0,
            payments: 0,
        };
        self.charges.insert(order, charge);
        self.publish(CREATED);
    }

    /// Time has passed.
    pub fn pass(&mut self, now_ms: i64) {
        let overdue = |charge: &Charge| charge.status == Status::Pending && charge.expires_at_ms <= now_ms;
        let orders: Vec<usize> =
            self.charges.iter().filter(|(_, charge)| overdue(charge)).map(|(order, _)| *order).collect();
        for order in orders {
            self.expire(order);
        }
    }

    /// A payment of the right amount or of another one arrived. A repeated notification changes nothing.
    pub fn pay(&mut self, order: usize, payment: usize, is_wrong: bool) {
        let Some(charge) = self.charges.get_mut(&order) else { return };
        if !self.payments.insert(payment) {
            return;
        }
        let amount = charge.amount.saturating_add(is_wrong.into());
        charge.payments = charge.payments.saturating_add(1);
        self.received = self.received.saturating_add(amount);
        if charge.status != Status::Pending || is_wrong {
            self.returned = self.returned.saturating_add(amount);
        } else {
            charge.status = Status::Paid;
            self.available = self.available.saturating_add(charge.amount);
            self.paid_once = self.paid_once.saturating_add(1);
            self.publish(PAID);
        }
    }

    fn end(&mut self, order: usize, status: Status, events: &[&'static str]) {
        if let Some(charge) = self.charges.get_mut(&order)
            && charge.status == Status::Pending
        {
            charge.status = status;
            self.publish(events);
        }
    }

    /// The charge was declined.
    pub fn fail(&mut self, order: usize) {
        self.end(order, Status::Failed, FAILED);
    }

    /// The charge was cancelled.
    pub fn cancel(&mut self, order: usize) {
        self.end(order, Status::Cancelled, FAILED);
    }

    /// The charge expired.
    pub fn expire(&mut self, order: usize) {
        self.end(order, Status::Expired, EXPIRED);
    }

    /// A refund was accepted. It will be completed unless it `fails`.
    pub fn refund(&mut self, order: usize, amount: i64, fails: bool) {
        self.publish(REFUND);
        let Some(charge) = self.charges.get_mut(&order) else { return };
        charge.refunds = charge.refunds.saturating_add(1);
        if fails {
            return;
        }
        charge.refunded = charge.refunded.saturating_add(amount);
        self.returned = self.returned.saturating_add(amount);
        self.available = self.available.saturating_sub(amount);
        if charge.refunded == charge.amount {
            charge.status = Status::Refunded;
            self.publish(ALL_REFUNDED);
        }
    }

    /// A case was opened. It retains what was not refunded.
    pub fn open_case(&mut self, order: usize, id: &str) {
        let Some(charge) = self.charges.get_mut(&order) else { return };
        let held = charge.amount.saturating_sub(charge.refunded);
        charge.status = Status::Disputed;
        charge.case = Some((id.to_owned(), held));
        self.available = self.available.saturating_sub(held);
        self.retained = self.retained.saturating_add(held);
        self.publish(CASE_OPENED);
    }

    /// The open case was decided.
    pub fn decide(&mut self, order: usize, for_merchant: bool) {
        let Some(charge) = self.charges.get_mut(&order) else { return };
        let Some((_, held)) = charge.case.take() else { return };
        self.retained = self.retained.saturating_sub(held);
        if for_merchant {
            charge.status = Status::Paid;
            self.available = self.available.saturating_add(held);
        }
        self.publish(CASE_DECIDED);
        if for_merchant {
            self.publish(PAID_AGAIN);
        }
    }

    /// A payout was created and executed, or not executed.
    pub fn pay_out(&mut self, amount: i64, is_paid: bool) {
        self.publish(PAYOUT_CREATED);
        self.publish(if is_paid { PAYOUT_PAID } else { PAYOUT_FAILED });
        if is_paid {
            self.available = self.available.saturating_sub(amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_and_events_follow_the_statuses() {
        let mut account = Account::default();
        account.create(1, "ch_1", 1_000, 60_000);
        account.pay(1, 7, true);
        assert_eq!((account.charges[&1].status, account.available), (Status::Pending, 0));
        account.pay(1, 8, false);
        account.pay(1, 8, false);
        assert_eq!((account.charges[&1].status, account.available), (Status::Paid, 1_000));
        account.refund(1, 400, false);
        account.refund(1, 100, true);
        // The payment of a wrong amount goes back too.
        assert_eq!((account.received, account.returned), (2_001, 1_401));
        account.open_case(1, "med_1");
        assert_eq!((account.available, account.retained), (0, 600));
        account.decide(1, true);
        assert_eq!((account.available, account.retained), (600, 0));
        account.pay_out(600, false);
        account.pay_out(200, true);
        account.refund(1, 600, false);
        assert_eq!((account.charges[&1].status, account.available), (Status::Refunded, -200));
        assert_eq!(account.events["payment.refunded"], 9);
        // Created, paid, disputed, paid again, refunded.
        assert_eq!(account.events["payment.status_changed"], 5);
        account.create(2, "ch_2", 500, 60_000);
        account.pass(59_999);
        assert_eq!(account.charges[&2].status, Status::Pending);
        account.pass(60_000);
        assert_eq!((account.charges[&2].status, account.events["charge.expired"]), (Status::Expired, 1));
    }
}
