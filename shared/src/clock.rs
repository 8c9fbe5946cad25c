//! The service's clock: the machine's, moved forward by an offset that only a local stack ever sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use domain::time::Timestamp;

/// Tells the time to everything that decides by it. Clones share one offset.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    offset_ms: Arc<AtomicI64>,
}

impl Clock {
    /// The present, to the millisecond.
    pub fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let machine_ms = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
        let now_ms = machine_ms.saturating_add(self.offset_ms());
        Timestamp::from_millis(now_ms).unwrap_or(Timestamp::MAX)
    }

    /// How far the clock is ahead of the machine's, in milliseconds.
    pub fn offset_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::Relaxed)
    }

    /// Moves the clock forward.
    pub fn advance(&self, milliseconds: i64) {
        self.offset_ms.fetch_add(milliseconds.max(0), Ordering::Relaxed);
    }
}
