//! Policies of a rulebook: handle in the store, metrics, and the overrides of single keys.

use std::{collections::HashMap, sync::Arc};

use ratekeeper_core::{Policy, Timestamp};

use super::Ban;
use crate::{telemetry::PolicyMeters, wiring::AnyPolicy};

/// An installed policy.
#[derive(Debug)]
pub(crate) struct PolicyEntry {
    pub(crate) policy: Arc<Policy>,
    pub(crate) stored: AnyPolicy,
    /// The cost of requests that give none.
    pub(crate) cost: u64,
    pub(crate) meters: PolicyMeters,
    /// By key.
    pub(crate) overrides: HashMap<Box<str>, InstalledOverride>,
    /// The names that metrics show, if the policy denies every request.
    pub(crate) ban: Option<Arc<Ban>>,
    /// Whether switches put the whole policy into shadow mode: a policy without rules then denies nothing.
    pub(crate) shadow: bool,
}

/// An override that is installed in the store.
#[derive(Clone, Debug)]
pub(crate) struct InstalledOverride {
    /// Expiry by the store's clock; `None`: never.
    pub(crate) until: Option<Timestamp>,
    pub(crate) entry: Arc<PolicyEntry>,
    /// The override that applies after this one expires; `None`: the policy applies.
    pub(crate) then: Option<Box<InstalledOverride>>,
}

impl InstalledOverride {
    /// The metrics of every override in the chain.
    pub(crate) fn meters(&self) -> impl Iterator<Item = &PolicyMeters> {
        std::iter::successors(Some(self), |one| one.then.as_deref()).map(|one| &one.entry.meters)
    }
}

impl PolicyEntry {
    /// The same installed policy with this cost and these overrides.
    pub(crate) fn with(&self, cost: u64, overrides: HashMap<Box<str>, InstalledOverride>) -> Self {
        let (policy, stored, meters) = (Arc::clone(&self.policy), self.stored.clone(), self.meters.clone());
        Self { policy, stored, cost, meters, overrides, ban: self.ban.clone(), shadow: self.shadow }
    }

    /// Whether rules, effect and speed are the same; cost and overrides may differ.
    pub(crate) fn has_rules_of(&self, policy: &Policy) -> bool {
        self.policy.decides_like(policy)
    }

    /// Whether rules, speed, cost and overrides are the same.
    pub(crate) fn is_same_as(&self, before: &Self) -> bool {
        let same_overrides = self.overrides.len() == before.overrides.len()
            && self.overrides.iter().all(|(key, one)| {
                let was = before.overrides.get(key);
                was.is_some_and(|was| was.until == one.until && was.entry.has_rules_of(&one.entry.policy))
            });
        self.has_rules_of(&before.policy) && self.cost == before.cost && same_overrides
    }

    /// The entry that decides this key now: that of an unexpired override, else this one. The clock is read only if the
    /// key has an override.
    #[inline]
    pub(crate) fn for_key(&self, key: &str, now: impl FnOnce() -> Timestamp) -> &Self {
        if self.overrides.is_empty() {
            return self;
        }
        let mut next = self.overrides.get(key);
        if next.is_none() {
            return self;
        }
        let now = now();
        while let Some(found) = next {
            if found.until.is_none_or(|until| until > now) {
                return &found.entry;
            }
            next = found.then.as_deref();
        }
        self
    }
}
