//! Policies that came with calls: a bounded cache of installed ones.
//!
//! Bound: [`MAX_INSTALLED`] policies; the least recently used one makes room for another. Dropping it loses no counts: it is
//! installed again when it is used again.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{Mutex, PoisonError},
};

use ratekeeper_core::{InlineLimits, Policy, Store, StoreError};

/// Policies that came with calls, installed.
pub(crate) struct InlinePolicies<S: Store> {
    hasher: RandomState,
    installed: Mutex<Installed<S>>,
}

struct Installed<S: Store> {
    /// By hash; policies of one hash are compared.
    policies: HashMap<u64, Vec<InlinePolicy<S>>>,
    count: usize,
    /// Calls so far: the clock of `last_used`.
    calls: u64,
}

struct InlinePolicy<S: Store> {
    policy: Policy,
    handle: S::Policy,
    last_used: u64,
}

impl<S: Store> Default for InlinePolicies<S> {
    fn default() -> Self {
        let installed = Installed { policies: HashMap::new(), count: 0, calls: 0 };
        Self { hasher: RandomState::new(), installed: Mutex::new(installed) }
    }
}

impl<S: Store> InlinePolicies<S> {
    /// How many policies are installed.
    #[cfg(all(test, feature = "memory"))]
    pub(crate) fn len(&self) -> usize {
        self.installed.lock().unwrap_or_else(PoisonError::into_inner).count
    }
}

impl<S: InlineLimits> InlinePolicies<S> {
    /// The handle of a policy; it is installed at its first use.
    pub(crate) fn handle(&self, policy: &Policy, store: &S) -> Result<S::Policy, StoreError> {
        let hash = self.hash(policy);
        let mut installed = self.installed.lock().unwrap_or_else(PoisonError::into_inner);
        installed.calls += 1;
        let calls = installed.calls;
        let known = installed.policies.get_mut(&hash).and_then(|all| {
            all.iter_mut().find(|one| one.policy.name() == policy.name() && one.policy.rules() == policy.rules())
        });
        if let Some(known) = known {
            known.last_used = calls;
            return Ok(known.handle.clone());
        }
        if installed.count >= MAX_INSTALLED {
            installed.evict();
        }
        // The domain is valid, and keeps the name from being one of the limiter's policies.
        let stored = policy.clone().in_domain(DOMAIN).unwrap_or_else(|_| policy.clone());
        let handle = store.install_variant(stored)?;
        let one = InlinePolicy { policy: policy.clone(), handle: handle.clone(), last_used: calls };
        installed.policies.entry(hash).or_default().push(one);
        installed.count += 1;
        Ok(handle)
    }

    fn hash(&self, policy: &Policy) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        policy.name().hash(&mut hasher);
        for rule in policy.rules() {
            rule.name().hash(&mut hasher);
            rule.rule().quota().limit().hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl<S: Store> Installed<S> {
    /// Removes the least recently used policy.
    fn evict(&mut self) {
        let oldest = self.policies.values().flatten().map(|one| one.last_used).min();
        for all in self.policies.values_mut() {
            all.retain(|one| Some(one.last_used) != oldest);
        }
        self.policies.retain(|_, all| !all.is_empty());
        self.count = self.policies.values().map(Vec::len).sum();
    }
}

/// The domain of policies that come with calls.
const DOMAIN: &str = "ratekeeper:inline";
/// The most policies that stay installed.
pub(crate) const MAX_INSTALLED: usize = 1_024;
