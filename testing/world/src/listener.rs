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
use tokio::net::TcpListener;

use crate::http::{Api, Call, text};
use crate::{Error, Result};

/// The path at which one in so many requests is answered 500.
pub const REFUSES: &str = "/refuses";
const REFUSED: u64 = 3;

/// The path at which one in so many requests is answered after the service has given up, which waits at most 10 s.
pub const HANGS: &str = "/hangs";
const HUNG: u64 = 20;
const HANG: Duration = Duration::from_secs(15);

/// What was received of a type of event and an object.
#[derive(Clone, Debug)]
pub struct Received {
    /// When the first request arrived.
    pub first: Instant,
    /// The ids of each event and its delivery.
    pub ids: BTreeSet<[String; 2]>,
}

#[derive(Default)]
struct State {
    /// The secrets of the endpoints, by the beginnings of their paths.
    secrets: Vec<(String, String)>,
    requests: BTreeMap<String, u64>,
    /// How many of the next requests are answered 500.
    refused: u64,
    /// By path and type of event, by the id of the event's object.
    received: BTreeMap<(String, String), BTreeMap<String, Received>>,
    /// The first body of each delivery.
    bodies: BTreeMap<String, Bytes>,
    wrong: Vec<String>,
}

/// A running server. It stops with the process.
pub struct Listener {
    base_url: String,
    /// The URL that merchants register: that of this server, or of one before it.
    pub registered_url: String,
    state: Arc<Mutex<State>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Error::of("starting the listener"))?;
        let address = listener.local_addr().map_err(Error::of("starting the listener"))?;
        let state = Arc::new(Mutex::default());
        tokio::spawn(accept(listener, Arc::clone(&state)));
        let base_url = format!("http://{address}");
        Ok(Self { registered_url: base_url.clone(), base_url, state })
    }

    /// The URL of this server.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.registered_url)
    }

    /// Registers an endpoint. Returns its id.
    pub async fn subscribe(&self, api: &Api, path: &str, events: &[&str]) -> Result<String> {
        let endpoint = json!({"url": self.url(path), "events": events});
        let created = api.expect(&Call::post("/v1/webhooks/endpoints", endpoint), 201).await?;
        self.add_secret(path, text(&created, "secret"));
        Ok(text(&created, "id").to_owned())
    }

    /// From now on, also accepts this secret at paths that begin so.
    pub fn add_secret(&self, path: &str, secret: &str) {
        lock(&self.state).secrets.push((path.to_owned(), secret.to_owned()));
    }

    /// Refuses so many of the next requests.
    pub fn refuse(&self, count: u64) {
        lock(&self.state).refused = count;
    }

    /// Returns what was received at a path of a type of event, by the id of the event's object.
    pub fn received(&self, path: &str, event: &str) -> BTreeMap<String, Received> {
        lock(&self.state).received.get(&(path.to_owned(), event.to_owned())).cloned().unwrap_or_default()
    }

    /// Returns under how many ids each type of event of an object was received at paths that begin so, by the type and
    /// the object's id. A repeated delivery has another path if the endpoint's URL was changed meanwhile.
    pub fn all(&self, path: &str) -> BTreeMap<String, BTreeMap<String, usize>> {
        let state = lock(&self.state);
        let mut ids = BTreeMap::<&str, BTreeMap<&str, BTreeSet<&[String; 2]>>>::new();
        for ((_, event), objects) in state.received.iter().filter(|((found, _), _)| found.starts_with(path)) {
            let of_event = ids.entry(event).or_default();
            for (object, received) in objects {
                of_event.entry(object).or_default().extend(&received.ids);
            }
        }
        let number = |(object, ids): (&str, BTreeSet<_>)| (object.to_owned(), ids.len());
        let numbers = |of_event: BTreeMap<_, _>| of_event.into_iter().map(number).collect();
        ids.into_iter().map(|(event, of_event)| (event.to_owned(), numbers(of_event))).collect()
    }

    /// Returns the requests that no merchant would accept.
    pub fn wrong(&self) -> Vec<String> {
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
    let (number, mut is_refused) = {
        let mut state = lock(&state);
        let left = state.refused.checked_sub(1);
        state.refused = left.unwrap_or_default();
        let requests = state.requests.entry(path.clone()).or_default();
        *requests = requests.saturating_add(1);
        (*requests, left.is_some())
    };
    is_refused |= path == REFUSES && number.is_multiple_of(REFUSED);
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
    let (signature, delivery) = (header("x-service-signature"), header("x-service-delivery-id").to_owned());
    let mut state = lock(&state);
    let is_signed = state
        .secrets
        .iter()
        .any(|(start, secret)| path.starts_with(start) && is_signed(secret, signature, &body));
    let first = state.bodies.entry(delivery.clone()).or_insert_with(|| body.clone());
    if *first != body || !is_signed || object.is_empty() || id.is_empty() || delivery.is_empty() {
        let wrong = format!(
            "a webhook at {path} has a wrong signature, another body than before or no ids: {kind} {id} of {object}"
        );
        state.wrong.push(wrong);
    }
    let of_kind = state.received.entry((path, kind.to_owned())).or_default();
    let new = Received { first: Instant::now(), ids: BTreeSet::new() };
    of_kind.entry(object.to_owned()).or_insert(new).ids.insert([id.to_owned(), delivery]);
    Ok(Response::new(Empty::new()))
}

/// Verifies a signature of either form: `t=<seconds>,v1=<hex>` of canonical events, `sha256=<hex>` of legacy events.
fn is_signed(secret: &str, signature: &str, body: &[u8]) -> bool {
    let (prefix, signed) = match signature.strip_prefix("t=").and_then(|rest| rest.split_once(",v1=")) {
        Some((time, signed)) => (format!("{time}."), signed),
        None => (String::new(), signature.strip_prefix("sha256=").unwrap_or_default()),
    };
    !secret.is_empty() && self::signed(secret, &prefix, body) == signed
}

/// Returns the signature of a body after a prefix, in hexadecimal digits.
pub(crate) fn signed(secret: &str, prefix: &str, body: &[u8]) -> String {
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    let mac = mac.chain_update(prefix).chain_update(body).finalize().into_bytes();
    mac.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_that_is_repeated_at_another_path_is_received_once() {
        let received = |ids: &[[&str; 2]]| Received {
            first: Instant::now(),
            ids: ids.iter().map(|pair| pair.map(str::to_owned)).collect(),
        };
        let at = |path: &str, ids: &[[&str; 2]]| {
            (
                (path.to_owned(), "charge.created".to_owned()),
                BTreeMap::from([("ch_1".to_owned(), received(ids))]),
            )
        };
        let number = |paths: [((String, String), BTreeMap<String, Received>); 2]| {
            let state = Arc::new(Mutex::new(State { received: paths.into(), ..State::default() }));
            let listener = Listener { base_url: String::new(), registered_url: String::new(), state };
            listener.all("/all")["charge.created"]["ch_1"]
        };
        assert_eq!(number([at("/all", &[["evt_1", "wd_1"]]), at("/all/7", &[["evt_1", "wd_1"]])]), 1);
        assert_eq!(number([at("/all", &[["evt_1", "wd_1"]]), at("/all/7", &[["evt_2", "wd_2"]])]), 2);
    }

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
