//! A stand-in with a clock that the test moves, and a client of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use stripe_stand_in::{Behaviour, Options, Stripe};

pub(crate) use crate::receiver::{Receiver, eventually};

/// 2026-11-22T12:00:00Z in Unix seconds.
pub(crate) const START_S: i64 = 1_795_348_800;
pub(crate) const KEY: &str = "sk_live_test0000000000000000";
pub(crate) const VERSION: &str = "2026-05-27.dahlia";

/// An answer of the stand-in.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    /// Returns the body of an answer with this status.
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert!(self.header("request-id").starts_with("req_"));
        serde_json::from_str(&self.text).unwrap()
    }

    /// Returns type, code and param of an error with this status.
    pub(crate) fn error(&self, status: u16) -> [String; 3] {
        let error = self.expect(status)["error"].clone();
        assert!(!error["message"].as_str().unwrap().is_empty());
        ["type", "code", "param"].map(|name| error[name].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A client of the stand-in.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) url: String,
    http: HttpClient<HttpConnector, Full<Bytes>>,
}

impl Api {
    pub(crate) fn new(url: &str) -> Self {
        Self { url: url.to_owned(), http: HttpClient::builder(TokioExecutor::new()).build_http() }
    }

    /// Sends a request. `None` if the stand-in closes the connection.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Option<Answer> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.http.request(request.body(Full::new(Bytes::from(body))).unwrap()).await.ok()?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        Some(Answer { status: head.status.as_u16(), headers: head.headers, text })
    }

    /// Posts a form, with an `Idempotency-Key` if it is not empty. `None` if the stand-in closes the connection.
    pub(crate) async fn try_post(&self, path: &str, form: &[(&str, &str)], key: &str) -> Option<Answer> {
        let authorization = format!("Bearer {KEY}");
        let mut headers = vec![
            ("authorization", authorization.as_str()),
            ("content-type", "application/x-www-form-urlencoded"),
            ("stripe-version", VERSION),
        ];
        if !key.is_empty() {
            headers.push(("idempotency-key", key));
        }
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        self.send("POST", path, &headers, body).await
    }

    pub(crate) async fn post(&self, path: &str, form: &[(&str, &str)]) -> Answer {
        self.try_post(path, form, "").await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let authorization = format!("Bearer {KEY}");
        self.send("GET", path, &[("authorization", &authorization)], String::new()).await.unwrap()
    }

    /// Returns the objects of a list.
    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        self.get(path).await.expect(200)["data"].as_array().unwrap().clone()
    }

    /// Returns the types of all events, oldest first.
    pub(crate) async fn events(&self) -> Vec<String> {
        let events = self.list("/v1/events?limit=100").await;
        events.iter().rev().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }
}

pub(crate) struct World {
    now_ms: Arc<AtomicI64>,
    pub(crate) stripe: Stripe,
    pub(crate) api: Api,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(Behaviour::default()).await
    }

    pub(crate) async fn start_with(behaviour: Behaviour) -> Self {
        Self::start_in(None, behaviour).await
    }

    pub(crate) async fn start_in(file: Option<PathBuf>, behaviour: Behaviour) -> Self {
        let now_ms = Arc::new(AtomicI64::new(START_S * 1_000));
        let clock = Arc::clone(&now_ms);
        let options = Options::new(Arc::new(move || clock.load(Ordering::SeqCst)), KEY);
        let stripe = Stripe::start(Options { file, behaviour, ..options }).await.unwrap();
        let api = Api::new(stripe.url());
        Self { now_ms, stripe, api }
    }

    pub(crate) fn advance_s(&self, seconds: i64) {
        self.now_ms.fetch_add(seconds * 1_000, Ordering::SeqCst);
        self.stripe.wake();
    }

    #[expect(clippy::needless_pass_by_value, reason = "calls are shorter")]
    pub(crate) fn control(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.stripe.control("POST", path, &body);
        assert_eq!(status, 200, "{path}: {answer:#}");
        answer
    }

    /// Expects that an act is refused.
    #[expect(clippy::needless_pass_by_value, reason = "calls are shorter")]
    pub(crate) fn refuse(&self, path: &str, body: Value) {
        let (status, answer) = self.stripe.control("POST", path, &body);
        assert_eq!(status, 400, "{path}: {answer:#}");
    }

    pub(crate) fn fault(&self, kind: &str, on: &str) {
        self.control("/faults", json!({"kind": kind, "on": Some(on).filter(|on| !on.is_empty())}));
    }

    /// Creates a session of BRL 100.00 with `metadata.charge`.
    pub(crate) async fn session(&self, charge: &str) -> Value {
        self.api.post("/v1/checkout/sessions", &session(charge)).await.expect(200)
    }

    pub(crate) async fn read_session(&self, session: &Value) -> Value {
        self.api.get(&format!("/v1/checkout/sessions/{}", session["id"].as_str().unwrap())).await.expect(200)
    }

    /// Reads the `PaymentIntent` of a session, with its charge and balance transaction.
    pub(crate) async fn intent(&self, session: &Value) -> Value {
        let session = self.read_session(session).await;
        let id = session["payment_intent"].as_str().unwrap();
        let path = format!("/v1/payment_intents/{id}?expand[]=latest_charge.balance_transaction");
        self.api.get(&path).await.expect(200)
    }

    /// Creates a session and pays it. Returns the `PaymentIntent`.
    pub(crate) async fn paid(&self, charge: &str) -> Value {
        let session = self.session(charge).await;
        self.control("/pay", json!({"session": session["id"]}));
        self.intent(&session).await
    }
}

/// The request of a session.
pub(crate) fn session(charge: &str) -> Vec<(&str, &str)> {
    vec![
        ("mode", "payment"),
        ("success_url", "http://127.0.0.1:1/done?session={CHECKOUT_SESSION_ID}"),
        ("cancel_url", "http://127.0.0.1:1/back"),
        ("line_items[0][quantity]", "1"),
        ("line_items[0][price_data][currency]", "brl"),
        ("line_items[0][price_data][unit_amount]", "10000"),
        ("line_items[0][price_data][product_data][name]", "Pedido <1>"),
        ("payment_method_types[0]", "card"),
        ("payment_intent_data[capture_method]", "automatic"),
        ("payment_intent_data[metadata][charge]", charge),
        ("metadata[charge]", charge),
        ("adaptive_pricing[enabled]", "false"),
    ]
}

/// Replaces a parameter.
pub(crate) fn with<'a>(
    mut form: Vec<(&'a str, &'a str)>,
    name: &'a str,
    value: &'a str,
) -> Vec<(&'a str, &'a str)> {
    form.retain(|(known, _)| *known != name);
    form.push((name, value));
    form
}

impl Receiver {
    /// Waits for a number of notifications, and returns the types of their events in the order of arrival.
    pub(crate) async fn types(&self, count: usize) -> Vec<String> {
        let received = self.wait_for(count).await;
        received.iter().map(|posted| posted.json()["type"].as_str().unwrap().to_owned()).collect()
    }
}

/// Registers the receiver for types of events. Returns the endpoint with its secret.
pub(crate) async fn register(world: &World, receiver: &Receiver, types: &[&str]) -> Value {
    let mut form = vec![("url", receiver.url.as_str()), ("api_version", VERSION)];
    form.extend(types.iter().map(|name| ("enabled_events[]", *name)));
    world.api.post("/v1/webhook_endpoints", &form).await.expect(200)
}
