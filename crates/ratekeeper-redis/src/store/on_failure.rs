//! Decisions without the store: each rule by its `on_store_failure`.

use std::time::Instant;

use ratekeeper_core::{Decision, Release, Source, StoreError, Terms, Verb};

use super::{Failure, RedisStore, failure::with_causes};
use crate::{ledger::RequestKey, link::CallError};

impl RedisStore {
    pub(super) fn decide_without_store(
        &self,
        asks: &[RequestKey<'_>],
        verb: &Verb,
        failure: Failure,
    ) -> Result<Decision, StoreError> {
        self.decide_without_store_with(asks, verb, &Terms::NONE, failure)
    }

    /// The same under these terms.
    pub(super) fn decide_without_store_with(
        &self,
        asks: &[RequestKey<'_>],
        verb: &Verb,
        terms: &Terms,
        failure: Failure,
    ) -> Result<Decision, StoreError> {
        if let Failure::UnknownId = failure {
            return Err(failure.into());
        }
        let inner = &*self.inner;
        self.probe_after(&failure);
        self.count_foreign(&failure);
        let now = Instant::now();
        // The error of a foreign value names a key, which must not be logged; that event has its own line.
        let is_foreign = matches!(failure, Failure::NotOurs(_));
        let error = StoreError::from(failure);
        let cause = with_causes(&error);
        if !is_foreign {
            inner.fallback_log.decided_without_store(&cause, || inner.policies.failure_answers(), now);
        }
        *inner.last_failure.lock() = Some((now, cause));
        match verb {
            Verb::Take(_) | Verb::Peek => self.decide_by_fallback_with(asks, verb, terms),
            verb => {
                let now = self.now_here();
                let held = asks.first().and_then(|request| inner.fallback.hold(request, verb, now));
                self.ensure_charging();
                held.ok_or(error)
            }
        }
    }

    /// After a refused call, probes whether every call would be refused.
    pub(super) fn probe_after(&self, failure: &Failure) {
        if let Failure::Call(CallError::Refused { .. } | CallError::NotExecuted { .. }) = failure {
            self.start_health_probe();
        }
    }

    /// Counts a request that met a foreign value which was left alone.
    pub(super) fn count_foreign(&self, failure: &Failure) {
        if let Failure::NotOurs(_) = failure {
            self.inner.counters.foreign_states.add_one();
        }
    }

    /// Decides a take or a peek by each rule's `on_store_failure`.
    pub(super) fn decide_by_fallback(&self, asks: &[RequestKey<'_>], verb: &Verb) -> Result<Decision, StoreError> {
        let inner = &*self.inner;
        if !inner.fallback.ledger.store_reached() && inner.link.was_reached() {
            inner.fallback.ledger.note_store_reached();
        }
        let (decision, recorded) = inner.fallback.decide(asks, verb, self.now_here());
        if recorded.is_err() {
            inner.counters.local_no_room.add_one();
        }
        match decision.source {
            Source::Open if decision.is_allowed() => inner.counters.let_through.add_one(),
            Source::Closed | Source::Open => inner.counters.turned_away.add_one(),
            _ => inner.counters.decided_locally.add_one(),
        }
        if inner.owing().0 > 0 {
            self.ensure_charging();
        }
        Ok(decision)
    }

    /// The store granted permits while this process granted permits of the same key locally. The store's grant counts as
    /// spent: both may have been the last permit. It is not refunded, because part of it may have drained and would be
    /// refunded twice. A lease is released.
    pub(super) fn release_raced(&self, requests: &[RequestKey<'_>], raced: &Decision) {
        if let (Some(id), [request]) = (raced.lease, requests) {
            self.submit_alone(request, Verb::Release(Release::Lease(id)));
        }
    }
}
