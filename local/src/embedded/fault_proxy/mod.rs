//! A proxy in front of DynamoDB, for tests and benchmarks. It injects faults, counts requests and capacity
//! units, also by partition key, throttles hot partitions, and records the calls that IAM would decide on.
//!
//! The embedded DynamoDB never reports a conflict, never throttles and never loses a response, so tests
//! inject these faults with the proxy. The proxy also rejects a query with an empty text in its key
//! condition, as AWS does. The embedded DynamoDB accepts it.

mod calls;
mod capacity;
mod fault;
mod partitions;
mod report;
#[cfg(test)]
mod tests;
mod throttle;

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
pub use self::partitions::PartitionUnits;
use self::partitions::{Partitions, RowWrite};
use self::report::RequestRecord;
pub use self::report::{KeyUnits, Report};
pub use self::throttle::Ceiling;
use self::throttle::{Access, Throttle};
use crate::error::{Error, Result};
use crate::http::{self, Server};
use crate::wire::{JsonClientError, http_client};

/// A running proxy. Dropping this stops it.
#[derive(Debug)]
pub struct FaultProxy {
    server: Server,
    front: Arc<Front>,
}

/// What the connections of a proxy share.
#[derive(Debug)]
struct Front {
    state: Mutex<State>,
    client: Client,
    upstream: Uri,
    partitions: Partitions,
}

#[derive(Debug, Default)]
struct State {
    /// The requests since the last reset.
    requests: Vec<RequestRecord>,
    /// The calls since the start. A reset keeps them.
    calls: Calls,
    faults: Faults,
    min_latency: Duration,
    counts_partitions: bool,
    throttle: Option<Throttle>,
}

impl FaultProxy {
    /// Starts a proxy for the DynamoDB at `url`.
    pub async fn start(url: &str) -> Result<Self> {
        let io = |e: std::io::Error| Error::because("starting the fault proxy", &e);
        let upstream: Uri = url.parse().map_err(|e| Error::because("the fault proxy's upstream", &e))?;
        let front = Arc::new(Front {
            state: Mutex::default(),
            client: http_client(),
            upstream,
            partitions: Partitions::new(url),
        });
        let shared = Arc::clone(&front);
        let make = move |_| {
            let front = Arc::clone(&shared);
            hyper::service::service_fn(move |request| {
                let front = Arc::clone(&front);
                async move { front.handle(request).await }
            })
        };
        let server = Server::start(http::bind_loopback().await.map_err(io)?, make).map_err(io)?;
        Ok(Self { server, front })
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

    /// From now on, attributes the write units of requests to partition keys ([`Report::units_by_key`]). Each
    /// write then takes two additional reads, so writes are slower.
    pub fn count_partitions(&self) {
        self.lock().counts_partitions = true;
    }

    /// From now on, throttles the requests to a partition key above `ceiling`, as DynamoDB does. Each write then
    /// takes one more read. A `BatchGetItem` is throttled as a whole; DynamoDB would leave some keys
    /// unprocessed.
    pub fn throttle(&self, ceiling: Ceiling) {
        self.lock().throttle = Some(Throttle::new(ceiling));
    }

    /// Ends the throttling.
    pub fn stop_throttling(&self) {
        self.lock().throttle = None;
    }

    /// Returns the number of requests that were throttled since [`Self::throttle`].
    pub fn throttled_requests(&self) -> usize {
        self.lock().throttle.as_ref().map_or(0, Throttle::throttled)
    }

    /// Clears the recorded requests and all faults, but not the calls and the settings.
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
        self.front.lock()
    }
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

impl From<JsonClientError> for NoResponse {
    fn from(error: JsonClientError) -> Self {
        tracing::error!(%error, "the fault proxy can't read the rows of a write");
        Self
    }
}

/// A response, the capacity units that the request consumed, and those of each partition key if they are
/// counted.
type Answer = (Response<Full<Bytes>>, Units, Vec<PartitionUnits>);

impl Front {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn handle(
        &self,
        request: Request<Incoming>,
    ) -> std::result::Result<Response<Full<Bytes>>, NoResponse> {
        let began = Instant::now();
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| NoResponse)?.to_bytes();
        let target =
            head.headers.get("x-amz-target").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let caller = calls::caller(&head.headers);
        let (fault, min_latency) = {
            let mut state = self.lock();
            (state.faults.next_for(&operation, &body), state.min_latency)
        };
        if is_rejected_by_aws(&operation, &body) {
            let message = "a key condition must not contain an empty text";
            let error = json!({"__type": error_type("ValidationException"), "message": message});
            return Ok(json_response(StatusCode::BAD_REQUEST, &error));
        }
        let (response, units, partitions) = match fault {
            Some(fault @ (Fault::TransactionConflict | Fault::Throttled | Fault::InternalError)) => {
                (Some(fault.response(&operation, &body)), Units::default(), Vec::new())
            }
            Some(Fault::ResponseLost) => {
                let (_lost, units, partitions) = self.execute(head, &operation, &body).await?;
                (None, units, partitions)
            }
            None => {
                let (response, units, partitions) = self.execute(head, &operation, &body).await?;
                (Some(response), units, partitions)
            }
        };
        let remaining = min_latency.saturating_sub(began.elapsed());
        // A sleep of zero still takes up to a millisecond.
        if !remaining.is_zero() {
            tokio::time::sleep(remaining).await;
        }
        let mut state = self.lock();
        state.calls.record(&caller, &operation, &body);
        let ended = Instant::now();
        state.requests.push(RequestRecord { caller, operation, began, ended, units, partitions });
        drop(state);
        response.ok_or(NoResponse)
    }

    /// Sends a request to DynamoDB, unless it is throttled, and counts its units by partition key if that is
    /// requested.
    async fn execute(
        &self,
        head: hyper::http::request::Parts,
        operation: &str,
        body: &Bytes,
    ) -> std::result::Result<Answer, NoResponse> {
        let (counts, throttles) = {
            let state = self.lock();
            (state.counts_partitions, state.throttle.is_some())
        };
        if !counts && !throttles {
            let (response, units) = self.forward(head, operation, body).await?;
            return Ok((response, units, Vec::new()));
        }
        let writes = self.partitions.writes(operation, body).await?;
        if writes.is_empty() {
            let (response, units) = self.execute_read(head, operation, body).await?;
            return Ok((response, units, Vec::new()));
        }
        let _locked = self.partitions.lock(&writes).await;
        let before = self.partitions.read(&writes).await?;
        let rows = || writes.iter().zip(&before);
        let expected: Vec<Vec<PartitionUnits>> =
            rows().map(|(write, before)| write.expected_units(before.as_ref())).collect();
        let transaction_rows = (operation == "TransactWriteItems").then_some(writes.len());
        if let Some(throttled) = self.admit(Access::Write, &expected, transaction_rows) {
            return Ok((throttled, Units::default(), Vec::new()));
        }
        let (response, units) = self.forward(head, operation, body).await?;
        let consumed = if response.status().is_success() {
            let after = if counts { Some(self.partitions.read(&writes).await?) } else { None };
            match after {
                Some(after) => rows()
                    .zip(&after)
                    .flat_map(|((write, old), new)| write.units(old.as_ref(), new.as_ref()))
                    .collect(),
                None => expected.concat(),
            }
        } else if units.write > 0.0 {
            writes.iter().map(RowWrite::units_of_failed_condition).collect()
        } else {
            Vec::new()
        };
        if let Some(throttle) = &mut self.lock().throttle {
            throttle.settle(Access::Write, &expected, &consumed, Instant::now());
        }
        Ok((response, units, if counts { consumed } else { Vec::new() }))
    }

    /// Sends a request that writes nothing, unless it is throttled.
    async fn execute_read(
        &self,
        head: hyper::http::request::Parts,
        operation: &str,
        body: &Bytes,
    ) -> std::result::Result<(Response<Full<Bytes>>, Units), NoResponse> {
        // The units of a read are known only after it. It is admitted while its partitions have units left.
        let expected = [partitions::read_partitions(operation, body, 0.0)];
        if let Some(throttled) = self.admit(Access::Read, &expected, None) {
            return Ok((throttled, Units::default()));
        }
        let (response, units) = self.forward(head, operation, body).await?;
        let consumed = partitions::read_partitions(operation, body, units.read);
        if let Some(throttle) = &mut self.lock().throttle {
            throttle.settle(Access::Read, &expected, &consumed, Instant::now());
        }
        Ok((response, units))
    }

    /// Returns the response to a request that is throttled. `None`: it is not throttled.
    fn admit(
        &self,
        access: Access,
        expected: &[Vec<PartitionUnits>],
        transaction_rows: Option<usize>,
    ) -> Option<Response<Full<Bytes>>> {
        let mut state = self.lock();
        let refused = state.throttle.as_mut()?.admit(access, expected, Instant::now()).err()?;
        Some(throttle::response(&refused, transaction_rows))
    }

    /// Sends a request to DynamoDB. Returns the response and the capacity units that the request consumed.
    async fn forward(
        &self,
        mut head: hyper::http::request::Parts,
        operation: &str,
        body: &Bytes,
    ) -> std::result::Result<(Response<Full<Bytes>>, Units), NoResponse> {
        head.uri = self.upstream.clone();
        head.headers.remove(HOST);
        head.headers.remove(CONTENT_LENGTH);
        let request = Request::from_parts(head, Full::new(capacity::with_return_consumed_capacity(body)));
        let response = self.client.request(request).await.map_err(|_| NoResponse)?;
        let (head, response) = response.into_parts();
        let response = response.collect().await.map_err(|_| NoResponse)?.to_bytes();
        let units = if head.status.is_success() {
            capacity::consumed(operation, &response)
        } else {
            capacity::consumed_by_failed_condition(body, &response)
        };
        Ok((Response::from_parts(head, Full::new(response)), units))
    }
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
