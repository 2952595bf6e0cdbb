//! Builder of limiters.

use std::{collections::HashSet, fmt, sync::Arc};

use ratekeeper_core::{Policy, PolicyError, Rule, Speed, Store};
#[cfg(feature = "memory")]
use ratekeeper_memory::{Clock, MemoryConfig, MemoryStore};

use crate::{
    error::BuildError,
    limiter::Limiter,
    observer::{Observed, Observer},
    policies::PolicySlot,
};

/// Collects the policies and the store of a [`Limiter`]. Errors in rules are reported by [`build`](Self::build), with the
/// name of the field.
#[derive(Clone)]
#[must_use = "a builder limits nothing; call build()"]
pub struct LimiterBuilder<S> {
    domain: Option<String>,
    name: String,
    /// The rules of the policy with that name.
    rules: Vec<Rule>,
    /// Further policies, by name.
    policies: Vec<(String, Vec<Rule>)>,
    speed: Speed,
    observer: Option<Arc<dyn Observer>>,
    store: S,
}

/// No store has been given: an embedded one will be created.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStore {
    #[cfg(feature = "memory")]
    config: MemoryConfig,
}

impl Limiter {
    /// Starts a limiter: add rules or policies, optionally a store, then build it. Without the feature `memory` a store
    /// must be given.
    pub fn builder() -> LimiterBuilder<NoStore> {
        LimiterBuilder::new()
    }
}

impl LimiterBuilder<NoStore> {
    /// The same as [`Limiter::builder`].
    pub fn new() -> Self {
        Self {
            domain: None,
            name: DEFAULT_NAME.to_owned(),
            rules: Vec::new(),
            policies: Vec::new(),
            speed: Speed::Exact,
            observer: None,
            store: NoStore::default(),
        }
    }
}

impl Default for LimiterBuilder<NoStore> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> LimiterBuilder<S> {
    /// Adds a rule to the limiter's own policy. The rules of a policy are decided together: all of them admit a request, or
    /// none is charged.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds several rules to the limiter's own policy.
    pub fn rules(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Adds a policy that requests select by name, with [`Request::policy`](crate::Request::policy): a tier, for example.
    /// Each policy counts its keys separately.
    ///
    /// Requests that name no policy are decided by the limiter's own one, if it has rules, else by the first one added here.
    pub fn policy(mut self, name: impl Into<String>, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.policies.push((name.into(), rules.into_iter().collect()));
        self
    }

    /// Names the limiter's own policy, the one of [`rule`](Self::rule); `default` if not given. Limiters that share a store
    /// share the counts of policies with the same domain and name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The domain of all policies.
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = Some(domain.into());
        self
    }

    /// How decisions about a shared limit are made, for all policies of the limiter; [`Speed::Exact`] if not given. With
    /// [`Speed::prepaid`] busy keys are decided in this process, by permits that the store has granted in advance. A store
    /// in process memory ignores it, and so do policies that cannot be prepaid: those with a concurrency rule, a shaped rule
    /// or one that counts refused requests ([`Policy::not_prepayable`]).
    pub fn speed(mut self, speed: Speed) -> Self {
        self.speed = speed;
        self
    }

    /// Reports every decision, failure and wait to this observer: for metrics and logs.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Keeps state in this store instead of a new embedded one.
    pub fn store<T: Store>(self, store: T) -> LimiterBuilder<T> {
        let Self { domain, name, rules, policies, speed, observer, store: _ } = self;
        LimiterBuilder { domain, name, rules, policies, speed, observer, store }
    }

    /// The default policy first.
    fn checked_policies(&self) -> Result<Vec<Policy>, BuildError> {
        let own = (self.policies.is_empty() || !self.rules.is_empty()).then_some((&self.name, &self.rules));
        let others = self.policies.iter().map(|(name, rules)| (name, rules));
        let mut names = HashSet::new();
        let mut checked = Vec::new();
        for (name, rules) in own.into_iter().chain(others) {
            if !names.insert(name) {
                return Err(BuildError::DuplicatePolicy { name: name.clone() });
            }
            checked.push(self.in_domain(Policy::new(name, rules.iter().cloned())?)?.with_speed(self.speed));
        }
        Ok(checked)
    }

    fn in_domain(&self, policy: Policy) -> Result<Policy, PolicyError> {
        match &self.domain {
            Some(domain) => policy.in_domain(domain),
            None => Ok(policy),
        }
    }
}

#[cfg(feature = "memory")]
impl LimiterBuilder<NoStore> {
    /// The most bytes that keys may take in the embedded store.
    pub fn budget_bytes(mut self, bytes: usize) -> Self {
        self.store.config = self.store.config.budget_bytes(bytes);
        self
    }

    /// Lets the embedded store read this clock instead of the machine's. With a
    /// [`ManualClock`](ratekeeper_core::ManualClock) tests need no sleeping.
    pub fn clock<C: Clock>(self, clock: C) -> LimiterBuilder<MemoryStore<C>> {
        let config = self.store.config;
        self.store(MemoryStore::with(config, clock))
    }

    /// Checks the rules and creates the limiter, in process memory.
    pub fn build(self) -> Result<Limiter, BuildError> {
        self.clock(ratekeeper_memory::SystemClock::new()).build()
    }
}

impl<S: Store> LimiterBuilder<S> {
    /// Checks the rules, installs the policies in the store and creates the limiter.
    pub fn build(self) -> Result<Limiter<S>, BuildError> {
        let mut slots = Vec::new();
        for policy in self.checked_policies()? {
            slots.push(PolicySlot::install(&self.store, policy)?);
        }
        // `checked_policies` returns at least one: without any, the policy without rules was an error.
        let Some(default) = slots.first().map(Arc::clone) else {
            return Err(PolicyError::NoRules { policy: self.name }.into());
        };
        Ok(Limiter::new(self.store, slots, default, self.observer.map(Observed::new)))
    }
}

impl<S: fmt::Debug> fmt::Debug for LimiterBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimiterBuilder")
            .field("domain", &self.domain)
            .field("name", &self.name)
            .field("rules", &self.rules)
            .field("policies", &self.policies)
            .field("speed", &self.speed)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

/// The name of the limiter's own policy if none is given.
const DEFAULT_NAME: &str = "default";

#[cfg(test)]
mod tests {
    use ratekeeper_core::Quota;

    use super::*;

    /// The speed is that of every policy, whatever the order of calls; a rule that cannot be prepaid makes its policy exact.
    #[test]
    fn the_speed_applies_to_all_policies() {
        let bucket = || Rule::token_bucket("burst", Quota::per_second(1_000));
        let builder = Limiter::builder().rule(bucket()).speed(Speed::prepaid()).domain("api");
        let counting = bucket().count_refused(true);
        let policies = builder.policy("pro", [bucket()]).policy("counting", [counting]).checked_policies().unwrap();
        assert!(policies.iter().all(|policy| policy.speed() == Speed::prepaid() && policy.domain() == "api"));
        let effective: Vec<bool> = policies.iter().map(|policy| policy.prepaid().is_some()).collect();
        assert_eq!(effective, [true, true, false]);
        let exact = Limiter::builder().rule(bucket()).checked_policies().unwrap();
        assert_eq!(exact[0].speed(), Speed::Exact);
    }

    #[cfg(feature = "memory")]
    #[test]
    fn the_speed_is_kept_when_a_store_is_given() {
        let bucket = Rule::token_bucket("burst", Quota::per_second(1_000));
        let builder = Limiter::builder().rule(bucket).speed(Speed::prepaid()).budget_bytes(1 << 20);
        let builder = builder.clock(ratekeeper_core::ManualClock::default());
        assert_eq!(builder.checked_policies().unwrap()[0].speed(), Speed::prepaid());
        assert!(builder.build().unwrap().check_now("key").unwrap().is_allowed(), "a store in memory ignores it");
    }
}
