//! Types that travel as a string: one way through serde for all of them; and what text must not do where it is shown.
//!
//! Reading borrows the input where the format allows it, and an error never repeats the input, which may be
//! a document or a key.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserializer, de};

/// Whether a character makes text read otherwise than it is written, though it is no control character: it turns what
/// follows around (what ends in `gpj.exe` would read as a picture), or breaks the line.
pub fn misleads(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// Whether a character can't be in a line that reads as it is written: a name, a label, an address.
pub fn is_unfit_for_line(character: char) -> bool {
    character.is_control() || misleads(character)
}

/// Whether a character can't be in text of several lines: a control character other than a line break, or one that
/// overrides or isolates the direction of the text after it.
pub fn is_unfit_for_lines(character: char) -> bool {
    let is_break = matches!(character, '\n' | '\r');
    let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (character.is_control() && !is_break)
}

/// Whether a text shows nothing: white space, and characters without a shape.
pub fn is_blank(text: &str) -> bool {
    let has_no_shape = |character: char| {
        let invisible = matches!(
            character,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' | '\u{200b}'..='\u{200d}'
                | '\u{2060}'..='\u{2064}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
                | '\u{e0020}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}'
        );
        character.is_whitespace() || character.is_control() || misleads(character) || invisible
    };
    text.chars().all(has_no_shape)
}

/// Reads a `T` from a string by its `FromStr`. The error is that of `T`, without the input.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr,
    T::Err: fmt::Display,
    D: Deserializer<'de>,
{
    struct Text<T>(PhantomData<T>);

    impl<T> de::Visitor<'_> for Text<T>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a string")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }

    deserializer.deserialize_str(Text(PhantomData))
}

/// Serialises a type by its `Display` and reads it by its `FromStr`.
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
/// Whether a character is a control character other than a line break or a tab.
pub fn is_control_but_whitespace(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\r' | '\t')
}
