//! Trials of the service with faults of the services that it calls. They run the service in their own process,
//! so that they can kill a single function and wait until nothing more happens. `docs/reliability.md`
//! describes them.
#![allow(clippy::indexing_slicing, reason = "a JSON value has null for a field that is missing")]

pub mod call;
pub mod fault;
pub mod front;
pub mod scenarios;
pub mod simulation;
pub mod world;

use std::fmt;
use std::io::Write as _;

/// Why a run could not be carried out or compared.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    /// Creates an error.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns a function that names what failed.
    pub fn of<E: fmt::Display>(what: &str) -> impl FnOnce(E) -> Self {
        move |error| Self(format!("{what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The result of a part of a run.
pub type Result<T> = std::result::Result<T, Error>;

/// Prints a line. Ignores the error of a closed terminal.
pub fn say(line: impl fmt::Display) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
