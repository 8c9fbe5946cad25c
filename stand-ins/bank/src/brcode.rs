//! Writes the BR Code (`pixCopiaECola`) of a charge, with its own CRC.

use std::fmt::Write as _;

use crate::values::Cents;

const GUI: &str = "br.gov.bcb.pix";

/// The longest name and city that a BR Code can hold, in characters.
const NAME_MAX_CHARS: usize = 25;
const CITY_MAX_CHARS: usize = 15;

/// Returns the BR Code of a dynamic charge. It contains `location`, a URL without a scheme, where the payer's
/// app reads the charge. So `amount` is optional.
pub(crate) fn dynamic(location: &str, amount: Option<Cents>, name: &str, city: &str) -> String {
    let mut code = String::new();
    field(&mut code, "00", "01");
    field(&mut code, "01", "12");
    field(&mut code, "26", &template(&[("00", GUI), ("25", location)]));
    field(&mut code, "52", "0000");
    field(&mut code, "53", "986");
    if let Some(amount) = amount {
        field(&mut code, "54", &amount.to_string());
    }
    field(&mut code, "58", "BR");
    field(&mut code, "59", &shorten(name, NAME_MAX_CHARS));
    field(&mut code, "60", &shorten(city, CITY_MAX_CHARS));
    field(&mut code, "62", &template(&[("05", "***")]));
    // The CRC covers its own tag and length.
    code.push_str("6304");
    let crc = crc16(code.as_bytes());
    // Writing to a string does not fail.
    let _ = write!(code, "{crc:04X}");
    code
}

fn template(fields: &[(&str, &str)]) -> String {
    let mut value = String::new();
    for (tag, content) in fields {
        field(&mut value, tag, content);
    }
    value
}

fn field(code: &mut String, tag: &str, value: &str) {
    let length = value.chars().count();
    let _ = write!(code, "{tag}{length:02}{value}");
}

fn shorten(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).collect()
}

/// Returns the CRC-16/CCITT-FALSE of the bytes: polynomial 1021, start FFFF, no reflection, no final XOR.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_central_banks_dynamic_example() {
        let code =
            dynamic("pix.example.com/8b3da2f39a4140d1a91abd93113bd441", None, "Fulano de Tal", "BRASILIA");
        assert_eq!(
            code,
            "00020101021226700014br.gov.bcb.pix2548pix.example.com/8b3da2f39a4140d1a91abd93113bd441\
             5204000053039865802BR5913Fulano de Tal6008BRASILIA62070503***630464E4"
        );
    }

    #[test]
    fn shortens_a_long_name_and_city() {
        let code = dynamic("pix.example.com/1", None, &"n".repeat(30), &"c".repeat(30));
        assert!(code.contains(&format!("5925{}6015{}62", "n".repeat(25), "c".repeat(15))), "{code}");
    }

    /// An example with an amount, as another implementation's tests publish it.
    #[test]
    fn writes_an_amount() {
        let code = dynamic(
            "exemplodeurl2.com.br/qr/v2/11111111-1111-1111-1111-111111111111",
            Cents::new(100),
            "TESTE DO TESTE DO TESTEIE",
            "NOVA LIMA",
        );
        assert_eq!(
            code,
            "00020101021226850014br.gov.bcb.pix2563exemplodeurl2.com.br/qr/v2/11111111-1111-1111-1111-111111111111\
             52040000530398654041.005802BR5925TESTE DO TESTE DO TESTEIE6009NOVA LIMA62070503***63040B0F"
        );
    }
}
