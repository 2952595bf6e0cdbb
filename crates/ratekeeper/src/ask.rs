//! Checks: whether a request passes now.

use ratekeeper_core::{Ask, Decision, Immediate, Store, Take, Verb, Verdict};

use crate::{error::RequestError, limiter::Limiter, policies::PolicySlot, request::Request};

/// Asking
impl<S: Store> Limiter<S> {
    /// Takes the permits if all rules admit the request now. A denial is a [`Decision`] with `retry_after`; it charges
    /// nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use ratekeeper::{Limiter, ManualClock, Quota, Rule};
    /// let rule = Rule::token_bucket("burst", Quota::per_second(10));
    /// let limiter = Limiter::builder().rule(rule).clock(ManualClock::default()).build()?;
    /// assert!(limiter.check("user:42").await?.is_allowed());
    /// let decision = limiter.check(("user:42", 10)).await?; // ten permits at once, of the nine that are left
    /// assert_eq!(decision.to_string(), "denied, retry after 100ms; 9 of 10 remaining");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A cost of 0 charges nothing and is admitted even if no permit is left. Under a concurrency rule the
    /// decision carries a lease, to be given to [`release`](Self::release); [`hold`](Self::hold) does that by itself.
    pub async fn check<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        let request = request.into();
        let slot = self.slot_of(&request)?;
        let verb = Verb::Take(self.take(slot, Take::now()));
        Ok(self.decide_with(slot, request.key, request.cost, verb, request.terms).await?)
    }

    /// [`check`](Self::check) without waiting, if the store can decide in this process: it keeps its state here, or the
    /// policy is [prepaid](crate::Speed) and the key is hot. `None` if it cannot; then nothing was charged, and `check` asks
    /// the store.
    #[inline]
    pub fn check_here<'a>(&self, request: impl Into<Request<'a>>) -> Option<Decision> {
        let request = request.into();
        if !request.terms.is_none() {
            return None;
        }
        let slot = self.slot_of(&request).ok()?;
        let (ask, take) = (Ask::new(&slot.handle, request.key).cost(request.cost), self.take(slot, Take::now()));
        let decision = self.shared.store.decide_here(&ask, &take)?;
        if let Some(observer) = &self.shared.observer {
            let verb = Verb::Take(take);
            let decided = Ok(decision);
            observer.decided(&self.shared.store, &slot.name, (request.key, request.cost), &verb, decided.as_ref());
            return decided.ok();
        }
        Some(decision)
    }

    /// Returns permits that this process holds in advance ([prepaid](crate::Speed) policies). For the end of a process.
    pub async fn close(&self) {
        self.shared.store.close().await;
    }

    /// The state of the key. Charges nothing and ignores the cost.
    pub async fn peek<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        let request = request.into();
        Ok(self.decide(self.slot_of(&request)?, request.key, 0, Verb::Peek).await?)
    }
}

/// Asking without a runtime: for stores that answer at once
impl<S: Immediate> Limiter<S> {
    /// [`check`](Self::check) without a future.
    #[inline]
    pub fn check_now<'a>(&self, request: impl Into<Request<'a>>) -> Result<Decision, RequestError> {
        let request = request.into();
        let slot = self.slot_of(&request)?;
        if !request.terms.is_none() {
            return self.check_with_terms(slot, &request);
        }
        if self.shared.observer.is_some() {
            return self.check_observed(slot, request.key, request.cost).0;
        }
        let ask = Ask::new(&slot.handle, request.key).cost(request.cost);
        self.shared.store.take_now(&ask, &self.take(slot, Take::now()))
    }

    /// [`check_now`](Self::check_now) for callers that need the verdict alone. The store skips the other numbers of a
    /// decision, so a check of a hot key takes less time. With an observer it computes them all the same.
    #[inline]
    pub fn verdict_now<'a>(&self, request: impl Into<Request<'a>>) -> Result<Verdict, RequestError> {
        let request = request.into();
        let shared = &*self.shared;
        if shared.observer.is_some() || !request.terms.is_none() {
            return self.check_now(request).map(|decision| decision.verdict);
        }
        let slot = self.slot_of(&request)?;
        let ask = Ask::new(&slot.handle, request.key).cost(request.cost);
        Ok(shared.store.verdict_now(&ask, &self.take(slot, Take::now()))?)
    }

    #[cold]
    #[inline(never)]
    fn check_with_terms(&self, slot: &PolicySlot<S>, request: &Request<'_>) -> Result<Decision, RequestError> {
        let Request { key, cost, terms, .. } = *request;
        let verb = Verb::Take(self.take(slot, Take::now()));
        let decided = self.shared.store.decide_now_with(&[Ask::new(&slot.handle, key).cost(cost)], &verb, &terms);
        if let Some(observer) = &self.shared.observer {
            observer.decided(&self.shared.store, &slot.name, (key, cost), &verb, decided.as_ref());
        }
        Ok(decided?)
    }

    /// A separate path, because the observer needs a reference to the decision. The arguments fit into registers, and the
    /// second part of the result keeps its place on the stack apart from that of the unobserved path: a decision is then
    /// built where the caller wants it, and not copied.
    #[cold]
    #[inline(never)]
    fn check_observed(&self, slot: &PolicySlot<S>, key: &str, cost: u64) -> (Result<Decision, RequestError>, u64) {
        let verb = Verb::Take(self.take(slot, Take::now()));
        let decided = self.shared.store.decide_now(&[Ask::new(&slot.handle, key).cost(cost)], &verb);
        if let Some(observer) = &self.shared.observer {
            observer.decided(&self.shared.store, &slot.name, (key, cost), &verb, decided.as_ref());
        }
        (decided.map_err(RequestError::Store), 0)
    }
}
