//! An HTTP client, and requests that are repeated until their outcome is known.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::http::request::Builder;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// How long a client waits for an answer: longer than the service takes for a bank that does not answer.
const TIMEOUT: Duration = Duration::from_secs(45);

/// How long a client repeats a request.
const PATIENCE: Duration = Duration::from_secs(150);

/// The pauses between repetitions, in milliseconds.
const FIRST_PAUSE_MS: u64 = 100;
const LAST_PAUSE_MS: u64 = 2_000;

/// A response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The JSON body, or null.
    pub body: Value,
}

/// No response arrived. The request may have had its effect.
#[derive(Clone, Debug)]
pub struct Lost(pub String);

/// A client of the service.
pub struct Api {
    http: Client<HttpConnector, Full<Bytes>>,
    base_url: String,
    key: Mutex<String>,
    /// How many requests ended in each way that leads to a repetition, such as `503` or `no answer`.
    repetitions: Mutex<BTreeMap<String, u64>>,
}

/// A request, which can be repeated.
#[derive(Clone, Debug)]
pub struct Call {
    method: Method,
    path: String,
    idempotency_key: Option<String>,
    body: Option<Value>,
}

impl Call {
    /// A read.
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), idempotency_key: None, body: None }
    }

    /// A deletion.
    pub fn delete(path: impl Into<String>) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    /// A write.
    pub fn post(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::POST, body: Some(body), ..Self::get(path) }
    }

    /// Adds the header `Idempotency-Key`.
    #[must_use]
    pub fn with_key(self, key: impl Into<String>) -> Self {
        Self { idempotency_key: Some(key.into()), ..self }
    }
}

impl Api {
    /// Creates a client of the service at a base URL.
    pub fn new(base_url: String) -> Self {
        let http = Client::builder(TokioExecutor::new()).build_http();
        Self { http, base_url, key: Mutex::default(), repetitions: Mutex::default() }
    }

    /// Sets the API key of all further requests.
    pub fn set_key(&self, key: &str) {
        key.clone_into(&mut self.key.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sends a request once.
    ///
    /// # Errors
    ///
    /// When no response arrived.
    pub async fn send(&self, call: &Call) -> Result<Answer, Lost> {
        let key = self.key.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut request = Request::builder()
            .method(&call.method)
            .uri(format!("{}{}", self.base_url, call.path))
            .header("content-type", "application/json")
            .header("apikey", key);
        if let Some(key) = &call.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let body = call.body.as_ref().map(Value::to_string).unwrap_or_default();
        self.exchange(request, body).await
    }

    /// Sends a request with these headers to any URL, without the API key.
    ///
    /// # Errors
    ///
    /// When no response arrived.
    pub async fn send_to(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, Lost> {
        let request = Request::builder().method(method).uri(url);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.exchange(request, body).await
    }

    async fn exchange(&self, request: Builder, body: impl Into<Bytes>) -> Result<Answer, Lost> {
        let request = request.body(Full::new(body.into())).map_err(|error| Lost(error.to_string()))?;
        let exchange = async {
            let response = self.http.request(request).await.map_err(|error| Lost(error.to_string()))?;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.map_err(|error| Lost(error.to_string()))?;
            let body = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
            Ok(Answer { status, body })
        };
        tokio::time::timeout(TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| Err(Lost("no answer in time".to_owned())))
    }

    /// Sends a request until its outcome is known: any answer but 429 and 5xx. `None`: it is not known in time.
    pub async fn settle(&self, call: &Call) -> Option<Answer> {
        let started = Instant::now();
        let mut pause_ms = FIRST_PAUSE_MS;
        while started.elapsed() < PATIENCE {
            let why = match self.send(call).await {
                Ok(answer) if answer.status != 429 && answer.status < 500 => return Some(answer),
                Ok(answer) => answer.status.to_string(),
                Err(Lost(_)) => "no answer".to_owned(),
            };
            self.note_repetition(why);
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            pause_ms = pause_ms.saturating_mul(2).min(LAST_PAUSE_MS);
        }
        None
    }

    /// Advances the service's clock. Returns its time; `None`: it is not known in time.
    pub async fn advance_clock(&self, seconds: i64) -> Option<String> {
        let advance = Call::post("/_local/clock/advance", json!({"seconds": seconds}));
        let body = self.settle(&advance).await?.body;
        Some(body.get("now").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    /// Returns how many requests had to be repeated, by reason, and adds a violation for those that were answered
    /// 500. 503 and no answer are what a merchant must expect; a 500 is a defect.
    pub fn check_repetitions(&self, violations: &mut Vec<String>) -> BTreeMap<String, u64> {
        let repetitions = self.repetitions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        violations.extend(repetitions.get("500").map(|count| format!("{count} requests were answered 500")));
        repetitions
    }

    fn note_repetition(&self, why: String) {
        let mut repetitions = self.repetitions.lock().unwrap_or_else(PoisonError::into_inner);
        let count = repetitions.entry(why).or_default();
        *count = count.saturating_add(1);
    }
}
