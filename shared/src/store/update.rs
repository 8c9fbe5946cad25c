//! Optimistic updates: read rows, plan the writes, and commit them on the condition that the rows still have
//! the versions that were read. If another caller committed first, the update starts again from the newer
//! rows.
//!
//! Callers are separate processes and can't coordinate, so each one pauses before it retries. The pause is a
//! random time between zero and an upper limit, the window. The window doubles with each attempt, from 25 ms
//! up to 2 s, so that even many callers spread out. A slow attempt indicates many concurrent callers or a
//! slow machine. Therefore the window is also at least three times the last attempt's duration, up to the
//! same 2 s, so that even the first pause spreads the callers out.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use domain::backoff::Backoff;
use domain::row::Key;

use super::{CommitOutcome, Store, StoreError, Write};
use crate::random;

/// The time after which an update begins no further attempt. It is shorter than the 10 s within which a
/// client must have a response, and than the 20 s after which Lambda stops a function.
pub(super) const RETRY_BUDGET: Duration = Duration::from_secs(8);

/// The windows of the pauses between the attempts of an update.
pub(super) const WINDOWS: Backoff =
    Backoff { first: Duration::from_millis(25), longest: Duration::from_secs(2) };

/// A window is at least this many times as long as the last attempt, within [`WINDOWS`].
const MIN_WINDOW_IN_ATTEMPTS: u32 = 3;

/// The most retries of a write that conflicts with other transactions on its rows. If the last retry
/// conflicts too, the write fails as [`StoreError::Unavailable`]. The pauses take about two seconds in all.
pub(super) const MAX_WRITE_RETRIES: u32 = 12;

/// The windows of the pauses before retries of one request.
const RETRY_WINDOWS: Backoff =
    Backoff { first: Duration::from_millis(15), longest: Duration::from_millis(500) };

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
    /// Errors: The errors of `plan`; [`StoreError::Unavailable`] when the database does not answer or the retry
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
    /// let charge = …; // read the row
    /// let (writes, next) = …; // plan the change
    /// if update.commit(writes).await? {
    /// return Ok(next);
    /// }
    /// }
    /// ```
    pub fn start_update<'a>(&'a self, subject: &'a str) -> Update<'a> {
        Update {
            store: self,
            subject,
            started_at: Instant::now(),
            attempt_started_at: Instant::now(),
            window: WINDOWS.first,
            failed: Vec::new(),
        }
    }
}

/// An update in progress: see [`Store::start_update`].
#[derive(Debug)]
pub struct Update<'a> {
    store: &'a Store,
    subject: &'a str,
    started_at: Instant,
    attempt_started_at: Instant,
    /// The window of the next pause. After a slow attempt, the pause has a longer window.
    window: Duration,
    /// The indexes of the writes that failed in the previous attempt.
    failed: Vec<usize>,
}

impl Update<'_> {
    /// The indexes of the writes whose conditions failed in the previous attempt.
    pub fn failed(&self) -> &[usize] {
        &self.failed
    }

    /// Commits the rows of an attempt, all or none. `false`: a condition failed and nothing is written. The
    /// rows or the counter that were read may be stale, so the next attempt must read them again. It may begin
    /// at once, because this pauses first.
    /// Errors: [`StoreError::Unavailable`] when the database does not answer, other callers extend the chain of
    /// an audit row until the retry budget is spent, or the budget is spent afterwards.
    pub async fn commit(&mut self, writes: Vec<Write>) -> Result<bool, StoreError> {
        match self.store.commit_within(self.left(), writes).await? {
            CommitOutcome::Done => Ok(true),
            CommitOutcome::Conflict { at } => {
                self.pause().await?;
                self.failed = at;
                Ok(false)
            }
        }
    }

    /// Pauses before the next attempt.
    /// Errors: [`StoreError::Unavailable`] when the retry budget is spent. The caller then answers 503 before
    /// its client times out.
    pub async fn pause(&mut self) -> Result<(), StoreError> {
        if self.left().is_zero() {
            let message = format!("other callers kept changing {}", self.subject);
            return Err(StoreError::Unavailable(message));
        }
        let window = window_after(self.window, self.attempt_started_at.elapsed());
        tokio::time::sleep(pause_within(window).min(self.left())).await;
        self.window = WINDOWS.after(window);
        self.attempt_started_at = Instant::now();
        self.failed.clear();
        Ok(())
    }

    fn left(&self) -> Duration {
        RETRY_BUDGET.saturating_sub(self.started_at.elapsed())
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
        // Boxed, because the future of a DynamoDB request would add kilobytes to the caller's future.
        None => Box::pin(read).await,
    }
}

/// Returns the window of the pause after an attempt that lasted `took`.
fn window_after(window: Duration, took: Duration) -> Duration {
    window.max(took.saturating_mul(MIN_WINDOW_IN_ATTEMPTS)).min(WINDOWS.longest)
}

/// Returns the pause before a retry of one request: a write that conflicts with another transaction, or a batch
/// read of which DynamoDB left keys unprocessed.
pub(super) fn pause_before_retry(attempt: u32) -> Duration {
    pause_within(RETRY_WINDOWS.pause(attempt))
}

/// Returns a random pause of at most `window` (full jitter).
pub(super) fn pause_within(window: Duration) -> Duration {
    let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(random::below(window_ms.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_with_each_attempt_and_with_slow_attempts() {
        let ms = Duration::from_millis;
        assert_eq!(window_after(WINDOWS.first, ms(5)), WINDOWS.first);
        assert_eq!(window_after(WINDOWS.first, ms(200)), ms(600));
        assert_eq!(window_after(ms(1_200), ms(200)), ms(1_200));
        assert_eq!(window_after(ms(4_000), ms(200)), WINDOWS.longest);
        assert_eq!(window_after(WINDOWS.first, Duration::from_secs(5)), WINDOWS.longest);
        assert!((0..100).all(|_| pause_within(ms(3)) <= ms(3)));
    }
}
