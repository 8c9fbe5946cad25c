//! Deletes stream records 24 hours after they were created, as AWS does.
//!
//! dynoxide notes the machine's time in a record. The service's clock can be far ahead of it, so the trimmer notes
//! at intervals which records exist, together with the time of the service's clock. A record is deleted when such
//! a note is 24 hours old. It also remains for some minutes of the machine's clock: when the service's clock has
//! moved by days, the event sources still have time to read it.

use std::collections::VecDeque;
use std::time::Duration;

use domain::time::Timestamp;
use dynoxide::DynoxideError;
use dynoxide::storage::Storage;
use rusqlite::params;

/// How long a stream record is retained, as on AWS.
const RETENTION: Duration = Duration::from_hours(24);
/// How long a record remains by the machine's clock. Event sources on a busy machine may be minutes behind.
const TIME_TO_READ: Duration = Duration::from_mins(5);
/// The maximum number of stream records that one deletion examines. It bounds how long requests wait.
const TRIM_LIMIT: i64 = 5_000;

/// Which stream records existed at which time.
#[derive(Default)]
pub(super) struct Trimmer {
    /// Oldest first. Of the notes whose records can be deleted, only the latest is kept.
    marks: VecDeque<Mark>,
}

struct Mark {
    /// The time of the service's clock.
    at: Timestamp,
    /// The last record.
    last: i64,
}

impl Trimmer {
    /// Notes which records exist.
    pub(super) fn mark(&mut self, storage: &Storage, now: Timestamp) -> Result<(), DynoxideError> {
        let query = "SELECT COALESCE(MAX(id), 0) FROM _stream_records";
        let last = storage.conn().query_row(query, [], |row| row.get(0))?;
        self.marks.push_back(Mark { at: now, last });
        while self.marks.get(1).is_some_and(|second| is_over(second, now)) {
            self.marks.pop_front();
        }
        Ok(())
    }

    /// Deletes at most [`TRIM_LIMIT`] records whose retention has ended. Returns their number.
    pub(super) fn trim(&self, storage: &Storage, now: Timestamp) -> Result<usize, DynoxideError> {
        let last = self.marks.front().filter(|mark| is_over(mark, now)).map_or(0, |mark| mark.last);
        let [unread, retained] =
            [TIME_TO_READ, RETENTION].map(|time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
        // Notes are lost at a restart. The service's clock is never behind the machine's, so a record that is old
        // by the machine's clock is old by both.
        let deleted = storage.conn().execute(
            "DELETE FROM _stream_records
             WHERE id IN (SELECT id FROM _stream_records ORDER BY id LIMIT ?1)
                 AND created_at < CAST(strftime('%s', 'now') AS INTEGER) - ?2
                 AND (id <= ?3 OR created_at < CAST(strftime('%s', 'now') AS INTEGER) - ?4)",
            params![TRIM_LIMIT, unread, last, retained],
        );
        Ok(deleted?)
    }
}

/// Returns true if the retention of the records that existed at a note has ended.
fn is_over(mark: &Mark, now: Timestamp) -> bool {
    let retained = i64::try_from(RETENTION.as_millis()).unwrap_or(i64::MAX);
    now.millis().saturating_sub(mark.at.millis()) >= retained
}
