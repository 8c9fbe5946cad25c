//! The kinds of fields: how a value is read, which rule it breaks, and the description of accepted values.

use email_address::{EmailAddress, Options};

use domain::ids::{ChargeId, EndToEndId, IdText};
use domain::money::{Amount, AmountError, Currency};
use domain::tax_id::TaxId;
use domain::text;
use domain::time::Timestamp;
use domain::url_policy::MAX_URL_LENGTH;
use domain::vocabulary::Vocabulary;

use super::{Definitions, Values, definitions};
use crate::http::json::JsonValue;

/// The shortest and the longest e-mail address, in characters (RFC 5321).
pub const EMAIL_CHARS: (usize, usize) = (3, 254);

/// The message for a time that can't be parsed. It mentions the plus sign, because an unescaped plus sign in
/// a query string is decoded as a space.
const TIME_RULE: &str = "must be an ISO 8601 date (a day in America/Sao_Paulo) or date-time, such as 2026-11-21 or 2026-11-21T10:00:00.000Z; encode a plus sign as %2B";

/// Returns the message for a date-time that lacks only `Z` or an offset, as some languages write it.
fn without_offset(text: &str) -> Option<&'static str> {
    Timestamp::parse_floor(&format!("{text}Z")).is_ok().then_some(
        "lacks its time zone; append Z for UTC, or an offset such as -03:00 (in a query string, encode a plus sign as %2B)",
    )
}

/// The shortest and the longest date or date-time, in characters: without a time, and with nine decimals and
/// an offset.
const TIME_CHARS: (usize, usize) = ("2026-11-21".len(), "2026-11-21T10:00:00.123456789-03:00".len());

/// The regular expression that every date and date-time matches.
const TIME_PATTERN: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}";

/// The rules that a value breaks, each without its subject and full stop, such as `must be an integer`. The
/// first text of a pair is the path inside the value, such as `[0]`, and is empty for the value itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failures(pub Vec<(String, String)>);

impl From<String> for Failures {
    fn from(rule: String) -> Self {
        Self(vec![(String::new(), rule)])
    }
}

impl From<&str> for Failures {
    fn from(rule: &str) -> Self {
        rule.to_owned().into()
    }
}

pub trait Kind: 'static {
    type Value;

    /// Whether a failure of the field makes the error code of the response `invalid_amount`.
    const IS_AMOUNT: bool = false;

    fn values(&self) -> Values;

    /// Returns the rule that a request breaks when the field is required and absent.
    fn missing(&self) -> String;
}

pub trait JsonKind: Kind {
    /// Reads a value that is not `null`.
    fn read(&self, value: &JsonValue) -> Result<Self::Value, Failures>;
}

pub trait QueryKind: Kind {
    /// Reads a decoded value.
    fn parse(&self, text: &str) -> Result<Self::Value, Failures>;
}

/// A string of `min` to `max` characters.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    min: usize,
    max: usize,
    lines: Lines,
}

/// The characters that a text may contain.
#[derive(Clone, Copy, Debug)]
enum Lines {
    Any,
    One,
    Many,
}

impl Text {
    /// A string of any characters.
    pub const fn of(min: usize, max: usize) -> Self {
        Self { min, max, lines: Lines::Any }
    }

    /// One line by which people recognise something, such as a label. Control characters and characters that
    /// change the direction of text are refused. Text without a visible character is refused too, unless it is
    /// empty.
    pub const fn one_line(min: usize, max: usize) -> Self {
        Self { min, max, lines: Lines::One }
    }

    /// Any number of lines. Line breaks are accepted. Other control characters and characters that change the
    /// direction of text are refused.
    pub const fn lines(min: usize, max: usize) -> Self {
        Self { min, max, lines: Lines::Many }
    }

    /// The text has a further rule. `parse`: `None` if the text breaks it.
    pub const fn refined<T>(self, parse: fn(&str) -> Option<T>, rule: &'static str) -> Refined<T> {
        Refined { text: self, format: None, parse, rule }
    }

    fn check<'a>(&self, value: &'a JsonValue) -> Result<&'a str, Failures> {
        let text = value.as_str().ok_or("must be a string")?;
        let length = text.chars().count();
        if length < self.min || length > self.max {
            return Err(self.length_rule().into());
        }
        match self.lines {
            Lines::One if text.chars().any(text::is_forbidden_in_line) => Err(
                "must be one line without control characters or characters that change the direction of text".into(),
            ),
            Lines::One if !text.is_empty() && text::is_blank(text) => {
                Err("must contain a visible character".into())
            }
            Lines::Many if text.chars().any(text::is_forbidden_in_multiline) => Err(
                "must not contain control characters other than line breaks, or characters that change the direction of text".into(),
            ),
            Lines::Any | Lines::One | Lines::Many => Ok(text),
        }
    }

    fn length_rule(&self) -> String {
        match (self.min, self.max) {
            (0, max) => format!("must be at most {max} characters"),
            (min, max) => format!("must be {min} to {max} characters"),
        }
    }
}

impl Kind for Text {
    type Value = String;

    fn values(&self) -> Values {
        Values::Text { min: self.min, max: self.max, pattern: None, format: None }
    }

    fn missing(&self) -> String {
        format!("is required: a string of {} to {} characters", self.min, self.max)
    }
}

impl JsonKind for Text {
    fn read(&self, value: &JsonValue) -> Result<String, Failures> {
        self.check(value).map(str::to_owned)
    }
}

/// A [`Text`] with a further rule.
#[derive(Clone, Copy, Debug)]
pub struct Refined<T> {
    pub text: Text,
    /// The format of JSON Schema that every accepted value has.
    pub format: Option<&'static str>,
    /// Reads the text. `None`: the text breaks the rule.
    pub parse: fn(&str) -> Option<T>,
    pub rule: &'static str,
}

impl<T: 'static> Kind for Refined<T> {
    type Value = T;

    fn values(&self) -> Values {
        Values::Text { min: self.text.min, max: self.text.max, pattern: None, format: self.format }
    }

    fn missing(&self) -> String {
        self.text.missing()
    }
}

impl<T: 'static> JsonKind for Refined<T> {
    fn read(&self, value: &JsonValue) -> Result<T, Failures> {
        (self.parse)(self.text.check(value)?).ok_or_else(|| self.rule.into())
    }
}

/// An e-mail address (RFC 5322, RFC 6531) without a display name.
pub const EMAIL: Refined<String> = Refined {
    text: Text::one_line(EMAIL_CHARS.0, EMAIL_CHARS.1),
    format: Some("idn-email"),
    parse: |text| {
        let options = Options::default().without_display_text();
        EmailAddress::parse_with_options(text, options).is_ok().then(|| text.to_owned())
    },
    rule: "must be an e-mail address (RFC 5322), such as ana@example.com",
};

/// A string of a fixed form. One rule describes the whole form.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<T> {
    /// The length of the shortest and of the longest accepted string, in characters.
    pub chars: (usize, usize),
    /// The regular expression (ECMA-262) that every accepted string matches.
    pub pattern: Option<&'static str>,
    /// The format of JSON Schema that every accepted string has.
    pub format: Option<&'static str>,
    /// Reads the string. `None`: it breaks the rule.
    pub parse: fn(&str) -> Option<T>,
    pub rule: &'static str,
    /// Returns what is wrong with a refused string, in place of the rule.
    pub mistake: fn(&str) -> Option<&'static str>,
}

impl<T> Parsed<T> {
    /// `chars`: the length of the shortest and of the longest accepted string. `parse`: `None` if the string breaks
    /// the rule.
    pub const fn of(
        chars: (usize, usize),
        pattern: Option<&'static str>,
        parse: fn(&str) -> Option<T>,
        rule: &'static str,
    ) -> Self {
        Self { chars, pattern, format: None, parse, rule, mistake: |_| None }
    }

    fn check(&self, text: &str) -> Result<T, Failures> {
        let (min, max) = self.chars;
        let parsed = (min..=max).contains(&text.chars().count()).then(|| (self.parse)(text)).flatten();
        parsed.ok_or_else(|| (self.mistake)(text).unwrap_or(self.rule).into())
    }
}

impl<T: IdText> Parsed<T> {
    pub const fn id(rule: &'static str) -> Self {
        Self::of((T::CHARS, T::CHARS), Some(T::PATTERN), |text| text.parse().ok(), rule)
    }
}

impl<T: 'static> Kind for Parsed<T> {
    type Value = T;

    fn values(&self) -> Values {
        let (min, max) = self.chars;
        Values::Text { min, max, pattern: self.pattern, format: self.format }
    }

    fn missing(&self) -> String {
        self.rule.to_owned()
    }
}

impl<T: 'static> JsonKind for Parsed<T> {
    fn read(&self, value: &JsonValue) -> Result<T, Failures> {
        self.check(value.as_str().ok_or(self.rule)?)
    }
}

impl<T: 'static> QueryKind for Parsed<T> {
    fn parse(&self, text: &str) -> Result<T, Failures> {
        self.check(text)
    }
}

/// A CPF or CNPJ with valid check digits.
pub const CPF_OR_CNPJ: Parsed<TaxId> = Parsed {
    mistake: |text| {
        let is_valid = text.to_ascii_uppercase().parse::<TaxId>().is_ok();
        is_valid.then_some("must be a CNPJ with its letters in upper case")
    },
    ..Parsed::of(
        (11, 14),
        Some("^([0-9]{11}|[0-9A-Z]{12}[0-9]{2})$"),
        |text| text.parse().ok(),
        "must be an 11-digit CPF or a 14-character CNPJ with valid check digits, without punctuation",
    )
};

/// The code of a currency. Codes that the service does not know are refused.
pub const CURRENCY_CODE: Parsed<Currency> = Parsed::of(
    (3, 8),
    Some("^[A-Z]{3,8}$"),
    |text| Currency::parse(text).ok().filter(|currency| currency.is_known()),
    "must be a currency code, such as BRL",
);

/// A date or a date-time of a body.
pub const fn instant(rule: &'static str) -> Parsed<Timestamp> {
    time(|text| Timestamp::parse_floor(text).ok(), rule)
}

const fn time(parse: fn(&str) -> Option<Timestamp>, rule: &'static str) -> Parsed<Timestamp> {
    Parsed { mistake: without_offset, ..Parsed::of(TIME_CHARS, Some(TIME_PATTERN), parse, rule) }
}

/// A bound in time of a query string. The constants differ in the instant that a date stands for, and in the rounding
/// of fractions of a millisecond.
pub type TimeBound = Parsed<Timestamp>;

impl TimeBound {
    /// An inclusive lower bound. A date stands for the first millisecond of its day in São Paulo.
    pub const NOT_BEFORE: Self = time(|text| Timestamp::parse_ceil(text).ok(), TIME_RULE);

    /// An inclusive upper bound. A date stands for the last millisecond of its day in São Paulo.
    pub const NOT_AFTER: Self = time(|text| Timestamp::parse_last(text).ok(), TIME_RULE);

    /// An exclusive lower bound. A date stands for the first millisecond of its day in São Paulo.
    pub const AFTER: Self = time(|text| Timestamp::parse_floor(text).ok(), TIME_RULE);

    /// An exclusive upper bound. A date stands for the first millisecond of its day in São Paulo.
    pub const BEFORE: Self = Self::NOT_BEFORE;
}

/// A payment's id at its bank. `T` is the type of the id.
pub const fn bank_id<T: From<EndToEndId>>() -> Parsed<T> {
    Parsed::of(
        (1, 64),
        Some("^[0-9A-Za-z]{1,64}$"),
        |text| text.parse().ok().map(EndToEndId::into),
        "must be 1 to 64 letters and digits",
    )
}

/// A charge id with its prefix.
pub const CHARGE_ID: Parsed<ChargeId> = Parsed::id("must be a charge id (ch_…)");

/// A webhook URL. The parser checks it further, because accepted hosts depend on the stack.
#[derive(Clone, Copy, Debug)]
pub struct Url;

impl Kind for Url {
    type Value = String;

    fn values(&self) -> Values {
        Values::Text { min: 1, max: MAX_URL_LENGTH, pattern: Some("^[A-Za-z]+://"), format: None }
    }

    fn missing(&self) -> String {
        "is required: a URL such as https://example.com/hooks".to_owned()
    }
}

impl JsonKind for Url {
    fn read(&self, value: &JsonValue) -> Result<String, Failures> {
        value.as_str().map(str::to_owned).ok_or_else(|| "must be a string".into())
    }
}

/// An integer of a body. Strings, and numbers with a fraction or an exponent, are refused. An integer beyond
/// 64 bits becomes the nearest 64-bit integer, so that the field's own limits apply.
#[derive(Clone, Copy, Debug)]
pub struct Integer {
    pub min: u32,
    pub max: AtMost,
    /// The unit, such as `seconds`.
    pub unit: &'static str,
}

/// The largest value of an [`Integer`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AtMost {
    /// A larger value is refused.
    Refused(u32),
    /// A larger value is reduced to this one.
    Capped(u32),
}

impl Integer {
    /// Returns the accepted values in words.
    fn range(&self) -> String {
        match self.max {
            AtMost::Refused(max) => format!("an integer from {} to {max} ({})", self.min, self.unit),
            AtMost::Capped(_) => format!("an integer of at least {} ({})", self.min, self.unit),
        }
    }

    pub fn rule(&self) -> String {
        format!("must be {}", self.range())
    }
}

impl Kind for Integer {
    type Value = i64;

    fn values(&self) -> Values {
        let max = match self.max {
            AtMost::Refused(max) => Some(max.into()),
            AtMost::Capped(_) => None,
        };
        Values::Integer { min: self.min.into(), max }
    }

    fn missing(&self) -> String {
        format!("is required: {}", self.range())
    }
}

impl JsonKind for Integer {
    fn read(&self, value: &JsonValue) -> Result<i64, Failures> {
        let value = value.saturating_i64().ok_or("must be an integer")?;
        match self.max {
            _ if value < self.min.into() => Err(self.rule().into()),
            AtMost::Refused(max) if value > max.into() => Err(self.rule().into()),
            AtMost::Refused(_) => Ok(value),
            AtMost::Capped(max) => Ok(value.min(max.into())),
        }
    }
}

/// An amount in minor units. The number must be written as an integer: `10.0` and `1e400` are refused.
#[derive(Clone, Copy, Debug)]
pub struct MinorAmount;

impl Kind for MinorAmount {
    type Value = Amount;

    const IS_AMOUNT: bool = true;

    fn values(&self) -> Values {
        Values::Integer { min: Amount::MIN.minor(), max: Some(Amount::MAX.minor()) }
    }

    fn missing(&self) -> String {
        "is required: an integer of at least 1 (minor units)".to_owned()
    }
}

impl JsonKind for MinorAmount {
    fn read(&self, value: &JsonValue) -> Result<Amount, Failures> {
        let minor = value.saturating_i64().ok_or(AmountError::NotPositive);
        minor.and_then(Amount::parse).map_err(|error| error.to_string().into())
    }
}

impl QueryKind for MinorAmount {
    fn parse(&self, text: &str) -> Result<Amount, Failures> {
        let is_integer = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // Digits beyond 64 bits become the largest integer, so that the upper bound applies.
        let minor = is_integer.then(|| text.parse().unwrap_or(i64::MAX)).ok_or(AmountError::NotPositive);
        minor.and_then(Amount::parse).map_err(|error| error.to_string().into())
    }
}

/// `true` or `false`. Numbers and strings are refused.
#[derive(Clone, Copy, Debug)]
pub struct Boolean;

impl Kind for Boolean {
    type Value = bool;

    fn values(&self) -> Values {
        Values::Boolean
    }

    fn missing(&self) -> String {
        "must be true or false".to_owned()
    }
}

impl JsonKind for Boolean {
    fn read(&self, value: &JsonValue) -> Result<bool, Failures> {
        if let JsonValue::Bool(value) = value { Ok(*value) } else { Err(self.missing().into()) }
    }
}

/// An integer of a query string. It must consist of digits only.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    pub min: u32,
    pub max: u32,
    /// What the rule says after the bounds, such as a way to read further.
    pub hint: &'static str,
}

impl Kind for Count {
    type Value = u32;

    fn values(&self) -> Values {
        // `u32::MAX` is no bound of the field: another rule refuses smaller values already.
        let max = (self.max != u32::MAX).then(|| self.max.into());
        Values::Integer { min: self.min.into(), max }
    }

    fn missing(&self) -> String {
        format!("must be an integer from {} to {}{}", self.min, self.max, self.hint)
    }
}

impl QueryKind for Count {
    fn parse(&self, text: &str) -> Result<u32, Failures> {
        let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text.parse().ok().filter(|value| digits_only && (self.min..=self.max).contains(value));
        value.ok_or_else(|| self.missing().into())
    }
}

/// One of the words of a vocabulary. The field's value is the value of the word.
#[derive(Clone, Copy, Debug)]
pub struct Word<T> {
    pub words: fn() -> Vec<(&'static str, T)>,
}

impl<T: Vocabulary> Word<T> {
    pub const ALL: Self = Self { words: T::vocabulary };
}

impl<T: 'static> Word<T> {
    fn find(&self, word: Option<&str>) -> Result<T, Failures> {
        let found = (self.words)().into_iter().find(|(known, _)| word == Some(*known));
        found.map(|(_, value)| value).ok_or_else(|| self.missing().into())
    }
}

fn texts<T>(words: fn() -> Vec<(&'static str, T)>) -> Vec<&'static str> {
    words().into_iter().map(|(word, _)| word).collect()
}

fn one_of<T>(words: fn() -> Vec<(&'static str, T)>) -> String {
    format!("must be one of {}", texts(words).join(", "))
}

impl<T: 'static> Kind for Word<T> {
    type Value = T;

    fn values(&self) -> Values {
        Values::Words(texts(self.words))
    }

    fn missing(&self) -> String {
        one_of(self.words)
    }
}

impl<T: 'static> JsonKind for Word<T> {
    fn read(&self, value: &JsonValue) -> Result<T, Failures> {
        self.find(value.as_str())
    }
}

impl<T: 'static> QueryKind for Word<T> {
    fn parse(&self, text: &str) -> Result<T, Failures> {
        self.find(Some(text))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Only<T> {
    pub word: &'static str,
    pub value: T,
    pub rule: &'static str,
}

impl<T: 'static> Kind for Only<T> {
    type Value = T;

    fn values(&self) -> Values {
        Values::Words(vec![self.word])
    }

    fn missing(&self) -> String {
        format!("is required: send {}", self.word)
    }
}

impl<T: Copy + 'static> JsonKind for Only<T> {
    fn read(&self, value: &JsonValue) -> Result<T, Failures> {
        if value.as_str() == Some(self.word) { Ok(self.value) } else { Err(self.rule.into()) }
    }
}

/// A list of at least one word of a vocabulary. Repeated words are dropped.
#[derive(Clone, Copy, Debug)]
pub struct Words<T> {
    pub words: fn() -> Vec<(&'static str, T)>,
    /// What a word is, such as `event name`.
    pub noun: &'static str,
}

impl<T: 'static> Kind for Words<T> {
    type Value = Vec<T>;

    fn values(&self) -> Values {
        Values::List { of: Box::new(Values::Words(texts(self.words))), min: 1, max: usize::MAX }
    }

    fn missing(&self) -> String {
        format!("is required: an array of {}s", self.noun)
    }
}

impl<T: Copy + PartialEq + 'static> JsonKind for Words<T> {
    fn read(&self, value: &JsonValue) -> Result<Vec<T>, Failures> {
        let sent = value.as_array().ok_or_else(|| format!("must be an array of {}s", self.noun))?;
        if sent.is_empty() {
            return Err(format!("must contain at least one {}", self.noun).into());
        }
        let vocabulary = (self.words)();
        let (mut found, mut failures) = (Vec::new(), Vec::new());
        for (index, word) in sent.iter().enumerate() {
            match vocabulary.iter().find(|(known, _)| word.as_str() == Some(*known)) {
                Some((_, value)) if found.contains(value) => {}
                Some((_, value)) => found.push(*value),
                None => failures.push((format!("[{index}]"), one_of(self.words))),
            }
        }
        if failures.is_empty() { Ok(found) } else { Err(Failures(failures)) }
    }
}

/// A list of at least one word of a vocabulary, and at most as many as it has. A repeated word counts once.
#[derive(Clone, Copy, Debug)]
pub struct DistinctWords<T> {
    pub words: fn() -> Vec<(&'static str, T)>,
    /// What a word is, such as `method`.
    pub noun: &'static str,
}

impl<T: 'static> Kind for DistinctWords<T> {
    type Value = Vec<T>;

    fn values(&self) -> Values {
        let words = texts(self.words);
        let max = words.len();
        Values::List { of: Box::new(Values::Words(words)), min: 1, max }
    }

    fn missing(&self) -> String {
        let words = texts(self.words).join(", ");
        format!("must be a non-empty list of {}s out of {words}", self.noun)
    }
}

impl<T: Copy + PartialEq + 'static> JsonKind for DistinctWords<T> {
    fn read(&self, value: &JsonValue) -> Result<Vec<T>, Failures> {
        let vocabulary = (self.words)();
        let known = |word: &JsonValue| vocabulary.iter().find(|(known, _)| word.as_str() == Some(*known));
        let sent = value.as_array().unwrap_or_default();
        let found: Option<Vec<T>> = sent.iter().map(|word| Some(known(word)?.1)).collect();
        let found = found.filter(|found| (1..=vocabulary.len()).contains(&found.len()));
        let mut distinct = Vec::new();
        for value in found.ok_or_else(|| self.missing())? {
            if !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        Ok(distinct)
    }
}

const OBJECT_RULE: &str = "must be an object";

/// An object with fields of its own. [`super::super::Fields::object`] reads it.
#[derive(Clone, Copy)]
pub struct Nested {
    pub fields: Definitions,
}

impl Kind for Nested {
    type Value = ();

    fn values(&self) -> Values {
        Values::Object(definitions(self.fields))
    }

    fn missing(&self) -> String {
        OBJECT_RULE.to_owned()
    }
}

/// An object with fields that the client chooses. `Fields::dictionary` reads it.
#[derive(Clone, Copy, Debug)]
pub struct Dictionary {
    pub max_keys: usize,
}

impl Kind for Dictionary {
    type Value = ();

    fn values(&self) -> Values {
        Values::Dictionary { max_keys: self.max_keys }
    }

    fn missing(&self) -> String {
        OBJECT_RULE.to_owned()
    }
}

/// A header of `min` to `max` characters of UTF-8. `Fields::of_creation` reads it.
#[derive(Clone, Copy, Debug)]
pub struct HeaderText {
    /// The smallest length in characters.
    pub min: usize,
    /// The largest length in characters.
    pub max: usize,
}

impl HeaderText {
    pub fn read<'a>(&self, bytes: &'a [u8]) -> Result<&'a str, Failures> {
        let text = std::str::from_utf8(bytes).ok();
        let text = text.filter(|text| (self.min..=self.max).contains(&text.chars().count()));
        text.ok_or_else(|| format!("must be {} to {} characters of UTF-8", self.min, self.max).into())
    }
}

impl Kind for HeaderText {
    type Value = String;

    fn values(&self) -> Values {
        Values::Text { min: self.min, max: self.max, pattern: None, format: None }
    }

    fn missing(&self) -> String {
        let Self { min, max } = self;
        format!("is required: a header of {min} to {max} characters that is unique to this request")
    }
}
