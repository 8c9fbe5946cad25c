//! Encodes 128 bits as exactly 26 characters of Crockford's alphabet in lower case. It is in ASCII order and
//! the most significant bits come first, so texts sort like their values. Unlike Crockford's decoder
//! (<https://www.crockford.com/base32.html>), this one refuses upper case and look-alikes, so that an id has
//! one spelling.

/// Number of characters that encode 128 bits.
const LEN: u32 = 26;

const ALPHABET: [u8; 32] = *b"0123456789abcdefghjkmnpqrstvwxyz";

const CHAR_BITS: u32 = 5;

/// Encodes 128 bits, most significant bits first.
pub fn encode(value: u128) -> String {
    let indices = (0..LEN).rev().map(|place| value.unbounded_shr(CHAR_BITS.saturating_mul(place)) & 31);
    let indices = indices.map(|index| usize::try_from(index).unwrap_or_default());
    indices.filter_map(|index| ALPHABET.get(index).copied().map(char::from)).collect()
}

/// Decodes exactly 26 characters. `None`: [`encode`] does not produce the text.
pub fn decode(text: &str) -> Option<u128> {
    let bytes = Some(text.as_bytes()).filter(|bytes| u32::try_from(bytes.len()) == Ok(LEN))?;
    bytes.iter().try_fold(0_u128, |value, byte| {
        // The binary search is valid because the alphabet is sorted.
        let index = u128::try_from(ALPHABET.binary_search(byte).ok()?).ok()?;
        (value.leading_zeros() >= CHAR_BITS).then_some((value << CHAR_BITS) | index)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_of_another_length_alphabet_or_more_than_128_bits_is_refused() {
        for text in ["", "0", "0000000000000000000000000", "000000000000000000000000000"] {
            assert_eq!(decode(text), None, "{text}");
        }
        for text in ["80000000000000000000000000", "zzzzzzzzzzzzzzzzzzzzzzzzzz"] {
            assert_eq!(decode(text), None, "{text}");
        }
        for character in ['A', 'Z', 'i', 'l', 'o', 'u', 'O', '-', ' ', '/', ':', '{'] {
            let text = format!("0000000000000000000000000{character}");
            assert_eq!(decode(&text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn decoding_reverses_encoding_and_texts_sort_like_their_values(a: u128, b: u128) {
            prop_assert_eq!(decode(&encode(a)), Some(a));
            prop_assert_eq!(encode(a).cmp(&encode(b)), a.cmp(&b));
        }
    }
}
