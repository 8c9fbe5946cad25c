//! `admin restore`: what remains to be done after the tables were restored to an earlier moment.

use std::error::Error;

use clap::Subcommand;
use domain::audit::Audit;
use domain::ids::{AccountId, ApiKeyId};
use domain::time::Timestamp;
use serde::Serialize;
use shared::account::Accounts;
use shared::api_key::ApiKeyError;
use shared::audit;

use crate::target::Stack;
use crate::{CommandOutcome, OperatorArguments, print_json};

/// The actions after which a key is invalid permanently.
const ENDING_ACTIONS: [&str; 2] = ["api-key.revoke", "api-key.rotate"];

/// An audit row has the time at which its change began. The change is written up to 60 s later, the longest
/// time limit of a function. So rows from just before the moment are read too.
const BEFORE_MOMENT_SECONDS: i64 = 120;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Revoke the keys that were revoked or rotated after the moment to which the tables were restored
    ///
    /// Reads the audit rows in the state table before the restore. Also prints the other actions that the
    /// restore lost. The command can be repeated.
    RevokeKeys {
        /// Name of the state table before the restore
        #[arg(long, value_name = "TABLE")]
        audit_from: String,
        /// The moment to which the tables were restored, such as 2026-11-21T10:00:00Z; a bare date means
        /// midnight in São Paulo
        #[arg(long)]
        since: Timestamp,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

/// What became of an action that was done after the moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// The key was valid again, and is now revoked.
    Revoked,
    /// The restored table does not have the key.
    Absent,
    /// The action is not in the restored tables.
    Lost,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    account: AccountId,
    at: Timestamp,
    actor: &'a str,
    action: &'a str,
    subject: &'a str,
    state: State,
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    revoked: usize,
    absent: usize,
    lost: usize,
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome, Box<dyn Error>> {
    let Command::RevokeKeys { audit_from, since, operator } = command;
    if audit_from == stack.store.table() {
        return Err("--audit-from must name the state table before the restore, not the restored one".into());
    }
    let before = stack.other_table(&audit_from);
    let from = since.saturating_plus_seconds(-BEFORE_MOMENT_SECONDS);
    let accounts = Accounts::new(before.clone()).all().await?;
    if accounts.is_empty() {
        return Err(format!("the table {audit_from} has no accounts: nothing was revoked").into());
    }
    let mut summary = Summary::default();
    for account in accounts {
        for row in audit::since(&before, &account.id, from).await? {
            repeat(stack, &row, &operator, &mut summary).await?;
        }
    }
    print_json(&summary)?;
    Ok(CommandOutcome::Succeeded)
}

async fn repeat(
    stack: &Stack,
    row: &Audit,
    operator: &OperatorArguments,
    summary: &mut Summary,
) -> Result<(), Box<dyn Error>> {
    let state = if ENDING_ACTIONS.contains(&row.action.as_str()) {
        revoke(stack, row, operator).await?
    } else {
        State::Lost
    };
    let count = match state {
        State::Revoked => &mut summary.revoked,
        State::Absent => &mut summary.absent,
        State::Lost => &mut summary.lost,
    };
    *count = count.saturating_add(1);
    let Audit { account, at, actor, action, subject, .. } = row;
    print_json(&Line { account: *account, at: *at, actor, action, subject, state })
}

async fn revoke(stack: &Stack, row: &Audit, operator: &OperatorArguments) -> Result<State, Box<dyn Error>> {
    let key: ApiKeyId = format!("key_{}", row.subject).parse()?;
    let (operator, now) = (operator.clone().operator(), stack.clock.now());
    match stack.api_keys.revoke(&row.account, Some(&key), &operator, now).await {
        Ok(_key) => Ok(State::Revoked),
        Err(ApiKeyError::NotFound) => Ok(State::Absent),
        Err(error) => Err(error.into()),
    }
}
