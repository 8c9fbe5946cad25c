//! The service's clock: the machine's clock plus an offset. Only a local stack sets the offset.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use domain::time::Timestamp;

/// The source of the current time for all time-dependent decisions. Clones share one offset.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    offset_ms: Arc<AtomicI64>,
}

impl Clock {
    /// Returns a clock that is ahead of the machine's clock by an offset, in milliseconds. Negative: behind it.
    pub fn with_offset_ms(offset_ms: i64) -> Self {
        Self { offset_ms: Arc::new(AtomicI64::new(offset_ms)) }
    }

    /// Returns the current time, in milliseconds.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(machine_ms().saturating_add(self.offset_ms())).unwrap_or(Timestamp::MAX)
    }

    /// Returns the machine's time, without the offset. Webhooks are signed with it, because receivers compare the
    /// signature's time with their own clocks, which do not follow the offset.
    pub fn machine_now() -> Timestamp {
        Timestamp::from_millis(machine_ms()).unwrap_or(Timestamp::MAX)
    }

    /// The offset from the machine's clock, in milliseconds.
    pub fn offset_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::Relaxed)
    }

    /// Sets the offset back to zero. Only a reset of a local stack does so, when no row has a later time.
    pub fn reset(&self) {
        self.offset_ms.store(0, Ordering::Relaxed);
    }

    /// Moves the clock forward. A negative argument has no effect.
    pub fn advance(&self, milliseconds: i64) {
        self.offset_ms.fetch_add(milliseconds.max(0), Ordering::Relaxed);
    }
}

fn machine_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}
