//! A proxy in front of DynamoDB, for tests and benchmarks. It injects faults, counts requests and capacity
//! units, and records the calls that IAM would decide on.
//!
//! The embedded DynamoDB never reports a conflict, never throttles and never loses a response, so tests
//! inject these faults with the proxy. The proxy also rejects a query with an empty text in its key
//! condition, as AWS does. The embedded DynamoDB accepts it.

mod calls;
mod capacity;
mod fault;
mod report;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use serde_json::{Value, json};

pub use self::calls::{Call, Calls};
use self::capacity::Units;
pub use self::fault::Fault;
use self::fault::Faults;
pub use self::report::Report;
use self::report::RequestRecord;
use crate::error::{Error, Result};
use crate::http::{self, Server};
use crate::wire::http_client;

/// A running proxy. Dropping this stops it.
#[derive(Debug)]
pub struct FaultProxy {
    server: Server,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The requests since the last reset.
    requests: Vec<RequestRecord>,
    /// The calls since the start. A reset keeps them.
    calls: Calls,
    faults: Faults,
    min_latency: Duration,
}

impl FaultProxy {
    /// Starts a proxy for the DynamoDB at `url`.
    pub async fn start(url: &str) -> Result<Self> {
        let io = |e: std::io::Error| Error::because("starting the fault proxy", &e);
        let upstream: Uri = url.parse().map_err(|e| Error::because("the fault proxy's upstream", &e))?;
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let client = http_client();
        let make = move |_| {
            let (shared, client, upstream) = (Arc::clone(&shared), client.clone(), upstream.clone());
            hyper::service::service_fn(move |request| {
                let (shared, client, upstream) = (Arc::clone(&shared), client.clone(), upstream.clone());
                async move { handle(request, &shared, &client, &upstream).await }
            })
        };
        let server = Server::start(http::bind_loopback().await.map_err(io)?, make).map_err(io)?;
        Ok(Self { server, state })
    }

    /// Returns the base URL.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Makes the next request of `operation` fail. If several faults are injected for the same operation,
    /// each makes one request fail, in the order of injection.
    pub fn inject(&self, operation: &str, fault: Fault) {
        self.lock().faults.push(operation, fault);
    }

    /// Makes every `period`-th request of `operation` fail until the next reset.
    pub fn inject_every(&self, operation: &str, period: usize, fault: Fault) {
        self.lock().faults.set_periodic(operation, period, fault);
    }

    /// Makes every request fail whose body contains `text`, until the next reset. An empty text makes all
    /// requests fail.
    pub fn inject_where(&self, text: &str, fault: Fault) {
        self.lock().faults.set_matching(text, fault);
    }

    /// Returns the number of faults of [`Self::inject`] that have not affected a request yet.
    pub fn pending_faults(&self) -> usize {
        self.lock().faults.queued_faults()
    }

    /// Makes each request take at least `latency`. Without it, the embedded DynamoDB may answer one of two
    /// concurrent requests before the other arrives, and the report counts them as sequential.
    pub fn set_min_latency(&self, latency: Duration) {
        self.lock().min_latency = latency;
    }

    /// Clears the recorded requests and all faults, but not the calls and the minimum latency.
    pub fn reset(&self) {
        let mut state = self.lock();
        state.requests.clear();
        state.faults = Faults::default();
    }

    /// Sums up the requests since the last reset.
    pub fn report(&self) -> Report {
        Report::from_requests(&self.lock().requests)
    }

    /// Returns the calls since the start.
    pub fn calls(&self) -> Calls {
        self.lock().calls.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

type Client =
    hyper_util::client::legacy::Client<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>;

/// Makes the server close the connection without a response.
#[derive(Debug, thiserror::Error)]
#[error("the response was lost")]
struct NoResponse;

impl From<Infallible> for NoResponse {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

async fn handle(
    request: Request<Incoming>,
    state: &Mutex<State>,
    client: &Client,
    upstream: &Uri,
) -> std::result::Result<Response<Full<Bytes>>, NoResponse> {
    let began = Instant::now();
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| NoResponse)?.to_bytes();
    let target = head.headers.get("x-amz-target").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
    let caller = calls::caller(&head.headers);
    let (fault, min_latency) = {
        let mut state = lock(state);
        (state.faults.next_for(&operation, &body), state.min_latency)
    };
    if is_rejected_by_aws(&operation, &body) {
        let message = "a key condition must not contain an empty text";
        let error = json!({"__type": error_type("ValidationException"), "message": message});
        return Ok(json_response(StatusCode::BAD_REQUEST, &error));
    }
    let (response, units) = match fault {
        Some(fault @ (Fault::TransactionConflict | Fault::Throttled | Fault::InternalError)) => {
            (Some(fault.response(&operation, &body)), Units::default())
        }
        Some(Fault::ResponseLost) => {
            let (_lost, units) = forward(head, &operation, &body, client, upstream).await?;
            (None, units)
        }
        None => {
            let (response, units) = forward(head, &operation, &body, client, upstream).await?;
            (Some(response), units)
        }
    };
    let remaining = min_latency.saturating_sub(began.elapsed());
    // A sleep of zero still takes up to a millisecond.
    if !remaining.is_zero() {
        tokio::time::sleep(remaining).await;
    }
    let mut state = lock(state);
    state.calls.record(&caller, &operation, &body);
    state.requests.push(RequestRecord { operation, began, ended: Instant::now(), units });
    drop(state);
    response.ok_or(NoResponse)
}

/// Sends a request to DynamoDB. Returns the response and the capacity units that the request consumed.
async fn forward(
    mut head: hyper::http::request::Parts,
    operation: &str,
    body: &Bytes,
    client: &Client,
    upstream: &Uri,
) -> std::result::Result<(Response<Full<Bytes>>, Units), NoResponse> {
    head.uri = upstream.clone();
    head.headers.remove(HOST);
    head.headers.remove(CONTENT_LENGTH);
    let request = Request::from_parts(head, Full::new(capacity::with_return_consumed_capacity(body)));
    let response = client.request(request).await.map_err(|_| NoResponse)?;
    let (head, response) = response.into_parts();
    let response = response.collect().await.map_err(|_| NoResponse)?.to_bytes();
    let units = if head.status.is_success() {
        capacity::consumed(operation, &response)
    } else {
        capacity::consumed_by_failed_condition(body, &response)
    };
    Ok((Response::from_parts(head, Full::new(response)), units))
}

/// Checks for a query with an empty text in its key condition. AWS rejects this query, but the embedded
/// DynamoDB accepts it.
fn is_rejected_by_aws(operation: &str, body: &Bytes) -> bool {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let values = body.get("ExpressionAttributeValues").and_then(Value::as_object);
    operation == "Query" && values.into_iter().flatten().any(|(_, value)| *value == json!({"S": ""}))
}

/// Returns the `__type` of a DynamoDB error.
fn error_type(code: &str) -> String {
    format!("com.amazonaws.dynamodb.v20120810#{code}")
}

fn json_response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    response
}
