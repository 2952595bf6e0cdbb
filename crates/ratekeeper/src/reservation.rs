//! Reservations: permits charged by estimate, corrected when the real cost is known.

use std::{fmt, time::Duration};

use ratekeeper_core::{
    Decision, RequestId, Source, Span, Store, StoreError, Take, Timestamp, Verb, Verdict, bounds::MAX_WAIT,
};

use crate::{error::AcquireError, limiter::Limiter, request::Request};

/// Permits that have been charged, to be settled or cancelled.
///
/// Dropped without either, they stay charged as estimated. A crash has the same effect, and no limit is exceeded.
#[must_use = "settle it with the real cost, or the estimate stays charged"]
pub struct Reservation<S: Store> {
    /// Its default policy is the one the permits were charged under.
    limiter: Limiter<S>,
    key: String,
    cost: u64,
    at: Timestamp,
    /// The id of its request, if it has one: then it is finished by the id, and twice is once.
    id: Option<RequestId>,
    decision: Decision,
}

impl<S: Store> Limiter<S> {
    /// Charges an estimate now; [`Reservation::settle`] corrects it when the real cost is known.
    pub async fn reserve<'a>(&self, request: impl Into<Request<'a>>) -> Result<Reservation<S>, AcquireError> {
        self.reserve_within(request, Duration::ZERO).await
    }

    /// Charges an estimate for a time up to `max_wait` ahead. It does not sleep: [`Reservation::wait`] is the time that the
    /// caller has to wait before it may proceed.
    pub async fn reserve_within<'a>(
        &self,
        request: impl Into<Request<'a>>,
        max_wait: Duration,
    ) -> Result<Reservation<S>, AcquireError> {
        let request = request.into();
        let slot = self.slot_of(&request)?;
        let take = self.take(slot, Take::up_to(Span::from_duration(max_wait).min(MAX_WAIT)));
        let Request { key, cost, terms, .. } = request;
        let decision = self.decide_with(slot, key, cost, Verb::Take(take), terms).await?;
        match decision.verdict {
            Verdict::Allow { .. } => {
                let (at, cost, id) = (decision.proceed_at(), decision.granted.unwrap_or(cost), terms.id);
                Ok(Reservation { limiter: self.with_slot(slot), key: key.to_owned(), cost, at, id, decision })
            }
            Verdict::Deny { retry_after } => Err(AcquireError::Denied { retry_after: retry_after.into() }),
            Verdict::Never => Err(AcquireError::ExceedsLimit { cost, limit: decision.limit() }),
        }
    }
}

impl<S: Store> Reservation<S> {
    /// The permits that were charged.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The time, from the decision on, after which the caller may proceed. Zero unless it was reserved for later.
    pub fn wait(&self) -> Duration {
        self.decision.wait()
    }

    /// The decision that charged them.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Replaces the estimate by the real cost: returns the difference, or charges it, even into debt.
    pub async fn settle(self, actual: u64) -> Result<Decision, StoreError> {
        self.decide(match self.id {
            Some(id) => Verb::Commit { id, actual },
            None => Verb::Settle { actual, at: self.time_to_match() },
        })
        .await
    }

    /// Returns all permits, unless a later reservation depends on them.
    pub async fn cancel(self) -> Result<Decision, StoreError> {
        let undo = Verb::Undo { at: self.at, lease: self.decision.lease };
        let decision = self.decide(self.id.map_or(undo, |id| Verb::Cancel { id })).await;
        self.limiter.slot.wake(&self.key);
        decision
    }

    async fn decide(&self, verb: Verb) -> Result<Decision, StoreError> {
        self.limiter.decide(&self.limiter.slot, &self.key, self.cost, verb).await
    }

    /// The time that identifies the reservation in the store. It matters while it is ahead; once it has passed, all permits
    /// are equal. A local grant must be identified in any case, or the store would return what it has not charged.
    fn time_to_match(&self) -> Option<Timestamp> {
        let is_local = matches!(self.decision.source, Source::Local | Source::Open);
        (is_local || self.decision.wait() > Duration::ZERO).then_some(self.at)
    }
}

impl<S: Store> fmt::Debug for Reservation<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Reservation");
        all.field("key", &self.key).field("cost", &self.cost).field("at", &self.at).finish_non_exhaustive()
    }
}
