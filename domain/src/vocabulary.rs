//! The fixed values of wire fields, and facts with their English texts. Lists of the values are derived from enums, so
//! no list can miss a variant.

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

/// Defines a fact: `Variant = "English text";`, with its details as `Variant(Type) = "text with {0}";` or
/// `Variant(Type) = "text with {}", function_of_details;`. `Display` is the text, and rows have the variant's name in snake case.
#[macro_export]
macro_rules! fact {
    ($(#[$meta:meta])* $visibility:vis enum $Fact:ident {
        $($(#[$of_variant:meta])* $Variant:ident $({ $($field:tt)+ })? $(($($details:tt)+))? = $text:literal $(, $shown:ident)?;)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, serde::Deserialize, Eq, PartialEq, serde::Serialize, thiserror::Error)]
        #[serde(rename_all = "snake_case")]
        $visibility enum $Fact {
            $($(#[$of_variant])* #[error($text $(, $shown(*.0))?)] $Variant $({ $($field)+ })? $(($($details)+))?,)+
        }
    };
}

/// Adds `as_str` to an enum whose variants are fixed texts.
#[macro_export]
macro_rules! named {
    ($Type:ty) => {
        impl $Type {
            /// Returns the name in rows and on the wire.
            pub fn as_str(self) -> &'static str {
                self.into()
            }
        }
    };
}
