//! Calendar days in São Paulo, by which merchants, banks and statistics count, and which of them are business days.
//!
//! A day is text (`2026-11-21`) in URLs, bodies and sort keys. Rows of the ledger hold it as a number, the days since
//! 1970-01-01: [`number_option`], and [`Day::sortable_number`] in their keys.

use std::fmt;
use std::str::FromStr;

use bdays::HolidayCalendar as _;
use bdays::calendars::brazil::BRSettlement;
use chrono::{Days, NaiveDate};

use crate::text::serde_as_text;
use crate::time::{SAO_PAULO_BEHIND_SECONDS, SECONDS_A_DAY, Timestamp};

const SECONDS_AN_HOUR: i64 = 60 * 60;

/// Hours in a day of a time zone without daylight saving.
pub const HOURS_A_DAY: u8 = 24;

/// A calendar day in São Paulo; `2026-11-21` as text.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Day(NaiveDate);

impl Day {
    /// The day that an instant falls on.
    pub fn of(at: Timestamp) -> Self {
        let number = at.seconds().saturating_sub(SAO_PAULO_BEHIND_SECONDS).div_euclid(SECONDS_A_DAY);
        // The range of instants is within chrono's, so the fallback is never taken.
        Self::from_number(number).unwrap_or(Self(NaiveDate::default()))
    }

    /// Days since 1970-01-01.
    pub fn number(self) -> i64 {
        self.0.signed_duration_since(NaiveDate::default()).num_days()
    }

    /// Reads [`Day::number`] back; `None`: chrono has no such day.
    pub fn from_number(number: i64) -> Option<Self> {
        let (first, distance) = (NaiveDate::default(), Days::new(number.unsigned_abs()));
        let day =
            if number < 0 { first.checked_sub_days(distance) } else { first.checked_add_days(distance) };
        day.map(Self)
    }

    /// [`Day::number`] as at least five digits, which sort as days do from 1970 to 2243.
    pub fn sortable_number(self) -> String {
        format!("{:05}", self.number())
    }

    /// Reads [`Day::sortable_number`] back.
    pub fn from_sortable_number(text: &str) -> Option<Self> {
        Self::from_number(text.parse().ok()?)
    }

    /// The day in chrono's terms, for encoders that take one.
    pub fn date(self) -> NaiveDate {
        self.0
    }

    /// Its first instant, at 03:00 UTC.
    pub fn starts_at(self) -> Timestamp {
        let seconds = self.number().saturating_mul(SECONDS_A_DAY).saturating_add(SAO_PAULO_BEHIND_SECONDS);
        let first = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Timestamp::MIN.plus_seconds(seconds).unwrap_or(first)
    }

    /// Its last millisecond.
    pub fn ends_at(self) -> Timestamp {
        let millis = SECONDS_A_DAY.saturating_mul(1000).saturating_sub(1);
        self.starts_at().plus_millis(millis).unwrap_or(Timestamp::MAX)
    }

    /// So many days before it.
    #[must_use]
    pub fn back(self, days: u64) -> Self {
        Self(self.0.checked_sub_days(Days::new(days)).unwrap_or(NaiveDate::MIN))
    }

    /// So many days after it.
    #[must_use]
    pub fn on(self, days: u64) -> Self {
        Self(self.0.checked_add_days(Days::new(days)).unwrap_or(NaiveDate::MAX))
    }

    /// Days from it to another; 0 where that one is not later.
    pub fn days_until(self, later: Self) -> u64 {
        u64::try_from(later.0.signed_duration_since(self.0).num_days()).unwrap_or_default()
    }

    /// Whether banks settle on it: no weekend, no national holiday and not Carnival.
    pub fn is_business_day(self) -> bool {
        BRSettlement.is_bday(self.0)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0.format("%Y-%m-%d"))
    }
}

impl FromStr for Day {
    type Err = chrono::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        NaiveDate::parse_from_str(text, "%Y-%m-%d").map(Self)
    }
}

serde_as_text!(Day);

/// An `Option` of a [`Day`] as [`Day::number`], for `#[serde(with = "…")]`.
pub mod number_option {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::Day;

    /// Writes the number.
    pub fn serialize<S: Serializer>(day: &Option<Day>, serializer: S) -> Result<S::Ok, S::Error> {
        match day {
            Some(day) => serializer.serialize_some(&day.number()),
            None => serializer.serialize_none(),
        }
    }

    /// Reads the number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Day>, D::Error> {
        let Some(number) = Option::<i64>::deserialize(deserializer)? else { return Ok(None) };
        Day::from_number(number).map(Some).ok_or_else(|| de::Error::custom("a day out of range"))
    }
}

/// The hour of the day in São Paulo, 0 to 23.
pub fn hour_of(at: Timestamp) -> u8 {
    let into_day = at.seconds().saturating_sub(SAO_PAULO_BEHIND_SECONDS).rem_euclid(SECONDS_A_DAY);
    u8::try_from(into_day.div_euclid(SECONDS_AN_HOUR)).unwrap_or_default()
}

/// Calendar days, the last of which is today.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Window {
    /// The first.
    pub first: Day,
    /// The last.
    pub today: Day,
}

impl Window {
    /// The shortest window that ends today and holds so many business days. Today is in it even where it is none.
    pub fn of_business_days(days: u32, now: Timestamp) -> Self {
        let today = Day::of(now);
        let mut first = today;
        let mut left = days.saturating_sub(u32::from(first.is_business_day()));
        while left > 0 {
            first = first.back(1);
            left = left.saturating_sub(u32::from(first.is_business_day()));
        }
        Self { first, today }
    }

    /// Its days from the first on; at most so many, the most recent ones.
    pub fn latest(self, most: u64) -> impl Iterator<Item = Day> {
        let back = self.first.days_until(self.today).min(most.saturating_sub(1));
        let today = self.today;
        (0..=back).rev().map(move |back| today.back(back))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_floor(text).unwrap()
    }

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    fn window(days: u32, now: &str) -> (String, String) {
        let window = Window::of_business_days(days, at(now));
        (window.first.to_string(), window.today.to_string())
    }

    #[test]
    fn a_day_begins_at_three_in_utc() {
        assert_eq!(Day::of(at("2026-11-21T02:59:59.999Z")), day("2026-11-20"));
        assert_eq!(Day::of(at("2026-11-21T03:00:00Z")), day("2026-11-21"));
        assert_eq!(day("2026-11-21").starts_at(), at("2026-11-21T03:00:00Z"));
        assert_eq!(day("2026-11-21").ends_at(), at("2026-11-22T02:59:59.999Z"));
        assert_eq!(hour_of(at("2026-11-21T02:59:59.999Z")), 23);
        assert_eq!(hour_of(at("2026-11-21T03:00:00Z")), 0);
        assert_eq!(hour_of(at("2026-11-21T15:30:00Z")), 12);
    }

    #[test]
    fn days_at_the_ends_of_time_have_bounds_too() {
        assert_eq!(
            (Day::of(Timestamp::MIN).to_string(), hour_of(Timestamp::MIN)),
            ("1969-12-31".to_owned(), 21)
        );
        assert_eq!(Day::of(Timestamp::MIN).starts_at(), Timestamp::MIN);
        assert_eq!(Day::of(Timestamp::MAX).ends_at(), Timestamp::MAX);
    }

    #[test]
    fn banks_rest_on_the_holidays_of_2026() {
        for (holiday, name) in [
            ("2026-01-01", "New Year"),
            ("2026-02-16", "Carnival, Monday"),
            ("2026-02-17", "Carnival, Tuesday"),
            ("2026-04-03", "Good Friday"),
            ("2026-04-21", "Tiradentes"),
            ("2026-05-01", "Labour Day"),
            ("2026-06-04", "Corpus Christi"),
            ("2026-09-07", "Independence"),
            ("2026-10-12", "Our Lady of Aparecida"),
            ("2026-11-02", "All Souls"),
            ("2026-11-15", "the Republic"),
            ("2026-11-20", "Black Consciousness"),
            ("2026-12-25", "Christmas"),
            ("2026-11-21", "a Saturday"),
            ("2026-11-22", "a Sunday"),
        ] {
            assert!(!day(holiday).is_business_day(), "{name}");
        }
        for (weekday, name) in [
            ("2026-02-18", "Ash Wednesday"),
            ("2026-06-05", "the day after Corpus Christi"),
            ("2026-12-24", "Christmas Eve"),
            ("2026-12-31", "the last of the year"),
            ("2028-01-25", "São Paulo's own holiday, a Tuesday"),
        ] {
            assert!(day(weekday).is_business_day(), "{name}");
        }
        // It is a national holiday since 2024.
        assert!(day("2023-11-20").is_business_day());
    }

    #[test]
    fn a_window_holds_so_many_business_days_today_included() {
        // A Thursday.
        assert_eq!(window(1, "2026-11-19T15:00:00Z"), ("2026-11-19".to_owned(), "2026-11-19".to_owned()));
        // Over All Souls, a Monday, and a weekend.
        assert_eq!(window(7, "2026-11-06T15:00:00Z").0, "2026-10-28");
        // A Saturday is in the window and does not count; the Friday before it is a holiday.
        assert_eq!(window(1, "2026-11-21T15:00:00Z"), ("2026-11-19".to_owned(), "2026-11-21".to_owned()));
        assert_eq!(window(7, "2026-11-21T15:00:00Z").0, "2026-11-11");
        // Still the 20th in São Paulo.
        assert_eq!(window(1, "2026-11-21T02:00:00Z"), ("2026-11-19".to_owned(), "2026-11-20".to_owned()));
        assert_eq!(window(36_500, "2026-11-21T15:00:00Z").0.get(..3), Some("188"));
    }

    #[test]
    fn the_latest_days_of_a_window_come_oldest_first() {
        let window = Window { first: day("2026-02-26"), today: day("2026-03-02") };
        let days = |most| window.latest(most).map(|day| day.to_string()).collect::<Vec<_>>();
        assert_eq!(days(366), ["2026-02-26", "2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"]);
        assert_eq!(days(5), days(366));
        assert_eq!(days(2), ["2026-03-01", "2026-03-02"]);
    }

    proptest! {
        #[test]
        fn an_instant_is_within_its_day(millis in 0..=Timestamp::MAX.millis()) {
            let at = Timestamp::from_millis(millis).unwrap();
            let day = Day::of(at);
            prop_assert!(day.starts_at() <= at && at <= day.ends_at());
            prop_assert_eq!(day.to_string().parse(), Ok(day));
            prop_assert_eq!(Day::from_number(day.number()), Some(day));
            prop_assert_eq!(Day::from_sortable_number(&day.sortable_number()), Some(day));
        }

        #[test]
        fn a_window_is_as_short_as_its_business_days_allow(days in 1_u32..400, millis in 1_000_000_000_000_i64..2_000_000_000_000) {
            let window = Window::of_business_days(days, Timestamp::from_millis(millis).unwrap());
            let held = window.latest(u64::MAX).filter(|day| day.is_business_day()).count();
            prop_assert_eq!(u32::try_from(held).unwrap(), days);
            prop_assert!(window.first == window.today || window.first.is_business_day());
        }
    }
}
