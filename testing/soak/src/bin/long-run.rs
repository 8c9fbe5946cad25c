//! A long run under a mixed load. `docs/reliability.md` describes it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use trials::long::{Options, run};
use trials::{Error, Programs, Result, conclude, exit_code, in_directory, say_counts};

/// Offer a mixed load at a constant rate while the clock advances by weeks, and check that everything ends, that
/// expired rows and old stream records are deleted, and that memory and files do not grow without reason.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How long the load lasts
    #[arg(long, default_value_t = 120)]
    minutes: u32,
    /// By how many days the clock advances during the load
    #[arg(long, default_value_t = 90)]
    days: u32,
    /// How many charges are created in a second
    #[arg(long, default_value_t = 4.0, value_name = "N")]
    charges_per_second: f64,
    /// The seed of what is done
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A file for all samples, with separators for spreadsheets
    #[arg(long, value_name = "PATH")]
    csv: Option<PathBuf>,
    /// The directory of the state and the log [default: a new one for temporary files]
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    programs: Programs,
    /// Keep the directory with the state and the log, also without violations
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(trial(Arguments::parse()).await)
}

async fn trial(arguments: Arguments) -> Result<ExitCode> {
    let pause = Duration::try_from_secs_f64(arguments.charges_per_second.recip());
    let pause = pause.map_err(Error::of("--charges-per-second"))?;
    let name = format!("long-run-{}-{}", arguments.seed, std::process::id());
    let directory = arguments.directory.unwrap_or_else(std::env::temp_dir).join(name);
    let (service, admin) = arguments.programs.find()?;
    let options = Options {
        service,
        admin,
        directory: directory.clone(),
        seed: arguments.seed,
        duration: Duration::from_mins(1).saturating_mul(arguments.minutes),
        days: arguments.days,
        pause,
        csv: arguments.csv,
    };
    let report = run(&options).await.map_err(in_directory(&directory))?;
    say_counts(&report.counts, &report.repetitions);
    Ok(conclude(&report.violations, &directory, arguments.keep))
}
