//! Encodes an email as a message (RFC 5322): plain text in UTF-8. `lettre` encodes header values, so that no
//! text can inject a header.

use std::fmt::Display;
use std::time::{Duration, UNIX_EPOCH};

use domain::account::MailAddress;
use domain::ids::EmailId;
use domain::time::Timestamp;
use lettre::Message;
use lettre::address::AddressError;
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue, MIME_VERSION_1_0};

use crate::text::Text;

/// Marks the email as automatic, so that automatic responders do not answer it (RFC 3834).
const AUTO_SUBMITTED: HeaderName = HeaderName::new_from_ascii_str("Auto-Submitted");

#[derive(Clone, Debug)]
pub struct EmailMessage {
    pub id: EmailId,
    pub from: MailAddress,
    pub to: MailAddress,
    pub subject: String,
    pub at: Timestamp,
    pub bytes: Vec<u8>,
}

impl EmailMessage {
    /// Encodes an email. The `Message-ID` consists of the email's id and the sender's domain, so an email
    /// that is sent twice has the same one both times. SES replaces it by its own.
    pub(crate) fn new(
        id: EmailId,
        (from, to): (&MailAddress, &MailAddress),
        text: &Text,
        at: Timestamp,
    ) -> Result<Self, String> {
        let failed = |error: &dyn Display| format!("an email can't be encoded: {error}");
        let mailbox = |address: &MailAddress| {
            let address = address.as_str().parse().map_err(|error: AddressError| failed(&error))?;
            Ok::<_, String>(Mailbox::new(None, address))
        };
        let date = UNIX_EPOCH
            .checked_add(Duration::from_millis(u64::try_from(at.millis()).unwrap_or_default()))
            .unwrap_or(UNIX_EPOCH);
        let message = Message::builder()
            .from(mailbox(from)?)
            .to(mailbox(to)?)
            .subject(&text.subject)
            .date(date)
            .message_id(Some(format!("<{id}@{}>", from.domain())))
            .raw_header(HeaderValue::new(AUTO_SUBMITTED, "auto-generated".to_owned()))
            .header(MIME_VERSION_1_0)
            .header(ContentType::TEXT_PLAIN)
            .body(text.body.clone())
            .map_err(|error| failed(&error))?;
        let (from, to, subject) = (from.clone(), to.clone(), text.subject.clone());
        Ok(Self { id, from, to, subject, at, bytes: message.formatted() })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use mail_parser::MessageParser;

    use super::*;

    pub(crate) fn message(subject: &str, body: &str) -> EmailMessage {
        let at: Timestamp = "2026-11-21T18:04:05.678Z".parse().unwrap();
        let id = EmailId::derive(at, "row", 1, "kind");
        let (from, to) = ("avisos@pagamentos.example".parse().unwrap(), "ana@loja.example".parse().unwrap());
        let text = Text { subject: subject.to_owned(), body: body.to_owned() };
        EmailMessage::new(id, (&from, &to), &text, at).unwrap()
    }

    /// Parses a message as a recipient does, and returns the names of its headers in order.
    fn header_names(message: &EmailMessage) -> Vec<String> {
        let parsed = MessageParser::default().parse(&message.bytes).unwrap();
        parsed.headers_raw().map(|(name, _)| name.to_owned()).collect()
    }

    #[test]
    fn an_email_is_plain_text_in_utf_8_with_a_message_id() {
        let message = message("Contestação aberta", "Olá.\nAté amanhã.\n");
        let text = String::from_utf8(message.bytes.clone()).unwrap();
        insta::assert_snapshot!(text.replace("\r\n", "\n"), @r"
        From: avisos@pagamentos.example
        To: ana@loja.example
        Subject: =?utf-8?b?Q29udGVzdGHDp8Ojbw==?= aberta
        Date: Sat, 21 Nov 2026 18:04:05 +0000
        Message-ID: <ntc_01m7zmf75e60m6r6qfz6vm4z3z@pagamentos.example>
        Auto-Submitted: auto-generated
        MIME-Version: 1.0
        Content-Type: text/plain; charset=utf-8
        Content-Transfer-Encoding: base64

        T2zDoS4NCkF0w6kgYW1hbmjDoy4NCg==
        ");
        let parsed = MessageParser::default().parse(&message.bytes).unwrap();
        assert_eq!(parsed.subject(), Some("Contestação aberta"));
        assert_eq!(parsed.body_text(0).unwrap().replace("\r\n", "\n"), "Olá.\nAté amanhã.\n");
        assert_eq!(parsed.date().unwrap().to_rfc3339(), "2026-11-21T18:04:05Z");
    }

    #[test]
    fn no_text_can_inject_a_header_or_start_the_body_early() {
        let plain = header_names(&message("Assunto", "Texto"));
        for evil in [
            "a\r\nBcc: eva@outra.example",
            "a\nBcc: eva@outra.example",
            "a\rBcc: eva@outra.example",
            "a\r\n\r\nOutro corpo",
            "ação\r\nBcc: eva@outra.example",
            "=?utf-8?q?a=0D=0ABcc:_eva@outra.example?=",
            "a\u{2028}Bcc: eva@outra.example",
            "a\0b",
        ] {
            let message = message(evil, evil);
            assert_eq!(header_names(&message), plain, "{evil:?}");
            let head = String::from_utf8(message.bytes.clone()).unwrap();
            let head = head.split("\r\n\r\n").next().unwrap().to_owned();
            assert!(head.split("\r\n").all(|line| !line.contains(['\r', '\n'])), "{head:?}");
            assert_eq!(
                MessageParser::default().parse(&message.bytes).unwrap().to().unwrap().iter().count(),
                1
            );
        }
    }
}
