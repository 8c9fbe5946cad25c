//! `admin ledger`: checks that balances are what the postings add up to, and corrects by a posting of its own.

use std::error::Error;

use clap::Subcommand;
use domain::ids::{AccountId, Mode, PostingId, Scope};
use domain::money::{Amount, Currency};
use shared::payout::PayoutRefused;
use shared::random;
use shared::services::verify_ledger;
use shared::wallet::verify::Verification;
use shared::wallet::view::{BalanceView, MovementView};
use shared::wallet::{Adjusted, Adjustment};

use crate::payouts::not_known;
use crate::target::Stack;
use crate::{
    Done, OperatorArguments, ScopeArguments, announce, announce_as, print, print_json, progress_bar, sentence,
};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Add up every posting again and compare with the balances and the charges; fails on any difference
    Verify {
        /// One account (acc_…), instead of all
        #[arg(long)]
        account: Option<AccountId>,
        /// test or live, instead of both
        #[arg(long)]
        mode: Option<Mode>,
    },
    /// Correct what can be spent of a wallet, at the platform's expense
    Adjust {
        #[command(flatten)]
        scope: ScopeArguments,
        /// In minor units: above zero the merchant gets it, below zero it is taken, if it is there
        #[arg(long, allow_hyphen_values = true, value_parser = adjustment)]
        amount: i64,
        /// Of which wallet
        #[arg(long, default_value = "BRL", value_parser = currency)]
        currency: Currency,
        /// What the merchant reads of it in the statement
        #[arg(long, value_parser = sentence)]
        note: Option<String>,
        /// To repeat a correction whose outcome is not known: the id that was printed then (mv_…)
        #[arg(long)]
        id: Option<PostingId>,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// The balances of a scope, as the merchant reads them
    Show {
        #[command(flatten)]
        scope: ScopeArguments,
    },
}

/// A currency in use.
pub(crate) fn currency(text: &str) -> Result<Currency, String> {
    let known = Currency::parse(text).ok().filter(|currency| currency.is_known());
    known.ok_or_else(|| "must be the code of a currency, such as BRL".to_owned())
}

/// An amount in minor units.
pub(crate) fn amount(text: &str) -> Result<Amount, String> {
    let minor: i64 = text.parse().map_err(|_| "must be an integer, in minor units".to_owned())?;
    Amount::parse(minor).map_err(|error| error.to_string())
}

/// An amount in minor units, above or below zero.
fn adjustment(text: &str) -> Result<i64, String> {
    let minor: i64 = text.parse().map_err(|_| "must be an integer, in minor units".to_owned())?;
    if minor == 0 {
        return Err("must be above or below zero".to_owned());
    }
    Amount::parse(i128::from(minor).abs()).map(|_| minor).map_err(|error| error.to_string())
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<Done, Box<dyn Error>> {
    match command {
        Command::Verify { account, mode } => verify(stack, account, mode).await,
        Command::Adjust { scope, amount, currency, note, id, operator } => {
            stack.account(&scope.account).await?;
            let now = stack.clock.now();
            let id = match id {
                Some(id) => id,
                None => PostingId::new(now, random::bytes()?),
            };
            announce_as(stack, &id);
            let adjustment = Adjustment { id, scope: scope.scope(), currency, minor: amount, note };
            let adjusted = stack.wallets.adjust(&adjustment, &operator.operator(), now).await;
            match adjusted.map_err(|error| not_known(&error, &id))? {
                Adjusted::Done(posting) => print_json(&MovementView::new(&posting)?)?,
                Adjusted::Short { available } => {
                    return Err(PayoutRefused::InsufficientBalance { available }.into());
                }
                Adjusted::IdTaken => return Err("there is another movement of that id".into()),
                Adjusted::IdOutOfTime => return Err(PayoutRefused::IdOutOfTime.into()),
            }
            Ok(Done::Well)
        }
        Command::Show { scope } => {
            stack.account(&scope.account).await?;
            print_json(&BalanceView::new(&stack.wallets.of(&scope.scope()).await?)?)?;
            Ok(Done::Well)
        }
    }
}

async fn verify(
    stack: &Stack,
    account: Option<AccountId>,
    mode: Option<Mode>,
) -> Result<Done, Box<dyn Error>> {
    announce(stack);
    let accounts = match account {
        Some(id) => vec![stack.account(&id).await?.id],
        None => stack.accounts.all().await?.into_iter().map(|account| account.id).collect(),
    };
    let modes = mode.map_or_else(|| vec![Mode::Test, Mode::Live], |mode| vec![mode]);
    let scopes: Vec<Scope> = accounts
        .iter()
        .flat_map(|account| modes.iter().map(|mode| Scope { account: *account, mode: *mode }))
        .collect();
    let bar = progress_bar(scopes.len(), "ledgers")?;
    if scopes.is_empty() {
        return Err(format!("{} has no accounts: nothing was checked", stack.name).into());
    }
    let (mut postings, mut faults, mut moving): (u64, usize, usize) = (0, 0, 0);
    for scope in &scopes {
        let before = postings;
        let progress = |count: u64| bar.set_message(format!(", {} postings", before.saturating_add(count)));
        let read = (&stack.wallets, &stack.charges);
        let found = verify_ledger(read, scope, stack.clock.now(), &progress).await?;
        postings = postings.saturating_add(found.postings);
        faults = faults.saturating_add(found.differences.len());
        moving = moving.saturating_add(usize::from(found.moved));
        bar.suspend(|| report(scope, &found))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    print(&format!("{} ledgers, {postings} postings, {faults} differences", scopes.len()))?;
    if moving > 0 {
        print(&format!(
            "{moving} of them never rested: they were compared within what moved in milliseconds"
        ))?;
    }
    Ok(if faults == 0 { Done::Well } else { Done::FoundFault })
}

fn report(scope: &Scope, found: &Verification) -> std::io::Result<()> {
    for difference in &found.differences {
        let (currency, what) = (difference.currency, &difference.what);
        print(&format!(
            "{scope} {currency}: {what}: the postings say {}, kept is {}",
            difference.posted, difference.kept
        ))?;
    }
    Ok(())
}
