//! `admin receipts`: lists the live payments that wait for an operator, applies them to charges, and returns
//! them to their payers.

use std::error::Error;
use std::io::Write;

use clap::Subcommand;
use domain::charge::{Charge, IncomingPayment, UnappliedReason};
use domain::ids::{AccountId, ChargeId, EndToEndId, Mode, ReturnId, Scope};
use domain::money::Amount;
use domain::tax_id::TaxId;
use domain::time::Timestamp;
use domain::wallet::ReturnStatus;
use serde::Serialize;
use shared::services::{ReceiptError, Receipts};

use crate::target::Stack;
use crate::{OperatorArguments, print_json, print_stack};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List an account's live payments that match no charge or could not be returned, newest first, 100 at a
    /// time
    List {
        /// The account (acc_…)
        #[arg(long)]
        account: AccountId,
        /// Continue after this payment, the last one of the previous page (end-to-end id)
        #[arg(long)]
        starting_after: Option<EndToEndId>,
    },
    /// Apply a payment that matches no charge to an open or expired charge of exactly its amount
    ///
    /// A charge that expects a payer accepts only a payment whose payer the bank reported. Repeating the
    /// command changes nothing.
    Apply {
        /// The payment (end-to-end id)
        id: EndToEndId,
        /// The charge (ch_…)
        charge: ChargeId,
        /// The account (acc_…)
        #[arg(long)]
        account: AccountId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Return a payment that matches no charge to its payer, or request a return that stopped again
    Return {
        /// The payment (end-to-end id)
        id: EndToEndId,
        /// The account (acc_…)
        #[arg(long)]
        account: AccountId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

/// The state of a payment, as printed.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// It matches no charge.
    Unmatched,
    /// It was credited to a charge, or is held for review.
    Applied,
    /// The service requests its return from the bank.
    ReturnRequested,
    /// The bank did not execute its return, and the service no longer requests it.
    ReturnStopped,
    /// It is back with its payer.
    Returned,
}

/// The printed form of a payment. The payer's document is masked.
#[derive(Serialize)]
struct PrintedPayment<'a> {
    end_to_end_id: &'a str,
    amount: Amount,
    paid_at: Timestamp,
    state: State,
    reason: Option<UnappliedReason>,
    charge: Option<ChargeId>,
    payer_document: Option<String>,
    return_id: Option<&'a ReturnId>,
}

impl<'a> PrintedPayment<'a> {
    fn new(payment: &'a IncomingPayment) -> Self {
        let returned = payment.returned.as_ref();
        let state = match returned.map(|returned| returned.status) {
            None if payment.is_unmatched() => State::Unmatched,
            None => State::Applied,
            Some(ReturnStatus::Requested) => State::ReturnRequested,
            Some(ReturnStatus::Stopped) => State::ReturnStopped,
            Some(ReturnStatus::Returned) => State::Returned,
        };
        Self {
            end_to_end_id: payment.payment_id.as_str(),
            amount: payment.amount,
            paid_at: payment.paid_at,
            state,
            reason: returned.map(|returned| returned.reason),
            charge: payment.charge_id(),
            payer_document: payment.payer_document.as_ref().map(TaxId::masked),
            return_id: returned.map(|returned| &returned.id),
        }
    }
}

/// The printed form of a charge to which a payment was applied.
#[derive(Serialize)]
struct PrintedCharge<'a> {
    end_to_end_id: &'a EndToEndId,
    state: State,
    charge: ChargeId,
    status: &'static str,
    amount: Amount,
}

impl<'a> PrintedCharge<'a> {
    fn new(end_to_end_id: &'a EndToEndId, charge: &Charge) -> Self {
        let (status, amount) = (charge.status.as_str(), charge.amount);
        Self { end_to_end_id, state: State::Applied, charge: charge.id, status, amount }
    }
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<(), Box<dyn Error>> {
    let (receipts, now) = (Receipts::new(stack.store.clone()), stack.clock.now());
    match command {
        Command::List { account, starting_after } => {
            let scope = live(stack, account).await?;
            let cursor = match starting_after {
                Some(id) => Some(receipts.find(&scope, &id.into()).await?.ok_or(ReceiptError::NotFound)?),
                None => None,
            };
            let (payments, has_more) = receipts.waiting(&scope, cursor.as_ref()).await?;
            // The index may still list a payment that was just applied or returned.
            for payment in payments.iter().filter(|payment| payment.waits_for_operator()) {
                print_json(&PrintedPayment::new(payment))?;
            }
            if let Some(last) = payments.last().filter(|_| has_more) {
                let id = &last.payment_id;
                writeln!(std::io::stderr(), "more payments follow: --starting-after {id}")?;
            }
            Ok(())
        }
        Command::Apply { id, charge, account, operator } => {
            let scope = live(stack, account).await?;
            print_stack(stack);
            let operator = operator.operator();
            let applied = receipts.apply(&scope, &id.clone().into(), charge, Some(&operator), now).await?;
            print_json(&PrintedCharge::new(&id, &applied.charge))
        }
        Command::Return { id, account, operator } => {
            let scope = live(stack, account).await?;
            print_stack(stack);
            let returned = receipts.give_back(&scope, &id.into(), Some(&operator.operator()), now).await?;
            print_json(&PrintedPayment::new(&returned))
        }
    }
}

/// Returns the live scope of an existing account. Test payments are never unmatched.
async fn live(stack: &Stack, account: AccountId) -> Result<Scope, Box<dyn Error>> {
    Ok(Scope { account: stack.existing_account(&account).await?.id, mode: Mode::Live })
}
