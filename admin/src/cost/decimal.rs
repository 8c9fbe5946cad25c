//! Exact decimal numbers for prices and counts. Prices and counts are never floating-point numbers, so that
//! a sum does not depend on its order.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

/// The number of decimals of a [`Decimal`]. The smallest price, that of a GB-second, has ten.
const DECIMALS: usize = 12;

/// The maximum number of digits before the point.
const MAX_INTEGER_DIGITS: usize = 15;

/// One, in units of the last decimal.
const ONE: u128 = 1_000_000_000_000;

/// A decimal number that is not negative, with at most twelve decimals.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(try_from = "String")]
pub(super) struct Decimal(u128);

#[derive(Debug, thiserror::Error)]
#[error("`{0}` must be a decimal number such as 0.625, with at most {DECIMALS} decimals, in quotation marks")]
pub(super) struct DecimalError(String);

impl Decimal {
    /// The sum. `None`: it is too large.
    pub(super) fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The product. `None`: it is too large. Decimals beyond the twelfth are cut off.
    pub(super) fn checked_mul(self, other: Self) -> Option<Self> {
        Some(Self(self.0.checked_mul(other.0)?.checked_div(ONE)?))
    }

    /// This number multiplied by an integer. `None`: the product is too large.
    pub(super) fn times(self, factor: u64) -> Option<Self> {
        self.0.checked_mul(factor.into()).map(Self)
    }

    /// This number divided by an integer. `None`: the divisor is zero. Decimals beyond the twelfth are cut off.
    pub(super) fn divided_by(self, divisor: u64) -> Option<Self> {
        self.0.checked_div(divisor.into()).map(Self)
    }

    /// The number with this many decimals, at most twelve, rounded half up.
    pub(super) fn rounded(self, decimals: usize) -> String {
        let decimals = decimals.min(DECIMALS);
        let unit = (decimals..DECIMALS).fold(1_u128, |unit, _| unit.saturating_mul(10));
        let rounded = self.0.saturating_add(unit.checked_div(2).unwrap_or_default()).checked_div(unit);
        let scale = (0..decimals).fold(1_u128, |scale, _| scale.saturating_mul(10));
        let rounded = rounded.unwrap_or_default();
        let integer = rounded.checked_div(scale).unwrap_or_default();
        let fraction = rounded.checked_rem(scale).unwrap_or_default();
        if decimals == 0 { integer.to_string() } else { format!("{integer}.{fraction:0decimals$}") }
    }
}

/// Writes all decimals that are not zero.
impl fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.rounded(DECIMALS);
        formatter.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || DecimalError(text.to_owned());
        let (integer, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let are_digits =
            |part: &str| !part.is_empty() && part.chars().all(|character| character.is_ascii_digit());
        if !are_digits(integer)
            || !are_digits(fraction)
            || integer.len() > MAX_INTEGER_DIGITS
            || fraction.len() > DECIMALS
        {
            return Err(invalid());
        }
        format!("{integer}{fraction:0<DECIMALS$}").parse().map(Self).map_err(|_| invalid())
    }
}

impl TryFrom<String> for Decimal {
    type Error = DecimalError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}
