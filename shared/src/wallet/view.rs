//! The wire formats of wallets (contract: Wallet balance, Wallet list item), and of the statement as JSON and
//! CSV.

use std::collections::BTreeMap;

use serde::Serialize;

use domain::ids::{MedCaseId, PayoutId, PostingId, RefundId};
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::time::Timestamp;
use domain::wallet::{PRIMARY_CURRENCY, Posting, Wallet};

use crate::wallet::statement::{BalanceChanges, StatementPage};

/// A balance in the flat, single-currency shape (contract: `GET /v1/wallets/balance` with `currency`).
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FlatBalanceView {
    available: MinorUnits,
    pending: MinorUnits,
    currency: Currency,
    next_release_at: Option<Timestamp>,
    next_release_amount: Option<MinorUnits>,
}

impl FlatBalanceView {
    /// Serialises the balance of one wallet.
    ///
    /// # Errors
    ///
    /// When a balance does not fit 64 bits.
    pub fn new(wallet: &Wallet) -> Result<Self, MoneyError> {
        let next = wallet.releases().next();
        Ok(Self {
            available: wallet.available()?,
            pending: wallet.pending()?,
            currency: wallet.currency,
            next_release_at: next.map(|release| release.at()),
            next_release_amount: next.map(|release| release.minor),
        })
    }
}

/// A balance in the multi-currency shape. Its top-level fields describe the primary currency.
#[derive(Clone, Debug, Serialize)]
pub struct BalanceView {
    #[serde(flatten)]
    flat: FlatBalanceView,
    total: MinorUnits,
    retained: MinorUnits,
    balances: Vec<CurrencyBalanceView>,
    primary: CurrencyBalanceView,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct CurrencyBalanceView {
    currency: Currency,
    available: MinorUnits,
    pending: MinorUnits,
    total: MinorUnits,
}

impl CurrencyBalanceView {
    fn new(wallet: &Wallet) -> Result<Self, MoneyError> {
        Ok(Self {
            currency: wallet.currency,
            available: wallet.available()?,
            pending: wallet.pending()?,
            total: wallet.total()?,
        })
    }
}

/// Returns the wallet in the primary currency, and the others in the order of their currency codes. The
/// primary wallet is empty if it has no movements.
fn primary_and_others(wallets: &BTreeMap<Currency, Wallet>) -> (Wallet, Vec<&Wallet>) {
    let primary = wallets.get(&PRIMARY_CURRENCY).cloned();
    let primary = primary.unwrap_or_else(|| Wallet::empty(PRIMARY_CURRENCY));
    (primary, wallets.values().filter(|wallet| wallet.currency != PRIMARY_CURRENCY).collect())
}

impl BalanceView {
    /// Serialises the balances of all wallets of a scope.
    ///
    /// # Errors
    ///
    /// When a balance does not fit 64 bits.
    pub fn new(wallets: &BTreeMap<Currency, Wallet>) -> Result<Self, MoneyError> {
        let (primary, others) = primary_and_others(wallets);
        let balances = std::iter::once(&primary).chain(others).map(CurrencyBalanceView::new);
        Ok(Self {
            flat: FlatBalanceView::new(&primary)?,
            total: primary.total()?,
            retained: primary.retained()?,
            balances: balances.collect::<Result<_, _>>()?,
            primary: CurrencyBalanceView::new(&primary)?,
        })
    }
}

/// An item of the list of wallets (contract: `GET /v1/wallets`).
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WalletView {
    currency: Currency,
    wallet_type: &'static str,
    balance: MinorUnits,
    pending_balance: MinorUnits,
}

impl WalletView {
    /// Serialises all wallets of a scope, the primary one first.
    ///
    /// # Errors
    ///
    /// When a balance does not fit 64 bits.
    pub fn list(wallets: &BTreeMap<Currency, Wallet>) -> Result<Vec<Self>, MoneyError> {
        let (primary, others) = primary_and_others(wallets);
        let view = |wallet: &Wallet| {
            Ok(Self {
                currency: wallet.currency,
                wallet_type: "OPERATIONAL",
                balance: wallet.available()?,
                pending_balance: wallet.pending()?,
            })
        };
        std::iter::once(&primary).chain(others).map(view).collect()
    }
}

/// A posting as the merchant sees it: a movement of the wallet. `amount` is the gross amount, before `fee`.
/// `net` is the change of the merchant's total money: available, pending and retained together. `changes`
/// splits `net` by these three.
#[derive(Debug, Serialize)]
pub struct MovementView<'a> {
    id: PostingId,
    object: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    amount: MinorUnits,
    fee: MinorUnits,
    net: MinorUnits,
    currency: Currency,
    changes: BalanceChanges,
    charge_id: Option<String>,
    refund_id: Option<RefundId>,
    med_case_id: Option<MedCaseId>,
    payout_id: Option<PayoutId>,
    note: Option<&'a str>,
    created_at: Timestamp,
}

impl<'a> MovementView<'a> {
    /// Serialises a posting.
    ///
    /// # Errors
    ///
    /// When a sum does not fit 64 bits.
    pub fn new(posting: &'a Posting) -> Result<Self, MoneyError> {
        let subject = &posting.subject;
        Ok(Self {
            id: posting.id,
            object: "wallet_transaction",
            kind: posting.kind.statement_type(),
            amount: posting.amount,
            fee: posting.fee,
            net: posting.net()?,
            currency: posting.currency,
            changes: BalanceChanges::from_posting(posting)?,
            charge_id: subject.charge.map(|id| id.to_string()),
            refund_id: subject.refund,
            med_case_id: subject.case,
            payout_id: subject.payout,
            note: subject.note.as_deref(),
            created_at: posting.at,
        })
    }
}

/// A page of the statement as JSON.
#[derive(Debug, Serialize)]
pub struct StatementView<'a> {
    object: &'static str,
    data: Vec<MovementView<'a>>,
    has_more: bool,
    next_cursor: Option<PostingId>,
}

impl<'a> StatementView<'a> {
    /// Serialises a page.
    ///
    /// # Errors
    ///
    /// When a sum of a movement does not fit 64 bits.
    pub fn new(page: &'a StatementPage) -> Result<Self, MoneyError> {
        Ok(Self {
            object: "list",
            data: page.postings.iter().map(MovementView::new).collect::<Result<_, _>>()?,
            has_more: page.next_cursor.is_some(),
            next_cursor: page.next_cursor,
        })
    }
}

/// The columns of the CSV statement: the fields of a movement.
const CSV_COLUMNS: [&str; 15] = [
    "id",
    "created_at",
    "type",
    "currency",
    "amount",
    "fee",
    "net",
    "available_change",
    "pending_change",
    "retained_change",
    "charge_id",
    "refund_id",
    "med_case_id",
    "payout_id",
    "note",
];

/// Why a statement was not written as CSV. Both cases are defects of the service.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// A sum of a movement does not fit 64 bits.
    #[error(transparent)]
    Money(#[from] MoneyError),
    /// The CSV writer failed.
    #[error(transparent)]
    Csv(#[from] csv::Error),
}

/// Writes a page of the statement as CSV (RFC 4180), with a header line.
///
/// # Errors
///
/// See [`CsvError`].
pub fn statement_csv(page: &StatementPage) -> Result<Vec<u8>, CsvError> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(CSV_COLUMNS)?;
    for posting in &page.postings {
        let movement = MovementView::new(posting)?;
        let BalanceChanges { available, pending, retained } = movement.changes;
        writer.write_record([
            movement.id.to_string(),
            movement.created_at.to_iso(),
            movement.kind.to_owned(),
            movement.currency.to_string(),
            movement.amount.to_string(),
            movement.fee.to_string(),
            movement.net.to_string(),
            available.to_string(),
            pending.to_string(),
            retained.to_string(),
            movement.charge_id.unwrap_or_default(),
            movement.refund_id.map(|id| id.to_string()).unwrap_or_default(),
            movement.med_case_id.map(|id| id.to_string()).unwrap_or_default(),
            movement.payout_id.map(|id| id.to_string()).unwrap_or_default(),
            escape_formula(movement.note.unwrap_or_default()),
        ])?;
    }
    Ok(writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?)
}

/// Escapes a text that a spreadsheet would run as a formula (OWASP: CSV injection).
fn escape_formula(text: &str) -> String {
    match text.chars().next() {
        Some('=' | '+' | '-' | '@' | '\t' | '\r') => format!("'{text}"),
        _ => text.to_owned(),
    }
}
