//! Daily rollups: sums over a scope's charges, with one row per day and currency and one for all time.
//! Statistics and totals of lists read them, so their cost does not grow with the number of charges. A charge
//! counts on the day of its creation, whose row can also change later. Only the money that was received and refunded
//! counts on the day on which that happened.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::calendar::{Day, hour_of};
use crate::charge::{Charge, PublicStatus, TransactionStatus};
use crate::ids::Scope;
use crate::money::{Currency, MinorUnits};
use crate::payment_method::PaymentMethod;
use crate::row::Key;
use crate::time::Timestamp;

/// A counter of a rollup row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Counter {
    /// Number of charges created.
    Created,
    /// Number of charges with an attempt to pay: the first move from `PENDING` or `WAITING_PAYMENT` to
    /// `PROCESSING`, `PAID`, `APPROVED`, `REFUSED` or `REFUNDED`. A refusal at the creation does not count.
    Attempted,
    /// Number of charges settled, each once, even if it is refunded or disputed later.
    Paid,
    /// Sum of the amounts of settled charges, in minor units, before fees and refunds.
    Volume,
    /// Sum of the seconds from creation to payment of settled charges.
    SecondsToPay,
    /// Number of changes to this public status. A charge that is disputed twice counts twice.
    Became(PublicStatus),
    /// Number of charges settled by a method.
    PaidBy(PaymentMethod),
    /// Sum of the amounts of charges settled by a method, in minor units.
    VolumeBy(PaymentMethod),
    /// Number of charges created in an hour of the day in São Paulo, 0 to 23.
    CreatedInHour(u8),
    /// Number of charges paid in an hour of the day in São Paulo, 0 to 23.
    PaidInHour(u8),
    /// Number of charges that currently have a status.
    InStatus(TransactionStatus),
    /// Number of charges settled, on the day of the payment.
    Received,
    /// Sum of their amounts in minor units, before fees and refunds.
    ReceivedVolume,
    /// Sum of the completed refunds in minor units, on the day on which they ended.
    RefundedVolume,
}

impl Counter {
    /// Short names keep a day's row under 1 KB, the size that one write unit covers.
    pub fn attribute(self) -> String {
        match self {
            Self::Created => "made".to_owned(),
            Self::Attempted => "tried".to_owned(),
            Self::Paid => "paid".to_owned(),
            Self::Volume => "volume".to_owned(),
            Self::SecondsToPay => "seconds".to_owned(),
            Self::Became(status) => format!("b_{}", public_status_code(status)),
            Self::PaidBy(method) => format!("n_{}", method.facts().code),
            Self::VolumeBy(method) => format!("v_{}", method.facts().code),
            Self::CreatedInHour(hour) => format!("c{hour}"),
            Self::PaidInHour(hour) => format!("p{hour}"),
            Self::InStatus(status) => format!("{IN_STATUS}{}", status_code(status)),
            Self::Received => "in".to_owned(),
            Self::ReceivedVolume => "in_v".to_owned(),
            Self::RefundedVolume => "back".to_owned(),
        }
    }
}

/// Prefix of the attributes of [`Counter::InStatus`].
const IN_STATUS: &str = "s_";

fn public_status_code(status: PublicStatus) -> &'static str {
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

fn status_code(status: TransactionStatus) -> &'static str {
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

/// Sums by attribute name. An absent sum is 0.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Sums(BTreeMap<String, i64>);

impl Sums {
    pub fn get(&self, counter: Counter) -> i64 {
        self.0.get(&counter.attribute()).copied().unwrap_or_default()
    }

    pub fn add(&mut self, counter: Counter, by: i64) {
        self.add_to(counter.attribute(), by);
    }

    pub fn add_all(&mut self, other: &Self) {
        for (attribute, by) in other.iter() {
            self.add_to(attribute.to_owned(), by);
        }
    }

    pub fn subtract_all(&mut self, other: &Self) {
        for (attribute, by) in other.iter() {
            self.add_to(attribute.to_owned(), by.saturating_neg());
        }
    }

    /// Iterates over all sums by attribute name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(attribute, sum)| (attribute.as_str(), *sum))
    }

    pub fn add_to(&mut self, attribute: String, by: i64) {
        // Amounts have at most twelve digits, so a sum of nine million of the largest still fits.
        let sum = self.0.entry(attribute).or_default();
        *sum = sum.saturating_add(by);
    }

    /// The sums that the row for all time has too: charges created, and charges in each status.
    #[must_use]
    pub fn of_all_time(&self) -> Self {
        let created = Counter::Created.attribute();
        let is_of_all_time =
            |(attribute, _): &(&String, &i64)| **attribute == created || attribute.starts_with(IN_STATUS);
        let sums = self.0.iter().filter(is_of_all_time);
        Self(sums.map(|(attribute, sum)| (attribute.clone(), *sum)).collect())
    }

    /// Returns the sums that are not 0.
    pub fn into_changes(self) -> Vec<(String, i64)> {
        self.0.into_iter().filter(|(_, by)| *by != 0).collect()
    }
}

/// What one change of a charge adds to the rollup rows. Short names, because the row of the change's events has
/// them.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RollupChange {
    /// The day on which the charge was created.
    #[serde(rename = "d")]
    pub day: Day,
    #[serde(rename = "c")]
    pub currency: Currency,
    /// Additions to the row of the day.
    #[serde(rename = "s")]
    pub sums: Sums,
    /// Additions to the rows of other days: money that moved after the day of the creation.
    #[serde(rename = "o", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<Day, Sums>,
}

impl RollupChange {
    /// The additions to the row of each day.
    pub fn of_days(&self) -> impl Iterator<Item = (Day, &Sums)> {
        std::iter::once((self.day, &self.sums)).chain(self.others.iter().map(|(day, sums)| (*day, sums)))
    }

    /// Returns the additions to the row for all time.
    pub fn of_all_time(&self) -> Sums {
        self.sums.of_all_time()
    }
}

/// What a change of a charge adds. `old` is `None` for a new charge. `None`: nothing.
pub fn rollup_change(old: Option<&Charge>, new: &Charge) -> Option<RollupChange> {
    let mut sums = Sums::default();
    if old.is_none() {
        sums.add(Counter::Created, 1);
        sums.add(Counter::CreatedInHour(hour_of(new.created_at)), 1);
    }
    let before = old.map(|charge| charge.status);
    if before != Some(new.status) {
        sums.add(Counter::InStatus(new.status), 1);
        if let Some(before) = before {
            sums.add(Counter::InStatus(before), -1);
        }
    }
    let before = before.unwrap_or(TransactionStatus::Pending);
    let was_tried =
        |charge: &Charge| charge.status_changes().iter().any(|(_, to)| *to == TransactionStatus::Processing);
    if is_attempt(before, new.status) && !old.is_some_and(was_tried) {
        sums.add(Counter::Attempted, 1);
    }
    let public = new.status.public();
    if before.public() != public {
        match public {
            PublicStatus::Failed
            | PublicStatus::Expired
            | PublicStatus::Cancelled
            | PublicStatus::Refunded
            | PublicStatus::Disputed => sums.add(Counter::Became(public), 1),
            PublicStatus::Pending | PublicStatus::Processing | PublicStatus::Paid => {}
        }
    }
    let mut moved: BTreeMap<Day, Sums> = BTreeMap::new();
    if old.is_none_or(|charge| charge.settlement.is_none())
        && let Some(applied) = new.settlement.and(new.applied_payment.as_ref())
    {
        add_payment(&mut sums, new, applied.paid_at);
        let received = moved.entry(Day::of(applied.paid_at)).or_default();
        received.add(Counter::Received, 1);
        received.add(Counter::ReceivedVolume, new.amount.minor());
    }
    let refunded = refunded(new).saturating_sub(old.map_or(0, refunded));
    if refunded != 0 {
        moved.entry(Day::of(new.updated_at)).or_default().add(Counter::RefundedVolume, refunded);
    }
    let (day, currency) = (Day::of(new.created_at), new.currency);
    if let Some(moved) = moved.remove(&day) {
        sums.add_all(&moved);
    }
    let is_none = sums.0.is_empty() && moved.is_empty();
    (!is_none).then_some(RollupChange { day, currency, sums, others: moved })
}

fn refunded(charge: &Charge) -> i64 {
    charge.funds.refunded().map_or(0, MinorUnits::get)
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

/// A refusal during creation is not an attempt. After a try that ended unpaid, a charge is `WAITING_PAYMENT` again.
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

pub fn partition(scope: &Scope) -> String {
    format!("rollup#{scope}")
}

/// Returns the key of the row of a day and currency.
pub fn day_key(scope: &Scope, day: Day, currency: Currency) -> Key {
    Key { pk: partition(scope), sk: format!("{DAY_SORT}{day}#{currency}") }
}

/// Returns the key of the row for all time.
pub fn all_time_key(scope: &Scope) -> Key {
    Key { pk: partition(scope), sk: "total".to_owned() }
}

/// Prefix of the sort keys of day rows.
pub const DAY_SORT: &str = "day#";

/// Parses the sort key of a day row, or of a part of one: `#` and more may follow. `None`: the sort key is of
/// another row.
pub fn parse_day(sort: &str) -> Option<(Day, Currency)> {
    let (day, rest) = sort.strip_prefix(DAY_SORT)?.split_once('#')?;
    Some((day.parse().ok()?, Currency::parse(rest.split('#').next()?).ok()?))
}
