//! Brazilian tax ids: the CPF of a person and the CNPJ of a company, also the alphanumeric CNPJ of July 2026.
//! Without punctuation. Each check digit is computed from the weighted sum of the preceding characters' values
//! (ASCII − 48), modulo 11: 0 for a remainder below 2, else 11 minus the remainder. Repeated digits pass this
//! arithmetic, but Receita Federal declares them invalid.
//!
//! A document is personal data, so there is no `Display`, and `Debug` shows none of it.

use std::fmt;
use std::str::FromStr;

use crate::text::{hidden_debug, text_schema};

const CPF_LEN: usize = 11;
const CNPJ_LEN: usize = 14;

/// The weights of the second check digit. The first digit uses them without the first one.
const CPF_WEIGHTS: [u32; 10] = [11, 10, 9, 8, 7, 6, 5, 4, 3, 2];
const CNPJ_WEIGHTS: [u32; 13] = [6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2];

/// A valid CPF or CNPJ. Never a number: it may begin with zeros, and a CNPJ may contain letters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaxId {
    /// The tax id of a person.
    Cpf(Cpf),
    /// The tax id of a company.
    Cnpj(Cnpj),
}

/// A valid CPF, `[0-9]{11}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cpf([u8; CPF_LEN]);

/// A valid CNPJ, `[0-9A-Z]{12}[0-9]{2}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cnpj([u8; CNPJ_LEN]);

impl TaxId {
    /// Parses a CPF of 11 characters or a CNPJ of 14.
    pub fn parse(text: &str) -> Result<Self, TaxIdError> {
        match text.len() {
            CPF_LEN => Cpf::parse(text).map(Self::Cpf),
            CNPJ_LEN => Cnpj::parse(text).map(Self::Cnpj),
            _ => Err(TaxIdError::Length),
        }
    }

    /// Reads a document as a person types it, such as `529.982.247-25` or `12.abc.345/01de-35`: only letters and
    /// digits count, in upper or lower case.
    pub fn from_typed(text: &str) -> Option<Self> {
        let bare: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
        Self::parse(&bare.to_ascii_uppercase()).ok()
    }

    /// Returns the whole document, `[0-9]{11}` or `[0-9A-Z]{12}[0-9]{2}`. Not for logs.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cpf(cpf) => cpf.as_str(),
            Self::Cnpj(cnpj) => cnpj.as_str(),
        }
    }

    /// Masks the document, so that its owner recognises it: `***.456.789-**` or `**.345.678/****-**`.
    pub fn masked(&self) -> String {
        masked(self.as_str())
    }
}

/// Masks 11 or 14 characters as [`TaxId::masked`], also if they are no valid document.
pub(crate) fn masked(bare: &str) -> String {
    let (before, after) = if bare.len() == CPF_LEN { ("***", "-**") } else { ("**", "/****-**") };
    let start = before.len();
    let shown = bare.get(start..start.saturating_add(6)).and_then(|middle| middle.split_at_checked(3));
    shown.map(|(left, right)| format!("{before}.{left}.{right}{after}")).unwrap_or_default()
}

impl Cpf {
    /// Parses 11 digits that are not all equal. The last two must be correct check digits.
    pub fn parse(text: &str) -> Result<Self, TaxIdError> {
        let characters: [u8; CPF_LEN] = text.as_bytes().try_into().map_err(|_| TaxIdError::Length)?;
        if !characters.iter().all(u8::is_ascii_digit) {
            return Err(TaxIdError::Character);
        }
        verify(&characters, &CPF_WEIGHTS).map(|()| Self(characters))
    }

    /// Returns the whole document, `[0-9]{11}`. Not for logs.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Cnpj {
    /// 12 digits or upper-case letters, not all equal, and two correct check digits.
    pub fn parse(text: &str) -> Result<Self, TaxIdError> {
        let characters: [u8; CNPJ_LEN] = text.as_bytes().try_into().map_err(|_| TaxIdError::Length)?;
        let alphanumeric = characters.iter().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
        let [.., first, second] = characters;
        if !alphanumeric || !first.is_ascii_digit() || !second.is_ascii_digit() {
            return Err(TaxIdError::Character);
        }
        verify(&characters, &CNPJ_WEIGHTS).map(|()| Self(characters))
    }

    /// Returns the whole document, `[0-9A-Z]{12}[0-9]{2}`. Not for logs.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

fn verify(characters: &[u8], weights: &[u32]) -> Result<(), TaxIdError> {
    let (Some((body, given)), Some(first_weights)) = (characters.split_last_chunk::<2>(), weights.get(1..))
    else {
        return Err(TaxIdError::Length);
    };
    if characters.iter().all(|character| characters.first() == Some(character)) {
        return Err(TaxIdError::Repeated);
    }
    let first = check_digit(body.iter(), first_weights);
    let second = check_digit(body.iter().chain([&first]), weights);
    if *given == [first, second] { Ok(()) } else { Err(TaxIdError::CheckDigits) }
}

fn check_digit<'a>(characters: impl Iterator<Item = &'a u8>, weights: &[u32]) -> u8 {
    // The sum has at most 13 terms, each the product of a value below 43 and a weight below 12. So it never
    // saturates.
    let sum = characters.zip(weights).fold(0_u32, |sum, (character, weight)| {
        sum.saturating_add(u32::from(character.saturating_sub(b'0')).saturating_mul(*weight))
    });
    let digit = match sum % 11 {
        0 | 1 => 0,
        remainder => 11_u32.saturating_sub(remainder),
    };
    b'0'.saturating_add(u8::try_from(digit).unwrap_or_default())
}

impl fmt::Debug for TaxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpf(cpf) => cpf.fmt(f),
            Self::Cnpj(cnpj) => cnpj.fmt(f),
        }
    }
}

hidden_debug!(Cpf, Cnpj, Document);

impl FromStr for TaxId {
    type Err = TaxIdError;

    fn from_str(text: &str) -> Result<Self, TaxIdError> {
        Self::parse(text)
    }
}

impl serde::Serialize for TaxId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for TaxId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::deserialize(deserializer)
    }
}

text_schema!(TaxId, "A CPF (11 digits) or a CNPJ (14 characters), without punctuation.", {
    "pattern": "^([0-9]{11}|[0-9A-Z]{12}[0-9]{2})$",
});

/// A tax id of any country, as it was sent: a CPF, a CNPJ, or an id whose rules this service does not check.
/// Lists by customer compare it exactly.
#[derive(Clone, PartialEq, Eq)]
pub struct Document(Box<str>);

impl Document {
    pub const MAX_CHARS: usize = 32;

    /// `None`: empty, too long, or with surrounding spaces or control characters.
    pub fn parse(text: &str) -> Option<Self> {
        let bounded = (1..=Self::MAX_CHARS).contains(&text.chars().count());
        let clean = text.trim() == text && !text.chars().any(char::is_control);
        (bounded && clean).then(|| Self(text.into()))
    }

    /// Returns the document as it was sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the document as a CPF or CNPJ. `None`: it is neither.
    pub fn tax_id(&self) -> Option<TaxId> {
        TaxId::parse(&self.0).ok()
    }
}

impl From<TaxId> for Document {
    fn from(tax_id: TaxId) -> Self {
        Self(tax_id.as_str().into())
    }
}

impl serde::Serialize for Document {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for Document {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into()))
    }
}

text_schema!(Document, "A tax id of any country, as it was sent.", { "minLength": 1, "maxLength": Self::MAX_CHARS });

/// Why a text is not a tax id. The error does not contain the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TaxIdError {
    #[error("must have 11 characters (CPF) or 14 (CNPJ)")]
    Length,
    #[error("must be digits (a CNPJ: digits and upper-case letters)")]
    Character,
    #[error("must not be one digit repeated")]
    Repeated,
    #[error("has wrong check digits")]
    CheckDigits,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn vectors(section: &str) -> Vec<(String, bool)> {
        let file: Value =
            serde_json::from_str(include_str!("../../artefacts/tests/vectors/pix-and-boleto.json")).unwrap();
        let entries = file[section].as_array().unwrap();
        entries
            .iter()
            .map(|v| (v[section].as_str().unwrap().to_owned(), v["valid"].as_bool().unwrap()))
            .collect()
    }

    #[test]
    fn every_published_document_is_valid_or_invalid_as_published() {
        for (text, valid) in vectors("cpf") {
            assert_eq!(matches!(TaxId::parse(&text), Ok(TaxId::Cpf(_))), valid, "{text}");
        }
        for (text, valid) in vectors("cnpj") {
            assert_eq!(matches!(TaxId::parse(&text), Ok(TaxId::Cnpj(_))), valid, "{text}");
        }
    }

    #[test]
    fn each_invalid_text_has_its_error() {
        for (text, reason) in [
            ("", TaxIdError::Length),
            ("295.379.955-93", TaxIdError::Character),
            ("2953799559a", TaxIdError::Character),
            ("2953799559٣", TaxIdError::Length),
            ("12abc34501de35", TaxIdError::Character),
            ("12ABC34501DEA5", TaxIdError::Character),
            ("00000000000", TaxIdError::Repeated),
            ("00000000000000", TaxIdError::Repeated),
            ("29537995594", TaxIdError::CheckDigits),
        ] {
            assert_eq!(TaxId::parse(text), Err(reason), "{text}");
        }
    }

    #[test]
    fn neither_debug_nor_an_error_shows_the_document() {
        let error = serde_json::from_str::<TaxId>("\"29537995594\"").unwrap_err().to_string();
        assert!(!error.contains("29537995594"), "{error}");
        for (text, expected) in [("29537995593", "Cpf"), ("12ABC34501DE35", "Cnpj")] {
            let tax_id = TaxId::parse(text).unwrap();
            assert_eq!(format!("{tax_id:?}"), expected);
        }
    }

    #[test]
    fn a_masked_document_shows_its_middle() {
        assert_eq!(TaxId::parse("29537995593").unwrap().masked(), "***.379.955-**");
        assert_eq!(TaxId::parse("12ABC34501DE35").unwrap().masked(), "**.ABC.345/****-**");
    }

    fn with_check_digits(body: &str, weights: &[u32]) -> String {
        let first = check_digit(body.as_bytes().iter(), &weights[1..]);
        let second = check_digit(body.as_bytes().iter().chain([&first]), weights);
        format!("{body}{}{}", char::from(first), char::from(second))
    }

    proptest! {
        #[test]
        fn other_check_digits_of_a_document_are_refused(
            body in prop_oneof!["[0-9]{9}", "[0-9]{12}", "[0-9A-Z]{12}"], digits in "[0-9]{2}",
        ) {
            let weights = if body.len() == 9 { &CPF_WEIGHTS[..] } else { &CNPJ_WEIGHTS[..] };
            let document = format!("{body}{digits}");
            let is_repeated = document.bytes().all(|byte| byte == document.as_bytes()[0]);
            let is_valid = document == with_check_digits(&body, weights) && !is_repeated;
            prop_assert_eq!(TaxId::parse(&document).is_ok(), is_valid);
        }

        #[test]
        fn a_text_is_a_tax_id_only_if_it_is_how_the_tax_id_is_written(
            text in prop_oneof![".*", "\\PC{2,7}", "[0-9]{11}", "[0-9A-Za-z]{14}"],
        ) {
            if let Ok(tax_id) = TaxId::parse(&text) {
                prop_assert_eq!(tax_id.as_str(), text);
                prop_assert!(!tax_id.masked().contains(tax_id.as_str()));
            }
        }
    }
}
