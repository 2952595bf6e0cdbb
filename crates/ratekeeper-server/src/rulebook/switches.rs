//! Switches: changes of what a running server enforces, in place of the settings in rule files.

use std::collections::BTreeSet;

use ratekeeper_core::{Effect, Policy, Rule};

/// The current switches. They are applied when a rulebook is built, so that a request sees a consistent set.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Switches {
    /// The kill switch: no request is limited.
    pub everything_off: bool,
    /// All rules are in shadow mode: evaluated and counted, never enforced.
    pub everything_shadow: bool,
    /// Rules that are disabled.
    pub off: BTreeSet<SwitchTarget>,
    /// Rules in shadow mode.
    pub shadow: BTreeSet<SwitchTarget>,
    /// Rules that are enforced although their file, or a switch of their policy, puts them into shadow mode.
    pub enforce: BTreeSet<SwitchTarget>,
}

/// A policy, or one of its rules.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SwitchTarget {
    /// The policy's domain.
    pub domain: String,
    /// The policy's name.
    pub policy: String,
    /// The rule's name; `None`: all rules of the policy.
    pub rule: Option<String>,
}

impl SwitchTarget {
    /// Whether the other target is this one or one of its rules.
    fn includes(&self, other: &Self) -> bool {
        self.domain == other.domain && self.policy == other.policy && (self.rule.is_none() || self.rule == other.rule)
    }
}

impl Switches {
    /// The policy with the switches applied; unchanged if none concerns it. For an override, the name is that of its
    /// policy.
    pub(crate) fn apply(&self, policy: &Policy) -> Policy {
        let changed = |rule: &Rule| {
            let off = self.names(&self.off, policy, rule.name());
            let shadow = self.is_shadow(policy, rule);
            (off || shadow != rule.is_shadow()).then(|| rule.clone().enabled(!off).shadow(shadow))
        };
        if policy.effect() != Effect::Limit {
            // Without an effect and without rules, the policy is resolved as switched off.
            let off = self.names(&self.off, policy, "");
            let bare = if off { policy.with_rules([]) } else { Ok(policy.clone()) };
            return bare.unwrap_or_else(|_| policy.clone());
        }
        let rules = || policy.rules().iter().map(|ready| ready.rule());
        if rules().all(|rule| changed(rule).is_none()) {
            return policy.clone();
        }
        // Switches change no number and no name, so a valid policy stays valid.
        let rebuilt = policy.with_rules(rules().map(|rule| changed(rule).unwrap_or_else(|| rule.clone())));
        rebuilt.unwrap_or_else(|_| policy.clone())
    }

    /// Whether a switch puts all rules of this policy into shadow mode.
    pub(crate) fn is_policy_shadow(&self, policy: &Policy) -> bool {
        let target = SwitchTarget { domain: policy.domain().to_owned(), policy: policy.name().to_owned(), rule: None };
        self.everything_shadow || self.shadow.contains(&target)
    }

    /// Sets a rule, or all rules of a policy, to shadow mode. `in_file` is the result of
    /// [`Rulebook::shadow_in_file`](super::Rulebook::shadow_in_file) for the target.
    pub(crate) fn set_shadow(&mut self, target: &SwitchTarget, in_file: Option<bool>) {
        let is_set_back = self.enforce.contains(target);
        self.clear_shadow(target);
        if !is_set_back || in_file == Some(false) {
            self.shadow.insert(target.clone());
        }
    }

    /// Enforces a rule, or all rules of a policy, even if the file or a switch of the policy sets shadow mode.
    pub(crate) fn set_enforce(&mut self, target: &SwitchTarget, in_file: Option<bool>) {
        self.clear_shadow(target);
        let of_policy = SwitchTarget { rule: None, ..target.clone() };
        if in_file == Some(true) || self.shadow.contains(&of_policy) {
            self.enforce.insert(target.clone());
        }
    }

    /// Removes the shadow and enforce switches of a target. A policy as target includes its rules.
    fn clear_shadow(&mut self, target: &SwitchTarget) {
        self.shadow.retain(|other| !target.includes(other));
        self.enforce.retain(|other| !target.includes(other));
    }

    /// Whether a rule is in shadow mode. Precedence: the switch for all rules, that of the rule, that of its policy,
    /// the file.
    fn is_shadow(&self, policy: &Policy, rule: &Rule) -> bool {
        if self.everything_shadow || (self.shadow.is_empty() && self.enforce.is_empty()) {
            return self.everything_shadow || rule.is_shadow();
        }
        let domain = policy.domain().to_owned();
        let mut target = SwitchTarget { domain, policy: policy.name().to_owned(), rule: Some(rule.name().to_owned()) };
        for _ in 0..2 {
            if self.shadow.contains(&target) {
                return true;
            }
            if self.enforce.contains(&target) {
                return false;
            }
            target.rule = None;
        }
        rule.is_shadow()
    }

    fn names(&self, set: &BTreeSet<SwitchTarget>, policy: &Policy, rule: &str) -> bool {
        set.iter().any(|target| {
            target.domain == policy.domain()
                && target.policy == policy.name()
                && target.rule.as_deref().is_none_or(|name| name == rule)
        })
    }
}
