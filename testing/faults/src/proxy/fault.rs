//! The faults that the proxy injects: which requests they affect, and the error responses that they cause.

use std::collections::VecDeque;

use bytes::Bytes;
use hyper::StatusCode;
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
    /// The error response to a request. That of [`Self::ResponseLost`] is not sent.
    pub fn response(self, request: &Value) -> (StatusCode, Bytes) {
        let items = request.get("TransactItems").and_then(Value::as_array).map(Vec::len);
        let (code, reason) = match self {
            Self::TransactionConflict if items.is_some() => {
                ("TransactionCanceledException", Some("TransactionConflict"))
            }
            Self::Throttled if items.is_some() => ("TransactionCanceledException", Some("ThrottlingError")),
            Self::TransactionConflict => ("TransactionConflictException", None),
            Self::Throttled => ("ProvisionedThroughputExceededException", None),
            Self::InternalError | Self::ResponseLost => ("InternalServerError", None),
        };
        let status = match self {
            Self::TransactionConflict | Self::Throttled => StatusCode::BAD_REQUEST,
            Self::InternalError | Self::ResponseLost => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut error = json!({"__type": error_type(code), "message": "injected", "Message": "injected"});
        if let (Some(reason), Some(fields)) = (reason, error.as_object_mut()) {
            // The first item of the transaction is the cause.
            let codes = std::iter::once(reason).chain(std::iter::repeat("None"));
            let reasons = codes.take(items.unwrap_or_default());
            let reasons = reasons.map(|code| json!({"Code": code, "Message": "injected"})).collect();
            fields.insert("CancellationReasons".to_owned(), reasons);
        }
        (status, error.to_string().into())
    }
}

/// The injected faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Each affects one request of its operation.
    pub(super) queue: VecDeque<(String, Fault)>,
    pub(super) lasting: Option<LastingFault>,
}

/// Affects requests until the next reset.
#[derive(Debug)]
pub(super) struct LastingFault {
    /// `None`: all operations.
    pub(super) operation: Option<String>,
    /// The body contains this text. Empty: any body.
    pub(super) text: String,
    /// One in so many of these requests fails.
    pub(super) period: usize,
    /// How many of these requests there were.
    pub(super) requests: usize,
    pub(super) fault: Fault,
}

impl Faults {
    /// A queued fault takes precedence over the other, and is removed from the queue.
    pub(super) fn next_for(&mut self, operation: &str, body: &[u8]) -> Option<Fault> {
        let index = self.queue.iter().position(|(queued, _)| *queued == operation);
        let queued = index.and_then(|index| self.queue.remove(index)).map(|(_, fault)| fault);
        let lasting = self.lasting.as_mut().filter(|lasting| {
            lasting.operation.as_deref().is_none_or(|affected| affected == operation)
                && String::from_utf8_lossy(body).contains(&lasting.text)
        });
        let lasting = lasting.and_then(|lasting| {
            lasting.requests = lasting.requests.saturating_add(1);
            lasting.requests.is_multiple_of(lasting.period).then_some(lasting.fault)
        });
        queued.or(lasting)
    }
}
