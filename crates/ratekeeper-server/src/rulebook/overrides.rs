//! Overrides: rules for one key that replace those of its policy, until they expire.
//!
//! An override comes from a rule file or from the admin port. That of the admin port takes precedence until it expires.
//! Overrides of a policy that have the same rules share one stored policy
//! ([`override_policy`](ratekeeper_rules::override_policy)).

use std::collections::HashMap;

use ratekeeper_core::{Effect, Policy, Rule, Timestamp};
use ratekeeper_rules::FileOverride;

/// Rules for one key that replace those of its policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The policy's domain.
    pub domain: String,
    /// The policy's name.
    pub policy: String,
    /// The key that requests are counted under.
    pub key: String,
    /// The rules that replace those of the policy; empty if the key is denied or exempt.
    pub rules: Vec<Rule>,
    /// What is done with requests of the key.
    pub effect: Effect,
    /// Expiry by the store's clock; `None`: valid until removed.
    pub until: Option<Timestamp>,
}

impl Override {
    /// Whether both are for the same key.
    pub(crate) fn is_for_key_of(&self, other: &Self) -> bool {
        self.domain == other.domain && self.policy == other.policy && self.key == other.key
    }

    /// An override of a rule file.
    pub(crate) fn from_file(policy: &Policy, written: &FileOverride) -> Self {
        Self {
            domain: policy.domain().to_owned(),
            policy: policy.name().to_owned(),
            key: written.key(),
            rules: written.rules.clone(),
            effect: written.effect,
            until: written.until,
        }
    }
}

/// Overrides of the admin port, indexed by domain and policy.
pub(crate) struct OverridesByPolicy<'a>(HashMap<&'a str, HashMap<&'a str, Vec<&'a Override>>>);

impl<'a> OverridesByPolicy<'a> {
    pub(crate) fn new(all: &'a [Override]) -> Self {
        let mut by_domain: HashMap<&str, HashMap<&str, Vec<&Override>>> = HashMap::new();
        for one in all {
            by_domain.entry(&one.domain).or_default().entry(&one.policy).or_default().push(one);
        }
        Self(by_domain)
    }

    pub(super) fn of(&self, policy: &Policy) -> &[&'a Override] {
        self.0.get(policy.domain()).and_then(|domain| domain.get(policy.name())).map_or(&[], Vec::as_slice)
    }
}
