//! `admin events`: replays quarantined stream records with the event dispatcher's code.

use shared::audit;
use std::error::Error;

use clap::Subcommand;
use domain::time::Timestamp;
use event_dispatcher::replay::QuarantinedObject;
use serde::Serialize;

use crate::target::Stack;
use crate::{CommandOutcome, OperatorArguments, print, print_json, progress_bar};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Process the quarantined stream records in the bucket
    ///
    /// Removes each object whose records all succeed. Prints the errors of the other objects; if there are
    /// any, the exit code is 1.
    Replay {
        /// List the objects and whether their records can be read, without processing them
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

#[derive(Serialize)]
struct ReplayView<'a> {
    object: &'a str,
    since: Timestamp,
    records: Option<usize>,
    replayed: bool,
    error: Option<String>,
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome, Box<dyn Error>> {
    let Command::Replay { dry_run, operator } = command;
    let dispatcher = stack.dispatcher()?;
    let operator = operator.operator();
    let quarantined = dispatcher.list_quarantined().await?;
    let bar = progress_bar(quarantined.len(), "objects")?;
    let (mut records, mut failures): (usize, usize) = (0, 0);
    for object in &quarantined {
        let outcome =
            if dry_run { dispatcher.inspect(object).await } else { dispatcher.replay(object).await };
        let (count, error) = match outcome {
            Ok(replayed) => {
                records = records.saturating_add(replayed.records);
                if !dry_run {
                    for account in &replayed.accounts {
                        let audit = audit::by_operator(
                            &operator,
                            *account,
                            "events.replay",
                            &*object.key,
                            stack.clock.now(),
                        )?;
                        audit::append(&stack.store, &audit).await?;
                    }
                    dispatcher.remove(object).await?;
                }
                (Some(replayed.records), None)
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                (None, Some(error.to_string()))
            }
        };
        bar.suspend(|| print_json(&view(object, count, dry_run, error)))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let result = if dry_run { "could be replayed" } else { "replayed" };
    print(&format!("{} objects, {records} records {result}, {failures} objects left", quarantined.len()))?;
    Ok(if failures == 0 { CommandOutcome::Succeeded } else { CommandOutcome::FoundFaults })
}

fn view(
    object: &QuarantinedObject,
    records: Option<usize>,
    dry_run: bool,
    error: Option<String>,
) -> ReplayView<'_> {
    let replayed = records.is_some() && !dry_run;
    ReplayView { object: &object.key, since: object.since, records, replayed, error }
}
