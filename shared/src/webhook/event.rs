//! Events: what subscribers are told. Which events a change means is a pure function of the row before and
//! after; each is stored once, and its stored text is the very body that is signed and sent.

use serde::{Deserialize, Serialize};

use crate::charge::view::{ChargeView, QrImage};
use crate::charge::{Charge, TransactionStatus};
use crate::config::Links;
use crate::ids::{EventId, Scope};
use crate::payout::{Payout, PayoutStatus, PayoutView};
use crate::store::{Key, Row, StoreError};
use crate::time::Timestamp;

/// The contract's version, in every canonical envelope.
pub const API_VERSION: &str = "2026-11-01";

/// How long events and deliveries are kept, in seconds: 90 days.
pub const KEPT_SECONDS: i64 = 90 * 24 * 60 * 60;

/// Every event that an endpoint can subscribe to (contract: Events).
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum EventType {
    /// Charge created and awaiting payment.
    #[serde(rename = "charge.created")]
    ChargeCreated,
    /// Charge paid and confirmed.
    #[serde(rename = "charge.paid")]
    ChargePaid,
    /// Charge failed or was cancelled.
    #[serde(rename = "charge.failed")]
    ChargeFailed,
    /// Charge expired without payment.
    #[serde(rename = "charge.expired")]
    ChargeExpired,
    /// Withdrawal requested.
    #[serde(rename = "payout.created")]
    PayoutCreated,
    /// Withdrawal settled successfully.
    #[serde(rename = "payout.paid")]
    PayoutPaid,
    /// Withdrawal failed or was rejected.
    #[serde(rename = "payout.failed")]
    PayoutFailed,
}

impl EventType {
    /// Every event with its name.
    pub const ALL: [(&'static str, Self); 7] = [
        ("charge.created", Self::ChargeCreated),
        ("charge.paid", Self::ChargePaid),
        ("charge.failed", Self::ChargeFailed),
        ("charge.expired", Self::ChargeExpired),
        ("payout.created", Self::PayoutCreated),
        ("payout.paid", Self::PayoutPaid),
        ("payout.failed", Self::PayoutFailed),
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ChargeCreated => "charge.created",
            Self::ChargePaid => "charge.paid",
            Self::ChargeFailed => "charge.failed",
            Self::ChargeExpired => "charge.expired",
            Self::PayoutCreated => "payout.created",
            Self::PayoutPaid => "payout.paid",
            Self::PayoutFailed => "payout.failed",
        }
    }

    /// The event of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, event)| *event)
    }
}

/// The events that a charge's change means, from the row before (`None`: it is new) and after.
pub fn events_of_charge(old: Option<&Charge>, new: &Charge) -> Vec<EventType> {
    let before = old.map_or(TransactionStatus::Pending, |charge| charge.status);
    let was_created = before != TransactionStatus::Pending;
    match new.status {
        after if after == before => Vec::new(),
        TransactionStatus::Pending
        | TransactionStatus::Processing
        | TransactionStatus::Refunded
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => Vec::new(),
        TransactionStatus::WaitingPayment => vec![EventType::ChargeCreated],
        TransactionStatus::Paid | TransactionStatus::Approved => match before {
            // A dispute that ends in the merchant's favour is no second payment.
            TransactionStatus::Dispute | TransactionStatus::Chargeback => Vec::new(),
            _ if was_created => vec![EventType::ChargePaid],
            _ => vec![EventType::ChargeCreated, EventType::ChargePaid],
        },
        TransactionStatus::Refused | TransactionStatus::Cancelled => vec![EventType::ChargeFailed],
        TransactionStatus::Expired => vec![EventType::ChargeExpired],
    }
}

/// The event that a payout's change means.
pub fn event_of_payout(old: Option<&Payout>, new: &Payout) -> Option<EventType> {
    if old.map(|payout| payout.status) == Some(new.status) {
        return None;
    }
    Some(match new.status {
        PayoutStatus::Pending => EventType::PayoutCreated,
        PayoutStatus::Paid => EventType::PayoutPaid,
        PayoutStatus::Failed => EventType::PayoutFailed,
    })
}

/// An event's row.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Event {
    /// Named by the row, its version and the event's type: a replayed change has the same id.
    pub id: EventId,
    /// Whose it is.
    pub scope: Scope,
    /// What it tells.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The body that subscribers get, byte for byte.
    pub payload: String,
    /// When the change happened.
    #[serde(with = "crate::time::millis")]
    pub created_at: Timestamp,
}

#[derive(Serialize)]
struct Envelope<T> {
    id: EventId,
    object: &'static str,
    api_version: &'static str,
    #[serde(rename = "type")]
    event_type: EventType,
    created_at: Timestamp,
    data: EnvelopeData<T>,
}

#[derive(Serialize)]
struct EnvelopeData<T> {
    object: T,
}

impl Event {
    /// The event of a charge's change, with its canonical envelope.
    pub fn of_charge(event_type: EventType, charge: &Charge, links: &Links) -> Result<Self, StoreError> {
        let view = ChargeView::new(charge, links, QrImage::ByUrl);
        Self::canonical(event_type, charge.scope, (&charge.key(), charge.version, charge.updated_at), view)
    }

    /// The event of a payout's change, with its canonical envelope.
    pub fn of_payout(event_type: EventType, payout: &Payout) -> Result<Self, StoreError> {
        let row = (&payout.key(), payout.version, payout.updated_at);
        Self::canonical(event_type, payout.scope, row, PayoutView::new(payout))
    }

    fn canonical<T: Serialize>(
        event_type: EventType,
        scope: Scope,
        (row, version, created_at): (&Key, u64, Timestamp),
        object: T,
    ) -> Result<Self, StoreError> {
        let id = EventId::derive(created_at, &row.pk, version, event_type.as_str());
        let envelope = Envelope {
            id,
            object: "event",
            api_version: API_VERSION,
            event_type,
            created_at,
            data: EnvelopeData { object },
        };
        let payload =
            serde_json::to_string(&envelope).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(Self { id, scope, event_type, payload, created_at })
    }

    /// Where an event lives.
    pub fn key_of(scope: &Scope, id: EventId) -> Key {
        Key { pk: format!("events#{scope}"), sk: id.to_string() }
    }
}

impl Row for Event {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, self.id)
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.created_at.plus_seconds(KEPT_SECONDS).ok()
    }
}
