//! Changes of single keys: permits returned or charged, blocks, resets, leases.

use std::time::Duration;

use ratekeeper_core::{Decision, LeaseId, Release, Span, Store, StoreError, Verb, bounds::MAX_WAIT};

use crate::{error::RequestError, limiter::Limiter, request::Request};

/// Changing a key
impl<S: Store> Limiter<S> {
    /// Returns permits that were taken and not used: as many as the request's cost. Never fills a key above its limit.
    /// Permits with a reservation after them count as spent, because that reservation has been promised its time.
    ///
    /// A request with an [id](Request::id) is [cancelled](Self::cancel).
    pub async fn refund<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        let request = request.into();
        match request.terms.id {
            Some(id) => self.carry_out(request, Verb::Cancel { id }).await,
            None => self.carry_out(request, Verb::Refund { at: None }).await,
        }
    }

    /// Charges the request's cost unconditionally; may leave the key in debt.
    pub async fn penalize<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        self.carry_out(request.into(), Verb::Penalize).await
    }

    /// Corrects an estimate that was charged earlier. The request's cost is what was charged; the difference to `actual` is
    /// returned or charged. [`reserve`](Self::reserve) keeps these numbers together.
    pub async fn settle<'a>(&self, request: impl Into<Request<'a>>, actual: u64) -> Result<Decision, RequestError> {
        let request = request.into();
        match request.terms.id {
            Some(id) => self.carry_out(request, Verb::Commit { id, actual }).await,
            None => self.carry_out(request, Verb::Settle { actual, at: None }).await,
        }
    }

    /// Finishes a request that was charged under the [id](Request::id) of this one: corrects its charge to the actual cost, by
    /// any process that knows key and id. The second commit or cancel of an id changes nothing and returns
    /// [what was charged](Decision::granted) by the first. An id that is not known is an error
    /// ([`StoreError::UnknownId`]): it was never charged, or its lifetime has ended.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use ratekeeper::{Limiter, ManualClock, Quota, Request, Rule};
    /// let rule = Rule::token_bucket("tokens", Quota::per_minute(10_000));
    /// let limiter = Limiter::builder().rule(rule).clock(ManualClock::default()).build()?;
    /// let estimate = Request::new("tenant:7").cost(2_000).id("completion-91");
    /// assert_eq!(limiter.check(estimate).await?.remaining(), 8_000);
    /// assert_eq!(limiter.check(estimate).await?.remaining(), 8_000); // sent again: charged once
    ///
    /// let used = Request::new("tenant:7").id("completion-91");
    /// assert_eq!(limiter.commit(used, 1_250).await?.remaining(), 8_750);
    /// assert_eq!(limiter.commit(used, 1_250).await?.remaining(), 8_750);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn commit<'a>(&self, request: impl Into<Request<'a>>, actual: u64) -> Result<Decision, RequestError> {
        let request = request.into();
        let id = request.terms.id.ok_or(StoreError::UnknownId)?;
        self.carry_out(request, Verb::Commit { id, actual }).await
    }

    /// Finishes a request that was charged under the [id](Request::id) of this one: returns its permits and ends its lease. See
    /// [`commit`](Self::commit).
    pub async fn cancel<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        let request = request.into();
        let id = request.terms.id.ok_or(StoreError::UnknownId)?;
        self.carry_out(request, Verb::Cancel { id }).await
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
        if matches!(verb, Verb::Reset | Verb::Release(_) | Verb::Cancel { .. }) {
            slot.wake(request.key);
        }
        Ok(decision?)
    }
}
