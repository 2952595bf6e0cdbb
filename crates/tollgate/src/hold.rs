//! Holding one of N places, and letting go by going away.

use std::{fmt, time::Duration};

use tokio::time::Instant;
use tollgate_core::{LeaseId, Release, Store, StoreError, Verb};

use crate::{error::AcquireError, limiter::Limiter, wait::Patience};

/// A place under a concurrency rule. Dropping it gives the place up.
#[must_use = "dropped at once, the place is given up at once"]
pub struct Held<S: Store> {
    limiter: Limiter<S>,
    key: String,
    lease: Option<LeaseId>,
}

impl<S: Store> Limiter<S> {
    /// Waits for one of the places under this key and holds it. Without a concurrency rule, this is an
    /// [`acquire`](Self::acquire) with nothing to give up.
    pub async fn hold(&self, key: &str) -> Result<Held<S>, AcquireError> {
        self.hold_by(key, None).await
    }

    /// The same, within this time.
    pub async fn hold_timeout(&self, key: &str, timeout: Duration) -> Result<Held<S>, AcquireError> {
        self.hold_by(key, Some(timeout)).await
    }

    async fn hold_by(&self, key: &str, timeout: Option<Duration>) -> Result<Held<S>, AcquireError> {
        let patience = Patience { began: Instant::now(), timeout };
        let acquired = if self.shared.holds() {
            self.acquire_held(key, 1, &patience).await?
        } else {
            match timeout {
                None => self.acquire(key, 1).await?,
                Some(timeout) => self.acquire_timeout(key, 1, timeout).await?,
            }
        };
        Ok(Held { limiter: self.clone(), key: key.to_owned(), lease: acquired.decision.lease })
    }
}

impl<S: Store> Held<S> {
    /// Says that the holder is still there, for another length of the lease. False if the lease had ended already, so
    /// that somebody else may hold the place by now.
    pub async fn heartbeat(&self) -> Result<bool, StoreError> {
        match self.lease {
            None => Ok(true),
            Some(lease) => Ok(self.limiter.heartbeat(&self.key, lease).await?.lease.is_some()),
        }
    }

    /// Gives the place up and waits until the store knows.
    pub async fn release(mut self) -> Result<(), StoreError> {
        match self.lease.take() {
            None => Ok(()),
            Some(lease) => self.limiter.release(&self.key, lease).await.map(drop),
        }
    }
}

impl<S: Store> Drop for Held<S> {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            let shared = &self.limiter.shared;
            shared.store.tell(shared.ask(&self.key), Verb::Release(Release::Lease(lease)));
            shared.wake(&self.key);
        }
    }
}

impl<S: Store> fmt::Debug for Held<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("key", &self.key).field("lease", &self.lease).finish_non_exhaustive()
    }
}
