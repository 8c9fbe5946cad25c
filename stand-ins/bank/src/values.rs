//! Amounts, times, documents and ids in the forms that the API Pix prescribes.

use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The ISPB (8 digits) that the bank's ids contain. No participant of Pix has it.
const ISPB: &str = "99999004";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(try_from = "u64")]
pub struct Cents(u64);

impl TryFrom<u64> for Cents {
    type Error = &'static str;

    fn try_from(cents: u64) -> Result<Self, Self::Error> {
        Self::new(cents).ok_or("the amount has more than ten digits before the point")
    }
}

impl Cents {
    /// The largest amount that the API Pix can express: ten digits before the point.
    pub const MAX: Self = Self(999_999_999_999);

    /// Returns the amount, or `None` above [`Cents::MAX`].
    pub fn new(cents: u64) -> Option<Self> {
        (cents <= Self::MAX.0).then_some(Self(cents))
    }

    pub fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (whole, cents) = text.split_once('.')?;
        let is_valid = (1..=10).contains(&whole.len())
            && cents.len() == 2
            && [whole, cents].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        if !is_valid {
            return None;
        }
        let whole: u64 = whole.parse().ok()?;
        whole.checked_mul(100)?.checked_add(cents.parse().ok()?).and_then(Self::new)
    }

    /// Adds the amounts. 18 million of the largest amount still fit in a `u64`.
    pub(crate) fn sum(amounts: impl Iterator<Item = Self>) -> u64 {
        amounts.fold(0, |sum, amount| sum.saturating_add(amount.0))
    }
}

impl fmt::Display for Cents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

pub(crate) fn rfc3339(at_ms: i64) -> String {
    at(at_ms).to_rfc3339_opts(SecondsFormat::Millis, true)
}

pub(crate) fn parse_rfc3339(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_millis())
}

pub(crate) fn without_nulls(object: Value) -> Map<String, Value> {
    let Value::Object(mut fields) = object else { return Map::new() };
    fields.retain(|_, value| !value.is_null());
    fields
}

fn at(at_ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(at_ms).unwrap_or_default()
}

/// Returns an end-to-end id (`E`) or return id (`D`): the letter, the ISPB, the minute in UTC and 11
/// characters that the serial number determines.
pub(crate) fn transaction_id(letter: char, at_ms: i64, serial: u64) -> String {
    let minute = at(at_ms).format("%Y%m%d%H%M");
    format!("{letter}{ISPB}{minute}{serial:011}")
}

/// Returns 32 hexadecimal digits that look random. The same seed, serial number and purpose give the same
/// digits.
pub(crate) fn opaque(seed: u64, purpose: u64, serial: u64) -> String {
    let first = mix(seed ^ mix(purpose ^ mix(serial)));
    format!("{first:016x}{:016x}", mix(first))
}

/// The finaliser of `SplitMix64`, which spreads the bits of a counter.
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

pub(crate) fn is_alphanumeric(text: &str, lengths: std::ops::RangeInclusive<usize>) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// A tax id. Only its form is checked, as the API Pix prescribes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum TaxId {
    Cpf(String),
    Cnpj(String),
}

impl TaxId {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::cpf(text).or_else(|| Self::cnpj(text))
    }

    pub(crate) fn cpf(text: &str) -> Option<Self> {
        let is_valid = text.len() == 11 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_valid.then(|| Self::Cpf(text.to_owned()))
    }

    pub(crate) fn cnpj(text: &str) -> Option<Self> {
        let is_valid =
            text.len() == 14 && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
        is_valid.then(|| Self::Cnpj(text.to_owned()))
    }

    pub(crate) fn field(&self) -> &'static str {
        match self {
            Self::Cpf(_) => "cpf",
            Self::Cnpj(_) => "cnpj",
        }
    }

    pub(crate) fn digits(&self) -> &str {
        match self {
            Self::Cpf(digits) | Self::Cnpj(digits) => digits,
        }
    }

    /// The document as banks mask it: the first three and the last two characters are hidden.
    pub(crate) fn masked(&self) -> String {
        let length = self.digits().len();
        self.digits()
            .char_indices()
            .map(|(index, digit)| if index < 3 || index.saturating_add(2) >= length { '*' } else { digit })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_every_cent() {
        for text in ["0.00", "0.01", "10.05", "9999999999.99"] {
            assert_eq!(Cents::parse(text).unwrap().to_string(), text);
        }
        for text in
            ["", ".10", "1", "1.0", "1.000", "1,00", "-1.00", "+1.00", "12345678901.00", " 1.00", "1.0a"]
        {
            assert_eq!(Cents::parse(text), None, "{text}");
        }
        assert_eq!(Cents::new(Cents::MAX.get() + 1), None);
    }
}
