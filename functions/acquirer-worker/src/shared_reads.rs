//! Messages that wait for the same read share one. A payment causes several notifications at once, and each of them
//! leads to a read of its charge. While the acquirer's limit of requests delays the reads, more messages wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::ChargeId;
use shared::WorkResult;

/// A charge, and whether its refunds and disputes are read.
type Read = (ChargeId, bool);

/// Clones share their state, as all invocations of a function instance do.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedReads(Arc<Mutex<HashMap<Read, Arc<Waiting>>>>);

#[derive(Debug, Default)]
struct Waiting {
    /// How many callers have come.
    callers: AtomicU64,
    /// Of how many callers, the first ones, a read began after they had come, and succeeded.
    served: tokio::sync::Mutex<u64>,
}

impl SharedReads {
    /// Runs the read, unless one that began after this call has succeeded meanwhile. Equal reads run one after another.
    pub(crate) async fn share(
        &self,
        key: Read,
        read: impl Future<Output = WorkResult<()>>,
    ) -> WorkResult<()> {
        let of_key = |all: &mut HashMap<Read, Arc<Waiting>>| Arc::clone(all.entry(key).or_default());
        let waiting = self.with_all(of_key);
        let own = waiting.callers.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        let mut served = waiting.served.lock().await;
        let mut result = Ok(());
        if *served < own {
            let callers = waiting.callers.load(Ordering::SeqCst);
            result = read.await;
            if result.is_ok() {
                *served = callers;
            }
        }
        drop(served);
        // The map and this call have it alone.
        self.with_all(|all| all.retain(|other, _| *other != key || Arc::strong_count(&waiting) > 2));
        result
    }

    fn with_all<T>(&self, use_all: impl FnOnce(&mut HashMap<Read, Arc<Waiting>>) -> T) -> T {
        use_all(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use shared::WorkError;
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn calls_that_wait_share_the_next_read_unless_it_fails() {
        let (reads, count) = (SharedReads::default(), AtomicU64::new(0));
        let charge: ChargeId = "ch_075b3505-3103-8ce5-894a-80c7ae25f3c2".parse().unwrap();
        let call = async |fails: u64| {
            let read = async {
                let number = count.fetch_add(1, Ordering::SeqCst);
                yield_now().await;
                if number == fails { Err(WorkError::Missing("a read fails")) } else { Ok(()) }
            };
            reads.share((charge, false), read).await.is_ok()
        };
        let all = tokio::join!(call(9), call(9), call(9), call(9));
        assert_eq!((all, count.swap(0, Ordering::SeqCst)), ((true, true, true, true), 2));
        let all = tokio::join!(call(1), call(1), call(1), call(1));
        assert_eq!((all, count.swap(0, Ordering::SeqCst)), ((true, false, true, true), 3));
        assert!(call(9).await);
        assert_eq!(count.load(Ordering::SeqCst), 1);
        assert!(reads.with_all(|all| all.is_empty()));
    }
}
