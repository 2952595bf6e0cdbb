//! Installation of rule files: every policy and override in the store, every pattern in a matcher.
//!
//! Policies whose rules have not changed are taken over from the rules before, with their counts and waiters. Only changed
//! and new ones are installed.

use std::{collections::HashMap, sync::Arc};

use ratekeeper_core::{OnQuotaChange, Policy, Store, StoreError, Timestamp};
use ratekeeper_rules::{
    Allowance, EnvoyDescriptor, EnvoyLimit, FilePolicy, RuleFile,
    matching::{Matchers, RuleInstaller},
    override_policy, with_override,
};

use crate::policies::PolicySlot;

/// Rules that are installed in a store.
pub(super) struct InstalledRules<S: Store> {
    pub(super) matchers: Matchers<RuleEntry<S>>,
    policies: PoliciesByName<S>,
}

/// Policies by domain and the name they are stored under.
type PoliciesByName<S> = HashMap<(String, String), KeyRules<S>>;

/// What a rule of a file does with requests that match.
pub(super) enum RuleEntry<S: Store> {
    Policy { policy: Box<RulePolicy<S>>, is_quota: bool },
    Unlimited,
    RefuseAll { shadow: bool },
}

/// A policy of a file with the overrides of single keys.
pub(super) struct RulePolicy<S: Store> {
    rules: KeyRules<S>,
    /// The cost of a request that has none.
    pub(super) cost: u64,
    overrides: HashMap<String, RuleOverride<S>>,
}

/// The rules that decide about a key.
pub(super) struct KeyRules<S: Store> {
    pub(super) slot: Arc<PolicySlot<S>>,
    /// The policy under the name in the file; an override is stored under another.
    pub(super) shown: Arc<Policy>,
}

struct RuleOverride<S: Store> {
    rules: KeyRules<S>,
    /// When it expires; `None`: never.
    until: Option<Timestamp>,
    /// The override of the same key that the file has before this one.
    then: Option<Box<RuleOverride<S>>>,
}

impl<S: Store> InstalledRules<S> {
    pub(super) fn install(
        files: &[RuleFile],
        store: &S,
        before: Option<&Self>,
        on_change: OnQuotaChange,
    ) -> Result<Self, StoreError> {
        let mut installer = Installer { store, before, on_change, policies: HashMap::new() };
        let matchers = Matchers::build(files, &mut installer)?;
        Ok(Self { matchers, policies: installer.policies })
    }

    /// The number of policies and overrides.
    pub(super) fn len(&self) -> usize {
        self.policies.len()
    }
}

impl<S: Store> RulePolicy<S> {
    /// The rules for this key now: an override that has not expired, or the policy's own.
    pub(super) fn for_key(&self, key: &str, now: impl FnOnce() -> Timestamp) -> &KeyRules<S> {
        let mut next = self.overrides.get(key);
        if next.is_none() {
            return &self.rules;
        }
        let now = now();
        while let Some(found) = next {
            if found.until.is_none_or(|until| until > now) {
                return &found.rules;
            }
            next = found.then.as_deref();
        }
        &self.rules
    }
}

impl<S: Store> Clone for KeyRules<S> {
    fn clone(&self) -> Self {
        Self { slot: Arc::clone(&self.slot), shown: Arc::clone(&self.shown) }
    }
}

struct Installer<'a, S: Store> {
    store: &'a S,
    before: Option<&'a InstalledRules<S>>,
    on_change: OnQuotaChange,
    policies: PoliciesByName<S>,
}

impl<S: Store> Installer<'_, S> {
    /// Installs a policy, unless it is installed already with the same rules and speed.
    fn key_rules(&mut self, stored: Policy, shown: &Policy) -> Result<KeyRules<S>, StoreError> {
        let name = (stored.domain().to_owned(), stored.name().to_owned());
        let same = |rules: &&KeyRules<S>| rules.slot.policy().decides_like(&stored);
        let before = self.before.and_then(|before| before.policies.get(&name));
        let rules = match self.policies.get(&name).or(before).filter(same) {
            Some(same) => same.clone(),
            None => KeyRules {
                slot: PolicySlot::install_as(shown.name(), self.store, stored, self.on_change)?,
                shown: Arc::new(shown.clone()),
            },
        };
        self.policies.insert(name, rules.clone());
        Ok(rules)
    }

    fn rule_policy(&mut self, policy: &Policy, cost: u64) -> Result<Box<RulePolicy<S>>, StoreError> {
        let rules = self.key_rules(policy.clone(), policy)?;
        Ok(Box::new(RulePolicy { rules, cost, overrides: HashMap::new() }))
    }
}

impl<S: Store> RuleInstaller for Installer<'_, S> {
    type Policy = RuleEntry<S>;
    type Limit = RuleEntry<S>;
    type Error = StoreError;

    fn policy(&mut self, written: &FilePolicy) -> Result<RuleEntry<S>, StoreError> {
        let mut policy = self.rule_policy(&written.policy, written.cost)?;
        for one in &written.overrides {
            // The rules were checked when the file was read, so neither fails.
            let stored =
                override_policy(&written.policy, &one.rules, one.effect).unwrap_or_else(|_| written.policy.clone());
            let shown = with_override(&written.policy, &one.rules, one.effect).unwrap_or_else(|_| stored.clone());
            let rules = self.key_rules(stored, &shown)?;
            let then = policy.overrides.remove(&one.key()).map(Box::new);
            policy.overrides.insert(one.key(), RuleOverride { rules, until: one.until, then });
        }
        Ok(RuleEntry::Policy { policy, is_quota: false })
    }

    fn limit(&mut self, descriptor: &EnvoyDescriptor, limit: &EnvoyLimit) -> Result<RuleEntry<S>, StoreError> {
        let shadow = descriptor.shadow_mode || descriptor.quota_mode;
        Ok(match &limit.allowance {
            Allowance::Unlimited => RuleEntry::Unlimited,
            Allowance::RefuseAll { .. } => RuleEntry::RefuseAll { shadow },
            Allowance::Limited { policy, .. } => {
                let rules = policy.rules().iter().map(|ready| ready.rule().clone());
                let shadowed = shadow.then(|| policy.with_rules(rules.map(|rule| rule.shadow(true))));
                // Shadow mode changes no number, so a valid policy stays valid.
                let policy = shadowed.and_then(Result::ok).unwrap_or_else(|| policy.clone());
                // A limit in shadow mode never refuses, so it is no quota.
                let is_quota = descriptor.quota_mode && !descriptor.shadow_mode;
                RuleEntry::Policy { policy: self.rule_policy(&policy, 1)?, is_quota }
            }
        })
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use ratekeeper_core::Speed;
    use ratekeeper_memory::MemoryStore;
    use ratekeeper_rules::{Format, read_str};

    use super::*;

    const RULES: &str = r#"
domain: api
policies:
  - name: per-user
    match: { user: "*" }
    rules: [{ name: burst, algorithm: token_bucket, limit: 1000, per: 1s }]
    overrides:
      - { key: acme, rules: [{ name: burst, algorithm: token_bucket, limit: 9000, per: 1s }] }
"#;

    /// A policy is installed again if only its speed has changed, and its overrides follow.
    #[test]
    fn a_new_speed_is_a_change() {
        let store = MemoryStore::new();
        let install = |text: &str, before: Option<&InstalledRules<MemoryStore>>| {
            let file = read_str("rules.yaml", text, Format::Yaml).unwrap();
            InstalledRules::install(&[file], &store, before, OnQuotaChange::Keep).unwrap()
        };
        let speeds = |installed: &InstalledRules<MemoryStore>| -> Vec<Speed> {
            installed.policies.values().map(|rules| rules.slot.policy().speed()).collect()
        };
        let exact = install(RULES, None);
        assert_eq!(speeds(&exact), [Speed::Exact; 2]);
        let prepaid = install(&RULES.replace("    rules: [", "    speed: prepaid\n    rules: ["), Some(&exact));
        assert_eq!(speeds(&prepaid), [Speed::prepaid(); 2]);
        assert_eq!(speeds(&install(RULES, Some(&prepaid))), [Speed::Exact; 2]);
    }
}
