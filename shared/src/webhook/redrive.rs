//! Which deliveries an operator makes due again after an outage: those of whose event an endpoint has heard nothing, however
//! often it was tried. Each is made anew as a merchant's resend makes it.

use std::collections::HashMap;

use domain::ids::{DeliveryId, EndpointId, EventId, Scope};
use domain::time::Timestamp;

use super::delivery::{Delivery, DeliveryStatus, first_shown};
use super::endpoint::Endpoints;
use crate::store::{Order, Store, StoreError, from_item, text};

/// Deliveries that are read at once.
const PAGE: usize = 2_000;

/// What is to be made due again.
#[derive(Clone, Copy, Debug)]
pub struct Redrive {
    /// Whose.
    pub scope: Scope,
    /// Deliveries of events that happened, or were asked for again, from then on.
    pub since: Timestamp,
    /// Those to one endpoint; `None`: all.
    pub endpoint: Option<EndpointId>,
    /// Those too that were cancelled because their merchant set their endpoint to `INACTIVE`.
    pub cancelled: bool,
}

impl Redrive {
    /// The deliveries, oldest first, and how many more to endpoints that are deleted: those nobody can be told of. Of several for one event and endpoint the last one counts: what was delivered or is
    /// on its way since is left alone, so a redrive that is repeated makes nothing twice. Reads all of the scope's since
    /// then.
    pub async fn deliveries(
        &self,
        store: &Store,
        now: Timestamp,
    ) -> Result<(Vec<Delivery>, usize), StoreError> {
        let mut last: HashMap<(EventId, &'static str, Option<EndpointId>), Delivery> = HashMap::new();
        let partition = Delivery::partition(&self.scope);
        let to = DeliveryId::last_at(Timestamp::MAX).to_string();
        // What lists show no more is not sent again.
        let mut from = DeliveryId::first_at(self.since).max(first_shown(now)).to_string();
        loop {
            let items = store.range(&partition, (&from, &to), Order::OldestFirst, PAGE).await?;
            let is_last = items.len() < PAGE;
            // The next page begins with the last of this one again, which changes nothing.
            from = items.last().and_then(|item| text(item, "sk")).unwrap_or(from);
            for item in items {
                let delivery: Delivery = match from_item(item) {
                    Ok(delivery) => delivery,
                    // One that can't be read must not hide the others.
                    Err(error) => {
                        tracing::error!(%error, "a delivery can't be read");
                        continue;
                    }
                };
                if self.endpoint.is_some() && self.endpoint != delivery.endpoint {
                    continue;
                }
                let told = (delivery.event, delivery.event_type.as_str(), delivery.endpoint);
                let known = last.get(&told);
                if known.is_none_or(|known| !known.is_delivered()) || delivery.is_delivered() {
                    last.insert(told, delivery);
                }
            }
            if is_last {
                break;
            }
        }
        let endpoints = Endpoints::new(store.clone()).of(&self.scope).await?;
        let is_there = |delivery: &Delivery| {
            delivery.endpoint.is_none_or(|id| endpoints.iter().any(|endpoint| endpoint.id == id))
        };
        let due = last.into_values().filter(|last| self.takes(last.status));
        let (mut due, deleted): (Vec<Delivery>, Vec<Delivery>) = due.partition(is_there);
        due.sort_by_key(|delivery| delivery.id);
        Ok((due, deleted.len()))
    }

    fn takes(&self, status: DeliveryStatus) -> bool {
        match status {
            DeliveryStatus::Failed => true,
            DeliveryStatus::Cancelled => self.cancelled,
            DeliveryStatus::Pending | DeliveryStatus::Processing | DeliveryStatus::Delivered => false,
        }
    }
}
