//! Whom an account's notices go to by e-mail.

use std::fmt;
use std::str::FromStr;

use email_address::{EmailAddress, Options};
use serde::{Deserialize, Serialize};

use crate::text::serde_as_text;

/// The longest address that can be delivered to (RFC 5321: a path of 256 octets, with its brackets).
const MAX_ADDRESS_CHARS: usize = 254;

/// What delimits an address, in a header or a list of addresses.
const DELIMITERS: [char; 6] = ['<', '>', '"', ',', ';', ':'];

/// A text that is no [`MailAddress`]. Holds none of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be an e-mail address in ASCII, such as ana@loja.example")]
pub struct MailAddressError;

/// An e-mail address (RFC 5322) that mail can be sent to and from: in ASCII, for SES takes no other, without quotes, and
/// with a domain's name.
#[derive(Clone, Eq, PartialEq)]
pub struct MailAddress(Box<str>);

impl MailAddress {
    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What follows the `@`.
    pub fn domain(&self) -> &str {
        self.0.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

/// An address is a person's: a log gets none of it.
impl fmt::Debug for MailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MailAddress")
    }
}

impl fmt::Display for MailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for MailAddress {
    type Err = MailAddressError;

    fn from_str(text: &str) -> Result<Self, MailAddressError> {
        let options = Options::default().with_required_tld().without_domain_literal().without_display_text();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains(DELIMITERS);
        let is_one = text.len() <= MAX_ADDRESS_CHARS
            && is_plain
            && EmailAddress::parse_with_options(text, options).is_ok();
        if is_one { Ok(Self(text.into())) } else { Err(MailAddressError) }
    }
}

serde_as_text!(MailAddress);

/// An account's contact. It is in the account's row alone: no request needs it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Contact {
    /// Where notices go; `None`: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<MailAddress>,
    /// The account wants no mail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mail_off: bool,
}

impl Contact {
    /// Where a notice goes; `None`: there is nobody to tell, or they want no mail.
    pub fn recipient(&self) -> Option<&MailAddress> {
        self.address.as_ref().filter(|_| !self.mail_off)
    }

    /// Whether a row may leave it out.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_that_can_be_delivered_to_and_nothing_else() {
        for text in ["ana@loja.example", "Ana.Maria+pix@financeiro.loja.example", "o'neil@loja.example"] {
            assert_eq!(text.parse::<MailAddress>().map(|address| address.to_string()), Ok(text.to_owned()));
        }
        let long = format!("{}@{}.example", "a".repeat(64), "b.".repeat(100));
        for text in [
            "",
            "ana",
            "@loja.example",
            "ana@",
            "ana@localhost",
            "ana@[192.0.2.1]",
            "Ana <ana@loja.example>",
            "\"ana maria\"@loja.example",
            "ana@loja.example,eva@loja.example",
            "ana@loja.example\r\nBcc: eva@loja.example",
            "ana@loja.example ",
            "josé@loja.example",
            "ana@são.example",
            long.as_str(),
        ] {
            assert_eq!(text.parse::<MailAddress>(), Err(MailAddressError), "{text}");
        }
    }

    #[test]
    fn nobody_is_told_without_an_address_or_against_their_wish() {
        let address: MailAddress = "ana@loja.example".parse().unwrap();
        let on = Contact { address: Some(address.clone()), mail_off: false };
        assert_eq!((on.recipient(), address.domain()), (Some(&address), "loja.example"));
        assert_eq!(Contact { mail_off: true, ..on }.recipient(), None);
        assert_eq!(Contact::default().recipient(), None);
    }

    #[test]
    fn a_contact_is_kept_in_few_bytes_and_no_log_has_it() {
        let contact = Contact { address: Some("ana@loja.example".parse().unwrap()), mail_off: true };
        let text = serde_json::to_string(&contact).unwrap();
        insta::assert_snapshot!(text, @r#"{"address":"ana@loja.example","mail_off":true}"#);
        assert_eq!(serde_json::from_str::<Contact>(&text).unwrap(), contact);
        assert_eq!(serde_json::to_string(&Contact::default()).unwrap(), "{}");
        assert!(!format!("{contact:?}").contains("ana"));
    }
}
