//! The operator's command line, for a deployed stack or the one on this machine. It goes to the tables, as the functions
//! do, by the same code; every change has an actor, a reason and an audit row.

mod accounts;
mod acquirer;
mod deliveries;
mod events;
mod keys;
mod ledger;
mod med;
mod payouts;
mod target;
mod users;
mod word;

use shared::audit;
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use domain::audit::{Audit, Operator};
use domain::ids::{AccountId, AuditId, Mode, Scope};
use domain::source_address::SourceAddress;
use domain::time::Timestamp;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use target::{Stack, Target};

/// The operator's command line of the payment service.
///
/// Works on the service that `cargo run` started on this machine, or on a deployed stack whose tables are named.
#[derive(Parser, Debug)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Accounts, what they pay and how long their money is held
    #[command(subcommand)]
    Accounts(accounts::Command),
    /// Webhooks on their way to merchants
    #[command(subcommand)]
    Deliveries(deliveries::Command),
    /// What the event dispatcher could not do
    #[command(subcommand)]
    Events(events::Command),
    /// Who may log in to an account's dashboard
    #[command(subcommand)]
    Users(users::Command),
    /// API keys
    #[command(subcommand)]
    Keys(keys::Command),
    /// The ledger behind wallets
    #[command(subcommand)]
    Ledger(ledger::Command),
    /// MED cases and their evidence
    #[command(subcommand)]
    Med(med::Command),
    /// Merchants' money on its way to their banks
    #[command(subcommand)]
    Payouts(payouts::Command),
    /// What operators did to an account, its people to its keys, and its keys with money and webhooks: newest first, 100 at
    /// a time
    Audit {
        /// The account (acc_…)
        account: AccountId,
        /// Go on after this row (aud_…)
        #[arg(long)]
        starting_after: Option<AuditId>,
    },
}

/// Whose data
#[derive(Args, Clone, Copy, Debug)]
struct ScopeArguments {
    /// The account (acc_…)
    #[arg(long)]
    account: AccountId,
    /// test or live
    #[arg(long)]
    mode: Mode,
}

impl ScopeArguments {
    fn scope(self) -> Scope {
        Scope { account: self.account, mode: self.mode }
    }
}

/// Who acts, and why
#[derive(Args, Clone, Debug)]
struct OperatorArguments {
    /// Who acts; kept in the audit
    #[arg(long, env = "USER", value_parser = sentence)]
    actor: String,
    /// Why; kept in the audit
    #[arg(long, value_parser = sentence)]
    reason: String,
}

/// The longest name of an actor, and reason, in characters.
const MAX_SENTENCE_CHARS: usize = 500;

/// A text that says something.
fn sentence(text: &str) -> Result<String, String> {
    let text = text.trim();
    let length = text.chars().count();
    if (1..=MAX_SENTENCE_CHARS).contains(&length) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(format!("must be 1 to {MAX_SENTENCE_CHARS} characters, without control characters"))
    }
}

impl OperatorArguments {
    fn operator(self) -> Operator {
        Operator { actor: self.actor, reason: self.reason }
    }
}

/// How a command ended, where it did not fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Done {
    /// As it should.
    Well,
    /// It found something wrong, and said so.
    FoundFault,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments).await {
        Ok(Done::Well) => ExitCode::SUCCESS,
        Ok(Done::FoundFault) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<Done, Box<dyn Error>> {
    let stack = arguments.target.open().await?;
    match arguments.command {
        Command::Accounts(command) => accounts::run(&stack, command).await.map(|()| Done::Well),
        Command::Deliveries(command) => deliveries::run(&stack, command).await,
        Command::Events(command) => events::run(&stack, command).await,
        Command::Users(command) => users::run(&stack, command).await.map(|()| Done::Well),
        Command::Keys(command) => keys::run(&stack, command).await.map(|()| Done::Well),
        Command::Ledger(command) => ledger::run(&stack, command).await,
        Command::Med(command) => med::run(&stack, command).await.map(|()| Done::Well),
        Command::Payouts(command) => payouts::run(&stack, command).await.map(|()| Done::Well),
        Command::Audit { account, starting_after } => {
            let account = stack.account(&account).await?.id;
            let (rows, has_more) = audit::page(&stack.store, &account, starting_after).await?;
            for row in &rows {
                print_json(&AuditView::new(row))?;
            }
            if let Some(last) = rows.last().filter(|_| has_more) {
                writeln!(std::io::stderr(), "there is more: --starting-after {}", last.id)?;
            }
            Ok(Done::Well)
        }
    }
}

/// An audit row, as it is printed.
#[derive(Serialize)]
struct AuditView<'a> {
    id: AuditId,
    at: Timestamp,
    actor: &'a str,
    source: SourceAddress,
    action: &'a str,
    subject: &'a str,
    details: Option<&'a str>,
    reason: &'a str,
}

impl<'a> AuditView<'a> {
    fn new(row: &'a Audit) -> Self {
        Self {
            id: row.id,
            at: row.at,
            actor: &row.actor,
            source: row.source,
            action: &row.action,
            subject: &row.subject,
            details: row.details.as_deref(),
            reason: &row.reason,
        }
    }
}

/// Says which stack a change goes to, apart from the command's result.
fn announce(stack: &Stack) {
    let _ = writeln!(std::io::stderr(), "on {}", stack.name);
}

/// The same of a change that is done once under an id, however often it is asked for: whatever becomes of its result.
fn announce_as(stack: &Stack, id: &impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "on {}, as {id}", stack.name);
}

/// How far a long command is; drawn on a terminal only.
fn progress_bar(length: usize, of_what: &str) -> Result<ProgressBar, Box<dyn Error>> {
    let bar = ProgressBar::new(u64::try_from(length).unwrap_or_default());
    let template = format!("{{bar:30}} {{pos}}/{{len}} {of_what}{{msg}}, {{elapsed}}");
    bar.set_style(ProgressStyle::with_template(&template)?);
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}

/// Prints a line of the command's result. Whoever closed the pipe has read enough.
fn print(line: &str) -> std::io::Result<()> {
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(std::io::Error::other(format!(
            "this can't be printed ({error}): what it tells of is done, what was to come after it is not"
        ))),
        Ok(()) => Ok(()),
    }
}

/// Prints what is shown once, which nobody may miss.
fn print_once(object: &impl Serialize) -> Result<(), Box<dyn Error>> {
    Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string(object)?)?)
}

/// Prints an object as a line of JSON.
fn print_json(object: &impl Serialize) -> Result<(), Box<dyn Error>> {
    Ok(print(&serde_json::to_string(object)?)?)
}
