//! Redrive: selects the deliveries that an operator resends after an outage of a receiver. These are the ones whose
//! event was never delivered to the endpoint. Each is then resent as a merchant's request would.

use std::collections::HashMap;

use domain::ids::{DeliveryId, EndpointId, EventId, Scope};
use domain::time::Timestamp;

use super::delivery::{Delivery, DeliveryStatus, first_shown};
use super::endpoint::Endpoints;
use crate::store::{Order, Store, StoreError, from_item, text};

/// Deliveries that one read reads.
const PAGE: usize = 2_000;

/// The selection of an operator's redrive.
#[derive(Clone, Copy, Debug)]
pub struct Redrive {
    /// The account and mode.
    pub scope: Scope,
    /// Deliveries whose event or resend request is of this time or later.
    pub since: Timestamp,
    /// Deliveries to this endpoint; `None`: to all receivers.
    pub endpoint: Option<EndpointId>,
    /// Whether `CANCELLED` deliveries are selected too: those whose endpoint the merchant had set to `INACTIVE`.
    pub cancelled: bool,
}

impl Redrive {
    /// Returns the deliveries to resend, oldest first, and how many others can't be resent because their endpoint was
    /// deleted.
    ///
    /// Of several deliveries of one event to one endpoint, the one that was delivered counts, otherwise the last. So an
    /// event that was delivered or is being delivered is not selected, and a repeated redrive sends nothing twice.
    ///
    /// Reads all deliveries of the scope since [`Redrive::since`].
    pub async fn deliveries(
        &self,
        store: &Store,
        now: Timestamp,
    ) -> Result<(Vec<Delivery>, usize), StoreError> {
        let mut last: HashMap<(EventId, &'static str, Option<EndpointId>), Delivery> = HashMap::new();
        let partition = Delivery::partition(&self.scope);
        let to = DeliveryId::last_at(Timestamp::MAX).to_string();
        // Deliveries that lists no longer show are not resent.
        let mut from = DeliveryId::first_at(self.since).max(first_shown(now)).to_string();
        loop {
            let items = store.range(&partition, (&from, &to), Order::OldestFirst, PAGE).await?;
            let is_last = items.len() < PAGE;
            // The next read begins with the last delivery of this one. Reading it twice changes nothing.
            from = items.last().and_then(|item| text(item, "sk")).unwrap_or(from);
            for item in items {
                let delivery: Delivery = match from_item(item) {
                    Ok(delivery) => delivery,
                    // A delivery that can't be read must not block the others.
                    Err(error) => {
                        tracing::error!(%error, "can't read a delivery; it is not redriven");
                        continue;
                    }
                };
                if self.endpoint.is_some() && self.endpoint != delivery.endpoint {
                    continue;
                }
                let event_and_receiver = (delivery.event, delivery.event_type.as_str(), delivery.endpoint);
                let earlier = last.get(&event_and_receiver);
                if earlier.is_none_or(|earlier| !earlier.is_delivered()) || delivery.is_delivered() {
                    last.insert(event_and_receiver, delivery);
                }
            }
            if is_last {
                break;
            }
        }
        let endpoints = Endpoints::new(store.clone()).list(&self.scope).await?;
        let has_receiver = |delivery: &Delivery| {
            delivery.endpoint.is_none_or(|id| endpoints.iter().any(|endpoint| endpoint.id == id))
        };
        let due = last.into_values().filter(|last| self.selects(last.status));
        let (mut due, deleted): (Vec<Delivery>, Vec<Delivery>) = due.partition(has_receiver);
        due.sort_by_key(|delivery| delivery.id);
        Ok((due, deleted.len()))
    }

    fn selects(&self, status: DeliveryStatus) -> bool {
        match status {
            DeliveryStatus::Failed => true,
            DeliveryStatus::Cancelled => self.cancelled,
            DeliveryStatus::Pending | DeliveryStatus::Processing | DeliveryStatus::Delivered => false,
        }
    }
}
