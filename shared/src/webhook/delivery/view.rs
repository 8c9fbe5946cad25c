//! Deliveries in API responses.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use domain::ids::{DeliveryId, EndpointId};
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;

use super::{Delivery, DeliveryFilter, DeliveryPage, DeliveryStatus};

/// The numbers of deliveries by status, as the API shows them (contract: Delivery stats object).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub struct DeliveryStats {
    #[serde(rename = "total")]
    total: u64,
    pending: u64,
    processing: u64,
    delivered: u64,
    failed: u64,
    cancelled: u64,
}

impl DeliveryStats {
    /// Adds `count` deliveries in a status.
    pub(super) fn add(&mut self, status: DeliveryStatus, count: u64) {
        self.total = self.total.saturating_add(count);
        let counter = match status {
            DeliveryStatus::Pending => &mut self.pending,
            DeliveryStatus::Processing => &mut self.processing,
            DeliveryStatus::Delivered => &mut self.delivered,
            DeliveryStatus::Failed => &mut self.failed,
            DeliveryStatus::Cancelled => &mut self.cancelled,
        };
        *counter = counter.saturating_add(count);
    }
}

/// A page of deliveries as the API shows it.
#[derive(Debug, Serialize)]
pub struct DeliveryListView<'a> {
    data: Vec<DeliveryView<'a>>,
    total: u64,
    limit: usize,
    offset: usize,
    has_more: bool,
    next_cursor: Option<DeliveryId>,
}

impl<'a> DeliveryListView<'a> {
    /// Returns the view of a page that was read with `filter`.
    pub fn new(page: &'a DeliveryPage, filter: &DeliveryFilter) -> Self {
        let view = |(delivery, payload): &'a (Delivery, Option<String>)| {
            DeliveryView::new(delivery, payload.as_deref())
        };
        Self {
            data: page.deliveries.iter().map(view).collect(),
            total: page.total,
            limit: filter.limit(),
            offset: filter.offset(),
            has_more: page.next.is_some(),
            next_cursor: page.next,
        }
    }
}

/// A delivery as the API shows it (contract: Webhook delivery).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryView<'a> {
    id: DeliveryId,
    endpoint_id: Option<EndpointId>,
    event_type: EventType,
    status: DeliveryStatus,
    attempts: u32,
    max_attempts: u32,
    last_status_code: Option<u16>,
    last_error: Option<Cow<'a, str>>,
    /// Present if the last attempt failed; `""` if there was no response, or it had no body. Absent if the
    /// delivery was cancelled before any attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_response_body: Option<&'a str>,
    next_retry_at: Option<Timestamp>,
    delivered_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    payload: Option<&'a RawValue>,
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
                .has_failed()
                .then(|| delivery.last_response_body.as_deref().unwrap_or_default()),
            next_retry_at: waits.then_some(delivery.next_attempt_at),
            delivered_at: delivery.delivered_at,
            created_at: delivery.dated_at(),
            updated_at: delivery.updated_at,
            payload: payload.and_then(|text| serde_json::from_str(text).ok()),
        }
    }
}
