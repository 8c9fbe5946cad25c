//! Generated events of the scheduler.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::mutation::{Mutation, mutated, mutations};
use super::{Property, TIME_LIMIT, check, runtime};
use crate::support::Service;

fn event() -> impl Strategy<Value = (Index, Vec<Mutation>)> {
    (any::<Index>(), mutations())
}

/// Whatever the event is, the function ends in time: with a result, or with an error that Lambda reports.
#[test]
fn any_event_of_the_scheduler_ends_without_a_panic() {
    let runtime = runtime();
    let _entered = runtime.enter();
    let service = runtime.block_on(Service::without_event_sources());
    let valid = [json!({}), json!({"shard": 0}), json!({"task": "recover-messages"})];
    let property = Property { source_file: file!(), cases: 100, limit: TIME_LIMIT };
    check(&property, &runtime, &event(), &async |(event, mutations), _log| {
        let scheduler = service.stack.functions.get("SchedulerFunction").unwrap().clone();
        let Ok(event) = serde_json::from_slice::<Value>(&mutated(event.get(&valid[..]), &mutations)) else {
            return;
        };
        if let Err(error) = scheduler(event).await {
            assert!(!error.contains("panicked"), "{error}");
        }
    });
}
