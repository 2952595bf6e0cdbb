//! Permits charged by estimate, to be corrected.

use std::fmt;

use tollgate_core::{Decision, Micros, Source, Store, StoreError, Verb};

use crate::limiter::Limiter;

/// Permits that have been charged and will be settled, or given back.
///
/// Dropped without either, they stay charged as estimated: the safe side, and what a crash would leave behind.
#[must_use = "settle it with the real cost, or the estimate stays charged"]
pub struct Reservation<S: Store> {
    limiter: Limiter<S>,
    key: String,
    cost: u64,
    at: Micros,
    decision: Decision,
}

impl<S: Store> Reservation<S> {
    pub(crate) fn new(limiter: Limiter<S>, key: String, cost: u64, at: Micros, decision: Decision) -> Self {
        Self { limiter, key, cost, at, decision }
    }

    /// What was charged.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// How long to hold still before going; 0 unless it was reserved for later.
    pub fn wait(&self) -> Micros {
        self.decision.wait()
    }

    /// The decision it came from.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The real cost is known: gives the rest back, or charges what is missing, even into debt.
    pub async fn settle(self, actual: u64) -> Result<Decision, StoreError> {
        let verb = Verb::Settle { reserved: self.cost, actual, at: self.moment() };
        self.limiter.decide(&self.key, verb).await
    }

    /// It will not be used: gives everything back, unless somebody has been promised a place behind it.
    pub async fn cancel(self) -> Result<Decision, StoreError> {
        let verb = Verb::Undo { cost: self.cost, at: self.at, lease: self.decision.lease };
        let decision = self.limiter.decide(&self.key, verb).await;
        self.limiter.shared.wake(&self.key);
        decision
    }

    /// When it goes matters while it is ahead; behind us, a permit is a permit. One that the store did not grant itself
    /// must be known again by its moment, or the store would give back what it never took.
    fn moment(&self) -> Option<Micros> {
        let is_elsewhere = matches!(self.decision.source, Source::Local | Source::Open);
        (is_elsewhere || self.decision.wait() > Micros::ZERO).then_some(self.at)
    }
}

impl<S: Store> fmt::Debug for Reservation<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Reservation");
        all.field("key", &self.key).field("cost", &self.cost).field("at", &self.at).finish_non_exhaustive()
    }
}
