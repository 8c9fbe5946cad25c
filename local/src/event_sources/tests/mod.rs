//! Tests of the event sources with the embedded services. This module contains the tests' helpers.

mod schedule;
mod stream;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use domain::row::Key;
use domain::time::Timestamp;
use serde_json::{Value, json};
use shared::clock::Clock;
use shared::store::due_attributes;
use tokio::sync::watch;

use super::{Dependencies, EventSources};
use crate::embedded::{Embedded, Listen, State};
use crate::lambda::{Functions, Invoke, event_function};
use crate::provision::provision;
use crate::sdk;
use crate::template::{TEMPLATE, Template};

/// The events that a function received.
type Received = Arc<Mutex<Vec<Value>>>;

/// Returns a function that records its events and returns the result of `respond`.
fn recording(
    received: &Received,
    respond: impl Fn(&Value) -> Result<Value, String> + Send + Sync + 'static,
) -> Invoke {
    let received = Arc::clone(received);
    event_function(move |event: Value| {
        let response = respond(&event);
        received.lock().unwrap().push(event);
        async move { response }
    })
}

#[expect(clippy::unnecessary_wraps, reason = "`recording` takes functions that can fail")]
fn succeed(_: &Value) -> Result<Value, String> {
    Ok(json!({"batchItemFailures": []}))
}

/// The embedded services and the deployed template. Stream records are in one lane, so that their batches are known.
struct Fixture {
    embedded: Embedded,
    directory: Option<PathBuf>,
    template: Template,
}

impl Fixture {
    async fn start(state: State) -> Self {
        let text = TEMPLATE.replace("ParallelizationFactor: 10", "ParallelizationFactor: 1");
        let template = Template::parse(&text).unwrap();
        let embedded = Embedded::start(&state, Listen::AnyPort, &Clock::default()).await.unwrap();
        provision(&template, &embedded.database(), &embedded.endpoints()).await.unwrap();
        let directory = state.directory().cloned();
        Self { embedded, directory, template }
    }

    /// Starts the event sources with `invoke` as `function`. All other functions succeed without effect.
    fn event_sources(&self, function: &str, invoke: Invoke) -> EventSources {
        let mut functions = Functions::new();
        for other in &self.template.functions {
            functions = functions.with(&other.logical_id, recording(&Received::default(), succeed));
        }
        let functions = functions.with(function, invoke);
        EventSources::start(Dependencies {
            template: &self.template,
            functions: &functions,
            endpoints: &self.embedded.endpoints(),
            database: &self.embedded.database(),
            directory: self.directory.as_ref(),
            clock: &Clock::default(),
            run_schedules_now: &watch::Sender::default(),
        })
        .unwrap()
    }

    /// Writes a row that passes the stream's filters.
    async fn put_charge(&self, id: &str) {
        self.put(&format!("charge#{id}"), "charge", HashMap::new()).await;
    }

    /// Writes a row that is due at this time.
    async fn put_due_row(&self, pk: &str, at: Timestamp) {
        let key = Key { pk: pk.to_owned(), sk: "row".to_owned() };
        self.put(&key.pk, &key.sk, HashMap::from(due_attributes(&key, at))).await;
    }

    async fn put(&self, pk: &str, sk: &str, mut item: HashMap<String, AttributeValue>) {
        for (name, value) in [("pk", pk), ("sk", sk)] {
            item.insert(name.to_owned(), AttributeValue::S(value.to_owned()));
        }
        let client = sdk::dynamodb(&self.embedded.endpoints().dynamodb_url);
        client.put_item().table_name("StateTable").set_item(Some(item)).send().await.unwrap();
    }
}

/// Returns the charge ids in a stream event.
fn charge_ids(event: &Value) -> Vec<String> {
    let records = event["Records"].as_array().unwrap();
    let pk = |record: &Value| record["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap().to_owned();
    records.iter().map(|record| pk(record).trim_start_matches("charge#").to_owned()).collect()
}

/// Returns the values that `extract` finds in all received events.
fn all(received: &Received, extract: fn(&Value) -> Vec<String>) -> Vec<String> {
    received.lock().unwrap().iter().flat_map(extract).collect()
}

async fn wait_until(what: &str, condition: impl AsyncFn() -> bool) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < Duration::from_secs(20), "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
