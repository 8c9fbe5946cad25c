//! The soak: puts the whole service under load while it is disturbed, and compares at the end what was answered with
//! what it shows. `docs/testing.md` describes it.
#![allow(clippy::indexing_slicing, reason = "a JSON value has null for a field that is missing")]

mod load;
mod service;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use load::Soak;
use world::plan::Method;
use world::{Error, Result, exit_code, say};

/// The time between two steps of the clock.
const TICK: Duration = Duration::from_secs(5);

/// Put the service under a mixed load while its acquirers fail, it is killed, its disk is full, its clock advances by days
/// or its partitions are throttled. At the end, everything that was answered must be there once, everything must have
/// ended, and the acquirers' books must agree.
#[derive(Clone, Parser)]
#[command(version)]
struct Options {
    /// How long the load lasts
    #[arg(long, default_value_t = 10.0, value_name = "N", value_parser = positive)]
    minutes: f64,
    /// End after so many charges instead
    #[arg(long, conflicts_with = "minutes", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    charges: Option<u32>,
    /// How many charges are created in a second
    #[arg(long, default_value_t = 2.0, value_name = "N", value_parser = positive)]
    rate: f64,
    /// By how many days the clock advances during the load
    #[arg(long, default_value_t = 1)]
    days: u32,
    /// How often the service is killed under load; if at all, also during its first start
    #[arg(long, default_value_t = 0)]
    kills: usize,
    /// How often the disk is filled under load; needs --directory on a small disk and --methods without live ones,
    /// because the local acquirers do not continue after a full disk
    #[arg(long, default_value_t = 0, requires = "directory", value_name = "N")]
    fill: usize,
    /// How charges are paid, with commas: live by the names of the API (`PIX`, `CREDIT_CARD`, `BOLETO`, `MULTIBANCO`,
    /// `MBWAY`, `CRYPTO`), in test mode by the same in lower case; or `all`
    #[arg(
        long,
        value_parser = Method::parse_list,
        default_value = "PIX,CREDIT_CARD,pix,credit_card,mbway,multibanco,boleto,crypto"
    )]
    methods: Methods,
    /// The write units that a partition key accepts in a second. The second account creates one charge in ten
    #[arg(long, value_name = "UNITS", value_parser = clap::value_parser!(u16).range(1..))]
    throttle: Option<u16>,
    /// The seed of what is done and of the times of the kills
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The directory of the state and the log [default: a new one for temporary files]
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
}

impl Options {
    fn duration(&self) -> Duration {
        let seconds = self.charges.map_or(self.minutes * 60.0, |charges| f64::from(charges) / self.rate);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

/// So that one value is a list.
type Methods = Vec<Method>;

fn positive(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.01..=100_000.0).contains(number));
    number.ok_or_else(|| "must be a number from 0.01 to 100000".to_owned())
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(Box::pin(run(Options::parse())).await)
}

async fn run(options: Options) -> Result<ExitCode> {
    if options.fill > 0 && options.methods.iter().any(|method| method.is_live()) {
        return Err(Error::new("--fill needs --methods without live ones"));
    }
    let began = Instant::now();
    let directory = options.directory.clone().unwrap_or_else(std::env::temp_dir);
    let directory = directory.join(format!("soak-{}-{}", options.seed, std::process::id()));
    say(format_args!("seed {}; state and log are in {}", options.seed, directory.display()));
    let soak = Soak::start(options, directory.clone()).await?;
    Box::pin(soak.load_and_disturb()).await?;
    soak.calm().await?;
    soak.settle().await?;
    let (counts, violations) = soak.compare().await?;
    for (name, count) in counts {
        say(format_args!("{count:>7}  {name}"));
    }
    say(format_args!("{:.0} s; {} violations", began.elapsed().as_secs_f64(), violations.len()));
    for violation in &violations {
        say(format_args!("  {violation}"));
    }
    if violations.is_empty() {
        let _ = std::fs::remove_dir_all(&directory);
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}
