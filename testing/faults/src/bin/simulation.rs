//! A simulation of merchants, payers and operators, with faults by chance, against an independent model.
//! `docs/testing.md` describes it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use faults::simulation::{simulate, steps};
use faults::{Result, run_trial, say};
use futures_util::{StreamExt as _, stream};
use world::{Counts, add};

/// Simulate merchants, payers and operators while calls fail, and compare the service with a model
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, counted from the first
    #[arg(long, default_value_t = 1, value_name = "N")]
    seeds: u64,
    /// Simulate further seeds for so many minutes
    #[arg(long, value_name = "M", conflicts_with = "seeds")]
    minutes: Option<u64>,
    /// The number of steps of each seed
    #[arg(long, default_value_t = 60, value_name = "N")]
    steps: usize,
    /// How many simulations there are at the same time
    #[arg(long, default_value_t = 4, value_name = "N")]
    jobs: usize,
}

/// How many simulations may be used to shorten the story of a failure.
const MOST_SHORTENINGS: usize = 80;

#[tokio::main]
async fn main() -> ExitCode {
    run_trial(Box::pin(run(&Arguments::parse()))).await
}

/// Simulates the chosen seeds. Returns how many failed.
async fn run(arguments: &Arguments) -> Result<usize> {
    let started = Instant::now();
    let limit = arguments.minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
    let is_wanted = |seed: &u64| match limit {
        Some(limit) => started.elapsed() < limit,
        None => *seed < arguments.seed.saturating_add(arguments.seeds),
    };
    let seeds = (arguments.seed..).take_while(is_wanted);
    let count = arguments.steps;
    let run = |seed| async move { (seed, Box::pin(simulate(seed, &steps(seed, count))).await) };
    let (mut passed, mut failed, mut totals) = (0_usize, Vec::new(), Counts::new());
    let mut outcomes = stream::iter(seeds).map(run).buffer_unordered(arguments.jobs.max(1));
    while let Some((seed, outcome)) = outcomes.next().await {
        match outcome {
            Ok(of_seed) => {
                passed = passed.saturating_add(1);
                for (what, number) in of_seed {
                    add(&mut totals, what, number);
                }
            }
            Err(error) => {
                say(format_args!("seed {seed} failed: {error}"));
                failed.push(seed);
            }
        }
    }
    for seed in &failed {
        Box::pin(tell(*seed, arguments.steps)).await;
    }
    let totals: Vec<String> = totals.iter().map(|(what, number)| format!("{number} {what}")).collect();
    say(totals.join(", "));
    say(format_args!(
        "{passed} of {} seeds passed, {} steps each, {:.0} s",
        passed.saturating_add(failed.len()),
        arguments.steps,
        started.elapsed().as_secs_f64(),
    ));
    Ok(failed.len())
}

/// Prints the shortest story of a seed that still fails, as far as it is found.
async fn tell(seed: u64, count: usize) {
    let mut story = steps(seed, count);
    let mut left = MOST_SHORTENINGS;
    let mut part = story.len();
    while part > 1 {
        part = part.div_ceil(2);
        let mut place = 0;
        while place < story.len() && left > 0 {
            let (mut shorter, end) = (story.clone(), place.saturating_add(part));
            shorter.drain(place..end.min(story.len()));
            left = left.saturating_sub(1);
            if Box::pin(simulate(seed, &shorter)).await.is_err() {
                story = shorter;
            } else {
                place = end;
            }
        }
    }
    match Box::pin(simulate(seed, &story)).await {
        Ok(_) => say(format_args!(
            "seed {seed} does not fail each time; again: simulation --seed {seed} --steps {count}"
        )),
        Err(error) => {
            say(format_args!("seed {seed}, {} of {count} steps:", story.len()));
            for step in &story {
                say(format_args!("  {step}"));
            }
            say(format_args!("  {error}\n  again: simulation --seed {seed} --steps {count}"));
        }
    }
}
