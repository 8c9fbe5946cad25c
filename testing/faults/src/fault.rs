//! The faults of calls, and the responses of services that fail.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use local::fronts::Upstream;
use serde_json::{Map, Value, json};
use strum::{Display, VariantArray};

use crate::call::{Call, Service};

/// How a call fails.
#[derive(Clone, Copy, Debug, Display, Eq, Ord, PartialEq, PartialOrd, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Fault {
    /// The function ends before the call has an effect.
    DiedBefore,
    /// The call has its effect, and the function ends before it receives the response.
    DiedAfter,
    /// The service refuses the call and its repetitions by the SDK, because there are too many.
    Throttled,
    /// Another transaction uses the rows.
    Conflict,
    /// The service answers 500 to the call and its repetitions by the SDK, which have no effect.
    ServerError,
    /// The call has its effect, and its response is lost.
    AnswerLost,
    /// The first half of a batch has its effect; the response reports the other half as unprocessed.
    PartialBatch,
}

impl Fault {
    /// The ways in which a call can fail.
    pub fn all_of(call: &Call) -> impl Iterator<Item = Self> {
        Self::VARIANTS.iter().copied().filter(|fault| fault.can_affect(call))
    }

    fn can_affect(self, call: &Call) -> bool {
        let is_operation = |names: &[&str]| names.iter().any(|name| call.what.contains(&format!(" {name} ")));
        match self {
            Self::DiedBefore | Self::DiedAfter => !matches!(call.function.as_str(), crate::call::CLIENT),
            Self::Throttled | Self::ServerError | Self::AnswerLost => true,
            Self::Conflict => {
                call.what.starts_with("DynamoDB ")
                    && is_operation(&["PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"])
            }
            Self::PartialBatch => is_operation(&["BatchGetItem", "SendMessageBatch"]),
        }
    }

    /// Whether the repetitions of the call by the SDK fail too.
    pub(crate) fn includes_repetitions(self) -> bool {
        matches!(self, Self::Throttled | Self::ServerError)
    }
}

pub type Answer = Response<Full<Bytes>>;

pub(crate) const AWS_JSON: &str = "application/x-amz-json-1.0";

/// Returns the response to a call that has no effect.
pub fn refusal(service: Service, fault: Fault, body: &Bytes) -> Answer {
    let (status, content_type, body) = match (service, fault) {
        (Service::Upstream(Upstream::DynamoDb | Upstream::Sqs), Fault::Throttled) => {
            // For a transaction too, so that the SDK repeats it.
            (StatusCode::BAD_REQUEST, AWS_JSON, aws_error("ThrottlingException").to_string().into())
        }
        (Service::Upstream(Upstream::DynamoDb | Upstream::Sqs), fault) => {
            let (status, error) = dynamodb_error(fault, &serde_json::from_slice(body).unwrap_or_default());
            (status, AWS_JSON, error.to_string().into())
        }
        (Service::Upstream(Upstream::S3), Fault::Throttled) => {
            (StatusCode::SERVICE_UNAVAILABLE, "application/xml", s3_error("SlowDown"))
        }
        (Service::Upstream(Upstream::S3), _) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "application/xml", s3_error("InternalError"))
        }
        (Service::Upstream(Upstream::Bank | Upstream::Cards) | Service::Receiver, fault) => {
            let is_throttled = fault == Fault::Throttled;
            let status =
                if is_throttled { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::INTERNAL_SERVER_ERROR };
            (status, "application/json", Bytes::from_static(b"{}"))
        }
    };
    respond(status, content_type, body)
}

pub(crate) fn respond(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub(crate) fn aws_error(code: &str) -> Value {
    json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "an injected fault"})
}

/// Returns the error of DynamoDB that a request causes: a conflict, a throttle, or another fault of the server.
pub(crate) fn dynamodb_error(fault: Fault, request: &Value) -> (StatusCode, Value) {
    let items = request.get("TransactItems").and_then(Value::as_array).map(Vec::len);
    let (code, reason) = match (fault, items) {
        (Fault::Conflict, Some(_)) => ("TransactionCanceledException", "TransactionConflict"),
        (Fault::Throttled, Some(_)) => ("TransactionCanceledException", "ThrottlingError"),
        (Fault::Conflict, None) => ("TransactionConflictException", ""),
        (Fault::Throttled, None) => ("ProvisionedThroughputExceededException", ""),
        _ => return (StatusCode::INTERNAL_SERVER_ERROR, aws_error("InternalServerError")),
    };
    let mut error = aws_error(code);
    if let Some(items) = items {
        // The first item of the transaction is the cause.
        let codes = std::iter::once(reason).chain(std::iter::repeat("None")).take(items);
        error["CancellationReasons"] = codes.map(|code| json!({"Code": code})).collect();
    }
    (StatusCode::BAD_REQUEST, error)
}

fn s3_error(code: &str) -> Bytes {
    format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>an injected fault</Message></Error>")
        .into()
}

/// A batch of which one half is not processed.
pub struct HalfBatch {
    /// The request with the first half.
    pub request: Value,
    /// The field of the response that names the unprocessed half, and its value.
    unprocessed: (&'static str, Value),
}

impl HalfBatch {
    /// Splits a batch. `None`: the request is no batch that can be split.
    pub fn of(body: &Bytes) -> Option<Self> {
        let mut request: Value = serde_json::from_slice(body).ok()?;
        if let Some(entries) = request.get_mut("Entries").and_then(Value::as_array_mut) {
            let rest = entries.split_off(entries.len().div_ceil(2));
            let failed = rest.iter().map(|entry| {
                json!({"Id": entry["Id"], "Code": "InternalError", "SenderFault": false, "Message": "an injected fault"})
            });
            let unprocessed = ("Failed", failed.collect());
            return Some(Self { request, unprocessed });
        }
        let mut rest = Map::new();
        for (table, keys) in request.get_mut("RequestItems")?.as_object_mut()? {
            let (mut others, kept) = (keys.clone(), keys["Keys"].as_array_mut()?);
            others["Keys"] = kept.split_off(kept.len().div_ceil(2)).into();
            if others["Keys"] != json!([]) {
                rest.insert(table.clone(), others);
            }
        }
        Some(Self { request, unprocessed: ("UnprocessedKeys", Value::Object(rest)) })
    }

    /// Adds the unprocessed half to the response to the first half.
    pub fn add_to(self, response: &Bytes) -> Option<Bytes> {
        let mut response: Value = serde_json::from_slice(response).ok()?;
        let (name, unprocessed) = self.unprocessed;
        response.as_object_mut()?.insert(name.to_owned(), unprocessed);
        Some(Bytes::from(response.to_string()))
    }
}
