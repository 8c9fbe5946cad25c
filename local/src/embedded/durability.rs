//! Syncs changes to disk, and announces them.
//!
//! SQLite appends each commit to its write-ahead log, and SQS each change of a queue to a log of its own. A sync
//! of this file makes all earlier changes durable, so the requests of a moment share one sync. It runs on
//! another thread. Meanwhile, further requests are executed.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::signals::{Announcer, Changes};

/// The pause before a failed sync is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Makes changes in a log durable.
#[derive(Debug)]
pub(super) struct Durability {
    /// The log. `None`: the state is in memory.
    log: Option<Arc<File>>,
    /// The number of changes that requests have read or written.
    required: AtomicU64,
    /// Notified when `required` has grown.
    is_required: Notify,
    /// The number of changes that are durable.
    durable: Announcer,
}

impl Durability {
    /// Opens a log that exists. `None`: the state is in memory.
    pub(super) fn open(log: Option<&Path>) -> io::Result<Self> {
        let log = match log {
            None => None,
            Some(path) => {
                // Some systems sync only files that are open for writing.
                let file = File::options().write(true).open(path)?;
                // The log may be a new file.
                #[cfg(unix)]
                if let Some(directory) = path.parent() {
                    File::open(directory)?.sync_all()?;
                }
                Some(Arc::new(file))
            }
        };
        Ok(Self {
            log,
            required: AtomicU64::default(),
            is_required: Notify::new(),
            durable: Announcer::default(),
        })
    }

    /// Returns the durable changes.
    pub(super) fn changes(&self) -> Changes {
        self.durable.changes()
    }

    /// Returns when this number of changes is durable. Does not wait if the state is in memory.
    pub(super) async fn reach(&self, changes: u64) {
        let mut durable = self.durable.changes();
        if durable.version() >= changes {
            return;
        }
        self.required.fetch_max(changes, Ordering::AcqRel);
        self.is_required.notify_one();
        if self.log.is_some() {
            durable.reach(changes).await;
        }
    }

    /// Makes changes durable until the future is dropped.
    pub(super) async fn run(&self) {
        loop {
            self.is_required.notified().await;
            // Requests that have arrived are executed first, so that they share the sync.
            tokio::task::yield_now().await;
            let changes = self.required.load(Ordering::Acquire);
            while let Err(error) = self.sync().await {
                tracing::error!(%error, "a log was not synced to disk; writes wait");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            self.durable.announce(changes);
        }
    }

    async fn sync(&self) -> io::Result<()> {
        let Some(log) = self.log.clone() else { return Ok(()) };
        tokio::task::spawn_blocking(move || log.sync_data()).await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> std::path::PathBuf {
        let directory = std::env::temp_dir().join(uuid::Uuid::new_v4().to_string());
        std::fs::create_dir(&directory).unwrap();
        let log = directory.join("log");
        std::fs::write(&log, "log").unwrap();
        log
    }

    #[tokio::test]
    async fn a_change_in_a_file_waits_for_a_sync_and_one_in_memory_does_not() {
        let log = log();
        let durability = Durability::open(Some(&log)).unwrap();
        durability.reach(0).await;
        let mut waiting = std::pin::pin!(durability.reach(3));
        tokio::select! {
            biased;
            () = waiting.as_mut() => panic!("no sync has run"),
            () = std::future::ready(()) => {}
        }
        tokio::select! {
            () = durability.run() => {}
            () = waiting => {}
        }
        assert_eq!(durability.changes().version(), 3);
        std::fs::remove_dir_all(log.parent().unwrap()).unwrap();

        let in_memory = Durability::open(None).unwrap();
        in_memory.reach(3).await;
        let mut changes = in_memory.changes();
        tokio::select! {
            () = in_memory.run() => {}
            () = changes.since(0) => {}
        }
        assert_eq!(changes.version(), 3);
    }
}
