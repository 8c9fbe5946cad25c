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

use super::listen::Print;
use crate::error::{Context, Error, Result};

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
    #[error(
        "--secret must be the 64 characters (0-9, a-f) of `secret`, or the `standardWebhooksSecret` that begins with whsec_, without blanks. The service creates no other secrets."
    )]
    SecretForm,
    #[error(
        "The secret is right, but it has the form for Standard Webhooks (whsec_…). X-Service-Signature is keyed with `secret`: the 64 characters that the base64 after whsec_ encodes."
    )]
    SecretOfStandardWebhooks,
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
    /// The secret or the body is another one, which an HMAC does not show.
    #[error(
        "The signature does not match, and neither does that of the body as the service posts it. So another secret is likely: that of another endpoint or mode, the one before a rotation, or the override secret, which signs the deliveries to a payment's webhookUrl. A body with other keys, values or numbers, another --id (the event's, not X-Service-Delivery-Id), or the header of another delivery has the same effect: give the bytes as they arrived."
    )]
    NoMatch,
    #[error(
        "The secret is right, but the time of the signature is {0} this machine's clock. At most 5 min are accepted, in either direction: synchronise the clock, or take a newer attempt. Each attempt is signed with its own time."
    )]
    Skew(Age),
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
        let side = if self.0 < 0 { "ahead of" } else { "behind" };
        write!(f, "{} s {side}", self.0.unsigned_abs())
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
    let length = read.context(&doing)?;
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
        if as_posted(&received.body).is_none_or(|posted| !header.signs(&secret, &posted)) {
            return Err(vec![header.family_fault(&received.body).unwrap_or(Fault::NoMatch)]);
        }
        faults.push(Fault::Reserialised);
    }
    if is_encoded && header.id.is_none() {
        faults.push(Fault::SecretOfStandardWebhooks);
    }
    let age = header.time.map(|time| Age(now_seconds.saturating_sub(time)));
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
struct Header {
    /// `None`: the header is not that of Standard Webhooks.
    id: Option<String>,
    /// In unix seconds; `None`: the legacy form.
    time: Option<i64>,
    signatures: Vec<String>,
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
            (Some(digest), _) => {
                let signatures = vec![format!("sha256={}", hex_digest(digest)?)];
                Ok(Self { id: None, time: None, signatures })
            }
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
        Ok(Self { id: None, time: Some(t), signatures })
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
        Ok(Self { id: Some(id.trim().to_owned()), time: Some(timestamp), signatures })
    }

    fn signs(&self, secret: &SecretString, body: &[u8]) -> bool {
        self.signatures.contains(&match (&self.id, self.time) {
            (_, None) => signature::legacy(secret, body),
            (None, Some(time)) => signature::canonical(secret, time, body),
            (Some(id), Some(time)) => signature::standard_webhooks(secret, id, time, body),
        })
    }

    /// Returns the fault of a header that does not belong to this kind of event.
    fn family_fault(&self, body: &[u8]) -> Option<Fault> {
        if self.time.is_none() && body.starts_with(br#"{"id":"evt_"#) {
            return Some(Fault::OtherFamily {
                given: "legacy",
                body: "a canonical event (`id` is evt_…)",
                expected: "t=<unix seconds>,v1=<hex>",
            });
        }
        let is_other = self.time.is_some() && body.starts_with(br#"{"event":"#);
        is_other.then_some(Fault::OtherFamily {
            given: "canonical",
            body: "a legacy event (`event`, `data`)",
            expected: "sha256=<hex>",
        })
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

/// Writes a body as the service posts it. `None`: it is not UTF-8, or has a text that is not JSON.
fn as_posted(received: &[u8]) -> Option<Vec<u8>> {
    let mut rest = std::str::from_utf8(received.strip_prefix(BYTE_ORDER_MARK).unwrap_or(received)).ok()?;
    let mut body = String::new();
    while let Some(first) = rest.chars().next() {
        let length = if first == '"' {
            let mut texts = serde_json::Deserializer::from_str(rest).into_iter::<String>();
            body += &serde_json::to_string(&texts.next()?.ok()?).ok()?;
            texts.byte_offset()
        } else {
            // JSON allows these characters between tokens.
            body.extend(Some(first).filter(|first| !" \t\n\r".contains(*first)));
            first.len_utf8()
        };
        rest = rest.get(length..)?;
    }
    Some(body.into_bytes())
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
        for body in [
            BODY.replace("1990", "1991"),
            BODY.replace(r#""id":"evt_1","object":"event""#, r#""object":"event","id":"evt_1""#),
            String::new(),
            BODY.replace('}', ""),
            BODY.replace(r#"\u0001""#, r"\u"),
        ] {
            assert_eq!(faults(&received(&canonical(), &body)), [Fault::NoMatch], "{body}");
        }
        assert_eq!(faults(&received(&canonical(), b"\xff")), [Fault::NoMatch]);
        for right in [received(&canonical(), BODY), standard(BODY)] {
            assert_eq!(faults(&Received { secret: "0".repeat(64).into(), ..right }), [Fault::NoMatch]);
        }
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
    fn all_faults_are_named_together() {
        let received = standard(format!("{BODY}\n"));
        assert_eq!(check(&received, T + 301), Err(vec![Fault::Reserialised, Fault::Skew(Age(301))]));
    }
}
