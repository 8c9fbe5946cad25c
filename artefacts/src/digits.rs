//! Decimal digits of a fixed length, as in boletos and payment references. They are stored as text, because
//! leading zeros are significant.

use std::fmt;

/// Exactly `N` digits, `[0-9]{N}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digits<const N: usize>([u8; N]);

impl<const N: usize> Digits<N> {
    pub const ZERO: Self = Self([b'0'; N]);

    pub fn parse(text: &str) -> Result<Self, DigitsError> {
        let digits: [u8; N] = text.as_bytes().try_into().map_err(|_| DigitsError)?;
        if digits.iter().all(u8::is_ascii_digit) { Ok(Self(digits)) } else { Err(DigitsError) }
    }

    pub fn from_number(number: u128) -> Result<Self, DigitsError> {
        match Self::split(number) {
            (digits, 0) => Ok(digits),
            _ => Err(DigitsError),
        }
    }

    /// Returns the last `N` decimal digits of an id, whose 16 bytes are a big-endian number.
    pub(crate) fn from_id(id: [u8; 16]) -> Self {
        Self::split(u128::from_be_bytes(id)).0
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = u8> + ExactSizeIterator {
        self.0.iter().map(|digit| digit.saturating_sub(b'0'))
    }

    /// Returns the digits as a number. More than 38 digits may not fit; then it is the largest number.
    pub fn number(&self) -> u128 {
        self.values().fold(0, |number: u128, digit| number.saturating_mul(10).saturating_add(digit.into()))
    }

    /// Returns `M` digits from the index `start`. Callers must not pass the end.
    pub fn part<const M: usize>(&self, start: usize) -> Digits<M> {
        Digits::collect(self.values().skip(start).take(M))
    }

    /// Callers must pass exactly `N`: missing values become zeros at the end, and excess ones are dropped.
    pub(crate) fn collect(values: impl IntoIterator<Item = u8>) -> Self {
        let mut digits = Self::ZERO;
        for (digit, value) in digits.0.iter_mut().zip(values) {
            *digit = b'0'.saturating_add(value.min(9));
        }
        digits
    }

    /// Returns the last `N` digits, and the number formed by the digits before them.
    fn split(number: u128) -> (Self, u128) {
        let mut digits = Self::ZERO;
        let mut rest = number;
        for digit in digits.0.iter_mut().rev() {
            *digit = b'0'.saturating_add(u8::try_from(rest % 10).unwrap_or_default());
            rest /= 10;
        }
        (digits, rest)
    }
}

impl<const N: usize> fmt::Display for Digits<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<const N: usize> fmt::Debug for Digits<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error for a text that is not exactly `N` digits, or a number of more than `N` digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be digits of the required length")]
pub struct DigitsError;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_a_text_of_exactly_n_ascii_digits_is_parsed() {
        assert_eq!(Digits::<3>::parse("007").unwrap().to_string(), "007");
        for text in ["", "07", "0007", "00a", "+07", " 07", "0٧"] {
            assert_eq!(Digits::<3>::parse(text), Err(DigitsError), "{text}");
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_rejected() {
        assert_eq!(Digits::<3>::from_number(999).unwrap().as_str(), "999");
        assert_eq!(Digits::<3>::from_number(1000), Err(DigitsError));
    }

    proptest! {
        #[test]
        fn an_id_is_converted_to_its_last_digits(id: [u8; 16]) {
            let whole = format!("{:025}", u128::from_be_bytes(id));
            prop_assert!(whole.ends_with(Digits::<25>::from_id(id).as_str()));
            prop_assert!(whole.ends_with(Digits::<7>::from_id(id).as_str()));
        }
    }
}
