//! `admin payouts`: creates payouts to merchants' banks, records whether they were paid or failed, and lists
//! them. Commands print a payout as its events contain it, plus its `scope`.

use std::io::Write;

use clap::{Args, Subcommand};
use domain::ids::{AccountId, Mode, PayoutId};
use domain::money::{Amount, Currency};
use domain::payout::{Payout, PayoutOutcome, PayoutStatus};
use domain::reference::Reference;
use money::payout::{PAGE_SIZE, PayoutError, PayoutView};
use shared::random;

use crate::enum_parser::enum_parser;
use crate::output::{With, print_list, record, unknown_outcome};
use crate::target::Stack;
use crate::{OperatorArguments, Result, ScopeArguments, ledger, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Create a payout and debit the wallet
    ///
    /// Refused for a suspended account, and of live money above the limit of a day. A repetition with the same reference
    /// and content shows the existing payout.
    Create {
        #[command(flatten)]
        scope: ScopeArguments,
        /// The amount in minor units of the currency, without a decimal point: 1000 is R$ 10,00, or 1000 yen
        #[arg(long, allow_hyphen_values = true, value_parser = ledger::amount)]
        amount: Amount,
        /// The currency of the wallet
        #[arg(long, default_value = "BRL", value_parser = ledger::currency)]
        currency: Currency,
        /// Your name of the payout, such as 2026-11; unique among the account's payouts and corrections
        #[arg(long)]
        reference: Reference,
        /// Permit more than operators may move of an account in a day, which needs a second person on a deployed stack
        #[arg(long)]
        over_limit: bool,
        /// Create it although the account is suspended
        #[arg(long)]
        although_suspended: bool,
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
    /// List the payouts of an account in a mode, or the pending ones of all accounts, newest first, 100 at a time
    List {
        /// The account (acc_…)
        #[arg(long, required_unless_present = "all", conflicts_with = "all", requires = "mode")]
        account: Option<AccountId>,
        /// The pending payouts of all accounts; needs --status pending
        #[arg(long, requires = "status")]
        all: bool,
        /// The mode: test or live [default with --all: both]
        #[arg(long)]
        mode: Option<Mode>,
        /// Print only the page's payouts with this status
        #[arg(long, value_parser = enum_parser::<PayoutStatus>())]
        status: Option<PayoutStatus>,
        /// Continue after this payout, the last one of the previous page (po_…)
        #[arg(long)]
        starting_after: Option<PayoutId>,
    },
}

impl Command {
    pub(crate) fn is_over_limit(&self) -> bool {
        matches!(self, Self::Create { over_limit: true, .. })
    }
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
        Command::Create { scope, amount, currency, reference, over_limit, although_suspended, operator } => {
            let scope = stack.existing_scope(scope).await?;
            if stack.existing_account(&scope.account).await?.settings.suspended && !although_suspended {
                return Err("the account is suspended: --although-suspended creates the payout".into());
            }
            let named = (PayoutId::new(now, random::bytes()?), &reference);
            let money = (amount, currency);
            let operator = stack.operator_over(over_limit, &operator);
            let created = stack.payouts.create(named, scope, money, &operator, now).await;
            let payout = created.map_err(|error| match error {
                PayoutError::Store(error) => unknown_outcome(&error),
                refused => refused.to_string(),
            })?;
            if payout.id != named.0 {
                writeln!(
                    std::io::stderr(),
                    "the payout with this reference exists already; nothing changed"
                )?;
            }
            payout
        }
        Command::Settle(PayoutArguments { id, operator }) => {
            stack.payouts.end(id, &PayoutOutcome::Paid, &stack.operator(&operator), now).await?
        }
        Command::Fail(PayoutArguments { id, operator }) => {
            let end = PayoutOutcome::Failed { reason: operator.reason.clone() };
            stack.payouts.end(id, &end, &stack.operator(&operator), now).await?
        }
        Command::Show { id } => stack.payouts.find(id).await?.ok_or(PayoutError::NotFound)?,
        Command::List { account, all: _, mode, status, starting_after } => {
            return list(stack, (account, mode), status, starting_after).await;
        }
    };
    print_json(&printed(&payout))
}

fn printed(payout: &Payout) -> With<PayoutView<'_>> {
    With {
        object: PayoutView::new(payout),
        more: record! { scope: payout.scope, reference: payout.reference },
    }
}

/// Without an account, those that are pending.
async fn list(
    stack: &Stack,
    (account, mode): (Option<AccountId>, Option<Mode>),
    status: Option<PayoutStatus>,
    starting_after: Option<PayoutId>,
) -> Result<()> {
    let payouts = match account.zip(mode) {
        Some((account, mode)) => {
            let scope = stack.existing_scope(ScopeArguments { account, mode }).await?;
            stack.payouts.list(&scope, starting_after).await?
        }
        None if status == Some(PayoutStatus::Pending) => stack.payouts.pending(starting_after).await?,
        None => return Err("--all lists only pending payouts: add --status pending".into()),
    };
    let wanted = |payout: &&Payout| {
        status.is_none_or(|status| payout.status == status)
            && mode.is_none_or(|mode| payout.scope.mode == mode)
    };
    print_list(stack, "payouts", payouts.iter().filter(wanted).map(printed))?;
    if let Some(last) = payouts.last().filter(|_| payouts.len() == PAGE_SIZE) {
        writeln!(std::io::stderr(), "more payouts may follow: --starting-after {}", last.id)?;
    }
    Ok(())
}
