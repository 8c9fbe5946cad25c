//! The world around the service: merchants, their webhook server, payers and acquirers, who act by plans ([`act`],
//! [`plan`]), and a verifier ([`verify`]). The programs of `faults` disturb the service in this world.
//!
//! This crate shares no code with the service, so that it can't share its mistakes.
#![allow(clippy::indexing_slicing, reason = "a JSON value has null for a field that is missing")]

pub mod act;
pub mod dice;
pub mod http;
pub mod listener;
pub mod plan;
pub mod verify;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

/// Why a trial could not be carried out. It says nothing about the service's correctness.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns a function that names what failed.
    pub fn of<E: fmt::Display>(what: &str) -> impl FnOnce(E) -> Self {
        move |error| Self(format!("{what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

/// Numbers for a report, by name.
pub type Counts = BTreeMap<String, u64>;

pub fn count(counts: &mut Counts, name: impl fmt::Display) {
    add(counts, name.to_string(), 1);
}

pub fn add(counts: &mut Counts, name: String, number: u64) {
    let count = counts.entry(name).or_default();
    *count = count.saturating_add(number);
}

/// Returns the exit code of a trial. If the trial could not be carried out, prints the error; the code is then 2.
pub fn exit_code(trial: Result<ExitCode>) -> ExitCode {
    trial.unwrap_or_else(|error| {
        say(format_args!("error: {error}"));
        ExitCode::from(2)
    })
}

/// Prints a line. Ignores the error of a closed terminal.
pub fn say(line: impl fmt::Display) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
