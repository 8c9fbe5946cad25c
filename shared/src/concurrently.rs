//! Runs tasks concurrently, a limited number at a time.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::Instrument;

/// Runs a task for each item, at most `most` at the same time. Returns the results in the order in which the
/// tasks ended. A panic of a task becomes a panic of the caller.
pub async fn concurrently<I, F>(most: usize, items: I, work: impl Fn(I::Item) -> F) -> Vec<F::Output>
where
    I: IntoIterator,
    F: Future<Output: Send> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(most));
    let mut tasks = JoinSet::new();
    for item in items {
        let (slots, task) = (Arc::clone(&slots), work(item));
        let task = async move {
            let _slot = slots.acquire().await;
            task.await
        };
        tasks.spawn(task.in_current_span());
    }
    tasks.join_all().await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn no_more_tasks_run_at_a_time_than_the_limit() {
        let (running, most_running) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut results = concurrently(3, 0..10, |item| {
            let (running, most_running) = (Arc::clone(&running), Arc::clone(&most_running));
            async move {
                most_running.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                item
            }
        })
        .await;
        results.sort_unstable();
        assert_eq!(results, (0..10).collect::<Vec<_>>());
        assert_eq!(most_running.load(Ordering::SeqCst), 3);
    }
}
