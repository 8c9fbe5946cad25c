//! Items of notifications that cannot be parsed. Each is set aside in a row for operators, so that it does
//! not refuse the other items of its notification.

use std::borrow::Cow;

use domain::acquirer::SetAsideItem;
use domain::hex;
use domain::ids::{AccountId, ConnectionId};
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
    let mut text = masked(value).to_string();
    text.truncate(text.floor_char_boundary(MAX_ITEM_BYTES));
    text
}

fn masked(value: Value) -> Value {
    match value {
        Value::String(text) => without_documents(&text).into(),
        Value::Number(number) if is_document(&number.to_string()) => MASK.into(),
        Value::Array(elements) => elements.into_iter().map(masked).collect(),
        Value::Object(fields) => {
            let mask = |(name, value): (String, Value)| {
                let is_personal = PERSONAL_FIELDS.contains(&name.as_str());
                (without_documents(&name), if is_personal { MASK.into() } else { masked(value) })
            };
            Value::Object(fields.into_iter().map(mask).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// Replaces each CPF and CNPJ in a text, with or without punctuation. Check digits are ignored, so that a
/// mistyped document is masked too.
fn without_documents(text: &str) -> String {
    let separates = |character: char| !character.is_ascii_alphanumeric() && !".-/".contains(character);
    let mask = |piece: &str| {
        let word = piece.trim_end_matches(separates);
        let word_or_mask = if is_document(word) { Cow::Borrowed(MASK) } else { Cow::Borrowed(word) };
        format!("{word_or_mask}{}", piece.strip_prefix(word).unwrap_or_default())
    };
    text.split_inclusive(separates).map(mask).collect()
}

fn is_document(word: &str) -> bool {
    let bare: Vec<u8> = word.bytes().filter(u8::is_ascii_alphanumeric).collect();
    let ends_with_digits = bare.iter().rev().take(2).all(u8::is_ascii_digit);
    match bare.len() {
        11 => bare.iter().all(u8::is_ascii_digit),
        14 => ends_with_digits,
        _ => false,
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
