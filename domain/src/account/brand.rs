//! The brand of an account: what payers see of a shop on the checkout page and on receipts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::MailAddress;
use crate::hex;
use crate::ids::AccountId;
use crate::text::{checked_text, serde_as_text};

/// The optional parts of an account's brand. The copies of the settings in the rows of API keys lack it, because no
/// request with a key needs it.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Brand {
    /// Shown at the top of the page. `None`: the page names only the receiver of the BR Code.
    pub name: Option<String>,
    /// The colour of buttons.
    pub color: Option<Color>,
    /// Where payers may ask for help.
    pub email: Option<MailAddress>,
    /// Where payers may ask for help.
    pub phone: Option<Phone>,
    pub logo: Option<LogoHash>,
}

/// The text breaks this rule. The error does not repeat the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct BrandError(&'static str);

/// An opaque colour of sRGB: red, green and blue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Color([u8; 3]);

impl Color {
    pub const RULE: &str = "must be a colour such as #0f6b5c";

    const BLACK: Self = Self([0; 3]);
    const WHITE: Self = Self([255; 3]);

    /// The colour of text on this one: black or white, whichever has the greater contrast. It is at least 4.5:1 on
    /// every colour, so no colour needs to be refused.
    #[must_use]
    pub fn text(self) -> Self {
        let contrast = |text: &Self| self.contrast(*text);
        if contrast(&Self::BLACK) > contrast(&Self::WHITE) { Self::BLACK } else { Self::WHITE }
    }

    /// The contrast ratio of WCAG 2.2, from 1 to 21.
    fn contrast(self, other: Self) -> f64 {
        let (one, two) = (self.luminance(), other.luminance());
        (one.max(two) + 0.05) / (one.min(two) + 0.05)
    }

    fn luminance(self) -> f64 {
        let linear = |channel: u8| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        let Self([red, green, blue]) = self;
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", hex::encode(self.0))
    }
}

impl FromStr for Color {
    type Err = BrandError;

    fn from_str(text: &str) -> Result<Self, BrandError> {
        let mut channels = [0; 3];
        let read = text.strip_prefix('#').map(|digits| hex::decode_to_slice(digits, &mut channels).is_ok());
        if read == Some(true) { Ok(Self(channels)) } else { Err(BrandError(Self::RULE)) }
    }
}

serde_as_text!(Color);

/// A phone number as people write it, such as `(11) 4000-1234`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Phone(Box<str>);

impl Phone {
    pub const RULE: &str = "must be a phone number of 3 to 15 digits, such as (11) 4000-1234";

    /// The URL that calls the number (RFC 3966).
    pub fn url(&self) -> String {
        let dialled = self.0.chars().filter(|c| c.is_ascii_digit() || *c == '+');
        format!("tel:{}", dialled.collect::<String>())
    }
}

checked_text!(Phone, BrandError, |text| {
    let number = text.strip_prefix('+').unwrap_or(text);
    let is_number = number.chars().all(|c| c.is_ascii_digit() || " ().-".contains(c));
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    let is_phone = is_number && (3..=15).contains(&digits) && text.len() <= 32;
    is_phone.then_some(()).ok_or(BrandError(Phone::RULE))
});

/// The SHA-256 of an account's id and the file of its logo in hex, which names the file. So a URL of a logo always has
/// the same content, and the file of one account can be deleted although another has the same logo.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogoHash(Box<str>);

impl LogoHash {
    /// Hashes the content of an account's file.
    pub fn of(account: &AccountId, file: &[u8]) -> Self {
        Self(
            hex::encode(Sha256::new().chain_update(account.to_string()).chain_update(file).finalize()).into(),
        )
    }

    /// The key of the file in the bucket, and the path of its public URL under `/checkout/`.
    pub fn file(&self) -> String {
        format!("logos/{self}.png")
    }
}

checked_text!(LogoHash, BrandError, |text| {
    let is_hash = text.len() == 64 && text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    is_hash.then_some(()).ok_or(BrandError("must be 64 hexadecimal digits"))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn black_or_white_text_is_legible_on_every_colour() {
        let channel = || (0..=255).step_by(5);
        for red in channel() {
            for green in channel() {
                for blue in channel() {
                    let color = Color([red, green, blue]);
                    assert!(color.contrast(color.text()) >= 4.5, "{color}");
                }
            }
        }
        let text = |color: &str| color.parse::<Color>().unwrap().text().to_string();
        assert_eq!([text("#0f6b5c"), text("#FFE08A")], ["#ffffff", "#000000"]);
        let contrast = Color::BLACK.contrast(Color::WHITE);
        assert!((contrast - 21.0).abs() < 1e-9, "{contrast}");
    }

    #[test]
    fn only_six_hexadecimal_digits_are_a_colour() {
        assert_eq!("#0F6b5c".parse::<Color>().unwrap().to_string(), "#0f6b5c");
        for text in
            ["", "#", "0f6b5c", "#0f6", "#0f6b5", "#0f6b5c0", "#0f6b5g", "red", "#0f6b5c}*{", "#é6b5c"]
        {
            assert!(text.parse::<Color>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_phone_number_is_shown_as_it_is_written_and_dialled_by_its_digits() {
        for (text, url) in [
            ("(11) 4000-1234", "tel:1140001234"),
            ("+55 11 4000.1234", "tel:+551140001234"),
            ("190", "tel:190"),
        ] {
            let phone: Phone = text.parse().unwrap();
            assert_eq!((phone.to_string().as_str(), phone.url().as_str()), (text, url));
        }
        for text in ["", "12", "11 4000-1234 ramal 5", "++551140001234", "1234567890123456", "11\n400012"] {
            assert!(text.parse::<Phone>().is_err(), "{text}");
        }
        assert!(format!("1{}23", " ".repeat(30)).parse::<Phone>().is_err());
    }

    #[test]
    fn a_logo_is_named_by_its_account_and_content() {
        let [hash, other] = [1, 2].map(|account| LogoHash::of(&AccountId::new([account; 10]), b"abc"));
        let expected = hash.to_string();
        assert_eq!((expected.len(), expected.parse()), (64, Ok(hash.clone())));
        assert_ne!(hash, other, "another account's file");
        assert_ne!(hash, LogoHash::of(&AccountId::new([1; 10]), b"abd"));
        let short = expected.get(3..).unwrap();
        for text in ["", short, &expected.to_uppercase(), &format!("../{short}")] {
            assert!(text.parse::<LogoHash>().is_err(), "{text}");
        }
    }
}
