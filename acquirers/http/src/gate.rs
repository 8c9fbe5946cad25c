//! Decides whether a request may be sent now: the circuit breaker, and the pause after a 429.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::time::Timestamp;

use crate::breaker::{Breaker, Verdict};
use crate::{Now, Priority, SendError};

/// State that all requests of a connection share. It follows the service's clock.
pub(crate) struct Gate {
    now: Now,
    state: Mutex<State>,
}

struct State {
    breaker: Breaker,
    /// After a 429 to any request: for those in the background.
    background: Option<Pause>,
    /// After a 429 to a request on behalf of a waiting merchant: for all such requests.
    create: Option<Pause>,
}

/// A pause that the acquirer requested by a 429.
#[derive(Clone, Copy)]
struct Pause {
    since: Timestamp,
    ms: i64,
}

impl Pause {
    /// Returns the rest of the pause. `None` if it is over, or if the clock was moved back.
    fn rest(self, now: Timestamp) -> Option<Duration> {
        let passed_ms = now.millis_since(self.since);
        let rest_ms = self.ms.saturating_sub(passed_ms);
        u64::try_from(rest_ms)
            .ok()
            .filter(|rest_ms| *rest_ms > 0 && passed_ms >= 0)
            .map(Duration::from_millis)
    }
}

impl Gate {
    pub(crate) fn new(now: Now) -> Self {
        Self { now, state: Mutex::new(State { breaker: Breaker::CLOSED, background: None, create: None }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn admit(&self, priority: Priority) -> Result<Permit<'_>, SendError> {
        let now = (self.now)();
        let mut state = self.state();
        let pause = match priority {
            Priority::Background => state.background,
            Priority::Create => state.create,
            Priority::Settle => None,
        };
        if let Some(retry_after) = pause.and_then(|pause| pause.rest(now)) {
            return Err(SendError::TooManyRequests { retry_after });
        }
        // The breaker never stops requests that settle money.
        let is_probe = priority != Priority::Settle
            && match state.breaker.admit(now) {
                Verdict::Pass => false,
                Verdict::Probe => true,
                Verdict::Refuse => return Err(SendError::CircuitOpen),
            };
        Ok(Permit { gate: self, is_probe })
    }

    /// Records a 429 to a request of this priority. A shorter pause does not replace a longer one.
    pub(crate) fn pause(&self, priority: Priority, retry_after: Duration) {
        let now = (self.now)();
        let ms = i64::try_from(retry_after.as_millis()).unwrap_or(i64::MAX);
        let longer = |pause: Option<Pause>| {
            let lasts = pause.filter(|pause| pause.rest(now).is_some_and(|rest| rest >= retry_after));
            lasts.or(Some(Pause { since: now, ms }))
        };
        let mut state = self.state();
        state.background = longer(state.background);
        if priority == Priority::Create {
            state.create = longer(state.create);
        }
    }
}

/// What the outcome of a request shows about the acquirer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Works,
    Fails,
    /// The acquirer limits requests, or nothing was sent.
    Unknown,
}

/// The permission to send one request. Dropping it records that the caller gave up.
pub(crate) struct Permit<'a> {
    gate: &'a Gate,
    is_probe: bool,
}

impl Permit<'_> {
    pub(crate) fn record(mut self, health: Health) {
        let now = (self.gate.now)();
        let mut state = self.gate.state();
        match health {
            Health::Works => state.breaker.succeeded(),
            Health::Fails => state.breaker.failed(now, self.is_probe),
            Health::Unknown => return,
        }
        self.is_probe = false;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.is_probe {
            let now = (self.gate.now)();
            self.gate.state().breaker.probe_abandoned(now);
        }
    }
}
