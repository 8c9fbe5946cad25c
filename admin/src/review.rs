//! `admin review`: lists the payments that are held for a manual review, and ends their reviews.

use clap::{Args, Subcommand};
use domain::acquirer::ReportedPix;
use domain::audit::Operator;
use domain::charge::{Charge, Decision};
use domain::ids::{AcquirerPaymentId, ChargeId};
use domain::tax_id::TaxId;
use domain::time::Timestamp;
use services::{Receipts, check_returnable};

use crate::output::{Record, print_list, print_next, record};
use crate::receipts::printed_report;
use crate::target::Stack;
use crate::{OperatorArguments, Result, ScopeArguments, for_each, print_json};

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
    /// Credit the payments of charges that are held for review
    ///
    /// Repeating the command changes nothing.
    Approve(ReviewArguments),
    /// Return the payments of charges that are held for review to their payers
    ///
    /// Repeating the command changes nothing.
    Return(ReviewArguments),
}

/// The charges whose reviews end
#[derive(Args, Debug)]
pub(crate) struct ReviewArguments {
    /// The charges (ch_…)
    #[arg(required = true)]
    charges: Vec<ChargeId>,
    #[command(flatten)]
    operator: OperatorArguments,
}

fn printed(charge: &Charge, reported: Option<&ReportedPix>, now: Timestamp) -> Record {
    let applied = charge.applied_payment.as_ref();
    let record = record! {
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
    };
    record.and(printed_report(reported, now))
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    let (decision, ReviewArguments { charges, operator }) = match command {
        Command::List { scope, starting_after } => return list(stack, scope, starting_after).await,
        Command::Approve(reviews) => (Decision::Approve, reviews),
        Command::Return(reviews) => (Decision::Return, reviews),
    };
    let operator = stack.operator(&operator);
    for_each(&charges, async |charge| end_review(stack, *charge, decision, &operator).await).await
}

async fn end_review(stack: &Stack, charge: ChargeId, decision: Decision, operator: &Operator) -> Result<()> {
    let now = stack.clock.now();
    let stored = stack.existing_charge(charge).await?;
    let charge = stored.as_stored();
    let is_new = charge.is_held_for_review() && charge.acquirer.is_remote();
    let held = charge.applied_payment.clone().filter(|_| is_new);
    if let (Decision::Return, Some(held)) = (decision, &held) {
        check_returnable(held.paid_at, now)?;
    }
    let account = stack.existing_account(&charge.scope.account).await?;
    let terms = account.settings.terms.for_method(charge.method());
    let reviewed = stack.charges.review(stored, (decision, terms), operator, now).await?;
    if let (Decision::Approve, Some(held)) = (decision, &held) {
        // The bank may have returned a part of the Pix while it was held. That is recorded now.
        Receipts::new(stack.store.clone()).read_back(&held.payment_id, now).await?;
    }
    print_json(&printed(&reviewed, None, now))
}

async fn list(stack: &Stack, scope: ScopeArguments, starting_after: Option<ChargeId>) -> Result<()> {
    let scope = stack.existing_scope(scope).await?;
    let cursor = match starting_after {
        Some(id) => Some(stack.existing_charge(id).await?),
        None => None,
    };
    if cursor.as_ref().is_some_and(|cursor| cursor.as_stored().scope != scope) {
        return Err("--starting-after must be a charge of this account and mode".into());
    }
    let scope = stack.accounts.sharded_scope(&scope).await?;
    let now = stack.clock.now();
    let page = stack.charges.held_for_review(&scope, cursor.as_ref(), now).await?;
    let payment_of =
        |charge: &Charge| charge.applied_payment.as_ref().map(|applied| applied.payment_id.clone());
    let payments: Vec<AcquirerPaymentId> = page.items.iter().filter_map(payment_of).collect();
    let reported = Receipts::new(stack.store.clone()).reported_of(payments.iter()).await?;
    let printed = page.items.iter().map(|charge| {
        let reported = payment_of(charge).and_then(|payment| reported.get(&payment));
        printed(charge, reported, now)
    });
    print_list(stack, "charges", printed)?;
    print_next("charges", page.next_cursor)
}
