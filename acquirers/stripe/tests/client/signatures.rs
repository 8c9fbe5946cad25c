//! The signature of notifications.

use domain::time::Timestamp;
use domain::webhook::signature::SignatureError::{self, Header, Signature, Time};
use domain::webhook::signature::canonical;
use secrecy::SecretString;
use stripe_client::{Event, VerifyError, verify};

use crate::document::object;
use crate::server::START_MS;

const SECRET: &str = "whsec_5f2d8c1e";
const NOW: i64 = START_MS / 1_000;

fn sign(secret: &str, time: &str, body: &[u8]) -> String {
    let header = canonical(&secret.into(), time.parse().unwrap(), body);
    header.split_once("v1=").unwrap().1.to_owned()
}

fn check(header: &str, body: &[u8], secrets: &[&str]) -> Result<Event, VerifyError> {
    let secrets: Vec<SecretString> = secrets.iter().map(|secret| (*secret).to_owned().into()).collect();
    verify(header, body, &secrets, Timestamp::from_millis(START_MS).unwrap())
}

fn refused(why: SignatureError) -> Result<Event, VerifyError> {
    Err(VerifyError::Signature(why))
}

fn body() -> Vec<u8> {
    object("event", "full").to_string().into_bytes()
}

#[test]
fn a_signed_event_names_its_object() {
    let header = format!("t={NOW},v1={}", sign(SECRET, &NOW.to_string(), &body()));
    let event = check(&header, &body(), &[SECRET]).unwrap();
    assert_eq!((event.id.as_str(), event.account.as_deref()), ("evt_1", Some("account")));
    assert!(!event.livemode);
    assert_eq!((event.object.kind.as_str(), event.object.id.as_deref()), ("refund", Some("re_1")));
    assert_eq!(event.object.payment_intent.as_deref(), Some("pi_1"));
}

/// Computed by the library `stripe` 16.1.0 of Python.
#[test]
fn the_signature_is_that_of_the_official_library() {
    let body = br#"{"id":"evt_1","object":"event","type":"charge.refunded","livemode":true,"created":1795348800,"data":{"object":{"id":"ch_1","object":"charge"}}}"#;
    let header = "t=1795348800,v1=d3ca808009cb8b34b75dcaaa87bc7fdb2a8f78477e894922c7fbf68228be2349";
    assert_eq!(check(header, body, &[SECRET]).unwrap().object.id.as_deref(), Some("ch_1"));
}

#[test]
fn any_of_several_signatures_and_secrets_counts() {
    let time = NOW.to_string();
    let (good, other) = (sign(SECRET, &time, &body()), sign("whsec_other", &time, &body()));
    for header in [
        format!("t={time},v1={good}"),
        format!("t={time},v1={other},v1={good}"),
        format!("t={time},v1={good},v1={other},v0=00"),
        format!("v1=zz,v1={good}, t={time},new,x=1"),
        format!("t={time},v1={}", good.to_uppercase()),
    ] {
        assert!(check(&header, &body(), &[SECRET]).is_ok(), "{header}");
        assert!(check(&header, &body(), &["whsec_old", SECRET]).is_ok(), "{header}");
        assert_eq!(check(&header, &body(), &["whsec_old"]), refused(Signature), "{header}");
        assert_eq!(check(&header, &body(), &[]), refused(Signature), "{header}");
    }
}

#[test]
fn the_time_may_be_300_seconds_from_now_in_both_directions() {
    for (offset, is_accepted) in [(-301, false), (-300, true), (0, true), (300, true), (301, false)] {
        let time = (NOW + offset).to_string();
        let header = format!("t={time},v1={}", sign(SECRET, &time, &body()));
        let outcome = check(&header, &body(), &[SECRET]);
        assert!(if is_accepted { outcome.is_ok() } else { outcome == refused(Time) }, "{offset}");
    }
    for time in ["0", "999999999999"] {
        let header = format!("t={time},v1={}", sign(SECRET, time, &body()));
        assert_eq!(check(&header, &body(), &[SECRET]), refused(Time), "{time}");
    }
}

#[test]
fn a_header_without_one_time_and_a_signature_is_refused() {
    let time = NOW.to_string();
    let good = sign(SECRET, &time, &body());
    for header in [
        String::new(),
        format!("t={time}"),
        format!("v1={good}"),
        format!("t={time},t={time},v1={good}"),
        format!("t={time},v0={good}"),
        format!("t={time},v1=xyz"),
        format!("t={time},v1"),
        format!("t=+{time},v1={good}"),
        format!("t= {time},v1={good}"),
        format!("t=,v1={good}"),
        format!("t=9999999999999,v1={good}"),
        format!("t={time};v1={good}"),
    ] {
        assert_eq!(check(&header, &body(), &[SECRET]), refused(Header), "{header}");
    }
}

#[test]
fn one_changed_byte_makes_the_signature_wrong() {
    let time = NOW.to_string();
    let good = sign(SECRET, &time, &body());
    let mut changed = body();
    for at in 0..changed.len() {
        changed[at] ^= 1;
        let header = format!("t={time},v1={good}");
        assert_eq!(check(&header, &changed, &[SECRET]), refused(Signature), "{at}");
        changed[at] ^= 1;
    }
    for signature in [&good[..62], "", &format!("{good}00")] {
        let header = format!("t={time},v1={signature}");
        assert_eq!(check(&header, &body(), &[SECRET]), refused(Signature), "{signature}");
    }
    // The time is signed too.
    let header = format!("t={},v1={good}", NOW + 1);
    assert_eq!(check(&header, &body(), &[SECRET]), refused(Signature));
}

#[test]
fn a_signed_body_that_is_no_event_is_refused() {
    for body in ["", "{}", "[]", "null", "{\"id\": 1}", "\u{0}"] {
        let time = NOW.to_string();
        let header = format!("t={time},v1={}", sign(SECRET, &time, body.as_bytes()));
        assert_eq!(check(&header, body.as_bytes(), &[SECRET]), Err(VerifyError::Body), "{body}");
    }
}
