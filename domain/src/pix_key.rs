//! Pix keys: what money can be sent to without an account number.

use std::fmt;
use std::str::FromStr;

use email_address::EmailAddress;
use uuid::Uuid;

use crate::tax_id::TaxId;
use crate::text::serde_as_text;

/// The longest key, an e-mail address, in characters (DICT, API).
const MAX_CHARS: usize = 77;

/// A text that is no Pix key. Holds none of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "must be a Pix key: a CPF or CNPJ without punctuation, a phone as +5511999999999, an e-mail address, or a UUID"
)]
pub struct PixKeyError;

/// A Pix key in one of its forms: a CPF or CNPJ, a phone in E.164, an e-mail address in lower case, or a random key, a
/// lower-case UUID. Whether it exists is the bank's to say.
#[derive(Clone, Eq, PartialEq)]
pub struct PixKey(Box<str>);

impl PixKey {
    /// As it was sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// For people to recognise a key that they know, and not to learn it: of a document or phone the last two digits
    /// (`*********93`, `+***********99`), of a random key the last four, of an e-mail address how its name and its domain
    /// begin (`m***@e***.com`; a short name shows nothing).
    pub fn masked(&self) -> String {
        match self.0.split_once('@') {
            Some((name, domain)) => {
                let last_dot = domain.rfind('.').unwrap_or(domain.len());
                let (host, ending) = domain.split_at_checked(last_dot).unwrap_or((domain, ""));
                format!("{}***@{}***{ending}", first_of(name), first_of(host))
            }
            None if is_random(&self.0) => starred(&self.0, RANDOM_KEY_SHOWN),
            None => starred(&self.0, DIGITS_SHOWN),
        }
    }
}

/// Characters at the end of a masked key that are shown: of a random key, of a document or phone.
const RANDOM_KEY_SHOWN: usize = 4;

const DIGITS_SHOWN: usize = 2;

/// A name of fewer characters than this shows none of them.
const LONG_NAME_CHARS: usize = 4;

fn first_of(name: &str) -> String {
    let shown = usize::from(name.chars().count() >= LONG_NAME_CHARS);
    name.chars().take(shown).collect()
}

/// Stars for all letters and digits but the last ones.
fn starred(text: &str, shown: usize) -> String {
    let hidden = text.chars().count().saturating_sub(shown);
    let star = |(place, letter): (usize, char)| {
        if place < hidden && letter.is_ascii_alphanumeric() { '*' } else { letter }
    };
    text.chars().enumerate().map(star).collect()
}

/// A key is a person's: a log gets none of it.
impl fmt::Debug for PixKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PixKey")
    }
}

impl fmt::Display for PixKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PixKey {
    type Err = PixKeyError;

    fn from_str(text: &str) -> Result<Self, PixKeyError> {
        let bounded = text.chars().count() <= MAX_CHARS;
        let is_one = is_phone(text) || is_random(text) || is_email(text) || text.parse::<TaxId>().is_ok();
        if bounded && is_one { Ok(Self(text.into())) } else { Err(PixKeyError) }
    }
}

serde_as_text!(PixKey);

/// `+`, then 9 to 15 digits, no zero first (E.164).
fn is_phone(text: &str) -> bool {
    let Some(digits) = text.strip_prefix('+') else { return false };
    (9..=15).contains(&digits.len())
        && !digits.starts_with('0')
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_random(text: &str) -> bool {
    Uuid::try_parse(text).is_ok_and(|uuid| uuid.hyphenated().to_string() == text)
}

fn is_email(text: &str) -> bool {
    let is_plain = !text.contains(['<', '>', '"']) && text.to_lowercase() == text;
    is_plain && EmailAddress::is_valid(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_key_is_recognised_and_not_learnt() {
        for (key, masked) in [
            ("29537995593", "*********93"),
            ("11222333000181", "************81"),
            ("12ABC34501DE35", "************35"),
            ("+5511999999999", "+***********99"),
            ("maria@example.com", "m***@e***.com"),
            ("eva@eva.com.br", "***@e***.br"),
            ("joao.silva@ab.co", "j***@***.co"),
            ("123e4567-e89b-12d3-a456-426655440000", "********-****-****-****-********0000"),
        ] {
            assert_eq!(key.parse::<PixKey>().unwrap().masked(), masked);
        }
    }

    #[test]
    fn each_form_of_key_is_taken_and_nothing_else() {
        for key in [
            "29537995593",
            "11222333000181",
            "+5511999999999",
            "maria@example.com",
            "123e4567-e89b-12d3-a456-426655440000",
        ] {
            assert_eq!(key.parse::<PixKey>().unwrap().as_str(), key);
        }
        for text in [
            "",
            " ",
            "29537995590",
            "295.379.955-93",
            "5511999999999",
            "+055119999",
            "+55 11 999999999",
            "Maria@example.com",
            "Maria <maria@example.com>",
            "maria@",
            "123E4567-E89B-12D3-A456-426655440000",
            "123e4567e89b12d3a456426655440000",
            &format!("{}@example.com", "m".repeat(70)),
        ] {
            assert_eq!(text.parse::<PixKey>(), Err(PixKeyError), "{text}");
        }
    }
}
