//! Acquisition of permits with a wait.
//!
//! One call to the store reserves the permits for the time they become free; then the task sleeps. Leases of a
//! concurrency rule end at unknown times, so there the task waits for a release; see [`wait_queue`](crate::wait_queue).

use std::{sync::Arc, time::Duration};

use ratekeeper_core::{Decision, LeaseId, Source, Span, Store, StoreError, Take, Terms, Timestamp, Verb, Verdict};

use crate::{
    deadline::Deadline,
    error::AcquireError,
    limiter::Limiter,
    observer::LimiterEvent,
    policies::PolicySlot,
    request::Request,
    trace::trace_event,
    waiting::{TaskWaiting, Waiting},
};

/// Permits that were acquired.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Acquired {
    /// The time from the call to the grant.
    pub waited: Duration,
    /// The decision that granted it.
    pub decision: Decision,
}

impl<S: Store> Limiter<S> {
    /// Takes the permits, sleeping until they are free.
    ///
    /// The permits are charged at once for the time they become free, so waiters are served in arrival order, in all
    /// processes that share the store. If the future is dropped before that time the permits are refunded, unless a
    /// later reservation depends on them.
    ///
    /// A request with an [id](Request::id) keeps its permits if the future is dropped: sent again, it gets the same ones.
    ///
    /// The longest wait is [100 days](ratekeeper_core::bounds::MAX_WAIT); a request that would wait longer, or whose key is
    /// blocked, is [denied](AcquireError::Denied) at once.
    pub async fn acquire<'a>(&self, request: impl Into<Request<'a>>) -> Result<Acquired, AcquireError> {
        self.acquire_by(request.into(), None).await
    }

    /// Takes the permits within this time, or is [denied](AcquireError::Denied) at once and charges nothing. Zero tries.
    pub async fn acquire_within<'a>(
        &self,
        request: impl Into<Request<'a>>,
        timeout: Duration,
    ) -> Result<Acquired, AcquireError> {
        self.acquire_by(request.into(), Some(timeout)).await
    }

    pub(crate) async fn acquire_by(
        &self,
        request: Request<'_>,
        timeout: Option<Duration>,
    ) -> Result<Acquired, AcquireError> {
        self.acquire_waiting(request, timeout, &TaskWaiting).await
    }

    /// Takes the permits; the wait is spent as `waiting` says.
    pub(crate) async fn acquire_waiting<W: Waiting>(
        &self,
        request: Request<'_>,
        timeout: Option<Duration>,
        waiting: &W,
    ) -> Result<Acquired, AcquireError> {
        let deadline = Deadline::after(timeout);
        let wanted = Wanted {
            limiter: self,
            slot: self.slot_of(&request)?,
            key: request.key,
            permits: request.cost,
            terms: request.terms,
        };
        if wanted.slot.has_leases() {
            return wanted.acquire_lease(&deadline, waiting).await;
        }
        let decision = wanted.take(Take::within(deadline.left())).await?;
        wanted.sleep_until_granted(decision, &deadline, waiting).await
    }
}

/// The permits that a task waits for.
#[derive(Clone, Copy)]
struct Wanted<'a, S: Store> {
    limiter: &'a Limiter<S>,
    slot: &'a Arc<PolicySlot<S>>,
    key: &'a str,
    permits: u64,
    terms: Terms,
}

impl<S: Store> Wanted<'_, S> {
    async fn take(&self, take: Take) -> Result<Decision, StoreError> {
        self.limiter.decide_with(self.slot, self.key, self.permits, Verb::Take(take), self.terms).await
    }

    /// Sleeps until granted permits are due. Refunds them if the future is dropped or wakes up too late.
    async fn sleep_until_granted<W: Waiting>(
        &self,
        decision: Decision,
        deadline: &Deadline,
        waiting: &W,
    ) -> Result<Acquired, AcquireError> {
        let wait = match decision.verdict {
            Verdict::Allow { wait } => wait,
            Verdict::Deny { retry_after } => return Err(denied(retry_after)),
            Verdict::Never => return Err(AcquireError::ExceedsLimit { cost: self.permits, limit: decision.limit() }),
        };
        let at = decision.decided_at + wait;
        // A repeated decision was made earlier.
        let wait = if decision.source == Source::Repeated { at.since(self.limiter.shared.store.now()) } else { wait };
        // A request with an id may be sent again, and then gets this reservation; it is cancelled by its id.
        let kept = self.terms.id.is_some();
        let mut booked = CancelOnDrop { wanted: self, at, lease: decision.lease, kept };
        // The round trip to the store counts against the deadline.
        if wait > deadline.left() {
            return Err(denied(wait));
        }
        if wait > Span::ZERO {
            waiting.sleep(wait.into()).await;
        }
        if let Some(late_by) = deadline.missed_by(wait) {
            return Err(AcquireError::DeadlineMissed { late_by });
        }
        booked.kept = true;
        drop(booked);
        let waited = deadline.elapsed();
        if let Some(observer) = &self.limiter.shared.observer {
            observer.event(&LimiterEvent::Waited {
                policy: &self.slot.name,
                key: self.key,
                cost: self.permits,
                waited,
            });
        }
        Ok(Acquired { waited, decision })
    }

    /// Waits for a lease under a concurrency rule: tries, and tries again after a release or an expiry.
    async fn acquire_lease<W: Waiting>(&self, deadline: &Deadline, waiting: &W) -> Result<Acquired, AcquireError> {
        let wait_queue = &self.slot.wait_queue;
        let Some(_head) = wait_queue.join(self.key, deadline, waiting).await else {
            // Other tasks are still queued. At the latest, all leases have expired when the key is back to its initial state.
            let state = self.limiter.decide(self.slot, self.key, 0, Verb::Peek).await?;
            return Err(denied(state.reset_after_span()));
        };
        loop {
            // Subscribe before trying, so that a release in between is not missed.
            let released = wait_queue.released(self.key);
            let decision = self.take(self.limiter.take(self.slot, Take::now())).await?;
            let Verdict::Deny { retry_after } = decision.verdict else {
                return self.sleep_until_granted(decision, deadline, waiting).await;
            };
            let left = deadline.left();
            if left == Span::ZERO {
                return Err(denied(retry_after));
            }
            // A lease may also expire, or be released in another process.
            let pause = retry_after.min(left).min(POLL_INTERVAL);
            let _ = waiting.within(pause.into(), released).await;
        }
    }
}

fn denied(retry_after: Span) -> AcquireError {
    AcquireError::Denied { retry_after: retry_after.into() }
}

/// Cancels a reservation when dropped, unless it is `kept`.
struct CancelOnDrop<'a, S: Store> {
    wanted: &'a Wanted<'a, S>,
    at: Timestamp,
    lease: Option<LeaseId>,
    kept: bool,
}

impl<S: Store> Drop for CancelOnDrop<'_, S> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let Wanted { limiter, slot, key, permits, .. } = *self.wanted;
        limiter.submit(slot, key, permits, Verb::Undo { at: self.at, lease: self.lease });
        trace_event!(debug, policy = &*slot.name, permits, "wait cancelled, permits refunded");
        if let Some(observer) = &limiter.shared.observer {
            observer.event(&LimiterEvent::WaitCancelled { policy: &slot.name, key, cost: permits });
        }
    }
}

/// The longest delay until a release in another process is noticed.
const POLL_INTERVAL: Span = Span::from_millis(100);
