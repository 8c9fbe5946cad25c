//! `admin receipts`: lists the live payments that wait for an operator, applies them to charges, and returns
//! them to their payers.

use std::io::Write;

use acquirer_core::AcquirerError;
use clap::{Args, Subcommand};
use domain::acquirer::ReportedPix;
use domain::audit::Operator;
use domain::charge::{Charge, IncomingPayment};
use domain::ids::{AccountId, AcquirerPaymentId, ChargeId, ConnectionId, EndToEndId, Mode, Scope};
use domain::payment_method::PaymentMethod;
use domain::tax_id::TaxId;
use domain::time::Timestamp;
use domain::wallet::ReturnStatus;
use services::{PixHint, ReceiptError, Receipts};

use crate::output::{Record, print_list, print_next, record};
use crate::target::Stack;
use crate::{OperatorArguments, Result, for_each, print_json, require_distinct};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List an account's live payments that match no charge or could not be returned, newest first, 100 at a
    /// time
    ///
    /// Then lists the Pix of the account's bank connection for which the bank reports neither a key nor a txid
    /// of a charge (`no_account`). `record` says whose they are.
    List {
        /// The account (acc_…)
        #[arg(long)]
        account: AccountId,
        /// Continue after this payment, the last one of the previous page
        #[arg(long)]
        starting_after: Option<AcquirerPaymentId>,
    },
    /// Apply payments that match no charge to open or expired charges of exactly their amounts
    ///
    /// A charge that expects a payer accepts only a payment whose payer the bank reported. Repeating the
    /// command changes nothing.
    Apply {
        /// Each payment (end-to-end id; of other methods the acquirer's id), followed by its charge (ch_…)
        #[arg(required = true, num_args = 2.., value_names = ["END_TO_END_ID", "CHARGE"])]
        pairs: Vec<String>,
        #[command(flatten)]
        account: AccountArguments,
    },
    /// Record a Pix that the bank received, whatever its list says and however old it is
    ///
    /// Reads the Pix from the account's bank. It is credited to the charge of its txid. Without such a charge,
    /// it belongs to the account that has its key, else to this account, and waits for `apply` or `return`.
    /// Also records its devoluções. Repeating the command changes nothing.
    Record {
        /// The Pix
        #[arg(long, value_name = "END_TO_END_ID")]
        end_to_end_id: EndToEndId,
        #[command(flatten)]
        account: AccountArguments,
        /// A connection that the account used before, as `accounts show-acquirer` lists it in `retired`
        /// [default: the current connection]
        #[arg(long)]
        connection: Option<ConnectionId>,
    },
    /// Return payments that match no charge to their payers, or request returns that stopped again
    Return {
        /// The payments (end-to-end ids; of other methods the acquirer's ids)
        #[arg(required = true)]
        ids: Vec<AcquirerPaymentId>,
        #[command(flatten)]
        account: AccountArguments,
    },
    /// Give the merchant the money of a refund that failed after it had succeeded, or leave it a payment by crypto
    ///
    /// `list` shows such a refund with the reason `refund_failed`. Do this when the payer got the money in another
    /// way. `return` requests the refund again. A payment by crypto that no charge takes, such as an excess, is in the
    /// merchant's own wallet: this ends it.
    Credit {
        /// The refund or payment (the acquirer's id)
        id: AcquirerPaymentId,
        #[command(flatten)]
        account: AccountArguments,
    },
}

/// The account whose payments a command changes
#[derive(Args, Debug)]
pub(crate) struct AccountArguments {
    /// The account (acc_…)
    #[arg(long)]
    account: AccountId,
    #[command(flatten)]
    operator: OperatorArguments,
}

impl AccountArguments {
    /// Test payments are never unmatched.
    async fn live(self, stack: &Stack) -> Result<(Scope, Operator)> {
        Ok((live(stack, self.account).await?, stack.operator(&self.operator)))
    }
}

/// Nothing if the row of the Pix has no details.
pub(crate) fn printed_report(reported: Option<&ReportedPix>, now: Timestamp) -> Record {
    let Some(details) = reported.and_then(|reported| reported.details.as_ref()) else {
        return Record::default();
    };
    record! {
        txid: details.txid,
        key: details.key,
        info_pagador: details.payer_message,
        payer: details.payer,
        age_hours: now.millis_since(details.paid_at).div_euclid(3_600_000),
    }
}

pub(crate) fn printed_pix(pix: &ReportedPix) -> Record {
    let ReportedPix { end_to_end_id, status, account, charge, .. } = pix;
    record! { end_to_end_id: end_to_end_id, status: status, account: account, charge: charge }
}

fn printed(payment: &IncomingPayment, reported: Option<&ReportedPix>, now: Timestamp) -> Record {
    let returned = payment.returned.as_ref();
    let state = match returned.map(|returned| returned.status) {
        None if payment.is_unmatched() => "unmatched",
        None => "applied",
        Some(ReturnStatus::Requested) => "return_requested",
        // The bank did not execute the return, and the service no longer requests it.
        Some(ReturnStatus::Stopped) => "return_stopped",
        Some(ReturnStatus::Returned) => "returned",
    };
    let record = record! {
        end_to_end_id: payment.payment_id,
        method: payment.method,
        amount: payment.amount,
        currency: payment.currency,
        paid_at: payment.paid_at,
        state: state,
        reason: returned.map(|returned| returned.reason),
        charge: payment.meant_for(),
        payer_document: payment.payer_document.as_ref().map(TaxId::masked),
        return_id: returned.map(|returned| &returned.id),
    };
    record.and(printed_report(reported, now))
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    let (receipts, now) = (Receipts::new(stack.store.clone()), stack.clock.now());
    match command {
        Command::List { account, starting_after } => {
            let scope = live(stack, account).await?;
            let cursor = match starting_after {
                Some(id) => Some(receipts.find(&scope, &id).await?.ok_or(ReceiptError::NotFound)?),
                None => None,
            };
            let (payments, has_more) = receipts.waiting(&scope, cursor.as_ref()).await?;
            let reported = receipts.reported_of(payments.iter().map(|payment| &payment.payment_id)).await?;
            // The index may still list a payment that was just applied or returned.
            let waiting = payments.iter().filter(|payment| payment.waits_for_operator());
            let printed = waiting.map(|payment| printed(payment, reported.get(&payment.payment_id), now));
            print_list(stack, "payments", printed)?;
            if cursor.is_none() {
                print_unowned(stack, &receipts, account, now).await?;
            }
            print_next("payments", payments.last().filter(|_| has_more).map(|last| &last.payment_id))
        }
        Command::Apply { pairs, account } => {
            let pairs = pairs.chunks(2).map(Pair::parse).collect::<Result<Vec<Pair>, _>>()?;
            require_distinct(pairs.iter().flat_map(|Pair(id, charge)| [id.to_string(), charge.to_string()]))?;
            let (scope, operator) = account.live(stack).await?;
            for_each(&pairs, async |Pair(id, charge)| {
                let applied = receipts.apply(&scope, id, *charge, Some(&operator), now).await?;
                let Charge { id: charge, status, amount, .. } = &applied.charge;
                let (state, status) = ("applied", status.as_str());
                print_json(&record! {
                    end_to_end_id: id, state: state, charge: charge, status: status, amount: amount,
                })
            })
            .await
        }
        Command::Record { end_to_end_id, account, connection } => {
            let (Scope { account, .. }, operator) = account.live(stack).await?;
            let found = stack.connections()?.at(account, connection).await.map_err(|error| match error {
                AcquirerError::NotConfigured | AcquirerError::MethodNotConfigured { .. } => {
                    "the account has no bank of Pix: set one with `accounts set-acquirer`, or name a former one with --connection".into()
                }
                error => Box::<dyn std::error::Error>::from(error),
            })?;
            let bank = found.pix()?;
            let Some(pix) = bank.read_back(&end_to_end_id, None, (now, now)).await? else {
                return Err(
                    "the bank does not know this Pix; check the id, and name the connection that received it"
                        .into(),
                );
            };
            let payments = stack.bank_payments()?;
            let hint = PixHint { owner: Some((account, &operator)), ..PixHint::default() };
            let recorded = payments.record(bank, &pix, hint, now).await?;
            let recorded = recorded.ok_or("the Pix was not recorded")?;
            print_json(&printed_pix(&recorded))
        }
        Command::Return { ids, account } => {
            let (scope, operator) = account.live(stack).await?;
            for_each(&ids, async |id| {
                let returned = receipts.give_back(&scope, id, Some(&operator), now).await?;
                print_json(&printed(&returned, None, now))
            })
            .await
        }
        Command::Credit { id, account } => {
            let (scope, operator) = account.live(stack).await?;
            print_json(&printed(&receipts.credit(&scope, &id, &operator, now).await?, None, now))
        }
    }
}

struct Pair(AcquirerPaymentId, ChargeId);

impl Pair {
    fn parse(words: &[String]) -> Result<Self, String> {
        let [payment, charge] = words else {
            return Err("each payment must be followed by a charge (ch_…)".to_owned());
        };
        let id = payment.parse().map_err(|_| format!("{payment} is no id of a payment"))?;
        let charge = charge.parse().map_err(|_| format!("{charge} must be a charge (ch_…)"))?;
        Ok(Self(id, charge))
    }
}

impl std::fmt::Display for Pair {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.0, self.1)
    }
}

async fn print_unowned(stack: &Stack, receipts: &Receipts, account: AccountId, now: Timestamp) -> Result<()> {
    let Ok(acquirers) = stack.acquirers() else {
        writeln!(std::io::stderr(), "Pix without an account are not listed: set SECRETS_TABLE_NAME")?;
        return Ok(());
    };
    let Some(acquirer) = acquirers.current(&account, PaymentMethod::Pix).await? else { return Ok(()) };
    let unowned = receipts.unowned(acquirer.acquirer.connection).await?;
    if unowned.is_empty() {
        return Ok(());
    }
    print_list(
        stack,
        "Pix",
        unowned.iter().map(|pix| {
            let record = record! {
                end_to_end_id: pix.end_to_end_id,
                amount: pix.details.as_ref().map(|details| details.amount),
                paid_at: pix.details.as_ref().map(|details| details.paid_at),
                state: "no_account",
                connection: pix.connection,
            };
            record.and(printed_report(Some(pix), now))
        }),
    )
}

async fn live(stack: &Stack, account: AccountId) -> Result<Scope> {
    Ok(Scope { account: stack.existing_account(&account).await?.id, mode: Mode::Live })
}
