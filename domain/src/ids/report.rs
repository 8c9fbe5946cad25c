//! Ids of reports and of their schedules.

use super::define::digest_128;
use super::ulid::{random_ids, ulid_id};
use crate::base32;
use crate::ids::{IdText, Mode};
use crate::text::text_schema;
use crate::time::Timestamp;

/// The id of a report: `rp_` and 26 characters. It is a hash of what asked for the report, so a repeated request finds
/// the report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReportId(u128);

super::define::prefixed_id!(
    ReportId,
    "rp_",
    "rp_ and 26 lower-case letters and digits",
    base32::encode,
    base32::decode
);

impl IdText for ReportId {
    const CHARS: usize = "rp_".len() + 26;
    const PATTERN: &'static str = "^rp_[0-7][0-9a-hjkmnp-tv-z]{25}$";
}

text_schema!(ReportId, "An id: `rp_` and 26 characters.", { "pattern": ReportId::PATTERN });

impl ReportId {
    /// The report of an idempotency key. The account's secret salt makes it unguessable.
    pub fn derive(salt: &[u8], mode: Mode, key: &str) -> Self {
        Self::of(&[salt, mode.as_str().as_bytes(), key.as_bytes()])
    }

    /// The report that a schedule makes when it is due at `at`.
    pub fn of_schedule(schedule: ReportScheduleId, at: Timestamp) -> Self {
        Self::of(&[schedule.to_string().as_bytes(), &at.millis().to_be_bytes()])
    }

    fn of(fields: &[&[u8]]) -> Self {
        Self(digest_128("report", fields))
    }
}

ulid_id! {
    /// The id of a schedule of reports: `rps_` and 26 characters.
    ReportScheduleId, "rps_"
}

random_ids!(ReportScheduleId);

impl ReportScheduleId {
    /// A number below `limit` that spreads schedules over a time.
    pub fn spread(self, limit: i64) -> i64 {
        let tail = i64::try_from(self.0.0 & 0xffff_ffff).unwrap_or_default();
        tail.checked_rem(limit).unwrap_or_default()
    }
}
