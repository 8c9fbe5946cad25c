//! `admin payouts`: money on its way to merchants' banks. Each command prints the payout as its events carry it.

use std::error::Error;
use std::io::Write;

use clap::Subcommand;
use domain::ids::{PayoutId, Scope};
use domain::money::Currency;
use domain::payout::{Payout, PayoutEnd, PayoutStatus};
use serde::Serialize;
use shared::payout::{LISTED, PayoutRefused, PayoutView};
use shared::random;

use crate::target::Stack;
use crate::word::word;
use crate::{OperatorArguments, ScopeArguments, announce, announce_as, ledger, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Take money out of a wallet for a payout
    Create {
        #[command(flatten)]
        scope: ScopeArguments,
        /// In minor units: 1000 is R$ 10,00
        #[arg(long, allow_hyphen_values = true, value_parser = ledger::amount)]
        amount: domain::money::Amount,
        /// Of which wallet
        #[arg(long, default_value = "BRL", value_parser = ledger::currency)]
        currency: Currency,
        /// To repeat a payout whose outcome is not known: the id that was printed then (po_…)
        #[arg(long)]
        id: Option<PayoutId>,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// A payout reached the merchant's bank
    Settle {
        /// The payout (po_…)
        id: PayoutId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// A payout did not reach the merchant's bank: its money goes back to the wallet, and the reason is shown to the
    /// merchant
    Fail {
        /// The payout (po_…)
        id: PayoutId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// One payout
    Show {
        /// The payout (po_…)
        id: PayoutId,
    },
    /// A scope's payouts, newest first, 100 at once
    List {
        #[command(flatten)]
        scope: ScopeArguments,
        /// pending, paid or failed, of the 100
        #[arg(long, value_parser = word::<PayoutStatus>())]
        status: Option<PayoutStatus>,
        /// The last payout of the page before (po_…)
        #[arg(long)]
        starting_after: Option<PayoutId>,
    },
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<(), Box<dyn Error>> {
    let now = stack.clock.now();
    let payout = match command {
        Command::Create { scope, amount, currency, id, operator } => {
            stack.account(&scope.account).await?;
            let id = match id {
                Some(id) => id,
                None => PayoutId::new(now, random::bytes()?),
            };
            announce_as(stack, &id);
            let money = (amount, currency);
            let created = stack.payouts.create(id, scope.scope(), money, &operator.operator(), now).await;
            created.map_err(|refused| match refused {
                PayoutRefused::Store(error) => not_known(&error, &id),
                refused => refused.to_string(),
            })?
        }
        Command::Settle { id, operator } => {
            announce(stack);
            stack.payouts.end(id, &PayoutEnd::Paid, &operator.operator(), now).await?
        }
        Command::Fail { id, operator } => {
            announce(stack);
            let end = PayoutEnd::Failed { reason: operator.reason.clone() };
            stack.payouts.end(id, &end, &operator.operator(), now).await?
        }
        Command::Show { id } => stack.payouts.find(id).await?.ok_or(PayoutRefused::NotFound)?,
        Command::List { scope, status, starting_after } => {
            stack.account(&scope.account).await?;
            return list(stack, scope, status, starting_after).await;
        }
    };
    print_payout(&payout)
}

/// A payout, as it is printed.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    payout: PayoutView<'a>,
    scope: Scope,
}

fn print_payout(payout: &Payout) -> Result<(), Box<dyn Error>> {
    print_json(&Shown { payout: PayoutView::new(payout), scope: payout.scope })
}

async fn list(
    stack: &Stack,
    scope: ScopeArguments,
    status: Option<PayoutStatus>,
    starting_after: Option<PayoutId>,
) -> Result<(), Box<dyn Error>> {
    let payouts = stack.payouts.list(&scope.scope(), starting_after).await?;
    let wanted = |payout: &&Payout| status.is_none_or(|status| payout.status == status);
    for payout in payouts.iter().filter(wanted) {
        print_payout(payout)?;
    }
    if let Some(last) = payouts.last().filter(|_| payouts.len() == LISTED) {
        writeln!(std::io::stderr(), "there may be more: --starting-after {}", last.id)?;
    }
    Ok(())
}

/// What to do when a change may or may not be written: the same one again, by its id, is done once.
pub(crate) fn not_known(error: &impl std::fmt::Display, id: &impl std::fmt::Display) -> String {
    format!(
        "{error}\nWhether it was done is not known. Run the same command again with --id {id}: it is done once."
    )
}
