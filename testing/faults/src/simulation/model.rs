//! What the service must do: the statuses, money and events of an account. Written from the API's description alone,
//! not from the service's code.

use std::collections::{BTreeMap, BTreeSet};

use strum::IntoStaticStr;

#[derive(Clone, Copy, Debug, Eq, IntoStaticStr, Ord, PartialEq, PartialOrd)]
#[strum(serialize_all = "snake_case")]
pub enum Status {
    Pending,
    Paid,
    /// It was declined.
    Failed,
    Cancelled,
    Expired,
    /// A payment is held for review.
    Processing,
    /// All of it was refunded, or its payment was returned because of the payer.
    Refunded,
    /// A case is open, or was decided for the payer.
    Disputed,
}

impl Status {
    /// Returns the status in `/v1/charges`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What is known of the payer of a charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Payer {
    /// Anybody may pay the charge, or the expected payer did.
    Right,
    Wrong,
    /// Only the expected payer may pay the charge, and it is not known who did.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Refund {
    pub id: String,
    pub amount: i64,
    pub is_cash_out: bool,
    /// Whether the acquirer did not execute it.
    pub has_failed: bool,
}

#[derive(Clone, Debug)]
pub struct Charge {
    pub id: String,
    pub amount: i64,
    pub status: Status,
    pub expires_at_ms: i64,
    pub refunds: Vec<Refund>,
    /// The id of the open case, and what it retains.
    pub case: Option<(String, i64)>,
    pub payments: usize,
}

impl Charge {
    /// Returns what is refunded or will be, in centavos.
    pub fn refunded(&self) -> i64 {
        self.refunded_by(|_| true)
    }

    fn refunded_by(&self, counts: impl Fn(&Refund) -> bool) -> i64 {
        let executed = self.refunds.iter().filter(|refund| !refund.has_failed && counts(refund));
        executed.map(|refund| refund.amount).fold(0, i64::saturating_add)
    }
}

/// An account in one mode.
#[derive(Clone, Debug, Default)]
pub struct Account {
    pub charges: BTreeMap<usize, Charge>,
    /// What can be spent, in centavos.
    pub available: i64,
    /// What cases retain, in centavos.
    pub retained: i64,
    pub events: BTreeMap<&'static str, u64>,
    /// The numbers of the payments that were received.
    pub payments: BTreeSet<usize>,
    /// How many payments that were held were reviewed.
    pub reviews: usize,
    pub cases: usize,
    pub paid_once: u64,
    /// What all payers paid, in centavos.
    pub received: i64,
    /// What goes back to payers, in centavos: refunds, and payments that no charge could take.
    pub returned: i64,
}

/// The events of a change, of both families.
const CREATED: &[&str] = &["charge.created", "payment.created", "payment.status_changed"];
const PAID: &[&str] = &["charge.paid", "payment.completed", "payment.status_changed"];
const HELD: &[&str] = &["payment.status_changed"];
/// A payment that was not credited goes back.
const RETURNED: &[&str] = &["charge.refunded", "payment.refunded", "payment.status_changed"];
const FAILED: &[&str] = &["charge.failed", "payment.failed", "payment.status_changed"];
const EXPIRED: &[&str] = &["charge.expired", "payment.expired", "payment.failed", "payment.status_changed"];
/// A refund is created, in progress, and then completed or failed.
const REFUND: &[&str] = &["refund.created", "payment.refunded", "payment.refunded", "payment.refunded"];
const REFUND_SUCCEEDED: &[&str] = &["refund.succeeded"];
const REFUND_FAILED: &[&str] = &["refund.failed"];
const ALL_REFUNDED: &[&str] = &["charge.refunded", "payment.status_changed"];
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

    pub fn create(&mut self, order: usize, id: &str, amount: i64, expires_at_ms: i64) {
        let charge = Charge {
            id: id.to_owned(),
            amount,
            status: Status::Pending,
            expires_at_ms,
            refunds: Vec::new(),
            case: None,
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
    pub fn pay(&mut self, order: usize, payment: usize, is_wrong: bool, payer: Payer) {
        let Some(charge) = self.charges.get_mut(&order) else { return };
        if !self.payments.insert(payment) {
            return;
        }
        let amount = charge.amount.saturating_add(is_wrong.into());
        charge.payments = charge.payments.saturating_add(1);
        self.received = self.received.saturating_add(amount);
        if charge.status != Status::Pending || is_wrong {
            self.returned = self.returned.saturating_add(amount);
            return;
        }
        match payer {
            Payer::Right => self.credit(order),
            Payer::Wrong => self.give_back(order),
            Payer::Unknown => {
                charge.status = Status::Processing;
                self.publish(HELD);
            }
        }
    }

    fn credit(&mut self, order: usize) {
        let Some(charge) = self.charges.get_mut(&order) else { return };
        charge.status = Status::Paid;
        self.available = self.available.saturating_add(charge.amount);
        self.paid_once = self.paid_once.saturating_add(1);
        self.publish(PAID);
    }

    /// The payment of a charge goes back without being credited.
    fn give_back(&mut self, order: usize) {
        let Some(charge) = self.charges.get_mut(&order) else { return };
        charge.status = Status::Refunded;
        self.returned = self.returned.saturating_add(charge.amount);
        self.publish(RETURNED);
    }

    /// The review of a payment that was held has ended.
    pub fn review(&mut self, order: usize, is_approved: bool) {
        self.reviews = self.reviews.saturating_add(1);
        if is_approved {
            self.credit(order);
        } else {
            self.give_back(order);
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

    pub fn fail(&mut self, order: usize) {
        self.end(order, Status::Failed, FAILED);
    }

    pub fn cancel(&mut self, order: usize) {
        self.end(order, Status::Cancelled, FAILED);
    }

    pub fn expire(&mut self, order: usize) {
        self.end(order, Status::Expired, EXPIRED);
    }

    /// A refund was accepted. It will be completed unless it has failed.
    pub fn refund(&mut self, order: usize, refund: Refund) {
        self.publish(REFUND);
        let Some(charge) = self.charges.get_mut(&order) else { return };
        let (amount, has_failed) = (refund.amount, refund.has_failed);
        charge.refunds.push(refund);
        if has_failed {
            self.publish(REFUND_FAILED);
            return;
        }
        self.returned = self.returned.saturating_add(amount);
        self.available = self.available.saturating_sub(amount);
        let is_whole = charge.refunded() == charge.amount;
        if is_whole {
            charge.status = Status::Refunded;
        }
        self.publish(REFUND_SUCCEEDED);
        self.publish(if is_whole { ALL_REFUNDED } else { &[] });
    }

    /// A refund that was expected to be completed has failed.
    pub(crate) fn fail_refund(&mut self, order: usize, id: &str) {
        let Some(charge) = self.charges.get_mut(&order) else { return };
        let mut expected = charge.refunds.iter_mut().filter(|refund| !refund.has_failed);
        let Some(refund) = expected.find(|refund| refund.id == id) else { return };
        refund.has_failed = true;
        self.returned = self.returned.saturating_sub(refund.amount);
        self.available = self.available.saturating_add(refund.amount);
        let was_whole = charge.status == Status::Refunded;
        if was_whole {
            charge.status = Status::Paid;
        }
        for event in REFUND_SUCCEEDED.iter().chain(if was_whole { ALL_REFUNDED } else { &[] }) {
            self.events.entry(event).and_modify(|count| *count = count.saturating_sub(1));
        }
        self.events.retain(|_, count| *count > 0);
        self.publish(REFUND_FAILED);
    }

    /// A case was opened. It retains what the bank did not return to the payer. A cash-out is no return.
    pub fn open_case(&mut self, order: usize, id: &str) {
        let Some(charge) = self.charges.get_mut(&order) else { return };
        let held = charge.amount.saturating_sub(charge.refunded_by(|refund| !refund.is_cash_out));
        charge.status = Status::Disputed;
        charge.case = Some((id.to_owned(), held));
        self.available = self.available.saturating_sub(held);
        self.retained = self.retained.saturating_add(held);
        self.cases = self.cases.saturating_add(1);
        self.publish(CASE_OPENED);
    }

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
