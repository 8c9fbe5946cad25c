//! An HTTP client, and requests that are repeated until their outcome is known.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::{Counts, Error, Result, count};

/// How long a client waits for an answer: longer than the service takes for a bank that does not answer.
const TIMEOUT: Duration = Duration::from_secs(45);

/// How long a client repeats a request.
const PATIENCE: Duration = Duration::from_secs(150);

const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The same where the clock moves on instead.
const LONGEST_SHORT_PAUSE: Duration = Duration::from_millis(400);

/// After how many repetitions the clock advances, and by how many seconds.
const ADVANCE_EVERY: u32 = 4;
const ADVANCE_S: i64 = 15;

/// The most pages of a list.
const MAX_PAGES: usize = 10_000;

/// How clients repeat requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Repetition {
    /// While the service runs or is started again.
    InRealTime,
    /// Soon, while the clock advances: a request may wait for the lease of a function that died.
    WithTheClock,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// The JSON body, or null.
    pub body: Value,
}

/// Returns a text field, or an empty text.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Returns the elements of an array, or none.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A request to the service, which can be repeated.
#[derive(Clone, Debug)]
pub struct Call {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Value>,
}

impl Call {
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), headers: Vec::new(), body: None }
    }

    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    pub fn post(path: impl Into<String>, body: Value) -> Self {
        Self { body: Some(body), ..Self::new(Method::POST, path) }
    }

    pub fn patch(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::PATCH, ..Self::post(path, body) }
    }

    #[must_use]
    pub fn with(mut self, header: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((header, value.into()));
        self
    }

    /// Authenticates by a token of a user instead of an API key.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        self.with("authorization", format!("Bearer {token}"))
    }
}

/// A client of the service with an API key.
pub struct Api {
    client: legacy::Client<HttpConnector, Full<Bytes>>,
    base_url: String,
    key: String,
    repetition: Repetition,
    record: Mutex<Record>,
}

/// What a client of the service received.
#[derive(Debug, Default)]
pub struct Record {
    /// Responses by status, and requests without one.
    pub responses: Counts,
    /// The durations of the requests with a response.
    pub durations: Vec<Duration>,
}

impl Api {
    pub fn new(base_url: &str, key: &str, repetition: Repetition) -> Self {
        let (base_url, key) = (base_url.to_owned(), key.to_owned());
        let client = legacy::Client::builder(TokioExecutor::new()).build_http();
        Self { client, base_url, key, repetition, record: Mutex::default() }
    }

    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to a URL. `None`: no response arrived, and the request may have had its effect.
    pub async fn fetch(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Option<Answer> {
        let request = Request::builder().method(method).uri(url);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = self.client.request(request.body(Full::new(body.into())).ok()?).await.ok()?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        Some(Answer { status, body: serde_json::from_slice(&body).unwrap_or_default() })
    }

    /// Sends a request once. `None`: no response arrived in time.
    pub async fn send(&self, call: &Call) -> Option<Answer> {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(call.headers.iter().map(|(name, value)| (*name, value.as_str())));
        if !headers.iter().any(|(name, _)| ["apikey", "authorization"].contains(name)) {
            headers.push(("apikey", &self.key));
        }
        let body = call.body.as_ref().map(Value::to_string).unwrap_or_default();
        let url = format!("{}{}", self.base_url, call.path);
        let sent = Instant::now();
        let exchange = self.fetch(call.method.clone(), &url, &headers, body);
        let answer = tokio::time::timeout(TIMEOUT, exchange).await.ok().flatten();
        // The routes of the machine may fail, such as that of the clock while the disk is full.
        if call.path.starts_with("/v1") {
            let mut record = self.record();
            let status =
                answer.as_ref().map_or_else(|| "none".to_owned(), |answer| answer.status.to_string());
            count(&mut record.responses, status);
            record.durations.extend(answer.iter().map(|_| sent.elapsed()));
        }
        answer
    }

    /// Sends a request until its outcome is known: any answer but 429 and 5xx. `None`: it is not known in time.
    pub async fn settle(&self, call: &Call) -> Option<Answer> {
        let (started, is_slow) = (Instant::now(), self.repetition == Repetition::InRealTime);
        let mut pause = Duration::from_millis(if is_slow { 100 } else { 10 });
        let mut repetitions: u32 = 0;
        while started.elapsed() < PATIENCE {
            match self.send(call).await {
                Some(answer) if answer.status != 429 && answer.status < 500 => return Some(answer),
                Some(_) | None => {}
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(if is_slow { LONGEST_PAUSE } else { LONGEST_SHORT_PAUSE });
            repetitions = repetitions.saturating_add(1);
            if !is_slow && repetitions.is_multiple_of(ADVANCE_EVERY) {
                self.send(&advance(ADVANCE_S)).await;
            }
        }
        None
    }

    /// Sends a request until its outcome is known, and returns the body.
    pub async fn expect(&self, call: &Call, status: u16) -> Result<Value> {
        match self.settle(call).await {
            Some(answer) if answer.status == status => Ok(answer.body),
            other => Err(Error::new(format!("{call:?} was answered {other:?}"))),
        }
    }

    pub async fn read(&self, path: impl Into<String>) -> Result<Value> {
        self.expect(&Call::get(path), 200).await
    }

    /// Reads all pages of a list. `path` has a query.
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        for _page in 0..MAX_PAGES {
            let page = self.read(format!("{path}{cursor}")).await?;
            all.extend_from_slice(items(&page["data"]));
            match (page["has_more"].as_bool(), page["next_cursor"].as_str()) {
                (Some(true), Some(next)) => cursor = format!("&starting_after={next}"),
                _ => return Ok(all),
            }
        }
        Err(Error::new(format!("{path} has too many pages")))
    }

    /// Advances the service's clock. Returns its time.
    pub async fn advance_clock(&self, seconds: i64) -> Result<String> {
        Ok(text(&self.expect(&advance(seconds), 200).await?, "now").to_owned())
    }
}

fn advance(seconds: i64) -> Call {
    Call::post("/_local/clock/advance", json!({"seconds": seconds}))
}
