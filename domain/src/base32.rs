//! Encodes 128 bits as exactly 26 characters of Crockford's alphabet in lower case. It is in ASCII order and
//! the most significant bits come first, so texts sort like their values. Unlike Crockford's decoder
//! (<https://www.crockford.com/base32.html>), this one refuses upper case and look-alikes, so that an id has
//! one spelling.

/// Number of characters that encode 128 bits.
pub const LEN: usize = 26;

const ALPHABET: [u8; 32] = *b"0123456789abcdefghjkmnpqrstvwxyz";

const CHAR_BITS: u32 = 5;

/// Why a text does not decode to 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Base32Error {
    /// The text is not exactly 26 bytes long.
    #[error("must have 26 characters")]
    Length,
    /// The text has a byte outside the alphabet.
    #[error("has a character outside the alphabet")]
    Alphabet,
    /// The first character is above `7`.
    #[error("holds more than 128 bits")]
    Overflow,
}

/// The 26 characters that encode a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Encoded([u8; LEN]);

impl Encoded {
    /// Returns the characters, each one of `[0-9a-hjkmnp-tv-z]`.
    pub fn as_str(&self) -> &str {
        // Every byte is ASCII, so the default is never used.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Encodes 128 bits, most significant bits first.
pub fn encode(value: u128) -> Encoded {
    let mut rest = value;
    let mut characters = [b'0'; LEN];
    for character in characters.iter_mut().rev() {
        *character = character_of(rest);
        rest >>= CHAR_BITS;
    }
    Encoded(characters)
}

/// Decodes exactly 26 characters. Accepts only texts that [`encode`] can produce.
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

/// The character for the five lowest bits.
pub fn character_of(bits: u128) -> u8 {
    let index = usize::try_from(bits & 31).unwrap_or_default();
    ALPHABET.get(index).copied().unwrap_or(b'0')
}

fn value_of(byte: u8) -> Option<u128> {
    // The binary search is valid because the alphabet is sorted.
    ALPHABET.binary_search(&byte).ok().and_then(|value| u128::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_smallest_and_largest_values_encode_to_known_texts() {
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
        fn decoding_reverses_encoding(value: u128) {
            prop_assert_eq!(decode(encode(value).as_str()), Ok(value));
        }

        #[test]
        fn texts_sort_like_their_values(a: u128, b: u128) {
            prop_assert_eq!(encode(a).as_str().cmp(encode(b).as_str()), a.cmp(&b));
        }

        #[test]
        fn every_decodable_text_is_the_encoding_of_its_value(text in "[0-9a-z]{26}") {
            if let Ok(value) = decode(&text) {
                let encoded = encode(value);
                prop_assert_eq!(encoded.as_str(), text);
            }
        }
    }
}
