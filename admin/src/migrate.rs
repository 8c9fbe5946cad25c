//! `admin migrate`: moves rows that earlier versions of the service wrote.
//!
//! Each migration visits the accounts in the order of their ids ([`for_each_account`]), so that an interrupted one
//! can continue. All of them can be repeated: a repetition moves only what is left.

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use domain::ids::{AccountId, Mode, Scope};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use shared::acquirer::configuration::{Migrated, SettingsError};
use shared::audit;
use shared::services::move_former_payments;

use crate::target::Stack;
use crate::{CommandOutcome, OperatorArguments, print_json, progress_bar};

/// Without a terminal, a line shows the progress after so many accounts, or after the first account that ends so
/// long after the last line.
const ACCOUNTS_PER_LINE: usize = 100;
const TIME_PER_LINE: Duration = Duration::from_secs(10);

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Move the accounts' acquirers from the state table to the table of secrets
    ///
    /// Prints each account with an acquirer in the state table, and the numbers of accounts by outcome. The
    /// command can be repeated. Exit code 1 if an acquirer could not be moved.
    Acquirers(Arguments),
    /// Move the secrets of webhooks from the state table to the table of secrets
    ///
    /// Prints the endpoints and scopes whose secrets were moved, and their number, but no secret. The secrets
    /// stay valid. The command can be repeated. Exit code 1 if an endpoint can't be read.
    WebhookSecrets(Arguments),
    /// Move incoming payments from one partition of an account to the partitions of their shards
    ///
    /// Prints how many payments were moved, by account and mode. The command can be repeated. Exit code 1 if a
    /// payment could not be moved.
    IncomingPayments(Arguments),
}

/// The arguments of each migration
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Continue after this account (acc_…), the last one that an interrupted migration showed
    #[arg(long, value_name = "ACCOUNT")]
    after: Option<AccountId>,
    #[command(flatten)]
    operator: OperatorArguments,
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome, Box<dyn Error>> {
    match command {
        Command::Acquirers(arguments) => migrate_acquirers(stack, arguments).await,
        Command::WebhookSecrets(arguments) => migrate_webhook_secrets(stack, arguments).await,
        Command::IncomingPayments(arguments) => migrate_incoming_payments(stack, arguments).await,
    }
}

/// Calls `migrate` for each account after the given one, in the order of their ids. Prints the lines that it returns
/// for an account, and shows the progress on stderr. After an error, prints how to continue.
async fn for_each_account(
    stack: &Stack,
    after: Option<AccountId>,
    mut migrate: impl AsyncFnMut(AccountId, &ProgressBar) -> Result<Vec<Value>, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut accounts: Vec<AccountId> =
        stack.accounts.all().await?.into_iter().map(|account| account.id).collect();
    accounts.sort_unstable();
    accounts.retain(|account| after.is_none_or(|after| *account > after));
    let bar = progress_bar(accounts.len(), "accounts")?;
    let (mut last, mut shown_at) = (after, Instant::now());
    for (account, done) in accounts.iter().zip(1_usize..) {
        let migrated = migrate(*account, &bar)
            .await
            .and_then(|lines| bar.suspend(|| lines.iter().try_for_each(print_json)));
        if let Err(error) = migrated {
            bar.finish_and_clear();
            let next = last.map_or_else(String::new, |last| format!(" with --after {last}"));
            return Err(format!("{error}\nstopped at {account}: repeat the command{next} to continue").into());
        }
        last = Some(*account);
        bar.inc(1);
        bar.set_message(format!(", last {account}"));
        if bar.is_hidden() && (done % ACCOUNTS_PER_LINE == 0 || shown_at.elapsed() >= TIME_PER_LINE) {
            shown_at = Instant::now();
            // A closed stderr does not stop the migration.
            let _ = writeln!(std::io::stderr(), "{done} of {} accounts, last {account}", accounts.len());
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn outcome(has_failed: bool) -> CommandOutcome {
    if has_failed { CommandOutcome::FoundFaults } else { CommandOutcome::Succeeded }
}

async fn migrate_acquirers(stack: &Stack, arguments: Arguments) -> Result<CommandOutcome, Box<dyn Error>> {
    let (acquirers, operator) = (stack.acquirers()?, arguments.operator.operator());
    let (mut moved, mut superseded, mut nothing, mut failed) = (0_usize, 0_usize, 0_usize, 0_usize);
    for_each_account(stack, arguments.after, async |account, _| {
        let (count, line) = match Box::pin(acquirers.migrate(account, &operator, stack.clock.now())).await {
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
        Ok(line.into_iter().collect())
    })
    .await?;
    print_json(&json!({
        "moved": moved, "superseded": superseded, "failed": failed, "without_former_row": nothing,
    }))?;
    Ok(outcome(failed > 0))
}

async fn migrate_webhook_secrets(
    stack: &Stack,
    arguments: Arguments,
) -> Result<CommandOutcome, Box<dyn Error>> {
    let (secrets, operator) = (stack.signing_secrets()?, arguments.operator.operator());
    let (mut moved, mut failed) = (0_usize, 0_usize);
    for_each_account(stack, arguments.after, async |account, _| {
        let mut lines = Vec::new();
        for mode in [Mode::Test, Mode::Live] {
            let scope = Scope { account, mode };
            let migrated = Box::pin(secrets.migrate(scope, &operator, stack.clock.now())).await?;
            let endpoints = migrated.endpoints.iter().map(ToString::to_string);
            let of_override = migrated.override_secret.then(|| "override".to_owned());
            for secret in endpoints.chain(of_override) {
                let line = json!({"account": account, "mode": mode, "secret": secret, "outcome": "moved"});
                lines.push(line);
                moved = moved.saturating_add(1);
            }
            for (endpoint, detail) in migrated.unreadable {
                lines.push(json!({
                    "account": account, "mode": mode, "secret": endpoint, "outcome": "failed", "detail": detail,
                }));
                failed = failed.saturating_add(1);
            }
        }
        Ok(lines)
    })
    .await?;
    print_json(&json!({"moved": moved, "failed": failed}))?;
    Ok(outcome(failed > 0))
}

async fn migrate_incoming_payments(
    stack: &Stack,
    arguments: Arguments,
) -> Result<CommandOutcome, Box<dyn Error>> {
    let operator = arguments.operator.operator();
    let (mut moved, mut failed) = (0_u64, 0_usize);
    for_each_account(stack, arguments.after, async |account, bar| {
        let mut lines = Vec::new();
        for mode in [Mode::Test, Mode::Live] {
            let scope = Scope { account, mode };
            let action = "incoming-payments.migrate";
            let audit =
                audit::by_operator(&operator, account, action, scope.to_string(), stack.clock.now())?;
            let progress = |rows: u64| bar.set_message(format!(", {rows} payments of {scope}"));
            let payments =
                Box::pin(move_former_payments(&stack.store, &scope, &audit, &progress)).await?;
            if payments.moved > 0 {
                lines.push(json!({"account": account, "mode": mode, "moved": payments.moved}));
            }
            moved = moved.saturating_add(payments.moved);
            failed = failed.saturating_add(payments.failed.len());
            for (payment, detail) in payments.failed {
                lines.push(json!({
                    "account": account, "mode": mode, "payment": payment, "outcome": "failed", "detail": detail,
                }));
            }
        }
        Ok(lines)
    })
    .await?;
    print_json(&json!({"moved": moved, "failed": failed}))?;
    Ok(outcome(failed > 0))
}
