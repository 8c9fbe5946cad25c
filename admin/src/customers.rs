//! `admin customers`: erases a customer's personal data (LGPD).

use std::io::Write;

use clap::{Args, Subcommand};
use domain::charge::{Charge, Lookup, LookupValue, StoredCharge};
use domain::ids::{AccountId, ChargeId, Mode, Scope};
use domain::tax_id::Document;
use services::{ErasureOutcome, erase_customer};
use shared::store::{ListIndex, Order, key_of_item};

use crate::charges::{charge_id, charge_of, document, partitions};
use crate::output::{print_list, record};
use crate::target::Stack;
use crate::{OperatorArguments, Result, progress_bar};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Erase a customer's data from the finished charges of an account
    ///
    /// Without --apply, prints what would be erased. Erases name, document, e-mail address, phone number, payer
    /// lock, metadata with the description, refund reasons, and the acquirer's text of a failure. Records of
    /// payments are kept. A paid charge is skipped until 90 days after its payment. The command can be repeated.
    Erase {
        #[command(flatten)]
        customer: Customer,
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

#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Customer {
    /// The customer's CPF, CNPJ or other document
    #[arg(long, value_parser = document)]
    document: Option<Document>,
    /// The customer's e-mail address, in upper or lower case
    #[arg(long)]
    email: Option<String>,
    /// The merchant's id of the customer, `customerId`; reads all charges of the account
    #[arg(long = "customer-id")]
    merchants_id: Option<String>,
    /// One charge (ch_…), or the id of its payment
    #[arg(long, value_parser = charge_id)]
    charge: Option<ChargeId>,
}

const STEP: usize = 100;

impl Customer {
    async fn charges(&self, stack: &Stack, account: AccountId, scopes: &[Scope]) -> Result<Vec<ChargeId>> {
        let account = stack.existing_account(&account).await?;
        if let Some(id) = self.charge {
            let is_its = scopes.contains(&stack.existing_charge(id).await?.as_stored().scope);
            return Ok(is_its.then_some(vec![id]).ok_or("the charge is of another account or mode")?);
        }
        let mut found = Vec::new();
        if let Some(email) = &self.email {
            let partition = |scope| LookupValue::email(email).partition(scope, account.salt.as_bytes());
            for partition in scopes.iter().map(partition) {
                let rows = stack.store.partition(&partition).await?;
                found.extend(rows.iter().filter_map(|row| Lookup::charge_of(&key_of_item(row)?.sk)));
            }
            return Ok(found);
        }
        let (index, partitions) = if let Some(document) = &self.document {
            (ListIndex::ByCustomer, partitions(document, scopes))
        } else {
            let of_shard = |shard| scopes.iter().map(move |scope| Charge::list_partition(scope, shard));
            (ListIndex::All, account.settings.shards.read.shards().flat_map(of_shard).collect())
        };
        let of_customer = |charge: &StoredCharge| {
            let Charge { id, payment_details, .. } = charge.as_stored();
            let customer = payment_details.as_ref().and_then(|details| details.customer_id.as_ref());
            (customer == self.merchants_id.as_ref()).then_some(*id)
        };
        for partition in partitions {
            let mut to = "~".to_owned();
            loop {
                let entries =
                    stack.store.list(index, &partition, ("0", &to), Order::NewestFirst, STEP).await?;
                let is_last = entries.len() < STEP;
                // `to` is inclusive, so a step after the first begins with the last entry of the one before.
                let new: Vec<_> = entries.into_iter().filter(|entry| entry.sort != to).collect();
                let ids: Vec<ChargeId> = new.iter().filter_map(charge_of).collect();
                if self.merchants_id.is_some() {
                    found.extend(stack.charges.find_all(&ids).await?.iter().filter_map(of_customer));
                } else {
                    found.extend(ids);
                }
                match new.into_iter().next_back() {
                    Some(entry) if !is_last => to = entry.sort,
                    _ => break,
                }
            }
        }
        Ok(found)
    }
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    let Command::Erase { customer, account, mode, apply, operator } = command;
    let scopes = stack.scopes(Some(account), mode).await?;
    let operator = Some(stack.operator(&operator)).filter(|_| apply);
    let mut lines = Vec::new();
    let mut kept: usize = 0;
    let charges = customer.charges(stack, account, &scopes).await?;
    let bar = progress_bar(charges.len(), "charges")?;
    for charge in bar.wrap_iter(charges.into_iter()) {
        let outcome = erase_customer(&stack.store, charge, operator.as_ref(), stack.clock.now()).await?;
        let (outcome, reason) = match outcome {
            ErasureOutcome::Erased if apply => ("erased", None),
            ErasureOutcome::Erased => ("would_be_erased", None),
            ErasureOutcome::NothingLeft => ("nothing_left", None),
            ErasureOutcome::Kept(refused) => ("kept", Some(refused.to_string())),
        };
        kept = kept.saturating_add(usize::from(outcome == "kept"));
        lines.push(record! { charge: charge, outcome: outcome, reason: reason });
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
