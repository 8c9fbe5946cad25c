//! Ids of webhook events, deliveries, endpoints and resend requests.

use super::account::Scope;
use super::define::digest;
use super::ulid::{Ulid, random_ids, ulid_id};
use crate::time::Timestamp;

ulid_id! {
    /// The id of an event: `evt_` and 26 characters. It stays the same across retries, so receivers deduplicate
    /// on it.
    EventId, "evt_"
}

ulid_id! {
    /// The id of one delivery of an event to an endpoint: `wd_` and 26 characters. All its attempts share it.
    DeliveryId, "wd_"
}

ulid_id! {
    /// The id of a webhook endpoint: `wh_` and 26 characters.
    EndpointId, "wh_"
}

ulid_id! {
    /// The id of a resend request: `rs_` and 26 characters.
    ResendId, "rs_"
}

ulid_id! {
    /// The id of a recovery of an endpoint: `rc_` and 26 characters.
    RecoveryId, "rc_"
}

impl RecoveryId {
    /// `name` is the idempotency key of the request. The id has no time, so that a repeated request derives the same.
    pub fn derive(scope: &Scope, endpoint: Option<EndpointId>, name: &str) -> Self {
        let (scope, endpoint) = (scope.to_string(), endpoint.map(|endpoint| endpoint.0.0.to_be_bytes()));
        let endpoint: &[u8] = endpoint.as_ref().map_or(&[], |bytes| bytes);
        let hash = digest("recovery", &[scope.as_bytes(), endpoint, name.as_bytes()]);
        Self(Ulid::new(Timestamp::MIN, &hash))
    }

    /// The request that the recovery's deliveries belong to, with the time of the recovery.
    pub fn resend(&self, at: Timestamp) -> ResendId {
        ResendId(Ulid::new(at, &digest("resend", &[&self.0.0.to_be_bytes()])))
    }
}

const LAST_CHARACTER_BITS: u128 = 31;

impl EventId {
    /// The event of a row's change to `version` at `at`. `name` distinguishes ids that are derived from one
    /// change.
    pub fn derive(at: Timestamp, row: &str, version: u64, name: &str) -> Self {
        let hash = digest("event", &[row.as_bytes(), &version.to_be_bytes(), name.as_bytes()]);
        Self(Ulid::new(at, &hash))
    }

    /// The id of the row that stores this event. The events of one change share a row, and their ids differ
    /// from the row's only in the last character. So the row can be found by an event's id, and both sort
    /// together.
    #[must_use]
    pub fn row_id(self) -> Self {
        Self(Ulid(self.0.0 & !LAST_CHARACTER_BITS))
    }

    /// Returns the id of the event with this code (1 to 31) in the row with this id.
    #[must_use]
    pub fn with_code(self, code: u8) -> Self {
        Self(Ulid((self.0.0 & !LAST_CHARACTER_BITS) | (u128::from(code) & LAST_CHARACTER_BITS)))
    }

    /// Whether the row with this id makes the scheduler fold the rollups of its scope at once: one in 64, by the
    /// hash in its id.
    pub fn is_sampled(&self) -> bool {
        // The last five bits are 0 in the id of every row.
        (self.0.0 >> 5).trailing_zeros() >= 6
    }
}

impl DeliveryId {
    /// An event's first delivery to an endpoint, or to the charge's `webhookUrl` (`None`). It begins with the
    /// event's time.
    pub fn derive(event: &EventId, endpoint: Option<EndpointId>) -> Self {
        Self(Ulid::with_time_of(event.0, &Self::hash(event, endpoint, &[0; 4])))
    }

    /// Derives the id of a delivery that a resend request creates. It begins with the request's time.
    pub fn for_resend(event: &EventId, endpoint: Option<EndpointId>, resend: &ResendId) -> Self {
        Self(Ulid::with_time_of(resend.0, &Self::hash(event, endpoint, &resend.0.0.to_be_bytes())))
    }

    /// Whether this delivery makes the scheduler advance the checkpoint of delivery counts: one in 64, by its
    /// hash.
    pub fn is_sampled(&self) -> bool {
        self.0.0.trailing_zeros() >= 6
    }

    /// Returns the id immediately before this one.
    #[must_use]
    pub fn previous(self) -> Self {
        Self(Ulid(self.0.0.saturating_sub(1)))
    }

    /// Returns the id immediately after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(Ulid(self.0.0.saturating_add(1)))
    }

    fn hash(event: &EventId, endpoint: Option<EndpointId>, resend: &[u8]) -> [u8; 32] {
        let endpoint = endpoint.map(|endpoint| endpoint.0.0.to_be_bytes());
        let endpoint: &[u8] = endpoint.as_ref().map_or(&[], |bytes| bytes);
        digest("delivery", &[&event.0.0.to_be_bytes(), endpoint, resend])
    }
}

random_ids!(EndpointId, ResendId);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn an_event_id_is_stable_and_contains_its_time() {
        let at = at("2026-11-21T01:02:03.004Z");
        let id = EventId::derive(at, "CH#1", 2, "charge.paid");
        insta::assert_snapshot!(id, @"evt_01m7xszsqwk549s9y2zxghq9p9");
        assert_eq!(id.timestamp(), Some(at));
        assert_eq!(id, EventId::derive(at, "CH#1", 2, "charge.paid"));
        assert_ne!(id, EventId::derive(at, "CH#1", 3, "charge.paid"));
        assert_ne!(id, EventId::derive(at, "CH#1", 2, "charge.created"));
        assert_ne!(id, EventId::derive(at, "CH#2", 2, "charge.paid"));
    }

    #[test]
    fn a_delivery_id_contains_the_time_of_its_event_or_resend_request() {
        let created = at("2026-11-21T00:00:00Z");
        let event = EventId::derive(created, "CH#1", 2, "charge.paid");
        let endpoint = EndpointId::new(at("2026-01-01T00:00:00Z"), [7; 10]);
        let id = DeliveryId::derive(&event, Some(endpoint));
        insta::assert_snapshot!(id, @"wd_01m7xpe60063pqsxx1gmvkjbw5");
        assert_eq!(id.timestamp(), Some(created));
        assert_ne!(id, DeliveryId::derive(&event, None));
        let requested = at("2026-11-22T00:00:00Z");
        let resent =
            |random| DeliveryId::for_resend(&event, Some(endpoint), &ResendId::new(requested, random));
        assert_eq!(resent([7; 10]).timestamp(), Some(requested));
        assert_eq!(resent([7; 10]), resent([7; 10]));
        assert_ne!(resent([7; 10]), resent([8; 10]));
        assert_ne!(id, DeliveryId::derive(&event, Some(EndpointId::new(created, [7; 10]))));
    }

    #[test]
    fn one_row_and_one_delivery_in_64_are_sampled() {
        let delivery = |hash: u128| DeliveryId(Ulid((1 << 100) | hash));
        assert_eq!((0..64).filter(|hash| delivery(*hash).is_sampled()).collect::<Vec<_>>(), [0]);
        let of_row = |hash: u128| EventId(Ulid((1 << 100) | (hash << 5)));
        assert_eq!((0..64).filter(|hash| of_row(*hash).is_sampled()).collect::<Vec<_>>(), [0]);
        let row = of_row(0b1_0101);
        assert_eq!([1, 31].map(|code| row.with_code(code).0.0 - row.0.0), [1, 31]);
        assert_eq!(row.with_code(31).with_code(2), row.with_code(2), "a code replaces another");
    }
}
