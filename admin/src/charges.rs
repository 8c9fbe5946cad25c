//! `admin charges`: finds charges, shows all that is recorded about one, and ends one whose cob its bank has lost.

use std::io::Write;

use clap::Subcommand;
use domain::audit::Operator;
use domain::charge::{Charge, PublicStatus};
use domain::ids::{AccountId, ChargeId, Mode, Scope};
use domain::shard::ShardedScope;
use domain::snapshot::RemoteState;
use domain::tax_id::{Document, TaxId};
use domain::time::Timestamp;
use money::charge::{ChargeFilter, lost_cob_ends_at};
use services::{ChargeRows, SearchHit, TimelineEntry, TimelinePart, charge_timeline, search};
use shared::concurrently;
use shared::store::ListEntry;

use crate::enum_parser::enum_parser;
use crate::output::{Record, print_list, print_next, record};
use crate::target::Stack;
use crate::{OperatorArguments, PeriodArguments, Result, ScopeArguments, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Find charges, for example when a payer says that they paid
    ///
    /// Searches all accounts and both modes, unless --account and --mode name some.
    Find {
        /// The end-to-end id that the payer's receipt shows (E…), a txid, the id of a charge, payment, refund, MED
        /// case, event, delivery, endpoint, movement or payout, a CPF or CNPJ, an e-mail address, a name, an amount
        /// such as 12,90, or an order number
        query: String,
        /// Search only this account (acc_…)
        #[arg(long)]
        account: Option<AccountId>,
        /// Search only this mode: test or live
        #[arg(long)]
        mode: Option<Mode>,
    },
    /// List the charges of an account in a mode, newest first, 100 at a time
    List {
        #[command(flatten)]
        scope: ScopeArguments,
        /// List only charges with this status
        #[arg(long, value_parser = enum_parser::<PublicStatus>())]
        status: Option<PublicStatus>,
        #[command(flatten)]
        period: PeriodArguments,
        /// Continue after this charge, the last one of the previous page (ch_…)
        #[arg(long, value_parser = charge_id)]
        starting_after: Option<ChargeId>,
    },
    /// Show a charge: its states, payments, postings, refunds, MED cases, events and deliveries, oldest first
    Show {
        /// The charge (ch_…), or the id of its payment
        #[arg(value_parser = charge_id)]
        charge: ChargeId,
    },
    /// Expire an overdue live charge whose cob its bank has lost, or shows as paid without a Pix
    ///
    /// Possible from a day after the charge's expiry. Refused while the bank has the cob unpaid, or a Pix with
    /// its txid.
    Expire {
        /// The charge (ch_…)
        #[arg(value_parser = charge_id)]
        charge: ChargeId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

const SCOPES_AT_ONCE: usize = 16;

pub(crate) fn charge_id(text: &str) -> Result<ChargeId, String> {
    ChargeId::parse_any(text).map_err(|error| error.to_string())
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

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    match command {
        Command::Find { query, account, mode } => find(stack, &query, account, mode).await,
        Command::List { scope, status, period, starting_after } => {
            let (scope, now) = (stack.existing_scope(scope).await?, stack.clock.now());
            let query = period.query(&[
                ("status", status.map(|status| <&str>::from(status).to_owned())),
                ("starting_after", starting_after.map(|id| id.to_string())),
            ]);
            let (filter, cursor) = (ChargeFilter::parse(&query)?, stack.charges.find(starting_after).await?);
            let salt = stack.existing_account(&scope.account).await?.salt;
            let scope = stack.accounts.sharded_scope(&scope).await?;
            let page = stack.charges.list(&scope, salt.as_bytes(), &filter, cursor, now).await?;
            print_list(stack, "charges", page.items.iter().map(printed))?;
            print_next("charges", page.next_cursor)
        }
        Command::Show { charge } => {
            let rows = ChargeRows::read(&stack.store, charge).await?;
            let rows = rows.ok_or_else(|| format!("there is no charge {charge}"))?;
            let timeline =
                charge_timeline(&stack.store, rows, TimelinePart::Newest, stack.clock.now()).await?;
            print_list(stack, "charges", [printed(&timeline.charge)])?;
            print_list(stack, "entries", timeline.entries.iter().map(for_operator))?;
            if !timeline.is_complete {
                writeln!(
                    std::io::stderr(),
                    "the oldest movements, events and deliveries are missing: the charge has too many to read all"
                )?;
            }
            Ok(())
        }
        Command::Expire { charge, operator } => expire(stack, charge, &stack.operator(&operator)).await,
    }
}

/// Returns an entry whose details include what only operators see.
fn for_operator(entry: &TimelineEntry) -> Record {
    let details = [&entry.details, &entry.internal].into_iter().flatten().cloned().collect::<Vec<_>>();
    record! {
        at: entry.at,
        what: entry.what,
        id: entry.id,
        state: entry.state,
        amount: entry.amount,
        details: (!details.is_empty()).then(|| details.join("; ")),
        request_id: entry.request_id,
        by: entry.by,
    }
}

async fn expire(stack: &Stack, id: ChargeId, by: &Operator) -> Result<()> {
    let now = stack.clock.now();
    let stored = stack.existing_charge(id).await?;
    let charge = stored.clone().read_at(now);
    if !charge.acquirer.is_remote() || !charge.can_expire() {
        return Err("only an open live charge can be expired".into());
    }
    let ends_at = lost_cob_ends_at(charge.ends_at());
    if now < ends_at {
        return Err(format!("the charge can be expired from {ends_at} on, a day after its expiry").into());
    }
    let legs = stack.connections()?.of_charge(&charge).await?;
    let has_pix = match legs.as_pix() {
        Some(bank) => bank.knows_charge(&charge, now).await?,
        None => false,
    };
    let read = legs.read(&charge, false, now).await?;
    let is_known = read.is_some_and(|read| {
        let is_paid_without_payment = read.state == RemoteState::Paid && read.payments.is_empty();
        read.is_partial || !is_paid_without_payment
    });
    if has_pix || is_known {
        return Err("the bank has the cob of this charge, or a Pix with its txid; the service ends it".into());
    }
    let expired = stack.charges.expire_lost(stored, by, now).await?;
    print_json(&printed(&expired))
}

async fn find(stack: &Stack, query: &str, account: Option<AccountId>, mode: Option<Mode>) -> Result<()> {
    let accounts = match account {
        Some(account) => vec![stack.existing_account(&account).await?],
        None => stack.accounts.all().await?,
    };
    let modes = mode.map_or_else(|| vec![Mode::Test, Mode::Live], |mode| vec![mode]);
    let scopes: Vec<_> = accounts.iter().flat_map(|of| modes.iter().map(move |mode| (of, *mode))).collect();
    let now = stack.clock.now();
    let (mut charges, mut others, mut is_cut) = (Vec::new(), Vec::new(), false);
    let searches = concurrently(SCOPES_AT_ONCE, scopes, |(account, mode)| {
        let scope = Scope { account: account.id, mode };
        let sharded = ShardedScope { scope, shards: account.settings.shards.read };
        let (store, salt, query) = (stack.store.clone(), account.salt.clone(), query.to_owned());
        async move { (scope, search(&store, &sharded, salt.as_bytes(), &query, now).await) }
    });
    for (scope, found) in searches.await {
        let found = found?.ok_or("the query must be 1 to 254 characters")?;
        is_cut |= found.has_more;
        for hit in found.hits {
            match charge_of_hit(stack, &hit, now).await? {
                Some(charge) => charges.push(charge),
                None => others.push((named(&hit), scope)),
            }
        }
    }
    charges.sort_by_key(|charge| std::cmp::Reverse(charge.created_at));
    if is_cut {
        writeln!(std::io::stderr(), "only the newest charges were searched; name --account and --mode")?;
    }
    if charges.is_empty() && !others.is_empty() {
        if others.iter().any(|((what, _), _)| *what == "payment") {
            writeln!(std::io::stderr(), "the payment belongs to no charge: see `admin receipts --help`")?;
        }
        let object = |((what, id), Scope { account, mode })| {
            record! { what: what, id: id, account: account, mode: mode }
        };
        return print_list(stack, "objects", others.into_iter().map(object));
    }
    print_list(stack, "charges", charges.iter().map(printed))
}

/// Returns the charge that a hit is, or belongs to.
async fn charge_of_hit(stack: &Stack, hit: &SearchHit, now: Timestamp) -> Result<Option<Charge>> {
    let id = match hit {
        SearchHit::Charge(charge) => return Ok(Some(charge.as_ref().clone())),
        SearchHit::Refund(refund) => Some(refund.id.charge()),
        SearchHit::Case(case) => Some(case.id.charge()),
        SearchHit::Posting(posting) => posting.subject.charge,
        SearchHit::Payment(_)
        | SearchHit::Event(_)
        | SearchHit::Delivery(_)
        | SearchHit::Endpoint(_)
        | SearchHit::Payout(_) => None,
    };
    Ok(stack.charges.find(id).await?.map(|charge| charge.read_at(now)))
}

/// Returns what an object is, and its id.
fn named(hit: &SearchHit) -> (&'static str, String) {
    match hit {
        SearchHit::Charge(charge) => ("charge", charge.id.to_string()),
        SearchHit::Payment(payment) => ("payment", payment.payment_id.to_string()),
        SearchHit::Refund(refund) => ("refund", refund.id.to_string()),
        SearchHit::Case(case) => ("case", case.id.to_string()),
        SearchHit::Event(event) => ("event", event.id.to_string()),
        SearchHit::Delivery(delivery) => ("delivery", delivery.id.to_string()),
        SearchHit::Endpoint(endpoint) => ("endpoint", endpoint.id.to_string()),
        SearchHit::Posting(posting) => ("movement", posting.id.to_string()),
        SearchHit::Payout(payout) => ("payout", payout.id.to_string()),
    }
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
