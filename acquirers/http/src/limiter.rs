use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::{Priority, SendError};

const SECOND: Duration = Duration::from_secs(1);

/// A token bucket that holds the tokens of one second.
///
/// Urgent requests reserve the next free time and wait for it, in the order of their arrival. Requests in the
/// background take a time only when it is free now. So they yield to urgent ones that wait.
pub(crate) struct Limiter(Mutex<Schedule>);

impl Limiter {
    /// Creates a limiter whose bucket is full. `per_second` is at least 1.
    pub(crate) fn new(per_second: u32, now: Instant) -> Self {
        Self(Mutex::new(Schedule::new(per_second, now)))
    }

    /// Waits until the request may be sent. Fails at once if the deadline is before that time.
    pub(crate) async fn acquire(&self, priority: Priority, deadline: Instant) -> Result<(), SendError> {
        // Each round waits for a later time, so the deadline bounds the loop.
        loop {
            let time = {
                let mut schedule = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                let now = Instant::now();
                let time = schedule.next_time(now);
                if time > deadline {
                    return Err(SendError::TooManyRequests {
                        retry_after: time.saturating_duration_since(now),
                    });
                }
                let is_urgent = priority != Priority::Background;
                if is_urgent || time <= now {
                    schedule.take(time);
                }
                if time <= now {
                    return Ok(());
                }
                time
            };
            sleep_until(time).await;
            if priority != Priority::Background {
                return Ok(());
            }
        }
    }
}

/// When requests may be sent: the generic cell rate algorithm.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    /// The time between two requests at the full rate.
    interval: Duration,
    /// How far requests may be ahead of the full rate.
    burst: Duration,
    /// When the last request would have been sent at the full rate, plus one interval.
    theoretical: Instant,
}

impl Schedule {
    fn new(per_second: u32, now: Instant) -> Self {
        let interval = SECOND.checked_div(per_second).unwrap_or(SECOND);
        Self { interval, burst: SECOND.saturating_sub(interval), theoretical: now }
    }

    /// Returns the first time at which a request may be sent.
    fn next_time(&self, now: Instant) -> Instant {
        self.theoretical.checked_sub(self.burst).map_or(now, |time| time.max(now))
    }

    /// Records a request at a time that [`Self::next_time`] returned.
    fn take(&mut self, time: Instant) {
        let base = self.theoretical.max(time);
        self.theoretical = base.checked_add(self.interval).unwrap_or(base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_second_of_requests_is_sent_at_once_and_then_one_each_interval() {
        let now = Instant::now() + Duration::from_mins(1);
        for (per_second, expected) in [(4, [0, 0, 0, 0, 250]), (1, [0, 1_000, 2_000, 3_000, 4_000])] {
            let mut schedule = Schedule::new(per_second, now);
            let waits = expected.map(|_| {
                let time = schedule.next_time(now);
                schedule.take(time);
                (time - now).as_millis()
            });
            assert_eq!(waits, expected);
        }
    }

    #[test]
    fn the_bucket_refills_while_no_request_is_sent() {
        let start = Instant::now() + Duration::from_mins(1);
        let mut schedule = Schedule::new(2, start);
        for _ in 0..4 {
            schedule.take(schedule.next_time(start));
        }
        let later = start + Duration::from_secs(10);
        assert_eq!(schedule.next_time(later), later);
        schedule.take(later);
        assert_eq!(schedule.next_time(later), later);
        schedule.take(later);
        assert_eq!(schedule.next_time(later), later + Duration::from_millis(500));
    }

    #[tokio::test]
    async fn background_requests_yield_to_urgent_ones_that_came_later() {
        let limiter = Limiter::new(50, Instant::now());
        let deadline = Instant::now() + Duration::from_secs(30);
        for _ in 0..50 {
            limiter.acquire(Priority::Create, deadline).await.unwrap();
        }
        let order = Mutex::new(Vec::new());
        let send = async |priority| {
            limiter.acquire(priority, deadline).await.unwrap();
            order.lock().unwrap().push(priority);
        };
        // The futures are polled in this order, so the background requests come first.
        tokio::join!(
            send(Priority::Background),
            send(Priority::Background),
            send(Priority::Create),
            send(Priority::Settle)
        );
        let order = order.into_inner().unwrap();
        assert_eq!(order, [Priority::Create, Priority::Settle, Priority::Background, Priority::Background]);
    }
}
