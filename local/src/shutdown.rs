//! How everything that runs is told to end.

use tokio::sync::watch;

/// Ends what holds its [`Shutdown`]s. Dropping it ends them too, so that nothing outlives its owner.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

/// Resolves when the end was asked for.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// A trigger, and what it ends.
pub fn channel() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// Asks for the end.
    pub fn fire(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Waits until the end is asked for. May be called again and again.
    pub async fn requested(&mut self) {
        // An error means that the trigger is gone, which is the end too.
        let _ = self.0.wait_for(|asked| *asked).await;
    }

    /// Whether the end was asked for.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}
