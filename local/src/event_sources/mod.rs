//! Event sources invoke functions for changed rows of a table, messages of a queue, and schedules.
//!
//! They replace Lambda's event source mappings and EventBridge. A function receives the same JSON event as on
//! AWS, and its response has the same effect: failed items are retried.
//!
//! Delivery is at least once. A checkpoint is written when all records up to it are processed. After a restart, even
//! after `kill -9`, the stream is read from its last checkpoint. A batch that was processed but not
//! checkpointed is delivered again.

mod checkpoint;
mod due_rows;
mod lanes;
mod queue;
mod schedule;
mod shard;
mod stream;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use shared::clock::Clock;
use shared::store::Store;
use tokio::sync::{Mutex, RwLock, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::checkpoint::CheckpointFile;
use self::due_rows::DueRows;
use self::queue::QueuePoller;
pub use self::queue::lambda_record;
use self::schedule::ScheduledFunction;
pub use self::shard::{sequence_number, stream_records};
use self::stream::StreamPoller;
use crate::embedded::Endpoints;
use crate::embedded::dynamodb::Database;
use crate::error::{Error, Result};
use crate::lambda::Functions;
use crate::sdk;
use crate::template::{STATE_TABLE, Template};

/// Pause before the next poll when a queue or a stream returned an error.
const ERROR_PAUSE: Duration = Duration::from_millis(500);

/// Dropping this aborts their tasks.
#[derive(Debug)]
pub struct EventSources {
    shutdown: CancellationToken,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Clone, Copy)]
pub struct Dependencies<'a> {
    pub template: &'a Template,
    pub functions: &'a Functions,
    pub endpoints: &'a Endpoints,
    pub database: &'a Database,
    /// `None`: none are saved, and each start reads the streams from the oldest record.
    pub directory: Option<&'a PathBuf>,
    pub clock: &'a Clock,
    /// A message on this channel runs the schedules at once.
    pub run_schedules_now: &'a watch::Sender<()>,
    /// Each invocation for a stream holds it for reading.
    pub streaming: &'a Arc<RwLock<()>>,
}

impl EventSources {
    pub fn start(dependencies: Dependencies<'_>) -> Result<Self> {
        let shutdown = CancellationToken::new();
        // The sources share clients, because creating one takes milliseconds in a development build.
        let sqs = sdk::sqs(&dependencies.endpoints.sqs_url);
        let store = Store::new(sdk::dynamodb(&dependencies.endpoints.dynamodb_url), STATE_TABLE);
        let mut tasks = JoinSet::new();
        for function in &dependencies.template.functions {
            let missing = || Error::new(format!("{} is missing", function.logical_id));
            let invoke = dependencies.functions.get(&function.logical_id).ok_or_else(missing)?;
            for source in &function.streams {
                let poller = StreamPoller::new(&dependencies, source, invoke);
                tasks.spawn(poller.run(shutdown.clone()));
            }
            for source in &function.queues {
                let poller = QueuePoller::new(&sqs, &dependencies.endpoints.sqs_url, source, invoke);
                tasks.spawn(poller.run(shutdown.clone()));
            }
            for schedule in &function.schedules {
                let shard = schedule.input.as_ref().and_then(|input| input.get("shard")?.as_u64());
                let shard = shard.and_then(|shard| u8::try_from(shard).ok());
                let due_rows = shard.map(|shard| DueRows::new(store.clone(), dependencies.database, shard));
                let scheduled =
                    ScheduledFunction { schedule: schedule.clone(), invoke: Arc::clone(invoke), due_rows };
                let (clock, run_now) =
                    (dependencies.clock.clone(), dependencies.run_schedules_now.subscribe());
                tasks.spawn(schedule::run(scheduled, clock, run_now, shutdown.clone()));
            }
        }
        Ok(Self { shutdown, tasks: Mutex::new(tasks) })
    }

    pub async fn stop(&self) {
        self.shutdown.cancel();
        let mut tasks = self.tasks.lock().await;
        while tasks.join_next().await.is_some() {}
    }
}

/// Removes the checkpoints of all streams, so that the next start reads the streams from their oldest records.
pub(crate) fn remove_checkpoints(directory: &PathBuf, template: &Template) -> Result<()> {
    template
        .tables
        .iter()
        .try_for_each(|table| CheckpointFile::new(Some(directory), &table.logical_id).remove())
}

pub fn batch_item_failures(response: &Value) -> Vec<String> {
    let failures = response.get("batchItemFailures").and_then(Value::as_array).into_iter().flatten();
    failures.filter_map(|failure| failure.get("itemIdentifier")?.as_str().map(str::to_owned)).collect()
}
