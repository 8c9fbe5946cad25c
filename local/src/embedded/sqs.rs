//! The embedded SQS: the queues of the crate winterbaume behind a front end that rejects the requests that
//! AWS rejects.
//!
//! The front end checks limits and names, executes batches entry by entry, wakes long polls when a message is
//! sent, returns queue URLs of this server, and converts errors to the form that SDKs expect. All state is in
//! memory.
//!
//! This SQS differs from AWS in three ways:
//!
//! - It stores the group of a message, but does not prefer the messages of quiet groups. The poller in
//!   [`crate::event_sources`] does.
//! - A visibility timeout of 0 in a receive request means the visibility timeout of the queue.
//! - Message attributes are returned even if the request does not name them.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Request, Response, StatusCode};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::Instant;
use winterbaume_core::{MockRequest, MockService};
use winterbaume_sqs::SqsService;

use super::REGION;
use super::signals::LongPolls;
use crate::error::{Error, Result};
use crate::http::{self, Server};

/// The maximum size of a message, and of a whole batch: 1 MiB, AWS's limit since August 2025.
const MAX_MESSAGE_BYTES: usize = 1_048_576;
/// The maximum size of a request body. It exceeds the size of a message, because JSON escapes characters.
const MAX_REQUEST_BYTES: usize = 4 * MAX_MESSAGE_BYTES;
/// The interval at which a long poll checks for messages whose delay or visibility timeout has ended. It only
/// does so while the queue has such messages. A newly sent message wakes the poll at once.
const POLL_PERIOD: Duration = Duration::from_millis(50);

/// The attributes that a request may set on a queue. A numeric attribute has its minimum and maximum.
const QUEUE_ATTRIBUTES: [(&str, Option<(i64, i64)>); 15] = [
    ("DelaySeconds", Some((0, 900))),
    ("MaximumMessageSize", Some((1024, 1_048_576))),
    ("MessageRetentionPeriod", Some((60, 1_209_600))),
    ("ReceiveMessageWaitTimeSeconds", Some((0, 20))),
    ("VisibilityTimeout", Some((0, 43_200))),
    ("Policy", None),
    ("RedrivePolicy", None),
    ("RedriveAllowPolicy", None),
    ("KmsMasterKeyId", None),
    ("KmsDataKeyReusePeriodSeconds", None),
    ("SqsManagedSseEnabled", None),
    ("FifoQueue", None),
    ("ContentBasedDeduplication", None),
    ("DeduplicationScope", None),
    ("FifoThroughputLimit", None),
];

/// The read-only attributes of a queue.
const COMPUTED_ATTRIBUTES: [&str; 7] = [
    "All",
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
    "CreatedTimestamp",
    "LastModifiedTimestamp",
    "QueueArn",
];

/// The system attributes that a receive request may name.
const MESSAGE_ATTRIBUTES: [&str; 10] = [
    "All",
    "AWSTraceHeader",
    "ApproximateFirstReceiveTimestamp",
    "ApproximateReceiveCount",
    "DeadLetterQueueSourceArn",
    "MessageDeduplicationId",
    "MessageGroupId",
    "SenderId",
    "SentTimestamp",
    "SequenceNumber",
];

/// The maximum number of messages whose groups are stored.
const MAX_STORED_GROUPS: usize = 100_000;

/// A running embedded SQS.
#[derive(Debug)]
pub struct Sqs {
    server: Server,
    long_polls: LongPolls,
}

impl Sqs {
    /// Starts the server on this listener, without queues.
    pub fn start(listener: TcpListener) -> Result<Self> {
        let io = |e: std::io::Error| Error::because("starting SQS", &e);
        let long_polls = LongPolls::default();
        let front = Arc::new(Front {
            queues: SqsService::new(),
            changed: Notify::new(),
            long_polls: long_polls.clone(),
            groups: Mutex::default(),
            url: http::url_of(listener.local_addr().map_err(io)?),
        });
        let server = Server::start(listener, move |_| {
            let front = Arc::clone(&front);
            http::service(move |request| {
                let front = Arc::clone(&front);
                async move { front.handle(request).await }
            })
        });
        Ok(Self { server: server.map_err(io)?, long_polls })
    }

    /// Returns the base URL.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Returns the long polls of all queues.
    pub fn long_polls(&self) -> LongPolls {
        self.long_polls.clone()
    }

    /// Stops the server. All messages are lost.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}

/// The front end of winterbaume's queues.
struct Front {
    queues: SqsService,
    /// Notified by each request after which a queue can have a visible message, now or later.
    changed: Notify,
    long_polls: LongPolls,
    /// The ids of sent messages, oldest first, and the group of each message. winterbaume does not store
    /// groups.
    groups: Mutex<(VecDeque<String>, HashMap<String, String>)>,
    url: String,
}

/// An error response of SQS.
#[derive(Debug)]
struct Refusal {
    status: u16,
    /// The error type of the JSON protocol.
    shape: String,
    /// The error code of the older query protocol, which SDKs still report.
    code: String,
    message: String,
}

impl Refusal {
    fn new(shape: &str, code: &str, message: impl Into<String>) -> Self {
        Self { status: 400, shape: shape.to_owned(), code: code.to_owned(), message: message.into() }
    }

    fn batch(shape: &str, message: impl Into<String>) -> Self {
        Self::new(shape, &format!("AWS.SimpleQueueService.{shape}"), message)
    }

    fn value(message: impl Into<String>) -> Self {
        Self::new("InvalidParameterValue", "InvalidParameterValue", message)
    }

    fn out_of_range(name: &str, value: i64, (least, greatest): (i64, i64)) -> Self {
        Self::value(format!(
            "Value {value} for parameter {name} is invalid. Reason: Must be between {least} and {greatest}, if provided."
        ))
    }

    fn missing(name: &str) -> Self {
        let message = format!("The request must contain the parameter {name}.");
        Self::new("MissingParameter", "MissingParameter", message)
    }
}

type Answer = std::result::Result<Value, Refusal>;

impl Front {
    async fn handle(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let target = request.headers().get("x-amz-target").and_then(|target| target.to_str().ok());
        let operation = target.and_then(|target| target.rsplit('.').next()).unwrap_or_default().to_owned();
        let body = Limited::new(request.into_body(), MAX_REQUEST_BYTES).collect().await;
        let body =
            body.ok().and_then(|body| serde_json::from_slice::<Map<String, Value>>(&body.to_bytes()).ok());
        let answer = match body {
            Some(body) => self.execute(&operation, body).await,
            None => {
                Err(Refusal::new("SerializationException", "SerializationException", "not a JSON request"))
            }
        };
        respond(answer)
    }

    async fn execute(&self, operation: &str, body: Map<String, Value>) -> Answer {
        match operation {
            "SendMessage" => {
                check_message(&body, MAX_MESSAGE_BYTES)?;
                self.send(body).await
            }
            "ReceiveMessage" => {
                check_receive(&body)?;
                self.receive(body).await
            }
            "ChangeMessageVisibility" => {
                check_visibility(&body)?;
                self.forward(operation, body).await
            }
            "SendMessageBatch" => self.batch(&body, "SendMessage").await,
            "DeleteMessageBatch" => self.batch(&body, "DeleteMessage").await,
            "ChangeMessageVisibilityBatch" => self.batch(&body, "ChangeMessageVisibility").await,
            "CreateQueue" | "SetQueueAttributes" => {
                check_attributes(&body)?;
                self.forward(operation, body).await
            }
            "GetQueueAttributes" => {
                let known: Vec<&str> =
                    QUEUE_ATTRIBUTES.iter().map(|(name, _)| *name).chain(COMPUTED_ATTRIBUTES).collect();
                let requested = check_names(&body, "AttributeNames", &known)?;
                let mut answer = self.forward(operation, body).await?;
                let attributes = answer.get_mut("Attributes").and_then(Value::as_object_mut);
                if let Some(attributes) = attributes.filter(|_| !requested.contains("All")) {
                    attributes.retain(|name, _| requested.contains(name));
                }
                Ok(answer)
            }
            _ => self.forward(operation, body).await,
        }
    }

    /// Sends a message and stores its group.
    async fn send(&self, body: Map<String, Value>) -> Answer {
        let group = body.get("MessageGroupId").and_then(Value::as_str).map(str::to_owned);
        let answer = self.forward("SendMessage", body).await;
        let id = answer.as_ref().ok().and_then(|answer| answer.get("MessageId")).and_then(Value::as_str);
        if let (Some(id), Some(group)) = (id, group) {
            let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
            groups.0.push_back(id.to_owned());
            groups.1.insert(id.to_owned(), group);
            if groups.0.len() > MAX_STORED_GROUPS
                && let Some(oldest) = groups.0.pop_front()
            {
                groups.1.remove(&oldest);
            }
        }
        answer
    }

    /// Adds to each received message the group that it was sent with.
    fn add_groups(&self, mut answer: Value) -> Value {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        for message in answer.get_mut("Messages").and_then(Value::as_array_mut).into_iter().flatten() {
            let group = message.get("MessageId").and_then(Value::as_str).and_then(|id| groups.1.get(id));
            if let (Some(group), Some(fields)) = (group, message.as_object_mut()) {
                let attributes = fields.entry("Attributes").or_insert_with(|| json!({}));
                if let Some(attributes) = attributes.as_object_mut() {
                    attributes.insert("MessageGroupId".to_owned(), group.clone().into());
                }
            }
        }
        answer
    }

    async fn receive(&self, mut body: Map<String, Value>) -> Answer {
        let wait = body.get("WaitTimeSeconds").and_then(Value::as_u64).unwrap_or(0);
        if wait == 0 {
            return Ok(self.add_groups(self.forward("ReceiveMessage", body).await?));
        }
        body.insert("WaitTimeSeconds".to_owned(), json!(0));
        let started = Instant::now();
        loop {
            // Created before the receive, so that a change between the receive and the wait wakes this poll.
            let changed = self.changed.notified();
            let ended = self.long_polls.ended();
            let answer = self.forward("ReceiveMessage", body.clone()).await?;
            let is_empty = answer.get("Messages").and_then(Value::as_array).is_none_or(Vec::is_empty);
            let remaining = Duration::from_secs(wait).saturating_sub(started.elapsed());
            if !is_empty || remaining.is_zero() {
                return Ok(self.add_groups(answer));
            }
            let has_hidden = self.has_hidden_messages(&body).await?;
            let pause = if has_hidden { remaining.min(POLL_PERIOD) } else { remaining };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(pause) => {}
                () = ended => return Ok(answer),
            }
        }
    }

    /// Returns true if the queue of a request has messages in flight or delayed messages, which become visible
    /// without a request.
    async fn has_hidden_messages(&self, request: &Map<String, Value>) -> std::result::Result<bool, Refusal> {
        let url = request.get("QueueUrl").cloned().unwrap_or_default();
        let counts = ["ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"];
        let body =
            Map::from_iter([("QueueUrl".to_owned(), url), ("AttributeNames".to_owned(), json!(counts))]);
        let answer = self.forward("GetQueueAttributes", body).await?;
        let is_zero = |name: &str| answer.pointer(&format!("/Attributes/{name}")) == Some(&json!("0"));
        Ok(!counts.into_iter().all(is_zero))
    }

    /// Executes each entry of a batch as a single request, so that a rejected entry does not affect the
    /// others.
    async fn batch(&self, body: &Map<String, Value>, operation: &str) -> Answer {
        let entries = check_entries(body)?;
        let mut successful = Vec::new();
        let mut failed = Vec::new();
        for entry in entries {
            let mut single = entry.clone();
            let id = single.remove("Id").unwrap_or_default();
            single.insert("QueueUrl".to_owned(), body.get("QueueUrl").cloned().unwrap_or_default());
            let answer = match operation {
                "SendMessage" => match check_message(&single, MAX_MESSAGE_BYTES) {
                    Ok(()) => self.send(single).await,
                    Err(refusal) => Err(refusal),
                },
                "ChangeMessageVisibility" => match check_visibility(&single) {
                    Ok(()) => self.forward(operation, single).await,
                    Err(refusal) => Err(refusal),
                },
                _ => self.forward(operation, single).await,
            };
            match answer {
                Ok(mut answer) => {
                    if let Some(fields) = answer.as_object_mut() {
                        fields.insert("Id".to_owned(), id);
                        successful.push(answer);
                    } else {
                        successful.push(json!({ "Id": id }));
                    }
                }
                Err(refusal) if refusal.shape == "QueueDoesNotExist" => return Err(refusal),
                Err(Refusal { status, code, message, .. }) => {
                    failed.push(
                        json!({"Id": id, "SenderFault": status < 500, "Code": code, "Message": message}),
                    );
                }
            }
        }
        Ok(json!({"Successful": successful, "Failed": failed}))
    }

    /// Forwards a request to winterbaume. Wakes the long polls if the request can have made a message
    /// visible, or put one in flight, which becomes visible later.
    async fn forward(&self, operation: &str, body: Map<String, Value>) -> Answer {
        let host = format!("https://sqs.{REGION}.amazonaws.com");
        let mut headers = HeaderMap::new();
        if let Ok(target) = format!("AmazonSQS.{operation}").parse() {
            headers.insert("x-amz-target", target);
        }
        let answer = self
            .queues
            .handle(MockRequest {
                method: "POST".to_owned(),
                uri: format!("{host}/"),
                headers,
                body: Bytes::from(Value::Object(body).to_string()),
            })
            .await;
        let json: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| json!({}));
        let is_change = match operation {
            "ReceiveMessage" => json.get("Messages").is_some_and(|messages| messages != &json!([])),
            "DeleteMessage" => false,
            _ => !operation.starts_with("Get") && !operation.starts_with("List"),
        };
        if is_change {
            self.changed.notify_waiters();
        }
        if answer.status >= 400 {
            return Err(translate(answer.status, &json));
        }
        Ok(self.localize_urls(json, &host))
    }

    /// Replaces AWS's host in queue URLs with the address of this server.
    fn localize_urls(&self, mut answer: Value, host: &str) -> Value {
        let local = |value: &mut Value| {
            if let Some(path) = value.as_str().and_then(|url| url.strip_prefix(host)) {
                *value = Value::String(format!("{}{path}", self.url));
            }
        };
        if let Some(url) = answer.get_mut("QueueUrl") {
            local(url);
        }
        for name in ["QueueUrls", "queueUrls"] {
            for url in answer.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
                local(url);
            }
        }
        answer
    }
}

/// Converts an error of winterbaume to the error type and the code that AWS returns.
fn translate(status: u16, error: &Value) -> Refusal {
    let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let code = text("__type");
    let shape = match code.as_str() {
        "AWS.SimpleQueueService.NonExistentQueue" => "QueueDoesNotExist",
        "QueueAlreadyExists" => "QueueNameExists",
        other => other,
    };
    Refusal { status, shape: shape.to_owned(), code: code.clone(), message: text("message") }
}

fn respond(answer: Answer) -> Response<Full<Bytes>> {
    let (status, fault, body) = match answer {
        Ok(body) => (200, None, body),
        Err(Refusal { status, shape, code, message }) => {
            let culprit = if status < 500 { "Sender" } else { "Receiver" };
            let body = json!({"__type": format!("com.amazonaws.sqs#{shape}"), "message": message});
            (status, Some(format!("{code};{culprit}")), body)
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/x-amz-json-1.0"));
    if let Some(fault) = fault.and_then(|fault| fault.parse().ok()) {
        headers.insert("x-amzn-query-error", fault);
    }
    response
}

fn check_range(body: &Map<String, Value>, name: &str, range: (i64, i64)) -> std::result::Result<(), Refusal> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(()),
        Some(value) => match value.as_i64() {
            Some(number) if (range.0..=range.1).contains(&number) => Ok(()),
            Some(number) => Err(Refusal::out_of_range(name, number, range)),
            None => Err(Refusal::value(format!("Value {value} for parameter {name} is invalid."))),
        },
    }
}

fn check_message(body: &Map<String, Value>, limit: usize) -> std::result::Result<(), Refusal> {
    let text = body.get("MessageBody").and_then(Value::as_str).filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Refusal::missing("MessageBody"))?;
    if message_bytes(body) > limit {
        let message = format!(
            "One or more parameters are invalid. Reason: Message must be shorter than {limit} bytes."
        );
        return Err(Refusal::value(message));
    }
    // AWS rejects the characters that XML can't represent.
    let is_allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..);
    if !text.chars().all(is_allowed) {
        let message = "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF";
        return Err(Refusal::new("InvalidMessageContents", "InvalidMessageContents", message));
    }
    let attributes = body.get("MessageAttributes").and_then(Value::as_object);
    if attributes.is_some_and(|attributes| attributes.len() > 10) {
        return Err(Refusal::value("Number of message attributes exceeds the allowed maximum [10]."));
    }
    check_range(body, "DelaySeconds", (0, 900))
}

/// Returns a message's size: the bytes of its body, and of the names, types and values of its attributes.
fn message_bytes(body: &Map<String, Value>) -> usize {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map_or(0, str::len);
    let attributes = body.get("MessageAttributes").and_then(Value::as_object);
    attributes.into_iter().flatten().fold(text(body.get("MessageBody")), |sum, (name, value)| {
        let sum = sum.saturating_add(name.len()).saturating_add(text(value.get("DataType")));
        sum.saturating_add(text(value.get("StringValue"))).saturating_add(text(value.get("BinaryValue")))
    })
}

fn check_receive(body: &Map<String, Value>) -> std::result::Result<(), Refusal> {
    check_range(body, "MaxNumberOfMessages", (1, 10))?;
    check_range(body, "WaitTimeSeconds", (0, 20))?;
    check_range(body, "VisibilityTimeout", (0, 43_200))?;
    check_names(body, "AttributeNames", &MESSAGE_ATTRIBUTES)?;
    check_names(body, "MessageSystemAttributeNames", &MESSAGE_ATTRIBUTES)?;
    Ok(())
}

fn check_visibility(body: &Map<String, Value>) -> std::result::Result<(), Refusal> {
    if body.get("VisibilityTimeout").is_none_or(Value::is_null) {
        return Err(Refusal::missing("VisibilityTimeout"));
    }
    check_range(body, "VisibilityTimeout", (0, 43_200))
}

/// Returns the names in the array `list` of a request, or an error when one of them is not in `known`.
fn check_names(
    body: &Map<String, Value>,
    list: &str,
    known: &[&str],
) -> std::result::Result<BTreeSet<String>, Refusal> {
    let mut requested = BTreeSet::new();
    for name in body.get(list).and_then(Value::as_array).into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        if !known.contains(&name) {
            let message = format!("Unknown Attribute {name}.");
            return Err(Refusal::new("InvalidAttributeName", "InvalidAttributeName", message));
        }
        requested.insert(name.to_owned());
    }
    Ok(requested)
}

fn check_attributes(body: &Map<String, Value>) -> std::result::Result<(), Refusal> {
    for (name, value) in body.get("Attributes").and_then(Value::as_object).into_iter().flatten() {
        let Some((_, range)) = QUEUE_ATTRIBUTES.iter().find(|(known, _)| known == name) else {
            let message = format!("Unknown Attribute {name}.");
            return Err(Refusal::new("InvalidAttributeName", "InvalidAttributeName", message));
        };
        let Some((least, greatest)) = range else { continue };
        let number = value.as_str().and_then(|text| text.parse::<i64>().ok());
        if !number.is_some_and(|number| (*least..=*greatest).contains(&number)) {
            let message = format!("Invalid value for the parameter {name}.");
            return Err(Refusal::new("InvalidAttributeValue", "InvalidAttributeValue", message));
        }
    }
    Ok(())
}

fn check_entries(body: &Map<String, Value>) -> std::result::Result<Vec<&Map<String, Value>>, Refusal> {
    let entries: Vec<&Map<String, Value>> = body
        .get("Entries")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect();
    if entries.is_empty() {
        return Err(Refusal::batch(
            "EmptyBatchRequest",
            "There should be at least one entry in the request.",
        ));
    }
    if entries.len() > 10 {
        let message =
            format!("Maximum number of entries per request are 10. You have sent {}.", entries.len());
        return Err(Refusal::batch("TooManyEntriesInBatchRequest", message));
    }
    let mut ids = BTreeSet::new();
    for entry in &entries {
        let id = entry.get("Id").and_then(Value::as_str).unwrap_or_default();
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if id.is_empty() || id.len() > 80 || !id.chars().all(is_allowed) {
            let message = "A batch entry id can only contain alphanumeric characters, hyphens and underscores. \
                           It can be at most 80 letters long.";
            return Err(Refusal::batch("InvalidBatchEntryId", message));
        }
        if !ids.insert(id) {
            return Err(Refusal::batch("BatchEntryIdsNotDistinct", format!("Id {id} repeated.")));
        }
    }
    let bytes = entries.iter().fold(0_usize, |sum, entry| sum.saturating_add(message_bytes(entry)));
    if bytes > MAX_MESSAGE_BYTES {
        let message = format!(
            "Batch requests cannot be longer than {MAX_MESSAGE_BYTES} bytes. You have sent {bytes} bytes."
        );
        return Err(Refusal::batch("BatchRequestTooLong", message));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::Client;
    use aws_sdk_sqs::error::ProvideErrorMetadata;
    use aws_sdk_sqs::types::{
        DeleteMessageBatchRequestEntry, MessageSystemAttributeName, QueueAttributeName,
        SendMessageBatchRequestEntry,
    };

    use super::*;
    use crate::sdk;

    async fn queue() -> (Sqs, Client, String) {
        let sqs = Sqs::start(http::bind_loopback().await.unwrap()).unwrap();
        let client = sdk::sqs(&sqs.url());
        let url = client.create_queue().queue_name("Jobs").send().await.unwrap().queue_url.unwrap();
        (sqs, client, url)
    }

    fn entry(id: &str, body: &str, delay: i32) -> SendMessageBatchRequestEntry {
        SendMessageBatchRequestEntry::builder()
            .id(id)
            .message_body(body)
            .delay_seconds(delay)
            .build()
            .unwrap()
    }

    fn code<T: std::fmt::Debug, E: ProvideErrorMetadata>(result: std::result::Result<T, E>) -> String {
        result.err().unwrap().code().unwrap().to_owned()
    }

    #[tokio::test]
    async fn a_sent_message_is_received_at_once_with_its_attributes_and_can_be_deleted() {
        let (sqs, client, url) = queue().await;
        assert!(url.starts_with(&sqs.url()), "{url}");
        let waiting = tokio::spawn({
            let receive = client.receive_message().queue_url(&url).wait_time_seconds(20);
            receive.message_system_attribute_names(MessageSystemAttributeName::All).send()
        });
        let sent =
            client.send_message().queue_url(&url).message_body("hello").message_group_id("g").send().await;
        let sent = sent.unwrap();
        let started = Instant::now();
        let received = waiting.await.unwrap().unwrap().messages.unwrap();
        assert!(started.elapsed() < Duration::from_secs(5), "the message must wake the long poll");
        assert_eq!(received[0].message_id, sent.message_id);
        assert_eq!(
            received[0].attributes.as_ref().unwrap()[&MessageSystemAttributeName::ApproximateReceiveCount],
            "1"
        );
        let attributes = received[0].attributes.as_ref().unwrap();
        assert_eq!(attributes[&MessageSystemAttributeName::MessageGroupId], "g");
        let handle = received[0].receipt_handle.clone().unwrap();
        let entry = |id: &str, handle: &str| {
            DeleteMessageBatchRequestEntry::builder().id(id).receipt_handle(handle).build().unwrap()
        };
        let deleted = client.delete_message_batch().queue_url(&url).entries(entry("a", &handle));
        let deleted = deleted.entries(entry("b", "nonsense")).send().await.unwrap();
        assert_eq!(deleted.successful[0].id, "a");
        assert_eq!(
            (deleted.failed[0].id.as_str(), deleted.failed[0].code.as_str()),
            ("b", "ReceiptHandleIsInvalid")
        );
    }

    #[tokio::test]
    async fn a_long_poll_receives_a_message_whose_delay_or_visibility_timeout_ends() {
        let (_sqs, client, url) = queue().await;
        let poll = || client.receive_message().queue_url(&url).wait_time_seconds(20).visibility_timeout(1);
        // The queue is empty when the first poll begins.
        let waiting = tokio::spawn(poll().send());
        let started = Instant::now();
        client.send_message().queue_url(&url).message_body("x").delay_seconds(1).send().await.unwrap();
        let received = waiting.await.unwrap().unwrap();
        assert_eq!(received.messages().len(), 1);
        let received = poll().send().await.unwrap();
        assert_eq!(received.messages().len(), 1, "the message is received again");
        assert!(started.elapsed() < Duration::from_secs(10), "the poll must not wait for its end");
    }

    #[tokio::test]
    async fn a_malformed_batch_is_rejected_as_a_whole_and_an_invalid_entry_alone() {
        let (_sqs, client, url) = queue().await;
        let send = |entries: Vec<SendMessageBatchRequestEntry>| {
            client.send_message_batch().queue_url(&url).set_entries(Some(entries)).send()
        };
        let eleven = (0..11).map(|n| entry(&n.to_string(), "x", 0)).collect();
        assert_eq!(code(send(eleven).await), "AWS.SimpleQueueService.TooManyEntriesInBatchRequest");
        assert_eq!(code(send(vec![]).await), "AWS.SimpleQueueService.EmptyBatchRequest");
        let twins = vec![entry("a", "x", 0), entry("a", "y", 0)];
        assert_eq!(code(send(twins).await), "AWS.SimpleQueueService.BatchEntryIdsNotDistinct");
        assert_eq!(
            code(send(vec![entry("a b", "x", 0)]).await),
            "AWS.SimpleQueueService.InvalidBatchEntryId"
        );
        let half = "x".repeat(MAX_MESSAGE_BYTES / 2 + 1);
        let heavy = vec![entry("a", &half, 0), entry("b", &half, 0)];
        assert_eq!(code(send(heavy).await), "AWS.SimpleQueueService.BatchRequestTooLong");

        let mixed = send(vec![entry("a", "x", 900), entry("b", "x", 901), entry("c", "", 0)]).await.unwrap();
        assert_eq!(mixed.successful.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["a"]);
        let failed: Vec<(&str, &str)> =
            mixed.failed.iter().map(|entry| (entry.id.as_str(), entry.code.as_str())).collect();
        assert_eq!(failed, [("b", "InvalidParameterValue"), ("c", "MissingParameter")]);
    }

    #[tokio::test]
    async fn values_outside_the_limits_of_aws_are_rejected() {
        let (_sqs, client, url) = queue().await;
        let send = || client.send_message().queue_url(&url);
        assert_eq!(code(send().message_body("x").delay_seconds(901).send().await), "InvalidParameterValue");
        let heavy = "x".repeat(MAX_MESSAGE_BYTES + 1);
        assert_eq!(code(send().message_body(heavy).send().await), "InvalidParameterValue");
        assert_eq!(code(send().message_body("\u{1}").send().await), "InvalidMessageContents");
        let receive = || client.receive_message().queue_url(&url);
        assert_eq!(code(receive().max_number_of_messages(11).send().await), "InvalidParameterValue");
        assert_eq!(code(receive().wait_time_seconds(21).send().await), "InvalidParameterValue");
        assert_eq!(code(receive().visibility_timeout(43_201).send().await), "InvalidParameterValue");
        let unknown = receive().message_system_attribute_names("Nonsense".into());
        assert_eq!(code(unknown.send().await), "InvalidAttributeName");
        let unknown = client.get_queue_attributes().queue_url(&url).attribute_names("Nonsense".into());
        assert_eq!(code(unknown.send().await), "InvalidAttributeName");
        let create = |name: QueueAttributeName, value: &str| {
            client.create_queue().queue_name("Other").attributes(name, value).send()
        };
        assert_eq!(code(create("Nonsense".into(), "1").await), "InvalidAttributeName");
        assert_eq!(
            code(create(QueueAttributeName::VisibilityTimeout, "43201").await),
            "InvalidAttributeValue"
        );
    }

    #[tokio::test]
    async fn a_request_to_a_missing_queue_returns_the_error_that_sdks_recognize() {
        let (_sqs, client, url) = queue().await;
        let error =
            client.send_message().queue_url(format!("{url}Not")).message_body("x").send().await.unwrap_err();
        assert!(error.into_service_error().is_queue_does_not_exist());
        let batch = client
            .send_message_batch()
            .queue_url(format!("{url}Not"))
            .entries(entry("a", "x", 0))
            .send()
            .await;
        assert!(batch.unwrap_err().into_service_error().is_queue_does_not_exist());
    }
}
