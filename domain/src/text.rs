//! Serde support for types that are strings on the wire, and checks for characters that make text misleading.
//! Errors never repeat the input, which may be a document or an API key.

use std::fmt::Display;
use std::str::FromStr;

use artefacts::text::is_invisible;
use serde::Deserializer;
use serde_with::{DeserializeAs as _, DisplayFromStr};

/// Whether a character, other than a control character, changes the order of displayed text or breaks the line.
/// Such a character can display a file name that ends in `gpj.exe` as one that ends in `exe.jpg`.
pub fn misleads(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// For single-line text: control characters and those that [`misleads`] reports.
pub fn is_forbidden_in_line(character: char) -> bool {
    character.is_control() || misleads(character)
}

/// For multi-line text: control characters other than line breaks, and changes of the text's direction.
pub fn is_forbidden_in_multiline(character: char) -> bool {
    let is_break = matches!(character, '\n' | '\r');
    let changes_direction = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    changes_direction || (character.is_control() && !is_break)
}

/// Only white space, control characters and invisible characters, or empty.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|character| character.is_whitespace() || is_invisible(character))
}

/// Deserialises through `FromStr`. The error of `T` must not repeat the input.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    DisplayFromStr::deserialize_as(deserializer)
}

/// Implements `Serialize` through `Display` and `Deserialize` through `FromStr`.
#[macro_export]
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text::deserialize(deserializer)
            }
        }
    };
}
pub use serde_as_text;

/// Implements `Debug` for types with secrets or personal data, which must not appear in logs, and for types with closures:
/// shows only the names of the types.
#[macro_export]
macro_rules! hidden_debug {
    ($($type:ident),+) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($type))
            }
        }
    )+};
}
pub use hidden_debug;

/// Implements `Display`, `FromStr` and serde for a type that holds a text. `check` refuses other texts.
#[macro_export]
macro_rules! checked_text {
    ($type:ty, $error:ty, $check:expr) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $type {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                let check: fn(&str) -> Result<(), $error> = $check;
                check(text).map(|()| Self(text.into()))
            }
        }

        $crate::text::serde_as_text!($type);
    };
}
pub use checked_text;

/// Implements an inlined `JsonSchema` for a type that is a string: its description, and keywords that restrict
/// it.
#[macro_export]
macro_rules! text_schema {
    ($type:ty, $description:expr, { $($keyword:literal: $value:expr),* $(,)? }) => {
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "description": $description,
                    $($keyword: $value),*
                })
            }
        }
    };
}
pub use text_schema;

/// Checks whether a character is a control character other than a line break or a tab.
pub fn is_control_but_whitespace(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\r' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_a_visible_character_is_blank() {
        // White space, control characters, characters without a glyph, and those that change the direction of text.
        for blank in
            ["", " \t\n", "\u{7}", "\u{9f}", "\u{200b}", "\u{3164}", "\u{202e}", " \u{7}\u{200b}\u{202e}"]
        {
            assert!(is_blank(blank), "{blank:?}");
        }
        for legible in ["a", "\u{7}a", "\u{202e}.", "é", "愛"] {
            assert!(!is_blank(legible), "{legible:?}");
        }
    }
}
