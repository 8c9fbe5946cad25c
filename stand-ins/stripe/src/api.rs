//! An API or control request, from its headers to its answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyDataStream, Full};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use hyper::http::request::Parts;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::fault::KINDS;
use crate::form::{self, Params};
use crate::routes::Route;
use crate::state::{ACCOUNT, API_VERSION, Result, State, account_in};
use crate::values::{at, int, merge, sha256, text};

/// How late the fault `slow` answers: just before a client that waits 10 s gives up.
pub(crate) const SLOW_S: i64 = 9;
const KEY_MAX: usize = 255;

type File = (String, Bytes);

pub(crate) struct ApiRequest {
    pub(crate) method: String,
    path: String,
    api_key: String,
    version: Option<String>,
    idempotency_key: Option<String>,
    pairs: Vec<(String, String)>,
    file: Option<File>,
    is_readable: bool,
}

/// An answer, with the headers that it needs.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) request_id: String,
    /// The request whose stored answer this is.
    pub(crate) original: Option<String>,
}

impl Answer {
    fn new(result: Result<Value>, request_id: String) -> Self {
        let (status, body) = match result {
            Ok(body) => (200, body),
            Err(error) => (error.status, error.body(&request_id)),
        };
        Self { status, body, request_id, original: None }
    }
}

impl ApiRequest {
    pub(crate) async fn read(head: &Parts, body: &Bytes) -> Self {
        let own = |name: &str| header(&head.headers, name).map(str::to_owned);
        let content_type = header(&head.headers, CONTENT_TYPE.as_str()).unwrap_or_default();
        let is_post = head.method == "POST";
        let query = head.uri.query().unwrap_or_default();
        let (pairs, file) = if !is_post {
            (form::decode(query), None)
        } else if let Some((mut pairs, file)) = read_multipart(content_type, body).await {
            // The hash stands for the content, so that an `Idempotency-Key` covers it.
            pairs.extend(file.as_ref().map(|(_, content)| ("file".to_owned(), sha256(content))));
            (pairs, file)
        } else {
            (form::decode(&String::from_utf8_lossy(body)), None)
        };
        let is_form = body.is_empty() || content_type.starts_with("application/x-www-form-urlencoded");
        Self {
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            api_key: api_key(&head.headers).unwrap_or_default(),
            version: own("stripe-version"),
            idempotency_key: own("idempotency-key").filter(|_| is_post),
            is_readable: !is_post || (query.is_empty() && (is_form || file.is_some())),
            pairs,
            file,
        }
    }

    /// The method and path, by which faults name the request.
    pub(crate) fn what(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// A text that is equal for requests with the same path and parameters.
    fn fingerprint(&self) -> String {
        let mut pairs = self.pairs.clone();
        pairs.sort();
        sha256(format!("{} {pairs:?}", self.what()).as_bytes())
    }
}

/// Executes a request to the API. `is_slow`: the answer is sent [`SLOW_S`] later.
pub(crate) fn answer(state: &mut State, own_key: &str, request: &ApiRequest, is_slow: bool) -> Answer {
    let key = &request.idempotency_key;
    let request_id = state.new_request_id();
    if let Some((route, _)) = Route::find(&request.method, &request.path) {
        let sent = state.requests_by_route.entry(format!("{} {}", route.method, route.path)).or_default();
        *sent = sent.saturating_add(1);
    }
    let (route, id, stored) = match admit(state, own_key, request) {
        Ok(found) => found,
        Err(error) => return Answer::new(Err(error), request_id),
    };
    if !stored.is_null() {
        let status = u16::try_from(int(&stored, "status")).unwrap_or(500);
        let original = Some(text(&stored, "request_id").to_owned());
        return Answer { status, body: at(&stored, "/body"), request_id, original };
    }
    state.request = json!({"id": request_id, "idempotency_key": key});
    let result = execute(state, request, route, &id);
    state.request = Value::Null;
    let is_executed = result.as_ref().map_or_else(|error| error.is_executed, |_| true);
    let answer = Answer::new(result, request_id);
    let Some(key) = key else {
        return answer;
    };
    if is_executed {
        let stored = json!({
            "fingerprint": request.fingerprint(), "status": answer.status, "body": answer.body,
            "request_id": answer.request_id,
        });
        state.store_answer(key, stored);
    }
    if is_slow {
        state.in_use.insert(key.clone(), state.now.saturating_add(SLOW_S));
    }
    answer
}

/// Checks everything that comes before the parameters. Returns the route, the id in the path, and the answer that is
/// stored under the `Idempotency-Key`, or null.
fn admit(state: &mut State, own_key: &str, request: &ApiRequest) -> Result<(&'static Route, String, Value)> {
    let what = request.what();
    let refuse = |status, code, message: &str| Err(ApiError::new(status, code, message));
    if request.api_key != own_key {
        return refuse(401, "", "No or an invalid API Key was provided.");
    }
    if request.version.as_ref().is_some_and(|version| version != API_VERSION) {
        return refuse(400, "", &format!("Invalid Stripe API version: the stand-in serves {API_VERSION}."));
    }
    let resource = request.path.split('/').nth(2).unwrap_or_default();
    let lacks = |right| state.behaviour.missing_rights.contains(&format!("{resource}:{right}"));
    if lacks("read") || (request.method != "GET" && lacks("write")) {
        let message = format!(
            "The provided key does not have the required permissions for this endpoint ({resource})."
        );
        return refuse(403, "", &message);
    }
    for (fault, status, code, message) in [
        ("key_expired", 401, "api_key_expired", "Expired API Key provided."),
        ("no_permission", 403, "more_permissions_required", "The key lacks a required permission."),
        ("rate_limit", 429, "rate_limit", "Request rate limit exceeded."),
        ("lock_timeout", 429, "lock_timeout", "Another request is currently accessing this object."),
        ("http_500", 500, "", "An unknown error occurred."),
    ] {
        if state.faults.take(fault, &what) {
            return refuse(status, code, message);
        }
    }
    let mut stored = Value::Null;
    if let Some(key) = &request.idempotency_key {
        if key.is_empty() || key.chars().count() > KEY_MAX {
            return refuse(400, "", &format!("Idempotency keys must have 1 to {KEY_MAX} characters."));
        }
        if state.in_use.get(key).is_some_and(|until| *until > state.now) {
            return refuse(409, "idempotency_key_in_use", "Another request with this key is in progress.");
        }
        stored = state.object(&format!("key/{key}"));
        if !stored.is_null() && text(&stored, "fingerprint") != request.fingerprint() {
            return Err(ApiError::other_parameters(key));
        }
    }
    match Route::find(&request.method, &request.path) {
        Some((route, id)) if route.path.starts_with("/v1/") => Ok((route, id, stored)),
        _ => refuse(404, "", &format!("Unrecognized request URL: the stand-in does not serve {what}.")),
    }
}

fn execute(state: &mut State, request: &ApiRequest, route: &Route, id: &str) -> Result<Value> {
    if !request.is_readable {
        let message = "Invalid request (your POST content type must be application/x-www-form-urlencoded).";
        return Err(ApiError::new(400, "", message));
    }
    let params = form::parse(&route.fields, &request.pairs)?;
    let what = request.what();
    let mut take = |fault| request.method != "GET" && state.faults.take(fault, &what);
    let failure = || ApiError::new(500, "", "An unknown error occurred.").executed();
    if take("stored_500") {
        return Err(failure());
    }
    if take("http_402") {
        return Err(ApiError::new(402, "card_declined", "Your card was declined.").executed());
    }
    let is_failing = take("stored_500_after_write");
    let mut value = operate(state, route, id, &params, request.file.as_ref())?;
    // The write is done, so its error is stored too.
    state.expand(&mut value, &params).map_err(ApiError::executed)?;
    if is_failing { Err(failure()) } else { Ok(value) }
}

/// Executes a control request: what payers, banks and the dashboard do, and faults.
pub(crate) fn control(state: &mut State, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let result = match Route::find(method, path).filter(|_| !path.starts_with("/v1/")) {
        _ if (method, path) == ("POST", "/behaviour") => state.set_behaviour(body),
        Some((route, id)) => form::parse(&route.fields, &pairs("", body))
            .and_then(|params| operate(state, route, &id, &params, None)),
        None => Err(ApiError::new(404, "", format!("The stand-in has no control route {method} {path}."))),
    };
    let answer = Answer::new(result, "control".to_owned());
    (answer.status, answer.body)
}

/// Writes JSON as form parameters with brackets. Null is left out.
fn pairs(name: &str, value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Null => Vec::new(),
        Value::Object(fields) => {
            let inner = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}[{key}]") };
            fields.iter().flat_map(|(key, value)| pairs(&inner(key), value)).collect()
        }
        Value::String(text) => vec![(name.to_owned(), text.clone())],
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => vec![(name.to_owned(), value.to_string())],
    }
}

fn operate(
    state: &mut State,
    route: &Route,
    id: &str,
    params: &Params,
    file: Option<&File>,
) -> Result<Value> {
    match route.operation {
        "account" => Ok(state.object(ACCOUNT)),
        "retrieve" => {
            state.existing(route.prefix, route.id_name(), route.noun, id)?;
            let mut object = state.view(id);
            if state.faults.take("malformed_entry", &format!("GET {}", route.path)) {
                let fields = object.as_object_mut().into_iter().flatten();
                fields.filter(|(name, _)| *name != "id").for_each(|(_, value)| *value = Value::Null);
            }
            Ok(object)
        }
        "list" => {
            let is_odd = state.faults.take("malformed_entry", &format!("GET {}", route.path));
            let mut page = state.list(route, params)?;
            if let Some(data) = page.get_mut("data").and_then(Value::as_array_mut).filter(|_| is_odd) {
                data.insert(0, json!({"id": "odd_1", "source": null, "balance_transaction": null}));
            }
            Ok(page)
        }
        "create_session" => state.create_session(params),
        "expire_session" => state.expire_session(id),
        "create_intent" => state.create_direct(params),
        "cancel_intent" => state.cancel_direct(id, params),
        "create_refund" => state.create_refund(params),
        "update_dispute" => state.update_dispute(id, params),
        "close_dispute" => state.close_dispute(id),
        "create_file" => file.map_or_else(
            || Err(ApiError::invalid("file", "parameter_missing", "Missing required param: file.")),
            |(name, content)| state.create_file(name, content),
        ),
        "create_endpoint" => state.create_endpoint(params),
        "delete_endpoint" => state.delete_endpoint(id),
        "pay" => state.pay(params),
        "decline" => state.decline(params),
        "authenticate" => state.authenticate(params),
        "cancel" => state.cancel(params),
        "pay_elsewhere" => state.pay_elsewhere(params),
        "open_dispute" => state.open_dispute(params),
        "decide_dispute" => state.decide_dispute(id, params),
        "refund_in_dashboard" => state.refund_in_dashboard(params),
        "end_refund" => {
            let reason = params.text("/failure_reason").unwrap_or("unknown");
            state.end_refund(id, params.text("/status").unwrap_or_default(), reason)
        }
        "resend" => state.resend(id, params.int("/copies").unwrap_or(1).min(100)),
        "roll_secret" => state.roll_secret(id, params.int("/old_for_s").unwrap_or_default()),
        "set_account" => {
            let mut account = state.object(ACCOUNT);
            if let Some(country) = params.text("/country") {
                account = account_in(&account, country);
            }
            let mut capabilities = at(&account, "/capabilities");
            merge(&mut capabilities, params.value("/capabilities"));
            merge(&mut account, params.value(""));
            merge(&mut account, json!({"capabilities": capabilities}));
            state.rows.insert(ACCOUNT.to_owned(), account.clone());
            Ok(account)
        }
        "inject_fault" => {
            let (kind, on) =
                (params.text("/kind").unwrap_or_default(), params.text("/on").unwrap_or_default());
            let injected = state.faults.inject(KINDS, kind, on, params.int("/count").unwrap_or(1));
            injected.map_err(|message| ApiError::invalid("kind", "", message))?;
            Ok(state.faults.pending())
        }
        "clear_faults" => {
            state.faults.clear();
            Ok(state.faults.pending())
        }
        "faults" => Ok(state.faults.pending()),
        "behaviour" => Ok(json!(state.behaviour)),
        "books" => Ok(state.books()),
        "requests" => Ok(json!(state.requests_by_route)),
        other => Err(ApiError::new(500, "", format!("The stand-in lacks the operation {other}."))),
    }
}

impl State {
    fn new_request_id(&mut self) -> String {
        self.requests = self.requests.saturating_add(1);
        let id = sha256(format!("{} {}", self.now, self.requests).as_bytes());
        format!("req_{}", id.get(..14).unwrap_or_default())
    }

    fn set_behaviour(&mut self, changes: &Value) -> Result<Value> {
        self.behaviour = stand_in_kit::changed(&self.behaviour, changes)
            .map_err(|error| ApiError::new(400, "", format!("The behaviour is not valid: {error}.")))?;
        Ok(json!(self.behaviour))
    }
}

/// Reads `multipart/form-data`: the fields, and the field `file`. `None` if the body has another form.
async fn read_multipart(content_type: &str, body: &Bytes) -> Option<(Vec<(String, String)>, Option<File>)> {
    let boundary = multer::parse_boundary(content_type).ok()?;
    let mut parts = multer::Multipart::new(BodyDataStream::new(Full::new(body.clone())), boundary);
    let (mut pairs, mut file) = (Vec::new(), None);
    while let Some(part) = parts.next_field().await.ok()? {
        let name = part.name()?.to_owned();
        match part.file_name().map(str::to_owned) {
            Some(filename) if name == "file" => file = Some((filename, part.bytes().await.ok()?)),
            Some(_) => return None,
            None => pairs.push((name, part.text().await.ok()?)),
        }
    }
    Some((pairs, file))
}

pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Reads the API key: a bearer token, or the user name of basic authentication.
fn api_key(headers: &HeaderMap) -> Option<String> {
    let authorization = header(headers, AUTHORIZATION.as_str())?;
    if let Some(key) = authorization.strip_prefix("Bearer ") {
        return Some(key.to_owned());
    }
    let decoded = String::from_utf8(STANDARD.decode(authorization.strip_prefix("Basic ")?).ok()?).ok()?;
    decoded.split(':').next().map(str::to_owned)
}
