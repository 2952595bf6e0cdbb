//! From rules to a limiter.

use tollgate_core::{Carry, Policy, PolicyError, Rule, Store};
#[cfg(feature = "memory")]
use tollgate_memory::{Clock, MemoryConfig, MemoryStore};

use crate::{error::BuildError, limiter::Limiter};

/// Collects what a [`Limiter`] is made of. Mistakes in rules come out of [`build`](Self::build), with the field's name.
#[derive(Clone, Debug)]
#[must_use = "a builder limits nothing; call build()"]
pub struct LimiterBuilder<S> {
    domain: Option<String>,
    name: String,
    rules: Vec<Rule>,
    store: S,
}

/// No store has been named: the embedded one will be made.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStore {
    #[cfg(feature = "memory")]
    config: MemoryConfig,
}

impl LimiterBuilder<NoStore> {
    /// Begins a limiter: add rules, and perhaps a store, and build it. Without the feature `memory` a store must be named.
    pub fn new() -> Self {
        Self { domain: None, name: DEFAULT_NAME.to_owned(), rules: Vec::new(), store: NoStore::default() }
    }
}

impl Default for LimiterBuilder<NoStore> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> LimiterBuilder<S> {
    /// Adds a rule. All rules of a limiter are decided together: all of them pass, or none is charged.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds several rules.
    pub fn rules(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Names the policy. Limiters that share a store share keys if their domain and name are the same.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Puts the policy into a domain.
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = Some(domain.into());
        self
    }

    /// Keeps state in this store instead of a new embedded one.
    pub fn store<T: Store>(self, store: T) -> LimiterBuilder<T> {
        LimiterBuilder { domain: self.domain, name: self.name, rules: self.rules, store }
    }

    fn policy(&self) -> Result<Policy, PolicyError> {
        let policy = Policy::new(&self.name, self.rules.iter().cloned())?;
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

    /// Lets the embedded store read this clock instead of the machine's.
    pub fn clock<C: Clock>(self, clock: C) -> LimiterBuilder<MemoryStore<C>> {
        let config = self.store.config;
        self.store(MemoryStore::with(config, clock))
    }

    /// Checks the rules and makes the limiter, in process memory.
    pub fn build(self) -> Result<Limiter, BuildError> {
        self.clock(tollgate_memory::SystemClock::new()).build()
    }
}

impl<S: Store> LimiterBuilder<S> {
    /// Checks the rules and makes the limiter.
    pub fn build(self) -> Result<Limiter<S>, BuildError> {
        let policy = self.policy()?;
        let installed = self.store.install(policy.clone(), Carry::Keep)?;
        Ok(Limiter::new(self.store, policy, installed))
    }
}

/// The policy's name when nobody cares.
const DEFAULT_NAME: &str = "default";
