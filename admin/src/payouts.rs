//! `admin payouts`: creates payouts to merchants' banks, records whether they were paid or failed, and lists
//! them. Commands print a payout as its events contain it, plus its `scope`.

use std::io::Write;

use clap::{Args, Subcommand};
use domain::ids::{PayoutId, Scope};
use domain::money::Currency;
use domain::payout::{Payout, PayoutOutcome, PayoutStatus};
use shared::payout::{PAGE_SIZE, PayoutError, PayoutView};
use shared::random;

use crate::enum_parser::enum_parser;
use crate::output::{With, print_list, record};
use crate::target::Stack;
use crate::{OperatorArguments, Result, ScopeArguments, ledger, print_id, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Create a payout and debit the wallet
    Create {
        #[command(flatten)]
        scope: ScopeArguments,
        /// The amount in minor units: 1000 is R$ 10,00
        #[arg(long, allow_hyphen_values = true, value_parser = ledger::amount)]
        amount: domain::money::Amount,
        /// The currency of the wallet
        #[arg(long, default_value = "BRL", value_parser = ledger::currency)]
        currency: Currency,
        /// Id that an earlier attempt printed (po_…), to repeat a payout whose outcome is unknown
        #[arg(long)]
        id: Option<PayoutId>,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Record that a payout reached the merchant's bank
    Settle(PayoutArguments),
    /// Record that a payout failed, and credit its money back to the wallet
    ///
    /// The merchant reads the reason as `failure_reason`.
    Fail(PayoutArguments),
    /// Show one payout
    Show {
        /// The payout (po_…)
        id: PayoutId,
    },
    /// List the payouts of an account in a mode, newest first, 100 at a time
    List {
        #[command(flatten)]
        scope: ScopeArguments,
        /// Print only the page's payouts with this status
        #[arg(long, value_parser = enum_parser::<PayoutStatus>())]
        status: Option<PayoutStatus>,
        /// Continue after this payout, the last one of the previous page (po_…)
        #[arg(long)]
        starting_after: Option<PayoutId>,
    },
}

/// A payout that a command ends
#[derive(Args, Debug)]
pub(crate) struct PayoutArguments {
    /// The payout (po_…)
    id: PayoutId,
    #[command(flatten)]
    operator: OperatorArguments,
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    let now = stack.clock.now();
    let payout = match command {
        Command::Create { scope, amount, currency, id, operator } => {
            let scope = stack.existing_scope(scope).await?;
            let id = match id {
                Some(id) => id,
                None => PayoutId::new(now, random::bytes()?),
            };
            print_id(&id);
            let money = (amount, currency);
            let created = stack.payouts.create(id, scope, money, &operator.operator(), now).await;
            created.map_err(|error| match error {
                PayoutError::Store(error) => unknown_outcome(&error, &id),
                refused => refused.to_string(),
            })?
        }
        Command::Settle(PayoutArguments { id, operator }) => {
            stack.payouts.end(id, &PayoutOutcome::Paid, &operator.operator(), now).await?
        }
        Command::Fail(PayoutArguments { id, operator }) => {
            let end = PayoutOutcome::Failed { reason: operator.reason.clone() };
            stack.payouts.end(id, &end, &operator.operator(), now).await?
        }
        Command::Show { id } => stack.payouts.find(id).await?.ok_or(PayoutError::NotFound)?,
        Command::List { scope, status, starting_after } => {
            let scope = stack.existing_scope(scope).await?;
            return list(stack, &scope, status, starting_after).await;
        }
    };
    print_json(&printed(&payout))
}

fn printed(payout: &Payout) -> With<PayoutView<'_>> {
    With { object: PayoutView::new(payout), more: record! { scope: payout.scope } }
}

async fn list(
    stack: &Stack,
    scope: &Scope,
    status: Option<PayoutStatus>,
    starting_after: Option<PayoutId>,
) -> Result<()> {
    let payouts = stack.payouts.list(scope, starting_after).await?;
    let wanted = |payout: &&Payout| status.is_none_or(|status| payout.status == status);
    print_list(stack, "payouts", payouts.iter().filter(wanted).map(printed))?;
    if let Some(last) = payouts.last().filter(|_| payouts.len() == PAGE_SIZE) {
        writeln!(std::io::stderr(), "more payouts may follow: --starting-after {}", last.id)?;
    }
    Ok(())
}

/// Returns the error message for a change that may or may not have been made.
pub(crate) fn unknown_outcome(error: &impl std::fmt::Display, id: &impl std::fmt::Display) -> String {
    format!(
        "{error}\nThe outcome is unknown. Run the same command again with --id {id}: the change is made at most once."
    )
}
