//! Rows that a request has read to show deliveries: the deliveries, their events and their endpoints.

use std::collections::{HashMap, HashSet};

use domain::ids::{ChargeId, DeliveryId, EndpointId, EventId, Scope};
use domain::row::Key;
use domain::time::Timestamp;

use super::entry::Entry;
use super::{Abandonment, Cause, Deliveries, Delivery, DeliveryStatus};
use crate::webhook::endpoint::Endpoint;
use crate::webhook::event::Event;
use crate::webhook::parse_or_log;
use shared::store::{Item, StoreError, from_item, key_of_item};

#[derive(Debug)]
pub(super) struct Rows {
    scope: Scope,
    deliveries: HashMap<DeliveryId, Delivery>,
    events: HashMap<EventId, Event>,
    endpoints: HashMap<EndpointId, Endpoint>,
    deleted_at: HashMap<EndpointId, Timestamp>,
    /// All keys that were read, also those without a row.
    read: HashSet<Key>,
}

impl Rows {
    pub(super) fn of(scope: Scope) -> Self {
        let (deliveries, events, endpoints, deleted_at, read) = Default::default();
        Self { scope, deliveries, events, endpoints, deleted_at, read }
    }

    pub(super) fn receiver_keys(scope: &Scope, endpoint: Option<EndpointId>) -> impl Iterator<Item = Key> {
        let keys = endpoint.map(|id| [Endpoint::key_of(scope, id), Abandonment::tombstone_key(scope, id)]);
        keys.into_iter().flatten()
    }

    fn add(&mut self, item: Item) {
        let Some(key) = key_of_item(&item) else { return };
        if Delivery::is_at(&key) {
            self.deliveries.extend(parse_or_log(item).map(|delivery: Delivery| (delivery.id, delivery)));
            return;
        }
        let added = if Endpoint::is_at(&key) {
            from_item::<Endpoint>(item).map(|endpoint| drop(self.endpoints.insert(endpoint.id, endpoint)))
        } else if Abandonment::is_at(&key) {
            from_item::<Abandonment>(item).map(|deletion| {
                self.deleted_at.insert(deletion.endpoint, deletion.at);
            })
        } else {
            from_item::<Event>(item).map(|event| drop(self.events.insert(event.id, event)))
        };
        // A row that can't be read must not hide the delivery, or show it as cancelled.
        if let Err(error) = added {
            tracing::error!(%error, "can't read the event, endpoint or tombstone of a delivery");
            self.read.remove(&key);
        }
    }

    pub(super) fn has_read(&self, id: DeliveryId) -> bool {
        self.read.contains(&Delivery::key_of(&self.scope, id))
    }

    pub(super) fn stored(&self, id: DeliveryId) -> Option<&Delivery> {
        self.deliveries.get(&id)
    }

    pub(super) fn endpoint(&self, id: EndpointId) -> Option<&Endpoint> {
        self.endpoints.get(&id)
    }

    /// Returns why a pending delivery is abandoned; `None`: it is not, or its endpoint was not read.
    fn cause(&self, endpoint: Option<EndpointId>, generation: u64) -> Option<Cause> {
        let id = endpoint.filter(|id| self.knows(*id))?;
        Cause::of_generation(generation, self.endpoints.get(&id))
    }

    /// Whether the row of an endpoint was read, or found to be missing.
    fn knows(&self, endpoint: EndpointId) -> bool {
        self.read.contains(&Endpoint::key_of(&self.scope, endpoint))
    }

    /// Returns the charge that a delivery is about; `None`: it is about another object, or its event was not read or has
    /// expired.
    pub(super) fn charge(&self, delivery: &Delivery) -> Option<ChargeId> {
        self.events.get(&delivery.event)?.charge_as(delivery.event_type)
    }

    /// Returns the stored status of a delivery; `None`: only its entry in the log was read, or its row has expired.
    pub(super) fn stored_status(&self, entry: &Entry) -> Option<DeliveryStatus> {
        self.deliveries.get(&entry.id).map(|delivery| delivery.status).or(entry.status)
    }

    /// Returns the status that is shown: an abandoned delivery is `CANCELLED`.
    pub(super) fn shown_status(&self, entry: &Entry) -> Option<DeliveryStatus> {
        let status = self.stored_status(entry)?;
        let is_abandoned =
            status == DeliveryStatus::Pending && self.cause(entry.endpoint, entry.generation).is_some();
        Some(if is_abandoned { DeliveryStatus::Cancelled } else { status })
    }

    /// Returns a delivery as it is shown, with its body; `None` for the body: the event has expired.
    pub(super) fn delivery(&self, id: DeliveryId) -> Option<(Delivery, Option<String>)> {
        self.deliveries.get(&id).cloned().map(|delivery| self.show(delivery))
    }

    /// Returns a delivery as it is shown, like [`Self::delivery`].
    pub(super) fn show(&self, delivery: Delivery) -> (Delivery, Option<String>) {
        let body = self.events.get(&delivery.event).and_then(|event| event.body_as(delivery.event_type));
        let is_known = |id: &EndpointId| self.knows(*id);
        let Some(id) = delivery.endpoint.filter(is_known) else { return (delivery, body) };
        (delivery.shown_with(self.endpoints.get(&id), self.deleted_at.get(&id).copied()), body)
    }
}

impl Deliveries {
    /// Reads the rows with these keys that were not read yet.
    pub(super) async fn load(&self, rows: &mut Rows, keys: Vec<Key>) -> Result<(), StoreError> {
        let new: Vec<Key> = keys.into_iter().filter(|key| rows.read.insert(key.clone())).collect();
        if !new.is_empty() {
            for item in self.store.batch_get(&new).await? {
                rows.add(item);
            }
        }
        Ok(())
    }
}
