//! The embedded SQS. Without it, a developer needs Docker or an AWS account to see a webhook.
//!
//! It checks the limits of AWS that the service could exceed. Messages are in memory: a message only identifies a
//! row, and the scheduler replaces a lost one. The clock is that of the service, so a test that advances it ends
//! delays, visibility timeouts and retention. Message attributes are not supported.

mod queues;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use md5::{Digest, Md5};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use shared::clock::Clock;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::queues::{Draft, Failure, Message, Queues};
use super::{ACCOUNT, REGION, dynamodb};
use crate::error::{Context, Result as StartResult};
use crate::http::{self, Server};

/// The maximum size of a message, and of a whole batch: 1 MiB, AWS's limit since August 2025.
const MAX_MESSAGE_BYTES: usize = 1_048_576;
/// The maximum size of a request body. It exceeds the size of a message, because JSON escapes characters.
const MAX_REQUEST_BYTES: usize = 4 * MAX_MESSAGE_BYTES;
/// The maximum number of messages in a batch.
const MAX_BATCH: usize = 10;
/// The interval at which a long poll checks for messages whose delay or visibility timeout has ended. It only
/// does so while the queue has such messages. A newly sent message wakes the poll at once.
const POLL_PERIOD: Duration = Duration::from_millis(50);

const INVALID_VALUE: &str = "InvalidParameterValue";

type Result<T> = std::result::Result<T, Failure>;

/// Starts the server on this listener, without queues.
pub(crate) fn start(listener: TcpListener, hosts: &http::Hosts, clock: &Clock) -> StartResult<Server> {
    let doing = "starting SQS";
    let front = Arc::new(Front {
        queues: Mutex::default(),
        clock: clock.clone(),
        changed: Notify::new(),
        url: http::url_of(listener.local_addr().context(doing)?),
    });
    let handle = |front: Arc<Front>, request, _peer| async move { front.handle(request).await };
    http::serve_with(listener, hosts.clone(), front, handle).context(doing)
}

struct Front {
    queues: Mutex<Queues>,
    clock: Clock,
    /// Notified by each request after which a queue can have a visible message, now or later.
    changed: Notify,
    url: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Fields {
    queue_name: Option<String>,
    queue_url: Option<String>,
    attributes: BTreeMap<String, String>,
    attribute_names: Vec<String>,
    message_system_attribute_names: Vec<String>,
    message_attributes: Option<Value>,
    message_body: Option<String>,
    message_group_id: Option<String>,
    delay_seconds: Option<i64>,
    max_number_of_messages: Option<i64>,
    wait_time_seconds: Option<i64>,
    visibility_timeout: Option<i64>,
    receipt_handle: Option<String>,
    id: String,
    entries: Vec<Self>,
}

impl Fields {
    fn queue(&self) -> Result<&str> {
        self.queue_url.as_deref().and_then(|url| url.rsplit('/').next()).ok_or_else(Failure::no_queue)
    }

    fn receipt_handle(&self) -> Result<&str> {
        self.receipt_handle.as_deref().ok_or_else(|| Failure::missing("ReceiptHandle"))
    }

    fn draft(&self) -> Result<Draft> {
        let body = self.message_body.clone().filter(|body| !body.is_empty());
        let body = body.ok_or_else(|| Failure::missing("MessageBody"))?;
        if body.len() > MAX_MESSAGE_BYTES {
            let text = format!("Reason: Message must be shorter than {MAX_MESSAGE_BYTES} bytes.");
            return Err(Failure(INVALID_VALUE, text));
        }
        if self.message_attributes.is_some() {
            return Err(Failure(INVALID_VALUE, "This SQS does not have message attributes.".to_owned()));
        }
        let delay = in_range("DelaySeconds", self.delay_seconds, 0, 900)?;
        let id = uuid::Uuid::new_v4().to_string();
        Ok(Draft { id, body, group: self.message_group_id.clone(), delay })
    }

    fn entries(&self) -> Result<&[Self]> {
        let bytes = |entry: &Self| entry.message_body.as_ref().map_or(0, String::len);
        let refused = |shape, text: &str| Err(Failure(shape, text.to_owned()));
        match self.entries.len() {
            0 => refused("EmptyBatchRequest", "There should be at least one entry in the request."),
            count if count > MAX_BATCH => {
                refused("TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10.")
            }
            _ if self.entries.iter().map(bytes).sum::<usize>() > MAX_MESSAGE_BYTES => {
                refused("BatchRequestTooLong", "Batch requests cannot be longer than 1048576 bytes.")
            }
            _ => Ok(&self.entries),
        }
    }
}

fn in_range(name: &str, value: Option<i64>, least: i64, most: i64) -> Result<Option<i64>> {
    match value.filter(|value| !(least..=most).contains(value)) {
        None => Ok(value),
        Some(value) => Err(Failure(
            INVALID_VALUE,
            format!(
                "Value {value} for parameter {name} is invalid. Reason: Must be between {least} and {most}."
            ),
        )),
    }
}

impl Front {
    async fn handle(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let target = request.headers().get("x-amz-target").and_then(|target| target.to_str().ok());
        let operation = target.and_then(|target| target.rsplit('.').next()).unwrap_or_default().to_owned();
        let body = Limited::new(request.into_body(), MAX_REQUEST_BYTES).collect().await;
        let fields = body.ok().and_then(|body| serde_json::from_slice(&body.to_bytes()).ok());
        let malformed =
            || Failure("SerializationException", "The body is not a request of this API.".to_owned());
        let fields = fields.ok_or_else(malformed);
        respond(match fields {
            Ok(fields) => self.execute(&operation, &fields).await,
            Err(failure) => Err(failure),
        })
    }

    async fn execute(&self, operation: &str, fields: &Fields) -> Result<Value> {
        match operation {
            "CreateQueue" => {
                let name = fields.queue_name.as_deref().ok_or_else(|| Failure::missing("QueueName"))?;
                self.with(|queues, _| queues.create(name, &fields.attributes))?;
                Ok(json!({"QueueUrl": self.queue_url(name)}))
            }
            "ListQueues" => {
                let names = self.with(|queues, _| Ok(queues.names()))?;
                let urls: Vec<String> = names.iter().map(|name| self.queue_url(name)).collect();
                Ok(json!({ "QueueUrls": urls }))
            }
            "GetQueueAttributes" => {
                let name = fields.queue()?;
                let mut attributes = self.with(|queues, now| queues.attributes(name, now))?;
                attributes.insert("QueueArn".to_owned(), format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"));
                attributes.retain(|name, _| is_requested(&fields.attribute_names, name));
                Ok(json!({ "Attributes": attributes }))
            }
            "SendMessage" => self.send(fields, fields),
            "ReceiveMessage" => self.receive(fields).await,
            "DeleteMessage" => self.delete(fields, fields),
            "ChangeMessageVisibility" => {
                let seconds = in_range("VisibilityTimeout", fields.visibility_timeout, 0, 43_200)?;
                let seconds = seconds.ok_or_else(|| Failure::missing("VisibilityTimeout"))?;
                let handle = fields.receipt_handle()?;
                self.with(|queues, now| queues.hide(fields.queue()?, handle, seconds, now))?;
                self.changed.notify_waiters();
                Ok(json!({}))
            }
            "SendMessageBatch" => self.batch(fields, |entry| self.send(fields, entry)),
            "DeleteMessageBatch" => self.batch(fields, |entry| self.delete(fields, entry)),
            "PurgeQueue" => {
                self.with(|queues, _| queues.purge(fields.queue()?))?;
                Ok(json!({}))
            }
            unknown => {
                let text = format!("This SQS does not have the operation {unknown}.");
                Err(Failure("UnsupportedOperation", text))
            }
        }
    }

    fn with<T>(&self, operation: impl FnOnce(&mut Queues, i64) -> Result<T>) -> Result<T> {
        let now = self.clock.now().millis();
        operation(&mut self.queues.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    fn queue_url(&self, name: &str) -> String {
        format!("{}/{ACCOUNT}/{name}", self.url)
    }

    fn send(&self, request: &Fields, entry: &Fields) -> Result<Value> {
        let draft = entry.draft()?;
        let sent = json!({"MessageId": draft.id, "MD5OfMessageBody": md5_of(&draft.body)});
        self.with(|queues, now| queues.send(request.queue()?, draft, now))?;
        self.changed.notify_waiters();
        Ok(sent)
    }

    async fn receive(&self, fields: &Fields) -> Result<Value> {
        let most = in_range("MaxNumberOfMessages", fields.max_number_of_messages, 1, 10)?;
        let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(1);
        let wait = in_range("WaitTimeSeconds", fields.wait_time_seconds, 0, 20)?;
        let wait = Duration::from_secs(wait.and_then(|wait| u64::try_from(wait).ok()).unwrap_or_default());
        let hidden = in_range("VisibilityTimeout", fields.visibility_timeout, 0, 43_200)?;
        let name = fields.queue()?;
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
                let requested = &fields.message_system_attribute_names;
                let messages: Vec<Value> =
                    messages.iter().map(|message| received(message, requested)).collect();
                return Ok(json!({ "Messages": messages }));
            }
            if remaining.is_zero() {
                return Ok(json!({}));
            }
            let pause = if has_hidden { remaining.min(POLL_PERIOD) } else { remaining };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn delete(&self, request: &Fields, entry: &Fields) -> Result<Value> {
        let handle = entry.receipt_handle()?;
        self.with(|queues, _| queues.delete(request.queue()?, handle))?;
        Ok(json!({}))
    }

    /// Executes each entry of a batch, so that a rejected entry does not affect the others.
    fn batch(&self, fields: &Fields, execute: impl Fn(&Fields) -> Result<Value>) -> Result<Value> {
        let (mut successful, mut failed) = (Vec::new(), Vec::new());
        self.with(|queues, _| queues.check(fields.queue()?))?;
        for entry in fields.entries()? {
            match execute(entry) {
                Ok(mut done) => {
                    done.as_object_mut().map(|done| done.insert("Id".to_owned(), entry.id.clone().into()));
                    successful.push(done);
                }
                Err(Failure(code, message)) => {
                    failed
                        .push(json!({"Id": entry.id, "SenderFault": true, "Code": code, "Message": message}));
                }
            }
        }
        Ok(json!({"Successful": successful, "Failed": failed}))
    }
}

fn is_requested(names: &[String], name: &str) -> bool {
    names.iter().any(|requested| requested == "All" || requested == name)
}

fn received(message: &Message, requested: &[String]) -> Value {
    let known = [
        ("ApproximateReceiveCount", Some(message.receives.to_string())),
        ("MessageGroupId", message.group.clone()),
        ("SenderId", Some(ACCOUNT.to_owned())),
        ("SentTimestamp", Some(message.sent_at.to_string())),
    ];
    let known = known.into_iter().filter(|(name, _)| is_requested(requested, name));
    let attributes: Map<String, Value> =
        known.filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect();
    json!({
        "MessageId": message.id,
        "ReceiptHandle": message.receipt_handle(),
        "Body": message.body,
        "MD5OfBody": md5_of(&message.body),
        "Attributes": attributes,
    })
}

fn md5_of(body: &str) -> String {
    Md5::digest(body).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn respond(answer: Result<Value>) -> Response<Full<Bytes>> {
    let (status, body) = match answer {
        Ok(body) => (StatusCode::OK, body),
        Err(Failure(shape, message)) => {
            let body = json!({"__type": format!("com.amazonaws.sqs#{shape}"), "message": message});
            (StatusCode::BAD_REQUEST, body)
        }
    };
    dynamodb::respond(status, body.to_string())
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::Client;
    use aws_sdk_sqs::error::ProvideErrorMetadata;
    use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName, SendMessageBatchRequestEntry};

    use super::*;
    use crate::sdk;

    async fn start(clock: &Clock) -> (Server, Client) {
        let sqs = super::start(http::bind_loopback(0).await.unwrap(), &None, clock).unwrap();
        let client = sdk::sqs(&sqs.url());
        (sqs, client)
    }

    async fn queue() -> (Server, Client, String) {
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
        assert_eq!(code(send(eleven).await), "TooManyEntriesInBatchRequest");
        assert_eq!(code(send(vec![]).await), "EmptyBatchRequest");
        let half = "x".repeat(MAX_MESSAGE_BYTES / 2 + 1);
        let heavy = vec![entry("a", &half, 0), entry("b", &half, 0)];
        assert_eq!(code(send(heavy).await), "BatchRequestTooLong");

        let mixed = send(vec![entry("a", "x", 900), entry("b", "x", 901), entry("c", "", 0)]).await.unwrap();
        assert_eq!(mixed.successful.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["a"]);
        let failed: Vec<(&str, &str)> =
            mixed.failed.iter().map(|entry| (entry.id.as_str(), entry.code.as_str())).collect();
        assert_eq!(failed, [("b", "InvalidParameterValue"), ("c", "MissingParameter")]);
    }
}
