//! Lower-case hex encoding.

/// Encodes bytes as two hex digits each. The string is allocated at its final size, because a string that
/// grows leaves copies of a secret in freed memory.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]);
    text.extend(nibbles.filter_map(|nibble| char::from_digit(nibble.into(), 16)));
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_byte_is_two_lower_case_digits() {
        assert_eq!(super::encode(&[0x00, 0x0f, 0xa0, 0xff]), "000fa0ff");
    }
}
