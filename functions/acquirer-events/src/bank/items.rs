//! Parses the body of a notification. The body may contain more fields than the Central Bank's document
//! defines, because banks add their own.

use domain::ids::{ChargeId, EndToEndId};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use shared::http::{Problem, Result};

const MAX_ITEMS: usize = 1_000;

const MAX_TXID_LEN: usize = 35;

const MAX_RETURN_ID_LEN: usize = 35;

/// The statuses in which a devolução remains.
const FINAL_STATUSES: [&str; 2] = ["DEVOLVIDO", "NAO_REALIZADO"];

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Item {
    pub(super) end_to_end_id: EndToEndId,
    /// The txid of the charge, if it is well formed.
    pub(super) txid: Option<String>,
    pub(super) final_returns: Vec<(String, String)>,
}

impl Item {
    /// Parses an item. `None`: it is not an object, or has no valid `endToEndId`. Malformed values of the
    /// other fields are ignored, because the Pix is read back from the bank.
    pub(super) fn parse(item: &RawValue) -> Option<Self> {
        let raw: RawItem = serde_json::from_str(item.get()).ok()?;
        let txid = raw.txid.as_ref().and_then(Value::as_str).filter(|txid| is_id(txid, MAX_TXID_LEN));
        let returns = raw.returns.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let final_return = |item: &Value| {
            let (id, status) = (item.get("id")?.as_str()?, item.get("status")?.as_str()?);
            let is_final = FINAL_STATUSES.contains(&status) && is_id(id, MAX_RETURN_ID_LEN);
            is_final.then(|| (id.to_owned(), status.to_owned()))
        };
        Some(Self {
            end_to_end_id: raw.end_to_end_id,
            txid: txid.map(str::to_owned),
            final_returns: returns.iter().filter_map(final_return).collect(),
        })
    }

    /// Returns the charge that the txid encodes. `None`: the service did not make the txid.
    pub(super) fn charge(&self) -> Option<ChargeId> {
        self.txid.as_deref().and_then(|txid| ChargeId::from_txid(txid).ok())
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.txid = self.txid.take().or(other.txid);
        self.final_returns.extend(other.final_returns);
    }
}

fn is_id(text: &str, max_len: usize) -> bool {
    (1..=max_len).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[derive(Deserialize)]
struct RawItem {
    #[serde(rename = "endToEndId")]
    end_to_end_id: EndToEndId,
    #[serde(default)]
    txid: Option<Value>,
    #[serde(default, rename = "devolucoes")]
    returns: Option<Value>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    pix: Option<&'a RawValue>,
}

pub(super) fn parse(body: &[u8]) -> Result<Vec<&RawValue>> {
    let not_json =
        |error: &dyn std::fmt::Display| Problem::Unreadable(format!("The body is not valid JSON: {error}."));
    // An empty body is accepted as an object without fields, as on the other routes.
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let text = std::str::from_utf8(body).map_err(|error| not_json(&error))?;
    let root: &RawValue = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    if !root.get().starts_with('{') {
        return Err(Problem::Unreadable("The body must be a JSON object.".to_owned()));
    }
    let Body { pix } = serde_json::from_str(root.get()).map_err(|error| not_json(&error))?;
    let Some(pix) = pix else { return Ok(Vec::new()) };
    if !pix.get().starts_with('[') {
        return Err(Problem::field("pix", "must be an array"));
    }
    let items: Vec<&RawValue> = serde_json::from_str(pix.get()).map_err(|error| not_json(&error))?;
    if items.len() > MAX_ITEMS {
        return Err(Problem::field("pix", format!("must have at most {MAX_ITEMS} elements")));
    }
    Ok(items)
}
