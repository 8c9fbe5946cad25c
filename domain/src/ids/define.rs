//! Helpers shared by the id types.

use sha2::{Digest, Sha256};

use crate::base32;

/// Implements `Debug` through `Display`, and serde as a string.
macro_rules! id_traits {
    ($($type:ty),+) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        $crate::text::serde_as_text!($type);
    )+};
}
pub(super) use id_traits;

/// Writes and reads an id of a prefix and its encoded bits, with the traits of [`id_traits`].
macro_rules! prefixed_id {
    ($type:ident, $prefix:literal, $expected:expr, $encode:path, $decode:path) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}{}", $prefix, $encode(self.0))
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::ids::IdError;

            fn from_str(text: &str) -> Result<Self, $crate::ids::IdError> {
                let bits = text.strip_prefix($prefix).and_then($decode);
                bits.map(Self).ok_or($crate::ids::IdError { expected: $expected })
            }
        }

        $crate::ids::define::id_traits!($type);
    };
}
pub(super) use prefixed_id;

/// An id that has one spelling.
pub trait IdText: std::str::FromStr {
    /// The length of the text, in characters.
    const CHARS: usize;

    /// A regular expression (ECMA-262) that every id matches.
    const PATTERN: &'static str;
}

/// Each value is preceded by its length, so that different lists of fields never give the same input.
pub(super) fn digest(kind: &str, fields: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for field in std::iter::once(kind.as_bytes()).chain(fields.iter().copied()) {
        hasher.update(u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(field);
    }
    hasher.finalize().into()
}

/// The first 128 bits of [`digest`].
pub(super) fn digest_128(kind: &str, fields: &[&[u8]]) -> u128 {
    let hash = digest(kind, fields);
    let (bytes, _) = hash.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
    u128::from_be_bytes(*bytes)
}

/// The number of characters that encode 80 bits: the last ones of those that encode 128 bits.
const CHARS_OF_80_BITS: usize = 16;

pub(super) fn encode_80_bits(bits: u128) -> String {
    let mut text = base32::encode(bits);
    text.split_off(text.len().saturating_sub(CHARS_OF_80_BITS))
}

pub(super) fn decode_80_bits(text: &str) -> Option<u128> {
    if text.len() == CHARS_OF_80_BITS { base32::decode(&format!("{text:0>26}")) } else { None }
}

/// Returns the first 80 bits of a hash, or all bits of 10 random bytes.
pub(super) fn first_80_bits(bytes: &[u8]) -> u128 {
    let bytes = bytes.get(..10).unwrap_or_default();
    bytes.iter().fold(0, |bits, byte| (bits << 8) | u128::from(*byte))
}

/// The hash that stands for a value in a key. The account's secret salt keys it, as it does the ids of charges, so
/// a reader of the table can't test guesses.
pub(crate) fn lookup_hash(salt: &[u8], fields: &[&str]) -> u128 {
    let fields: Vec<&[u8]> =
        std::iter::once(salt).chain(fields.iter().map(|field| field.as_bytes())).collect();
    digest_128("lookup", &fields)
}
