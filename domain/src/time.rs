//! Timestamps: UTC milliseconds, from 1970 through 9999. On the wire a [`Timestamp`] is text, always with three
//! decimals and `Z`, so texts sort by time. Rows store numbers: `#[serde(with = "crate::time::millis")]`, or
//! `millis_option`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::text::{serde_as_text, text_schema};

const MAX_MILLIS: i64 = 253_402_300_799_999;

/// Offset of São Paulo behind UTC. It is constant: decree 9.772 of 2019 ended daylight saving time.
pub const SAO_PAULO_BEHIND_SECONDS: i64 = 3 * 60 * 60;

/// The same offset in ISO 8601.
const SAO_PAULO_OFFSET: &str = "-03:00";

pub const SECONDS_A_DAY: i64 = 24 * 60 * 60;

const MILLIS_PER_SECOND: i64 = 1_000;
const NANOS_PER_MILLI: u32 = 1_000_000;
const NANOS_PER_SECOND: u32 = 1_000_000_000;

/// Without an offset.
const DATE_LEN: usize = "YYYY-MM-DD".len();
const MINUTES_LEN: usize = "YYYY-MM-DDTHH:MM".len();
const NANOS_LEN: usize = "YYYY-MM-DDTHH:MM:SS.123456789".len();

/// An instant with millisecond precision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00.000Z.
    pub const MIN: Self = Self(0);
    /// 9999-12-31T23:59:59.999Z.
    pub const MAX: Self = Self(MAX_MILLIS);

    /// Creates a timestamp from UTC milliseconds since 1970. Fails outside the years 1970 to 9999.
    pub fn from_millis(millis: i64) -> Result<Self, TimestampError> {
        if (0..=MAX_MILLIS).contains(&millis) { Ok(Self(millis)) } else { Err(TimestampError::OutOfRange) }
    }

    /// Returns the UTC milliseconds since 1970: 0 to 253,402,300,799,999, which fit 48 bits.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Returns the whole UTC seconds since 1970.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(MILLIS_PER_SECOND)
    }

    /// Formats the timestamp as `2026-11-21T01:02:03.004Z`.
    pub fn to_iso(self) -> String {
        self.to_chrono().to_rfc3339_opts(SecondsFormat::Millis, true)
    }

    /// Returns the instant as chrono's type, for calendar arithmetic and formatting.
    pub fn to_chrono(self) -> DateTime<Utc> {
        // Every timestamp is within chrono's range, so the default is never used.
        DateTime::from_timestamp_millis(self.0).unwrap_or_default()
    }

    /// Fails outside the years 1970 to 9999. `seconds` may be negative.
    pub fn plus_seconds(self, seconds: i64) -> Result<Self, TimestampError> {
        seconds
            .checked_mul(MILLIS_PER_SECOND)
            .ok_or(TimestampError::OutOfRange)
            .and_then(|m| self.plus_millis(m))
    }

    /// The result stays within the years 1970 to 9999. `seconds` may be negative.
    #[must_use]
    pub fn saturating_plus_seconds(self, seconds: i64) -> Self {
        self.plus_seconds(seconds).unwrap_or(if seconds < 0 { Self::MIN } else { Self::MAX })
    }

    /// Fails outside the years 1970 to 9999. `millis` may be negative.
    pub fn plus_millis(self, millis: i64) -> Result<Self, TimestampError> {
        self.0.checked_add(millis).ok_or(TimestampError::OutOfRange).and_then(Self::from_millis)
    }

    /// This instant, or the first millisecond after `earlier`. So a row's change times strictly increase, even
    /// when a request that began earlier commits later.
    #[must_use]
    pub(crate) fn strictly_after(self, earlier: Self) -> Self {
        earlier.plus_millis(1).map_or(self, |next| self.max(next))
    }

    /// Returns the duration from `now` until this instant; zero when this instant has passed.
    pub fn saturating_duration_since(self, now: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.millis_since(now)).unwrap_or_default())
    }

    /// Returns the milliseconds since `earlier`; negative when `earlier` is the later one.
    pub fn millis_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Parses ISO 8601 and rounds down to the millisecond, as an exclusive lower bound needs. Accepts
    /// `2026-11-21T01:02:03Z`, also without seconds, with a fraction of 1 to 9 digits, or with an offset
    /// `±HH:MM` or `±HHMM`. A bare date gives the first millisecond of that day in São Paulo.
    pub fn parse_floor(text: &str) -> Result<Self, TimestampError> {
        Self::from_millis(parse(text)?.millis)
    }

    /// Like [`Self::parse_floor`], but rounds up, as an inclusive lower bound and an exclusive upper bound
    /// need.
    pub fn parse_ceil(text: &str) -> Result<Self, TimestampError> {
        let Parsed { millis, remainder_nanos, .. } = parse(text)?;
        Self::from_millis(millis)?.plus_millis(i64::from(remainder_nanos > 0))
    }

    /// Like [`Self::parse_floor`], but a bare date gives the last millisecond of its day, as an inclusive upper
    /// bound needs.
    pub fn parse_last(text: &str) -> Result<Self, TimestampError> {
        let Parsed { millis, is_date, .. } = parse(text)?;
        let first = Self::from_millis(millis)?;
        if !is_date {
            return Ok(first);
        }
        // The last day of 9999 ends after the maximum in UTC, so it is clamped.
        let millis_a_day = SECONDS_A_DAY.saturating_mul(MILLIS_PER_SECOND);
        Ok(first.plus_millis(millis_a_day.saturating_sub(1)).unwrap_or(Self::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_iso())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        Self::parse_floor(text)
    }
}

serde_as_text!(Timestamp);
text_schema!(Timestamp, "A time in UTC, ISO 8601 with milliseconds.", {
    "format": "date-time",
    "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$",
});

/// Why a text or a number is not a [`Timestamp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimestampError {
    /// The text is not an accepted date or date-time, or its day or time does not exist.
    #[error("must be an ISO 8601 date-time with Z or an offset, or a date")]
    Format,
    #[error("must be within the years 1970 to 9999")]
    OutOfRange,
}

/// Milliseconds are rounded down; `remainder_nanos` is what that dropped.
struct Parsed {
    millis: i64,
    remainder_nanos: u32,
    is_date: bool,
}

fn parse(text: &str) -> Result<Parsed, TimestampError> {
    let at = to_rfc3339(text).and_then(|text| DateTime::parse_from_rfc3339(&text).ok());
    // chrono represents a leap second by a fraction of 1,000,000,000 nanoseconds or more. A timestamp cannot
    // represent it, so it is refused.
    let at = at.filter(|at| at.timestamp_subsec_nanos() < NANOS_PER_SECOND).ok_or(TimestampError::Format)?;
    Ok(Parsed {
        millis: at.timestamp_millis(),
        remainder_nanos: at.timestamp_subsec_nanos().rem_euclid(NANOS_PER_MILLI),
        is_date: text.len() == DATE_LEN,
    })
}

/// Completes a text to RFC 3339: the time of a bare date, the seconds, the colon of an offset. `None` for forms
/// that chrono accepts and this service does not: a space before the time, more than nine decimals, a minus
/// sign other than ASCII.
fn to_rfc3339(text: &str) -> Option<Cow<'_, str>> {
    if text.len() == DATE_LEN {
        return Some([text, "T00:00:00", SAO_PAULO_OFFSET].concat().into());
    }
    let (local, offset) = text.split_at_checked(text.rfind(['Z', 'z', '+', '-'])?)?;
    if !(MINUTES_LEN..=NANOS_LEN).contains(&local.len()) || local.contains(' ') {
        return None;
    }
    let seconds = if local.len() == MINUTES_LEN { ":00" } else { "" };
    let colon = if offset.len() == "+HHMM".len() { ":" } else { "" };
    if seconds.is_empty() && colon.is_empty() {
        return Some(text.into());
    }
    let (hours, minutes) = offset.split_at_checked("+HH".len()).unwrap_or((offset, ""));
    Some([local, seconds, hours, colon, minutes].concat().into())
}

/// Serialises a [`Timestamp`] as a number of milliseconds, for database rows.
pub mod millis {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::Timestamp;

    pub fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(at.0)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        Timestamp::from_millis(i64::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// As [`millis`], or null. A field that may be absent also needs `#[serde(default)]`.
pub mod millis_option {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use super::Timestamp;

    pub fn serialize<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        at.map(Timestamp::millis).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        let millis = Option::<i64>::deserialize(deserializer)?;
        millis.map(Timestamp::from_millis).transpose().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_floor(text).unwrap()
    }

    #[test]
    fn a_sum_outside_the_years_is_the_nearest_instant_of_them() {
        assert_eq!(Timestamp::MAX.saturating_plus_seconds(1), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.saturating_plus_seconds(i64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.saturating_plus_seconds(-1), Timestamp::MIN);
        assert_eq!(Timestamp::MAX.saturating_plus_seconds(i64::MIN), Timestamp::MIN);
    }

    #[test]
    fn all_accepted_forms_of_an_instant_parse_to_it() {
        let expected = at("2026-11-21T01:02:03.000Z");
        for text in [
            "2026-11-21T01:02:03Z",
            "2026-11-21T01:02:03.0Z",
            "2026-11-21T01:02:03.000000000Z",
            "2026-11-21T01:02:03+00:00",
            "2026-11-21T01:02:03-00:00",
            "2026-11-20T22:02:03-03:00",
            "2026-11-20T22:02:03-0300",
            "2026-11-20t22:02:03-0300",
            "2026-11-21T01:02:03z",
            "2026-11-21t01:02:03.000z",
            "2026-11-21T06:32:03.000+05:30",
            "2026-11-21T06:32:03.000+0530",
        ] {
            assert_eq!(Timestamp::parse_floor(text), Ok(expected), "{text}");
            assert_eq!(Timestamp::parse_ceil(text), Ok(expected), "{text}");
            assert_eq!(Timestamp::parse_last(text), Ok(expected), "{text}");
        }
        for text in ["2026-11-21T10:00Z", "2026-11-21T07:00-03:00", "2026-11-21t07:00-0300"] {
            assert_eq!(Timestamp::parse_floor(text), Ok(at("2026-11-21T10:00:00Z")), "{text}");
        }
    }

    #[test]
    fn a_bare_date_is_a_day_in_sao_paulo() {
        assert_eq!(at("2026-11-21").to_iso(), "2026-11-21T03:00:00.000Z");
        assert_eq!(at("2028-02-29").to_iso(), "2028-02-29T03:00:00.000Z");
        assert_eq!(Timestamp::parse_ceil("2026-11-21"), Ok(at("2026-11-21")));
        assert_eq!(Timestamp::parse_last("2026-11-21").unwrap().to_iso(), "2026-11-22T02:59:59.999Z");
        assert_eq!(Timestamp::parse_last("9999-12-31"), Ok(Timestamp::MAX));
    }

    #[test]
    fn other_forms_are_refused() {
        let forms = "2026-11 2026-11-21T 2026-11-21Z 2026-11-21T01:02:03 2026-11-21T01:02 \
            2026-11-21T01:02.5Z 2026-11-21T01:02:Z 2026-11-21T01:02:03+00 2026-11-21T01:02:03.Z \
            2026-11-21T01:02:03.0000000000Z 2026-11-21T01:02:03,5Z 2026-11-21T01:02:03UTC \
            2026-11-21T01:02:03+24:00 2026-11-21T01:02:03+00:60 2026-11-21T01:02:03ZZ 2026-13-01 \
            2026-02-29 2026-11-21T24:00:00Z 2026-11-21T23:59:60Z 20261121 2026-W47-6 +2026-11-21 \
            12026-11-21 ٢٠٢٦-11-21 1795222923004";
        for text in forms.split_whitespace().chain([
            "",
            "2026-11-21 01:02:03Z",
            "2026-11-21T01:02:03 00:00",
            "2026-11-21T01:02:03\u{2212}03:00",
            " 2026-11-21",
            "2026-11-21 ",
        ]) {
            assert_eq!(Timestamp::parse_floor(text), Err(TimestampError::Format), "{text}");
            assert_eq!(Timestamp::parse_ceil(text), Err(TimestampError::Format), "{text}");
        }
    }

    #[test]
    fn a_year_outside_the_range_is_refused() {
        for text in ["1969-12-31", "0000-01-01", "1970-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"] {
            assert_eq!(Timestamp::parse_floor(text), Err(TimestampError::OutOfRange), "{text}");
        }
        assert_eq!(Timestamp::parse_ceil("9999-12-31T23:59:59.9991Z"), Err(TimestampError::OutOfRange));
        assert_eq!(Timestamp::from_millis(-1), Err(TimestampError::OutOfRange));
        assert_eq!(Timestamp::from_millis(MAX_MILLIS + 1), Err(TimestampError::OutOfRange));
    }

    #[test]
    fn fractions_of_a_millisecond_are_rounded_down_or_up() {
        let text = "2026-11-21T01:02:03.004000001Z";
        assert_eq!(Timestamp::parse_floor(text).unwrap().to_iso(), "2026-11-21T01:02:03.004Z");
        assert_eq!(Timestamp::parse_ceil(text).unwrap().to_iso(), "2026-11-21T01:02:03.005Z");
        assert_eq!(
            Timestamp::parse_ceil("2026-12-31T23:59:59.9999Z").unwrap().to_iso(),
            "2027-01-01T00:00:00.000Z"
        );
        assert_eq!(
            Timestamp::parse_ceil("2026-11-21T01:02:03.5Z").unwrap().to_iso(),
            "2026-11-21T01:02:03.500Z"
        );
    }

    #[test]
    fn adding_seconds_fails_outside_the_range() {
        assert_eq!(at("2026-11-21").plus_seconds(86_400), Ok(at("2026-11-22")));
        assert_eq!(at("2026-11-21").plus_seconds(-1), Ok(at("2026-11-20T23:59:59-03:00")));
        assert_eq!(Timestamp::MIN.plus_seconds(-1), Err(TimestampError::OutOfRange));
        assert_eq!(Timestamp::MAX.plus_seconds(1), Err(TimestampError::OutOfRange));
        assert_eq!(Timestamp::MIN.plus_seconds(i64::MAX), Err(TimestampError::OutOfRange));
        assert_eq!(at("2026-11-22").millis_since(at("2026-11-21")), 86_400_000);
    }

    #[test]
    fn a_timestamp_is_a_number_in_rows_and_text_on_the_wire() {
        #[derive(Serialize, Deserialize, PartialEq, Debug)]
        struct Row {
            wire: Timestamp,
            #[serde(with = "crate::time::millis")]
            number: Timestamp,
            #[serde(default, with = "crate::time::millis_option")]
            some: Option<Timestamp>,
            #[serde(default, with = "crate::time::millis_option", skip_serializing_if = "Option::is_none")]
            none: Option<Timestamp>,
        }
        let at = Timestamp::from_millis(1).unwrap();
        let row = Row { wire: at, number: at, some: Some(at), none: None };
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(text, r#"{"wire":"1970-01-01T00:00:00.001Z","number":1,"some":1}"#);
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
        assert!(serde_json::from_str::<Row>(r#"{"wire":"1970-01-01T00:00:00.001Z","number":-1}"#).is_err());
    }

    proptest! {
        #[test]
        fn parsing_reverses_formatting(millis in 0..=MAX_MILLIS) {
            let at = Timestamp::from_millis(millis).unwrap();
            prop_assert_eq!(Timestamp::parse_floor(&at.to_iso()), Ok(at));
            prop_assert_eq!(Timestamp::parse_ceil(&at.to_string()), Ok(at));
        }

        #[test]
        fn texts_sort_like_instants(a in 0..=MAX_MILLIS, b in 0..=MAX_MILLIS) {
            let (a, b) = (Timestamp::from_millis(a).unwrap(), Timestamp::from_millis(b).unwrap());
            prop_assert_eq!(a.to_iso().cmp(&b.to_iso()), a.cmp(&b));
        }

        #[test]
        fn parsing_never_panics(text in "[0-9TZ:.+-]{0,36}|.*") {
            let _ = Timestamp::parse_ceil(&text);
        }
    }
}
