//! One word to everybody: finish what you have, take nothing new.

use tokio::sync::watch;

/// Whoever holds this can ask the server to stop.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Whether the server has been asked to stop. Clones hear the same word.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

/// A stopper, and what hears it.
pub fn channel() -> (Stopper, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Shutdown(receiver))
}

impl Stopper {
    /// Asks. Asking twice is asking once.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// One more listener to the word.
    pub fn shutdown(&self) -> Shutdown {
        Shutdown(self.0.subscribe())
    }
}

impl Shutdown {
    /// Waits until somebody asks, or until nobody is left who could.
    pub async fn begun(&mut self) {
        // An error means that the stopper is gone, which is as good as a word.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// Whether somebody has asked.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}
