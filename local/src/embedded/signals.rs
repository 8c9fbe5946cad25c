//! Signals between the embedded services and their clients in this process, which the APIs of AWS lack. By
//! them, clients wait for changes instead of polling. For services in other programs, `Ticks` makes the clients
//! poll.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// The signals of the services.
#[derive(Clone, Debug)]
pub struct Signals {
    /// The changes of the DynamoDB tables.
    pub changes: Changes,
    /// The long polls of SQS.
    pub long_polls: LongPolls,
    /// The receipts whose visibility timeout was changed.
    pub changed_visibility: ChangedVisibility,
}

/// Announces changes.
#[derive(Debug)]
pub(super) struct Announcer(watch::Sender<u64>);

impl Announcer {
    /// Announces a change unless the version is the one announced last.
    pub(super) fn announce(&self, version: u64) {
        self.0.send_if_modified(|latest| std::mem::replace(latest, version) != version);
    }

    /// Returns a receiver of the changes from now on.
    pub(super) fn changes(&self) -> Changes {
        Changes(self.0.subscribe())
    }
}

impl Default for Announcer {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

/// The changes of the database, by any client. A change is announced soon after it is stored.
#[derive(Clone, Debug)]
pub struct Changes(watch::Receiver<u64>);

impl Changes {
    /// Returns the version of the database. Each announced change gives it another one.
    pub fn version(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits until the database has another version than `seen`. Never returns if the server stops first.
    pub async fn since(&mut self, seen: u64) {
        if self.0.wait_for(|version| *version != seen).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The long polls of all queues.
#[derive(Clone, Debug, Default)]
pub struct LongPolls(Arc<Notify>);

impl LongPolls {
    /// Ends the polls that wait now. They return no messages.
    pub fn end(&self) {
        self.0.notify_waiters();
    }

    /// Waits for the next call of [`Self::end`], from the time of this call.
    pub(super) fn ended(&self) -> Notified<'_> {
        self.0.notified()
    }
}

/// The most receipts that are remembered.
const MAX_CHANGED: usize = 100_000;

/// The handles of receipts whose visibility timeout a request has changed. A function that changes it decides
/// when the message is received again.
#[derive(Clone, Debug)]
pub struct ChangedVisibility(Option<Arc<Mutex<HashSet<String>>>>);

impl ChangedVisibility {
    /// Returns the handles of a queue service in another program, where it is not known which were changed.
    fn unknown() -> Self {
        Self(None)
    }

    pub(super) fn add(&self, receipt_handle: &str) {
        let Some(changed) = &self.0 else { return };
        let mut changed = changed.lock().unwrap_or_else(PoisonError::into_inner);
        if changed.len() >= MAX_CHANGED {
            changed.clear();
        }
        changed.insert(receipt_handle.to_owned());
    }

    /// Removes a receipt. Returns whether its visibility timeout was changed, or may have been.
    pub fn take(&self, receipt_handle: &str) -> bool {
        let Some(changed) = &self.0 else { return true };
        changed.lock().unwrap_or_else(PoisonError::into_inner).remove(receipt_handle)
    }
}

impl Default for ChangedVisibility {
    fn default() -> Self {
        Self(Some(Arc::default()))
    }
}

/// Announces a change at intervals, for services in other programs, which announce none. Dropping this ends it.
#[derive(Debug)]
pub(crate) struct Ticks {
    changes: Changes,
    task: JoinHandle<()>,
}

impl Ticks {
    /// Starts to announce.
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

    /// Returns signals with these changes.
    pub(crate) fn signals(&self) -> Signals {
        Signals {
            changes: self.changes.clone(),
            long_polls: LongPolls::default(),
            changed_visibility: ChangedVisibility::unknown(),
        }
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        self.task.abort();
    }
}
