//! Notifications: the check of their signature, and the parts of an event that name an object.

use domain::time::Timestamp;
use domain::webhook::signature::{SignatureError, check_canonical};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::objects::{Hidden, Metadata};

/// Returns the event of a notification whose `Stripe-Signature` is right, as [`check_canonical`] says.
///
/// An event only names an object. Read the object, because notifications arrive late, repeated and in any order. The
/// caller checks the account, and [`Event::livemode`].
pub fn verify(
    header: &str,
    body: &[u8],
    secrets: &[SecretString],
    now: Timestamp,
) -> Result<Event, VerifyError> {
    check_canonical(header, body, secrets, now)?;
    serde_json::from_slice(body).map_err(|_| VerifyError::Body)
}

/// Why a notification is refused. The texts do not repeat its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Signature(#[from] SignatureError),
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
    /// It is a refund or dispute, or a payment that has one.
    pub is_contested: bool,
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
        let is_refunded = object.get("amount_refunded").and_then(Value::as_i64).is_some_and(|sum| sum > 0);
        let is_disputed = object.get("disputed").and_then(Value::as_bool) == Some(true);
        let is_contested = is_refunded || is_disputed || ["refund", "dispute"].contains(&&*kind);
        Self { id: text("id"), payment_intent, metadata: Hidden(metadata.collect()), is_contested, kind }
    }
}
