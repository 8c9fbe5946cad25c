//! A lossless JSON parser: it refuses duplicate keys in an object and preserves all digits of a number.
//!
//! `serde_json::Value` would drop all but the last of several equal keys, and round numbers to 64 bits. Two
//! different requests could then have the same hash, and the second request would be treated as a replay of
//! the first.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Number;
use serde_json::value::RawValue;

use super::problem::{Detail, MAX_DETAILS, Problem};

/// The most levels of nested objects and arrays; the body itself is the first level. The text of a nested
/// value is parsed again at each level, so this limit also bounds the work for a hostile body.
const MAX_DEPTH: usize = 64;

/// The longest path in an error, in characters. A longer path is cut, because a client may send keys of any
/// length and the error response must stay small.
const MAX_PATH_CHARS: usize = 256;

/// An object's fields by their names.
pub type JsonObject = BTreeMap<String, JsonValue>;

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JsonValue {
    Null,
    Bool(bool),
    /// A number, as it was written.
    Number(JsonNumber),
    /// A string, with its escapes decoded.
    String(String),
    Array(Vec<JsonValue>),
    Object(JsonObject),
}

impl JsonValue {
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The text of a string; `None` for any other value.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The integer nearest to a number; see [`JsonNumber::saturating_i64`]. `None` for any other value.
    pub(crate) fn saturating_i64(&self) -> Option<i64> {
        if let Self::Number(number) = self { number.saturating_i64() } else { None }
    }

    /// The elements of an array; `None` for any other value.
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(elements) = self { Some(elements) } else { None }
    }

    /// Converts the value to a `serde_json` value with 64-bit numbers, the form for rows and responses. Calls
    /// `refuse` with the path of each number that 64 bits can't represent exactly.
    pub fn with_64_bit_numbers(
        &self,
        path: &JsonPath<'_>,
        refuse: &mut dyn FnMut(String),
    ) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Number(number) => number.exact().map_or_else(
                || {
                    refuse(path.to_string());
                    serde_json::Value::Null
                },
                serde_json::Value::Number,
            ),
            Self::String(text) => text.as_str().into(),
            Self::Array(elements) => elements
                .iter()
                .enumerate()
                .map(|(index, element)| element.with_64_bit_numbers(&JsonPath::Element(path, index), refuse))
                .collect(),
            Self::Object(object) => object
                .iter()
                .map(|(key, value)| {
                    (key.clone(), value.with_64_bit_numbers(&JsonPath::Field(path, key), refuse))
                })
                .collect(),
        }
    }
}

/// A number, as it was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JsonNumber(Box<str>);

impl JsonNumber {
    /// The text of the number, as it was sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_integer(&self) -> bool {
        !self.0.contains(['.', 'e', 'E'])
    }

    /// Returns the number as a 64-bit integer. A number out of range becomes the nearest 64-bit integer.
    /// `None`: the number is written with a fraction or an exponent.
    pub(crate) fn saturating_i64(&self) -> Option<i64> {
        if !self.is_integer() {
            return None;
        }
        // The text has only digits and an optional sign, so it fails to parse only if the integer is out of
        // range.
        let beyond = if self.0.starts_with('-') { i64::MIN } else { i64::MAX };
        Some(self.0.parse().unwrap_or(beyond))
    }

    /// Converts the number to a 64-bit integer, or to a float that prints as the same decimal value. `None`:
    /// neither of the two represents it exactly.
    pub fn exact(&self) -> Option<Number> {
        if self.is_integer() {
            let signed = self.0.parse::<i64>().map(Number::from);
            return signed.or_else(|_| self.0.parse::<u64>().map(Number::from)).ok();
        }
        let number = Number::from_f64(self.0.parse().ok()?)?;
        let is_same = Decimal::of(&self.0)? == Decimal::of(&number.to_string())?;
        is_same.then_some(number)
    }
}

/// A normalised decimal number, for the comparison of two notations: `digits · 10^exponent`. The digits neither
/// begin nor end with zero, and are empty for zero.
#[derive(Debug, Eq, PartialEq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Parses a JSON number. `None`: its exponent does not fit in 64 bits.
    fn of(text: &str) -> Option<Self> {
        let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let significant = digits.trim_end_matches('0');
        if significant.is_empty() {
            return Some(Self { is_negative: false, digits: String::new(), exponent: 0 });
        }
        let dropped = i64::try_from(digits.len().checked_sub(significant.len())?).ok()?;
        let exponent = exponent.parse::<i64>().ok()?;
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(dropped)?;
        Some(Self { is_negative, digits: significant.trim_start_matches('0').to_owned(), exponent })
    }
}

/// The path of a value in a document, such as `metadata.lines[0].price`.
#[derive(Clone, Copy, Debug)]
pub enum JsonPath<'a> {
    /// The document itself.
    Root,
    /// A field of an object.
    Field(&'a JsonPath<'a>, &'a str),
    /// An element of an array.
    Element(&'a JsonPath<'a>, usize),
}

impl fmt::Display for JsonPath<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text)?;
        match text.char_indices().nth(MAX_PATH_CHARS) {
            Some((end, _)) => write!(formatter, "{}…", text.get(..end).unwrap_or_default()),
            None => formatter.write_str(&text),
        }
    }
}

impl JsonPath<'_> {
    fn write(&self, out: &mut String) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => out.write_str(name),
            Self::Field(parent, name) => {
                parent.write(out)?;
                write!(out, ".{name}")
            }
            Self::Element(parent, index) => {
                parent.write(out)?;
                write!(out, "[{index}]")
            }
        }
    }
}

/// Parses a JSON object.
/// Errors: 400 if the text is not a JSON object or is nested too deeply. 400 with the path of each duplicate
/// key, for at most 100 keys.
pub fn parse_object(text: &[u8]) -> Result<JsonObject, Problem> {
    let text = std::str::from_utf8(text).map_err(|error| not_json(&error))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The whole text is parsed first, so that a syntax error shows the position in the whole body.
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    if !raw.get().starts_with('{') {
        return Err(Problem::Unreadable("The body must be a JSON object.".to_owned()));
    }
    let mut reader = Reader { duplicates: Vec::new() };
    let object = reader.object(raw.get(), &JsonPath::Root, 1)?;
    if reader.duplicates.is_empty() { Ok(object) } else { Err(Problem::Invalid(reader.duplicates)) }
}

/// Parses a JSON value of this program, such as the default of a field. Duplicate keys are not detected.
/// Errors: 400 if the text is not JSON or is nested too deeply.
pub(super) fn parse_value(text: &str) -> Result<JsonValue, Problem> {
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    Reader { duplicates: Vec::new() }.value(raw, &JsonPath::Root, 1)
}

fn not_json(error: &dyn fmt::Display) -> Problem {
    Problem::Unreadable(format!("The body is not valid JSON: {error}."))
}

struct Reader {
    duplicates: Vec<Detail>,
}

impl Reader {
    fn value(&mut self, raw: &RawValue, path: &JsonPath<'_>, depth: usize) -> Result<JsonValue, Problem> {
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'{') => Ok(JsonValue::Object(self.object(text, path, depth)?)),
            Some(b'[') => Ok(JsonValue::Array(self.array(text, path, depth)?)),
            Some(b'"') => Ok(JsonValue::String(parse_level(text, path)?)),
            Some(b't') => Ok(JsonValue::Bool(true)),
            Some(b'f') => Ok(JsonValue::Bool(false)),
            Some(b'n') => Ok(JsonValue::Null),
            _ => Ok(JsonValue::Number(JsonNumber(text.into()))),
        }
    }

    fn object(&mut self, text: &str, path: &JsonPath<'_>, depth: usize) -> Result<JsonObject, Problem> {
        check_depth(depth)?;
        let Entries(entries) = parse_level(text, path)?;
        let mut object = JsonObject::new();
        for (key, raw) in entries {
            let path = JsonPath::Field(path, &key);
            let value = self.value(raw, &path, depth.saturating_add(1))?;
            if object.contains_key(&key) {
                self.add_duplicate(path.to_string());
            }
            object.insert(key, value);
        }
        Ok(object)
    }

    fn array(&mut self, text: &str, path: &JsonPath<'_>, depth: usize) -> Result<Vec<JsonValue>, Problem> {
        check_depth(depth)?;
        let raws: Vec<&RawValue> = parse_level(text, path)?;
        let elements = raws.into_iter().enumerate();
        elements
            .map(|(index, raw)| self.value(raw, &JsonPath::Element(path, index), depth.saturating_add(1)))
            .collect()
    }

    fn add_duplicate(&mut self, param: String) {
        let is_known = self.duplicates.iter().any(|detail| detail.param == param);
        if self.duplicates.len() < MAX_DETAILS && !is_known {
            self.duplicates.push(Detail::new(param, "is repeated in its object; send it once"));
        }
    }
}

fn check_depth(depth: usize) -> Result<(), Problem> {
    if depth > MAX_DEPTH {
        return Err(Problem::Unreadable(format!(
            "The body is nested too deeply. Objects and arrays can be nested at most {MAX_DEPTH} levels deep."
        )));
    }
    Ok(())
}

/// Parses one level of a text that is already known to be well formed. It can fail only because of an escape
/// that encodes no character, such as a lone surrogate.
fn parse_level<'a, T: Deserialize<'a>>(text: &'a str, path: &JsonPath<'_>) -> Result<T, Problem> {
    serde_json::from_str(text).map_err(|error| {
        Problem::Unreadable(format!("The body is not valid JSON: {error} in the value at `{path}`."))
    })
}

/// The fields of an object in the order of the text, including duplicate keys.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(text: &str) -> JsonNumber {
        JsonNumber(text.into())
    }

    fn duplicates(text: &str) -> Vec<String> {
        match parse_object(text.as_bytes()) {
            Err(Problem::Invalid(details)) => details.into_iter().map(|detail| detail.param).collect(),
            other => panic!("{text}: {other:?}"),
        }
    }

    fn unreadable(text: &[u8]) -> String {
        match parse_object(text) {
            Err(Problem::Unreadable(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_duplicate_key_is_reported_by_its_path() {
        assert_eq!(duplicates(r#"{"amount":1,"amount":1}"#), ["amount"]);
        assert_eq!(duplicates(r#"{"metadata":{"a":{"b":1,"c":2,"b":1}}}"#), ["metadata.a.b"]);
        assert_eq!(
            duplicates(r#"{"a":[0,{"b":1,"\u0062":2}],"c":{"d":1,"d":2,"d":3},"c":4}"#),
            ["a[1].b", "c.d", "c"]
        );
        let same = parse_object(br#"{"a":{"x":1},"b":{"x":1},"x":[{"x":1},{"x":2}]}"#).unwrap();
        assert_eq!(same.len(), 3);
    }

    #[test]
    fn an_error_lists_at_most_100_keys_with_paths_of_at_most_256_characters() {
        let keys = (0..1000).map(|key| format!("\"{key}\":1,\"{key}\":2")).collect::<Vec<_>>().join(",");
        let long = "k".repeat(100_000);
        let paths = duplicates(&format!("{{\"{long}\":{{{keys}}}}}"));
        // The cut paths are equal, so only one failure is reported.
        assert_eq!(paths, [format!("{}…", "k".repeat(MAX_PATH_CHARS))]);
        assert_eq!(duplicates(&format!("{{{keys}}}")).len(), MAX_DETAILS);
    }

    #[test]
    fn an_invalid_body_is_reported_with_its_reason_and_position() {
        insta::assert_snapshot!(unreadable(b"{} {}"), @"The body is not valid JSON: trailing characters at line 1 column 4.");
        insta::assert_snapshot!(unreadable(br#"{"a": {"b": ["\ud800"]}}"#), @"The body is not valid JSON: unexpected end of hex escape at line 1 column 8 in the value at `a.b[0]`.");
        insta::assert_snapshot!(unreadable(b"{\"a\": \"\xff\"}"), @"The body is not valid JSON: invalid utf-8 sequence of 1 bytes from index 7.");
    }

    #[test]
    fn a_body_nested_deeper_than_64_levels_is_refused() {
        let nested = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse_object(nested(MAX_DEPTH - 1).as_bytes()).is_ok());
        for levels in [MAX_DEPTH, 100_000] {
            insta::allow_duplicates! {
                insta::assert_snapshot!(unreadable(nested(levels).as_bytes()), @"The body is nested too deeply. Objects and arrays can be nested at most 64 levels deep.");
            }
        }
    }

    #[test]
    fn a_number_is_exact_if_its_64_bit_form_prints_as_the_same_value() {
        let exact = "0 -0 -1 9223372036854775807 -9223372036854775808 18446744073709551615 0.1 -0.0 1.50 1e2 \
            1E+2 0e999999999999999999999 1e22 1e23 5e-324 1.7976931348623157e308 9007199254740993";
        for text in exact.split_whitespace() {
            assert!(number(text).exact().is_some(), "{text}");
        }
        let inexact = "18446744073709551616 -9223372036854775809 123456789012345678901234567890 1e400 1e-400 \
            0.1000000000000000055511151231257827 9007199254740993.0 3.14159265358979323846 2e-324 \
            1e99999999999999999999";
        for text in inexact.split_whitespace() {
            assert!(number(text).exact().is_none(), "{text}");
        }
    }

    #[test]
    fn an_integer_beyond_64_bits_becomes_the_nearest_64_bit_integer() {
        for (text, integer) in [
            ("7", Some(7)),
            ("-7", Some(-7)),
            ("9223372036854775808", Some(i64::MAX)),
            ("-99999999999999999999999", Some(i64::MIN)),
            ("7.0", None),
            ("7e0", None),
        ] {
            assert_eq!(number(text).saturating_i64(), integer, "{text}");
        }
    }

    /// The text of a JSON number.
    fn number_text() -> impl Strategy<Value = String> {
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?"
    }

    proptest! {
        #[test]
        fn an_exact_number_prints_as_the_same_value(text in number_text()) {
            if let Some(exact) = number(&text).exact() {
                prop_assert_eq!(Decimal::of(&exact.to_string()), Decimal::of(&text));
            }
        }

        #[test]
        fn no_input_makes_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), text in "[\\[\\]{}\":,0-9eE.\\-\\\\u ntf]{0,40}") {
            let _ = parse_object(&bytes);
            let _ = parse_object(text.as_bytes());
            let _ = parse_object(format!("{{\"a\":{text}}}").as_bytes());
        }
    }
}
