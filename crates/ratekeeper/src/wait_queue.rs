//! Fair wait queue for leases of a concurrency rule, per key.
//!
//! A rate frees permits at known times; a lease is released at an unknown one. So the tasks and threads of this process queue per key
//! in arrival order. The head of the queue asks the store after every release in this process, and periodically for
//! releases in others.
//!
//! Bound: one queue per key with waiting tasks; the last task removes it.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, OwnedMutexGuard};

use crate::{deadline::Deadline, waiting::Waiting};

/// The queues of all keys with waiting tasks.
#[derive(Debug, Default)]
pub(crate) struct WaitQueues {
    queues: Mutex<HashMap<String, Arc<Queue>>>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Locked by the head of the queue; tokio passes it on in arrival order.
    head: Arc<tokio::sync::Mutex<()>>,
    released: Notify,
}

/// The head of a queue. Dropping it makes the next task the head.
pub(crate) struct QueueHead<'a> {
    queues: &'a WaitQueues,
    key: String,
    queue: Option<Arc<Queue>>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl WaitQueues {
    /// Waits to become the head; `None` if the deadline passes before.
    pub(crate) async fn join<W: Waiting>(&self, key: &str, deadline: &Deadline, waiting: &W) -> Option<QueueHead<'_>> {
        let queue = Arc::clone(self.lock().entry(key.to_owned()).or_default());
        let guard = Arc::clone(&queue.head).lock_owned();
        // The head holds the only reference of this task to the queue, so that `Drop` can tell whether it is the last.
        let mut head = QueueHead { queues: self, key: key.to_owned(), queue: Some(queue), guard: None };
        head.guard = Some(match deadline.timeout {
            None => guard.await,
            Some(_) => waiting.within(deadline.left().into(), guard).await?,
        });
        Some(head)
    }

    /// Completes at the first release under this key after this call.
    pub(crate) fn released(&self, key: &str) -> impl Future<Output = ()> + use<> {
        let queue = self.lock().get(key).cloned();
        async move {
            match queue {
                Some(queue) => queue.released.notified().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Reports a release. It is remembered if the head is not waiting for one at the moment.
    pub(crate) fn wake(&self, key: &str) {
        if let Some(queue) = self.lock().get(key) {
            queue.released.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QueueHead<'_> {
    fn drop(&mut self) {
        self.guard = None;
        self.queue = None;
        let mut queues = self.queues.lock();
        // The map holds the only reference: no task is waiting any more.
        if queues.get(&self.key).is_some_and(|queue| Arc::strong_count(queue) == 1) {
            queues.remove(&self.key);
        }
    }
}
