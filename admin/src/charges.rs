//! `admin charges`: finds charges, shows all that is recorded about one, and ends one whose cob its bank has lost.

use std::error::Error;
use std::io::Write;

use clap::{Args, Subcommand};
use domain::acquirer::AcquirerName;
use domain::audit::Operator;
use domain::charge::{Charge, IncomingPayment};
use domain::ids::{AccountId, AcquirerPaymentId, ChargeId, EndToEndId, MedCaseId, Mode, RefundId, Scope};
use domain::tax_id::{Document, TaxId};
use shared::acquirer::Banks;
use shared::charge::lost_cob_ends_at;
use shared::services::{ChargeRows, TimelineEntry, charge_timeline};
use shared::store::{ListEntry, ListIndex, Order};

use crate::output::{Record, print_list, record};
use crate::target::Stack;
use crate::{OperatorArguments, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Find charges, for example when a payer says that they paid
    ///
    /// Searches all accounts and both modes, unless --account and --mode name some.
    Find {
        #[command(flatten)]
        by: FindArguments,
        /// Search only this account (acc_…)
        #[arg(long)]
        account: Option<AccountId>,
        /// Search only this mode: test or live
        #[arg(long)]
        mode: Option<Mode>,
    },
    /// Show a charge: its states, payments, postings, refunds, MED cases, events and deliveries, oldest first
    Show {
        /// The charge (ch_…), or the id of its payment
        #[arg(value_parser = charge_id)]
        charge: ChargeId,
    },
    /// Expire an overdue live charge whose cob its bank has lost
    ///
    /// Possible from a day after the charge's expiry. Refused while the bank has the cob, or a Pix with its
    /// txid.
    Expire {
        /// The charge (ch_…)
        #[arg(value_parser = charge_id)]
        charge: ChargeId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

/// What to search for
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct FindArguments {
    /// The end-to-end id of a Pix, which the payer's receipt shows (E…)
    #[arg(long)]
    end_to_end_id: Option<EndToEndId>,
    /// The txid of a Pix
    #[arg(long, value_parser = txid)]
    txid: Option<ChargeId>,
    /// The id of a charge (ch_…), payment, refund (re_…) or MED case (med_…)
    #[arg(long, value_parser = any_id)]
    id: Option<ChargeId>,
    /// The CPF, CNPJ or other document that the merchant sent for the customer; the newest 100 charges
    #[arg(long, value_parser = document)]
    document: Option<Document>,
}

const MOST_FOUND: usize = 100;

/// The most partitions that are read at once.
const PARTITIONS_AT_ONCE: usize = 50;

fn charge_id(text: &str) -> Result<ChargeId, String> {
    ChargeId::parse_any(text).map_err(|error| error.to_string())
}

fn txid(text: &str) -> Result<ChargeId, String> {
    ChargeId::from_txid(&text.to_lowercase())
        .map_err(|_| "must be a txid of this service: 26 letters and digits".to_owned())
}

fn any_id(text: &str) -> Result<ChargeId, String> {
    let refund = || text.parse().map(|id: RefundId| id.charge()).ok();
    let case = || text.parse().map(|id: MedCaseId| id.charge()).ok();
    let found = ChargeId::parse_any(text).ok().or_else(refund).or_else(case);
    found.ok_or_else(|| "must be the id of a charge, payment, refund or MED case".to_owned())
}

pub(crate) fn document(text: &str) -> Result<Document, String> {
    Document::parse(text).ok_or_else(|| "must be 1 to 32 characters without surrounding spaces".to_owned())
}

fn printed(charge: &Charge) -> Record {
    let applied = charge.applied_payment.as_ref();
    record! {
        charge: charge.id,
        account: charge.scope.account,
        mode: charge.scope.mode,
        status: charge.status.as_str(),
        amount: charge.amount,
        currency: charge.currency,
        method: charge.method(),
        created_at: charge.created_at,
        expires_at: charge.expires_at(),
        paid_at: applied.map(|applied| applied.paid_at),
        payment: applied.map(|applied| &applied.payment_id),
        txid: charge.id.txid(),
        connection: charge.connection,
        expected_payer: charge.expected_payer.as_ref().map(TaxId::masked),
        customer_document: charge.customer.document.as_ref().map(masked),
        payer_document: applied.and_then(|applied| applied.payer_document.as_ref()).map(TaxId::masked),
        request_id: charge.request_id.as_str(),
    }
}

fn masked(document: &Document) -> String {
    document.tax_id().map_or_else(|| "***".to_owned(), |tax_id| tax_id.masked())
}

fn printed_payment(payment: &IncomingPayment) -> Record {
    record! {
        payment: payment.payment_id,
        account: payment.scope.account,
        mode: payment.scope.mode,
        amount: payment.amount,
        paid_at: payment.paid_at,
        payer_document: payment.payer_document.as_ref().map(TaxId::masked),
        is_returned: payment.returned.is_some(),
    }
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<(), Box<dyn Error>> {
    match command {
        Command::Find { by, account, mode } => find(stack, &by, account, mode).await,
        Command::Show { charge } => {
            let rows = ChargeRows::read(&stack.store, charge).await?;
            let rows = rows.ok_or_else(|| format!("there is no charge {charge}"))?;
            let timeline = charge_timeline(&stack.store, rows, stack.clock.now()).await?;
            print_list(stack, "charges", [printed(&timeline.charge)])?;
            print_list(stack, "entries", timeline.entries.iter().map(for_operator))?;
            if !timeline.is_complete {
                writeln!(
                    std::io::stderr(),
                    "the newest events and deliveries are missing: the charge has too many to read all"
                )?;
            }
            Ok(())
        }
        Command::Expire { charge, operator } => expire(stack, charge, &operator.operator()).await,
    }
}

/// Returns an entry whose details include what only operators see.
fn for_operator(entry: &TimelineEntry) -> TimelineEntry {
    let details = [&entry.details, &entry.internal].into_iter().flatten().cloned().collect::<Vec<_>>();
    let details = (!details.is_empty()).then(|| details.join("; "));
    TimelineEntry { details, internal: None, ..entry.clone() }
}

async fn expire(stack: &Stack, id: ChargeId, by: &Operator) -> Result<(), Box<dyn Error>> {
    let now = stack.clock.now();
    let stored = stack.existing_charge(id).await?;
    let charge = stored.clone().read_at(now);
    if charge.acquirer != AcquirerName::Pix || !charge.can_expire() {
        return Err("only an open live charge can be expired".into());
    }
    let ends_at = lost_cob_ends_at(charge.expires_at());
    if now < ends_at {
        return Err(format!("the charge can be expired from {ends_at} on, a day after its expiry").into());
    }
    let banks = Banks::new(stack.acquirers()?.clone(), stack.clock.clone());
    let bank = banks.at(charge.scope.account, charge.connection).await?;
    if bank.knows_charge(&charge, now).await? {
        return Err("the bank has the cob of this charge, or a Pix with its txid; the service ends it".into());
    }
    let expired = stack.charges.expire_lost(stored, by, now).await?;
    print_json(&printed(&expired))
}

async fn find(
    stack: &Stack,
    by: &FindArguments,
    account: Option<AccountId>,
    mode: Option<Mode>,
) -> Result<(), Box<dyn Error>> {
    let scopes = stack.scopes(account, mode).await?;
    let ids = match (&by.end_to_end_id, by.txid.or(by.id), &by.document) {
        (Some(id), ..) => {
            let payments = payments(stack, &id.clone().into(), &scopes).await?;
            let ids: Vec<ChargeId> = payments.iter().filter_map(IncomingPayment::charge_id).collect();
            if ids.is_empty() && !payments.is_empty() {
                writeln!(std::io::stderr(), "the payment belongs to no charge: see `admin receipts --help`")?;
                return print_list(stack, "payments", payments.iter().map(printed_payment));
            }
            ids
        }
        (None, Some(id), _) => vec![id],
        (None, None, Some(document)) => by_document(stack, document, &scopes).await?,
        (None, None, None) => Vec::new(),
    };
    let now = stack.clock.now();
    let found = stack.charges.find_all(&ids).await?.into_iter().map(|charge| charge.read_at(now));
    let found: Vec<Charge> = found.filter(|charge| scopes.contains(&charge.scope)).collect();
    print_list(stack, "charges", found.iter().map(printed))
}

async fn payments(
    stack: &Stack,
    id: &AcquirerPaymentId,
    scopes: &[Scope],
) -> Result<Vec<IncomingPayment>, Box<dyn Error>> {
    let keys: Vec<_> = scopes.iter().map(|scope| IncomingPayment::key_of(scope, id)).collect();
    Ok(stack.store.get_in_order(&keys).await?)
}

async fn by_document(
    stack: &Stack,
    document: &Document,
    scopes: &[Scope],
) -> Result<Vec<ChargeId>, Box<dyn Error>> {
    let partitions = partitions(document, scopes);
    let mut entries = Vec::new();
    for some in partitions.chunks(PARTITIONS_AT_ONCE) {
        let (index, order, most) = (ListIndex::ByCustomer, Order::NewestFirst, MOST_FOUND.saturating_add(1));
        entries.extend(stack.store.list_of_each(index, some, ("0", "~"), order, most).await?);
    }
    entries.sort_by(|left, right| right.sort.cmp(&left.sort));
    if entries.len() > MOST_FOUND {
        writeln!(std::io::stderr(), "only the newest {MOST_FOUND} are printed; name --account and --mode")?;
    }
    entries.truncate(MOST_FOUND);
    Ok(entries.iter().filter_map(charge_of).collect())
}

/// Returns the partitions of the charges for which a merchant sent this document, as it is or as digits only.
pub(crate) fn partitions(document: &Document, scopes: &[Scope]) -> Vec<String> {
    let digits: String = document.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    let mut spellings = vec![document.as_str().to_owned()];
    spellings.extend(TaxId::parse(&digits).ok().map(|tax_id| tax_id.as_str().to_owned()));
    spellings.dedup();
    let of_scope = |scope| spellings.iter().map(move |document| Charge::customer_partition(scope, document));
    scopes.iter().flat_map(of_scope).collect()
}

pub(crate) fn charge_of(entry: &ListEntry) -> Option<ChargeId> {
    ChargeId::parse_any(entry.key.pk.strip_prefix("charge#")?).ok()
}
