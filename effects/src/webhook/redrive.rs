//! Redrive: selects the failed deliveries, and on request the cancelled ones, that an operator resends after
//! an outage of a receiver. A delivery is not selected if another one has delivered its event to the same
//! receiver. The operator's command then resends each selected delivery, as
//! `POST /v1/webhooks/deliveries/{id}/resend` does for a merchant.

use std::collections::HashMap;

use domain::ids::{DeliveryId, EndpointId, EventId, Scope};
use domain::time::Timestamp;

use super::delivery::{Deliveries, Delivery, DeliveryStatus, first_shown};
use super::endpoint::Endpoints;
use shared::account::Accounts;
use shared::store::{Result, Store};

#[derive(Clone, Copy, Debug)]
pub struct Redrive {
    pub scope: Scope,
    /// The earliest time of a delivery: that of its event, or of the request that resent it.
    pub since: Timestamp,
    /// Deliveries to this endpoint; `None`: to all receivers.
    pub endpoint: Option<EndpointId>,
    /// Whether `CANCELLED` deliveries are selected too. A delivery that was cancelled because the merchant
    /// set its endpoint to `INACTIVE` can be resent once the endpoint is `ACTIVE` again.
    pub cancelled: bool,
}

impl Redrive {
    /// Returns the deliveries to resend, oldest first, and how many others can't be resent because their
    /// endpoint was deleted.
    ///
    /// After resends, several deliveries have the same event, event type and receiver. Only one of them is
    /// considered: a `DELIVERED` one, or else the latest. If that one is `DELIVERED`, `PENDING` or
    /// `PROCESSING`, nothing is selected. So a repeated redrive sends nothing twice.
    ///
    /// Reads all deliveries of the scope since [`Redrive::since`].
    pub async fn deliveries(&self, store: &Store, now: Timestamp) -> Result<(Vec<Delivery>, usize)> {
        let mut considered: HashMap<(EventId, &'static str, Option<EndpointId>), Delivery> = HashMap::new();
        let (deliveries, to) = (Deliveries::new(store.clone()), DeliveryId::last_at(Timestamp::MAX));
        let scope = Accounts::new(store.clone()).sharded_scope(&self.scope).await?;
        // Deliveries that are too old to be shown in lists are not resent.
        let mut from = DeliveryId::first_at(self.since).max(first_shown(now));
        loop {
            // A delivery that can't be read is logged and skipped.
            let (rows, read_to) = deliveries.rows(&scope, (from, to)).await?;
            for delivery in rows {
                if self.endpoint.is_some() && self.endpoint != delivery.endpoint {
                    continue;
                }
                let event_and_receiver = (delivery.event, delivery.event_type.as_str(), delivery.endpoint);
                let earlier = considered.get(&event_and_receiver);
                if earlier.is_none_or(|earlier| !earlier.is_delivered()) || delivery.is_delivered() {
                    considered.insert(event_and_receiver, delivery);
                }
            }
            let Some(read_to) = read_to else { break };
            from = read_to.next();
        }
        let endpoints = Endpoints::new(store.clone()).list(&self.scope).await?;
        let has_receiver = |delivery: &Delivery| {
            delivery.endpoint.is_none_or(|id| endpoints.iter().any(|endpoint| endpoint.id == id))
        };
        let selected = considered.into_values().filter(|delivery| self.selects(delivery.status));
        let (mut selected, deleted): (Vec<Delivery>, Vec<Delivery>) = selected.partition(has_receiver);
        selected.sort_by_key(|delivery| delivery.id);
        Ok((selected, deleted.len()))
    }

    fn selects(&self, status: DeliveryStatus) -> bool {
        match status {
            DeliveryStatus::Failed => true,
            DeliveryStatus::Cancelled => self.cancelled,
            DeliveryStatus::Pending | DeliveryStatus::Processing | DeliveryStatus::Delivered => false,
        }
    }
}
