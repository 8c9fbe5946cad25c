//! `admin restore`: what remains to be done after the tables were restored to an earlier moment, and the comparison of
//! rows with those of a copy.

mod book_again;
mod compare;

use clap::{Args, Subcommand};
use domain::audit::{Action, Audit, Sum};
use domain::charge::IncomingPayment;
use domain::ids::{AccountId, ApiKeyId, Mode, Scope};
use domain::med::MedCase;
use domain::refund::Refund;
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
    /// restore lost, with their details, and in `moved` mode, currency and minor units of what moved money. The command can
    /// be repeated.
    RevokeKeys {
        #[command(flatten)]
        former: FormerArguments,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Book payouts and operators' corrections again that were made, settled or failed after the moment
    ///
    /// Ids, references, times and postings are those of the state table before the restore. Pays nothing and sends nothing.
    /// The available balance may fall below zero. Prints a line for each: `booked`, `exists` or `refused`. The command can be
    /// repeated. If any is refused, the exit code is 1.
    RepeatPayouts {
        #[command(flatten)]
        former: FormerArguments,
        /// Only this account (acc_…)
        #[arg(long)]
        account: Option<AccountId>,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Compare an account's rows with those in a copy of the state table, or copy single rows from it
    ///
    /// Prints a line for each row that differs, or that only one table has. Texts are shown as `hidden`, unless they are
    /// states and names of the service. Leaves out events, deliveries, e-mails, logs, sums and counters of a time, and
    /// the audit, which `audit verify` checks.
    Compare(compare::Arguments),
}

/// The state table before the restore, and the moment
#[derive(Args, Clone, Debug)]
pub(crate) struct FormerArguments {
    /// Name of the state table before the restore
    #[arg(long, value_name = "TABLE")]
    from: String,
    /// The moment to which the tables were restored, such as 2026-11-21T10:00:00Z; a bare date means
    /// midnight in São Paulo
    #[arg(long)]
    since: Timestamp,
}

impl FormerArguments {
    /// Returns the table, the accounts in it, and the earliest time of audit rows that may be lost.
    async fn open(
        &self,
        stack: &Stack,
        only: Option<AccountId>,
    ) -> Result<(Store, Vec<AccountId>, Timestamp)> {
        let Self { from, since } = self;
        if *since > stack.clock.now() {
            return Err(format!("--since must not be in the future: {since}").into());
        }
        let former = other_table(stack, from)?;
        let accounts = Accounts::new(former.clone()).all().await?.into_iter().map(|account| account.id);
        let accounts: Vec<_> = accounts.filter(|account| only.is_none_or(|only| *account == only)).collect();
        if accounts.is_empty() {
            let which = only.map_or_else(|| "no accounts".to_owned(), |only| format!("no account {only}"));
            return Err(format!("the table {from} has {which}: nothing was done").into());
        }
        Ok((former, accounts, since.saturating_plus_seconds(-BEFORE_MOMENT_SECONDS)))
    }
}

impl Command {
    pub(crate) fn changes(&self) -> bool {
        match self {
            Self::RevokeKeys { .. } | Self::RepeatPayouts { .. } => true,
            Self::Compare(arguments) => arguments.copies(),
        }
    }
}

/// Opens another state table, which is only read.
fn other_table(stack: &Stack, name: &str) -> Result<Store> {
    if name == stack.store.table() {
        return Err(format!("--from must name another table: {name} is the one that is worked on").into());
    }
    Ok(Store::new(stack.store.client().clone(), name))
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome> {
    match command {
        Command::RevokeKeys { former, operator } => revoke_keys(stack, &former, &operator).await,
        Command::RepeatPayouts { former, account, operator } => {
            book_again::run(stack, &former, account, &operator).await
        }
        Command::Compare(arguments) => compare::run(stack, arguments).await,
    }
}

async fn revoke_keys(
    stack: &Stack,
    former: &FormerArguments,
    operator: &OperatorArguments,
) -> Result<CommandOutcome> {
    let (former, accounts, from) = former.open(stack, None).await?;
    let mut states = Vec::new();
    for account in accounts {
        for row in audit::since(&former, &account, from).await? {
            let state = repeat(stack, &row, operator).await?;
            states.push(state);
            let Audit { account, at, actor, action, subject, .. } = &row;
            print_json(&record! {
                account: account, at: at, actor: actor, action: action.name(), subject: subject,
                moved: moved(&former, &row).await?, details: action.details(), state: state,
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

/// Returns the sum that an action moved. Where its details have none, the object in the former table has it.
async fn moved(former: &Store, row: &Audit) -> Result<Option<Sum>> {
    let sum = |scope: Scope, currency, minor| Sum { mode: scope.mode, currency, minor };
    Ok(match row.action {
        Action::FailRefund | Action::RecordRefundAtBank => {
            let refund: Option<Refund> = former.get(&Refund::key_of(row.subject.parse()?)).await?;
            refund.map(|of| sum(of.scope, of.currency, of.share.gross.minor()))
        }
        Action::DecideCase(_) => {
            let case: Option<MedCase> = former.get(&MedCase::key_of(row.subject.parse()?)).await?;
            case.map(|of| sum(of.scope, of.currency, of.moved.get()))
        }
        Action::ApplyReceipt(_) | Action::CreditReceipt | Action::RecordReceipt | Action::ReturnReceipt => {
            let (account, payment) = (row.account, row.subject.parse()?);
            let of = |mode| IncomingPayment::key_of(&Scope { account, mode }, &payment);
            let found: Vec<IncomingPayment> = former.get_in_order(&[Mode::Test, Mode::Live].map(of)).await?;
            found.first().map(|of| sum(of.scope, of.currency, of.amount.minor()))
        }
        Action::CancelCharge { .. } | Action::AppealCase(_) => None,
        _ => row.action.sum(),
    })
}
