//! All event types. Subscriptions, the event catalog and list filters use this table.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The family of an event, which determines its envelope and the form of its signature.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Family {
    /// Envelope with an id and a public object. MED events use it too.
    Canonical,
    /// Envelope `{event, data}`; deprecated.
    Legacy,
}

macro_rules! event_types {
    ($($variant:ident, $name:literal, $family:ident, $description:literal;)+) => {
        /// The type of an event.
        #[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
        #[schemars(rename = "EventType")]
        pub enum EventType {
            $(#[doc = $description] #[serde(rename = $name)] $variant,)+
        }

        impl EventType {
            /// Every event type with its name.
            pub const ALL: &'static [(&'static str, Self)] = &[$(($name, Self::$variant)),+];

            /// Returns the name on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            pub fn family(self) -> Family {
                match self {
                    $(Self::$variant => Family::$family,)+
                }
            }

            /// Returns the description that the event catalog shows: one sentence.
            pub fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => $description,)+
                }
            }
        }
    };
}

event_types! {
    ChargeCreated, "charge.created", Canonical, "Charge created and awaiting payment.";
    ChargePaid, "charge.paid", Canonical, "Charge paid and confirmed.";
    ChargeFailed, "charge.failed", Canonical, "Charge failed or was cancelled.";
    ChargeExpired, "charge.expired", Canonical, "Charge expired without payment.";
    ChargeRefunded, "charge.refunded", Canonical,
        "The whole amount of a charge was returned to its payer. Not sent because of a MED case.";
    RefundCreated, "refund.created", Canonical, "Refund requested and taken from the wallet.";
    RefundSucceeded, "refund.succeeded", Canonical, "The refunded money was sent to the payer.";
    RefundFailed, "refund.failed", Canonical, "Refund failed, and its money is back in the wallet.";
    PayoutCreated, "payout.created", Canonical, "Withdrawal requested.";
    PayoutPaid, "payout.paid", Canonical, "Withdrawal settled successfully.";
    PayoutFailed, "payout.failed", Canonical, "Withdrawal failed or was rejected.";
    MedCaseCreated, "med_case.created", Canonical, "A MED case opened.";
    MedCaseUpdated, "med_case.updated", Canonical,
        "A MED case changed its status, or evidence was asked for.";
    MedCaseDeadlineApproaching, "med_case.deadline_approaching", Canonical,
        "An open MED case is not answered, and its deadline is in 48, 24 or 6 hours, or sooner.";
    MedResolved, "med.resolved", Canonical, "Where the money of a MED case ended.";
    ReportReady, "report.ready", Canonical, "The file of a report can be downloaded.";
    PaymentCreated, "payment.created", Legacy, "Payment created and awaiting its payer.";
    PaymentCompleted, "payment.completed", Legacy, "Payment settled.";
    PaymentFailed, "payment.failed", Legacy,
        "Payment declined, cancelled, expired, charged back or disputed.";
    PaymentExpired, "payment.expired", Legacy, "Payment expired unpaid.";
    PaymentRefunded, "payment.refunded", Legacy, "A refund of the payment changed its status, as `data.refund.status` shows; it may have failed.";
    PaymentStatusChanged, "payment.status_changed", Legacy, "The payment's status changed.";
    WithdrawalCreated, "withdrawal.created", Legacy, "Withdrawal requested.";
    WithdrawalCompleted, "withdrawal.completed", Legacy, "Withdrawal settled.";
    WithdrawalFailed, "withdrawal.failed", Legacy, "Withdrawal failed or was rejected.";
    WithdrawalStatusChanged, "withdrawal.status_changed", Legacy, "The withdrawal's status changed.";
    WebhookTest, "webhook.test", Canonical, "A test of one endpoint, asked for by hand.";
}

impl EventType {
    /// `webhook.test` is excluded: it is delivered to the tested endpoint regardless of subscriptions.
    pub fn subscribable() -> impl Iterator<Item = Self> {
        Self::ALL.iter().map(|(_, event)| *event).filter(|event| *event != Self::WebhookTest)
    }

    /// Distinguishes the ids of the events of one change: 1 to 31. It must never change, because ids contain
    /// it. The event with the greatest code is listed first.
    pub fn code(self) -> u8 {
        match self {
            Self::MedCaseDeadlineApproaching => 26,
            Self::ReportReady => 27,
            Self::RefundCreated => 25,
            Self::RefundSucceeded => 24,
            Self::RefundFailed => 23,
            Self::ChargeRefunded => 22,
            Self::ChargeCreated => 21,
            Self::ChargePaid => 20,
            Self::ChargeExpired => 19,
            Self::ChargeFailed => 18,
            Self::PayoutCreated => 17,
            Self::PayoutPaid => 16,
            Self::PayoutFailed => 15,
            Self::MedCaseCreated => 14,
            Self::MedCaseUpdated => 13,
            Self::MedResolved => 12,
            Self::WebhookTest => 11,
            Self::PaymentCreated => 10,
            Self::PaymentCompleted => 9,
            Self::PaymentExpired => 8,
            Self::PaymentFailed => 7,
            Self::PaymentRefunded => 6,
            Self::PaymentStatusChanged => 5,
            Self::WithdrawalCreated => 4,
            Self::WithdrawalCompleted => 3,
            Self::WithdrawalFailed => 2,
            Self::WithdrawalStatusChanged => 1,
        }
    }

    /// Returns the event type with this name. `None`: there is none, or endpoints cannot subscribe to it.
    pub fn named(name: &str) -> Option<Self> {
        Self::subscribable().find(|event| event.as_str() == name)
    }
}

/// The schema of an event type that an endpoint can subscribe to.
pub(crate) fn subscribable_schema(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = EventType::subscribable().map(EventType::as_str).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// The schema of a list of event types that an endpoint can subscribe to.
pub fn subscribable_list_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": subscribable_schema(generator) })
}

/// An event type that an endpoint can subscribe to.
#[derive(Debug, JsonSchema, Serialize)]
pub struct CatalogEntry {
    /// The name of the event type.
    #[schemars(schema_with = "subscribable_schema")]
    event: EventType,
    /// When the event is sent.
    description: &'static str,
    /// `true` for the deprecated families `payment.*` and `withdrawal.*`; absent for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool", extend("const" = true))]
    legacy: Option<bool>,
}

/// Returns the event catalog: all event types that endpoints can subscribe to.
pub fn catalog() -> Vec<CatalogEntry> {
    let entry = |event: EventType| CatalogEntry {
        event,
        description: event.description(),
        legacy: (event.family() == Family::Legacy).then_some(true),
    };
    EventType::subscribable().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_type_is_stored_by_its_name() {
        for (name, event) in EventType::ALL {
            assert_eq!(serde_json::to_value(event).unwrap(), *name);
            assert_eq!(event.as_str(), *name);
        }
    }

    #[test]
    fn every_event_type_has_a_distinct_code() {
        let mut codes: Vec<u8> = EventType::ALL.iter().map(|(_, event)| event.code()).collect();
        codes.sort_unstable();
        assert_eq!(codes, (1..=27).collect::<Vec<u8>>());
    }

    #[test]
    fn a_test_event_cannot_be_subscribed_to() {
        assert_eq!(EventType::named("webhook.test"), None);
        assert_eq!(EventType::named("charge.paid"), Some(EventType::ChargePaid));
        assert_eq!(EventType::subscribable().count(), 26);
    }
}
