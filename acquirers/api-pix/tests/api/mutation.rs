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

/// Keys that are added, as JSON texts.
const ODD_KEYS: &str = r#""" "a" "_a" "med" "id" "amount" "metadata" "__proto__" "\u0000" "\ud800" "é" 1"#;

/// The largest body of the API, in bytes, and the sizes beside it.
const SIZES: [usize; 4] = [10_000, 262_143, 262_144, 262_145];

/// Levels of arrays. The API accepts 64.
const LEVELS: [usize; 6] = [1, 63, 64, 65, 200, 20_000];

/// One change of a document.
#[derive(Clone, Debug)]
pub(crate) enum Mutation {
    /// Replaces a value by this text.
    Replace(Index, String),
    /// Removes a member of an object or array.
    Remove(Index, Index),
    /// Repeats a member of an object or array with this value.
    Repeat(Index, Index, String),
    /// Adds a member with this key and value to an object.
    Add(Index, String, String),
    /// Puts a value into this many arrays.
    Nest(Index, usize),
    /// Cuts the text.
    Truncate(Index),
    /// Inserts bytes into the text.
    Insert(Index, Vec<u8>),
    /// Replaces a byte of the text.
    SetByte(Index, u8),
    /// Appends spaces up to this size.
    Pad(usize),
}

/// A JSON document whose keys and values are texts, so that they need not be valid.
enum Node {
    Text(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Node {
    fn of(value: &Value) -> Self {
        match value {
            Value::Array(items) => Self::Array(items.iter().map(Self::of).collect()),
            Value::Object(members) => Self::Object(
                members
                    .iter()
                    .map(|(key, value)| (Value::from(key.as_str()).to_string(), Self::of(value)))
                    .collect(),
            ),
            other => Self::Text(other.to_string()),
        }
    }

    fn len(&self) -> usize {
        1 + match self {
            Self::Text(_) => 0,
            Self::Array(items) => items.iter().map(Self::len).sum(),
            Self::Object(members) => members.iter().map(|(_, value)| value.len()).sum(),
        }
    }

    /// Returns the node with this number in preorder.
    fn nth(&mut self, number: &mut usize) -> Option<&mut Self> {
        if *number == 0 {
            return Some(self);
        }
        *number -= 1;
        match self {
            Self::Text(_) => None,
            Self::Array(items) => items.iter_mut().find_map(|item| item.nth(number)),
            Self::Object(members) => members.iter_mut().find_map(|(_, value)| value.nth(number)),
        }
    }

    fn pick(&mut self, index: Index) -> &mut Self {
        let mut number = index.index(self.len());
        self.nth(&mut number).unwrap()
    }

    fn write(&self, text: &mut String) {
        match self {
            Self::Text(value) => text.push_str(value),
            Self::Array(items) => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { "," });
                    item.write(text);
                }
                text.push(']');
            }
            Self::Object(members) => {
                text.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { "," });
                    text.push_str(key);
                    text.push(':');
                    value.write(text);
                }
                text.push('}');
            }
        }
    }

    /// Applies a change of values. Returns whether it was one.
    fn change(&mut self, mutation: &Mutation) -> bool {
        match mutation {
            Mutation::Replace(at, text) => *self.pick(*at) = Self::Text(text.clone()),
            Mutation::Remove(at, member) => match self.pick(*at) {
                Self::Array(items) if !items.is_empty() => drop(items.remove(member.index(items.len()))),
                Self::Object(members) if !members.is_empty() => {
                    drop(members.remove(member.index(members.len())));
                }
                Self::Text(_) | Self::Array(_) | Self::Object(_) => {}
            },
            Mutation::Repeat(at, member, text) => match self.pick(*at) {
                Self::Array(items) => items.push(Self::Text(text.clone())),
                Self::Object(members) if !members.is_empty() => {
                    let key = members[member.index(members.len())].0.clone();
                    members.push((key, Self::Text(text.clone())));
                }
                Self::Text(_) | Self::Object(_) => {}
            },
            Mutation::Add(at, key, text) => {
                if let Self::Object(members) = self.pick(*at) {
                    members.push((key.clone(), Self::Text(text.clone())));
                }
            }
            Mutation::Nest(at, levels) => {
                let node = self.pick(*at);
                let mut text = "[".repeat(*levels);
                node.write(&mut text);
                text.push_str(&"]".repeat(*levels));
                *node = Self::Text(text);
            }
            Mutation::Truncate(_) | Mutation::Insert(..) | Mutation::SetByte(..) | Mutation::Pad(_) => {
                return false;
            }
        }
        true
    }
}

/// Applies changes to a document: first those of values, then those of the text.
pub(crate) fn mutated(document: &Value, mutations: &[Mutation]) -> Vec<u8> {
    let mut node = Node::of(document);
    let of_text: Vec<&Mutation> = mutations.iter().filter(|mutation| !node.change(mutation)).collect();
    let mut text = String::new();
    node.write(&mut text);
    let mut bytes = text.into_bytes();
    for mutation in of_text {
        match mutation {
            Mutation::Truncate(at) => bytes.truncate(at.index(bytes.len() + 1)),
            Mutation::Insert(at, more) => {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..at, more.iter().copied());
            }
            Mutation::SetByte(at, byte) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Mutation::Pad(size) if bytes.len() < *size => bytes.resize(*size, b' '),
            _ => {}
        }
    }
    bytes
}

/// The text of a value: usually JSON, but not one that the document has at its place.
pub(crate) fn value_text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(ODD_VALUES.split_whitespace().collect::<Vec<_>>()).prop_map(str::to_owned),
        2 => "-?[0-9]{1,30}(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?",
        3 => any::<String>().prop_map(|text| Value::from(text).to_string()),
        1 => (0_usize..70_000).prop_map(|length| format!("\"{}\"", "a".repeat(length))),
        1 => (0_usize..300).prop_map(|length| format!("[{}0]", "0,".repeat(length))),
    ]
}

fn key_text() -> impl Strategy<Value = String> {
    prop_oneof![
        select(ODD_KEYS.split_whitespace().collect::<Vec<_>>()).prop_map(str::to_owned),
        any::<String>().prop_map(|text| Value::from(text).to_string()),
    ]
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<Index>;
    prop_oneof![
        8 => (index(), value_text()).prop_map(|(at, text)| Mutation::Replace(at, text)),
        2 => (index(), index()).prop_map(|(at, member)| Mutation::Remove(at, member)),
        2 => (index(), index(), value_text()).prop_map(|(at, member, text)| Mutation::Repeat(at, member, text)),
        2 => (index(), key_text(), value_text()).prop_map(|(at, key, text)| Mutation::Add(at, key, text)),
        1 => (index(), select(&LEVELS[..])).prop_map(|(at, levels)| Mutation::Nest(at, levels)),
        1 => index().prop_map(Mutation::Truncate),
        1 => (index(), vec(any::<u8>(), 1..5)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        1 => (index(), any::<u8>()).prop_map(|(at, byte)| Mutation::SetByte(at, byte)),
        1 => select(&SIZES[..]).prop_map(Mutation::Pad),
    ]
}

/// Changes of a document; sometimes none.
pub(crate) fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    vec(mutation(), 0..4)
}
