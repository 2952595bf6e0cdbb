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
}

/// A policy, or one of its rules.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Target {
    /// Its domain.
    pub domain: String,
    /// Its name.
    pub policy: String,
    /// One rule; nothing: all of them.
    pub rule: Option<String>,
}

impl Switches {
    /// The policy as it is to be enforced; the very same if no switch is about it. An override goes by its policy's name.
    pub(crate) fn apply(&self, policy: &Policy) -> Policy {
        let changed = |rule: &Rule| {
            let off = self.names(&self.off, policy, rule.name());
            let watches = self.everything_watches || self.names(&self.watching, policy, rule.name());
            (off || (watches && !rule.is_shadow()))
                .then(|| rule.clone().enabled(!off).shadow(rule.is_shadow() || watches))
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

    fn names(&self, set: &BTreeSet<Target>, policy: &Policy, rule: &str) -> bool {
        set.iter().any(|target| {
            target.domain == policy.domain()
                && target.policy == policy.name()
                && target.rule.as_deref().is_none_or(|name| name == rule)
        })
    }
}
