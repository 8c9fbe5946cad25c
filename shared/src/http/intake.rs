//! Reads a request's JSON body and query string, and reports EVERY failing field, not the first.
//!
//! A field is taken through [`Fields`], which notes what is wrong and goes on; [`Fields::finish`] then gives
//! the value or the whole list. A field that is `null` counts as absent.

use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use email_address::{EmailAddress, Options};

use domain::money::{Amount, AmountError, Currency};
use domain::tax_id::{Document, TaxId};
use domain::text;
use domain::time::Timestamp;

use super::json::{self, JsonObject, JsonValue};
use super::problem::{Detail, MAX_DETAILS, Problem};

/// The largest body that is read, in bytes: 256 KiB.
const MAX_BODY_BYTES: usize = 262_144;

/// The shortest e-mail address.
const MIN_EMAIL_CHARS: usize = 3;

/// The longest address that mail can carry (RFC 5321).
const MAX_EMAIL_CHARS: usize = 254;

/// A request's body: a JSON object, without a key that is there twice. An empty body reads as `{}`, for routes whose fields
/// are all optional.
///
/// A handler extracts it after its caller. Where another check of the handler comes before the body's, it is a `Result`.
#[derive(Clone, Debug)]
pub struct JsonBody(pub JsonObject);

impl<S: Sync> FromRequest<S> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = to_bytes(body, MAX_BODY_BYTES).await.map_err(|_too_long_or_broken| {
            Problem::Unreadable(format!("The body must be at most {MAX_BODY_BYTES} bytes."))
        })?;
        if bytes.is_empty() {
            return Ok(Self(JsonObject::new()));
        }
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !content_type.is_some_and(is_json) {
            return Err(Problem::field("Content-Type", "must be application/json"));
        }
        json::read(&bytes).map(Self)
    }
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// A JSON object within a body, with the path that its fields are reported under.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    map: Option<&'a JsonObject>,
    path: &'a str,
}

impl<'a> Object<'a> {
    /// The whole body.
    pub fn root(map: &'a JsonObject) -> Self {
        Self { map: Some(map), path: "" }
    }

    /// The value of a field that is present and not `null`.
    pub fn get(&self, name: &str) -> Option<&'a JsonValue> {
        self.map?.get(name).filter(|value| !value.is_null())
    }

    /// Whether the field is there, even as `null`.
    pub fn has(&self, name: &str) -> bool {
        self.map.is_some_and(|map| map.contains_key(name))
    }

    fn param(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

/// The checks of one request: takes fields and collects what is wrong with them.
#[derive(Debug, Default)]
pub struct Fields {
    details: Vec<Detail>,
    amount_failed: bool,
}

impl Fields {
    /// Nothing checked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a failing field, once; after the first hundred there is no use in more.
    pub fn reject(&mut self, param: impl Into<String>, rule: impl Into<String>) {
        let param = param.into();
        if self.details.len() < MAX_DETAILS && !self.has_rejected(&param) {
            self.details.push(Detail::new(param, &rule.into()));
        }
    }

    /// Whether a field was already found wrong.
    pub fn has_rejected(&self, param: &str) -> bool {
        self.details.iter().any(|detail| detail.param == param)
    }

    /// An optional object; its fields are reported under its name.
    pub fn object<'a>(&mut self, from: &Object<'a>, name: &'a str) -> Object<'a> {
        let map = match from.get(name) {
            None => None,
            Some(JsonValue::Object(map)) => Some(map),
            Some(_) => {
                self.reject(from.param(name), "must be an object");
                None
            }
        };
        Object { map, path: name }
    }

    /// An optional string of `min` to `max` characters.
    pub fn text<'a>(&mut self, from: &Object<'a>, name: &str, min: usize, max: usize) -> Option<&'a str> {
        let value = from.get(name)?;
        let JsonValue::String(text) = value else {
            self.reject(from.param(name), "must be a string");
            return None;
        };
        let length = text.chars().count();
        if length < min || length > max {
            self.reject(from.param(name), length_message(min, max));
            return None;
        }
        Some(text)
    }

    /// As [`Fields::text`], of one line that reads as it is written and, unless it is empty, shows something: people choose and
    /// compare by it.
    pub fn line<'a>(&mut self, from: &Object<'a>, name: &str, min: usize, max: usize) -> Option<&'a str> {
        let message =
            "must be one line without control characters or characters that change the direction of text";
        let text = self.text_without(from, name, (min, max), text::is_unfit_for_line, message)?;
        if !text.is_empty() && text::is_blank(text) {
            self.reject(from.param(name), "must contain a visible character");
            return None;
        }
        Some(text)
    }

    /// As [`Fields::text`], of any number of lines.
    pub fn lines<'a>(&mut self, from: &Object<'a>, name: &str, min: usize, max: usize) -> Option<&'a str> {
        let message = "must not contain control characters other than line breaks, or characters that change the direction of text";
        self.text_without(from, name, (min, max), text::is_unfit_for_lines, message)
    }

    fn text_without<'a>(
        &mut self,
        from: &Object<'a>,
        name: &str,
        (min, max): (usize, usize),
        is_unfit: fn(char) -> bool,
        message: &str,
    ) -> Option<&'a str> {
        let text = self.text(from, name, min, max)?;
        if text.chars().any(is_unfit) {
            self.reject(from.param(name), message);
            return None;
        }
        Some(text)
    }

    /// An optional e-mail address (RFC 5322), without a display name.
    pub fn email<'a>(&mut self, from: &Object<'a>, name: &str) -> Option<&'a str> {
        let text = self.line(from, name, MIN_EMAIL_CHARS, MAX_EMAIL_CHARS)?;
        let options = Options::default().without_display_text();
        if EmailAddress::parse_with_options(text, options).is_err() {
            self.reject(from.param(name), "must be an e-mail address (RFC 5322), such as ana@example.com");
            return None;
        }
        Some(text)
    }

    /// An optional integer; a number with a fraction, or one written as text, is not one. Beyond 64 bits it is the nearest
    /// integer within, so that the field's own bounds decide.
    pub fn integer(&mut self, from: &Object<'_>, name: &str) -> Option<i64> {
        let integer = match from.get(name)? {
            JsonValue::Number(number) => number.saturating_i64(),
            JsonValue::Null
            | JsonValue::Bool(_)
            | JsonValue::String(_)
            | JsonValue::Array(_)
            | JsonValue::Object(_) => None,
        };
        if integer.is_none() {
            self.reject(from.param(name), "must be an integer");
        }
        integer
    }

    /// An optional boolean; a number, or one written as text, is not one.
    pub fn boolean(&mut self, from: &Object<'_>, name: &str) -> Option<bool> {
        if let JsonValue::Bool(value) = from.get(name)? {
            return Some(*value);
        }
        self.reject(from.param(name), "must be true or false");
        None
    }

    /// A required amount in minor units; a failure gives the whole request the code `invalid_amount`.
    pub fn amount(&mut self, from: &Object<'_>, name: &str) -> Option<Amount> {
        if from.get(name).is_none() {
            self.amount_failed = true;
            self.reject(from.param(name), "is required: an integer of at least 1 (minor units)");
            return None;
        }
        self.optional_amount(from, name)
    }

    /// As [`Fields::amount`], but it may be absent.
    pub fn optional_amount(&mut self, from: &Object<'_>, name: &str) -> Option<Amount> {
        let minor = match from.get(name)? {
            JsonValue::Number(number) => number.saturating_i64(),
            JsonValue::Null
            | JsonValue::Bool(_)
            | JsonValue::String(_)
            | JsonValue::Array(_)
            | JsonValue::Object(_) => None,
        };
        let parsed = minor.ok_or(AmountError::NotPositive).and_then(Amount::parse);
        match parsed {
            Ok(amount) => Some(amount),
            Err(error) => {
                self.amount_failed = true;
                self.reject(from.param(name), error.to_string());
                None
            }
        }
    }

    /// An optional word of a closed vocabulary.
    pub fn word<T: Copy>(&mut self, from: &Object<'_>, name: &str, vocabulary: &[(&str, T)]) -> Option<T> {
        let value = from.get(name)?;
        let found = vocabulary.iter().find(|(word, _)| value.as_str() == Some(word)).map(|(_, value)| *value);
        if found.is_none() {
            self.reject(from.param(name), must_be_one_of(vocabulary));
        }
        found
    }

    /// As [`Fields::word`], but it must be there.
    pub fn required_word<T: Copy>(
        &mut self,
        from: &Object<'_>,
        name: &str,
        vocabulary: &[(&str, T)],
    ) -> Option<T> {
        if from.get(name).is_none() {
            self.reject(from.param(name), must_be_one_of(vocabulary));
        }
        self.word(from, name, vocabulary)
    }

    /// An optional CPF or CNPJ with valid check digits.
    pub fn tax_id(&mut self, from: &Object<'_>, name: &str) -> Option<TaxId> {
        let value = from.get(name)?;
        let parsed = value.as_str().and_then(|text| text.parse().ok());
        if parsed.is_none() {
            self.reject(from.param(name), TAX_ID_MESSAGE);
        }
        parsed
    }

    /// A body that was refused as a whole, with the failures that were noted before.
    #[must_use]
    pub fn with(mut self, refused: Problem) -> Problem {
        let Problem::Invalid(details) = refused else { return refused };
        for detail in details {
            if self.details.len() < MAX_DETAILS && !self.has_rejected(&detail.param) {
                self.details.push(detail);
            }
        }
        Problem::Invalid(self.details)
    }

    /// Ends the checks: the value if nothing was wrong, else every failing field.
    ///
    /// `None` without a noted failure can't happen by construction of a caller; it reads as an internal error.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Problem> {
        if self.amount_failed {
            return Err(Problem::InvalidAmount(self.details));
        }
        if !self.details.is_empty() {
            return Err(Problem::Invalid(self.details));
        }
        value.ok_or_else(|| Problem::Internal("validation refused a request without a reason".to_owned()))
    }
}

/// What is said of a document that is neither a CPF nor a CNPJ.
const TAX_ID_MESSAGE: &str =
    "must be an 11-digit CPF or a 14-character CNPJ with valid check digits, without punctuation";

/// What is said of a time that can't be read. An unescaped plus sign in a query string reads as a space.
const TIME_MESSAGE: &str = "must be an ISO 8601 date (a day in America/Sao_Paulo) or date-time, such as 2026-11-21 or 2026-11-21T10:00:00.000Z; encode a plus sign as %2B";

fn must_be_one_of<T>(vocabulary: &[(&str, T)]) -> String {
    let words: Vec<&str> = vocabulary.iter().map(|(word, _)| *word).collect();
    format!("must be one of {}", words.join(", "))
}

fn length_message(min: usize, max: usize) -> String {
    match min {
        0 => format!("must be at most {max} characters"),
        _ => format!("must be {min} to {max} characters"),
    }
}

/// A query string, each parameter taken once; what was not taken is not accepted silently by the caller's list.
#[derive(Clone, Debug)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads a raw query string (percent-encoded).
    pub fn of(raw: Option<&str>) -> Self {
        let pairs = url::form_urlencoded::parse(raw.unwrap_or_default().as_bytes()).into_owned().collect();
        Self { pairs }
    }

    /// Refuses parameters that the route does not know, and ones given twice: a filter is never ignored.
    pub fn allow_only(&self, fields: &mut Fields, known: &[&str]) {
        for (index, (name, _)) in self.pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                fields.reject(name.clone(), "is not a parameter of this route; leave it out");
            } else if self.pairs.iter().take(index).any(|(earlier, _)| earlier == name) {
                fields.reject(name.clone(), "is repeated; send it once");
            }
        }
    }

    /// Refuses every parameter, for routes that take none.
    ///
    /// # Errors
    ///
    /// 400 with each parameter that is there.
    pub fn require_empty(&self) -> Result<(), Problem> {
        let mut fields = Fields::new();
        self.allow_only(&mut fields, &[]);
        fields.finish(Some(()))
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// An integer between `min` and `max`, or the default when absent.
    pub fn integer(&self, fields: &mut Fields, name: &str, min: u32, max: u32, default: u32) -> u32 {
        let Some(text) = self.get(name) else {
            return default;
        };
        let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u32>() {
            Ok(value) if digits_only && (min..=max).contains(&value) => value,
            _ => {
                fields.reject(name, format!("must be an integer from {min} to {max}"));
                default
            }
        }
    }

    /// A value that `parse` reads; what it can't read is reported with `message`.
    pub fn parsed<T>(
        &self,
        fields: &mut Fields,
        name: &str,
        message: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let parsed = parse(self.get(name)?);
        if parsed.is_none() {
            fields.reject(name, message);
        }
        parsed
    }

    /// A value of a closed vocabulary.
    pub fn one_of<T: Copy>(&self, fields: &mut Fields, name: &str, vocabulary: &[(&str, T)]) -> Option<T> {
        let text = self.get(name)?;
        let found = vocabulary.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            fields.reject(name, must_be_one_of(vocabulary));
        }
        found
    }

    /// An inclusive lower bound in time; of a bare date the first millisecond of its day in São Paulo.
    pub fn not_before(&self, fields: &mut Fields, name: &str) -> Option<Timestamp> {
        self.parsed(fields, name, TIME_MESSAGE, |text| Timestamp::parse_ceil(text).ok())
    }

    /// An inclusive upper bound in time; of a bare date the last millisecond of its day in São Paulo.
    pub fn not_after(&self, fields: &mut Fields, name: &str) -> Option<Timestamp> {
        self.parsed(fields, name, TIME_MESSAGE, |text| Timestamp::parse_last(text).ok())
    }

    /// An exclusive lower bound in time; of a bare date the first millisecond of its day in São Paulo.
    pub fn after(&self, fields: &mut Fields, name: &str) -> Option<Timestamp> {
        self.parsed(fields, name, TIME_MESSAGE, |text| Timestamp::parse_floor(text).ok())
    }

    /// An exclusive upper bound in time; of a bare date the first millisecond of its day in São Paulo.
    pub fn before(&self, fields: &mut Fields, name: &str) -> Option<Timestamp> {
        self.parsed(fields, name, TIME_MESSAGE, |text| Timestamp::parse_ceil(text).ok())
    }

    /// A currency in use, by its code.
    pub fn currency(&self, fields: &mut Fields, name: &str) -> Option<Currency> {
        let parsed = Currency::parse(self.get(name)?).ok().filter(|currency| currency.is_known());
        if parsed.is_none() {
            fields.reject(name, "must be a currency code, such as BRL");
        }
        parsed
    }

    /// A tax id of any country, as it was sent with a charge.
    pub fn document(&self, fields: &mut Fields, name: &str) -> Option<Document> {
        let parsed = Document::parse(self.get(name)?);
        if parsed.is_none() {
            fields.reject(name, "must be 1 to 32 characters without surrounding spaces");
        }
        parsed
    }
}
