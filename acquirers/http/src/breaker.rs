//! The circuit breaker: stops requests to an acquirer that fails, and tries again after a while.
//! Without it, each request of an outage holds its invocation, and the payer, until the time limit.
//!
//! Only the states and their changes are here. The caller passes in the time.

use domain::time::Timestamp;

/// The number of consecutive failures that opens the breaker.
pub(crate) const FAILURES_TO_OPEN: u32 = 5;

/// How long the breaker is open the first time, in milliseconds.
const FIRST_OPEN_MS: i64 = 10_000;

/// The longest time that the breaker is open, in milliseconds. The time doubles after each failed probe.
const MAX_OPEN_MS: i64 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breaker {
    Closed {
        failures: u32,
    },
    /// Requests are refused from `since` for `open_ms`. Then one request is a probe.
    Open {
        since: Timestamp,
        open_ms: i64,
    },
    HalfOpen {
        open_ms: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// The request may be sent. Its outcome decides whether the breaker closes.
    Probe,
    Refuse,
}

impl Breaker {
    pub(crate) const CLOSED: Self = Self::Closed { failures: 0 };

    pub(crate) fn admit(&mut self, now: Timestamp) -> Verdict {
        match *self {
            Self::Closed { .. } => Verdict::Pass,
            Self::Open { since, open_ms } if (0..open_ms).contains(&now.millis_since(since)) => {
                Verdict::Refuse
            }
            // The time is over, or the clock was moved back.
            Self::Open { open_ms, .. } => {
                *self = Self::HalfOpen { open_ms };
                Verdict::Probe
            }
            Self::HalfOpen { .. } => Verdict::Refuse,
        }
    }

    pub(crate) fn succeeded(&mut self) {
        *self = Self::CLOSED;
    }

    /// Records a failure. Requests that were sent although the breaker is open, and those that were sent
    /// before it opened, do not extend the time.
    pub(crate) fn failed(&mut self, now: Timestamp, is_probe: bool) {
        *self = match *self {
            Self::Closed { failures } if failures.saturating_add(1) < FAILURES_TO_OPEN => {
                Self::Closed { failures: failures.saturating_add(1) }
            }
            Self::Closed { .. } => Self::Open { since: now, open_ms: FIRST_OPEN_MS },
            Self::HalfOpen { open_ms } if is_probe => {
                Self::Open { since: now, open_ms: open_ms.saturating_mul(2).min(MAX_OPEN_MS) }
            }
            other => other,
        };
    }

    /// Records that a probe ended without a result, because its caller gave up. The next request is a probe.
    pub(crate) fn probe_abandoned(&mut self, now: Timestamp) {
        if let Self::HalfOpen { open_ms } = *self {
            let since = now.plus_millis(open_ms.saturating_neg()).unwrap_or(Timestamp::MIN);
            *self = Self::Open { since, open_ms };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + ms).unwrap()
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::CLOSED;
        for _ in 0..FAILURES_TO_OPEN {
            assert_eq!(breaker.admit(at(0)), Verdict::Pass);
            breaker.failed(at(0), false);
        }
        breaker
    }

    #[test]
    fn a_success_restarts_the_count() {
        let mut breaker = Breaker::CLOSED;
        for _ in 0..3 {
            for _ in 1..FAILURES_TO_OPEN {
                breaker.failed(at(0), false);
            }
            breaker.succeeded();
        }
        assert_eq!(breaker.admit(at(0)), Verdict::Pass);
    }

    #[test]
    fn each_failed_probe_doubles_the_time_up_to_a_minute() {
        let mut breaker = opened();
        let mut now_ms = 0;
        for open_ms in [10_000, 20_000, 40_000, 60_000, 60_000] {
            assert_eq!(breaker.admit(at(now_ms + open_ms - 1)), Verdict::Refuse);
            now_ms += open_ms;
            assert_eq!(breaker.admit(at(now_ms)), Verdict::Probe);
            breaker.failed(at(now_ms), true);
        }
    }

    #[test]
    fn failures_of_other_requests_do_not_extend_the_time() {
        let mut breaker = opened();
        breaker.failed(at(9_000), false);
        assert_eq!(breaker.admit(at(10_000)), Verdict::Probe);
        breaker.failed(at(10_000), false);
        assert_eq!(breaker, Breaker::HalfOpen { open_ms: 10_000 });
    }

    #[test]
    fn a_clock_that_was_moved_back_does_not_keep_it_open() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(at(-1)), Verdict::Probe);
    }
}
