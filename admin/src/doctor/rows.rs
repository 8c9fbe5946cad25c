//! Checks the rows: stops that operators may have forgotten, and rows that are overdue.

use std::collections::BTreeMap;

use acquirer_core::configuration::LiveChargesStop;
use domain::account::Account;
use domain::acquirer::ConnectionSweep;
use shared::store::{DUE_SHARDS, DuePartition, StoreError};

use super::Report;
use crate::Result;
use crate::target::Stack;

/// The scheduler reads due rows every minute, and postpones a row that fails by five minutes.
const OVERDUE_SECONDS: i64 = 10 * 60;

const STOPS: &str = "stops";
const BANKS: &str = "banks";
const DUE_ROWS: &str = "due rows";

pub(super) async fn check(report: &mut Report, stack: &Stack) -> Result<()> {
    let accounts = stack.accounts.all().await;
    stops(report, stack, &accounts).await?;
    banks(report, stack, &accounts).await?;
    report.left_out("ledgers", "run `ledger verify`")?;
    report.left_out("audit", "run `audit verify --all`")?;
    report.add(DUE_ROWS, vec![overdue(stack).await])
}

type Accounts = Result<Vec<Account>, StoreError>;

async fn stops(report: &mut Report, stack: &Stack, accounts: &Accounts) -> Result<()> {
    match stack.acquirers() {
        Err(error) => report.left_out(STOPS, &error.to_string())?,
        Ok(acquirers) => {
            let stop = acquirers.live_charges_stop().await;
            report.add(STOPS, vec![stop.map(|stop| stop.iter().map(finding_about).collect())])?;
        }
    }
    match accounts {
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

pub(super) fn not_checked(report: &mut Report, reason: &str) -> Result<()> {
    [STOPS, BANKS, DUE_ROWS].iter().try_for_each(|check| report.add(check, vec![Err(reason)]))
}

/// Notes the connections that the sweep could not read. They are no findings, because a merchant's bank must not stop a
/// deployment.
async fn banks(report: &mut Report, stack: &Stack, accounts: &Accounts) -> Result<()> {
    let (acquirers, accounts) = match (stack.acquirers(), accounts) {
        (Ok(acquirers), Ok(accounts)) => (acquirers, accounts),
        (Err(error), _) => return report.left_out(BANKS, &error.to_string()),
        (_, Err(error)) => return report.add(BANKS, vec![Err(error)]),
    };
    let (mut failing, mut failures) = (BTreeMap::new(), Vec::new());
    for account in accounts {
        match acquirers.sweeps(&account.id).await {
            Ok(sweeps) => failing.extend(sweeps.into_iter().map(|sweep| (sweep.connection, sweep))),
            Err(error) => failures.push(Err(error)),
        }
    }
    for ConnectionSweep { connection, accounts, failing_since, .. } in failing.into_values() {
        let Some(since) = failing_since else { continue };
        let accounts = accounts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        report.note(BANKS, format!("{connection} of {accounts} has not been readable since {since}"))?;
    }
    report.add(BANKS, failures)
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
