//! Boleto: a bank slip's barcode number (44 digits) and its digitable line (47 digits).
//!
//! Both contain the bank, the currency, the due date, the amount, and the free field: 25 digits that the bank
//! assigns. The fifth digit of the barcode number is a check digit over all others (modulo 11). The line
//! repeats it, and adds one check digit (modulo 10) to each of its first three fields. Every [`Boleto`] can
//! be encoded. Parsing is strict and verifies the check digits.
//!
//! The due date is encoded as a due factor: the days since 1997-10-07, which restarted at 1000 on 2025-02-22.
//! Utility bills (48 digits, first digit 8) are not supported.
//!
//! Source: Febraban's rules, from banks' manuals and published implementations. The tests contain published
//! slips.

use chrono::{Datelike as _, NaiveDate};

use crate::digits::Digits;

/// A bank code that is not assigned: the Central Bank's clearing codes begin at 001.
const SANDBOX_BANK: Digits<3> = Digits::ZERO;

const CURRENCY: u8 = 9;

/// Day 0 of the due factor, 1997-10-07, in days since 0000-12-31.
const FACTOR_EPOCH_DAY: i32 = 729_304;
const FACTOR_MIN: i32 = 1_000;
/// The number of days in one cycle of factors, 1000 to 9999.
const FACTOR_CYCLE: i32 = 9_000;
/// 2049-10-13, the last day of the second cycle, in days since day 0. No rule is published for later days.
const LAST_DAY: i32 = 18_999;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BoletoError {
    #[error("must be the 44 digits of a boleto's barcode number")]
    Digits,
    #[error("a check digit is wrong")]
    CheckDigit,
    /// The currency code is not 9, the real.
    #[error("the currency must be the real")]
    Currency,
    /// The amount is zero or above 9,999,999,999 centavos: the field has ten digits.
    #[error("the amount must be from 1 to 9999999999 centavos")]
    Amount,
    /// The due date is before 2000-07-03 or after 2049-10-13, so it has no factor. Or a parsed factor is
    /// below 1000.
    #[error("the due date must be from 2000-07-03 to 2049-10-13")]
    Due,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boleto {
    bank: Digits<3>,
    amount_centavos: u64,
    due: NaiveDate,
    free_field: Digits<25>,
    factor: Digits<4>,
    value: Digits<10>,
}

impl Boleto {
    /// The amount must be 1 to 9,999,999,999 centavos, and the due date 2000-07-03 to 2049-10-13.
    pub fn new(
        bank: Digits<3>,
        amount_centavos: u64,
        due: NaiveDate,
        free_field: Digits<25>,
    ) -> Result<Self, BoletoError> {
        let value = amount_field(amount_centavos)?;
        Ok(Self { bank, amount_centavos, due, free_field, factor: due_factor(due)?, value })
    }

    /// Returns a boleto for tests. Its bank is 000, which does not exist, so no bank can accept a payment for
    /// it.
    pub fn sandbox(id: [u8; 16], amount_centavos: u64, due: NaiveDate) -> Result<Self, BoletoError> {
        Self::new(SANDBOX_BANK, amount_centavos, due, Digits::from_id(id))
    }

    /// Parses a barcode number of 44 digits. A due factor means two days, one in each cycle of factors; the
    /// due date is the day nearer to `near`, which is usually today.
    pub fn from_barcode(text: &str, near: NaiveDate) -> Result<Self, BoletoError> {
        let barcode = Digits::<44>::parse(text).map_err(|_| BoletoError::Digits)?;
        if barcode.values().nth(3) != Some(CURRENCY) {
            return Err(BoletoError::Currency);
        }
        let due = due_date(barcode.part(5), near)?;
        let centavos = u64::try_from(barcode.part::<10>(9).number()).map_err(|_| BoletoError::Amount)?;
        let read = Self::new(barcode.part(0), centavos, due, barcode.part(19))?;
        if read.barcode() == barcode { Ok(read) } else { Err(BoletoError::CheckDigit) }
    }

    /// Parses a digitable line of 47 digits, as [`Self::from_barcode`] does a barcode number. It verifies all four check
    /// digits.
    pub fn from_line(text: &str, near: NaiveDate) -> Result<Self, BoletoError> {
        let line = Digits::<47>::parse(text).map_err(|_| BoletoError::Digits)?;
        // Between the parts are the check digits of the three fields.
        let parts = [0..4, 32..33, 33..47, 4..9, 10..20, 21..31];
        let barcode = parts.map(|part| text.get(part).unwrap_or_default()).concat();
        let read = Self::from_barcode(&barcode, near)?;
        if read.line() == line { Ok(read) } else { Err(BoletoError::CheckDigit) }
    }

    pub fn bank(&self) -> &Digits<3> {
        &self.bank
    }

    /// Returns the amount, from 1 to 9,999,999,999 centavos.
    pub fn amount_centavos(&self) -> u64 {
        self.amount_centavos
    }

    /// Returns the due date: the last day to pay without a fine.
    pub fn due(&self) -> NaiveDate {
        self.due
    }

    pub fn barcode(&self) -> Digits<44> {
        Digits::collect(self.head().chain([self.check_digit()]).chain(self.tail()))
    }

    pub fn line(&self) -> Digits<47> {
        let mut free = self.free_field.values();
        let first = field(self.head().chain(free.by_ref().take(5)));
        let second = field(free.by_ref().take(10));
        let third = field(free);
        let fields = first.into_iter().chain(second).chain(third);
        let rest = self.factor.values().chain(self.value.values());
        Digits::collect(fields.chain([self.check_digit()]).chain(rest))
    }

    /// Returns the digitable line with its dots and spaces:
    /// `00000.00000 00000.000000 00000.000000 0 00000000000000`.
    pub fn formatted_line(&self) -> String {
        let mut text = String::new();
        for (at, digit) in self.line().as_str().chars().enumerate() {
            match at {
                5 | 15 | 26 => text.push('.'),
                10 | 21 | 32 | 33 => text.push(' '),
                _ => (),
            }
            text.push(digit);
        }
        text
    }

    /// Returns the digits before the barcode number's check digit.
    fn head(&self) -> impl DoubleEndedIterator<Item = u8> {
        self.bank.values().chain([CURRENCY])
    }

    /// Returns the digits after the barcode number's check digit.
    fn tail(&self) -> impl DoubleEndedIterator<Item = u8> {
        self.factor.values().chain(self.value.values()).chain(self.free_field.values())
    }

    /// Computes the barcode number's check digit: modulo 11 with weights 2 to 9 from the right; never 0.
    fn check_digit(&self) -> u8 {
        let digits = self.head().chain(self.tail()).rev();
        // The sum is at most 43 · 9 · 9, far from saturation.
        let sum = digits
            .zip((2..=9).cycle())
            .fold(0_u32, |sum, (digit, weight)| sum.saturating_add(u32::from(digit).saturating_mul(weight)));
        match 11_u32.saturating_sub(sum % 11) {
            0 | 10 | 11 => 1,
            digit => u8::try_from(digit).unwrap_or_default(),
        }
    }
}

/// Appends the check digit to a field of the line: modulo 10 with weights 2 and 1 from the right, summing the
/// digits of each product.
fn field(digits: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut digits: Vec<u8> = digits.collect();
    let sum = digits.iter().rev().zip([2_u32, 1].into_iter().cycle()).fold(0_u32, |sum, (digit, weight)| {
        let product = u32::from(*digit).saturating_mul(weight);
        sum.saturating_add(product / 10).saturating_add(product % 10)
    });
    let check = 10_u32.saturating_sub(sum % 10) % 10;
    digits.push(u8::try_from(check).unwrap_or_default());
    digits
}

fn amount_field(centavos: u64) -> Result<Digits<10>, BoletoError> {
    if centavos == 0 {
        return Err(BoletoError::Amount);
    }
    Digits::from_number(centavos.into()).map_err(|_| BoletoError::Amount)
}

/// Returns the due factor of a day: the days since 1997-10-07. After 9999 it restarts at 1000, the factor of
/// 2025-02-22.
fn due_factor(due: NaiveDate) -> Result<Digits<4>, BoletoError> {
    let days = due.num_days_from_ce().saturating_sub(FACTOR_EPOCH_DAY);
    if !(FACTOR_MIN..=LAST_DAY).contains(&days) {
        return Err(BoletoError::Due);
    }
    let factor = days.saturating_sub(FACTOR_MIN).rem_euclid(FACTOR_CYCLE).saturating_add(FACTOR_MIN);
    let factor = u128::try_from(factor).map_err(|_| BoletoError::Due)?;
    Digits::from_number(factor).map_err(|_| BoletoError::Due)
}

/// Returns the day of a factor, in the cycle whose day is nearer to `near`.
fn due_date(factor: Digits<4>, near: NaiveDate) -> Result<NaiveDate, BoletoError> {
    let days = i32::try_from(factor.number()).map_err(|_| BoletoError::Due)?;
    if days < FACTOR_MIN {
        // The factor 0000 means that the slip has no due date.
        return Err(BoletoError::Due);
    }
    let first = days.saturating_add(FACTOR_EPOCH_DAY);
    let second = first.saturating_add(FACTOR_CYCLE);
    let near = near.num_days_from_ce();
    let day = if near.abs_diff(second) < near.abs_diff(first) { second } else { first };
    NaiveDate::from_num_days_from_ce_opt(day).ok_or(BoletoError::Due)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn vectors(key: &str) -> Vec<Value> {
        let all: Value = serde_json::from_str(include_str!("../tests/vectors/pix-and-boleto.json")).unwrap();
        all[key].as_array().unwrap().clone()
    }

    fn text<'a>(vector: &'a Value, key: &str) -> &'a str {
        vector[key].as_str().unwrap()
    }

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn sandbox() -> Boleto {
        Boleto::sandbox([7; 16], 123_456, day("2026-12-01")).unwrap()
    }

    #[test]
    fn published_boletos_are_parsed_and_encoded_as_published() {
        let vectors = vectors("boleto");
        assert_eq!(vectors.len(), 5);
        for vector in vectors {
            let (barcode, line) = (text(&vector, "barcode"), text(&vector, "digitable_line"));
            let due = day(text(&vector, "due_date"));
            let read = Boleto::from_barcode(barcode, day("2026-11-21")).unwrap();
            assert_eq!((read.due(), read.amount_centavos()), (due, vector["amount_cents"].as_u64().unwrap()));

            let free_field = Digits::parse(barcode.split_at(19).1).unwrap();
            let bank = Digits::parse(barcode.split_at(3).0).unwrap();
            let written = Boleto::new(bank, read.amount_centavos(), due, free_field).unwrap();
            assert_eq!((written.barcode().as_str(), written.line().as_str()), (barcode, line));
            assert_eq!(written.factor.number(), vector["due_factor"].as_u64().unwrap().into());
            assert_eq!(Boleto::from_line(line, day("2026-11-21")), Ok(written));
        }
    }

    #[test]
    fn due_factors_equal_the_published_ones() {
        let vectors = vectors("boleto_due_factor");
        assert_eq!(vectors.len(), 5);
        for vector in vectors {
            let (factor, due) = (vector["factor"].as_u64().unwrap(), day(text(&vector, "date")));
            let written = due_factor(due).unwrap();
            assert_eq!(written.number(), factor.into());
            assert_eq!(due_date(written, due), Ok(due));
        }
        assert_eq!(due_factor(day("2025-02-21")).unwrap().as_str(), "9999");
        assert_eq!(due_factor(day("2049-10-13")).unwrap().as_str(), "9999");
    }

    #[test]
    fn a_due_date_without_a_factor_is_rejected() {
        for due in ["2000-07-02", "2049-10-14", "1997-10-07"] {
            assert_eq!(due_factor(day(due)), Err(BoletoError::Due), "{due}");
        }
        for due in [NaiveDate::MIN, NaiveDate::MAX] {
            assert_eq!(Boleto::sandbox([0; 16], 1, due), Err(BoletoError::Due));
            assert!(Boleto::from_barcode(sandbox().barcode().as_str(), due).is_ok());
        }
        let none = Digits::parse("0000").unwrap();
        assert_eq!(due_date(none, day("2026-11-21")), Err(BoletoError::Due));
    }

    #[test]
    fn an_amount_of_zero_or_of_more_than_ten_digits_is_rejected() {
        let due = day("2026-12-01");
        let most = Boleto::sandbox([0; 16], 9_999_999_999, due).unwrap();
        assert!(most.line().as_str().ends_with("9999999999"));
        for rejected in [0, 10_000_000_000, 999_999_999_999, u64::MAX] {
            assert_eq!(Boleto::sandbox([0; 16], rejected, due), Err(BoletoError::Amount), "{rejected}");
        }
    }

    #[test]
    fn a_sandbox_boleto_has_bank_000_and_is_derived_from_its_id() {
        insta::assert_snapshot!(sandbox().barcode(), @"00097164700001234563408800955381380479911687");
        insta::assert_snapshot!(sandbox().formatted_line(), @"00093.40886 00955.381389 04799.116878 7 16470000123456");
        let other = Boleto::sandbox([8; 16], 123_456, day("2026-12-01")).unwrap();
        assert_ne!(sandbox().free_field, other.free_field);
        assert_eq!(sandbox().bank().as_str(), "000");
    }

    #[test]
    fn a_barcode_with_another_currency_or_without_an_amount_or_a_due_date_is_rejected() {
        let near = day("2026-11-21");
        let change = |at: usize, replacement: &str| {
            let mut text = sandbox().barcode().to_string();
            text.replace_range(at..at + replacement.len(), replacement);
            Boleto::from_barcode(&text, near)
        };
        assert_eq!(change(3, "8"), Err(BoletoError::Currency));
        assert_eq!(change(5, "0000"), Err(BoletoError::Due));
        assert_eq!(change(9, "0000000000"), Err(BoletoError::Amount));
        assert_eq!(Boleto::from_barcode("1234", near), Err(BoletoError::Digits));
    }

    proptest! {
        #[test]
        fn an_encoded_boleto_is_parsed_back(
            id: [u8; 16],
            bank in 0_u128..1000,
            centavos in 1_u64..=9_999_999_999,
            days in 1000_i32..=18_999,
            away in -4_499_i32..=4_499,
        ) {
            let due = NaiveDate::from_num_days_from_ce_opt(FACTOR_EPOCH_DAY + days).unwrap();
            let near = NaiveDate::from_num_days_from_ce_opt(FACTOR_EPOCH_DAY + days + away).unwrap();
            let boleto = Boleto::new(Digits::from_number(bank).unwrap(), centavos, due, Digits::from_id(id)).unwrap();
            prop_assert_eq!(Boleto::from_barcode(boleto.barcode().as_str(), near), Ok(boleto));
        }

        #[test]
        fn a_barcode_with_one_changed_digit_is_rejected(at in 0_usize..44, other in b'0'..=b'9') {
            let mut bytes = sandbox().barcode().as_str().as_bytes().to_vec();
            prop_assume!(bytes[at] != other);
            bytes[at] = other;
            prop_assert!(Boleto::from_barcode(&String::from_utf8(bytes).unwrap(), sandbox().due()).is_err());
        }

        #[test]
        fn a_line_with_one_changed_digit_is_rejected(at in 0_usize..47, other in b'0'..=b'9') {
            let mut bytes = sandbox().line().as_str().as_bytes().to_vec();
            prop_assume!(bytes[at] != other);
            bytes[at] = other;
            prop_assert!(Boleto::from_line(&String::from_utf8(bytes).unwrap(), sandbox().due()).is_err());
        }

        #[test]
        fn parsing_never_panics(text in "[0-9]{44}|[0-9]{47}|.*") {
            let _ = Boleto::from_barcode(&text, sandbox().due());
            let _ = Boleto::from_line(&text, sandbox().due());
        }
    }
}
