//! Calendar days and business days in São Paulo. Merchants, banks and statistics count by these days.

use std::fmt;
use std::str::FromStr;

use bdays::HolidayCalendar as _;
use bdays::calendars::brazil::BRSettlement;
use chrono::{Datelike as _, Days, Months, NaiveDate};

use crate::text::{serde_as_text, text_schema};
use crate::time::{SAO_PAULO_BEHIND_SECONDS, SECONDS_A_DAY, Timestamp};

const SECONDS_AN_HOUR: i64 = 60 * 60;

/// Hours in a day. São Paulo has no daylight saving time, so every day has 24.
pub const HOURS_A_DAY: u8 = 24;

/// A calendar day in São Paulo, written `2026-11-21`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Day(NaiveDate);

impl Day {
    /// Returns the day in São Paulo that contains an instant.
    pub fn of(at: Timestamp) -> Self {
        let number = at.seconds().saturating_sub(SAO_PAULO_BEHIND_SECONDS).div_euclid(SECONDS_A_DAY);
        // Every timestamp is within chrono's range, so the default is never used.
        Self::from_number(number).unwrap_or(Self(NaiveDate::default()))
    }

    /// Returns the first day that begins at an instant or later.
    pub(crate) fn first_from(at: Timestamp) -> Self {
        let day = Self::of(at);
        if day.starts_at() < at { day.plus_days(1) } else { day }
    }

    /// Returns the number of days since 1970-01-01; negative before it.
    pub fn number(self) -> i64 {
        self.0.signed_duration_since(NaiveDate::default()).num_days()
    }

    /// Converts from [`Day::number`]. `None`: the number is outside chrono's range.
    pub fn from_number(number: i64) -> Option<Self> {
        let (first, distance) = (NaiveDate::default(), Days::new(number.unsigned_abs()));
        let day =
            if number < 0 { first.checked_sub_days(distance) } else { first.checked_add_days(distance) };
        day.map(Self)
    }

    /// Formats [`Day::number`] with at least five digits. Such texts sort by day from 1970 to 2243.
    pub fn sortable_number(self) -> String {
        format!("{:05}", self.number())
    }

    /// Parses [`Day::sortable_number`]. `None`: the text is not such a number.
    pub fn from_sortable_number(text: &str) -> Option<Self> {
        Self::from_number(text.parse().ok()?)
    }

    /// Returns the day as chrono's type, for encoders that need it.
    pub fn date(self) -> NaiveDate {
        self.0
    }

    /// Returns the day's first instant, 03:00 UTC, clamped to the range of [`Timestamp`].
    pub fn starts_at(self) -> Timestamp {
        let seconds = self.number().saturating_mul(SECONDS_A_DAY).saturating_add(SAO_PAULO_BEHIND_SECONDS);
        let clamped = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Timestamp::MIN.plus_seconds(seconds).unwrap_or(clamped)
    }

    /// Returns the day's last millisecond, clamped to the range of [`Timestamp`].
    pub fn ends_at(self) -> Timestamp {
        let millis = SECONDS_A_DAY.saturating_mul(1000).saturating_sub(1);
        self.starts_at().plus_millis(millis).unwrap_or(Timestamp::MAX)
    }

    #[must_use]
    pub fn minus_days(self, days: u64) -> Self {
        Self(self.0.checked_sub_days(Days::new(days)).unwrap_or(NaiveDate::MIN))
    }

    #[must_use]
    pub fn plus_days(self, days: u64) -> Self {
        Self(self.0.checked_add_days(Days::new(days)).unwrap_or(NaiveDate::MAX))
    }

    #[must_use]
    pub fn month_start(self) -> Self {
        Self(self.0.with_day(1).unwrap_or(self.0))
    }

    /// Returns the first day of the next month.
    #[must_use]
    pub fn next_month(self) -> Self {
        Self(self.month_start().0.checked_add_months(Months::new(1)).unwrap_or(NaiveDate::MAX))
    }

    /// Returns the first Monday after the day.
    #[must_use]
    pub fn next_monday(self) -> Self {
        self.plus_days(7_u32.saturating_sub(self.0.weekday().num_days_from_monday()).into())
    }

    #[must_use]
    pub fn plus_business_days(self, days: u32) -> Self {
        let mut day = self;
        for _ in 0..days {
            day = day.plus_days(1);
            while !day.is_business_day() && day.0 < NaiveDate::MAX {
                day = day.plus_days(1);
            }
        }
        day
    }

    /// Returns the number of days until `later`, or 0 when `later` is not later.
    pub fn days_until(self, later: Self) -> u64 {
        u64::try_from(later.0.signed_duration_since(self.0).num_days()).unwrap_or_default()
    }

    /// Whether banks settle on this day: not on weekends, national holidays, Monday and Tuesday of Carnival.
    pub(crate) fn is_business_day(self) -> bool {
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
text_schema!(Day, "A calendar day in São Paulo.", { "format": "date", "pattern": r"^\d{4}-\d{2}-\d{2}$" });

/// Serialises an `Option<Day>` as [`Day::number`], for `#[serde(with = "…")]`.
pub mod number_option {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::Day;

    pub fn serialize<S: Serializer>(day: &Option<Day>, serializer: S) -> Result<S::Ok, S::Error> {
        match day {
            Some(day) => serializer.serialize_some(&day.number()),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Day>, D::Error> {
        let Some(number) = Option::<i64>::deserialize(deserializer)? else { return Ok(None) };
        Day::from_number(number).map(Some).ok_or_else(|| de::Error::custom("the day number is out of range"))
    }
}

/// Returns the hour of the day in São Paulo, 0 to 23.
pub fn hour_of(at: Timestamp) -> u8 {
    let into_day = at.seconds().saturating_sub(SAO_PAULO_BEHIND_SECONDS).rem_euclid(SECONDS_A_DAY);
    u8::try_from(into_day.div_euclid(SECONDS_AN_HOUR)).unwrap_or_default()
}

/// A range of calendar days that ends today.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BusinessDayRange {
    pub first: Day,
    /// Last day: today.
    pub today: Day,
}

impl BusinessDayRange {
    /// Returns the shortest range that ends today and contains `days` business days. It contains today even
    /// if today is not a business day.
    pub fn of_business_days(days: u32, now: Timestamp) -> Self {
        let today = Day::of(now);
        let mut first = today;
        let mut remaining = days.saturating_sub(u32::from(first.is_business_day()));
        while remaining > 0 {
            first = first.minus_days(1);
            remaining = remaining.saturating_sub(u32::from(first.is_business_day()));
        }
        Self { first, today }
    }

    /// Iterates over the latest days of the range, at most `most`, oldest first. Today is always
    /// included, even if `most` is 0.
    pub fn latest(self, most: u64) -> impl Iterator<Item = Day> {
        let back = self.first.days_until(self.today).min(most.saturating_sub(1));
        let today = self.today;
        (0..=back).rev().map(move |back| today.minus_days(back))
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
    fn day_bounds_are_clamped_to_the_range_of_timestamps() {
        assert_eq!(
            (Day::of(Timestamp::MIN).to_string(), hour_of(Timestamp::MIN)),
            ("1969-12-31".to_owned(), 21)
        );
        assert_eq!(Day::of(Timestamp::MIN).starts_at(), Timestamp::MIN);
        assert_eq!(Day::of(Timestamp::MAX).ends_at(), Timestamp::MAX);
    }

    #[test]
    fn national_holidays_and_weekends_are_not_business_days() {
        // Carnival, Corpus Christi, Black Consciousness Day (since 2024), Christmas, a Saturday and a Sunday.
        for day_off in
            ["2026-02-16", "2026-02-17", "2026-06-04", "2026-11-20", "2026-12-25", "2026-11-21", "2026-11-22"]
        {
            assert!(!day(day_off).is_business_day(), "{day_off}");
        }
        // Ash Wednesday, New Year's Eve, and a holiday of only São Paulo.
        for weekday in ["2026-02-18", "2026-12-31", "2028-01-25", "2023-11-20"] {
            assert!(day(weekday).is_business_day(), "{weekday}");
        }
    }

    #[test]
    fn the_latest_days_of_a_window_are_listed_oldest_first() {
        let window = BusinessDayRange { first: day("2026-02-26"), today: day("2026-03-02") };
        let days = |most| window.latest(most).map(|day| day.to_string()).collect::<Vec<_>>();
        assert_eq!(days(366), ["2026-02-26", "2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"]);
        assert_eq!(days(5), days(366));
        assert_eq!(days(2), ["2026-03-01", "2026-03-02"]);
        // A range may begin before 1970: 36,500 business days are about 145 years.
        let longest = BusinessDayRange::of_business_days(36_500, at("2026-11-21T15:00:00Z"));
        assert!(longest.first.to_string().starts_with("188"), "{longest:?}");
    }

    proptest! {
        #[test]
        fn an_instant_is_between_the_bounds_of_its_day(millis in 0..=Timestamp::MAX.millis()) {
            let at = Timestamp::from_millis(millis).unwrap();
            let day = Day::of(at);
            prop_assert!(day.starts_at() <= at && at <= day.ends_at());
            prop_assert_eq!(day.to_string().parse(), Ok(day));
            prop_assert_eq!(Day::from_number(day.number()), Some(day));
            prop_assert_eq!(Day::from_sortable_number(&day.sortable_number()), Some(day));
        }

        #[test]
        fn a_window_is_as_short_as_possible(days in 1_u32..400, millis in 1_000_000_000_000_i64..2_000_000_000_000) {
            let now = Timestamp::from_millis(millis).unwrap();
            let window = BusinessDayRange::of_business_days(days, now);
            prop_assert_eq!(window.today, Day::of(now));
            let held = window.latest(u64::MAX).filter(|day| day.is_business_day()).count();
            prop_assert_eq!(u32::try_from(held).unwrap(), days);
            prop_assert!(window.first == window.today || window.first.is_business_day());
        }
    }
}
