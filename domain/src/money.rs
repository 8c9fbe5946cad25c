//! Money as integers of a currency's smallest unit; never a float. [`Amount`] is the amount of a request,
//! [`MinorUnits`] a term of a ledger sum, [`Money`] an amount with its currency.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::{serde_as_text, text_schema};

/// ISO 4217 list one as of January 2026, when Bulgaria adopted the euro, then tokens.
const IN_USE: &str = "
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY
    COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR
    ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK
    MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF
    SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU
    UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
    BTC USDC USDT";

const TOKENS: [&str; 3] = ["BTC", "USDC", "USDT"];

/// A currency code of 3 to 8 upper-case letters: ISO 4217 codes such as `BRL`, and tokens such as `USDT`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; Self::MAX_LEN]);

impl Currency {
    /// Brazilian real, two decimals.
    pub const BRL: Self = Self(*b"BRL\0\0\0\0\0");
    /// Euro, two decimals.
    pub const EUR: Self = Self(*b"EUR\0\0\0\0\0");
    /// US dollar, two decimals.
    pub const USD: Self = Self(*b"USD\0\0\0\0\0");
    /// Bitcoin, eight decimals.
    pub const BTC: Self = Self(*b"BTC\0\0\0\0\0");
    /// Tether, six decimals.
    pub const USDT: Self = Self(*b"USDT\0\0\0\0");
    /// Japanese yen, no decimals.
    pub const JPY: Self = Self(*b"JPY\0\0\0\0\0");

    const MIN_LEN: usize = 3;
    const MAX_LEN: usize = 8;

    /// Parses 3 to 8 upper-case ASCII letters. Does not check whether the currency exists; see
    /// [`Self::is_known`].
    pub fn parse(code: &str) -> Result<Self, CurrencyError> {
        let bytes = code.as_bytes();
        if bytes.len() < Self::MIN_LEN || !bytes.iter().all(u8::is_ascii_uppercase) {
            return Err(CurrencyError);
        }
        let mut padded = [0; Self::MAX_LEN];
        padded.get_mut(..bytes.len()).ok_or(CurrencyError)?.copy_from_slice(bytes);
        Ok(Self(padded))
    }

    /// Returns the code, `[A-Z]{3,8}`.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default().trim_end_matches('\0')
    }

    /// In ISO 4217 (list one, without funds, metals and test codes), or a token that the service supports.
    pub fn is_known(self) -> bool {
        IN_USE.split_ascii_whitespace().any(|code| code == self.as_str())
    }

    /// Whether the currency is in use and not a token.
    pub(crate) fn is_national(self) -> bool {
        self.is_known() && !TOKENS.contains(&self.as_str())
    }

    /// Decimals of the main unit, by ISO 4217 ("minor unit"); for tokens by their issuers. A code that is not
    /// listed has 2.
    pub fn exponent(self) -> u32 {
        match self.as_str() {
            "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "PYG" | "RWF" | "UGX" | "UYI"
            | "VND" | "VUV" | "XAF" | "XOF" | "XPF" => 0,
            "BHD" | "IQD" | "JOD" | "KWD" | "LYD" | "OMR" | "TND" => 3,
            "CLF" | "UYW" => 4,
            "USDC" | "USDT" => 6,
            "BTC" => 8,
            _ => 2,
        }
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Currency {
    type Err = CurrencyError;

    fn from_str(code: &str) -> Result<Self, CurrencyError> {
        Self::parse(code)
    }
}

serde_as_text!(Currency);
text_schema!(Currency, "A currency code: ISO 4217, or a token such as `USDT`.", {
    "pattern": "^[A-Z]{3,8}$",
});

/// The code is not 3 to 8 upper-case letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 3 to 8 upper-case letters")]
pub struct CurrencyError;

/// An amount as a person types it in the main unit of a currency: `1.234,56`, `1234.56`, `1234`, `R$ 10`, `JPY 1.990`.
/// Its currency decides how many smallest units it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedAmount {
    digits: i64,
    decimals: u32,
    /// A lone point before three digits, such as in `1.500`.
    may_divide_thousands: bool,
    /// The currency that was typed before it.
    currency: Option<Currency>,
}

impl TypedAmount {
    /// A comma begins the decimals. So does a lone point, unless it divides thousands: three digits follow it, and the
    /// currency has fewer decimals. Where a currency has three decimals or more, `1.500` is one and a half. Read as
    /// thousands, it would be 1000 times what a person meant who types decimals there; read as decimals, it is never more
    /// than was meant. Two points always divide thousands. `None`: the text is no amount.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (symbol, number) = text.split_at(text.find(|c: char| c.is_ascii_digit())?);
        let currency = match symbol.trim() {
            "" => None,
            "R$" => Some(Currency::BRL),
            code => Some(Currency::parse(code).ok()?),
        };
        let (whole, fraction) = match (number.rsplit_once(','), number.split_once('.')) {
            (Some((whole, fraction)), _) => (without_points(whole)?, fraction),
            (None, Some((whole, fraction))) if !fraction.contains('.') => (whole.to_owned(), fraction),
            (None, _) => (without_points(number)?, ""),
        };
        let is_grouped = !number.contains(',') && without_points(number).is_some();
        let may_divide_thousands = is_grouped && fraction.len() == 3;
        let digits = whole + fraction;
        let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
        let decimals = u32::try_from(fraction.len()).ok()?;
        is_number.then_some(Self { digits: digits.parse().ok()?, decimals, may_divide_thousands, currency })
    }

    /// The amount in smallest units. `None`: it has more decimals than the currency, or another currency was typed.
    pub fn minor(self, currency: Currency) -> Option<i64> {
        let exponent = currency.exponent();
        let is_thousands = self.may_divide_thousands && exponent < self.decimals;
        let missing = if is_thousands { exponent } else { exponent.checked_sub(self.decimals)? };
        let is_named = self.currency.is_none_or(|named| named == currency);
        is_named.then(|| self.digits.checked_mul(10_i64.checked_pow(missing)?))?
    }
}

/// `None`: the points do not divide groups of thousands.
fn without_points(text: &str) -> Option<String> {
    let mut groups = text.split('.');
    let first = groups.next()?;
    let rest: Vec<&str> = groups.collect();
    let is_grouped = (1..=3).contains(&first.len()) && !first.starts_with('0');
    let is_grouped = is_grouped && rest.iter().all(|group| group.len() == 3);
    (rest.is_empty() || is_grouped).then(|| text.replace('.', ""))
}

/// An amount that a request may contain: 1 to 999,999,999,999 smallest units. An integer on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i64);

impl Amount {
    /// The smallest amount: one smallest unit.
    pub const MIN: Self = Self(1);
    /// The largest amount. The limit is field 54 of a BR Code, which has 13 characters: `9999999999.99`.
    pub const MAX: Self = Self(999_999_999_999);

    /// Converts smallest units of any integer type. Fails outside [`Self::MIN`] to [`Self::MAX`].
    pub fn parse(minor: impl Into<i128>) -> Result<Self, AmountError> {
        let minor = minor.into();
        if minor < i128::from(Self::MIN.0) {
            return Err(AmountError::NotPositive);
        }
        match i64::try_from(minor) {
            Ok(minor) if minor <= Self::MAX.0 => Ok(Self(minor)),
            _ => Err(AmountError::TooLarge),
        }
    }

    /// Returns the amount in smallest units, at least 1.
    pub const fn minor(self) -> i64 {
        self.0
    }

    pub fn minor_unsigned(self) -> u64 {
        self.0.unsigned_abs()
    }

    pub fn in_currency(self, currency: Currency) -> Money {
        Money { minor: self.into(), currency }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "an amount is positive, so its negation fits")]
    pub(crate) fn negated(self) -> MinorUnits {
        MinorUnits(-self.0)
    }

    /// Formats the amount with exactly `exponent` decimals: 1000 with 2 is `10.00`.
    pub fn decimal(self, exponent: u32) -> String {
        decimal(self.0, exponent)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(i64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Amount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "integer",
            "format": "int64",
            "description": "An amount in the currency's smallest unit.",
            "minimum": Self::MIN.0,
            "maximum": Self::MAX.0,
        })
    }
}

/// Why a number is not an [`Amount`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    #[error("must be an integer of at least 1 (minor units)")]
    NotPositive,
    #[error("must be at most 999999999999 (minor units)")]
    TooLarge,
}

/// A signed number of a currency's smallest units. The currency is a separate field of the row.
#[derive(Clone, Copy, Default, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
#[schemars(inline, description = "A number of the currency's smallest units. It may be negative.")]
pub struct MinorUnits(i64);

impl MinorUnits {
    pub const ZERO: Self = Self(0);

    pub const fn new(minor: i64) -> Self {
        Self(minor)
    }

    /// Returns the number of smallest units.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Returns true for zero. Rows omit fields that are zero.
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    pub const fn is_positive(self) -> bool {
        self.0 > 0
    }

    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Adds. Fails when the sum does not fit 64 bits.
    pub fn checked_add(self, other: Self) -> Result<Self, MoneyError> {
        self.0.checked_add(other.0).map(Self).ok_or(MoneyError::Overflow)
    }

    /// Subtracts. Fails when the difference does not fit 64 bits.
    pub fn checked_sub(self, other: Self) -> Result<Self, MoneyError> {
        self.0.checked_sub(other.0).map(Self).ok_or(MoneyError::Overflow)
    }

    /// Changes the sign. Fails when the result does not fit 64 bits.
    pub fn checked_neg(self) -> Result<Self, MoneyError> {
        self.0.checked_neg().map(Self).ok_or(MoneyError::Overflow)
    }

    /// Adds all values. Fails when the sum or a partial sum does not fit 64 bits.
    pub fn checked_sum(all: impl IntoIterator<Item = Self>) -> Result<Self, MoneyError> {
        all.into_iter().try_fold(Self::ZERO, Self::checked_add)
    }
}

impl fmt::Display for MinorUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for MinorUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Amount> for MinorUnits {
    fn from(amount: Amount) -> Self {
        Self(amount.0)
    }
}

impl From<MinorUnits> for i128 {
    fn from(minor: MinorUnits) -> Self {
        minor.0.into()
    }
}

impl PartialEq<i64> for MinorUnits {
    fn eq(&self, other: &i64) -> bool {
        self.0 == *other
    }
}

/// A signed number of smallest units of one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Money {
    /// The number of smallest units; negative for a debit.
    pub minor: MinorUnits,
    pub currency: Currency,
}

impl Money {
    pub const fn zero(currency: Currency) -> Self {
        Self { minor: MinorUnits::ZERO, currency }
    }

    /// Adds. Fails when the currencies differ or the sum does not fit 64 bits.
    pub fn checked_add(self, other: Self) -> Result<Self, MoneyError> {
        self.combine(other, MinorUnits::checked_add)
    }

    /// Subtracts. Fails when the currencies differ or the difference does not fit 64 bits.
    pub fn checked_sub(self, other: Self) -> Result<Self, MoneyError> {
        self.combine(other, MinorUnits::checked_sub)
    }

    /// Changes the sign. Fails when the result does not fit 64 bits.
    pub fn checked_neg(self) -> Result<Self, MoneyError> {
        Ok(Self { minor: self.minor.checked_neg()?, ..self })
    }

    /// Formats the value as a decimal number in the currency's main unit: `-10.00` for −1000 centavos.
    pub fn decimal(self) -> String {
        decimal(self.minor.get(), self.currency.exponent())
    }

    fn combine(
        self,
        other: Self,
        operation: fn(MinorUnits, MinorUnits) -> Result<MinorUnits, MoneyError>,
    ) -> Result<Self, MoneyError> {
        if self.currency != other.currency {
            return Err(MoneyError::CurrencyMismatch);
        }
        Ok(Self { minor: operation(self.minor, other.minor)?, ..self })
    }
}

/// Why two values cannot be added or subtracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    #[error("the currencies differ")]
    CurrencyMismatch,
    /// The result does not fit 64 bits.
    #[error("the sum is out of range")]
    Overflow,
}

fn decimal(minor: i64, exponent: u32) -> String {
    let sign = if minor < 0 { "-" } else { "" };
    let decimals = usize::try_from(exponent).unwrap_or_default();
    // Pads to one digit more than the decimals, so that the whole part has at least one digit.
    let digits = format!("{:0>width$}", minor.unsigned_abs(), width = decimals.saturating_add(1));
    match digits.split_at_checked(digits.len().saturating_sub(decimals)) {
        Some((whole, fraction)) if !fraction.is_empty() => format!("{sign}{whole}.{fraction}"),
        _ => format!("{sign}{digits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(minor: i64, currency: Currency) -> Money {
        Money { minor: MinorUnits::new(minor), currency }
    }

    #[test]
    fn a_sum_of_minor_units_that_does_not_fit_is_an_error() {
        let (most, one) = (MinorUnits::new(i64::MAX), MinorUnits::from(Amount::MIN));
        assert_eq!(MinorUnits::checked_sum([most, one]), Err(MoneyError::Overflow));
        assert_eq!(MinorUnits::checked_sum([most, Amount::MIN.negated(), one]), Ok(most));
        assert_eq!(MinorUnits::new(i64::MIN).checked_neg(), Err(MoneyError::Overflow));
        assert_eq!(Amount::MAX.negated().checked_neg(), Ok(Amount::MAX.into()));
    }

    #[test]
    fn an_amount_is_read_as_people_write_it_in_the_currency_that_it_has() {
        let read = |text: &str, currency| TypedAmount::parse(text).and_then(|typed| typed.minor(currency));
        let [kwd, brl, jpy] = ["KWD", "BRL", "JPY"].map(|code| Currency::parse(code).unwrap());
        for (text, currency, minor) in [
            ("129,90", brl, Some(12_990)),
            ("R$ 1.234,56", brl, Some(123_456)),
            ("1234.56", brl, Some(123_456)),
            ("1.234", brl, Some(123_400)),
            ("19.9", brl, Some(1_990)),
            ("10", brl, Some(1_000)),
            ("0,01", brl, Some(1)),
            ("0,001", brl, None),
            ("10", jpy, Some(10)),
            ("JPY 1.990", jpy, Some(1_990)),
            ("1.990,00", jpy, None),
            ("R$ 10", jpy, None),
            ("1,50", kwd, Some(1_500)),
            ("1,505", kwd, Some(1_505)),
            ("1.505", kwd, Some(1_505)),
            ("KWD 1.250", kwd, Some(1_250)),
            ("0.500", kwd, Some(500)),
            ("1234.500", kwd, Some(1_234_500)),
            ("1.5000", kwd, None),
            ("1.250,000", kwd, Some(1_250_000)),
            ("1.250.000", kwd, Some(1_250_000_000)),
            ("1.500", Currency::USDT, Some(1_500_000)),
            ("1,500", Currency::USDT, Some(1_500_000)),
            ("0.125", Currency::BTC, Some(12_500_000)),
            ("0.500", brl, None),
            ("1234.567", brl, None),
            ("1,500", brl, None),
            ("1.500", jpy, Some(1_500)),
            ("1.5", jpy, None),
            ("0,00000001", Currency::BTC, Some(1)),
            ("99999999999", Currency::BTC, None),
        ] {
            assert_eq!(read(text, currency), minor, "{text} {currency}");
        }
        let refused = "abc -5 1,2,3 1.2.3x 99999999999999999999 1.2.345 0.500.000 1.23,45 ,50 brl10";
        for text in refused.split_whitespace().chain(["", "5 0"]) {
            assert_eq!(TypedAmount::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_currency_is_three_to_eight_upper_case_letters() {
        for code in ["BRL", "EUR", "USDT", "ABCDEFGH"] {
            assert_eq!(Currency::parse(code).unwrap().to_string(), code);
        }
        for code in ["", "BR", "brl", "BrL", "BR1", "BRL ", "ABCDEFGHI", "BRÉ", "BRL\0"] {
            assert_eq!(Currency::parse(code), Err(CurrencyError), "{code:?}");
        }
    }

    #[test]
    fn a_currency_has_the_decimals_of_iso_4217_and_otherwise_two() {
        for (constant, code, exponent) in [
            (Some(Currency::BRL), "BRL", 2),
            (Some(Currency::EUR), "EUR", 2),
            (Some(Currency::USD), "USD", 2),
            (Some(Currency::USDT), "USDT", 6),
            (Some(Currency::BTC), "BTC", 8),
            (Some(Currency::JPY), "JPY", 0),
            (None, "BHD", 3),
            (None, "CLF", 4),
            (None, "XYZ", 2),
        ] {
            let currency = Currency::parse(code).unwrap();
            assert_eq!(currency.exponent(), exponent, "{code}");
            assert!(constant.is_none_or(|constant| constant == currency), "{code}");
        }
    }

    #[test]
    fn an_amount_is_positive_and_bounded() {
        assert_eq!(Amount::parse(0), Err(AmountError::NotPositive));
        assert_eq!(Amount::parse(i64::MIN), Err(AmountError::NotPositive));
        assert_eq!(Amount::parse(1).unwrap().minor(), 1);
        assert_eq!(Amount::parse(999_999_999_999_i64), Ok(Amount::MAX));
        assert_eq!(Amount::parse(1_000_000_000_000_i64), Err(AmountError::TooLarge));
        assert_eq!(Amount::parse(u64::MAX), Err(AmountError::TooLarge));
    }

    #[test]
    fn an_amount_is_an_integer_on_the_wire() {
        assert_eq!(serde_json::to_string(&Amount::MAX).unwrap(), "999999999999");
        assert_eq!(serde_json::from_str::<Amount>("1000").unwrap().minor(), 1000);
        for text in ["0", "-1", "10.0", "\"10\"", "1000000000000", "null"] {
            assert!(serde_json::from_str::<Amount>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_decimal_is_padded_with_zeros() {
        for (minor, exponent, expected) in [
            (1000, 2, "10.00"),
            (1, 2, "0.01"),
            (10, 2, "0.10"),
            (7, 0, "7"),
            (1, 6, "0.000001"),
            (1_500_000, 6, "1.500000"),
        ] {
            assert_eq!(Amount::parse(minor).unwrap().decimal(exponent), expected);
        }
        assert_eq!(Amount::MAX.decimal(2), "9999999999.99");
        assert_eq!([-5, 0].map(|minor| money(minor, Currency::BRL).decimal()), ["-0.05", "0.00"]);
        assert_eq!(money(i64::MIN, Currency::JPY).decimal(), "-9223372036854775808");
    }

    #[test]
    fn a_currency_in_use_is_known_and_a_mistyped_code_is_not() {
        for code in ["BRL", "EUR", "USD", "JPY", "USDT", "BTC"] {
            assert!(Currency::parse(code).unwrap().is_known(), "{code}");
        }
        for code in ["BLR", "RBL", "BRLX", "XXX", "XTS", "ABC", "HRK"] {
            assert!(!Currency::parse(code).unwrap().is_known(), "{code}");
        }
    }

    #[test]
    fn money_of_two_currencies_cannot_be_added() {
        let euro = money(1, Currency::EUR);
        assert_eq!(Money::zero(Currency::BRL).checked_add(euro), Err(MoneyError::CurrencyMismatch));
        assert_eq!(Money::zero(Currency::BRL).checked_sub(euro), Err(MoneyError::CurrencyMismatch));
    }
}
