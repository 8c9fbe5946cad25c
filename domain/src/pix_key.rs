//! Pix keys. A Pix key addresses a bank account without an account number.

use strum::{EnumString, IntoStaticStr, VariantArray};
use uuid::Uuid;

use crate::tax_id::TaxId;
use crate::text::{checked_text, hidden_debug};

/// The text is not a Pix key. The error does not repeat the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", PixKey::RULE)]
pub struct PixKeyError;

/// A CPF or CNPJ, a phone number in E.164, an email address in lower case, or a lower-case UUID. Whether the
/// key exists, only a bank can check.
#[derive(Clone, Eq, PartialEq)]
pub struct PixKey(Box<str>);

/// The kind of a Pix key.
#[derive(Clone, Copy, Debug, EnumString, Eq, IntoStaticStr, PartialEq, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum PixKeyKind {
    Cpf,
    Cnpj,
    Email,
    Phone,
    /// A UUID, which the Central Bank calls EVP.
    Random,
}

crate::named!(PixKeyKind);

/// The country code of the phones that are Pix keys.
const BRAZIL: &str = "+55";

impl PixKey {
    /// Maximum length in characters: that of an email address (Central Bank: DICT API).
    pub const MAX_CHARS: usize = 77;

    pub const RULE: &str = "must be a Pix key: a CPF or CNPJ without punctuation, a phone as +5511999999999, an e-mail address in lower-case ASCII, or a UUID";

    /// Reads a key of a kind as a person types it: punctuation of a document or a phone and the case of letters do not
    /// count. A phone begins with +55.
    /// Errors: When the text is no key of this kind.
    pub fn from_typed(kind: PixKeyKind, text: &str) -> Result<Self, PixKeyError> {
        let text = text.trim();
        let document = || TaxId::from_typed(text).ok_or(PixKeyError);
        match kind {
            PixKeyKind::Cpf => match document()? {
                TaxId::Cpf(cpf) => cpf.as_str().parse(),
                TaxId::Cnpj(_) => Err(PixKeyError),
            },
            PixKeyKind::Cnpj => match document()? {
                TaxId::Cnpj(cnpj) => cnpj.as_str().parse(),
                TaxId::Cpf(_) => Err(PixKeyError),
            },
            PixKeyKind::Phone => {
                let bare: String = text.chars().filter(|c| !" ()-.".contains(*c)).collect();
                if bare.starts_with(BRAZIL) { bare.parse() } else { Err(PixKeyError) }
            }
            PixKeyKind::Email if text.contains('@') => text.to_ascii_lowercase().parse(),
            PixKeyKind::Random if is_random(&text.to_ascii_lowercase()) => text.to_ascii_lowercase().parse(),
            PixKeyKind::Email | PixKeyKind::Random => Err(PixKeyError),
        }
    }

    /// Returns the CPF or CNPJ that the key is. `None`: it is a key of another kind.
    pub fn document(&self) -> Option<TaxId> {
        self.0.parse().ok()
    }

    /// Returns the key as it was sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Masks the key, so that a person recognises a known key but cannot learn an unknown one. Shows the last
    /// two digits of a CPF, CNPJ or phone, the last four characters of a random key, and of an address
    /// `m***@e***.com`, without the letters of names under four characters. The middle six digits of a CPF are
    /// not shown, because only a thousand CPFs share them.
    pub fn masked(&self) -> String {
        match self.0.split_once('@') {
            Some((name, domain)) => {
                let last_dot = domain.rfind('.').unwrap_or(domain.len());
                let (host, ending) = domain.split_at_checked(last_dot).unwrap_or((domain, ""));
                format!("{}***@{}***{ending}", first_character(name), first_character(host))
            }
            None if is_random(&self.0) => starred(&self.0, RANDOM_KEY_SHOWN),
            None => starred(&self.0, DIGITS_SHOWN),
        }
    }
}

const RANDOM_KEY_SHOWN: usize = 4;

const MAX_LABEL_LEN: usize = 63;

const DIGITS_SHOWN: usize = 2;

/// The first character of a shorter name is not shown.
const FIRST_SHOWN_FROM_CHARS: usize = 4;

fn first_character(name: &str) -> String {
    let shown = usize::from(name.chars().count() >= FIRST_SHOWN_FROM_CHARS);
    name.chars().take(shown).collect()
}

fn starred(text: &str, shown: usize) -> String {
    let hidden = text.chars().count().saturating_sub(shown);
    let star = |(index, letter): (usize, char)| {
        if index < hidden && letter.is_ascii_alphanumeric() { '*' } else { letter }
    };
    text.chars().enumerate().map(star).collect()
}

hidden_debug!(PixKey);

checked_text!(PixKey, PixKeyError, |text| {
    let bounded = text.chars().count() <= PixKey::MAX_CHARS;
    let is_key = is_phone(text) || is_random(text) || is_email(text) || text.parse::<TaxId>().is_ok();
    (bounded && is_key).then_some(()).ok_or(PixKeyError)
});

/// Checks for `+` and 9 to 15 digits, the first of which is not zero (E.164).
fn is_phone(text: &str) -> bool {
    let Some(digits) = text.strip_prefix('+') else { return false };
    (9..=15).contains(&digits.len())
        && !digits.starts_with('0')
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_random(text: &str) -> bool {
    Uuid::try_parse(text).is_ok_and(|uuid| uuid.hyphenated().to_string() == text)
}

/// As the Central Bank's directory of keys accepts it (DICT API): lower-case ASCII.
fn is_email(text: &str) -> bool {
    let is_letter_or_digit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let Some((name, domain)) = text.split_once('@') else { return false };
    let is_label = |label: &str| {
        (1..=MAX_LABEL_LEN).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| is_letter_or_digit(byte) || byte == b'-')
    };
    !name.is_empty()
        && name.bytes().all(|byte| is_letter_or_digit(byte) || b".!#$&'*+/=?^_`{|}~-".contains(&byte))
        && domain.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_key_shows_only_a_few_characters() {
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
    fn a_typed_key_is_of_the_kind_that_was_chosen() {
        for (kind, typed, key) in [
            (PixKeyKind::Cpf, " 295.379.955-93", Some("29537995593")),
            (PixKeyKind::Cnpj, "12.abc.345/01de-35", Some("12ABC34501DE35")),
            (PixKeyKind::Cnpj, "29537995593", None),
            (PixKeyKind::Cpf, "12ABC34501DE35", None),
            (PixKeyKind::Phone, "+55 (11) 99999-9999", Some("+5511999999999")),
            (PixKeyKind::Phone, "11999999999", None),
            (PixKeyKind::Phone, "+351912345678", None),
            (PixKeyKind::Phone, "29537995593", None),
            (PixKeyKind::Email, "Maria@Example.com ", Some("maria@example.com")),
            (PixKeyKind::Email, "29537995593", None),
            (
                PixKeyKind::Random,
                "123E4567-E89B-12D3-A456-426655440000",
                Some("123e4567-e89b-12d3-a456-426655440000"),
            ),
            (PixKeyKind::Random, "maria@example.com", None),
        ] {
            let read = PixKey::from_typed(kind, typed).ok();
            assert_eq!(read.as_ref().map(PixKey::as_str), key, "{kind:?} {typed}");
        }
        assert!("29537995593".parse::<PixKey>().unwrap().document().is_some());
        assert!("maria@example.com".parse::<PixKey>().unwrap().document().is_none());
    }

    #[test]
    fn each_form_of_key_is_accepted_and_nothing_else() {
        for key in [
            "29537995593",
            "11222333000181",
            "+5511999999999",
            "maria@example.com",
            "o'neil+pix_{1}@a-b.example.com.br",
            &format!("a@{}.br", "b".repeat(63)),
            &format!("{}@ex.br", "m".repeat(71)),
            "123e4567-e89b-12d3-a456-426655440000",
        ] {
            assert_eq!(key.parse::<PixKey>().unwrap().as_str(), key);
        }
        let texts = "29537995590 295.379.955-93 5511999999999 +055119999 Maria@example.com maria@ \
            @example.com maria@example..com maria@-example.com maria@example-.com \
            maria@exa_mple.com a@b@example.com ma%ria@example.com a@[127.0.0.1] \
            123E4567-E89B-12D3-A456-426655440000 123e4567e89b12d3a456426655440000";
        for text in texts.split_whitespace().chain([
            "",
            " ",
            "+55 11 999999999",
            "Maria <maria@example.com>",
            "\u{ff41}@b.com",
            "jos\u{e9}@b.com",
            "maria@caf\u{e9}.com",
            "\"m s\"@example.com",
            &format!("a@{}.br", "b".repeat(64)),
            &format!("{}@ex.br", "m".repeat(72)),
            &format!("{}@example.com", "m".repeat(70)),
        ]) {
            assert_eq!(text.parse::<PixKey>(), Err(PixKeyError), "{text}");
        }
    }
}
