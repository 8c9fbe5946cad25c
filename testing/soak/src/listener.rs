//! The merchants' webhook server, which verifies each request's signature and records its event.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::{BodyExt as _, Collected, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::Sha256;
use soak::http::{Api, Call, text};
use soak::{Error, Result};
use tokio::net::TcpListener;

/// The path at which one in so many requests is answered 500.
pub(crate) const REFUSES: &str = "/refuses";
const REFUSED: u64 = 3;

/// The path at which one in so many requests is answered after the service has given up, which waits at most 10 s.
pub(crate) const HANGS: &str = "/hangs";
const HUNG: u64 = 20;
const HANG: Duration = Duration::from_secs(15);

/// What was received of a type of event and an object.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// When the first request arrived.
    pub first: Instant,
    pub requests: u64,
    /// The ids of the events.
    pub ids: BTreeSet<String>,
}

#[derive(Default)]
struct State {
    /// The secret of the endpoint at each path.
    secrets: BTreeMap<String, String>,
    requests: BTreeMap<String, u64>,
    received: BTreeMap<(String, String), BTreeMap<String, Received>>,
    wrong: Vec<String>,
}

/// A running server. It stops with the process.
pub(crate) struct Listener {
    base_url: String,
    state: Arc<Mutex<State>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Error::of("starting the listener"))?;
        let address = listener.local_addr().map_err(Error::of("starting the listener"))?;
        let state = Arc::new(Mutex::default());
        tokio::spawn(accept(listener, Arc::clone(&state)));
        Ok(Self { base_url: format!("http://{address}"), state })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    pub(crate) async fn subscribe(&self, api: &Api, path: &str, events: &[&str]) -> Result<()> {
        let endpoint = json!({"url": self.url(path), "events": events});
        let created = api.expect(&Call::post("/v1/webhooks/endpoints", endpoint), 201).await?;
        self.set_secret(path, text(&created, "secret"));
        Ok(())
    }

    pub(crate) fn set_secret(&self, path: &str, secret: &str) {
        lock(&self.state).secrets.insert(path.to_owned(), secret.to_owned());
    }

    /// Returns what was received at a path of a type of event, by the id of the event's object.
    pub(crate) fn received(&self, path: &str, event: &str) -> BTreeMap<String, Received> {
        lock(&self.state).received.get(&(path.to_owned(), event.to_owned())).cloned().unwrap_or_default()
    }

    /// Returns all that was received at a path, by the type of event and the id of its object.
    pub(crate) fn all(&self, path: &str) -> Vec<(String, BTreeMap<String, Received>)> {
        let state = lock(&self.state);
        let received = state.received.iter().filter(|((found, _), _)| found == path);
        received.map(|((_, event), objects)| (event.clone(), objects.clone())).collect()
    }

    /// Returns the requests that no merchant would accept.
    pub(crate) fn wrong(&self) -> Vec<String> {
        lock(&self.state).wrong.clone()
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    while let Ok((connection, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        let answer = service_fn(move |request| answer(request, Arc::clone(&state)));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(connection), answer));
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
) -> std::result::Result<Response<Empty<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let path = head.uri.path().to_owned();
    let number = {
        let mut state = lock(&state);
        let requests = state.requests.entry(path.clone()).or_default();
        *requests = requests.saturating_add(1);
        *requests
    };
    let is_refused = path == REFUSES && number.is_multiple_of(REFUSED);
    let hangs = path == HANGS && number.is_multiple_of(HUNG);
    if hangs {
        tokio::time::sleep(HANG).await;
    }
    if is_refused || hangs {
        let mut refusal = Response::new(Empty::new());
        *refusal.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        return Ok(refusal);
    }
    let header =
        |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let event: Value = serde_json::from_slice(&body).unwrap_or_default();
    // Canonical events have an id, `type` and an object; legacy events have `event` and the id of a transaction.
    let (kind, object, id) = match event["type"].as_str() {
        Some(kind) => (kind, text(&event["data"]["object"], "id"), text(&event, "id")),
        None => (text(&event, "event"), text(&event["data"], "transactionId"), header("x-service-event-id")),
    };
    let mut state = lock(&state);
    let secret = state.secrets.get(&path).map(String::as_str).unwrap_or_default();
    if !is_signed(secret, header("x-service-signature"), &body) || object.is_empty() || id.is_empty() {
        let wrong = format!("a webhook at {path} has a wrong signature or no ids: {kind} {id} of {object}");
        state.wrong.push(wrong);
    }
    let of_kind = state.received.entry((path, kind.to_owned())).or_default();
    let new = Received { first: Instant::now(), requests: 0, ids: BTreeSet::new() };
    let received = of_kind.entry(object.to_owned()).or_insert(new);
    received.requests = received.requests.saturating_add(1);
    received.ids.insert(id.to_owned());
    Ok(Response::new(Empty::new()))
}

/// Verifies a signature of either form: `t=<seconds>,v1=<hex>` of canonical events, `sha256=<hex>` of legacy events.
fn is_signed(secret: &str, signature: &str, body: &[u8]) -> bool {
    let (prefix, signed) = match signature.strip_prefix("t=").and_then(|rest| rest.split_once(",v1=")) {
        Some((time, signed)) => (format!("{time}."), signed),
        None => (String::new(), signature.strip_prefix("sha256=").unwrap_or_default()),
    };
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return false };
    let mac = mac.chain_update(prefix).chain_update(body).finalize().into_bytes();
    let hex = mac.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    !secret.is_empty() && hex == signed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_secret_and_the_body() {
        // Computed by `printf '%s' '1.{}' | openssl dgst -sha256 -hmac secret`, and without `1.`.
        let canonical = "t=1,v1=1122767b193110cfec322b6f199b599edbf608ed087f2d27afb0b97d99523908";
        let legacy = "sha256=77325902caca812dc259733aacd046b73817372c777b8d95b402647474516e13";
        for signature in [canonical, legacy] {
            assert!(is_signed("secret", signature, b"{}"), "{signature}");
            assert!(!is_signed("secret", signature, b"{ }"), "{signature}");
            assert!(!is_signed("other", signature, b"{}"), "{signature}");
        }
        assert!(!is_signed("", "", b"{}"));
    }
}
