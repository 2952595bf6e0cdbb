//! What holds at one moment: every domain's rules, matched and ready to be asked.
//!
//! ```text
//! rule files ─tollgate-rules─▶ RuleFile ─build─▶ Rulebook ─find─▶ policy + key
//!                     switches, exceptions ──┘
//! ```
//!
//! A rulebook never changes. A reload, a switch or an exception makes a new one, and whoever is being answered
//! meanwhile finishes with the old one.

mod build;
mod envoy;
mod key;
mod limited;
mod native;
mod switches;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

pub use self::{
    build::Exempt,
    switches::{Switches, Target},
};
pub(crate) use self::{
    build::{Builder, ExemptByPolicy},
    envoy::{Allowed, Limit},
    key::{of_entries, of_value},
    limited::Limited,
    native::KEY_ENTRY,
};
use self::{envoy::EnvoyRules, limited::Exception, native::NativeRules};
use crate::engine::Who;

/// The rules of every domain.
#[derive(Debug, Default)]
pub struct Rulebook {
    domains: HashMap<Box<str>, Domain>,
    /// Every policy by domain and name; the next book takes over those that stay the same.
    policies: HashMap<(Box<str>, Box<str>), Arc<Limited>>,
    /// The rules of single keys, by domain and the name they are kept under.
    overrides: HashMap<(Box<str>, Box<str>), Arc<Limited>>,
    switches: Switches,
    /// Rules that their file makes watch, by domain, policy and rule: switches are turned against it.
    shadows: HashSet<Target>,
}

/// A policy and what it has decided so far.
#[derive(Debug)]
pub struct Counted {
    /// Which one.
    pub policy: Arc<tollgate_core::Policy>,
    /// Allowed, denied, never.
    pub totals: [u64; 3],
    /// Requests that rules which only watch would have refused.
    pub shadow_denials: u64,
}

/// What a reload has changed: policies as `domain/name`, in alphabetical order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Changes {
    /// Those that were not there.
    pub added: Vec<String>,
    /// Those that are gone.
    pub removed: Vec<String>,
    /// Those with other rules, another cost, or other overrides.
    pub changed: Vec<String>,
}

#[derive(Debug)]
enum Domain {
    Native(NativeRules),
    Envoy(EnvoyRules),
}

/// What the rules say about a subject.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// A policy of tollgate's own form.
    Policy(&'a Limited, Cow<'a, str>),
    /// A limit of the other form.
    Limit(&'a Limit, Cow<'a, str>),
    Unmatched,
    UnknownDomain,
}

impl Rulebook {
    /// Which rule a subject falls under. The error tells a caller how to ask more clearly.
    #[inline]
    pub(crate) fn find<'a>(&'a self, domain: &str, who: Who<'a>) -> Result<Found<'a>, String> {
        let found = match (self.domains.get(domain), who) {
            (None, _) => return Ok(Found::UnknownDomain),
            (Some(Domain::Native(rules)), Who::Descriptor(entries)) => {
                rules.find(entries).map(|(limited, key)| Found::Policy(limited, key))
            }
            (Some(Domain::Native(rules)), Who::Key(key)) => {
                rules.find_by_key(key)?.map(|(limited, key)| Found::Policy(limited, key))
            }
            (Some(Domain::Envoy(rules)), Who::Descriptor(entries)) => {
                rules.find(entries).map(|(limit, key)| Found::Limit(limit, key))
            }
            (Some(Domain::Envoy(rules)), Who::Key(key)) => {
                rules.find_by_key(key)?.map(|(limit, key)| Found::Limit(limit, key))
            }
        };
        Ok(found.unwrap_or(Found::Unmatched))
    }

    /// Puts entries that come without an order into the one that the rules of a domain know; most rules know none.
    pub(crate) fn arrange(&self, domain: &str, entries: &mut [(&str, &str)]) {
        if let Some(Domain::Envoy(rules)) = self.domains.get(domain) {
            rules.arrange(entries);
        }
    }

    /// Whether any rule file is about this domain.
    pub fn knows(&self, domain: &str) -> bool {
        self.domains.contains_key(domain)
    }

    /// The domain, if there is just one.
    pub fn only_domain(&self) -> Option<&str> {
        let mut domains = self.domains.keys();
        domains.next().filter(|_| domains.next().is_none()).map(|domain| &**domain)
    }

    /// Every domain, in alphabetical order.
    pub fn domains(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.domains.keys().map(|domain| &**domain).collect();
        all.sort_unstable();
        all
    }

    /// Somebody to ask about in this domain, for examples: a key alone if that is clear, else an entry that a policy
    /// counts by.
    pub fn example(&self, domain: &str) -> String {
        let key = "\"key\":\"user:42\"".to_owned();
        let entry = match self.domains.get(domain) {
            Some(Domain::Native(rules)) => rules.counted_by_one(),
            Some(Domain::Envoy(rules)) => rules.counted_by_one(),
            None => None,
        };
        match (self.find(domain, Who::Key("user:42")), entry) {
            (Err(_), Some(entry)) => format!("\"descriptor\":{{{}:\"42\"}}", serde_json::Value::from(entry)),
            _ => key,
        }
    }

    /// Whether a domain has a policy of this name.
    pub fn has_policy(&self, domain: &str, name: &str) -> bool {
        self.policies.contains_key(&(domain.into(), name.into()))
    }

    /// The switches it was made with.
    pub fn switches(&self) -> &Switches {
        &self.switches
    }

    /// Whether the rule files let this only watch: a rule, or any rule of a policy. Nothing if there is no such policy.
    pub(crate) fn watches_in_file(&self, target: &Target) -> Option<bool> {
        let limited = self.policies.get(&(target.domain.as_str().into(), target.policy.as_str().into()))?;
        Some(match target.rule {
            Some(_) => self.shadows.contains(target),
            None => limited
                .policy
                .rules()
                .iter()
                .any(|rule| self.shadows.contains(&Target { rule: Some(rule.name().to_owned()), ..target.clone() })),
        })
    }

    /// What differs from a book before this one: policies added, removed and changed, by domain and name.
    pub(crate) fn changes_since(&self, before: &Self) -> Changes {
        let shown = |(domain, name): &(Box<str>, Box<str>)| format!("{domain}/{name}");
        let mut changes = Changes::default();
        for (name, limited) in &self.policies {
            match before.policies.get(name) {
                None => changes.added.push(shown(name)),
                Some(was) if !limited.is_same_as(was) => changes.changed.push(shown(name)),
                Some(_) => {}
            }
        }
        changes.removed = before.policies.keys().filter(|name| !self.policies.contains_key(name)).map(shown).collect();
        [&mut changes.added, &mut changes.removed, &mut changes.changed]
            .into_iter()
            .for_each(|list| list.sort_unstable());
        changes
    }

    /// Every policy with its counts, in alphabetical order.
    pub fn counted(&self) -> Vec<Counted> {
        let mut all: Vec<Counted> = self
            .policies
            .values()
            .map(|limited| {
                let overrides: Vec<_> = limited.exceptions.values().flat_map(Exception::meters).collect();
                Counted {
                    policy: Arc::clone(&limited.policy),
                    totals: limited.meters.totals(&overrides),
                    shadow_denials: limited.meters.shadow_denials(&overrides),
                }
            })
            .collect();
        all.sort_by(|a, b| (a.policy.domain(), a.policy.name()).cmp(&(b.policy.domain(), b.policy.name())));
        all
    }

    /// Every policy by domain and name, in alphabetical order.
    pub fn policies(&self) -> Vec<Arc<tollgate_core::Policy>> {
        let mut all: Vec<_> = self.policies.values().map(|limited| Arc::clone(&limited.policy)).collect();
        all.sort_by(|a, b| (a.domain(), a.name()).cmp(&(b.domain(), b.name())));
        all
    }
}
