//! The languages of the pages, and of e-mails to users. A text is a [`Word`] with one field for each language, so
//! that one that lacks a language does not compile.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT_LANGUAGE;
use serde::{Deserialize, Serialize};

use crate::http::{cookie, set_cookie};

pub(crate) const LANGUAGE_COOKIE: &str = "__Host-language";

/// The payer's choice, which the dashboard does not read.
const PAYER_COOKIE: &str = "__Host-payer-language";

/// In seconds: as long as a charge can be paid.
const PAYER_COOKIE_SECONDS: i64 = 24 * 60 * 60;

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Language {
    #[default]
    #[serde(rename = "pt-BR")]
    Portuguese,
    #[serde(rename = "en")]
    English,
    #[serde(rename = "es")]
    Spanish,
}

/// A text in each language. `{}` marks where [`Language::fill`] puts a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Word {
    pub pt: &'static str,
    pub en: &'static str,
    pub es: &'static str,
}

/// Defines words: `NAME = "português", "English", "español";`
#[macro_export]
macro_rules! words {
    ($visibility:vis, $($NAME:ident = $pt:literal, $en:literal, $es:literal;)+) => {
        $($visibility const $NAME: $crate::language::Word = $crate::language::Word { pt: $pt, en: $en, es: $es };)+
    };
}

/// Defines functions that translate facts: `fn name(Type) { Pattern = "português", "English", "español"; }`. A fact
/// without words does not compile. `fn name(language, Type)` also puts values into the marks of its words:
/// `Pattern(value) = "{} dias", "{} days", "{} días", value;`
#[macro_export]
macro_rules! translate {
    ($($(#[$doc:meta])* $visibility:vis fn $name:ident($type:ty) {
        $($fact:pat = $pt:literal, $en:literal, $es:literal;)+
    })+) => {
        $($(#[$doc])* $visibility fn $name(fact: $type) -> $crate::language::Word {
            match fact { $($fact => $crate::language::Word { pt: $pt, en: $en, es: $es },)+ }
        })+
    };
    ($($(#[$doc:meta])* $visibility:vis fn $name:ident($language:ident, $type:ty) {
        $($fact:pat = $pt:literal, $en:literal, $es:literal $(, $value:expr)*;)+
    })+) => {
        $($(#[$doc])* $visibility fn $name($language: $crate::language::Language, fact: $type) -> String {
            match fact {
                $($fact => {
                    $language.fill($crate::language::Word { pt: $pt, en: $en, es: $es }, &[$($value.as_ref()),*])
                })+
            }
        })+
    };
}

impl Language {
    pub const ALL: [Self; 3] = [Self::Portuguese, Self::English, Self::Spanish];

    /// The `lang` of a page.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Portuguese => "pt-BR",
            Self::English => "en",
            Self::Spanish => "es",
        }
    }

    /// The language's own name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portuguese => "Português",
            Self::English => "English",
            Self::Spanish => "Español",
        }
    }

    /// By the first two letters of a language tag.
    pub fn parse(tag: &str) -> Option<Self> {
        let is_same = |language: &Self| {
            let known = language.tag().get(..2).unwrap_or_default();
            tag.get(..2).is_some_and(|start| start.eq_ignore_ascii_case(known))
        };
        Self::ALL.into_iter().find(is_same)
    }

    /// The user's choice, else the first language of `Accept-Language` that the pages have. Its weights are
    /// ignored, because browsers list the languages in the user's order.
    pub fn of(headers: &HeaderMap) -> Self {
        let accepted = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let accepted = || accepted.split(',').find_map(|tag| Self::parse(tag.trim()));
        Self::chosen(headers).or_else(accepted).unwrap_or_default()
    }

    /// As [`Self::of`], for the pages that a payer sees: the choice on the checkout page comes first.
    pub fn of_payer(headers: &HeaderMap) -> Self {
        cookie(headers, PAYER_COOKIE).and_then(Self::parse).unwrap_or_else(|| Self::of(headers))
    }

    /// The `Set-Cookie` header of a payer's choice.
    pub fn payer_cookie(self) -> String {
        set_cookie(PAYER_COOKIE, self.tag(), PAYER_COOKIE_SECONDS)
    }

    /// The choice that the browser keeps. The log-in copies it from the user's row.
    pub fn chosen(headers: &HeaderMap) -> Option<Self> {
        cookie(headers, LANGUAGE_COOKIE).and_then(Self::parse)
    }

    pub fn say(self, word: Word) -> &'static str {
        match self {
            Self::Portuguese => word.pt,
            Self::English => word.en,
            Self::Spanish => word.es,
        }
    }

    /// The text with each `{}` replaced by the next value.
    pub fn fill(self, word: Word, values: &[&str]) -> String {
        let mut parts = self.say(word).split("{}");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (part, value) in parts.zip(values) {
            text.push_str(value);
            text.push_str(part);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::COOKIE;

    use super::*;

    #[test]
    fn the_users_choice_comes_before_the_browsers_languages() {
        let of = |accepted: &str, cookie: &str| {
            let headers = [(ACCEPT_LANGUAGE, accepted), (COOKIE, cookie)];
            Language::of(&headers.into_iter().map(|(name, value)| (name, value.parse().unwrap())).collect())
        };
        assert_eq!(of("es-AR,es;q=0.9", ""), Language::Spanish);
        assert_eq!(of("fr, en-GB;q=0.8", ""), Language::English);
        assert_eq!(of("de", ""), Language::Portuguese);
        assert_eq!(of("es", "__Host-language=pt-BR"), Language::Portuguese);
        assert_eq!(of("es", "__Host-language=é"), Language::Spanish);
    }

    #[test]
    fn each_mark_is_replaced_by_its_value() {
        let word = Word { pt: "de {} a {}", en: "{} to {}", es: "sin marcas" };
        assert_eq!(Language::Portuguese.fill(word, &["{}", "b"]), "de {} a b");
        assert_eq!(Language::English.fill(word, &["a", "b"]), "a to b");
        assert_eq!(Language::Spanish.fill(word, &["a"]), "sin marcas");
    }
}
