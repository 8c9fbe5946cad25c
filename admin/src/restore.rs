//! `admin restore`: what remains to be done after the tables were restored to an earlier moment.

use clap::Subcommand;
use domain::audit::{Action, Audit};
use domain::ids::ApiKeyId;
use domain::time::Timestamp;
use shared::account::Accounts;
use shared::api_key::ApiKeyError;
use shared::audit;
use shared::store::Store;

use crate::output::record;
use crate::target::Stack;
use crate::{CommandOutcome, OperatorArguments, Result, print_json};

/// An audit row has the time at which its change began. The change is written up to 60 s later, the longest
/// time limit of a function. So rows from just before the moment are read too.
const BEFORE_MOMENT_SECONDS: i64 = 120;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Revoke the keys that were revoked or rotated after the moment to which the tables were restored
    ///
    /// Reads the audit rows in the state table before the restore. Also prints the other actions that the
    /// restore lost, with their details, such as mode, currency and minor units of a payout. The command can be
    /// repeated.
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

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome> {
    let Command::RevokeKeys { audit_from, since, operator } = command;
    if audit_from == stack.store.table() {
        return Err("--audit-from must name the state table before the restore, not the restored one".into());
    }
    let before = Store::new(stack.store.client().clone(), &audit_from);
    let from = since.saturating_plus_seconds(-BEFORE_MOMENT_SECONDS);
    let accounts = Accounts::new(before.clone()).all().await?;
    if accounts.is_empty() {
        return Err(format!("the table {audit_from} has no accounts: nothing was revoked").into());
    }
    let mut states = Vec::new();
    for account in accounts {
        for row in audit::since(&before, &account.id, from).await? {
            let state = repeat(stack, &row, &operator).await?;
            states.push(state);
            let Audit { account, at, actor, action, subject, .. } = &row;
            print_json(&record! {
                account: account, at: at, actor: actor, action: action.name(), subject: subject,
                details: action.details(), state: state,
            })?;
        }
    }
    let count = |state: &str| states.iter().filter(|other| **other == state).count();
    print_json(&record! { revoked: count(REVOKED), absent: count(ABSENT), lost: count(LOST) })?;
    Ok(CommandOutcome::Succeeded)
}

/// The key was valid again, and is now revoked.
const REVOKED: &str = "revoked";
/// The restored table does not have the key.
const ABSENT: &str = "absent";
/// The action is not in the restored tables.
const LOST: &str = "lost";

/// Returns what became of an action that was done after the moment.
async fn repeat(stack: &Stack, row: &Audit, operator: &OperatorArguments) -> Result<&'static str> {
    // After these actions, a key is invalid permanently.
    let (Action::RevokeKey(_) | Action::RotateKey { .. }) = row.action else { return Ok(LOST) };
    let key: ApiKeyId = format!("key_{}", row.subject).parse()?;
    let (operator, now) = (stack.operator(operator), stack.clock.now());
    match stack.api_keys.revoke(&row.account, Some(&key), &operator, now).await {
        Ok(_key) => Ok(REVOKED),
        Err(ApiKeyError::NotFound) => Ok(ABSENT),
        Err(error) => Err(error.into()),
    }
}
