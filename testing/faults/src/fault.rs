//! The faults of calls, and the responses of services that fail.

use std::fmt;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Response, StatusCode};
use local::fronts::Upstream;
use serde_json::{Map, Value, json};

use crate::call::{Call, Service};

/// How a call fails.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
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

/// All faults.
pub const ALL: [Fault; 7] = [
    Fault::DiedBefore,
    Fault::DiedAfter,
    Fault::Throttled,
    Fault::Conflict,
    Fault::ServerError,
    Fault::AnswerLost,
    Fault::PartialBatch,
];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DiedBefore => "died-before",
            Self::DiedAfter => "died-after",
            Self::Throttled => "throttled",
            Self::Conflict => "conflict",
            Self::ServerError => "server-error",
            Self::AnswerLost => "answer-lost",
            Self::PartialBatch => "partial-batch",
        })
    }
}

impl Fault {
    /// Whether a call can fail in this way.
    pub fn can_affect(self, call: &Call) -> bool {
        let is_operation = |names: &[&str]| names.iter().any(|name| call.what.contains(&format!(" {name} ")));
        match self {
            Self::DiedBefore | Self::DiedAfter => !matches!(call.function.as_str(), crate::call::CLIENT),
            Self::Throttled | Self::ServerError | Self::AnswerLost => true,
            Self::Conflict => {
                call.what.starts_with("DynamoDB ")
                    && is_operation(&["PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"])
            }
            Self::PartialBatch => is_operation(&["BatchGetItem", "BatchWriteItem", "SendMessageBatch"]),
        }
    }

    /// Whether the repetitions of the call by the SDK fail too.
    pub fn includes_repetitions(self) -> bool {
        matches!(self, Self::Throttled | Self::ServerError)
    }
}

type Answer = Response<Full<Bytes>>;

/// Returns the response to a call that has no effect.
pub fn refusal(service: Service, fault: Fault, body: &Bytes) -> Answer {
    match (service, fault) {
        (Service::Upstream(Upstream::DynamoDb), Fault::Conflict) => conflict(body),
        (Service::Upstream(Upstream::DynamoDb | Upstream::Sqs), Fault::Throttled) => {
            aws_error(StatusCode::BAD_REQUEST, "ThrottlingException", json!({}))
        }
        (Service::Upstream(Upstream::DynamoDb | Upstream::Sqs), _) => {
            aws_error(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", json!({}))
        }
        (Service::Upstream(Upstream::S3), Fault::Throttled) => {
            s3_error(StatusCode::SERVICE_UNAVAILABLE, "SlowDown")
        }
        (Service::Upstream(Upstream::S3), _) => s3_error(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        (Service::Upstream(Upstream::Bank | Upstream::Cards) | Service::Receiver, Fault::Throttled) => {
            answer(StatusCode::TOO_MANY_REQUESTS, "application/json", "{}".to_owned())
        }
        (Service::Upstream(Upstream::Bank | Upstream::Cards) | Service::Receiver, _) => {
            answer(StatusCode::INTERNAL_SERVER_ERROR, "application/json", "{}".to_owned())
        }
    }
}

fn conflict(body: &Bytes) -> Answer {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(writes) = request.get("TransactItems").and_then(Value::as_array) else {
        return aws_error(StatusCode::BAD_REQUEST, "TransactionConflictException", json!({}));
    };
    let reason = |place: usize| match place {
        0 => json!({"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}),
        _ => json!({"Code": "None"}),
    };
    let reasons: Vec<Value> = (0..writes.len()).map(reason).collect();
    aws_error(
        StatusCode::BAD_REQUEST,
        "TransactionCanceledException",
        json!({ "CancellationReasons": reasons }),
    )
}

fn aws_error(status: StatusCode, code: &str, mut body: Value) -> Answer {
    if let Some(fields) = body.as_object_mut() {
        fields.insert("__type".to_owned(), format!("com.amazonaws.dynamodb.v20120810#{code}").into());
        fields.insert("message".to_owned(), "an injected fault".into());
    }
    answer(status, "application/x-amz-json-1.0", body.to_string())
}

fn s3_error(status: StatusCode, code: &str) -> Answer {
    let body = format!(
        "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>an injected fault</Message></Error>"
    );
    answer(status, "application/xml", body)
}

fn answer(status: StatusCode, content_type: &'static str, body: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static(content_type));
    response
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
                json!({"Id": entry.get("Id"), "Code": "InternalError", "SenderFault": false, "Message": "an injected fault"})
            });
            let unprocessed = ("Failed", failed.collect());
            return Some(Self { request, unprocessed });
        }
        let tables = request.get_mut("RequestItems")?.as_object_mut()?;
        let is_read = tables.values().any(Value::is_object);
        let mut rest = Map::new();
        for (table, items) in tables.iter_mut() {
            let mut others = items.clone();
            let (kept, left) = if is_read {
                (items.get_mut("Keys")?.as_array_mut()?, others.get_mut("Keys")?.as_array_mut()?)
            } else {
                (items.as_array_mut()?, others.as_array_mut()?)
            };
            *left = kept.split_off(kept.len().div_ceil(2));
            if !left.is_empty() {
                rest.insert(table.clone(), others);
            }
        }
        let name = if is_read { "UnprocessedKeys" } else { "UnprocessedItems" };
        Some(Self { request, unprocessed: (name, Value::Object(rest)) })
    }

    /// Adds the unprocessed half to the response to the first half.
    pub fn add_to(self, response: &Bytes) -> Option<Bytes> {
        let mut response: Value = serde_json::from_slice(response).ok()?;
        let (name, unprocessed) = self.unprocessed;
        response.as_object_mut()?.insert(name.to_owned(), unprocessed);
        Some(Bytes::from(response.to_string()))
    }
}
