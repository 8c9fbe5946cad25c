//! An API or control request, from its headers to its answer.

use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::http::request::Parts;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::requests::{Control, read};
use crate::routes::{self, Call};
use crate::state::{KINDS, Result, State};

/// Executes a request to the API. Returns the status, and the body or null if the answer has none.
pub(crate) fn answer(state: &mut State, head: &Parts, body: &Bytes) -> (u16, Value) {
    execute(state, head, body).map_or_else(|ApiError(status, body)| (status, body), |body| (200, body))
}

fn execute(state: &mut State, head: &Parts, body: &Bytes) -> Result<Value> {
    let (method, path) = (head.method.as_str(), head.uri.path());
    let what = format!("{method} {path}");
    let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let found = routes::find(method, path);
    if let Some(((route, ..), ..)) = &found {
        let sent = state.requests_by_route.entry(route).or_default();
        *sent = sent.saturating_add(1);
    }
    if header(AUTHORIZATION) != format!("token {}", state.api_key) {
        let message = "Authentication is required for accessing this endpoint";
        return Err(ApiError::new(401, "unauthenticated", message));
    }
    for (fault, status, code) in [("rate_limit", 429, "rate-limit"), ("http_500", 500, "internal-error")] {
        if state.faults.take(fault, &what) {
            return Err(ApiError::new(status, code, "A control route asked for this failure."));
        }
    }
    let Some(((_, right, run), store, id)) = found else {
        return Err(ApiError::new(404, "not-found", format!("The stand-in does not serve {what}.")));
    };
    let is_own_store = store.is_none_or(|store| store == state.store_id);
    if !is_own_store || !state.behaviour.allows(right, &state.store_id) {
        return Err(ApiError::missing_permission(right));
    }
    let body = match method {
        "POST" | "PUT" if !header(CONTENT_TYPE).starts_with("application/json") => {
            return Err(ApiError::new(415, "unsupported-media-type", "The body must be application/json."));
        }
        "POST" | "PUT" => {
            serde_json::from_slice(body).map_err(|error| ApiError::invalid("", &error.to_string()))?
        }
        _ => Value::Null,
    };
    let query = head.uri.query().unwrap_or_default();
    let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    run(state, &Call { id, query, body })
}

/// Executes a control request: what the payer, the chain and the operator of the server do, and faults.
pub(crate) fn control(state: &mut State, method: &str, path: &str, body: &Value) -> (u16, Value) {
    operate(state, method, path, body)
        .map_or_else(|ApiError(status, body)| (status, body), |body| (200, body))
}

fn operate(state: &mut State, method: &str, path: &str, body: &Value) -> Result<Value> {
    if (method, path) == ("POST", "/behaviour") {
        let changed = stand_in_kit::changed(&state.behaviour, body);
        state.behaviour = changed.map_err(|error| ApiError::invalid("", &error.to_string()))?;
        return Ok(json!(state.behaviour));
    }
    let request: Control = read(body)?;
    let named = |state: &State| state.named_invoice(&request);
    match (method, path) {
        ("POST", "/pay") => state.pay(&named(state)?, request.amount.as_deref(), request.confirmed),
        ("POST", "/confirm") => state.confirm(&named(state)?, request.count.unwrap_or(1)),
        ("POST", "/replace") => state.replace(&named(state)?),
        ("POST", "/mark") => {
            let no_status = || ApiError::invalid("status", "The status must be Settled or Invalid.");
            state.mark_invoice(&named(state)?, request.status.ok_or_else(no_status)?)
        }
        (_, "/faults") => {
            let (on, count) = (request.on.unwrap_or_default(), request.count.unwrap_or(1));
            if method == "POST" {
                let injected = state.faults.inject(KINDS, &request.kind, &on, count.into());
                injected.map_err(|message| ApiError::invalid("kind", &message))?;
            } else if method == "DELETE" {
                state.faults.clear();
            }
            Ok(state.faults.pending())
        }
        ("GET", "/behaviour") => Ok(json!(state.behaviour)),
        ("GET", "/books") => Ok(state.books()),
        ("GET", "/requests") => Ok(json!(state.requests_by_route)),
        _ => Err(ApiError::new(404, "not-found", format!("There is no control route {method} {path}."))),
    }
}
