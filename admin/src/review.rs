//! `admin review`: lists the payments that are held for a manual review, and ends their reviews.

use std::error::Error;
use std::io::Write;

use clap::Subcommand;
use domain::charge::{Charge, Decision, StoredCharge};
use domain::ids::{AcquirerPaymentId, ChargeId, Scope};
use domain::money::{Amount, Currency};
use domain::payment_method::PaymentMethod;
use domain::tax_id::TaxId;
use domain::time::Timestamp;
use serde::Serialize;

use crate::target::Stack;
use crate::{OperatorArguments, ScopeArguments, print_json, print_stack};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the charges of an account in a mode whose payments are held for review, newest first, 100 at a
    /// time
    ///
    /// A payment is held when the charge expects a payer and the bank did not report the payer's document.
    List {
        #[command(flatten)]
        scope: ScopeArguments,
        /// Continue after this charge (ch_…)
        #[arg(long)]
        starting_after: Option<ChargeId>,
    },
    /// Credit the payment of a charge that is held for review
    ///
    /// Repeating the command changes nothing.
    Approve {
        /// The charge (ch_…)
        charge: ChargeId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Return the payment of a charge that is held for review to its payer
    ///
    /// Repeating the command changes nothing.
    Return {
        /// The charge (ch_…)
        charge: ChargeId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

/// The printed form of a charge. Documents are masked.
#[derive(Serialize)]
struct PrintedCharge<'a> {
    charge: ChargeId,
    scope: Scope,
    status: &'static str,
    amount: Amount,
    currency: Currency,
    created_at: Timestamp,
    payment: Option<&'a AcquirerPaymentId>,
    method: PaymentMethod,
    paid_at: Option<Timestamp>,
    expected_payer: Option<String>,
    reviewed: Option<Decision>,
}

fn print(charge: &Charge) -> Result<(), Box<dyn Error>> {
    let applied = charge.applied_payment.as_ref();
    print_json(&PrintedCharge {
        charge: charge.id,
        scope: charge.scope,
        status: charge.status.as_str(),
        amount: charge.amount,
        currency: charge.currency,
        created_at: charge.created_at,
        payment: applied.map(|applied| &applied.payment_id),
        method: charge.method(),
        paid_at: applied.map(|applied| applied.paid_at),
        expected_payer: charge.expected_payer.as_ref().map(TaxId::masked),
        reviewed: charge.reviewed,
    })
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<(), Box<dyn Error>> {
    let (charge, decision, operator) = match command {
        Command::List { scope, starting_after } => return list(stack, scope, starting_after).await,
        Command::Approve { charge, operator } => (charge, Decision::Approve, operator),
        Command::Return { charge, operator } => (charge, Decision::Return, operator),
    };
    let now = stack.clock.now();
    let stored = find(stack, charge).await?;
    let account = stack.existing_account(&stored.as_stored().scope.account).await?;
    let terms = account.settings.terms.for_method(stored.as_stored().method());
    print_stack(stack);
    print(&stack.charges.review(stored, (decision, terms), &operator.operator(), now).await?)
}

async fn list(
    stack: &Stack,
    scope: ScopeArguments,
    starting_after: Option<ChargeId>,
) -> Result<(), Box<dyn Error>> {
    stack.existing_account(&scope.account).await?;
    let scope = scope.scope();
    let cursor = match starting_after {
        Some(id) => Some(find(stack, id).await?),
        None => None,
    };
    if cursor.as_ref().is_some_and(|cursor| cursor.as_stored().scope != scope) {
        return Err("--starting-after must be a charge of this account and mode".into());
    }
    let scope = stack.accounts.sharded_scope(&scope).await?;
    let page = stack.charges.held_for_review(&scope, cursor.as_ref(), stack.clock.now()).await?;
    for charge in &page.charges {
        print(charge)?;
    }
    if let Some(next) = page.next_cursor {
        writeln!(std::io::stderr(), "more charges follow: --starting-after {next}")?;
    }
    Ok(())
}

async fn find(stack: &Stack, id: ChargeId) -> Result<StoredCharge, Box<dyn Error>> {
    stack.charges.find(Some(id)).await?.ok_or_else(|| format!("there is no charge {id}").into())
}
