//! Switches for bad days: rules that are to take no part, or only to watch, whatever their file says.

use std::collections::BTreeSet;

use tollgate_core::{Policy, Rule};

/// What is switched off or made to watch. Applied when a rulebook is made, so that a request sees all of it or none.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Switches {
    /// Nobody is limited at all.
    pub everything_off: bool,
    /// All rules decide and count, and none refuses.
    pub everything_watches: bool,
    /// Rules that take no part.
    pub off: BTreeSet<Target>,
    /// Rules that only watch.
    pub watching: BTreeSet<Target>,
    /// Rules that refuse, although their file says `shadow`.
    pub enforcing: BTreeSet<Target>,
}

/// A policy, or one of its rules.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Target {
    /// Its domain.
    pub domain: String,
    /// Its name.
    pub policy: String,
    /// One rule; nothing: all of them.
    pub rule: Option<String>,
}

impl Target {
    /// Whether it is this target, or a rule of it.
    fn includes(&self, other: &Self) -> bool {
        self.domain == other.domain && self.policy == other.policy && (self.rule.is_none() || self.rule == other.rule)
    }
}

impl Switches {
    /// The policy as it is to be enforced; the very same if no switch is about it. An override goes by its policy's name.
    pub(crate) fn apply(&self, policy: &Policy) -> Policy {
        let changed = |rule: &Rule| {
            let off = self.names(&self.off, policy, rule.name());
            let watches = self.watches(policy, rule);
            (off || watches != rule.is_shadow()).then(|| rule.clone().enabled(!off).shadow(watches))
        };
        let rules = || policy.rules().iter().map(|ready| ready.rule());
        if rules().all(|rule| changed(rule).is_none()) {
            return policy.clone();
        }
        let rules = rules().map(|rule| changed(rule).unwrap_or_else(|| rule.clone()));
        // Neither switch touches a number or a name, so what was a policy still is one.
        let rebuilt = Policy::new(policy.name(), rules).and_then(|rebuilt| match policy.domain() {
            "" => Ok(rebuilt),
            domain => rebuilt.in_domain(domain),
        });
        rebuilt.unwrap_or_else(|_| policy.clone())
    }

    /// Lets a rule, or all rules of a policy, only watch. `in_file` is what their file says (see
    /// [`Rulebook::watches_in_file`](super::Rulebook::watches_in_file)).
    pub(crate) fn watch(&mut self, target: &Target, in_file: Option<bool>) {
        let is_turned_back = self.enforcing.contains(target);
        self.forget_watching(target);
        if !is_turned_back || in_file == Some(false) {
            self.watching.insert(target.clone());
        }
    }

    /// Lets a rule, or all rules of a policy, refuse; also where the file, or a switch of the whole policy, says to watch.
    pub(crate) fn enforce(&mut self, target: &Target, in_file: Option<bool>) {
        self.forget_watching(target);
        let of_policy = Target { rule: None, ..target.clone() };
        if in_file == Some(true) || self.watching.contains(&of_policy) {
            self.enforcing.insert(target.clone());
        }
    }

    /// A switch of a policy replaces those of its rules.
    fn forget_watching(&mut self, target: &Target) {
        self.watching.retain(|other| !target.includes(other));
        self.enforcing.retain(|other| !target.includes(other));
    }

    /// Whether a rule only watches: the switch for everything comes first, then that of the rule, of its policy, its file.
    fn watches(&self, policy: &Policy, rule: &Rule) -> bool {
        if self.everything_watches || (self.watching.is_empty() && self.enforcing.is_empty()) {
            return self.everything_watches || rule.is_shadow();
        }
        let domain = policy.domain().to_owned();
        let mut target = Target { domain, policy: policy.name().to_owned(), rule: Some(rule.name().to_owned()) };
        for _ in 0..2 {
            if self.watching.contains(&target) {
                return true;
            }
            if self.enforcing.contains(&target) {
                return false;
            }
            target.rule = None;
        }
        rule.is_shadow()
    }

    fn names(&self, set: &BTreeSet<Target>, policy: &Policy, rule: &str) -> bool {
        set.iter().any(|target| {
            target.domain == policy.domain()
                && target.policy == policy.name()
                && target.rule.as_deref().is_none_or(|name| name == rule)
        })
    }
}
