//! Names for the calls of functions to other services, so that the same call is found again in another run.

use std::fmt;

use bytes::Bytes;
use hyper::http::request::Parts;
use local::fronts::Upstream;
use serde_json::Value;

/// A service that functions call.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Service {
    /// An AWS service or an acquirer.
    Upstream(Upstream),
    /// The merchant's webhook server.
    Receiver,
}

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Call {
    /// The function's logical id; `bank client` if several functions may have made the call; `client` or
    /// `operator` if none has.
    pub function: String,
    /// The service, the operation and what it is about, such as `DynamoDB PutItem charge`.
    pub what: String,
    /// Counts the calls with this function and description, from 1.
    pub number: u32,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.function, self.what, self.number)
    }
}

/// The functions that call an acquirer, of which the request does not name one.
pub const BANK_CLIENT: &str = "bank client";

/// A caller that is no function.
pub const CLIENT: &str = "client";

/// Returns the name of the function that sent a request, and a description of the request.
pub fn describe(service: Service, head: &Parts, body: &Bytes) -> (String, String) {
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    // On this machine, the session token of a function's credentials is its logical id.
    let function = match service {
        Service::Receiver => "WebhookWorkerFunction",
        Service::Upstream(Upstream::Bank | Upstream::Cards) => BANK_CLIENT,
        Service::Upstream(_) => header("x-amz-security-token").unwrap_or(CLIENT),
    };
    let operation = header("x-amz-target").and_then(|target| target.rsplit('.').next()).unwrap_or_default();
    let text = String::from_utf8_lossy(body);
    let what = match service {
        Service::Upstream(Upstream::DynamoDb) => format!("DynamoDB {operation} {}", rows(&text)),
        Service::Upstream(Upstream::Sqs) => {
            let queue = serde_json::from_slice::<Value>(body).unwrap_or_default();
            let queue = queue.get("QueueUrl").and_then(Value::as_str).unwrap_or_default();
            format!("SQS {operation} {}", queue.rsplit('/').next().unwrap_or_default())
        }
        Service::Upstream(Upstream::S3) => {
            let path = head.uri.path().trim_start_matches('/');
            format!("S3 {} {}", head.method, path.split('/').take(2).collect::<Vec<_>>().join("/"))
        }
        Service::Upstream(acquirer @ (Upstream::Bank | Upstream::Cards)) => {
            let is_word = |segment: &str| !segment.contains(|c: char| c.is_numeric());
            let is_fixed = |segment: &&str| is_word(segment) && (segment.len() < 12 || segment.contains('_'));
            let path: Vec<&str> = head
                .uri
                .path()
                .split('/')
                .map(|segment| Some(segment).filter(is_fixed).unwrap_or("*"))
                .collect();
            let name = if acquirer == Upstream::Bank { "bank" } else { "cards" };
            format!("{name} {} {}", head.method, path.join("/"))
        }
        Service::Receiver => format!("webhook {}", header("x-service-event-type").unwrap_or_default()),
    };
    (function.to_owned(), what)
}

/// Returns the kinds of rows that a request names: the beginnings of their partition keys.
fn rows(body: &str) -> String {
    let mut kinds: Vec<String> = Vec::new();
    let mut add = |kind: &str| {
        if !kinds.iter().any(|known| known == kind) {
            kinds.push(kind.to_owned());
        }
    };
    for index in body.split("\"IndexName\":\"").skip(1) {
        add(index.split('"').next().unwrap_or_default());
    }
    for (before, key) in body.split("pk\":{\"S\":\"").zip(body.split("pk\":{\"S\":\"").skip(1)) {
        // Attributes of indexes, such as `list_pk`, have other characters before `pk`.
        if before.ends_with(['"', ':']) {
            let key = key.split('"').next().unwrap_or_default();
            let kind = key.split('#').next().unwrap_or_default();
            add(if kind.len() > 30 { "api-key" } else { kind });
        }
    }
    // A request names tables in any order.
    kinds.sort();
    kinds.join("+")
}
