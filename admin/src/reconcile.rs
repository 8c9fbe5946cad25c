//! `admin reconcile`: compares a day at the acquirer with the records of the service. The comparisons themselves are in
//! [`services`].

use clap::Args;
use domain::calendar::Day;
use domain::ids::{AccountId, ConnectionId};
use domain::payment_method::PaymentMethod;
use services::reconciliation::Reconciliation;
use services::reconciliation::movements::MovementReconciliation;
use services::reconciliation::pix::Comparison;

use crate::output::{With, record};
use crate::receipts::printed_pix;
use crate::target::Stack;
use crate::{CommandOutcome, Result, print_json};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// An account that uses the connection (acc_…)
    #[arg(long)]
    account: AccountId,
    /// A connection, as `accounts show-acquirer` lists it, also a retired one [default:
    /// the bank of Pix]
    #[arg(long)]
    connection: Option<ConnectionId>,
    /// The day in São Paulo, such as 2026-11-21
    #[arg(long, value_parser = day)]
    date: Day,
    /// First record what the acquirer lists and the records lack
    #[arg(long)]
    apply: bool,
}

impl Arguments {
    /// Whether it records what it finds.
    pub(crate) fn applies(&self) -> bool {
        self.apply
    }
}

fn day(text: &str) -> Result<Day, String> {
    text.parse().map_err(|_| "must be a day such as 2026-11-21".to_owned())
}

pub(crate) async fn run(stack: &Stack, arguments: Arguments) -> Result<CommandOutcome> {
    let account = stack.existing_account(&arguments.account).await?.id;
    let acquirers = stack.acquirers()?;
    let named = match arguments.connection {
        None => acquirers.current(&account, PaymentMethod::Pix).await?,
        Some(named) => {
            let all = acquirers.all(&account).await?;
            let found = all.into_iter().find(|each| each.acquirer.connection == named);
            Some(found.ok_or_else(|| {
                format!(
                    "the account {account} has no connection {named}; `accounts show-acquirer` lists them"
                )
            })?)
        }
    };
    let id = named.ok_or_else(|| format!("the account {account} has no acquirer"))?.acquirer.connection;
    let reconciler = stack.reconciler()?;
    let connection = reconciler.connections().at(account, Some(id)).await?;
    let what = (arguments.date, arguments.apply);
    match Box::pin(reconciler.reconcile(&connection, what, stack.clock.now())).await {
        Ok(Reconciliation::Pix(found)) => print_pix(&found, id, arguments.date),
        Ok(Reconciliation::Movements(found)) => print_movements(&found, id, arguments.date),
        Err(error) => Err(format!("account {account}, connection {id}: {error}").into()),
    }
}

fn print_pix(found: &Comparison, connection: ConnectionId, date: Day) -> Result<CommandOutcome> {
    for recorded in &found.recorded {
        print_json(&printed_pix(recorded))?;
    }
    // A pending difference is younger than an hour, so it may disappear without any action.
    let found_by_state = [
        ("difference", &found.differences),
        ("pending", &found.pending),
        ("other_key", &found.of_other_keys),
    ];
    for (state, differences) in found_by_state {
        for difference in differences {
            print_json(&With { object: record! { state: state }, more: difference })?;
        }
    }
    print_json(&record! {
        date: date,
        connection: connection,
        pix: found.pix,
        amount: found.amount,
        returns: found.returns,
        pix_out: found.pix_out,
        differences: found.differences.len(),
        pending: found.pending.len(),
        other_keys: found.of_other_keys.len(),
    })?;
    Ok(CommandOutcome::of(!found.differences.is_empty()))
}

fn print_movements(
    found: &MovementReconciliation,
    connection: ConnectionId,
    date: Day,
) -> Result<CommandOutcome> {
    for difference in &found.differences {
        print_json(difference)?;
    }
    for exchanged in &found.exchanged {
        print_json(&With { object: record! { state: "exchanged" }, more: exchanged })?;
    }
    print_json(&record! {
        date: date,
        connection: connection,
        payments: found.payments,
        others: found.others,
        differences: found.differences.len(),
    })?;
    Ok(CommandOutcome::of(!found.differences.is_empty()))
}
