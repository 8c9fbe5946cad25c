//! The webhooks: one for each event name, with its headers and body.

use domain::ids::{DeliveryId, EventId, IdText as _};
use domain::webhook::event_type::{EventType, Family};
use serde_json::{Map, Value, json};

use super::parameter;
use crate::responses;

const HEADERS: [(&str, &str, &str); 3] = [
    ("X-Service-Delivery-Id", "The id of the delivery. It is the same on every retry.", DeliveryId::PATTERN),
    ("X-Service-Event-Type", "The name of the event.", "^[a-z_.]+$"),
    ("X-Service-Mode", "`test` or `live`.", "^(test|live)$"),
];

const CANONICAL_SIGNATURE: (&str, &str, &str) = (
    "X-Service-Signature",
    "`t` is the Unix time of the attempt. `v1` is HMAC-SHA256 of `<t>.<raw body>`, keyed with the 64 characters of the endpoint's secret, in hexadecimal. Stripe's libraries verify this header.",
    "^t=[0-9]+,v1=[0-9a-f]{64}$",
);

const LEGACY_SIGNATURE: (&str, &str, &str) = (
    "X-Service-Signature",
    "HMAC-SHA256 of the raw body, keyed with the 64 characters of the secret, in hexadecimal.",
    "^sha256=[0-9a-f]{64}$",
);

const EVENT_ID: (&str, &str, &str) = (
    "X-Service-Event-Id",
    "The id of the event. It is the same on every retry and resend. The signature does not cover it.",
    EventId::PATTERN,
);

const STANDARD_WEBHOOKS: [(&str, &str, &str); 3] = [
    ("webhook-id", "The id of the event. It is the same on every retry and resend.", EventId::PATTERN),
    ("webhook-timestamp", "The Unix time of the attempt.", "^[0-9]+$"),
    ("webhook-signature", "The signature of Standard Webhooks.", "^v1,[0-9A-Za-z+/]+=*$"),
];

pub(super) fn all() -> Value {
    let mut webhooks = Map::new();
    for (event, body) in responses::webhook_bodies() {
        webhooks.insert(event.as_str().to_owned(), json!({"post": describe(event, &body)}));
    }
    Value::Object(webhooks)
}

fn describe(event: EventType, body: &str) -> Value {
    let name = event.as_str();
    let mut headers: Vec<(&str, &str, &str)> = HEADERS.to_vec();
    match event.family() {
        Family::Canonical => {
            headers.push(CANONICAL_SIGNATURE);
            headers.extend(STANDARD_WEBHOOKS);
        }
        Family::Legacy => headers.extend([LEGACY_SIGNATURE, EVENT_ID]),
    }
    let parameters: Vec<Value> = headers
        .iter()
        .map(|(name, text, pattern)| {
            parameter("header", name, true, text, &json!({"type": "string", "pattern": pattern}))
        })
        .collect();
    let schema = json!({"$ref": format!("#/components/schemas/{body}")});
    json!({
        "operationId": format!("on_{}", name.replace('.', "_")),
        "summary": name,
        "description": event.description(),
        "parameters": parameters,
        "requestBody": {"required": true, "content": {"application/json": {"schema": schema}}},
        "responses": {
            "2XX": {"description": "Delivered. Any other answer, or none within 30 seconds, is retried."},
        },
        "security": [],
    })
}
