//! Deliveries in API responses.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use domain::calendar::Day;
use domain::ids::{DeliveryId, EndpointId};
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;

use crate::webhook::body_schema::body_or_null_schema;

use shared::http::field::{Definitions, Word};
use shared::http::{Fields, Problem, Query};

use super::counts::Tally;
use super::{AttemptView, Delivery, DeliveryFilter, DeliveryPage, DeliveryStatus};

/// The numbers of webhook deliveries by status.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "WebhookStats")]
#[serde(rename_all = "UPPERCASE")]
pub struct DeliveryStats {
    /// The number of all deliveries.
    #[serde(rename = "total")]
    total: u64,
    /// Deliveries that wait for their first or next attempt, and those of the last minutes whose status is not known
    /// yet.
    pending: u64,
    /// Deliveries with an attempt in progress.
    processing: u64,
    /// Deliveries that the receiver answered with 2xx.
    delivered: u64,
    /// Deliveries that have no attempts left.
    failed: u64,
    /// Deliveries that were abandoned before they succeeded.
    cancelled: u64,
}

impl DeliveryStats {
    /// Sums up the numbers of days.
    pub(super) fn new(days: &BTreeMap<Day, Tally>) -> Self {
        use DeliveryStatus::{Cancelled, Delivered, Failed, Pending, Processing};
        let counts = [Pending, Processing, Delivered, Failed, Cancelled]
            .map(|status| days.values().fold(0, |sum: u64, day| sum.saturating_add(day.of(Some(status)))));
        let total = counts.into_iter().fold(0, u64::saturating_add);
        let [pending, processing, delivered, failed, cancelled] = counts;
        Self { total, pending, processing, delivered, failed, cancelled }
    }
}

/// A page of webhook deliveries, newest first.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "WebhookDeliveryList")]
pub struct DeliveryListView<'a> {
    /// The deliveries of the page.
    data: Vec<DeliveryView<'a>>,
    /// The number of deliveries that match the filter, on all pages.
    total: u64,
    /// The most deliveries of a page, as requested.
    limit: usize,
    /// The number of deliveries before the page, as requested.
    offset: usize,
    /// `false`: some deliveries of the last minutes have a status that is not known yet, so a list by `PENDING` or
    /// `PROCESSING` may lack them. `total` counts them as `PENDING`.
    complete: bool,
    /// Whether there are more deliveries after this page.
    has_more: bool,
    /// The `starting_after` of the next page. `null` on the last page.
    next_cursor: Option<DeliveryId>,
}

impl<'a> DeliveryListView<'a> {
    pub fn new(page: &'a DeliveryPage, filter: &DeliveryFilter) -> Self {
        let view = |(delivery, payload): &'a (Delivery, Option<String>)| {
            DeliveryView::new(delivery, payload.as_deref())
        };
        Self {
            data: page.deliveries.iter().map(view).collect(),
            total: page.total,
            limit: filter.limit(),
            offset: filter.offset(),
            complete: page.is_complete,
            has_more: page.next.is_some(),
            next_cursor: page.next,
        }
    }
}

/// What the view of a delivery includes on request.
#[derive(Clone, Copy, Debug, Eq, PartialEq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Include {
    Attempts,
}

shared::fields! {
    INCLUDE: Word<Include> = "include", Word::ALL, Optional, "attempts",
        "`attempts`: with the list `attemptLog` of all attempts.";
}

/// The query string of `GET /v1/webhooks/deliveries/{id}`.
pub const DELIVERY_QUERY: Definitions = &[&INCLUDE];

impl Include {
    pub fn parse(query: &Query) -> Result<Option<Self>, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, DELIVERY_QUERY);
        let include = query.read(&mut fields, &INCLUDE);
        fields.finish(Some(include))
    }
}

/// A delivery: one event that is sent to one receiver, with all its attempts.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "WebhookDelivery")]
#[serde(rename_all = "camelCase")]
pub struct DeliveryView<'a> {
    /// The delivery's id. The header `X-Service-Delivery-Id` contains it.
    id: DeliveryId,
    /// The endpoint that receives the event. `null` if the `webhookUrl` of a payment receives it.
    endpoint_id: Option<EndpointId>,
    /// The type of the event.
    event_type: EventType,
    /// The status of the delivery.
    status: DeliveryStatus,
    /// The number of attempts so far.
    attempts: u32,
    /// The most attempts.
    max_attempts: u32,
    /// The HTTP status of the last response. `null` if there was none.
    last_status_code: Option<u16>,
    /// Why the last attempt failed, or why the delivery was cancelled. `null` if neither happened.
    last_error: Option<String>,
    /// The beginning of the last response's body. Present if the last attempt failed; `""` if there was no
    /// response, or it had no body. Absent if the delivery was cancelled before any attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "&str")]
    last_response_body: Option<&'a str>,
    /// When the next attempt is due. `null` unless the delivery is `PENDING`.
    next_retry_at: Option<Timestamp>,
    /// When the delivery succeeded. `null` until then.
    delivered_at: Option<Timestamp>,
    /// When the delivery was created.
    created_at: Timestamp,
    /// When the delivery last changed.
    updated_at: Timestamp,
    /// The body that is sent. `null` if the event has expired.
    #[schemars(schema_with = "body_or_null_schema")]
    payload: Option<&'a RawValue>,
    /// The attempts, oldest first. Present with `?include=attempts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<AttemptView<'a>>")]
    attempt_log: Option<Vec<AttemptView<'a>>>,
}

impl<'a> DeliveryView<'a> {
    /// Returns the view of a delivery. `payload`: the body that is sent; `None`: the event has expired.
    pub fn new(delivery: &'a Delivery, payload: Option<&'a str>) -> Self {
        let waits = delivery.status == DeliveryStatus::Pending;
        Self {
            id: delivery.id,
            endpoint_id: delivery.endpoint,
            event_type: delivery.event_type,
            status: delivery.status,
            // A claim after the last attempt only ends the delivery. The row counts this claim, the API does
            // not.
            attempts: delivery.attempts.min(delivery.max_attempts),
            max_attempts: delivery.max_attempts,
            last_status_code: delivery.last_status_code,
            last_error: delivery.error(),
            last_response_body: delivery
                .last_error
                .as_ref()
                .map(|_| delivery.last_response_body.as_deref().unwrap_or_default()),
            next_retry_at: waits.then_some(delivery.next_attempt_at),
            delivered_at: delivery.delivered_at,
            created_at: delivery.dated_at(),
            updated_at: delivery.updated_at,
            payload: payload.and_then(|text| serde_json::from_str(text).ok()),
            attempt_log: None,
        }
    }

    /// Returns the view of a delivery with what the request includes.
    pub fn including(delivery: &'a Delivery, payload: Option<&'a str>, include: Option<Include>) -> Self {
        let attempt_log = include.map(|Include::Attempts| delivery.attempts_made());
        Self { attempt_log, ..Self::new(delivery, payload) }
    }
}
