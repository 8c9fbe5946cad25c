//! `admin events`: replays quarantined stream records with the event dispatcher's own code.

use shared::audit;
use std::error::Error;

use clap::Subcommand;
use domain::time::Timestamp;
use event_dispatcher::replay::QuarantinedObject;
use serde::Serialize;

use crate::target::Stack;
use crate::{Done, OperatorArguments, announce, print, print_json, progress_bar};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Process the quarantined records in the bucket, and remove each object that succeeded; fails if any did not
    Replay {
        /// Only say what there is, and whether it can be read
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

/// An object, as it is printed.
#[derive(Serialize)]
struct ReplayView<'a> {
    object: &'a str,
    since: Timestamp,
    records: Option<usize>,
    replayed: bool,
    error: Option<String>,
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<Done, Box<dyn Error>> {
    let Command::Replay { dry_run, operator } = command;
    let dispatcher = stack.dispatcher()?;
    announce(stack);
    let operator = operator.operator();
    let waiting = dispatcher.waiting().await?;
    let bar = progress_bar(waiting.len(), "objects")?;
    let (mut records, mut faults): (usize, usize) = (0, 0);
    for object in &waiting {
        let done = if dry_run { dispatcher.look_at(object).await } else { dispatcher.replay(object).await };
        let (found, error) = match done {
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
                        let _made = stack.store.insert(&audit).await?;
                    }
                    dispatcher.remove(object).await?;
                }
                (Some(replayed.records), None)
            }
            Err(error) => {
                faults = faults.saturating_add(1);
                (None, Some(error.to_string()))
            }
        };
        bar.suspend(|| print_json(&view(object, found, dry_run, error)))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let did = if dry_run { "could be replayed" } else { "replayed" };
    print(&format!("{} objects, {records} records {did}, {faults} objects left", waiting.len()))?;
    Ok(if faults == 0 { Done::Well } else { Done::FoundFault })
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
