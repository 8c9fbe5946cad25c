//! Sort keys of deliveries in the indexes `log` and `list`.
//!
//! A sort key in the log is `wd_…#evt_…#event.type#wh_…`, with `-` as the endpoint of a delivery to a
//! `webhookUrl`. The shard of the event follows, unless it is the first one, so that the key of the event's row
//! is known without the delivery's row. In `list`, the status precedes. So a sort key contains everything that a
//! list can be filtered by, in the log except the status, and entries are filtered and counted without reading
//! rows.
//!
//! The row of a scope's counts has an entry in the index too, the [`Marker`].

use std::fmt;

use domain::ids::{DeliveryId, EndpointId, EventId};
use domain::row::sortable;
use domain::shard::Shard;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::webhook::event_type::EventType;

use super::{Delivery, DeliveryStatus};

/// Replaces the endpoint's id for a delivery to a `webhookUrl`.
pub(super) const NO_ENDPOINT: &str = "-";

/// The attributes of a delivery that lists filter by and that never change: all except the status.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Kind {
    pub(super) event_type: EventType,
    /// `None`: the delivery is to a payment's own `webhookUrl`.
    pub(super) endpoint: Option<EndpointId>,
}

impl Delivery {
    /// Returns the event type and the endpoint.
    pub(super) fn kind(&self) -> Kind {
        Kind { event_type: self.event_type, endpoint: self.endpoint }
    }

    /// Returns the sort key of its entry in the log.
    pub(super) fn log_key(&self) -> LogKey {
        LogKey { id: self.id, event: self.event, kind: self.kind(), shard: self.shard }
    }

    /// Returns the sort key of its entry in `list` in this status.
    pub(super) fn list_key(&self, status: DeliveryStatus) -> ListKey {
        ListKey { status, log_key: self.log_key() }
    }
}

/// The sort key of a delivery's entry in the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct LogKey {
    pub(super) id: DeliveryId,
    pub(super) event: EventId,
    pub(super) kind: Kind,
    /// The shard of the event.
    pub(super) shard: Shard,
}

impl LogKey {
    /// Parses a sort key of the log. `None` if a later version wrote it with an event type that this version does
    /// not know: this version can't read the row either.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('#');
        let (id, event) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let kind = kind_of(parts.next()?, parts.next()?)?;
        let shard = parts.next().and_then(Shard::parse).unwrap_or_default();
        Some(Self { id, event, kind, shard })
    }
}

impl fmt::Display for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}#{}", self.id, self.event, kind_text(self.kind, self.shard))
    }
}

/// The sort key of a delivery's entry in `list`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ListKey {
    pub(super) status: DeliveryStatus,
    pub(super) log_key: LogKey,
}

impl ListKey {
    /// Parses a sort key of `list`; `None` for a [`Marker`].
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (status, log_key) = text.split_once('#')?;
        Some(Self { status: DeliveryStatus::named(status)?, log_key: LogKey::parse(log_key)? })
    }
}

/// Parses the event type and the endpoint of a sort key.
fn kind_of(event_type: &str, endpoint: &str) -> Option<Kind> {
    let (_, event_type) = EventType::ALL.iter().find(|(name, _)| *name == event_type)?;
    let endpoint = match endpoint {
        NO_ENDPOINT => None,
        id => Some(id.parse().ok()?),
    };
    Some(Kind { event_type: *event_type, endpoint })
}

impl fmt::Display for ListKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.status.as_str(), self.log_key)
    }
}

/// Returns the event type, the endpoint and the shard as they are in a sort key.
fn kind_text(kind: Kind, shard: Shard) -> String {
    let endpoint = kind.endpoint.map_or_else(|| NO_ENDPOINT.to_owned(), |endpoint| endpoint.to_string());
    shard.partition(format!("{}#{endpoint}", kind.event_type.as_str()))
}

/// The entry of a scope's counts in the index: how often the counts were written, and when last.
///
/// A delivery leaves the status list in the transaction that counts it. A reader reads the list and the
/// counts in two requests, so it could miss deliveries or count them twice. Therefore the reader compares
/// this entry with the row of the counts. If both show the same last write, no delivery was counted between
/// the two reads.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Marker {
    pub(super) writes: u64,
    pub(super) at: Option<Timestamp>,
}

/// The beginning of the marker's sort key. It sorts after `CANCELLED`, `DELIVERED` and `FAILED` entries, and
/// before `PENDING` and `PROCESSING` ones.
const MARKER: &str = "FAILED~";

/// If the counts were written less than this many milliseconds before a read, a delivery may have just moved
/// to the done list. The time is longer than the difference between the clocks of two functions.
const RECENTLY_MS: i64 = 10_000;

impl Marker {
    /// Whether the counts were written shortly before, or while, a list was read.
    pub(super) fn is_recent(&self, now: Timestamp) -> bool {
        self.at.is_some_and(|at| now.millis_since(at) < RECENTLY_MS)
    }

    /// Parses a sort key of the index; `None` for a delivery's.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (writes, at) = text.strip_prefix(MARKER)?.split_once('~')?;
        let at = at.parse().ok().and_then(|at| Timestamp::from_millis(at).ok());
        Some(Self { writes: writes.parse().ok()?, at })
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARKER}{}~{}", self.writes, sortable(self.at.unwrap_or(Timestamp::MIN)))
    }
}

/// Returns the range of the sort keys of deliveries in a status, from the id `from` on. Without a status,
/// returns the range of all entries of the partition, including the marker, whatever their ids.
pub(super) fn bounds(status: Option<DeliveryStatus>, from: DeliveryId) -> (String, String) {
    // '~' sorts after all characters of ids and statuses.
    match status {
        Some(status) => (format!("{}#{from}", status.as_str()), format!("{}#~", status.as_str())),
        None => (" ".to_owned(), "~".to_owned()),
    }
}

/// Returns the range of [`bounds`], extended to the marker if the status is a done one. The extended range
/// also contains the entries in the statuses that sort between the status and the marker.
pub(super) fn bounds_with_marker(status: Option<DeliveryStatus>, from: DeliveryId) -> (String, String) {
    let (first, last) = bounds(status, from);
    match status {
        Some(DeliveryStatus::Delivered | DeliveryStatus::Failed | DeliveryStatus::Cancelled) => {
            (first, format!("{MARKER}~"))
        }
        Some(DeliveryStatus::Pending | DeliveryStatus::Processing) | None => (first, last),
    }
}

/// Returns the end of the range of the sort keys of deliveries in a status, up to the id `to`, included.
pub(super) fn last_key_in_status(status: DeliveryStatus, to: DeliveryId) -> String {
    format!("{}#{to}~", status.as_str())
}

#[cfg(test)]
mod tests {
    use domain::shard::ShardCount;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    fn key(status: DeliveryStatus, kind: Kind) -> ListKey {
        let (id, event) = (DeliveryId::first_at(at(7)), EventId::first_at(at(6)));
        ListKey { status, log_key: LogKey { id, event, kind, shard: Shard::FIRST } }
    }

    #[test]
    fn a_sort_key_has_status_delivery_event_type_and_endpoint() {
        for status in DeliveryStatus::all() {
            for endpoint in [None, Some(EndpointId::first_at(at(1)))] {
                for (name, event_type) in EventType::ALL {
                    let written = key(status, Kind { event_type: *event_type, endpoint });
                    let text = written.to_string();
                    assert!(text.contains(&format!("#{name}#")), "{text}");
                    assert_eq!(ListKey::parse(&text), Some(written), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_sort_key_of_the_log_has_delivery_event_type_endpoint_and_shard() {
        for endpoint in [None, Some(EndpointId::first_at(Timestamp::MIN))] {
            for (name, event_type) in EventType::ALL {
                for shard in ShardCount::MAX.shards() {
                    let kind = Kind { event_type: *event_type, endpoint };
                    let event = EventId::first_at(Timestamp::MIN);
                    let written = LogKey { id: DeliveryId::first_at(at(7)), event, kind, shard };
                    let text = written.to_string();
                    assert!(text.contains(&format!("#{name}#")), "{text}");
                    assert_eq!(LogKey::parse(&text), Some(written), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_sort_key_with_an_unknown_event_type_is_not_parsed() {
        let id = DeliveryId::first_at(at(7));
        assert_eq!(LogKey::parse(&format!("{id}#{}#later.type#-", EventId::first_at(at(6)))), None);
    }

    #[test]
    fn a_marker_sorts_between_done_and_open_deliveries_and_is_read_with_each_done_status() {
        let marker = Marker { writes: 12, at: Some(at(1_700_000_000_000)) };
        let text = marker.to_string();
        assert_eq!((Marker::parse(&text), ListKey::parse(&text)), (Some(marker), None));
        let from = DeliveryId::first_at(Timestamp::MIN);
        for status in DeliveryStatus::all() {
            let kind = Kind { event_type: EventType::ChargePaid, endpoint: None };
            let listed = key(status, kind).to_string();
            let is_open = matches!(status, DeliveryStatus::Pending | DeliveryStatus::Processing);
            assert_eq!(listed > text, is_open, "{listed}");
            assert_eq!(Marker::parse(&listed), None);
            let contains = |(first, last): (String, String), text: &String| first <= *text && *text <= last;
            assert!(
                contains(bounds(Some(status), from), &listed) && !contains(bounds(Some(status), from), &text)
            );
            assert!(contains(bounds_with_marker(Some(status), from), &listed));
            assert_eq!(contains(bounds_with_marker(Some(status), from), &text), !is_open);
        }
        assert!(bounds(None, from).0 <= text && text <= bounds(None, from).1);
    }

    #[test]
    fn counts_were_written_recently_if_less_than_ten_seconds_ago() {
        let written = Marker { writes: 1, at: Some(at(0)) };
        assert!(
            written.is_recent(at(9_999))
                && !written.is_recent(at(10_000))
                && !Marker::default().is_recent(at(0))
        );
    }
}
