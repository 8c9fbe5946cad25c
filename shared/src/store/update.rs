//! Optimistic updates: read rows, plan the writes, and commit them on the condition that the rows still have
//! the versions that were read. If another caller committed first, the update starts again from the newer
//! rows.
//!
//! Callers are separate processes and can't coordinate, so each one pauses for a random time before it
//! retries. The window of this time doubles with each attempt, so that any number of callers spreads out. A
//! slow attempt indicates many concurrent callers. Therefore the window is also at least a multiple of the
//! last attempt's duration: on a slow machine the callers spread out after their first attempt.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use domain::row::Key;

use super::{CommitOutcome, Store, StoreError, Write};
use crate::random;

/// The time for which an update is attempted. A client must have an answer within 10 s, and a function is
/// stopped after 20 s.
const RETRY_BUDGET: Duration = Duration::from_secs(8);

/// The window of the first pause. It doubles with each attempt.
const FIRST_WINDOW: Duration = Duration::from_millis(25);

/// The largest window of a pause.
const LONGEST_WINDOW: Duration = Duration::from_secs(2);

/// The smallest ratio of a window to the duration of the last attempt.
const ATTEMPTS_IN_WINDOW: u32 = 3;

/// The plan of an update, made from the row that was read.
#[derive(Debug)]
pub enum Plan<T> {
    /// Nothing is written; the update returns this result.
    Finished(T),
    /// All these rows are written, or none. Once they are written, the update returns this result.
    Commit(Vec<Write>, T),
}

impl Store {
    /// Updates one row: reads it, calls `plan`, and commits the plan. On a conflict it starts again.
    /// `subject` names the row in the error, such as `an account`.
    ///
    /// # Errors
    ///
    /// The errors of `plan`; [`StoreError::Unavailable`] when the database does not answer or the retry
    /// budget is spent.
    pub async fn update<R, T, E>(
        &self,
        subject: &str,
        key: &Key,
        mut plan: impl FnMut(Option<R>) -> Result<Plan<T>, E>,
    ) -> Result<T, E>
    where
        R: DeserializeOwned,
        E: From<StoreError>,
    {
        let mut update = self.start_update(subject);
        loop {
            update.next_attempt().await?;
            match plan(self.get(key).await?)? {
                Plan::Finished(result) => return Ok(result),
                Plan::Commit(writes, result) => {
                    if update.commit(writes).await? {
                        return Ok(result);
                    }
                }
            }
        }
    }

    /// Starts an update whose rows the caller reads itself in each attempt. `subject` names the updated
    /// object in the error, such as `a charge`.
    ///
    /// ```text
    /// let mut update = store.start_update("a charge");
    /// loop {
    ///     update.next_attempt().await?;
    ///     let charge = …;
    ///     if update.commit(writes).await? {
    ///         return Ok(next);
    ///     }
    /// }
    /// ```
    pub fn start_update<'a>(&'a self, subject: &'a str) -> Update<'a> {
        let (since, window) = (Instant::now(), FIRST_WINDOW);
        Update {
            store: self,
            subject,
            since,
            began: None,
            window,
            failed_now: Vec::new(),
            failed: Vec::new(),
            bound: None,
        }
    }
}

/// An update in progress: see [`Store::start_update`].
#[derive(Debug)]
pub struct Update<'a> {
    store: &'a Store,
    subject: &'a str,
    since: Instant,
    /// The start of the current attempt; `None` before the first one.
    began: Option<Instant>,
    window: Duration,
    /// The indexes of the writes that failed in the previous attempt.
    failed: Vec<usize>,
    /// The indexes of the writes that failed in the current attempt.
    failed_now: Vec<usize>,
    /// The index of the write that is conditional on a counter's bound; see [`Update::bound_at`].
    bound: Option<usize>,
}

impl Update<'_> {
    /// Pauses until the next attempt may begin. The first attempt begins at once.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] when the retry budget is spent. The caller then answers 503 before its
    /// client times out.
    pub async fn next_attempt(&mut self) -> Result<(), StoreError> {
        if let Some(began) = self.began {
            let left = RETRY_BUDGET.saturating_sub(self.since.elapsed());
            if left.is_zero() {
                let message = format!("other callers kept changing {}", self.subject);
                return Err(StoreError::Unavailable(message));
            }
            // Concurrent additions to a bounded counter do not conflict. If only the bound failed, a pause
            // gains nothing.
            if self.bound.is_none_or(|place| self.failed_now != [place]) {
                let window = window_after(self.window, began.elapsed());
                tokio::time::sleep(pause_within(window).min(left)).await;
                self.window = window.saturating_mul(2);
            }
        }
        self.began = Some(Instant::now());
        self.failed = std::mem::take(&mut self.failed_now);
        Ok(())
    }

    /// The indexes of the writes whose conditions failed in the previous attempt.
    pub fn failed(&self) -> &[usize] {
        &self.failed
    }

    /// Whether the write set by [`Update::bound_at`] failed in the previous attempt.
    pub fn bound_failed(&self) -> bool {
        self.bound.is_some_and(|place| self.failed.contains(&place))
    }

    /// Sets the index of the write that is conditional on a counter's bound, in the current attempt; `None`:
    /// there is none.
    pub fn bound_at(&mut self, place: Option<usize>) {
        self.bound = place;
    }

    /// Commits the rows of an attempt, all or none. `false`: a condition failed, so the rows that were read
    /// are stale.
    pub async fn commit(&mut self, writes: Vec<Write>) -> Result<bool, StoreError> {
        match self.store.commit(writes).await? {
            CommitOutcome::Done => Ok(true),
            CommitOutcome::Conflict { at } => {
                self.failed_now = at;
                Ok(false)
            }
        }
    }
}

/// Returns the row that the caller has already read, in the first attempt. In a later attempt it reads the
/// row again.
pub async fn reuse_or_read<T, E>(
    just_read: &mut Option<T>,
    read: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match just_read.take() {
        Some(row) => Ok(row),
        // Boxed, because a request takes kilobytes of the caller's future.
        None => Box::pin(read).await,
    }
}

/// Returns the window of the pause after an attempt that lasted `took`.
fn window_after(window: Duration, took: Duration) -> Duration {
    window.max(took.saturating_mul(ATTEMPTS_IN_WINDOW)).min(LONGEST_WINDOW)
}

fn pause_within(window: Duration) -> Duration {
    let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(random::below(window_ms.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_with_each_attempt_and_with_slow_attempts() {
        let ms = Duration::from_millis;
        assert_eq!(window_after(FIRST_WINDOW, ms(5)), FIRST_WINDOW);
        assert_eq!(window_after(FIRST_WINDOW, ms(200)), ms(600));
        assert_eq!(window_after(ms(1_200), ms(200)), ms(1_200));
        assert_eq!(window_after(ms(4_000), ms(200)), LONGEST_WINDOW);
        assert_eq!(window_after(FIRST_WINDOW, Duration::from_secs(5)), LONGEST_WINDOW);
        assert!((0..100).all(|_| pause_within(ms(3)) <= ms(3)));
    }
}
