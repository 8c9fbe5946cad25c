//! Notifications: the check of their signature, and the parts of an event that name an object.

use domain::time::Timestamp;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::Sha256;

use crate::objects::{Hidden, Metadata};

/// How far the time of a signature may be from the service's clock, in milliseconds, in both directions.
const TOLERANCE_MS: u64 = 300_000;

/// Returns the event of a notification whose `Stripe-Signature` is right: HMAC-SHA256 of `t.body` by one of the
/// secrets. `body` is the body as it arrived.
///
/// An event only names an object. Read the object, because notifications arrive late, repeated and in any order. The
/// caller checks the account, and [`Event::livemode`].
pub fn verify(
    header: &str,
    body: &[u8],
    secrets: &[SecretString],
    now: Timestamp,
) -> Result<Event, VerifyError> {
    let parts = || header.split(',').filter_map(|part| part.trim().split_once('='));
    let mut times = parts().filter(|(name, _)| *name == "t").map(|(_, value)| value);
    let (Some(time), None) = (times.next(), times.next()) else {
        return Err(VerifyError::Header);
    };
    let is_number = (1..=12).contains(&time.len()) && time.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: i64 = time.parse().ok().filter(|_| is_number).ok_or(VerifyError::Header)?;
    // While a secret is replaced, there are several.
    let signatures = parts().filter(|(name, _)| *name == "v1");
    let signatures: Vec<Vec<u8>> = signatures.filter_map(|(_, value)| hex::decode(value).ok()).collect();
    if signatures.is_empty() {
        return Err(VerifyError::Header);
    }
    let is_signed = secrets.iter().any(|secret| {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes()) else {
            return false;
        };
        mac.update(time.as_bytes());
        mac.update(b".");
        mac.update(body);
        // This comparison takes the same time wherever the bytes differ.
        signatures.iter().any(|signature| mac.clone().verify_slice(signature).is_ok())
    });
    if !is_signed {
        return Err(VerifyError::Signature);
    }
    if now.millis().abs_diff(seconds.saturating_mul(1_000)) > TOLERANCE_MS {
        return Err(VerifyError::Time);
    }
    serde_json::from_slice(body).map_err(|_| VerifyError::Body)
}

/// Why a notification is refused. The texts do not repeat its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error("the header must have one `t` and at least one `v1`")]
    Header,
    #[error("no signature is one of the body by a known secret")]
    Signature,
    #[error("the time of the signature is more than 300 s from the service's clock")]
    Time,
    #[error("the body is not an event")]
    Body,
}

/// An event, as a notification or from the list of events.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Event {
    pub id: String,
    pub livemode: bool,
    /// The connected account that it is of. `None`: the account of the key.
    pub account: Option<String>,
    #[serde(rename = "data")]
    pub object: EventObject,
}

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "EventData")]
pub struct EventObject {
    /// Such as `checkout.session`.
    pub kind: String,
    /// `None`: the object has none, such as a balance.
    pub id: Option<String>,
    /// The payment that it belongs to, or its own id.
    pub payment_intent: Option<String>,
    pub metadata: Hidden<Metadata>,
}

#[derive(Deserialize)]
struct EventData {
    object: Map<String, Value>,
}

impl From<EventData> for EventObject {
    fn from(data: EventData) -> Self {
        data.object.into()
    }
}

impl From<Map<String, Value>> for EventObject {
    /// Reads an object of any kind: what is missing or has another type is absent.
    fn from(object: Map<String, Value>) -> Self {
        let text = |name| object.get(name).and_then(Value::as_str).map(str::to_owned);
        let kind = text("object").unwrap_or_default();
        let payment_intent = text(if kind == "payment_intent" { "id" } else { "payment_intent" });
        let metadata = object.get("metadata").and_then(Value::as_object).into_iter().flatten();
        let metadata = metadata.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        Self { id: text("id"), payment_intent, metadata: Hidden(metadata.collect()), kind }
    }
}
