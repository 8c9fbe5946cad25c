//! Items of notifications that cannot be parsed. Each is set aside in a row for operators, so that it does
//! not refuse the other items of its notification.

use domain::acquirer::SetAsideItem;
use domain::hex;
use domain::ids::{AccountId, ConnectionId};
use domain::masking::mask_json;
use domain::time::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// The most bytes of an item that a row contains: 4 KiB. A whole item could have 1 MiB, and a row may have at
/// most 400 KB.
const MAX_ITEM_BYTES: usize = 4_096;

const MASK: &str = "***";

/// Fields with personal data other than documents: the payer's name, and the payer's message.
const PERSONAL_FIELDS: [&str; 2] = ["nome", "infoPagador"];

pub(super) fn bad_item(
    (connection, account): (ConnectionId, AccountId),
    item: &RawValue,
    received_at: Timestamp,
) -> SetAsideItem {
    let sha256 = hex::encode(Sha256::digest(item.get()));
    SetAsideItem { account, connection, sha256, item: storable(item), received_at }
}

fn storable(item: &RawValue) -> String {
    // The parser refuses an item that is nested too deeply. Its text could contain documents, so the row does
    // not contain it.
    let Ok(value) = serde_json::from_str::<Value>(item.get()) else {
        return format!("({} bytes that cannot be parsed)", item.get().len());
    };
    let mut text = mask_json(without_names(value)).to_string();
    text.truncate(text.floor_char_boundary(MAX_ITEM_BYTES));
    text
}

fn without_names(value: Value) -> Value {
    match value {
        Value::Array(elements) => elements.into_iter().map(without_names).collect(),
        Value::Object(fields) => {
            let mask = |(name, value): (String, Value)| {
                let is_personal = PERSONAL_FIELDS.contains(&name.as_str());
                (name, if is_personal { MASK.into() } else { without_names(value) })
            };
            Value::Object(fields.into_iter().map(mask).collect())
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(item: &str) -> String {
        storable(serde_json::from_str(item).unwrap())
    }

    #[test]
    fn a_stored_item_is_cut_to_4_kib() {
        let long = stored(&json!({"valor": "é".repeat(10_000)}).to_string());
        assert!((MAX_ITEM_BYTES - 1..=MAX_ITEM_BYTES).contains(&long.len()), "{}", long.len());
        let deep = ["[".repeat(500), "]".repeat(500)].concat();
        assert_eq!(stored(&deep), "(1000 bytes that cannot be parsed)");
    }
}
