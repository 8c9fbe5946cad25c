//! Sums of a scope's charges, a row for each day and currency and one of all time: what statistics and the totals of
//! lists are read from, however many charges there are (design: daily rollups).
//!
//! This module says what one change of a charge adds. Each change is counted once, however often the stream delivers it,
//! because a marker for it is written in the transaction of the sums. A charge counts on the day and in the currency in
//! which it was created; so a day's row also changes after its day.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::calendar::{Day, hour_of};
use crate::charge::{Charge, PublicStatus, TransactionStatus};
use crate::ids::{ChargeId, Scope};
use crate::money::Currency;
use crate::payment_method::PaymentMethod;
use crate::row::Key;
use crate::time::Timestamp;

/// What is summed up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Counter {
    /// Charges made.
    Created,
    /// Charges that somebody tried to pay.
    Attempted,
    /// Charges that were settled.
    Paid,
    /// Their amounts, in minor units.
    Volume,
    /// Seconds from their creation to their payment.
    SecondsToPay,
    /// How often one came into this status: failed, expired, cancelled, refunded, disputed.
    Became(PublicStatus),
    /// Charges that were settled by a method.
    PaidBy(PaymentMethod),
    /// Their amounts, in minor units.
    VolumeBy(PaymentMethod),
    /// Charges made in an hour of the day in São Paulo.
    CreatedInHour(u8),
    /// Charges paid in an hour of the day in São Paulo.
    PaidInHour(u8),
    /// Charges that now are in a status.
    InStatus(TransactionStatus),
}

impl Counter {
    /// Its attribute. Short, so that a day's row stays under 1 KB, which is what one write unit pays for.
    pub fn attribute(self) -> String {
        match self {
            Self::Created => "made".to_owned(),
            Self::Attempted => "tried".to_owned(),
            Self::Paid => "paid".to_owned(),
            Self::Volume => "volume".to_owned(),
            Self::SecondsToPay => "seconds".to_owned(),
            Self::Became(status) => format!("b_{}", of_public(status)),
            Self::PaidBy(method) => format!("n_{}", method.facts().code),
            Self::VolumeBy(method) => format!("v_{}", method.facts().code),
            Self::CreatedInHour(hour) => format!("c{hour}"),
            Self::PaidInHour(hour) => format!("p{hour}"),
            Self::InStatus(status) => format!("s_{}", of_status(status)),
        }
    }
}

fn of_public(status: PublicStatus) -> &'static str {
    match status {
        PublicStatus::Pending => "pe",
        PublicStatus::Processing => "pr",
        PublicStatus::Paid => "pa",
        PublicStatus::Failed => "fa",
        PublicStatus::Expired => "ex",
        PublicStatus::Cancelled => "ca",
        PublicStatus::Refunded => "re",
        PublicStatus::Disputed => "di",
    }
}

fn of_status(status: TransactionStatus) -> &'static str {
    match status {
        TransactionStatus::Pending => "pe",
        TransactionStatus::WaitingPayment => "wp",
        TransactionStatus::Processing => "pr",
        TransactionStatus::Paid => "pa",
        TransactionStatus::Approved => "ap",
        TransactionStatus::Refused => "rd",
        TransactionStatus::Cancelled => "ca",
        TransactionStatus::Expired => "ex",
        TransactionStatus::Refunded => "re",
        TransactionStatus::Chargeback => "cb",
        TransactionStatus::Dispute => "di",
    }
}

/// Sums by their attributes. One that is not there is 0.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Sums(BTreeMap<String, i64>);

impl Sums {
    /// One of them.
    pub fn get(&self, counter: Counter) -> i64 {
        self.0.get(&counter.attribute()).copied().unwrap_or_default()
    }

    /// Adds to one.
    pub fn add(&mut self, counter: Counter, by: i64) {
        self.add_to(counter.attribute(), by);
    }

    /// Adds other sums to these.
    pub fn add_all(&mut self, other: &Self) {
        for (attribute, by) in other.iter() {
            self.add_to(attribute.to_owned(), by);
        }
    }

    /// All of them, by their attributes.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(attribute, sum)| (attribute.as_str(), *sum))
    }

    /// Adds to one of them, by its attribute.
    pub fn add_to(&mut self, attribute: String, by: i64) {
        // Amounts have twelve digits: more than nine million of the greatest fit.
        let sum = self.0.entry(attribute).or_default();
        *sum = sum.saturating_add(by);
    }

    /// Those that are not 0.
    pub fn into_changes(self) -> Vec<(String, i64)> {
        self.0.into_iter().filter(|(_, by)| *by != 0).collect()
    }
}

/// What one change of a charge adds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Counted {
    /// Whose charge.
    pub scope: Scope,
    /// Which.
    pub charge: ChargeId,
    /// The version that the change made; with the charge's id it names the change.
    pub version: u64,
    /// The day on which the charge was created.
    pub day: Day,
    /// Its currency.
    pub currency: Currency,
    /// To the day's sums.
    pub of_day: Sums,
    /// To the sums of all time.
    pub of_all_time: Sums,
}

/// What a change of a charge adds, from its row before (`None`: it is new) and after. `None`: nothing.
pub fn counted(old: Option<&Charge>, new: &Charge) -> Option<Counted> {
    let (mut of_day, mut of_all_time) = (Sums::default(), Sums::default());
    if old.is_none() {
        of_day.add(Counter::Created, 1);
        of_day.add(Counter::CreatedInHour(hour_of(new.created_at)), 1);
        of_all_time.add(Counter::Created, 1);
    }
    let before = old.map(|charge| charge.status);
    if before != Some(new.status) {
        for sums in [&mut of_day, &mut of_all_time] {
            sums.add(Counter::InStatus(new.status), 1);
            if let Some(before) = before {
                sums.add(Counter::InStatus(before), -1);
            }
        }
    }
    let before = before.unwrap_or(TransactionStatus::Pending);
    if is_attempt(before, new.status) {
        of_day.add(Counter::Attempted, 1);
    }
    let public = new.status.public();
    if before.public() != public {
        match public {
            PublicStatus::Failed
            | PublicStatus::Expired
            | PublicStatus::Cancelled
            | PublicStatus::Refunded
            | PublicStatus::Disputed => of_day.add(Counter::Became(public), 1),
            PublicStatus::Pending | PublicStatus::Processing | PublicStatus::Paid => {}
        }
    }
    if old.is_none_or(|charge| charge.settlement.is_none())
        && let Some(applied) = new.settlement.and(new.applied_payment.as_ref())
    {
        add_payment(&mut of_day, new, applied.paid_at);
    }
    let is_nothing = of_day.0.is_empty() && of_all_time.0.is_empty();
    (!is_nothing).then(|| Counted {
        scope: new.scope,
        charge: new.id,
        version: new.version,
        day: Day::of(new.created_at),
        currency: new.currency,
        of_day,
        of_all_time,
    })
}

fn add_payment(sums: &mut Sums, charge: &Charge, paid_at: Timestamp) {
    let amount = charge.amount.minor();
    let millis = paid_at.millis_since(charge.created_at).max(0);
    sums.add(Counter::Paid, 1);
    sums.add(Counter::Volume, amount);
    sums.add(Counter::SecondsToPay, millis.div_euclid(1000));
    sums.add(Counter::PaidBy(charge.method()), 1);
    sums.add(Counter::VolumeBy(charge.method()), amount);
    sums.add(Counter::PaidInHour(hour_of(paid_at)), 1);
}

/// Whether somebody tried to pay, for the first time: no status leads back to one from which this can happen. What its
/// acquirer refused to make was no attempt of a payer.
fn is_attempt(before: TransactionStatus, after: TransactionStatus) -> bool {
    let was_untouched = match before {
        TransactionStatus::Pending => after != TransactionStatus::Refused,
        TransactionStatus::WaitingPayment => true,
        TransactionStatus::Processing
        | TransactionStatus::Paid
        | TransactionStatus::Approved
        | TransactionStatus::Refused
        | TransactionStatus::Cancelled
        | TransactionStatus::Expired
        | TransactionStatus::Refunded
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => false,
    };
    let is_touched = match after {
        TransactionStatus::Processing
        | TransactionStatus::Paid
        | TransactionStatus::Approved
        | TransactionStatus::Refused
        | TransactionStatus::Refunded => true,
        TransactionStatus::Pending
        | TransactionStatus::WaitingPayment
        | TransactionStatus::Cancelled
        | TransactionStatus::Expired
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => false,
    };
    was_untouched && is_touched
}

/// A scope's partition.
pub fn partition(scope: &Scope) -> String {
    format!("rollup#{scope}")
}

/// The row of a day in a currency.
pub fn day_key(scope: &Scope, day: Day, currency: Currency) -> Key {
    Key { pk: partition(scope), sk: format!("{DAY_SORT}{day}#{currency}") }
}

/// The row of all time.
pub fn all_time_key(scope: &Scope) -> Key {
    Key { pk: partition(scope), sk: "total".to_owned() }
}

/// What the sort keys of days' rows begin with.
pub const DAY_SORT: &str = "day#";

/// Reads the sort key of a day's row.
pub fn parse_day(sort: &str) -> Option<(Day, Currency)> {
    let (day, currency) = sort.strip_prefix(DAY_SORT)?.split_once('#')?;
    Some((day.parse().ok()?, Currency::parse(currency).ok()?))
}
