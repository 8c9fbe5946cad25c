//! The operator's command line for a deployed stack, or for the service that runs on this machine.
//!
//! Commands do not use HTTP: they read and write the tables with the same code as the functions. Each change
//! records its actor and its reason in an audit row.

mod accounts;
mod audit;
mod aws_cli;
mod charges;
mod cost;
mod customers;
mod deliveries;
mod doctor;
mod endpoints;
mod enum_parser;
mod events;
mod keys;
mod ledger;
mod live_charges;
mod med;
mod notifications;
mod output;
mod payouts;
mod persons;
mod proposals;
mod receipts;
mod reconcile;
mod refunds;
mod restore;
mod review;
mod table;
mod target;
mod users;

use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use domain::ids::{AccountId, Mode};
use domain::time::Timestamp;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use serde::Serialize;
use shared::auth::dashboard::token::public_key_of;
use shared::http::Query;

use aws_cli::{AwsCli, Described};
use output::{With, record};
use persons::{Deciders, Need, Rules};
use proposals::Proposed;
use target::{Stack, Target};

/// The error is a text for the operator.
type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Operate the payment service.
///
/// Works on the service that `cargo run` started on this machine, or on a deployed stack whose tables are
/// named with --table and --api-keys-table.
#[derive(Parser, Debug)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    deciders: Deciders,
    /// Print lists as JSON lines, also on a terminal
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Check a deployed stack, or the service on this machine
    ///
    /// Prints one line for each finding, and one for each check without a finding. The exit code is 0 without
    /// findings, 1 with findings, and 2 without findings if a check could not be made. Without --stack, it checks
    /// only rows: those of the service on this machine, or of the tables that are named.
    Doctor,
    /// Print what a million charges cost at AWS
    ///
    /// Multiplies the quantities that a charge uses by published on-demand prices, and reads no stack. Tests
    /// compare the counted quantities with the service; durations and log bytes are estimates, marked with `~`.
    Cost(cost::Arguments),
    /// Print the public key of the secret of dashboard tokens, which the standard input has
    ///
    /// It is a value of the parameter `DashboardTokenPublicKeys`. Reads no stack.
    TokenKey,
    #[command(flatten)]
    OnStack(StackCommand),
}

/// The commands that work on an open stack.
#[derive(Subcommand, Debug)]
enum StackCommand {
    /// Manage accounts: fees, hold periods, limits, contact and acquirer
    #[command(subcommand)]
    Accounts(accounts::Command),
    /// Find and list charges, show all that is recorded about one, and expire those whose cob the bank has lost
    #[command(subcommand)]
    Charges(charges::Command),
    /// Erase a customer's personal data
    #[command(subcommand)]
    Customers(customers::Command),
    /// List webhook deliveries, and resend those that failed
    #[command(subcommand)]
    Deliveries(deliveries::Command),
    /// List webhook endpoints
    #[command(subcommand)]
    Endpoints(endpoints::Command),
    /// Replay stream records that the event dispatcher could not process
    #[command(subcommand)]
    Events(events::Command),
    /// Manage the users of an account's dashboard
    #[command(subcommand)]
    Users(users::Command),
    /// List and revoke API keys
    #[command(subcommand)]
    Keys(keys::Command),
    /// Verify, show and adjust the ledgers behind the wallets
    #[command(subcommand)]
    Ledger(ledger::Command),
    /// Stop new live charges of all accounts, and permit them again
    #[command(subcommand)]
    LiveCharges(live_charges::Command),
    /// Manage MED cases, their evidence, and notices of infractions
    #[command(subcommand)]
    Med(med::Command),
    /// List and resolve items of banks' notifications that can't be parsed
    #[command(subcommand)]
    Notifications(notifications::Command),
    /// Manage payouts from wallets to merchants' banks
    #[command(subcommand)]
    Payouts(payouts::Command),
    /// List, approve and reject commands that another operator proposes with --propose
    #[command(subcommand)]
    Proposals(proposals::Command),
    /// List, apply and return live payments that match no charge
    #[command(subcommand)]
    Receipts(receipts::Command),
    /// List refunds, and fail those whose Pix the bank has lost
    #[command(subcommand)]
    Refunds(refunds::Command),
    /// Decide about payments that are held for a manual review
    #[command(subcommand)]
    Review(review::Command),
    /// Finish a restore of the tables
    #[command(subcommand)]
    Restore(restore::Command),
    /// Compare a day at an account's bank with the records of all accounts of that bank connection
    ///
    /// Prints each difference, and then a summary. A Pix belongs to the day of its `horario`, and a devolução
    /// to the day when the bank executed it. Differences younger than an hour are printed as pending.
    ///
    /// The exit code is 0 without differences and 1 with differences. It is 2 if nothing was compared, for
    /// example because the bank can't be read.
    Reconcile(reconcile::Arguments),
    /// Print an account's audit rows, the last written first, 100 at a time; or verify their hash chains
    ///
    /// There is a row for each change by an operator, for each change to API keys by a dashboard user, and
    /// for each change to money or webhooks by an API key.
    Audit(audit::Arguments),
}

/// An account and a mode
#[derive(Args, Clone, Copy, Debug)]
struct ScopeArguments {
    /// The account (acc_…)
    #[arg(long)]
    account: AccountId,
    /// The mode: test or live
    #[arg(long)]
    mode: Mode,
}

/// The period of a list
#[derive(Args, Clone, Copy, Debug)]
struct PeriodArguments {
    /// Earliest time of creation: 2026-11-21 (from midnight in São Paulo), or 2026-11-21T02:00:00-03:00
    #[arg(long, value_parser = Timestamp::parse_ceil)]
    since: Option<Timestamp>,
    /// Latest time of creation: 2026-11-21 (to the end of the day in São Paulo), or 2026-11-21T04:00:00-03:00
    #[arg(long, value_parser = Timestamp::parse_last)]
    until: Option<Timestamp>,
}

impl PeriodArguments {
    /// Returns a query of a list as merchants' programs send it, for a page of 100.
    fn query(self, parameters: &[(&str, Option<String>)]) -> Query {
        let times = [("created_after", self.since), ("created_before", self.until)];
        let times = times.map(|(name, at)| (name, at.map(Timestamp::to_iso)));
        let limit = [("limit", Some("100".to_owned()))];
        let all = parameters.iter().chain(&times).chain(&limit);
        let named = all.filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
        Query::parse(Some(&named.collect::<Vec<_>>().join("&")))
    }

    fn contains(self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at <= until)
    }
}

/// The actor of a change, and the reason for it
#[derive(Args, Clone, Debug)]
struct OperatorArguments {
    /// Name of the operator, recorded in the audit row; required where the variable USER is not set
    #[arg(long, env = "USER", value_parser = short_text)]
    actor: String,
    /// Reason for the change, recorded in the audit row
    #[arg(long, value_parser = short_text)]
    reason: String,
}

/// The maximum length of an actor, a reason and a note, in characters.
const MAX_SHORT_TEXT_CHARS: usize = 500;

/// Parses a text argument: 1 to 500 characters after trimming, without control characters.
fn short_text(text: &str) -> Result<String, String> {
    text_of_at_most(text, MAX_SHORT_TEXT_CHARS)
}

fn text_of_at_most(text: &str, most: usize) -> Result<String, String> {
    let text = text.trim();
    if (1..=most).contains(&text.chars().count()) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(format!("must be 1 to {most} characters, without control characters"))
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CommandOutcome {
    /// The command succeeded: exit code 0.
    Succeeded,
    /// The command found a fault and printed it: exit code 1.
    FoundFaults,
    /// The command found no fault, but could not check everything: exit code 2.
    Incomplete,
}

impl CommandOutcome {
    fn of(has_faults: bool) -> Self {
        if has_faults { Self::FoundFaults } else { Self::Succeeded }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let parsed = Arguments::command().try_get_matches();
    let parsed = parsed.and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    let (arguments, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return print_usage_error(&error),
    };
    let failure = arguments.command.exit_code_of_failure();
    match Box::pin(run(arguments, &matches)).await {
        Ok(CommandOutcome::Succeeded) => ExitCode::SUCCESS,
        Ok(CommandOutcome::FoundFaults) => ExitCode::FAILURE,
        Ok(CommandOutcome::Incomplete) => ExitCode::from(INCOMPLETE),
        Err(error) => {
            let text = error.to_string();
            let hint = if text.contains("ResourceNotFoundException") {
                "\nDynamoDB has no such table: check the variables TABLE_NAME, API_KEYS_TABLE_NAME, SECRETS_TABLE_NAME and AWS_REGION, and options that name a table"
            } else {
                ""
            };
            let _ = writeln!(std::io::stderr(), "error: {text}{hint}");
            failure
        }
    }
}

/// Whether the command has a reason, as each command that changes something.
fn has_reason(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, inner)) => has_reason(inner),
        None => matches.try_contains_id("reason").is_ok_and(|is_present| is_present),
    }
}

fn print_usage_error(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    let missing = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    let lacks = [ErrorKind::MissingRequiredArgument, ErrorKind::ValueValidation].contains(&error.kind());
    if lacks && missing.is_some_and(|missing| missing.contains("--actor")) {
        let _ = writeln!(
            std::io::stderr(),
            "\n--actor names the operator in the audit row: pass --actor ana, or set the variable USER, for example with `export USER=ana`"
        );
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

impl Command {
    /// Returns the exit code when the command can't run to its end. A reconciliation and `doctor` use exit code
    /// 1 for what they find, so that a script can distinguish that from a bank or a stack that can't be read.
    fn exit_code_of_failure(&self) -> ExitCode {
        match self {
            Self::Doctor | Self::OnStack(StackCommand::Reconcile(_)) => ExitCode::from(INCOMPLETE),
            Self::Cost(_) | Self::TokenKey | Self::OnStack(_) => ExitCode::FAILURE,
        }
    }
}

impl StackCommand {
    /// Whether the command moves money or ends something, so that no other command undoes it.
    fn is_final(&self) -> bool {
        match self {
            Self::Accounts(command) => command.is_final(),
            Self::Charges(command) => matches!(command, charges::Command::Expire { .. }),
            Self::Customers(customers::Command::Erase { apply, .. }) => *apply,
            Self::Refunds(command) => matches!(command, refunds::Command::Fail { .. }),
            Self::Restore(command) => command.changes(),
            Self::Keys(command) => matches!(command, keys::Command::Revoke { .. }),
            Self::Ledger(command) => matches!(command, ledger::Command::Adjust { .. }),
            Self::Med(command) => command.is_final(),
            Self::Notifications(command) => matches!(command, notifications::Command::Resolve { .. }),
            Self::Payouts(command) => {
                use payouts::Command::{Create, Fail, Settle};
                matches!(command, Create { .. } | Settle(_) | Fail(_))
            }
            Self::Proposals(command) => matches!(command, proposals::Command::Approve { .. }),
            Self::Receipts(command) => !matches!(command, receipts::Command::List { .. }),
            Self::Review(command) => !matches!(command, review::Command::List { .. }),
            Self::Users(command) => matches!(command, users::Command::Remove(_)),
            Self::Deliveries(_)
            | Self::Endpoints(_)
            | Self::Events(_)
            | Self::LiveCharges(_)
            | Self::Reconcile(_)
            | Self::Audit(_) => false,
        }
    }
}

impl StackCommand {
    /// Whether a command that takes no reason changes something.
    fn changes_without_reason(&self) -> bool {
        match self {
            Self::Reconcile(arguments) => arguments.applies(),
            Self::Accounts(command) => command.tries_acquirer(),
            _ => false,
        }
    }

    /// Why the command needs a second person; `None`: one is enough.
    fn second_person(&self) -> Option<Need> {
        match self {
            Self::Ledger(command) => command.is_live_correction().then_some(Need::Correction),
            Self::Payouts(command) => command.is_over_limit().then_some(Need::OverLimit),
            Self::Accounts(command) => command.sets_acquirer().then_some(Need::Credentials),
            Self::Users(command) => command.gives_access().then_some(Need::Access),
            Self::Restore(command) => command.changes().then_some(Need::Restore),
            _ => None,
        }
    }

    /// Whether the limit of a day holds for the command, or for a proposed one.
    fn has_limit(&self) -> bool {
        match self {
            Self::Ledger(command) => matches!(command, ledger::Command::Adjust { .. }),
            Self::Payouts(command) => matches!(command, payouts::Command::Create { .. }),
            Self::Proposals(command) => matches!(command, proposals::Command::Approve { .. }),
            _ => false,
        }
    }
}

/// Asks before a final change, and before each change of a stack that only variables select. A script must name such a
/// stack.
fn confirm(stack: &Stack, is_final: bool, is_by_variables: bool) -> Result<()> {
    if !std::io::stdin().is_terminal() {
        let unnamed = || format!("variables select {}: add --stack and its name to change it", stack.name);
        return if is_by_variables { Err(unnamed().into()) } else { Ok(()) };
    }
    let effect = match (is_final, is_by_variables) {
        (true, _) => "this can't be undone on",
        (false, true) => "this changes",
        (false, false) => return Ok(()),
    };
    write!(std::io::stderr(), "{effect} {}; type yes to go on: ", stack.name)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if answer.trim() == "yes" { Ok(()) } else { Err("nothing was changed".into()) }
}

const DRY_RUN: &str = "dry run: what is printed is not done";

/// The exit code of a comparison or check that could not be made.
const INCOMPLETE: u8 = 2;

async fn run(arguments: Arguments, matches: &ArgMatches) -> Result<CommandOutcome> {
    let Arguments { target, deciders, .. } = arguments;
    match arguments.command {
        Command::Doctor => doctor::run(&target).await,
        Command::Cost(cost) => cost::run(&cost).map(|()| CommandOutcome::Succeeded),
        Command::TokenKey => {
            let secret = std::io::read_to_string(std::io::stdin())?;
            print(&public_key_of(&secret.trim_end().into())?)?;
            Ok(CommandOutcome::Succeeded)
        }
        Command::OnStack(command) => {
            let is_final = command.is_final();
            let resends = matches!(
                command,
                StackCommand::Deliveries(deliveries::Command::Redrive { .. }) | StackCommand::Events(_)
            );
            if target.dry_run && !is_final && !resends {
                return Err("--dry-run is for commands that move money, resend or can't be undone".into());
            }
            let mut stack = target.open().await?;
            stack.prints_tables = !arguments.json && std::io::stdout().is_terminal();
            print_stack(&stack);
            let is_deployed = stack.local_base_url().is_none();
            let need = command.second_person();
            if need.is_none() && deciders.propose {
                return Err("--propose is for commands that need two persons".into());
            }
            let changes = has_reason(matches) || command.changes_without_reason();
            let mut described = None;
            if let Some(name) = target.stack.as_deref().filter(|_| is_deployed && (changes || need.is_some()))
            {
                let read = Described::read(&AwsCli::new(), name).await?;
                stack.require_own_tables(name, &read)?;
                described = Some(read);
            }
            // A dry run of a stack that only variables select checks no limit of a day.
            if (need.is_some() || command.has_limit())
                && (!is_deployed || target.stack.is_some() || !target.dry_run)
            {
                stack.rules = Some(Rules::of(described.as_ref(), &stack)?);
            }
            if target.dry_run {
                writeln!(std::io::stderr(), "{DRY_RUN}")?;
                if let Some(need) = need.filter(|_| is_deployed) {
                    writeln!(std::io::stderr(), "{need} needs two persons")?;
                } else if command.has_limit() && stack.rules.is_none() {
                    writeln!(std::io::stderr(), "the limit of a day is not checked: add --stack")?;
                }
            } else if changes {
                let is_by_variables = is_deployed && !target.names_tables() && target.stack.is_none();
                confirm(&stack, is_final && !deciders.propose, is_by_variables)?;
                if is_deployed {
                    stack.identity = Some(persons::identity(&AwsCli::new()).await?);
                }
            }
            if deciders.propose {
                let proposed = Proposed::new(std::env::args().skip(1), matches)?;
                if is_final {
                    check(target, &stack, command).await?;
                }
                return proposals::propose(&stack, proposed).await;
            }
            if let (Some(need), Some(rules), false) = (need, &stack.rules, target.dry_run) {
                stack.page = rules.permit(need, deciders, &stack)?;
            }
            Box::pin(run_on(&stack, command)).await
        }
    }
}

/// Runs a command that is proposed as a dry run.
async fn check(mut target: Target, stack: &Stack, command: StackCommand) -> Result<()> {
    writeln!(std::io::stderr(), "{DRY_RUN}")?;
    target.dry_run = true;
    let mut checking = target.open().await?;
    checking.rules.clone_from(&stack.rules);
    Box::pin(run_on(&checking, command)).await.map(drop)
}

async fn run_on(stack: &Stack, command: StackCommand) -> Result<CommandOutcome> {
    IS_DRY_RUN.scope(stack.is_dry_run, Box::pin(run_command(stack, command))).await
}

async fn run_command(stack: &Stack, command: StackCommand) -> Result<CommandOutcome> {
    match command {
        StackCommand::Accounts(command) => return accounts::run(stack, command).await,
        StackCommand::Deliveries(command) => return deliveries::run(stack, command).await,
        StackCommand::Events(command) => return events::run(stack, command).await,
        StackCommand::Ledger(command) => return ledger::run(stack, command).await,
        StackCommand::Restore(command) => return restore::run(stack, command).await,
        StackCommand::Reconcile(arguments) => return reconcile::run(stack, arguments).await,
        StackCommand::Audit(arguments) => return audit::run(stack, arguments).await,
        StackCommand::Proposals(command) => return proposals::run(stack, command).await,
        StackCommand::Charges(command) => charges::run(stack, command).await,
        StackCommand::Customers(command) => customers::run(stack, command).await,
        StackCommand::Users(command) => users::run(stack, command).await,
        StackCommand::Endpoints(command) => endpoints::run(stack, command).await,
        StackCommand::Keys(command) => keys::run(stack, command).await,
        StackCommand::LiveCharges(command) => live_charges::run(stack, command).await,
        StackCommand::Med(command) => med::run(stack, command).await,
        StackCommand::Notifications(command) => notifications::run(stack, command).await,
        StackCommand::Payouts(command) => payouts::run(stack, command).await,
        StackCommand::Receipts(command) => receipts::run(stack, command).await,
        StackCommand::Refunds(command) => Box::pin(refunds::run(stack, command)).await,
        StackCommand::Review(command) => review::run(stack, command).await,
    }
    .map(|()| CommandOutcome::Succeeded)
}

/// A failure is printed and does not prevent the others. Refused if an object is named twice: a dry run could not judge the
/// second by what the first changes.
async fn for_each<T: std::fmt::Display>(objects: &[T], change: impl AsyncFn(&T) -> Result<()>) -> Result<()> {
    require_distinct(objects.iter().map(ToString::to_string))?;
    let mut failed: usize = 0;
    for object in objects {
        let Err(error) = change(object).await else { continue };
        if objects.len() == 1 {
            return Err(error);
        }
        writeln!(std::io::stderr(), "{object}: {error}")?;
        failed = failed.saturating_add(1);
    }
    if failed > 0 { Err(format!("{failed} of {} failed", objects.len()).into()) } else { Ok(()) }
}

fn require_distinct(names: impl IntoIterator<Item = String>) -> Result<()> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(name.clone())) {
        Some(twice) => Err(format!("{twice} is named twice: nothing was changed").into()),
        None => Ok(()),
    }
}

/// Prints the name of the stack to stderr, so that stdout contains only the command's result.
fn print_stack(stack: &Stack) {
    let _ = writeln!(std::io::stderr(), "on {}", stack.name);
}

/// Returns a progress bar for a long command, which wraps the iterator of its loop. It is drawn only when stderr is a
/// terminal, and cleared at the end of the loop.
fn progress_bar(length: usize, unit: &str) -> Result<ProgressBar> {
    let bar = ProgressBar::new(u64::try_from(length).unwrap_or_default());
    let template = format!("{{bar:30}} {{pos}}/{{len}} {unit}{{msg}}, {{elapsed}}");
    bar.set_style(ProgressStyle::with_template(&template)?);
    let bar = bar.with_finish(ProgressFinish::AndClear);
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}

tokio::task_local! {
    /// Whether the command that runs is a dry run. Each line that it prints on stdout says so.
    static IS_DRY_RUN: bool;
}

fn is_dry_run() -> bool {
    IS_DRY_RUN.try_with(|is_dry_run| *is_dry_run).unwrap_or_default()
}

/// Prints a text.
fn print(text: &str) -> std::io::Result<()> {
    if is_dry_run() { print_line(&format!("dry run: {text}")) } else { print_line(text) }
}

/// A closed pipe is not an error: its reader, such as `head`, needs no more lines.
fn print_line(line: &str) -> std::io::Result<()> {
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(std::io::Error::other(format!(
            "a line could not be printed ({error}): the change that it reports was made, and then the command stopped"
        ))),
        Ok(()) => Ok(()),
    }
}

/// Prints an object that is shown only once, such as a new password. Unlike [`print_json`], it also fails on
/// a closed pipe, because the object would be lost.
fn print_once(object: &impl Serialize) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{}", json_line(object)?)?)
}

fn print_json(object: &impl Serialize) -> Result<()> {
    Ok(print_line(&json_line(object)?)?)
}

/// Returns an object as JSON. In a dry run, its first field says so.
fn json_line(object: &impl Serialize) -> serde_json::Result<String> {
    if is_dry_run() {
        serde_json::to_string(&With { object: record! { dry_run: true }, more: object })
    } else {
        serde_json::to_string(object)
    }
}
