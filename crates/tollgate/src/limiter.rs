//! The front door: rules, a store, and every question one can ask.

use std::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tollgate_core::{
    Ask, Carry, Decision, Immediate, LeaseId, Micros, Policy, Release, Rule, Store, StoreError, Take, Verb, Verdict,
    algorithm::Limiting, bounds::MAX_WAIT,
};

#[cfg(feature = "memory")]
use crate::builder::{LimiterBuilder, NoStore};
use crate::{
    error::{AcquireError, BuildError},
    reservation::Reservation,
};

/// Decides who may pass. Clones share everything.
#[cfg(feature = "memory")]
pub struct Limiter<S: Store = tollgate_memory::MemoryStore> {
    pub(crate) shared: Arc<Shared<S>>,
}

/// Decides who may pass. Clones share everything.
#[cfg(not(feature = "memory"))]
pub struct Limiter<S: Store> {
    pub(crate) shared: Arc<Shared<S>>,
}

pub(crate) struct Shared<S: Store> {
    pub(crate) store: S,
    pub(crate) installed: S::Policy,
    /// The rules as they are now; only [`Limiter::set_rule`] and reports need them.
    policy: Mutex<Arc<Policy>>,
    /// Whether permits are held rather than used up, so that waiting means waiting for a release.
    holds: AtomicBool,
    next_lease: AtomicU64,
    #[cfg(feature = "tokio")]
    pub(crate) turns: crate::turns::Turns,
}

#[cfg(feature = "memory")]
impl Limiter {
    /// Begins a limiter: add rules, and perhaps a store, and build it.
    pub fn builder() -> LimiterBuilder<NoStore> {
        LimiterBuilder::new()
    }
}

/// Asking
impl<S: Store> Limiter<S> {
    /// May one request of this key pass now?
    pub async fn check(&self, key: &str) -> Result<Decision, StoreError> {
        self.check_n(key, 1).await
    }

    /// May a request of this cost pass now? A cost of 0 looks only.
    pub async fn check_n(&self, key: &str, cost: u64) -> Result<Decision, StoreError> {
        self.decide(key, Verb::Take(self.take(Take::now(cost)))).await
    }

    /// How does the key stand? Charges nothing.
    pub async fn peek(&self, key: &str) -> Result<Decision, StoreError> {
        self.decide(key, Verb::Peek).await
    }
}

/// Asking without a runtime, where the store can answer at once
impl<S: Immediate> Limiter<S> {
    /// May one request of this key pass now?
    #[inline]
    pub fn try_now(&self, key: &str) -> Result<Decision, StoreError> {
        self.try_now_n(key, 1)
    }

    /// May a request of this cost pass now? A cost of 0 looks only.
    #[inline]
    pub fn try_now_n(&self, key: &str, cost: u64) -> Result<Decision, StoreError> {
        let shared = &*self.shared;
        shared.store.decide_now(&[shared.ask(key)], &Verb::Take(self.take(Take::now(cost))))
    }

    /// May one request of this key pass now? Only the verdict, without the numbers: the quickest question there is.
    #[inline]
    pub fn verdict_now(&self, key: &str) -> Result<Verdict, StoreError> {
        self.verdict_now_n(key, 1)
    }

    /// The same for a request of this cost.
    #[inline]
    pub fn verdict_now_n(&self, key: &str, cost: u64) -> Result<Verdict, StoreError> {
        let shared = &*self.shared;
        shared.store.verdict_now(&shared.ask(key), &self.take(Take::now(cost)))
    }
}

/// Taking now, paying later
impl<S: Store> Limiter<S> {
    /// Charges an estimate; [`Reservation::settle`] corrects it when the real cost is known. A reservation that is never
    /// settled stays charged as estimated.
    pub async fn reserve(&self, key: &str, cost: u64) -> Result<Reservation<S>, AcquireError> {
        self.reserve_within(key, cost, Duration::ZERO).await
    }

    /// The same for a moment up to `max_wait` ahead; [`Reservation::wait`] says how long to hold still.
    pub async fn reserve_within(
        &self,
        key: &str,
        cost: u64,
        max_wait: Duration,
    ) -> Result<Reservation<S>, AcquireError> {
        let max_wait = Micros::from_duration(max_wait).min(MAX_WAIT);
        let take = if max_wait == Micros::ZERO { Take::now(cost) } else { Take::within(cost, max_wait) };
        let decision = self.decide(key, Verb::Take(self.take(take))).await?;
        match decision.verdict {
            Verdict::Allow { wait } => {
                let at = decision.decided_at + wait;
                Ok(Reservation::new(self.clone(), key.to_owned(), cost, at, decision))
            }
            Verdict::Deny { retry_after } => Err(AcquireError::TooLong { retry_after }),
            Verdict::Never => Err(AcquireError::Never { cost, limit: decision.limit() }),
        }
    }

    /// Corrects an estimate that was charged earlier, for callers that keep their own books.
    pub async fn settle(&self, key: &str, reserved: u64, actual: u64) -> Result<Decision, StoreError> {
        self.decide(key, Verb::Settle { reserved, actual, at: None }).await
    }
}

/// Changing a key
impl<S: Store> Limiter<S> {
    /// Gives back permits that were taken and not used. Never lifts a key above full, and never breaks a promise made to
    /// a waiter: permits that one stands behind count as spent.
    pub async fn refund(&self, key: &str, cost: u64) -> Result<Decision, StoreError> {
        self.decide(key, Verb::Refund { cost, at: None }).await
    }

    /// Charges without asking; may leave the key in debt.
    pub async fn penalize(&self, key: &str, cost: u64) -> Result<Decision, StoreError> {
        self.decide(key, Verb::Penalize { cost }).await
    }

    /// Refuses everything this key asks for, for so long. Zero lifts the block.
    pub async fn block(&self, key: &str, span: Duration) -> Result<Decision, StoreError> {
        self.decide(key, Verb::Block { span: Micros::from_duration(span).min(MAX_WAIT) }).await
    }

    /// Forgets the key: as good as new.
    pub async fn reset(&self, key: &str) -> Result<Decision, StoreError> {
        let decision = self.decide(key, Verb::Reset).await;
        self.shared.wake(key);
        decision
    }

    /// Ends a lease taken under a concurrency rule. [`Decision::lease`] is `None` if it had ended already.
    pub async fn release(&self, key: &str, lease: LeaseId) -> Result<Decision, StoreError> {
        let decision = self.decide(key, Verb::Release(Release::Lease(lease))).await;
        self.shared.wake(key);
        decision
    }

    /// Renews a lease. [`Decision::lease`] is `None` if it had ended already: somebody else may hold the place now.
    pub async fn heartbeat(&self, key: &str, lease: LeaseId) -> Result<Decision, StoreError> {
        self.decide(key, Verb::Heartbeat(lease)).await
    }
}

/// Changing a rule
impl<S: Store> Limiter<S> {
    /// Replaces the rule of the same name, or adds one. What keys have used stays used.
    pub fn set_rule(&self, rule: Rule) -> Result<(), BuildError> {
        self.set_rule_with(rule, Carry::Keep)
    }

    /// The same, saying what becomes of existing state. On an error the old rule stays in force.
    pub fn set_rule_with(&self, rule: Rule, carry: Carry) -> Result<(), BuildError> {
        let mut policy = self.shared.policy.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = policy.with_rule(rule)?;
        self.shared.store.install(changed.clone(), carry)?;
        self.shared.holds.store(holds(&changed), Ordering::Relaxed);
        *policy = Arc::new(changed);
        Ok(())
    }

    /// The rules as they are now.
    pub fn policy(&self) -> Policy {
        Policy::clone(&self.shared_policy())
    }

    /// The same without a copy: a new one comes only with a change.
    pub(crate) fn shared_policy(&self) -> Arc<Policy> {
        Arc::clone(&self.shared.policy.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The store, for reports about it.
    pub fn store(&self) -> &S {
        &self.shared.store
    }
}

impl<S: Store> Limiter<S> {
    pub(crate) fn new(store: S, policy: Policy, installed: S::Policy) -> Self {
        Self {
            shared: Arc::new(Shared {
                store,
                installed,
                holds: AtomicBool::new(holds(&policy)),
                policy: Mutex::new(Arc::new(policy)),
                next_lease: AtomicU64::new(random_lease()),
                #[cfg(feature = "tokio")]
                turns: crate::turns::Turns::default(),
            }),
        }
    }

    pub(crate) async fn decide(&self, key: &str, verb: Verb) -> Result<Decision, StoreError> {
        self.shared.store.decide(&[self.shared.ask(key)], verb).await
    }

    /// Names the holder, where permits are held.
    #[inline]
    pub(crate) fn take(&self, take: Take) -> Take {
        if self.shared.holds() { take.held_as(self.shared.new_lease()) } else { take }
    }
}

impl<S: Store> Shared<S> {
    #[inline]
    pub(crate) fn ask<'a>(&'a self, key: &'a str) -> Ask<'a, S::Policy> {
        Ask::new(&self.installed, key)
    }

    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }

    fn new_lease(&self) -> LeaseId {
        LeaseId(self.next_lease.fetch_add(1, Ordering::Relaxed) & LEASE_MASK)
    }

    /// Tells waiters for a place under this key that one may be free.
    pub(crate) fn wake(&self, key: &str) {
        #[cfg(feature = "tokio")]
        if self.holds() {
            self.turns.wake(key);
        }
        #[cfg(not(feature = "tokio"))]
        let _ = key;
    }
}

fn holds(policy: &Policy) -> bool {
    policy.rules().iter().any(|rule| matches!(rule.limiting(), Limiting::Leases(_)))
}

/// Leases of different processes must not be confused, so each begins at a place of its own.
fn random_lease() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() & LEASE_MASK
}

/// Lease names are numbers below 2^53, which Lua can tell apart.
const LEASE_MASK: u64 = (1 << 53) - 1;

impl<S: Store> Clone for Limiter<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<S: Store> fmt::Debug for Limiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("policy", &self.policy()).finish_non_exhaustive()
    }
}
