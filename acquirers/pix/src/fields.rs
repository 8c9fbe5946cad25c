//! Tolerant access to the fields of a JSON object.
//!
//! A field that is null, empty or of another type is absent. Unknown fields are ignored.

use std::fmt;

use domain::money::Amount;
use domain::time::Timestamp;
use serde_json::{Map, Value};

/// The most digits before the point of an amount, as the Central Bank's document prescribes.
const MAX_WHOLE_DIGITS: usize = 10;

/// Why an object of the bank can't be read. The text does not repeat the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` must be {expected}")]
pub struct ParseError {
    pub field: &'static str,
    pub expected: &'static str,
}

/// A JSON object as the bank sent it. It may contain names and documents, so `Debug` does not show it.
#[derive(Clone, Default, PartialEq)]
pub struct Raw(Map<String, Value>);

impl Raw {
    pub(crate) fn new(fields: &Map<String, Value>) -> Self {
        Self(fields.clone())
    }

    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Raw({} fields)", self.0.len())
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub(crate) fn new(fields: &'a Map<String, Value>) -> Self {
        Self(fields)
    }

    /// Returns the fields of an object. `field` names it in the error.
    pub(crate) fn of(value: &'a Value, field: &'static str) -> Result<Self, ParseError> {
        value.as_object().map(Self).ok_or(ParseError { field, expected: "an object" })
    }

    pub(crate) fn value(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn raw(self) -> Raw {
        Raw::new(self.0)
    }

    /// Returns a text that is not empty.
    pub(crate) fn text(self, name: &str) -> Option<&'a str> {
        self.value(name)?.as_str().filter(|text| !text.is_empty())
    }

    pub(crate) fn owned_text(self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    pub(crate) fn required_text(self, name: &'static str) -> Result<&'a str, ParseError> {
        self.text(name).ok_or(ParseError { field: name, expected: "a text" })
    }

    pub(crate) fn object(self, name: &str) -> Option<Self> {
        self.value(name)?.as_object().map(Self)
    }

    pub(crate) fn list(self, name: &str) -> &'a [Value] {
        self.value(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns an integer, also one that is written as a text.
    pub(crate) fn integer(self, name: &str) -> Option<i64> {
        let value = self.value(name)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    pub(crate) fn required_amount(self, name: &'static str) -> Result<Amount, ParseError> {
        let amount = match self.value(name) {
            // The digits of the number. No amount has so many that its text would be another number.
            Some(Value::Number(number)) => parse_amount(&number.to_string()),
            Some(_) | None => self.text(name).and_then(parse_amount),
        };
        amount.ok_or(ParseError { field: name, expected: "an amount above zero, such as \"10.00\"" })
    }

    pub(crate) fn time(self, name: &str) -> Option<Timestamp> {
        self.text(name)?.parse().ok()
    }

    pub(crate) fn required_time(self, name: &'static str) -> Result<Timestamp, ParseError> {
        self.time(name).ok_or(ParseError { field: name, expected: "a date-time with an offset" })
    }
}

/// Parses `\d{1,10}(\.\d{1,2})?` above zero, by integers only. The Central Bank's document prescribes two
/// decimals, but some banks omit zeros at the end.
pub(crate) fn parse_amount(text: &str) -> Option<Amount> {
    let (whole, cents) = text.split_once('.').unwrap_or((text, "00"));
    let is_valid = (1..=MAX_WHOLE_DIGITS).contains(&whole.len())
        && (1..=2).contains(&cents.len())
        && [whole, cents].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_valid {
        return None;
    }
    let zero = if cents.len() == 1 { "0" } else { "" };
    let cents: i64 = [whole, cents, zero].concat().parse().ok()?;
    Amount::parse(cents).ok()
}

pub(crate) fn amount_text(amount: Amount) -> String {
    amount.decimal(2)
}

pub(crate) fn cut(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).collect()
}

/// Implements `Debug` with some fields only. The others may contain personal data.
macro_rules! partial_debug {
    ($name:ident { $($field:ident),* }) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use partial_debug;

/// Defines an enum of the bank's texts. An unknown text is kept in `Other`.
macro_rules! text_enum {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $text:literal $(| $alias:literal)*,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            Other(String),
        }

        impl $name {
            pub fn parse(text: &str) -> Self {
                match text {
                    $($text $(| $alias)* => Self::$variant,)*
                    other => Self::Other(other.to_owned()),
                }
            }

            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(text) => text,
                }
            }
        }
    };
}
pub(crate) use text_enum;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_amount_has_one_to_ten_digits_and_at_most_two_decimals() {
        for (text, cents) in [
            ("10.00", 1_000),
            ("0.01", 1),
            ("9999999999.99", 999_999_999_999),
            ("007.50", 750),
            ("19.9", 1_990),
            ("0.1", 10),
            ("19", 1_900),
            ("9999999999", 999_999_999_900),
        ] {
            assert_eq!(parse_amount(text).map(Amount::minor), Some(cents), "{text}");
        }
        for text in [
            "",
            "10.",
            "10.000",
            "0",
            "0.0",
            "0.00",
            "-1.00",
            "+1.00",
            "1,00",
            " 1.00",
            "1e2.00",
            ".00",
            "10000000000.00",
            "10000000000",
            "1e2",
            "١.00",
        ] {
            assert_eq!(parse_amount(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_amount_is_read_as_it_was_written(cents in 1_i64..=999_999_999_999) {
            let amount = Amount::parse(cents).unwrap();
            prop_assert_eq!(parse_amount(&amount_text(amount)), Some(amount));
        }
    }
}
