//! The limiter: policies, a store, and the rules in force.
//!
//! [`builder`](crate::builder) builds it. The ways to ask are in [`ask`](crate::ask), [`acquire`](crate::acquire),
//! [`hold`](crate::hold) and [`reservation`](crate::reservation); changes of single keys are in
//! [`change`](crate::change).

use std::{fmt, sync::Arc};

use ratekeeper_core::{
    Ask, Decision, OnQuotaChange, Policy, Rule, Store, StoreError, Take, Terms, Verb, store_api::LeaseIds,
};
#[cfg(feature = "memory")]
use ratekeeper_memory::MemoryStore as EmbeddedStore;

#[cfg(not(feature = "memory"))]
use crate::missing_store::MissingStore as EmbeddedStore;
use crate::{
    error::{BuildError, UnknownPolicy},
    inline_policies::InlinePolicies,
    observer::Observed,
    policies::{PolicySlot, PolicySlots},
    request::Request,
};

/// Decides requests under one or more policies. Clones share one limiter.
///
/// ```
/// use ratekeeper::{Limiter, Quota, Request, Rule};
///
/// let limiter = Limiter::builder()
///     .policy("free", [Rule::token_bucket("burst", Quota::per_second(5))])
///     .policy("pro", [Rule::token_bucket("burst", Quota::per_second(100).burst(200))])
///     .build()?;
/// assert_eq!(limiter.check_now("user:42")?.limit(), 5); // the first policy
/// assert_eq!(limiter.check_now(Request::new("user:7").policy("pro"))?.limit(), 200);
///
/// let pro = limiter.with_policy("pro")?;
/// assert!(pro.check_now(("user:7", 150))?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Limiter<S: Store = DefaultStore> {
    pub(crate) shared: Arc<Shared<S>>,
    /// The policy of requests that name none.
    pub(crate) slot: Arc<PolicySlot<S>>,
}

/// The store of a limiter that names none: the embedded one, or, without the feature `memory`, one that cannot exist.
pub type DefaultStore = EmbeddedStore;

pub(crate) struct Shared<S: Store> {
    pub(crate) store: S,
    pub(crate) policies: PolicySlots<S>,
    pub(crate) observer: Option<Observed>,
    pub(crate) lease_ids: LeaseIds,
    /// Policies that came with calls.
    pub(crate) inline: InlinePolicies<S>,
}

impl<S: Store> Shared<S> {
    pub(crate) fn new(store: S, slots: Vec<Arc<PolicySlot<S>>>, observer: Option<Observed>) -> Self {
        Self {
            store,
            policies: PolicySlots::new(slots),
            observer,
            lease_ids: LeaseIds::random(),
            inline: InlinePolicies::default(),
        }
    }
}

/// Policies and rules
impl<S: Store> Limiter<S> {
    /// The same limiter, with this policy as the one of requests that name none. Resolve a tier once and ask it often:
    /// all methods work under it, [`set_rule`](Self::set_rule) included.
    pub fn with_policy(&self, name: &str) -> Result<Self, UnknownPolicy> {
        Ok(self.with_slot(self.shared.policies.find(name)?))
    }

    /// The names of all policies, in alphabetical order.
    pub fn policy_names(&self) -> impl Iterator<Item = &str> {
        self.shared.policies.names()
    }

    /// The current rules of the default policy. The `Arc` is replaced only when a rule changes.
    pub fn policy(&self) -> Arc<Policy> {
        self.slot.policy()
    }

    /// Replaces the rule of the same name in the default policy, or adds one. Permits that keys have used stay used.
    pub fn set_rule(&self, rule: Rule) -> Result<(), BuildError> {
        self.set_rule_with(rule, OnQuotaChange::Keep)
    }

    /// [`set_rule`](Self::set_rule) with another migration of existing keys. On an error the old rule stays in force.
    pub fn set_rule_with(&self, rule: Rule, on_change: OnQuotaChange) -> Result<(), BuildError> {
        self.slot.set_rule(&self.shared.store, rule, on_change)
    }

    /// The store, for its statistics and health.
    pub fn store(&self) -> &S {
        &self.shared.store
    }
}

impl<S: Store> Limiter<S> {
    /// `slot` has the default policy, and is one of `slots`.
    pub(crate) fn new(
        store: S,
        slots: Vec<Arc<PolicySlot<S>>>,
        slot: Arc<PolicySlot<S>>,
        observer: Option<Observed>,
    ) -> Self {
        Self { shared: Arc::new(Shared::new(store, slots, observer)), slot }
    }

    pub(crate) fn with_slot(&self, slot: &Arc<PolicySlot<S>>) -> Self {
        Self { shared: Arc::clone(&self.shared), slot: Arc::clone(slot) }
    }

    /// The policy that decides a request.
    #[inline]
    pub(crate) fn slot_of(&self, request: &Request<'_>) -> Result<&Arc<PolicySlot<S>>, UnknownPolicy> {
        match request.policy {
            None => Ok(&self.slot),
            Some(name) => self.shared.policies.find(name),
        }
    }

    /// One call of the store for one key, reported to the observer.
    pub(crate) async fn decide(
        &self,
        slot: &PolicySlot<S>,
        key: &str,
        cost: u64,
        verb: Verb,
    ) -> Result<Decision, StoreError> {
        let decided = self.shared.store.decide(&[Ask::new(&slot.handle, key).cost(cost)], verb).await;
        if let Some(observer) = &self.shared.observer {
            observer.decided(&self.shared.store, &slot.name, (key, cost), &verb, decided.as_ref());
        }
        decided
    }

    /// One call of the store for a take with an id or a least cost, reported to the observer.
    pub(crate) async fn decide_with(
        &self,
        slot: &PolicySlot<S>,
        key: &str,
        cost: u64,
        verb: Verb,
        terms: Terms,
    ) -> Result<Decision, StoreError> {
        if terms.is_none() {
            return self.decide(slot, key, cost, verb).await;
        }
        let decided = self.shared.store.decide_with(&[Ask::new(&slot.handle, key).cost(cost)], verb, terms).await;
        if let Some(observer) = &self.shared.observer {
            observer.decided(&self.shared.store, &slot.name, (key, cost), &verb, decided.as_ref());
        }
        decided
    }

    /// A verb whose result is not awaited, for guards that are dropped.
    #[cfg(feature = "tokio")]
    pub(crate) fn submit(&self, slot: &PolicySlot<S>, key: &str, cost: u64, verb: Verb) {
        self.shared.store.submit(Ask::new(&slot.handle, key).cost(cost), verb);
        slot.wake(key);
    }

    /// Adds a lease id if a rule of the policy limits concurrency.
    #[inline]
    pub(crate) fn take(&self, slot: &PolicySlot<S>, take: Take) -> Take {
        if slot.has_leases() { take.with_lease(self.shared.lease_ids.next_id()) } else { take }
    }
}

impl<S: Store> Clone for Limiter<S> {
    fn clone(&self) -> Self {
        self.with_slot(&self.slot)
    }
}

impl<S: Store> fmt::Debug for Limiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.policy_names().collect();
        f.debug_struct("Limiter").field("policy", &self.policy()).field("policies", &names).finish_non_exhaustive()
    }
}
