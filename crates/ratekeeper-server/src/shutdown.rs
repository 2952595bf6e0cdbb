//! Shutdown signal: accept no new work, finish what is in flight.

use tokio::sync::watch;

/// Begins the shutdown of a server.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Observes the shutdown signal. Clones observe the same signal.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

/// A stopper and its observer.
pub fn channel() -> (Stopper, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Shutdown(receiver))
}

impl Stopper {
    /// Begins shutdown. Further calls have no effect.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Another observer.
    pub fn shutdown(&self) -> Shutdown {
        Shutdown(self.0.subscribe())
    }
}

impl Shutdown {
    /// Waits until shutdown begins. A dropped [`Stopper`] begins it too.
    pub async fn begun(&mut self) {
        // The error means that the stopper was dropped.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// Whether shutdown has begun.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}
