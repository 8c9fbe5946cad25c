//! References: operators' names of payouts and corrections.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{AccountId, PayoutId, PostingId, Scope};
use crate::row::{Key, Row};

const MAX_BYTES: usize = 64;

/// An operator's name of a payout or a correction, such as `2026-11`. It is unique in an account, so a command that is
/// run twice moves money once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reference(String);

impl FromStr for Reference {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
        if (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(is_allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err("must be 1 to 64 letters without accents, digits or characters of `._-/`")
        }
    }
}

/// The reference of a payout that no operator names.
impl From<PayoutId> for Reference {
    fn from(id: PayoutId) -> Self {
        Self(id.to_string())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

crate::serde_as_text!(Reference);

/// What a reference names.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Referenced {
    Payout(PayoutId),
    Correction(PostingId),
}

impl fmt::Display for Referenced {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Payout(id) => write!(formatter, "the payout {id}"),
            Self::Correction(id) => write!(formatter, "the correction {id}"),
        }
    }
}

/// The row of a reference that is in use. It never changes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct UsedReference {
    pub scope: Scope,
    pub reference: Reference,
    pub of: Referenced,
}

impl UsedReference {
    pub fn partition(account: &AccountId) -> String {
        format!("reference#{account}")
    }

    pub fn key_of(account: &AccountId, reference: &Reference) -> Key {
        Key { pk: Self::partition(account), sk: reference.to_string() }
    }
}

impl Row for UsedReference {
    fn key(&self) -> Key {
        Self::key_of(&self.scope.account, &self.reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_a_short_word() {
        for valid in ["2026-11", "a", "contract/12_b.c", &"x".repeat(64)] {
            assert_eq!(valid.parse::<Reference>().unwrap().to_string(), valid);
        }
        for invalid in ["", "two words", "março", "a#b", "a\n", &"x".repeat(65)] {
            assert!(invalid.parse::<Reference>().is_err(), "{invalid}");
        }
    }
}
