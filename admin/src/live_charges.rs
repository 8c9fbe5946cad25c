//! `admin live-charges`: stops new live charges of all accounts, and permits them again.

use clap::Subcommand;
use serde_json::json;

use crate::target::Stack;
use crate::{OperatorArguments, Result, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Stop new live charges of all accounts, within 60 seconds
    ///
    /// Requests for them are answered with 503 and `Retry-After`. Replays are answered, and existing charges can
    /// be paid, cancelled and refunded. Repeating the command changes nothing.
    Stop(OperatorArguments),
    /// Permit new live charges again, within 60 seconds
    Resume(OperatorArguments),
    /// Show whether new live charges are stopped, since when, by whom and why
    Show,
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    let (acquirers, now) = (stack.acquirers()?, stack.clock.now());
    let stop = match command {
        Command::Stop(operator) => Some(acquirers.stop_live_charges(&stack.operator(&operator), now).await?),
        Command::Resume(operator) => {
            acquirers.resume_live_charges(&stack.operator(&operator), now).await?;
            None
        }
        Command::Show => acquirers.live_charges_stop().await?,
    };
    print_json(&json!({
        "stopped": stop.is_some(),
        "since": stop.as_ref().map(|stop| stop.at),
        "actor": stop.as_ref().map(|stop| &stop.actor),
        "reason": stop.as_ref().map(|stop| &stop.reason),
    }))
}
