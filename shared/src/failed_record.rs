//! Rows of stream records that could not be processed for a temporary cause.
//!
//! The event dispatcher inserts the row when the record fails first. When it sets the record aside, it makes
//! the row due and stores the record in the bucket. The scheduler then changes the row's due time at growing
//! intervals. The stream passes each such change to the dispatcher, which replays the record.

use serde::{Deserialize, Serialize};

use domain::retention::EVENTS_KEPT_SECONDS;
use domain::row::{Indexes, Key, Row};
use domain::time::Timestamp;

const PARTITION: &str = "failed-records#";
const SORT: &str = "record";

/// When the scheduler starts the first replay of a record, in seconds after it was set aside.
const FIRST_REPLAY_SECONDS: i64 = 120;

/// How long the row of a record that is not set aside is kept after its first failure, in seconds: a day, the
/// age at which DynamoDB removes the record from the stream.
const KEPT_SECONDS: i64 = 24 * 60 * 60;

/// A stream record that failed for a temporary cause, or a group of such records of one batch.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FailedRecord {
    /// The sequence number of the record. For a group, that of its first record, `-`, and a hash of all of them.
    pub sequence_number: String,
    /// When the record failed first while DynamoDB accepted this row.
    #[serde(with = "domain::time::millis")]
    pub first_failed_at: Timestamp,
    /// When the record was set aside. `None`: it is retried with its batch, or its replay has succeeded.
    #[serde(with = "domain::time::millis_option")]
    pub set_aside_at: Option<Timestamp>,
    /// When the first replay starts, or the next one if the dispatcher has decided that. `None`:
    /// `FIRST_REPLAY_SECONDS` after the record was set aside.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub replay_at: Option<Timestamp>,
    /// The version, which each replacement increases.
    pub version: u64,
}

impl FailedRecord {
    /// Creates the row of a record that fails for the first time.
    pub fn new(sequence_number: &str, now: Timestamp) -> Self {
        let sequence_number = sequence_number.to_owned();
        Self { sequence_number, first_failed_at: now, set_aside_at: None, replay_at: None, version: 1 }
    }

    /// Checks whether a key is that of such a row.
    pub fn is_at(key: &Key) -> bool {
        key.sk == SORT && key.pk.starts_with(PARTITION)
    }

    /// Returns the row of a record that is set aside, so that the scheduler starts its replays. `replay_at`: when it
    /// starts the first one; `None`: after `FIRST_REPLAY_SECONDS`.
    #[must_use]
    pub fn set_aside(&self, now: Timestamp, replay_at: Option<Timestamp>) -> Self {
        let version = self.version.saturating_add(1);
        Self { set_aside_at: Some(now), replay_at, version, ..self.clone() }
    }

    /// Returns the row of a record that is still set aside, and whose next replay starts at this time.
    #[must_use]
    pub fn postponed(&self, replay_at: Timestamp) -> Self {
        Self { replay_at: Some(replay_at), version: self.version.saturating_add(1), ..self.clone() }
    }

    /// Returns the row of a record whose replay has succeeded.
    #[must_use]
    pub fn replayed(&self) -> Self {
        Self { set_aside_at: None, replay_at: None, version: self.version.saturating_add(1), ..self.clone() }
    }
}

impl Row for FailedRecord {
    fn key(&self) -> Key {
        Key { pk: format!("{PARTITION}{}", self.sequence_number), sk: SORT.to_owned() }
    }

    fn indexes(&self) -> Indexes {
        let due = self
            .set_aside_at
            .map(|at| self.replay_at.unwrap_or_else(|| at.saturating_plus_seconds(FIRST_REPLAY_SECONDS)));
        Indexes { due, ..Indexes::default() }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        let kept = if self.set_aside_at.is_some() { EVENTS_KEPT_SECONDS } else { KEPT_SECONDS };
        Some(self.first_failed_at.saturating_plus_seconds(kept))
    }
}

#[cfg(test)]
mod tests {
    use domain::row::sortable;

    use super::*;
    use crate::store::{from_item, text, to_item};

    #[test]
    fn only_the_row_of_a_record_that_is_set_aside_is_due_and_it_is_kept_as_long_as_events() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let failed = FailedRecord::new("111", at("2026-11-21T12:00:00Z"));
        let set_aside = failed.set_aside(at("2026-11-21T12:15:00Z"), None);
        let postponed = set_aside.postponed(at("2026-11-21T12:20:00Z"));
        let replayed = postponed.replayed();
        assert!(FailedRecord::is_at(&failed.key()));
        for (row, due, kept_until) in [
            (failed, None, "2026-11-22T12:00:00Z"),
            (set_aside, Some("2026-11-21T12:17:00Z"), "2027-02-19T12:00:00Z"),
            (postponed, Some("2026-11-21T12:20:00Z"), "2027-02-19T12:00:00Z"),
            (replayed, None, "2026-11-22T12:00:00Z"),
        ] {
            let item = to_item(&row).unwrap();
            let due = due.map(|due| format!("{}#failed-records#111#record", sortable(at(due))));
            assert_eq!(text(&item, "due_sk"), due);
            assert_eq!(item["ttl"].as_n().unwrap(), &at(kept_until).seconds().to_string());
            assert_eq!(from_item::<FailedRecord>(item).unwrap(), row);
        }
    }
}
