//! Every crash point: runs each scenario once for each call that a function makes in it and each way in which
//! that call can fail, and compares the end with that of a run without a fault. `docs/testing.md`
//! describes it.
//!
//! A run has one fault. The functions, the stream, the queues and the scheduler then finish what they can,
//! while the clock advances. The end is compared by what a merchant, an operator and the bank see: payments,
//! refunds, cases, wallets, statistics, events, deliveries, received webhooks, audit rows, the bank's books,
//! the ledger's verification, and the rows that are still due.
#![allow(clippy::indexing_slicing, reason = "a JSON value has null for a field that is missing")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use serde_json::Value;

use faults::call::Call;
use faults::fault::Fault;
use faults::scenarios::{self, Scenario};
use faults::trial::{ROUND_S, Trial};
use faults::{Error, Result, run_trial, say};
use futures_util::{StreamExt as _, stream};
use world::plan::Load;

/// The rounds after the steps of a scenario without a fault.
const ROUNDS: u32 = 5;

/// The scenario without steps: the first one.
const IDLE: &str = "idle";

/// How many calls with the same description fail in a scenario, if `idle` makes such calls too. A schedule repeats its
/// calls, and some of them for each partition and period.
const MOST_ALIKE: usize = 12;

/// One run in so many may not reach its call, because a slow machine divides the work otherwise. More would mean that
/// the names of calls do not find them again.
const REACHED_OF: usize = 5;

/// The most rounds of a run with a fault, until its end is that of the run without.
const MOST_ROUNDS: u32 = 25;

/// How often a run is repeated in which the planned call was not made, because the work was divided otherwise.
const MOST_ATTEMPTS: u32 = 3;

/// Fail each call of each scenario once in each way, and check that nothing is lost or doubled
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Only this scenario; can be repeated
    #[arg(long, value_name = "NAME", hide_possible_values = true, value_parser = scenario_names())]
    scenario: Vec<String>,
    /// Only the crash points whose number divided by `--of` has this rest
    #[arg(long, value_name = "REST")]
    part: Option<usize>,
    /// How many parts there are
    #[arg(long, default_value_t = 10, value_name = "N")]
    of: usize,
    /// Only crash points whose name contains this text, such as the name that a failure prints
    #[arg(long, value_name = "TEXT")]
    point: Option<String>,
    /// How many runs there are at the same time
    #[arg(long, default_value_t = 6, value_name = "N")]
    jobs: usize,
    /// Print the crash points, and run none
    #[arg(long)]
    list: bool,
    /// Print each crash point and its outcome
    #[arg(long)]
    verbose: bool,
}

fn scenario_names() -> PossibleValuesParser {
    scenarios::ALL.iter().map(|one| one.name).collect::<Vec<_>>().into()
}

/// A call of a scenario, how it fails, and what is seen at the end without a fault.
struct Point {
    scenario: Scenario,
    call: Call,
    fault: Fault,
    expected: Rc<Value>,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.call, self.fault)
    }
}

enum Outcome {
    Survived,
    /// The planned call was not made.
    NotReached,
    Failed(String),
}

#[tokio::main]
async fn main() -> ExitCode {
    run_trial(Box::pin(run(&Arguments::parse()))).await
}

/// Runs the chosen crash points. Returns how many failed.
async fn run(arguments: &Arguments) -> Result<usize> {
    let started = Instant::now();
    let is_in_part =
        |number: usize| arguments.part.is_none_or(|rest| number.checked_rem(arguments.of) == Some(rest));
    let is_named =
        |point: &Point| arguments.point.as_ref().is_none_or(|text| point.to_string().contains(text));
    let all = all_points(&arguments.scenario).await?.into_iter().enumerate();
    let all = all.filter(|(number, _)| is_in_part(*number)).map(|(_, point)| point);
    let points: Vec<Point> = all.filter(is_named).collect();
    if arguments.list {
        for point in &points {
            say(format_args!("{} {point}", point.scenario.name));
        }
        return Ok(0);
    }
    let (count, mut not_reached, mut failed) = (points.len(), 0_usize, 0_usize);
    let run = |point| async move { (run_with_fault(&point).await, point) };
    let mut outcomes = stream::iter(points).map(run).buffer_unordered(arguments.jobs.max(1));
    while let Some((outcome, point)) = outcomes.next().await {
        let scenario = point.scenario.name;
        match outcome {
            Outcome::Survived if arguments.verbose => say(format_args!("  survived {scenario} {point}")),
            Outcome::Survived => {}
            Outcome::NotReached => {
                not_reached = not_reached.saturating_add(1);
                say(format_args!("  not reached: {scenario} {point}"));
            }
            Outcome::Failed(why) => {
                failed = failed.saturating_add(1);
                say(format_args!(
                    "  FAILED {point}\n{why}\n    again: crash-points --scenario {scenario} --point '{point}'"
                ));
            }
        }
    }
    say(format_args!(
        "{} of {count} crash points survived, {not_reached} were not reached, {failed} failed, {:.0} s",
        count.saturating_sub(not_reached).saturating_sub(failed),
        started.elapsed().as_secs_f64(),
    ));
    // A few points may all be unreachable.
    if not_reached.saturating_mul(REACHED_OF) > count && count > REACHED_OF {
        return Err(Error::new(format!("more than one of {REACHED_OF} crash points was not reached")));
    }
    Ok(failed)
}

/// Returns the crash points of these scenarios, or of all: each way in which each of their calls can fail. The calls that
/// are made without any scenario are points of the scenario `idle` only.
async fn all_points(scenarios: &[String]) -> Result<Vec<Point>> {
    let (mut points, mut background) = (Vec::new(), BTreeSet::new());
    for scenario in scenarios::ALL {
        let is_chosen = scenarios.is_empty() || scenarios.iter().any(|name| name == scenario.name);
        if !is_chosen && scenario.name != IDLE {
            continue;
        }
        let (mut calls, expected) = run_without_fault(*scenario).await?;
        calls.retain(|call| !background.contains(call));
        if scenario.name == IDLE {
            background.clone_from(&calls);
        }
        let of_schedules: BTreeSet<_> = background.iter().map(description).collect();
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        calls.retain(|call| {
            let alike = counts.entry((call.function.clone(), call.what.clone())).or_default();
            *alike = alike.saturating_add(1);
            *alike <= MOST_ALIKE || !of_schedules.contains(&description(call))
        });
        let expected = Rc::new(expected);
        for call in calls.into_iter().filter(|_| is_chosen) {
            points.extend(Fault::all_of(&call).map(|fault| Point {
                scenario: *scenario,
                call: call.clone(),
                fault,
                expected: Rc::clone(&expected),
            }));
        }
    }
    Ok(points)
}

fn description(call: &Call) -> (&str, &str) {
    (&call.function, &call.what)
}

/// Runs a scenario without a fault. Returns the calls of its functions, and what is seen at the end.
async fn run_without_fault(scenario: Scenario) -> Result<(BTreeSet<Call>, Value)> {
    let trial = Trial::start(true, Load::default()).await?;
    (scenario.steps)(&trial).await.map_err(Error::of(scenario.name))?;
    trial.idle().await?;
    for _ in 0..ROUNDS {
        trial.pass(ROUND_S).await?;
    }
    trial.front.stop_recording();
    let calls = trial.front.calls().into_iter().collect();
    let seen = trial.observe().await?;
    trial.stack.stop().await;
    Ok((calls, seen))
}

async fn run_with_fault(point: &Point) -> Outcome {
    for _ in 0..MOST_ATTEMPTS {
        match Box::pin(attempt(point)).await {
            Ok(Outcome::NotReached) => {}
            Ok(outcome) => return outcome,
            Err(error) => return Outcome::Failed(format!("    {error}")),
        }
    }
    Outcome::NotReached
}

async fn attempt(point: &Point) -> Result<Outcome> {
    let Point { scenario, expected, .. } = point;
    let trial = Trial::start(true, Load::default()).await?;
    let (planned, fault) = (point.call.clone(), point.fault);
    trial.front.set_faults(move |call| (*call == planned).then_some(fault));
    (scenario.steps)(&trial).await?;
    trial.idle().await?;
    let mut seen = Value::Null;
    // The end must be the expected one, and stay so for a round.
    let mut is_as_expected = false;
    for round in 1..=MOST_ROUNDS {
        trial.pass(ROUND_S).await?;
        // The whole takes long, and is not complete while other rows are due.
        if round < MOST_ROUNDS && trial.observe_due().await? != expected["due"] {
            is_as_expected = false;
            continue;
        }
        seen = trial.observe().await?;
        let was_as_expected = is_as_expected;
        is_as_expected = seen == **expected;
        // The planned call may be one of a later round.
        let is_over = trial.front.faults() > 0 || round >= ROUNDS;
        if was_as_expected && is_as_expected && is_over {
            break;
        }
    }
    let is_met = trial.front.faults() > 0;
    trial.stack.stop().await;
    if !is_as_expected {
        let mut lines = Vec::new();
        differences("", expected, &seen, &mut lines);
        lines.extend((!is_met).then(|| "    (the planned call was not made)".to_owned()));
        return Ok(Outcome::Failed(lines.join("\n")));
    }
    Ok(if is_met { Outcome::Survived } else { Outcome::NotReached })
}

/// Adds the fields that differ.
fn differences(path: &str, expected: &Value, seen: &Value, lines: &mut Vec<String>) {
    match (expected.as_object(), seen.as_object()) {
        (Some(left), Some(right)) => {
            for name in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
                differences(&format!("{path}/{name}"), &expected[name], &seen[name], lines);
            }
        }
        _ if expected == seen => {}
        _ => lines.push(format!("    {path}: expected {expected}, found {seen}")),
    }
}
