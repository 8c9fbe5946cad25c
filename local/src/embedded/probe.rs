//! A front for a DynamoDB that counts what passes, and makes fail what it is told to: for benchmarks and tests.
//!
//! It asks for consumed capacity in every request, so that costs are what DynamoDB itself reports. A write whose
//! condition fails costs as well, and no answer says how much: for rows under 1 KB it is a unit for a single write and
//! two for each item of a transaction, which is what is counted. Emulators never raise a conflict, run short or lose an
//! answer; those are injected here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::http::{self, Server};
use crate::wire::http_client;

/// Something that goes wrong with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Another transaction holds a row; nothing is written.
    TransactionConflict,
    /// No capacity now; nothing is written.
    Throttled,
    /// An internal error; nothing is written.
    InternalError,
    /// The request is carried out, and its answer never arrives.
    AnswerLost,
}

/// What passed since the last reset.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Requests by operation: `PutItem`, `TransactWriteItems`.
    pub operations: BTreeMap<String, usize>,
    /// What whoever sent them must be allowed: the operations, and for a transaction those of its parts.
    pub actions: BTreeSet<String>,
    /// Requests that had to wait for one another: the most that did not overlap in time.
    pub one_after_another: usize,
    /// Write units, indexes and transactions counted as DynamoDB does.
    pub write_units: f64,
    /// Read units.
    pub read_units: f64,
}

impl Report {
    /// All requests.
    pub fn requests(&self) -> usize {
        self.operations.values().sum()
    }
}

#[derive(Debug, Default)]
struct Log {
    passed: Vec<Passed>,
    faults: VecDeque<(String, Fault)>,
    /// An operation, every how many requests of it fail, how, and how many passed.
    regular: Option<(String, usize, Fault, usize)>,
    latency: Duration,
}

impl Log {
    fn next_fault(&mut self, operation: &str) -> Option<Fault> {
        let found = self.faults.iter().position(|(wanted, _)| *wanted == operation);
        let once = found.and_then(|place| self.faults.remove(place)).map(|(_, fault)| fault);
        let regular = self.regular.as_mut().filter(|(wanted, ..)| *wanted == operation);
        let regular = regular.and_then(|(_, every, fault, passed)| {
            *passed = passed.saturating_add(1);
            passed.is_multiple_of(*every).then_some(*fault)
        });
        once.or(regular)
    }
}

#[derive(Debug)]
struct Passed {
    operation: String,
    actions: Vec<String>,
    began: Instant,
    ended: Instant,
    write_units: f64,
    read_units: f64,
}

/// A running front.
#[derive(Debug)]
pub struct Probe {
    server: Server,
    log: Arc<Mutex<Log>>,
}

impl Probe {
    /// Starts one in front of the DynamoDB at `url`.
    pub async fn start(url: &str) -> Result<Self> {
        let io = |e: std::io::Error| Error::because("starting the probe", &e);
        let upstream: Uri = url.parse().map_err(|e| Error::because("the probe's upstream", &e))?;
        let log = Arc::new(Mutex::new(Log::default()));
        let shared = Arc::clone(&log);
        let client = http_client();
        let make = move |_| {
            let (shared, client, upstream) = (Arc::clone(&shared), client.clone(), upstream.clone());
            hyper::service::service_fn(move |request| {
                let (shared, client, upstream) = (Arc::clone(&shared), client.clone(), upstream.clone());
                async move { pass(request, &shared, &client, &upstream).await }
            })
        };
        let server = Server::start(http::loopback().await.map_err(io)?, make).map_err(io)?;
        Ok(Self { server, log })
    }

    /// Its base URL.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Makes the next request of an operation fail; later calls add to the queue.
    pub fn inject(&self, operation: &str, fault: Fault) {
        self.lock().faults.push_back((operation.to_owned(), fault));
    }

    /// Makes every so many requests of an operation fail, until the next reset.
    pub fn inject_every(&self, operation: &str, every: usize, fault: Fault) {
        self.lock().regular = Some((operation.to_owned(), every, fault, 0));
    }

    /// Faults that met no request yet.
    pub fn faults_left(&self) -> usize {
        self.lock().faults.len()
    }

    /// Makes every request take at least that long, so that requests sent side by side are seen to overlap: an
    /// embedded DynamoDB may answer one before the other has arrived.
    pub fn slow_down(&self, latency: Duration) {
        self.lock().latency = latency;
    }

    /// Forgets what passed, and faults that are left.
    pub fn reset(&self) {
        let mut log = self.lock();
        log.passed.clear();
        log.faults.clear();
        log.regular = None;
    }

    /// What passed since the last reset.
    pub fn report(&self) -> Report {
        let log = self.lock();
        let mut report = Report { one_after_another: longest_chain(&log.passed), ..Report::default() };
        for passed in &log.passed {
            let count = report.operations.entry(passed.operation.clone()).or_default();
            *count = count.saturating_add(1);
            report.actions.extend(passed.actions.iter().cloned());
            report.write_units += passed.write_units;
            report.read_units += passed.read_units;
        }
        report
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The most requests that did not overlap: by taking, again and again, the one that ends first of those that begin
/// after the last one taken.
fn longest_chain(passed: &[Passed]) -> usize {
    let mut by_end: Vec<&Passed> = passed.iter().collect();
    by_end.sort_by_key(|passed| passed.ended);
    let mut chain: usize = 0;
    let mut last: Option<Instant> = None;
    for passed in by_end {
        if last.is_none_or(|last| passed.began >= last) {
            chain = chain.saturating_add(1);
            last = Some(passed.ended);
        }
    }
    chain
}

type Client =
    hyper_util::client::legacy::Client<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>;

/// An answer that was lost breaks off the connection.
#[derive(Debug)]
struct Lost;

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the answer was lost on purpose")
    }
}

impl std::error::Error for Lost {}

impl From<Infallible> for Lost {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

async fn pass(
    request: Request<Incoming>,
    log: &Mutex<Log>,
    client: &Client,
    upstream: &Uri,
) -> std::result::Result<Response<Full<Bytes>>, Lost> {
    let began = Instant::now();
    let (mut head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
    let target = head.headers.get("x-amz-target").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
    let (fault, latency) = {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        (log.next_fault(&operation), log.latency)
    };
    if is_refused_by_aws(&operation, &body) {
        return Ok(error("ValidationException", "a key condition must not contain an empty text"));
    }
    let (answer, write_units, read_units) = match fault {
        Some(fault @ (Fault::TransactionConflict | Fault::Throttled | Fault::InternalError)) => {
            (Some(refusal(fault, &operation, &body)), 0.0, 0.0)
        }
        Some(Fault::AnswerLost) | None => {
            head.uri = upstream.clone();
            head.headers.remove(HOST);
            head.headers.remove(CONTENT_LENGTH);
            let request = Request::from_parts(head, Full::new(asking_for_capacity(&body)));
            let answer = client.request(request).await.map_err(|_| Lost)?;
            let (head, answer) = answer.into_parts();
            let answer = answer.collect().await.map_err(|_| Lost)?.to_bytes();
            let (write_units, read_units) = if head.status.is_success() {
                consumed(&operation, &answer)
            } else {
                (refused_units(&body, &answer), 0.0)
            };
            let answer = Response::from_parts(head, Full::new(answer));
            (fault.is_none().then_some(answer), write_units, read_units)
        }
    };
    let left = latency.saturating_sub(began.elapsed());
    // Sleeping for nothing still takes up to a millisecond.
    if !left.is_zero() {
        tokio::time::sleep(left).await;
    }
    let actions = actions(&operation, &body);
    let passed = Passed { operation, actions, began, ended: Instant::now(), write_units, read_units };
    log.lock().unwrap_or_else(PoisonError::into_inner).passed.push(passed);
    answer.ok_or(Lost)
}

/// The IAM actions of a request, each with the table or index that it is for: `PutItem StateTable`, `Query
/// StateTable/index/due`. A transaction has none of its own.
fn actions(operation: &str, body: &Bytes) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let on = |action: &str, request: &Value| {
        let name = |field: &str| request.get(field).and_then(Value::as_str).unwrap_or_default();
        let (table, index) = (name("TableName"), name("IndexName"));
        let index = if index.is_empty() { String::new() } else { format!("/index/{index}") };
        format!("{action} {table}{index}")
    };
    if operation == "TransactWriteItems" {
        let items = body.get("TransactItems").and_then(Value::as_array).into_iter().flatten();
        let writes = items.filter_map(Value::as_object).flatten();
        return writes.map(|(kind, write)| on(&format!("{kind}Item"), write)).collect();
    }
    match body.get("RequestItems").and_then(Value::as_object) {
        Some(tables) => tables.keys().map(|table| format!("{operation} {table}")).collect(),
        None => vec![on(operation, &body)],
    }
}

/// What AWS refuses and the emulator takes: an empty text in a query's key condition.
fn is_refused_by_aws(operation: &str, body: &Bytes) -> bool {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let values = body.get("ExpressionAttributeValues").and_then(Value::as_object);
    operation == "Query" && values.into_iter().flatten().any(|(_, value)| *value == json!({"S": ""}))
}

fn error(code: &str, message: &str) -> Response<Full<Bytes>> {
    let body = json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": message});
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    response
}

fn asking_for_capacity(body: &Bytes) -> Bytes {
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(mut fields)) => {
            fields.insert("ReturnConsumedCapacity".to_owned(), "INDEXES".into());
            Bytes::from(Value::Object(fields).to_string())
        }
        _ => body.clone(),
    }
}

/// Write and read units of an answer. A single table's capacity is an object, several tables' a list.
fn consumed(operation: &str, body: &Bytes) -> (f64, f64) {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let units = match body.get("ConsumedCapacity") {
        Some(Value::Array(tables)) => {
            tables.iter().filter_map(|table| table.get("CapacityUnits")?.as_f64()).sum()
        }
        Some(table) => table.get("CapacityUnits").and_then(Value::as_f64).unwrap_or_default(),
        None => 0.0,
    };
    match operation {
        "GetItem" | "BatchGetItem" | "Query" | "Scan" | "TransactGetItems" => (0.0, units),
        _ => (units, 0.0),
    }
}

/// Write units of a write that a condition refused; other refusals cost nothing.
fn refused_units(request: &Bytes, answer: &Bytes) -> f64 {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let code = answer.get("__type").and_then(Value::as_str).unwrap_or_default();
    if code.ends_with("#ConditionalCheckFailedException") {
        return 1.0;
    }
    if !code.ends_with("#TransactionCanceledException") {
        return 0.0;
    }
    let request: Value = serde_json::from_slice(request).unwrap_or_default();
    let items = request.get("TransactItems").and_then(Value::as_array);
    items.into_iter().flatten().map(|_| 2.0).sum()
}

fn refusal(fault: Fault, operation: &str, body: &Bytes) -> Response<Full<Bytes>> {
    let items = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let items = items.get("TransactItems").and_then(Value::as_array).map_or(0, Vec::len);
    let is_transaction = operation == "TransactWriteItems";
    let reasons = |code: &str| -> Vec<Value> {
        (0..items)
            .map(|place| json!({"Code": if place == 0 { code } else { "None" }, "Message": "injected"}))
            .collect()
    };
    let (status, code, reasons) = match fault {
        Fault::TransactionConflict if is_transaction => {
            (StatusCode::BAD_REQUEST, "TransactionCanceledException", reasons("TransactionConflict"))
        }
        Fault::Throttled if is_transaction => {
            (StatusCode::BAD_REQUEST, "TransactionCanceledException", reasons("ThrottlingError"))
        }
        Fault::TransactionConflict => (StatusCode::BAD_REQUEST, "TransactionConflictException", Vec::new()),
        Fault::Throttled => (StatusCode::BAD_REQUEST, "ProvisionedThroughputExceededException", Vec::new()),
        Fault::InternalError | Fault::AnswerLost => {
            (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", Vec::new())
        }
    };
    let mut answer = json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "injected", "Message": "injected"});
    if let (false, Some(fields)) = (reasons.is_empty(), answer.as_object_mut()) {
        fields.insert("CancellationReasons".to_owned(), reasons.into());
    }
    let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    response
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;
    use shared::clock::Clock;

    use crate::embedded::{Embedded, State};
    use crate::provision::provision;
    use crate::sdk;
    use crate::template::Template;

    async fn probed() -> (Embedded, Probe, aws_sdk_dynamodb::Client) {
        let embedded = Embedded::start(&State::InMemory, &Clock::default()).await.unwrap();
        provision(&Template::deployed().unwrap(), &embedded.endpoints()).await.unwrap();
        let probe = Probe::start(&embedded.endpoints().dynamodb_url).await.unwrap();
        let client = sdk::dynamodb(&probe.url());
        (embedded, probe, client)
    }

    fn put(
        client: &aws_sdk_dynamodb::Client,
        pk: &str,
    ) -> aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        client
            .put_item()
            .table_name("StateTable")
            .item("pk", text(pk))
            .item("sk", text("x"))
            .item("list_pk", text("l"))
            .item("list_sk", text(pk))
    }

    #[tokio::test]
    async fn it_counts_requests_and_what_they_cost() {
        let (_embedded, probe, client) = probed().await;
        put(&client, "a").send().await.unwrap();
        put(&client, "b").send().await.unwrap();
        let key = |pk: &str| AttributeValue::S(pk.to_owned());
        client
            .get_item()
            .table_name("StateTable")
            .key("pk", key("a"))
            .key("sk", key("x"))
            .send()
            .await
            .unwrap();
        let report = probe.report();
        assert_eq!(report.operations, BTreeMap::from([("GetItem".to_owned(), 1), ("PutItem".to_owned(), 2)]));
        assert_eq!((report.requests(), report.one_after_another), (3, 3));
        // A put into the table and one index: two units each. Half a unit for an eventually consistent read.
        assert!((report.write_units - 4.0).abs() < f64::EPSILON, "{report:?}");
        assert!((report.read_units - 0.5).abs() < f64::EPSILON, "{report:?}");
        probe.reset();
        assert_eq!(probe.report(), Report::default());
    }

    #[tokio::test]
    async fn a_write_that_its_condition_refuses_costs_too() {
        let (_embedded, probe, client) = probed().await;
        put(&client, "a").send().await.unwrap();
        probe.reset();
        let again = put(&client, "a").condition_expression("attribute_not_exists(pk)");
        again.send().await.unwrap_err();
        assert!((probe.report().write_units - 1.0).abs() < f64::EPSILON);
        probe.reset();
        let again = aws_sdk_dynamodb::types::Put::builder()
            .table_name("StateTable")
            .set_item(put(&client, "a").get_item().clone())
            .condition_expression("attribute_not_exists(pk)")
            .build()
            .unwrap();
        let again = aws_sdk_dynamodb::types::TransactWriteItem::builder().put(again).build();
        client.transact_write_items().transact_items(again).send().await.unwrap_err();
        assert!((probe.report().write_units - 2.0).abs() < f64::EPSILON);
    }

    #[tokio::test]
    async fn requests_sent_side_by_side_are_seen_so_when_they_are_slow_enough() {
        let (_embedded, probe, client) = probed().await;
        probe.slow_down(Duration::from_millis(200));
        let (a, b) = tokio::join!(put(&client, "a").send(), put(&client, "b").send());
        assert!(a.is_ok() && b.is_ok());
        let report = probe.report();
        assert_eq!((report.requests(), report.one_after_another), (2, 1));
    }

    /// What AWS bills for each kind of write, and what budgets rely on.
    #[tokio::test]
    async fn capacity_is_counted_as_aws_counts_it() {
        let (_embedded, probe, client) = probed().await;
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let cost = |report: Report| (report.write_units, report.read_units);
        let update = |client: &aws_sdk_dynamodb::Client, set: &str, value: &str| {
            let update =
                client.update_item().table_name("StateTable").key("pk", text("a")).key("sk", text("x"));
            update.update_expression(format!("SET {set} = :v")).expression_attribute_values(":v", text(value))
        };
        put(&client, "a").send().await.unwrap();
        probe.reset();

        update(&client, "note", "1").send().await.unwrap();
        assert_eq!(
            cost(probe.report()),
            (1.0, 0.0),
            "an update that moves no index key costs the table only"
        );
        probe.reset();

        update(&client, "list_sk", "b").send().await.unwrap();
        assert_eq!(cost(probe.report()), (3.0, 0.0), "a moved index key is a delete and a put there");
        probe.reset();

        let large = put(&client, "l").item("note", text(&"x".repeat(1500)));
        large.send().await.unwrap();
        assert_eq!(cost(probe.report()), (3.0, 0.0), "two for 1.5 KB, one for its keys in the index");
        probe.reset();

        let write = aws_sdk_dynamodb::types::Put::builder()
            .table_name("StateTable")
            .set_item(put(&client, "t").get_item().clone())
            .build()
            .unwrap();
        let write = aws_sdk_dynamodb::types::TransactWriteItem::builder().put(write).build();
        client.transact_write_items().transact_items(write).send().await.unwrap();
        assert_eq!(
            cost(probe.report()),
            (3.0, 0.0),
            "a transaction costs twice in the table, once in the index"
        );
        probe.reset();

        let page = client
            .query()
            .table_name("StateTable")
            .index_name("list")
            .key_condition_expression("list_pk = :l");
        page.expression_attribute_values(":l", text("l")).send().await.unwrap();
        assert_eq!(cost(probe.report()), (0.0, 0.5), "a page of keys");
    }

    #[test]
    fn requests_side_by_side_count_once_in_a_chain() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let passed = |began, ended| Passed {
            actions: Vec::new(),
            operation: String::new(),
            began: at(began),
            ended: at(ended),
            write_units: 0.0,
            read_units: 0.0,
        };
        assert_eq!(longest_chain(&[passed(0, 10), passed(1, 9), passed(10, 20)]), 2);
        assert_eq!(longest_chain(&[passed(0, 10), passed(0, 5), passed(5, 8), passed(8, 12)]), 3);
        assert_eq!(longest_chain(&[]), 0);
    }

    #[tokio::test]
    async fn an_injected_fault_meets_one_request_of_its_operation() {
        let (_embedded, probe, client) = probed().await;
        // The client tries again by itself.
        for fault in [Fault::Throttled, Fault::InternalError, Fault::AnswerLost] {
            probe.inject("PutItem", fault);
            put(&client, "a").send().await.unwrap();
            assert_eq!(probe.faults_left(), 0, "{fault:?}");
        }
        probe.inject("PutItem", Fault::AnswerLost);
        let applied = put(&client, "c").condition_expression("attribute_not_exists(pk)").send().await;
        assert!(applied.unwrap_err().as_service_error().unwrap().is_conditional_check_failed_exception());

        let write = aws_sdk_dynamodb::types::Put::builder()
            .table_name("StateTable")
            .set_item(put(&client, "d").get_item().clone())
            .build()
            .unwrap();
        let write = aws_sdk_dynamodb::types::TransactWriteItem::builder().put(write).build();
        probe.inject("TransactWriteItems", Fault::TransactionConflict);
        let cancelled = client.transact_write_items().transact_items(write).send().await.unwrap_err();
        let aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(cancelled) =
            cancelled.into_service_error()
        else {
            panic!("not cancelled")
        };
        assert_eq!(cancelled.cancellation_reasons()[0].code(), Some("TransactionConflict"));
    }
}
