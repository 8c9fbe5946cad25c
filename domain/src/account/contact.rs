//! The contact of an account: the address that its emails go to.

use email_address::{EmailAddress, Options};
use serde::{Deserialize, Serialize};

use crate::text::{checked_text, hidden_debug};

/// RFC 5321 limits a path to 256 octets, including its angle brackets.
const MAX_ADDRESS_CHARS: usize = 254;

/// An address that contains one could add recipients or headers.
const DELIMITERS: [char; 6] = ['<', '>', '"', ',', ';', ':'];

/// The text is not a [`MailAddress`]. The error does not repeat the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be an e-mail address in ASCII, such as ana@loja.example")]
pub struct MailAddressError;

/// An email address (RFC 5322) in ASCII, because SES accepts nothing else. It has no quotes, and its domain is
/// a name.
#[derive(Clone, Eq, PartialEq)]
pub struct MailAddress(Box<str>);

impl MailAddress {
    /// Returns the address as it was entered.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part after the `@`.
    pub fn domain(&self) -> &str {
        self.0.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

hidden_debug!(MailAddress);

checked_text!(MailAddress, MailAddressError, |text| {
    let options = Options::default().with_required_tld().without_domain_literal().without_display_text();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains(DELIMITERS);
    let is_address = text.len() <= MAX_ADDRESS_CHARS
        && is_plain
        && EmailAddress::parse_with_options(text, options).is_ok();
    is_address.then_some(()).ok_or(MailAddressError)
});

/// An account's contact. The copies of the settings in the rows of API keys lack it, because no request needs
/// it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Contact {
    /// The address that emails go to. `None`: no emails are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<MailAddress>,
    /// True when the account has turned emails off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mail_off: bool,
}

impl Contact {
    /// Returns the recipient of an email. `None`: there is no address, or emails are turned off.
    pub fn recipient(&self) -> Option<&MailAddress> {
        self.address.as_ref().filter(|_| !self.mail_off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_deliverable_addresses_are_accepted() {
        for text in ["ana@loja.example", "Ana.Maria+pix@financeiro.loja.example", "o'neil@loja.example"] {
            assert_eq!(text.parse::<MailAddress>().map(|address| address.to_string()), Ok(text.to_owned()));
        }
        let long = format!("{}@{}.example", "a".repeat(64), "b.".repeat(100));
        let refused = "ana @loja.example ana@ ana@localhost ana@[192.0.2.1] ana@loja.example,eva@loja.example \
            josé@loja.example ana@são.example";
        for text in refused.split_whitespace().chain([
            "",
            "Ana <ana@loja.example>",
            "\"ana maria\"@loja.example",
            "ana@loja.example\r\nBcc: eva@loja.example",
            "ana@loja.example ",
            long.as_str(),
        ]) {
            assert_eq!(text.parse::<MailAddress>(), Err(MailAddressError), "{text}");
        }
    }

    #[test]
    fn a_contact_is_stored_compactly_and_never_logged() {
        let contact = Contact { address: Some("ana@loja.example".parse().unwrap()), mail_off: true };
        let text = serde_json::to_string(&contact).unwrap();
        insta::assert_snapshot!(text, @r#"{"address":"ana@loja.example","mail_off":true}"#);
        assert_eq!(serde_json::from_str::<Contact>(&text).unwrap(), contact);
        assert_eq!(serde_json::to_string(&Contact::default()).unwrap(), "{}");
        assert!(!format!("{contact:?}").contains("ana"));
    }
}
