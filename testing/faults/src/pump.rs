//! Invokes the functions of the stream, the queues and the schedules, in place of the event sources: late,
//! twice, and out of order. The records of one row keep their order, as in DynamoDB.

use std::collections::VecDeque;

use aws_sdk_sqs::types::MessageSystemAttributeName;
use local::event_sources::{batch_item_failures, lambda_record, sequence_number, stream_records};
use local::filter::Pattern;
use local::template::{Template, queue_arn, queue_url};
use serde_json::{Value, json};
use world::dice::Dice;
use world::http::text;

use crate::trial::Trial;
use crate::{Error, Result};

/// The shards of the stream: a row's records are in one of them.
const SHARDS: usize = 3;

/// The most records that are kept to be delivered once more.
const REMEMBERED: usize = 200;

/// How often one record may fail while nothing disturbs it.
const MOST_FAILURES: usize = 60;

/// The function of the stream.
const DISPATCHER: &str = "EventDispatcherFunction";

/// Where records of the stream or messages wait for their function.
struct Source {
    function: String,
    /// `None`: a shard of the stream.
    queue: Option<String>,
    waiting: VecDeque<Value>,
}

/// Delivers records, messages and schedules.
pub struct Pump {
    sqs: aws_sdk_sqs::Client,
    filters: Vec<Pattern>,
    /// The shards come first.
    sources: Vec<Source>,
    /// The scheduled functions with their events.
    schedules: Vec<(String, Value)>,
    /// The sequence number of the last record that was read.
    read_up_to: Option<String>,
    /// Records that were processed.
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
    pub fn new(trial: &Trial) -> Result<Self> {
        let template = Template::deployed().map_err(Error::of("reading the template"))?;
        let mut filters = Vec::new();
        let source =
            |function: &str, queue| Source { function: function.to_owned(), queue, waiting: VecDeque::new() };
        let mut sources: Vec<Source> = (0..SHARDS).map(|_| source(DISPATCHER, None)).collect();
        let mut schedules = Vec::new();
        for function in &template.functions {
            let id = &function.logical_id;
            filters.extend(function.streams.iter().flat_map(|stream| stream.filters.iter().cloned()));
            sources.extend(function.queues.iter().map(|queue| source(id, Some(queue.queue.clone()))));
            let inputs = function.schedules.iter().filter_map(|schedule| schedule.input.clone());
            schedules.extend(inputs.map(|input| (id.clone(), input)));
        }
        Ok(Self {
            sqs: local::sdk::sqs(&trial.stack.endpoints.sqs_url),
            filters,
            sources,
            schedules,
            read_up_to: None,
            delivered: VecDeque::new(),
            failures: 0,
        })
    }

    /// Delivers something, chosen by chance.
    pub async fn act(&mut self, trial: &Trial, dice: &Dice, place: usize) -> Result<()> {
        let manner = Manner::ByChance(dice, place);
        match dice.below(&format!("delivery {place}"), 10) {
            0..=3 => {
                let shard = manner.up_to("shard", SHARDS).saturating_sub(1);
                self.deliver(trial, shard, manner).await?;
            }
            4..=7 => {
                let queue = manner.up_to("queue", self.sources.len().saturating_sub(SHARDS));
                self.deliver(trial, queue.saturating_add(SHARDS).saturating_sub(1), manner).await?;
            }
            8 => {
                let schedule = manner.up_to("schedule", self.schedules.len()).saturating_sub(1);
                self.schedule(trial, schedule).await;
            }
            _ => self.deliver_again(trial, dice, place).await,
        }
        Ok(())
    }

    /// Delivers everything that there is. Returns whether there was anything.
    pub async fn drain(&mut self, trial: &Trial) -> Result<bool> {
        let mut was_busy = false;
        for _ in 0..MOST_FAILURES {
            let mut is_busy = false;
            for source in 0..self.sources.len() {
                is_busy |= self.deliver(trial, source, Manner::Once).await?;
            }
            was_busy |= is_busy;
            if !is_busy {
                break;
            }
        }
        for schedule in 0..self.schedules.len() {
            self.schedule(trial, schedule).await;
        }
        Ok(was_busy)
    }

    /// Reads the new records of the stream.
    fn read(&mut self, trial: &Trial) -> Result<()> {
        let records = stream_records(&trial.stack.database(), "StateTable", self.read_up_to.as_deref());
        for record in records.map_err(Error::of("reading the stream"))? {
            if let Some(number) = sequence_number(&record) {
                self.read_up_to = Some(number.to_owned());
            }
            if self.filters.iter().any(|filter| filter.matches(&record)) {
                let key = record.pointer("/dynamodb/Keys").map(Value::to_string).unwrap_or_default();
                let sum =
                    key.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
                if let Some(shard) = self.sources.get_mut(sum.checked_rem(SHARDS).unwrap_or_default()) {
                    shard.waiting.push_back(record);
                }
            }
        }
        Ok(())
    }

    /// Takes messages from a queue. From now on, they are only delivered by this.
    async fn receive(&self, trial: &Trial, queue: &str) -> Result<Vec<Value>> {
        let url = queue_url(&trial.stack.endpoints.sqs_url, queue);
        let receive = self.sqs.receive_message().queue_url(&url).max_number_of_messages(10);
        let received = receive.message_system_attribute_names(MessageSystemAttributeName::All).send().await;
        let messages = received.map_err(Error::of("receiving messages"))?.messages.unwrap_or_default();
        for handle in messages.iter().filter_map(|message| message.receipt_handle()) {
            let delete = self.sqs.delete_message().queue_url(&url).receipt_handle(handle);
            delete.send().await.map_err(Error::of("deleting a message"))?;
        }
        Ok(messages.iter().map(|message| lambda_record(message, &queue_arn(queue))).collect())
    }

    /// Delivers the first records or messages of a source. Returns whether one was processed.
    async fn deliver(&mut self, trial: &Trial, source: usize, manner: Manner<'_>) -> Result<bool> {
        self.read(trial)?;
        let queue = self.sources.get(source).and_then(|source| source.queue.clone());
        let received = match &queue {
            Some(queue) => self.receive(trial, queue).await?,
            None => Vec::new(),
        };
        let Some(Source { function, waiting, .. }) = self.sources.get_mut(source) else { return Ok(false) };
        waiting.extend(received);
        let count = manner.up_to("records", if queue.is_some() { 10 } else { 20 }).min(waiting.len());
        let batch: Vec<Value> = waiting.drain(..count).collect();
        if batch.is_empty() {
            return Ok(false);
        }
        let event = json!({ "Records": batch });
        if queue.is_some() && manner.chance("two workers", 100) {
            // The visibility of the messages ended while a worker was slow. The other one's outcome counts.
            let _ =
                tokio::join!(invoke(trial, function, event.clone()), invoke(trial, function, event.clone()));
        }
        let failed = invoke(trial, function, event).await.map(|response| batch_item_failures(&response));
        let is_failed = |record: &Value| {
            let id = record["messageId"].as_str().or_else(|| sequence_number(record));
            failed.as_ref().map_or(true, |failed| failed.iter().any(|one| Some(one.as_str()) == id))
        };
        let done = if queue.is_some() {
            let done = batch.iter().filter(|record| !is_failed(record)).count();
            // SQS may deliver a message again that was processed.
            let stays = |record: &Value| is_failed(record) || manner.chance(text(record, "messageId"), 100);
            waiting.extend(batch.into_iter().filter(stays));
            done
        } else {
            let done = batch.iter().position(is_failed).unwrap_or(batch.len());
            // As after a lost response of the function, Lambda delivers the whole batch again.
            let kept = if manner.chance("again", 100) { 0 } else { done };
            batch.iter().skip(kept).rev().for_each(|record| waiting.push_front(record.clone()));
            self.delivered.extend(batch.into_iter().take(done));
            let forgotten = self.delivered.len().saturating_sub(REMEMBERED);
            self.delivered.drain(..forgotten);
            self.failures = if done > 0 { 0 } else { self.failures.saturating_add(1) };
            done
        };
        if matches!(manner, Manner::Once) && self.failures > MOST_FAILURES {
            return Err(Error::new("a stream record keeps failing"));
        }
        Ok(done > 0)
    }

    /// Delivers some records once more that were processed long ago, in any order.
    async fn deliver_again(&self, trial: &Trial, dice: &Dice, place: usize) {
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
            let _ = invoke(trial, DISPATCHER, json!({ "Records": records })).await;
        }
    }

    /// Runs a schedule. What fails is repeated the next time.
    async fn schedule(&self, trial: &Trial, schedule: usize) {
        if let Some((function, event)) = self.schedules.get(schedule) {
            let _ = invoke(trial, function, event.clone()).await;
        }
    }
}

async fn invoke(trial: &Trial, function: &str, event: Value) -> std::result::Result<Value, String> {
    match trial.stack.functions.get(function) {
        Some(invoke) => invoke(event).await,
        None => Err(format!("there is no {function}")),
    }
}
