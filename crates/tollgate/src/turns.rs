//! Waiting for what others hold.
//!
//! A rate frees permits at known moments; a holder lets go when it pleases. So waiters for a place queue up here, per
//! key, in the order they came; the first of them asks the store whenever a place is given up in this process, and now
//! and then in case it was in another.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, OwnedMutexGuard};

use crate::wait::Patience;

/// The queues of all keys that anybody waits for.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queues: Mutex<HashMap<String, Arc<Queue>>>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Held by the first in line; tokio hands it on in arrival order.
    first: Arc<tokio::sync::Mutex<()>>,
    released: Notify,
}

/// A place at the head of the queue. Dropping it lets the next one ask.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    key: String,
    queue: Option<Arc<Queue>>,
    first: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits to be the first in line; `None` if patience runs out before.
    pub(crate) async fn queue(&self, key: &str, patience: &Patience) -> Option<Turn<'_>> {
        let queue = Arc::clone(self.lock().entry(key.to_owned()).or_default());
        let first = Arc::clone(&queue.first).lock_owned();
        // The turn holds the only handle of ours on the queue, so that it can tell when it is the last one out.
        let mut turn = Turn { turns: self, key: key.to_owned(), queue: Some(queue), first: None };
        turn.first = Some(match patience.timeout {
            None => first.await,
            Some(_) => tokio::time::timeout(patience.left().into(), first).await.ok()?,
        });
        Some(turn)
    }

    /// Completes when a place under this key is given up after this call.
    pub(crate) fn listen(&self, key: &str) -> impl Future<Output = ()> + use<> {
        let queue = self.lock().get(key).cloned();
        async move {
            match queue {
                Some(queue) => queue.released.notified().await,
                None => std::future::pending().await,
            }
        }
    }

    /// A place was given up. A permit to look is kept if the first in line is not listening at this moment.
    pub(crate) fn wake(&self, key: &str) {
        if let Some(queue) = self.lock().get(key) {
            queue.released.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.first = None;
        self.queue = None;
        let mut queues = self.turns.lock();
        // The last one out takes the queue down: the map then holds the only handle.
        if queues.get(&self.key).is_some_and(|queue| Arc::strong_count(queue) == 1) {
            queues.remove(&self.key);
        }
    }
}
