//! Generated inputs of the functions that no HTTP request reaches: stream records, queue messages, and answers of
//! receivers and banks. No input may make a function panic or run long, and a bad input must not affect the good
//! ones beside it. `.ci/schemathesis` generates requests.
//!
//! `docs/testing.md` says how to run more cases, and how to repeat a failing one.

mod answers;
mod bank;
mod batches;
#[path = "../../../../../acquirers/pix/tests/api/mutation.rs"]
mod mutation;

use std::cell::RefCell;
use std::fmt::Debug;
use std::time::Duration;

use local::event_sources::sequence_number;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::invocations::stream_records_after;
use crate::support::{CapturedLog, Service};

/// The longest that a function may take. It is a thousand times what it usually takes, because the machine may
/// be busy. API Gateway waits for at most 30 s.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// A runtime with one thread, so that [`CapturedLog`] has the log of all tasks.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A property of generated cases.
struct Property {
    /// The file of the test, for the cases that failed before.
    source_file: &'static str,
    /// The number of cases, unless the variable `PROPTEST_CASES` has another one.
    cases: u32,
    /// The longest that a case may take.
    limit: Duration,
}

impl Property {
    fn config(&self) -> Config {
        let config = Config::with_source_file(self.source_file);
        if std::env::var_os("PROPTEST_CASES").is_some() {
            config
        } else {
            Config { cases: self.cases, ..config }
        }
    }
}

/// Checks a property. A case fails if it takes too long, or if a function panics, also
/// where the panic is caught and reported as a failed message. Fails with the smallest case that was found.
fn check<S, F>(property: &Property, runtime: &Runtime, strategy: &S, run: &F)
where
    S: Strategy,
    S::Value: Debug,
    F: AsyncFn(S::Value, &CapturedLog),
{
    let (limit, mut runner) = (property.limit, TestRunner::new(property.config()));
    let outcome = runner.run(strategy, |case| {
        let log = CapturedLog::start();
        let run = async { tokio::time::timeout(limit, run(case, &log)).await };
        prop_assert!(runtime.block_on(run).is_ok(), "it takes longer than {limit:?}");
        prop_assert!(!log.text().contains("panicked"), "a function panics:\n{}", log.text());
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Reads the stream of a service from where it last ended.
#[derive(Default)]
struct StreamReader(RefCell<Option<String>>);

impl StreamReader {
    fn new_records(&self, service: &Service) -> Vec<Value> {
        let after = self.0.borrow().clone();
        let records = stream_records_after(&service.stack, after.as_deref());
        if let Some(last) = records.last() {
            *self.0.borrow_mut() = Some(sequence_number(last).unwrap().to_owned());
        }
        records
    }
}
