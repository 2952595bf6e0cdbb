//! A store on a clock that the test holds, and short ways to ask it.

#![allow(dead_code, reason = "each test file uses what it needs of this")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stop the test")]

use ratekeeper_core::{Ask, Decision, OnQuotaChange, Policy, Rule, Store, Take, Verb};
use ratekeeper_memory::{InstalledPolicy, ManualClock, MemoryConfig, MemoryStore};
use ratekeeper_testkit::gate::START;

/// A store on a manual clock.
pub(crate) struct Bench {
    pub(crate) store: MemoryStore<ManualClock>,
    pub(crate) clock: ManualClock,
}

impl Bench {
    /// A store with more room than the test needs.
    pub(crate) fn roomy() -> Self {
        Self::with(MemoryConfig::default())
    }

    pub(crate) fn with(config: MemoryConfig) -> Self {
        let clock = ManualClock::at(START);
        Self { store: MemoryStore::with(config, clock.clone()), clock }
    }

    /// Installs a policy of these rules under a name.
    pub(crate) fn install(&self, name: &str, rules: impl IntoIterator<Item = Rule>) -> InstalledPolicy {
        self.install_with(name, rules, OnQuotaChange::Keep)
    }

    pub(crate) fn install_with(
        &self,
        name: &str,
        rules: impl IntoIterator<Item = Rule>,
        on_change: OnQuotaChange,
    ) -> InstalledPolicy {
        self.store.install(Policy::new(name, rules).unwrap(), on_change).unwrap()
    }

    pub(crate) fn decide(&self, policy: &InstalledPolicy, key: &str, verb: Verb) -> Decision {
        self.store.decide_now(&[Ask::new(policy, key)], &verb).unwrap()
    }

    pub(crate) fn decide_n(&self, policy: &InstalledPolicy, key: &str, cost: u64, verb: Verb) -> Decision {
        self.store.decide_now(&[Ask::new(policy, key).cost(cost)], &verb).unwrap()
    }

    pub(crate) fn take(&self, policy: &InstalledPolicy, key: &str, cost: u64) -> Decision {
        self.decide_n(policy, key, cost, Verb::Take(Take::now()))
    }

    /// One take for several keys under one policy: all of them, or none.
    pub(crate) fn take_all(&self, policy: &InstalledPolicy, keys: &[&str], cost: u64) -> Decision {
        let asks: Vec<_> = keys.iter().map(|key| Ask::new(policy, key).cost(cost)).collect();
        self.store.decide_now(&asks, &Verb::Take(Take::now())).unwrap()
    }

    pub(crate) fn peek(&self, policy: &InstalledPolicy, key: &str) -> Decision {
        self.decide(policy, key, Verb::Peek)
    }

    pub(crate) fn remaining(&self, policy: &InstalledPolicy, key: &str) -> u64 {
        self.peek(policy, key).remaining()
    }
}
