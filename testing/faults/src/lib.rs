//! Trials of the service with faults of the services that it calls. They run the service in their own process,
//! so that they can kill a single function and wait until nothing more happens. `docs/testing.md`
//! describes them.
#![allow(clippy::indexing_slicing, reason = "a JSON value has null for a field that is missing")]

pub mod call;
pub mod fault;
pub mod front;
pub mod scenarios;
pub mod simulation;
pub mod world;

use std::process::ExitCode;

use soak::exit_code;
pub use soak::{Error, Result, say};
use tokio::task::LocalSet;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Runs a trial, which returns how many of its runs failed. The log of the service goes to the standard error if
/// `RUST_LOG` asks for it.
pub async fn run_trial(trial: impl Future<Output = Result<usize>>) -> ExitCode {
    let lines = tracing_subscriber::fmt::layer().compact().with_writer(std::io::stderr);
    tracing_subscriber::registry().with(lines.with_filter(shared::log::filter("off"))).init();
    let failed = LocalSet::new().run_until(trial).await;
    exit_code(failed.map(|failed| if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}
