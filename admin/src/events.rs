//! `admin events`: replays quarantined stream records with the event dispatcher's code.

use clap::Subcommand;
use domain::audit::Action;
use shared::audit;

use crate::output::record;
use crate::target::Stack;
use crate::{CommandOutcome, OperatorArguments, Result, print, print_json, progress_bar};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Process the quarantined stream records in the bucket
    ///
    /// Removes each object whose records all succeed. Prints the errors of the other objects; if there are
    /// any, the exit code is 1. A dry run lists the objects and whether their records can be read.
    Replay {
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome> {
    let (Command::Replay { operator }, dry_run) = (command, stack.is_dry_run);
    let dispatcher = stack.dispatcher()?;
    let operator = stack.operator(&operator);
    let quarantined = dispatcher.list_quarantined().await?;
    let bar = progress_bar(quarantined.len(), "objects")?;
    let (mut records, mut failures): (usize, usize) = (0, 0);
    for object in bar.wrap_iter(quarantined.iter()) {
        let outcome =
            if dry_run { dispatcher.inspect(object).await } else { dispatcher.replay(object).await };
        let (count, error) = match outcome {
            Ok(replayed) => {
                records = records.saturating_add(replayed.records);
                if !dry_run {
                    for account in &replayed.accounts {
                        let (now, key) = (stack.clock.now(), &*object.key);
                        let audit = audit::by_operator(&operator, *account, Action::ReplayEvents, key, now)?;
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
        let printed = record! {
            object: object.key,
            since: object.since,
            records: count,
            replayed: count.is_some() && !dry_run,
            error: error,
        };
        bar.suspend(|| print_json(&printed))?;
    }
    let result = if dry_run { "could be replayed" } else { "replayed" };
    print(&format!("{} objects, {records} records {result}, {failures} objects left", quarantined.len()))?;
    Ok(CommandOutcome::of(failures > 0))
}
