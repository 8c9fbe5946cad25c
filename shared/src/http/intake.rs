//! Validates a request's JSON body and query string. The error response lists all failing fields, not only
//! the first one.
//!
//! [`Fields`] reads one field after another and collects the failures. [`Fields::finish`] then returns either
//! the parsed value or all failures. A field that is `null` is treated as absent.

use axum::body::{Body, Bytes, to_bytes};
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

/// The longest e-mail address (RFC 5321).
const MAX_EMAIL_CHARS: usize = 254;

/// A request's body: a JSON object without duplicate keys. An empty body is accepted as `{}`, because all
/// fields of a route may be optional.
///
/// A handler must extract the body after the caller, so that a failed authentication is reported first. If
/// another check must come before the error of the body, the handler extracts a `Result<JsonBody, Problem>`.
#[derive(Clone, Debug)]
pub struct JsonBody(pub JsonObject);

impl<S: Sync> FromRequest<S> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = read_body(body, MAX_BODY_BYTES).await?;
        if bytes.is_empty() {
            return Ok(Self(JsonObject::new()));
        }
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !content_type.is_some_and(is_json) {
            return Err(Problem::field("Content-Type", "must be application/json"));
        }
        json::parse_object(&bytes).map(Self)
    }
}

/// A request's body of at most `MAX` bytes, for a route whose sender does not send JSON as this API requires
/// it, or whose signature is computed from the bytes. The content type is not checked.
#[derive(Clone, Debug)]
pub struct RawBody<const MAX: usize>(pub Bytes);

impl<S: Sync, const MAX: usize> FromRequest<S> for RawBody<MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        read_body(request.into_body(), MAX).await.map(Self)
    }
}

async fn read_body(body: Body, max_bytes: usize) -> Result<Bytes, Problem> {
    to_bytes(body, max_bytes).await.map_err(|_too_long_or_broken| {
        Problem::Unreadable(format!("The body must be at most {max_bytes} bytes."))
    })
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// The body, or an object in a field of the body. A failing field is reported by its path, such as
/// `customer.document`. An absent object is treated as one without fields.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    map: Option<&'a JsonObject>,
    path: &'a str,
}

impl<'a> Object<'a> {
    /// The whole body as an object.
    pub fn root(map: &'a JsonObject) -> Self {
        Self { map: Some(map), path: "" }
    }

    /// The value of a field that is present and not `null`.
    pub fn get(&self, name: &str) -> Option<&'a JsonValue> {
        self.map?.get(name).filter(|value| !value.is_null())
    }

    /// Whether the object has the field. A field that is `null` counts here.
    pub fn has(&self, name: &str) -> bool {
        self.map.is_some_and(|map| map.contains_key(name))
    }

    fn param(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

/// The validation of one request: reads fields and collects their failures. A method that reads a field
/// returns `None` if the field is absent or fails.
#[derive(Debug, Default)]
pub struct Fields {
    details: Vec<Detail>,
    amount_failed: bool,
}

impl Fields {
    /// Starts a validation without failures.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a failing field. Only the first failure of each field is collected, and at most 100 fields.
    pub fn reject(&mut self, param: impl Into<String>, rule: impl Into<String>) {
        self.add(Detail::new(param, &rule.into()));
    }

    fn add(&mut self, detail: Detail) {
        if self.details.len() < MAX_DETAILS && !self.has_rejected(&detail.param) {
            self.details.push(detail);
        }
    }

    /// Whether a failure of this field was already added.
    pub fn has_rejected(&self, param: &str) -> bool {
        self.details.iter().any(|detail| detail.param == param)
    }

    /// Reads an optional object. Its failing fields are reported as `<name>.<field>`.
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

    /// Reads an optional string of `min` to `max` characters, both inclusive.
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

    /// Like [`Fields::text`], for a field that must be present.
    pub fn required_text<'a>(
        &mut self,
        from: &Object<'a>,
        name: &str,
        min: usize,
        max: usize,
    ) -> Option<&'a str> {
        if from.get(name).is_none() {
            self.reject(from.param(name), format!("is required: a string of {min} to {max} characters"));
        }
        self.text(from, name, min, max)
    }

    /// Like [`Fields::text`], for one line of text by which people recognise something, such as a label.
    /// Control characters and characters that change the direction of text are refused. Text without a
    /// visible character is refused too, unless it is empty.
    pub fn single_line<'a>(
        &mut self,
        from: &Object<'a>,
        name: &str,
        min: usize,
        max: usize,
    ) -> Option<&'a str> {
        let message =
            "must be one line without control characters or characters that change the direction of text";
        let text = self.text_without(from, name, (min, max), text::is_forbidden_in_line, message)?;
        if !text.is_empty() && text::is_blank(text) {
            self.reject(from.param(name), "must contain a visible character");
            return None;
        }
        Some(text)
    }

    /// Like [`Fields::text`], for text of any number of lines. Line breaks are accepted. Other control
    /// characters and characters that change the direction of text are refused.
    pub fn multi_line<'a>(
        &mut self,
        from: &Object<'a>,
        name: &str,
        min: usize,
        max: usize,
    ) -> Option<&'a str> {
        let message = "must not contain control characters other than line breaks, or characters that change the direction of text";
        self.text_without(from, name, (min, max), text::is_forbidden_in_multiline, message)
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

    /// Reads an optional e-mail address (RFC 5322) without a display name.
    pub fn email<'a>(&mut self, from: &Object<'a>, name: &str) -> Option<&'a str> {
        let text = self.single_line(from, name, MIN_EMAIL_CHARS, MAX_EMAIL_CHARS)?;
        let options = Options::default().without_display_text();
        if EmailAddress::parse_with_options(text, options).is_err() {
            self.reject(from.param(name), "must be an e-mail address (RFC 5322), such as ana@example.com");
            return None;
        }
        Some(text)
    }

    /// Reads an optional integer. Strings, and numbers with a fraction or an exponent, are refused. An
    /// integer beyond 64 bits becomes the nearest 64-bit integer, so that the field's own limits apply. For
    /// example, every `expires_in` above 86400 is capped at 86400.
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

    /// Reads an optional boolean. Numbers and strings are refused.
    pub fn boolean(&mut self, from: &Object<'_>, name: &str) -> Option<bool> {
        if let JsonValue::Bool(value) = from.get(name)? {
            return Some(*value);
        }
        self.reject(from.param(name), "must be true or false");
        None
    }

    /// Reads a required amount in minor units. If it fails, the error code of the whole response is
    /// `invalid_amount`.
    pub fn amount(&mut self, from: &Object<'_>, name: &str) -> Option<Amount> {
        if from.get(name).is_none() {
            self.amount_failed = true;
            self.reject(from.param(name), "is required: an integer of at least 1 (minor units)");
            return None;
        }
        self.optional_amount(from, name)
    }

    /// Like [`Fields::amount`], but the field may be absent. The number must be written as an integer: `10.0`
    /// and `1e400` are refused.
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

    /// Reads an optional string that must be one of the words in `vocabulary`, and returns the value of that
    /// word.
    pub fn one_of<T: Copy>(&mut self, from: &Object<'_>, name: &str, vocabulary: &[(&str, T)]) -> Option<T> {
        let value = from.get(name)?;
        let found = vocabulary.iter().find(|(word, _)| value.as_str() == Some(word)).map(|(_, value)| *value);
        if found.is_none() {
            self.reject(from.param(name), must_be_one_of(vocabulary));
        }
        found
    }

    /// Like [`Fields::one_of`], but the field is required.
    pub fn required_one_of<T: Copy>(
        &mut self,
        from: &Object<'_>,
        name: &str,
        vocabulary: &[(&str, T)],
    ) -> Option<T> {
        if from.get(name).is_none() {
            self.reject(from.param(name), must_be_one_of(vocabulary));
        }
        self.one_of(from, name, vocabulary)
    }

    /// Reads an optional CPF or CNPJ with valid check digits.
    pub fn tax_id(&mut self, from: &Object<'_>, name: &str) -> Option<TaxId> {
        let value = from.get(name)?;
        let parsed = value.as_str().and_then(|text| text.parse().ok());
        if parsed.is_none() {
            self.reject(from.param(name), TAX_ID_MESSAGE);
        }
        parsed
    }

    /// Combines the collected failures with those in the error `refused` of the body. If `refused` is another
    /// kind of error than [`Problem::Invalid`], it is returned unchanged and the collected failures are
    /// dropped.
    #[must_use]
    pub fn with_failures_of(mut self, refused: Problem) -> Problem {
        let Problem::Invalid(details) = refused else { return refused };
        for detail in details {
            self.add(detail);
        }
        Problem::Invalid(self.details)
    }

    /// Ends the validation. Returns `value` if no field failed, else an error with all failing fields.
    ///
    /// # Errors
    ///
    /// 400 with the failing fields. 500 if `value` is `None` although no field failed, because then the
    /// calling code has a defect.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Problem> {
        if self.amount_failed {
            return Err(Problem::InvalidAmount(self.details));
        }
        if !self.details.is_empty() {
            return Err(Problem::Invalid(self.details));
        }
        value.ok_or_else(|| Problem::Internal("validation failed without a failing field".to_owned()))
    }
}

/// The message for a tax id that is neither a CPF nor a CNPJ.
const TAX_ID_MESSAGE: &str =
    "must be an 11-digit CPF or a 14-character CNPJ with valid check digits, without punctuation";

/// The message for a time that can't be parsed. It mentions the plus sign, because an unescaped plus sign in
/// a query string is decoded as a space.
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

/// The parameters of a query string, unchecked.
#[derive(Clone, Debug)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Parses a raw query string (percent-encoded).
    pub fn parse(raw: Option<&str>) -> Self {
        let pairs = url::form_urlencoded::parse(raw.unwrap_or_default().as_bytes()).into_owned().collect();
        Self { pairs }
    }

    /// Refuses parameters that the route does not know and parameters that are repeated. Either may be a
    /// filter, and a filter must never be ignored.
    pub fn allow_only(&self, fields: &mut Fields, known: &[&str]) {
        for (index, (name, _)) in self.pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                fields.reject(name.clone(), "is not a parameter of this route; leave it out");
            } else if self.pairs.iter().take(index).any(|(earlier, _)| earlier == name) {
                fields.reject(name.clone(), "is repeated; send it once");
            }
        }
    }

    /// Refuses every parameter. For routes without parameters.
    ///
    /// # Errors
    ///
    /// 400 with each of the request's parameters, if there are any.
    pub fn require_empty(&self) -> Result<(), Problem> {
        let mut fields = Fields::new();
        self.allow_only(&mut fields, &[]);
        fields.finish(Some(()))
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Reads an integer of `min` to `max`, both inclusive. It must consist of digits only. If it is absent or
    /// fails, returns `default`.
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

    /// Reads a value with `parse`. If `parse` returns `None`, the parameter fails with `message`.
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

    /// Reads a parameter that must be one of the words in `vocabulary`, and returns the value of that word.
    pub fn one_of<T: Copy>(&self, fields: &mut Fields, name: &str, vocabulary: &[(&str, T)]) -> Option<T> {
        let text = self.get(name)?;
        let found = vocabulary.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            fields.reject(name, must_be_one_of(vocabulary));
        }
        found
    }

    /// Reads an inclusive lower bound in time. A date stands for the first millisecond of its day in São
    /// Paulo.
    pub fn not_before(&self, fields: &mut Fields, name: &str) -> Option<Timestamp> {
        self.parsed(fields, name, TIME_MESSAGE, |text| Timestamp::parse_ceil(text).ok())
    }

    /// Reads an inclusive upper bound in time. A date stands for the last millisecond of its day in São
    /// Paulo.
    pub fn not_after(&self, fields: &mut Fields, name: &str) -> Option<Timestamp> {
        self.parsed(fields, name, TIME_MESSAGE, |text| Timestamp::parse_last(text).ok())
    }

    /// Reads an exclusive lower bound in time. A date stands for the first millisecond of its day in São
    /// Paulo.
    pub fn after(&self, fields: &mut Fields, name: &str) -> Option<Timestamp> {
        self.parsed(fields, name, TIME_MESSAGE, |text| Timestamp::parse_floor(text).ok())
    }

    /// Reads an exclusive upper bound in time. A date stands for the first millisecond of its day in São
    /// Paulo.
    pub fn before(&self, fields: &mut Fields, name: &str) -> Option<Timestamp> {
        self.parsed(fields, name, TIME_MESSAGE, |text| Timestamp::parse_ceil(text).ok())
    }

    /// Reads the code of a currency. Codes that the service does not know are refused.
    pub fn currency(&self, fields: &mut Fields, name: &str) -> Option<Currency> {
        let parsed = Currency::parse(self.get(name)?).ok().filter(|currency| currency.is_known());
        if parsed.is_none() {
            fields.reject(name, "must be a currency code, such as BRL");
        }
        parsed
    }

    /// Reads a tax id of any country, as a filter. It matches only the charges whose tax id was sent in
    /// exactly this form.
    pub fn document(&self, fields: &mut Fields, name: &str) -> Option<Document> {
        let parsed = Document::parse(self.get(name)?);
        if parsed.is_none() {
            fields.reject(name, "must be 1 to 32 characters without surrounding spaces");
        }
        parsed
    }
}
