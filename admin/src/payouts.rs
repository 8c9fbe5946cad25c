//! `admin payouts`: creates payouts to merchants' banks, records whether they were paid or failed, and lists
//! them. Commands print a payout as its events contain it, plus its `scope`, and the Pix key of one that an owner
//! requested. Also approves and rejects the keys.

mod itau;

use std::collections::BTreeMap;
use std::io::Write;

use clap::{Args, Subcommand};
use domain::account::Account;
use domain::ids::{AccountId, Mode, PayoutId};
use domain::money::{Amount, Currency};
use domain::payout::{Payout, PayoutDestination, PayoutKey, PayoutKeyState, PayoutOutcome, PayoutStatus};
use domain::pix_key::PixKey;
use domain::reference::Reference;
use domain::tax_id::TaxId;
use money::payout::{PAGE_SIZE, PayoutError, PayoutView};
use money::wallet::view::escape_formula;
use shared::random;

use self::itau::ItauArguments;
use crate::enum_parser::enum_parser;
use crate::output::{Record, With, print_list, record, unknown_outcome};
use crate::target::Stack;
use crate::{OperatorArguments, Result, ScopeArguments, for_each, ledger, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Create a payout and debit the wallet
    ///
    /// Refused for a suspended account, and of live money above the limit of a day. A repetition with the same reference
    /// and content shows the existing payout.
    Create {
        #[command(flatten)]
        scope: ScopeArguments,
        /// The amount in minor units of the currency, without a decimal point: 1000 is R$ 10,00, or 1000 yen
        #[arg(long, allow_hyphen_values = true, value_parser = ledger::amount)]
        amount: Amount,
        /// The currency of the wallet
        #[arg(long, default_value = "BRL", value_parser = ledger::currency)]
        currency: Currency,
        /// Your name of the payout, such as 2026-11; unique among the account's payouts and corrections
        #[arg(long)]
        reference: Reference,
        /// Permit more than operators may move of an account in a day, which needs a second person on a deployed stack
        #[arg(long)]
        over_limit: bool,
        /// Create it although the account is suspended
        #[arg(long)]
        although_suspended: bool,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Record that payouts reached the merchants' banks
    Settle(PayoutArguments),
    /// Record that payouts failed, and credit their money back to the wallets
    ///
    /// The merchants read the reason as `failure_reason`.
    Fail(PayoutArguments),
    /// Show one payout, with the whole Pix key and its holder's document if an owner requested it
    Show {
        /// The payout (po_…)
        id: PayoutId,
    },
    /// List the payouts of an account in a mode, or the pending ones of all accounts, newest first, 100 at a time
    List {
        /// The account (acc_…)
        #[arg(long, required_unless_present = "all", conflicts_with = "all", requires = "mode")]
        account: Option<AccountId>,
        /// The pending payouts of all accounts; needs --status pending
        #[arg(long, requires = "status")]
        all: bool,
        /// The mode: test or live [default with --all: both]
        #[arg(long)]
        mode: Option<Mode>,
        /// Print only the page's payouts with this status
        #[arg(long, value_parser = enum_parser::<PayoutStatus>())]
        status: Option<PayoutStatus>,
        /// Continue after this payout, the last one of the previous page (po_…)
        #[arg(long)]
        starting_after: Option<PayoutId>,
    },
    /// Write the pending live payouts in reais that owners requested as a file, for the upload at your bank
    ///
    /// As CSV: columns are separated by `;`, amounts have a decimal comma, keys and documents are whole. Payouts without
    /// a Pix key and those of suspended accounts are left out, and named on stderr.
    File {
        #[command(flatten)]
        itau: Option<ItauArguments>,
    },
    /// List the payout keys of all accounts that wait for a check, the oldest first, at most 100
    Keys,
    /// Approve an account's payout key, after its holder's document was read at the bank
    ///
    /// Refused unless that document is the account's. The key works 48 hours after its registration at the earliest.
    /// All owners are mailed.
    ApproveKey {
        #[command(flatten)]
        key: KeyArguments,
        /// The CPF or CNPJ of the key's holder at the bank, without punctuation
        #[arg(long)]
        holder_document: TaxId,
    },
    /// Reject an account's payout key, also one that is approved
    ///
    /// Owners read the reason, and are mailed. A payout that was requested before remains pending.
    RejectKey(KeyArguments),
}

/// A payout key that was checked
#[derive(Args, Debug)]
pub(crate) struct KeyArguments {
    /// The account (acc_…)
    account: AccountId,
    /// The whole key that was checked, because an owner may have replaced it meanwhile
    #[arg(long)]
    key: PixKey,
    #[command(flatten)]
    operator: OperatorArguments,
}

impl Command {
    pub(crate) fn is_over_limit(&self) -> bool {
        matches!(self, Self::Create { over_limit: true, .. })
    }
}

/// The payouts that a command ends
#[derive(Args, Debug)]
pub(crate) struct PayoutArguments {
    /// The payouts (po_…)
    #[arg(required = true)]
    ids: Vec<PayoutId>,
    #[command(flatten)]
    operator: OperatorArguments,
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    let now = stack.clock.now();
    let payout = match command {
        Command::Create { scope, amount, currency, reference, over_limit, although_suspended, operator } => {
            let scope = stack.existing_scope(scope).await?;
            let is_suspended = stack.existing_account(&scope.account).await?.settings.suspended;
            if is_suspended && !although_suspended && !stack.payouts.has_reference(&scope, &reference).await?
            {
                return Err("the account is suspended: --although-suspended creates the payout".into());
            }
            let named = (PayoutId::new(now, random::bytes()?), &reference);
            let money = (amount, currency);
            let operator = stack.operator_over(over_limit, &operator);
            let created = stack.payouts.create(named, scope, money, &operator, now).await;
            let payout = created.map_err(|error| match error {
                PayoutError::Store(error) => unknown_outcome(&error),
                refused => refused.to_string(),
            })?;
            if payout.id != named.0 {
                writeln!(
                    std::io::stderr(),
                    "the payout with this reference exists already; nothing changed"
                )?;
            }
            payout
        }
        Command::Settle(PayoutArguments { ids, operator }) => {
            return end_each(stack, &ids, &PayoutOutcome::Paid, &operator).await;
        }
        Command::Fail(PayoutArguments { ids, operator }) => {
            let outcome = PayoutOutcome::Failed { reason: operator.reason.clone() };
            return end_each(stack, &ids, &outcome, &operator).await;
        }
        Command::Show { id } => {
            let payout = stack.payouts.find(id).await?.ok_or(PayoutError::NotFound)?;
            return print_json(&printed(&payout, |to| {
                (to.key.as_str().to_owned(), to.holder.as_str().to_owned())
            }));
        }
        Command::List { account, all: _, mode, status, starting_after } => {
            return list(stack, (account, mode), status, starting_after).await;
        }
        Command::File { itau } => return write_file(stack, itau.as_ref()).await,
        Command::Keys => return list_keys(stack).await,
        Command::ApproveKey { key: KeyArguments { account, key, operator }, holder_document } => {
            let document = stack.existing_account(&account).await?.document;
            let (checked, operator) = ((&key, holder_document), stack.operator(&operator));
            let key = stack.payout_keys.approve(account, checked, document, &operator, now).await?;
            return print_json(&printed_key(&key));
        }
        Command::RejectKey(KeyArguments { account, key, operator }) => {
            let account = stack.existing_account(&account).await?.id;
            let key = stack.payout_keys.reject(account, &key, &stack.operator(&operator), now).await?;
            return print_json(&printed_key(&key));
        }
    };
    print_json(&printed(&payout, masked))
}

async fn end_each(
    stack: &Stack,
    ids: &[PayoutId],
    outcome: &PayoutOutcome,
    operator: &OperatorArguments,
) -> Result<()> {
    let operator = stack.operator(operator);
    for_each(ids, async |id| {
        let before = stack.payouts.find(*id).await?.map(|payout| payout.status);
        let ended = stack.payouts.end(*id, outcome, &operator, stack.clock.now()).await;
        let ended = ended.map_err(|error| match error {
            PayoutError::Store(error) => unknown_outcome(&error),
            refused => refused.to_string(),
        })?;
        if before == Some(ended.status) {
            writeln!(std::io::stderr(), "{id} is {} already; nothing changed", ended.status.as_str())?;
        }
        print_json(&printed(&ended, masked))
    })
    .await
}

fn masked(destination: &PayoutDestination) -> (String, String) {
    (destination.key.masked(), destination.holder.masked())
}

/// `shown`: the key and its holder's document, whole or masked.
fn printed(payout: &Payout, shown: fn(&PayoutDestination) -> (String, String)) -> With<PayoutView<'_>> {
    let (key, holder) = payout.destination.as_ref().map(shown).unzip();
    let more = record! {
        scope: payout.scope,
        reference: payout.reference,
        key: key,
        holder_document: holder,
    };
    With { object: PayoutView::new(payout), more }
}

fn printed_key(key: &PayoutKey) -> Record {
    record! {
        account: key.account,
        key: key.key,
        state: key.state,
        registered_at: key.registered_at,
        works_from: key.works_from(),
    }
}

async fn list_keys(stack: &Stack) -> Result<()> {
    let mut rows = Vec::new();
    for key in stack.payout_keys.waiting().await? {
        let Account { document, settings, .. } = stack.existing_account(&key.account).await?;
        let of_account = record! { merchant_name: settings.merchant_name, account_document: document };
        rows.push(printed_key(&key).and(of_account));
    }
    print_list(stack, "payout keys", rows)
}

const FILE_COLUMNS: [&str; 6] =
    ["payout", "pix_key", "amount", "holder_document", "merchant_name", "account"];

async fn write_file(stack: &Stack, itau: Option<&ItauArguments>) -> Result<()> {
    let (mut payable, mut left_out, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let payouts = stack.payouts.pending(after).await?;
        after = payouts.last().filter(|_| payouts.len() == PAGE_SIZE).map(|last| last.id);
        for payout in payouts.into_iter().filter(|payout| payout.scope.mode == Mode::Live) {
            let Some(to) = payout.destination.clone().filter(|_| payout.currency == Currency::BRL) else {
                left_out.push(format!("{}: without a Pix key", payout.id));
                continue;
            };
            let Account { settings, .. } = stack.existing_account(&payout.scope.account).await?;
            if settings.suspended {
                left_out.push(format!("{}: {} is suspended", payout.id, payout.scope.account));
                continue;
            }
            let key = stack.payout_keys.find(&payout.scope.account).await?;
            let is_approved =
                |key: &PayoutKey| key.key == to.key && matches!(key.state, PayoutKeyState::Approved { .. });
            if !key.as_ref().is_some_and(is_approved) {
                left_out.push(format!("{}: its Pix key was rejected or replaced since", payout.id));
                continue;
            }
            payable.push((payout, to, settings.merchant_name));
        }
        if after.is_none() {
            break;
        }
    }
    for why in left_out {
        writeln!(std::io::stderr(), "left out {why}")?;
    }
    let file = match itau {
        Some(itau) => itau::file(itau, &payable, stack.clock.now())?.into_bytes(),
        None => csv_file(&payable)?,
    };
    Ok(std::io::stdout().write_all(&file)?)
}

fn csv_file(payable: &[(Payout, PayoutDestination, String)]) -> Result<Vec<u8>> {
    let mut writer =
        csv::WriterBuilder::new().delimiter(b';').terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(FILE_COLUMNS)?;
    for (payout, to, merchant_name) in payable {
        writer.write_record([
            payout.id.to_string(),
            to.key.as_str().to_owned(),
            payout.amount.decimal(2).replace('.', ","),
            to.holder.as_str().to_owned(),
            escape_formula(merchant_name),
            payout.scope.account.to_string(),
        ])?;
    }
    Ok(writer.into_inner().map_err(csv::IntoInnerError::into_error)?)
}

/// Without an account, those that are pending.
async fn list(
    stack: &Stack,
    (account, mode): (Option<AccountId>, Option<Mode>),
    status: Option<PayoutStatus>,
    starting_after: Option<PayoutId>,
) -> Result<()> {
    let payouts = match account.zip(mode) {
        Some((account, mode)) => {
            let scope = stack.existing_scope(ScopeArguments { account, mode }).await?;
            stack.payouts.list(&scope, starting_after).await?
        }
        None if status == Some(PayoutStatus::Pending) => stack.payouts.pending(starting_after).await?,
        None => return Err("--all lists only pending payouts: add --status pending".into()),
    };
    let wanted = |payout: &&Payout| {
        status.is_none_or(|status| payout.status == status)
            && mode.is_none_or(|mode| payout.scope.mode == mode)
    };
    let (mut rows, mut sums) = (Vec::new(), BTreeMap::<(Currency, Mode), (usize, u64)>::new());
    for payout in payouts.iter().filter(wanted) {
        let With { object, mut more } = printed(payout, masked);
        if account.is_none() {
            let merchant = stack.existing_account(&payout.scope.account).await?.settings.merchant_name;
            more = more.and(record! { merchant_name: merchant });
        }
        rows.push(With { object, more });
        let (count, sum) = sums.entry((payout.currency, payout.scope.mode)).or_default();
        (*count, *sum) = (count.saturating_add(1), sum.saturating_add(payout.amount.minor_unsigned()));
    }
    print_list(stack, "payouts", rows)?;
    for ((currency, mode), (count, sum)) in sums {
        writeln!(std::io::stderr(), "{mode}: {count} payouts, {currency} {sum} in minor units")?;
    }
    if let Some(last) = payouts.last().filter(|_| payouts.len() == PAGE_SIZE) {
        writeln!(std::io::stderr(), "more payouts may follow: --starting-after {}", last.id)?;
    }
    Ok(())
}
