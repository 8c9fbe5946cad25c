//! Optimistic updates: read rows, decide what to write, commit under the versions that were read. When another caller
//! committed first, the update starts again from the newer rows.
//!
//! Callers are processes of their own and know nothing of one another. So each pauses for a random time between two
//! attempts. The window of that time grows until it has room for all callers. An attempt that took long met many others, so
//! the window is also a multiple of the last attempt's duration: many callers on a slow machine spread out after their first
//! attempt.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use domain::row::Key;

use super::{Committed, Store, StoreError, Write};
use crate::random;

/// How long an update is attempted. A client must have an answer within 10 s; a function is stopped after 20 s.
const RETRY_BUDGET: Duration = Duration::from_secs(8);

/// The window of the first pause, and of the longest. It doubles with each attempt.
const FIRST_WINDOW: Duration = Duration::from_millis(25);

const LONGEST_WINDOW: Duration = Duration::from_secs(2);

/// The least ratio of a window to the duration of the last attempt.
const ATTEMPTS_IN_WINDOW: u32 = 3;

/// What an update decides from the row that was read.
#[derive(Debug)]
pub enum Plan<T> {
    /// Nothing is to be written; the update ends with this result.
    Finished(T),
    /// All these rows are written, or none. Once they are, the update ends with this result.
    Commit(Vec<Write>, T),
}

impl Store {
    /// Updates one row: reads it, lets `plan` decide, commits. `subject` names the row in the error, such as `an account`.
    ///
    /// # Errors
    ///
    /// Those of `plan`; [`StoreError::Unavailable`] when the database does not answer or the retry budget is spent.
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

    /// Starts an update whose rows the caller reads itself, anew in each attempt. `subject` names what is updated in the
    /// error, such as `a charge`.
    ///
    /// ```ignore
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
    /// When the last attempt began; `None`: there was none.
    began: Option<Instant>,
    window: Duration,
    /// The places of the writes that failed in the attempt before this one, and in this one.
    failed: Vec<usize>,
    failed_now: Vec<usize>,
    /// The place of the write that is conditional on a counter's bound, in the last attempt that had one.
    bound: Option<usize>,
}

impl Update<'_> {
    /// Waits until the next attempt may begin; the first begins at once.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] when the retry budget is spent, so that the caller can answer 503 while its client still
    /// waits.
    pub async fn next_attempt(&mut self) -> Result<(), StoreError> {
        if let Some(began) = self.began {
            let left = RETRY_BUDGET.saturating_sub(self.since.elapsed());
            if left.is_zero() {
                return Err(StoreError::Unavailable(format!("{} kept changing", self.subject)));
            }
            // Callers do not hold up one another at a bounded counter: where it alone failed, a pause gains nothing.
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

    /// The places of the writes whose conditions failed in the attempt before this one.
    pub fn failed(&self) -> &[usize] {
        &self.failed
    }

    /// Whether the bound of the last attempt that had one failed in the attempt before this one.
    pub fn bound_failed(&self) -> bool {
        self.bound.is_some_and(|place| self.failed.contains(&place))
    }

    /// Names the write of this attempt that is conditional on a counter's bound.
    pub fn bound_at(&mut self, place: Option<usize>) {
        self.bound = place;
    }

    /// Commits an attempt's rows, all or none. `false`: a condition failed, so the rows that were read are stale.
    pub async fn commit(&mut self, writes: Vec<Write>) -> Result<bool, StoreError> {
        match self.store.commit(writes).await? {
            Committed::Done => Ok(true),
            Committed::Overtaken { at } => {
                self.failed_now = at;
                Ok(false)
            }
        }
    }
}

/// The row that the caller has just read, in the first attempt; in a later one it is read anew.
pub async fn just_read_or<T, E>(
    just_read: &mut Option<T>,
    read: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match just_read.take() {
        Some(row) => Ok(row),
        // Boxed, for a request takes kilobytes of each caller's future.
        None => Box::pin(read).await,
    }
}

/// The window of the pause after an attempt that took so long.
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
