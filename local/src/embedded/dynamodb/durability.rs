//! Syncs commits to disk, and announces changes.
//!
//! SQLite appends each commit to its write-ahead log. A sync of this file makes all earlier commits durable, so
//! the requests of a moment share one sync. It runs on another thread. Meanwhile, further requests are
//! executed.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::super::signals::{Announcer, Changes};

/// The pause before a failed sync is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Makes the changes of a database durable.
#[derive(Debug)]
pub(super) struct Durability {
    /// The write-ahead log. `None`: the database is in memory.
    log: Option<Arc<File>>,
    /// The number of changes that requests have read or written.
    required: AtomicU64,
    /// Notified when `required` has grown.
    is_required: Notify,
    /// The number of changes that are durable.
    durable: Announcer,
}

impl Durability {
    /// Opens the log of an open database file. `None`: the database is in memory.
    pub(super) fn open(database: Option<&Path>) -> io::Result<Self> {
        let log = match database {
            None => None,
            Some(database) => {
                let mut log = database.as_os_str().to_owned();
                log.push("-wal");
                // Some systems sync only files that are open for writing.
                let log = File::options().write(true).open(log)?;
                // The log may be a new file.
                #[cfg(unix)]
                if let Some(directory) = database.parent() {
                    File::open(directory)?.sync_all()?;
                }
                Some(Arc::new(log))
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

    /// Returns when this number of changes is durable. Does not wait if the database is in memory.
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
                tracing::error!(%error, "the database was not synced to disk; writes wait");
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

    fn database() -> std::path::PathBuf {
        let directory = std::env::temp_dir().join(uuid::Uuid::new_v4().to_string());
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("db-wal"), "log").unwrap();
        directory.join("db")
    }

    #[tokio::test]
    async fn a_change_in_a_file_waits_for_a_sync_and_one_in_memory_does_not() {
        let database = database();
        let durability = Durability::open(Some(&database)).unwrap();
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
        std::fs::remove_dir_all(database.parent().unwrap()).unwrap();

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
