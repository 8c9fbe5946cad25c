//! Names for the calls of functions to other services, so that the same call is found again in another run.

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use hyper::http::request::Parts;
use local::fronts::Upstream;
use serde_json::Value;

use crate::proxy::calls::calls;

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

/// Returns a header of a request, or an empty text.
pub(crate) fn header<'a>(head: &'a Parts, name: &str) -> &'a str {
    head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns the name of the function that sent a request, and a description of the request.
pub fn describe(service: Service, head: &Parts, body: &Bytes) -> (String, String) {
    // On this machine, the session token of a function's credentials is its logical id.
    let function = match (service, header(head, "x-amz-security-token")) {
        (Service::Receiver, _) => "WebhookWorkerFunction",
        (Service::Upstream(Upstream::Bank | Upstream::Cards), _) => BANK_CLIENT,
        (Service::Upstream(_), "") => CLIENT,
        (Service::Upstream(_), function) => function,
    };
    let operation = header(head, "x-amz-target").rsplit('.').next().unwrap_or_default();
    let request = || serde_json::from_slice::<Value>(body).unwrap_or_default();
    let what = match service {
        Service::Upstream(Upstream::DynamoDb) => {
            format!("DynamoDB {operation} {}", rows(operation, &request()))
        }
        Service::Upstream(Upstream::Sqs) => {
            let request = request();
            let queue = request["QueueUrl"].as_str().unwrap_or_default();
            format!("SQS {operation} {}", queue.rsplit('/').next().unwrap_or_default())
        }
        Service::Upstream(Upstream::S3) => {
            let path = head.uri.path().trim_start_matches('/');
            format!("S3 {} {}", head.method, path.split('/').take(2).collect::<Vec<_>>().join("/"))
        }
        Service::Upstream(acquirer @ (Upstream::Bank | Upstream::Cards)) => {
            let is_word = |segment: &str| !segment.contains(|c: char| c.is_numeric());
            let is_fixed = |segment: &&str| is_word(segment) && (segment.len() < 12 || segment.contains('_'));
            let path =
                head.uri.path().split('/').map(|segment| Some(segment).filter(is_fixed).unwrap_or("*"));
            let name = if acquirer == Upstream::Bank { "bank" } else { "cards" };
            format!("{name} {} {}", head.method, path.collect::<Vec<_>>().join("/"))
        }
        Service::Receiver => format!("webhook {}", header(head, "x-service-event-type")),
    };
    (function.to_owned(), what)
}

/// Returns the indexes that a request names, and the kinds of its rows: the beginnings of their partition keys.
fn rows(operation: &str, request: &Value) -> String {
    let calls = calls("", operation, request);
    let indexes = calls.iter().filter_map(|call| Some(call.resource.split_once("/index/")?.1));
    let kinds = calls.iter().flat_map(|call| &call.leading_keys).map(|key| {
        let kind = key.split('#').next().unwrap_or_default();
        if kind.len() > 30 { "api-key" } else { kind }
    });
    // A request names tables in any order.
    indexes.chain(kinds).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("+")
}
