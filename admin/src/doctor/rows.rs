//! Checks the rows: stops that operators may have forgotten, ledgers, the hash chains of audit rows, and rows that
//! are overdue.

use std::error::Error;

use domain::ids::{AccountId, Mode, Scope};
use shared::acquirer::configuration::LiveChargesStop;
use shared::audit;
use shared::services::verify_ledger;
use shared::store::{DUE_SHARDS, DuePartition, StoreError};

use super::{Report, SkippedChecks};
use crate::progress_bar;
use crate::target::Stack;

/// The scheduler reads due rows every minute, and postpones a row that fails by five minutes.
const OVERDUE_SECONDS: i64 = 10 * 60;

const STOPS: &str = "stops";
const LEDGERS: &str = "ledgers";
const AUDIT: &str = "audit";
const DUE_ROWS: &str = "due rows";

pub(super) async fn check(
    report: &mut Report,
    stack: &Stack,
    skipped: SkippedChecks,
) -> Result<(), Box<dyn Error>> {
    stops(report, stack).await?;
    if skipped.skip_ledgers {
        report.left_out(LEDGERS, "--skip-ledgers")?;
    } else {
        report.add(LEDGERS, of_each_account(stack, ledgers).await?)?;
    }
    if skipped.skip_audit {
        report.left_out(AUDIT, "--skip-audit")?;
    } else {
        report.add(AUDIT, of_each_account(stack, chain).await?)?;
    }
    report.add(DUE_ROWS, vec![overdue(stack).await])
}

async fn stops(report: &mut Report, stack: &Stack) -> Result<(), Box<dyn Error>> {
    match stack.acquirers() {
        Err(error) => report.left_out(STOPS, &error.to_string())?,
        Ok(acquirers) => {
            let stop = acquirers.live_charges_stop().await;
            report.add(STOPS, vec![stop.map(|stop| stop.iter().map(finding_about).collect())])?;
        }
    }
    match stack.accounts.all().await {
        Err(error) => report.add(STOPS, vec![Err(error)]),
        Ok(accounts) => accounts
            .iter()
            .filter(|account| account.settings.suspended)
            .try_for_each(|account| report.note(STOPS, format!("{}: the account is suspended", account.id))),
    }
}

fn finding_about(stop: &LiveChargesStop) -> String {
    let LiveChargesStop { at, actor, reason } = stop;
    format!("new live charges are stopped since {at} by {actor} ({reason}): run `live-charges resume`")
}

pub(super) fn not_checked(report: &mut Report, reason: &str) -> Result<(), Box<dyn Error>> {
    [STOPS, LEDGERS, AUDIT, DUE_ROWS].iter().try_for_each(|check| report.add(check, vec![Err(reason)]))
}

/// The findings of one object, or why its rows could not be read.
type Checked = Result<Vec<String>, StoreError>;

async fn of_each_account(
    stack: &Stack,
    check: impl AsyncFn(&Stack, AccountId) -> Vec<Checked>,
) -> Result<Vec<Checked>, Box<dyn Error>> {
    let accounts = match stack.accounts.all().await {
        Ok(accounts) => accounts,
        Err(error) => return Ok(vec![Err(error)]),
    };
    let bar = progress_bar(accounts.len(), "accounts")?;
    let mut checked = Vec::new();
    for account in accounts {
        checked.extend(check(stack, account.id).await);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(checked)
}

async fn ledgers(stack: &Stack, account: AccountId) -> Vec<Checked> {
    let mut checked = Vec::new();
    for mode in [Mode::Test, Mode::Live] {
        checked.push(ledger(stack, &Scope { account, mode }).await);
    }
    checked
}

async fn ledger(stack: &Stack, scope: &Scope) -> Checked {
    let sources = (&stack.wallets, &stack.charges);
    let verified = verify_ledger(sources, scope, stack.clock.now(), &|_| {}).await?;
    Ok(match verified.differences.len() {
        0 => Vec::new(),
        count => vec![format!("{scope}: {count} differences: run `ledger verify`")],
    })
}

async fn chain(stack: &Stack, account: AccountId) -> Vec<Checked> {
    let verified = audit::verify(&stack.store, &account, None).await;
    let checked = verified.map(|report| match report.faults.as_slice() {
        [] => Vec::new(),
        [first, ..] => {
            let count = report.faults.len();
            vec![format!("{account}: {count} faults: run `audit verify`. The first: {first}")]
        }
    });
    vec![checked]
}

async fn overdue(stack: &Stack) -> Result<Vec<String>, StoreError> {
    let limit = stack.clock.now().saturating_plus_seconds(-OVERDUE_SECONDS);
    let mut found = Vec::new();
    for shard in 0..DUE_SHARDS {
        let (mut overdue, mut has_more) = (Vec::new(), false);
        for partition in DuePartition::of_shard(shard) {
            let (rows, next) = stack.store.due(partition, limit, None).await?;
            overdue.extend(rows);
            has_more |= next.is_some();
        }
        let Some(oldest) = overdue.iter().min_by(|a, b| a.sort.cmp(&b.sort)) else { continue };
        let more = if has_more { " or more" } else { "" };
        found.push(format!(
            "{}{more} rows of shard {shard} are overdue by more than ten minutes: the first is {}",
            overdue.len(),
            oldest.key.joined()
        ));
    }
    Ok(found)
}
