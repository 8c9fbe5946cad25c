//! A proxy between the functions and DynamoDB, for tests and benchmarks. It injects faults, counts requests and
//! capacity units, also by partition key, throttles hot partitions, and records the calls that IAM would decide on.
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

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use local::fronts::{Fronts, Upstream};
use local::http::{Server, start_loopback};
use local::wire::{HttpClient, http_client};
use serde_json::{Value, json};

pub use self::calls::{Call, Calls};
use self::capacity::Units;
use self::fault::{Faults, LastingFault};
pub use self::partitions::PartitionUnits;
use self::partitions::{Partitions, RowWrite};
use self::report::RequestRecord;
pub use self::report::{KeyUnits, Report};
pub use self::throttle::Ceiling;
use self::throttle::Throttle;
pub use crate::fault::Fault;
use crate::fault::{AWS_JSON, Answer, aws_error, dynamodb_error, respond};
use crate::front::forward;
use crate::{Error, Result};

const TARGET: &str = "x-amz-target";

/// Meanwhile, the proxy receives the requests that its client has sent concurrently, so that the report does
/// not count them as sequential.
const LEAST_LATENCY: Duration = Duration::from_millis(1);

/// Dropping this stops it.
#[derive(Debug)]
pub struct FaultProxy {
    server: Server,
    proxy: Arc<Proxy>,
}

#[derive(Debug)]
struct Proxy {
    client: HttpClient,
    /// The URL of DynamoDB.
    upstream: OnceLock<String>,
    state: Mutex<State>,
    /// Locked while a write is executed whose units are counted.
    partitions: tokio::sync::Mutex<Partitions>,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<RequestRecord>,
    calls: Calls,
    faults: Faults,
    min_latency: Duration,
    counts_partitions: bool,
    throttle: Option<Throttle>,
}

impl FaultProxy {
    pub async fn start() -> Result<Self> {
        Self::start_on(0).await
    }

    pub async fn start_on(port: u16) -> Result<Self> {
        let proxy = Arc::new(Proxy {
            client: http_client(),
            upstream: OnceLock::new(),
            state: Mutex::default(),
            partitions: tokio::sync::Mutex::default(),
        });
        let shared = Arc::clone(&proxy);
        let server = start_loopback(port, move |request| {
            let proxy = Arc::clone(&shared);
            async move { proxy.handle(request).await }
        });
        Ok(Self { server: server.await.map_err(Error::of("starting the fault proxy"))?, proxy })
    }

    /// Lets the functions reach DynamoDB through this proxy.
    pub fn fronts(&self) -> Fronts {
        let (proxy, url) = (Arc::clone(&self.proxy), self.url());
        Fronts::new(move |upstream, own| {
            if upstream != Upstream::DynamoDb {
                return own.to_owned();
            }
            let _ = proxy.upstream.set(own.to_owned());
            url.clone()
        })
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// If several faults are injected for the same operation, each makes one request fail, in the order of
    /// injection.
    pub fn inject(&self, operation: &str, fault: Fault) {
        self.lock().faults.queue.push_back((operation.to_owned(), fault));
    }

    /// Makes every `period`-th request of `operation` fail until the next reset. Replaces the fault of the last call of
    /// this or of [`Self::inject_where`].
    pub fn inject_every(&self, operation: &str, period: usize, fault: Fault) {
        self.inject_lasting(Some(operation), "", period, fault);
    }

    /// Makes every request fail whose body contains `text`, until the next reset. An empty text makes all
    /// requests fail. Replaces as [`Self::inject_every`] does.
    pub fn inject_where(&self, text: &str, fault: Fault) {
        self.inject_lasting(None, text, 1, fault);
    }

    fn inject_lasting(&self, operation: Option<&str>, text: &str, period: usize, fault: Fault) {
        let (operation, text) = (operation.map(str::to_owned), text.to_owned());
        self.lock().faults.lasting = Some(LastingFault { operation, text, period, requests: 0, fault });
    }

    /// Returns the number of faults of [`Self::inject`] that have not affected a request yet.
    pub fn pending_faults(&self) -> usize {
        self.lock().faults.queue.len()
    }

    /// Makes each request take at least `latency`, so that the report recognises concurrent requests on a slow
    /// machine too.
    pub fn set_min_latency(&self, latency: Duration) {
        self.lock().min_latency = latency;
    }

    /// From now on, attributes the write units of requests to partition keys ([`Report::units_by_key`]).
    pub fn count_partitions(&self) {
        self.lock().counts_partitions = true;
    }

    pub fn throttle(&self, ceiling: Ceiling) {
        self.lock().throttle = Some(Throttle::new(ceiling));
    }

    pub fn stop_throttling(&self) {
        self.lock().throttle = None;
    }

    pub fn throttled_requests(&self) -> usize {
        self.lock().throttle.as_ref().map_or(0, Throttle::throttled)
    }

    /// Clears the recorded requests and all faults, but not the calls and the settings.
    pub fn reset(&self) {
        let mut state = self.lock();
        state.requests.clear();
        state.faults = Faults::default();
    }

    pub fn report(&self) -> Report {
        Report::from_requests(&self.lock().requests)
    }

    pub fn calls(&self) -> Calls {
        self.lock().calls.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.proxy.lock()
    }
}

/// The status and body of a response, the capacity units that the request consumed, and those of each partition key
/// if they are counted.
type Executed = ((StatusCode, Bytes), Units, Vec<PartitionUnits>);

impl Proxy {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: the response is lost.
    async fn handle(&self, request: Request<Incoming>) -> Option<Answer> {
        let began = Instant::now();
        let (head, body) = request.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        let target = head.headers.get(TARGET).and_then(|target| target.to_str().ok()).unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let caller = calls::caller(&head.headers);
        let (fault, min_latency) = {
            let mut state = self.lock();
            (state.faults.next_for(&operation, &body), state.min_latency)
        };
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        if is_rejected_by_aws(&operation, &request) {
            let error = aws_error("ValidationException");
            return Some(respond(StatusCode::BAD_REQUEST, AWS_JSON, error.to_string().into()));
        }
        let (answer, units, partitions) = match fault {
            None | Some(Fault::AnswerLost) => self.execute(&head, &operation, &request).await?,
            Some(fault) => (dynamodb_error(fault, &request), Units::default(), Vec::new()),
        };
        tokio::time::sleep(min_latency.max(LEAST_LATENCY).saturating_sub(began.elapsed())).await;
        let mut state = self.lock();
        state.calls.record(&caller, &operation, &request);
        let ended = Instant::now();
        state.requests.push(RequestRecord { caller, operation, began, ended, units, partitions });
        drop(state);
        let (status, body) = answer;
        (fault != Some(Fault::AnswerLost)).then(|| respond(status, AWS_JSON, body))
    }

    /// Executes a request, unless it is throttled, and counts its units by partition key if that is requested. `None`:
    /// DynamoDB does not respond.
    async fn execute(&self, head: &Parts, operation: &str, request: &Value) -> Option<Executed> {
        let (counts, throttles) = {
            let state = self.lock();
            (state.counts_partitions, state.throttle.is_some())
        };
        let dynamodb = DynamoDb { client: &self.client, url: self.upstream.get()?, head };
        if !counts && !throttles {
            let (answer, units) = dynamodb.forward(operation, request).await?;
            return Some((answer, units, Vec::new()));
        }
        let mut partitions = self.partitions.lock().await;
        let writes = partitions.writes(&dynamodb, operation, request).await?;
        let names =
            |resource: &str, partition: &str| writes.iter().any(|write| write.names(resource, partition));
        let now = Instant::now();
        let refused = self.lock().throttle.as_mut().and_then(|throttle| throttle.refuse(names, now));
        if let Some(resource) = refused {
            return Some((throttle::response(&resource, request), Units::default(), Vec::new()));
        }
        let before = partitions::read(&dynamodb, &writes).await?;
        let (answer, units) = dynamodb.forward(operation, request).await?;
        let consumed: Vec<PartitionUnits> = if answer.0.is_success() {
            let after = partitions::read(&dynamodb, &writes).await?;
            let changed = writes.iter().zip(before.iter().zip(&after));
            changed.flat_map(|(write, (old, new))| write.units(old.as_ref(), new.as_ref())).collect()
        } else if units.write > 0.0 {
            writes.iter().map(RowWrite::units_of_failed_condition).collect()
        } else {
            Vec::new()
        };
        if let Some(throttle) = &mut self.lock().throttle {
            throttle.consume(&consumed, now);
        }
        Some((answer, units, if counts { consumed } else { Vec::new() }))
    }
}

/// DynamoDB behind the proxy.
struct DynamoDb<'a> {
    client: &'a HttpClient,
    url: &'a str,
    /// That of the request that the proxy received.
    head: &'a Parts,
}

impl DynamoDb<'_> {
    async fn send(&self, operation: &str, body: Bytes) -> Option<(StatusCode, Bytes)> {
        let mut head = self.head.clone();
        head.headers.insert(TARGET, format!("DynamoDB_20120810.{operation}").parse().ok()?);
        let (head, body) = forward(self.client, self.url, head, body).await?.into_parts();
        Some((head.status, body))
    }

    /// Returns the response and the capacity units that the request consumed.
    async fn forward(&self, operation: &str, request: &Value) -> Option<((StatusCode, Bytes), Units)> {
        let (status, answer) = self.send(operation, capacity::with_return_consumed_capacity(request)).await?;
        let units = if status.is_success() {
            capacity::consumed(operation, &answer)
        } else {
            capacity::consumed_by_failed_condition(request, &answer)
        };
        Some(((status, answer), units))
    }

    /// Returns the response to a request of the proxy's own.
    async fn call(&self, operation: &str, request: &Value) -> Option<Value> {
        let (_status, answer) = self.send(operation, request.to_string().into()).await?;
        serde_json::from_slice(&answer).ok()
    }
}

/// Checks for a query with an empty text in its key condition. AWS rejects this query, but the embedded
/// DynamoDB accepts it.
fn is_rejected_by_aws(operation: &str, request: &Value) -> bool {
    let values = request.get("ExpressionAttributeValues").and_then(Value::as_object);
    operation == "Query" && values.into_iter().flatten().any(|(_, value)| *value == json!({"S": ""}))
}
