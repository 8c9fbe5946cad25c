//! The faults that the proxy injects: which requests they affect, and the error responses that they cause.

use std::collections::VecDeque;

use hyper::StatusCode;
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::error_type;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    TransactionConflict,
    Throttled,
    InternalError,
    /// DynamoDB executes the request, but the proxy closes the connection without a response.
    ResponseLost,
}

impl Fault {
    /// The proxy does not call this for [`Self::ResponseLost`], because it sends no response then.
    pub(super) fn response(self, operation: &str, body: &Bytes) -> (StatusCode, Bytes) {
        let is_transaction = operation == "TransactWriteItems";
        let (status, code, reason) = match self {
            Self::TransactionConflict if is_transaction => {
                (StatusCode::BAD_REQUEST, "TransactionCanceledException", Some("TransactionConflict"))
            }
            Self::Throttled if is_transaction => {
                (StatusCode::BAD_REQUEST, "TransactionCanceledException", Some("ThrottlingError"))
            }
            Self::TransactionConflict => (StatusCode::BAD_REQUEST, "TransactionConflictException", None),
            Self::Throttled => (StatusCode::BAD_REQUEST, "ProvisionedThroughputExceededException", None),
            Self::InternalError | Self::ResponseLost => {
                (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", None)
            }
        };
        let mut error = json!({"__type": error_type(code), "message": "injected", "Message": "injected"});
        let reasons = reason.map(|reason| cancellation_reasons(reason, body)).unwrap_or_default();
        if let (false, Some(fields)) = (reasons.is_empty(), error.as_object_mut()) {
            fields.insert("CancellationReasons".to_owned(), reasons.into());
        }
        (status, error.to_string().into())
    }
}

/// Returns a cancellation reason for each item of the transaction.
fn cancellation_reasons(code: &str, body: &Bytes) -> Vec<Value> {
    let request = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let items = request.get("TransactItems").and_then(Value::as_array).map_or(0, Vec::len);
    (0..items)
        .map(|index| json!({"Code": if index == 0 { code } else { "None" }, "Message": "injected"}))
        .collect()
}

/// The injected faults: those that have not affected a request yet, and the periodic one.
#[derive(Debug, Default)]
pub(super) struct Faults {
    queue: VecDeque<(String, Fault)>,
    periodic: Option<PeriodicFault>,
    matching: Option<(String, Fault)>,
}

#[derive(Debug)]
struct PeriodicFault {
    operation: String,
    period: usize,
    fault: Fault,
    requests: usize,
}

impl Faults {
    pub(super) fn push(&mut self, operation: &str, fault: Fault) {
        self.queue.push_back((operation.to_owned(), fault));
    }

    pub(super) fn set_periodic(&mut self, operation: &str, period: usize, fault: Fault) {
        let operation = operation.to_owned();
        self.periodic = Some(PeriodicFault { operation, period, fault, requests: 0 });
    }

    pub(super) fn set_matching(&mut self, text: &str, fault: Fault) {
        self.matching = Some((text.to_owned(), fault));
    }

    /// The periodic fault does not count.
    pub(super) fn queued_faults(&self) -> usize {
        self.queue.len()
    }

    /// A queued fault takes precedence over the others, and is removed from the queue.
    pub(super) fn next_for(&mut self, operation: &str, body: &[u8]) -> Option<Fault> {
        let index = self.queue.iter().position(|(queued, _)| *queued == operation);
        let queued = index.and_then(|index| self.queue.remove(index)).map(|(_, fault)| fault);
        let periodic = self.periodic.as_mut().filter(|periodic| periodic.operation == operation);
        let periodic = periodic.and_then(|periodic| {
            periodic.requests = periodic.requests.saturating_add(1);
            periodic.requests.is_multiple_of(periodic.period).then_some(periodic.fault)
        });
        let contains = |text: &str| String::from_utf8_lossy(body).contains(text);
        let matching = self.matching.as_ref().filter(|(text, _)| contains(text));
        queued.or(periodic).or(matching.map(|(_, fault)| *fault))
    }
}
