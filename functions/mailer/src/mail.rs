//! The form of a mail (RFC 5322): plain text in UTF-8. `lettre` encodes what is in headers, so that no text can add one.

use std::time::{Duration, UNIX_EPOCH};

use domain::account::MailAddress;
use domain::ids::EmailId;
use domain::time::Timestamp;
use lettre::Message;
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue, MIME_VERSION_1_0};

use crate::text::Text;

/// RFC 3834: whoever answers automatically must not answer this.
const AUTO_SUBMITTED: HeaderName = HeaderName::new_from_ascii_str("Auto-Submitted");

/// A mail, ready to go.
#[derive(Clone, Debug)]
pub struct Mail {
    /// The email that it is.
    pub id: EmailId,
    /// Who it is from.
    pub from: MailAddress,
    /// Who it goes to.
    pub to: MailAddress,
    /// Its subject.
    pub subject: String,
    /// When it was written.
    pub at: Timestamp,
    /// All of it, as it is sent.
    pub bytes: Vec<u8>,
}

/// A mail that can't be written.
#[derive(Debug, thiserror::Error)]
#[error("a mail can't be written: {0}")]
pub struct MailError(String);

impl Mail {
    /// Writes a mail. An email that is told again has the same `Message-ID`.
    pub(crate) fn new(
        id: EmailId,
        (from, to): (&MailAddress, &MailAddress),
        text: &Text,
        at: Timestamp,
    ) -> Result<Self, MailError> {
        let mailbox = |address: &MailAddress| {
            let address = address
                .as_str()
                .parse()
                .map_err(|error: lettre::address::AddressError| MailError(error.to_string()))?;
            Ok::<_, MailError>(Mailbox::new(None, address))
        };
        let written_at = UNIX_EPOCH
            .checked_add(Duration::from_millis(u64::try_from(at.millis()).unwrap_or_default()))
            .unwrap_or(UNIX_EPOCH);
        let message = Message::builder()
            .from(mailbox(from)?)
            .to(mailbox(to)?)
            .subject(&text.subject)
            .date(written_at)
            .message_id(Some(format!("<{id}@{}>", from.domain())))
            .raw_header(HeaderValue::new(AUTO_SUBMITTED, "auto-generated".to_owned()))
            .header(MIME_VERSION_1_0)
            .header(ContentType::TEXT_PLAIN)
            .body(text.body.clone())
            .map_err(|error| MailError(error.to_string()))?;
        let (from, to, subject) = (from.clone(), to.clone(), text.subject.clone());
        Ok(Self { id, from, to, subject, at, bytes: message.formatted() })
    }
}

#[cfg(test)]
mod tests {
    use mail_parser::MessageParser;

    use super::*;

    fn mail(subject: &str, body: &str) -> Mail {
        let at: Timestamp = "2026-11-21T18:04:05.678Z".parse().unwrap();
        let id = EmailId::derive(at, "row", 1, "kind");
        let (from, to) = ("avisos@pagamentos.example".parse().unwrap(), "ana@loja.example".parse().unwrap());
        let text = Text { subject: subject.to_owned(), body: body.to_owned() };
        Mail::new(id, (&from, &to), &text, at).unwrap()
    }

    /// The names of the headers, in order, as whoever receives the mail reads them.
    fn headers(mail: &Mail) -> Vec<String> {
        let parsed = MessageParser::default().parse(&mail.bytes).unwrap();
        parsed.headers_raw().map(|(name, _)| name.to_owned()).collect()
    }

    #[test]
    fn a_mail_is_plain_text_in_utf_8_with_an_id_of_its_own() {
        let mail = mail("Contestação aberta", "Olá.\nAté amanhã.\n");
        let text = String::from_utf8(mail.bytes.clone()).unwrap();
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
        let parsed = MessageParser::default().parse(&mail.bytes).unwrap();
        assert_eq!(parsed.subject(), Some("Contestação aberta"));
        assert_eq!(parsed.body_text(0).unwrap().replace("\r\n", "\n"), "Olá.\nAté amanhã.\n");
        assert_eq!(parsed.date().unwrap().to_rfc3339(), "2026-11-21T18:04:05Z");
    }

    #[test]
    fn no_text_adds_a_header_or_ends_the_headers() {
        let plain = headers(&mail("Assunto", "Texto"));
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
            let mail = mail(evil, evil);
            assert_eq!(headers(&mail), plain, "{evil:?}");
            let head = String::from_utf8(mail.bytes.clone()).unwrap();
            let head = head.split("\r\n\r\n").next().unwrap().to_owned();
            assert!(head.split("\r\n").all(|line| !line.contains(['\r', '\n'])), "{head:?}");
            assert_eq!(MessageParser::default().parse(&mail.bytes).unwrap().to().unwrap().iter().count(), 1);
        }
    }
}
