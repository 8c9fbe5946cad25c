//! `admin customers`: erases a customer's personal data (LGPD).

use std::io::Write;

use clap::Subcommand;
use domain::ids::{AccountId, Mode};
use domain::tax_id::Document;
use shared::services::{ErasureOutcome, erase_customer};
use shared::store::{ListIndex, Order};

use crate::charges::{charge_of, document, partitions};
use crate::output::{print_list, record};
use crate::target::Stack;
use crate::{OperatorArguments, Result, progress_bar};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Erase a customer's data from the finished charges of an account
    ///
    /// Without --apply, prints what would be erased. Erases name, document, e-mail address, phone number, payer
    /// lock, metadata with the description, and refund reasons. Records of payments are kept. A paid charge is
    /// skipped until 90 days after its payment. The command can be repeated.
    Erase {
        /// The customer's CPF, CNPJ or other document
        #[arg(long, value_parser = document)]
        document: Document,
        /// The account (acc_…)
        #[arg(long)]
        account: AccountId,
        /// Only this mode: test or live
        #[arg(long)]
        mode: Option<Mode>,
        /// Erase the data; it can't be undone
        #[arg(long)]
        apply: bool,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

const STEP: usize = 100;

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    let Command::Erase { document, account, mode, apply, operator } = command;
    let scopes = stack.scopes(Some(account), mode).await?;
    let operator = Some(operator.operator()).filter(|_| apply);
    let mut lines = Vec::new();
    let mut kept: usize = 0;
    for partition in partitions(&document, &scopes) {
        let mut to = "~".to_owned();
        loop {
            let (index, order) = (ListIndex::ByCustomer, Order::NewestFirst);
            let entries = stack.store.list(index, &partition, ("0", &to), order, STEP).await?;
            let is_last = entries.len() < STEP;
            // `to` is inclusive, so a step after the first begins with the last entry of the one before.
            let new: Vec<_> = entries.into_iter().filter(|entry| entry.sort != to).collect();
            let bar = progress_bar(new.len(), "charges")?;
            for charge in new.iter().filter_map(charge_of) {
                let now = stack.clock.now();
                let outcome = erase_customer(&stack.store, charge, operator.as_ref(), now).await?;
                let (outcome, reason) = match outcome {
                    ErasureOutcome::Erased if apply => ("erased", None),
                    ErasureOutcome::Erased => ("would_be_erased", None),
                    ErasureOutcome::NothingLeft => ("nothing_left", None),
                    ErasureOutcome::Kept(refused) => ("kept", Some(refused.to_string())),
                };
                kept = kept.saturating_add(usize::from(outcome == "kept"));
                lines.push(record! { charge: charge, outcome: outcome, reason: reason });
                bar.inc(1);
            }
            bar.finish_and_clear();
            match new.into_iter().next_back() {
                Some(entry) if !is_last => to = entry.sort,
                _ => break,
            }
        }
    }
    print_list(stack, "charges", &lines)?;
    if kept > 0 {
        writeln!(std::io::stderr(), "{kept} charges keep the data for now: repeat the command later")?;
    }
    if !apply && !lines.is_empty() {
        writeln!(std::io::stderr(), "nothing was erased: add --apply")?;
    }
    Ok(())
}
