//! `admin ledger`: verifies that balances equal the sums of the postings, shows balances, and adjusts a
//! wallet by a posting.

use std::io::Write;

use clap::Subcommand;
use domain::ids::{AccountId, Mode, PostingId, Scope};
use domain::money::{Amount, Currency};
use domain::reference::Reference;
use money::payout::PayoutError;
use money::wallet::verify::Verification;
use money::wallet::view::{BalanceView, MovementView};
use money::wallet::{Adjustment, AdjustmentOutcome};
use services::verify_ledger;
use shared::random;

use crate::output::{With, record, unknown_outcome};
use crate::target::Stack;
use crate::{
    CommandOutcome, OperatorArguments, Result, ScopeArguments, print, print_json, progress_bar, short_text,
};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Compare the sums of all postings with the balances and the charges
    ///
    /// Prints each difference; if there is any, the exit code is 1.
    Verify {
        /// Verify only this account (acc_…)
        #[arg(long)]
        account: Option<AccountId>,
        /// Verify only this mode: test or live
        #[arg(long)]
        mode: Option<Mode>,
    },
    /// Credit or debit the available balance of a wallet; the other side is the platform's expense account
    Adjust {
        #[command(flatten)]
        scope: ScopeArguments,
        /// In minor units of the currency, without a decimal point: 1000 is R$ 10,00, or 1000 yen. A positive
        /// amount is credited, a negative one is debited if the balance covers it
        #[arg(long, allow_hyphen_values = true, value_parser = adjustment)]
        amount: i64,
        /// The currency of the wallet
        #[arg(long, default_value = "BRL", value_parser = currency)]
        currency: Currency,
        /// Permit more than operators may move of an account in a day
        #[arg(long)]
        over_limit: bool,
        /// Note that the merchant reads in the statement
        #[arg(long, value_parser = short_text)]
        note: Option<String>,
        /// Your name of the correction, such as 2026-11; unique among the account's payouts and corrections
        #[arg(long)]
        reference: Reference,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Show the balances of an account in a mode, as the merchant sees them, or those of all accounts
    Show {
        /// The account (acc_…)
        #[arg(long, required_unless_present = "all", conflicts_with = "all")]
        account: Option<AccountId>,
        /// The balances of all accounts, one after the other
        #[arg(long)]
        all: bool,
        /// The mode: test or live
        #[arg(long)]
        mode: Mode,
    },
}

impl Command {
    pub(crate) fn is_live_correction(&self) -> bool {
        matches!(self, Self::Adjust { scope, .. } if scope.mode == Mode::Live)
    }
}

pub(crate) fn currency(text: &str) -> Result<Currency, String> {
    let known = Currency::parse(text).ok().filter(|currency| currency.is_known());
    known.ok_or_else(|| "must be the code of a currency, such as BRL".to_owned())
}

/// Parses an amount in minor units.
pub(crate) fn amount(text: &str) -> Result<Amount, String> {
    Amount::parse(minor_units(text)?).map_err(|error| error.to_string())
}

/// A decimal point would be a guess about the currency's decimals, so it is refused.
fn minor_units(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "must be an integer, in minor units: 1000 is BRL 10.00, or JPY 1000".to_owned())
}

/// Parses an amount in minor units, positive or negative, but not zero.
fn adjustment(text: &str) -> Result<i64, String> {
    let minor = minor_units(text)?;
    if minor == 0 {
        return Err("must not be zero".to_owned());
    }
    Amount::parse(i128::from(minor).abs()).map(|_| minor).map_err(|error| error.to_string())
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome> {
    match command {
        Command::Verify { account, mode } => verify(stack, account, mode).await,
        Command::Adjust { scope, amount, currency, over_limit, note, reference, operator } => {
            let (scope, now) = (stack.existing_scope(scope).await?, stack.clock.now());
            let id = PostingId::new(now, random::bytes()?);
            let adjustment = Adjustment { id, reference, scope, currency, minor: amount, note };
            let operator = stack.operator_over(over_limit, &operator);
            let adjusted = stack.wallets.adjust(&adjustment, &operator, now).await;
            match adjusted.map_err(|error| unknown_outcome(&error))? {
                AdjustmentOutcome::Done(posting) => {
                    if posting.id != id {
                        let hint = "the correction with this reference exists already; nothing changed";
                        writeln!(std::io::stderr(), "{hint}")?;
                    }
                    print_json(&MovementView::new(&posting)?)?;
                }
                AdjustmentOutcome::Short { available } => {
                    return Err(PayoutError::InsufficientBalance { available }.into());
                }
                AdjustmentOutcome::OverLimit(over) => return Err(over.into()),
                AdjustmentOutcome::ReferenceTaken(of) => return Err(PayoutError::ReferenceTaken(of).into()),
            }
            Ok(CommandOutcome::Succeeded)
        }
        Command::Show { account: Some(account), all: _, mode } => {
            let scope = stack.existing_scope(ScopeArguments { account, mode }).await?;
            print_json(&balance(stack, &scope).await?)?;
            Ok(CommandOutcome::Succeeded)
        }
        Command::Show { account: None, all: _, mode } => {
            for scope in stack.scopes(None, Some(mode)).await? {
                let object = balance(stack, &scope).await?;
                print_json(&With { object, more: record! { account: scope.account } })?;
            }
            Ok(CommandOutcome::Succeeded)
        }
    }
}

async fn balance(stack: &Stack, scope: &Scope) -> Result<BalanceView> {
    let scope = stack.accounts.sharded_scope(scope).await?;
    Ok(BalanceView::new(&stack.wallets.for_scope(&scope).await?)?)
}

async fn verify(stack: &Stack, account: Option<AccountId>, mode: Option<Mode>) -> Result<CommandOutcome> {
    let scopes = stack.scopes(account, mode).await?;
    let bar = progress_bar(scopes.len(), "ledgers")?;
    if scopes.is_empty() {
        return Err(format!("{} has no accounts: nothing was verified", stack.name).into());
    }
    let (mut postings, mut differences, mut moving): (u64, usize, usize) = (0, 0, 0);
    for scope in bar.wrap_iter(scopes.iter()) {
        let before = postings;
        let progress = |count: u64| bar.set_message(format!(", {} postings", before.saturating_add(count)));
        let sources = (&stack.wallets, &stack.charges);
        let verification = verify_ledger(sources, scope, stack.clock.now(), &progress).await?;
        postings = postings.saturating_add(verification.postings);
        differences = differences.saturating_add(verification.differences.len());
        moving = moving.saturating_add(usize::from(verification.is_moving));
        bar.suspend(|| report(scope, &verification))?;
    }
    print(&format!("{} ledgers, {postings} postings, {differences} differences", scopes.len()))?;
    if moving > 0 {
        print(&format!(
            "{moving} of them kept changing: their sums were compared with a lower and an upper bound only, their tranches not at all"
        ))?;
    }
    Ok(CommandOutcome::of(differences > 0))
}

fn report(scope: &Scope, verification: &Verification) -> std::io::Result<()> {
    for difference in &verification.differences {
        let (currency, figure) = (difference.currency, &difference.figure);
        print(&format!(
            "{scope} {currency}: {figure}: the postings add up to {}, stored is {}",
            difference.posted, difference.stored
        ))?;
    }
    Ok(())
}
