//! Announces changes of the database to clients in this process, so that they wait instead of polling. For services
//! in other programs, `Ticks` makes the clients poll.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Debug)]
pub(super) struct Announcer(watch::Sender<u64>);

impl Announcer {
    /// Announces a change unless the version is the one announced last.
    pub(super) fn announce(&self, version: u64) {
        self.0.send_if_modified(|latest| std::mem::replace(latest, version) != version);
    }

    pub(super) fn changes(&self) -> Changes {
        Changes(self.0.subscribe())
    }
}

impl Default for Announcer {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

/// A change is announced soon after it is stored.
#[derive(Clone, Debug)]
pub struct Changes(watch::Receiver<u64>);

impl Changes {
    /// Returns the version of the database.
    pub fn version(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits until the database has another version than `seen`.
    pub async fn since(&mut self, seen: u64) {
        if self.0.wait_for(|version| *version != seen).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Dropping this ends it.
#[derive(Debug)]
pub(crate) struct Ticks {
    changes: Changes,
    task: JoinHandle<()>,
}

impl Ticks {
    pub(crate) fn start(period: Duration) -> Self {
        let announcer = Announcer::default();
        let changes = announcer.changes();
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(period);
            for version in 0.. {
                ticks.tick().await;
                announcer.announce(version);
            }
        });
        Self { changes, task }
    }

    pub(crate) fn changes(&self) -> Changes {
        self.changes.clone()
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        self.task.abort();
    }
}
