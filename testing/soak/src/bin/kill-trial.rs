//! A trial of kills and of a full disk. `docs/reliability.md` describes it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use trials::kill::{Options, run};
use trials::{Programs, Result, conclude, exit_code, in_directory, say, say_counts};

/// Kill the service at random times under load, during its first start and while an operator works, and check
/// that everything it answered is there once.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How often the service is killed under load
    #[arg(long, default_value_t = 20)]
    kills: usize,
    /// How many services are killed during their first start, each up to three times
    #[arg(long, default_value_t = 2, value_name = "N")]
    first_starts: usize,
    /// How often the disk is filled under load; needs --directory on a small disk
    #[arg(long, default_value_t = 0, requires = "directory", value_name = "N")]
    fills: usize,
    /// The seed of what is done and of the times of the kills
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The directory of the state and the log [default: a new one for temporary files]
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    programs: Programs,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(trial(Arguments::parse()).await)
}

async fn trial(arguments: Arguments) -> Result<ExitCode> {
    let started = Instant::now();
    let name = format!("kill-trial-{}-{}", arguments.seed, std::process::id());
    let directory = arguments.directory.unwrap_or_else(std::env::temp_dir).join(name);
    let (service, admin) = arguments.programs.find()?;
    let options = Options {
        service,
        admin,
        directory: directory.clone(),
        seed: arguments.seed,
        kills: arguments.kills,
        first_starts: arguments.first_starts,
        fills: arguments.fills,
    };
    let report = run(&options).await.map_err(in_directory(&directory))?;
    say_counts(&report.counts, &report.repetitions);
    say(format_args!("duration {:.0} s", started.elapsed().as_secs_f64()));
    Ok(conclude(&report.violations, &directory, false))
}
