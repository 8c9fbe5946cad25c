//! Generates JSON texts that are almost those of a valid document: with wrong types, extreme numbers, duplicate
//! keys, deep nesting, lone surrogates, NUL characters, invalid UTF-8, or cut off.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

/// Texts that replace a value, separated by white space. Some are not JSON.
const ODD_VALUES: &str = r#"
    null true false 0 -0 -1 1 1.0 1.5 01 +1 1e2 1e400 1e-400 -1e99999999999 999999999999 1000000000000 2147483648
    9007199254740993 9223372036854775807 9223372036854775808 -9223372036854775809 18446744073709551616
    NaN Infinity undefined '' { ] " "" "\u0020" "null" "1000" "1e3" "\u0000" "a\u0000b" "\ud800" "\udc00\ud800"
    "\ud83d\ude00" "\u202e" "\u200b\ufeff" "\n" "\x" "9999-12-31T23:59:59.999Z" "2026-02-30"
    "-000001-01-01T00:00:00Z" "https://user:password@[::1]:0/%zz?\u0023" "52998224725" [] [null] [[],{}] {}
    {"a":{"a":1,"a":2}}
"#;

/// Keys that are added, as JSON texts. Some are in each document, so they are duplicates.
const KEYS: &str = r#""id" "txid" "status" "valor" "pix" "horario" "" "__proto__" "\u0000" "\ud800" "é" 1"#;

/// One change of a document.
#[derive(Clone, Debug)]
pub(crate) enum Mutation {
    /// Replaces a value by these texts, with the value between them if it is kept.
    Replace { at: Index, before: String, is_kept: bool, after: String },
    /// Removes a field or an item.
    Remove(Index),
    /// Replaces so many bytes of the text by these.
    Splice(Index, usize, Vec<u8>),
}

/// Collects the JSON pointers of a value and of all values in it.
fn pointers(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, item)| pointers(item, format!("{at}/{place}"), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, item)| pointers(item, format!("{at}/{name}"), found));
        }
        _ => {}
    }
    found.push(at);
}

/// Applies changes to a document: first those of values, then those of the text.
pub(crate) fn mutated(document: &Value, mutations: &[Mutation]) -> Vec<u8> {
    let (mut document, mut texts) = (document.clone(), Vec::new());
    // A text need not be JSON, so a mark stands in its place until the document is a text.
    let mark = |number: usize| format!("mark {number}");
    for mutation in mutations {
        let mut found = Vec::new();
        pointers(&document, String::new(), &mut found);
        match mutation {
            Mutation::Replace { at, before, is_kept, after } => {
                let value = document.pointer_mut(at.get::<String>(&found)).unwrap();
                let kept = if *is_kept { value.to_string() } else { String::new() };
                *value = mark(texts.len()).into();
                texts.push(format!("{before}{kept}{after}"));
            }
            Mutation::Remove(at) => {
                if let Some((parent, name)) = at.get::<String>(&found).rsplit_once('/') {
                    match document.pointer_mut(parent).unwrap() {
                        Value::Array(items) => drop(items.remove(name.parse().unwrap())),
                        parent => drop(parent.as_object_mut().unwrap().remove(name)),
                    }
                }
            }
            Mutation::Splice(..) => {}
        }
    }
    let mut text = document.to_string();
    // A text may contain the marks of earlier ones.
    for (number, replacement) in texts.iter().enumerate().rev() {
        text = text.replace(&format!("\"{}\"", mark(number)), replacement);
    }
    let mut bytes = text.into_bytes();
    for mutation in mutations {
        if let Mutation::Splice(at, removed, added) = mutation {
            let at = at.index(bytes.len() + 1);
            let end = at.saturating_add(*removed).min(bytes.len());
            bytes.splice(at..end, added.iter().copied());
        }
    }
    bytes
}

/// The text of a value: usually JSON, but not one that the document has at its place.
fn value_text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(ODD_VALUES.split_whitespace().collect::<Vec<_>>()).prop_map(str::to_owned),
        2 => "-?[0-9]{1,30}(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?",
        3 => any::<String>().prop_map(|text| Value::from(text).to_string()),
        1 => (0_usize..70_000).prop_map(|length| format!("\"{}\"", "a".repeat(length))),
        1 => (0_usize..300).prop_map(|length| format!("[{}0]", "0,".repeat(length))),
    ]
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<Index>;
    let replace = |at, before, is_kept, after| Mutation::Replace { at, before, is_kept, after };
    let keys: Vec<&str> = KEYS.split_whitespace().collect();
    prop_oneof![
        8 => (index(), value_text()).prop_map(move |(at, text)| replace(at, text, false, String::new())),
        4 => (index(), select(keys), value_text())
            .prop_map(move |(at, key, text)| replace(at, String::new(), true, format!(",{key}:{text}"))),
        1 => (index(), select(vec![1, 127, 128, 20_000]))
            .prop_map(move |(at, levels)| replace(at, "[".repeat(levels), true, "]".repeat(levels))),
        2 => index().prop_map(Mutation::Remove),
        3 => (index(), select(vec![0, 1, usize::MAX]), vec(any::<u8>(), 0..5))
            .prop_map(|(at, removed, added)| Mutation::Splice(at, removed, added)),
    ]
}

/// Changes of a document; sometimes none.
pub(crate) fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    vec(mutation(), 0..4)
}
