//! The tries of a change that other callers may overtake: its rows are read again for each.
//!
//! Callers are processes of their own and know nothing of one another. So each pauses for a random time between two tries,
//! out of a window that grows until it has room for all of them. A try that took long met many others, so the window is
//! also a multiple of the time that the last try took: many callers on a slow machine spread out after their first try.

use std::time::{Duration, Instant};

use crate::random;

/// How long a change is tried. A client is to be answered within 10 s; a function ends after 20.
const TRIED_FOR: Duration = Duration::from_secs(8);

/// The window of the first pause, and of the longest. It doubles with each try.
const FIRST_WINDOW: Duration = Duration::from_millis(25);

const LONGEST_WINDOW: Duration = Duration::from_secs(2);

/// How many times as long as the last try a window is at least.
const TRIES_IN_WINDOW: u32 = 3;

/// The tries of one change.
#[derive(Debug)]
pub(crate) struct Tries {
    since: Instant,
    /// When the last try began; `None`: there was none.
    began: Option<Instant>,
    window: Duration,
}

impl Tries {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), began: None, window: FIRST_WINDOW }
    }

    /// Waits for the next try. False when the time for them is spent: the caller answers 503 while a client still waits.
    pub(crate) async fn next(&mut self) -> bool {
        if let Some(began) = self.began {
            let left = TRIED_FOR.saturating_sub(self.since.elapsed());
            if left.is_zero() {
                return false;
            }
            let window = window_after(self.window, began.elapsed());
            tokio::time::sleep(pause_within(window).min(left)).await;
            self.window = window.saturating_mul(2);
        }
        self.began = Some(Instant::now());
        true
    }
}

/// The window of the pause after a try that took so long.
fn window_after(window: Duration, took: Duration) -> Duration {
    window.max(took.saturating_mul(TRIES_IN_WINDOW)).min(LONGEST_WINDOW)
}

fn pause_within(window: Duration) -> Duration {
    let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(random::below(window_ms.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tries_end_with_their_time_and_not_with_their_number() {
        let mut tries = Tries::new();
        assert!(tries.next().await, "the first one waits for nothing");
        tries.since = Instant::now().checked_sub(TRIED_FOR).unwrap();
        assert!(!tries.next().await);
    }

    #[test]
    fn a_window_grows_and_has_room_for_those_that_a_slow_try_met() {
        let ms = Duration::from_millis;
        assert_eq!(window_after(FIRST_WINDOW, ms(5)), FIRST_WINDOW);
        assert_eq!(window_after(FIRST_WINDOW, ms(200)), ms(600));
        assert_eq!(window_after(ms(1_200), ms(200)), ms(1_200));
        assert_eq!(window_after(ms(4_000), ms(200)), LONGEST_WINDOW);
        assert_eq!(window_after(FIRST_WINDOW, Duration::from_secs(5)), LONGEST_WINDOW);
        assert!((0..100).all(|_| pause_within(ms(3)) <= ms(3)));
    }
}
