//! The number of concurrent invocations of a queue's function, as Lambda's event source mappings for standard
//! queues scale it: 5 at first, and 300 more a minute while messages are waiting, up to the maximum.

use std::time::{Duration, Instant};

/// The number of concurrent invocations with which a mapping starts.
const FIRST: usize = 5;
/// The time for one more invocation: 300 a minute.
const STEP: Duration = Duration::from_millis(200);
/// After this time without waiting messages, the number is [`FIRST`] again. AWS documents that a mapping scales
/// back when traffic is low, but not how fast.
const SCALE_BACK_AFTER: Duration = Duration::from_mins(1);

/// The current limit of an event source.
#[derive(Debug)]
pub(super) struct Ramp {
    limit: usize,
    most: usize,
    /// When messages last waited for an invocation, and the limit was last raised.
    busy: Option<(Instant, Instant)>,
}

impl Ramp {
    pub(super) fn new(most: usize) -> Self {
        Self { limit: FIRST.min(most), most, busy: None }
    }

    /// Returns the number of invocations that may run now.
    pub(super) fn limit(&self, now: Instant) -> usize {
        match self.busy {
            Some((busy_at, _)) if now.duration_since(busy_at) < SCALE_BACK_AFTER => self.limit,
            Some(_) | None => FIRST.min(self.most),
        }
    }

    /// Raises the limit if messages wait although as many invocations are running as the limit allows.
    pub(super) fn observe(&mut self, is_waiting: bool, now: Instant) {
        self.limit = self.limit(now);
        self.busy = match self.busy {
            Some((_, raised_at)) if is_waiting => {
                let steps = now.duration_since(raised_at).as_millis().checked_div(STEP.as_millis());
                let steps = u32::try_from(steps.unwrap_or_default()).unwrap_or(u32::MAX);
                let more = usize::try_from(steps).unwrap_or(usize::MAX);
                self.limit = self.limit.saturating_add(more).min(self.most);
                Some((now, raised_at.checked_add(STEP.saturating_mul(steps)).unwrap_or(now)))
            }
            // A pause does not count towards the next step.
            Some((busy_at, _)) => Some((busy_at, now)),
            None => is_waiting.then_some((now, now)),
        };
    }

    /// Returns the time after which the limit can be higher while messages wait. `None`: it has its maximum.
    pub(super) fn next_step(&self, now: Instant) -> Option<Duration> {
        let (_, raised_at) = self.busy?;
        (self.limit < self.most).then(|| STEP.saturating_sub(now.duration_since(raised_at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_rises_by_300_a_minute_while_messages_wait() {
        let start = Instant::now();
        let mut ramp = Ramp::new(50);
        let mut limit = |is_waiting: bool, after_ms: u64| {
            let now = start + Duration::from_millis(after_ms);
            ramp.observe(is_waiting, now);
            (ramp.limit(now), ramp.next_step(now).map(|step| step.as_millis()))
        };
        assert_eq!(limit(false, 0), (5, None));
        assert_eq!(limit(true, 0), (5, Some(200)));
        assert_eq!(limit(true, 250), (6, Some(150)));
        assert_eq!(limit(true, 2_250), (16, Some(150)));
        // No messages wait for a while.
        assert_eq!(limit(false, 30_000), (16, Some(200)));
        assert_eq!(limit(true, 30_200), (17, Some(200)));
        assert_eq!(limit(true, 60_000), (50, None));
    }

    #[test]
    fn the_limit_scales_back_after_a_quiet_minute_and_is_never_above_its_maximum() {
        let start = Instant::now();
        let mut ramp = Ramp::new(20);
        ramp.observe(true, start);
        ramp.observe(true, start + Duration::from_secs(2));
        assert_eq!(ramp.limit(start + Duration::from_secs(61)), 15);
        assert_eq!(ramp.limit(start + Duration::from_secs(62)), 5);
        assert_eq!(Ramp::new(2).limit(start), 2);
    }
}
