//! `cargo run -- verify`: checks the signature of a received webhook and says which part is wrong. It needs no
//! running service.
//!
//! An HMAC does not show why it differs: another secret and another body look the same. So the command
//! restores the body that the service posted, and tries this one too. If its signature is right, the body was
//! serialised again, and the secret is right. The service posts compact JSON in UTF-8, as `serde_json` writes
//! it. So these differences can be undone: a byte order mark, whitespace between tokens, and escapes in strings.
//! Another order of the keys and other notations of numbers can't be undone.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::hex;
use domain::webhook::signature::{self, EndpointSecret, STANDARD_WEBHOOKS_PREFIX};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::listen::Print;
use crate::error::{Error, Result};

/// How far the time of a signature may differ from this machine's clock, in seconds. docs/guide/webhooks.md
/// recommends the same.
const TOLERANCE_SECONDS: u64 = 300;

/// The maximum length of a body, in bytes.
const MAX_BODY_BYTES: u64 = 1_048_576;

/// The length of a secret, in characters.
const SECRET_LENGTH: usize = 64;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A received webhook, and the secret that its signature is checked with.
#[derive(Clone, Debug)]
pub struct Received {
    /// The secret, also in the form for Standard Webhooks.
    pub secret: SecretString,
    pub signature: String,
    pub standard_webhooks: Option<(String, String)>,
    pub accept_legacy: bool,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The secret has not the form of the service's secrets.
    #[error(
        "--secret must be the 64 characters (0-9, a-f) of `secret`, or the `standardWebhooksSecret` that begins with whsec_, without blanks. The service creates no other secrets."
    )]
    SecretForm,
    /// The secret has the form for Standard Webhooks, and the signature is that of `X-Service-Signature`.
    #[error(
        "The secret is right, but it has the form for Standard Webhooks (whsec_…). X-Service-Signature is keyed with `secret`: the 64 characters that the base64 after whsec_ encodes."
    )]
    SecretOfStandardWebhooks,
    /// The header can't be read.
    #[error(
        "The signature is malformed: {0}. Give the header's value alone: `t=<unix seconds>,v1=<64 hex digits>`, `sha256=<64 hex digits>` for a legacy event, or `v1,<base64>` with --id and --timestamp."
    )]
    Malformed(&'static str),
    #[error("The signature has the {given} form, but this body is {body}, which is signed as `{expected}`.")]
    OtherFamily { given: &'static str, body: &'static str, expected: &'static str },
    #[error(
        "The secret is right, but the body was serialised again: it has other whitespace or escapes, or a byte order mark. Verify the bytes as they arrived, before any JSON parser."
    )]
    Reserialised,
    #[error(
        "The secret is right, but --id is `{0}`: the signature is that of the id in the body. Give the header webhook-id, which is the event's id, not X-Service-Delivery-Id."
    )]
    OtherId(String),
    #[error(
        "The signature does not match. The body has the form in which the service posts, so another secret is likely: that of another endpoint or mode, the one before a rotation, or the override secret, which signs the deliveries to a payment's webhookUrl. A changed value in the body, or the header of another delivery, has the same effect."
    )]
    NoMatch,
    #[error(
        "The signature does not match, and the body is not the one that the service posted: it has other whitespace or escapes, or a byte order mark. Without that, it does not match either. So the secret can't be checked with this body: give the bytes as they arrived."
    )]
    Changed,
    #[error(
        "The signature does not match, and the body is not the one that the service posted: the service writes the key `id` first, or `event` in a legacy event. A JSON library sorts keys, or a part of the body was cut out. So the secret can't be checked with this body: give the bytes as they arrived."
    )]
    OtherKeys,
    #[error(
        "The signature does not match, and the body is not JSON, so the service did not post it. Give the file that has the bytes as they arrived."
    )]
    NotJson,
    /// The signature is right, but too old or too new.
    #[error(
        "The secret is right, but the time of the signature is {0} this machine's clock. At most 5 min are accepted, in either direction: synchronise the clock, or take a newer attempt. Each attempt is signed with its own time."
    )]
    Skew(Age),
    /// The signature is right, but the legacy form was not expected.
    #[error(
        "The secret is right, but the signature has the legacy form, which has no time. So a recorded request can be replayed at any time. Expected `t=…,v1=…`; with --legacy, this form is accepted."
    )]
    Legacy,
}

/// The age of a signature in seconds; negative: its time is in the future.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Age(pub i64);

impl Age {
    fn is_accepted(self) -> bool {
        self.0.unsigned_abs() <= TOLERANCE_SECONDS
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.unsigned_abs();
        let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
        match (hours, minutes) {
            (0, 0) => write!(f, "{seconds} s"),
            (0, minutes) => write!(f, "{minutes} min {seconds} s"),
            (hours, minutes) => write!(f, "{hours} h {minutes} min {seconds} s"),
        }?;
        f.write_str(if self.0 < 0 { " ahead of" } else { " behind" })
    }
}

pub fn verify(received: &Received, now_seconds: i64, print: &Print) -> Result<()> {
    let checked = check(received, now_seconds)
        .map_err(|faults| Error::new(faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")))?;
    print(&match checked {
        Some(age) => format!("The signature is right. Its time is {age} this machine's clock."),
        None => "The signature is right. It has no time, because it has the legacy form.".to_owned(),
    });
    Ok(())
}

pub fn read_body(path: &Path) -> Result<Vec<u8>> {
    let doing = format!("reading {}", path.display());
    let mut body = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(MAX_BODY_BYTES + 1).read_to_end(&mut body)
    } else {
        File::open(path).and_then(|file| file.take(MAX_BODY_BYTES + 1).read_to_end(&mut body))
    };
    let length = read.map_err(|e| Error::because(&doing, &e))?;
    if u64::try_from(length).is_ok_and(|length| length <= MAX_BODY_BYTES) {
        return Ok(body);
    }
    Err(Error::new(format!(
        "{doing}: longer than {MAX_BODY_BYTES} bytes, so it is not the body of a webhook"
    )))
}

/// Returns the age of its signature; `None`: it has no time.
pub fn check(received: &Received, now_seconds: i64) -> std::result::Result<Option<Age>, Vec<Fault>> {
    let header = Header::parse(received).map_err(|fault| vec![fault])?;
    let (secret, is_encoded) = key(&received.secret).ok_or_else(|| vec![Fault::SecretForm])?;
    let mut faults = Vec::new();
    if !header.signs(&secret, &received.body) {
        let Some(posted) = Posted::restore(&received.body) else {
            return Err(vec![Fault::NotJson]);
        };
        let other_id = header.with_id_of(&secret, &posted);
        if other_id.is_none() && !header.signs(&secret, &posted.body) {
            return Err(vec![no_match(&header, &posted, posted.body != received.body)]);
        }
        faults.extend(other_id.map(Fault::OtherId));
        if posted.body != received.body {
            faults.push(Fault::Reserialised);
        }
    }
    if is_encoded && !matches!(header, Header::Standard { .. }) {
        faults.push(Fault::SecretOfStandardWebhooks);
    }
    let age = header.time().map(|time| Age(now_seconds.saturating_sub(time)));
    match age {
        Some(age) if !age.is_accepted() => faults.push(Fault::Skew(age)),
        None if !received.accept_legacy => faults.push(Fault::Legacy),
        Some(_) | None => {}
    }
    if faults.is_empty() { Ok(age) } else { Err(faults) }
}

/// Returns the key of a secret, and whether the secret has the form for Standard Webhooks. `None`: the service
/// creates no such secret.
fn key(secret: &SecretString) -> Option<(SecretString, bool)> {
    let is_encoded = secret.expose_secret().starts_with(STANDARD_WEBHOOKS_PREFIX);
    let key = if is_encoded {
        SecretString::from(EndpointSecret::from_standard_webhooks(secret)?)
    } else {
        secret.clone()
    };
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let text = key.expose_secret();
    (text.len() == SECRET_LENGTH && text.bytes().all(is_hex)).then_some((key, is_encoded))
}

#[derive(Debug)]
enum Header {
    Canonical { t: i64, signatures: Vec<String> },
    Legacy { signature: String },
    Standard { id: String, timestamp: i64, signatures: Vec<String> },
}

impl Header {
    fn parse(received: &Received) -> std::result::Result<Self, Fault> {
        let text = received.signature.trim();
        if text.is_empty() {
            return Err(Fault::Malformed("it is empty"));
        }
        if text.contains(": ") {
            return Err(Fault::Malformed("it contains the header's name"));
        }
        match (text.strip_prefix("sha256="), &received.standard_webhooks) {
            (Some(digest), _) => Ok(Self::Legacy { signature: format!("sha256={}", hex_digest(digest)?) }),
            (None, Some((id, timestamp))) => Self::parse_standard(text, id, timestamp),
            (None, None) if text.starts_with("v1,") => {
                Err(Fault::Malformed("it is that of webhook-signature, without --id and --timestamp"))
            }
            (None, None) => Self::parse_canonical(text),
        }
    }

    fn parse_canonical(text: &str) -> std::result::Result<Self, Fault> {
        let fields = || text.split(',').filter_map(|field| field.trim().split_once('='));
        let mut times = fields().filter(|(name, _)| *name == "t").map(|(_, value)| value);
        let (time, other) = (times.next(), times.next());
        let t = time.ok_or(Fault::Malformed("it has no `t`"))?;
        if other.is_some() {
            return Err(Fault::Malformed("it has more than one `t`"));
        }
        let t = unix_seconds(t).ok_or(Fault::Malformed("`t` is not a number of unix seconds"))?;
        let digests = fields().filter(|(name, _)| *name == "v1").map(|(_, digest)| hex_digest(digest));
        let digests = digests.collect::<std::result::Result<Vec<_>, _>>()?;
        if digests.is_empty() {
            return Err(Fault::Malformed("it has no `v1`"));
        }
        let signatures = digests.into_iter().map(|digest| format!("t={t},v1={digest}")).collect();
        Ok(Self::Canonical { t, signatures })
    }

    fn parse_standard(text: &str, id: &str, timestamp: &str) -> std::result::Result<Self, Fault> {
        let timestamp = unix_seconds(timestamp.trim())
            .ok_or(Fault::Malformed("--timestamp is not a number of unix seconds"))?;
        let signatures: Vec<String> =
            text.split(' ').filter(|one| one.starts_with("v1,")).map(str::to_owned).collect();
        if signatures.is_empty() {
            return Err(Fault::Malformed("--id and --timestamp belong to webhook-signature: `v1,<base64>`"));
        }
        let is_digest = |one: &String| {
            one.strip_prefix("v1,")
                .and_then(|digest| STANDARD.decode(digest).ok())
                .is_some_and(|d| d.len() == 32)
        };
        if !signatures.iter().all(is_digest) {
            return Err(Fault::Malformed("the text after `v1,` is not the base64 of 32 bytes"));
        }
        Ok(Self::Standard { id: id.trim().to_owned(), timestamp, signatures })
    }

    fn signs(&self, secret: &SecretString, body: &[u8]) -> bool {
        match self {
            Self::Canonical { t, signatures } => signatures.contains(&signature::canonical(secret, *t, body)),
            Self::Legacy { signature } => *signature == signature::legacy(secret, body),
            Self::Standard { id, timestamp, signatures } => {
                signatures.contains(&signature::standard_webhooks(secret, id, *timestamp, body))
            }
        }
    }

    /// Returns the id that was given, if the signature is right with the id in the body instead.
    fn with_id_of(&self, secret: &SecretString, posted: &Posted) -> Option<String> {
        let Self::Standard { id, timestamp, signatures } = self else { return None };
        let own: Value = serde_json::from_slice(&posted.body).ok()?;
        let own = own.get("id")?.as_str()?;
        let expected = signature::standard_webhooks(secret, own, *timestamp, &posted.body);
        (own != id && signatures.contains(&expected)).then(|| id.clone())
    }

    /// Returns the time of the signature, in unix seconds.
    fn time(&self) -> Option<i64> {
        match self {
            Self::Canonical { t: time, .. } | Self::Standard { timestamp: time, .. } => Some(*time),
            Self::Legacy { .. } => None,
        }
    }
}

fn unix_seconds(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn hex_digest(text: &str) -> std::result::Result<String, Fault> {
    let digest = hex::decode(text).ok().filter(|digest| digest.len() == 32);
    digest.map(hex::encode).ok_or(Fault::Malformed("a digest is not 64 hex digits"))
}

fn no_match(header: &Header, posted: &Posted, is_changed: bool) -> Fault {
    let is_legacy = posted.body.starts_with(br#"{"event":"#);
    let is_canonical = posted.body.starts_with(br#"{"id":"evt_"#);
    match header {
        Header::Legacy { .. } if is_canonical => Fault::OtherFamily {
            given: "legacy",
            body: "a canonical event (`id` is evt_…)",
            expected: "t=<unix seconds>,v1=<hex>",
        },
        Header::Canonical { .. } | Header::Standard { .. } if is_legacy => Fault::OtherFamily {
            given: "canonical",
            body: "a legacy event (`event`, `data`)",
            expected: "sha256=<hex>",
        },
        _ if !is_legacy && !is_canonical => Fault::OtherKeys,
        _ if is_changed => Fault::Changed,
        _ => Fault::NoMatch,
    }
}

#[derive(Debug)]
struct Posted {
    body: Vec<u8>,
}

impl Posted {
    /// `None`: it is not JSON.
    fn restore(received: &[u8]) -> Option<Self> {
        let text = received.strip_prefix(BYTE_ORDER_MARK).unwrap_or(received);
        let text = std::str::from_utf8(text).ok()?;
        serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
        let mut body = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = if first == '"' { string_length(rest)? } else { first.len_utf8() };
            let (token, following) = rest.split_at_checked(length)?;
            if first == '"' {
                body.push_str(&serde_json::to_string(&serde_json::from_str::<String>(token).ok()?).ok()?);
            } else if !is_whitespace(first) {
                body.push_str(token);
            }
            rest = following;
        }
        Some(Self { body: body.into_bytes() })
    }
}

/// Whether JSON allows the character between tokens.
fn is_whitespace(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}

/// Returns the length in bytes of the string that a text begins with, including its quotes.
fn string_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    // The text before the position begins after the first quote.
    end.and_then(|end| end.checked_add(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "4b1d0f3a9c8e7d6b5a4f3e2d1c0b9a8f7e6d5c4b3a29181706f5e4d3c2b1a0ff";
    const T: i64 = 1_700_000_000;
    const BODY: &str = r#"{"id":"evt_1","object":"event","data":{"object":{"name":"José \"Zé\" \\","url":"https://a/b","amount":1990,"note":"a\nb\u0001"}}}"#;
    const LEGACY_BODY: &str = r#"{"event":"payment.completed","data":{"transactionId":"1"}}"#;

    fn received(signature: &str, body: impl AsRef<[u8]>) -> Received {
        Received {
            secret: SECRET.into(),
            signature: signature.to_owned(),
            standard_webhooks: None,
            accept_legacy: false,
            body: body.as_ref().to_vec(),
        }
    }

    fn canonical() -> String {
        signature::canonical(&SECRET.into(), T, BODY.as_bytes())
    }

    fn legacy() -> String {
        signature::legacy(&SECRET.into(), LEGACY_BODY.as_bytes())
    }

    fn standard(body: impl AsRef<[u8]>) -> Received {
        let signature = signature::standard_webhooks(&SECRET.into(), "evt_1", T, BODY.as_bytes());
        let headers = Some(("evt_1".to_owned(), T.to_string()));
        Received { standard_webhooks: headers, ..received(&signature, body) }
    }

    fn encoded_secret() -> SecretString {
        let secret: EndpointSecret = serde_json::from_str(&format!("\"{SECRET}\"")).unwrap();
        secret.for_standard_webhooks()
    }

    fn faults(received: &Received) -> Vec<Fault> {
        check(received, T).unwrap_err()
    }

    fn text(received: &Received) -> String {
        let print: Print = std::sync::Arc::new(|_| {});
        verify(received, T, &print).unwrap_err().to_string()
    }

    #[test]
    fn a_right_signature_is_found_whatever_its_age_its_place_and_the_escapes_of_the_body() {
        for (now, is_accepted) in [(T + 300, true), (T - 300, true), (T - 301, false)] {
            assert_eq!(check(&received(&canonical(), BODY), now).is_ok(), is_accepted, "{now}");
        }
        let other = signature::canonical(&"other".into(), T, BODY.as_bytes());
        let both = format!("{other}, {}", canonical().split_once(',').unwrap().1);
        check(&received(&both, BODY), T).unwrap();
        for body in [
            format!("\u{feff}{BODY}"),
            format!(" {BODY}"),
            BODY.replace('é', r"\u00e9"),
            BODY.replace("https://a/b", r"https:\/\/a\/b"),
            BODY.replace(r"\n", r"\u000a"),
        ] {
            assert_eq!(faults(&received(&canonical(), &body)), [Fault::Reserialised], "{body}");
        }
    }

    #[test]
    fn a_body_that_cannot_be_restored_does_not_say_whether_the_secret_is_right() {
        let changed = BODY.replace("1990", "1991");
        for (body, expected) in [
            (changed.clone(), Fault::NoMatch),
            (changed.replace(":1991", ": 1991"), Fault::Changed),
            (
                BODY.replace(r#""id":"evt_1","object":"event""#, r#""object":"event","id":"evt_1""#),
                Fault::OtherKeys,
            ),
            ("{}".to_owned(), Fault::OtherKeys),
            (String::new(), Fault::NotJson),
            (BODY.replace('}', ""), Fault::NotJson),
        ] {
            assert_eq!(faults(&received(&canonical(), &body)), [expected], "{body}");
        }
        assert_eq!(faults(&received(&canonical(), b"\xff")), [Fault::NotJson]);
        let other = SecretString::from("0".repeat(64));
        let other = Received { secret: other, ..received(&canonical(), BODY) };
        insta::assert_snapshot!(text(&other), @"The signature does not match. The body has the form in which the service posts, so another secret is likely: that of another endpoint or mode, the one before a rotation, or the override secret, which signs the deliveries to a payment's webhookUrl. A changed value in the body, or the header of another delivery, has the same effect.");
        assert_eq!(faults(&Received { secret: "0".repeat(64).into(), ..standard(BODY) }), faults(&other));
    }

    #[test]
    fn a_secret_of_another_form_is_named() {
        for secret in
            ["", "abc", &SECRET.to_uppercase(), &format!("{SECRET} "), "whsec_", "whsec_YWJj", "whsec_!"]
        {
            let received = Received { secret: secret.into(), ..received(&canonical(), BODY) };
            assert_eq!(faults(&received), [Fault::SecretForm], "{secret}");
            assert!(secret.len() < SECRET_LENGTH || !text(&received).contains(secret));
        }
        let encoded = Received { secret: encoded_secret(), ..received(&canonical(), BODY) };
        assert_eq!(faults(&encoded), [Fault::SecretOfStandardWebhooks]);
        assert!(!text(&encoded).contains(SECRET));
        let encoded = Received { secret: encoded_secret(), ..standard(BODY) };
        check(&encoded, T).unwrap();
    }

    #[test]
    fn the_legacy_form_is_accepted_only_where_it_is_expected() {
        let right = received(&legacy(), LEGACY_BODY);
        assert_eq!(faults(&right), [Fault::Legacy]);
        assert_eq!(check(&Received { accept_legacy: true, ..right }, T), Ok(None));
        insta::assert_snapshot!(text(&received(&legacy(), BODY)), @"The signature has the legacy form, but this body is a canonical event (`id` is evt_…), which is signed as `t=<unix seconds>,v1=<hex>`.");
        insta::assert_snapshot!(text(&received(&canonical(), LEGACY_BODY)), @"The signature has the canonical form, but this body is a legacy event (`event`, `data`), which is signed as `sha256=<hex>`.");
    }

    #[test]
    fn a_malformed_header_is_refused_with_the_reason() {
        let digest = "a".repeat(64);
        for signature in [
            String::new(),
            format!("X-Service-Signature: {}", canonical()),
            format!("v1={digest}"),
            format!("t={T}"),
            format!("t=+{T},v1={digest}"),
            format!("t={T}000000000000,v1={digest}"),
            format!("t={T},t={T},v1={digest}"),
            format!("t={T},v1={}", digest.get(1..).unwrap()),
            "sha256=zz".to_owned(),
            "v1,abc".to_owned(),
            digest.clone(),
        ] {
            let faults = faults(&received(&signature, BODY));
            assert!(matches!(faults.as_slice(), [Fault::Malformed(_)]), "{signature}: {faults:?}");
        }
        for (signature, timestamp) in
            [("v1,abc", "1700000000"), (canonical().as_str(), "1700000000"), ("v1,abc", "now")]
        {
            let headers = Some(("evt_1".to_owned(), timestamp.to_owned()));
            let faults = faults(&Received { standard_webhooks: headers, ..received(signature, BODY) });
            assert!(matches!(faults.as_slice(), [Fault::Malformed(_)]), "{signature}: {faults:?}");
        }
    }

    #[test]
    fn another_id_and_all_other_faults_are_named_together() {
        let headers = Some(("wd_1".to_owned(), T.to_string()));
        let received = Received { standard_webhooks: headers, ..standard(format!("{BODY}\n")) };
        let expected = [Fault::OtherId("wd_1".to_owned()), Fault::Reserialised];
        assert_eq!(faults(&received), expected);
        let [other_id, reserialised] = expected;
        let all = vec![other_id, reserialised, Fault::Skew(Age(301))];
        assert_eq!(check(&received, T + 301), Err(all));
    }
}
