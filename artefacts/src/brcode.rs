//! BR Code: the text of a Pix "copia e cola" and of its QR code.
//!
//! A BR Code is a list of fields, each with a two-digit id, a two-digit length and a value. Some values are
//! lists of fields themselves. [`DynamicBrCode`] encodes the dynamic form, which contains the location to
//! fetch the charge from. [`BrCode`] parses every form strictly: the CRC must be right and the mandatory
//! fields of a Pix present.
//!
//! Source: Central Bank of Brazil, *Manual de Padrões para Iniciação do Pix*, over EMV® QR Code Specification
//! for Payment Systems, merchant-presented mode. Lengths count characters; the CRC covers bytes. The encoder
//! writes ASCII only, where both are the same.

/// The value of field 26-00, which identifies Pix. Parsing ignores its case.
const GUI: &str = "br.gov.bcb.pix";

const LOCATION_MAX_LEN: usize = 77;
const NAME_MAX_LEN: usize = 25;
const CITY_MAX_LEN: usize = 15;
const AMOUNT_MAX_LEN: usize = 13;
/// `9999999999.99`, the highest amount that fits in field 54.
const AMOUNT_MAX_CENTAVOS: u64 = 999_999_999_999;

/// The texts to use for a name or city without any character that has an ASCII form. The fields must not be
/// empty.
const NAME_FALLBACK: &str = "RECEBEDOR";
const CITY_FALLBACK: &str = "BRASIL";

const CRC_HEAD: &str = "6304";
const CRC_LEN: usize = 4;

/// The payload format indicator, which must be the first field.
const FORMAT: Field<'static> = Field { id: "00", value: "01" };

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BrCodeError {
    /// The location is empty, longer than 77 characters, has a scheme, or has a character that is invalid in
    /// a URL.
    #[error("the location must be a URL without scheme, of at most 77 characters")]
    Location,
    /// The CRC is absent, is not four upper-case hex digits, or is wrong.
    #[error("the CRC is absent or wrong")]
    Crc,
    /// An id or length is not two digits, or a value is empty or truncated.
    #[error("a field is malformed")]
    Field,
    /// A field occurs twice.
    #[error("a field occurs twice")]
    Duplicate,
    #[error("field {0} is absent or has a value that is invalid in a Pix")]
    Required(&'static str),
    /// Field 54 is not 0.01 to 9,999,999,999.99 reais.
    #[error("the amount must be from 0.01 to 9999999999.99 reais")]
    Amount,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DynamicBrCode<'a> {
    /// The URL from which the payer's bank fetches the charge, without its scheme, 1 to 77 characters.
    pub location: &'a str,
    /// The amount to display, 1 to 999,999,999,999 centavos. The amount of the charge at the location takes
    /// precedence.
    pub amount_centavos: Option<u64>,
    /// The receiver's name. It is transliterated to ASCII and truncated to 25 characters.
    pub merchant_name: &'a str,
    /// The receiver's city. It is transliterated to ASCII and truncated to 15 characters.
    pub merchant_city: &'a str,
}

impl DynamicBrCode<'_> {
    /// Encodes the payload, CRC included, in at most 220 characters.
    pub fn encode(&self) -> Result<String, BrCodeError> {
        if !is_location(self.location) {
            return Err(BrCodeError::Location);
        }
        let mut account = String::with_capacity(100);
        push(&mut account, "00", GUI);
        push(&mut account, "25", self.location);

        let mut payload = String::with_capacity(224);
        push(&mut payload, FORMAT.id, FORMAT.value);
        // Point of initiation: single use.
        push(&mut payload, "01", "12");
        push(&mut payload, "26", &account);
        // No merchant category.
        push(&mut payload, "52", "0000");
        // ISO 4217 numeric, the real.
        push(&mut payload, "53", "986");
        if let Some(centavos) = self.amount_centavos {
            push(&mut payload, "54", &reais(centavos)?);
        }
        push(&mut payload, "58", "BR");
        push(&mut payload, "59", &ascii(self.merchant_name, NAME_MAX_LEN, NAME_FALLBACK));
        push(&mut payload, "60", &ascii(self.merchant_city, CITY_MAX_LEN, CITY_FALLBACK));
        // In a dynamic code, field 62-05 is `***`, because the payer's bank reads the txid from the location.
        push(&mut payload, "62", "0503***");
        payload.push_str(CRC_HEAD);
        let crc = crc_text(&payload);
        payload.push_str(&crc);
        Ok(payload)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field<'a> {
    id: &'a str,
    /// The value: 1 to 99 characters.
    value: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrCode<'a> {
    fields: Vec<Field<'a>>,
    account: Vec<Field<'a>>,
    amount_centavos: Option<u64>,
}

impl<'a> BrCode<'a> {
    pub fn parse(payload: &'a str) -> Result<Self, BrCodeError> {
        verify_crc(payload)?;
        let fields = parse_fields(payload)?;
        if fields.first() != Some(&FORMAT) {
            return Err(BrCodeError::Required(FORMAT.id));
        }
        if !fields.last().is_some_and(|field| field.id == "63" && field.value.len() == CRC_LEN) {
            return Err(BrCodeError::Crc);
        }
        let account = parse_fields(find(&fields, "26").ok_or(BrCodeError::Required("26"))?)?;
        for id in ["52", "53", "58", "59", "60"] {
            let is_valid = find(&fields, id).is_some_and(|value| match id {
                "52" => value.len() == 4 && value.bytes().all(|byte| byte.is_ascii_digit()),
                "53" => value == "986",
                "58" => value == "BR",
                _ => true,
            });
            if !is_valid {
                return Err(BrCodeError::Required(id));
            }
        }
        if !find(&account, "00").is_some_and(|gui| gui.eq_ignore_ascii_case(GUI)) {
            return Err(BrCodeError::Required("26"));
        }
        let amount_centavos = find(&fields, "54").map(parse_amount).transpose()?;
        Ok(Self { fields, account, amount_centavos })
    }

    /// `None`: the code does not have the field.
    pub fn get(&self, id: &str) -> Option<&'a str> {
        find(&self.fields, id)
    }

    /// Returns the URL to fetch the charge from (field 26-25), which a dynamic code has.
    pub fn location(&self) -> Option<&'a str> {
        find(&self.account, "25")
    }

    /// Returns the amount (field 54), from 1 to 999,999,999,999 centavos. `None`: the code has no amount.
    pub fn amount_centavos(&self) -> Option<u64> {
        self.amount_centavos
    }

    /// Returns the receiver's name (field 59).
    pub fn merchant_name(&self) -> &'a str {
        self.get("59").unwrap_or_default()
    }
}

/// Computes CRC-16/CCITT-FALSE (polynomial 1021, initial value FFFF, not reflected). The check value of
/// `123456789` is 29B1.
fn crc16(bytes: &[u8]) -> u16 {
    const POLYNOMIAL: u16 = 0x1021;
    let mut crc = u16::MAX;
    for byte in bytes {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..u8::BITS {
            let carry = if crc & 0x8000 == 0 { 0 } else { POLYNOMIAL };
            crc = (crc << 1) ^ carry;
        }
    }
    crc
}

fn verify_crc(payload: &str) -> Result<(), BrCodeError> {
    let start = payload.len().checked_sub(CRC_LEN).ok_or(BrCodeError::Crc)?;
    let (covered, crc) = payload.split_at_checked(start).ok_or(BrCodeError::Crc)?;
    if covered.ends_with(CRC_HEAD) && crc == crc_text(covered) { Ok(()) } else { Err(BrCodeError::Crc) }
}

fn crc_text(covered: &str) -> String {
    format!("{:04X}", crc16(covered.as_bytes()))
}

fn push(payload: &mut String, id: &str, value: &str) {
    payload.push_str(id);
    let length = format!("{:02}", value.len());
    payload.push_str(&length);
    payload.push_str(value);
}

fn find<'a>(fields: &[Field<'a>], id: &str) -> Option<&'a str> {
    fields.iter().find(|field| field.id == id).map(|field| field.value)
}

fn parse_fields(text: &str) -> Result<Vec<Field<'_>>, BrCodeError> {
    let mut fields: Vec<Field<'_>> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let field;
        (field, rest) = parse_field(rest).ok_or(BrCodeError::Field)?;
        if find(&fields, field.id).is_some() {
            return Err(BrCodeError::Duplicate);
        }
        fields.push(field);
    }
    Ok(fields)
}

fn parse_field(text: &str) -> Option<(Field<'_>, &str)> {
    let (id, rest) = text.split_at_checked(2)?;
    let (length, rest) = rest.split_at_checked(2)?;
    if !id.bytes().chain(length.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let last = length.parse::<usize>().ok()?.checked_sub(1)?;
    let (start, character) = rest.char_indices().nth(last)?;
    let (value, rest) = rest.split_at_checked(start.checked_add(character.len_utf8())?)?;
    Some((Field { id, value }, rest))
}

/// Formats 1000 centavos as `10.00`.
fn reais(centavos: u64) -> Result<String, BrCodeError> {
    let centavos = in_range(centavos)?;
    Ok(format!("{}.{:02}", centavos / 100, centavos % 100))
}

fn in_range(centavos: u64) -> Result<u64, BrCodeError> {
    if (1..=AMOUNT_MAX_CENTAVOS).contains(&centavos) { Ok(centavos) } else { Err(BrCodeError::Amount) }
}

/// Parses `10.00` into centavos. Also accepts `10` and `10.5`, which other encoders produce.
fn parse_amount(text: &str) -> Result<u64, BrCodeError> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "00"));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if text.len() > AMOUNT_MAX_LEN || whole.is_empty() || !digits(whole) || !digits(fraction) {
        return Err(BrCodeError::Amount);
    }
    let centavos = match fraction.len() {
        1 => format!("{whole}{fraction}0"),
        2 => format!("{whole}{fraction}"),
        _ => return Err(BrCodeError::Amount),
    };
    in_range(centavos.parse().map_err(|_| BrCodeError::Amount)?)
}

fn is_location(location: &str) -> bool {
    (1..=LOCATION_MAX_LEN).contains(&location.len())
        && location.bytes().all(|byte| byte.is_ascii_graphic())
        && !location.contains("://")
}

/// Converts a name to printable ASCII of 1 to `max_len` characters.
fn ascii(name: &str, max_len: usize, fallback: &str) -> String {
    let mut text = String::with_capacity(max_len);
    for character in name.trim().chars().take(MAX_CHARS_READ) {
        let ascii = if character.is_whitespace() {
            " ".to_owned()
        } else {
            crate::text::ascii(character).unwrap_or_default()
        };
        let repeats_space = ascii == " " && (text.is_empty() || text.ends_with(' '));
        if repeats_space {
            continue;
        }
        if text.len().saturating_add(ascii.len()) > max_len {
            break;
        }
        text.push_str(&ascii);
    }
    text.truncate(text.trim_end().len());
    if text.is_empty() { fallback.to_owned() } else { text }
}

/// The most characters of a name that are read. The limit ends the loop over a long name whose characters are
/// all dropped.
const MAX_CHARS_READ: usize = 200;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const CODE: DynamicBrCode<'_> = DynamicBrCode {
        location: "pix.example.com/8b3da2f39a4140d1a91abd93113bd441",
        amount_centavos: None,
        merchant_name: "Fulano de Tal",
        merchant_city: "BRASILIA",
    };

    fn vectors() -> Value {
        serde_json::from_str(include_str!("../tests/vectors/pix-and-boleto.json")).unwrap()
    }

    fn published(valid: bool) -> Vec<Value> {
        let all = vectors()["brcode"].as_array().unwrap().clone();
        all.into_iter().filter(|vector| vector["crc_valid"].as_bool().unwrap() == valid).collect()
    }

    fn signed(covered: &str) -> String {
        let covered = format!("{covered}{CRC_HEAD}");
        format!("{covered}{:04X}", crc16(covered.as_bytes()))
    }

    #[test]
    fn published_codes_are_parsed_into_their_published_fields() {
        let vectors = published(true);
        assert_eq!(vectors.len(), 9);
        for vector in vectors {
            let payload = vector["payload"].as_str().unwrap();
            let code = BrCode::parse(payload).unwrap_or_else(|error| panic!("{error}: {payload}"));
            let fields: Vec<_> = code.fields.iter().map(|field| (field.id, field.value)).collect();
            let expected: Vec<_> = vector["tlv"]
                .as_array()
                .unwrap()
                .iter()
                .map(|f| (f[0].as_str().unwrap(), f[1].as_str().unwrap()))
                .collect();
            assert_eq!(fields, expected);
            assert_eq!(
                code.location().is_some(),
                vector["kind"].as_str().unwrap().starts_with("dynamic"),
                "{payload}"
            );
        }
    }

    #[test]
    fn published_dynamic_codes_are_encoded_identically() {
        let mut encoded = 0;
        for vector in published(true) {
            let payload = vector["payload"].as_str().unwrap();
            let code = BrCode::parse(payload).unwrap();
            let (Some(location), None, Some("0503***")) = (code.location(), code.get("80"), code.get("62"))
            else {
                continue;
            };
            let dynamic = DynamicBrCode {
                location,
                amount_centavos: code.amount_centavos(),
                merchant_name: code.merchant_name(),
                merchant_city: code.get("60").unwrap(),
            };
            assert_eq!(dynamic.encode().unwrap(), payload);
            encoded += 1;
        }
        assert_eq!(encoded, 2);
    }

    #[test]
    fn the_published_code_with_a_wrong_crc_is_rejected() {
        let vectors = published(false);
        assert_eq!(vectors.len(), 1);
        for vector in vectors {
            let payload = vector["payload"].as_str().unwrap();
            assert_eq!(BrCode::parse(payload), Err(BrCodeError::Crc));
            let (covered, _) = payload.split_at(payload.len() - CRC_LEN);
            let crc = vector["expected_crc"].as_str().unwrap();
            assert_eq!(format!("{:04X}", crc16(covered.as_bytes())), crc);
            assert!(BrCode::parse(&format!("{covered}{crc}")).is_err());
        }
    }

    #[test]
    fn an_amount_is_encoded_with_two_decimals() {
        for (centavos, field) in
            [(1000, "540510.00"), (1, "54040.01"), (999_999_999_999, "54139999999999.99")]
        {
            let amount_centavos = Some(centavos);
            let payload = DynamicBrCode { amount_centavos, ..CODE }.encode().unwrap();
            assert!(payload.contains(field), "{payload}");
            assert_eq!(BrCode::parse(&payload).unwrap().amount_centavos(), amount_centavos);
        }
    }

    #[test]
    fn an_amount_of_zero_or_of_more_than_13_characters_is_rejected() {
        for centavos in [0, 1_000_000_000_000, u64::MAX] {
            let code = DynamicBrCode { amount_centavos: Some(centavos), ..CODE };
            assert_eq!(code.encode(), Err(BrCodeError::Amount), "{centavos}");
        }
    }

    #[test]
    fn a_location_that_is_empty_too_long_or_not_a_url_without_scheme_is_rejected() {
        let longest = "a".repeat(77);
        assert!(DynamicBrCode { location: &longest, ..CODE }.encode().is_ok());
        for location in
            ["", "https://pix.example.com/1", "pix.example.com/a b", "pix.example.com/é", &"a".repeat(78)]
        {
            assert_eq!(DynamicBrCode { location, ..CODE }.encode(), Err(BrCodeError::Location), "{location}");
        }
    }

    #[test]
    fn names_are_encoded_in_ascii_within_their_maximum_length() {
        for (name, expected) in [
            ("Padaria São João & Cia", "Padaria Sao Joao & Cia"),
            ("AÇAÍ ÀS QUATRO ESTAÇÕES LTDA", "ACAI AS QUATRO ESTACOES L"),
            ("Cafe\u{301} da Vovo\u{301}", "Cafe da Vovo"),
            ("  Loja \t\n  do  Zé  ", "Loja do Ze"),
            ("Sorvete 🍦 Feliz", "Sorvete Feliz"),
            ("Łódź Mały Đorđe", "Lodz Maly Dorde"),
            ("Vinte e quatro letras aqui ß", "Vinte e quatro letras aqu"),
            ("aaaaaaaaaaaaaaaaaaaaaaaaß", "aaaaaaaaaaaaaaaaaaaaaaaa"),
            ("日本語", "RECEBEDOR"),
            ("", "RECEBEDOR"),
            (" ", "RECEBEDOR"),
        ] {
            let payload = DynamicBrCode { merchant_name: name, ..CODE }.encode().unwrap();
            assert_eq!(BrCode::parse(&payload).unwrap().merchant_name(), expected);
        }
        for (city, expected) in
            [("São José do Rio Preto", "Sao Jose do Rio"), ("Brasília", "Brasilia"), ("東京", "BRASIL")]
        {
            let payload = DynamicBrCode { merchant_city: city, ..CODE }.encode().unwrap();
            assert_eq!(BrCode::parse(&payload).unwrap().get("60"), Some(expected));
        }
    }

    #[test]
    fn a_code_with_an_absent_or_invalid_field_is_rejected() {
        let account = "26180014br.gov.bcb.pix";
        let whole = format!("000201{account}5204000053039865802BR5901A6001B");
        assert!(BrCode::parse(&signed(&whole)).is_ok());
        for (original, replacement, expected) in [
            ("000201", "", BrCodeError::Required("00")),
            ("000201", "000202", BrCodeError::Required("00")),
            (account, "", BrCodeError::Required("26")),
            (account, "26180014br.gov.bcb.pxx", BrCodeError::Required("26")),
            (account, "26180114br.gov.bcb.pix", BrCodeError::Required("26")),
            (account, "26180015br.gov.bcb.pix", BrCodeError::Field),
            ("52040000", "", BrCodeError::Required("52")),
            ("52040000", "5204000A", BrCodeError::Required("52")),
            ("5303986", "5303840", BrCodeError::Required("53")),
            ("5802BR", "5802US", BrCodeError::Required("58")),
            ("5901A", "", BrCodeError::Required("59")),
            ("5901A", "5900", BrCodeError::Field),
            ("5901A", "59A1A", BrCodeError::Field),
            ("5901A", "5901A5901A", BrCodeError::Duplicate),
            ("6001B", "", BrCodeError::Required("60")),
            ("6001B", "6099B", BrCodeError::Field),
            ("5802BR", "54041,005802BR", BrCodeError::Amount),
            ("5802BR", "54051.0005802BR", BrCodeError::Amount),
            ("5802BR", "54021.5802BR", BrCodeError::Amount),
            ("5802BR", "5403.015802BR", BrCodeError::Amount),
            ("5802BR", "54040.005802BR", BrCodeError::Amount),
            ("5802BR", "541410000000000.005802BR", BrCodeError::Amount),
            ("5802BR", "541310000000000005802BR", BrCodeError::Amount),
        ] {
            let payload = signed(&whole.replace(original, replacement));
            assert_eq!(BrCode::parse(&payload), Err(expected), "{payload}");
        }
    }

    #[test]
    fn a_code_whose_crc_is_absent_or_not_the_last_field_is_rejected() {
        let payload = CODE.encode().unwrap();
        let lower = payload.replace("64E4", "64e4");
        for text in ["", "6304", "000201", payload.strip_suffix('4').unwrap(), &lower, &format!("{payload} ")]
        {
            assert_eq!(BrCode::parse(text), Err(BrCodeError::Crc), "{text}");
        }
        let hidden = signed(&format!("{}6108", payload.split_at(payload.len() - 8).0));
        assert_eq!(BrCode::parse(&hidden), Err(BrCodeError::Crc));
    }

    proptest! {
        #[test]
        fn an_encoded_code_is_parsed_back(
            location in "[!-~]{1,77}",
            centavos in proptest::option::of(1_u64..=999_999_999_999),
            name in "[A-Za-z0-9][ -~]{0,40}",
            city in ".{0,40}",
        ) {
            prop_assume!(!location.contains("://"));
            let payload = DynamicBrCode { location: &location, amount_centavos: centavos, merchant_name: &name, merchant_city: &city }.encode().unwrap();
            prop_assert!(payload.is_ascii() && payload.len() <= 220);
            let code = BrCode::parse(&payload).unwrap();
            prop_assert_eq!(code.location(), Some(location.as_str()));
            prop_assert_eq!(code.amount_centavos(), centavos);
            prop_assert!((1..=NAME_MAX_LEN).contains(&code.merchant_name().len()));
            prop_assert!((1..=CITY_MAX_LEN).contains(&code.get("60").unwrap().len()));
        }

        #[test]
        fn a_code_with_one_changed_character_is_rejected(at in 0_usize..150, other in b' '..=b'~') {
            let mut bytes = CODE.encode().unwrap().into_bytes();
            prop_assume!(bytes.get(at).is_some_and(|byte| *byte != other));
            bytes[at] = other;
            prop_assert!(BrCode::parse(&String::from_utf8(bytes).unwrap()).is_err());
        }

        #[test]
        fn parsing_never_panics(text in ".*") {
            let _ = BrCode::parse(&text);
            let _ = BrCode::parse(&signed(&text));
        }
    }
}
