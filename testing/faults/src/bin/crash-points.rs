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
use faults::{Error, Result, run_each, run_trial, say};
use world::plan::Load;

/// The rounds after the steps of a scenario without a fault.
const ROUNDS: u32 = 5;

/// The scenario without steps: the first one.
const IDLE: &str = "idle";

/// How many calls with the same description `idle` fails. A schedule repeats its calls, and some of them for each
/// partition and period.
const MOST_ALIKE: u32 = 12;

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

/// A call and how it fails.
type Point = (Call, Fault);

#[derive(PartialEq)]
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
    let is_chosen =
        |one: &&Scenario| arguments.scenario.is_empty() || arguments.scenario.iter().any(|n| n == one.name);
    let background = match scenarios::ALL.first() {
        Some(idle) => run_without_fault(*idle).await?.0,
        None => BTreeSet::new(),
    };
    let (mut all, mut outcomes) = (0_usize, Vec::new());
    for scenario in scenarios::ALL.iter().filter(is_chosen) {
        let (points, of_scenario) = run_scenario(arguments, *scenario, &background).await?;
        all = all.saturating_add(points);
        outcomes.extend(of_scenario);
    }
    let (survived, not_reached) =
        (count(&outcomes, &Outcome::Survived), count(&outcomes, &Outcome::NotReached));
    let failed = outcomes.len().saturating_sub(survived).saturating_sub(not_reached);
    say(format_args!("{survived} of {all} crash points survived, {not_reached} were not reached"));
    if failed > 0 {
        say(format_args!("{failed} crash points failed"));
    }
    // A few points may all be unreachable.
    if not_reached.saturating_mul(REACHED_OF) > all && all > REACHED_OF {
        return Err(Error::new(format!("more than one of {REACHED_OF} crash points was not reached")));
    }
    Ok(failed)
}

fn count(outcomes: &[Outcome], wanted: &Outcome) -> usize {
    outcomes.iter().filter(|outcome| *outcome == wanted).count()
}

/// Runs the crash points of a scenario. Returns how many there are, and the outcomes of those that were run. The calls in
/// `background` are made without any scenario, so only the scenario `idle` fails them.
async fn run_scenario(
    arguments: &Arguments,
    scenario: Scenario,
    background: &BTreeSet<Call>,
) -> Result<(usize, Vec<Outcome>)> {
    let started = Instant::now();
    let (mut calls, expected) = run_without_fault(scenario).await?;
    if scenario.name == IDLE {
        calls.retain(|call| call.number <= MOST_ALIKE);
    } else {
        calls.retain(|call| !background.contains(call));
    }
    let points = points_of(&calls, arguments);
    if arguments.list {
        for (call, fault) in &points {
            say(format_args!("{} {call}/{fault}", scenario.name));
        }
        return Ok((points.len(), Vec::new()));
    }
    let expected = Rc::new(expected);
    let run = |point: Point| {
        let expected = Rc::clone(&expected);
        async move { (run_with_fault(scenario, &point, &expected).await, point) }
    };
    let (mut outcomes, mut not_reached) = (Vec::new(), Vec::new());
    run_each(arguments.jobs, points.iter().cloned(), run, |(outcome, (call, fault))| {
        let name = format!("{call}/{fault}");
        match &outcome {
            Outcome::Survived if arguments.verbose => say(format_args!("  survived {name}")),
            Outcome::Survived => {}
            Outcome::NotReached => not_reached.push(name),
            Outcome::Failed(why) => say(format_args!(
                "  FAILED {name}\n{why}\n    again: crash-points --scenario {} --point '{name}'",
                scenario.name
            )),
        }
        outcomes.push(outcome);
    })
    .await?;
    say(format_args!(
        "{}: {} of {} crash points survived, {} calls, {:.1} s",
        scenario.name,
        count(&outcomes, &Outcome::Survived),
        points.len(),
        calls.len(),
        started.elapsed().as_secs_f64(),
    ));
    for name in not_reached {
        say(format_args!("  not reached: {name}"));
    }
    Ok((points.len(), outcomes))
}

/// Returns the crash points of the calls that are chosen.
fn points_of(calls: &BTreeSet<Call>, arguments: &Arguments) -> Vec<Point> {
    let all = calls.iter().flat_map(|call| Fault::all_of(call).map(|fault| (call.clone(), fault)));
    let is_in_part =
        |number: usize| arguments.part.is_none_or(|rest| number.checked_rem(arguments.of) == Some(rest));
    let is_named = |(call, fault): &Point| {
        arguments.point.as_ref().is_none_or(|text| format!("{call}/{fault}").contains(text))
    };
    let numbered = all.enumerate().filter(|(number, _)| is_in_part(*number));
    numbered.map(|(_, point)| point).filter(is_named).collect()
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

async fn run_with_fault(scenario: Scenario, point: &Point, expected: &Value) -> Outcome {
    for _ in 0..MOST_ATTEMPTS {
        match Box::pin(attempt(scenario, point, expected)).await {
            Ok(Outcome::NotReached) => {}
            Ok(outcome) => return outcome,
            Err(error) => return Outcome::Failed(format!("    {error}")),
        }
    }
    Outcome::NotReached
}

async fn attempt(scenario: Scenario, point: &Point, expected: &Value) -> Result<Outcome> {
    let trial = Trial::start(true, Load::default()).await?;
    let (planned, fault) = point.clone();
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
        is_as_expected = seen == *expected;
        // The planned call may be one of a later round.
        let is_over = trial.front.faults() > 0 || round >= ROUNDS;
        if was_as_expected && is_as_expected && is_over {
            break;
        }
    }
    let is_met = trial.front.faults() > 0;
    trial.stack.stop().await;
    if !is_as_expected {
        return Ok(Outcome::Failed(difference(expected, &seen, is_met)));
    }
    Ok(if is_met { Outcome::Survived } else { Outcome::NotReached })
}

/// Returns the fields that differ.
fn difference(expected: &Value, seen: &Value, is_met: bool) -> String {
    let (mut left, mut right) = (BTreeMap::new(), BTreeMap::new());
    flatten("", expected, &mut left);
    flatten("", seen, &mut right);
    let fields: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let differing = fields.into_iter().filter(|field| left.get(*field) != right.get(*field)).map(|field| {
        let [expected, seen] = [&left, &right].map(|fields| fields.get(field).cloned().unwrap_or_default());
        format!("    {field}: expected {expected}, found {seen}")
    });
    let not_met = (!is_met).then(|| "    (the planned call was not made)".to_owned());
    differing.chain(not_met).collect::<Vec<_>>().join("\n")
}

/// Collects the values of all fields by their paths.
fn flatten(path: &str, value: &Value, fields: &mut BTreeMap<String, Value>) {
    match value.as_object() {
        Some(members) => members.iter().for_each(|(name, of)| flatten(&format!("{path}/{name}"), of, fields)),
        None => drop(fields.insert(path.to_owned(), value.clone())),
    }
}
