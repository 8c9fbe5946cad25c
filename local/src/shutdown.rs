//! A shutdown signal: a [`Trigger`] requests the shutdown of the tasks that hold a [`Shutdown`].

use tokio::sync::watch;

/// Dropping it requests shutdown too, so that no task outlives its owner.
#[derive(Debug)]
pub(crate) struct Trigger(watch::Sender<bool>);

#[derive(Debug, Clone)]
pub(crate) struct Shutdown(watch::Receiver<bool>);

pub(crate) fn channel() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    pub(crate) fn fire(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Waits until shutdown is requested. Returns at once if it already is.
    pub(crate) async fn requested(&mut self) {
        // An error means that the trigger was dropped, which requests shutdown too.
        let _ = self.0.wait_for(|requested| *requested).await;
    }

    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}
