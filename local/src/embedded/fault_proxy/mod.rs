//! A second server of the embedded DynamoDB, for tests and benchmarks. It injects faults, counts requests and
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

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};

pub use self::calls::{Call, Calls};
use self::capacity::Units;
pub use self::fault::Fault;
use self::fault::{Faults, LastingFault};
pub use self::partitions::PartitionUnits;
use self::partitions::{Partitions, RowWrite};
use self::report::RequestRecord;
pub use self::report::{KeyUnits, Report};
pub use self::throttle::Ceiling;
use self::throttle::Throttle;
use super::dynamodb::{ApiRequest, Database, Engine, EngineResult, encoded, respond};
use crate::error::{Context, Result};
use crate::http::{self, Server};

/// Meanwhile, the proxy receives the requests that its client has sent concurrently, so that the report does
/// not count them as sequential.
const LEAST_LATENCY: Duration = Duration::from_millis(1);

/// Dropping this stops it.
#[derive(Debug)]
pub struct FaultProxy {
    server: Server,
    proxy: Arc<Proxy>,
}

#[derive(Debug, Default)]
struct Proxy {
    state: Mutex<State>,
    partitions: Mutex<Partitions>,
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
    pub(super) async fn start(database: Database) -> Result<Self> {
        let proxy = Arc::new(Proxy::default());
        let shared = Arc::clone(&proxy);
        let server = http::start_loopback(move |request| {
            let (proxy, database) = (Arc::clone(&shared), database.clone());
            let refused = http::refused_host(&Some(Arc::default()), &request);
            async move {
                match refused {
                    Some(refused) => Some(refused),
                    None => proxy.handle(&database, request).await,
                }
            }
        });
        let server = server.await.context("starting the fault proxy")?;
        Ok(Self { server, proxy })
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

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.proxy.lock()
    }
}

/// The status and body of a response, the capacity units that the request consumed, and those of each partition key
/// if they are counted.
type Answer = ((StatusCode, Bytes), Units, Vec<PartitionUnits>);

impl Proxy {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: the response is lost.
    async fn handle(&self, database: &Database, request: Request<Incoming>) -> Option<Response<Full<Bytes>>> {
        let began = Instant::now();
        let ApiRequest { head, operation, body } = match ApiRequest::read(request).await {
            Ok(request) => request,
            Err(refused) => return Some(refused),
        };
        let caller = calls::caller(&head.headers);
        let (fault, min_latency) = {
            let mut state = self.lock();
            (state.faults.next_for(&operation, &body), state.min_latency)
        };
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        if is_rejected_by_aws(&operation, &request) {
            let message = "a key condition must not contain an empty text";
            let error = json!({"__type": error_type("ValidationException"), "message": message});
            return Some(respond(StatusCode::BAD_REQUEST, error.to_string()));
        }
        let (answer, units, partitions) = match fault {
            Some(fault @ (Fault::TransactionConflict | Fault::Throttled | Fault::InternalError)) => {
                (fault.response(&request), Units::default(), Vec::new())
            }
            Some(Fault::ResponseLost) | None => {
                let executed = database.with_engine(|engine| self.execute(engine, &operation, &request));
                executed.unwrap_or_else(|error| (encoded(Err(error)), Units::default(), Vec::new()))
            }
        };
        tokio::time::sleep(min_latency.max(LEAST_LATENCY).saturating_sub(began.elapsed())).await;
        let mut state = self.lock();
        state.calls.record(&caller, &operation, &request);
        let ended = Instant::now();
        state.requests.push(RequestRecord { caller, operation, began, ended, units, partitions });
        drop(state);
        let (status, body) = answer;
        (fault != Some(Fault::ResponseLost)).then(|| respond(status, body))
    }

    /// Executes a request, unless it is throttled, and counts its units by partition key if that is requested. An
    /// error: the rows of a write can't be read.
    fn execute(&self, engine: &mut Engine, operation: &str, request: &Value) -> EngineResult<Answer> {
        let (counts, throttles) = {
            let state = self.lock();
            (state.counts_partitions, state.throttle.is_some())
        };
        if !counts && !throttles {
            let (answer, units) = forward(engine, operation, request);
            return Ok((answer, units, Vec::new()));
        }
        let mut partitions = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        let writes = partitions.writes(engine, operation, request)?;
        let names =
            |resource: &str, partition: &str| writes.iter().any(|write| write.names(resource, partition));
        let now = Instant::now();
        let refused = self.lock().throttle.as_mut().and_then(|throttle| throttle.refuse(names, now));
        if let Some(resource) = refused {
            return Ok((throttle::response(&resource, request), Units::default(), Vec::new()));
        }
        let before = partitions::read(engine, &writes)?;
        let (answer, units) = forward(engine, operation, request);
        let consumed: Vec<PartitionUnits> = if answer.0.is_success() {
            let after = partitions::read(engine, &writes)?;
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
        Ok((answer, units, if counts { consumed } else { Vec::new() }))
    }
}

/// Returns the response and the capacity units that the request consumed.
fn forward(engine: &mut Engine, operation: &str, request: &Value) -> ((StatusCode, Bytes), Units) {
    let (status, answer) =
        encoded(engine.execute(operation, &capacity::with_return_consumed_capacity(request)));
    let units = if status.is_success() {
        capacity::consumed(operation, &answer)
    } else {
        capacity::consumed_by_failed_condition(request, &answer)
    };
    ((status, answer), units)
}

/// Checks for a query with an empty text in its key condition. AWS rejects this query, but the embedded
/// DynamoDB accepts it.
fn is_rejected_by_aws(operation: &str, request: &Value) -> bool {
    let values = request.get("ExpressionAttributeValues").and_then(Value::as_object);
    operation == "Query" && values.into_iter().flatten().any(|(_, value)| *value == json!({"S": ""}))
}

fn error_type(code: &str) -> String {
    format!("com.amazonaws.dynamodb.v20120810#{code}")
}
