//! A trial of live charges at the local bank. `docs/live-trial.md` describes it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use trials::plan::{Plan, Sizes};
use trials::run::{Options, Report, run};
use trials::{Programs, Result, conclude, exit_code, in_directory, say};

/// Use many live charges while the bank fails at random and the service is killed, and compare the bank's books
/// with the service's at the end.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The number of charges
    #[arg(long, default_value_t = 300)]
    charges: usize,
    /// The seed of the plan
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How far the bank's clock is ahead of the service's, in seconds; negative: behind
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_name = "SECONDS")]
    skew: i64,
    /// How many charges are used at the same time; with 1, the order of the steps follows from the seed
    #[arg(long, default_value_t = 8)]
    concurrency: usize,
    /// How often the service is killed [default: once for 250 charges, at least twice]
    #[arg(long)]
    kills: Option<usize>,
    #[command(flatten)]
    programs: Programs,
    /// Keep the directory with the state and the log, also without violations
    #[arg(long)]
    keep: bool,
}

/// For how many charges the service is killed once, by default.
const CHARGES_PER_KILL: usize = 250;

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(trial(Arguments::parse()).await)
}

async fn trial(arguments: Arguments) -> Result<ExitCode> {
    let started = Instant::now();
    let kills = arguments.kills.unwrap_or((arguments.charges / CHARGES_PER_KILL).max(2));
    let plan = Plan::new(arguments.seed, Sizes { charges: arguments.charges, kills });
    let directory = format!("live-trial-{}-{}", arguments.seed, std::process::id());
    let directory = std::env::temp_dir().join(directory);
    let (service, admin) = arguments.programs.find()?;
    let options = Options {
        service,
        admin,
        directory: directory.clone(),
        skew_seconds: arguments.skew,
        concurrency: arguments.concurrency,
    };
    let replay = format!(
        "live-trial --charges {} --seed {} --skew {} --concurrency {} --kills {kills}",
        arguments.charges, arguments.seed, arguments.skew, arguments.concurrency
    );
    say(format_args!("{replay}"));
    say(format_args!(
        "plan {}: {} steps, {kills} kills; state in {}",
        plan.digest(),
        plan.steps(),
        directory.display()
    ));
    let report = run(plan, options).await.map_err(in_directory(&directory))?;
    print(&report);
    say(format_args!("duration {:.0} s", started.elapsed().as_secs_f64()));
    let violations = &report.findings.violations;
    let code = conclude(violations, &directory, arguments.keep);
    if !violations.is_empty() {
        say(format_args!("replay: {replay}"));
    }
    Ok(code)
}

fn print(report: &Report) {
    let findings = &report.findings;
    let table = |title: &str, counts: &BTreeMap<String, u64>| {
        say(format_args!("\n{title}"));
        for (name, count) in counts {
            say(format_args!("  {count:>7}  {name}"));
        }
    };
    table("charges", &findings.charges);
    table("Pix received", &findings.pix);
    table("devoluções", &findings.returns);
    table("Pix sent", &findings.sent);
    table("refunds", &findings.refunds);
    table("faults that occurred", &report.faults);
    table("requests that were repeated", &report.repetitions);
    say("");
    for line in &report.operator {
        say(line);
    }
    say(format_args!("kills {}; outcomes {}", report.kills, report.digest));
}
