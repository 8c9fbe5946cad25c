//! What a merchant received and refunded on a day, and what waits for an answer: the numbers of the dashboard's home page
//! and of the morning's email.

use std::fmt;

use domain::calendar::{BusinessDayRange, Day};
use domain::money::Currency;
use domain::rollup::Counter;
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use domain::wallet::PRIMARY_CURRENCY;
use effects::rollup::{DayRow, Rollups};
use effects::webhook::endpoint::{Endpoint, Endpoints};
use money::med::{MOST_SORTED, MedCases, OpenCase};
use shared::store::{Store, StoreError};

/// What moved on a day in a currency, in minor units.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DayMoney {
    pub currency: Currency,
    /// The number of charges that were paid on the day.
    pub sales: i64,
    /// The sum of their amounts, before fees and refunds.
    pub received: i64,
    /// The sum of the refunds that ended on the day.
    pub refunded: i64,
}

impl DayMoney {
    /// The money of a day, first in the primary currency, then in each other one that moved.
    pub fn of(days: &[DayRow], day: Day) -> (Self, Vec<Self>) {
        let none = Self { currency: PRIMARY_CURRENCY, sales: 0, received: 0, refunded: 0 };
        let all = days.iter().filter(|row| row.day == day).map(|row| Self {
            currency: row.currency,
            sales: row.sums.get(Counter::Received),
            received: row.sums.get(Counter::ReceivedVolume),
            refunded: row.sums.get(Counter::RefundedVolume),
        });
        let (primary, others): (Vec<_>, Vec<_>) = all.partition(|sums| sums.currency == PRIMARY_CURRENCY);
        let others = others.into_iter().filter(|sums| sums.sales != 0 || sums.refunded != 0);
        (primary.first().copied().unwrap_or(none), others.collect())
    }
}

/// The number of disputes that can still be answered, such as `3`, or `1000+`: the cases of the latest deadlines are not
/// read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WaitingDisputes {
    pub count: usize,
    pub has_more: bool,
}

impl WaitingDisputes {
    pub fn of(cases: &[OpenCase], now: Timestamp) -> Self {
        let waiting = cases.iter().filter(|case| case.due.is_none_or(|due| due > now)).count();
        Self { count: waiting.min(MOST_SORTED), has_more: cases.len() > MOST_SORTED }
    }

    pub fn is_none(self) -> bool {
        self.count == 0 && !self.has_more
    }
}

impl fmt::Display for WaitingDisputes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.count, if self.has_more { "+" } else { "" })
    }
}

/// Why an endpoint needs a look.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndpointTrouble {
    /// All attempts have failed since then.
    Fails(Timestamp),
    /// The service switched it off then.
    SwitchedOff(Timestamp),
}

impl EndpointTrouble {
    /// `None`: the last attempt succeeded.
    pub fn of(endpoint: &Endpoint) -> Option<Self> {
        let off = endpoint.disabled.as_ref().map(|disabled| Self::SwitchedOff(disabled.at));
        off.or_else(|| endpoint.failing_since.map(Self::Fails))
    }
}

#[derive(Clone, Debug)]
pub struct DaySummary {
    pub day: Day,
    pub primary: DayMoney,
    pub others: Vec<DayMoney>,
    pub disputes: WaitingDisputes,
    pub endpoints: Vec<(Endpoint, EndpointTrouble)>,
}

/// Reads the money of a day, and what waits now.
pub async fn day_summary(
    store: &Store,
    scope: &ShardedScope,
    day: Day,
    now: Timestamp,
) -> Result<DaySummary, StoreError> {
    let (rollups, cases) = (Rollups::new(store.clone()), MedCases::new(store.clone()));
    let endpoints = Endpoints::new(store.clone());
    let (days, cases, endpoints) = tokio::try_join!(
        Box::pin(rollups.for_window(scope, BusinessDayRange { first: day, today: day })),
        Box::pin(cases.open_by_deadline(&scope.scope)),
        Box::pin(endpoints.list(&scope.scope)),
    )?;
    let (primary, others) = DayMoney::of(&days, day);
    let endpoints = endpoints.into_iter().filter_map(|endpoint| {
        let trouble = EndpointTrouble::of(&endpoint)?;
        Some((endpoint, trouble))
    });
    let disputes = WaitingDisputes::of(&cases, now);
    Ok(DaySummary { day, primary, others, disputes, endpoints: endpoints.collect() })
}
