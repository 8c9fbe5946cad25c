//! Entries of deliveries in the indexes `log` and `list`.
//!
//! A sort key of the log is `wd_…#evt_…#event.type#wh_…#generation#shard`, with `-` as the endpoint of a delivery
//! to a `webhookUrl`. In `list`, the status precedes. So an entry has everything that lists filter by, except the
//! status of an unlisted delivery, and no row is read to filter or to count.

use domain::ids::{DeliveryId, EndpointId, EventId, IdError, Scope};
use domain::row::Key;
use domain::shard::Shard;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::webhook::event_type::EventType;

use super::{Delivery, DeliveryStatus};
use crate::webhook::event::Event;
use shared::checkpoint::BELATED_MS;
use shared::store::ListEntry;

/// Replaces the endpoint's id for a delivery to a `webhookUrl`.
const NO_ENDPOINT: &str = "-";

/// Ends the sort key of a delivery that its own insert has counted.
const COUNTED: &str = "counted";

/// Ends the sort key of a delivery that was inserted some time after the time in its id, see [`BELATED_MS`].
const BELATED: &str = "belated";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::webhook) struct Entry {
    pub(super) id: DeliveryId,
    pub(super) event: EventId,
    pub(super) event_type: EventType,
    /// `None`: the delivery is to a payment's own `webhookUrl`.
    pub(super) endpoint: Option<EndpointId>,
    pub(super) generation: u64,
    pub(super) shard: Shard,
    /// [`Delivery::counted`].
    pub(super) counted: bool,
    /// Whether it was inserted [`BELATED_MS`] after the time in its id, or later.
    pub(super) is_belated: bool,
    /// `None`: the entry is of the log.
    pub(super) status: Option<DeliveryStatus>,
}

impl Entry {
    /// `None` if a later version wrote the entry with an event type that this version does not know: this version
    /// can't read the row either.
    pub(super) fn parse(sort: &str) -> Option<Self> {
        let (first, rest) = sort.split_once('#')?;
        let status = DeliveryStatus::named(first);
        let mut parts = if status.is_some() { rest } else { sort }.split('#');
        let (id, event) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let name = parts.next()?;
        let (_, event_type) = EventType::ALL.iter().find(|(known, _)| *known == name)?;
        let endpoint = parse_endpoint(parts.next()?).ok()?;
        let generation = parts.next()?.parse().ok()?;
        let shard = Shard::parse(parts.next()?).unwrap_or_default();
        let mark = parts.next();
        let (counted, is_belated) = (mark == Some(COUNTED), mark == Some(BELATED));
        let event_type = *event_type;
        Some(Self { id, event, event_type, endpoint, generation, shard, counted, is_belated, status })
    }

    pub(super) fn of(entry: &ListEntry) -> Option<Self> {
        Self::parse(&entry.sort)
    }

    pub(super) fn log_sort(&self) -> String {
        let Self { id, event, generation, shard, .. } = self;
        let (event_type, endpoint) = (self.event_type.as_str(), endpoint_text(self.endpoint));
        let log = format!("{id}#{event}#{event_type}#{endpoint}#{generation}#{shard}");
        match (self.counted, self.is_belated) {
            (true, _) => format!("{log}#{COUNTED}"),
            (false, true) => format!("{log}#{BELATED}"),
            (false, false) => log,
        }
    }

    pub(super) fn list_sort(&self, status: DeliveryStatus) -> String {
        format!("{}#{}", status.as_str(), self.log_sort())
    }

    pub(super) fn at(&self) -> Timestamp {
        self.id.timestamp().unwrap_or(Timestamp::MIN)
    }

    /// Returns the keys of the rows of the delivery and of its event.
    pub(super) fn keys(&self, scope: &Scope) -> [Key; 2] {
        [Delivery::key_of(scope, self.id), Event::key_of(scope, self.shard, self.event)]
    }
}

impl Delivery {
    pub(super) fn entry(&self) -> Entry {
        let Self { id, event, event_type, endpoint, generation, shard, counted, status, .. } = *self;
        let at = id.timestamp().unwrap_or(self.created_at);
        // The insert of one that is later still counts it.
        let is_belated = !counted && self.created_at.millis_since(at) >= BELATED_MS;
        Entry {
            id,
            event,
            event_type,
            endpoint,
            generation,
            shard,
            counted,
            is_belated,
            status: Some(status),
        }
    }
}

pub(super) fn endpoint_text(endpoint: Option<EndpointId>) -> String {
    endpoint.map_or_else(|| NO_ENDPOINT.to_owned(), |endpoint| endpoint.to_string())
}

pub(super) fn parse_endpoint(text: &str) -> Result<Option<EndpointId>, IdError> {
    if text == NO_ENDPOINT { Ok(None) } else { text.parse().map(Some) }
}

#[cfg(test)]
mod tests {
    use domain::shard::ShardCount;

    use super::super::testing::delivery;
    use super::*;
    use crate::charge_testing::at;
    use crate::webhook::endpoint::testing::endpoint;

    #[test]
    fn an_entry_is_read_as_it_was_written_with_every_event_type_endpoint_shard_and_status() {
        let entry = delivery(&[endpoint()], at(0)).entry();
        for (_, event_type) in EventType::ALL {
            for (endpoint, counted, is_belated) in
                [(None, true, false), (entry.endpoint, false, false), (entry.endpoint, false, true)]
            {
                for shard in ShardCount::MAX.shards() {
                    let event_type = *event_type;
                    let log =
                        Entry { event_type, endpoint, shard, counted, is_belated, status: None, ..entry };
                    assert_eq!(Entry::parse(&log.log_sort()), Some(log));
                    for status in DeliveryStatus::all() {
                        let listed = Entry { status: Some(status), generation: 3, ..log };
                        assert_eq!(Entry::parse(&listed.list_sort(status)), Some(listed));
                    }
                }
            }
        }
    }

    #[test]
    fn an_entry_with_an_unknown_event_type_is_not_parsed() {
        let sort = delivery(&[endpoint()], at(0)).entry().log_sort();
        assert_eq!(Entry::parse(&sort.replace("charge.paid", "later.type")), None);
    }
}
