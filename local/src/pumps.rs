//! What invokes functions besides the HTTP API: a table's stream, a queue, a schedule. Each hands the real payload to
//! the function and honours its answer as Lambda's event source does.
//!
//! The stream's position is written after each batch, so that a restart, even after `kill -9`, goes on where the last
//! batch was done: what was handed over and not noted is handed over again, as Lambda does.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use serde_json::{Value, json};
use shared::clock::Clock;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};

use crate::embedded::{ACCOUNT, Endpoints, REGION};
use crate::error::{Error, Result};
use crate::filter::Pattern;
use crate::lambda::{Functions, Invoke};
use crate::sdk;
use crate::seed::write_whole;
use crate::shutdown::{self, Shutdown, Trigger};
use crate::template::{QueueSource, StreamSource, Template, bucket_name, queue_arn, queue_url};
use crate::wire::{Wire, WireError};

/// Pauses between polls of a stream that has nothing new: short after a change, for more may follow.
const SHORTEST_POLL: Duration = Duration::from_millis(10);
const LONGEST_POLL: Duration = Duration::from_millis(80);

/// Pauses before the same records are tried again.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// How often scheduled functions run here: what has become due happens within a second.
const TICK: Duration = Duration::from_millis(500);

/// Invocations of a queue's function at the same time, at most: of all groups, and of one.
const MAX_CONCURRENCY: usize = 50;
const GROUP_CONCURRENCY: usize = 8;

/// Batches that are received and wait for a slot of their group, at most.
const MAX_WAITING_BATCHES: usize = 1_000;

/// How often a message that waits for its group's slot is hidden again, and for how many seconds.
const HIDDEN_AGAIN: Duration = Duration::from_mins(4);
const HIDDEN_SECONDS: i32 = 360;

/// How long what runs may take to finish once the end was asked for.
const GRACE: Duration = Duration::from_secs(2);

/// How long a queue is polled at once, in seconds: stopping waits for the poll.
const POLL_SECONDS: i32 = 1;

/// When a message whose function failed is received again, in seconds.
const RETRY_SECONDS: i32 = 2;

/// How often a stream that does not answer is asked again before it is given up for a longer pause.
const BROKEN_PAUSE: Duration = Duration::from_millis(500);

/// Everything that pumps. It ends when this is dropped.
#[derive(Debug)]
pub struct Pumps {
    streams: Group,
    queues: Group,
    schedules: Group,
}

/// Tasks that end together.
#[derive(Debug)]
struct Group {
    trigger: Trigger,
    tasks: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Group {
    fn new(start: impl FnOnce(Shutdown) -> Vec<JoinHandle<()>>) -> Self {
        let (trigger, shutdown) = shutdown::channel();
        Self { trigger, tasks: tokio::sync::Mutex::new(start(shutdown)) }
    }

    /// Returns when what runs is done.
    async fn stop(&self) {
        self.trigger.fire();
        for task in self.tasks.lock().await.drain(..) {
            let _ = task.await;
        }
    }
}

/// What the pumps work with.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// What reads what.
    pub template: &'a Template,
    /// The functions.
    pub functions: &'a Functions,
    /// Where streams and queues are.
    pub endpoints: &'a Endpoints,
    /// Where positions are kept; `None`: nowhere.
    pub directory: Option<&'a PathBuf>,
    /// The time that schedules are told.
    pub clock: &'a Clock,
    /// Makes schedules run at once.
    pub nudge: &'a Arc<Notify>,
}

impl Pumps {
    /// Starts all that the template declares.
    ///
    /// # Errors
    ///
    /// When a function that reads something is missing.
    pub fn start(sources: Sources<'_>) -> Result<Self> {
        let mut streams = Vec::new();
        let mut queues = Vec::new();
        let mut schedules = Vec::new();
        for function in &sources.template.functions {
            let missing = || Error::new(format!("{} is missing", function.logical_id));
            let invoke = sources.functions.get(&function.logical_id).ok_or_else(missing)?;
            for source in &function.streams {
                streams.push(StreamPump::new(&sources, source, invoke));
            }
            for source in &function.queues {
                queues.push(QueuePump::new(&sources, source, invoke));
            }
            if !function.schedules.is_empty() {
                schedules.push(Arc::clone(invoke));
            }
        }
        let clock = sources.clock.clone();
        let nudge = Arc::clone(sources.nudge);
        Ok(Self {
            streams: Group::new(|shutdown| {
                streams.into_iter().map(|pump| tokio::spawn(pump.run(shutdown.clone()))).collect()
            }),
            queues: Group::new(|shutdown| {
                queues.into_iter().map(|pump| tokio::spawn(pump.run(shutdown.clone()))).collect()
            }),
            schedules: Group::new(|shutdown| {
                vec![tokio::spawn(run_schedules(schedules, clock, nudge, shutdown))]
            }),
        })
    }

    /// Stops reading queues, and returns when what was received is done.
    pub async fn stop_queues(&self) {
        self.queues.stop().await;
    }

    /// Stops everything, and returns when what runs is done.
    pub async fn stop(self) {
        tokio::join!(self.schedules.stop(), self.streams.stop(), self.queues.stop());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for task in self.tasks.get_mut().drain(..) {
            task.abort();
        }
    }
}

async fn run_schedules(functions: Vec<Invoke>, clock: Clock, nudge: Arc<Notify>, mut shutdown: Shutdown) {
    while !shutdown.is_requested() {
        for invoke in &functions {
            let event = json!({
                "version": "0",
                "id": uuid::Uuid::new_v4().to_string(),
                "detail-type": "Scheduled Event",
                "source": "aws.events",
                "account": ACCOUNT,
                "time": clock.now().to_iso(),
                "region": REGION,
                "resources": [],
                "detail": {},
            });
            if let Err(error) = invoke(event).await {
                tracing::error!(error, "a scheduled function failed");
            }
        }
        tokio::select! {
            () = nudge.notified() => {}
            () = tokio::time::sleep(TICK) => {}
            () = shutdown.requested() => {}
        }
    }
}

/// Reads a queue as a fair one is read: a group whose messages take long holds a few slots, not all.
struct QueuePump {
    sqs: aws_sdk_sqs::Client,
    url: String,
    arn: String,
    batch_size: i32,
    slots: Arc<Semaphore>,
    invoke: Invoke,
}

impl QueuePump {
    fn new(sources: &Sources<'_>, source: &QueueSource, invoke: &Invoke) -> Arc<Self> {
        let concurrency = source.max_concurrency.unwrap_or(MAX_CONCURRENCY).min(MAX_CONCURRENCY);
        Arc::new(Self {
            sqs: sdk::sqs(&sources.endpoints.sqs_url),
            url: queue_url(&sources.endpoints.sqs_url, &source.queue),
            arn: queue_arn(&source.queue),
            batch_size: i32::try_from(source.batch_size).unwrap_or(1).clamp(1, 10),
            slots: Arc::new(Semaphore::new(concurrency)),
            invoke: Arc::clone(invoke),
        })
    }

    async fn run(self: Arc<Self>, mut shutdown: Shutdown) {
        let mut invocations = JoinSet::new();
        let mut groups: HashMap<String, Arc<Semaphore>> = HashMap::new();
        while !shutdown.is_requested() {
            // Messages that wait for their group's slot count as received; there is an end to how many.
            if invocations.len() >= MAX_WAITING_BATCHES {
                tokio::select! {
                    _ = invocations.join_next() => {}
                    () = shutdown.requested() => break,
                }
            }
            match self.receive().await {
                Ok(messages) => {
                    for (group, batch) in by_group(messages) {
                        let slots = groups
                            .entry(group)
                            .or_insert_with(|| Arc::new(Semaphore::new(GROUP_CONCURRENCY)));
                        let (pump, group_slots) = (Arc::clone(&self), Arc::clone(slots));
                        invocations.spawn(async move {
                            let _group_slot = pump.wait_for_slot(group_slots, &batch).await;
                            let _slot = Arc::clone(&pump.slots).acquire_owned().await;
                            pump.hand_over(batch).await;
                        });
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "a queue did not answer");
                    tokio::time::sleep(BROKEN_PAUSE).await;
                }
            }
            while invocations.try_join_next().is_some() {}
            // Only a group that something waits for or runs for is remembered.
            groups.retain(|_, slots| Arc::strong_count(slots) > 1);
        }
        // What is cut short was not deleted, and comes again.
        let finished = async { while invocations.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, finished).await;
    }

    /// Waits for a slot of the group. Messages that wait long stay hidden, or they would be received again and again.
    async fn wait_for_slot(&self, slots: Arc<Semaphore>, batch: &[Message]) -> Option<OwnedSemaphorePermit> {
        let mut slot = std::pin::pin!(slots.acquire_owned());
        loop {
            tokio::select! {
                slot = slot.as_mut() => return slot.ok(),
                () = tokio::time::sleep(HIDDEN_AGAIN) => {}
            }
            for handle in batch.iter().filter_map(Message::receipt_handle) {
                let hide = self.sqs.change_message_visibility().queue_url(&self.url).receipt_handle(handle);
                let _comes_again_at_worst = hide.visibility_timeout(HIDDEN_SECONDS).send().await;
            }
        }
    }

    async fn receive(&self) -> Result<Vec<Message>> {
        let answer = self
            .sqs
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(self.batch_size)
            .wait_time_seconds(POLL_SECONDS)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .send()
            .await;
        let answer = answer.map_err(|e| Error::because("receiving messages", &e))?;
        Ok(answer.messages.unwrap_or_default())
    }

    async fn hand_over(&self, messages: Vec<Message>) {
        let records: Vec<Value> = messages.iter().map(|message| record_of(message, &self.arn)).collect();
        let failed: Vec<String> = match (self.invoke)(json!({ "Records": records })).await {
            Ok(answer) => failed_identifiers(&answer),
            Err(error) => {
                tracing::error!(error, queue = self.url, "a queue's function failed");
                messages.iter().filter_map(|message| message.message_id.clone()).collect()
            }
        };
        for message in &messages {
            let Some(handle) = message.receipt_handle() else {
                continue;
            };
            let is_failed = message.message_id().is_some_and(|id| failed.iter().any(|failed| failed == id));
            let ended = if is_failed {
                let again = self.sqs.change_message_visibility().queue_url(&self.url).receipt_handle(handle);
                again
                    .visibility_timeout(RETRY_SECONDS)
                    .send()
                    .await
                    .map(drop)
                    .map_err(|e| Error::because("hiding", &e))
            } else {
                let done = self.sqs.delete_message().queue_url(&self.url).receipt_handle(handle);
                done.send().await.map(drop).map_err(|e| Error::because("deleting", &e))
            };
            if let Err(error) = ended {
                tracing::warn!(%error, "a message comes again");
            }
        }
    }
}

/// A batch's messages by their groups, each in the order they came.
fn by_group(messages: Vec<Message>) -> BTreeMap<String, Vec<Message>> {
    let mut groups: BTreeMap<String, Vec<Message>> = BTreeMap::new();
    for message in messages {
        let group =
            message.attributes().and_then(|known| known.get(&MessageSystemAttributeName::MessageGroupId));
        groups.entry(group.cloned().unwrap_or_default()).or_default().push(message);
    }
    groups
}

fn record_of(message: &Message, arn: &str) -> Value {
    let attributes: serde_json::Map<String, Value> = message
        .attributes()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str().to_owned(), value.clone().into()))
        .collect();
    json!({
        "messageId": message.message_id(),
        "receiptHandle": message.receipt_handle(),
        "body": message.body(),
        "attributes": attributes,
        "messageAttributes": {},
        "md5OfBody": message.md5_of_body(),
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": REGION,
    })
}

/// The `batchItemFailures` of an answer.
fn failed_identifiers(answer: &Value) -> Vec<String> {
    let failures = answer.get("batchItemFailures").and_then(Value::as_array).into_iter().flatten();
    failures.filter_map(|failure| failure.get("itemIdentifier")?.as_str().map(str::to_owned)).collect()
}

/// Where a stream was read to.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
struct Position {
    shard: String,
    sequence_number: String,
}

struct StreamPump {
    wire: Wire,
    table: String,
    batch_size: usize,
    max_retries: u32,
    bisect: bool,
    bucket: Option<String>,
    filters: Vec<Pattern>,
    s3: aws_sdk_s3::Client,
    position_file: Option<PathBuf>,
    invoke: Invoke,
}

/// Records that wait to be handed over, and how often they were.
struct Batch {
    records: Vec<Value>,
    retries: u32,
}

impl StreamPump {
    fn new(sources: &Sources<'_>, source: &StreamSource, invoke: &Invoke) -> Self {
        Self {
            wire: Wire::new(&sources.endpoints.dynamodb_url),
            table: source.table.clone(),
            batch_size: source.batch_size,
            max_retries: source.max_retries.unwrap_or(u32::MAX),
            bisect: source.bisect,
            bucket: source.failures_bucket.as_deref().map(bucket_name),
            filters: source.filters.clone(),
            s3: sdk::s3(&sources.endpoints.s3_url),
            position_file: sources
                .directory
                .map(|directory| directory.join(format!("stream-{}.json", source.table))),
            invoke: Arc::clone(invoke),
        }
    }

    async fn run(self, mut shutdown: Shutdown) {
        while !shutdown.is_requested() {
            if let Err(error) = self.read(&mut shutdown).await {
                tracing::error!(%error, table = self.table, "a stream did not answer");
                tokio::select! {
                    () = tokio::time::sleep(BROKEN_PAUSE) => {}
                    () = shutdown.requested() => {}
                }
            }
        }
    }

    /// Reads on until the end is asked for, or the stream fails.
    async fn read(&self, shutdown: &mut Shutdown) -> std::result::Result<(), WireError> {
        let stream = Stream::of(&self.wire, &self.table).await?;
        let mut position = self.load().filter(|position| position.shard == stream.shard);
        let after = position.as_ref().map(|position| position.sequence_number.as_str());
        let mut iterator = stream.iterator(&self.wire, after).await?;
        let mut pause = SHORTEST_POLL;
        while !shutdown.is_requested() {
            let (records, next) = stream.records(&self.wire, &iterator, self.batch_size).await?;
            if records.is_empty() {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = shutdown.requested() => {}
                }
                pause = pause.saturating_mul(2).min(LONGEST_POLL);
            } else {
                pause = SHORTEST_POLL;
                let last = records.last().and_then(sequence_number).unwrap_or_default().to_owned();
                let records: Vec<Value> =
                    records.into_iter().filter(|record| self.is_asked_for(record)).collect();
                if !records.is_empty() && !self.hand_over(records, shutdown).await {
                    return Ok(());
                }
                let done = Position { shard: stream.shard.clone(), sequence_number: last };
                self.save(&done);
                position = Some(done);
            }
            iterator = if let Some(next) = next {
                next
            } else {
                let after = position.as_ref().map(|position| position.sequence_number.as_str());
                stream.iterator(&self.wire, after).await?
            };
        }
        Ok(())
    }

    fn is_asked_for(&self, record: &Value) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| filter.takes(record))
    }

    /// Hands a batch over until all of it is done or put aside. `false`: the end was asked for before.
    async fn hand_over(&self, records: Vec<Value>, shutdown: &mut Shutdown) -> bool {
        let mut waiting = VecDeque::from([Batch { records, retries: 0 }]);
        let mut pause = FIRST_RETRY;
        while let Some(batch) = waiting.pop_front() {
            let failed = match (self.invoke)(json!({ "Records": batch.records })).await {
                Ok(answer) => first_failure(&batch.records, &failed_identifiers(&answer)),
                Err(error) => {
                    tracing::error!(error, "the stream's function failed");
                    Some(0)
                }
            };
            let Some(failed) = failed else {
                pause = FIRST_RETRY;
                continue;
            };
            for rest in remainder(batch, failed, self.bisect).into_iter().rev() {
                if rest.retries <= self.max_retries {
                    waiting.push_front(rest);
                } else {
                    self.put_aside(&rest.records).await;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shutdown.requested() => return false,
            }
            pause = pause.saturating_mul(2).min(LONGEST_RETRY);
        }
        true
    }

    async fn put_aside(&self, records: &[Value]) {
        let Some(bucket) = &self.bucket else { return };
        let key = format!("failed-stream-records/{}.json", uuid::Uuid::new_v4());
        let body = json!({ "Records": records }).to_string().into_bytes();
        let put = self.s3.put_object().bucket(bucket).key(&key).body(body.into()).send().await;
        match put {
            Ok(_) => tracing::error!(bucket, key, "a stream record was put aside"),
            Err(error) => {
                tracing::error!(error = %Error::because("putting a record aside", &error), "a stream record is lost");
            }
        }
    }

    fn load(&self) -> Option<Position> {
        let text = std::fs::read(self.position_file.as_deref()?).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn save(&self, position: &Position) {
        let Some(file) = self.position_file.as_deref() else {
            return;
        };
        if let Err(error) = save_position(file, position) {
            // The records come again after a restart, which is safe.
            tracing::warn!(%error, "the stream's position was not noted");
        }
    }
}

fn save_position(file: &Path, position: &Position) -> Result<()> {
    let text = serde_json::to_vec(position).map_err(|e| Error::because("noting a stream's position", &e))?;
    write_whole(file, &text)
}

fn sequence_number(record: &Value) -> Option<&str> {
    record.pointer("/dynamodb/SequenceNumber")?.as_str()
}

/// Where the first of the named records is. A name that is none of the batch's counts as a failure of all, as Lambda
/// has it.
fn first_failure(records: &[Value], failed: &[String]) -> Option<usize> {
    let is_failed =
        |record: &Value| sequence_number(record).is_some_and(|number| failed.iter().any(|one| one == number));
    (!failed.is_empty()).then(|| records.iter().position(is_failed).unwrap_or_default())
}

/// What of a batch is to be handed over again when its record number `failed` was not done. What comes before it is
/// done, and its own retries are counted from there. A batch that made no progress is halved, which is no retry, so
/// that in the end one record alone is put aside.
fn remainder(batch: Batch, failed: usize, bisect: bool) -> Vec<Batch> {
    let Batch { mut records, retries } = batch;
    if failed > 0 {
        let records = records.split_off(failed.min(records.len()));
        return vec![Batch { records, retries: 1 }];
    }
    if bisect && records.len() > 1 {
        let second = records.split_off(records.len().div_ceil(2));
        return vec![Batch { records, retries }, Batch { records: second, retries: 0 }];
    }
    let retries = retries.saturating_add(1);
    vec![Batch { records, retries }]
}

/// A table's stream, which has one shard here.
struct Stream {
    arn: String,
    shard: String,
}

impl Stream {
    async fn of(wire: &Wire, table: &str) -> std::result::Result<Self, WireError> {
        let described = wire.call("DynamoDB_20120810.DescribeTable", &json!({ "TableName": table })).await?;
        let text = |value: &Value, pointer: &str| {
            let found = value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            found.ok_or_else(|| WireError::Failed(format!("the table {table} has no {pointer}")))
        };
        let arn = text(&described, "/Table/LatestStreamArn")?;
        let described =
            wire.call("DynamoDBStreams_20120810.DescribeStream", &json!({ "StreamArn": arn })).await?;
        let shard = text(&described, "/StreamDescription/Shards/0/ShardId")?;
        Ok(Self { arn, shard })
    }

    async fn iterator(&self, wire: &Wire, after: Option<&str>) -> std::result::Result<String, WireError> {
        let mut request = json!({
            "StreamArn": self.arn,
            "ShardId": self.shard,
            "ShardIteratorType": "TRIM_HORIZON",
        });
        if let (Some(number), Some(fields)) = (after, request.as_object_mut()) {
            fields.insert("ShardIteratorType".to_owned(), "AFTER_SEQUENCE_NUMBER".into());
            fields.insert("SequenceNumber".to_owned(), number.into());
        }
        let answer = wire.call("DynamoDBStreams_20120810.GetShardIterator", &request).await?;
        let iterator = answer.get("ShardIterator").and_then(Value::as_str);
        iterator.map(str::to_owned).ok_or_else(|| WireError::Failed("no shard iterator".to_owned()))
    }

    /// The next records as Lambda hands them over, and where to go on.
    async fn records(
        &self,
        wire: &Wire,
        iterator: &str,
        limit: usize,
    ) -> std::result::Result<(Vec<Value>, Option<String>), WireError> {
        let request = json!({"ShardIterator": iterator, "Limit": limit});
        let mut answer = wire.call("DynamoDBStreams_20120810.GetRecords", &request).await?;
        let next = answer.get("NextShardIterator").and_then(Value::as_str).map(str::to_owned);
        let records = match answer.get_mut("Records").map(Value::take) {
            Some(Value::Array(records)) => records,
            _ => Vec::new(),
        };
        Ok((records.into_iter().map(|record| self.as_lambda_has_it(record)).collect(), next))
    }

    fn as_lambda_has_it(&self, mut record: Value) -> Value {
        if let Some(fields) = record.as_object_mut() {
            fields.insert("eventSource".to_owned(), "aws:dynamodb".into());
            fields.insert("eventSourceARN".to_owned(), self.arn.clone().into());
            fields.insert("awsRegion".to_owned(), REGION.into());
            fields.entry("eventVersion").or_insert_with(|| "1.1".into());
        }
        record
    }
}

/// All that a table's stream still has, as Lambda hands it over.
pub async fn stream_records(dynamodb_url: &str, table: &str) -> Result<Vec<Value>> {
    let wire = Wire::new(dynamodb_url);
    let failed = |e: WireError| Error::because("reading a stream", &e);
    let stream = Stream::of(&wire, table).await.map_err(failed)?;
    let mut iterator = stream.iterator(&wire, None).await.map_err(failed)?;
    let mut all = Vec::new();
    loop {
        let (records, next) = stream.records(&wire, &iterator, 1000).await.map_err(failed)?;
        let is_end = records.is_empty();
        all.extend(records);
        match next {
            Some(next) if !is_end => iterator = next,
            _ => return Ok(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    use std::time::Instant;

    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;
    use crate::embedded::{Embedded, State};
    use crate::lambda::event_function;
    use crate::provision::provision;
    use crate::template::TEMPLATE;

    /// What a function was invoked with.
    type Seen = Arc<Mutex<Vec<Value>>>;

    /// A function that notes its events and answers by `answer`.
    fn noting(
        seen: &Seen,
        answer: impl Fn(&Value) -> std::result::Result<Value, String> + Send + Sync + 'static,
    ) -> Invoke {
        let seen = Arc::clone(seen);
        event_function(move |event: Value| {
            let answer = answer(&event);
            seen.lock().unwrap().push(event);
            async move { answer }
        })
    }

    #[expect(clippy::unnecessary_wraps, reason = "an answer like the others")]
    fn done(_: &Value) -> std::result::Result<Value, String> {
        Ok(json!({"batchItemFailures": []}))
    }

    /// The template's event sources, with few retries so that they end soon.
    struct Rig {
        embedded: Embedded,
        directory: Option<PathBuf>,
        template: Template,
        nudge: Arc<Notify>,
    }

    impl Rig {
        async fn start(state: State) -> Self {
            let text = TEMPLATE.replace("MaximumRetryAttempts: -1", "MaximumRetryAttempts: 2");
            let template = Template::parse(&text).unwrap();
            let embedded = Embedded::start(&state, &Clock::default()).await.unwrap();
            provision(&template, &embedded.endpoints()).await.unwrap();
            let directory = state.directory().cloned();
            Self { embedded, directory, template, nudge: Arc::new(Notify::new()) }
        }

        /// With `invoke` for one of the functions, and others that do nothing.
        fn pump(&self, function: &str, invoke: Invoke) -> Pumps {
            let mut functions = Functions::new();
            for other in &self.template.functions {
                functions = functions.with(&other.logical_id, noting(&Seen::default(), done));
            }
            let functions = functions.with(function, invoke);
            Pumps::start(Sources {
                template: &self.template,
                functions: &functions,
                endpoints: &self.embedded.endpoints(),
                directory: self.directory.as_ref(),
                clock: &Clock::default(),
                nudge: &self.nudge,
            })
            .unwrap()
        }

        /// Puts a charge's row, of which the function is told.
        async fn put(&self, id: &str) {
            self.put_row(&format!("charge#{id}"), "charge").await;
        }

        async fn put_row(&self, pk: &str, sk: &str) {
            let text = |text: &str| AttributeValue::S(text.to_owned());
            let client = sdk::dynamodb(&self.embedded.endpoints().dynamodb_url);
            let put = client.put_item().table_name("StateTable").item("pk", text(pk)).item("sk", text(sk));
            put.send().await.unwrap();
        }

        async fn send(&self, bodies: &[&str]) {
            let url = &self.embedded.endpoints().sqs_url;
            for body in bodies {
                let send = sdk::sqs(url).send_message().queue_url(queue_url(url, "DeliveryQueue"));
                send.message_body(*body).send().await.unwrap();
            }
        }

        /// The keys of the records that were put aside, object by object.
        async fn put_aside(&self) -> Vec<Vec<String>> {
            let s3 = sdk::s3(&self.embedded.endpoints().s3_url);
            let bucket = bucket_name("DocumentsBucket");
            let listed =
                s3.list_objects_v2().bucket(&bucket).prefix("failed-stream-records/").send().await.unwrap();
            let mut all = Vec::new();
            for object in listed.contents() {
                let object = s3.get_object().bucket(&bucket).key(object.key().unwrap()).send().await.unwrap();
                let bytes = object.body.collect().await.unwrap().into_bytes();
                all.push(keys(&serde_json::from_slice(&bytes).unwrap()));
            }
            all
        }
    }

    /// The charges that an event of a stream is about.
    fn keys(event: &Value) -> Vec<String> {
        let records = event["Records"].as_array().unwrap();
        let pk = |record: &Value| record["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap().to_owned();
        records.iter().map(|record| pk(record).trim_start_matches("charge#").to_owned()).collect()
    }

    fn bodies(event: &Value) -> Vec<String> {
        let records = event["Records"].as_array().unwrap();
        records.iter().map(|record| record["body"].as_str().unwrap().to_owned()).collect()
    }

    fn flat(seen: &Seen, names: fn(&Value) -> Vec<String>) -> Vec<String> {
        seen.lock().unwrap().iter().flat_map(names).collect()
    }

    async fn until(what: &str, condition: impl AsyncFn() -> bool) {
        let started = Instant::now();
        while !condition().await {
            assert!(started.elapsed() < Duration::from_secs(20), "never: {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn a_change_is_handed_over_soon_as_lambda_has_it() {
        let rig = Rig::start(State::InMemory).await;
        let seen = Seen::default();
        let pumps = rig.pump("EventDispatcherFunction", noting(&seen, done));
        rig.put_row("rollup#acc_1:test", "total").await;
        rig.put("a").await;
        let written = Instant::now();
        until("the change is seen", async || !seen.lock().unwrap().is_empty()).await;
        assert_eq!(flat(&seen, keys), ["a"], "of the other row it is not told");
        assert!(written.elapsed() < Duration::from_secs(2));
        let event = seen.lock().unwrap()[0].clone();
        let record = &event["Records"][0];
        assert_eq!(
            (&record["eventName"], &record["eventSource"]),
            (&json!("INSERT"), &json!("aws:dynamodb"))
        );
        assert_eq!(record["dynamodb"]["NewImage"], json!({"pk": {"S": "charge#a"}, "sk": {"S": "charge"}}));
        assert!(record["eventSourceARN"].as_str().unwrap().contains("table/StateTable/stream/"));
        // The type that functions read it with.
        let typed: aws_lambda_events::event::dynamodb::Event = serde_json::from_value(event).unwrap();
        assert_eq!(typed.records.len(), 1);
        pumps.stop().await;
    }

    #[tokio::test]
    async fn a_batch_goes_on_from_the_first_record_that_was_not_done() {
        let rig = Rig::start(State::InMemory).await;
        for pk in ["a", "b", "c", "d"] {
            rig.put(pk).await;
        }
        let seen = Seen::default();
        // Of a batch, the first record is done and the second fails: more failures than one record may have.
        let pumps = rig.pump(
            "EventDispatcherFunction",
            noting(&seen, |event| {
                let second = event.pointer("/Records/1/dynamodb/SequenceNumber");
                let failed: Vec<Value> =
                    second.map(|number| json!({"itemIdentifier": number})).into_iter().collect();
                Ok(json!({ "batchItemFailures": failed }))
            }),
        );
        until("the last record is handed over alone", async || {
            seen.lock().unwrap().iter().any(|event| keys(event) == ["d"])
        })
        .await;
        let batches: Vec<Vec<String>> = seen.lock().unwrap().iter().map(keys).collect();
        assert_eq!(batches[..4], [vec!["a", "b", "c", "d"], vec!["b", "c", "d"], vec!["c", "d"], vec!["d"]]);
        assert!(rig.put_aside().await.is_empty(), "nothing failed for good");
        pumps.stop().await;
    }

    #[tokio::test]
    async fn a_record_that_keeps_failing_is_put_aside_alone_and_the_others_are_done() {
        let rig = Rig::start(State::InMemory).await;
        for pk in ["a", "b", "bad", "c", "d"] {
            rig.put(pk).await;
        }
        let seen = Seen::default();
        let pumps = rig.pump(
            "EventDispatcherFunction",
            noting(&seen, |event| {
                if keys(event).iter().any(|key| key == "bad") {
                    Err("poison".to_owned())
                } else {
                    done(event)
                }
            }),
        );
        rig.put("later").await;
        let good = || -> BTreeSet<String> {
            let seen = seen.lock().unwrap();
            let done = seen.iter().map(keys).filter(|batch| !batch.iter().any(|key| key == "bad"));
            done.flatten().collect()
        };
        until("what comes after is done", async || good().contains("later")).await;
        assert_eq!(rig.put_aside().await, [["bad"]]);
        assert_eq!(good(), ["a", "b", "c", "d", "later"].map(str::to_owned).into());
        let alone = seen.lock().unwrap().iter().filter(|event| keys(event) == ["bad"]).count();
        assert_eq!(alone, 3, "once, and the template's retries");
        pumps.stop().await;
    }

    #[tokio::test]
    async fn a_restart_goes_on_where_the_last_batch_was_done() {
        let directory = std::env::temp_dir().join(format!("pumps-{}", uuid::Uuid::new_v4()));
        let first = Rig::start(State::Directory(directory.clone())).await;
        let seen = Seen::default();
        let pumps = first.pump("EventDispatcherFunction", noting(&seen, done));
        first.put("a").await;
        until("the position is noted", async || directory.join("stream-StateTable.json").exists()).await;
        pumps.stop().await;
        first.put("b").await;
        first.embedded.stop().await;

        let again = Rig::start(State::Directory(directory.clone())).await;
        let seen = Seen::default();
        let pumps = again.pump("EventDispatcherFunction", noting(&seen, done));
        again.put("c").await;
        until("both are seen", async || flat(&seen, keys).len() >= 2).await;
        assert_eq!(flat(&seen, keys), ["b", "c"]);
        pumps.stop().await;
        again.embedded.stop().await;
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[tokio::test]
    async fn a_message_that_was_not_done_comes_again_and_the_others_do_not() {
        let rig = Rig::start(State::InMemory).await;
        let seen = Seen::default();
        let counted = Arc::clone(&seen);
        let pumps = rig.pump(
            "WebhookWorkerFunction",
            noting(&seen, move |event| {
                let is_first = |body: &str| !flat(&counted, bodies).iter().any(|seen| seen == body);
                let failed: Vec<Value> = event["Records"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|record| record["body"] == "again" && is_first("again"))
                    .map(|record| json!({"itemIdentifier": record["messageId"]}))
                    .collect();
                if bodies(event).iter().any(|body| body == "crash") && is_first("crash") {
                    return Err("crashed".to_owned());
                }
                Ok(json!({ "batchItemFailures": failed }))
            }),
        );
        rig.send(&["once", "again"]).await;
        until("it comes again", async || {
            flat(&seen, bodies).iter().filter(|body| *body == "again").count() == 2
        })
        .await;
        rig.send(&["crash"]).await;
        until("a crash's message comes again", async || {
            flat(&seen, bodies).iter().filter(|body| *body == "crash").count() == 2
        })
        .await;
        let all = flat(&seen, bodies);
        assert_eq!(all.iter().filter(|body| *body == "once").count(), 1, "{all:?}");
        let event = seen.lock().unwrap()[0].clone();
        let record = &event["Records"][0];
        assert_eq!(record["eventSourceARN"], queue_arn("DeliveryQueue"));
        assert_eq!(record["attributes"]["ApproximateReceiveCount"], "1");
        let _: aws_lambda_events::event::sqs::SqsEvent = serde_json::from_value(event).unwrap();
        pumps.stop().await;
    }

    #[tokio::test]
    async fn a_schedule_runs_at_once_when_nudged_and_everything_stops_when_asked() {
        let rig = Rig::start(State::InMemory).await;
        let seen = Seen::default();
        let pumps = rig.pump("ClockFunction", noting(&seen, done));
        until("it runs by itself", async || seen.lock().unwrap().len() >= 2).await;
        let before = seen.lock().unwrap().len();
        rig.nudge.notify_one();
        until("it runs when nudged", async || seen.lock().unwrap().len() > before).await;
        assert_eq!(seen.lock().unwrap()[0]["detail-type"], "Scheduled Event");
        let stopping = Instant::now();
        pumps.stop().await;
        assert!(stopping.elapsed() < Duration::from_secs(5));
    }
}
