//! A policy at work: known to the store, with its counters at hand, and exceptions for single keys.

use std::{collections::HashMap, sync::Arc};

use tollgate_core::{Micros, Policy};

use crate::{telemetry::PolicyMeters, wiring::StoredPolicy};

/// A policy that can be asked.
#[derive(Debug)]
pub(crate) struct Limited {
    pub(crate) policy: Arc<Policy>,
    pub(crate) stored: StoredPolicy,
    /// What a request costs that does not say.
    pub(crate) cost: u64,
    pub(crate) meters: PolicyMeters,
    /// Keys with numbers of their own.
    pub(crate) exceptions: HashMap<Box<str>, Exception>,
}

/// One key's own numbers, until they end.
#[derive(Clone, Debug)]
pub(crate) struct Exception {
    /// When the ordinary rules hold again; nothing: never.
    pub(crate) until: Option<Micros>,
    pub(crate) limited: Arc<Limited>,
    /// What holds for the key then; nothing: the policy.
    pub(crate) then: Option<Box<Exception>>,
}

impl Exception {
    /// The counters of everybody in the chain.
    pub(crate) fn meters(&self) -> impl Iterator<Item = &PolicyMeters> {
        std::iter::successors(Some(self), |one| one.then.as_deref()).map(|one| &one.limited.meters)
    }
}

impl Limited {
    /// The same policy, known to the store already, with another cost and other exceptions.
    pub(crate) fn again(&self, cost: u64, exceptions: HashMap<Box<str>, Exception>) -> Self {
        let (policy, stored, meters) = (Arc::clone(&self.policy), self.stored.clone(), self.meters.clone());
        Self { policy, stored, cost, meters, exceptions }
    }

    /// Whether nothing but its exceptions and its cost could differ.
    pub(crate) fn has_rules_of(&self, policy: &Policy) -> bool {
        self.policy.rules() == policy.rules()
    }

    /// Whether a reload has changed nothing of it: rules, cost, and the rules of single keys.
    pub(crate) fn is_same_as(&self, before: &Self) -> bool {
        let same_exceptions = self.exceptions.len() == before.exceptions.len()
            && self.exceptions.iter().all(|(key, one)| {
                let was = before.exceptions.get(key);
                was.is_some_and(|was| was.until == one.until && was.limited.has_rules_of(&one.limited.policy))
            });
        self.has_rules_of(&before.policy) && self.cost == before.cost && same_exceptions
    }

    /// Who decides about this key now.
    #[inline]
    pub(crate) fn for_key(&self, key: &str, now: impl FnOnce() -> Micros) -> &Self {
        if self.exceptions.is_empty() {
            return self;
        }
        let mut exception = self.exceptions.get(key);
        if exception.is_none() {
            return self;
        }
        let now = now();
        while let Some(found) = exception {
            if found.until.is_none_or(|until| until > now) {
                return &found.limited;
            }
            exception = found.then.as_deref();
        }
        self
    }
}
