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

/// Returns a place among so many. Without dice the last.
fn place(dice: Option<&Dice>, purpose: &str, count: usize) -> usize {
    let last = count.saturating_sub(1);
    let chosen = dice.map(|dice| dice.below(purpose, u64::try_from(count).unwrap_or_default()));
    chosen.map_or(last, |chosen| usize::try_from(chosen).unwrap_or(last))
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
        let sqs = local::sdk::sqs(&trial.stack.endpoints.sqs_url);
        let (read_up_to, delivered, failures) = (None, VecDeque::new(), 0);
        Ok(Self { sqs, filters, sources, schedules, read_up_to, delivered, failures })
    }

    /// Delivers something, chosen by chance.
    pub async fn act(&mut self, trial: &Trial, dice: &Dice) -> Result<()> {
        let queues = self.sources.len().saturating_sub(SHARDS);
        match dice.below("delivery", 10) {
            0..=3 => drop(self.deliver(trial, place(Some(dice), "shard", SHARDS), Some(dice)).await?),
            4..=7 => {
                let queue = place(Some(dice), "queue", queues).saturating_add(SHARDS);
                self.deliver(trial, queue, Some(dice)).await?;
            }
            8 => self.schedule(trial, place(Some(dice), "schedule", self.schedules.len())).await,
            _ => self.deliver_again(trial, dice).await,
        }
        Ok(())
    }

    /// Delivers everything that there is, each once, and runs the schedules.
    pub async fn drain(&mut self, trial: &Trial) -> Result<()> {
        for _ in 0..MOST_FAILURES {
            let mut is_busy = false;
            for source in 0..self.sources.len() {
                is_busy |= self.deliver(trial, source, None).await?;
            }
            if !is_busy {
                break;
            }
        }
        for schedule in 0..self.schedules.len() {
            self.schedule(trial, schedule).await;
        }
        Ok(())
    }

    /// Reads the new records of the stream.
    fn read(&mut self, trial: &Trial) -> Result<()> {
        let records = stream_records(&trial.stack.database(), "StateTable", self.read_up_to.as_deref());
        for record in records.map_err(Error::of("reading the stream"))? {
            self.read_up_to = sequence_number(&record).map(str::to_owned).or(self.read_up_to.take());
            if self.filters.iter().any(|filter| filter.matches(&record)) {
                let key = record["dynamodb"]["Keys"].to_string();
                let sum =
                    key.bytes().fold(0, |sum: usize, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
                if let Some(shard) = self.sources.get_mut(sum % SHARDS) {
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

    /// Delivers the first records or messages of a source, by chance or each once. Returns whether one was processed.
    async fn deliver(&mut self, trial: &Trial, source: usize, dice: Option<&Dice>) -> Result<bool> {
        let chance = |purpose: &str| dice.is_some_and(|dice| dice.chance(purpose, 100));
        self.read(trial)?;
        let queue = self.sources.get(source).and_then(|source| source.queue.clone());
        let received = match &queue {
            Some(queue) => self.receive(trial, queue).await?,
            None => Vec::new(),
        };
        let Some(Source { function, waiting, .. }) = self.sources.get_mut(source) else { return Ok(false) };
        waiting.extend(received);
        let most = place(dice, "records", if queue.is_some() { 10 } else { 20 }).saturating_add(1);
        let batch: Vec<Value> = waiting.drain(..most.min(waiting.len())).collect();
        if batch.is_empty() {
            return Ok(false);
        }
        let event = json!({ "Records": batch });
        if queue.is_some() && chance("two workers") {
            // The visibility of the messages ended while a worker was slow. The other one's outcome counts.
            let _ =
                tokio::join!(invoke(trial, function, event.clone()), invoke(trial, function, event.clone()));
        }
        let failed = invoke(trial, function, event).await.map(|response| batch_item_failures(&response));
        let is_failed = |record: &Value| {
            let id = record["messageId"].as_str().or_else(|| sequence_number(record));
            failed.as_ref().map_or(true, |failed| failed.iter().any(|one| Some(one.as_str()) == id))
        };
        if queue.is_some() {
            // SQS may deliver a message again that was processed.
            let stays = |record: &Value| is_failed(record) || chance(text(record, "messageId"));
            let is_done = !batch.iter().all(is_failed);
            waiting.extend(batch.into_iter().filter(stays));
            return Ok(is_done);
        }
        let done = batch.iter().position(is_failed).unwrap_or(batch.len());
        // As after a lost response of the function, Lambda delivers the whole batch again.
        let kept = if chance("again") { 0 } else { done };
        batch.iter().skip(kept).rev().for_each(|record| waiting.push_front(record.clone()));
        self.delivered.extend(batch.into_iter().take(done));
        let forgotten = self.delivered.len().saturating_sub(REMEMBERED);
        self.delivered.drain(..forgotten);
        self.failures = if done > 0 { 0 } else { self.failures.saturating_add(1) };
        if dice.is_none() && self.failures > MOST_FAILURES {
            return Err(Error::new("a stream record keeps failing"));
        }
        Ok(done > 0)
    }

    /// Delivers some records once more that were processed long ago, in any order.
    async fn deliver_again(&self, trial: &Trial, dice: &Dice) {
        let rolled = self.delivered.iter().enumerate();
        let rolled = rolled.map(|(index, record)| (dice.roll(&format!("record {index}")), record));
        let mut chosen: Vec<(u64, &Value)> = rolled.filter(|(roll, _)| roll.is_multiple_of(10)).collect();
        chosen.sort_by_key(|(roll, _)| *roll);
        let records: Vec<&Value> = chosen.into_iter().map(|(_, record)| record).collect();
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
