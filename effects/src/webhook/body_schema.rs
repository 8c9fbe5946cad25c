//! The JSON Schemas of webhook bodies: one for each event type, because the type determines the object.

use std::collections::BTreeMap;

use domain::webhook::event_type::{EventType, Family};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::endpoint::EndpointView;
use super::event::Envelope;
use super::legacy::{PaymentData, WithdrawalData};
use money::charge::view::ChargeView;
use money::med::{CaseView, ResolvedView};
use money::payout::PayoutView;
use money::refund::RefundObject;
use money::report::ReportView;

/// Adds the schema of the body of an event type to the generator's definitions. Returns a reference to it.
pub fn body_schema(event_type: EventType, generator: &mut SchemaGenerator) -> Schema {
    let mut schema = match event_type {
        EventType::ChargeCreated
        | EventType::ChargePaid
        | EventType::ChargeFailed
        | EventType::ChargeExpired
        | EventType::ChargeRefunded => Envelope::<ChargeView<'_>>::json_schema(generator),
        EventType::RefundCreated | EventType::RefundSucceeded | EventType::RefundFailed => {
            Envelope::<RefundObject<'_>>::json_schema(generator)
        }
        EventType::PayoutCreated | EventType::PayoutPaid | EventType::PayoutFailed => {
            Envelope::<PayoutView<'_>>::json_schema(generator)
        }
        EventType::MedCaseCreated | EventType::MedCaseUpdated | EventType::MedCaseDeadlineApproaching => {
            Envelope::<CaseView<'_>>::json_schema(generator)
        }
        EventType::ReportReady => Envelope::<ReportView>::json_schema(generator),
        EventType::MedResolved => Envelope::<ResolvedView>::json_schema(generator),
        EventType::WebhookTest => Envelope::<EndpointView<'_>>::json_schema(generator),
        EventType::PaymentCreated
        | EventType::PaymentCompleted
        | EventType::PaymentFailed
        | EventType::PaymentExpired
        | EventType::PaymentRefunded
        | EventType::PaymentStatusChanged => legacy_schema::<PaymentData<'_>>(generator),
        EventType::WithdrawalCreated
        | EventType::WithdrawalCompleted
        | EventType::WithdrawalFailed
        | EventType::WithdrawalStatusChanged => legacy_schema::<WithdrawalData>(generator),
    };
    schema.insert("description".to_owned(), event_type.description().into());
    let name_field = match event_type.family() {
        Family::Canonical => "/properties/type",
        Family::Legacy => "/properties/event",
    };
    if let Some(name) = schema.pointer_mut(name_field) {
        *name = json!({ "type": "string", "description": "The type of the event.", "const": event_type });
    }
    define(body_schema_name(event_type), schema, generator)
}

/// Returns the name that [`body_schema`] gives to the schema of an event type.
pub fn body_schema_name(event_type: EventType) -> String {
    format!("{event_type:?}Event")
}

/// Adds a schema to the generator's definitions, and returns a reference to it.
fn define(name: String, schema: Schema, generator: &mut SchemaGenerator) -> Schema {
    let reference = format!("#{}/{name}", generator.settings().definitions_path);
    generator.definitions_mut().insert(name, schema.to_value());
    Schema::new_ref(reference)
}

/// The body of a legacy event ([`super::event::Event::body_as`]).
fn legacy_schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "event": {},
            "data": legacy_data_schema::<T>(generator),
            "test": {
                "type": "boolean",
                "description": "`true` in a sample that a test of an endpoint sends. Absent from all others.",
            },
        },
        "required": ["event", "data"],
    })
}

fn legacy_data_schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<T>();
    schema.insert("description".to_owned(), "The change.".into());
    schema
}

pub(super) fn body_or_null_schema(generator: &mut SchemaGenerator) -> Schema {
    let bodies: Vec<Schema> = all_types().map(|event_type| body_schema(event_type, generator)).collect();
    let any = json_schema!({ "description": "The body of a webhook.", "anyOf": bodies });
    json_schema!({ "anyOf": [define("WebhookBody".to_owned(), any, generator), { "type": "null" }] })
}

pub(super) fn canonical_schema(generator: &mut SchemaGenerator) -> Schema {
    let canonical = all_types().filter(|event_type| event_type.family() == Family::Canonical);
    let bodies: Vec<(&str, Schema)> =
        canonical.map(|event_type| (event_type.as_str(), body_schema(event_type, generator))).collect();
    let mapping: BTreeMap<&str, &Value> =
        bodies.iter().filter_map(|(name, body)| Some((*name, body.get("$ref")?))).collect();
    let bodies_of_types: Vec<&Schema> = bodies.iter().map(|(_, body)| body).collect();
    let union = json_schema!({
        "description": "A canonical event: the body that is sent, byte for byte.",
        "oneOf": bodies_of_types,
        "discriminator": { "propertyName": "type", "mapping": mapping },
    });
    define("CanonicalEvent".to_owned(), union, generator)
}

fn all_types() -> impl Iterator<Item = EventType> {
    EventType::ALL.iter().map(|(_, event_type)| *event_type)
}

pub(super) fn legacy_name_schema(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<EventType> =
        all_types().filter(|event_type| event_type.family() == Family::Legacy).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// The `data` of any legacy event type.
pub(super) fn any_legacy_data_schema(generator: &mut SchemaGenerator) -> Schema {
    let (payment, withdrawal) =
        (generator.subschema_for::<PaymentData<'_>>(), generator.subschema_for::<WithdrawalData>());
    json_schema!({ "anyOf": [payment, withdrawal] })
}
