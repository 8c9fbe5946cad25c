//! A trial of hot partitions. `docs/throttle-trial.md` describes it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use trials::throttle::{Options, Report, Sample, percentile, run};
use trials::{Error, Result, exit_code, in_directory, program, say};

/// Let one account pay several times as many charges as its partitions accept, and compare the latency of another
/// account with that without the load.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The write units that a partition key accepts in a second; AWS accepts 1000
    #[arg(long, default_value_t = 20)]
    ceiling: u16,
    /// The write units that a paid charge costs in the hottest partition of its account, as `cargo bench -p local`
    /// prints them
    #[arg(long, default_value_t = 2.0)]
    units: f64,
    /// How many times its ceiling the busy account offers
    #[arg(long, default_value_t = 5.0)]
    times: f64,
    /// How many charges the busy account offers in a second [default: --times its ceiling]
    #[arg(long)]
    busy: Option<u32>,
    /// How many charges the other account creates and pays in a second
    #[arg(long, default_value_t = 3)]
    quiet: u32,
    /// The duration of each phase in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// The program of the service [default: `local` beside this program]
    #[arg(long, value_name = "PATH")]
    service: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(trial(Arguments::parse()).await)
}

async fn trial(arguments: Arguments) -> Result<ExitCode> {
    let own_ceiling = f64::from(arguments.ceiling) / arguments.units;
    let busy_rate = match arguments.busy {
        Some(rate) => rate,
        None => format!("{:.0}", own_ceiling * arguments.times).parse().map_err(Error::of("--times"))?,
    };
    let directory = std::env::temp_dir().join(format!("throttle-trial-{}", std::process::id()));
    let options = Options {
        service: program(arguments.service, "local")?,
        directory: directory.clone(),
        ceiling: arguments.ceiling,
        busy_rate,
        quiet_rate: arguments.quiet,
        phase: Duration::from_secs(arguments.seconds),
    };
    say(format_args!(
        "{} units a second for each partition key, {own_ceiling:.1} paid charges a second for an account; \
         the busy account offers {} a second, the other {}",
        options.ceiling, options.busy_rate, options.quiet_rate
    ));
    let report = run(&options).await.map_err(in_directory(&options.directory))?;
    print(&report, arguments.seconds);
    let _ = std::fs::remove_dir_all(&directory);
    Ok(if report.missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(report: &Report, seconds: u64) {
    say(format_args!(
        "{:<32} {:>8} {:>9} {:>9} {:>9}   {:>9} {:>9}  statuses",
        "account", "paid/s", "median", "99 %", "longest", "webhook", "99 %"
    ));
    for (name, sample) in [
        ("the other account alone", &report.quiet_alone),
        ("the other beside the busy one", &report.quiet_beside),
        ("the busy account", &report.busy),
    ] {
        print_sample(name, sample, seconds);
    }
    match report.drained {
        Some(took) => say(format_args!(
            "all webhooks of answered payments had arrived {:.1} s after the end of the load",
            took.as_secs_f64()
        )),
        None => say(format_args!("{} webhooks of answered payments did not arrive", report.missing)),
    }
}

fn print_sample(name: &str, sample: &Sample, seconds: u64) {
    let Sample { requests, webhooks, statuses, .. } = sample;
    let of_requests = [50, 99, 100].map(|percent| percentile(requests, percent));
    let of_webhooks = [50, 99].map(|percent| percentile(webhooks, percent));
    let paid = u32::try_from(sample.paid()).unwrap_or(u32::MAX);
    let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
    say(format_args!(
        "{name:<32} {:>8.1} {:>9.1?} {:>9.1?} {:>9.1?}   {:>9.1?} {:>9.1?}  {statuses:?}",
        f64::from(paid) / f64::from(seconds),
        of_requests[0],
        of_requests[1],
        of_requests[2],
        of_webhooks[0],
        of_webhooks[1],
    ));
}
