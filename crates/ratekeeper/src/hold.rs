//! Leases under concurrency rules, released on drop.

use std::{fmt, time::Duration};

use ratekeeper_core::{LeaseId, Release, Store, StoreError, Verb};

use crate::{
    error::AcquireError,
    limiter::Limiter,
    request::Request,
    waiting::{TaskWaiting, Waiting},
};

/// Permits held under a concurrency rule. Dropping the guard releases them.
#[must_use = "dropped at once, the lease is released at once"]
pub struct LeaseGuard<S: Store> {
    /// Its default policy is the one the lease is held under.
    limiter: Limiter<S>,
    key: String,
    lease: Option<LeaseId>,
}

impl<S: Store> Limiter<S> {
    /// Waits for a lease under this key, for as many permits as the request's cost. Without a concurrency rule this is an
    /// [`acquire`](Self::acquire) with nothing to release.
    pub async fn hold<'a>(&self, request: impl Into<Request<'a>>) -> Result<LeaseGuard<S>, AcquireError> {
        self.hold_by(request.into(), None).await
    }

    /// [`hold`](Self::hold), denied if there is no lease within this time. A lease may be released at any moment, so the
    /// whole time is waited. Zero tries.
    pub async fn hold_within<'a>(
        &self,
        request: impl Into<Request<'a>>,
        timeout: Duration,
    ) -> Result<LeaseGuard<S>, AcquireError> {
        self.hold_by(request.into(), Some(timeout)).await
    }

    async fn hold_by(&self, request: Request<'_>, timeout: Option<Duration>) -> Result<LeaseGuard<S>, AcquireError> {
        self.hold_waiting(request, timeout, &TaskWaiting).await
    }

    /// Waits for a lease; the wait is spent as `waiting` says.
    pub(crate) async fn hold_waiting<W: Waiting>(
        &self,
        request: Request<'_>,
        timeout: Option<Duration>,
        waiting: &W,
    ) -> Result<LeaseGuard<S>, AcquireError> {
        let slot = self.slot_of(&request)?;
        let acquired = self.acquire_waiting(request, timeout, waiting).await?;
        Ok(LeaseGuard { limiter: self.with_slot(slot), key: request.key.to_owned(), lease: acquired.decision.lease })
    }
}

impl<S: Store> LeaseGuard<S> {
    /// Renews the lease for its whole duration. False if it had expired already; its permits may have been taken by
    /// another request since.
    pub async fn heartbeat(&self) -> Result<bool, StoreError> {
        match self.lease {
            None => Ok(true),
            Some(lease) => Ok(self.decide(Verb::Heartbeat(lease)).await?),
        }
    }

    /// Releases the lease and waits until the store has confirmed it.
    pub async fn release(mut self) -> Result<(), StoreError> {
        let Some(lease) = self.lease.take() else { return Ok(()) };
        let released = self.decide(Verb::Release(Release::Lease(lease))).await;
        self.limiter.slot.wake(&self.key);
        released.map(drop)
    }

    /// Whether the store still knew the lease.
    async fn decide(&self, verb: Verb) -> Result<bool, StoreError> {
        Ok(self.limiter.decide(&self.limiter.slot, &self.key, 0, verb).await?.lease.is_some())
    }
}

impl<S: Store> Drop for LeaseGuard<S> {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.limiter.submit(&self.limiter.slot, &self.key, 0, Verb::Release(Release::Lease(lease)));
        }
    }
}

impl<S: Store> fmt::Debug for LeaseGuard<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseGuard").field("key", &self.key).field("lease", &self.lease).finish_non_exhaustive()
    }
}
