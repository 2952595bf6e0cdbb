//! The policies of a limiter, by name.
//!
//! The list never changes after the limiter is built; the rules of a policy may. Lookups are a binary search over names:
//! a limiter has a handful of tiers, and comparing two or three names is faster than hashing one.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use ratekeeper_core::{OnQuotaChange, Policy, Rule, Store, StoreError};

use crate::{
    error::{BuildError, UnknownPolicy},
    trace::trace_event,
};

/// A policy of a limiter, installed in its store.
pub(crate) struct PolicySlot<S: Store> {
    pub(crate) name: Box<str>,
    pub(crate) handle: S::Policy,
    /// The current rules; only [`set_rule`](Self::set_rule) and reports read them.
    policy: Mutex<Arc<Policy>>,
    /// Whether a rule limits concurrency, so that takes need a lease id and waiters wait for a release.
    has_leases: AtomicBool,
    /// The number of rules.
    rule_count: AtomicUsize,
    #[cfg(feature = "tokio")]
    pub(crate) wait_queue: crate::wait_queue::WaitQueues,
}

impl<S: Store> PolicySlot<S> {
    pub(crate) fn install(store: &S, policy: Policy) -> Result<Arc<Self>, StoreError> {
        let name = policy.name().to_owned();
        Self::install_as(&name, store, policy, OnQuotaChange::Keep)
    }

    /// Installs a policy that events show under another name.
    pub(crate) fn install_as(
        name: &str,
        store: &S,
        policy: Policy,
        on_change: OnQuotaChange,
    ) -> Result<Arc<Self>, StoreError> {
        let handle = store.install(policy.clone(), on_change)?;
        Ok(Arc::new(Self {
            name: name.into(),
            handle,
            has_leases: AtomicBool::new(policy.has_leases()),
            rule_count: AtomicUsize::new(policy.rules().len()),
            policy: Mutex::new(Arc::new(policy)),
            #[cfg(feature = "tokio")]
            wait_queue: crate::wait_queue::WaitQueues::default(),
        }))
    }

    /// The current rules.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the rule of the same name, or adds one.
    pub(crate) fn set_rule(&self, store: &S, rule: Rule, on_change: OnQuotaChange) -> Result<(), BuildError> {
        // Locked until the store has the new rules, so that two changes at a time do not lose one of them.
        let mut policy = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = policy.with_rule(rule)?;
        store.install(changed.clone(), on_change)?;
        self.has_leases.store(changed.has_leases(), Ordering::Relaxed);
        self.rule_count.store(changed.rules().len(), Ordering::Relaxed);
        *policy = Arc::new(changed);
        Ok(())
    }

    #[inline]
    pub(crate) fn has_leases(&self) -> bool {
        self.has_leases.load(Ordering::Relaxed)
    }

    /// The number of rules, and so of rule decisions for a key.
    #[inline]
    pub(crate) fn rule_count(&self) -> usize {
        self.rule_count.load(Ordering::Relaxed)
    }

    /// Wakes a task that waits for a lease of this key.
    pub(crate) fn wake(&self, key: &str) {
        #[cfg(feature = "tokio")]
        if self.has_leases() {
            self.wait_queue.wake(key);
        }
        #[cfg(not(feature = "tokio"))]
        let _ = key;
    }
}

/// The policies of a limiter.
pub(crate) struct PolicySlots<S: Store> {
    /// Sorted by name.
    slots: Box<[Arc<PolicySlot<S>>]>,
}

impl<S: Store> PolicySlots<S> {
    /// The names must differ.
    pub(crate) fn new(mut slots: Vec<Arc<PolicySlot<S>>>) -> Self {
        slots.sort_by(|a, b| a.name.cmp(&b.name));
        Self { slots: slots.into() }
    }

    /// The policy of this name.
    pub(crate) fn find(&self, name: &str) -> Result<&Arc<PolicySlot<S>>, UnknownPolicy> {
        match self.slots.binary_search_by(|slot| (*slot.name).cmp(name)) {
            Ok(index) => Ok(&self.slots[index]),
            Err(_) => Err(self.unknown(name)),
        }
    }

    /// All names, in alphabetical order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().map(|slot| &*slot.name)
    }

    #[cold]
    fn unknown(&self, name: &str) -> UnknownPolicy {
        trace_event!(debug, name, "no policy has this name");
        UnknownPolicy { name: name.to_owned(), known: self.names().map(str::to_owned).collect() }
    }
}
