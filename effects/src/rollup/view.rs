//! The wire formats of statistics (`GET /v1/payments/stats`, `GET /v1/payments/metrics`), computed from the
//! daily sums of a window.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use domain::calendar::{BusinessDayRange, Day, HOURS_A_DAY};
use domain::charge::PublicStatus;
use domain::money::Currency;
use domain::payment_method::{PaymentMethod, UpperCaseMethod};
use domain::rollup::{Counter, Sums};
use domain::vocabulary::Vocabulary;

use crate::rollup::DayRow;
use shared::http::field::{CURRENCY_CODE, Count, Definitions, Parsed};
use shared::http::{Fields, NonNegative, Problem, Query};

/// The most entries of `dailyVolume`.
const MAX_DAILY_POINTS: u64 = 366;

shared::fields! {
    /// The maximum is more than a century.
    DAYS: Count = "days", Count { min: 1, max: 36_500, hint: "" }, DefaultsTo(7), 30,
        "The number of business days of Brazil's banks. The statistics cover the shortest period that ends today and contains so many business days.";
    CURRENCY: Parsed<Currency> = "currency", CURRENCY_CODE, Optional, "BRL",
        "The only currency to include: a code of ISO 4217, `BTC`, `USDC` or `USDT`. The default is all currencies.";
}

pub const STATS_QUERY: Definitions = &[&DAYS];

pub const METRICS_QUERY: Definitions = &[&DAYS, &CURRENCY];

#[derive(Clone, Copy, Debug)]
pub struct StatsQuery {
    /// The length of the window, in business days of Brazil's banks. The window ends today
    /// (`America/Sao_Paulo`). It also contains the days in between, such as Saturdays, which this number does
    /// not count. See [`BusinessDayRange::of_business_days`].
    pub days: u32,
    pub currency: Option<Currency>,
}

impl StatsQuery {
    pub fn parse(query: &Query, known: Definitions) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, known);
        let days = query.read(&mut fields, &DAYS);
        let currency = query.read(&mut fields, &CURRENCY);
        fields.finish(days.map(|days| Self { days, currency }))
    }
}

/// The paid payments in one currency.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
struct CurrencyVolume {
    /// The currency.
    currency: Currency,
    /// The sum of the paid amounts in the currency's smallest unit.
    volume: NonNegative,
    /// The number of paid payments.
    count: NonNegative,
}

/// The payments that were paid by one method.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
struct MethodVolume {
    /// The payment method.
    method: UpperCaseMethod,
    /// The sum of the paid amounts in smallest units. The amounts in different currencies are added up.
    volume: NonNegative,
    /// The number of paid payments.
    count: NonNegative,
}

/// The paid payments that were created on one day.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
struct DailyVolume {
    /// The day in São Paulo.
    date: Day,
    /// The sum of the paid amounts by currency, in smallest units. Empty if nothing was paid.
    currencies: BTreeMap<Currency, i64>,
}

fn sum<'a>(rows: impl IntoIterator<Item = &'a DayRow>) -> Sums {
    let mut all = Sums::default();
    for row in rows {
        all.add_all(&row.sums);
    }
    all
}

/// Adds up the sums by currency. Currencies without a paid charge are left out.
fn paid_by_currency<'a>(rows: impl IntoIterator<Item = &'a DayRow>) -> BTreeMap<Currency, Sums> {
    let mut by_currency: BTreeMap<Currency, Sums> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.sums.get(Counter::Paid) > 0) {
        by_currency.entry(row.currency).or_default().add_all(&row.sums);
    }
    by_currency
}

fn volumes(by_currency: &BTreeMap<Currency, Sums>) -> Vec<CurrencyVolume> {
    let volume = |(currency, sums): (&Currency, &Sums)| CurrencyVolume {
        currency: *currency,
        volume: NonNegative(sums.get(Counter::Volume)),
        count: NonNegative(sums.get(Counter::Paid)),
    };
    by_currency.iter().map(volume).collect()
}

/// Returns the volume of each payment method that has a paid charge. An entry has no currency. So for a method
/// with several currencies (cards, crypto), the minor units of all of them are added up. A request for
/// `metrics` with `currency` returns the volumes in one currency.
fn methods(sums: &Sums) -> Vec<MethodVolume> {
    let volume = |method| MethodVolume {
        method: UpperCaseMethod(method),
        volume: NonNegative(sums.get(Counter::VolumeBy(method))),
        count: NonNegative(sums.get(Counter::PaidBy(method))),
    };
    PaymentMethod::all().map(volume).filter(|method| method.count.0 > 0).collect()
}

/// Returns `part` / `whole` in units of 1/`scale`, rounded half-up, or 0 when `whole` is 0. A `part` above
/// `whole` counts as `whole`: while the stream record of a charge's creation is quarantined, the charge's
/// payment may be counted and its creation not.
fn share(part: i64, whole: i64, scale: u32) -> u32 {
    let [part, whole] = [part.min(whole), whole].map(|count| u128::try_from(count).unwrap_or_default());
    let doubled = part.saturating_mul(2).saturating_mul(u128::from(scale)).saturating_add(whole);
    let share = doubled.checked_div(whole.saturating_mul(2)).unwrap_or_default();
    u32::try_from(share).unwrap_or_default()
}

/// Divides `sum` by `count`, rounded half-up. `None` when `count` is 0.
fn average(sum: i64, count: i64) -> Option<i64> {
    let [sum, count] = [sum, count].map(i128::from);
    let doubled = sum.saturating_mul(2).saturating_add(count);
    i64::try_from(doubled.checked_div(count.saturating_mul(2))?).ok()
}

/// Statistics of the payments that were created in a window of business days.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "PaymentStats")]
#[serde(rename_all = "camelCase")]
pub struct StatsView {
    /// The number of payments created in the window.
    total_transactions: NonNegative,
    /// The number of these payments that were paid.
    paid_transactions: NonNegative,
    /// The number of payments created today.
    today_transactions: NonNegative,
    /// The share of the payments created in the window that were paid, in percent.
    #[schemars(range(max = 100))]
    success_rate: u32,
    /// The paid payments by currency.
    volume_by_currency: Vec<CurrencyVolume>,
    /// The sum of the paid amounts of the payments created today, by currency, in smallest units.
    today_volume_by_currency: BTreeMap<Currency, i64>,
    /// The paid payments by the calendar day of their creation, at most 366 days.
    daily_volume: Vec<DailyVolume>,
    /// The paid payments by method.
    method_breakdown: Vec<MethodVolume>,
}

impl StatsView {
    pub fn new(window: BusinessDayRange, rows: &[DayRow]) -> Self {
        let all = sum(rows);
        let today = || rows.iter().filter(|row| row.day == window.today);
        let mut volume_of_days: BTreeMap<Day, BTreeMap<Currency, i64>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.sums.get(Counter::Paid) > 0) {
            volume_of_days.entry(row.day).or_default().insert(row.currency, row.sums.get(Counter::Volume));
        }
        let (total, paid) = (all.get(Counter::Created), all.get(Counter::Paid));
        Self {
            total_transactions: NonNegative(total),
            paid_transactions: NonNegative(paid),
            today_transactions: NonNegative(sum(today()).get(Counter::Created)),
            success_rate: share(paid, total, 100),
            volume_by_currency: volumes(&paid_by_currency(rows)),
            today_volume_by_currency: volume_of_days.get(&window.today).cloned().unwrap_or_default(),
            daily_volume: window
                .latest(MAX_DAILY_POINTS)
                .map(|date| DailyVolume {
                    date,
                    currencies: volume_of_days.remove(&date).unwrap_or_default(),
                })
                .collect(),
            method_breakdown: methods(&all),
        }
    }
}

/// The numbers of payments that reached each stage in the window.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "PaymentFunnel")]
struct Funnel {
    /// Payments that were created.
    created: NonNegative,
    /// Payments whose payer attempted to pay.
    attempted: NonNegative,
    /// Payments that were paid.
    paid: NonNegative,
    /// Payments that were declined.
    failed: NonNegative,
    /// Payments that expired.
    expired: NonNegative,
    /// Payments that were cancelled.
    cancelled: NonNegative,
    /// Payments that were refunded in full.
    refunded: NonNegative,
    /// Payments that were disputed.
    disputed: NonNegative,
}

/// The payments of one hour of the day, on all days of the window.
#[derive(Debug, JsonSchema, Serialize)]
struct HourOfDay {
    /// The hour in São Paulo, 0 to 23.
    #[schemars(range(max = 23))]
    hour: u8,
    /// The number of payments that were created.
    created: NonNegative,
    /// The number of payments that were paid.
    paid: NonNegative,
}

/// Metrics of the payments that were created in a window of business days: conversion, volumes and times.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "PaymentMetrics")]
#[serde(rename_all = "camelCase")]
pub struct MetricsView {
    /// The length of the window in business days, as requested.
    days: u32,
    /// The currency of the payments, as requested. `null`: payments in all currencies.
    currency: Option<Currency>,
    /// The numbers of payments that reached each stage.
    funnel: Funnel,
    /// The share of the payments created in the window that were paid, from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    conversion_rate: f64,
    /// The average paid amount in the currency's smallest unit. `null` if nothing was paid, or if payments in
    /// several currencies were.
    average_ticket: Option<NonNegative>,
    /// The average time from creation to payment, in seconds. `null` if nothing was paid.
    average_time_to_pay_seconds: Option<NonNegative>,
    /// The paid payments by currency.
    volume_by_currency: Vec<CurrencyVolume>,
    /// The paid payments by method.
    method_breakdown: Vec<MethodVolume>,
    /// The payments by hour of the day: 24 items.
    #[schemars(length(equal = 24))]
    hourly: Vec<HourOfDay>,
}

const RATE_SCALE: u32 = 10_000;

impl MetricsView {
    pub fn new(query: &StatsQuery, rows: &[DayRow]) -> Self {
        let rows =
            || rows.iter().filter(|row| query.currency.is_none_or(|currency| row.currency == currency));
        let all = sum(rows());
        let became = |status| NonNegative(all.get(Counter::Became(status)));
        let (created, paid) = (all.get(Counter::Created), all.get(Counter::Paid));
        let by_currency = paid_by_currency(rows());
        // Amounts in different currencies have no common average.
        let ticket = match by_currency.len() {
            1 => average(all.get(Counter::Volume), paid),
            _ => None,
        };
        Self {
            days: query.days,
            currency: query.currency,
            funnel: Funnel {
                created: NonNegative(created),
                attempted: NonNegative(all.get(Counter::Attempted)),
                paid: NonNegative(paid),
                failed: became(PublicStatus::Failed),
                expired: became(PublicStatus::Expired),
                cancelled: became(PublicStatus::Cancelled),
                refunded: became(PublicStatus::Refunded),
                disputed: became(PublicStatus::Disputed),
            },
            conversion_rate: f64::from(share(paid, created, RATE_SCALE)) / f64::from(RATE_SCALE),
            average_ticket: ticket.map(NonNegative),
            average_time_to_pay_seconds: average(all.get(Counter::SecondsToPay), paid).map(NonNegative),
            volume_by_currency: volumes(&by_currency),
            method_breakdown: methods(&all),
            hourly: (0..HOURS_A_DAY)
                .map(|hour| HourOfDay {
                    hour,
                    created: NonNegative(all.get(Counter::CreatedInHour(hour))),
                    paid: NonNegative(all.get(Counter::PaidInHour(hour))),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::rollup::view::*;

    #[test]
    fn a_share_is_rounded_half_up_and_is_zero_when_the_whole_is_zero() {
        for (part, whole, expected) in [
            (0, 0, 0),
            (0, 7, 0),
            (1, 200, 1),
            (1, 201, 0),
            (2, 3, 67),
            (1, 3, 33),
            (199, 200, 100),
            (5, 5, 100),
            (3, 2, 100),
        ] {
            assert_eq!(share(part, whole, 100), expected, "{part} of {whole}");
        }
        assert_eq!(share(1, 8, RATE_SCALE), 1250);
        assert_eq!(share(2, 3, RATE_SCALE), 6667);
    }

    #[test]
    fn an_average_is_rounded_half_up_and_absent_for_a_zero_count() {
        assert_eq!(average(0, 0), None);
        assert_eq!(average(3, 2), Some(2));
        assert_eq!(average(4, 3), Some(1));
        assert_eq!(average(5, 3), Some(2));
        assert_eq!(average(i64::MAX, 1), Some(i64::MAX));
    }

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    fn row(date: &str, currency: Currency, sums: &[(Counter, i64)]) -> DayRow {
        let mut row = DayRow { day: day(date), currency, sums: Sums::default() };
        for (counter, by) in sums {
            row.sums.add(*counter, *by);
        }
        row
    }

    fn rows() -> Vec<DayRow> {
        let pix = PaymentMethod::Pix;
        let card = PaymentMethod::CreditCard;
        vec![
            row("2026-11-18", Currency::BRL, &[(Counter::Created, 5), (Counter::CreatedInHour(9), 5)]),
            row(
                "2026-11-19",
                Currency::BRL,
                &[
                    (Counter::Created, 3),
                    (Counter::Attempted, 2),
                    (Counter::Paid, 2),
                    (Counter::Volume, 2500),
                    (Counter::SecondsToPay, 61),
                    (Counter::PaidBy(pix), 1),
                    (Counter::VolumeBy(pix), 1000),
                    (Counter::PaidBy(card), 1),
                    (Counter::VolumeBy(card), 1500),
                    (Counter::Became(PublicStatus::Expired), 1),
                    (Counter::CreatedInHour(0), 3),
                    (Counter::PaidInHour(23), 2),
                ],
            ),
            row(
                "2026-11-21",
                Currency::EUR,
                &[
                    (Counter::Created, 1),
                    (Counter::Paid, 1),
                    (Counter::Volume, 700),
                    (Counter::PaidBy(card), 1),
                    (Counter::VolumeBy(card), 700),
                ],
            ),
        ]
    }

    #[test]
    fn metrics_have_the_documented_shape() {
        let query = StatsQuery { days: 7, currency: Some(Currency::BRL) };
        let mut metrics = MetricsView::new(&query, &rows());
        assert_eq!(metrics.hourly.len(), 24);
        metrics.hourly.retain(|hour| [0, 9, 23].contains(&hour.hour));
        assert_eq!(
            serde_json::to_value(metrics).unwrap(),
            json!({
                "days": 7, "currency": "BRL",
                "funnel": {
                    "created": 8, "attempted": 2, "paid": 2, "failed": 0, "expired": 1, "cancelled": 0, "refunded": 0,
                    "disputed": 0,
                },
                "conversionRate": 0.25, "averageTicket": 1250, "averageTimeToPaySeconds": 31,
                "volumeByCurrency": [{"currency": "BRL", "volume": 2500, "count": 2}],
                "methodBreakdown": [
                    {"method": "PIX", "volume": 1000, "count": 1},
                    {"method": "CREDIT_CARD", "volume": 1500, "count": 1},
                ],
                "hourly": [
                    {"hour": 0, "created": 3, "paid": 0},
                    {"hour": 9, "created": 5, "paid": 0},
                    {"hour": 23, "created": 0, "paid": 2},
                ],
            })
        );
    }
}
