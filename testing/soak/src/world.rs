//! What can be seen from outside at the end: the books of the bank, what the merchant reads through the API,
//! and what the operator's lists show.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::admin::Admin;
use crate::http::{Api, Call};
use crate::{Error, Result};

/// The most pages of a list.
const MAX_PAGES: usize = 10_000;

/// A cob of the bank.
#[derive(Clone, Debug)]
pub struct Cob {
    /// Its id.
    pub txid: String,
    /// Centavos.
    pub amount: i64,
    /// Such as `CONCLUIDA`.
    pub status: String,
}

/// A Pix that the bank received.
#[derive(Clone, Debug)]
pub struct Pix {
    /// Its end-to-end id.
    pub id: String,
    /// The cob that it paid.
    pub cob: Option<String>,
    /// Centavos.
    pub amount: i64,
    /// The payer's document.
    pub payer: Option<String>,
    /// When it was received (RFC 3339).
    pub at: String,
    /// Its devoluções.
    pub returns: Vec<Transfer>,
}

/// A devolução, or a Pix that the account sent.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Its id.
    pub id: String,
    /// Centavos.
    pub amount: i64,
    /// Such as `DEVOLVIDO`.
    pub status: String,
    /// Such as `ORIGINAL`. Empty for a Pix that was sent.
    pub nature: String,
    /// The Pix key to which a Pix was sent. Empty for a devolução.
    pub key: String,
    /// When it was executed (RFC 3339).
    pub settled_at: Option<String>,
}

impl Transfer {
    /// Whether it is neither executed nor refused.
    pub fn is_open(&self) -> bool {
        self.status == "EM_PROCESSAMENTO"
    }

    /// Whether the money has left the account.
    pub fn is_executed(&self) -> bool {
        self.status == "DEVOLVIDO" || self.status == "REALIZADO"
    }

    /// Whether it is a devolução by MED.
    pub fn is_med(&self) -> bool {
        self.nature.starts_with("MED_")
    }
}

/// The books of the bank.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// The cobs.
    pub cobs: Vec<Cob>,
    /// The Pix that were received.
    pub pix: Vec<Pix>,
    /// The Pix that were sent.
    pub sent: Vec<Transfer>,
}

/// A charge as the merchant reads it.
#[derive(Clone, Debug)]
pub struct Charge {
    /// `ch_…`.
    pub id: String,
    /// Such as `paid`.
    pub status: String,
    /// Centavos.
    pub amount: i64,
    /// The id of its cob.
    pub txid: Option<String>,
    /// The Pix that was credited.
    pub credited: Option<String>,
    /// The only document that may pay.
    pub expected_payer: Option<String>,
}

/// A refund as the merchant reads it.
#[derive(Clone, Debug)]
pub struct Refund {
    /// `re_…`.
    pub id: String,
    /// The charge, `ch_…`.
    pub charge: String,
    /// Centavos.
    pub amount: i64,
    /// Such as `REFUNDED`.
    pub status: String,
    /// Whether by devolução, else by cash-out.
    pub is_devolution: bool,
}

impl Refund {
    /// Whether it has neither succeeded nor failed.
    pub fn is_open(&self) -> bool {
        self.status == "PENDING" || self.status == "IN_PROGRESS"
    }
}

/// A line of the statement.
#[derive(Clone, Debug)]
pub struct Movement {
    /// Its id.
    pub id: String,
    /// Such as `settlement`.
    pub kind: String,
    /// Centavos.
    pub amount: i64,
    /// Centavos.
    pub fee: i64,
    /// The change of the merchant's money, in centavos.
    pub net: i64,
    /// The charge.
    pub charge: Option<String>,
}

/// A payment in a list of the operator.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The end-to-end id.
    pub id: String,
    /// Centavos.
    pub amount: i64,
    /// Such as `unmatched`.
    pub state: String,
    /// The charge whose payment is held.
    pub charge: Option<String>,
}

/// A refund that the merchant requested.
#[derive(Clone, Debug)]
pub struct RequestedRefund {
    /// The Pix key that the request named.
    pub destination: Option<String>,
    /// Whether the merchant bears the fee.
    pub passes_fee: bool,
}

/// Everything that is compared at the end.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The bank.
    pub books: Books,
    /// All charges that the API lists.
    pub charges: Vec<Charge>,
    /// The ids that the creation of charges returned, by idempotency key.
    pub created: BTreeMap<String, BTreeSet<String>>,
    /// All refunds.
    pub refunds: Vec<Refund>,
    /// What the merchant requested, by the refund's id.
    pub requested: BTreeMap<String, RequestedRefund>,
    /// The statement.
    pub movements: Vec<Movement>,
    /// Available, pending and retained money together, in centavos.
    pub balance: i64,
    /// Payments that match no charge, and payments that could not be returned.
    pub unapplied: Vec<Waiting>,
    /// Payments that are held for review.
    pub held: Vec<Waiting>,
    /// How many `charge.paid` each charge received.
    pub events: BTreeMap<String, u64>,
    /// The fees of a payment, in centavos.
    pub payment_fee: i64,
    /// The fee of a cash-out, in centavos.
    pub pix_out_fee: i64,
    /// How often the bank ignored the filter by payer.
    pub ignored_filters: u64,
    /// The charges whose review an operator approved, or to which an operator applied a payment.
    pub accepted: BTreeSet<String>,
}

/// Reads a text field. Empty if it is absent.
pub fn text(value: &Value, field: &str) -> String {
    optional_text(value, field).unwrap_or_default()
}

fn optional_text(value: &Value, field: &str) -> Option<String> {
    value.get(field).and_then(Value::as_str).map(str::to_owned)
}

fn integer(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or_default()
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Parses an amount of API Pix, such as `12.34`.
fn centavos(text: &str) -> Option<i64> {
    let (reais, cents) = text.split_once('.')?;
    if cents.len() != 2 {
        return None;
    }
    format!("{reais}{cents}").parse().ok()
}

fn amount_of(value: &Value) -> Result<i64> {
    let text = value.as_str().unwrap_or_default();
    centavos(text).ok_or_else(|| Error::new(format!("the bank's books have the amount {text:?}")))
}

impl Books {
    /// Reads the books.
    ///
    /// # Errors
    ///
    /// When the service does not answer.
    pub async fn read(api: &Api) -> Result<Self> {
        let books = read(api, "/_local/bank").await?;
        let null = Value::Null;
        let at = |value: &'_ Value, pointer: &str| value.pointer(pointer).cloned().unwrap_or_default();
        let transfer = |value: &Value| -> Result<Transfer> {
            Ok(Transfer {
                id: text(value, "id"),
                amount: amount_of(value.get("valor").unwrap_or(&null))?,
                status: text(value, "status"),
                nature: text(value, "natureza"),
                key: text(value, "chave"),
                settled_at: at(value, "/horario/liquidacao").as_str().map(str::to_owned),
            })
        };
        let cobs = items(&books, "cobs").iter().map(|cob| {
            let amount = amount_of(&at(cob, "/valor/original"))?;
            Ok(Cob { txid: text(cob, "txid"), amount, status: text(cob, "status") })
        });
        let pix = items(&books, "pix").iter().map(|pix| {
            let payer = pix.get("pagador").unwrap_or(&null);
            Ok(Pix {
                id: text(pix, "endToEndId"),
                cob: optional_text(pix, "cob"),
                amount: amount_of(pix.get("valor").unwrap_or(&null))?,
                payer: optional_text(payer, "cpf").or_else(|| optional_text(payer, "cnpj")),
                at: text(pix, "horario"),
                returns: items(pix, "devolucoes").iter().map(transfer).collect::<Result<_>>()?,
            })
        });
        Ok(Self {
            cobs: cobs.collect::<Result<_>>()?,
            pix: pix.collect::<Result<_>>()?,
            sent: items(&books, "pixOut").iter().map(transfer).collect::<Result<_>>()?,
        })
    }

    /// Returns how many transfers are neither executed nor refused.
    pub fn open_transfers(&self) -> usize {
        let returns = self.pix.iter().flat_map(|pix| &pix.returns);
        returns.chain(&self.sent).filter(|transfer| transfer.is_open()).count()
    }
}

async fn read(api: &Api, path: &str) -> Result<Value> {
    match api.settle(&Call::get(path)).await {
        Some(answer) if answer.status == 200 => Ok(answer.body),
        other => Err(Error::new(format!("GET {path} was answered {other:?}"))),
    }
}

/// Reads all pages of a list of the API.
async fn read_list(api: &Api, path: &str) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    for _page in 0..MAX_PAGES {
        let page = read(api, &format!("{path}{cursor}")).await?;
        all.extend(items(&page, "data").iter().cloned());
        match (page.get("has_more").and_then(Value::as_bool), optional_text(&page, "next_cursor")) {
            (Some(true), Some(next)) => cursor = format!("&starting_after={next}"),
            _ => return Ok(all),
        }
    }
    Err(Error::new(format!("{path} has too many pages")))
}

/// Reads all charges, or those with a status.
///
/// # Errors
///
/// When the service does not answer.
pub async fn charges(api: &Api, status: Option<&str>) -> Result<Vec<Charge>> {
    let filter = status.map(|status| format!("&status={status}")).unwrap_or_default();
    let listed = read_list(api, &format!("/v1/charges?limit=100{filter}")).await?;
    Ok(listed.iter().map(charge).collect())
}

fn charge(value: &Value) -> Charge {
    let at = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Charge {
        id: text(value, "id"),
        status: text(value, "status"),
        amount: integer(value, "amount"),
        txid: at("/pix/txid"),
        credited: at("/settlement/end_to_end_id"),
        expected_payer: at("/expected_payer_tax_id"),
    }
}

/// Reads the refunds of a charge.
///
/// # Errors
///
/// When the service does not answer.
pub async fn refunds(api: &Api, charge: &str) -> Result<Vec<Refund>> {
    let listed = read(api, &format!("/v1/payments/{charge}/refunds")).await?;
    let refund = |value: &Value| Refund {
        id: text(value, "id"),
        charge: charge.to_owned(),
        amount: integer(value, "amount"),
        status: text(value, "status"),
        is_devolution: value.get("strategy").and_then(Value::as_str) == Some("devolution"),
    };
    Ok(items(&listed, "data").iter().map(refund).collect())
}

/// Reads the statement.
///
/// # Errors
///
/// When the service does not answer.
pub async fn movements(api: &Api) -> Result<Vec<Movement>> {
    let listed = read_list(api, "/v1/wallets/transactions?limit=100").await?;
    let movement = |value: &Value| Movement {
        id: text(value, "id"),
        kind: text(value, "type"),
        amount: integer(value, "amount"),
        fee: integer(value, "fee"),
        net: integer(value, "net"),
        charge: optional_text(value, "charge_id"),
    };
    Ok(listed.iter().map(movement).collect())
}

/// Reads the sum of available, pending and retained money.
///
/// # Errors
///
/// When the service does not answer.
pub async fn balance(api: &Api) -> Result<i64> {
    let balance = read(api, "/v1/wallets/balance").await?;
    let parts = ["available", "pending", "retained"].map(|field| integer(&balance, field));
    Ok(parts.into_iter().fold(0, i64::saturating_add))
}

/// Reads the payments that wait for an operator: those that are not applied, and those that are held.
///
/// # Errors
///
/// When a command fails.
pub async fn waiting(admin: &Admin, account: &str) -> Result<(Vec<Waiting>, Vec<Waiting>)> {
    let unapplied = admin.list(&["receipts", "list", "--account", account]).await?;
    let held = admin.list(&["review", "list", "--account", account, "--mode", "live"]).await?;
    let unapplied = unapplied.iter().map(|value| Waiting {
        id: text(value, "end_to_end_id"),
        amount: integer(value, "amount"),
        state: text(value, "state"),
        charge: optional_text(value, "charge"),
    });
    let held = held.iter().map(|value| Waiting {
        id: text(value, "payment"),
        amount: integer(value, "amount"),
        state: text(value, "status"),
        charge: optional_text(value, "charge"),
    });
    Ok((unapplied.collect(), held.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parsed_as_integers() {
        assert_eq!(centavos("12.34"), Some(1234));
        assert_eq!(centavos("0.05"), Some(5));
        assert_eq!(centavos("12.3"), None);
        assert_eq!(centavos("12"), None);
    }
}
