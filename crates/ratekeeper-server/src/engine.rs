//! The engine: resolves requests against the rulebook, asks the store, combines the decisions.
//!
//! ```text
//! Request ─resolve─▶ policies and keys ─store, one atomic step─▶ Decision ─conclude─▶ Answer
//! ```
//!
//! One path serves all stores. A store in this process decides without I/O, so its futures are ready at the first poll;
//! callers that must not wait use [`Engine::now`].

mod answer;
mod conclude;
mod counter_id;
mod explain;
mod granted_leases;
mod inline_limits;
mod quotas;
mod reload;
mod resolve;
mod throttle;

use std::{
    slice,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::{ArcSwap, Guard};
use futures_util::FutureExt;
use parking_lot::Mutex;
use ratekeeper_core::{
    Ask, Decision, LeaseId, Release, Store, StoreError, Take, Terms, Timestamp, Verb, store_api::LeaseIds,
};

pub use self::{
    answer::{Answer, Resolution, SubjectAnswer},
    explain::ExplainedSubject,
    inline_limits::{INLINE_DOMAIN, MAX_INLINE_LIMITS, Throttle},
    reload::{LoadError, RulesStatus},
};
use self::{granted_leases::GrantedLeases, inline_limits::InlinePolicies, reload::RuleInputs, resolve::Resolved};
use crate::{
    request::{InlineRules, Request, RequestError, RequestedLimit},
    rulebook::{PolicyEntry, Rulebook},
    telemetry::Telemetry,
    wiring::{AnyPolicy, AnyStore},
};

/// Decides requests by the current rules. Clones share one engine.
#[derive(Clone, Debug)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: AnyStore,
    book: ArcSwap<Rulebook>,
    inline_limits: InlinePolicies,
    telemetry: Arc<Telemetry>,
    /// The inputs of the next rulebook; locked while one is built.
    inputs: Mutex<RuleInputs>,
    lease_ids: LeaseIds,
    granted_leases: GrantedLeases,
    envoy_counts_refused: AtomicBool,
}

impl Engine {
    /// An engine without rules. It allows every request until rules are [loaded](Self::load).
    pub fn new(store: AnyStore, telemetry: Arc<Telemetry>) -> Self {
        telemetry.expect_unlimited(Resolution::WITHOUT_LIMIT.map(Resolution::name));
        let inner = Inner {
            store,
            book: ArcSwap::default(),
            inline_limits: InlinePolicies::new(),
            telemetry,
            inputs: Mutex::default(),
            lease_ids: LeaseIds::random(),
            granted_leases: GrantedLeases::default(),
            envoy_counts_refused: AtomicBool::new(true),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Decides a request by the rules of its domain.
    pub async fn decide(&self, request: &Request<'_>) -> Result<Answer, RequestError> {
        self.decide_with(request, &Terms::NONE).await
    }

    /// The same under further terms: an id, a reservation, a least cost. Only takes have terms.
    #[inline]
    pub async fn decide_with(&self, request: &Request<'_>, terms: &Terms) -> Result<Answer, RequestError> {
        request.check()?;
        let book = self.book();
        let resolved = Resolved::new(request, &book, self)?;
        let decision = self.ask_store_for(&resolved, request.verb, terms).await?;
        if let Some(decision) = &decision {
            self.observe_leases(&resolved, request.verb, decision);
        }
        let answer = resolved.conclude(request, decision, self);
        self.inner.telemetry.traces().set_decision(|| answer.span_attributes(request.domain));
        Ok(answer)
    }

    /// The output of one of this engine's futures, if its store decides without waiting. Else `None`, and the future is
    /// not created.
    #[inline]
    pub fn now<F: Future>(&self, future: impl FnOnce() -> F) -> Option<F::Output> {
        if self.inner.store.is_immediate() { future().now_or_never() } else { None }
    }

    /// The answer to a take of one key that a prepaid limit decides in this process. `None` if the store has to be asked;
    /// then nothing was counted.
    pub fn decide_here(&self, request: &Request<'_>) -> Option<Answer> {
        let Verb::Take(take) = request.verb else { return None };
        if !self.inner.store.may_decide_here() || request.check().is_err() {
            return None;
        }
        let book = self.book();
        let resolved = Resolved::new(request, &book, self).ok()?;
        let decision = match resolved.asks(request.verb).as_slice() {
            [ask] if !resolved.refused => self.inner.store.decide_here(ask, &take)?,
            _ => return None,
        };
        Some(resolved.conclude(request, Some(decision), self))
    }

    /// Metrics and traces.
    pub fn telemetry(&self) -> &Telemetry {
        &self.inner.telemetry
    }

    /// The store.
    pub fn store(&self) -> &AnyStore {
        &self.inner.store
    }

    /// The current rules.
    pub fn rulebook(&self) -> Arc<Rulebook> {
        self.inner.book.load_full()
    }
}

impl Engine {
    /// The current rules, for the duration of one request. A guard of `load` occupies one of a few slots of its thread,
    /// so requests that wait for the store hold a reference count instead.
    #[inline]
    fn book(&self) -> Guard<Arc<Rulebook>> {
        let book = &self.inner.book;
        if self.inner.store.is_immediate() { book.load() } else { Guard::from_inner(book.load_full()) }
    }

    /// Executes the verb for every target. A take is one store call for all targets; other verbs are one call per
    /// target, in sequence.
    #[inline]
    async fn ask_store_for(
        &self,
        resolved: &Resolved<'_>,
        verb: Verb,
        terms: &Terms,
    ) -> Result<Option<Decision>, RequestError> {
        let asks = resolved.asks(verb);
        match verb {
            _ if asks.is_empty() => Ok(None),
            Verb::Take(take) => {
                // A request that a ban refuses is only counted; it must not reserve permits.
                let take = if resolved.refused { Take::now() } else { take };
                let holds = resolved.targets.iter().any(|target| target.entry.policy.has_leases());
                // A replay names its leases itself, so that its output is the same each time.
                let is_unnamed = take.lease == LeaseId(0);
                let take = if holds && is_unnamed { take.with_lease(self.inner.lease_ids.next_id()) } else { take };
                self.ask_store_with(&asks, Verb::Take(take), terms).await.map(Some)
            }
            // Keys that were not charged under the id have no record of it.
            verb if verb.finishes().is_some() => {
                let mut decisions = Vec::with_capacity(asks.len());
                for ask in &asks {
                    match self.ask_store(slice::from_ref(ask), verb).await {
                        Err(RequestError::Store(StoreError::UnknownId)) => {}
                        decided => decisions.push(decided?),
                    }
                }
                Decision::in_turn(&decisions).ok_or(RequestError::Store(StoreError::UnknownId)).map(Some)
            }
            verb => {
                let mut decisions = Vec::with_capacity(asks.len());
                for ask in &asks {
                    decisions.push(self.ask_store(slice::from_ref(ask), verb).await?);
                }
                Ok(Decision::in_turn(&decisions))
            }
        }
    }

    /// One store call. The future of a call over the network is boxed, because it would be most of the size of each
    /// request's future.
    #[inline]
    async fn ask_store(&self, asks: &[Ask<'_, AnyPolicy>], verb: Verb) -> Result<Decision, RequestError> {
        self.ask_store_with(asks, verb, &Terms::NONE).await
    }

    /// The same under these terms.
    #[inline]
    async fn ask_store_with(
        &self,
        asks: &[Ask<'_, AnyPolicy>],
        verb: Verb,
        terms: &Terms,
    ) -> Result<Decision, RequestError> {
        let call = self.inner.telemetry.traces().store_call(&self.inner.store);
        let store = &self.inner.store;
        let decided = if terms.is_none() {
            match store.decide_now(asks, &verb) {
                Some(decided) => decided,
                None => Box::pin(store.decide(asks, verb)).await,
            }
        } else {
            Box::pin(store.decide_with(asks, verb, *terms)).await
        };
        call.ended(&decided);
        decided.map_err(|error| {
            let error = RequestError::Store(error);
            if !error.is_client_error() {
                self.inner.telemetry.undecided.inc();
            }
            error
        })
    }

    /// Notes a lease that was granted, and observes the hold time of one that was released.
    #[inline]
    fn observe_leases(&self, resolved: &Resolved<'_>, verb: Verb, decision: &Decision) {
        match (verb, decision.lease) {
            (Verb::Take(_), Some(lease)) => self.inner.granted_leases.note(lease, decision.proceed_at()),
            (Verb::Release(Release::Lease(lease)), _) => {
                let Some(began) = self.inner.granted_leases.take(lease) else { return };
                let held = decision.decided_at.since(began);
                for target in resolved.targets.iter().filter(|target| target.entry.policy.has_leases()) {
                    target.entry.meters.hold_times().observe(held);
                }
            }
            _ => {}
        }
    }

    fn requested(&self, domain: &str, limit: RequestedLimit) -> Result<Arc<PolicyEntry>, RequestError> {
        let counts = self.inner.envoy_counts_refused.load(Ordering::Relaxed);
        self.inner.inline_limits.limit(domain, limit, counts, &self.inner.store, &self.inner.telemetry)
    }

    fn inline_rules(&self, domain: &str, rules: &InlineRules<'_>) -> Result<Arc<PolicyEntry>, RequestError> {
        self.inner.inline_limits.rules(domain, rules, &self.inner.store, &self.inner.telemetry)
    }

    fn let_through(&self, resolution: Resolution) {
        self.inner.telemetry.let_through(resolution.name());
    }

    fn report_unknown(&self, domain: &str) {
        if self.inner.telemetry.is_first_report(domain) {
            tracing::warn!(domain = %domain.escape_debug(), "no rule file has this domain; its requests are allowed (logged once)");
        }
    }

    /// The store's time.
    pub(crate) fn store_time(&self) -> Timestamp {
        self.inner.store.now()
    }
}
