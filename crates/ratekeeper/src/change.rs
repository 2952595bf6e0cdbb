//! Changes of single keys: permits returned or charged, blocks, resets, leases.

use std::time::Duration;

use ratekeeper_core::{Decision, LeaseId, Release, Span, Store, Verb, bounds::MAX_WAIT};

use crate::{error::RequestError, limiter::Limiter, request::Request};

/// Changing a key
impl<S: Store> Limiter<S> {
    /// Returns permits that were taken and not used: as many as the request's cost. Never fills a key above its limit.
    /// Permits with a reservation after them count as spent, because that reservation has been promised its time.
    pub async fn refund<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        self.carry_out(request.into(), Verb::Refund { at: None }).await
    }

    /// Charges the request's cost unconditionally; may leave the key in debt.
    pub async fn penalize<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        self.carry_out(request.into(), Verb::Penalize).await
    }

    /// Corrects an estimate that was charged earlier. The request's cost is what was charged; the difference to `actual` is
    /// returned or charged. [`reserve`](Self::reserve) keeps these numbers together.
    pub async fn settle<'a>(&self, request: impl Into<Request<'a>>, actual: u64) -> Result<Decision, RequestError> {
        self.carry_out(request.into(), Verb::Settle { actual, at: None }).await
    }

    /// Denies every request of the key for a time, 100 days at most. Zero lifts the block. Ignores the cost.
    pub async fn block<'a>(&self, request: impl Into<Request<'a>>, span: Duration) -> Result<Decision, RequestError> {
        self.carry_out(request.into(), Verb::Block { span: Span::from_duration(span).min(MAX_WAIT) }).await
    }

    /// Deletes the state of the key, blocks and leases included. Ignores the cost.
    pub async fn reset<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        self.carry_out(request.into(), Verb::Reset).await
    }

    /// Ends a lease under a concurrency rule. [`Decision::lease`] is `None` if it had ended already. Ignores the cost.
    pub async fn release<'a>(&self, request: impl Into<Request<'a>>, lease: LeaseId) -> Result<Decision, RequestError> {
        self.carry_out(request.into(), Verb::Release(Release::Lease(lease))).await
    }

    /// Renews a lease for its whole duration. [`Decision::lease`] is `None` if it had ended already; its permits may have
    /// been taken by another request since. Ignores the cost.
    pub async fn heartbeat<'a>(
        &self,
        request: impl Into<Request<'a>>,
        lease: LeaseId,
    ) -> Result<Decision, RequestError> {
        self.carry_out(request.into(), Verb::Heartbeat(lease)).await
    }

    async fn carry_out(&self, request: Request<'_>, verb: Verb) -> Result<Decision, RequestError> {
        let slot = self.slot_of(&request)?;
        let decision = self.decide(slot, request.key, request.cost, verb).await;
        if matches!(verb, Verb::Reset | Verb::Release(_)) {
            slot.wake(request.key);
        }
        Ok(decision?)
    }
}
