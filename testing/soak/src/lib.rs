//! Trials of the whole service: programs that use it from outside, as merchants, payers, banks and operators,
//! while it is disturbed, and that compare the results with their own logic. `docs/live-trial.md` describes
//! them.
//!
//! This crate shares no code with the service, so that it can't share its mistakes.

pub mod admin;
pub mod dice;
pub mod http;
pub mod kill;
pub mod listener;
pub mod long;
pub mod observe;
pub mod plan;
pub mod run;
pub mod service;
pub mod throttle;
pub mod verify;
pub mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

/// Why a trial could not be carried out. It says nothing about the service's correctness.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    /// Creates an error.
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

/// The result of a part of a trial.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns the path of a program of the workspace, by default beside this one.
///
/// # Errors
///
/// When there is no such program.
pub fn program(named: Option<PathBuf>, name: &str) -> Result<PathBuf> {
    let beside = || {
        let own = std::env::current_exe().ok()?;
        Some(own.with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
    };
    let path = named.or_else(beside).unwrap_or_default();
    match std::path::absolute(&path) {
        Ok(absolute) if Path::exists(&absolute) => Ok(absolute),
        _ => Err(Error::new(format!(
            "there is no {}; build it with `cargo build --bin {name}`, or name it with --{}",
            path.display(),
            if name == "local" { "service" } else { "admin" },
        ))),
    }
}

/// The programs that a trial starts.
#[derive(Args, Clone, Debug)]
pub struct Programs {
    /// The program of the service [default: `local` beside this program]
    #[arg(long, value_name = "PATH")]
    service: Option<PathBuf>,
    /// The program of the operator's command [default: `admin` beside this program]
    #[arg(long, value_name = "PATH")]
    admin: Option<PathBuf>,
}

impl Programs {
    /// Returns the paths of the service and of the operator's command.
    ///
    /// # Errors
    ///
    /// When one of them does not exist.
    pub fn find(self) -> Result<(PathBuf, PathBuf)> {
        Ok((program(self.service, "local")?, program(self.admin, "admin")?))
    }
}

/// Returns a function that adds to an error where the state and the log of a trial are.
pub fn in_directory(directory: &Path) -> impl FnOnce(Error) -> Error {
    move |error| Error(format!("{error}; state and log are in {}", directory.display()))
}

/// Prints the violations that a trial found, and where its state and log are. Without violations, removes them,
/// unless `keep` is set. Returns the exit code.
pub fn conclude(violations: &[String], directory: &Path, keep: bool) -> ExitCode {
    if violations.is_empty() {
        say("no violations");
        if !keep {
            let _ = std::fs::remove_dir_all(directory);
        }
        return ExitCode::SUCCESS;
    }
    say(format_args!("\n{} violations:", violations.len()));
    for violation in violations {
        say(format_args!("  {violation}"));
    }
    say(format_args!("state and log are in {}", directory.display()));
    ExitCode::FAILURE
}

/// Prints what was counted, and how often requests were repeated, by reason.
pub fn say_counts(counts: &BTreeMap<&'static str, impl fmt::Display>, repetitions: &BTreeMap<String, u64>) {
    for (name, count) in counts {
        say(format_args!("{count:>7}  {name}"));
    }
    for (reason, count) in repetitions {
        say(format_args!("{count:>7}  requests repeated: {reason}"));
    }
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
