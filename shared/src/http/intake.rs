//! Validates a request's JSON body and query string. The error response lists all failing fields, not only
//! the first one.
//!
//! [`Fields`] reads one field after another and collects the failures. [`Fields::finish`] then returns either
//! the parsed value or all failures. A field that is `null` is treated as absent, except [`Presence::Whole`].
//! Each field is described by a [`Field`].

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};

use super::context::RequestContext;
use super::field::{
    BodyFields, Count, Definitions, Dictionary, Failures, Field, HeaderText, IDEMPOTENCY_KEY, JsonKind, Kind,
    Nested, Presence, QueryKind,
};
use super::gzip::inflate;
use super::json::{self, JsonObject, JsonValue};
use super::problem::{Detail, MAX_DETAILS, Problem};

/// The largest body that is read, in bytes: 256 KiB.
pub(super) const MAX_BODY_BYTES: usize = 262_144;

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
        require_content_type(&parts.headers, "application/json")?;
        let bytes = decoded(&parts.headers, bytes)?;
        if let Some(context) = parts.extensions.get::<RequestContext>() {
            context.set_body(bytes.clone());
        }
        json::parse_object(&bytes).map(Self)
    }
}

/// Inflates a body that was sent with gzip.
fn decoded(headers: &HeaderMap, bytes: Bytes) -> Result<Bytes, Problem> {
    let coding = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or_default().trim());
    match coding.map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "identity") => Ok(bytes),
        Some("gzip" | "x-gzip") => inflate(&bytes, MAX_BODY_BYTES),
        Some(_) => Err(Problem::field("Content-Encoding", "must be gzip, or left out")),
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

pub(super) async fn read_body(body: Body, max_bytes: usize) -> Result<Bytes, Problem> {
    to_bytes(body, max_bytes).await.map_err(|_too_long_or_broken| too_long(max_bytes))
}

pub(super) fn too_long(max_bytes: usize) -> Problem {
    Problem::Unreadable(format!("The body must be at most {max_bytes} bytes."))
}

/// Refuses a body of another type. Parameters of the type, such as `charset`, are ignored.
pub(super) fn require_content_type(headers: &HeaderMap, expected: &str) -> Result<(), Problem> {
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = sent.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(expected) {
        Ok(())
    } else {
        Err(Problem::field("Content-Type", format!("must be {expected}")))
    }
}

/// The body, or an object in a field of the body. A failing field is reported by its path, such as
/// `customer.document`. An absent object is treated as one without fields.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    map: Option<&'a JsonObject>,
    path: &'a str,
    /// A field that is not in this list counts as absent, even if it was sent. So the list of a route can't lack a
    /// field that the parser reads.
    fields: Definitions,
}

impl<'a> Object<'a> {
    /// Whether the object has the field. A field that is `null` counts here.
    pub fn has<K>(&self, field: &Field<K>) -> bool {
        self.sent(field).is_some()
    }

    /// Whether the object has the field with another value than `null`.
    pub fn has_value<K>(&self, field: &Field<K>) -> bool {
        self.get(field).is_some()
    }

    /// The value of a field that is present and not `null`.
    fn get<K>(&self, field: &Field<K>) -> Option<&'a JsonValue> {
        self.sent(field).filter(|value| !value.is_null())
    }

    fn sent<K>(&self, field: &Field<K>) -> Option<&'a JsonValue> {
        self.map.filter(|_| self.knows(field.name))?.get(field.name)
    }

    fn knows(&self, name: &str) -> bool {
        self.fields.iter().any(|known| known.name() == name)
    }

    fn param<K>(&self, field: &Field<K>) -> String {
        self.path_of(field.name)
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

/// The validation of one request: reads fields and collects their failures. A method that reads a field
/// returns `None` if the field fails, or is absent and has no default.
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

    /// Starts the validation of a creation under the header `Idempotency-Key`. Returns the key and the body. An invalid
    /// key is reported together with the errors of the body.
    pub fn of_creation(
        context: &RequestContext,
        body: Result<JsonBody, Problem>,
    ) -> Result<(Self, Option<&str>, JsonObject), Problem> {
        let mut fields = Self::new();
        let key = fields.header(context.headers.idempotency_key.as_ref(), &IDEMPOTENCY_KEY);
        match body {
            Ok(JsonBody(body)) => Ok((fields, key, body)),
            Err(problem) => Err(fields.with_failures_of(problem)),
        }
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

    pub fn has_rejected(&self, param: &str) -> bool {
        self.details.iter().any(|detail| detail.param == param)
    }

    /// Returns the value of a field. Adds the failures of a field that was refused.
    fn collect<K: Kind, T>(&mut self, param: &str, read: Result<T, Failures>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(Failures(failures)) => {
                self.amount_failed |= K::IS_AMOUNT;
                for (path, rule) in failures {
                    self.reject(format!("{param}{path}"), rule);
                }
                None
            }
        }
    }

    /// The whole body. Refuses the unknown fields that [`BodyFields`] names.
    pub fn body<'a>(&mut self, map: &'a JsonObject, fields: BodyFields) -> Object<'a> {
        let body = Object { map: Some(map), path: "", fields: fields.known };
        self.refuse_misspelt(&body);
        for name in map.keys().filter(|name| fields.is_strict && !body.knows(name)) {
            self.reject(name.clone(), "is not a field of this request; leave it out");
        }
        body
    }

    fn refuse_misspelt(&mut self, object: &Object<'_>) {
        let bare = |name: &str| name.replace(['_', '-'], "").to_lowercase();
        for name in object.map.into_iter().flat_map(JsonObject::keys).filter(|name| !object.knows(name)) {
            let meant = object.fields.iter().find(|known| bare(known.name()) == bare(name));
            if let Some(meant) = meant {
                self.reject(
                    object.path_of(name),
                    format!("is not a field of this request; write `{}`", meant.name()),
                );
            }
        }
    }

    pub fn read<K: JsonKind>(&mut self, from: &Object<'_>, field: &Field<K>) -> Option<K::Value> {
        let read = match (from.get(field), field.presence) {
            (Some(value), _) => field.kind.read(value),
            (None, Presence::Required) => Err(field.kind.missing().into()),
            (None, Presence::Whole) if from.has(field) => {
                Err("must not be null; leave it out for the whole".to_owned().into())
            }
            (None, Presence::Optional | Presence::Whole) => return None,
            (None, Presence::DefaultsTo(json)) => field.kind.read(&json::parse_value(json).ok()?),
        };
        self.collect::<K, _>(&from.param(field), read)
    }

    /// Reads a field that other fields of the request make required.
    pub fn require<K: JsonKind>(&mut self, from: &Object<'_>, field: &Field<K>) -> Option<K::Value> {
        if from.get(field).is_none() {
            return self.collect::<K, _>(&from.param(field), Err(field.kind.missing().into()));
        }
        self.read(from, field)
    }

    /// Reads an optional object. Its failing fields are reported as `<name>.<field>`.
    pub fn object<'a>(&mut self, from: &Object<'a>, field: &Field<Nested>) -> Object<'a> {
        let object = Object { map: self.map(from, field), path: field.name, fields: field.kind.fields };
        self.refuse_misspelt(&object);
        object
    }

    /// Reads an optional object whose fields the client chooses. The caller checks the fields and their number.
    pub fn dictionary<'a>(&mut self, from: &Object<'a>, field: &Field<Dictionary>) -> Option<&'a JsonObject> {
        self.map(from, field)
    }

    fn map<'a, K: Kind>(&mut self, from: &Object<'a>, field: &Field<K>) -> Option<&'a JsonObject> {
        if let JsonValue::Object(map) = from.get(field)? {
            return Some(map);
        }
        self.reject(from.param(field), field.kind.missing());
        None
    }

    /// Reads a required header.
    fn header<'a>(&mut self, sent: Option<&'a HeaderValue>, field: &Field<HeaderText>) -> Option<&'a str> {
        let read = match sent {
            Some(value) => field.kind.read(value.as_bytes()),
            None => Err(field.kind.missing().into()),
        };
        self.collect::<HeaderText, _>(field.name, read)
    }

    /// Combines the collected failures with those in the error `refused` of the body. If `refused` is another
    /// kind of error than [`Problem::Invalid`], it is returned unchanged and the collected failures are
    /// dropped.
    fn with_failures_of(mut self, refused: Problem) -> Problem {
        let Problem::Invalid(details) = refused else { return refused };
        for detail in details {
            self.add(detail);
        }
        Problem::Invalid(self.details)
    }

    /// Ends the validation. Returns `value` if no field failed, else an error with all failing fields.
    /// Errors: 400 with the failing fields. 500 if `value` is `None` although no field failed, because then the
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
    /// filter, and a filter must never be ignored. Parameters that begin with `_` or `utm_` never are filters: HTTP
    /// libraries and mail programs append them.
    pub fn allow_only(&self, fields: &mut Fields, known: Definitions) {
        let is_appended = |name: &str| name.starts_with('_') || name.starts_with("utm_");
        for (index, (name, _)) in self.pairs.iter().enumerate().filter(|(_, (name, _))| !is_appended(name)) {
            if !known.iter().any(|known| known.name() == name) {
                fields.reject(name.clone(), "is not a parameter of this route; leave it out");
            } else if self.pairs.iter().take(index).any(|(earlier, _)| earlier == name) {
                fields.reject(name.clone(), "is repeated; send it once");
            }
        }
    }

    /// Refuses every parameter. For routes without parameters.
    /// Errors: 400 with each of the request's parameters, if there are any.
    pub fn require_empty(&self) -> Result<(), Problem> {
        self.require_only(&[])
    }

    /// Refuses every other parameter.
    /// Errors: 400 with each of them.
    pub fn require_only(&self, known: Definitions) -> Result<(), Problem> {
        let mut fields = Fields::new();
        self.allow_only(&mut fields, known);
        fields.finish(Some(()))
    }

    /// Without empty parameters, which a browser sends for the empty fields of a form.
    #[must_use]
    pub fn without_empty(&self) -> Self {
        let filled = self.pairs.iter().filter(|(_, value)| !value.trim().is_empty());
        Self { pairs: filled.map(|(name, value)| (name.clone(), value.trim().to_owned())).collect() }
    }

    /// Only the parameters of a route: the URL of a page has others beside them.
    #[must_use]
    pub fn known(&self, fields: Definitions) -> Self {
        self.only(|name| fields.iter().any(|field| field.name() == name))
    }

    #[must_use]
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        Self { pairs: self.pairs.iter().filter(|(name, _)| keep(name)).cloned().collect() }
    }

    /// The value of a parameter, unchecked.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter that may be repeated, unchecked.
    pub fn texts<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Percent-encoded.
    pub fn encoded(&self) -> String {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.pairs).finish()
    }

    /// With another value of one parameter.
    #[must_use]
    pub fn set(&self, name: &str, value: &str) -> Self {
        let mut set = self.only(|given| given != name);
        set.pairs.push((name.to_owned(), value.to_owned()));
        set
    }

    /// Percent-encoded, with another value of one parameter.
    pub fn with(&self, name: &str, value: &str) -> String {
        self.set(name, value).encoded()
    }

    pub fn has<K>(&self, field: &Field<K>) -> bool {
        self.get(field).is_some()
    }

    fn get<K>(&self, field: &Field<K>) -> Option<&str> {
        self.text(field.name)
    }

    /// Reads a parameter. Returns `None` if it fails, or is absent and has no default.
    pub fn read<K: QueryKind>(&self, fields: &mut Fields, field: &Field<K>) -> Option<K::Value> {
        let read = match (self.get(field), field.presence) {
            (Some(text), _) => field.kind.parse(text),
            (None, Presence::Required) => Err(field.kind.missing().into()),
            (None, Presence::Optional | Presence::Whole) => return None,
            // A default in JSON is a number, or a word in quotes.
            (None, Presence::DefaultsTo(json)) => field.kind.parse(json.trim_matches('"')),
        };
        fields.collect::<K, _>(field.name, read)
    }

    /// Reads a number of objects, such as a page size. Returns 0 if the parameter fails.
    pub fn count(&self, fields: &mut Fields, field: &Field<Count>) -> usize {
        usize::try_from(self.read(fields, field).unwrap_or_default()).unwrap_or_default()
    }
}
