//! A shutdown signal: a [`Trigger`] requests the shutdown of the tasks that hold a [`Shutdown`].

use tokio::sync::watch;

/// Requests shutdown. Dropping it requests shutdown too, so that no task outlives its owner.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

/// Reports whether shutdown is requested.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// Creates a trigger and its signal, which can be cloned.
pub fn channel() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// Requests shutdown.
    pub fn fire(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Waits until shutdown is requested. Returns at once if it already is.
    pub async fn requested(&mut self) {
        // An error means that the trigger was dropped, which requests shutdown too.
        let _ = self.0.wait_for(|requested| *requested).await;
    }

    /// Checks whether shutdown is requested.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}
