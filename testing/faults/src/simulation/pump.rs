//! Invokes the functions of the stream, the queues and the schedules, in place of the event sources: late,
//! twice, and out of order. The records of one row keep their order, as in DynamoDB.

use std::collections::VecDeque;

use aws_sdk_sqs::types::MessageSystemAttributeName;
use local::event_sources::{batch_item_failures, lambda_record, sequence_number, stream_records};
use local::filter::Pattern;
use local::template::{Template, queue_arn, queue_url};
use serde_json::{Value, json};
use soak::dice::Dice;

use crate::world::World;
use crate::{Error, Result};

/// The shards of the stream: a row's records are in one of them.
const SHARDS: usize = 3;

/// The most records that are kept to be delivered once more.
const REMEMBERED: usize = 200;

/// How often one record may fail while nothing disturbs it.
const MOST_FAILURES: usize = 60;

/// The function of the stream.
const DISPATCHER: &str = "EventDispatcherFunction";

struct QueueSource {
    name: String,
    function: String,
}

/// Delivers records, messages and schedules.
pub struct Pump {
    sqs: aws_sdk_sqs::Client,
    filters: Vec<Pattern>,
    queues: Vec<QueueSource>,
    /// The scheduled functions with their events.
    schedules: Vec<(String, Value)>,
    /// The sequence number of the last record that was read.
    read_up_to: Option<String>,
    shards: [VecDeque<Value>; SHARDS],
    delivered: VecDeque<Value>,
    failures: usize,
}

/// How messages and records are treated: by chance, or each once.
#[derive(Clone, Copy)]
enum Manner<'a> {
    ByChance(&'a Dice, usize),
    Once,
}

impl Manner<'_> {
    fn chance(self, purpose: &str, per_mille: u64) -> bool {
        match self {
            Self::ByChance(dice, place) => dice.chance(&format!("{purpose} {place}"), per_mille),
            Self::Once => false,
        }
    }

    /// Returns a number from 1 to `most`; without chance `most`.
    fn up_to(self, purpose: &str, most: usize) -> usize {
        match self {
            Self::ByChance(dice, place) => {
                let below =
                    dice.below(&format!("{purpose} {place}"), u64::try_from(most).unwrap_or_default());
                usize::try_from(below).unwrap_or_default().saturating_add(1)
            }
            Self::Once => most,
        }
    }
}

impl Pump {
    /// Reads the event sources of the template.
    pub fn new(world: &World) -> Result<Self> {
        let template = Template::deployed().map_err(Error::of("reading the template"))?;
        let mut filters = Vec::new();
        let mut queues = Vec::new();
        let mut schedules = Vec::new();
        for function in &template.functions {
            filters.extend(function.streams.iter().flat_map(|stream| stream.filters.iter().cloned()));
            queues.extend(function.queues.iter().map(|source| QueueSource {
                name: source.queue.clone(),
                function: function.logical_id.clone(),
            }));
            let inputs = function.schedules.iter().filter_map(|schedule| schedule.input.clone());
            schedules.extend(inputs.map(|input| (function.logical_id.clone(), input)));
        }
        Ok(Self {
            sqs: local::sdk::sqs(&world.stack.endpoints.sqs_url),
            filters,
            queues,
            schedules,
            read_up_to: None,
            shards: Default::default(),
            delivered: VecDeque::new(),
            failures: 0,
        })
    }

    /// Delivers something, chosen by chance.
    pub async fn act(&mut self, world: &World, dice: &Dice, place: usize) -> Result<()> {
        let manner = Manner::ByChance(dice, place);
        match dice.below(&format!("delivery {place}"), 10) {
            0..=3 => {
                self.read(world)?;
                let shard = manner.up_to("shard", SHARDS).saturating_sub(1);
                self.dispatch(world, shard, manner).await?;
            }
            4..=7 => {
                let queue = manner.up_to("queue", self.queues.len()).saturating_sub(1);
                self.process(world, queue, manner).await?;
            }
            8 => {
                let schedule = manner.up_to("schedule", self.schedules.len()).saturating_sub(1);
                self.schedule(world, schedule).await;
            }
            _ => self.deliver_again(world, dice, place).await,
        }
        Ok(())
    }

    /// Delivers everything that there is. Returns whether there was anything.
    pub async fn drain(&mut self, world: &World) -> Result<bool> {
        let mut was_busy = false;
        for _ in 0..MOST_FAILURES {
            self.read(world)?;
            let mut is_busy = false;
            for shard in 0..SHARDS {
                is_busy |= self.dispatch(world, shard, Manner::Once).await?;
            }
            for queue in 0..self.queues.len() {
                is_busy |= self.process(world, queue, Manner::Once).await?;
            }
            was_busy |= is_busy;
            if !is_busy {
                break;
            }
        }
        for schedule in 0..self.schedules.len() {
            self.schedule(world, schedule).await;
        }
        Ok(was_busy)
    }

    /// Reads the new records of the stream.
    fn read(&mut self, world: &World) -> Result<()> {
        let records = stream_records(&world.stack.database(), "StateTable", self.read_up_to.as_deref());
        for record in records.map_err(Error::of("reading the stream"))? {
            if let Some(number) = sequence_number(&record) {
                self.read_up_to = Some(number.to_owned());
            }
            if self.filters.iter().any(|filter| filter.matches(&record)) {
                let key = record.pointer("/dynamodb/Keys").map(Value::to_string).unwrap_or_default();
                let sum =
                    key.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
                if let Some(shard) = self.shards.get_mut(sum.checked_rem(SHARDS).unwrap_or_default()) {
                    shard.push_back(record);
                }
            }
        }
        Ok(())
    }

    /// Delivers the first records of a shard. Returns whether one was processed.
    async fn dispatch(&mut self, world: &World, shard: usize, manner: Manner<'_>) -> Result<bool> {
        let Some(waiting) = self.shards.get_mut(shard) else { return Ok(false) };
        let count = manner.up_to("records", 20).min(waiting.len());
        let batch: Vec<Value> = waiting.drain(..count).collect();
        if batch.is_empty() {
            return Ok(false);
        }
        let done = match invoke(world, DISPATCHER, json!({ "Records": batch })).await {
            Ok(response) => {
                let failed = batch_item_failures(&response);
                let is_failed = |record: &Value| {
                    sequence_number(record).is_some_and(|number| failed.iter().any(|one| one == number))
                };
                if failed.is_empty() {
                    batch.len()
                } else {
                    batch.iter().position(is_failed).unwrap_or_default()
                }
            }
            Err(_) => 0,
        };
        // As after a lost response of the function, Lambda delivers the whole batch again.
        let kept = if manner.chance("again", 100) { 0 } else { done };
        for record in batch.iter().skip(kept).rev() {
            if let Some(waiting) = self.shards.get_mut(shard) {
                waiting.push_front(record.clone());
            }
        }
        self.delivered.extend(batch.into_iter().take(done));
        while self.delivered.len() > REMEMBERED {
            self.delivered.pop_front();
        }
        self.failures = if done > 0 { 0 } else { self.failures.saturating_add(1) };
        if matches!(manner, Manner::Once) && self.failures > MOST_FAILURES {
            return Err(Error::new("a stream record keeps failing".to_owned()));
        }
        Ok(done > 0)
    }

    /// Delivers some records once more that were processed long ago, in any order.
    async fn deliver_again(&self, world: &World, dice: &Dice, place: usize) {
        let chosen = self
            .delivered
            .iter()
            .enumerate()
            .filter(|(index, _)| dice.chance(&format!("record {index} {place}"), 100));
        let mut chosen: Vec<(u64, Value)> = chosen
            .map(|(index, record)| (dice.roll(&format!("order {index} {place}")), record.clone()))
            .collect();
        chosen.sort_by_key(|(order, _)| *order);
        let records: Vec<Value> = chosen.into_iter().map(|(_, record)| record).collect();
        if !records.is_empty() {
            // A failure is what Lambda would repeat; these records were processed before.
            let _ = invoke(world, DISPATCHER, json!({ "Records": records })).await;
        }
    }

    /// Processes messages of a queue. Returns whether there was one.
    async fn process(&mut self, world: &World, queue: usize, manner: Manner<'_>) -> Result<bool> {
        let Some(QueueSource { name, function }) = self.queues.get(queue) else { return Ok(false) };
        let url = queue_url(&world.stack.endpoints.sqs_url, name);
        let count = i32::try_from(manner.up_to("messages", 10)).unwrap_or(10);
        let received = self
            .sqs
            .receive_message()
            .queue_url(&url)
            .max_number_of_messages(count)
            .visibility_timeout(3_600)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .send()
            .await;
        let messages = received.map_err(Error::of("receiving messages"))?.messages.unwrap_or_default();
        if messages.is_empty() {
            return Ok(false);
        }
        let arn = queue_arn(name);
        let records: Vec<Value> = messages.iter().map(|message| lambda_record(message, &arn)).collect();
        let event = json!({ "Records": records });
        if manner.chance("two workers", 100) {
            // The visibility of the messages ended while a worker was slow. The other one's outcome counts.
            let _ =
                tokio::join!(invoke(world, function, event.clone()), invoke(world, function, event.clone()));
        }
        let failed = match invoke(world, function, event).await {
            Ok(response) => batch_item_failures(&response),
            Err(_) => messages.iter().filter_map(|message| message.message_id.clone()).collect(),
        };
        for message in &messages {
            let handle = message.receipt_handle().unwrap_or_default();
            let is_failed = message.message_id().is_some_and(|id| failed.iter().any(|one| one == id));
            // SQS may deliver a message again that was processed.
            if is_failed || manner.chance(message.message_id().unwrap_or_default(), 100) {
                let change = self.sqs.change_message_visibility().queue_url(&url).receipt_handle(handle);
                change.visibility_timeout(0).send().await.map_err(Error::of("returning a message"))?;
            } else {
                let delete = self.sqs.delete_message().queue_url(&url).receipt_handle(handle);
                delete.send().await.map_err(Error::of("deleting a message"))?;
            }
        }
        Ok(failed.len() < messages.len())
    }

    /// Runs a schedule. What fails is repeated the next time.
    async fn schedule(&self, world: &World, schedule: usize) {
        if let Some((function, event)) = self.schedules.get(schedule) {
            let _ = invoke(world, function, event.clone()).await;
        }
    }
}

async fn invoke(world: &World, function: &str, event: Value) -> std::result::Result<Value, String> {
    match world.stack.functions.get(function) {
        Some(invoke) => invoke(event).await,
        None => Err(format!("there is no {function}")),
    }
}
