//! The wire formats of wallets, and of the statement as JSON and CSV.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use domain::ids::{ChargeId, MedCaseId, PayoutId, PostingId, RefundId};
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::time::Timestamp;
use domain::wallet::{PRIMARY_CURRENCY, Posting, PostingKind, Wallet};

use crate::wallet::statement::{BalanceChanges, StatementPage};
use shared::http::ListView;

/// The balance in one currency.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
#[schemars(rename = "CurrencyWalletBalance")]
pub struct FlatBalanceView {
    /// The amount that can be spent or paid out, in the currency's smallest unit. It may be negative.
    available: MinorUnits,
    /// The settled amount that is still held. It may be negative.
    pending: MinorUnits,
    /// The currency. Without the query parameter `currency`: the primary currency, `BRL`.
    currency: Currency,
    /// When the next part of the pending amount becomes available. `null` if nothing is pending.
    next_release_at: Option<Timestamp>,
    /// The amount of that part. `null` if nothing is pending.
    next_release_amount: Option<MinorUnits>,
}

impl FlatBalanceView {
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

/// The balances in all currencies. The fields at the top level describe the primary currency.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "WalletBalance")]
pub struct BalanceView {
    #[serde(flatten)]
    flat: FlatBalanceView,
    /// `available` and `pending` together.
    total: MinorUnits,
    /// The amount that open MED cases retain. It is not part of `total`.
    retained: MinorUnits,
    /// The balance in each currency, the primary one first.
    balances: Vec<CurrencyBalanceView>,
    /// The balance in the primary currency.
    primary: CurrencyBalanceView,
}

/// The balance in one currency.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
#[schemars(rename = "CurrencyBalance")]
struct CurrencyBalanceView {
    /// The currency.
    currency: Currency,
    /// The amount that can be spent or paid out, in the currency's smallest unit. It may be negative.
    available: MinorUnits,
    /// The settled amount that is still held. It may be negative.
    pending: MinorUnits,
    /// `available` and `pending` together.
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
/// primary wallet is empty if it has no movements. Others that only count what is in the merchant's own are left out.
fn primary_and_others(wallets: &BTreeMap<Currency, Wallet>) -> (Wallet, Vec<&Wallet>) {
    let primary = wallets.get(&PRIMARY_CURRENCY).cloned();
    let primary = primary.unwrap_or_else(|| Wallet::empty(PRIMARY_CURRENCY));
    let is_other = |wallet: &&Wallet| wallet.currency != PRIMARY_CURRENCY && wallet.is_operational();
    (primary, wallets.values().filter(is_other).collect())
}

impl BalanceView {
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

/// A wallet: the account's money in one currency.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Wallet")]
#[serde(rename_all = "camelCase")]
pub struct WalletView {
    /// The currency.
    currency: Currency,
    /// `OPERATIONAL`: the service has the money. `SELF_CUSTODY`: payers sent it to the merchant's own wallet, by crypto.
    #[schemars(extend("enum" = ["OPERATIONAL", "SELF_CUSTODY"]))]
    wallet_type: &'static str,
    /// The amount that can be spent or paid out, in the currency's smallest unit. It may be negative. `SELF_CUSTODY`: all
    /// that came there, at the price of its charges.
    balance: MinorUnits,
    /// The settled amount that is still held. It may be negative. `SELF_CUSTODY`: zero.
    pending_balance: MinorUnits,
}

impl WalletView {
    /// The primary one first.
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
        let own = |wallet: &Wallet| {
            let (currency, pending_balance) = (wallet.currency, MinorUnits::ZERO);
            let balance = wallet.self_custody().transpose()?;
            Some(balance.map(|balance| Self {
                currency,
                wallet_type: "SELF_CUSTODY",
                balance,
                pending_balance,
            }))
        };
        let operational = std::iter::once(&primary).chain(others).map(view);
        operational.chain(wallets.values().filter_map(own)).collect()
    }
}

/// A movement of a wallet.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "WalletTransaction")]
pub struct MovementView<'a> {
    /// The movement's id.
    id: PostingId,
    /// Always `wallet_transaction`.
    #[schemars(extend("const" = "wallet_transaction"))]
    object: &'static str,
    /// Why money moved.
    #[serde(rename = "type")]
    #[schemars(with = "PostingKind")]
    kind: &'static str,
    /// The gross amount in the currency's smallest unit, before `fee`.
    amount: MinorUnits,
    /// The fee in the currency's smallest unit.
    fee: MinorUnits,
    /// The change of the account's money: the sum of `changes`.
    net: MinorUnits,
    /// The currency of the amounts.
    currency: Currency,
    /// How `net` is divided between the parts of the balance.
    changes: BalanceChanges,
    /// The charge that was paid, refunded or disputed. `null` if the movement concerns none.
    charge_id: Option<ChargeId>,
    /// The refund. `null` if the movement concerns none.
    refund_id: Option<RefundId>,
    /// The MED case. `null` if the movement concerns none.
    med_case_id: Option<MedCaseId>,
    /// The payout. `null` if the movement concerns none.
    payout_id: Option<PayoutId>,
    /// A note of the platform on an adjustment. `null` if there is none.
    note: Option<&'a str>,
    /// When the money moved.
    created_at: Timestamp,
}

impl<'a> MovementView<'a> {
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
            charge_id: subject.charge,
            refund_id: subject.refund,
            med_case_id: subject.case,
            payout_id: subject.payout,
            note: subject.note.as_deref(),
            created_at: posting.at,
        })
    }
}

/// A page of the movements of a wallet.
pub type StatementView<'a> = ListView<MovementView<'a>, PostingId>;

pub fn statement(page: &StatementPage) -> Result<StatementView<'_>, MoneyError> {
    let movements = page.items.iter().map(MovementView::new);
    Ok(ListView::new(movements.collect::<Result<_, _>>()?, page.next_cursor))
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
    #[error(transparent)]
    Money(#[from] MoneyError),
    #[error(transparent)]
    Csv(#[from] csv::Error),
}

/// As in RFC 4180, with a header line.
pub fn statement_csv(page: &StatementPage) -> Result<Vec<u8>, CsvError> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(CSV_COLUMNS)?;
    for posting in &page.items {
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
            movement.charge_id.map(|id| id.to_string()).unwrap_or_default(),
            movement.refund_id.map(|id| id.to_string()).unwrap_or_default(),
            movement.med_case_id.map(|id| id.to_string()).unwrap_or_default(),
            movement.payout_id.map(|id| id.to_string()).unwrap_or_default(),
            escape_formula(movement.note.unwrap_or_default()),
        ])?;
    }
    Ok(writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?)
}

/// Escapes a text of which a spreadsheet would run a part as a formula (OWASP: CSV injection), also if it splits lines
/// at another separator or at a quote.
pub fn escape_formula(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut may_begin_cell = true;
    for c in text.chars() {
        let begins_formula =
            matches!(c, '=' | '+' | '-' | '@' | '\t' | '\r' | '\n' | '＝' | '＋' | '－' | '＠');
        if may_begin_cell && begins_formula {
            escaped.push('\'');
        }
        // Some spreadsheets drop the spaces before a sign.
        may_begin_cell = matches!(c, ',' | ';' | '|' | '"' | '\'' | '\t' | '\r' | '\n')
            || (may_begin_cell && c.is_whitespace());
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_text_is_a_formula_in_any_spreadsheet() {
        for (text, expected) in [
            ("Pedido 7 - azul", "Pedido 7 - azul"),
            ("=1+1", "'=1+1"),
            ("x,=HYPERLINK(A1),", "x,'=HYPERLINK(A1),"),
            ("a;@b\n+c", "a;'@b\n'+c"),
            ("\"=1", "\"'=1"),
            ("＝1", "'＝1"),
            ("  -1", "  '-1"),
            ("\u{a0}@a", "\u{a0}'@a"),
        ] {
            assert_eq!(escape_formula(text), expected, "{text}");
        }
    }
}
