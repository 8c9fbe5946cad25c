//! Trials of the service with faults of the services that it calls. They run the service in their own process,
//! so that they can kill a single function and wait until nothing more happens; the soak runs it as a program, which
//! it kills. `docs/testing.md` describes them.
#![allow(clippy::indexing_slicing, reason = "a JSON value has null for a field that is missing")]

pub mod call;
pub mod fault;
pub mod front;
pub mod iam;
pub mod proxy;
pub mod pump;
pub mod scenarios;
pub mod simulation;
pub mod trial;

use std::process::ExitCode;

use shared::store::{Item, Store};
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
    exit_code(trial.await.map(|failed| if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

/// Returns the rows of the due index.
pub async fn due_rows(store: &Store) -> Result<Vec<Item>> {
    let scan = store.client().scan().table_name(store.table()).index_name("due");
    let rows: std::result::Result<Vec<Item>, _> = scan.into_paginator().items().send().collect().await;
    rows.map_err(Error::of("reading the due index"))
}
