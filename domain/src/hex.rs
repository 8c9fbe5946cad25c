//! Hex encoding.

/// Encodes bytes as two lower-case hex digits each. The string is allocated at its final size, because a string that
/// grows leaves copies of a secret in freed memory.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]);
    text.extend(nibbles.filter_map(|nibble| char::from_digit(nibble.into(), 16)));
    text
}

/// Decodes hex digits of either case. `None`: the text is not a sequence of pairs of hex digits.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    digits
        .chunks_exact(2)
        .map(|pair| {
            let byte = pair.iter().fold(0_u32, |byte, digit| (byte << 4) | digit);
            u8::try_from(byte).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_byte_is_two_lower_case_digits() {
        assert_eq!(super::encode(&[0x00, 0x0f, 0xa0, 0xff]), "000fa0ff");
    }

    #[test]
    fn decoding_reverses_encoding() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(super::decode(&super::encode(&bytes)), Some(bytes.clone()));
        assert_eq!(super::decode(&super::encode(&bytes).to_uppercase()), Some(bytes));
        assert_eq!(super::decode(""), Some(Vec::new()));
        for text in ["0", "0g", "0é", " 0", "+1"] {
            assert_eq!(super::decode(text), None, "{text}");
        }
    }
}
