//! A proxy between the functions and DynamoDB, for tests and benchmarks. It injects faults, counts requests and
//! capacity units, also by partition key, throttles hot partitions, and records the calls that IAM would decide on.
//!
//! The embedded DynamoDB never reports a conflict, never throttles and never loses a response, so tests
//! inject these faults with the proxy. The proxy also rejects a query with an empty text in its key
//! condition, as AWS does. The embedded DynamoDB accepts it.

pub(crate) mod calls;
mod partitions;
#[cfg(test)]
mod tests;
mod throttle;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
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

pub use self::calls::Call;
use self::partitions::RowWrite;
pub use self::throttle::Ceiling;
use self::throttle::Throttle;
use crate::call::header;
pub use crate::fault::Fault;
use crate::fault::{AWS_JSON, Answer, aws_error, dynamodb_error, respond};
use crate::front::forward;
use crate::{Error, Result};

const TARGET: &str = "x-amz-target";

/// Meanwhile, the proxy receives the requests that its client has sent concurrently, so that the report does
/// not count them as sequential.
const LEAST_LATENCY: Duration = Duration::from_millis(1);

/// The requests that passed through the proxy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    pub operations: BTreeMap<String, usize>,
    /// The maximum number of requests of which no two overlapped in time.
    pub sequential_requests: usize,
    /// Write capacity units of tables and indexes. A transaction costs twice the units of a single write.
    pub write_units: f64,
    /// Read capacity units.
    pub read_units: f64,
    /// The write units of each row and index entry, if the proxy counts partitions
    /// ([`FaultProxy::count_partitions`]).
    pub units_by_key: Vec<KeyUnits>,
}

impl Report {
    pub fn requests(&self) -> usize {
        self.operations.values().sum()
    }
}

/// The write units of a row, or of its entry in an index, by one request.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyUnits {
    /// Empty: the caller is no function.
    pub caller: String,
    pub resource: String,
    pub partition: String,
    /// Empty: the table has no sort key.
    pub sort: String,
    /// The write units.
    pub units: f64,
}

/// Dropping this and its clones stops it.
#[derive(Clone)]
pub struct FaultProxy {
    server: Arc<Server>,
    proxy: Arc<Proxy>,
}

struct Proxy {
    client: HttpClient,
    /// The URL of DynamoDB.
    upstream: OnceLock<String>,
    state: Mutex<State>,
    /// Locked while a write is executed whose units are counted by partition key.
    counting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    report: Report,
    /// When each request began and ended.
    times: Vec<(Instant, Instant)>,
    /// Their number is not bounded.
    calls: BTreeSet<Call>,
    /// Faults of which each affects one request of its operation.
    faults: VecDeque<(String, Fault)>,
    /// Affects requests until the next reset.
    lasting: Option<(IsAffected, Fault)>,
    min_latency: Duration,
    counts_partitions: bool,
    ceiling: Option<Ceiling>,
    throttle: Throttle,
}

/// Whether a fault affects the next request, by its operation and body.
type IsAffected = Box<dyn FnMut(&str, &[u8]) -> bool + Send>;

impl State {
    /// Returns the fault of a request. A fault of the queue takes precedence, and is removed from it.
    fn next_fault(&mut self, operation: &str, body: &[u8]) -> Option<Fault> {
        let index = self.faults.iter().position(|(queued, _)| queued == operation);
        let queued = index.and_then(|index| self.faults.remove(index)).map(|(_, fault)| fault);
        let lasting =
            self.lasting.as_mut().and_then(|(affects, fault)| affects(operation, body).then_some(*fault));
        queued.or(lasting)
    }
}

impl FaultProxy {
    pub async fn start() -> Result<Self> {
        let proxy = Arc::new(Proxy {
            client: http_client(),
            upstream: OnceLock::new(),
            state: Mutex::default(),
            counting: tokio::sync::Mutex::default(),
        });
        let shared = Arc::clone(&proxy);
        let server = start_loopback(0, move |request| {
            let proxy = Arc::clone(&shared);
            async move { proxy.handle(request).await }
        });
        let server = Arc::new(server.await.map_err(Error::of("starting the fault proxy"))?);
        Ok(Self { server, proxy })
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
        self.lock().faults.push_back((operation.to_owned(), fault));
    }

    /// Makes every `period`-th request of `operation` fail until the next reset. Replaces the fault of the last call of
    /// this or of [`Self::inject_where`].
    pub fn inject_every(&self, operation: &str, period: usize, fault: Fault) {
        let (affected, mut requests) = (operation.to_owned(), 0_usize);
        let affects = move |operation: &str, _: &[u8]| {
            requests = requests.saturating_add(usize::from(operation == affected));
            operation == affected && requests.is_multiple_of(period)
        };
        self.lock().lasting = Some((Box::new(affects), fault));
    }

    /// Makes every request fail whose body contains `text`, until the next reset. An empty text makes all
    /// requests fail. Replaces as [`Self::inject_every`] does.
    pub fn inject_where(&self, text: &str, fault: Fault) {
        let text = text.to_owned();
        let affects = move |_: &str, body: &[u8]| String::from_utf8_lossy(body).contains(&text);
        self.lock().lasting = Some((Box::new(affects), fault));
    }

    /// Returns the number of faults of [`Self::inject`] that have not affected a request yet.
    pub fn pending_faults(&self) -> usize {
        self.lock().faults.len()
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
        let mut state = self.lock();
        (state.ceiling, state.throttle) = (Some(ceiling), Throttle::default());
    }

    pub fn stop_throttling(&self) {
        self.lock().ceiling = None;
    }

    pub fn throttled_requests(&self) -> usize {
        self.lock().throttle.throttled
    }

    /// Clears the recorded requests and all faults, but not the calls and the settings.
    pub fn reset(&self) {
        let mut state = self.lock();
        (state.report, state.lasting) = (Report::default(), None);
        state.times.clear();
        state.faults.clear();
    }

    pub fn report(&self) -> Report {
        let state = self.lock();
        Report { sequential_requests: longest_chain(&state.times), ..state.report.clone() }
    }

    pub fn calls(&self) -> BTreeSet<Call> {
        self.lock().calls.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.proxy.lock()
    }
}

/// The status and body of a response, the write and read units that the request consumed, and the write units of each
/// partition key if they are counted.
type Executed = ((StatusCode, Value), [f64; 2], Vec<KeyUnits>);

impl Proxy {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: the response is lost.
    async fn handle(&self, request: Request<Incoming>) -> Option<Answer> {
        let began = Instant::now();
        let (head, body) = request.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        let operation = header(&head, TARGET).rsplit('.').next().unwrap_or_default();
        // On this machine, the session token of a function's credentials is its logical id.
        let caller = header(&head, "x-amz-security-token");
        let (fault, min_latency) = {
            let mut state = self.lock();
            (state.next_fault(operation, &body), state.min_latency)
        };
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let answered =
            |(status, error): (StatusCode, Value)| respond(status, AWS_JSON, error.to_string().into());
        if is_rejected_by_aws(operation, &request) {
            return Some(answered((StatusCode::BAD_REQUEST, aws_error("ValidationException"))));
        }
        let (answer, [write, read], by_key) = match fault {
            None | Some(Fault::AnswerLost) => self.execute(&head, operation, &request).await?,
            Some(fault) => (dynamodb_error(fault, &request), [0.0; 2], Vec::new()),
        };
        tokio::time::sleep(min_latency.max(LEAST_LATENCY).saturating_sub(began.elapsed())).await;
        let mut state = self.lock();
        state.calls.extend(calls::calls(caller, operation, &request));
        state.times.push((began, Instant::now()));
        let report = &mut state.report;
        let count = report.operations.entry(operation.to_owned()).or_default();
        *count = count.saturating_add(1);
        report.write_units += write;
        report.read_units += read;
        report
            .units_by_key
            .extend(by_key.into_iter().map(|key| KeyUnits { caller: caller.to_owned(), ..key }));
        drop(state);
        (fault != Some(Fault::AnswerLost)).then(|| answered(answer))
    }

    /// Executes a request, unless it is throttled, and counts its units by partition key if that is requested. `None`:
    /// DynamoDB does not respond.
    async fn execute(&self, head: &Parts, operation: &str, request: &Value) -> Option<Executed> {
        let (counts, ceiling) = {
            let state = self.lock();
            (state.counts_partitions, state.ceiling)
        };
        let dynamodb = DynamoDb { client: &self.client, url: self.upstream.get()?, head };
        if !counts && ceiling.is_none() {
            let (answer, units) = dynamodb.execute(operation, request).await?;
            return Some((answer, units, Vec::new()));
        }
        let _counting = self.counting.lock().await;
        let (writes, since) = (partitions::writes(operation, request), Instant::now());
        let names =
            |resource: &str, partition: &str| writes.iter().any(|write| write.names(resource, partition));
        if let Some(resource) = ceiling.and_then(|ceiling| self.lock().throttle.refuse(ceiling, names)) {
            return Some((throttle::response(&resource, request), [0.0; 2], Vec::new()));
        }
        let before = partitions::read(&dynamodb, &writes).await?;
        let (answer, units) = dynamodb.execute(operation, request).await?;
        let consumed: Vec<KeyUnits> = if answer.0.is_success() {
            let after = partitions::read(&dynamodb, &writes).await?;
            let changed = writes.iter().zip(before.iter().zip(&after));
            changed.flat_map(|(write, (old, new))| write.units(old.as_ref(), new.as_ref())).collect()
        } else if is_failed_condition(&answer.1) {
            writes.iter().map(RowWrite::units_of_failed_condition).collect()
        } else {
            Vec::new()
        };
        self.lock().throttle.consume(&consumed, since);
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
    async fn send(&self, operation: &str, body: Bytes) -> Option<(StatusCode, Value)> {
        let mut head = self.head.clone();
        head.headers.insert(TARGET, format!("DynamoDB_20120810.{operation}").parse().ok()?);
        let (head, body) = forward(self.client, self.url, head, body).await?.into_parts();
        Some((head.status, serde_json::from_slice(&body).ok()?))
    }

    /// Returns the response, and the write and read units that the request consumed, as DynamoDB reports them. It bills
    /// a write whose condition fails, but reports no units for it: those of rows under 1 KB are taken.
    async fn execute(&self, operation: &str, request: &Value) -> Option<((StatusCode, Value), [f64; 2])> {
        let mut counted = request.clone();
        counted["ReturnConsumedCapacity"] = "INDEXES".into();
        let answer = self.send(operation, counted.to_string().into()).await?;
        let consumed = &answer.1["ConsumedCapacity"];
        let tables = consumed.as_array().map_or(std::slice::from_ref(consumed), Vec::as_slice);
        let units = if is_failed_condition(&answer.1) {
            partitions::writes(operation, request).iter().map(|write| write.factor).sum()
        } else {
            tables.iter().filter_map(|table| table["CapacityUnits"].as_f64()).sum()
        };
        let is_read = ["GetItem", "BatchGetItem", "Query", "Scan", "TransactGetItems"].contains(&operation);
        Some(if is_read { (answer, [0.0, units]) } else { (answer, [units, 0.0]) })
    }
}

fn is_failed_condition(answer: &Value) -> bool {
    let code = answer["__type"].as_str().and_then(|code| code.rsplit('#').next());
    code.is_some_and(|code| {
        ["ConditionalCheckFailedException", "TransactionCanceledException"].contains(&code)
    })
}

/// Checks for a query with an empty text in its key condition. AWS rejects this query, but the embedded
/// DynamoDB accepts it.
fn is_rejected_by_aws(operation: &str, request: &Value) -> bool {
    let values = request["ExpressionAttributeValues"].as_object();
    operation == "Query" && values.into_iter().flatten().any(|(_, value)| *value == json!({"S": ""}))
}

/// Returns the maximum number of requests of which no two overlap, given when each began and ended. The algorithm is
/// greedy: it repeatedly counts the request that ends first among those that begin after the last counted request.
fn longest_chain(times: &[(Instant, Instant)]) -> usize {
    let mut by_end = times.to_vec();
    by_end.sort_by_key(|(_, ended)| *ended);
    let mut chain: usize = 0;
    let mut last_end: Option<Instant> = None;
    for (began, ended) in by_end {
        if last_end.is_none_or(|last_end| began >= last_end) {
            chain = chain.saturating_add(1);
            last_end = Some(ended);
        }
    }
    chain
}
