//! Closed lists of words, such as statuses. The lists are derived from enums, so a new variant cannot be forgotten in
//! one of them.

use std::iter::Copied;
use std::slice;

use strum::VariantArray;

/// An enum whose variants are single words on the wire. `#[derive(strum::IntoStaticStr, strum::VariantArray)]`
/// implements it.
pub trait Vocabulary: VariantArray + Copy + Into<&'static str> {
    /// Returns every variant, in declaration order.
    fn all() -> Copied<slice::Iter<'static, Self>> {
        Self::VARIANTS.iter().copied()
    }

    /// Returns every word with its variant, in declaration order.
    fn vocabulary() -> Vec<(&'static str, Self)> {
        Self::all().map(|variant| (variant.into(), variant)).collect()
    }

    /// Returns the variant of a word, or `None` for an unknown word. The comparison is case-sensitive.
    fn named(word: &str) -> Option<Self> {
        Self::all().find(|variant| Into::<&'static str>::into(*variant) == word)
    }
}

impl<T: VariantArray + Copy + Into<&'static str>> Vocabulary for T {}
