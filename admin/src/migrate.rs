//! `admin migrate`: moves rows that earlier versions of the service wrote.

use std::error::Error;

use clap::Subcommand;
use domain::audit::Operator;
use domain::ids::{Mode, Scope};
use serde_json::json;
use shared::acquirer::configuration::{Migrated, SettingsError};

use crate::target::Stack;
use crate::{CommandOutcome, OperatorArguments, print_json, print_stack};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Move the accounts' acquirers from the state table to the table of secrets
    ///
    /// Prints each account with an acquirer in the state table, and the numbers of accounts by outcome. The
    /// command can be repeated. Exit code 1 if an acquirer could not be moved.
    Acquirers {
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Move the secrets of webhooks from the state table to the table of secrets
    ///
    /// Prints the endpoints and scopes whose secrets were moved, and their number, but no secret. The secrets
    /// stay valid. The command can be repeated. Exit code 1 if an endpoint can't be read.
    WebhookSecrets {
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome, Box<dyn Error>> {
    match command {
        Command::Acquirers { operator } => migrate_acquirers(stack, &operator.operator()).await,
        Command::WebhookSecrets { operator } => migrate_webhook_secrets(stack, &operator.operator()).await,
    }
}

async fn migrate_acquirers(stack: &Stack, operator: &Operator) -> Result<CommandOutcome, Box<dyn Error>> {
    let acquirers = stack.acquirers()?;
    print_stack(stack);
    let (mut moved, mut superseded, mut nothing, mut failed) = (0_usize, 0_usize, 0_usize, 0_usize);
    for account in stack.accounts.all().await? {
        let account = account.id;
        let (count, line) = match Box::pin(acquirers.migrate(account, operator, stack.clock.now())).await {
            Ok(Migrated::Nothing) => (&mut nothing, None),
            Ok(Migrated::Moved { acquirer, lost_send_pix }) => {
                let mut line = json!({
                    "account": account,
                    "outcome": "moved",
                    "connection": acquirer.connection,
                    "next": "run set-acquirer, so that the bank's notifications are accepted",
                });
                if lost_send_pix && let Some(fields) = line.as_object_mut() {
                    let warning = "send_pix was set without a dialect and is now `none`";
                    fields.insert("warning".to_owned(), warning.into());
                }
                (&mut moved, Some(line))
            }
            Ok(Migrated::Superseded) => {
                let detail = "the table of secrets has a newer acquirer; the former row was removed";
                (
                    &mut superseded,
                    Some(json!({"account": account, "outcome": "superseded", "detail": detail})),
                )
            }
            Err(error @ SettingsError::KeyTaken(_)) => {
                let detail = error.to_string();
                (&mut failed, Some(json!({"account": account, "outcome": "failed", "detail": detail})))
            }
            Err(error) => return Err(error.into()),
        };
        *count = count.saturating_add(1);
        line.map(|line| print_json(&line)).transpose()?;
    }
    print_json(&json!({
        "moved": moved, "superseded": superseded, "failed": failed, "without_former_row": nothing,
    }))?;
    Ok(if failed == 0 { CommandOutcome::Succeeded } else { CommandOutcome::FoundFaults })
}

async fn migrate_webhook_secrets(
    stack: &Stack,
    operator: &Operator,
) -> Result<CommandOutcome, Box<dyn Error>> {
    let secrets = stack.signing_secrets()?;
    print_stack(stack);
    let (mut moved, mut failed) = (0_usize, 0_usize);
    for account in stack.accounts.all().await? {
        for mode in [Mode::Test, Mode::Live] {
            let scope = Scope { account: account.id, mode };
            let migrated = Box::pin(secrets.migrate(scope, operator, stack.clock.now())).await?;
            let line = |subject: String, outcome: &str| json!({"account": scope.account, "mode": mode, "secret": subject, "outcome": outcome});
            for endpoint in migrated.endpoints {
                print_json(&line(endpoint.to_string(), "moved"))?;
                moved = moved.saturating_add(1);
            }
            if migrated.override_secret {
                print_json(&line("override".to_owned(), "moved"))?;
                moved = moved.saturating_add(1);
            }
            for (endpoint, detail) in migrated.unreadable {
                let mut line = line(endpoint, "failed");
                if let Some(fields) = line.as_object_mut() {
                    fields.insert("detail".to_owned(), detail.into());
                }
                print_json(&line)?;
                failed = failed.saturating_add(1);
            }
        }
    }
    print_json(&json!({"moved": moved, "failed": failed}))?;
    Ok(if failed == 0 { CommandOutcome::Succeeded } else { CommandOutcome::FoundFaults })
}
