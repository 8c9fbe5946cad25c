//! The proxy's report about the requests that passed through it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use hyper::body::Bytes;
use serde_json::Value;

use super::capacity::Units;

/// Totals of the requests since the last reset.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Number of requests by operation, such as `PutItem` or `TransactWriteItems`.
    pub operations: BTreeMap<String, usize>,
    /// The IAM actions that the caller needs, each with its table or index, such as `PutItem StateTable` or
    /// `Query StateTable/index/due`. A transaction needs the actions of its items.
    pub actions: BTreeSet<String>,
    /// The maximum number of requests of which no two overlapped in time.
    pub sequential_requests: usize,
    /// Write capacity units of tables and indexes. A transaction costs twice the units of a single write.
    pub write_units: f64,
    /// Read capacity units.
    pub read_units: f64,
}

impl Report {
    /// Returns the number of requests of all operations.
    pub fn requests(&self) -> usize {
        self.operations.values().sum()
    }

    pub(super) fn from_requests(requests: &[RequestRecord]) -> Self {
        let mut report = Self { sequential_requests: longest_chain(requests), ..Self::default() };
        for request in requests {
            let count = report.operations.entry(request.operation.clone()).or_default();
            *count = count.saturating_add(1);
            report.actions.extend(request.actions.iter().cloned());
            report.write_units += request.units.write;
            report.read_units += request.units.read;
        }
        report
    }
}

/// One request that passed through the proxy.
#[derive(Debug)]
pub(super) struct RequestRecord {
    pub(super) operation: String,
    pub(super) actions: Vec<String>,
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) units: Units,
}

/// Returns the maximum number of requests of which no two overlap. The algorithm is greedy: it repeatedly
/// counts the request that ends first among those that begin after the last counted request.
pub(super) fn longest_chain(requests: &[RequestRecord]) -> usize {
    let mut by_end: Vec<&RequestRecord> = requests.iter().collect();
    by_end.sort_by_key(|request| request.ended);
    let mut chain: usize = 0;
    let mut last_end: Option<Instant> = None;
    for request in by_end {
        if last_end.is_none_or(|last_end| request.began >= last_end) {
            chain = chain.saturating_add(1);
            last_end = Some(request.ended);
        }
    }
    chain
}

/// Returns the IAM actions of a request, in the form of [`Report::actions`].
pub(super) fn iam_actions(operation: &str, body: &Bytes) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let action_on = |action: &str, request: &Value| {
        let name = |field: &str| request.get(field).and_then(Value::as_str).unwrap_or_default();
        let (table, index) = (name("TableName"), name("IndexName"));
        let index = if index.is_empty() { String::new() } else { format!("/index/{index}") };
        format!("{action} {table}{index}")
    };
    if operation == "TransactWriteItems" {
        let items = body.get("TransactItems").and_then(Value::as_array).into_iter().flatten();
        let writes = items.filter_map(Value::as_object).flatten();
        return writes.map(|(kind, write)| action_on(&format!("{kind}Item"), write)).collect();
    }
    match body.get("RequestItems").and_then(Value::as_object) {
        Some(tables) => tables.keys().map(|table| format!("{operation} {table}")).collect(),
        None => vec![action_on(operation, &body)],
    }
}
