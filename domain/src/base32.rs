//! 128 bits as exactly 26 characters, and back.
//!
//! The alphabet is Crockford's in lower case (digits, then letters without `i`, `l`, `o`, `u`). It is in ASCII
//! order and the most significant bits come first, so texts sort as their values do: an id that begins with
//! its time sorts by time. 26 characters hold 130 bits, so the first one is at most `7`; there is one text
//! for a value and one value for a text.
//!
//! Source of the alphabet: <https://www.crockford.com/base32.html>. Unlike there, upper case and look-alikes
//! (`O` for `0`) are refused: an id has one spelling.

/// Characters in the encoding of 128 bits.
pub const LEN: usize = 26;

const ALPHABET: [u8; 32] = *b"0123456789abcdefghjkmnpqrstvwxyz";

/// Bits in one character.
const CHAR_BITS: u32 = 5;

/// Why a text is not the encoding of 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Base32Error {
    /// Not exactly 26 bytes.
    #[error("must have 26 characters")]
    Length,
    /// A byte outside the alphabet.
    #[error("has a character outside the alphabet")]
    Alphabet,
    /// More than 128 bits: the first character is above `7`.
    #[error("holds more than 128 bits")]
    Overflow,
}

/// The 26 characters of a value, on the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Encoded([u8; LEN]);

impl Encoded {
    /// The characters, `[0-9a-hjkmnp-tv-z]`.
    pub fn as_str(&self) -> &str {
        // Every byte is from the alphabet, so the fallback is never taken.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Encodes 128 bits, the most significant first.
pub fn encode(value: u128) -> Encoded {
    let mut rest = value;
    let mut characters = [b'0'; LEN];
    for character in characters.iter_mut().rev() {
        *character = character_of(rest);
        rest >>= CHAR_BITS;
    }
    Encoded(characters)
}

/// Decodes exactly 26 characters. The inverse of [`encode`]; whatever `encode` could not have written is refused.
pub fn decode(text: &str) -> Result<u128, Base32Error> {
    let bytes: &[u8; LEN] = text.as_bytes().try_into().map_err(|_| Base32Error::Length)?;
    let mut value = 0_u128;
    for byte in bytes {
        if value.leading_zeros() < CHAR_BITS {
            return Err(Base32Error::Overflow);
        }
        value = (value << CHAR_BITS) | value_of(*byte).ok_or(Base32Error::Alphabet)?;
    }
    Ok(value)
}

/// Whether a byte is in the alphabet.
pub fn is_character(byte: u8) -> bool {
    value_of(byte).is_some()
}

/// The character of the five lowest bits.
pub fn character_of(bits: u128) -> u8 {
    let index = usize::try_from(bits & 31).unwrap_or_default();
    ALPHABET.get(index).copied().unwrap_or(b'0')
}

fn value_of(byte: u8) -> Option<u128> {
    // The alphabet is sorted.
    ALPHABET.binary_search(&byte).ok().and_then(|value| u128::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_smallest_and_the_largest_value_have_their_known_texts() {
        assert_eq!(encode(0).as_str(), "00000000000000000000000000");
        assert_eq!(encode(u128::MAX).as_str(), "7zzzzzzzzzzzzzzzzzzzzzzzzz");
        assert_eq!(encode(31).as_str(), "0000000000000000000000000z");
    }

    #[test]
    fn a_text_of_another_length_is_refused() {
        for text in ["", "0", "0000000000000000000000000", "000000000000000000000000000"] {
            assert_eq!(decode(text), Err(Base32Error::Length), "{text}");
        }
    }

    #[test]
    fn a_text_of_more_than_128_bits_is_refused() {
        assert_eq!(decode("80000000000000000000000000"), Err(Base32Error::Overflow));
        assert_eq!(decode("zzzzzzzzzzzzzzzzzzzzzzzzzz"), Err(Base32Error::Overflow));
    }

    #[test]
    fn upper_case_and_look_alikes_are_refused() {
        for character in ['A', 'Z', 'i', 'l', 'o', 'u', 'O', '-', ' ', '/', ':', '{'] {
            let text = format!("0000000000000000000000000{character}");
            assert_eq!(decode(&text), Err(Base32Error::Alphabet), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_value_survives_the_round_trip(value: u128) {
            prop_assert_eq!(decode(encode(value).as_str()), Ok(value));
        }

        #[test]
        fn texts_sort_as_their_values_do(a: u128, b: u128) {
            prop_assert_eq!(encode(a).as_str().cmp(encode(b).as_str()), a.cmp(&b));
        }

        #[test]
        fn what_decodes_is_spelt_as_it_would_be_encoded(text in "[0-9a-z]{26}") {
            if let Ok(value) = decode(&text) {
                let encoded = encode(value);
                prop_assert_eq!(encoded.as_str(), text);
            }
        }
    }
}
