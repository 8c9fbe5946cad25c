//! Webhooks: which events a change publishes, when failed deliveries are retried, and how deliveries are
//! signed.

pub mod event_rules;
pub mod event_type;
pub mod failure;
pub mod schedule;
pub mod signature;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// Whether an endpoint receives new events.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize, VariantArray,
)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE")]
#[schemars(rename = "WebhookEndpointStatus", description = "Whether an endpoint receives new events.")]
pub enum EndpointStatus {
    /// It receives the events that it is subscribed to.
    Active,
    /// It receives no new events.
    Inactive,
}

crate::named!(EndpointStatus);
