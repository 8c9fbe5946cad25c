//! The fixed values of wire fields. Lists of the values are derived from enums, so no list can miss a variant.

use std::iter::Copied;
use std::slice;

use strum::VariantArray;

/// An enum whose variants are fixed texts on the wire, by `#[derive(strum::IntoStaticStr,
/// strum::VariantArray)]`.
pub trait Vocabulary: VariantArray + Copy + Into<&'static str> {
    /// Returns every variant, in declaration order.
    fn all() -> Copied<slice::Iter<'static, Self>> {
        Self::VARIANTS.iter().copied()
    }

    /// Returns every variant with its text, in declaration order.
    fn vocabulary() -> Vec<(&'static str, Self)> {
        Self::all().map(|variant| (variant.into(), variant)).collect()
    }

    /// Returns the variant with this text, or `None`. The comparison is case-sensitive.
    fn named(text: &str) -> Option<Self> {
        Self::all().find(|variant| Into::<&'static str>::into(*variant) == text)
    }
}

impl<T: VariantArray + Copy + Into<&'static str>> Vocabulary for T {}
