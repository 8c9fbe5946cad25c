//! An invoice, its payments, and the rules by which its status changes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::decimal::{self, SATOSHIS};
use crate::requests::{Checkout, Receipt, SpeedPolicy, WHOLE, percent};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Status {
    New,
    Processing,
    Expired,
    Invalid,
    Settled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Additional {
    None,
    PaidLate,
    PaidPartial,
    Marked,
    PaidOver,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Payment {
    pub(crate) id: String,
    pub(crate) received_ms: i64,
    pub(crate) satoshis: i128,
    pub(crate) confirmations: u32,
    /// True: another transaction spent its coins.
    pub(crate) is_replaced: bool,
    /// True: it came after the end of monitoring, so that the server does not know it.
    pub(crate) is_unseen: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Invoice {
    pub(crate) id: String,
    /// Invoices are listed in the order of their serial numbers.
    pub(crate) serial: u64,
    pub(crate) currency: String,
    /// Minor units.
    pub(crate) amount: i128,
    /// The price of 1 BTC in minor units.
    pub(crate) rate: i128,
    pub(crate) destination: String,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) checkout: Checkout,
    pub(crate) receipt: Receipt,
    pub(crate) search_terms: Vec<String>,
    pub(crate) created_ms: i64,
    pub(crate) expires_ms: i64,
    pub(crate) monitored_until_ms: i64,
    pub(crate) status: Status,
    pub(crate) additional: Additional,
    pub(crate) payments: Vec<Payment>,
}

impl Invoice {
    /// Returns when the invoice expires and when its monitoring ends, with its id.
    pub(crate) fn timers(&self) -> [(i64, String); 2] {
        [self.expires_ms, self.monitored_until_ms].map(|due_ms| (due_ms, self.id.clone()))
    }

    pub(crate) fn order_id(&self) -> Option<&str> {
        self.metadata.get("orderId")?.as_str()
    }

    /// Returns the satoshis of the payments that count and fit.
    fn sum(&self, fits: impl Fn(&Payment) -> bool) -> i128 {
        let counts = |payment: &&Payment| !payment.is_replaced && !payment.is_unseen && fits(payment);
        self.payments.iter().filter(counts).map(|payment| payment.satoshis).sum()
    }

    /// Returns the satoshis that were paid.
    pub(crate) fn paid(&self) -> i128 {
        self.sum(|_| true)
    }

    /// Returns the price in satoshis, rounded up.
    pub(crate) fn total(&self) -> i128 {
        decimal::divide(self.amount, SATOSHIS, self.rate, self.rate.saturating_sub(1))
    }

    pub(crate) fn is_settled(&self, payment: &Payment) -> bool {
        let needed = match self.checkout.speed_policy {
            Some(SpeedPolicy::HighSpeed) => 0,
            Some(SpeedPolicy::MediumSpeed) | None => 1,
            Some(SpeedPolicy::LowMediumSpeed) => 2,
            Some(SpeedPolicy::LowSpeed) => 6,
        };
        payment.confirmations >= needed
    }

    /// Changes the status as the `InvoiceWatcher` of BTCPay Server does. Returns the events, in order.
    pub(crate) fn watch(&mut self, now_ms: i64) -> Vec<Value> {
        let mut events = Vec::new();
        let (paid, total) = (self.paid(), self.total());
        let tolerance = self.checkout.payment_tolerance.as_ref().and_then(percent).unwrap_or_default();
        let minimum = total.saturating_sub(decimal::divide(total, tolerance, WHOLE, 0));
        let (is_paid, is_over) = (paid >= minimum, paid > total);
        let when = |condition: bool, additional| if condition { additional } else { Additional::None };
        // A replaced payment was taken away.
        if self.status == Status::Processing && !is_paid {
            self.status = Status::New;
            self.additional = when(paid > 0, Additional::PaidPartial);
        }
        if self.status == Status::New && self.expires_ms <= now_ms {
            self.status = Status::Expired;
            let is_partial = self.additional == Additional::PaidPartial;
            events.push(json!({"type": "InvoiceExpired", "partiallyPaid": is_partial}));
        }
        match self.status {
            Status::New if is_paid => {
                self.status = Status::Processing;
                self.additional = when(is_over, Additional::PaidOver);
                events.push(json!({"type": "InvoiceProcessing", "overPaid": is_over}));
            }
            Status::Expired if is_paid => self.additional = Additional::PaidLate,
            Status::New | Status::Expired if paid > 0 => self.additional = Additional::PaidPartial,
            Status::Processing => self.additional = when(is_over, Additional::PaidOver),
            Status::New | Status::Expired | Status::Invalid | Status::Settled => {}
        }
        if self.status == Status::Processing && self.sum(|payment| self.is_settled(payment)) >= minimum {
            self.status = Status::Settled;
            events.push(json!({"type": "InvoiceSettled", "manuallyMarked": false, "overPaid": is_over}));
        } else if self.status == Status::Processing && self.monitored_until_ms <= now_ms {
            self.status = Status::Invalid;
            events.push(json!({"type": "InvoiceInvalid", "manuallyMarked": false}));
        }
        events
    }

    /// Returns the statuses as which the invoice can be marked by hand.
    pub(crate) fn marks(&self) -> Vec<Status> {
        let is_marked = self.additional == Additional::Marked;
        match self.status {
            Status::New | Status::Processing | Status::Expired => vec![Status::Settled, Status::Invalid],
            Status::Invalid => vec![Status::Settled],
            Status::Settled if is_marked => vec![Status::Invalid],
            Status::Settled => Vec::new(),
        }
    }

    /// Marks the invoice by hand. Returns the event. `None` if the status does not allow it.
    pub(crate) fn mark(&mut self, status: Status) -> Option<Value> {
        if !self.marks().contains(&status) {
            return None;
        }
        (self.status, self.additional) = (status, Additional::Marked);
        Some(match status {
            Status::Settled => json!({"type": "InvoiceSettled", "manuallyMarked": true, "overPaid": false}),
            _ => json!({"type": "InvoiceInvalid", "manuallyMarked": true}),
        })
    }

    /// Returns a payment as the API shows it.
    pub(crate) fn shown_payment(&self, payment: &Payment) -> Value {
        let status = match payment {
            Payment { is_replaced: true, .. } => "Invalid",
            _ if self.is_settled(payment) => "Settled",
            _ => "Processing",
        };
        json!({
            "id": payment.id, "receivedDate": payment.received_ms.div_euclid(1_000), "status": status,
            "value": decimal::btc(payment.satoshis), "fee": decimal::btc(0), "destination": self.destination,
        })
    }

    /// Returns the payment methods as the API shows them. `accounted_only`: without replaced payments.
    pub(crate) fn shown_methods(&self, accounted_only: bool) -> Value {
        let (paid, total) = (self.paid(), self.total());
        let due = total.saturating_sub(paid);
        let amount = if due > 0 { format!("?amount={}", decimal::btc(due)) } else { String::new() };
        let seen = self.payments.iter().filter(|payment| !payment.is_unseen);
        let payments = seen.filter(|payment| !accounted_only || !payment.is_replaced);
        json!([{
            "paymentMethodId": super::ON_CHAIN, "currency": "BTC", "activated": true,
            "destination": self.destination, "paymentLink": format!("bitcoin:{}{amount}", self.destination),
            "rate": decimal::text(self.rate, decimal::places(&self.currency)),
            "paymentMethodPaid": decimal::btc(paid), "totalPaid": decimal::btc(paid),
            "due": decimal::btc(due), "amount": decimal::btc(total), "paymentMethodFee": decimal::btc(0),
            "payments": payments.map(|payment| self.shown_payment(payment)).collect::<Vec<Value>>(),
            "additionalData": {
                "keyPath": format!("0/{}", self.serial), "payjoinEnabled": false, "recommendedFeeRate": "1",
            },
        }])
    }
}
