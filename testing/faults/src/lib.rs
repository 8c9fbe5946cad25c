//! Trials of the service with faults of the services that it calls. They run the service in their own process,
//! so that they can kill a single function and wait until nothing more happens. `docs/testing.md`
//! describes them.
#![allow(clippy::indexing_slicing, reason = "a JSON value has null for a field that is missing")]

pub mod call;
pub mod fault;
pub mod front;
pub mod proxy;
pub mod pump;
mod rows;
pub mod scenarios;
pub mod simulation;
pub mod trial;

use std::process::ExitCode;

use tokio::task::{JoinSet, LocalSet};
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use world::exit_code;
pub use world::{Error, Result, say};

/// Runs a trial, which returns how many of its runs failed. The log of the service goes to the standard error if
/// `RUST_LOG` asks for it.
pub async fn run_trial(trial: impl Future<Output = Result<usize>>) -> ExitCode {
    let lines = tracing_subscriber::fmt::layer().compact().with_writer(std::io::stderr);
    tracing_subscriber::registry().with(lines.with_filter(shared::log::filter("off"))).init();
    let failed = LocalSet::new().run_until(trial).await;
    exit_code(failed.map(|failed| if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

/// Runs a trial for each input, so many at the same time, and hands over each outcome.
pub async fn run_each<I, O: 'static, F: Future<Output = O> + 'static>(
    jobs: usize,
    inputs: impl Iterator<Item = I>,
    run: impl Fn(I) -> F,
    mut ended: impl FnMut(O),
) -> Result<()> {
    let (mut running, mut inputs) = (JoinSet::new(), inputs.fuse());
    loop {
        while running.len() < jobs.max(1)
            && let Some(input) = inputs.next()
        {
            running.spawn_local(run(input));
        }
        let Some(outcome) = running.join_next().await else { return Ok(()) };
        ended(outcome.map_err(Error::of("a run ended"))?);
    }
}
