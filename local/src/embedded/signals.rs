//! Announces changes of the database to clients in this process, so that they wait instead of polling.

use tokio::sync::watch;

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
