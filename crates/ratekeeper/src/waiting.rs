//! How a caller spends a wait: a task sleeps on tokio's timer, a thread is parked.
//!
//! [`acquire`](crate::acquire) and [`wait_queue`](crate::wait_queue) are written once, for both.

use std::{future::Future, time::Duration};

/// Sleeps, and bounds the wait for a future.
pub(crate) trait Waiting: Sync {
    /// Completes after this time.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;

    /// The output of the future; `None` if it is not ready within this time.
    fn within<F: Future + Send>(&self, time: Duration, future: F) -> impl Future<Output = Option<F::Output>> + Send
    where
        F::Output: Send;
}

/// The wait of a task, on tokio's timer.
pub(crate) struct TaskWaiting;

impl Waiting for TaskWaiting {
    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn within<F: Future + Send>(&self, time: Duration, future: F) -> Option<F::Output>
    where
        F::Output: Send,
    {
        tokio::time::timeout(time, future).await.ok()
    }
}
