//! `admin audit`: prints an account's audit rows, and verifies the hash chains of audit rows.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use domain::audit::Audit;
use domain::audit::chain::Head;
use domain::ids::AccountId;
use serde::Deserialize;
use shared::audit;

use crate::output::{Record, print_list, print_next, record};
use crate::target::Stack;
use crate::{CommandOutcome, Result, print_json, progress_bar};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The account (acc_…); `acc_0000000000000000` for actions on the whole stack
    #[arg(required = true)]
    account: Option<AccountId>,
    /// Continue after the row with this `sequence`, the last one of the previous page
    #[arg(long)]
    starting_after: Option<u64>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Verify that no audit row was changed, removed or inserted
    ///
    /// Prints a line for each account: the number of rows, the newest row, and the faults. If there is any
    /// fault, the exit code is 1. The removal of an account's newest rows is found only with --expect.
    Verify {
        /// The account (acc_…)
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        account: Option<AccountId>,
        /// Verify all accounts
        #[arg(long)]
        all: bool,
        /// File with the lines that an earlier verification printed; each chain must contain the row that was
        /// its newest one then
        #[arg(long)]
        expect: Option<PathBuf>,
    },
}

fn printed(row: &Audit) -> Record {
    record! {
        id: row.id,
        at: row.at,
        actor: row.actor,
        identity: row.identity,
        source: row.source,
        action: row.action.name(),
        subject: row.subject,
        details: row.action.details(),
        reason: row.reason,
        sequence: row.link.as_ref().map(|link| link.sequence),
        hash: row.link.as_ref().map(|link| &link.hash),
    }
}

#[derive(Deserialize)]
struct EarlierReport {
    account: AccountId,
    head: Head,
}

pub(crate) async fn run(stack: &Stack, arguments: Arguments) -> Result<CommandOutcome> {
    let Arguments { command, account, starting_after } = arguments;
    match (command, account) {
        (Some(Command::Verify { account, expect, .. }), _) => verify(stack, account, expect.as_deref()).await,
        (None, Some(account)) => print_page(stack, &account, starting_after).await,
        (None, None) => Err("an account is required".into()),
    }
}

async fn print_page(
    stack: &Stack,
    account: &AccountId,
    starting_after: Option<u64>,
) -> Result<CommandOutcome> {
    let account = chain_of(stack, account).await?;
    let (rows, has_more) = audit::page(&stack.store, &account, starting_after).await?;
    print_list(stack, "audit rows", rows.iter().map(printed))?;
    let last = rows.last().filter(|_| has_more).and_then(|last| last.link.as_ref());
    print_next("rows", last.map(|link| link.sequence))?;
    Ok(CommandOutcome::Succeeded)
}

async fn chain_of(stack: &Stack, account: &AccountId) -> Result<AccountId> {
    if *account == AccountId::STACK { Ok(*account) } else { Ok(stack.existing_account(account).await?.id) }
}

async fn verify(stack: &Stack, account: Option<AccountId>, expect: Option<&Path>) -> Result<CommandOutcome> {
    let mut chains: BTreeMap<AccountId, Option<Head>> = BTreeMap::new();
    if let Some(id) = account {
        chains.insert(chain_of(stack, &id).await?, None);
    } else {
        let accounts = stack.accounts.all().await?.into_iter().map(|account| account.id);
        chains.extend(accounts.chain([AccountId::STACK]).map(|account| (account, None)));
    }
    if let Some(file) = expect {
        let mut earlier = earlier_reports(file)?;
        earlier.retain(|report| account.is_none_or(|account| account == report.account));
        if earlier.is_empty() {
            return Err(
                format!("{} has no line of an earlier verification to compare with", file.display()).into()
            );
        }
        chains.extend(earlier.into_iter().map(|report| (report.account, Some(report.head))));
    }
    let bar = progress_bar(chains.len(), "accounts")?;
    let mut has_faults = false;
    for (account, expected) in bar.wrap_iter(chains.into_iter()) {
        let report = audit::verify(&stack.store, &account, expected).await?;
        // Most stacks have no such rows.
        if account == AccountId::STACK && report.rows == 0 && report.faults.is_empty() {
            continue;
        }
        has_faults |= !report.faults.is_empty();
        let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
        let printed = record! { account: account, rows: report.rows, head: report.head, faults: faults };
        bar.suspend(|| print_json(&printed))?;
    }
    Ok(CommandOutcome::of(has_faults))
}

fn earlier_reports(file: &Path) -> Result<Vec<EarlierReport>> {
    let unreadable = |error: &dyn Error| format!("{} can't be read: {error}", file.display());
    let lines = fs::read_to_string(file).map_err(|error| unreadable(&error))?;
    let reports = lines.lines().map(|line| serde_json::from_str(line).map_err(|error| unreadable(&error)));
    Ok(reports.collect::<Result<_, String>>()?)
}
