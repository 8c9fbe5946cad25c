//! Closed lists of words, such as statuses. Words and lists are derived from the enum, so that no variant can be forgotten.

use std::iter::Copied;
use std::slice;

use strum::VariantArray;

/// An enum each variant of which is one word on the wire. It follows from `#[derive(strum::IntoStaticStr, strum::VariantArray)]`.
pub trait Vocabulary: VariantArray + Copy + Into<&'static str> {
    /// Every variant, in the order of the enum.
    fn all() -> Copied<slice::Iter<'static, Self>> {
        Self::VARIANTS.iter().copied()
    }

    /// Every word with its variant, in the order of the enum.
    fn vocabulary() -> Vec<(&'static str, Self)> {
        Self::all().map(|variant| (variant.into(), variant)).collect()
    }

    /// The variant of a word.
    fn named(word: &str) -> Option<Self> {
        Self::all().find(|variant| Into::<&'static str>::into(*variant) == word)
    }
}

impl<T: VariantArray + Copy + Into<&'static str>> Vocabulary for T {}
