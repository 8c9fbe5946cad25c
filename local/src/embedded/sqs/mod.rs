//! The embedded SQS.
//!
//! It checks the limits of AWS that the service could exceed. Messages are in memory: a message only identifies a
//! row, and the scheduler replaces a lost one. The clock is that of the service, so a test that advances it ends
//! delays, visibility timeouts and retention. Message attributes are not supported.

mod queues;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Response, StatusCode};
use md5::{Digest, Md5};
use serde_json::{Map, Value, json};
use shared::clock::Clock;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use self::queues::{Draft, Failure, Message, Queues};
use super::{ACCOUNT, REGION};
use crate::error::{Error, Result};
use crate::http::{self, Server};

/// The maximum size of a message, and of a whole batch: 1 MiB, AWS's limit since August 2025.
const MAX_MESSAGE_BYTES: usize = 1_048_576;
/// The maximum size of a request body. It exceeds the size of a message, because JSON escapes characters.
const MAX_REQUEST_BYTES: usize = 4 * MAX_MESSAGE_BYTES;
/// The interval at which a long poll checks for messages whose delay or visibility timeout has ended. It only
/// does so while the queue has such messages. A newly sent message wakes the poll at once.
const POLL_PERIOD: Duration = Duration::from_millis(50);

/// A running embedded SQS. Dropping this stops it.
#[derive(Debug)]
pub struct Sqs {
    server: Server,
}

impl Sqs {
    /// Starts the server on this listener, without queues. `clock` decides when messages become visible.
    pub fn start(listener: TcpListener, clock: &Clock) -> Result<Self> {
        let io = |e: std::io::Error| Error::because("starting SQS", &e);
        let front = Arc::new(Front {
            queues: Mutex::default(),
            clock: clock.clone(),
            changed: Notify::new(),
            url: http::url_of(listener.local_addr().map_err(io)?),
        });
        let server = Server::start(listener, move |_| {
            let front = Arc::clone(&front);
            http::service(move |request| {
                let front = Arc::clone(&front);
                async move { front.handle(request).await }
            })
        });
        Ok(Self { server: server.map_err(io)? })
    }

    /// Returns the base URL.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Stops the server.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}

/// The front end of the queues.
struct Front {
    queues: Mutex<Queues>,
    clock: Clock,
    /// Notified by each request after which a queue can have a visible message, now or later.
    changed: Notify,
    url: String,
}

/// An error response of SQS, with the status 400.
#[derive(Debug)]
struct Refusal {
    /// The error type of the JSON protocol.
    shape: String,
    /// The error code of the older query protocol, which SDKs still report.
    code: String,
    message: String,
}

impl Refusal {
    fn new(shape: &str, code: &str, message: impl Into<String>) -> Self {
        Self { shape: shape.to_owned(), code: code.to_owned(), message: message.into() }
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

    /// Returns the entry of a batch response.
    fn of_entry(&self, id: &Value) -> Value {
        json!({"Id": id, "SenderFault": true, "Code": self.code, "Message": self.message})
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoQueue => Self::new(
                "QueueDoesNotExist",
                "AWS.SimpleQueueService.NonExistentQueue",
                "The specified queue does not exist.",
            ),
            Failure::OtherAttributes => Self::new(
                "QueueNameExists",
                "QueueAlreadyExists",
                "A queue already exists with the same name and a different value for an attribute.",
            ),
            Failure::Handle => Self::new(
                "ReceiptHandleIsInvalid",
                "ReceiptHandleIsInvalid",
                "The input receipt handle is invalid.",
            ),
            Failure::NotInFlight => {
                Self::batch("MessageNotInflight", "The message referred to isn't in flight.")
            }
        }
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
            "CreateQueue" => self.create_queue(&body),
            "ListQueues" => {
                let names = self.with(|queues, _| Ok(queues.names()))?;
                let urls: Vec<String> = names.iter().map(|name| self.queue_url(name)).collect();
                Ok(json!({ "QueueUrls": urls }))
            }
            "GetQueueAttributes" => self.queue_attributes(&body),
            "SendMessage" => {
                check_message(&body)?;
                let sent = self.send(&body, vec![draft(&body)])?;
                Ok(sent.into_iter().next().unwrap_or_default())
            }
            "ReceiveMessage" => {
                check_receive(&body)?;
                self.receive(&body).await
            }
            "DeleteMessage" => self.delete(&body, &body),
            "ChangeMessageVisibility" => self.change_visibility(&body, &body),
            "SendMessageBatch" => self.send_batch(&body),
            "DeleteMessageBatch" => self.batch(&body, |entry| self.delete(&body, entry)),
            "PurgeQueue" => {
                self.with(|queues, _| queues.purge(queue_name(&body)?))?;
                Ok(json!({}))
            }
            unknown => Err(Refusal::new(
                "UnsupportedOperation",
                "AWS.SimpleQueueService.UnsupportedOperation",
                format!("This SQS does not have the operation {unknown}."),
            )),
        }
    }

    /// Executes an operation on the queues at the present time.
    fn with<T>(
        &self,
        operation: impl FnOnce(&mut Queues, i64) -> std::result::Result<T, Failure>,
    ) -> std::result::Result<T, Refusal> {
        let now = self.clock.now().millis();
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(operation(&mut queues, now)?)
    }

    fn queue_url(&self, name: &str) -> String {
        format!("{}/{ACCOUNT}/{name}", self.url)
    }

    fn create_queue(&self, body: &Map<String, Value>) -> Answer {
        let name = text(body, "QueueName").ok_or_else(|| Refusal::missing("QueueName"))?;
        let attributes = body.get("Attributes").and_then(Value::as_object).into_iter().flatten();
        let attributes =
            attributes.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        self.with(|queues, _| queues.create(name, attributes.collect()))?;
        Ok(json!({"QueueUrl": self.queue_url(name)}))
    }

    fn queue_attributes(&self, body: &Map<String, Value>) -> Answer {
        let requested = names_in(body, "AttributeNames");
        let name = queue_name(body)?;
        let mut attributes = self.with(|queues, now| queues.attributes(name, now))?;
        attributes.insert("QueueArn".to_owned(), format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"));
        if !requested.contains("All") {
            attributes.retain(|name, _| requested.contains(name.as_str()));
        }
        Ok(json!({"Attributes": attributes}))
    }

    /// Sends messages. Returns the fields of the response for each.
    fn send(
        &self,
        body: &Map<String, Value>,
        drafts: Vec<Draft>,
    ) -> std::result::Result<Vec<Value>, Refusal> {
        let sent = |draft: &Draft| json!({"MessageId": draft.id, "MD5OfMessageBody": md5_of(&draft.body)});
        let sent: Vec<Value> = drafts.iter().map(sent).collect();
        self.with(|queues, now| queues.send(queue_name(body)?, drafts, now))?;
        self.changed.notify_waiters();
        Ok(sent)
    }

    fn send_batch(&self, body: &Map<String, Value>) -> Answer {
        let (mut ids, mut drafts, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for entry in check_entries(body)? {
            let id = entry.get("Id").cloned().unwrap_or_default();
            match check_message(entry) {
                Ok(()) => {
                    ids.push(id);
                    drafts.push(draft(entry));
                }
                Err(refusal) => failed.push(refusal.of_entry(&id)),
            }
        }
        let mut successful = self.send(body, drafts)?;
        for (fields, id) in successful.iter_mut().zip(ids) {
            if let Some(fields) = fields.as_object_mut() {
                fields.insert("Id".to_owned(), id);
            }
        }
        Ok(json!({"Successful": successful, "Failed": failed}))
    }

    async fn receive(&self, body: &Map<String, Value>) -> Answer {
        let number = |name: &str| body.get(name).and_then(Value::as_i64);
        let most = number("MaxNumberOfMessages").and_then(|most| usize::try_from(most).ok()).unwrap_or(1);
        let hidden = number("VisibilityTimeout");
        let wait = Duration::from_secs(body.get("WaitTimeSeconds").and_then(Value::as_u64).unwrap_or(0));
        let name = queue_name(body)?;
        let started = Instant::now();
        loop {
            // Created before the receive, so that a change between the receive and the wait wakes this poll.
            let changed = self.changed.notified();
            let (messages, has_hidden) = self.with(|queues, now| {
                Ok((queues.receive(name, most, hidden, now)?, queues.has_hidden(name, now)?))
            })?;
            let remaining = wait.saturating_sub(started.elapsed());
            if !messages.is_empty() {
                // The messages become visible again later.
                self.changed.notify_waiters();
            }
            if !messages.is_empty() || remaining.is_zero() {
                let requested = names_in(body, "MessageSystemAttributeNames");
                let messages: Vec<Value> =
                    messages.iter().map(|message| received(message, &requested)).collect();
                return Ok(if messages.is_empty() { json!({}) } else { json!({"Messages": messages}) });
            }
            let pause = if has_hidden { remaining.min(POLL_PERIOD) } else { remaining };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Deletes a message. `entry`: the request, or an entry of a batch request.
    fn delete(&self, body: &Map<String, Value>, entry: &Map<String, Value>) -> Answer {
        let handle = text(entry, "ReceiptHandle").ok_or_else(|| Refusal::missing("ReceiptHandle"))?;
        self.with(|queues, _| queues.delete(queue_name(body)?, handle))?;
        Ok(json!({}))
    }

    /// Changes the visibility timeout of a message. `entry`: the request, or an entry of a batch request.
    fn change_visibility(&self, body: &Map<String, Value>, entry: &Map<String, Value>) -> Answer {
        check_visibility(entry)?;
        let handle = text(entry, "ReceiptHandle").ok_or_else(|| Refusal::missing("ReceiptHandle"))?;
        let seconds = entry.get("VisibilityTimeout").and_then(Value::as_i64).unwrap_or_default();
        self.with(|queues, now| queues.hide(queue_name(body)?, handle, seconds, now))?;
        self.changed.notify_waiters();
        Ok(json!({}))
    }

    /// Executes each entry of a batch, so that a rejected entry does not affect the others.
    fn batch(&self, body: &Map<String, Value>, execute: impl Fn(&Map<String, Value>) -> Answer) -> Answer {
        let entries = check_entries(body)?;
        let (mut successful, mut failed) = (Vec::new(), Vec::new());
        self.with(|queues, _| queues.check(queue_name(body)?))?;
        for entry in entries {
            let id = entry.get("Id").cloned().unwrap_or_default();
            match execute(entry) {
                Ok(_) => successful.push(json!({ "Id": id })),
                Err(refusal) => failed.push(refusal.of_entry(&id)),
            }
        }
        Ok(json!({"Successful": successful, "Failed": failed}))
    }
}

fn text<'a>(body: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    body.get(name).and_then(Value::as_str)
}

/// Returns the name of the queue, which is the end of its URL.
fn queue_name(body: &Map<String, Value>) -> std::result::Result<&str, Failure> {
    text(body, "QueueUrl").and_then(|url| url.rsplit('/').next()).ok_or(Failure::NoQueue)
}

/// Returns the names in the array `list` of a request.
fn names_in<'a>(body: &'a Map<String, Value>, list: &str) -> BTreeSet<&'a str> {
    body.get(list).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns the message in a request that was checked.
fn draft(body: &Map<String, Value>) -> Draft {
    Draft {
        id: Uuid::new_v4().to_string(),
        body: text(body, "MessageBody").unwrap_or_default().to_owned(),
        group: text(body, "MessageGroupId").map(str::to_owned),
        delay: body.get("DelaySeconds").and_then(Value::as_i64),
    }
}

/// Returns a received message with the system attributes that were requested.
fn received(message: &Message, requested: &BTreeSet<&str>) -> Value {
    let known = [
        ("ApproximateFirstReceiveTimestamp", message.first_received_at.map(|at| at.to_string())),
        ("ApproximateReceiveCount", Some(message.receives.to_string())),
        ("MessageGroupId", message.group.clone()),
        ("SenderId", Some(ACCOUNT.to_owned())),
        ("SentTimestamp", Some(message.sent_at.to_string())),
    ];
    let is_requested = |name: &str| requested.contains("All") || requested.contains(name);
    let attributes: Map<String, Value> = known
        .into_iter()
        .filter(|(name, _)| is_requested(name))
        .filter_map(|(name, value)| Some((name.to_owned(), value?.into())))
        .collect();
    let mut fields = json!({
        "MessageId": message.id,
        "ReceiptHandle": message.receipt_handle(),
        "Body": message.body,
        "MD5OfBody": md5_of(&message.body),
    });
    if let Some(fields) = fields.as_object_mut().filter(|_| !attributes.is_empty()) {
        fields.insert("Attributes".to_owned(), attributes.into());
    }
    fields
}

fn md5_of(body: &str) -> String {
    Md5::digest(body).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn respond(answer: Answer) -> Response<Full<Bytes>> {
    let (status, fault, body) = match answer {
        Ok(body) => (StatusCode::OK, None, body),
        Err(Refusal { shape, code, message }) => {
            let body = json!({"__type": format!("com.amazonaws.sqs#{shape}"), "message": message});
            (StatusCode::BAD_REQUEST, Some(format!("{code};Sender")), body)
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
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

fn check_message(body: &Map<String, Value>) -> std::result::Result<(), Refusal> {
    let text = text(body, "MessageBody").filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Refusal::missing("MessageBody"))?;
    if text.len() > MAX_MESSAGE_BYTES {
        let message = format!(
            "One or more parameters are invalid. Reason: Message must be shorter than {MAX_MESSAGE_BYTES} bytes."
        );
        return Err(Refusal::value(message));
    }
    if body.contains_key("MessageAttributes") {
        return Err(Refusal::value("This SQS does not have message attributes."));
    }
    check_range(body, "DelaySeconds", (0, 900))
}

fn check_receive(body: &Map<String, Value>) -> std::result::Result<(), Refusal> {
    check_range(body, "MaxNumberOfMessages", (1, 10))?;
    check_range(body, "WaitTimeSeconds", (0, 20))?;
    check_range(body, "VisibilityTimeout", (0, 43_200))
}

fn check_visibility(body: &Map<String, Value>) -> std::result::Result<(), Refusal> {
    if body.get("VisibilityTimeout").is_none_or(Value::is_null) {
        return Err(Refusal::missing("VisibilityTimeout"));
    }
    check_range(body, "VisibilityTimeout", (0, 43_200))
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
    let bytes = |entry: &&Map<String, Value>| text(entry, "MessageBody").map_or(0, str::len);
    let bytes: usize = entries.iter().map(bytes).sum();
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

    async fn start(clock: &Clock) -> (Sqs, Client) {
        let sqs = Sqs::start(http::bind_loopback().await.unwrap(), clock).unwrap();
        let client = sdk::sqs(&sqs.url());
        (sqs, client)
    }

    async fn queue() -> (Sqs, Client, String) {
        let (sqs, client) = start(&Clock::default()).await;
        let url = client.create_queue().queue_name("Jobs").send().await.unwrap().queue_url.unwrap();
        (sqs, client, url)
    }

    /// Creates a queue with a dead-letter queue, to which messages move after two receives. Returns the URLs of
    /// both.
    async fn queue_with_dead_letters(client: &Client) -> [String; 2] {
        let dead = client.create_queue().queue_name("Dead").send().await.unwrap().queue_url.unwrap();
        let policy = json!({
            "deadLetterTargetArn": format!("arn:aws:sqs:{REGION}:{ACCOUNT}:Dead"), "maxReceiveCount": 2,
        });
        let queue = client
            .create_queue()
            .queue_name("Jobs")
            .attributes(QueueAttributeName::RedrivePolicy, policy.to_string());
        [queue.send().await.unwrap().queue_url.unwrap(), dead]
    }

    /// Receives the visible messages of a queue, and hides them for a minute. Returns their bodies and receive
    /// counts.
    async fn receive(client: &Client, url: &str) -> Vec<(String, String)> {
        let receive = client.receive_message().queue_url(url).max_number_of_messages(10);
        let receive = receive.visibility_timeout(60);
        let count = MessageSystemAttributeName::ApproximateReceiveCount;
        let received = receive.message_system_attribute_names(count.clone()).send().await.unwrap();
        let message = |message: &aws_sdk_sqs::types::Message| {
            (message.body().unwrap().to_owned(), message.attributes().unwrap()[&count].clone())
        };
        received.messages().iter().map(message).collect()
    }

    fn pair(body: &str, receives: &str) -> (String, String) {
        (body.to_owned(), receives.to_owned())
    }

    #[tokio::test]
    async fn the_clock_of_the_service_ends_delays_visibility_timeouts_and_retention() {
        let clock = Clock::default();
        let (_sqs, client) = start(&clock).await;
        let [url, dead] = queue_with_dead_letters(&client).await;
        client.send_message().queue_url(&url).message_body("x").delay_seconds(900).send().await.unwrap();
        assert_eq!(receive(&client, &url).await, []);
        clock.advance(900_000);
        assert_eq!(receive(&client, &url).await, [pair("x", "1")]);
        assert_eq!(receive(&client, &url).await, []);
        clock.advance(60_000);
        assert_eq!(receive(&client, &url).await, [pair("x", "2")]);
        clock.advance(60_000);
        assert_eq!(receive(&client, &url).await, [], "it moves after two receives");
        assert_eq!(receive(&client, &dead).await, [pair("x", "3")]);
        clock.advance(4 * 86_400_000);
        assert_eq!(receive(&client, &dead).await, [], "it is kept for four days");
    }

    #[tokio::test]
    async fn an_old_receipt_deletes_nothing_and_hides_nothing() {
        let clock = Clock::default();
        let (_sqs, client) = start(&clock).await;
        let [url, _dead] = queue_with_dead_letters(&client).await;
        client.send_message().queue_url(&url).message_body("x").send().await.unwrap();
        let receive_one = async || {
            let received = client.receive_message().queue_url(&url).send().await.unwrap();
            received.messages()[0].receipt_handle().unwrap().to_owned()
        };
        let first = receive_one().await;
        clock.advance(30_000);
        let second = receive_one().await;
        client.delete_message().queue_url(&url).receipt_handle(&first).send().await.unwrap();
        let hide = |handle: &str| {
            client
                .change_message_visibility()
                .queue_url(&url)
                .receipt_handle(handle)
                .visibility_timeout(0)
                .send()
        };
        assert_eq!(code(hide(&first).await), "AWS.SimpleQueueService.MessageNotInflight");
        hide(&second).await.unwrap();
        assert_eq!(receive(&client, &url).await, [], "it was not deleted, but received twice");
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
        let receive = || client.receive_message().queue_url(&url);
        assert_eq!(code(receive().max_number_of_messages(11).send().await), "InvalidParameterValue");
        assert_eq!(code(receive().wait_time_seconds(21).send().await), "InvalidParameterValue");
        assert_eq!(code(receive().visibility_timeout(43_201).send().await), "InvalidParameterValue");
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
