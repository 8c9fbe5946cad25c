//! How far a bank's times are from the service's clock.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use acquirer_http::{date_offset_seconds, offset_seconds};
use domain::time::Timestamp;

/// How far a bank's time may be from ours, in seconds, before it counts as wrong.
const TOLERATED_SECONDS: i64 = 60;

/// The pause between two reports of a wrong clock, in milliseconds: an hour.
const REPORT_PAUSE_MS: i64 = 60 * 60 * 1_000;

/// How far a bank's times are ahead of the service's clock, in seconds; negative: behind it. 0: the bank's time
/// was between the request and its answer. `None`: not measured yet. The two differ at a bank that writes
/// local time as UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOffsets {
    /// By the `Date` header of the last answer.
    pub date: Option<i64>,
    /// By `calendario.criacao` of the last cob that was created.
    pub created: Option<i64>,
}

impl ClockOffsets {
    pub fn is_wrong(self) -> bool {
        self.behind_seconds().max(self.ahead_seconds()) > TOLERATED_SECONDS
    }

    /// How far the bank's times are behind at most, in seconds, at least 0.
    pub fn behind_seconds(self) -> i64 {
        [self.date, self.created].into_iter().flatten().fold(0, i64::min).saturating_neg()
    }

    /// How far the bank's times are ahead at most, in seconds, at least 0.
    pub fn ahead_seconds(self) -> i64 {
        [self.date, self.created].into_iter().flatten().fold(0, i64::max)
    }
}

impl fmt::Display for ClockOffsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let describe = |offset: Option<i64>| match offset {
            None => "not measured".to_owned(),
            Some(0) => "right".to_owned(),
            Some(seconds) if seconds < 0 => format!("{} s behind", seconds.unsigned_abs()),
            Some(seconds) => format!("{seconds} s ahead"),
        };
        let (date, created) = (describe(self.date), describe(self.created));
        write!(f, "Date header {date}, calendario.criacao {created}")
    }
}

#[derive(Debug, Default)]
pub(crate) struct BankClock(Mutex<(ClockOffsets, Option<Timestamp>)>);

impl BankClock {
    fn with<T>(&self, act: impl FnOnce(&mut (ClockOffsets, Option<Timestamp>)) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn offsets(&self) -> ClockOffsets {
        self.with(|(offsets, _)| *offsets)
    }

    pub(crate) fn to_report(&self, now: Timestamp) -> Option<ClockOffsets> {
        self.with(|(offsets, reported_at)| {
            let is_due = reported_at.is_none_or(|at| now.millis_since(at) >= REPORT_PAUSE_MS);
            (is_due && offsets.is_wrong()).then(|| {
                *reported_at = Some(now);
                *offsets
            })
        })
    }

    /// Measures by the `Date` header of an answer, whose request was sent and received at these times.
    pub(crate) fn note_date(&self, date: &str, times: (Timestamp, Timestamp)) {
        if let Some(offset) = date_offset_seconds(date, times) {
            self.with(|(offsets, _)| offsets.date = Some(offset));
        }
    }

    pub(crate) fn note_created(&self, created_at: Timestamp, times: (Timestamp, Timestamp)) {
        self.with(|(offsets, _)| offsets.created = Some(offset_seconds(created_at, times)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn an_offset_is_the_distance_from_the_time_of_the_request() {
        let times = (at("2026-11-22T12:00:00.900Z"), at("2026-11-22T12:00:09Z"));
        let clock = BankClock::default();
        assert_eq!(clock.to_report(times.1), None);
        clock.note_date("Sun, 22 Nov 2026 12:00:00 GMT", times);
        clock.note_created(at("2026-11-22T12:00:09Z"), times);
        assert_eq!(clock.offsets(), ClockOffsets { date: Some(0), created: Some(0) });
        clock.note_date("soon", times);
        clock.note_date("Sun, 22 Nov 2026 12:01:09 GMT", times);
        assert_eq!(clock.to_report(times.1), None, "60 s are tolerated");

        clock.note_date("Sun, 22 Nov 2026 12:01:10 GMT", times);
        clock.note_created(at("2026-11-22T09:00:01Z"), times);
        let offsets = ClockOffsets { date: Some(61), created: Some(-10_800) };
        assert_eq!((offsets.behind_seconds(), offsets.ahead_seconds()), (10_800, 61));
        assert_eq!(offsets.to_string(), "Date header 61 s ahead, calendario.criacao 10800 s behind");
        assert_eq!(clock.to_report(times.1), Some(offsets));
        assert_eq!(
            clock.to_report(at("2026-11-22T13:00:08Z")),
            None,
            "it was reported less than an hour ago"
        );
        assert_eq!(clock.to_report(at("2026-11-22T13:00:09Z")), Some(offsets));
        let behind = ClockOffsets { date: Some(-61), created: None };
        assert_eq!((behind.behind_seconds(), behind.ahead_seconds(), behind.is_wrong()), (61, 0, true));
    }
}
